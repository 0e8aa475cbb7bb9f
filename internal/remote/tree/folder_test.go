package tree

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

func open(t *testing.T, dir string, opt Options) *Folder {
	t.Helper()
	f, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// get asks a folder as a server would.
func get(t *testing.T, f *Folder, p string) ([]byte, error) {
	t.Helper()
	req, err := layout.Route(strings.Split(p, "/"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.Open(t.Context(), req)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := io.ReadAll(io.NewSectionReader(a, 0, a.Size+1))
	if err != nil || int64(len(b)) != a.Size {
		t.Errorf("%s: %d bytes of %d, %v; want all", p, len(b), a.Size, err)
	}
	if a.Plain != nil {
		if info, err := a.Plain.Stat(); err != nil || info.Size() != a.Size {
			t.Errorf("%s: the plain file has another size, want that of the answer", p)
		}
	}
	if a.ETag == "" || a.ModTime.IsZero() {
		t.Errorf("%s: no tag or time", p)
	}
	return b, nil
}

const (
	pdbKey  = "F9EFE0B6AE7500394C4C44205044422E1"
	progID  = "adac45aa231bba3143d7af433767c61f31021c16"
	pdbPath = "hello-x64.pdb/" + pdbKey + "/hello-x64.pdb"
)

// TestLayouts: each layout is found out, and answers the protocols that its
// paths can serve, in any case.
func TestLayouts(t *testing.T) {
	pdb, elf, dsym := symtest.Testdata(t, "pdb/hello-x64.pdb"), symtest.Testdata(t, "elf/prog-sha1"), symtest.Testdata(t, "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
	sym := []byte("MODULE Linux x86_64 3198517245D844EDB92B943840F8C3D80 a.so\n")
	const uuid = "00112233445566778899AABBCCDDEEFF"
	for _, c := range []struct {
		layout string
		files  map[string][]byte
		ask    map[string][]byte // nil: absent
	}{
		{"symstore", map[string][]byte{"000Admin/lastid.txt": []byte("0000000001"), "Hello-x64.PDB/" + pdbKey + "/Hello-x64.PDB": pdb}, map[string][]byte{
			pdbPath: pdb, strings.ToLower(pdbPath): pdb, "he/" + pdbPath: pdb,
			"hello-x64.pdb/" + pdbKey + "/hello-x64.pd_": nil, "other.pdb/" + pdbKey + "/other.pdb": nil,
		}},
		{"symstore_index2", map[string][]byte{"index2.txt": nil, "he/hello-x64.pdb/" + strings.ToLower(pdbKey) + "/hello-x64.pdb": pdb}, map[string][]byte{pdbPath: pdb, "HE/" + pdbPath: pdb}},
		{"symstore", map[string][]byte{"_.debug/elf-buildid-sym-" + progID + "/_.debug": elf, "prog/elf-buildid-" + progID + "/prog": elf}, map[string][]byte{
			"buildid/" + progID + "/debuginfo": elf, "prog/elf-buildid-" + progID + "/prog": elf, "_.debug/elf-buildid-sym-" + progID + "/_.debug": elf,
			"buildid/" + progID + "/executable": nil,
		}},
		{"breakpad", map[string][]byte{"a.so/3198517245D844EDB92B943840F8C3D80/a.so.sym": sym}, map[string][]byte{"a.so/3198517245d844edb92b943840f8c3d80/A.so.sym": sym}},
		{"unified", map[string][]byte{progID[:2] + "/" + progID[2:] + "/debuginfo": elf, progID[:2] + "/" + progID[2:] + "/debuginfo.meta": []byte("{}"),
			"f9/efe0b6ae7500394c4c44205044422e1/debuginfo": pdb, "f9/efe0b6ae7500394c4c44205044422e1/executable": symtest.Testdata(t, "pdb/hello-x64.exe"),
			"31/98517245d844edb92b943840f8c3d80/debuginfo": sym}, map[string][]byte{
			"buildid/" + progID + "/debuginfo": elf, "AD/" + strings.ToUpper(progID[2:]) + "/debuginfo": elf, ".build-id/ad/" + progID[2:] + ".debug": elf,
			"buildid/" + progID + "/executable": nil, pdbPath: pdb, "31/98517245d844edb92b943840f8c3d80/breakpad": sym, "a.so/3198517245D844EDB92B943840F8C3D80/a.so.sym": sym,
			"f9/efe0b6ae7500394c4c44205044422e1/breakpad": nil,
		}},
		{"gdb", map[string][]byte{".build-id/ad/" + progID[2:] + ".debug": elf}, map[string][]byte{"buildid/" + progID + "/debuginfo": elf, "ad/" + progID[2:] + "/debuginfo": elf, "buildid/" + progID + "/executable": nil}},
		{"gdb", map[string][]byte{"ad/" + progID[2:]: elf, "ad/" + progID[2:] + ".debug": elf}, map[string][]byte{"buildid/" + progID + "/executable": elf}},
		{"lldb", map[string][]byte{"0011/2233/4455/6677/8899/AABBCCDDEEFF": dsym}, map[string][]byte{"_.dwarf/mach-uuid-sym-" + uuid + "/_.dwarf": dsym, "0011/2233/4455/6677/8899/aabbccddeeff": dsym}},
		{"slashsymbols", map[string][]byte{"prog.prx/" + strings.ToUpper(progID) + "/symbols": elf}, map[string][]byte{"prog.prx/" + progID + "/symbols": elf, "prog.prx/elf-buildid-" + progID + "/prog.prx": elf}},
		{"debuginfod", map[string][]byte{progID + "/debuginfo": elf}, map[string][]byte{"buildid/" + progID + "/debuginfo": elf}},
		{"flat", map[string][]byte{"Hello-x64.pdb": pdb, "symbols/so/prog.so": elf, "wrong.pdb": symtest.Testdata(t, "pdb/hello-x86.pdb"), "README": nil}, map[string][]byte{
			pdbPath: pdb, "prog.so/elf-buildid-" + progID + "/prog.so": elf, "wrong.pdb/" + pdbKey + "/wrong.pdb": nil, "hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E2/hello-x64.pdb": nil,
		}},
		{"native", map[string][]byte{pdbPath: pdb, "ad/" + progID[2:] + ".debug": elf}, map[string][]byte{pdbPath: pdb, "buildid/" + progID + "/debuginfo": elf}},
	} {
		dir := t.TempDir()
		for name, body := range c.files {
			symtest.Put(t, dir, name, body)
		}
		f := open(t, dir, Options{})
		if got := f.Layout(t.Context()); got.Name() != c.layout {
			t.Errorf("detected %s, want %s: %v", got, c.layout, keys(c.files))
		}
		for p, want := range c.ask {
			b, err := get(t, f, p)
			if want == nil && !errors.Is(err, fs.ErrNotExist) || want != nil && (err != nil || !bytes.Equal(b, want)) {
				t.Errorf("%s: %s: %d bytes, %v; want %d, or not found for 0", c.layout, p, len(b), err, len(want))
			}
		}
	}
}

func keys(m map[string][]byte) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	return list
}

// TestPacked: a compressed file is served compressed under its own name and
// decompressed under the plain one; a damaged one is not found.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	pdb, elf := symtest.Testdata(t, "pdb/hello-x64.pdb"), symtest.Testdata(t, "elf/prog-sha1")
	packed := unpacktest.Cabinet(t, "hello-x64.pdb", pdb)
	symtest.Put(t, dir, "pingme.txt", nil)
	symtest.Put(t, dir, pdbPath[:len(pdbPath)-1]+"_", packed)
	symtest.Put(t, dir, "bad.pdb/"+pdbKey+"/bad.pd_", packed[:len(packed)/2])
	symtest.Put(t, dir, "none.pdb/"+pdbKey+"/none.pd_", []byte("no cabinet"))
	symtest.Put(t, dir, "old.pdb/"+pdbKey+"/old.pd_", []byte("SZDD\x88\xf0\x27\x33A"))
	big := unpacktest.Cabinet(t, "big.pdb", make([]byte, 3<<20))
	symtest.Put(t, dir, "big.pdb/"+pdbKey+"/big.pd_", big)
	tmp := t.TempDir()
	f := open(t, dir, Options{TempDir: tmp, MaxUnpacked: 1 << 20})
	if b, err := get(t, f, strings.ToUpper(pdbPath[:len(pdbPath)-1])+"_"); err != nil || !bytes.Equal(b, packed) {
		t.Errorf("as it is: %d bytes, %v; want the cabinet", len(b), err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if b, err := get(t, f, pdbPath); err != nil || !bytes.Equal(b, pdb) {
				t.Errorf("unpacked: %d bytes, %v; want the PDB", len(b), err)
			}
		})
	}
	wg.Wait()
	for _, name := range []string{"bad.pdb", "none.pdb", "old.pdb", "big.pdb"} {
		if _, err := get(t, f, name+"/"+pdbKey+"/"+name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: get: error %v, want fs.ErrNotExist", name, err)
		}
	}
	if b, err := get(t, f, "big.pdb/"+pdbKey+"/big.pd_"); err != nil || !bytes.Equal(b, big) {
		t.Errorf("a cabinet too big to unpack is still there as it is: %v", err)
	}

	// Sentry's tool compresses under the plain name.
	uni := t.TempDir()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, uni, "ad/"+progID[2:]+"/debuginfo", enc.EncodeAll(elf, nil))
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write(elf)
	_ = w.Close()
	symtest.Put(t, uni, "ad/"+progID[2:]+"/executable", gz.Bytes())
	u := open(t, uni, Options{TempDir: tmp})
	for _, leaf := range []string{"debuginfo", "executable"} {
		if b, err := get(t, u, "buildid/"+progID+"/"+leaf); err != nil || !bytes.Equal(b, elf) {
			t.Errorf("%s: %d bytes, %v; want the ELF file", leaf, len(b), err)
		}
	}
	f.shelf.Close()
	u.shelf.Close()
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary folder: %v, %v; want none", left, err)
	}
}

