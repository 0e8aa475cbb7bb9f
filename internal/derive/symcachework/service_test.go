package symcachework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/indextest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// world is a service with a real index and real blobs, for a depot that has one
// PDB: app.pdb.
type world struct {
	*Service
	blobs   *blob.Disk
	queue   *jobs.Queue
	key     SymCacheKey
	noPDB   bool     // the depot has lost the PDB
	product string   // of the PDB
	inTrees bool     // a tree has it
	opened  []string // what was opened for workers
	dropped []string // what was dropped
}

const guid = "0E7712BEAF064421884B496F833C8EC1"

func TestMain(m *testing.M) {
	indextest.Prepare()
	os.Exit(m.Run())
}

func newWorld(t *testing.T, opt MakeOptions, folders FolderOptions) *world {
	t.Helper()
	dir := t.TempDir()
	db := indextest.Open(t, dir, index.Options{})
	if err := os.Mkdir(filepath.Join(dir, "blobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	disk, err := blob.OpenDisk(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := debugid.ParseGUID(guid)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{blobs: disk, queue: jobs.New(db.Jobs, jobs.Options{WorkerSeen: 24 * time.Hour}), key: SymCacheKey{Name: "app.pdb", ID: debugid.ID{GUID: g, Age: 1}}, product: "ours"}
	log := slog.New(slog.DiscardHandler)
	f := fetch.New(nobody{}, fetch.Options{Log: log, Now: time.Now})
	w.Service, err = New(t.Context(), Options{Depot: w, DB: db, Blobs: disk, Fetch: f, Queue: w.queue, Make: opt, Folders: folders, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		if err := errors.Join(w.Close(), db.Close(), disk.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// nobody is the depot of a fetcher without upstreams.
type nobody struct{ fetch.Depot }

func (w *world) NotIndexed(context.Context, []string, layout.Request) bool { return false }

func (w *world) Find(_ context.Context, products []string, req layout.Request) ([]record.Hit, error) {
	sees := products == nil
	for _, p := range products {
		sees = sees || p == w.product
	}
	l := symfile.Lookup{}
	if len(req.Lookups) > 0 {
		l = req.Lookups[0]
	}
	if w.noPDB || !sees || l.Name != "app.pdb" || l.ID != symfile.Fold(w.key.ID.Breakpad()) {
		return nil, fs.ErrNotExist
	}
	h := record.Hit{}
	h.Object = symfile.Object{Name: "App.pdb", Kind: symfile.PDB, Role: symfile.Debug}
	h.Ref, h.Size = blob.Sum([]byte("the PDB")), 7
	return []record.Hit{h}, nil
}

// content is an open content of a world.
type content struct {
	blob.File
	name string
	size int64
}

func (c content) OSFile() *os.File                   { return nil }
func (c content) Content() (string, blob.Ref, int64) { return c.name, blob.Ref{}, c.size }

func (w *world) OpenHit(ctx context.Context, h record.Hit) (File, error) {
	f, err := w.blobs.Open(ctx, h.Ref)
	return content{f, h.Object.CodeName, h.Size}, err
}

func (w *world) InTrees(context.Context, layout.Request) error {
	if w.inTrees {
		return nil
	}
	return fs.ErrNotExist
}

type inMemory struct{ *strings.Reader }

func (inMemory) Close() error                       { return nil }
func (inMemory) OSFile() *os.File                   { return nil }
func (inMemory) Content() (string, blob.Ref, int64) { return "App.pdb", blob.Ref{}, 7 }

func (w *world) Open(_ context.Context, req layout.Request, _ bool) (File, error) {
	if w.noPDB {
		return nil, fs.ErrNotExist
	}
	w.opened = append(w.opened, req.Name)
	return inMemory{strings.NewReader("the PDB")}, nil
}

func (w *world) Download(context.Context, layout.Request) (File, error) { return nil, fs.ErrNotExist }

func version(t *testing.T, s string) symcache.Version {
	t.Helper()
	if s == "" {
		return symcache.Version{}
	}
	v, err := symcache.ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hold makes the world hold a file of a version, as a worker's result.
func (w *world) hold(t *testing.T, v string) {
	t.Helper()
	body := "file " + v
	if _, err := (work{w.Service}).keep(t.Context(), w.key, version(t, v), int64(len(body)), nil, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

// able makes a worker known that makes these versions.
func (w *world) able(t *testing.T, versions ...string) jobs.Worker {
	t.Helper()
	worker := jobs.Worker{Name: "w", Slots: 1}
	for _, v := range versions {
		worker.Abilities = append(worker.Abilities, Ability(version(t, v)))
	}
	if list, err := w.queue.Lease(t.Context(), worker, 0); err != nil || len(list) > 0 {
		t.Fatalf("Lease on an empty queue: %d jobs, %v; want none", len(list), err)
	}
	return worker
}

// fails makes it known that a version cannot be made.
func (w *world) fails(t *testing.T, worker jobs.Worker, v, class string) {
	t.Helper()
	if _, err := w.RequestSymCache(t.Context(), w.key, version(t, v)); err != nil {
		t.Fatal(err)
	}
	for range 9 { // attempts
		list, err := w.queue.Lease(t.Context(), worker, 10*time.Minute)
		if err != nil || len(list) != 1 {
			t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
		}
		if err := w.queue.Fail(t.Context(), list[0].Proof(), jobs.Failure{Class: class, Version: v, Detail: "as asked"}); err != nil {
			t.Fatal(err)
		}
		if last, err := w.db.Jobs.Job(t.Context(), list[0].ID); err != nil {
			t.Fatal(err)
		} else if last.State == jobs.Failed {
			return
		}
	}
	t.Fatalf("a job that always fails with class %s has not failed after 9 attempts", class)
}

// ask is a request of app.pdb for a version.
func (w *world) ask(t *testing.T, v string) Ask {
	t.Helper()
	hex := w.key
	hex.ID.Age = 0x11
	return Ask{Request: symcache.Request{Version: version(t, v), Key: w.key, Hex: hex}}
}

// told is an answer in words.
func (w *world) told(t *testing.T, ask Ask) string {
	t.Helper()
	a, err := w.Answer(t.Context(), ask)
	if err != nil {
		return err.Error()
	}
	if a.File == nil {
		return a.Action.String()
	}
	_, _, size := a.File.Content()
	b, err := io.ReadAll(io.NewSectionReader(a.File, 0, size))
	if err := errors.Join(err, a.File.Close()); err != nil {
		return err.Error()
	}
	return a.Version.String() + ": " + string(b)
}

func (w *world) jobs(t *testing.T) []jobs.Job {
	t.Helper()
	list, err := w.queue.List(t.Context(), jobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAnswer is the decision table: which version is sent, and what is made.
func TestAnswer(t *testing.T) {
	t.Parallel()
	// A client that cannot wait at all, unless the row says that it retries.
	for _, c := range []struct {
		name    string
		held    []string
		able    []string
		fails   string // of able, with class exit
		version string
		exceeds string
		retries bool
		head    bool
		product string // that the client sees; empty: all
		change  func(*world, *Ask)
		want    string
		job     string // version of the job that is entered, priority included if not 0
	}{
		{name: "nothing held, nothing makes it", version: "3.1.0", want: "not found"},
		{name: "held", held: []string{"3.1.0"}, version: "3.1.0", want: "3.1.0: file 3.1.0"},
		{name: "the very version before a newer one", held: []string{"3.0.0", "3.2.0"}, version: "3.0.0", want: "3.0.0: file 3.0.0"},
		{name: "else the newest of the major", held: []string{"3.0.0", "3.2.0"}, version: "3.1.0", want: "3.2.0: file 3.2.0"},
		{name: "a lower major", held: []string{"3.2.0"}, version: "4.0.0", want: "3.2.0: file 3.2.0"},
		{name: "no higher major", held: []string{"4.0.0"}, version: "3.1.0", want: "not found"},
		{name: "a version before the first", held: []string{"3.1.0"}, version: "2.0.0", want: "not found"},
		{name: "no newer than the client has", held: []string{"3.1.0"}, version: "3.2.0", exceeds: "3.1.0", want: "not modified"},
		{name: "newer than the client has", held: []string{"3.1.0"}, version: "3.2.0", exceeds: "3.0.0", want: "3.1.0: file 3.1.0"},
		{name: "made, the client waits in vain", able: []string{"3.1.0"}, version: "3.1.0", want: "not found", job: "3.1.0"},
		{name: "made, the client retries", able: []string{"3.1.0"}, version: "3.1.0", retries: true, want: "come again", job: "3.1.0"},
		{name: "clients of 4.0.0 retry", able: []string{"4.1.0"}, version: "4.0.0", want: "come again", job: "4.1.0"},
		{name: "HEAD", able: []string{"3.1.0"}, version: "3.1.0", head: true, want: "come again", job: "3.1.0"},
		{name: "the newest major is made", able: []string{"3.1.0", "4.1.0"}, version: "4.0.0", want: "come again", job: "4.1.0"},
		{name: "known to fail", able: []string{"3.1.0"}, fails: "3.1.0", version: "3.1.0", retries: true, want: "not found"},
		{name: "known to fail, the next lower major", able: []string{"3.1.0", "4.1.0"}, fails: "4.1.0", version: "4.0.0", want: "come again", job: "3.1.0"},
		{name: "an old one is sent and upgraded", held: []string{"3.0.0"}, able: []string{"3.2.0"}, version: "3.2.0", want: "3.0.0: file 3.0.0", job: "3.2.0 at -10"},
		{name: "upgrades off", held: []string{"3.0.0"}, able: []string{"3.2.0"}, version: "3.2.0", change: func(w *world, _ *Ask) { w.make.NoUpgrades = true }, want: "3.0.0: file 3.0.0"},
		{name: "an upgrade that fails", held: []string{"3.0.0"}, able: []string{"3.2.0"}, fails: "3.2.0", version: "3.2.0", want: "3.0.0: file 3.0.0"},
		{name: "the PDB is visible", held: []string{"3.1.0"}, version: "3.1.0", product: "ours", want: "3.1.0: file 3.1.0"},
		{name: "the PDB is hidden", held: []string{"3.1.0"}, able: []string{"3.1.0"}, version: "3.1.0", product: "theirs", want: "not found"},
		{name: "nothing is made for a hidden PDB", able: []string{"3.1.0"}, version: "3.1.0", retries: true, product: "theirs", want: "not found"},
		{name: "no PDB", able: []string{"3.1.0"}, version: "3.1.0", retries: true, change: func(w *world, _ *Ask) { w.noPDB = true }, want: "not found"},
		{name: "the PDB is in a tree", able: []string{"3.1.0"}, version: "3.1.0", retries: true, change: func(w *world, _ *Ask) { w.noPDB, w.inTrees = true, true }, want: "come again", job: "3.1.0"},
		{name: "held files only", able: []string{"3.1.0"}, version: "3.1.0", retries: true, change: func(_ *world, a *Ask) { a.HeldOnly = true }, want: "not found"},
		{name: "one version only", held: []string{"3.0.0", "3.1.0"}, version: "3.1.0", change: func(_ *world, a *Ask) { a.Only = symcache.Version{Major: 3} }, want: "3.0.0: file 3.0.0"},
		{name: "the age read as hex", held: []string{"3.1.0"}, version: "3.1.0", change: func(_ *world, a *Ask) { a.HexAge = true; a.Request.Hex = a.Request.Key; a.Request.Key.ID.Age = 7 }, want: "3.1.0: file 3.1.0"},
		{name: "nothing is made for the age read as hex", able: []string{"3.1.0"}, version: "3.1.0", retries: true, change: func(_ *world, a *Ask) { a.HexAge = true; a.Request.Hex = a.Request.Key; a.Request.Key.ID.Age = 7 }, want: "not found"},
		{name: "a held file whose content is missing", held: []string{"3.1.0"}, able: []string{"3.1.0"}, version: "3.1.0", retries: true, change: func(w *world, _ *Ask) {
			if err := w.blobs.Delete(context.Background(), blob.Sum([]byte("file 3.1.0"))); err != nil {
				panic(err)
			}
		}, want: "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, MakeOptions{}, FolderOptions{})
				for _, v := range c.held {
					w.hold(t, v)
				}
				var worker jobs.Worker
				if len(c.able) > 0 {
					worker = w.able(t, c.able...)
				}
				if c.fails != "" {
					w.fails(t, worker, c.fails, "exit")
				}
				before := len(w.jobs(t))
				ask := w.ask(t, c.version)
				ask.Exceeds, ask.AllowsRetry, ask.Head = version(t, c.exceeds), c.retries, c.head
				if c.product != "" {
					ask.Products = []string{c.product}
				}
				if c.change != nil {
					c.change(w, &ask)
				}
				if got := w.told(t, ask); got != c.want {
					t.Errorf("the answer is %q, want %q", got, c.want)
				}
				list := w.jobs(t)
				got := ""
				if len(list) > before {
					_, v, err := readPayload(list[0])
					if got = v.String(); err != nil {
						t.Error(err)
					}
					if list[0].Priority != 0 {
						got += fmt.Sprintf(" at %d", list[0].Priority)
					}
				}
				if got != c.job {
					t.Errorf("the job that was entered makes %q, want %q", got, c.job)
				}
			})
		})
	}
}

// TestHold: clients wait for one job, and are answered when it ends.
func TestHold(t *testing.T) {
	t.Parallel()
	holdFor := func(limit time.Duration) func(context.Context, func(context.Context) error) (bool, error) {
		end := time.Now().Add(limit)
		return func(ctx context.Context, wait func(context.Context) error) (bool, error) {
			ctx, cancel := context.WithDeadline(ctx, end)
			defer cancel()
			_ = wait(ctx)
			return ctx.Err() != nil, nil
		}
	}
	begin := func(t *testing.T, w *world, n int, limit time.Duration) func() []string {
		answers := make([]string, n)
		var all sync.WaitGroup
		for i := range n {
			ask := w.ask(t, "3.1.0")
			if i%2 == 1 {
				ask.Request.Key.Name = "APP.pdb"
			}
			ask.Hold = holdFor(limit)
			all.Go(func() { answers[i] = w.told(t, ask) })
		}
		synctest.Wait()
		return func() []string { all.Wait(); return answers }
	}
	check := func(t *testing.T, answers []string, want string) {
		t.Helper()
		for i, got := range answers {
			if got != want {
				t.Errorf("client %d of %d: %q, want %q", i+1, len(answers), got, want)
			}
		}
	}
	t.Run("made", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			worker := w.able(t, "3.1.0")
			answers := begin(t, w, 10, time.Hour)
			began := time.Now()
			list, err := w.queue.Lease(t.Context(), worker, 0)
			if err != nil || len(list) != 1 || len(w.jobs(t)) != 1 {
				t.Fatalf("Lease: %d jobs, %v, of %d; want 1 of 1", len(list), err, len(w.jobs(t)))
			}
			want := fmt.Sprintf(`{"name":"App.pdb","guid":%q,"age":%d}`, w.key.ID.GUID.Upper(), w.key.ID.Age)
			if got := string(list[0].Input.Message); got != want {
				t.Errorf("the worker is given %s, want the PDB's own name and the id of the request: %s", got, want)
			}
			body := "file 3.1.0"
			r := jobs.Result{Version: "3.1.0", SHA256: blob.Sum([]byte(body)), Size: int64(len(body))}
			if err := w.queue.Complete(t.Context(), list[0].Proof(), r, strings.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			check(t, answers(), "3.1.0: file 3.1.0")
			if took := time.Since(began); took != 0 {
				t.Errorf("the clients were answered %v after the end of the job, want at once", took)
			}
		})
	})
	t.Run("failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			worker := w.able(t, "3.1.0")
			answers := begin(t, w, 4, time.Hour)
			w.fails(t, worker, "3.1.0", "exit")
			check(t, answers(), "not found")
		})
	})
	// finish does the only job with the body of version 3.1.0.
	finish := func(t *testing.T, w *world, worker jobs.Worker) {
		t.Helper()
		list, err := w.queue.Lease(t.Context(), worker, 10*time.Minute)
		if err != nil || len(list) != 1 {
			t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
		}
		body := "file 3.1.0"
		r := jobs.Result{Version: "3.1.0", SHA256: blob.Sum([]byte(body)), Size: int64(len(body))}
		if err := w.queue.Complete(t.Context(), list[0].Proof(), r, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("queued for hours, then tried again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			worker := w.able(t, "3.1.0")
			answers := begin(t, w, 4, 24*time.Hour)
			time.Sleep(3 * time.Hour)
			list, err := w.queue.Lease(t.Context(), worker, 0)
			if err != nil || len(list) != 1 {
				t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
			}
			if err := w.queue.Fail(t.Context(), list[0].Proof(), jobs.Failure{Class: "timeout", Version: "3.1.0", Detail: "as asked"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			finish(t, w, worker)
			check(t, answers(), "3.1.0: file 3.1.0")
		})
	})
	t.Run("its worker vanishes and another one takes over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			worker := w.able(t, "3.1.0")
			answers := begin(t, w, 4, 24*time.Hour)
			if list, err := w.queue.Lease(t.Context(), worker, 0); err != nil || len(list) != 1 {
				t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
			}
			w.queue.ForgetWorker(worker.Name)
			time.Sleep(8 * time.Minute)
			ask := w.ask(t, "3.1.0")
			ask.AllowsRetry = true
			if got := w.told(t, ask); got != "come again" {
				t.Errorf("a client that comes while nobody can do the job: %q, want come again", got)
			}
			worker.Name = "another"
			finish(t, w, worker)
			check(t, answers(), "3.1.0: file 3.1.0")
		})
	})
	t.Run("its worker vanishes for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			worker := w.able(t, "3.1.0")
			began := time.Now()
			answers := begin(t, w, 4, 24*time.Hour)
			w.queue.ForgetWorker(worker.Name)
			check(t, answers(), "not found")
			if took := time.Since(began); took < 10*time.Minute || took > 12*time.Minute {
				t.Errorf("the clients were held for %v, want some ten minutes", took)
			}
		})
	})
	t.Run("the time is over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{}, FolderOptions{})
			w.able(t, "3.1.0")
			began := time.Now()
			check(t, begin(t, w, 2, 30*time.Second)(), "not found")
			if took := time.Since(began); took != 30*time.Second {
				t.Errorf("the clients waited for %v, want 30s", took)
			}
			if j := w.jobs(t); len(j) != 1 || j[0].State != jobs.Queued {
				t.Errorf("the jobs are %+v, want one that is still queued", j)
			}
		})
	})
}

