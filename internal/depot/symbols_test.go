package depot

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

const (
	helloID  = "F9EFE0B6AE7500394C4C44205044422E1"
	helloSym = "hello-x64.pdb/" + helloID + "/hello-x64.sym"
)

// works does the background jobs of depots until the test ends.
func works(t *testing.T, list ...*Depot) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, d := range list {
		all.Go(func() { d.queue.Run(ctx) })
	}
	t.Cleanup(func() { stop(); all.Wait() })
}

// makes asks for a file that is made, as a client who waits for long.
func makes(t *testing.T, d *Depot, products []string, path string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return makesFor(ctx, t, d, SymbolsAsk{Products: products, Client: "192.0.2.1"}, path)
}

// makesFor asks for a file that is made, and waits until ctx ends, unless the question
// has a way of its own to wait.
func makesFor(ctx context.Context, t *testing.T, d *Depot, ask SymbolsAsk, path string) ([]byte, error) {
	t.Helper()
	req := request(t, path)
	var ok bool
	if ask.Format, ask.Module, ok = symbolicate.FormatOf(&req); !ok {
		t.Fatalf("%s is not the path of a file that can be made", path)
	}
	if ask.Hold == nil {
		ask.Hold = func(_ context.Context, wait func(context.Context) error) (bool, error) {
			err := wait(ctx)
			return ctx.Err() != nil, err
		}
	}
	f, err := d.Symbols.Make(t.Context(), ask)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return readAll(f)
}

// wantSym fails unless a file is made that has some texts.
func wantSym(t *testing.T, d *Depot, products []string, path string, texts ...string) {
	t.Helper()
	b, err := makes(t, d, products, path)
	if err != nil {
		t.Fatalf("%s: error %v, want a made file", path, err)
	}
	for _, want := range texts {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s lacks %q:\n%.2000s", path, want, b)
		}
	}
}

// wantJobs fails unless so many jobs were entered.
func wantJobs(t *testing.T, d *Depot, want int) []jobs.Job {
	t.Helper()
	list, err := d.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != want {
		t.Errorf("%d jobs, error %v; want %d: %+v", len(list), err, want, list)
	}
	return list
}

// wantContents fails unless the depot has so many contents after a garbage
// collection.
func wantContents(t *testing.T, d *Depot, c *clock, want int64) {
	t.Helper()
	c.advance(48 * time.Hour)
	if _, err := d.Collect(t.Context(), time.Hour, false); err != nil {
		t.Fatal(err)
	}
	s, err := d.Stats(t.Context())
	if err != nil || s.Contents != want {
		t.Errorf("%d contents after a garbage collection, error %v; want %d", s.Contents, err, want)
	}
}

