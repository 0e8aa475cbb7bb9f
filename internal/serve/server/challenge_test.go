package server

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/layout"
)

// symbolPath is a path of a file of the product theirs, and one of the same kind for a
// file that is nowhere.
type symbolPath struct {
	path, missing string
	method, body  string // "": GET and HEAD
	sent          bool   // the file is there
}

// symbolPaths returns paths in every layout and every form of every protocol.
func symbolPaths(t *testing.T, g *guarded) []symbolPath {
	t.Helper()
	var list []symbolPath
	seen := map[string]bool{}
	add := func(p string, sent bool) {
		if !seen[p] {
			seen[p] = true
			list = append(list, symbolPath{path: "/" + p, missing: "/" + otherID(p), sent: sent})
		}
	}
	for l := layout.None + 1; l <= layout.Flat; l++ {
		for _, h := range []held{g.theirsPDB, g.theirsExe, g.theirsELF, g.theirsSym} {
			for _, p := range l.Paths(h.obj) {
				segs, err := layout.Segments("/" + p)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := layout.Route(segs); err != nil {
					continue // no path of a server
				}
				add(p, l != layout.SymCache)
				for _, prefix := range layout.Prefixes {
					if h.obj == g.theirsPDB.obj {
						add(prefix+"/"+p, l != layout.SymCache)
					}
				}
				switch l {
				case layout.SymStore:
					add(p[:len(p)-1]+"_", false) // a cabinet
					add(path.Dir(p)+"/file.ptr", false)
					add(strings.ReplaceAll(p, "/", "%2F"), true)
				case layout.BreakpadTree:
					add(strings.TrimSuffix(p, path.Ext(p))+".gsym", false)
				case layout.Debuginfod:
					add(path.Dir(p)+"/section/.shstrtab", true)
					add(path.Dir(p)+"/source/usr/src/main.c", false)
					add(path.Dir(p)+"/gsym", false)
				}
			}
		}
	}
	add("v3.1.0/"+g.theirsPDB.obj.Name+"/"+g.theirsPDB.obj.DebugID.GUID.String()+"/1", false)
	add("-/src/sha256/"+strings.Repeat("0123456789abcdef", 4)+"/main.c", false)
	add("-/src/theirs/1.0/0123456789abcdef/main.c", false)
	add("000Admin/0000000001", false)
	add("a/b/c/d/e/0123456789", false)
	add("0123456789", false)
	add("refs.ptr", false)
	for _, api := range slices.Sorted(maps.Keys(symbolicatePaths)) {
		if !strings.HasPrefix(api, "/team/") {
			list = append(list, symbolPath{path: api, missing: api, method: "POST", body: symbolicatePaths[api], sent: true})
		}
	}
	if len(list) < 60 {
		t.Fatalf("only %d paths", len(list))
	}
	return list
}

// equal fails unless two answers are equal in status, header and body.
func equal(t *testing.T, what string, got, want reply) {
	t.Helper()
	if got.status != want.status || got.body != want.body || !maps.EqualFunc(got.header, want.header, slices.Equal) {
		t.Errorf("%s: got %v\nwant %v", what, got, want)
	}
}