// TestKeepRefuses: a body that cannot be the job's result leaves the attempt open
// and nothing in the index.
func TestKeepRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, MakeOptions{MaxResult: 20}, FolderOptions{})
	worker := w.able(t, "3.1.0")
	if _, err := w.RequestSymCache(t.Context(), w.key, version(t, "3.1.0")); err != nil {
		t.Fatal(err)
	}
	list, err := w.queue.Lease(t.Context(), worker, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
	}
	sum := func(s string) blob.Ref { return blob.Sum([]byte(s)) }
	for _, c := range []struct {
		name, version, body string
		sum                 blob.Ref
		size                int64
	}{
		{"another major", "4.0.0", "file", sum("file"), 4},
		{"no version", "", "file", sum("file"), 4},
		{"empty", "3.1.0", "", sum(""), 0},
		{"other content", "3.1.0", "life", sum("file"), 4},
		{"larger than said", "3.1.0", "files", sum("file"), 4},
		{"larger than the limit", "3.1.0", strings.Repeat("x", 21), sum(strings.Repeat("x", 21)), 21},
		{"larger than the limit, size unknown", "3.1.0", strings.Repeat("x", 21), sum(strings.Repeat("x", 21)), -1},
		{"a SymCache of another program", "3.1.0", "SYMCx", sum("SYMCx"), 5},
	} {
		r := jobs.Result{Version: c.version, SHA256: c.sum, Size: c.size}
		if err := w.queue.Complete(t.Context(), list[0].Proof(), r, strings.NewReader(c.body)); !errors.Is(err, jobs.ErrBadResult) {
			t.Errorf("%s: %v, want ErrBadResult", c.name, err)
		}
	}
	if held, err := w.indexed(t.Context(), nil, w.key); err != nil || len(held) > 0 {
		t.Errorf("the index has %d files, %v; want none", len(held), err)
	}
	if j := w.jobs(t); j[0].State != jobs.Running {
		t.Errorf("the job is %v, want running", j[0].State)
	}
}