// TestMadeSymbolsGo: files that were made are freed when a symbol file of the module
// is added, or downloaded from an upstream, and not while a caller needs them.
func TestMadeSymbolsGo(t *testing.T) {
	arrived := symFile(helloID, 900)
	for _, tt := range []struct {
		what string
		come func(t *testing.T, d *Depot, far *elsewhere, c *clock)
	}{
		{"added", func(t *testing.T, d *Depot, _ *elsewhere, _ *clock) { add(t, d, "", file{"app.sym", arrived}) }},
		{"downloaded", func(t *testing.T, d *Depot, far *elsewhere, c *clock) {
			c.advance(48 * time.Hour) // the miss is forgotten
			far.sends("hello-x64.sym", bytes.Replace(arrived, []byte("app.pdb"), []byte("hello-x64.pdb"), 1))
			if _, err := fetched(t.Context(), t, d, helloSym); err != nil {
				t.Fatalf("the download of the symbol file: %v", err)
			}
		}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			far := &elsewhere{name: "far"}
			far.fails(fetch.ClassNotFound)
			d, c := withUpstreams(t, Options{}, far)
			works(t, d)
			add(t, d, "", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "pdb/hello-x64.exe"))
			if _, err := fetched(t.Context(), t, d, helloSym); !errors.As(err, new(symbolicate.PendingError)) {
				t.Fatalf("before, by a caller that does not wait: error %v, want a PendingError", err)
			}
			wantSym(t, d, nil, helloSym, "MODULE windows x86_64 "+helloID, "\nFUNC ")
			wantSym(t, d, nil, strings.TrimSuffix(helloSym, ".sym")+".gsym", "MYSG")
			wantContents(t, d, c, 4)
			tt.come(t, d, far, c)
			wantContents(t, d, c, 3)
			if b, err := fetched(t.Context(), t, d, helloSym); err != nil || len(b) < 900 {
				t.Errorf("afterwards: %d bytes, error %v; want the symbol file that has come", len(b), err)
			}
		})
	}
	t.Run("of another product", func(t *testing.T) {
		d, c := newDepot(t)
		works(t, d)
		add(t, d, "P", testdata(t, "pdb/hello-x64.pdb"))
		wantSym(t, d, []string{"P"}, helloSym, "\nFUNC ")
		add(t, d, "Q", file{"app.sym", arrived})
		wantContents(t, d, c, 3)
		wantSym(t, d, []string{"P"}, helloSym, "\nFUNC ")
		wantJobs(t, d, 1)
	})
	t.Run("while it is made", func(t *testing.T) {
		d, c := newDepot(t)
		add(t, d, "", testdata(t, "pdb/hello-x64.pdb"))
		now, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := makesFor(now, t, d, SymbolsAsk{}, helloSym); !errors.As(err, new(symbolicate.PendingError)) {
			t.Fatalf("without workers: error %v, want a PendingError", err)
		}
		add(t, d, "", file{"app.sym", arrived})
		waits := SymbolsAsk{Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) {
			works(t, d) // the client waits for the job before it begins
			return false, wait(ctx)
		}}
		if _, err := makesFor(t.Context(), t, d, waits, helloSym); !errors.As(err, new(symbolicate.PendingError)) {
			t.Errorf("for the client that waited: error %v, want a PendingError: it gets the added file when it asks again", err)
		}
		wantContents(t, d, c, 2)
	})
}

// TestSymbolsOfTree: a PDB in a served folder gets its symbol file, as long as it does
// not change and no symbol file is added.
func TestSymbolsOfTree(t *testing.T) {
	store := t.TempDir()
	pdb := testdata(t, "pdb/hello-x64.pdb")
	place(t, store, "000Admin/lastid.txt", []byte("0000000001"))
	place(t, store, "hello-x64.pdb/"+helloID+"/hello-x64.pdb", pdb.body)
	c := &clock{t: time.Now()}
	d := withSources(t, c, store)
	works(t, d)
	wantSym(t, d, nil, helloSym, "MODULE windows x86_64 "+helloID+" hello-x64.pdb\n", "\nFUNC ")
	wantSym(t, d, []string{"", "P"}, helloSym, "\nFUNC ")
	wantJobs(t, d, 1)
	if _, err := makes(t, d, []string{"P"}, helloSym); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("for a caller who does not see the folder: error %v, want not found", err)
	}
	// The program of the depot is joined with the PDB of the folder.
	add(t, d, "", testdata(t, "pdb/hello-x64.exe"))
	wantSym(t, d, nil, helloSym, "\nFUNC ", "\nINFO CODE_ID ", " hello-x64.exe\n")
	wantJobs(t, d, 2)
	wantCached(t, d, 2)
	add(t, d, "", file{"app.sym", symFile(helloID, 900)})
	wantCached(t, d, 0)
}

