package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/symdepot/symdepot/internal/ctxio"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/proxytest"
	"github.com/symdepot/symdepot/internal/symtest"
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
				number, err := db.Commit(t.Context(), Tx{Kind: "add", Comment: fmt.Sprint(n), Entries: []Entry{figureEntry(n), figureEntry(1 << 30)}}, nil)
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
				if err != nil && !errors.Is(err, ErrUnavailable) {
					t.Errorf("look up what was added: %v, want %v or an object", err, ErrUnavailable)
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
	if err := db.base.Scans.each(t.Context(), true, "SELECT id, comment FROM tx ORDER BY id", nil, func(scan func(...any) error) (bool, error) {
		var id int64
		var comment string
		err := scan(&id, &comment)
		if comments[comment] != 0 {
			t.Errorf("add %s was made twice: transactions %d and %d", comment, comments[comment], id)
		}
		if comments[comment] = id; id != last+1 {
			t.Errorf("transaction %d follows %d", id, last)
		}
		last = id
		return true, err
	}); err != nil {
		t.Fatal(err)
	}
	for n, number := range numbers {
		if comments[fmt.Sprint(n)] != number {
			t.Errorf("add %d was acknowledged as transaction %d; it is %d; want %v", n, number, comments[fmt.Sprint(n)], number)
		}
	}
	t.Logf("%d transactions, %d acknowledged", last, len(numbers))
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
	if hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: a.ID, Name: a.Name, Role: symfile.AnyRole}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("lookup: %d objects, error %v, want %v", len(hits), err, ErrUnavailable)
	}
	if took := time.Since(start); took > pointLimit+5*time.Second {
		t.Errorf("the lookup took %v, want %v", took, pointLimit)
	}
	faults.silent.Store(false)
	if hits := lookupEntry(t, db, all, e); len(hits) != 1 {
		t.Errorf("%d objects after the server has come back, want 1", len(hits))
	}
}

