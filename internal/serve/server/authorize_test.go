package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// tokenStore keeps tokens in memory.
type tokenStore struct {
	auth.Logins // nil: there are none
	mu          sync.Mutex
	rows        map[[32]byte]auth.TokenRow
	// busy, if not nil, is called for every lookup.
	busy func()
}

func (s *tokenStore) TokenByHash(_ context.Context, hash [32]byte) (auth.TokenRow, error) {
	if s.busy != nil {
		s.busy()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[hash]
	if !ok {
		return r, fs.ErrNotExist
	}
	return r, nil
}

func (s *tokenStore) TokenByID(_ context.Context, id string) (auth.TokenRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.ID == id && r.Kind == "" {
			return r, nil
		}
	}
	return auth.TokenRow{}, fs.ErrNotExist
}

func (s *tokenStore) TouchToken(context.Context, map[string]time.Time) error { return nil }

func (s *tokenStore) revoke(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[auth.HashToken(secret)]
	r.Revoked = time.Now().Add(-time.Second)
	s.rows[r.Hash] = r
}

func (s *tokenStore) add(t testing.TB, name string, products []string, scopes ...string) string {
	t.Helper()
	secret, row, err := auth.MakeToken(auth.TokenSpec{Name: name, Scopes: scopes, Products: products}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[row.Hash] = row
	return secret
}

// guarded is a depot of two products, and a server with a gate for it.
type guarded struct {
	filtered                  *filteredDepot // d
	d                         *depot.Depot
	s                         *Server
	store                     *tokenStore
	all, ours, theirs, writes string // tokens
	oursPDB, theirsPDB        held
	oursExe, theirsExe        held
	oursELF, theirsELF        held
	theirsSym                 held
	log                       *bytes.Buffer
	clock                     func(time.Duration) // moves time
}

func addAs(t testing.TB, d *depot.Depot, product, path string, body []byte) held {
	t.Helper()
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: product, Version: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	added, err := tx.Add(t.Context(), depot.Source{Path: path, Content: memFile{bytes.NewReader(body)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return held{body, added[0].Object.Object}
}

func newGuarded(t testing.TB, policy auth.PolicyConfig, cfg Config) *guarded {
	t.Helper()
	filtered := newFilteredDepot(t)
	g := &guarded{d: filtered.Depot, filtered: filtered, store: &tokenStore{rows: map[[32]byte]auth.TokenRow{}}, log: new(bytes.Buffer)}
	file := func(product, name string) held {
		b, err := os.ReadFile(filepath.Join("../../../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return addAs(t, g.d, product, filepath.Base(name), b)
	}
	g.oursPDB, g.oursExe, g.oursELF = file("ours", "pdb/hello-x64.pdb"), file("ours", "pdb/hello-x64.exe"), file("ours", "elf/prog-sha1.debug")
	g.theirsPDB, g.theirsExe, g.theirsELF = file("theirs", "pdb/hello-x86.pdb"), file("theirs", "pdb/hello-x86.exe"), file("theirs", "elf/e-arm64")
	g.theirsSym = addAs(t, g.d, "theirs", "small.sym", sym(smallID, "small.pdb", "INFO CODE_ID 5B1D7C3A9000 small.dll\n", 3000))
	g.all = g.store.add(t, "all", nil, "read")
	g.ours = g.store.add(t, "ours", []string{"ours"}, "read")
	g.theirs = g.store.add(t, "theirs", []string{"theirs"}, "read")
	g.writes = g.store.add(t, "writes", []string{"ours"}, "write")
	var mu sync.Mutex
	var ahead time.Duration
	g.clock = func(d time.Duration) { mu.Lock(); ahead += d; mu.Unlock() }
	now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(ahead) }
	gate, err := auth.New(auth.Config{Policy: policy, Now: now}, g.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	cfg.Gate, cfg.Depot, cfg.AccessLog = gate, g.d, true
	if cfg.API == nil {
		cfg.API, cfg.Pages = webOf(g.d, web.Config{Version: "v1.2.3"})
	}
	cfg.Log = slog.New(slog.NewJSONHandler(g.log, nil))
	g.s = newServer(t, cfg)
	return g
}

var demand = auth.PolicyConfig{Demand: true}

func bearer(token string) string { return "Authorization: Bearer " + token }

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestAuthenticationMethods(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	unknown := auth.NewToken()
	ways := []struct {
		name                 string
		prefix               string
		headers              []string
		ours, theirs         int // status of a file of either product
		unknownPath, healthz int
	}{
		{name: "nothing", ours: 401, theirs: 401, unknownPath: 401, healthz: 200},
		{name: "bearer all", headers: []string{bearer(g.all)}, ours: 200, theirs: 200, unknownPath: 404, healthz: 200},
		{name: "bearer ours", headers: []string{bearer(g.ours)}, ours: 200, theirs: 404, unknownPath: 404, healthz: 200},
		{name: "basic theirs", headers: []string{basic("anyone", g.theirs)}, ours: 404, theirs: 200, unknownPath: 404, healthz: 200},
		{name: "header", headers: []string{"X-Symdepot-Token: " + g.all}, ours: 200, theirs: 200, unknownPath: 404, healthz: 200},
		{name: "path", prefix: "/t/" + g.ours, ours: 200, theirs: 404, unknownPath: 404, healthz: 200},
		{name: "path, doubled slashes", prefix: "//t//" + g.ours, ours: 200, theirs: 404, unknownPath: 404, healthz: 200},
		{name: "path beats header", prefix: "/t/" + g.ours, headers: []string{bearer(g.all)}, ours: 200, theirs: 404, unknownPath: 404, healthz: 200},
		{name: "unknown path token", prefix: "/t/" + unknown, ours: 401, theirs: 401, unknownPath: 401, healthz: 401},
		{name: "unknown path token, good header", prefix: "/t/" + unknown, headers: []string{bearer(g.all)}, ours: 401, theirs: 401, unknownPath: 401, healthz: 401},
		{name: "nearly a path token", prefix: "/t/" + unknown[:45], ours: 401, theirs: 401, unknownPath: 401, healthz: 401},
		{name: "unknown bearer", headers: []string{bearer(unknown)}, ours: 401, theirs: 401, unknownPath: 401, healthz: 200},
		{name: "user without a password file", headers: []string{basic("alice", "secret")}, ours: 401, theirs: 401, unknownPath: 401, healthz: 200},
		{name: "garbage", headers: []string{"Authorization: !"}, ours: 401, theirs: 401, unknownPath: 401, healthz: 200},
		{name: "no right to read", headers: []string{bearer(g.writes)}, ours: 404, theirs: 404, unknownPath: 404, healthz: 200},
	}
	layouts := []layout.Layout{layout.SymStore, layout.SSQP, layout.Unified, layout.Native, layout.LLDB, layout.GDB, layout.Debuginfod, layout.BreakpadTree}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			n := 0
			for _, l := range layouts {
				for _, f := range []struct {
					held
					want int
				}{{g.oursPDB, w.ours}, {g.oursExe, w.ours}, {g.oursELF, w.ours}, {g.theirsPDB, w.theirs}, {g.theirsExe, w.theirs}, {g.theirsELF, w.theirs}, {g.theirsSym, w.theirs}} {
					for _, p := range l.Paths(f.obj) {
						for _, method := range []string{"GET", "HEAD"} {
							n++
							r := ask(g.s, method, w.prefix+"/"+p, w.headers...)
							if r.status != f.want {
								t.Errorf("%s %s: %d, want %d", method, p, r.status, f.want)
							}
							if r.status == 200 && method == "GET" && r.body != string(f.body) {
								t.Errorf("%s: another body", p)
							}
							if r.status == 401 && r.header.Get("Www-Authenticate") == "" {
								t.Errorf("%s: nothing is asked for", p)
							}
						}
					}
				}
			}
			if n < 30 {
				t.Errorf("only %d paths were tried", n)
			}
			for path, want := range map[string]int{
				"/healthz": w.healthz, "/readyz": w.healthz, "/symbols/healthz": w.healthz, "/a/b/c/d/e/f": w.unknownPath, "/nothing": w.unknownPath, "/" + strings.Repeat("a/", 5000): w.unknownPath,
			} {
				if r := ask(g.s, "GET", w.prefix+path, w.headers...); r.status != want {
					t.Errorf("%s: %d, want %d", path, r.status, want)
				}
			}
		})
	}
}

// TestSections: parts of a file follow the file.
func TestSections(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	path := "/buildid/" + string(g.theirsELF.obj.BuildID) + "/section/.text"
	if r := ask(g.s, "GET", path, bearer(g.theirs)); r.status != 200 {
		t.Errorf("theirs: %d, want 200", r.status)
	}
	if r := ask(g.s, "GET", path, bearer(g.ours)); r.status != 404 {
		t.Errorf("ours: %d, want 404", r.status)
	}
}

// TestOwnPagesGuarded: the page, the search and the metrics respect the scope
// too.
func TestOwnPagesGuarded(t *testing.T) {
	g := newGuarded(t, demand, Config{TwoTier: true})
	for _, path := range []string{"/", "/symbols", "/metrics", "/metadata?key=glob&value=*", "/index2.txt", "/pingme.txt", "/robots.txt", "/favicon.ico"} {
		if r := ask(g.s, "GET", path); r.status != 401 {
			t.Errorf("%s without credentials: %d, want 401", path, r.status)
		}
		want := 200
		if path == "/metrics" {
			want = 404
		}
		if r := ask(g.s, "GET", path, bearer(g.ours)); r.status != want {
			t.Errorf("%s for some: %d, want %d", path, r.status, want)
		}
		if r := ask(g.s, "GET", path, bearer(g.all)); r.status != 200 {
			t.Errorf("%s for all: %d, want 200", path, r.status)
		}
	}
	metadata := "/metadata?key=buildid&value=" + string(g.theirsELF.obj.BuildID)
	if r := ask(g.s, "GET", metadata, bearer(g.ours)); !strings.Contains(r.body, `"results":[]`) {
		t.Errorf("metadata for ours: %s, want %q in the body", r.body, `"results":[]`)
	}
	if r := ask(g.s, "GET", metadata, bearer(g.theirs)); !strings.Contains(r.body, string(g.theirsELF.obj.BuildID)) {
		t.Errorf("metadata for theirs: %s, want the build-id", r.body)
	}
	for _, c := range []struct {
		token     string
		has, not  string
		seesStats bool
	}{{g.ours, "hello-x64.pdb", "hello-x86.pdb", false}, {g.theirs, "hello-x86.pdb", "hello-x64.pdb", false}, {g.all, "hello-x86.pdb", "", true}} {
		r := follow(t, g.s, "/?q=hello*", bearer(c.token))
		if r.status != 200 || !strings.Contains(r.body, c.has) || c.not != "" && strings.Contains(r.body, c.not) {
			t.Errorf("the search shows the wrong things: %d\n%s", r.status, r.body)
		}
		r = ask(g.s, "GET", "/", bearer(c.token), browser)
		if strings.Contains(r.body, "/metrics") != c.seesStats || strings.Contains(r.body, " files · ") != c.seesStats {
			t.Errorf("what belongs to no product: shown %v, want %v", !c.seesStats, c.seesStats)
		}
	}
}

func TestPathTokenPages(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	below := "/t/" + g.ours
	r := ask(g.s, "GET", below+"/")
	if r.status != 200 || !strings.Contains(r.body, "http://localhost/t/TOKEN") || strings.Contains(r.body, g.ours) {
		t.Errorf("the start text: %d\n%s\nwant 200, TOKEN in place of the token, and the token nowhere", r.status, r.body)
	}
	r = ask(g.s, "GET", below+"/symbols/")
	if !strings.Contains(r.body, "http://localhost/t/TOKEN/symbols\n") || strings.Contains(r.body, g.ours) {
		t.Errorf("the start text below a prefix:\n%s", r.body)
	}
	r = ask(g.s, "GET", below+"/?q=hello-x64.pdb", "Accept: text/html")
	if links := strings.ReplaceAll(r.body, `href="/-/assets/`, ""); strings.Contains(r.body, g.ours) || strings.Contains(links, `href="/`) || strings.Contains(r.body, `action="/`) {
		t.Errorf("the page shows the token, or leaves it:\n%s", r.body)
	}
	if !strings.Contains(r.body, `href=".`+g.oursPDB.path(t, layout.SymStore)+`"`) {
		t.Errorf("no link to the file:\n%s", r.body)
	}
	r = ask(g.s, "GET", below+"?q=x", "Accept: text/html")
	if r.status != 302 || r.header.Get("Location") != below+"/?q=x" {
		t.Errorf("without a slash: %d %q", r.status, r.header.Get("Location"))
	}
	// Breakpad: the redirect stays below the token.
	th := "/t/" + g.theirs
	for _, prefix := range []string{"", "/symbols"} {
		r = ask(g.s, "GET", th+prefix+"/small.dll/5B1D7C3A9000/small.sym?code_file=small.dll")
		if want := th + prefix + "/small.pdb/" + smallID + "/small.sym?code_file=small.dll"; r.status != 302 || r.header.Get("Location") != want {
			t.Errorf("redirect: %d %q, want %q", r.status, r.header.Get("Location"), want)
		}
	}
	if r := ask(g.s, "GET", below+"/small.dll/5B1D7C3A9000/small.sym"); r.status != 404 {
		t.Errorf("a redirect tells of another product: %d, want 404", r.status)
	}
}

// TestModuleNamedT: a path that begins with /t/ contains a token only if the
// next segment has exactly the form of one.
func TestModuleNamedT(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{})
	h := addAs(t, g.d, "ours", "t.sym", sym("0123456789ABCDEF0123456789ABCDE01", "t", "", 400))
	for _, p := range []string{"/t/0123456789ABCDEF0123456789ABCDE01/t.sym", "/t/t/0123456789ABCDEF0123456789ABCDE01/t.sym"} {
		if r := ask(g.s, "GET", p); r.status != 200 || r.body != string(h.body) {
			t.Errorf(`%s: ask("GET"): %d, %v; want 200, %v`, p, r.status, r.body, string(h.body))
		}
	}
}

// TestTokenBeforeSlashesEscaped: dotnet clients escape the slashes of a key,
// whatever their address begins with.
func TestTokenBeforeSlashesEscaped(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	for prefix, want := range map[string]int{"/t/" + g.ours: 200, "/t/" + g.ours + "/symbols": 200, "/t/" + g.theirs: 404, "/symbols/t/" + g.ours: 401} {
		if r := ask(g.s, "GET", prefix+"/"+strings.ReplaceAll(g.oursPDB.path(t, layout.SymStore)[1:], "/", "%2F")); r.status != want {
			t.Errorf("%s: %d, want %d", auth.Redact(prefix), r.status, want)
		}
	}
}

func TestRevokedWhileServed(t *testing.T) {
	for name, policy := range map[string]auth.PolicyConfig{"closed": demand, "open": {}} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, policy, Config{})
			c := dial(t, listen(t, g.s))
			path := "/t/" + g.ours + g.oursPDB.path(t, layout.SymStore)
			for range 4 {
				if r := c.do("GET", path); r.status != 200 {
					t.Fatalf("before: %d, want 200", r.status)
				}
			}
			g.store.revoke(g.ours)
			g.clock(5 * time.Second)
			if r := c.do("GET", path); r.status != 401 {
				t.Errorf("after: %d, want 401", r.status)
			}
		})
	}
}

