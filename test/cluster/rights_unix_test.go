//go:build unix

package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// soon is how long a change of rights may take to reach every server.
const soon = 5 * time.Second

// What a caller gets at the path of a file.
const (
	getsNothing = "404"
	getsRefusal = "401"
	getsForm    = "public form"
	getsWhole   = "whole file"
)

// rightsPath is the path of the file of these tests.
const rightsPath = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"

// rightsWorld has servers of one depot whose rights change.
type rightsWorld struct {
	t     *testing.T
	conf  string // the file of their configuration
	users string
	nodes []*commandtest.Serving
	run   func(args ...string) string
	whole int64
	who   map[string]string // the field Authorization of each caller
}

// TestRightsNodes: what is made public or private, whether by the configuration, by a token or in
// the file of users, counts within five seconds at each of several servers, though all of them
// remember what each caller got before.
func TestRightsNodes(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		w := newRightsWorld(t)
		c := commandtest.NewClusterWith(t, 3, func(int) []string { return []string{"--config", w.conf} })
		w.nodes, w.run = c.Nodes, func(args ...string) string { return c.Run(t, args...) }
		w.changeAll()
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		w := newRightsWorld(t)
		depot := filepath.Join(t.TempDir(), "depot")
		w.run = func(args ...string) string {
			code, out, errs := commandtest.Symdepot(t, depot, args...)
			if code != 0 {
				t.Fatalf("symdepot %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
			}
			return out
		}
		w.run("add", "--product", "other", "../../testdata/elf/e-x86")
		for range 2 {
			w.nodes = append(w.nodes, commandtest.ServeDepot(t, depot, "--quiet", "--config", w.conf))
		}
		w.changeAll()
	})
}

func newRightsWorld(t *testing.T) *rightsWorld {
	t.Helper()
	dir := t.TempDir()
	w := &rightsWorld{t: t, conf: filepath.Join(dir, "symdepot.yaml"), users: commandtest.WriteUsers(t, dir, "alice", "bob"), who: map[string]string{}}
	password := func(name string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":secret")) }
	w.who["anonymous"], w.who["alice"] = "", password("alice")
	w.configure("anonymous: []", "{who: ['basic:alice'], read: [other], public: [engine]}")
	return w
}

// configure writes the rights of the configuration.
func (w *rightsWorld) configure(open, grant string) {
	w.t.Helper()
	text := fmt.Sprintf("auth:\n  users_file: %s\n  %s\n  grants:\n    - %s\n    - {who: ['basic:bob'], admin: true}\n", w.users, open, grant)
	next := w.conf + ".next" // a server never reads half of it
	commandtest.Write(w.t, next, text)
	if err := os.Rename(next, w.conf); err != nil {
		w.t.Fatal(err)
	}
}

// gets says what a caller gets from a server.
func (w *rightsWorld) gets(node *commandtest.Serving, who string) string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, node.URL+rightsPath, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if c := w.who[who]; c != "" {
		req.Header.Set("Authorization", c)
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	switch {
	case err != nil:
		w.t.Fatal(err)
	case resp.StatusCode != http.StatusOK:
		if cc := resp.Header.Get("Cache-Control"); cc != "no-cache" && cc != "no-store" {
			w.t.Errorf("%s: status %d with Cache-Control %q, want one that nobody keeps", who, resp.StatusCode, cc)
		}
		return fmt.Sprint(resp.StatusCode)
	case n == w.whole:
		return getsWhole
	}
	if cc := resp.Header.Get("Cache-Control"); cc != "private, no-cache" {
		w.t.Errorf("%s: a public form with Cache-Control %q, want that clients ask again", who, cc)
	}
	return getsForm
}

// expect fails unless each caller gets what is wanted, from each server, five seconds after a
// change. It asks so often that all servers remember the answers.
func (w *rightsWorld) expect(change string, begun time.Time, want map[string]string) {
	w.t.Helper()
	for _, who := range slices.Sorted(maps.Keys(want)) {
		for i, node := range w.nodes {
			last := ""
			symtest.Await(w.t, time.Minute, fmt.Sprintf("%s: the %s of %s at server %d", change, want[who], who, i), func() bool {
				last = w.gets(node, who)
				return last == want[who]
			})
			if d := time.Since(begun); d > soon {
				w.t.Errorf("%s: %s gets the %s of server %d after %v, want at most %v", change, who, want[who], i, d, soon)
			}
		}
	}
	w.t.Logf("%s: after %v", change, time.Since(begun).Round(time.Millisecond))
	for range 3 {
		for who, wanted := range want {
			for i, node := range w.nodes {
				if got := w.gets(node, who); got != wanted {
					w.t.Errorf("%s: %s gets the %s of server %d again, want the %s", change, who, got, i, wanted)
				}
			}
		}
	}
}

