package symcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/symcache"
)

// analyzer behaves as Windows Performance Analyzer is described to: it has a
// local SymCache folder, asks a server only for what is not there or is older
// than what it reads best, writes downloads under another name until they are
// whole, and comes again as often as it is told to.
type analyzer struct {
	dir      string
	base     string
	version  symcache.Version
	header   string // by which it says that it comes again; "" waits
	requests atomic.Int64
	client   *http.Client
}

func newAnalyzer(t *testing.T, base, version, header string) *analyzer {
	t.Helper()
	v, err := symcache.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return &analyzer{dir: t.TempDir(), base: base, version: v, header: header, client: &http.Client{Timeout: time.Minute}}
}

// local returns the newest file of a key that this client reads.
func (a *analyzer) local(key symcache.Key) (path string, v symcache.Version) {
	var have []symcache.Version
	dir := filepath.Join(a.dir, key.Name, key.Folder())
	names, _ := os.ReadDir(dir) // a folder that is not there holds nothing
	for _, n := range names {
		if _, v, err := symcache.ParseFileName(n.Name()); err == nil {
			have = append(have, v)
		}
	}
	best, ok := symcache.Best(have, a.version, symcache.Version{})
	if !ok {
		return "", best
	}
	return filepath.Join(dir, key.FileName(best)), best
}

// load returns the best file of a key that can be had, and its version. None is
// fs.ErrNotExist.
func (a *analyzer) load(ctx context.Context, key symcache.Key) (string, symcache.Version, error) {
	path, have := a.local(key)
	if path != "" && have.Compare(a.version) >= 0 {
		return path, have, nil
	}
	u := fmt.Sprintf("%s/%s/%s/%s/%d", a.base, a.version.Segment(), key.Name, key.ID.GUID, key.ID.Age)
	for tries := 0; ; tries++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
		if err != nil {
			return "", have, err
		}
		if a.header != "" {
			req.Header.Set(a.header, "true")
		}
		if path != "" {
			req.Header.Set("If-Version-Exceeds", have.String())
		}
		a.requests.Add(1)
		resp, err := a.client.Do(req)
		if err != nil {
			return "", have, err
		}
		again, got, v, err := a.answer(key, resp)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return "", have, err
		case got != "":
			return got, v, nil
		case !again && path != "":
			return path, have, nil // the old one is better than none
		case !again:
			return "", have, fs.ErrNotExist
		case tries == 500:
			return "", have, errors.New("it never ends")
		}
		select {
		case <-ctx.Done():
			return "", have, ctx.Err()
		case <-time.After(50 * time.Millisecond): // clients may do as they like with the number
		}
	}
}

// answer reads one answer; again says that the file is being made.
func (a *analyzer) answer(key symcache.Key, resp *http.Response) (again bool, path string, v symcache.Version, err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		v, err := symcache.ParseContentType(resp.Header.Get("Content-Type"), a.version)
		if err != nil {
			return false, "", v, err
		}
		path, err = a.save(key, v, resp)
		return false, path, v, err
	case http.StatusNotModified:
		return false, "", v, nil
	case http.StatusNotFound:
		_, again = symcache.ParseRetryAfter(resp.Header["Retry-After"])
		if again && a.header == "" && a.version.Compare(symcache.Version{Major: 3, Minor: 1}) <= 0 {
			return false, "", v, errors.New("told to come again without having said that it would")
		}
		return again, "", v, nil
	}
	return false, "", v, fmt.Errorf("status %s", resp.Status)
}

func (a *analyzer) save(key symcache.Key, v symcache.Version, resp *http.Response) (string, error) {
	path := filepath.Join(a.dir, key.Name, key.Folder(), key.FileName(v))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	out, err := os.Create(path + ".pending")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(out, resp.Body)
	if err == nil && resp.ContentLength >= 0 && n != resp.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	return path, os.Rename(path+".pending", path)
}

