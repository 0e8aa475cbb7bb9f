package symstore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestRealFiles stores files of real linkers in all forms.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opt  AddOptions
		leaf string
		flag string
	}{
		{"plain", AddOptions{}, "hello-x64.pdb", "N"},
		{"MSZIP", AddOptions{Compress: MSZIP}, "hello-x64.pd_", "Y"},
		{"LZX", AddOptions{Compress: LZX}, "hello-x64.pd_", "Y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, t.TempDir(), One, Options{})
			mustAdd(t, s, c.opt, paths("../testdata/pdb/hello-x64.pdb", "../testdata/pdb/hello-x64.exe", "../testdata/ppdb/tiny.pdb"))
			mustBeClean(t, s)
			storedPDB(t, s, c.leaf, c.flag)
			storedPortablePDB(t, s)
			if entries, err := s.Entries(1); err != nil || len(entries) != 4 {
				t.Errorf("transaction 1 has %d entries %v, error %v; want 4 and none", len(entries), entries, err)
			}
			mustDel(t, s, 1)
			for n := range tree(t, s.Dir()) {
				if strings.Contains(n, "hello") || strings.Contains(n, "tiny") {
					t.Errorf("%s is left after the deletion, want no %q in it and no %q in it", n, "hello", "tiny")
				}
			}
		})
	}
}

// storedPDB checks hello-x64.pdb of TestRealFiles.
func storedPDB(t *testing.T, s *Store, leaf, flag string) {
	t.Helper()
	const src = "../testdata/pdb/hello-x64.pdb"
	answers, err := s.Query(src, false)
	if err != nil || len(answers) != 1 || answers[0].Found == nil {
		t.Fatalf("query of the PDB: %+v, error %v; want one key that is found", answers, err)
	}
	f := answers[0].Found
	if got := filepath.Base(f.Best()); got != leaf {
		t.Errorf("stored as %s, want %s", got, leaf)
	}
	if len(f.Refs) != 1 || f.Refs[0].Type != Private {
		t.Errorf("refs %+v, want one of type Private", f.Refs)
	}
	abs, err := filepath.Abs(src)
	if err != nil {
		t.Fatal(err)
	}
	want(t, s, f.Dir+"/refs.ptr", fmt.Sprintf(`0000000001,file,"%s",pri,,%s,,`, abs, flag))
	if flag == "N" {
		return
	}
	file, err := s.Open("HELLO-X64.PDB", strings.ToLower(answers[0].Key.Key), "hello-x64.PD_")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := cab.Open(file, info.Size(), cab.Options{})
	if err != nil {
		t.Fatalf("the stored cabinet: %v", err)
	}
	if list := r.Files(); len(list) != 1 || list[0].Name != "hello-x64.pdb" || len(r.Folders()) != 1 {
		t.Errorf("the cabinet has %d folders and the files %+v, want one folder with hello-x64.pdb", len(r.Folders()), list)
	}
}

// storedPortablePDB checks tiny.pdb of TestRealFiles, which has two keys.
func storedPortablePDB(t *testing.T, s *Store) {
	t.Helper()
	answers, err := s.Query("../testdata/ppdb/tiny.pdb", false)
	if err != nil || len(answers) != 2 || answers[0].Found == nil || answers[1].Found == nil {
		t.Fatalf("query of the portable PDB: %+v, error %v; want two keys that are found", answers, err)
	}
	if a, b := answers[0].Key.Key, answers[1].Key.Key; !strings.HasSuffix(a, "FFFFFFFF") || !strings.HasSuffix(b, "1") {
		t.Errorf("keys of the portable PDB are %s and %s, want the ages FFFFFFFF and 1", a, b)
	}
}