// change changes the rights of the configuration, which all servers are told to read.
func (w *rightsWorld) change(open, grant string, want map[string]string) {
	w.t.Helper()
	w.configure(open, grant)
	begun := time.Now()
	for _, node := range w.nodes {
		if err := node.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			w.t.Fatal(err)
		}
	}
	w.expect(open+" "+grant, begun, want)
}

// makeToken makes a token as a person, at one of the servers.
func (w *rightsWorld) makeToken(who string, spec wire.TokenSpec) string {
	w.t.Helper()
	body, err := json.Marshal(spec)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.nodes[0].URL+wire.TokensPath, strings.NewReader(string(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", w.who[who])
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var made wire.TokenInfo
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.Token == "" {
		w.t.Fatalf("a token of %s: status %d, %v", who, resp.StatusCode, err)
	}
	return "Bearer " + made.Token
}

// changeAll changes all kinds of rights, to and fro.
func (w *rightsWorld) changeAll() {
	const private = "../../testdata/pdb/hello-x64.pdb"
	info, err := os.Stat(private)
	if err != nil {
		w.t.Fatal(err)
	}
	w.whole = info.Size()
	w.run("add", "--product", "engine", private)
	ours := strings.TrimSpace(w.run("token", "new", "--name", "ours"))
	w.who["ours"] = "Bearer " + ours
	w.who["alice's token"] = w.makeToken("alice", wire.TokenSpec{Name: "t", Scopes: []string{"read:public"}, Products: []string{"engine"}})
	symtest.Await(w.t, time.Minute, "the public form", func() bool { return w.gets(w.nodes[0], "alice") == getsForm })

	const nobody, aliceForms, aliceAll, aliceNone = "anonymous: []", "{who: ['basic:alice'], read: [other], public: [engine]}",
		"{who: ['basic:alice'], read: [other, engine]}", "{who: ['basic:alice'], read: [other]}"
	w.expect("at first", time.Now(), map[string]string{"anonymous": getsNothing, "alice": getsForm, "alice's token": getsForm, "ours": getsWhole})
	for range 2 { // to and fro: what was remembered before counts as little
		w.change("public: [engine]", aliceNone, map[string]string{"anonymous": getsForm, "alice": getsForm, "alice's token": getsForm, "ours": getsWhole})
		w.change("anonymous: [engine]", aliceNone, map[string]string{"anonymous": getsWhole, "alice": getsWhole, "alice's token": getsWhole})
		w.change(nobody, aliceAll, map[string]string{"anonymous": getsNothing, "alice": getsWhole, "alice's token": getsForm})
		w.change(nobody, aliceNone, map[string]string{"anonymous": getsNothing, "alice": getsNothing, "alice's token": getsNothing, "ours": getsWhole})
		w.change("anonymous: ['*']", aliceNone, map[string]string{"anonymous": getsWhole, "alice": getsWhole, "alice's token": getsWhole})
		w.change("demand: true", aliceForms, map[string]string{"anonymous": getsRefusal, "alice": getsForm, "alice's token": getsForm, "ours": getsWhole})
	}
	partner := strings.TrimSpace(w.run("token", "new", "--name", "partner", "--product", "engine", "--scope", "read:public"))
	w.who["partner"] = "Bearer " + partner
	w.expect("a new token", time.Now(), map[string]string{"partner": getsForm})
	id := regexp.MustCompile(`"id":"([0-9a-f]{12})"[^\n]*"name":"partner"`).FindStringSubmatch(w.run("token", "list", "--json"))
	if id == nil {
		w.t.Fatal("the list has no token partner")
	}
	begun := time.Now()
	w.run("token", "revoke", id[1])
	w.expect("a revoked token", begun, map[string]string{"partner": getsRefusal})
	begun = time.Now()
	commandtest.WriteUsers(w.t, filepath.Dir(w.users), "bob")
	w.expect("a user who has gone", begun, map[string]string{"alice": getsRefusal, "alice's token": getsRefusal})
	w.configure("demand: true", "{who: ['basic:alice'], reed: [engine]}")
	for _, node := range w.nodes {
		if err := node.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			w.t.Fatal(err)
		}
		node.Log.Await(w.t, "the rights stay as they are")
	}
	w.expect("a faulty configuration", time.Now(), map[string]string{"anonymous": getsRefusal, "ours": getsWhole})
}