// TestAnswersAreNotShared: an answer to one caller is not reused for a caller
// with other rights.
func TestAnswersAreNotShared(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{Anonymous: []string{"ours"}}, Config{})
	c := dial(t, listen(t, g.s))
	ours, theirs := g.oursPDB.path(t, layout.SymStore), g.theirsSym.path(t, layout.BreakpadTree)
	for range 4 {
		for _, q := range []struct {
			path   string
			header []string
			want   int
		}{
			{theirs, []string{bearer(g.theirs)}, 200}, {theirs, nil, 404}, {ours, nil, 200}, {ours, []string{bearer(g.theirs)}, 200},
			{theirs, []string{bearer(g.ours)}, 404}, {"/t/" + g.theirs + theirs, nil, 200}, {theirs, []string{bearer(g.all)}, 200},
		} {
			r := c.do("GET", q.path, q.header...)
			if r.status != q.want {
				t.Errorf("%s: %d, want %d", auth.Redact(q.path), r.status, q.want)
			}
			if r.status == 200 && !strings.HasPrefix(r.header.Get("Cache-Control"), "private") {
				t.Errorf("a file for some clients has Cache-Control %q, want private", r.header.Get("Cache-Control"))
			}
		}
	}
	if n := len(g.s.hot.table); n > 1 {
		t.Errorf("%d answers are kept in memory, want only the one for the caller who may read everything", n)
	}
}

