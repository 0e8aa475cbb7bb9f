package sourcefiles

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// slowLists are nameLists whose contents open when the returned function is called, and
// the number of contents that were opened.
func slowLists() (s *nameLists, opened *atomic.Int32, open func()) {
	gate := make(chan struct{})
	opened = &atomic.Int32{}
	s = newNameLists(&content.Contents{}, slog.New(slog.DiscardHandler))
	s.open = func(ctx context.Context, _ record.Content) (blob.File, error) {
		opened.Add(1)
		select {
		case <-gate:
			return nil, fs.ErrNotExist
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s, opened, func() { close(gate) }
}

func hitOf(n byte) record.Hit { return record.Hit{Stored: record.Stored{Ref: blob.Ref{n}}} }

// TestManyLists: few lists are read at once; of the requests that wait for them there is a
// limit, and further ones are refused at once. When the lists are read, all is as before.
func TestManyLists(t *testing.T) {
	t.Parallel()
	s, opened, open := slowLists()
	var wg sync.WaitGroup
	for i := range listsRead + listsWait {
		wg.Go(func() {
			if _, err := s.get(t.Context(), hitOf(byte(i)), nil); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("request %d: %v, want %v", i, err, fs.ErrNotExist)
			}
		})
	}
	symtest.Await(t, time.Minute, "all wait", func() bool { return s.waiting.Load() == listsWait && opened.Load() == listsRead })
	if _, err := s.get(t.Context(), hitOf(255), nil); !errors.Is(err, content.ErrUnavailable) {
		t.Errorf("one more: %v, want %v", err, content.ErrUnavailable)
	}
	if n := opened.Load(); n != listsRead {
		t.Errorf("%d contents are read at once, want %d", n, listsRead)
	}
	open()
	wg.Wait()
	if _, err := s.get(t.Context(), hitOf(255), nil); !errors.Is(err, fs.ErrNotExist) || len(s.reading) != 0 || s.waiting.Load() != 0 {
		t.Errorf("afterwards: %v, %d read, %d wait; want %v, none, none", err, len(s.reading), s.waiting.Load(), fs.ErrNotExist)
	}
}

// TestOneList: many requests for one list read it one after the other at most; one that
// goes away does not take the list from the others.
func TestOneList(t *testing.T) {
	t.Parallel()
	s, opened, open := slowLists()
	first, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.get(first, hitOf(1), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v, want %v", err, context.Canceled)
		}
	})
	symtest.Await(t, time.Minute, "the first reads", func() bool { return opened.Load() == 1 })
	for range 3 * listsWait {
		wg.Go(func() {
			if _, err := s.get(t.Context(), hitOf(1), nil); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v, want %v", err, fs.ErrNotExist)
			}
		})
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the content was opened %d times, want once", n)
	}
	cancel()
	symtest.Await(t, time.Minute, "another one reads", func() bool { return opened.Load() == 2 })
	open()
	wg.Wait()
}