// TestZlib: a file compressed with zlib is found by its content, whatever its name;
// a plain file that only begins like one is served as it is.
func TestZlib(t *testing.T) {
	pdb, elf := symtest.Testdata(t, "pdb/hello-x64.pdb"), symtest.Testdata(t, "elf/prog-sha1")
	pack := func(b []byte) []byte {
		var out bytes.Buffer
		w := zlib.NewWriter(&out)
		_, _ = w.Write(b)
		_ = w.Close()
		return out.Bytes()
	}
	store, uni := t.TempDir(), t.TempDir()
	like := append([]byte("x\x9c"), symtest.Testdata(t, "pdb/hello-x86.pdb")...)
	damaged := pack(pdb)
	symtest.Put(t, store, "pingme.txt", nil)
	symtest.Put(t, store, pdbPath, pack(pdb))
	symtest.Put(t, store, "like.pdb/"+pdbKey+"/like.pdb", like)
	symtest.Put(t, store, "bad.pdb/"+pdbKey+"/bad.pdb", damaged[:len(damaged)/2])
	symtest.Put(t, uni, "ad/"+progID[2:]+"/debuginfo", pack(elf))
	tmp := t.TempDir()
	s, u := open(t, store, Options{TempDir: tmp}), open(t, uni, Options{TempDir: tmp})
	for _, c := range []struct {
		f    *Folder
		ask  string
		want []byte // nil: absent
	}{
		{s, pdbPath, pdb}, {s, "like.pdb/" + pdbKey + "/like.pdb", like}, {s, "bad.pdb/" + pdbKey + "/bad.pdb", nil},
		{u, "buildid/" + progID + "/debuginfo", elf},
	} {
		b, err := get(t, c.f, c.ask)
		if c.want == nil && !errors.Is(err, fs.ErrNotExist) || c.want != nil && (err != nil || !bytes.Equal(b, c.want)) {
			t.Errorf("%s: %d bytes, %v; want %d, or not found for 0", c.ask, len(b), err, len(c.want))
		}
	}
}

