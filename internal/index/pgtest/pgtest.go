// Package pgtest runs a real PostgreSQL server for tests.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Server is a running PostgreSQL server with an own, temporary data folder. It
// listens on a free port of the loopback interface and trusts every client.
type Server struct {
	bin, data string
	port      int
	cred      *credential

	mu   sync.Mutex
	n    int
	made map[string]*made
}

// bin returns the folder of PostgreSQL's programs.
func bin() (string, error) {
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	if runtime.GOOS == "windows" {
		return "", errors.New("no postgres.exe of PostgreSQL is in PATH")
	}
	// Debian keeps the programs of each version in a folder of their own.
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.SortFunc(dirs, func(a, b string) int { return version(a) - version(b) })
	for _, d := range slices.Backward(dirs) {
		if _, err := os.Stat(filepath.Join(d, "initdb")); err == nil {
			return d, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed (Debian package postgresql)")
}

func version(dir string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
	return n
}

// New starts a server and stops it when the test ends; the TestMain of its package
// calls End. Without an installed PostgreSQL it skips the test, or fails it where
// PostgreSQL is required.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := prepare(tb)
	s.copyData(tb, initialized(tb), s.data)
	s.Start(tb)
	tb.Cleanup(func() { s.Stop(tb, "immediate") })
	return s
}

// copyData copies the data folder of a server that has never run.
func (s *Server) copyData(tb testing.TB, from, to string) {
	tb.Helper()
	if err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if e.IsDir() {
			err = os.Mkdir(target, 0o700) // the server refuses other modes
		} else {
			var b []byte
			if b, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, b, 0o600)
			}
		}
		if err == nil && s.cred != nil {
			err = s.cred.own(target)
		}
		return err
	}); err != nil {
		tb.Fatal(err)
	}
}

// prepare returns a server without data.
func prepare(tb testing.TB) *Server {
	tb.Helper()
	dir, err := bin()
	if err != nil {
		symtest.Missing(tb, "postgres", "%v", err)
	}
	s := &Server{bin: dir, port: freePort(tb)}
	root, err := os.MkdirTemp("", "pgtest-*")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(root) })
	// The server refuses to run as root.
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			symtest.Missing(tb, "postgres", "the tests run as root, and there is no user postgres for the server: %v", err)
		}
		if s.cred, err = credentialOf(u); err != nil {
			tb.Fatal(err)
		}
		if err := s.cred.own(root); err != nil {
			tb.Fatal(err)
		}
	}
	s.data = filepath.Join(root, "data")
	return s
}

// shared is what the tests of this process share, until End.
var shared struct {
	data, start sync.Once
	server      *Server
	folder      string // data of a server that has never run
	life        life
}

// initialized returns the data folder of a server that has never run. initdb, which
// makes it, takes more than a second of processor time.
func initialized(tb testing.TB) string {
	tb.Helper()
	shared.data.Do(func() {
		l := shared.life.of(tb)
		s := prepare(l)
		s.run(l, "initdb", "-D", s.data, "-U", "symdepot", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
		shared.folder = s.data
	})
	if shared.folder == "" {
		tb.Fatal("initdb failed; the test that called it says why")
	}
	return shared.folder
}

// life is how long shared things last: until End.
type life struct {
	mu  sync.Mutex
	end []func()
}

// of returns a test like tb that lasts until End.
func (l *life) of(tb testing.TB) testing.TB { return &lasting{TB: tb, life: l} }

type lasting struct {
	testing.TB
	life *life
}

func (l *lasting) Cleanup(f func()) {
	l.life.mu.Lock()
	defer l.life.mu.Unlock()
	l.life.end = append(l.life.end, f)
}

// Shared returns the server of this process, which the first call starts and End
// stops. Tests that stop the server, or that change its settings, need one of their
// own: New.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if _, err := bin(); err != nil {
		return New(tb) // skips or fails
	}
	shared.start.Do(func() { shared.server = New(shared.life.of(tb)) })
	if shared.server == nil {
		tb.Fatal("the PostgreSQL server of this process did not start")
	}
	return shared.server
}