// TestForms replaces a plain file by a compressed one and back.
func TestForms(t *testing.T) {
	t.Parallel()
	s := create(t, t.TempDir(), One, Options{})
	p := writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))
	form := func(what string, plain, compressed bool) *Found {
		t.Helper()
		f := mustFind(t, s, "a.dll", "000000011000")
		if (f.Plain != "") != plain || (f.Compressed != "") != compressed {
			t.Errorf("%s: plain file %q, cabinet %q; want plain %v, cabinet %v", what, f.Plain, f.Compressed, plain, compressed)
		}
		return f
	}
	mustAdd(t, s, AddOptions{}, paths(p))
	form("stored plain", true, false)
	mustAdd(t, s, AddOptions{Compress: MSZIP}, paths(p))
	form("then compressed", false, true)
	mustAdd(t, s, AddOptions{}, paths(p))
	form("then plain again", true, false)
	mustAdd(t, s, AddOptions{Compress: MSZIP, NoForceCopy: true}, paths(p))
	f := form("then compressed with NoForceCopy", true, false)
	if len(f.Refs) != 4 || f.Refs[3].Compressed {
		t.Errorf("refs with NoForceCopy: %+v, want four, the last one of a plain file", f.Refs)
	}
	mustBeClean(t, s)
}

func TestForeignFormats(t *testing.T) {
	t.Parallel()
	list := []string{"../testdata/elf/prog-sha1.stripped", "../testdata/elf/prog-sha1.debug", "../testdata/macho/app-arm64", "../testdata/pdb/hello.c"}
	s := create(t, t.TempDir(), One, Options{})
	r, err := s.Add(t.Context(), AddOptions{}, paths(list...))
	wantCounts(t, r, err, counts{Ignored: len(list)})
	if r.ID != 0 || s.exists("000Admin/lastid.txt") {
		t.Errorf("an add that stores nothing uses the number %s", r.ID)
	}
	r, err = s.Add(t.Context(), AddOptions{AllKinds: true}, paths(list...))
	wantCounts(t, r, err, counts{Stored: 3, Ignored: 1})
	if r.ID != 1 {
		t.Errorf("AllKinds: transaction %s, want 1", r.ID)
	}
	entries, err := s.Entries(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Key, "elf-buildid-") && !strings.HasPrefix(e.Key, "mach-uuid-") {
			t.Errorf("%s has the key %s, want one of elf-buildid- or mach-uuid-", e.Name, e.Key)
		}
	}
	mustBeClean(t, s)
}

// TestBadInput adds what cannot be stored. Nothing of it changes the store.
func TestBadInput(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	good := writeFile(t, filepath.Join(src, "good.dll"), peImage(1, 0x1000, "good"))
	long := writeFile(t, filepath.Join(src, strings.Repeat("d/", 60), strings.Repeat("n", 200), strings.Repeat("e", 80)+".dll"), peImage(2, 0x1000, ""))
	if len(long) < 400 {
		t.Fatalf("the long path has %d bytes, want 400 at least", len(long))
	}
	s := create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{}, paths(good))
	before := tree(t, s.Dir())
	// odd is a file of a name that Windows does not take. There only the key has it.
	odd := func(name string) File {
		if runtime.GOOS == "windows" {
			return File{Path: good, Keys: []Key{{name, "AB", Binary}}}
		}
		return File{Path: writeFile(t, filepath.Join(src, name), peImage(1, 1, ""))}
	}
	for _, c := range []struct {
		what    string
		file    File
		ignored bool
		err     error
	}{
		{"empty PDB", File{Path: writeFile(t, filepath.Join(src, "empty.pdb"), nil)}, true, nil},
		{"text", File{Path: writeFile(t, filepath.Join(src, "text.pdb"), []byte("text"))}, true, nil},
		{"absent", File{Path: filepath.Join(src, "absent.pdb")}, false, os.ErrNotExist},
		{"folder", File{Path: src}, false, nil},
		{"device", odd("aux.dll"), false, nil},
		{"colon", odd("a:b.dll"), false, ErrName},
		{"dot", odd("a.dll."), false, ErrName},
		{"own name", File{Path: good, Keys: []Key{{"000admin", "AB", Binary}}}, false, ErrName},
		{"upwards", File{Path: good, Keys: []Key{{"..", "AB", Binary}}}, false, ErrName},
		{"upwards key", File{Path: good, Keys: []Key{{"a.dll", "..", Binary}}}, false, ErrName},
		{"slash", File{Path: good, Keys: []Key{{"a/b", "AB", Binary}}}, false, ErrName},
		{"long name", File{Path: good, Keys: []Key{{strings.Repeat("n", 400), "AB", Binary}}}, false, ErrName},
	} {
		t.Run(c.what, func(t *testing.T) {
			var events []Event
			r, err := s.Add(t.Context(), AddOptions{Event: func(e Event) { events = append(events, e) }}, files(c.file))
			if c.ignored {
				wantCounts(t, r, err, counts{Ignored: 1})
			} else {
				wantCounts(t, r, err, counts{Failed: 1})
			}
			if c.err != nil {
				wantError(t, "the file", r.Err, c.err)
			}
			if len(events) != 1 {
				t.Errorf("events %+v, want one", events)
			}
			wantUnchanged(t, s, "the add", before)
		})
	}
	t.Run("long path", func(t *testing.T) {
		mustAdd(t, s, AddOptions{}, paths(long))
		entries, err := s.Entries(2)
		if err != nil || len(entries) != 1 || entries[0].Source != long {
			t.Errorf("entries %+v, error %v; want one of %s", entries, err, long)
		}
	})
}