// TestHiddenLooksMissing: for callers without a right to a file, the answer is
// that for a missing one in status, header and body, and it takes the depot as
// many queries.
func TestHiddenLooksMissing(t *testing.T) {
	for name, policy := range map[string]auth.PolicyConfig{"demand": demand, "anonymous": {Anonymous: []string{"ours"}}} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, policy, Config{})
			c := dial(t, listen(t, g.s))
			headers := []string{"Accept-Encoding: gzip", "User-Agent: x"}
			if name == "demand" {
				headers = append(headers, basic("me", g.ours))
			}
			paths := []string{"small.dll/5B1D7C3A9000/small.sym", "v3.1.0/" + g.theirsPDB.obj.Name + "/" + g.theirsPDB.obj.DebugID.GUID.String() + "/1"}
			for _, l := range []layout.Layout{layout.SymStore, layout.SSQP, layout.Unified, layout.Native, layout.LLDB, layout.GDB, layout.Debuginfod, layout.BreakpadTree} {
				for _, h := range []held{g.theirsPDB, g.theirsExe, g.theirsELF, g.theirsSym} {
					for _, p := range l.Paths(h.obj) {
						paths = append(paths, p)
						if l == layout.SymStore {
							paths = append(paths, p[:len(p)-1]+"_")
						}
						if l == layout.Debuginfod {
							paths = append(paths, path.Dir(p)+"/section/.text")
						}
					}
				}
			}
			if len(paths) < 12 {
				t.Fatalf("only %d paths", len(paths))
			}
			c.do("GET", "/"+otherID(paths[0]), headers...) // starts the refresh of the filter
			g.filtered.waitForFilter(t, otherID(paths[0]), "ours")
			for _, p := range paths {
				for _, more := range [][]string{nil, {"Range: bytes=0-9"}, {"If-None-Match: *"}} {
					request := func(p string) (reply, uint64) {
						before := g.d.IndexReads()
						r := c.do("GET", "/"+p, append(more, headers...)...)
						return r, g.d.IndexReads() - before
					}
					c.do("GET", "/"+p, headers...) // so that credentials and states are in memory
					hidden, reads := request(p)
					missing, readsMissing := request(otherID(p))
					if hidden.status != 404 || missing.status != 404 || hidden.body != missing.body || !maps.EqualFunc(hidden.header, missing.header, slices.Equal) {
						t.Errorf("GET /%s: hidden %v\nmissing %v", p, hidden, missing)
					}
					if reads != readsMissing {
						t.Errorf("GET /%s: %d queries for a hidden file, %d for a missing one, want as many", p, reads, readsMissing)
					}
					if !strings.HasPrefix(p, "v3.1.0/") && reads != 0 {
						t.Errorf("GET /%s: %d queries for a hidden file, want none because of the filter", p, reads)
					}
				}
			}
		})
	}
}

