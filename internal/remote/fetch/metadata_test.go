package fetch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// searching is a source that can search, and nothing else.
type searching struct {
	Source
	search func(context.Context, MetadataQuery) ([]Metadata, bool, error)
}

func (s searching) Traits() Traits { return Traits{Metadata: s.search} }

// TestMetadata: all upstreams are asked at once; one that hangs or fails makes
// the answer incomplete, in bounded time.
func TestMetadata(t *testing.T) {
	row := func(file string) []Metadata { return []Metadata{{Type: "executable", BuildID: "ab", File: file}} }
	finds := func(_ context.Context, q MetadataQuery) ([]Metadata, bool, error) { return row(q.Value), true, nil }
	hangs := func(ctx context.Context, _ MetadataQuery) ([]Metadata, bool, error) {
		<-ctx.Done()
		return nil, false, &Failure{Class: ClassTimeout, Err: ctx.Err()}
	}
	for _, c := range []struct {
		name     string
		searches []func(context.Context, MetadataQuery) ([]Metadata, bool, error)
		rows     int
		complete bool
		took     time.Duration
	}{
		{"none can search", []func(context.Context, MetadataQuery) ([]Metadata, bool, error){nil}, 0, true, 0},
		{"two find", []func(context.Context, MetadataQuery) ([]Metadata, bool, error){finds, finds}, 2, true, 0},
		{"one hangs", []func(context.Context, MetadataQuery) ([]Metadata, bool, error){hangs, finds}, 1, false, metadataTime},
		{"one fails", []func(context.Context, MetadataQuery) ([]Metadata, bool, error){finds, func(context.Context, MetadataQuery) ([]Metadata, bool, error) {
			return nil, false, errors.New("broken")
		}}, 1, false, 0},
		{"one is not asked", []func(context.Context, MetadataQuery) ([]Metadata, bool, error){finds, func(context.Context, MetadataQuery) ([]Metadata, bool, error) {
			return nil, false, &Failure{Class: ClassSkipped}
		}}, 1, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &Fetcher{searches: make(chan struct{}, metadataSearches)}
				for _, s := range c.searches {
					f.upstreams = append(f.upstreams, Upstream{Source: searching{search: s}})
				}
				began := time.Now()
				list, complete := f.Metadata(t.Context(), MetadataQuery{Key: "file", Value: "/x"})
				if len(list) != c.rows || complete != c.complete || time.Since(began) != c.took {
					t.Errorf("%d rows, complete %v, after %v; want %d, %v, %v", len(list), complete, time.Since(began), c.rows, c.complete, c.took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := &Fetcher{searches: make(chan struct{}, metadataSearches), upstreams: []Upstream{{Source: searching{search: hangs}}}}
		for range metadataSearches {
			go f.Metadata(t.Context(), MetadataQuery{})
		}
		synctest.Wait()
		began := time.Now()
		if _, complete := f.Metadata(t.Context(), MetadataQuery{}); complete || time.Since(began) != 0 {
			t.Errorf("beyond the limit: complete %v after %v, want an incomplete answer at once", complete, time.Since(began))
		}
	})
}
