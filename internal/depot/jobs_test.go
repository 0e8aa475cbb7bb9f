package depot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

func TestMain(m *testing.M) {
	for name, work := range children {
		if where := os.Getenv(name); where != "" {
			if err := work(where); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	transcodetest.Main()
	peer.SetReach(time.Minute) // of a busy machine
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

// movable is a clock that a test moves while others read it.
type movable struct{ ahead atomic.Int64 }

func (c *movable) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *movable) move(d time.Duration) { c.ahead.Add(int64(d)) }

// pdbOf is the PDB of testdata under another GUID.
func pdbOf(t *testing.T, n byte) ([]byte, debugid.GUID) {
	t.Helper()
	b := bytes.Clone(testdata(t, "pdb/hello-x64.pdb").body)
	id, err := debugid.ParseBreakpad("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	ms := id.GUID.Microsoft()
	at := bytes.Index(b, ms[:])
	if at < 0 || bytes.Contains(b[at+1:], ms[:]) {
		t.Fatal("the GUID stands elsewhere than thought")
	}
	id.GUID[15] = n
	ms = id.GUID.Microsoft()
	copy(b[at:], ms[:])
	return b, id.GUID
}

func keyOf(name string, g debugid.GUID) SymCacheKey {
	return SymCacheKey{Name: name, ID: debugid.ID{GUID: g, Age: 1}}
}

func version(t *testing.T, s string) symcache.Version {
	t.Helper()
	v, err := symcache.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const symCacheJob = "symcache"

func jobKey(k SymCacheKey) string { return symfile.Fold(k.Name) + "/" + symfile.Fold(k.ID.Breakpad()) }

// plant is a depot that transcodes.
type plant struct {
	*Depot
	clock   *movable
	log     string         // a line for each run of the transcoder
	settled chan queue.Job // failed attempts
}

func newPlant(t *testing.T, opt Options, flags ...string) *plant {
	t.Helper()
	p := &plant{clock: &movable{}, log: filepath.Join(t.TempDir(), "runs"), settled: make(chan queue.Job, 100)}
	p.open(t, opt, filepath.Join(t.TempDir(), "depot"), flags...)
	return p
}

func (p *plant) open(t *testing.T, opt Options, dir string, flags ...string) {
	t.Helper()
	room, err := transcode.OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ts := transcode.NewTranscoders(room, nil, transcode.Program{Name: "test", Command: transcodetest.Command(append([]string{"-log", p.log}, flags...)...)})
	if err := ts.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	opt.Now, opt.Transcode.Transcoders = p.clock.now, ts
	opt.Jobs.Hooks.Settled = func(j queue.Job) { p.settled <- j }
	opt.Transcode.Slots = max(opt.Transcode.Slots, 1)
	if p.Depot, err = Open(t.Context(), dir, opt); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Work(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		if err := errors.Join(p.Close(), room.Close()); err != nil {
			t.Error(err)
		}
	})
}

// runs counts the runs for a PDB.
func (p *plant) runs(t *testing.T, name string) int {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if strings.EqualFold(line, name+"\n") {
			n++
		}
	}
	return n
}

// held returns the bytes of the files that are held for a key, by version.
func (p *plant) held(t *testing.T, key SymCacheKey) map[string]string {
	t.Helper()
	hits, err := p.db.Lookup(t.Context(), answer.Scope{}.Index(), symfile.Lookup{Name: symfile.Fold(key.Name), ID: symfile.Fold(key.ID.Breakpad()), Role: symfile.SymCacheFile})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, h := range hits {
		_, v, err := symcache.ParseFileName(h.Object.CodeName)
		if err != nil {
			t.Fatal(err)
		}
		f, err := p.blobs.Open(t.Context(), h.Ref)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		got[v.String()] = string(b)
	}
	return got
}

func (p *plant) wait(t *testing.T, key SymCacheKey, v string, want jobs.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	st, err := p.SymCache().WaitSymCache(ctx, key, version(t, v))
	if err != nil || st != want {
		list, _ := p.Jobs().List(t.Context(), jobs.Filter{})
		t.Fatalf("%v %v, want %v; jobs %+v", st, err, want, list)
	}
}

func TestTranscodedOnce(t *testing.T) {
	p := newPlant(t, Options{}, "-delay", "50ms")
	body, g := pdbOf(t, 1)
	add(t, p.Depot, "Product", file{"App.pdb", body})
	if got := fmt.Sprint(p.SymCache().Producible()); got != "[3.1.0]" {
		t.Fatalf(`got %q, want "[3.1.0]"`, got)
	}
	key := keyOf("App.pdb", g)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			k := key
			if i%2 == 1 {
				k.Name = "APP.PDB"
			}
			if st, err := p.SymCache().WaitSymCache(t.Context(), k, version(t, "3.1.0")); err != nil || st != jobs.Done {
				t.Errorf("WaitSymCache: %v, error %v; want %v", st, err, jobs.Done)
			}
		})
	}
	all.Wait()
	if n := p.runs(t, "App.pdb"); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	held := p.held(t, key)
	if want := string(transcodetest.Body("app.pdb", key.ID, "3.1.0")); len(held) != 1 || held["3.1.0"] != want {
		t.Errorf(`got %q, want length 1, held["3.1.0"] %v`, held, want)
	}
	p.wait(t, key, "3.1.0", jobs.Done)
	list, err := p.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 || list[0].State != jobs.Done || list[0].Outcome != "ok" || !strings.HasPrefix(list[0].Detail, "3.1.0 by test in ") {
		t.Errorf(`List: %+v, error %v; want length 1, list[0].State %v, list[0].Outcome "ok", list[0].Detail that begins with "3.1.0 by test in "`, list, err, jobs.Done)
	}

	// The same PDB under another name is not transcoded again.
	add(t, p.Depot, "Product", file{"other.pdb", body})
	p.wait(t, keyOf("other.pdb", g), "3.1.0", jobs.Done)
	if len(p.held(t, keyOf("other.pdb", g))) != 1 || p.runs(t, "other.pdb") != 0 {
		t.Errorf("%d runs of other.pdb, want none and one held", p.runs(t, "other.pdb"))
	}
	// Its result is found by whoever may see everything, and by no other.
	if hits, err := p.db.Lookup(t.Context(), answer.Scope{Products: []string{"Product"}}.Index(), symfile.Lookup{Name: "app.pdb", ID: symfile.Fold(key.ID.Breakpad()), Role: symfile.SymCacheFile}); err != nil || len(hits) != 0 {
		t.Errorf("Lookup: %v, error %v; want none", hits, err)
	}
}

func TestFailuresAreRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "depot")
	p := &plant{clock: &movable{}, log: filepath.Join(t.TempDir(), "runs"), settled: make(chan queue.Job, 100)}
	body, g := pdbOf(t, 9)
	key := keyOf("bad.pdb", g)
	t.Run("first", func(t *testing.T) {
		p.open(t, Options{}, dir, "-mode", "fail")
		add(t, p.Depot, "", file{"bad.pdb", body})
		p.wait(t, key, "3.1.0", jobs.Failed)
		f, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.1.0"))
		if err != nil || f.Class != "exit" || f.Version != "3.1.0" || !strings.Contains(f.Detail, "this PDB is not liked") {
			t.Errorf(`SymCacheFailure: %+v, error %v; want Class "exit", Version "3.1.0", Detail with "this PDB is not liked"`, f, err)
		}
		if left := f.Until.Sub(p.clock.now()); left < 29*24*time.Hour || left > 30*24*time.Hour {
			t.Errorf("got %v, want at least %v, at most %v", left, 29*24*time.Hour, 30*24*time.Hour)
		}
		p.clock.move(time.Minute)
		p.wait(t, key, "3.1.0", jobs.Failed)
		if n := p.runs(t, "bad.pdb"); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
	})
	t.Run("another version", func(t *testing.T) {
		p.open(t, Options{}, dir, "-version", "3.2.0")
		p.wait(t, key, "3.2.0", jobs.Done)
		if n := p.runs(t, "bad.pdb"); n != 2 {
			t.Errorf("%d runs, want 2", n)
		}
	})
	t.Run("another content", func(t *testing.T) {
		p.open(t, Options{}, dir, "-mode", "fail", "-version", "3.3.0")
		p.wait(t, key, "3.3.0", jobs.Failed)
		p.clock.move(time.Minute)
		newer := append(bytes.Clone(body), make([]byte, 4096)...) // the same PDB with a page more
		add(t, p.Depot, "", file{"bad.pdb", newer})
		if _, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.3.0")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("retry", func(t *testing.T) {
		p.open(t, Options{}, dir, "-version", "3.3.0")
		list, err := p.Jobs().List(t.Context(), jobs.Filter{States: []jobs.State{jobs.Failed}, Limit: 1})
		if err != nil || len(list) != 1 {
			t.Fatalf("List: %v, error %v; want length 1", list, err)
		}
		if _, err := p.Jobs().Retry(t.Context(), list[0].ID); err != nil {
			t.Fatal(err)
		}
		p.wait(t, key, "3.3.0", jobs.Done)
	})
}