// TestSymOfTree: the .sym of a served folder answers lookups of addresses and of unwind rules, for who sees the folder;
// one of the depot comes first. One that cannot be read is no symbol file.
func TestSymOfTree(t *testing.T) {
	store := t.TempDir()
	sym := func(function string) []byte {
		return []byte("MODULE windows x86 " + helloID + " hello-x64.pdb\nFUNC 1000 20 0 " + function + "\n1000 20 7 0\n" +
			"STACK CFI INIT 1000 20 .cfa: $esp 4 + .ra: .cfa 4 - ^\nFILE 0 a.c\n")
	}
	place(t, store, "hello-x64.pdb/"+helloID+"/hello-x64.sym", sym("in_place"))
	place(t, store, "broken.pdb/"+helloID[:32]+"2/broken.sym", []byte("no symbol file"))
	d := withSources(t, &clock{t: time.Now()}, store)
	works(t, d)
	ask := SymbolsAsk{Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }}
	q := symbolicate.ModuleQuery{DebugFile: "hello-x64.pdb", DebugID: helloID}
	want := func(function string) {
		t.Helper()
		m, err := d.Symbols.Source(ask).Module(t.Context(), q)
		if err != nil {
			t.Fatalf("module: %v; want %s", err, function)
		}
		defer m.Done()
		if a, ok := m.Lookup(0x1004); !ok || len(a.Frames) != 1 || a.Frames[0].Function != function {
			t.Errorf("%+v, %t; want %s", a, ok, function)
		}
		u, err := d.Symbols.Source(ask).Unwind(t.Context(), q)
		if err != nil {
			t.Fatalf("unwind rules: %v", err)
		}
		defer u.Done()
		if u.Table == nil || !u.Table.Known(0x1004) {
			t.Errorf("the rules %+v do not have the function", u)
		}
	}
	want("in_place")
	hidden := ask
	hidden.Products = []string{"P"}
	if _, err := d.Symbols.Source(hidden).Module(t.Context(), q); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("for a caller who does not see the folder: %v, want not found", err)
	}
	broken := symbolicate.ModuleQuery{DebugFile: "broken.pdb", DebugID: helloID[:32] + "2"}
	if _, err := d.Symbols.Source(ask).Module(t.Context(), broken); err == nil {
		t.Error("a file that is no .sym: want an error")
	}
	if _, err := d.Symbols.Source(ask).Unwind(t.Context(), broken); err == nil {
		t.Error("the rules of a file that is no .sym: want an error")
	}
	add(t, d, "", file{"hello-x64.sym", sym("added")})
	want("added")
}

// TestSymbolsOfUpstream: debug files are downloaded for a .sym only where that is
// configured, and then once.
func TestSymbolsOfUpstream(t *testing.T) {
	pdb := testdata(t, "pdb/hello-x64.pdb")
	for _, making := range []symbolicate.Making{symbolicate.MakeHeld, symbolicate.MakeUpstream} {
		t.Run(string(making), func(t *testing.T) {
			far := &elsewhere{name: "far"}
			far.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
				if len(ask.Request.Lookups) == 0 || ask.Request.Lookups[0].Role&symfile.Symbols != 0 {
					return nil, &fetch.Failure{Source: "far", Class: fetch.ClassNotFound}
				}
				one := elsewhere{name: "far"}
				one.sends("hello-x64.pdb", pdb.body)
				return one.fetch(t.Context(), ask)
			}
			d, _ := withUpstreams(t, Options{Symbols: SymbolsOptions{Make: making}}, far)
			works(t, d)
			if making == symbolicate.MakeHeld {
				if _, err := makes(t, d, nil, helloSym); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("error %v, want not found", err)
				}
				if n := far.asked.Load(); n != 0 {
					t.Errorf("the upstream was asked %d times, want never", n)
				}
				wantJobs(t, d, 0)
				return
			}
			wantSym(t, d, nil, helloSym, "MODULE windows x86_64 "+helloID, "\nFUNC ")
			asked := far.asked.Load()
			wantSym(t, d, nil, helloSym, "\nFUNC ")
			if n := far.asked.Load(); n != asked || n == 0 {
				t.Errorf("the upstream was asked %d times, then %d more; want none more", asked, n-asked)
			}
			wantJobs(t, d, 1)
			wantCached(t, d, 1)
		})
	}
}

