package pgtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Addr returns the host and port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// SQL runs statements as the owner of the server, each in a transaction of its
// own, and returns what they print: a line for each row, the columns separated by
// a vertical bar.
func (s *Server) SQL(tb testing.TB, statements ...string) string {
	tb.Helper()
	return s.In(tb, "postgres", statements...)
}

// In is SQL in a database.
func (s *Server) In(tb testing.TB, database string, statements ...string) string {
	tb.Helper()
	args := []string{"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "symdepot", "-d", database}
	for _, q := range statements {
		args = append(args, "-c", q)
	}
	return strings.TrimSpace(s.run(tb, "psql", args...))
}

// Standby makes a copy of the running server that follows it as a standby, and
// stops it when the test ends.
func (s *Server) Standby(tb testing.TB) *Server {
	tb.Helper()
	b := prepare(tb)
	slot := fmt.Sprintf("port%d", b.port)
	// -R writes the settings of a standby. The slot keeps the log for it.
	b.run(tb, "pg_basebackup", "-D", b.data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "symdepot",
		"-X", "stream", "-R", "-C", "-S", slot, "--checkpoint=fast", "--no-sync")
	b.Start(tb)
	tb.Cleanup(func() { b.Stop(tb, "immediate") })
	return b
}

// Synchronous has commits wait from now on until a standby has written them too.
// It returns when a standby has all that was written before.
func (s *Server) Synchronous(tb testing.TB) {
	tb.Helper()
	s.SQL(tb, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'", "SELECT pg_reload_conf()")
	s.Await(tb, "a synchronous standby", "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND flush_lsn >= pg_current_wal_flush_lsn()")
}

// Cut ends the replication to this standby. What the primary writes afterwards is
// lost when the standby is promoted.
func (s *Server) Cut(tb testing.TB) {
	tb.Helper()
	s.SQL(tb, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	s.Await(tb, "the end of the replication", "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// Promote makes the standby a primary.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.run(tb, "pg_ctl", "-D", s.data, "-w", "-t", "60", "promote")
}

// Await waits until a query returns true.
func (s *Server) Await(tb testing.TB, what, query string) {
	tb.Helper()
	symtest.Await(tb, time.Minute, what, func() bool { return s.SQL(tb, query) == "t" })
}

// Kill kills the server's first process, which ends the others without a word.
// Start starts the server again.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		tb.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil {
		var p *os.Process
		if p, err = os.FindProcess(pid); err == nil {
			err = p.Kill()
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	// Start refuses while another process of the server still runs. They end within
	// a moment.
	symtest.Await(tb, time.Minute, "the end of all processes of the killed server", func() bool { return !s.running() })
	// Its lock files name a process that may be waiting to be reaped.
	locks, _ := filepath.Glob(filepath.Join(s.data, ".s.PGSQL.*"))
	for _, name := range append(locks, filepath.Join(s.data, "postmaster.pid")) {
		if err := os.Remove(name); err != nil {
			tb.Fatal(err)
		}
	}
}

// running reports whether a process has the data folder as its current folder,
// as all processes of a server have.
func (s *Server) running() bool {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, l := range links {
		if dir, err := os.Readlink(l); err == nil && dir == s.data {
			return true
		}
	}
	return false
}

// Hosts returns the address of a database for clients that look for the server
// that accepts writes.
func Hosts(database string, servers ...*Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr())
	}
	return "postgres://symdepot@" + strings.Join(hosts, ",") + "/" + database + "?sslmode=disable&target_session_attrs=read-write"
}

// Via returns an address with another host.
func Via(tb testing.TB, where, addr string) string {
	tb.Helper()
	u, err := url.Parse(where)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// Snapshot copies a database, and returns the copy's name. Connections to the
// database are ended.
func (s *Server) Snapshot(tb testing.TB, where string) (name string) {
	tb.Helper()
	from := nameOf(tb, where)
	s.mu.Lock()
	s.n++
	name = fmt.Sprintf("snapshot%d", s.n)
	s.mu.Unlock()
	s.close(tb, from)
	s.SQL(tb, "CREATE DATABASE "+name+" TEMPLATE "+from, "ALTER DATABASE "+from+" ALLOW_CONNECTIONS true")
	return name
}

// Copied makes a database that is equal to the one that Snapshot was called for.
func (s *Server) Copied(tb testing.TB, snapshot string) (where string) {
	tb.Helper()
	s.mu.Lock()
	s.n++
	name := fmt.Sprintf("test%d", s.n)
	s.mu.Unlock()
	s.SQL(tb, "CREATE DATABASE "+name+" TEMPLATE "+snapshot)
	return s.URL(name)
}

// Made makes a database as make does, which gets the URL of an empty one. make runs
// once for each kind; later databases of that kind are copies.
func (s *Server) Made(tb testing.TB, kind string, make func(where string) error) (where string) {
	tb.Helper()
	s.mu.Lock()
	m := s.made[kind]
	if m == nil {
		if s.made == nil {
			s.made = map[string]*made{}
		}
		m = &made{}
		s.made[kind] = m
	}
	s.mu.Unlock()
	m.once.Do(func() {
		first := s.Database(tb)
		if err := make(first); err != nil {
			tb.Fatalf("make a database of kind %s: %v", kind, err)
		}
		m.snapshot = s.Snapshot(tb, first)
	})
	if m.snapshot == "" {
		tb.Fatalf("the database of kind %s could not be made; the test that tried says why", kind)
	}
	return s.Copied(tb, m.snapshot)
}

// made is a database that is copied.
type made struct {
	once     sync.Once
	snapshot string
}

// Rewind replaces a database by the copy that Snapshot made.
func (s *Server) Rewind(tb testing.TB, where, snapshot string) {
	tb.Helper()
	to := nameOf(tb, where)
	s.close(tb, to)
	s.SQL(tb, "DROP DATABASE "+to, "ALTER DATABASE "+snapshot+" RENAME TO "+to)
}

// close ends the connections to a database and allows no further ones.
func (s *Server) close(tb testing.TB, name string) {
	tb.Helper()
	s.SQL(tb, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	s.Await(tb, "the end of the connections to "+name, "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '"+name+"'")
}

func nameOf(tb testing.TB, where string) string {
	tb.Helper()
	u, err := url.Parse(where)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}
