package fetch

import (
	"context"
	"sync"
	"time"
)

const (
	metadataTime     = 5 * time.Second // for all upstreams of one search
	metadataSearches = 4               // concurrent searches
)

// Metadata asks all permitted upstreams that support searches, at the same time.
// Results are in the order of the upstreams, unmerged. complete is false if an
// upstream failed, did not answer in time or has more results, or if too many
// searches are running.
func (f *Fetcher) Metadata(ctx context.Context, q MetadataQuery) (list []Metadata, complete bool) {
	type search func(context.Context, MetadataQuery) ([]Metadata, bool, error)
	var searches []search
	for _, u := range f.permitted(Question{Products: q.Products, Via: q.Via}) {
		if s := u.Source.Traits().Metadata; s != nil {
			searches = append(searches, s)
		}
	}
	if len(searches) == 0 {
		return nil, true
	}
	select {
	case f.searches <- struct{}{}:
		defer func() { <-f.searches }()
	default:
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	found, complete := make([][]Metadata, len(searches)), true
	var mu sync.Mutex // guards complete
	var running sync.WaitGroup
	for i, s := range searches {
		running.Go(func() {
			rows, all, err := s(ctx, q)
			found[i] = rows
			if err != nil && ClassOf(err) != ClassSkipped || err == nil && !all {
				mu.Lock()
				complete = false
				mu.Unlock()
			}
		})
	}
	running.Wait()
	for _, rows := range found {
		list = append(list, rows...)
	}
	return list, complete
}
