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

// MetadataQuery is a search of the debuginfod protocol (elfutils, debuginfod(8),
// metadata query).
type MetadataQuery struct {
	Key, Value string   // Key is file, glob or buildid
	Products   []string // the client's scope; nil means everything
	Via        []string // servers that the request has passed, this one last
	Origin     Origin
}

// Metadata is one result of a search: an ELF file on an upstream.
type Metadata struct {
	Type    string // "executable" or "debuginfo"
	BuildID string // in lower case
	File    string // its path
	Archive string // the archive that the file is in, or empty
}

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