// TestRules: which failures are retried, and how long and by which key they are
// remembered.
func TestRules(t *testing.T) {
	t.Parallel()
	tool := func(r jobs.Rule) bool {
		return r.Versioned && r.ByContent == 30*day && r.ByKey == day && r.Retries == 1
	}
	w := work{&Service{make: MakeOptions{}.withDefaults()}}
	for class, right := range map[string]func(jobs.Rule) bool{
		ClassNotFound:                    func(r jobs.Rule) bool { return r.Retries == 0 && r.ByKey == time.Hour && r.ByContent == 0 },
		ClassForbidden:                   func(r jobs.Rule) bool { return r.Retries == 0 && r.ByKey == 0 && r.ByContent == 0 },
		ClassTransient:                   func(r jobs.Rule) bool { return r.Retries == 3 && r.ByKey == 0 && len(r.Backoff) == 3 },
		string(transcode.ClassBadSource): func(r jobs.Rule) bool { return r.Retries == 0 && r.ByKey == day && r.ByContent == day && !r.Versioned },
		string(transcode.ClassTimeout):   func(r jobs.Rule) bool { return tool(r) && !r.NeedsOther },
		string(transcode.ClassMemory):    func(r jobs.Rule) bool { return tool(r) && !r.NeedsOther },
		string(transcode.ClassTooLarge):  func(r jobs.Rule) bool { return tool(r) && !r.NeedsOther },
		string(transcode.ClassExit):      func(r jobs.Rule) bool { return tool(r) && r.NeedsOther },
		string(transcode.ClassNoOutput):  func(r jobs.Rule) bool { return tool(r) && r.NeedsOther },
		string(transcode.ClassBadOutput): func(r jobs.Rule) bool { return tool(r) && r.NeedsOther },
		string(transcode.ClassInfra):     func(r jobs.Rule) bool { return r.Retries == 8 && r.ByKey == 0 && r.ByContent == 0 },
		"a new word":                     func(r jobs.Rule) bool { return r.Retries == 8 && r.ByKey == 0 && r.ByContent == 0 },
	} {
		if r := w.Rule(class); !right(r) {
			t.Errorf("class %s: rule %+v is not the documented one", class, r)
		}
	}
}

