package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/store/blob"
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
	where := newDatabase(t)
	var turns turnCounter
	db, err := Open(t.Context(), where, Options{Placed: true, Dial: turns.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	entries := func(from, n int) (list []record.Entry) {
		for i := range n {
			list = append(list, figureEntry(from+i))
		}
		return list
	}
	upload := func(list []record.Entry) error {
		var uploads []record.Upload
		var places []string
		for _, r := range contents.Distinct(list) {
			places = append(places, "place of "+r.String())
			uploads = append(uploads, record.Upload{Place: places[len(places)-1], Content: record.Content{Ref: r, Size: 0}})
		}
		for i, e := range list {
			uploads[i].Size = e.Size
		}
		if err := db.Places.Begin(t.Context(), "node", time.Hour, uploads); err != nil {
			return err
		}
		return db.Places.Done(t.Context(), places)
	}
	add := func(list []record.Entry) error {
		_, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: "P", Entries: list}, nil)
		return err
	}
	refs := func(list []record.Entry) (refs []blob.Ref) {
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
		do   func(list []record.Entry) error
	}{
		{"upload", 40, upload},
		{"commit", 24, add},
		{"commit again", 24, add},
		{"remove", 24, func([]record.Entry) error { number++; _, err := db.Remove(t.Context(), number); return err }},
		{"remove what is left", 24, func([]record.Entry) error { number++; _, err := db.Remove(t.Context(), number); return err }},
		{"drop", 22, func(list []record.Entry) error {
			n, err := db.DropContents(t.Context(), refs(list), db.base.Now().Add(time.Hour), nil)
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

// Frequent small writes take few round trips, however many rows they have.
func TestRoundTripsOfCounts(t *testing.T) {
	where := newDatabase(t)
	var turns turnCounter
	db, err := Open(t.Context(), where, Options{Dial: turns.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	used := func(n int) map[string]time.Time {
		m := map[string]time.Time{}
		for i := range n {
			id := fmt.Sprint("t", i)
			m[id] = db.base.Now()
			err := db.Tokens.Put(t.Context(), tokens.TokenRow{ID: id, Hash: ref(i + 1)})
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
		return m
	}
	wanted := func(n int) (list []misses.Wanted) {
		for i := range n {
			list = append(list, misses.Wanted{Name: fmt.Sprint("n", i), ID: "i", Client: "c", Count: 1, Last: db.base.Now()})
		}
		return list
	}
	fetched := func(n int) contents.CachedFile {
		f := contents.CachedFile{Source: "up", Name: fmt.Sprint("f", n), URL: "http://up/f", Ref: ref(5000 + n), Size: 10}
		for i := range n {
			e := pdb(i)
			e.Object.Name, e.Ref, e.Size = fmt.Sprintf("part%d of %d", i, n), f.Ref, f.Size
			e.Aliases = e.Object.Aliases()
			f.Entries = append(f.Entries, e)
		}
		return f
	}
	tokens := map[int]map[string]time.Time{2: used(2), 200: used(200)}
	for _, step := range []struct {
		name string
		most int64
		do   func(n int) error
	}{
		{"last uses of tokens", 4, func(n int) error { return db.Tokens.Touch(t.Context(), tokens[n]) }},
		{"unanswered requests", 7, func(n int) error { return db.Wanted.Count(t.Context(), wanted(n)) }},
		{"unanswered requests again", 7, func(n int) error { return db.Wanted.Count(t.Context(), wanted(n)) }},
		{"downloaded file", 30, func(n int) error { return db.Cached.Put(t.Context(), fetched(n), nil) }},
		{"downloaded file again", 30, func(n int) error { return db.Cached.Put(t.Context(), fetched(n), nil) }},
	} {
		for range 2 { // the first runs prepare the statements
			if err := step.do(2); err != nil {
				t.Fatalf("%s, 2 rows: %v", step.name, err)
			}
		}
		before := turns.n.Load()
		if err := step.do(200); err != nil {
			t.Fatalf("%s, 200 rows: %v", step.name, err)
		}
		n := turns.n.Load() - before
		t.Logf("%s: %d round trips for 200 rows", step.name, n)
		if n > step.most {
			t.Errorf("%s of 200 rows took %d round trips, want at most %d", step.name, n, step.most)
		}
	}
	clean(t, db)
}

// TestRepeatedRows: rows that a list has several times are written once.
func TestRepeatedRows(t *testing.T) { onEngines(t, testRepeatedRows) }

func testRepeatedRows(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	early := c.t
	c.hours(1)
	for range 2 {
		if err := db.Wanted.Count(ctx, []misses.Wanted{
			{Name: "n", ID: "i", Client: "c", Count: 2, Last: c.t}, {Name: "m", ID: "i", Client: "c", Count: 1, Last: c.t},
			{Name: "n", ID: "i", Client: "c", Kind: "pdb", Count: 3, Last: early},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var list []misses.Wanted
	for w, err := range db.Wanted.List(ctx, misses.WantedFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, w)
	}
	if len(list) != 2 || list[0].Name != "n" || list[0].Count != 10 || list[0].Kind != "pdb" || !list[0].Last.Equal(c.t) || list[1].Count != 2 {
		t.Errorf("counted: %+v, want n 10 times and m twice", list)
	}
	e := pdb(1)
	first, second := e, e
	first.Path, second.Path = "/first", "/second"
	for range 2 {
		if err := db.Cached.Put(ctx, contents.CachedFile{Source: "up", Name: "f", URL: "http://up/f", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{first, second}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if hits := lookupEntry(t, db, all, e); len(hits) != 1 || hits[0].Path != "/second" {
		t.Errorf("hits %+v, want one with the last path", hits)
	}
	clean(t, db)
}