// TestManagedOfTree: a portable PDB in a served folder is looked up. A Windows PDB under
// such a key is not.
func TestManagedOfTree(t *testing.T) {
	store := t.TempDir()
	const guid = "00112233445566778899AABBCCDDEEFF"
	place(t, store, "000Admin/lastid.txt", []byte("0000000001"))
	place(t, store, "lines.pdb/"+guid+"ffffffff/lines.pdb", testdata(t, "ppdb/lines.pdb").body)
	place(t, store, "hello.pdb/"+guid+"ffffffff/hello.pdb", testdata(t, "pdb/hello-x64.pdb").body)
	d := withSources(t, &clock{t: time.Now()}, store)
	src := d.Symbols.Source(SymbolsAsk{})
	m, err := src.Module(t.Context(), symbolicate.ModuleQuery{DebugFile: "lines.pdb", DebugID: guid + "1", IL: true})
	if err != nil {
		t.Fatalf("module: %v; want the portable PDB of the folder", err)
	}
	defer m.Done()
	if a, ok := m.Lookup(0x06000001<<32 | 9); !ok || len(a.Frames) != 1 || a.Frames[0].File != "/src/a.cs" || a.Frames[0].Line != 12 {
		t.Errorf("%+v, %t; want /src/a.cs:12", a, ok)
	}
	if _, err := src.Module(t.Context(), symbolicate.ModuleQuery{DebugFile: "hello.pdb", DebugID: guid + "1", IL: true}); err == nil {
		t.Error("a Windows PDB is opened for IL, want an error")
	}
}

// TestPortableIsNamed: who asks for the functions of a module of which there is only the
// portable PDB is told so, with every id of it; for any other id nothing is found.
func TestPortableIsNamed(t *testing.T) {
	pdb := testdata(t, "ppdb/lines.pdb")
	objects, err := objfile.Identify(bytes.NewReader(pdb.body), int64(len(pdb.body)), "lines.pdb", objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("Identify: %v, %v; want one object", objects, err)
	}
	d, _ := newDepot(t)
	add(t, d, "", pdb)
	for name, src := range map[string]symbolicate.Source{"server": d.Symbols.Source(SymbolsAsk{}), "command": symbolicate.Direct{Service: d.Symbols.SymbolsWork}} {
		ask := func(id string) string {
			jobs := []symbolicate.Job{{Modules: []symbolicate.ModuleQuery{{DebugFile: "lines.pdb", DebugID: id}}, Stacks: [][]symbolicate.Offset{{{Module: 0, Offset: 9}}}}}
			a, err := symbolicate.V5(t.Context(), src, jobs)
			if err != nil || len(a.Results) != 1 || len(a.Results[0].ModuleErrors["lines.pdb/"+id]) != 1 {
				t.Fatalf("%s, id %s: %+v, %v; want one error of the module", name, id, a, err)
			}
			return a.Results[0].ModuleErrors["lines.pdb/"+id][0].Message
		}
		for _, id := range objects[0].PortableIDs() {
			if says := ask(id); !strings.Contains(says, "portable PDB") || !strings.Contains(says, "POST /symbolicate") {
				t.Errorf("%s, id %s: %q; want that the portable PDB is here, and what reads it", name, id, says)
			}
		}
		if says := ask(strings.Repeat("AB", 16) + "1"); says != "no symbol file of this module was found" {
			t.Errorf("%s, other id: %q; want that nothing was found", name, says)
		}
	}
}

// TestManagedLostOfTree: where the bytes of an added portable PDB are lost, that of a
// served folder answers.
func TestManagedLostOfTree(t *testing.T) {
	store, pdb := t.TempDir(), testdata(t, "ppdb/lines.pdb")
	objects, err := objfile.Identify(bytes.NewReader(pdb.body), int64(len(pdb.body)), "lines.pdb", objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("Identify: %v, %v; want one object", objects, err)
	}
	place(t, store, "000Admin/lastid.txt", []byte("0000000001"))
	place(t, store, "lines.pdb/"+objects[0].DebugID.GUID.Upper()+"ffffffff/lines.pdb", pdb.body)
	d := withSources(t, &clock{t: time.Now()}, store)
	add(t, d, "", pdb)
	lossy["missing"](t, d, pdb.body)
	m, err := d.Symbols.Source(SymbolsAsk{}).Module(t.Context(), symbolicate.ModuleQuery{DebugFile: "lines.pdb", DebugID: objects[0].DebugID.Breakpad(), IL: true})
	if err != nil {
		t.Fatalf("module: %v; want the portable PDB of the folder", err)
	}
	defer m.Done()
	if a, ok := m.Lookup(0x06000001<<32 | 9); !ok || len(a.Frames) != 1 || a.Frames[0].Line != 12 {
		t.Errorf("%+v, %t; want line 12", a, ok)
	}
}