// TestMSFZ: a compressed PDB answers only those who say that they read it,
// wherever in the store it is.
func TestMSFZ(t *testing.T) {
	dir := t.TempDir()
	packed := symtest.Testdata(t, "rare/packed.pdb")
	const key = "0403020106050807090A0B0C0D0E0F10"
	symtest.Put(t, dir, "pingme.txt", nil)
	symtest.Put(t, dir, "a.pdb/"+key+"/a.pdb", packed)
	symtest.Put(t, dir, "b.pdb/"+key+"/b.pd_", unpacktest.Cabinet(t, "b.pdb", packed))
	symtest.Put(t, dir, "c.pdb/"+key+"/msfz0/c.pdb", packed)
	symtest.Put(t, dir, "hello-x64.pdb/"+pdbKey+"/hello-x64.pdb", symtest.Testdata(t, "pdb/hello-x64.pdb"))
	f := open(t, dir, Options{})
	for _, name := range []string{"a.pdb", "b.pdb", "c.pdb"} {
		plain, own := name+"/"+key+"/"+name, name+"/"+key+"/msfz0/"+name
		if b, err := get(t, f, plain); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %d bytes, %v; want not found", plain, len(b), err)
		}
		if b, err := get(t, f, own); err != nil || !bytes.Equal(b, packed) {
			t.Errorf("%s: %d bytes, %v; want the cabinet", own, len(b), err)
		}
		req, err := layout.Route(strings.Split(plain, "/"))
		if err != nil {
			t.Fatal(err)
		}
		req.AcceptMSFZ()
		a, err := f.Open(t.Context(), req)
		if err != nil || a.Size != int64(len(packed)) || a.Kind != symfile.MSFZ {
			t.Fatalf("Open: %s, %+v, error %v; want Size %v, Kind %v", plain, a, err, int64(len(packed)), symfile.MSFZ)
		}
		_ = a.Close()
	}
	if b, err := get(t, f, "hello-x64.pdb/"+pdbKey+"/msfz0/hello-x64.pdb"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a plain PDB for a compressed one: %d bytes, %v; want not found", len(b), err)
	}
}

