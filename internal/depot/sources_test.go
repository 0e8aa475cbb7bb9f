package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// place writes a file below dir.
func place(t *testing.T, dir, name string, body []byte) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// withSources opens a depot with folders to ask.
func withSources(t *testing.T, c *clock, dirs ...string) *Depot {
	t.Helper()
	var list []*tree.Folder
	for _, dir := range dirs {
		f, err := tree.Open(t.Context(), dir, tree.Options{AdminFiles: true, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		list = append(list, f)
	}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Sources: list, MakeCabinets: true, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestServedFolders: a file that the depot does not have comes from the first served
// folder that has it, for scopes with the product "", and must not be cached by
// clients.
func TestServedFolders(t *testing.T) {
	store, gdb := t.TempDir(), t.TempDir()
	pdb, elf := testdata(t, "pdb/hello-x64.pdb"), testdata(t, "elf/prog-sha1")
	const path = "hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	place(t, store, "000Admin/lastid.txt", []byte("0000000001"))
	place(t, store, path, []byte("of the store"))
	place(t, gdb, ".build-id/ad/"+progID[2:]+".debug", elf.body)
	c := &clock{t: time.Now()}
	d := withSources(t, c, store, gdb)

	f, b, err := get(t, d, answer.Scope{}, path)
	if err != nil || string(b) != "of the store" || !f.Volatile || f.ETag == "" || f.OSFile() == nil {
		t.Fatalf(`get: %+v, %q, error %v; want "of the store", Volatile true, ETag not "", OSFile() not nil`, f, b, err)
	}
	for range forms.Asks + 1 {
		if e, err := d.Encoded(t.Context(), f, []string{"zstd"}); e != nil || err != nil || len(d.forms.Queue()) != 0 {
			t.Fatalf("a compressed variant of a file of a served tree: %+v %v, want none", e, err)
		}
	}
	if _, _, err := get(t, d, answer.Scope{}, path[:len(path)-1]+"_"); !errors.Is(err, fs.ErrNotExist) || len(d.forms.Queue()) != 0 {
		t.Errorf("a cabinet of a file of a served tree: %v, want not found", err)
	}
	if _, _, err := get(t, d, answer.Scope{Products: []string{"P"}}, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a scope of products sees the store: %v, want the error %v", err, fs.ErrNotExist)
	}
	if _, b, err := get(t, d, answer.Scope{}, "buildid/"+progID+"/debuginfo"); err != nil || !bytes.Equal(b, elf.body) {
		t.Errorf("from the second: %d bytes, %v; want the file", len(b), err)
	}
	f, b, err = get(t, d, answer.Scope{}, "buildid/"+progID+"/section/.text")
	if err != nil || len(b) == 0 || int64(len(b)) != f.Size || f.OSFile() != nil || !strings.HasSuffix(f.ETag, "-.text") {
		t.Errorf("a section: %+v %v; want the section .text with a tag of its own", f, err)
	}
	if _, _, err := get(t, d, answer.Scope{}, "buildid/"+progID+"/section/.nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a section that is not there: %v, want the error %v", err, fs.ErrNotExist)
	}

	// The depot's own comes first.
	add(t, d, "", pdb)
	if f, b, err := get(t, d, answer.Scope{}, path); err != nil || !bytes.Equal(b, pdb.body) || f.Volatile {
		t.Errorf("%d bytes, %v; want the added file", len(b), err)
	}

	req, err := layout.RouteAdmin([]string{"000admin", "lastid.txt"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Open(t.Context(), answer.Scope{}, req)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if b, err := io.ReadAll(io.NewSectionReader(a, 0, a.Size)); err != nil || string(b) != "0000000001" {
		t.Errorf(`got %q, error %v; want "0000000001"`, b, err)
	}
}

// TestGenerationOfFolders: with served folders, whose changes cannot be
// detected, the generation changes every second.
func TestGenerationOfFolders(t *testing.T) {
	c := &clock{t: time.Now()}
	d := withSources(t, c, t.TempDir())
	seen := map[uint64]bool{}
	for range 3 {
		for range 2 {
			g, err := d.Generation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			seen[g] = true
		}
		c.t = c.t.Add(time.Second)
	}
	if len(seen) != 3 {
		t.Errorf("%d generations in three seconds, want 3 in seen", len(seen))
	}
}

// TestImportedTransaction: an imported transaction keeps its date, is imported
// once, and records each file once.
func TestImportedTransaction(t *testing.T) {
	d, c := newDepot(t)
	pdb := testdata(t, "pdb/hello-x64.pdb")
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	take := func() (int64, error) {
		tx, err := d.Begin(t.Context(), TxInfo{Product: "P", Time: at, Origin: &Origin{Store: "/s", Number: "0000000007", Time: at}})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for i := range 2 {
			got, err := tx.Add(t.Context(), Source{Path: pdb.path, Content: bytesContent{Reader: bytes.NewReader(pdb.body)}})
			if err != nil || len(got) != 1 || got[0].Again != (i == 1) {
				t.Fatalf("Add: %v, error %v; want length 1, got[0].Again (i == 1)", got, err)
			}
		}
		return tx.Commit(t.Context())
	}
	n, err := take()
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.Transaction(t.Context(), n)
	if err != nil || tx.Files != 1 || !tx.Time.Equal(at) || tx.Kind != "import" || tx.Origin == nil || tx.Origin.Number != "0000000007" {
		t.Errorf(`Build: %+v, error %v; want Files 1, tx.Time.Equal(at), Kind "import", Origin not nil, Origin.Number "0000000007"`, tx, err)
	}
	if _, err := take(); !errors.Is(err, ErrImported) {
		t.Errorf("a second time: %v, want the error %v", err, ErrImported)
	}
	if got, err := d.Origins(t.Context(), "/s"); err != nil || got["0000000007"] != n {
		t.Errorf(`Origins("/s"): %v, error %v; want got["0000000007"] %v`, got, err, n)
	}
	_ = c
}

// TestBetter: Better prefers the file that Open returns.
func TestBetter(t *testing.T) {
	small := answer.Ranked{TxFile: TxFile{Object: symfile.Object{Kind: symfile.ELF, Role: symfile.Debug}, DebugSize: 1, Ref: [32]byte{1}}}
	large := answer.Ranked{TxFile: TxFile{Object: symfile.Object{Kind: symfile.ELF, Role: symfile.Debug}, DebugSize: 2, Ref: [32]byte{2}}}
	if !answer.Better(large, small, symfile.Debug) || answer.Better(small, large, symfile.Debug) {
		t.Error("more debug information is better")
	}
	older := answer.Ranked{TxFile: TxFile{Object: symfile.Object{Kind: symfile.PE, Role: symfile.Executable}, Ref: [32]byte{1}}, Added: time.Unix(1, 0)}
	newer := answer.Ranked{TxFile: TxFile{Object: symfile.Object{Kind: symfile.PE, Role: symfile.Executable}, Ref: [32]byte{2}}, Added: time.Unix(2, 0)}
	if !answer.Better(newer, older, symfile.Executable) || answer.Better(older, newer, symfile.Executable) {
		t.Error("newer is better")
	}
}

// TestManyUnpacked: a compressed file that cannot be unpacked, because so many are in
// use, is not said to be absent. One that nobody has is.
func TestManyUnpacked(t *testing.T) {
	t.Parallel()
	const guid = "F9EFE0B6AE7500394C4C44205044422E1"
	store := t.TempDir()
	place(t, store, "000Admin/lastid.txt", []byte("0000000001"))
	request := func(i int) layout.Request {
		req, err := layout.Route([]string{fmt.Sprintf("a%d.pdb", i), guid, fmt.Sprintf("a%d.pdb", i)})
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	const most = 256 // files that a store unpacks at the same time
	for i := range most + 1 {
		name := fmt.Sprintf("a%d.pdb", i)
		place(t, store, name+"/"+guid+"/"+name[:len(name)-1]+"_", unpacktest.Cabinet(t, name, []byte("a text")))
	}
	d := withSources(t, &clock{t: time.Now()}, store)
	var files []*answer.File
	for i := range most {
		f, err := d.Open(t.Context(), answer.Scope{}, request(i))
		if err != nil {
			t.Fatalf("file %d: %v, want no error", i, err)
		}
		files = append(files, f)
	}
	if _, err := d.Open(t.Context(), answer.Scope{}, request(most)); !errors.Is(err, content.ErrUnavailable) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file too many: %v, want %v", err, content.ErrUnavailable)
	}
	if _, err := d.Open(t.Context(), answer.Scope{}, request(most+1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v, want %v", err, fs.ErrNotExist)
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	f, err := d.Open(t.Context(), answer.Scope{}, request(most))
	if err != nil {
		t.Fatalf("after the others were closed: %v, want no error", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