// TestManagedOfUpstream: the portable PDB of a module with IL is downloaded where that is
// configured, and looked up.
func TestManagedOfUpstream(t *testing.T) {
	pdb := testdata(t, "ppdb/lines.pdb")
	objects, err := objfile.Identify(bytes.NewReader(pdb.body), int64(len(pdb.body)), "lines.pdb", objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("Identify: %v, %v; want one object", objects, err)
	}
	for _, making := range []symbolicate.Making{symbolicate.MakeHeld, symbolicate.MakeUpstream} {
		far := &elsewhere{name: "far"}
		far.sends("lines.pdb", pdb.body)
		d, _ := withUpstreams(t, Options{Symbols: SymbolsOptions{Make: making}}, far)
		src := d.Symbols.Source(SymbolsAsk{Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }})
		m, err := src.Module(t.Context(), symbolicate.ModuleQuery{DebugFile: "lines.pdb", DebugID: objects[0].DebugID.Breakpad(), IL: true})
		if making == symbolicate.MakeHeld {
			if !errors.Is(err, fs.ErrNotExist) || far.asked.Load() != 0 {
				t.Errorf("%s: error %v, upstream asked %d times; want not found and never", making, err, far.asked.Load())
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v; want the portable PDB", making, err)
		}
		a, ok := m.Lookup(0x06000001<<32 | 9)
		if !ok || len(a.Frames) != 1 || a.Frames[0].File != "/src/a.cs" || a.Frames[0].Line != 12 {
			t.Errorf("%s: %+v, %t; want /src/a.cs:12", making, a, ok)
		}
		m.Done()
	}
}

// TestManagedLost: a portable PDB whose bytes are lost is downloaded again.
func TestManagedLost(t *testing.T) {
	pdb := testdata(t, "ppdb/lines.pdb")
	objects, err := objfile.Identify(bytes.NewReader(pdb.body), int64(len(pdb.body)), "lines.pdb", objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 {
		t.Fatalf("Identify: %v, %v; want one object", objects, err)
	}
	id := objects[0].DebugID
	for way, lose := range lossy {
		for _, added := range []bool{false, true} {
			far := &elsewhere{name: "far"}
			far.sends("lines.pdb", pdb.body)
			d, _ := withUpstreams(t, Options{Symbols: SymbolsOptions{Make: symbolicate.MakeUpstream}}, far)
			if added {
				add(t, d, "", pdb)
			} else if f, err := d.Get(t.Context(), answer.Question{Request: request(t, "lines.pdb/"+id.GUID.Lower()+"ffffffff/lines.pdb")}); err != nil {
				t.Fatal(err)
			} else if _, err := readAll(f); err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			lose(t, d, pdb.body)
			src := d.Symbols.Source(SymbolsAsk{Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }})
			m, err := src.Module(t.Context(), symbolicate.ModuleQuery{DebugFile: "lines.pdb", DebugID: id.Breakpad(), IL: true})
			if err != nil {
				t.Errorf("%s, added %t: %v; want the portable PDB", way, added, err)
				continue
			}
			if a, ok := m.Lookup(0x06000001<<32 | 9); !ok || len(a.Frames) != 1 || a.Frames[0].Line != 12 {
				t.Errorf("%s, added %t: %+v, %t; want line 12", way, added, a, ok)
			}
			m.Done()
		}
	}
}

// once has many clients of two servers ask for one file.
func once(t *testing.T, list ...*Depot) {
	t.Helper()
	add(t, list[0], "", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "pdb/hello-x64.exe"))
	works(t, list...)
	var all sync.WaitGroup
	var mu sync.Mutex
	bodies := map[string]int{}
	for i := range 20 {
		all.Go(func() {
			b, err := makes(t, list[i%len(list)], nil, helloSym)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			bodies[string(b)]++
		})
	}
	all.Wait()
	if len(bodies) != 1 {
		t.Errorf("%d different files, want one", len(bodies))
	}
	entered, err := list[0].Jobs().List(t.Context(), jobs.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, j := range entered {
		if j.State != jobs.Done || j.Attempts != 1 {
			t.Errorf("job %d: %v after %d attempts, want it done at once", j.ID, j.State, j.Attempts)
		}
		if j.Detail != "as made before" { // a client that looked before the job ended, and asked for one after that
			made++
		}
	}
	if made != 1 {
		t.Errorf("%d jobs made the file, want 1: %+v", made, entered)
	}
}