// otherID returns a path of the same kind for something that is not there: one
// digit in the longest run of hex digits is another one.
func otherID(p string) string {
	at, most := 0, 0
	for i, n := 0, 0; i < len(p); i++ {
		if n++; !strings.ContainsRune("0123456789abcdefABCDEF", rune(p[i])) {
			n = 0
		}
		if n > most {
			at, most = i, n
		}
	}
	at -= most / 2
	digit := "1"
	if p[at] == '1' {
		digit = "2"
	}
	return p[:at] + digit + p[at+1:]
}

// TestCredentialsHoldNoSlot: a slow check of credentials does not delay other
// requests.
func TestCredentialsHoldNoSlot(t *testing.T) {
	g := newGuarded(t, demand, Config{MaxConns: 1, Wait: 10 * time.Second})
	checking, release := make(chan struct{}), make(chan struct{})
	g.store.busy = func() { checking <- struct{}{}; <-release }
	addr := listen(t, g.s)
	slow := dial(t, addr)
	path := g.oursPDB.path(t, layout.SymStore)
	slow.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + bearer(g.ours) + "\r\n\r\n")
	<-checking
	if r := dial(t, addr).do("GET", "/healthz"); r.status != 200 {
		t.Errorf("GET /healthz while credentials are checked: status %d, want 200", r.status)
	}
	close(release)
	if r := slow.reply("GET"); r.status != 200 {
		t.Errorf("GET %s: status %d, want 200", path, r.status)
	}
}

