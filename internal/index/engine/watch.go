package engine

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Watch detects changes of an index with one look at memory. A query costs a
// hundred times as much.
type Watch struct {
	db   *Database
	w    watcher
	last atomic.Pointer[watched]
}

// watched is a generation that was read when Writes had this value.
type watched struct{ writes, generation uint64 }

// Watch starts a watch. It must be closed after the index, never before.
func (db *Database) Watch() (*Watch, error) {
	w, err := db.engine.watch()
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return &Watch{db: db, w: w}, nil
}

// State returns the Generation. It reads the generation again only after a
// write. Frequent writes that do not change it, such as misses, cost one query
// each.
func (w *Watch) State() (uint64, error) {
	n, err := w.Writes()
	if err != nil {
		return 0, err
	}
	if l := w.last.Load(); l != nil && l.writes == n {
		return l.generation, nil
	}
	// The generation is read after Writes, so it belongs to these writes or to
	// later ones, for which Writes differs.
	g, err := w.db.Generation(context.Background())
	if err == nil {
		w.last.Store(&watched{n, g})
	}
	return g, err
}

// Writes returns a number that changes with every write to the index by any
// process.
func (w *Watch) Writes() (uint64, error) { return w.w.writes() }

// sharing is the watcher of an engine that processes on several machines use.
type sharing interface {
	announce(ctx context.Context, address string) error
	news() (Shared, bool)
	onJobs(f func())
	tell(facts string)
}

// Announce publishes, for the other processes, the address at which this one
// answers requests for downloads; empty: none.
func (w *Watch) Announce(ctx context.Context, address string) error {
	if s, ok := w.w.(sharing); ok {
		return w.db.Fail("announce this process", s.announce(ctx, address))
	}
	return nil
}

// Tell publishes a text for the other processes within half a second; see
// Shared.Facts. The text is sent with each question and must not be longer than
// 64 KiB.
func (w *Watch) Tell(facts string) {
	if s, ok := w.w.(sharing); ok {
		s.tell(Text(facts))
	}
}

// Shared returns what this process has last learned about the others. ok is
// false if that is ten seconds old, and for an index in a file.
func (w *Watch) Shared() (_ Shared, ok bool) {
	if s, is := w.w.(sharing); is {
		return s.news()
	}
	return Shared{}, false
}

// OnJobs has f called, from another goroutine, after a process has entered or
// ended a job. It must not block. An index in a file does not call it.
func (w *Watch) OnJobs(f func()) {
	if s, ok := w.w.(sharing); ok {
		s.onJobs(f)
	}
}

// Close ends the watch.
func (w *Watch) Close() error { return w.w.Close() }
