package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/symfile"
)

// The server stops without a word and starts again while processes add and look
// up. Everything acknowledged is there, once; numbers have no gaps; a lookup of an
// acknowledged key finds it or says that the database is not available.
func TestServerStops(t *testing.T) {
	t.Parallel()
	server := pgtest.New(t)
	where := server.Database(t)
	open := func() *DB {
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	var mu sync.Mutex
	numbers := make(map[int]int64) // of the acknowledged transactions
	acknowledged := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		return len(numbers)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	nodes := []*DB{open(), open()}
	for i, db := range nodes {
		wg.Go(func() {
			for n := i; !stop.Load(); n += len(nodes) {
				number, err := db.Commit(t.Context(), record.Tx{Kind: "add", Comment: fmt.Sprint(n), Entries: []record.Entry{figureEntry(n), figureEntry(1 << 30)}}, nil)
				if err != nil {
					t.Errorf("add %d: %v", n, err)
					return
				}
				mu.Lock()
				numbers[n] = number
				mu.Unlock()
			}
		})
		wg.Go(func() {
			for turn := 0; !stop.Load(); turn++ {
				mu.Lock()
				some := -1
				for some = range numbers {
					break
				}
				mu.Unlock()
				if some < 0 {
					continue
				}
				a := figureEntry(some).Aliases[0]
				hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: a.ID, Name: a.Name, Role: symfile.AnyRole})
				if err != nil && !errors.Is(err, engine.ErrUnavailable) {
					t.Errorf("look up what was added: %v, want %v or an object", err, engine.ErrUnavailable)
				} else if err == nil && len(hits) != 1 {
					t.Errorf("look up what was added: %d objects, want 1", len(hits))
				}
			}
		})
	}
	stops := 2
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		stops = 10
	}
	for range stops {
		for want := acknowledged() + 5; acknowledged() < want && !t.Failed(); {
			_ = ctxio.Pause(t.Context(), 5*time.Millisecond)
		}
		server.Stop(t, "immediate")
		server.Start(t)
	}
	for want := acknowledged() + 5; acknowledged() < want && !t.Failed(); {
		_ = ctxio.Pause(t.Context(), 5*time.Millisecond)
	}
	stop.Store(true)
	wg.Wait()
	db := open()
	clean(t, db) // also compares the numbers with their count
	comments := make(map[string]int64)
	last := int64(0)
	if err := db.base.Scans.Each(t.Context(), true, "SELECT id, comment FROM tx ORDER BY id", nil, func(scan func(...any) error) (bool, error) {
		var id int64
		var comment string
		err := scan(&id, &comment)
		if comments[comment] != 0 {
			t.Errorf("add %s was made twice: builds %d and %d", comment, comments[comment], id)
		}
		if comments[comment] = id; id != last+1 {
			t.Errorf("build %d follows %d", id, last)
		}
		last = id
		return true, err
	}); err != nil {
		t.Fatal(err)
	}
	for n, number := range numbers {
		if comments[fmt.Sprint(n)] != number {
			t.Errorf("add %d was acknowledged as build %d; it is %d; want %v", n, number, comments[fmt.Sprint(n)], number)
		}
	}
	t.Logf("%d builds, %d acknowledged", last, len(numbers))
}

// faultyNet makes connections that break where a test says.
type faultyNet struct {
	loseAnswer atomic.Bool // the connection ends after the next COMMIT was sent
	loseCommit atomic.Bool // it ends before that
	silent     atomic.Bool // nothing arrives any more
}

type faultyConn struct {
	net.Conn
	net  *faultyNet
	deaf atomic.Bool // it has lost an answer
}

func (f *faultyNet) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &faultyConn{Conn: conn, net: f}, nil
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.net.silent.Load() {
		return len(b), nil
	}
	commit := bytes.Contains(b, []byte("commit\x00"))
	if commit && c.net.loseCommit.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	if commit && c.net.loseAnswer.CompareAndSwap(true, false) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

// Read does not return an answer that is lost, even if it has arrived: what has
// arrived is still read after a CloseRead.
func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.deaf.Load() {
		return 0, io.EOF
	}
	return n, err
}

// A transaction whose COMMIT is not answered is made once.
func TestCommitAnswerLost(t *testing.T) {
	var faults faultyNet
	db, err := Open(t.Context(), newDatabase(t), Options{Dial: faults.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for n, lose := range []*atomic.Bool{&faults.loseAnswer, &faults.loseCommit, &faults.loseAnswer} {
		lose.Store(true)
		if number := commitTest(t, db, "P", pdb(n)); number != int64(n)+1 {
			t.Errorf("number %d, want %d", number, n+1)
		}
		if lose.Load() {
			t.Errorf("commit %d: the connection was not cut", n+1)
		}
	}
	faults.loseAnswer.Store(true)
	if _, err := db.Remove(t.Context(), 2); err != nil || faults.loseAnswer.Load() {
		t.Errorf("remove with a lost answer: %v", err)
	}
	clean(t, db)
}

// A lookup in a database that does not answer ends with ErrUnavailable.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	var faults faultyNet
	db, err := Open(t.Context(), newDatabase(t), Options{Dial: faults.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	e := pdb(1)
	commitTest(t, db, "", e)
	faults.silent.Store(true)
	start := time.Now()
	a := e.Aliases[0]
	if hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: a.ID, Name: a.Name, Role: symfile.AnyRole}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("lookup: %d objects, error %v, want %v", len(hits), err, engine.ErrUnavailable)
	}
	if took := time.Since(start); took > engine.PointLimit+5*time.Second {
		t.Errorf("the lookup took %v, want %v", took, engine.PointLimit)
	}
	faults.silent.Store(false)
	if hits := lookupEntry(t, db, all, e); len(hits) != 1 {
		t.Errorf("%d objects after the server has come back, want 1", len(hits))
	}
}

// cutter ends its connections when the answer to a COMMIT has arrived.
type cutter struct {
	cut  func()
	sent atomic.Bool // COMMIT
}

type cutConn struct {
	net.Conn
	*cutter
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return cutConn{conn, c}, err
}

func (c cutConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) {
		c.sent.Store(true)
	}
	return c.Conn.Write(b)
}

func (c cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.sent.CompareAndSwap(true, false) {
		c.cut()
	}
	return n, err
}

// TestNoticedWithoutDatabase: a writer that loses the database after its COMMIT
// returns when nodes that have not noticed the write answer nothing from memory
// any more.
func TestNoticedWithoutDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	where := newDatabase(t)
	toNode, toWriter := proxytest.New(t, server.Addr()), proxytest.New(t, server.Addr())
	node := openNode(t, pgtest.Via(t, where, toNode.Addr()))
	var ready atomic.Bool
	c := &cutter{cut: func() {
		if ready.Load() {
			toWriter.Set(proxytest.Fault{Refuse: true})
			toWriter.Cut()
		}
	}}
	writer, err := Open(t.Context(), pgtest.Via(t, where, toWriter.Addr()), Options{Dial: c.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	commitTest(t, writer, "", pdb(1))
	before := node.state(t)
	ready.Store(true)
	toNode.Set(proxytest.Fault{ToServer: true, ToClient: true})
	commitTest(t, writer, "", pdb(2))
	if state, err := node.watch.State(); err == nil && state == before {
		t.Error("the write has returned, and a node still answers from before it")
	}
	toNode.Set(proxytest.Fault{})
	toWriter.Set(proxytest.Fault{})
	if node.state(t) == before {
		t.Error("the node does not know of the write")
	}
}