// TestFailureEnds: a remembered failure ends after its time, with a different
// version, and when a missing PDB is added.
func TestFailureEnds(t *testing.T) {
	t.Parallel()
	fails := func(t *testing.T, w *world, v string, want bool) {
		t.Helper()
		f, err := w.SymCacheFailure(t.Context(), w.key, version(t, v))
		if got := err == nil; got != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("SymCacheFailure(%s): %+v, %v; want a failure: %v", v, f, err, want)
		}
	}
	for _, c := range []struct {
		class string
		other bool // it holds for other versions too
		life  time.Duration
	}{{"timeout", false, 30 * day}, {"bad_source", true, day}} {
		t.Run(c.class, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, MakeOptions{}, FolderOptions{})
				w.fails(t, w.able(t, "3.1.0"), "3.1.0", c.class)
				fails(t, w, "3.1.0", true)
				fails(t, w, "3.2.0", c.other)
				time.Sleep(c.life - time.Minute)
				fails(t, w, "3.1.0", true)
				time.Sleep(2 * time.Minute)
				fails(t, w, "3.1.0", false)
			})
		})
	}
	t.Run("absent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, MakeOptions{NotFound: time.Minute}, FolderOptions{})
			w.noPDB = true
			worker := w.able(t, "3.1.0")
			if _, err := w.RequestSymCache(t.Context(), w.key, version(t, "3.1.0")); err != nil {
				t.Fatal(err)
			}
			list, err := w.queue.Lease(t.Context(), worker, 0)
			if err != nil || len(list) != 1 {
				t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
			}
			_, err = w.queue.OpenInput(t.Context(), list[0].Proof())
			if f, ok := errors.AsType[jobs.Failure](err); !ok || f.Class != ClassNotFound {
				t.Errorf("OpenInput without a PDB: %v, want a failure of class absent", err)
			}
			fails(t, w, "3.1.0", true)
			w.inTrees = true
			fails(t, w, "3.1.0", false)
			w.inTrees, w.noPDB = false, false
			fails(t, w, "3.1.0", false)
			w.noPDB = true
			fails(t, w, "3.1.0", true)
			time.Sleep(time.Minute)
			fails(t, w, "3.1.0", false)
		})
	})
}