func TestAbsentPDB(t *testing.T) {
	p := newPlant(t, Options{})
	body, g := pdbOf(t, 8)
	key := keyOf("none.pdb", g)
	p.wait(t, key, "3.1.0", jobs.Failed)
	f, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.1.0"))
	if err != nil || f.Class != symcachework.ClassNotFound || f.Version != "" || f.Until.Sub(p.clock.now()) > time.Hour {
		t.Errorf(`SymCacheFailure: %+v, error %v; want Class %v, Version "", Until.Sub(p.clock.now()) at most %v`, f, err, symcachework.ClassNotFound, time.Hour)
	}
	p.clock.move(time.Minute)
	p.wait(t, key, "3.1.0", jobs.Failed)
	if list, err := p.Jobs().List(t.Context(), jobs.Filter{}); err != nil || len(list) != 1 {
		t.Errorf("List: %+v, error %v; want length 1", list, err)
	}
	// It ends when the PDB comes…
	add(t, p.Depot, "", file{"none.pdb", body})
	p.wait(t, key, "3.1.0", jobs.Done)
	// … or after its time.
	_, g = pdbOf(t, 7)
	key = keyOf("none.pdb", g)
	p.wait(t, key, "3.1.0", jobs.Failed)
	p.clock.move(61 * time.Minute)
	if _, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.1.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestNamesAndIDs(t *testing.T) {
	p := newPlant(t, Options{})
	_, g := pdbOf(t, 1)
	for _, k := range []SymCacheKey{{}, keyOf("", g), keyOf("../x", g), keyOf(`a\b`, g), keyOf(".hidden", g), {Name: "a.pdb"}} {
		if _, err := p.SymCache().RequestSymCache(t.Context(), k, version(t, "3.1.0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: RequestSymCache: error %v, want fs.ErrNotExist", k, err)
		}
	}
}

func TestPDBFromUpstream(t *testing.T) {
	src := &elsewhere{name: "far"}
	p := newPlant(t, Options{Upstreams: []Upstream{{Source: src}}})
	body, g := pdbOf(t, 2)
	key := keyOf("far.pdb", g)
	src.sends("far.pdb", body)
	p.wait(t, key, "3.1.0", jobs.Done)
	if len(p.held(t, key)) != 1 || src.asked.Load() != 1 {
		t.Errorf("%v, asked %d times; want 1 and 1", p.held(t, key), src.asked.Load())
	}
	// All say that they have none: it is absent.
	_, g = pdbOf(t, 3)
	src.fails(fetch.ClassNotFound)
	p.wait(t, keyOf("gone.pdb", g), "3.1.0", jobs.Failed)
	if f, err := p.SymCache().SymCacheFailure(t.Context(), keyOf("gone.pdb", g), version(t, "3.1.0")); err != nil || f.Class != symcachework.ClassNotFound {
		t.Errorf("SymCacheFailure: %+v, error %v; want Class %v", f, err, symcachework.ClassNotFound)
	}
	// One that may not be read is nobody's absence.
	_, g = pdbOf(t, 4)
	src.fails(fetch.ClassForbidden)
	p.wait(t, keyOf("locked.pdb", g), "3.1.0", jobs.Failed)
	if f, err := p.SymCache().SymCacheFailure(t.Context(), keyOf("locked.pdb", g), version(t, "3.1.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SymCacheFailure: %+v, error %v; want fs.ErrNotExist", f, err)
	}
}

// TestFlakyUpstream: after a temporary failure the job is tried again for some
// time, and no failure is remembered.
func TestFlakyUpstream(t *testing.T) {
	for _, class := range []fetch.Class{fetch.ClassBroken, fetch.ClassTimeout, fetch.ClassBusy} {
		src := &elsewhere{name: "far"}
		p := newPlant(t, Options{Upstreams: []Upstream{{Source: src}}})
		body, g := pdbOf(t, 5)
		key := keyOf("flaky.pdb", g)
		src.fails(class)
		for try := 1; try <= 4; try++ {
			p.attempt(t, key, try)
			p.clock.move(70 * time.Second)
		}
		j, err := p.db.Jobs.Last(t.Context(), symCacheJob, jobKey(key), 3)
		if err != nil || j.State != jobs.Failed || j.Outcome != symcachework.ClassTransient || j.Attempts != 4 {
			t.Fatalf("LastJob(3): %+v, error %v; want State %v, Outcome %v, Attempts 4", j, err, jobs.Failed, symcachework.ClassTransient)
		}
		if f, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.1.0")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("SymCacheFailure: %+v, error %v; want fs.ErrNotExist", f, err)
		}
		src.sends("flaky.pdb", body)
		p.wait(t, key, "3.1.0", jobs.Done)
	}
}