// TestSymbolsOnce: two servers on one depot make one file once.
func TestSymbolsOnce(t *testing.T) {
	d := openNew(t)
	once(t, d, openAt(t, d.Name()))
}

// TestNodesSymbolsOnce is TestSymbolsOnce with PostgreSQL and a bucket.
func TestNodesSymbolsOnce(t *testing.T) {
	list := openServers(t, 2, Options{})
	once(t, list...)
	add(t, list[1], "", file{"app.sym", symFile(helloID, 900)})
	if _, err := list[0].db.Derived(t.Context(), blob.Sum(testdata(t, "pdb/hello-x64.pdb").body), record.Tool{Name: "symbols-sym+" + blob.Sum(testdata(t, "pdb/hello-x64.exe").body).String()[:16], Version: symbolicate.Version}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a made file after the add at the other server: error %v, want not found", err)
	}
	s, err := list[0].Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u := 0
	for _, err := range list[0].db.Unreferenced(t.Context(), time.Now().Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		u++
	}
	if s.Contents != 4 || u != 1 {
		t.Errorf("%d contents, %d without references; want 4 and the made one", s.Contents, u)
	}
}

// TestSymbolsFailure: a failure is remembered by content and version: the file is not
// tried again, and a new version of the program tries again.
func TestSymbolsFailure(t *testing.T) {
	d, c := newDepot(t)
	works(t, d)
	broken := bytes.Clone(testdata(t, "pdb/hello-x64.pdb").body)
	damagePDB(t, broken)
	add(t, d, "", file{"hello-x64.pdb", broken})
	if b, err := makes(t, d, nil, helloSym); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("of a damaged PDB: %d bytes, error %v; want not found", len(b), err)
	}
	j := wantJobs(t, d, 1)[0]
	if j.State != jobs.Failed || j.Attempts != 1 || j.Outcome != "bad-source" || !strings.Contains(j.Detail, "hello-x64.pdb") {
		t.Errorf("the job is %v after %d attempts: %s, %q; want one attempt, bad-source and the name of the file", j.State, j.Attempts, j.Outcome, j.Detail)
	}
	c.advance(24 * time.Hour)
	if _, err := makes(t, d, nil, helloSym); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a day later: error %v, want not found", err)
	}
	wantJobs(t, d, 1)
	// As if an earlier version had remembered it.
	row, err := d.db.Jobs.Failure(t.Context(), blob.Sum(broken), symbolicate.Kind, fmt.Sprint("sym ", symbolicate.Version))
	if err != nil {
		t.Fatal(err)
	}
	row.Source, row.Tool, row.Version = blob.Sum(broken), symbolicate.Kind, "sym 0"
	if _, err := d.db.Jobs.FlushFailures(t.Context(), queue.FailureFilter{Tool: symbolicate.Kind}); err != nil {
		t.Fatal(err)
	}
	if err := d.db.Jobs.PutFailure(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := makes(t, d, nil, helloSym); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("by a new version: error %v, want not found", err)
	}
	wantJobs(t, d, 2)
}