// End stops the server that Shared started and deletes what New copies. It is for
// TestMain, after all tests.
func End() {
	for _, f := range slices.Backward(shared.life.end) {
		f()
	}
}

func freePort(tb testing.TB) int {
	tb.Helper()
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// Start starts the server again after Stop, and waits until it answers.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	options := fmt.Sprintf("-p %d -h 127.0.0.1 -k %s -c fsync=off -c max_connections=400 -c full_page_writes=off -c autovacuum=off", s.port, s.data)
	s.run(tb, "pg_ctl", "-D", s.data, "-w", "-t", "60", "-l", filepath.Join(s.data, "log"), "-o", options, "start")
}

// Stop stops the server in a mode of pg_ctl: smart, fast or immediate. It does
// nothing if the server is not running.
func (s *Server) Stop(tb testing.TB, mode string) {
	tb.Helper()
	if _, err := os.Stat(filepath.Join(s.data, "postmaster.pid")); errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.run(tb, "pg_ctl", "-D", s.data, "-w", "-m", mode, "stop")
}

// run runs one of PostgreSQL's programs and returns its output.
func (s *Server) run(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	// Not the context of the test: the server is stopped after it has ended.
	c := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	c.Dir, c.Env = filepath.Dir(s.data), []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	s.cred.apply(c)
	// pg_ctl's server keeps standard output open.
	out, err := os.CreateTemp("", "pgtest-*")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = out.Close(); _ = os.Remove(out.Name()) }()
	c.Stdout, c.Stderr = out, out
	err = c.Run()
	b, _ := os.ReadFile(out.Name())
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.data, "log"))
		tb.Fatalf("%s: %v\n%s%s", name, err, b, log[max(0, len(log)-10_000):])
	}
	return string(b)
}

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://symdepot@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	s.mu.Lock()
	s.n++
	name := fmt.Sprintf("test%d", s.n)
	s.mu.Unlock()
	s.SQL(tb, "CREATE DATABASE "+name)
	return s.URL(name)
}

// Drop deletes a database that Database made, with the connections to it.
func (s *Server) Drop(tb testing.TB, address string) {
	tb.Helper()
	s.SQL(tb, "DROP DATABASE "+nameOf(tb, address)+" WITH (FORCE)")
}

// Size returns how many bytes a database takes on disk.
func (s *Server) Size(tb testing.TB, address string) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(s.SQL(tb, "SELECT pg_database_size('"+nameOf(tb, address)+"')"), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Restored dumps a database, restores the dump into a new one, as an operator does,
// and returns the URL of the new one.
func (s *Server) Restored(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	to, err := url.Parse(s.Database(tb))
	if err != nil {
		tb.Fatal(err)
	}
	dump := filepath.Join(filepath.Dir(s.data), strings.TrimPrefix(to.Path, "/")+".dump")
	server := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "symdepot", "-d"}
	s.run(tb, "pg_dump", append(server, strings.TrimPrefix(u.Path, "/"), "-Fc", "-f", dump)...)
	s.run(tb, "pg_restore", append(server, strings.TrimPrefix(to.Path, "/"), "--exit-on-error", dump)...)
	return to.String()
}

// User makes a user who needs a password, and who may do everything. A user of that name
// whom another test has made stays, with the new password.
func (s *Server) User(tb testing.TB, name, password string) {
	tb.Helper()
	s.SQL(tb, fmt.Sprintf("DO $$ BEGIN CREATE ROLE %s SUPERUSER LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$", name))
	s.SQL(tb, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", name, password))
	path := filepath.Join(s.data, "pg_hba.conf")
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte("host all "+name+" 127.0.0.1/32 scram-sha-256\n"), before...), 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.run(tb, "pg_ctl", "-D", s.data, "reload")
}