func TestPostgresRefuses(t *testing.T) {
	symtest.Sequential(t)
	s := pgtest.Shared(t)
	change := func(where, statement string) string {
		conn, err := pgx.Connect(t.Context(), where)
		if err == nil {
			_, err = conn.Exec(t.Context(), statement)
			_ = conn.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return where
	}
	used := func() string {
		where := s.Database(t)
		db, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		return where
	}
	empty := s.Database(t)
	for _, c := range []struct {
		name, where string
		skew        time.Duration
		want        error
		says        string
	}{
		{"no URL", "postgres://user@host:port/db", 0, nil, "it has the form postgres://USER@HOST:PORT/DATABASE"},
		{"nobody listens", "postgres://symdepot@127.0.0.1:1/db?sslmode=disable", 0, nil, "no PostgreSQL server answers there: check the host, the port"},
		{"unknown user", strings.Replace(empty, "symdepot@", "nobody@", 1), 0, nil, `refuses user "nobody": set PGPASSWORD or`},
		{"unknown database", s.URL("elsewhere"), 0, nil, `database "elsewhere" does not exist: create it with createdb`},
		{"other tables", change(s.Database(t), "CREATE TABLE customer (id bigint)"), 0, ErrForeign, "it holds 1 tables; name an empty database"},
		{"newer format", change(used(), fmt.Sprintf("UPDATE state SET format_floor = %[1]d; INSERT INTO migration VALUES (%[1]d, 'later', 'x', 1)", len(postgresMigrations)+1)), 0, ErrNewer, "supports formats up to"},
		{"wrong number", change(used(), "INSERT INTO migration VALUES (99, 'later', 'x', 1)"), 0, ErrCorrupt, "migration 99 (later) differs"},
		{"clock", used(), 6 * time.Minute, nil, "differs from the server's by 6m0s: synchronize both clocks"},
		{"slow clock", used(), -6 * time.Minute, nil, "differs from the server's by 6m0s"},
		{"only reads", change(used(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$"), 0, nil, "set default_transaction_read_only to off"},
	} {
		wallClock = func() time.Time { return time.Now().Add(c.skew) }
		db, err := Open(t.Context(), c.where, Options{})
		wallClock = time.Now
		if err == nil {
			_ = db.Close()
			t.Errorf("%s: no error, want one that says %q", c.name, c.says)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || c.want != nil && !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q, want one line with %q", c.name, err, c.says)
		}
	}
	for _, c := range []struct {
		server server
		says   string
	}{
		{server{version: 130011, release: "13.11", encoding: "UTF8"}, "PostgreSQL 13.11: version 14 or newer is needed"},
		{server{version: 150004, encoding: "SQL_ASCII"}, "the encoding SQL_ASCII: create one with"},
		{server{version: 150004, encoding: "UTF8", recovery: true, readOnly: true}, "is a standby, which only reads: name the primary"},
	} {
		if err := c.server.fault(false, 0); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: error %v, want one that says %q", c.server, err, c.says)
		}
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

// TestLateQuestion: a question that the network has delayed, and that the node no
// longer waits for, does not say that the node knows later writes.
func TestLateQuestion(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	db, err := Open(t.Context(), server.Database(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	watch, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	pool := db.base.engine.(*postgres).pool
	w := db.base.engine.(*postgres).watches[0]
	w.end() // no further question
	<-w.done
	row := func() (generation, question int64) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), "SELECT generation, question FROM node WHERE id = $1", w.id).Scan(&generation, &question); err != nil {
			t.Fatal(err)
		}
		return generation, question
	}
	generation, question := row()
	if _, err := pool.Exec(t.Context(), "UPDATE state SET generation = generation + 1"); err != nil {
		t.Fatal(err)
	}
	// As a node asks that answers nothing from memory.
	late := func(number int64) error {
		rows, err := pool.Query(t.Context(), askText, w.id, nil, nil, true, len(db.base.engine.steps()), nil, "", staleAfter.Seconds(), peerAfter.Seconds(), number, "")
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		return err
	}
	if err := late(question - 1); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("a late question: %v, want no answer", err)
	}
	if g, q := row(); g != generation || q != question {
		t.Errorf("after a late question the row has generation %d and question %d, want %d and %d", g, q, generation, question)
	}
	if err := late(question + 1); err != nil {
		t.Errorf("the next question: %v", err)
	}
	if g, _ := row(); g != generation+1 {
		t.Errorf("after the next question the row has generation %d, want %d", g, generation+1)
	}
}

// TestHeldQuestion: a node that was silent asks, and the database takes long to
// write its row. A write that comes meanwhile returns, because the row that its
// writer sees is old. The answer of that question is older than the write, so the
// node must not answer from memory by it.
func TestHeldQuestion(t *testing.T) {
	t.Parallel()
	where := newDatabase(t)
	db, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	watch, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	pool := db.base.engine.(*postgres).pool
	w := db.base.engine.(*postgres).watches[0]
	w.end() // no further question
	<-w.done
	before, err := w.writes()
	if err != nil {
		t.Fatal(err)
	}
	// The node has been silent for three seconds.
	if _, err := pool.Exec(t.Context(), "UPDATE node SET asked = now() - interval '3 seconds' WHERE id = $1", w.id); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.asked, w.sent = w.asked.Add(-3*time.Second), w.sent.Add(-3*time.Second)
	w.mu.Unlock()

	lock, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "SELECT 1 FROM node WHERE id = $1 FOR UPDATE", w.id); err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() { asked <- w.ask(t.Context()) }()
	symtest.Await(t, time.Minute, "a question that waits", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO node%')`).Scan(&waits)
		return err == nil && waits
	})
	writer, err := Open(t.Context(), where, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	commitTest(t, writer, "", pdb(1))
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err != nil {
		t.Logf("the question: %v", err)
	}
	if state, err := w.writes(); err == nil && state == before {
		t.Error("the node answers from memory by the state before a write that has returned")
	}
	// The next questions tell the new state.
	symtest.Await(t, time.Minute, "a node that knows the write", func() bool {
		state, err := w.writes()
		if err != nil {
			_ = w.ask(t.Context())
		}
		return err == nil && state != before
	})
}