// attempt has a job tried, and waits until its attempt of this number has failed.
func (p *plant) attempt(t *testing.T, key SymCacheKey, number int) {
	t.Helper()
	if _, err := p.SymCache().RequestSymCache(t.Context(), key, version(t, "3.1.0")); err != nil {
		t.Fatal(err)
	}
	p.Jobs().Wake()
	select {
	case j := <-p.settled:
		if j.Key != jobKey(key) || j.Attempts != number {
			t.Fatalf("attempt %d of the job for %s has failed, want attempt %d of that for %s", j.Attempts, j.Key, number, jobKey(key))
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("attempt %d of the job for %s does not end", number, jobKey(key))
	}
}

func TestBadInputsRefused(t *testing.T) {
	p := newPlant(t, Options{})
	add(t, p.Depot, "", file{"packed.pdb", testdata(t, "rare/packed.pdb").body})
	hits, err := p.Find(t.Context(), answer.Scope{}, "packed.pdb", 1)
	if err != nil || len(hits) != 1 {
		t.Fatalf(`Find("packed.pdb", 1): %v, error %v; want length 1`, hits, err)
	}
	id := hits[0].Object.DebugID
	p.wait(t, SymCacheKey{Name: "packed.pdb", ID: id}, "3.1.0", jobs.Failed)
	f, err := p.SymCache().SymCacheFailure(t.Context(), SymCacheKey{Name: "packed.pdb", ID: id}, version(t, "3.1.0"))
	if err != nil || f.Class != string(transcode.ClassBadSource) || !strings.Contains(f.Detail, "MSFZ") {
		t.Errorf(`SymCacheFailure: %+v, error %v; want Class %v, Detail with "MSFZ"`, f, err, string(transcode.ClassBadSource))
	}
}

func TestUpgrade(t *testing.T) {
	p := newPlant(t, Options{Transcode: TranscodeOptions{UpgradeQueue: 3}}, "-version", "3.2.0")
	body, g := pdbOf(t, 6)
	key := keyOf("up.pdb", g)
	add(t, p.Depot, "", file{"up.pdb", body}, file{"up.pdb/" + key.ID.Breakpad() + "/up.pdb-v3.0.0.symcache", []byte("300")})
	if err := p.SymCache().UpgradeSymCache(t.Context(), key, version(t, "3.2.0")); err != nil {
		t.Fatal(err)
	}
	j, err := p.db.Jobs.Last(t.Context(), symCacheJob, jobKey(key), 3)
	if err != nil || j.Priority != -10 {
		t.Errorf("LastJob(3): %+v, error %v; want Priority %v", j, err, -10)
	}
	p.wait(t, key, "3.2.0", jobs.Done)
	if held := p.held(t, key); len(held) != 2 || held["3.0.0"] != "300" || held["3.2.0"] == "" {
		t.Errorf(`held: %q, want length 2, held["3.0.0"] "300", held["3.2.0"] not ""`, held)
	}
	// A long queue takes no more of them.
	for i := range 10 {
		_, g := pdbOf(t, byte(100))
		if err := p.SymCache().UpgradeSymCache(t.Context(), keyOf(fmt.Sprintf("u%d.pdb", i), g), version(t, "3.2.0")); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := p.Jobs().List(t.Context(), jobs.Filter{}); err != nil || len(list) > 5 {
		t.Errorf("%d jobs, %v; want at most 5", len(list), err)
	}
}

// remote is a worker of the test's.
func remote(t *testing.T, d *Depot, name string) (jobs.Leased, bool) {
	t.Helper()
	list, err := d.Jobs().Lease(t.Context(), jobs.Worker{Name: name, Abilities: []jobs.Ability{symcachework.Ability(version(t, "4.1.0"))}, Slots: 1}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		return jobs.Leased{}, false
	}
	return list[0], true
}

// inputOf returns the PDB that a worker is told to read.
func inputOf(t *testing.T, j jobs.Leased) symcache.Key {
	t.Helper()
	var m struct {
		Name, GUID string
		Age        uint32
	}
	if err := json.Unmarshal(j.Input.Message, &m); err != nil {
		t.Fatalf("the input of job %d is %s: %v", j.ID, j.Input.Message, err)
	}
	g, err := debugid.ParseGUID(m.GUID)
	if err != nil {
		t.Fatalf("the input of job %d is %s: %v", j.ID, j.Input.Message, err)
	}
	return symcache.Key{Name: m.Name, ID: debugid.ID{GUID: g, Age: m.Age}}
}

// Two workers elsewhere share one queue: a job is leased to one at a time, and
// only the worker that holds the lease may complete it. The subtests are steps of
// one story and run in order.
func TestWorkers(t *testing.T) {
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p := &plant{Depot: d, clock: c}
	body, g := pdbOf(t, 1)
	key := keyOf("app.pdb", g)
	add(t, d, "", file{"app.pdb", body})
	v := version(t, "4.1.0")
	request := func(t *testing.T, want jobs.State) {
		t.Helper()
		if st, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil || st != want {
			t.Fatalf("request: state %v, %v, want %v", st, err, want)
		}
	}
	producible := func(t *testing.T, want string) {
		t.Helper()
		if got := fmt.Sprint(d.SymCache().Producible()); got != want {
			t.Errorf("versions that workers can make: %s, want %s", got, want)
		}
	}
	var one, two jobs.Leased
	leaseOf := func(worker, token string) jobs.Lease { return jobs.Lease{ID: one.ID, Worker: worker, Token: token} }

	t.Run("versions are known by the workers that ask", func(t *testing.T) {
		producible(t, "[]")
		if _, ok := remote(t, d, "one"); ok {
			t.Error("an empty queue gave a job")
		}
		producible(t, "[4.1.0]")
	})
	t.Run("a job is leased once", func(t *testing.T) {
		request(t, jobs.Queued)
		var ok bool
		if one, ok = remote(t, d, "one"); !ok || inputOf(t, one) != key {
			t.Fatalf("leased %+v with input %s, %v, want the job of %s", one, one.Input.Message, ok, key.Name)
		}
		if _, ok := remote(t, d, "two"); ok {
			t.Error("a second worker received the leased job")
		}
		request(t, jobs.Running)
	})
	t.Run("a heartbeat keeps the lease", func(t *testing.T) {
		c.move(20 * time.Second)
		if _, err := d.Jobs().Renew(t.Context(), leaseOf("one", one.Token)); err != nil {
			t.Errorf("renew: %v", err)
		}
		c.move(29 * time.Second)
		if _, ok := remote(t, d, "two"); ok {
			t.Error("a second worker received a job whose lease was renewed")
		}
	})
	t.Run("a lease ends without heartbeats", func(t *testing.T) {
		c.move(2 * time.Second)
		var ok bool
		if two, ok = remote(t, d, "two"); !ok || two.ID != one.ID || two.Attempts != 2 {
			t.Fatalf("leased %+v, %v, want the second attempt of job %v", two, ok, one.ID)
		}
		if _, err := d.Jobs().Renew(t.Context(), leaseOf("one", one.Token)); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("renew by the first worker: %v, want %v", err, jobs.ErrLeaseLost)
		}
	})
	t.Run("only the holder reads the input", func(t *testing.T) {
		if _, err := d.OpenJobInput(t.Context(), leaseOf("one", one.Token)); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("input for the first worker: %v, want %v", err, jobs.ErrLeaseLost)
		}
		f, err := d.OpenJobInput(t.Context(), leaseOf("two", two.Token))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := readAll(f); err != nil || !bytes.Equal(got, body) {
			t.Errorf("input: %d bytes, %v, want the %d bytes of the PDB", len(got), err, len(body))
		}
	})

	made := transcodetest.Body("app.pdb", key.ID, "4.1.0")
	result := jobs.Result{Version: v.String(), SHA256: blob.Sum(made), Size: int64(len(made)), Detail: "by two"}
	complete := func(t *testing.T, name, token string, r jobs.Result, b []byte) error {
		return d.Jobs().Complete(t.Context(), leaseOf(name, token), r, bytes.NewReader(b))
	}
	t.Run("bad results are refused", func(t *testing.T) {
		wrong := result
		wrong.Version = "5.0.0"
		for _, r := range []struct {
			what   string
			result jobs.Result
			body   []byte
		}{
			{"other bytes", result, append([]byte{1}, made[1:]...)},
			{"too short", result, made[1:]},
			{"too long", result, append(bytes.Clone(made), 1)},
			{"another version", wrong, made},
			{"no bytes", jobs.Result{Version: v.String(), SHA256: blob.Sum(nil)}, nil},
			{"a symcache of Sentry", jobs.Result{Version: v.String(), SHA256: blob.Sum([]byte("SYMCx")), Size: 5}, []byte("SYMCx")},
		} {
			if err := complete(t, "two", two.Token, r.result, r.body); !errors.Is(err, jobs.ErrBadResult) {
				t.Errorf("%s: %v, want %v", r.what, err, jobs.ErrBadResult)
			}
		}
		if err := complete(t, "one", one.Token, result, made); !errors.Is(err, jobs.ErrLeaseLost) {
			t.Errorf("result of the first worker: %v, want %v", err, jobs.ErrLeaseLost)
		}
		if held := p.held(t, key); len(held) != 0 {
			t.Errorf("%d refused results were kept, want 0 in held", len(held))
		}
	})
	t.Run("a result may be sent again", func(t *testing.T) {
		for range 2 { // the answer to the first may have been lost
			if err := complete(t, "two", two.Token, result, made); err != nil {
				t.Errorf("result of the holder: %v", err)
			}
		}
		// The first worker made the same bytes, late.
		if err := complete(t, "one", one.Token, result, made); err != nil {
			t.Errorf("the same result of the first worker: %v", err)
		}
		if held := p.held(t, key); held["4.1.0"] != string(made) {
			t.Errorf("held: %d bytes, want the %d bytes of the result", len(held["4.1.0"]), len(made))
		}
		request(t, jobs.Done)
	})
	t.Run("silent workers are forgotten", func(t *testing.T) {
		c.move(2 * time.Minute)
		producible(t, "[]")
	})
}

