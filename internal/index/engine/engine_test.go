package engine

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/schema"
)

// The steps of an index, on each engine.
var sqliteSteps, postgresSteps = ReadMigrations(schema.Files, "sqlite"), ReadMigrations(schema.Files, "postgres")

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

// options are those of an index.
func options() Options {
	return Options{SQLite: sqliteSteps, Postgres: postgresSteps, BusyWait: 10 * time.Minute}
}

// openTest opens a database until the end of the test.
func openTest(t testing.TB, where string, opt Options) *Database {
	t.Helper()
	db, err := Open(t.Context(), where, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openFile(t testing.TB) *Database {
	t.Helper()
	return openTest(t, filepath.Join(t.TempDir(), "index.db"), options())
}

// newDatabase returns a database of the shared server that has all tables.
func newDatabase(t testing.TB) string {
	t.Helper()
	return pgtest.Shared(t).Made(t, "engine", func(where string) error {
		db, err := Open(t.Context(), where, options())
		if err != nil {
			return err
		}
		return db.Close()
	})
}

func file(db *Database) *sqliteFile { return db.engine.(*sqliteFile) }

func onServer(db *Database) *postgres { return db.engine.(*postgres) }

// change makes a write that other processes must notice.
func change(t testing.TB, db *Database) {
	t.Helper()
	if err := db.Update(t.Context(), "test", func(w *Write) error {
		_, err := w.Exec("UPDATE state SET generation = generation + 1 WHERE one = 1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

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

// TestStepsAreNumbered: the numbers of the steps are 1, 2, 3…
func TestStepsAreNumbered(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]Migration{sqliteSteps, postgresSteps} {
		if len(steps) == 0 {
			t.Error("there are no steps, want at least one of each engine")
		}
		for i, m := range steps {
			if m.Number != i+1 {
				t.Errorf("step %s: number %d, want %d", m.Name, m.Number, i+1)
			}
		}
	}
}

// FuzzGiven: a text is again what it was before PostgreSQL's form of it, and different texts have different forms.
func FuzzGiven(f *testing.F) {
	for _, t := range []string{"", "plain", "Ünï", "\x01", "a\x00\xff\x01b", "\x0101", "\xc3", "\uFFFD", "\x01\x01FF\xfe"} {
		f.Add(t)
	}
	f.Fuzz(func(t *testing.T, text string) {
		stored := storable(text)
		if !utf8.ValidString(stored) || strings.Contains(stored, "\x00") {
			t.Errorf("%q is stored as %q", text, stored)
		}
		if back := given(stored); back != text {
			t.Errorf("%q is stored as %q and given back as %q", text, stored, back)
		}
		_ = given(text) // of any text
	})
}