// TestOneKey adds files of one key and different content.
func TestOneKey(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a", "x.dll"), peImage(1, 0x1000, "a"))
	same := writeFile(t, filepath.Join(src, "same", "x.dll"), peImage(1, 0x1000, "a"))
	other := writeFile(t, filepath.Join(src, "other", "X.dll"), peImage(1, 0x1000, "other"))
	s := create(t, t.TempDir(), One, Options{})
	r, err := s.Add(t.Context(), AddOptions{}, paths(a, same, other))
	wantCounts(t, r, err, counts{Stored: 2, Repeated: 1, Failed: 1})
	wantError(t, "the file of other content", r.Err, ErrExists)
	if entries, err := s.Entries(1); err != nil || len(entries) != 1 || entries[0].Source != a {
		t.Errorf("entries %+v, error %v; want one of %s", entries, err, a)
	}
	before := tree(t, s.Dir())
	_, err = s.Add(t.Context(), AddOptions{AllOrNothing: true}, paths(a, other))
	wantError(t, "AllOrNothing", err, ErrExists)
	wantUnchanged(t, s, "AllOrNothing", before)
	_, err = s.Add(t.Context(), AddOptions{NoReplace: true}, paths(other))
	wantError(t, "NoReplace", err, ErrExists)
	wantUnchanged(t, s, "NoReplace", before)
	mustAdd(t, s, AddOptions{NoReplace: true, Compress: MSZIP}, paths(same))
	mustAdd(t, s, AddOptions{NoReplace: true}, paths(same))
	mustAdd(t, s, AddOptions{}, paths(other))
	want(t, s, "x.dll/000000011000/x.dll", string(peImage(1, 0x1000, "other")))
	mustBeClean(t, s)
}

// TestInTheWay puts files in the place of folders, and a folder in the place of a
// file.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, made string }{
		{"file for the name", "x.dll"},
		{"file for the key", "x.dll/000000011000"},
		{"folder for the file", "x.dll/000000011000/x.dll/sub/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
			s := create(t, t.TempDir(), One, Options{})
			if strings.HasSuffix(c.made, "/") {
				if err := os.MkdirAll(filepath.Join(s.Dir(), c.made), 0o755); err != nil {
					t.Fatal(err)
				}
			} else {
				writeFile(t, filepath.Join(s.Dir(), c.made), []byte("in the way"))
			}
			before := tree(t, s.Dir())
			_, err := s.Add(t.Context(), AddOptions{}, paths(p))
			wantError(t, "add", err, ErrExists)
			wantUnchanged(t, s, "the add", before)
		})
	}
}