func TestWorkerFails(t *testing.T) {
	c := &movable{}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	v := version(t, "4.1.0")
	body, g := pdbOf(t, 1)
	key := keyOf("app.pdb", g)
	add(t, d, "", file{"app.pdb", body})
	fail := func(class transcode.Class) {
		t.Helper()
		j, ok := remote(t, d, "one")
		if !ok {
			t.Fatal("the worker got no job, want one")
		}
		if err := d.Jobs().Fail(t.Context(), jobs.Lease{ID: j.ID, Worker: "one", Token: j.Token}, jobs.Failure{Class: string(class), Version: v.String(), Detail: "so it goes\x1b[2J"}); err != nil {
			t.Fatal(err)
		}
		c.move(time.Minute)
	}
	if _, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	// The machine's fault, then one that has a second chance.
	fail(transcode.ClassInfra)
	fail(transcode.ClassTimeout)
	if _, err := d.SymCache().SymCacheFailure(t.Context(), key, v); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	fail(transcode.ClassTimeout)
	f, err := d.SymCache().SymCacheFailure(t.Context(), key, v)
	if err != nil || f.Class != "timeout" || f.Detail != "so it goes[2J" {
		t.Errorf(`SymCacheFailure: %+v, error %v; want Class "timeout", Detail "so it goes[2J"`, f, err)
	}
	// A worker that stops gives its job back, untried.
	_, g = pdbOf(t, 2)
	if _, err := d.SymCache().RequestSymCache(t.Context(), keyOf("gone.pdb", g), v); err != nil {
		t.Fatal(err)
	}
	j, ok := remote(t, d, "one")
	if !ok {
		t.Fatal("the worker got no job, want one")
	}
	if err := d.Jobs().Release(t.Context(), jobs.Lease{ID: j.ID, Worker: "one", Token: j.Token}); err != nil {
		t.Fatal(err)
	}
	j, ok = remote(t, d, "two")
	if !ok || j.Attempts != 1 {
		t.Fatalf(`remote("two"): %+v, %v; want true, Attempts 1`, j, ok)
	}
	// There is no such PDB: the server sees that itself.
	_, err = d.OpenJobInput(t.Context(), jobs.Lease{ID: j.ID, Worker: "two", Token: j.Token})
	if w, ok := errors.AsType[jobs.Failure](err); !ok || w.Class != symcachework.ClassNotFound {
		t.Error(err)
	}
	if st, err := d.SymCache().RequestSymCache(t.Context(), keyOf("gone.pdb", g), v); err != nil || st != jobs.Failed {
		t.Errorf("RequestSymCache: %v, error %v; want %v", st, err, jobs.Failed)
	}
	stats, err := d.Jobs().Stats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Queued != 0 {
		t.Errorf("Stats: %+v, error %v; want length 1, stats[0].Queued 0", stats, err)
	}
}

