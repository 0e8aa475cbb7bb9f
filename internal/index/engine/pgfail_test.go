package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
)

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
		db, err := Open(t.Context(), where, options())
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
		{"newer format", change(used(), fmt.Sprintf("UPDATE state SET format_floor = %[1]d; INSERT INTO migration VALUES (%[1]d, 'later', 'x', 1)", len(postgresSteps)+1)), 0, ErrNewer, "supports formats up to"},
		{"wrong number", change(used(), "INSERT INTO migration VALUES (99, 'later', 'x', 1)"), 0, ErrCorrupt, "migration 99 (later) differs"},
		{"clock", used(), 6 * time.Minute, nil, "differs from the server's by 6m0s: synchronize both clocks"},
		{"slow clock", used(), -6 * time.Minute, nil, "differs from the server's by 6m0s"},
		{"only reads", change(used(), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$"), 0, nil, "set default_transaction_read_only to off"},
	} {
		wallClock = func() time.Time { return time.Now().Add(c.skew) }
		db, err := Open(t.Context(), c.where, options())
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

// TestLateQuestion: a question that the network has delayed, and that the node no
// longer waits for, does not say that the node knows later writes.
func TestLateQuestion(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	db, err := Open(t.Context(), server.Database(t), options())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	watch, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	pool := onServer(db).pool
	w := onServer(db).watches[0]
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
		rows, err := pool.Query(t.Context(), askText, w.id, nil, nil, true, db.Format(), nil, "", staleAfter.Seconds(), peerAfter.Seconds(), number, "")
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
	db, err := Open(t.Context(), where, options())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	watch, err := db.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	pool := onServer(db).pool
	w := onServer(db).watches[0]
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
	writer, err := Open(t.Context(), where, options())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	change(t, writer)
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