// TestFolders: files of a folder are sent to callers who see everything, and
// made files are written to the store.
func TestFolders(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), t.TempDir()
	name := filepath.Join(dir, "APP.pdb", guid+"1", "App.pdb-v3.0.0.symcache")
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("of the folder"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, MakeOptions{}, FolderOptions{Folders: []string{dir}, Store: store, StoreBytes: 1})
	ask := w.ask(t, "3.1.0")
	if got := w.told(t, ask); got != "3.0.0: of the folder" {
		t.Errorf("a caller who sees everything: %q, want the file of the folder", got)
	}
	ask.Products = []string{"theirs"}
	if got := w.told(t, ask); got != "not found" {
		t.Errorf("a caller who does not see the PDB: %q, want not found", got)
	}
	w.hold(t, "3.1.0")
	copied := filepath.Join(store, "app.pdb", guid+"1", "app.pdb-v3.1.0.symcache")
	if b, err := os.ReadFile(copied); err != nil || string(b) != "file 3.1.0" {
		t.Errorf("the store has %q, %v; want the file that was made", b, err)
	}
	if e, err := w.TrimSymCacheStore(t.Context()); err != nil || e.Files != 1 {
		t.Errorf("TrimSymCacheStore: %+v, %v; want 1 file", e, err)
	}
	if _, err := os.Stat(name); err != nil {
		t.Errorf("a folder that is only read has lost its file: %v", err)
	}
}

