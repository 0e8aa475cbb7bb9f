package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// bytesContent is a file in memory.
type bytesContent struct {
	*bytes.Reader
	changed bool
}

func (b bytesContent) Size() int64   { return b.Reader.Size() }
func (b bytesContent) Changed() bool { return b.changed }

type file struct {
	path string
	body []byte
}

// testdata reads a file of the repository's testdata.
func testdata(t *testing.T, name string) file {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return file{name, b}
}

// clock is a time that only the test moves: by setting t while no depot uses the
// clock, or with advance.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func newDepot(t *testing.T) (*Depot, *clock) {
	t.Helper()
	// Blobs carry real times, so the clock starts at the real one.
	c := &clock{t: time.Now()}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, c
}

func add(t *testing.T, d *Depot, product string, files ...file) int64 {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{Product: product})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, f := range files {
		if _, err := tx.Add(t.Context(), Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
			t.Fatalf("%s: Add: error %v, want no error", f.path, err)
		}
	}
	n, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func get(t *testing.T, d *Depot, scope answer.Scope, path string) (*answer.File, []byte, error) {
	t.Helper()
	req, err := layout.Route(strings.Split(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(t.Context(), scope, req)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = f.Close() })
	if f.Redirect != "" {
		return f, nil, nil
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size))
	if err != nil {
		t.Fatal(err)
	}
	return f, b, nil
}

const progID = "adac45aa231bba3143d7af433767c61f31021c16"

// TestBestOfOneBuildID: debug information comes from the file that has most of
// it, an executable from the smallest file with section headers, in whatever
// order they were added.
func TestBestOfOneBuildID(t *testing.T) {
	files := []file{testdata(t, "elf/prog-sha1"), testdata(t, "elf/prog-sha1.stripped"), testdata(t, "elf/prog-sha1.debug"), testdata(t, "elf/prog-noshdr")}
	for shift := range files {
		d, c := newDepot(t)
		for i := range files {
			add(t, d, "", files[(i+shift)%len(files)])
			c.t = c.t.Add(time.Hour)
		}
		_, b, err := get(t, d, answer.Scope{}, "buildid/"+progID+"/debuginfo")
		if err != nil || !bytes.Equal(b, files[2].body) {
			t.Errorf("shift %d: debuginfo has %d bytes, %v; want the separate debug file", shift, len(b), err)
		}
		_, b, err = get(t, d, answer.Scope{}, "buildid/"+progID+"/executable")
		if err != nil || !bytes.Equal(b, files[1].body) {
			t.Errorf("shift %d: executable has %d bytes, %v; want the smallest with section headers, of %d bytes", shift, len(b), err, len(files[1].body))
		}
		_, b, err = get(t, d, answer.Scope{}, "prog-sha1/elf-buildid-"+progID+"/prog-sha1")
		if err != nil || !bytes.Equal(b, files[0].body) {
			t.Errorf("shift %d: by name: %d bytes, %v; want the first file", shift, len(b), err)
		}
		if _, b, err = get(t, d, answer.Scope{}, "buildid/"+progID+"/section/.debug_line"); err != nil || len(b) == 0 {
			t.Errorf("section: %d bytes, %v; want the section", len(b), err)
		}
		if _, b, err = get(t, d, answer.Scope{}, "buildid/"+progID+"/section/.text"); err != nil || len(b) == 0 {
			t.Errorf(".text, which the debug file has no contents for: %d bytes, %v", len(b), err)
		}
		if _, _, err = get(t, d, answer.Scope{}, "buildid/"+progID+"/section/.nope"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing section: %v, want the error %v", err, fs.ErrNotExist)
		}
	}
}

func sym(id, name, code string) file {
	return file{name + ".sym", []byte("MODULE windows x86_64 " + id + " " + name + "\nINFO CODE_ID " + code + " winpty.dll\nFUNC 1000 10 0 f\n")}
}