// TestUnpackGivenUp: a client that gives up does not spoil it for the next.
func TestUnpackGivenUp(t *testing.T) {
	dir := t.TempDir()
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	symtest.Put(t, dir, "pingme.txt", nil)
	symtest.Put(t, dir, pdbPath[:len(pdbPath)-1]+"_", unpacktest.Cabinet(t, "hello-x64.pdb", pdb))
	f := open(t, dir, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := layout.Route(strings.Split(pdbPath, "/"))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := f.Open(ctx, req); err == nil {
		_ = a.Close() // it was faster than the look at the context
	}
	if b, err := get(t, f, pdbPath); err != nil || !bytes.Equal(b, pdb) {
		t.Errorf("%d bytes, %v, want the PDB", len(b), err)
	}
}

// TestPointers: pointers are followed only inside the allowed folders, and only
// to the requested file.
func TestPointers(t *testing.T) {
	dir, share, secret := t.TempDir(), t.TempDir(), t.TempDir()
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	symtest.Put(t, share, "drop/Hello-x64.pdb", pdb)
	symtest.Put(t, share, "drop/hello.pd_", unpacktest.Cabinet(t, "hello-x64.pdb", pdb))
	symtest.Put(t, share, "drop/other.pdb", symtest.Testdata(t, "pdb/hello-x86.pdb"))
	symtest.Put(t, secret, "hello-x64.pdb", pdb)
	symtest.Put(t, share, "file.ptr", []byte(`\\server\share\file.ptr`))
	if runtime.GOOS != "windows" {
		if err := os.Symlink(filepath.Join(secret, "hello-x64.pdb"), filepath.Join(share, "link.pdb")); err != nil {
			t.Fatal(err)
		}
	}
	symtest.Put(t, dir, "000Admin/lastid.txt", []byte("0000000001"))
	f := open(t, dir, Options{PointerRoots: []symstore.PointerRoot{{Prefix: `\\server\share`, Dir: share}}})
	for target, ok := range map[string]bool{
		`\\server\share\drop\hello-x64.pdb`:      true,
		`PATH:\\SERVER\Share\DROP\hello-x64.pdb`: true,
		`\\server\share\drop\hello.pd_`:          true,
		`\\server\share\drop\other.pdb`:          false,
		`\\server\share\..\x\hello-x64.pdb`:      false,
		`\\server\share\link.pdb`:                false,
		`\\server\share\file.ptr`:                false, // to itself
		`\\server\share`:                         false,
		filepath.Join(secret, "hello-x64.pdb"):   false,
		`http://example.com/hello-x64.pdb`:       false,
		`MSG: gone`:                              false,
		``:                                       false,
	} {
		symtest.Put(t, dir, "hello-x64.pdb/"+pdbKey+"/file.ptr", []byte(target))
		b, err := get(t, f, pdbPath)
		if ok && (err != nil || !bytes.Equal(b, pdb)) || !ok && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %d bytes, %v; want the PDB found: %v", target, len(b), err, ok)
		}
	}
	if _, err := get(t, f, "hello-x64.pdb/"+pdbKey+"/file.ptr"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file.ptr itself: %v, want fs.ErrNotExist", err)
	}
}