// TestUnauthorizedSaysHow: a 401 explains how to create and send a token.
func TestUnauthorizedSaysHow(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	r := ask(g.s, "GET", "/", browser)
	if r.status != 401 || !strings.Contains(r.body, "symdepot token new") || !strings.Contains(r.body, "password of any user name") {
		t.Errorf("GET / without credentials: status %d, body %q; want 401, %q in the body and %q in the body", r.status, r.body, "symdepot token new", "password of any user name")
	}
	for path, accept := range map[string]string{"/-/connect": browser, "/": "Accept: */*"} {
		r := ask(g.s, "GET", path, accept, bearer(g.ours))
		if !strings.Contains(r.body, "--symbols-url http://localhost/t/TOKEN CRASH.dmp") {
			t.Errorf("GET %s with %s: the lines for tools have no place for a token:\n%s", path, accept, r.body)
		}
	}
}

// TestJobsGuarded: the job API needs the right to write to all products.
func TestJobsGuarded(t *testing.T) {
	for name, policy := range map[string]auth.PolicyConfig{"closed": demand, "open": {}} {
		g := newGuarded(t, policy, Config{WorkerToken: "of the workers"})
		worker := g.store.add(t, "worker", nil, "write")
		for _, c := range []struct {
			prefix, header string
			want           int
		}{
			{"", "", 401}, {"", bearer(auth.NewToken()), 401}, {"", bearer(g.all), 403}, {"", bearer(g.writes), 403},
			{"", bearer(worker), 200}, {"/t/" + worker, "", 200}, {"", bearer("of the workers"), 200}, {"/t/" + auth.NewToken(), "", 401},
		} {
			var headers []string
			if c.header != "" {
				headers = append(headers, c.header)
			}
			if r := ask(g.s, "POST", c.prefix+"/-/worker/bye", headers...); r.status != c.want {
				t.Errorf("%s: %s %s: %d, want %d", name, auth.Redact(c.prefix), auth.Redact(c.header), r.status, c.want)
			}
		}
	}
}

