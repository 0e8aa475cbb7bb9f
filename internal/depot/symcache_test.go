package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symcache"
)

const (
	appGUID = "0E7712BEAF064421884B496F833C8EC1"
	appPath = "/app.pdb/" + appGUID
)

// symAsk is a request as a path says it.
func symAsk(t *testing.T, path string) SymCacheAsk {
	t.Helper()
	return SymCacheAsk{Request: request(t, strings.TrimPrefix(path, "/")).SymCache}
}

// told is an answer in words, read to its end. The client waits for up to 20 s.
func told(t *testing.T, d *Depot, ask SymCacheAsk) string {
	t.Helper()
	ask.Hold = holdFor(20 * time.Second)
	a, err := d.AnswerSymCache(t.Context(), ask)
	switch {
	case err != nil:
		t.Error(err)
		return err.Error()
	case a.Action != symcache.Send:
		return a.Action.String()
	}
	b, err := readAll(a.File)
	if err := errors.Join(err, a.File.Close()); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("%s %s", a.Version, b)
}

// holdFor is a client that waits for some time in all.
func holdFor(limit time.Duration) func(context.Context, func(context.Context) error) (bool, error) {
	var end time.Time
	return func(ctx context.Context, wait func(context.Context) error) (bool, error) {
		if end.IsZero() {
			end = time.Now().Add(limit)
		}
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		if err := wait(ctx); err != nil && ctx.Err() == nil {
			return false, err
		}
		return ctx.Err() != nil, nil
	}
}