// withUsers makes the server take the passwords of alice, who reads theirs, and of carol,
// who has no rights.
func (g *guarded) withUsers(t *testing.T, policy auth.PolicyConfig) {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(users, []byte("alice:"+string(hash)+"\ncarol:"+string(hash)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	policy.Grants = []auth.Grant{{Who: []string{"alice"}, Read: []string{"theirs"}}}
	gate, err := auth.New(auth.Config{Users: users, Policy: policy}, g.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	g.s = newServer(t, Config{Gate: gate, Depot: g.d, TwoTier: true, API: g.s.cfg.API, Pages: g.s.cfg.Pages})
}

// wrongWays are credentials that are not valid, with what precedes the path.
func wrongWays() map[string][2]string {
	return map[string][2]string{
		"an unknown token": {"", bearer(auth.NewToken())}, "a wrong password": {"", basic("alice", "wrong")}, "an unknown user": {"", basic("dave", "secret")},
		"garbage": {"", "Authorization: !"}, "an unknown token in the path": {"/t/" + auth.NewToken(), ""},
	}
}

// TestChallenges asks for files that are there, hidden and missing in every protocol. Who
// has no valid credentials is asked for some, whatever is requested, and nothing is looked
// up. Who has some gets 404 for what is hidden or missing, and never 403 or 407.
func TestChallenges(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	g.withUsers(t, demand)
	paths := symbolPaths(t, g)
	methods := func(p *symbolPath) []string {
		if p.method != "" {
			return []string{p.method}
		}
		return []string{"GET", "HEAD"}
	}
	send := func(method, target, body, credentials string) reply {
		t.Helper()
		var headers []string
		if credentials != "" {
			headers = append(headers, credentials)
		}
		r := askBody(g.s, method, target, body, headers...)
		if r.status == 403 || r.status == 407 {
			t.Errorf("%s %s: status %d, which makes debuggers give the server up", method, auth.Redact(target), r.status)
		}
		return r
	}

	refused := maps.Clone(wrongWays())
	refused["no credentials"] = [2]string{"", ""}
	refused["no rights"] = [2]string{"", basic("carol", "secret")}
	for who, way := range refused {
		t.Run(who, func(t *testing.T) {
			want := map[string]reply{}
			want["GET"], want["HEAD"] = send("GET", way[0]+"/index2.txt", "", way[1]), send("HEAD", way[0]+"/index2.txt", "", way[1])
			want["POST"] = want["GET"]
			first, status := "sign in with: symdepot login http://localhost\n", 401
			if who == "no rights" {
				first, status = "not found: not authorized to use this server: it knows carol, who has no rights there; ", 404
			}
			if r := want["GET"]; r.status != status || !strings.HasPrefix(r.body, first) {
				t.Fatalf("GET /index2.txt: status %d, body %q; want %d and one that begins with %q", r.status, r.body, status, first)
			}
			if offers := want["GET"].header["Www-Authenticate"]; (status == 401) != (len(offers) == 2 && strings.HasPrefix(offers[0], "Basic ") && strings.HasPrefix(offers[1], "Bearer ")) {
				t.Errorf("status %d offers %q, want Basic and Bearer with 401, and nothing else", status, offers)
			}
			head := want["HEAD"]
			head.body = want["GET"].body
			equal(t, "HEAD", head, want["GET"])
			before := g.d.IndexReads()
			for _, p := range paths {
				for _, method := range methods(&p) {
					for _, target := range []string{p.path, p.missing} {
						got := send(method, way[0]+target, p.body, way[1])
						got.header.Del("Connection") // of a request with a body that is not read
						equal(t, method+" "+target, got, want[method])
					}
				}
			}
			for _, own := range []string{"/metadata?key=glob&value=/usr/bin/*", "/pingme.txt", "/metrics", "/missing.csv"} {
				equal(t, own, send("GET", way[0]+own, "", way[1]), want["GET"])
			}
			if n := g.d.IndexReads() - before; n > 0 {
				t.Errorf("%d queries, want none: nothing is looked up", n)
			}
		})
	}

	for who, credentials := range map[string]string{"another product": bearer(g.ours), "no right to read": bearer(g.writes)} {
		t.Run(who, func(t *testing.T) {
			for _, p := range paths {
				if p.method != "" {
					continue
				}
				for _, method := range methods(&p) {
					hidden, missing := send(method, p.path, "", credentials), send(method, p.missing, "", credentials)
					if hidden.status != 404 {
						t.Errorf("%s %s: status %d, want 404", method, p.path, hidden.status)
					}
					equal(t, method+" "+p.path, hidden, missing)
				}
			}
		})
	}
	for who, credentials := range map[string]string{"a token": bearer(g.theirs), "a password": basic("alice", "secret")} {
		t.Run(who, func(t *testing.T) {
			for _, p := range paths {
				for _, method := range methods(&p) {
					if p.sent { // others would have to be made first
						if r := send(method, p.path, p.body, credentials); r.status != 200 {
							t.Errorf("%s %s: status %d, want 200", method, p.path, r.status)
						}
					}
					if r := send(method, p.missing, p.body, credentials); p.method == "" && r.status != 404 {
						t.Errorf("%s %s: status %d, want 404", method, p.missing, r.status)
					}
				}
			}
		})
	}
}

// TestAskingPrefix: where anonymous callers may read a product, what they may not read
// looks missing, and below the prefix everybody is asked for credentials.
func TestAskingPrefix(t *testing.T) {
	policy := auth.PolicyConfig{Anonymous: []string{"ours"}}
	g := newGuarded(t, policy, Config{})
	g.withUsers(t, policy)
	ours, below := g.oursPDB.path(t, layout.SymStore), "/-/private"
	want := ask(g.s, "GET", below+"/index2.txt")
	if want.status != 401 || want.header.Get("Www-Authenticate") == "" || !strings.HasPrefix(want.body, "sign in with: symdepot login http://localhost\n") {
		t.Fatalf("GET %s/index2.txt: %v, want 401, an offer and how to sign in", below, want)
	}
	before := g.d.IndexReads()
	for _, p := range symbolPaths(t, g) {
		if p.method != "" {
			continue
		}
		equal(t, below+p.path, ask(g.s, "GET", below+p.path), want)
		equal(t, below+p.missing, ask(g.s, "GET", below+p.missing), want)
	}
	equal(t, "of a product that everybody reads", ask(g.s, "GET", below+ours), want)
	if n := g.d.IndexReads() - before; n > 0 {
		t.Errorf("%d queries below the prefix, want none: nothing is looked up", n)
	}
	theirs := g.theirsPDB.path(t, layout.SymStore)
	for _, tt := range []struct {
		path, credentials string
		status            int
	}{
		{ours, "", 200}, {theirs, "", 404}, {otherID(theirs), "", 404}, {below + ours, bearer(g.theirs), 200}, {below + theirs, bearer(g.theirs), 200},
		{below + theirs, basic("alice", "secret"), 200}, {below + theirs, bearer(g.ours), 404}, {below + otherID(theirs), bearer(g.theirs), 404},
		{below + theirs, bearer(auth.NewToken()), 401}, {"//-//private/" + theirs, "", 401}, {"/%2D/private" + ours, "", 401},
		{below, bearer(g.theirs), 200}, {below + "x" + ours, "", 404}, {"/symbols" + below + ours, "", 404},
	} {
		if r := ask(g.s, "GET", tt.path, tt.credentials); r.status != tt.status {
			t.Errorf("GET %s with %s: status %d, want %d", tt.path, auth.Redact(tt.credentials), r.status, tt.status)
		}
	}
	r := ask(g.s, "GET", below+"/small.dll/5B1D7C3A9000/small.sym", bearer(g.theirs))
	if to := below + "/small.pdb/" + smallID + "/small.sym"; r.status != 302 || r.header.Get("Location") != to {
		t.Errorf("a redirect: status %d to %q, want 302 to %q", r.status, r.header.Get("Location"), to)
	}
	open := newServer(t, Config{Depot: g.d})
	if r := ask(open, "GET", below+ours); r.status != 200 || r.body != string(g.oursPDB.body) {
		t.Errorf("a server that asks nobody: status %d with %d bytes, want the file", r.status, len(r.body))
	}
}