// TestTakenNumber simulates Microsoft's symstore, which takes no lock: it takes
// the number of a transaction at the last moment.
func TestTakenNumber(t *testing.T) {
	t.Parallel()
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	dir := t.TempDir()
	once := false
	s := create(t, dir, One, Options{step: func(what string) error {
		if what == "create 000Admin/0000000001" && !once {
			once = true
			writeFile(t, filepath.Join(dir, "000Admin/0000000001"), []byte("\"y.dll\\AB\",\"C:\\y.dll\"\r\n"))
		}
		return nil
	}})
	if r := mustAdd(t, s, AddOptions{}, paths(p)); r.ID != 2 {
		t.Errorf("transaction %s, want 2: the other tool has 1", r.ID)
	}
	want(t, s, "000Admin/0000000001", "\"y.dll\\AB\",\"C:\\y.dll\"\r\n")
	want(t, s, "x.dll/000000011000/refs.ptr", fmt.Sprintf(`0000000002,file,"%s",bin,,N,,`, p))
	want(t, s, "x.dll/000000011000/x.dll", string(peImage(1, 0x1000, "a")))
	want(t, s, "000Admin/lastid.txt", "0000000002")
	wantNoLeftovers(t, s)
}

// TestNumbers damages the records of the numbers.
func TestNumbers(t *testing.T) {
	t.Parallel()
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	for _, c := range []struct {
		name    string
		records map[string]string
		want    string // the number of the next transaction; empty: ErrDamaged
	}{
		{"lastid.txt without zeros", map[string]string{"lastid.txt": "7\r\n"}, "0000000008"},
		{"lastid.txt is garbage", map[string]string{"lastid.txt": "garbage", "history.txt": "0000000004,del,0000000002\n"}, "0000000005"},
		{"lastid.txt is empty", map[string]string{"lastid.txt": "", "server.txt": "0000000009,add,ptr,10/09/99,00:08:32,Vista,x,y,"}, "0000000010"},
		{"no lists", map[string]string{"0000000003.deleted": "", "0000000006": ""}, "0000000007"},
		{"lastid.txt is too low", map[string]string{"lastid.txt": "0000000002", "0000000011.promoted": ""}, "0000000012"},
		{"no number is left", map[string]string{"lastid.txt": "9999999999"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := create(t, t.TempDir(), One, Options{})
			for n, text := range c.records {
				writeFile(t, filepath.Join(s.Dir(), adminDir, n), []byte(text))
			}
			r, err := s.Add(t.Context(), AddOptions{}, paths(p))
			if c.want == "" {
				wantError(t, "add", err, ErrDamaged)
				return
			}
			wantCounts(t, r, err, counts{Stored: 1})
			if r.ID.String() != c.want {
				t.Errorf("transaction %s, want %s", r.ID, c.want)
			}
		})
	}
}