// DropCached implements Depot.
func (w *world) DropCached(_ context.Context, id string, ref blob.Ref) (bool, error) {
	w.dropped = append(w.dropped, id+" "+ref.String())
	return true, nil
}

// TestDropPDB: a PDB is dropped when no file can be made of it any more, not before.
func TestDropPDB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, MakeOptions{DropPDBs: true}, FolderOptions{})
		worker := w.able(t, "3.1.0", "4.1.0")
		ask := func(v string) jobs.Leased {
			t.Helper()
			if _, err := w.RequestSymCache(t.Context(), w.key, version(t, v)); err != nil {
				t.Fatal(err)
			}
			list, err := w.queue.Lease(t.Context(), worker, 0)
			if err != nil || len(list) != 1 {
				t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
			}
			return list[0]
		}
		complete := func(v string) {
			t.Helper()
			body := "file " + v
			r := jobs.Result{Version: v, SHA256: blob.Sum([]byte(body)), Size: int64(len(body))}
			if err := w.queue.Complete(t.Context(), ask(v).Proof(), r, strings.NewReader(body)); err != nil {
				t.Fatal(err)
			}
		}
		complete("3.1.0")
		if len(w.dropped) > 0 {
			t.Errorf("dropped %q after one of two versions, want none", w.dropped)
		}
		l := ask("4.1.0")
		if err := w.queue.Fail(t.Context(), l.Proof(), jobs.Failure{Class: "timeout", Version: "4.1.0", Detail: "as asked"}); err != nil {
			t.Fatal(err)
		}
		if len(w.dropped) > 0 {
			t.Errorf("dropped %q while a job is tried again, want none", w.dropped)
		}
		time.Sleep(time.Minute)
		list, err := w.queue.Lease(t.Context(), worker, 0)
		if err != nil || len(list) != 1 {
			t.Fatalf("Lease: %d jobs, %v; want 1", len(list), err)
		}
		if err := w.queue.Fail(t.Context(), list[0].Proof(), jobs.Failure{Class: "timeout", Version: "4.1.0", Detail: "as asked"}); err != nil {
			t.Fatal(err)
		}
		want := symfile.Fold(w.key.ID.Breakpad()) + " " + blob.Sum([]byte("the PDB")).String()
		if len(w.dropped) != 1 || w.dropped[0] != want {
			t.Errorf("dropped %q after the second version has failed for good, want %q", w.dropped, want)
		}
	})
}
