package uploads

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// program is the path of symdepot.
var program string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

// runTests builds the program, unless SYMDEPOT_UPLOADS_PROGRAM names one, or no test runs.
func runTests(m *testing.M) int {
	defer pgtest.End()
	if program = os.Getenv("SYMDEPOT_UPLOADS_PROGRAM"); program != "" || runtime.GOOS != "linux" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "symdepot-uploads")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "symdepot.exe")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "../../cmd/symdepot")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
		return 1
	}
	return m.Run()
}

// symdepot runs a command.
func symdepot(ctx context.Context, env []string, args ...string) (out string, code int, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return "", -1, fmt.Errorf("symdepot %s: %w", strings.Join(args, " "), err)
	}
	if code = cmd.ProcessState.ExitCode(); code != 0 {
		err = fmt.Errorf("symdepot %s: exit code %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String(), code, err
}

// site is a depot with a server that wants credentials.
type site struct {
	dir, depot string
	env        []string // of commands and servers of the depot
	url        string   // of the server, or of the proxy in front of it
	token      string

	mu      sync.RWMutex // held for writing while the server is replaced
	server  *exec.Cmd
	backend *url.URL
	asked   int // requests through the front
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	return newSiteOf(t, &site{dir: dir, depot: filepath.Join(dir, "depot")})
}

// newSiteOf starts the server of a depot, which is made if it does not exist.
func newSiteOf(t *testing.T, s *site) *site {
	t.Helper()
	out, _, err := symdepot(t.Context(), s.env, "token", "new", "--depot", s.depot, "--name", "ci", "--scope", "read", "--scope", "write")
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(out)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.url = s.backend.String()
	return s
}

var address = regexp.MustCompile(`symdepot serves symbols at (\S+)`)

// start starts the server and waits for its address.
func (s *site) start() error {
	cmd := exec.CommandContext(context.Background(), program, "serve", "--depot", s.depot, "--listen", "127.0.0.1:0", "--auth")
	cmd.Env = append(os.Environ(), s.env...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.server = cmd
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the server
			s.backend, err = url.Parse(m[1])
			return err
		}
	}
	text, _ := os.ReadFile(log.Name()) // it is only for the message
	return fmt.Errorf("the server ended without an address:\n%s", text)
}

// kill ends the server at once.
func (s *site) kill() {
	if s.server != nil {
		_ = s.server.Process.Kill() // it may have ended
		_ = s.server.Wait()
		s.server = nil
	}
}

// restartBefore are the requests of a run before which the server is killed and another
// process takes its place.
var restartBefore = map[int]bool{2: true, 3: true, 5: true, 9: true}

// newFront puts a proxy in front of the server, which kills the server between the
// requests of clients and starts another process in its place.
func (s *site) newFront(t *testing.T) {
	t.Helper()
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(s.backend)
		r.Out.Host = r.In.Host
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked++
		if restartBefore[s.asked] {
			s.kill()
			if err := s.start(); err != nil {
				t.Error(err)
			}
		}
		s.mu.Unlock()
		s.mu.RLock()
		defer s.mu.RUnlock()
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s.url = front.URL
}

// given is what a depot gives back.
type given struct {
	products map[string]map[blob.Ref]string // the contents of a product's transactions, and where the bundle has them
	trees    []tree
}

// tree is an export of all that a depot has.
type tree struct {
	layout layout.Layout
	// names of files by their paths; folded where the layout's clients ignore case.
	names  map[string]string
	folded bool
}

// exported are the exports with which the depot is compared. Each file of the tests has a
// path in the first.
var exported = []struct {
	layout layout.Layout
	args   []string
	folded bool
}{
	{layout: layout.Native},
	{layout: layout.SymStore, args: []string{"--all"}, folded: true},
}

// has reports whether the export has files of a kind.
func (t *tree) has(k symfile.Kind) bool { return t.layout != layout.SymStore || k != symfile.Breakpad }

// sum returns the hash of a file of the tree; ok is false if there is none.
func (t *tree) sum(path string) (sum blob.Ref, ok bool, err error) {
	if t.folded {
		path = symfile.Fold(path)
	}
	name, ok := t.names[path]
	if !ok {
		return sum, false, nil
	}
	b, err := os.ReadFile(name)
	return blob.Sum(b), err == nil, err
}

// export exports all that the depot has in one layout.
func (s *site) export(ctx context.Context, l layout.Layout, folded bool, args []string) (*tree, error) {
	dir := filepath.Join(s.dir, l.Name())
	t := &tree{layout: l, names: map[string]string{}, folded: folded}
	_, code, err := symdepot(ctx, nil, append([]string{"export", "--depot", s.depot, "--layout", l.Name(), dir}, args...)...)
	if code == 1 { // nothing has a path in the layout
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if rel = filepath.ToSlash(rel); folded {
			rel = symfile.Fold(rel)
		}
		t.names[rel] = name
		return err
	})
}

// give exports all that the depot has: as trees, and with the transactions as a bundle.
func (s *site) give(ctx context.Context) (*given, error) {
	g := &given{products: map[string]map[blob.Ref]string{}}
	list, _, err := symdepot(ctx, nil, "list", "--depot", s.depot, "--json", "--limit", "100000")
	if err != nil {
		return nil, err
	}
	products := map[int64]string{}
	args := []string{"bundle", "--depot", s.depot, filepath.Join(s.dir, "all.zip")}
	for dec := json.NewDecoder(strings.NewReader(list)); ; {
		var tx struct {
			Transaction int64 `json:"build"`
			Product     string
		}
		if err := dec.Decode(&tx); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		products[tx.Transaction] = tx.Product
		args = append(args, "--tx", strconv.FormatInt(tx.Transaction, 10))
	}
	if len(products) == 0 {
		return g, nil
	}
	if _, _, err := symdepot(ctx, nil, args...); err != nil {
		return nil, err
	}
	if err := g.readBundle(args[3], products); err != nil {
		return nil, err
	}
	for _, x := range exported {
		t, err := s.export(ctx, x.layout, x.folded, x.args)
		if err != nil {
			return nil, err
		}
		g.trees = append(g.trees, *t)
	}
	return g, nil
}

// readBundle hashes the files of a bundle.
func (g *given) readBundle(name string, products map[int64]string) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }() // only read
	var m struct {
		Files []struct {
			Path, SHA256 string
			In           []int64
		}
	}
	sums := map[string]blob.Ref{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return err
		}
		h := sha256.New()
		var text bytes.Buffer
		w := io.Writer(h)
		if f.Name == "manifest.json" {
			w = &text
		}
		if _, err := io.Copy(w, r); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Name == "manifest.json" {
			if err := json.Unmarshal(text.Bytes(), &m); err != nil {
				return err
			}
			continue
		}
		sums[f.Name] = blob.Ref(h.Sum(nil))
	}
	for _, f := range m.Files {
		sum, ok := sums["files/"+f.Path]
		if !ok || sum.String() != f.SHA256 {
			return fmt.Errorf("the bundle has %s with the SHA-256 %s, want %s", f.Path, sum, f.SHA256)
		}
		for _, tx := range f.In {
			p := products[tx]
			if g.products[p] == nil {
				g.products[p] = map[blob.Ref]string{}
			}
			g.products[p][sum] = f.Path
		}
	}
	return nil
}