// TestSymbolsFailureTogether: that a PDB cannot be read with a program, which only some callers
// see, is not remembered of the PDB alone.
func TestSymbolsFailureTogether(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "Game", testdata(t, "pdb/hello-x64.pdb"))
	add(t, d, "Other", testdata(t, "pdb/hello-x64.exe"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(products ...string) error {
		_, err := makesFor(gone, t, d, SymbolsAsk{Products: products, Client: "192.0.2.1"}, helloSym)
		return err
	}
	if err := ask("Game", "Other"); !errors.As(err, new(symbolicate.PendingError)) {
		t.Fatalf("the PDB and the program: error %v, want a file that is being made", err)
	}
	able := jobs.Ability{Kind: symbolicate.Kind, Variant: int(symbolicate.Breakpad), Version: fmt.Sprint(symbolicate.Version)}
	list, err := d.Jobs().Lease(t.Context(), jobs.Worker{Name: "w", Slots: 1, Abilities: []jobs.Ability{able}}, time.Second)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs, error %v; want 1", len(list), err)
	}
	if err := d.Jobs().Fail(t.Context(), list[0].Proof(), jobs.Failure{Class: "bad-source", Detail: "the program is damaged"}); err != nil {
		t.Fatal(err)
	}
	if err := ask("Game", "Other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("both again: error %v, want not found", err)
	}
	if err := ask("Game"); !errors.As(err, new(symbolicate.PendingError)) {
		t.Errorf("the PDB alone: error %v, want a file that is being made", err)
	}
}

// damagePDB removes the numbers of the streams that addresses need, such as that of the
// sections, from a PDB whose id can still be read.
func damagePDB(t *testing.T, b []byte) {
	t.Helper()
	dbi := bytes.Index(b, []byte{0xff, 0xff, 0xff, 0xff, 0x77, 0x09, 0x31, 0x01})
	if dbi < 0 {
		t.Fatal("the PDB has no DBI stream of version 70")
	}
	size := func(off int) int { return int(binary.LittleEndian.Uint32(b[dbi+off:])) }
	end := dbi + 64 + size(24) + size(28) + size(32) + size(36) + size(40) + size(52)
	for i := range size(48) {
		b[end+i] = 0xff
	}
}

// TestSymbolsOfDamage: what is sound of a damaged debug file is in its symbol file,
// which says what is missing.
func TestSymbolsOfDamage(t *testing.T) {
	d, _ := newDepot(t)
	works(t, d)
	debug := bytes.Clone(testdata(t, "elf/prog-sha1.debug").body)
	off, n := elfSection(t, debug, ".debug_info")
	for i := off + n/2; i < off+n; i++ {
		debug[i] = 0xff
	}
	add(t, d, "", file{"prog-sha1.debug", debug}, testdata(t, "elf/prog-sha1.stripped"))
	hits, err := d.db.Lookup(t.Context(), record.Scope{All: true}, symfile.Lookup{ID: progID, Role: symfile.Debug})
	if err != nil || len(hits) == 0 {
		t.Fatalf("%d debug files, error %v; want the damaged one", len(hits), err)
	}
	id := hits[0].Object.DebugID.Breakpad()
	wantSym(t, d, nil, "prog-sha1/"+id+"/prog-sha1.sym", "MODULE Linux x86_64 "+id, "\nINFO WARNING ", "\nPUBLIC ")
}

// TestSymbolsOfMachO: an image and its dSYM are joined.
func TestSymbolsOfMachO(t *testing.T) {
	d, _ := newDepot(t)
	works(t, d)
	dsym := testdata(t, "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
	add(t, d, "", testdata(t, "macho/app-arm64"), dsym)
	found, err := d.Find(t.Context(), answer.Scope{}, "app-arm64", 10)
	if err != nil || len(found) < 2 {
		t.Fatalf("%d objects, error %v; want the image and the dSYM", len(found), err)
	}
	id := found[0].Object.DebugID.Breakpad()
	wantSym(t, d, nil, "app-arm64/"+id+"/app-arm64.sym", "MODULE mac arm64 "+id+" app-arm64\n", "\nFUNC ", "\nFILE ", "\nSTACK CFI INIT ")
}

// TestSymbolsNobodyMaySee: nothing is made of files that the caller may not see.
func TestSymbolsNobodyMaySee(t *testing.T) {
	d, _ := newDepot(t)
	works(t, d)
	add(t, d, "secret", testdata(t, "pdb/hello-x64.pdb"))
	add(t, d, "open", testdata(t, "pdb/hello-x64.exe"))
	for _, path := range []string{helloSym, strings.TrimSuffix(helloSym, ".sym") + ".gsym"} {
		b, err := makes(t, d, []string{"open"}, path)
		if err == nil && bytes.Contains(b, []byte("hello.c")) {
			t.Errorf("%s shows the PDB of a hidden product:\n%s", path, b)
		}
	}
	for _, j := range wantJobs(t, d, 2) {
		if strings.Contains(string(j.Payload), ".pdb\",\"kind") {
			t.Errorf("job %d reads the PDB of a hidden product: %s", j.ID, j.Payload)
		}
	}
	if _, err := makes(t, d, []string{"none"}, helloSym); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("for a caller who sees neither: error %v, want not found", err)
	}
	wantJobs(t, d, 2)
	wantSym(t, d, []string{"open", "secret"}, helloSym, "hello.c", "\nINFO CODE_ID ")
	wantJobs(t, d, 3)
}

