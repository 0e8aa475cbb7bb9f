package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
	"github.com/symdepot/symdepot/internal/serve/web/pages"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// memFile is a file in memory.
type memFile struct{ *bytes.Reader }

func (c memFile) Size() int64   { return c.Reader.Size() }
func (c memFile) Changed() bool { return false }

// held is a file that the test's depot holds.
type held struct {
	body []byte
	obj  symfile.Object
}

// path is its path in a layout, with a slash in front.
func (h held) path(t testing.TB, l layout.Layout) string {
	t.Helper()
	p := l.Paths(h.obj)
	if len(p) == 0 {
		t.Fatalf("%s has no path in layout %s", h.obj.Name, l.Name())
	}
	return "/" + p[0]
}

func newDepot(t testing.TB) *depot.Depot {
	t.Helper()
	return openDepot(t, depot.Options{})
}

// openDepot makes a depot with options.
func openDepot(t testing.TB, opt depot.Options) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// add adds one file in a transaction of its own.
func add(t testing.TB, d *depot.Depot, src depot.Source, body []byte) held {
	t.Helper()
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: "app <1>", Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	src.Content = memFile{bytes.NewReader(body)}
	added, err := tx.Add(t.Context(), src)
	if err != nil {
		t.Fatalf("Add: %s, error %v; want no error", src.Path, err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return held{body, added[0].Object.Object}
}

func addFile(t testing.TB, d *depot.Depot, name string) held {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return add(t, d, depot.Source{Path: "/home/someone/build/" + filepath.Base(name)}, b)
}

// sym returns a Breakpad file of exactly size bytes.
func sym(id, name, more string, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE windows x86_64 %s %s\n%s", id, name, more)
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for b.Len() < size {
		fmt.Fprintf(&b, "PUBLIC %x 0 f%d\n", rng.Uint32(), rng.Uint32())
	}
	b.Truncate(size - 1)
	b.WriteByte('\n')
	return b.Bytes()
}

const (
	smallID = "0123456789ABCDEF0123456789ABCDEF1"
	bigID   = "FEDCBA9876543210FEDCBA98765432102"
)

// world is a depot with some files of several kinds, and a server for it.
type world struct {
	d                           *depot.Depot
	s                           *Server
	exe, pdb, elf, debug        held
	small, big, packaged, space held
}

func newWorld(t testing.TB, cfg Config) *world {
	t.Helper()
	w := &world{d: newDepot(t)}
	w.exe, w.pdb = addFile(t, w.d, "pdb/hello-x64.exe"), addFile(t, w.d, "pdb/hello-x64.pdb")
	w.elf, w.debug = addFile(t, w.d, "elf/prog-sha1.stripped"), addFile(t, w.d, "elf/prog-sha1.debug")
	w.small = add(t, w.d, depot.Source{Path: "small.sym"}, sym(smallID, "small.pdb", "INFO CODE_ID 5B1D7C3A9000 small.dll\n", 3000))
	w.big = add(t, w.d, depot.Source{Path: "big.sym"}, sym(bigID, "big.pdb", "", 3<<20+17))
	b, err := os.ReadFile("../../../testdata/elf/e-arm64")
	if err != nil {
		t.Fatal(err)
	}
	w.packaged = add(t, w.d, depot.Source{Path: "usr/bin/e-arm64", Archive: "/srv/packages/e_1.0_arm64.deb"}, b)
	w.space = add(t, w.d, depot.Source{Path: "a b.sym"}, sym("00000000000000000000000000000ABC0", "a b+c.pdb", "", 500))
	if cfg.Depot == nil {
		cfg.Depot = w.d
	}
	if cfg.API == nil {
		cfg.API, cfg.Pages = webOf(w.d, web.Config{Version: "v1.2.3"})
	}
	w.s = newServer(t, cfg)
	return w
}

// withWeb is a configuration with a depot, its API and its pages.
func withWeb(d *depot.Depot, cfg Config) Config {
	cfg.Depot = d
	cfg.API, cfg.Pages = webOf(d, web.Config{Version: "v1.2.3"})
	return cfg
}

// webOf returns the API and the pages of a depot. What c has of another depot stays.
func webOf(d *depot.Depot, c web.Config) (*api.API, *pages.Pages) {
	given := c
	c.Use(d)
	c.Upstreams, c.Missing = cmp.Or(given.Upstreams, c.Upstreams), cmp.Or(given.Missing, c.Missing)
	acts := web.New(c)
	return api.New(acts), pages.New(acts)
}

func newServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	watch(t, s)
	return s
}

// fake is a depot whose files a test opens.
type fake func(ctx context.Context, req layout.Request) (*answer.File, error)

func (fake) Lacks(context.Context, answer.Scope, *layout.Request) bool { return false }

func (open fake) Get(ctx context.Context, q answer.Question) (*answer.File, error) {
	if err := q.Turn.Enter(); err != nil {
		return nil, err
	}
	defer q.Turn.Leave()
	return open(ctx, q.Request)
}

// newFakeServer returns a server for a depot whose files a test opens.
func newFakeServer(t testing.TB, cfg Config, open fake) *Server {
	t.Helper()
	s := newServer(t, cfg)
	s.files = open
	return s
}

func notFound(context.Context, layout.Request) (*answer.File, error) { return nil, fs.ErrNotExist }

// listen serves on a free port of this machine until the test ends.
func listen(t testing.TB, s *Server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: error %v, want no error", err)
		}
	})
	return ln.Addr().String()
}

// reply is an answer read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

// client speaks HTTP/1.1 over one connection, byte for byte.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func dial(t testing.TB, addr string) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &rawClient{t, c, bufio.NewReader(c)}
}

func (c *rawClient) send(raw string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, raw); err != nil {
		c.t.Fatal(err)
	}
}

// reply reads one answer to a request of that method.
func (c *rawClient) reply(method string) reply {
	c.t.Helper()
	r, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Del("Date")
	if r.Close {
		r.Header.Set("Connection", "close") // as it came
	}
	return reply{r.StatusCode, r.Header, string(b)}
}

// do sends a request with headers "Name: value".
func (c *rawClient) do(method, target string, headers ...string) reply {
	c.t.Helper()
	c.send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n")
	return c.reply(method)
}

// ask sends one request through the handler alone, without a connection.
func ask(s *Server, method, target string, headers ...string) reply {
	return askBody(s, method, target, "", headers...)
}

// askBody is ask with a body.
func askBody(s *Server, method, target, body string, headers ...string) reply {
	r := httptest.NewRequest(method, target, nil)
	if body != "" {
		r = httptest.NewRequest(method, target, strings.NewReader(body))
	}
	r.Host = "localhost"
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Add(k, v)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	header := make(http.Header) // as a client reads it
	for k, v := range w.Result().Header {
		header[http.CanonicalHeaderKey(k)] = v
	}
	got := reply{w.Code, header, w.Body.String()}
	compare(s, method, target, body, got)
	return got
}