func TestTokensStayOutOfLogs(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	file := g.oursPDB.path(t, layout.SymStore)
	gone := auth.NewToken()
	for _, token := range []string{g.ours, gone} {
		ask(g.s, "GET", "/t/"+token+file)
		ask(g.s, "GET", "/t/"+strings.ReplaceAll(token, "_", "%5F")+file)
		ask(g.s, "GET", "/t/"+token[:45]+file)
		ask(g.s, "GET", file, bearer(token), "User-Agent: "+token)
		ask(g.s, "POST", "/t/"+token+file)
		ask(g.s, "OPTIONS", "/t/"+token+file)
	}
	metrics := ask(g.s, "GET", "/metrics", bearer(g.all)).body
	for _, token := range []string{g.ours, g.all, gone} {
		for where, text := range map[string]string{"log": g.log.String(), "metrics": metrics} {
			if strings.Contains(text, token[3:40]) {
				t.Errorf("the %s shows a token:\n%s", where, text)
			}
		}
	}
	if !strings.Contains(g.log.String(), `"who":"ours","by":"token","token_id":`) {
		t.Errorf("the log does not say who asked, want %q in it\n%s", `"who":"ours","by":"token","token_id":`, g.log.String())
	}
}

func TestAuditRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := auth.OpenAudit(auth.AuditConfig{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newGuarded(t, auth.PolicyConfig{Anonymous: []string{"ours"}}, Config{Audit: a})
	ours, theirs := g.oursPDB.path(t, layout.SymStore), g.theirsPDB.path(t, layout.SymStore)
	ask(g.s, "GET", ours)                   // public
	ask(g.s, "GET", ours, bearer(g.all))    // public too
	ask(g.s, "GET", theirs, bearer(g.ours)) // not seen
	ask(g.s, "HEAD", theirs, bearer(g.all)) // not read
	ask(g.s, "GET", theirs, bearer(g.all))  // read
	ask(g.s, "GET", "/t/"+g.theirs+theirs)  // read
	ask(g.s, "GET", theirs, bearer(g.all), "Range: bytes=0-99")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range auth.ReadAudit(file, auth.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(e.Who, e.Method, e.Action, e.Protocol, e.Name, e.ID, e.Products, e.Status, e.Bytes, len(e.Content), e.Remote != ""))
	}
	id, size := g.theirsPDB.obj.DebugID.Breakpad(), len(g.theirsPDB.body)
	want := []string{
		fmt.Sprint("all", "token", "read", "symstore", g.theirsPDB.obj.Name, id, []string{"theirs"}, 200, size, 64, true),
		fmt.Sprint("theirs", "token", "read", "symstore", g.theirsPDB.obj.Name, id, []string{"theirs"}, 200, size, 64, true),
		fmt.Sprint("all", "token", "read", "symstore", g.theirsPDB.obj.Name, id, []string{"theirs"}, 206, 100, 64, true),
	}
	if !slices.Equal(got, want) {
		t.Errorf("records\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHotWithGate: answers are kept in memory only for callers who may read
// everything.
func TestHotWithGate(t *testing.T) {
	for name, c := range map[string]struct {
		policy auth.PolicyConfig
		kept   bool
	}{"open": {auth.PolicyConfig{}, true}, "some": {auth.PolicyConfig{Anonymous: []string{"ours"}}, false}, "none": {demand, false}} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, c.policy, Config{})
			conn := dial(t, listen(t, g.s))
			for range 3 {
				conn.do("GET", "/none.pdb/"+smallID+"/none.pdb")
				conn.do("GET", g.theirsSym.path(t, layout.BreakpadTree))
			}
			g.s.hot.mu.RLock()
			kept := len(g.s.hot.table) > 0
			g.s.hot.mu.RUnlock()
			if kept != c.kept {
				t.Errorf("answers are kept: %v, want %v", kept, c.kept)
			}
		})
	}
}