// wants loads a key and compares what comes.
func (a *analyzer) wants(t *testing.T, key symcache.Key, want string) {
	t.Helper()
	path, v, err := a.load(t.Context(), key)
	var got string
	if err == nil {
		b, rerr := os.ReadFile(path)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if got = v.String() + " " + string(b); strings.HasPrefix(string(b), "made by") {
			got = v.String() + " made"
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		got = "none"
	} else {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %s, want %s", key.Name, got, want)
	}
}

func symKey(t *testing.T, name, guid string) symcache.Key {
	t.Helper()
	g, err := debugid.ParseGUID(guid)
	if err != nil {
		t.Fatal(err)
	}
	return symcache.Key{Name: name, ID: debugid.ID{GUID: g, Age: 1}}
}

// TestSymCacheClients: clients of three generations fill their folders from a
// server; a second server then adds one of the folders and serves it.
func TestSymCacheClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pdbs, store := filepath.Join(dir, "pdbs"), filepath.Join(dir, "store")
	symPDBs(t, pdbs)
	s := newSymServer(t, dir, []string{"3.1.0"}, "--add", pdbs, "--symcache-store", store)
	fresh, none := symKey(t, "new.pdb", symGUID(1, 6)), symKey(t, "none.pdb", symGUID(1, 8))
	waits := newAnalyzer(t, s.URL, "3.1.0", "")
	waits.wants(t, fresh, "3.1.0 made")
	waits.wants(t, none, "none")
	asked := waits.requests.Load()
	waits.wants(t, fresh, "3.1.0 made") // from its folder
	if n := waits.requests.Load() - asked; n != 0 {
		t.Errorf("%d requests for what is local, want 0", n)
	}
	// A newer client has the older file and asks for a better one.
	newer := newAnalyzer(t, s.URL, "3.2.0", "Allow-Retry-After")
	newer.dir = waits.dir
	newer.wants(t, fresh, "3.1.0 made")
	if n := newer.requests.Load(); n != 1 {
		t.Errorf("%d requests to learn that there is nothing newer, want 1", n)
	}
	// Many at once, of both kinds.
	var all sync.WaitGroup
	for i := range 12 {
		a := newAnalyzer(t, s.URL, "3.1.0", []string{"", "Allow-Retry-After", "Accept-Retry-After"}[i%3])
		for row := 2; row < 6; row++ {
			all.Go(func() { a.wants(t, symKey(t, "new.pdb", symGUID(row, 6)), "3.1.0 made") })
		}
	}
	all.Wait()
	if n := s.ran("new.pdb"); n != 5 {
		t.Errorf("%d runs for five PDBs, want 5", n)
	}
	// The store is a folder that clients can use over SMB: one reads it without
	// any server.
	smb := newAnalyzer(t, "http://127.0.0.1:1", "3.1.0", "")
	smb.dir = store
	smb.wants(t, symKey(t, "new.pdb", symGUID(2, 6)), "3.1.0 made")
	// And the first client's folder fills another server.
	if out, err := exec.CommandContext(t.Context(), "symdepot", "--depot", filepath.Join(dir, "other"), "add", waits.dir).CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: %s, error %v; want no error", out, err)
	}
	other := commandtest.ServeDepot(t, filepath.Join(dir, "other"), "--symcache-dir", store)
	for row := 1; row < 6; row++ {
		newAnalyzer(t, other.URL, "4.7.1", "").wants(t, symKey(t, "new.pdb", symGUID(row, 6)), "3.1.0 made")
	}
}

// TestSymCacheCascade: a server that makes nothing asks one that does.
func TestSymCacheCascade(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pdbs := filepath.Join(dir, "pdbs")
	symPDBs(t, pdbs)
	maker := newSymServer(t, dir, []string{"3.1.0"}, "--add", pdbs)
	var passed atomic.Int64
	count := newCounter(t, maker.URL, &passed)
	store := filepath.Join(dir, "store")
	front := commandtest.ServeDepot(t, filepath.Join(dir, "front"), "--upstream", count+",layout=symcache", "--symcache-store", store)
	waits := newAnalyzer(t, front.URL, "3.1.0", "")
	waits.wants(t, symKey(t, "new.pdb", symGUID(1, 6)), "3.1.0 made")
	waits.wants(t, symKey(t, "none.pdb", symGUID(1, 8)), "none")
	before := passed.Load()
	again := newAnalyzer(t, front.URL, "3.1.0", "Allow-Retry-After")
	again.wants(t, symKey(t, "new.pdb", symGUID(1, 6)), "3.1.0 made")
	again.wants(t, symKey(t, "none.pdb", symGUID(1, 8)), "none")
	newer := newAnalyzer(t, front.URL, "3.1.1", "")
	newer.dir = again.dir
	newer.wants(t, symKey(t, "none.pdb", symGUID(1, 8)), "none")
	if n := passed.Load() - before; n > 2 { // 3.1.1 is another question
		t.Errorf("%d requests upstream for what is known, want at most 2", n)
	}
	var all sync.WaitGroup
	for range 10 {
		a := newAnalyzer(t, front.URL, "4.0.0", "")
		all.Go(func() { a.wants(t, symKey(t, "slow.pdb", symGUID(1, 7)), "3.1.0 made") })
	}
	all.Wait()
	if n := maker.ran("slow.pdb"); n != 1 {
		t.Errorf("slow.pdb was transcoded %d times, want once", n)
	}
	// The server writes its folder after it has answered.
	symtest.Await(t, 10*time.Second, "two files in the folder of the front server", func() bool {
		kept, err := filepath.Glob(filepath.Join(store, "*", "*", "*-v3.1.0.symcache"))
		if err != nil {
			t.Fatal(err)
		}
		return len(kept) == 2
	})
}