// puts writes files below a folder, all that their names say.
func puts(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func openWith(t *testing.T, opt Options) *Depot {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
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

// listing names all files below a folder with their sizes and times.
func listing(t *testing.T, dir string) (all string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all += fmt.Sprintln(p, info.Size(), info.ModTime().UnixNano())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSymCacheFolder: a folder of SymCache files is served in any case of its
// names and while other programs write to it, and is never changed.
func TestSymCacheFolder(t *testing.T) {
	dir := t.TempDir()
	puts(t, dir, map[string]string{
		"App.pdb/" + appGUID + "1/App.pdb-v3.1.0.symcache":                   "one",
		"App.pdb/" + appGUID + "1/App.pdb-v4.0.0.symcache.pending":           "half",
		"App.pdb/" + appGUID + "1/App.pdb-v3.0.0.negativesymcache":           "2020-01-26T00:00:00Z",
		"App.pdb/" + appGUID + "1/App.pdb-v3.0.1.symcache":                   "",
		"App.pdb/" + appGUID + "1/App.pdb-v3.2.0.symcache":                   "SYMC\x08\x00\x00\x00",
		"App.pdb/" + appGUID + "1/Other.pdb-v3.3.0.symcache":                 "other",
		"App.pdb/" + appGUID + "1/App.pdb-v3.300.0.symcache":                 "no version",
		"App.pdb/" + strings.ToLower(appGUID) + "21/app.pdb-v3.1.0.symcache": "thirty-three",
		"App.pdb/" + appGUID + "0000000A/app.pdb-V3.1.0.SYMCACHE":            "ten",
		"chrome.dll-54e3aecf000d3000v1.symcache":                             "v1",
		"chrome.dll-90e6cd6c673057e64c4c44205044422e1v2.symcache":            "v2",
		".temp/" + appGUID + "1/.temp-v3.1.0.symcache":                       "hidden",
		"deep/App.pdb/" + appGUID + "2/App.pdb-v3.1.0.symcache":              "too deep",
		"App.pdb/notakey/App.pdb-v3.1.0.symcache":                            "no key",
		"App.pdb/" + strings.Repeat("0", 31) + "x1/App.pdb-v3.1.0.symcache":  "no key",
		"App.pdb/" + appGUID + "1/sub/App.pdb-v3.5.0.symcache":               "too deep",
	})
	before := listing(t, dir)
	d := openWith(t, Options{SymCache: SymCacheOptions{Folders: []string{dir}}})
	for path, want := range map[string]string{
		"/v3.1.0" + appPath:              "3.1.0 one",
		"/v3.1.0/APP.PDB/" + appGUID:     "3.1.0 one",
		"/v3.9.0" + appPath:              "3.1.0 one", // 3.2.0 is Sentry's
		"/v3.1.0" + appPath + "/33":      "3.1.0 thirty-three",
		"/v3.1.0" + appPath + "/10":      "3.1.0 ten",
		"/v3.1.0" + appPath + "/2":       "not found",
		"/v3.1.0/other.pdb/" + appGUID:   "not found",
		"/v2.9.9" + appPath:              "not found",
		"/v3.1.0/.temp/" + appGUID + "1": "",
	} {
		if want == "" {
			continue // layout refuses it
		}
		if got := told(t, d, symAsk(t, path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the folder was changed:\n%s\n%s", before, after)
	}
	// Other programs go on filling it.
	puts(t, dir, map[string]string{"APP.PDB/" + appGUID + "1/APP.PDB-v3.4.0.symcache": "four", "New.pdb/" + appGUID + "1/New.pdb-v3.1.0.symcache": "new"})
	if runtime.GOOS == "linux" { // one folder by two spellings
		if got := told(t, d, symAsk(t, "/v3.9.0/APP.PDB/"+appGUID)); got != "3.4.0 four" && got != "3.1.0 one" {
			t.Errorf(`the folder with two spellings answers %q, want "3.4.0 four" or "3.1.0 one"`, got)
		}
		d.SymCache().Rescan()
	}
	if got := told(t, d, symAsk(t, "/v3.9.0"+appPath)); got != "3.4.0 four" {
		t.Errorf(`told: %q, want "3.4.0 four"`, got)
	}
	if got := told(t, d, symAsk(t, "/v3.1.0/New.pdb/"+appGUID)); got != "3.1.0 new" {
		t.Errorf(`told: %q, want "3.1.0 new"`, got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "New.pdb")); err != nil {
		t.Fatal(err)
	}
	if got := told(t, d, symAsk(t, "/v3.1.0/new.pdb/"+appGUID)); got != "not found" {
		t.Errorf(`told: %q, want "not found"`, got)
	}
	counts, err := d.SymCache().CountFolders(t.Context())
	if err != nil || len(counts) != 1 {
		t.Fatalf("CountFolders: %d folders, %v; want 1", len(counts), err)
	}
	if count := counts[0]; count.Files != 5 || count.Old != 2 || count.Unfinished != 1 || count.Negative != 1 {
		t.Errorf("got %+v, want Files 5, Old 2, Unfinished 1, Negative 1", count)
	}
	// Only who sees everything sees it.
	ask := symAsk(t, "/v3.1.0"+appPath)
	ask.Products = []string{"Product"}
	if got := told(t, d, ask); got != "not found" {
		t.Errorf(`told: %q, want "not found"`, got)
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "d"), Options{SymCache: SymCacheOptions{Folders: []string{dir + "x"}}}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestSymCacheFolderOutside: a link out of a folder leads nowhere.
func TestSymCacheFolderOutside(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	puts(t, out, map[string]string{"secret": "secret", appGUID + "1/app.pdb-v3.1.0.symcache": "secret"})
	puts(t, dir, map[string]string{"app.pdb/" + appGUID + "1/readme.txt": "x"})
	for from, to := range map[string]string{"app.pdb/" + appGUID + "1/app.pdb-v3.1.0.symcache": "secret", "b.pdb": "."} {
		if err := os.Symlink(filepath.Join(out, to), filepath.Join(dir, from)); err != nil {
			t.Skip(err)
		}
	}
	d := openWith(t, Options{SymCache: SymCacheOptions{Folders: []string{dir}}})
	for _, path := range []string{"/v3.1.0" + appPath, "/v3.1.0/b.pdb/" + appGUID} {
		if got := told(t, d, symAsk(t, path)); got != "not found" {
			t.Errorf(`%s: told: %s, want "not found"`, path, got)
		}
	}
}

func TestSymCacheHexAge(t *testing.T) {
	dir := t.TempDir()
	puts(t, dir, map[string]string{"app.pdb/" + appGUID + "21/app.pdb-v3.1.0.symcache": "x"})
	d := openWith(t, Options{SymCache: SymCacheOptions{Folders: []string{dir}}})
	for age, want := range map[string][2]string{
		"33": {"3.1.0 x", "3.1.0 x"}, "21": {"not found", "3.1.0 x"}, "1f": {"not found", "not found"}, "1": {"not found", "not found"},
	} {
		for i, hex := range []bool{false, true} {
			ask := symAsk(t, "/v3.1.0"+appPath+"/"+age)
			if ask.HexAge = hex; told(t, d, ask) != want[i] {
				t.Errorf("age %s, hex too %v: %s, want %s", age, hex, told(t, d, ask), want[i])
			}
		}
	}
}

// TestSymCacheStore: SymCache files that were made are written to the store
// too, and stay readable after the depot has evicted them.
func TestSymCacheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "SymCache")
	p := newPlant(t, Options{SymCache: SymCacheOptions{Store: dir, StoreBytes: 1}})
	body, g := pdbOf(t, 1)
	tx := add(t, p.Depot, "Product", file{"App.pdb", body})
	key := keyOf("App.pdb", g)
	path := "/v3.1.0/app.pdb/" + g.Upper()
	want := "3.1.0 " + p.made(t, path)
	kept := filepath.Join(dir, "app.pdb", key.Folder(), "app.pdb-v3.1.0.symcache")
	if b, err := os.ReadFile(kept); err != nil || "3.1.0 "+string(b) != want {
		t.Fatalf("os.ReadFile: %q, error %v, %v; want %v", b, err, "3.1.0 "+string(b), want)
	}
	if left, err := os.ReadDir(filepath.Join(dir, ".symdepot-tmp")); err != nil || len(left) > 0 {
		t.Errorf("os.ReadDir: %v, error %v; want none", left, err)
	}
	if _, err := p.Cache.Drop(t.Context(), cache.Filter{}); err != nil {
		t.Fatal(err)
	}
	if got := told(t, p.Depot, symAsk(t, path)); got != want {
		t.Errorf("told: %v, want %v", got, want)
	}
	// The PDB is there: the file can be made again, and may go.
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(kept, old, old); err != nil {
		t.Fatal(err)
	}
	p.clock.move(2 * time.Hour)
	told(t, p.Depot, symAsk(t, path))
	if info, err := os.Stat(kept); err != nil || time.Since(info.ModTime()) > time.Hour {
		t.Error("its use was not noted", err)
	}
	if _, err := p.Retention.Remove(t.Context(), tx, ""); err != nil {
		t.Fatal(err)
	}
	if e, err := p.SymCache().TrimSymCacheStore(t.Context()); err != nil || e.Files != 0 {
		t.Errorf("the only copy went: %+v, %v", e, err)
	}
	add(t, p.Depot, "Product", file{"App.pdb", body})
	if e, err := p.SymCache().TrimSymCacheStore(t.Context()); err != nil || e.Files != 1 {
		t.Errorf("TrimSymCacheStore: %+v, error %v; want Files 1", e, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != ".symdepot-tmp" {
		t.Errorf(`os.ReadDir: %v, error %v; want length 1, entries[0].Name() ".symdepot-tmp"`, entries, err)
	}
	if got := told(t, p.Depot, symAsk(t, path)); got != want {
		t.Errorf("told: %v, want %v", got, want)
	}
}

// made waits until a file is made and returns it.
func (p *plant) made(t *testing.T, path string) string {
	t.Helper()
	_, body, _ := strings.Cut(told(t, p.Depot, symAsk(t, path)), " ")
	return body
}

// farServer is another SymCache server.
type farServer struct{ *elsewhere }

func (farServer) Traits() fetch.Traits { return fetch.Traits{SymCacheServer: true} }

// gives answers with a file of a version.
func (e farServer) gives(version, body string) {
	e.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) { return symReply(version, body), nil }
}

func symReply(version, body string) *fetch.Reply {
	return &fetch.Reply{Body: io.NopCloser(strings.NewReader(body)), Size: int64(len(body)), Name: "x", Path: "http://far/x",
		Header: http.Header{"Content-Type": {"application/vnd.ms-symcache; version=" + version}}}
}

func withFar(t *testing.T, opt Options, servers ...farServer) (*Depot, *movable) {
	t.Helper()
	c := &movable{}
	opt.Now = c.now
	for i, s := range servers {
		opt.Upstreams = append(opt.Upstreams, Upstream{Source: s, Rank: i})
	}
	return openWith(t, opt), c
}

func TestSymCacheUpstream(t *testing.T) {
	far := farServer{&elsewhere{name: "far"}}
	store := t.TempDir()
	d, clock := withFar(t, Options{SymCache: SymCacheOptions{Store: store}}, far)
	var seen fetch.Ask
	polls := 0
	far.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		seen = ask
		if polls++; polls < 3 {
			return nil, &fetch.Failure{Source: "far", Class: fetch.ClassNotFound, Retry: time.Now(), Err: errors.New("being made")}
		}
		return symReply("3.0.7", "far away"), nil
	}
	if d.Fetches() {
		t.Error("it is asked for other files too")
	}
	ask := symAsk(t, "/v3.1.0/App.pdb/"+appGUID+"/33")
	ask.Via = []string{"us"}
	if got := told(t, d, ask); got != "3.0.7 far away" || polls != 3 {
		t.Errorf("%s after %d polls, want %q and 3", got, polls, "3.0.7 far away")
	}
	if seen.Request.SymCache.Key.ID.Age != 33 || seen.Request.Name != "App.pdb" || seen.Request.SymCache.Version.Segment() != "v3.1.0" || len(seen.Via) != 1 {
		t.Errorf(`got %+v, want Request.SymCache.Key.ID.Age 33, Request.Name "App.pdb", Request.SymCache.Version.Segment() "v3.1.0", Via of length 1`, seen)
	}
	if b, err := os.ReadFile(filepath.Join(store, "App.pdb", appGUID+"21", "App.pdb-v3.0.7.symcache")); err != nil || string(b) != "far away" {
		t.Errorf(`os.ReadFile: %q, error %v; want "far away"`, b, err)
	}
	// It has nothing newer, and is not asked again.
	exceeds := ask
	exceeds.Exceeds = symcache.Version{Major: 3, Patch: 7}
	if got := told(t, d, exceeds); got != "not modified" || polls != 3 {
		t.Errorf("%s after %d polls, want %q and 3", got, polls, "not modified")
	}
	if got := told(t, d, ask); got != "3.0.7 far away" || polls != 3 {
		t.Errorf("%s after %d polls, want %q and 3", got, polls, "3.0.7 far away")
	}
	// Later it may have; the old file is sent at once.
	clock.move(2 * time.Hour)
	far.gives("3.1.0", "newer")
	if got := told(t, d, ask); got != "3.0.7 far away" {
		t.Errorf(`told: %q, want "3.0.7 far away"`, got)
	}
	d.SymCache().Wait()
	if got := told(t, d, ask); got != "3.1.0 newer" {
		t.Errorf(`told: %q, want "3.1.0 newer"`, got)
	}
}

func TestSymCacheUpstreamFails(t *testing.T) {
	one, two := farServer{&elsewhere{name: "one"}}, farServer{&elsewhere{name: "two"}}
	d, clock := withFar(t, Options{}, one, two)
	path := "/v3.2.0" + appPath
	sync := func() string { // as a client that comes again
		for range 10 {
			got := told(t, d, symAsk(t, path))
			if got != "come again" {
				return got
			}
			d.SymCache().Wait()
		}
		return "come again, for ever"
	}
	one.fails(fetch.ClassTimeout)
	two.fails(fetch.ClassNotFound)
	for range 3 {
		if got := sync(); got != "not found" {
			t.Errorf(`sync: %q, want "not found"`, got)
		}
	}
	if one.asked.Load() != 1 || two.asked.Load() != 1 {
		t.Errorf("asked %d and %d times, want 1 and 1", one.asked.Load(), two.asked.Load())
	}
	// A minute later the one that did not answer is worth another question.
	clock.move(2 * time.Minute)
	one.gives("4.0.0", "not for this client")
	if got := sync(); got != "not found" || one.asked.Load() != 2 || two.asked.Load() != 1 {
		t.Errorf("%s; asked %d and %d times; want %q, 2 and 1", got, one.asked.Load(), two.asked.Load(), "not found")
	}
	for _, bad := range []string{"", "SYMC\x08\x00\x00\x00", "CMYS"} {
		clock.move(2 * time.Hour)
		one.gives("3.1.0", bad)
		if got := sync(); got != "not found" {
			t.Errorf(`%q: sync: %s, want "not found"`, bad, got)
		}
	}
	clock.move(2 * time.Hour)
	one.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		r := symReply("3.1.0", "cut")
		r.Size = 4
		return r, nil
	}
	two.gives("3.2.0", "whole")
	if got := sync(); got != "3.2.0 whole" {
		t.Errorf(`sync: %q, want "3.2.0 whole"`, got)
	}
	// Who has passed us already gets what is held and starts nothing.
	asked := one.asked.Load()
	ask := symAsk(t, "/v3.2.0/b.pdb/"+appGUID)
	ask.HeldOnly = true
	if got := told(t, d, ask); got != "not found" || one.asked.Load() != asked {
		t.Errorf(`told: %q, want "not found", one.asked.Load() %v`, got, asked)
	}
}

// TestSymCacheServerOnce: concurrent requests for one file send one request to
// the server.
func TestSymCacheServerOnce(t *testing.T) {
	far := farServer{&elsewhere{name: "far"}}
	d, _ := withFar(t, Options{}, far)
	begin := make(chan struct{})
	far.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		<-begin
		return symReply("3.1.0", "x"), nil
	}
	var all sync.WaitGroup
	var good atomic.Int32
	for i := range 50 {
		all.Go(func() {
			ask := symAsk(t, "/v3.1.0"+appPath)
			if ask.AllowsRetry = i%2 == 0; ask.AllowsRetry {
				a, err := d.AnswerSymCache(t.Context(), ask)
				if err != nil || a.Action != symcache.ComeAgain || a.Retry < time.Second {
					t.Errorf("AnswerSymCache: %v, error %v, %v; want %v, at least %v", a.Action, err, a.Retry, symcache.ComeAgain, time.Second)
				}
				good.Add(1)
				return
			}
			if told(t, d, ask) == "3.1.0 x" {
				good.Add(1)
			}
		})
	}
	for good.Load() < 25 {
		runtime.Gosched()
	}
	close(begin)
	all.Wait()
	if n := far.asked.Load(); n != 1 || good.Load() != 50 {
		t.Errorf("%d questions, %d right answers; want 1 and 50", n, good.Load())
	}
}

// TestSymCacheFallback: a file that the other server does not have is made
// here.
func TestSymCacheFallback(t *testing.T) {
	far := farServer{&elsewhere{name: "far"}}
	far.fails(fetch.ClassNotFound)
	p := newPlant(t, Options{Upstreams: []Upstream{{Source: far}}})
	body, g := pdbOf(t, 1)
	add(t, p.Depot, "Product", file{"App.pdb", body})
	if got := told(t, p.Depot, symAsk(t, "/v3.0.0/app.pdb/"+g.Upper())); !strings.HasPrefix(got, "3.1.0 made by") || far.asked.Load() != 1 {
		t.Errorf("%s; asked %d times; want %q at the beginning and 1", got, far.asked.Load(), "3.1.0 made by")
	}
}

// TestSymCacheScope: a SymCache file is visible exactly to those who see its
// PDB.
func TestSymCacheScope(t *testing.T) {
	p := newPlant(t, Options{})
	body, g := pdbOf(t, 1)
	add(t, p.Depot, "Product", file{"App.pdb", body})
	path := "/v3.1.0/app.pdb/" + g.Upper()
	ask := symAsk(t, path)
	ask.Products = []string{"Other"}
	for range 2 {
		if got := told(t, p.Depot, ask); got != "not found" {
			t.Errorf(`told: %q, want "not found"`, got)
		}
		ask.Products = []string{"Product"}
		if got := told(t, p.Depot, ask); !strings.HasPrefix(got, "3.1.0 made by") {
			t.Errorf(`told: %q, want one that begins with "3.1.0 made by"`, got)
		}
		ask.Products = []string{"Other"}
	}
	if n := p.runs(t, "app.pdb"); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}

// TestSymCachePoll: a repeated request writes nothing and sends no request.
func TestSymCachePoll(t *testing.T) {
	p := newPlant(t, Options{}, "-mode", "hang")
	body, g := pdbOf(t, 1)
	add(t, p.Depot, "Product", file{"App.pdb", body})
	ask := symAsk(t, "/v3.2.0/app.pdb/"+g.Upper())
	if got := told(t, p.Depot, ask); got != "come again" {
		t.Fatalf(`told: %q, want "come again"`, got)
	}
	for p.runs(t, "app.pdb") == 0 { // the lease is written down
		runtime.Gosched()
	}
	before, err := p.db.Generation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wal := sizeOf(t, filepath.Join(p.dir, "index.db-wal"))
	for range 20 {
		if got := told(t, p.Depot, ask); got != "come again" {
			t.Fatalf(`told: %q, want "come again"`, got)
		}
	}
	after, err := p.db.Generation(t.Context())
	if err != nil || after != before || sizeOf(t, filepath.Join(p.dir, "index.db-wal")) != wal {
		t.Errorf("polls wrote something: %d, %d, %v; want the same as before", before, after, err)
	}
	list, err := p.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("List: %+v, error %v; want length 1", list, err)
	}
}

func sizeOf(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestSecret(t *testing.T) {
	d := openWith(t, Options{})
	a, err := d.Secret("x")
	if err != nil || len(a) != home.SecretSize {
		t.Fatalf(`Secret("x"): %v, error %v; want length %v`, a, err, home.SecretSize)
	}
	if b, err := d.Secret("x"); err != nil || !bytes.Equal(a, b) {
		t.Errorf(`Secret("x"): %v, error %v, %q; want %q`, b, err, a, b)
	}
	if b, err := d.Secret("y"); err != nil || bytes.Equal(a, b) {
		t.Errorf(`Secret("y"): %v, error %v; want not bytes.Equal(a, b)`, b, err)
	}
	name := filepath.Join(d.Name(), "x.key")
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, error %v; want mode 0600", name, info, err)
	}
	if err := os.WriteFile(name, a[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Secret("x"); err == nil {
		t.Error("a cut key was taken")
	}
}

// The limits of SymCache downloads and jobs, in all and by client address.
const (
	mostFar        = 1024
	mostClientFar  = 256
	mostJobs       = 1000
	mostClientJobs = 250
)

// anyGUID is the n-th of many GUIDs.
func anyGUID(n int) string { return fmt.Sprintf("%032X", 0x1000000+n) }

// TestSymCacheUpstreamsAreBounded: a server that is transcoding for minutes must
// not make a client's requests pile up here.
func TestSymCacheUpstreamsAreBounded(t *testing.T) {
	far := farServer{&elsewhere{name: "far"}}
	d, _ := withFar(t, Options{}, far)
	far.fetch = func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return nil, &fetch.Failure{Source: "far", Class: fetch.ClassNotFound, Retry: time.Now().Add(time.Hour), Err: errors.New("being made")}
	}
	n := 0
	for _, c := range []struct {
		client          string
		asks, comeAgain int
	}{
		{"192.0.2.1", mostClientFar + 20, mostClientFar},
		{"192.0.2.2", mostClientFar, mostClientFar},
		{"192.0.2.3", mostClientFar, mostClientFar},
		{"192.0.2.4", mostClientFar, mostFar - 3*mostClientFar},
		{"192.0.2.5", 10, 0},
	} {
		got := map[string]int{}
		for range c.asks {
			n++
			ask := symAsk(t, "/v3.1.0/App.pdb/"+anyGUID(n)+"/1")
			ask.AllowsRetry, ask.Client = true, c.client
			got[told(t, d, ask)]++
		}
		if got["come again"] != c.comeAgain || got["not found"] != c.asks-c.comeAgain {
			t.Errorf("%s: answers %v to %d requests, want %d times come again and not found for the rest", c.client, got, c.asks, c.comeAgain)
		}
	}
	if n := runtime.NumGoroutine(); n > mostFar+200 {
		t.Errorf("%d goroutines, want about %d at the most", n, mostFar)
	}
}

// TestSymCacheJobNeedsPDB: a job is queued only for a PDB that can be obtained,
// because any client may request any id.
func TestSymCacheJobNeedsPDB(t *testing.T) {
	src := &elsewhere{name: "far"}
	src.fails(fetch.ClassNotFound)
	p := newPlant(t, Options{Upstreams: []Upstream{{Source: src}}})
	alone := newPlant(t, Options{})
	for n := range 20 {
		ask := symAsk(t, "/v3.1.0/App.pdb/"+anyGUID(n)+"/1")
		ask.AllowsRetry = n%2 == 0
		if got := told(t, alone.Depot, ask); got != "not found" {
			t.Errorf("no PDB, nobody to ask: %s, want not found", got)
		}
		got := told(t, p.Depot, ask)
		if ask.AllowsRetry {
			if got != "come again" {
				t.Errorf("the upstream is being asked: %s, want come again", got)
			}
			p.fetch.Wait()
			got = told(t, p.Depot, ask)
		}
		if got != "not found" {
			t.Errorf("the upstream has no PDB: %s, want not found", got)
		}
	}
	for _, d := range []*plant{p, alone} {
		if list, err := d.Jobs().List(t.Context(), jobs.Filter{}); err != nil || len(list) != 0 {
			t.Errorf("%d jobs were entered (%v), want none", len(list), err)
		}
	}
	body, g := pdbOf(t, 1)
	src.sends("App.pdb", body)
	if got := told(t, p.Depot, symAsk(t, "/v3.1.0/App.pdb/"+g.Upper()+"/1")); !strings.HasPrefix(got, "3.1.0 made by") {
		t.Errorf("the upstream has the PDB: %s, want the file that is made of it", got)
	}
}

// TestSymCacheQueueIsBounded: beyond so many jobs, in all or by one client, the
// answer is a plain 404.
func TestSymCacheQueueIsBounded(t *testing.T) {
	d := openWith(t, Options{})
	if _, ok := remote(t, d, "worker"); ok { // it can make 4.1.0 from now on
		t.Fatal("a job from nowhere")
	}
	ask := func(n byte, client string) string {
		t.Helper()
		body, g := pdbOf(t, n)
		add(t, d, "", file{"App.pdb", body})
		a := symAsk(t, "/v4.1.0/App.pdb/"+g.Upper()+"/1")
		a.AllowsRetry, a.Client = true, client
		return told(t, d, a)
	}
	enter := func(n int) {
		t.Helper()
		_, _, err := d.db.Jobs.Enqueue(t.Context(), jobs.Job{Kind: symCacheJob, Key: fmt.Sprintf("filler/%d", n), Variant: 4})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(1, "192.0.2.1"); got != "come again" {
		t.Fatalf("the first job: %s, want come again", got)
	}
	for n := range mostClientJobs - 1 {
		key := SymCacheKey{Name: "filler.pdb", ID: debugid.ID{GUID: debugid.GUID{1, byte(n)}, Age: 1}}
		if st, err := d.SymCache().RequestSymCacheFor(t.Context(), key, version(t, "4.1.0"), "192.0.2.1"); err != nil || st != jobs.Queued {
			t.Fatalf("job %d: %v, %v; want no error and %v", n, st, err, jobs.Queued)
		}
	}
	if got := ask(2, "192.0.2.1"); got != "not found" {
		t.Errorf("a client with %d jobs: %s, want not found", mostClientJobs, got)
	}
	if got := ask(2, "192.0.2.2"); got != "come again" {
		t.Errorf("another client: %s, want come again", got)
	}
	for n := range mostJobs - mostClientJobs - 1 {
		enter(mostClientJobs + n)
	}
	if got := ask(3, "192.0.2.3"); got != "not found" {
		t.Errorf("%d jobs are queued: %s, want not found", mostJobs, got)
	}
	// Asking again for what is queued is answered as before.
	if got := ask(2, "192.0.2.1"); got != "come again" {
		t.Errorf("a job that is queued: %s, want come again", got)
	}
}

// TestTranscoderNames: names from requests never become part of a command line.
func TestTranscoderNames(t *testing.T) {
	p := newPlant(t, Options{})
	body, g := pdbOf(t, 1)
	add(t, p.Depot, "", file{"Real-1.pdb", body})
	if got := told(t, p.Depot, symAsk(t, "/v3.1.0/a%3Bexec%20touch%20INJ%3B.pdb/"+g.Upper()+"/1")); !strings.HasPrefix(got, "3.1.0 made by") {
		t.Fatalf(`told: %q, want one that begins with "3.1.0 made by"`, got)
	}
	if n := p.runs(t, "Real-1.pdb"); n != 1 {
		t.Errorf("%d runs with the PDB's own name, want 1", n)
	}
	body, g = pdbOf(t, 2)
	add(t, p.Depot, "", file{"$(touch INJ).pdb", body})
	if got := told(t, p.Depot, symAsk(t, "/v3.1.0/b.pdb/"+g.Upper()+"/1")); !strings.HasPrefix(got, "3.1.0 made by") {
		t.Fatalf(`told: %q, want one that begins with "3.1.0 made by"`, got)
	}
	if n := p.runs(t, "x.pdb"); n != 1 {
		t.Errorf("%d runs with a harmless name instead of the PDB's, want 1", n)
	}
	// Workers on other machines hear the same names.
	d := openWith(t, Options{})
	if _, ok := remote(t, d, "worker"); ok {
		t.Fatal("a job from nowhere")
	}
	add(t, d, "", file{"Real-1.pdb", body})
	v := version(t, "4.1.0")
	if _, err := d.SymCache().RequestSymCache(t.Context(), keyOf("a;exec touch INJ;.pdb", g), v); err != nil {
		t.Fatal(err)
	}
	if j, ok := remote(t, d, "worker"); !ok || inputOf(t, j).Name != "Real-1.pdb" {
		t.Errorf("a worker was given %s (%v), want the name Real-1.pdb", j.Input.Message, ok)
	}
}

// TestOtherFormatsAreNoResults: a result in a different format is refused
// before it is stored.
func TestOtherFormatsAreNoResults(t *testing.T) {
	d := openWith(t, Options{})
	if _, ok := remote(t, d, "worker"); ok {
		t.Fatal("a job from nowhere")
	}
	body, g := pdbOf(t, 1)
	add(t, d, "", file{"App.pdb", body})
	if _, err := d.SymCache().RequestSymCache(t.Context(), keyOf("App.pdb", g), version(t, "4.1.0")); err != nil {
		t.Fatal(err)
	}
	j, ok := remote(t, d, "worker")
	if !ok {
		t.Fatal("the worker got no job, want one")
	}
	blobs := countBlobs(t, d)
	for _, bad := range []string{"MZ not a symcache", "\x7fELF", "<!DOCTYPE html>", "PK\x03\x04", "SYMC\x09", ""} {
		r := jobs.Result{Version: "4.1.0", SHA256: blob.Sum([]byte(bad)), Size: int64(len(bad))}
		if err := d.Jobs().Complete(t.Context(), jobs.Lease{ID: j.ID, Worker: "worker", Token: j.Token}, r, strings.NewReader(bad)); !errors.Is(err, jobs.ErrBadResult) {
			t.Errorf("result %q: %v, want %v", bad, err, jobs.ErrBadResult)
		}
	}
	if n := countBlobs(t, d); n != blobs {
		t.Errorf("%d blobs were kept of refused results", n-blobs)
	}
}