// TestRevokedTokenFromMemory: a path with a token is not answered from memory
// before the token has been checked, however the path is written.
func TestRevokedTokenFromMemory(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{})
	conn := dial(t, listen(t, g.s))
	file := g.theirsSym.path(t, layout.BreakpadTree)
	get := func(path string, want int) {
		t.Helper()
		if r := conn.do("GET", path); r.status != want {
			t.Errorf("GET %s: status %d, want %d", auth.Redact(path), r.status, want)
		}
	}
	prefixes := []string{"/t/", "//t//", "/%74/"}
	for range 3 {
		for _, prefix := range prefixes {
			get(prefix+g.all+file, 200)
		}
		get(file, 200)
	}
	g.store.revoke(g.all)
	g.clock(time.Hour)
	for _, prefix := range prefixes {
		get(prefix+g.all+file, 401)
	}
	get(file, 200)
}

// TestInvalidCredentialsIgnored: on a server without required credentials, invalid
// credentials are ignored.
func TestInvalidCredentialsIgnored(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{})
	for _, h := range []string{bearer(auth.NewToken()), basic("proxy", "user"), "Authorization: Negotiate YII="} {
		if r := ask(g.s, "GET", g.theirsPDB.path(t, layout.SymStore), h); r.status != 200 || !strings.HasPrefix(r.header.Get("Cache-Control"), "public") {
			t.Errorf(`%s: ask("GET"): %d, %q; want 200, one that begins with "public"`, auth.Redact(h), r.status, r.header.Get("Cache-Control"))
		}
	}
}

func TestPublicWithGate(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	if err := g.s.CheckListen("0.0.0.0:0"); err != nil {
		t.Error("credentials are demanded, and yet:", err)
	}
	g = newGuarded(t, auth.PolicyConfig{}, Config{})
	if err := g.s.CheckListen("0.0.0.0:0"); err == nil {
		t.Error("everybody may read everything, and nobody had to say so")
	}
}

func testCert(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// TestTLS: files come whole over TLS, in both versions of HTTP.
func TestTLS(t *testing.T) {
	cert := testCert(t)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	g := newGuarded(t, demand, Config{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	addr := listen(t, g.s)
	big := addAs(t, g.d, "ours", "big.sym", sym(bigID, "big.pdb", "", 3<<20+17))
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: h2,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
		if !h2 {
			tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost"+big.path(t, layout.BreakpadTree), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("me", g.ours)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Equal(body, big.body) {
				t.Errorf("%d bytes, %v; want %d", len(body), err, len(big.body))
			}
			if want := map[bool]int{false: 1, true: 2}[h2]; resp.ProtoMajor != want {
				t.Errorf("HTTP/%d, want %d", resp.ProtoMajor, want)
			}
		}
		tr.CloseIdleConnections()
	}
}