// newCounter is a server in front of another that counts.
func newCounter(t *testing.T, base string, n *atomic.Int64) string {
	t.Helper()
	far := commandtest.NewFar(t, t.TempDir(), 0)
	far.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		req, err := http.NewRequestWithContext(r.Context(), r.Method, base+r.URL.EscapedPath(), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		req.Header = r.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
	return far.URL
}

// TestBenchSymCache requests stored files, files that are being made and
// missing files, at a steady rate.
func TestBenchSymCache(t *testing.T) {
	commandtest.NeedBench(t)
	dir := t.TempDir()
	folder, pdbs := filepath.Join(dir, "SymCache"), filepath.Join(dir, "pdbs")
	big := strings.Repeat("a SymCache file for tests\n", 5<<10)
	symPDBs(t, pdbs)
	writeTree(t, folder, map[string]string{
		symPath(0, "app.pdb/{N1}1/app.pdb-v3.1.0.symcache"): big, symPath(0, "lib.pdb/{N2}1/lib.pdb-v3.1.0.symcache"): big,
	})
	add := t.TempDir()
	if err := os.Rename(filepath.Join(folder, "lib.pdb"), filepath.Join(add, "lib.pdb")); err != nil {
		t.Fatal(err)
	}
	s := newSymServer(t, dir, []string{"3.1.0"}, "--quiet", "--add", pdbs, "--add", add, "--symcache-dir", folder)
	for _, tt := range []struct{ what, path string }{
		{"nothing at all (/healthz, for comparison)", "/healthz"},
		{"a held file of 130 KiB in the depot", "/v3.1.0/lib.pdb/{G2}"}, {"a held file of 130 KiB in a folder", "/v3.1.0/app.pdb/{G1}"},
		{"a poll of what is being made", "/v3.2.0/slow.pdb/{G7}"}, {"a known absence", "/v3.2.0/none.pdb/{G8}"},
	} {
		url := s.URL + symPath(1, strings.NewReplacer("{G2}", symGUID(0, 2)).Replace(tt.path))
		if strings.Contains(tt.path, "none") {
			s.polls(t, strings.TrimPrefix(url, s.URL))
		}
		asked := s.far.count("none.pdb") + s.far.count("slow.pdb")
		seconds := "10"
		if strings.Contains(tt.path, "slow") {
			seconds = "2"
		}
		out, err := exec.CommandContext(t.Context(), "loadgen", url, "500", seconds).Output()
		if err != nil {
			t.Fatal(err)
		}
		var n, bad int
		var whole [3]float64
		var p50, p99 float64
		if _, err := fmt.Sscan(string(out), &n, &bad, &whole[0], &whole[1], &whole[2], &p50, &p99); err != nil || bad > 0 {
			t.Fatalf("got %s, error %v, %v; want 0", out, err, bad)
		}
		if now := s.far.count("none.pdb") + s.far.count("slow.pdb"); now != asked && !strings.Contains(tt.path, "slow") {
			t.Errorf("%s: %d requests upstream, want none", tt.what, now-asked)
		}
		t.Logf("SymCache, %s, 500/s: first byte p50 %.2f ms, p99 %.2f ms (want <= 5: %s); whole p99 %.2f ms", tt.what, p50, p99, commandtest.Verdict(p99 <= 5), whole[1])
	}
}