// TestHostile: names cannot lead out of the folder, and entries other than
// files are not found.
func TestHostile(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	symtest.Put(t, outside, "x.pdb", symtest.Testdata(t, "pdb/hello-x64.pdb"))
	symtest.Put(t, dir, "pingme.txt", nil)
	if err := os.MkdirAll(filepath.Join(dir, "d.pdb", pdbKey, "d.pdb"), 0o755); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		for name, to := range map[string]string{"x.pdb/" + pdbKey: outside, "loop.pdb": filepath.Join(dir, "loop.pdb")} {
			p := filepath.Join(dir, filepath.FromSlash(name))
			_ = os.MkdirAll(filepath.Dir(p), 0o755)
			if err := os.Symlink(to, p); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := open(t, dir, Options{})
	for _, name := range []string{"d.pdb", "x.pdb", "loop.pdb"} {
		if _, err := get(t, f, name+"/"+pdbKey+"/"+name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: get: error %v, want fs.ErrNotExist", name, err)
		}
	}
	for _, l := range []symfile.Lookup{{Name: "..", ID: "..", Role: symfile.AnyRole}, {ID: "../../etc/passwd", Role: symfile.AnyRole}, {Name: "a/b", ID: "\x00", Role: symfile.Debug}} {
		for _, lay := range layout.Folders() {
			f.layout = lay
			if _, err := f.Open(t.Context(), layout.Request{Lookups: []symfile.Lookup{l}, Name: ".."}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s, %+v: Open: error %v, want fs.ErrNotExist", lay, l, err)
			}
		}
	}
}

// TestListings: added and removed files are noticed, also in names of a
// different case.
func TestListings(t *testing.T) {
	dir := t.TempDir()
	symtest.Put(t, dir, "pingme.txt", nil)
	now := time.Now()
	f := open(t, dir, Options{Now: func() time.Time { return now }})
	if _, err := get(t, f, pdbPath); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	symtest.Put(t, dir, strings.ToUpper(pdbPath), []byte("1"))
	if b, err := get(t, f, pdbPath); err != nil || string(b) != "1" {
		t.Errorf("after it came: %q %v; want 1", b, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "HELLO-X64.PDB")); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, f, pdbPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it went: %v, want fs.ErrNotExist", err)
	}
	// A folder that was empty is looked at again.
	empty := t.TempDir()
	e := open(t, empty, Options{Now: func() time.Time { return now }})
	symtest.Put(t, empty, ".build-id/ad/"+progID[2:]+".debug", []byte("x"))
	now = now.Add(2 * expiry)
	if _, err := get(t, e, "buildid/"+progID+"/debuginfo"); err != nil {
		t.Error(err)
	}
}