// faulty is a store of contents whose writes fail after some bytes.
type faulty struct{ blob.Backend }

func (b faulty) Begin(ctx context.Context) (blob.Batch, error) {
	batch, err := b.Backend.Begin(ctx)
	return faultyBatch{batch}, err
}

type faultyBatch struct{ blob.Batch }

var errDisk = errors.New("the disk is full")

func (b faultyBatch) Put(ctx context.Context, size int64, r io.Reader) (blob.Ref, int64, error) {
	return b.Batch.Put(ctx, size, failing{r})
}

// failing fails after the first bytes.
type failing struct{ r io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p[:min(len(p), 100)])
	if err == nil {
		err = errDisk
	}
	return n, err
}

// TestSymbolsFaultWhileWriting: a fault while a file is written fails the attempt, and
// nothing of it is kept.
func TestSymbolsFaultWhileWriting(t *testing.T) {
	d, c := newDepot(t)
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"))
	d.Symbols.Blobs = faulty{d.blobs}
	works(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = symtest.Poll(ctx, func() bool {
			list, err := d.Jobs().List(ctx, jobs.Filter{})
			return err == nil && len(list) == 1 && list[0].Outcome != ""
		})
	}()
	if b, err := makesFor(ctx, t, d, SymbolsAsk{}, helloSym); !errors.As(err, new(symbolicate.PendingError)) {
		t.Errorf("%d bytes, error %v; want a PendingError: it is tried again", len(b), err)
	}
	j := wantJobs(t, d, 1)[0]
	if j.State != jobs.Queued || j.Outcome != jobs.ClassInfra || !strings.Contains(j.Detail, errDisk.Error()) {
		t.Errorf("the job is %v: %s, %q; want it queued again after %q", j.State, j.Outcome, j.Detail, errDisk)
	}
	got, err := d.Collect(t.Context(), 0, true)
	if err != nil || got.Strays != 0 {
		t.Errorf("%d blobs without a row, error %v; want none", got.Strays, err)
	}
	wantContents(t, d, c, 1)
}

// TestSymbolsClientTime: a client for whom this machine has worked for too long is
// refused, others are not.
func TestSymbolsClientTime(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Symbols: SymbolsOptions{PerClient: time.Nanosecond, PerClientEvery: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	works(t, d)
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "elf/prog-sha1"))
	const second = "buildid/" + progID + "/gsym"
	wantSym(t, d, nil, helloSym, "\nFUNC ")
	if _, err := makes(t, d, nil, second); !errors.Is(err, symbolicate.ErrBusy) {
		t.Errorf("a second module: error %v, want %v", err, symbolicate.ErrBusy)
	}
	wantSym(t, d, nil, helloSym, "\nFUNC ") // it costs nothing
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := makesFor(ctx, t, d, SymbolsAsk{Client: "192.0.2.2"}, second); err != nil {
		t.Errorf("another client: error %v, want the file", err)
	}
}

// elfSection returns the place of a section in a little-endian ELF file of 64 bits.
func elfSection(t *testing.T, b []byte, name string) (off, n uint64) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b)) // the test's own file
	if err != nil {
		t.Fatal(err)
	}
	s := f.Section(name)
	if s == nil {
		t.Fatalf("no section %s", name)
	}
	return s.Offset, s.FileSize
}