func TestCancelled(t *testing.T) {
	p := newPlant(t, Options{Jobs: JobOptions{Lease: 300 * time.Millisecond}}, "-mode", "hang")
	body, g := pdbOf(t, 1)
	key := keyOf("app.pdb", g)
	add(t, p.Depot, "", file{"app.pdb", body})
	done := make(chan jobs.State)
	go func() {
		st, _ := p.SymCache().WaitSymCache(t.Context(), key, version(t, "3.1.0"))
		done <- st
	}()
	symtest.Await(t, 20*time.Second, "a run of the transcoder for app.pdb", func() bool { return p.runs(t, "app.pdb") > 0 })
	list, err := p.Jobs().List(t.Context(), jobs.Filter{States: []jobs.State{jobs.Running}})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d running jobs, error %v; want one", len(list), err)
	}
	id := list[0].ID
	if was, err := p.Jobs().Cancel(t.Context(), id); err != nil || !was {
		t.Fatalf("Cancel: %v, error %v; want true", was, err)
	}
	if st := <-done; st != jobs.Failed {
		t.Errorf("got %v, want %v", st, jobs.Failed)
	}
	if _, err := p.Jobs().Cancel(t.Context(), 999); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if f, err := p.SymCache().SymCacheFailure(t.Context(), key, version(t, "3.1.0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SymCacheFailure: %+v, error %v; want fs.ErrNotExist", f, err)
	}
	var filter jobs.Filter
	if list, err := p.Jobs().List(t.Context(), filter); err != nil || list[0].State != jobs.Cancelled {
		t.Errorf("List: %+v, error %v; want list[0].State %v", list, err, jobs.Cancelled)
	}
}