// TestAdmin: a store's own files are served only if enabled, and without paths.
func TestAdmin(t *testing.T) {
	dir := t.TempDir()
	s, err := symstore.Create(dir, symstore.Two, symstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	src := filepath.Join(t.TempDir(), "hello-x64.pdb")
	symtest.Put(t, filepath.Dir(src), "hello-x64.pdb", symtest.Testdata(t, "pdb/hello-x64.pdb"))
	for range 2 {
		if _, err := s.Add(t.Context(), symstore.AddOptions{Product: "P"}, func(yield func(symstore.File, error) bool) {
			yield(symstore.File{Path: src, Source: `d:\secret\build\hello-x64.pdb`}, nil)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Del(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{
		"000Admin/lastid.txt": "0000000003", "000admin/server.txt": `"P"`, "000Admin/history.txt": "del",
		"000Admin/0000000002": `"hello-x64.pdb\` + pdbKey + `","hello-x64.pdb"`, "hello-x64.pdb/" + pdbKey + "/refs.ptr": `"hello-x64.pdb"`,
	}
	closed, told := open(t, dir, Options{}), open(t, dir, Options{AdminFiles: true})
	for name, want := range names {
		if _, _, err := closed.Admin(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is told to everybody: %v, want fs.ErrNotExist", name, err)
		}
		b, _, err := told.Admin(t.Context(), name)
		if err != nil || !strings.Contains(string(b), want) || strings.Contains(string(b), "secret") {
			t.Errorf(`%s: Admin: %q, error %v; want one with %q, one without "secret"`, name, b, err, want)
		}
	}
	if b, _, err := told.Admin(t.Context(), "000Admin/0000000001"); err != nil || len(b) != 0 {
		t.Errorf("a deleted build: %q %v; want an empty file", b, err)
	}
	for _, name := range []string{"000Admin/0000000009", "000Admin/symdepot.lock", "000Admin/../x", "pingme.txt", "hello-x64.pdb/" + pdbKey + "/file.ptr"} {
		if b, _, err := told.Admin(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Admin: %q, error %v; want fs.ErrNotExist", name, b, err)
		}
	}
}

func TestMaskPaths(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\"a\\k\",\"c:\\x,y\\a.pdb\"\r\n\"b\\k\",\"/home/me/b.pdb\"", "\"a\\k\",\"a.pdb\"\r\n\"b\\k\",\"b.pdb\""},
		{"no fields\n", ""},
		{`a,b\c,d`, "a,c,d"}, {`a,c:\x,y\z\b.pdb`, "a,x,b.pdb"},
	} {
		if got := string(maskPaths([]byte(c.in), 1)); got != c.want {
			t.Errorf("%q gives %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzMaskPaths(f *testing.F) {
	f.Add([]byte("\"a\\k\",\"c:\\x,y\\a.pdb\"\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for line := range bytes.Lines(maskPaths(text, 1)) {
			parts := splitQuoted(strings.TrimRight(string(line), "\r\n"))
			if len(parts) < 2 || strings.ContainsAny(parts[1], `/\`) {
				t.Errorf("%q: got length %v, want at least 2, not strings.ContainsAny(parts[1], `/\\`)", line, len(parts))
			}
		}
	})
}
