package index

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index/pgtest"
)

// turnCounter counts the round trips of connections: reads that follow a write.
type turnCounter struct{ n atomic.Int64 }

type turnConn struct {
	net.Conn
	turns *turnCounter
	wrote atomic.Bool
}

func (c *turnCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &turnConn{Conn: conn, turns: c}, err
}

func (c *turnConn) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *turnConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.wrote.CompareAndSwap(true, false) {
		c.turns.n.Add(1)
	}
	return n, err
}

// The number of round trips of a write does not depend on the number of its rows.
func TestRoundTrips(t *testing.T) {
	where := pgtest.Shared(t).Database(t)
	var turns turnCounter
	db, err := Open(t.Context(), where, Options{Placed: true, Dial: turns.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	entries := func(from, n int) (list []Entry) {
		for i := range n {
			list = append(list, figureEntry(from+i))
		}
		return list
	}
	upload := func(list []Entry) error {
		var uploads []Upload
		var places []string
		for _, r := range distinct(list) {
			places = append(places, "place of "+r.String())
			uploads = append(uploads, Upload{places[len(places)-1], Content{r, 0}})
		}
		for i, e := range list {
			uploads[i].Size = e.Size
		}
		if err := db.Places.Begin(t.Context(), "node", time.Hour, uploads); err != nil {
			return err
		}
		return db.Places.Done(t.Context(), places)
	}
	add := func(list []Entry) error {
		_, err := db.Commit(t.Context(), Tx{Kind: "add", Product: "P", Entries: list}, nil)
		return err
	}
	refs := func(list []Entry) (refs []blob.Ref) {
		for _, e := range list {
			refs = append(refs, e.Ref)
		}
		return refs
	}
	small, large := entries(0, 2), entries(10, 1000)
	number := int64(0) // the commits are of few files, many, few, many
	for _, step := range []struct {
		name string
		most int64
		do   func(list []Entry) error
	}{
		{"upload", 40, upload},
		{"commit", 24, add},
		{"commit again", 24, add},
		{"remove", 24, func([]Entry) error { number++; _, err := db.Remove(t.Context(), number); return err }},
		{"remove what is left", 24, func([]Entry) error { number++; _, err := db.Remove(t.Context(), number); return err }},
		{"drop", 22, func(list []Entry) error {
			n, err := db.DropContents(t.Context(), refs(list), db.now().Add(time.Hour), nil)
			if err == nil && n != len(list) {
				err = fmt.Errorf("%d contents dropped, want %d", n, len(list))
			}
			return err
		}},
	} {
		// The first run prepares the statements.
		if err := step.do(small); err != nil {
			t.Fatalf("%s of 2 files: %v", step.name, err)
		}
		before := turns.n.Load()
		start := time.Now()
		if err := step.do(large); err != nil {
			t.Fatalf("%s of 1000 files: %v", step.name, err)
		}
		n := turns.n.Load() - before
		t.Logf("%s of 1000 files: %d round trips, %v", step.name, n, time.Since(start))
		if n > step.most {
			t.Errorf("%s of 1000 files took %d round trips, want at most %d", step.name, n, step.most)
		}
	}
	clean(t, db)
}