// TestTools: the queue says which programs this machine has, what they make, and why one
// cannot be used.
func TestTools(t *testing.T) {
	p := newPlant(t, Options{}, "-version", "3.2.0")
	list := p.Jobs().Tools()
	if len(list) != 1 || list[0].Name != "test" || list[0].Version != "3.2.0" || list[0].Fault != "" || list[0].Tested.IsZero() {
		t.Errorf("Tools: %+v, want test, which makes 3.2.0", list)
	}
	room, err := transcode.OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	ts := transcode.NewTranscoders(room, nil, transcode.Program{Name: "gone", Command: []string{filepath.Join(t.TempDir(), "gone"), "{pdb}"}})
	d, _ := logged(t, Options{Transcode: TranscodeOptions{Transcoders: ts}})
	if list := d.Jobs().Tools(); len(list) != 1 || list[0].Name != "gone" || list[0].Version+list[0].Fault != "" || !list[0].Tested.IsZero() {
		t.Errorf("Tools before the first test run: %+v, want gone, untested", list)
	}
	if err := ts.Probe(t.Context()); err == nil {
		t.Error("Probe: no error, want that the program cannot be run")
	}
	if list := d.Jobs().Tools(); len(list) != 1 || list[0].Version != "" || !strings.Contains(list[0].Fault, "test run failed") || list[0].Tested.IsZero() {
		t.Errorf("Tools after it: %+v, want why gone cannot be used", list)
	}
}