func TestCodeInfoRedirect(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "", sym("3198517245D844EDB92B943840F8C3D81", "winpty.pdb", "69485E8C45000"))
	f, _, err := get(t, d, answer.Scope{}, "winpty.dll/69485E8C45000/winpty.sym")
	if err != nil || f.Redirect != "winpty.pdb/3198517245D844EDB92B943840F8C3D81/winpty.sym" {
		t.Errorf(`get("winpty.dll/69485E8C45000/winpty.sym"): %+v, error %v; want Redirect "winpty.pdb/3198517245D844EDB92B943840F8C3D81/winpty.sym"`, f, err)
	}
	// Under its own key it is answered, also where the client asks by the code file.
	for _, p := range []string{"winpty.pdb/3198517245d844edb92b943840f8c3d81/winpty.sym", "winpty.dll/3198517245D844EDB92B943840F8C3D81/winpty.dll.sym"} {
		if f, b, err := get(t, d, answer.Scope{}, p); err != nil || f.Redirect != "" || len(b) == 0 {
			t.Errorf(`%s: get: error %v, %q, length %v; want "", not 0`, p, err, f.Redirect, len(b))
		}
	}
}

// TestLookupByIDOnly: a lookup by id alone succeeds only if all files with the id have
// the same content.
func TestLookupByIDOnly(t *testing.T) {
	d, c := newDepot(t)
	x64 := testdata(t, "pdb/hello-x64.pdb")
	add(t, d, "", x64)
	found, err := d.Find(t.Context(), answer.Scope{}, "hello-x64.pdb", 10)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("hello-x64.pdb", 10): %v, error %v; want length 1`, found, err)
	}
	id := found[0].Object.DebugID.Breakpad()
	renamed := "renamed.pdb/" + id + "/renamed.pdb"
	if _, b, err := get(t, d, answer.Scope{}, renamed); err != nil || !bytes.Equal(b, x64.body) {
		t.Errorf("by id alone: %d bytes, %v; want those of hello-x64.pdb", err, len(b))
	}
	other := bytes.Clone(x64.body)
	other[len(other)-1] ^= 1 // the same id, another content
	c.t = c.t.Add(time.Hour)
	add(t, d, "", file{"other.pdb", other})
	if _, _, err := get(t, d, answer.Scope{}, renamed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an ambiguous id was answered: %v, want the error %v", err, fs.ErrNotExist)
	}
	if _, b, err := get(t, d, answer.Scope{}, "other.pdb/"+id+"/other.pdb"); err != nil || !bytes.Equal(b, other) {
		t.Errorf("by name and id: %d bytes, %v; want those of other.pdb", err, len(b))
	}
	// A lower age is answered by this file, a higher one is not.
	if _, b, err := get(t, d, answer.Scope{}, "hello-x64.pdb/"+id[:32]+"0/hello-x64.pdb"); err != nil || !bytes.Equal(b, x64.body) {
		t.Errorf("a lower age: %d bytes, %v; want those of hello-x64.pdb", err, len(b))
	}
	if _, _, err := get(t, d, answer.Scope{}, "hello-x64.pdb/"+id[:32]+"99/hello-x64.pdb"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a higher age than there is: %v, want the error %v", err, fs.ErrNotExist)
	}
}

func TestImageNeverAnswersForItsPDB(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "", testdata(t, "pdb/hello-x64.exe"))
	found, err := d.Find(t.Context(), answer.Scope{}, "hello-x64.exe", 10)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("hello-x64.exe", 10): %v, error %v; want length 1`, found, err)
	}
	id := found[0].Object.DebugID.Breakpad()
	if _, _, err := get(t, d, answer.Scope{}, "hello-x64.pdb/"+id+"/hello-x64.pdb"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the image was answered for the PDB: %v, want the error %v", err, fs.ErrNotExist)
	}
	if _, _, err := get(t, d, answer.Scope{}, strings.ToLower(id[:2]+"/"+id[2:])+"/executable"); err != nil {
		t.Errorf("unified, by debug id: %v", err)
	}
}