// TestPreference follows the options /m, /h and /z.
func TestPreference(t *testing.T) {
	t.Parallel()
	key := func(ty Type) []Key { return []Key{{"x.pdb", "AB12345678", ty}} }
	t.Run("path", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		prefer := AddOptions{Pointer: true, Prefer: Preference{Prefix: `\\GOOD\`}}
		for _, p := range []string{`\\good\1`, `\\bad\2`, `\\good\3`, `\\bad\4`} {
			mustAdd(t, s, prefer, files(File{Source: p, Keys: key(Private)}))
		}
		want(t, s, "x.pdb/AB12345678/file.ptr", `\\good\3`)
		var order []ID
		for _, r := range mustFind(t, s, "x.pdb", "AB12345678").Refs {
			order = append(order, r.ID)
		}
		if w := []ID{2, 1, 4, 3}; !slices.Equal(order, w) {
			t.Errorf("refs.ptr lists the transactions %v, want %v", order, w)
		}
		mustDel(t, s, 3)
		want(t, s, "x.pdb/AB12345678/file.ptr", `\\bad\4`)
	})
	t.Run("type", func(t *testing.T) {
		t.Parallel()
		src := writeFile(t, filepath.Join(t.TempDir(), "x.pdb"), []byte("x"))
		other := writeFile(t, filepath.Join(t.TempDir(), "x.pdb"), []byte("private"))
		s := create(t, t.TempDir(), One, Options{})
		public := AddOptions{Prefer: Preference{Type: Public}}
		mustAdd(t, s, public, files(File{Path: src, Keys: key(Public)}))
		mustAdd(t, s, public, files(File{Path: other, Keys: key(Private)}))
		want(t, s, "x.pdb/AB12345678/x.pdb", "x")
		r, err := s.Add(t.Context(), AddOptions{Filter: Public}, files(File{Path: other, Keys: key(Private)}))
		wantCounts(t, r, err, counts{Ignored: 1})
		r, err = s.Add(t.Context(), AddOptions{Filter: Private}, files(File{Path: other, Keys: key(TypeOnly)}))
		wantCounts(t, r, err, counts{Stored: 1})
	})
}

// pointerTest is a store below a folder of programs, to which its pointers may
// lead. Link.dll leads out of that folder.
type pointerTest struct {
	*Store
	build, app string
}

const appDir = "app.dll/000000011000/"

func newPointerTest(t *testing.T) *pointerTest {
	t.Helper()
	p := &pointerTest{build: t.TempDir()}
	p.app = writeFile(t, filepath.Join(p.build, "Bins", "app.dll"), peImage(1, 0x1000, "app"))
	secret := writeFile(t, filepath.Join(t.TempDir(), "secret.dll"), peImage(1, 0x1000, "secret"))
	symtest.Symlink(t, secret, filepath.Join(p.build, "link.dll"))
	p.Store = create(t, filepath.Join(p.build, "store"), One, Options{PointerRoots: []PointerRoot{{`\\archive\app`, p.build}, {"", p.build}}})
	return p
}

// wantApp checks that the pointer leads to app.dll.
func (p *pointerTest) wantApp(t *testing.T) {
	t.Helper()
	f := mustFind(t, p.Store, "app.dll", "000000011000")
	file, err := p.Follow(f)
	if err != nil {
		t.Errorf("follow %q: error %v, want none", f.Target.Target, err)
		return
	}
	defer file.Close()
	if data, err := io.ReadAll(file); err != nil || !bytes.HasSuffix(data, []byte("app")) {
		t.Errorf("%q leads to %q, error %v; want app.dll", f.Target.Target, data, err)
	}
}

// wantRefused checks that the pointer is not followed.
func (p *pointerTest) wantRefused(t *testing.T) {
	t.Helper()
	f := mustFind(t, p.Store, "app.dll", "000000011000")
	file, err := p.Follow(f)
	if err == nil {
		file.Close()
	}
	wantError(t, "follow "+f.Target.Target, err, ErrPointer)
}

// point makes a pointer to a target.
func (p *pointerTest) point(t *testing.T, target string) {
	t.Helper()
	mustAdd(t, p.Store, AddOptions{Pointer: true, AllowLocal: true}, files(File{Source: target, Keys: []Key{{"app.dll", "000000011000", Binary}}}))
	want(t, p.Store, appDir+"file.ptr", target)
}

func TestPointers(t *testing.T) {
	t.Run("local path", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t)
		r, err := p.Add(t.Context(), AddOptions{Pointer: true}, paths(p.app))
		wantCounts(t, r, err, counts{Failed: 1})
		wantError(t, "without AllowLocal", r.Err, ErrPointer)
		mustAdd(t, p.Store, AddOptions{Pointer: true, AllowLocal: true}, paths(p.app))
		want(t, p.Store, appDir+"file.ptr", p.app)
		want(t, p.Store, appDir+"refs.ptr", fmt.Sprintf(`0000000001,ptr,"%s",bin,,N,,`, p.app))
		if line := read(t, p.Store, "000Admin/server.txt"); !strings.HasPrefix(line, "0000000001,add,ptr,") {
			t.Errorf("server.txt has %q, want a line of add,ptr", line)
		}
		p.wantApp(t)
		mustBeClean(t, p.Store)
	})
	t.Run("relative path", func(t *testing.T) {
		p := newPointerTest(t)
		t.Chdir(p.build)
		mustAdd(t, p.Store, AddOptions{Pointer: true, Relative: true}, paths("Bins/app.dll"))
		want(t, p.Store, appDir+"file.ptr", `..\Bins\app.dll`)
		p.wantApp(t)
		mustBeClean(t, p.Store)
	})
	t.Run("network path", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t)
		p.point(t, `\\ARCHIVE\App\bins\APP.DLL`)
		p.wantApp(t)
		mustBeClean(t, p.Store)
	})
	t.Run("targets outside the roots", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t)
		for _, bad := range []string{`\\elsewhere\share\app.dll`, `\\archive\app\..\..\..\etc\passwd`, "/etc/passwd", `C:\windows\app.dll`,
			`\\archive\apple\app.dll`, `\\archive\app\link.dll`, `..\..\..\..\..\..\etc\passwd`, "http://server/app.dll", `\\archive\app\bins`, `\\archive\app\none.dll`} {
			p.point(t, bad)
			p.wantRefused(t)
		}
	})
	t.Run("message", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t)
		r, err := p.Add(t.Context(), AddOptions{Pointer: true, Message: "moved"}, paths(p.app))
		wantCounts(t, r, err, counts{Failed: 1})
		wantError(t, "a message without AllowLocal", r.Err, ErrPointer)
		mustAdd(t, p.Store, AddOptions{Pointer: true, AllowLocal: true, Message: "moved \"away\""}, paths(p.app))
		want(t, p.Store, appDir+"file.ptr", p.app+"\r\nMSG: moved 'away'")
		if f := mustFind(t, p.Store, "app.dll", "000000011000"); f.Target != (Pointer{p.app, "moved 'away'"}) {
			t.Errorf("the pointer reads as %+v, want the path and the message", f.Target)
		}
		p.wantApp(t)
		mustBeClean(t, p.Store)
	})
	t.Run("message without a path", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t) // as earlier versions wrote it
		mustAdd(t, p.Store, AddOptions{Pointer: true, AllowLocal: true}, paths(p.app))
		writeFile(t, filepath.Join(p.Dir(), appDir, "file.ptr"), []byte("MSG: moved away"))
		p.wantRefused(t)
		mustBeClean(t, p.Store)
	})
	t.Run("path with a quote", func(t *testing.T) {
		t.Parallel()
		p := newPointerTest(t)
		r, err := p.Add(t.Context(), AddOptions{Pointer: true}, files(File{Source: "\\\\a\"b\r\n", Keys: []Key{{"a.dll", "AB12345678", Binary}}}))
		wantCounts(t, r, err, counts{Failed: 1})
	})
}

// TestIndexStages writes an index on one machine and stores from it on another.
func TestIndexStages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		bare bool
		line string
	}{
		{"with quotes", false, `"app.dll\000000011000","bins/app.dll","bin","%d"`},
		{"bare", true, `app.dll\000000011000,bins/app.dll,bin,%d`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			share := t.TempDir()
			app, other := peImage(1, 0x1000, "app"), peImage(2, 0x1000, "b")
			a := writeFile(t, filepath.Join(share, "bins", "app.dll"), app)
			b := writeFile(t, filepath.Join(share, "bins", "b, c.dll"), other)
			var index bytes.Buffer
			r, err := WriteIndex(t.Context(), &index, IndexOptions{Share: share, Bare: c.bare}, paths(a))
			if err != nil || r.Stored != 1 {
				t.Fatalf("index of one file: %+v, error %v; want one stored", r, err)
			}
			r, err = WriteIndex(t.Context(), &index, IndexOptions{Share: share + "/", Bare: c.bare, Append: true}, paths(b, "../testdata/ppdb/tiny.pdb"))
			if err != nil || r.Stored != 1 || r.Failed != 1 {
				t.Fatalf("index of a file in the share and one outside: %+v, error %v; want one stored and one failed", r, err)
			}
			index.WriteString(IndexComment(4))
			line, _, _ := strings.Cut(strings.TrimPrefix(index.String(), indexHead+"\r\n"), "\r\n")
			if w := fmt.Sprintf(c.line, len(app)); line != w {
				t.Errorf("first line is %q, want %q", line, w)
			}
			s := create(t, t.TempDir(), One, Options{})
			mustAdd(t, s, AddOptions{Pointer: true}, FromIndex(ReadIndex(bytes.NewReader(index.Bytes())), `\\archive\app`, ""))
			want(t, s, "app.dll/000000011000/file.ptr", `\\archive\app\bins\app.dll`)
			mustAdd(t, s, AddOptions{}, FromIndex(ReadIndex(bytes.NewReader(index.Bytes())), `\\archive\app`, share))
			want(t, s, "app.dll/000000011000/app.dll", string(app))
			want(t, s, "app.dll/000000011000/file.ptr", noFile)
			want(t, s, "b, c.dll/000000021000/b, c.dll", string(other))
			mustBeClean(t, s)
		})
	}
	t.Run("compressed between the stages", func(t *testing.T) {
		t.Parallel()
		packed := t.TempDir()
		writeFile(t, filepath.Join(packed, "app.dl_"), []byte("packed"))
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, AddOptions{}, FromIndex(ReadIndex(strings.NewReader("# x\n\n\"app.dll\\AB12345678\",\"app.dll\",extra,,fields")), packed, ""))
		want(t, s, "app.dll/AB12345678/app.dl_", "packed")
	})
	for _, bad := range []string{`"a.dll\AB","..\..\x"`, `"..\AB","x"`, "nonsense", `"a.dll","x"`} {
		t.Run("bad line "+bad, func(t *testing.T) {
			t.Parallel()
			s := create(t, t.TempDir(), One, Options{})
			if _, err := s.Add(t.Context(), AddOptions{}, FromIndex(ReadIndex(strings.NewReader(bad)), t.TempDir(), "")); err == nil {
				t.Error("the line is accepted, want an error")
			}
		})
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := create(t, t.TempDir(), One, Options{})
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	before := tree(t, s.Dir())
	_, err := s.Add(ctx, AddOptions{}, func(yield func(File, error) bool) {
		if yield(File{Path: p}, nil) {
			cancel()
			yield(File{Path: p}, nil)
		}
	})
	wantError(t, "add", err, context.Canceled)
	wantUnchanged(t, s, "the cancelled add", before)
	wantNoLeftovers(t, s)
}

// TestNoSpace fills the disk during the add of many files. Each file that was in
// progress reports the full disk, and none is counted as stored.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	var list []string
	for i := range 12 {
		list = append(list, writeFile(t, filepath.Join(src, fmt.Sprintf("f%d.dll", i)), peImage(uint32(i), 0x1000, "x")))
	}
	for name, c := range map[string]Compression{"plain": Plain, "MSZIP": MSZIP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := create(t, t.TempDir(), One, Options{})
			before := tree(t, s.Dir())
			full := make(chan struct{})
			s.opt.stageFault = func(name string) error {
				switch name {
				case "f0.dll", "f1.dll":
					return nil
				case "f5.dll":
					close(full)
					return &os.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
				}
				<-full
				return nil
			}
			var failed int
			r, err := s.Add(t.Context(), AddOptions{Workers: 6, Compress: c, Event: func(e Event) {
				if e.Kind != EventFailed {
					return
				}
				if failed++; !IsNoSpace(e.Err) {
					t.Errorf("%s: error %v, want a full disk", e.Path, e.Err)
				}
			}}, paths(list...))
			if !IsNoSpace(err) || !IsNoSpace(r.Err) {
				t.Errorf("errors %v and, of a file, %v; want a full disk", err, r.Err)
			}
			if r.Stored != 0 || r.Bytes != 0 {
				t.Errorf("%d files of %d bytes are counted as stored, want none", r.Stored, r.Bytes)
			}
			if r.Failed != failed || failed == 0 {
				t.Errorf("%d files are counted as failed, want one at least and as many as there were events: %d", r.Failed, failed)
			}
			s.opt.stageFault = nil
			after := tree(t, s.Dir())
			if after[pingmeFile] != before[pingmeFile] && len(after) > 0 {
				t.Errorf("%s was touched; the store has %q, want it left alone", pingmeFile, after)
			}
			wantNoLeftovers(t, s)
			mustAdd(t, s, AddOptions{}, paths(list...))
			mustBeClean(t, s)
		})
	}
}