// TestScope: objects outside a scope are not found, and do not hide objects
// inside it.
func TestScope(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "secret", testdata(t, "elf/prog-sha1.debug"))
	add(t, d, "open", testdata(t, "elf/prog-sha1"))
	path := "buildid/" + progID + "/debuginfo"
	for _, c := range []struct {
		scope answer.Scope
		want  string
	}{{answer.Scope{}, "elf/prog-sha1.debug"}, {answer.Scope{Products: []string{"secret"}}, "elf/prog-sha1.debug"}, {answer.Scope{Products: []string{"open"}}, "elf/prog-sha1"}} {
		_, b, err := get(t, d, c.scope, path)
		if err != nil || !bytes.Equal(b, testdata(t, c.want).body) {
			t.Errorf("%v: %d bytes, %v, want %s", c.scope, len(b), err, c.want)
		}
	}
	if _, _, err := get(t, d, answer.Scope{Products: []string{"neither"}}, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("outside the scope: %v, want the error %v", err, fs.ErrNotExist)
	}
}

// TestVisibleUntilLastRemoval: a file stays visible until its last transaction is
// removed, is hidden at once then, and is freed after the grace period.
func TestVisibleUntilLastRemoval(t *testing.T) {
	d, c := newDepot(t)
	setPolicy(t, d, "trash: 0")
	f := testdata(t, "elf/prog-sha1")
	for range 30 {
		add(t, d, "p", f)
	}
	if s, err := d.Stats(t.Context()); err != nil || s.Contents != 1 || s.Transactions != 30 {
		t.Fatalf("Stats: %+v, error %v; want Contents 1, Builds 30", s, err)
	}
	path := "buildid/" + progID + "/debuginfo"
	for n := int64(1); n <= 30; n++ {
		if _, _, err := get(t, d, answer.Scope{}, path); err != nil {
			t.Fatalf("before build %d goes: %v", n, err)
		}
		if _, err := d.Retention.Remove(t.Context(), n, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := get(t, d, answer.Scope{}, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the last: %v, want the error %v", err, fs.ErrNotExist)
	}
	if got, err := d.Collect(t.Context(), time.Hour, false); err != nil || got.Contents != 0 {
		t.Errorf("within the grace period: %+v %v; want nothing freed", got, err)
	}
	c.t = c.t.Add(2 * time.Hour)
	if got, err := d.Collect(t.Context(), time.Hour, true); err != nil || got.Contents != 1 || got.Bytes != int64(len(f.body)) {
		t.Errorf("dry run: %+v %v; want the one content that would be freed", got, err)
	}
	if got, err := d.Collect(t.Context(), time.Hour, false); err != nil || got.Contents != 1 {
		t.Errorf("after it: %+v %v; want one content freed", got, err)
	}
	if _, err := d.blobs.Stat(t.Context(), blob.Sum(f.body)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the blob is still there: %v, want the error %v", err, fs.ErrNotExist)
	}
}

func TestRollbackAndEmpty(t *testing.T) {
	d, c := newDepot(t)
	tx, err := d.Begin(t.Context(), TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	f := testdata(t, "elf/prog-sha1")
	if _, err := tx.Add(t.Context(), Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := get(t, d, answer.Scope{}, "buildid/"+progID+"/debuginfo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visible before the commit: %v, want the error %v", err, fs.ErrNotExist)
	}
	tx.Rollback()
	if _, err := tx.Commit(t.Context()); err == nil {
		t.Error("a rolled back build was committed")
	}
	tx, err = d.Begin(t.Context(), TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty commit: %v, want the error %v", err, ErrEmpty)
	}
	if n := add(t, d, "", f); n != 1 {
		t.Errorf("the first build got number %d, want 1", n)
	}
	// What a killed add leaves is a blob that no row knows.
	stray := []byte("left behind")
	if err := d.blobs.Put(t.Context(), blob.Sum(stray), int64(len(stray)), bytes.NewReader(stray)); err != nil {
		t.Fatal(err)
	}
	v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("Verify reports %+v, want no fault", f) }, nil)
	if err != nil || v.Strays != 1 {
		t.Errorf("Verify: %+v, error %v; want Strays 1", v, err)
	}
	c.t = c.t.Add(48 * time.Hour)
	if got, err := d.Collect(t.Context(), lifecycle.DefaultGrace, false); err != nil || got.Strays != 1 || got.Contents != 0 {
		t.Errorf("Collect: %+v, error %v; want Strays 1, Contents 0", got, err)
	}
}

func TestAddRefuses(t *testing.T) {
	d, _ := newDepot(t)
	tx, err := d.Begin(t.Context(), TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	prog := testdata(t, "elf/prog-sha1")
	for what, c := range map[string]struct {
		src  Source
		want error
	}{
		"changed while read": {Source{Path: prog.path, Content: bytesContent{bytes.NewReader(prog.body), true}}, ErrChanged},
		"no id":              {Source{Path: "w.wasm", Content: bytesContent{Reader: bytes.NewReader(testdata(t, "wasm/w-none.wasm").body)}}, ErrNoID},
	} {
		if _, err := tx.Add(t.Context(), c.src); !errors.Is(err, c.want) {
			t.Errorf("%s: Add: error %v, want %v", what, err, c.want)
		}
	}
	if _, err := tx.Commit(t.Context()); !errors.Is(err, ErrEmpty) {
		t.Errorf("something of the refused was kept: %v, want the error %v", err, ErrEmpty)
	}
}

// TestVerifyFinds: a flipped bit, a short file and a missing one are faults.
func TestVerifyFinds(t *testing.T) {
	d, _ := newDepot(t)
	files := []file{testdata(t, "elf/prog-sha1"), testdata(t, "elf/prog-zlib"), testdata(t, "elf/prog-zstd")}
	add(t, d, "", files...)
	for i, damage := range []func(string) error{
		func(p string) error {
			b := bytes.Clone(files[0].body)
			b[100] ^= 1
			return os.WriteFile(p, b, 0o644)
		},
		func(p string) error { return os.Truncate(p, 10) },
		os.Remove,
	} {
		p := blobPath(d, blob.Sum(files[i].body))
		if err := os.Chmod(p, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := damage(p); err != nil {
			t.Fatal(err)
		}
	}
	var faults []string
	v, err := d.Check.Verify(t.Context(), func(f content.Fault) { faults = append(faults, f.What) }, nil)
	if err != nil || v.Faults != 3 || len(faults) != 3 {
		t.Fatalf("Verify: %+v, error %v, %q; want Faults 3, length 3", v, err, faults)
	}
	for _, word := range []string{"have SHA-256", "instead of", "missing"} {
		if !strings.Contains(strings.Join(faults, "\n"), word) {
			t.Errorf("no fault says %q: %q", word, faults)
		}
	}
	for _, name := range []string{"prog-sha1", "prog-zlib", "prog-zstd"} {
		if _, _, err := get(t, d, answer.Scope{}, name+"/elf-buildid-"+progID+"/"+name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s, whose content is lost: %v, want fs.ErrNotExist", name, err)
		}
	}
}

// TestVariants: the third request for a content queues a compressed variant,
// without waiting for it.
func TestVariants(t *testing.T) {
	d, _ := newDepot(t)
	body := append([]byte("MODULE Linux x86_64 3198517245D844EDB92B943840F8C3D80 a.so\n"), bytes.Repeat([]byte("PUBLIC 1000 0 name\n"), 10_000)...)
	add(t, d, "", file{"a.so.sym", body})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, _, err := get(t, d, answer.Scope{}, "a.so/3198517245D844EDB92B943840F8C3D80/a.so.sym")
	if err != nil {
		t.Fatal(err)
	}
	for range forms.Asks {
		if e, err := d.Encoded(ctx, f, []string{"br", "zstd", "gzip"}); err != nil || e != nil {
			t.Fatalf("%+v %v before one was made", e, err)
		}
	}
	if _, err := d.forms.Derive(ctx, <-d.forms.Queue()); err != nil {
		t.Fatal(err)
	}
	e, err := d.Encoded(ctx, f, []string{"br", "zstd", "gzip"})
	if err != nil || e == nil || e.Encoding != "zstd" || e.Size >= f.Size/10 || e.ETag == f.ETag {
		t.Fatalf(`Encoded: %+v, error %v; want not nil, Encoding "zstd", Size less than f.Size / 10, ETag not %v`, e, err, f.ETag)
	}
	defer e.Close()
	if v, err := d.Check.Verify(ctx, func(f content.Fault) { t.Errorf("Verify reports %+v, want no fault", f) }, nil); err != nil || v.Strays != 0 {
		t.Errorf("Verify: %+v, error %v; want Strays 0", v, err)
	}
	// It goes with its source.
	setPolicy(t, d, "trash: 0")
	if _, err := d.Retention.Remove(ctx, 1, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Collect(ctx, -time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Collect(ctx, -time.Hour, false); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range d.blobs.List(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 0 {
		t.Errorf("%d blobs are left, want 0", n)
	}
}

func TestRuntimeHelpersFromOneFolder(t *testing.T) {
	d, _ := newDepot(t)
	exe := testdata(t, "pdb/hello-x64.exe")
	helper := bytes.Clone(exe.body)
	add(t, d, "", file{"net/coreclr.dll", exe.body}, file{"net/mscordaccore.dll", append(helper, 0)}, file{"elsewhere/mscordbi.dll", append(bytes.Clone(exe.body), 0, 0)})
	found, err := d.Find(t.Context(), answer.Scope{}, "coreclr.dll", 1)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("coreclr.dll", 1): %v, error %v; want length 1`, found, err)
	}
	id := found[0].Object.CodeID
	// All three carry one header here, so only the folder can tell them apart.
	if _, _, err := get(t, d, answer.Scope{}, "mscordaccore.dll/"+id+"/mscordaccore.dll"); err != nil {
		t.Errorf("the helper beside its runtime: %v", err)
	}
}

func TestFormat(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "none"), Options{MustExist: true}); !errors.Is(err, home.ErrNoDepot) {
		t.Errorf("a missing depot: %v, want the error %v", err, home.ErrNoDepot)
	}
	if err := os.WriteFile(filepath.Join(dir, "depot.json"), []byte(fmt.Sprintf(`{"format":%d}`, home.Format+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, home.ErrNewer) {
		t.Errorf("a newer depot: %v, want the error %v", err, home.ErrNewer)
	}
	if err := os.WriteFile(filepath.Join(dir, "depot.json"), []byte(`{`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); err == nil {
		t.Error("a damaged stamp is taken")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something was touched: %v, want 1 in entries", entries)
	}
	// A newer depot may permit programs of this version.
	for floor, want := range map[int]error{home.Format: nil, home.Format + 1: home.ErrNewer} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "depot.json"), fmt.Appendf(nil, `{"format":%d,"floor":%d}`, home.Format+2, floor), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), dir, Options{})
		if !errors.Is(err, want) {
			t.Errorf("a newer depot with the floor %d: %v, want %v", floor, err, want)
		}
		if err == nil {
			_ = d.Close()
		}
	}
}

func TestFindSpellings(t *testing.T) {
	d, _ := newDepot(t)
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"), testdata(t, "elf/prog-sha1"))
	found, err := d.Find(t.Context(), answer.Scope{}, "hello-*.pdb", 10)
	if err != nil || len(found) != 1 {
		t.Fatalf(`Find("hello-*.pdb", 10): %v, error %v; want length 1`, found, err)
	}
	o := found[0].Object
	for _, q := range []string{
		o.DebugID.Breakpad(), strings.ToLower(o.DebugID.Breakpad()), o.DebugID.String(), o.DebugID.GUID.String(), "{" + o.DebugID.GUID.String() + "}", o.DebugID.GUID.Lower(),
		fmt.Sprintf("{%s}, %d", o.DebugID.GUID.String(), o.DebugID.Age), // as dumpbin prints it
		"HELLO-X64.PDB", layout.SymStore.Paths(o)[0], found[0].Ref.String(),
	} {
		if got, err := d.Find(t.Context(), answer.Scope{}, q, 10); err != nil || len(got) != 1 || got[0].Ref != found[0].Ref {
			t.Errorf("%q: %d objects, %v; want the one object", q, len(got), err)
		}
	}
	for _, q := range []string{progID, strings.ToUpper(progID), "elf-buildid-" + progID, "/buildid/" + progID + "/debuginfo"} {
		if got, err := d.Find(t.Context(), answer.Scope{}, q, 10); err != nil || len(got) != 1 || got[0].Object.Kind != symfile.ELF {
			t.Errorf("%q: %d objects, %v; want one ELF object", q, len(got), err)
		}
	}
	if got, err := d.Find(t.Context(), answer.Scope{}, "nothing", 10); err != nil || len(got) != 0 {
		t.Errorf(`Find("nothing", 10): %v, error %v; want none`, got, err)
	}
}
