package symstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/cab"
)

// TestRealFiles stores files of real linkers in all forms.
func TestRealFiles(t *testing.T) {
	for _, c := range []struct {
		opt  AddOptions
		leaf string
		flag string
	}{
		{AddOptions{}, "hello-x64.pdb", "N"},
		{AddOptions{Compress: MSZIP}, "hello-x64.pd_", "Y"},
		{AddOptions{Compress: LZX}, "hello-x64.pd_", "Y"},
	} {
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, c.opt, paths("../testdata/pdb/hello-x64.pdb", "../testdata/pdb/hello-x64.exe", "../testdata/ppdb/tiny.pdb"))
		mustBeClean(t, s)
		answers, err := s.Query("../testdata/pdb/hello-x64.pdb", false)
		if err != nil || len(answers) != 1 || answers[0].Found == nil {
			t.Fatalf("%+v %v", answers, err)
		}
		f := answers[0].Found
		if filepath.Base(f.Best()) != c.leaf || len(f.Refs) != 1 || f.Refs[0].Type != Private {
			t.Errorf("%+v", f)
		}
		abs, _ := filepath.Abs("../testdata/pdb/hello-x64.pdb")
		want(t, s, f.Dir+"/refs.ptr", fmt.Sprintf(`0000000001,file,"%s",pri,,%s,,`, abs, c.flag))
		if c.flag == "Y" {
			file, err := s.Open("HELLO-X64.PDB", strings.ToLower(answers[0].Key.Key), "hello-x64.PD_")
			if err != nil {
				t.Fatal(err)
			}
			info, _ := file.Stat()
			r, err := cab.Open(file, info.Size(), cab.Options{})
			if err != nil || len(r.Files()) != 1 || r.Files()[0].Name != "hello-x64.pdb" || len(r.Folders()) != 1 {
				t.Errorf("%v", err)
			}
			file.Close()
		}
		answers, err = s.Query("../testdata/ppdb/tiny.pdb", false)
		if err != nil || len(answers) != 2 || answers[0].Found == nil || answers[1].Found == nil {
			t.Fatalf("%+v %v", answers, err)
		}
		if !strings.HasSuffix(answers[0].Key.Key, "FFFFFFFF") || !strings.HasSuffix(answers[1].Key.Key, "1") {
			t.Errorf("portable: %+v", answers)
		}
		entries, err := s.Entries(1)
		if err != nil || len(entries) != 4 {
			t.Errorf("%v %v", entries, err)
		}
		mustDel(t, s, 1)
		for n := range tree(t, s.Dir()) {
			if strings.Contains(n, "hello") || strings.Contains(n, "tiny") {
				t.Errorf("%s is left", n)
			}
		}
	}
}

// TestForms replaces a plain file by a compressed one and back.
func TestForms(t *testing.T) {
	s := create(t, t.TempDir(), One, Options{})
	p := writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))
	for _, c := range []struct {
		how         Compression
		plain, pack bool
	}{{Plain, true, false}, {MSZIP, false, true}, {Plain, true, false}} {
		mustAdd(t, s, AddOptions{Compress: c.how}, paths(p))
		f, err := s.Find("a.dll", "000000011000")
		if err != nil || (f.Plain != "") != c.plain || (f.Compressed != "") != c.pack {
			t.Errorf("%+v %v", f, err)
		}
	}
	mustAdd(t, s, AddOptions{Compress: MSZIP, NoForceCopy: true}, paths(p))
	f, _ := s.Find("a.dll", "000000011000")
	if f.Compressed != "" || len(f.Refs) != 4 || f.Refs[3].Compressed {
		t.Errorf("NoForceCopy: %+v", f)
	}
	mustBeClean(t, s)
}

func TestForeignFormats(t *testing.T) {
	list := []string{"../testdata/elf/prog-sha1.stripped", "../testdata/elf/prog-sha1.debug", "../testdata/macho/app-arm64", "../testdata/pdb/hello.c"}
	s := create(t, t.TempDir(), One, Options{})
	r, err := s.Add(t.Context(), AddOptions{}, paths(list...))
	if err != nil || r.Ignored != len(list) || r.ID != 0 || s.exists("000Admin/lastid.txt") {
		t.Errorf("%+v %v", r, err)
	}
	r, err = s.Add(t.Context(), AddOptions{AllKinds: true}, paths(list...))
	if err != nil || r.Ignored != 1 || r.Stored != 3 || r.ID != 1 {
		t.Errorf("%+v %v", r, err)
	}
	entries, _ := s.Entries(1)
	for _, e := range entries {
		if !strings.HasPrefix(e.Key, "elf-buildid-") && !strings.HasPrefix(e.Key, "mach-uuid-") {
			t.Errorf("%+v", e)
		}
	}
	mustBeClean(t, s)
}

func TestBadInput(t *testing.T) {
	src := t.TempDir()
	good := writeFile(t, filepath.Join(src, "good.dll"), peImage(1, 0x1000, "good"))
	long := writeFile(t, filepath.Join(src, strings.Repeat("d/", 60), strings.Repeat("n", 200), strings.Repeat("e", 80)+".dll"), peImage(2, 0x1000, ""))
	if len(long) < 400 {
		t.Fatal("too short")
	}
	s := create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{}, paths(good))
	before := tree(t, s.Dir())
	var events []Event
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
		{"device", File{Path: writeFile(t, filepath.Join(src, "aux.dll"), peImage(1, 1, ""))}, false, nil},
		{"colon", File{Path: writeFile(t, filepath.Join(src, "a:b.dll"), peImage(1, 1, ""))}, false, ErrName},
		{"dot", File{Path: writeFile(t, filepath.Join(src, "a.dll."), peImage(1, 1, ""))}, false, ErrName},
		{"own name", File{Path: good, Keys: []Key{{"000admin", "AB", Binary}}}, false, ErrName},
		{"upwards", File{Path: good, Keys: []Key{{"..", "AB", Binary}}}, false, ErrName},
		{"upwards key", File{Path: good, Keys: []Key{{"a.dll", "..", Binary}}}, false, ErrName},
		{"slash", File{Path: good, Keys: []Key{{"a/b", "AB", Binary}}}, false, ErrName},
		{"long name", File{Path: good, Keys: []Key{{strings.Repeat("n", 400), "AB", Binary}}}, false, ErrName},
	} {
		events = nil
		r, err := s.Add(t.Context(), AddOptions{Event: func(e Event) { events = append(events, e) }}, files(c.file))
		if err != nil || r.Stored != 0 || (r.Ignored == 1) != c.ignored || (r.Failed == 1) == c.ignored {
			t.Errorf("%s: %+v %v", c.what, r, err)
		}
		if c.err != nil && !errors.Is(r.Err, c.err) {
			t.Errorf("%s: %v", c.what, r.Err)
		}
		if len(events) != 1 {
			t.Errorf("%s: %+v", c.what, events)
		}
		if d := differ(before, tree(t, s.Dir())); d != "" {
			t.Errorf("%s changed the store: %s", c.what, d)
		}
	}
	mustAdd(t, s, AddOptions{}, paths(long))
	entries, _ := s.Entries(2)
	if len(entries) != 1 || entries[0].Source != long {
		t.Errorf("%+v", entries)
	}
}

// TestOneKey gives files with one key and different content.
func TestOneKey(t *testing.T) {
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a", "x.dll"), peImage(1, 0x1000, "a"))
	same := writeFile(t, filepath.Join(src, "same", "x.dll"), peImage(1, 0x1000, "a"))
	other := writeFile(t, filepath.Join(src, "other", "X.dll"), peImage(1, 0x1000, "other"))
	s := create(t, t.TempDir(), One, Options{})
	r, err := s.Add(t.Context(), AddOptions{}, paths(a, same, other))
	if err != nil || r.Stored != 2 || r.Repeated != 1 || r.Failed != 1 || !errors.Is(r.Err, ErrExists) {
		t.Errorf("%+v %v", r, err)
	}
	if entries, _ := s.Entries(1); len(entries) != 1 || entries[0].Source != a {
		t.Errorf("%+v", entries)
	}
	before := tree(t, s.Dir())
	if _, err := s.Add(t.Context(), AddOptions{AllOrNothing: true}, paths(a, other)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := s.Add(t.Context(), AddOptions{NoReplace: true}, paths(other)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf("the store was changed: %s", d)
	}
	mustAdd(t, s, AddOptions{NoReplace: true, Compress: MSZIP}, paths(same))
	mustAdd(t, s, AddOptions{NoReplace: true}, paths(same))
	mustAdd(t, s, AddOptions{}, paths(other))
	want(t, s, "x.dll/000000011000/x.dll", string(peImage(1, 0x1000, "other")))
	mustBeClean(t, s)
}

// TestInTheWay puts things where folders and files shall go.
func TestInTheWay(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	for _, name := range []string{"x.dll", "x.dll/000000011000"} {
		s := create(t, t.TempDir(), One, Options{})
		writeFile(t, filepath.Join(s.Dir(), name), []byte("in the way"))
		before := tree(t, s.Dir())
		if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if d := differ(before, tree(t, s.Dir())); d != "" {
			t.Errorf("%s: the store was changed: %s", name, d)
		}
	}
	s := create(t, t.TempDir(), One, Options{})
	if err := os.MkdirAll(filepath.Join(s.Dir(), "x.dll/000000011000/x.dll/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := tree(t, s.Dir())
	if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf("the store was changed: %s", d)
	}
}

// TestTakenNumber lets a genuine symstore, which locks nothing, take the number
// at the last moment.
func TestTakenNumber(t *testing.T) {
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
	r := mustAdd(t, s, AddOptions{}, paths(p))
	if r.ID != 2 {
		t.Errorf("%+v", r)
	}
	want(t, s, "000Admin/0000000001", "\"y.dll\\AB\",\"C:\\y.dll\"\r\n")
	want(t, s, "x.dll/000000011000/refs.ptr", fmt.Sprintf(`0000000002,file,"%s",bin,,N,,`, p))
	want(t, s, "x.dll/000000011000/x.dll", string(peImage(1, 0x1000, "a")))
	want(t, s, "000Admin/lastid.txt", "0000000002")
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// TestNumbers damages the records of the numbers.
func TestNumbers(t *testing.T) {
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	for name, content := range map[string]map[string]string{
		"0000000008": {"lastid.txt": "7\r\n"},
		"0000000005": {"lastid.txt": "garbage", "history.txt": "0000000004,del,0000000002\n"},
		"0000000010": {"lastid.txt": "", "server.txt": "0000000009,add,ptr,10/09/99,00:08:32,Vista,x,y,"},
		"0000000007": {"0000000003.deleted": "", "0000000006": ""},
		"0000000012": {"lastid.txt": "0000000002", "0000000011.promoted": ""},
	} {
		s := create(t, t.TempDir(), One, Options{})
		for n, c := range content {
			writeFile(t, filepath.Join(s.Dir(), adminDir, n), []byte(c))
		}
		if r := mustAdd(t, s, AddOptions{}, paths(p)); r.ID.String() != name {
			t.Errorf("%v: %s, want %s", content, r.ID, name)
		}
	}
	s := create(t, t.TempDir(), One, Options{})
	writeFile(t, filepath.Join(s.Dir(), lastIDFile), []byte("9999999999"))
	if _, err := s.Add(t.Context(), AddOptions{}, paths(p)); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// TestPreference follows the options /m, /h and /z.
func TestPreference(t *testing.T) {
	key := func(ty Type) []Key { return []Key{{"x.pdb", "AB12345678", ty}} }
	src := writeFile(t, filepath.Join(t.TempDir(), "x.pdb"), []byte("x"))
	s := create(t, t.TempDir(), One, Options{})
	prefer := AddOptions{Pointer: true, Prefer: Preference{Prefix: `\\GOOD\`}}
	for _, p := range []string{`\\good\1`, `\\bad\2`, `\\good\3`, `\\bad\4`} {
		mustAdd(t, s, prefer, files(File{Source: p, Keys: key(Private)}))
	}
	want(t, s, "x.pdb/AB12345678/file.ptr", `\\good\3`)
	f, _ := s.Find("x.pdb", "AB12345678")
	var order []ID
	for _, r := range f.Refs {
		order = append(order, r.ID)
	}
	if !slices.Equal(order, []ID{2, 1, 4, 3}) {
		t.Errorf("order %v", order)
	}
	mustDel(t, s, 3)
	want(t, s, "x.pdb/AB12345678/file.ptr", `\\bad\4`)

	s = create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{Prefer: Preference{Type: Public}}, files(File{Path: src, Keys: key(Public)}))
	other := writeFile(t, filepath.Join(t.TempDir(), "x.pdb"), []byte("private"))
	mustAdd(t, s, AddOptions{Prefer: Preference{Type: Public}}, files(File{Path: other, Keys: key(Private)}))
	want(t, s, "x.pdb/AB12345678/x.pdb", "x")
	r, err := s.Add(t.Context(), AddOptions{Filter: Public}, files(File{Path: other, Keys: key(Private)}))
	if err != nil || r.Ignored != 1 {
		t.Errorf("%+v %v", r, err)
	}
	r, err = s.Add(t.Context(), AddOptions{Filter: Private}, files(File{Path: other, Keys: key(TypeOnly)}))
	if err != nil || r.Stored != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestPointers(t *testing.T) {
	build := t.TempDir()
	p := writeFile(t, filepath.Join(build, "Bins", "app.dll"), peImage(1, 0x1000, "app"))
	out := writeFile(t, filepath.Join(t.TempDir(), "secret.dll"), peImage(1, 0x1000, "secret"))
	if err := os.Symlink(out, filepath.Join(build, "link.dll")); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	store := filepath.Join(build, "store")
	s := create(t, store, One, Options{PointerRoots: []PointerRoot{{`\\archive\app`, build}, {"", build}}})
	r, err := s.Add(t.Context(), AddOptions{Pointer: true}, paths(p))
	if err != nil || r.Failed != 1 || !errors.Is(r.Err, ErrPointer) {
		t.Errorf("a local path: %+v %v", r, err)
	}
	const dir = "app.dll/000000011000/"
	follow := func(want string) {
		t.Helper()
		f, err := s.Find("app.dll", "000000011000")
		if err != nil {
			t.Fatal(err)
		}
		file, err := s.Follow(f)
		if want == "" {
			if !errors.Is(err, ErrPointer) {
				t.Errorf("%q: %v", f.Target.Target, err)
			}
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		data, _ := io.ReadAll(file)
		if !bytes.HasSuffix(data, []byte(want)) {
			t.Errorf("%q leads to %q", f.Target.Target, data)
		}
	}
	mustAdd(t, s, AddOptions{Pointer: true, AllowLocal: true}, paths(p))
	want(t, s, dir+"file.ptr", p)
	want(t, s, dir+"refs.ptr", fmt.Sprintf(`0000000001,ptr,"%s",bin,,N,,`, p))
	want(t, s, "000Admin/server.txt", strings.Replace(read(t, s, "000Admin/server.txt"), ",file,", ",ptr,", 1))
	follow("app")
	old, _ := os.Getwd()
	if err := os.Chdir(build); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, AddOptions{Pointer: true, Relative: true}, paths("Bins/app.dll"))
	if err := os.Chdir(old); err != nil {
		t.Fatal(err)
	}
	want(t, s, dir+"file.ptr", `..\Bins\app.dll`)
	follow("app")
	add := func(target string) {
		t.Helper()
		mustAdd(t, s, AddOptions{Pointer: true, AllowLocal: true}, files(File{Source: target, Keys: []Key{{"app.dll", "000000011000", Binary}}}))
		want(t, s, dir+"file.ptr", target)
	}
	add(`\\ARCHIVE\App\bins\APP.DLL`)
	follow("app")
	for _, bad := range []string{`\\elsewhere\share\app.dll`, `\\archive\app\..\..\..\etc\passwd`, "/etc/passwd", `C:\windows\app.dll`,
		`\\archive\apple\app.dll`, `\\archive\app\link.dll`, `..\..\..\..\..\..\etc\passwd`, "http://server/app.dll", `\\archive\app\bins`, `\\archive\app\none.dll`} {
		add(bad)
		follow("")
	}
	mustAdd(t, s, AddOptions{Pointer: true, Message: "gone \"away\""}, paths(p))
	want(t, s, dir+"file.ptr", "MSG: gone 'away'")
	follow("")
	mustBeClean(t, s)
	if r, _ := s.Add(t.Context(), AddOptions{Pointer: true}, files(File{Source: "\\\\a\"b\r\n", Keys: []Key{{"a.dll", "AB12345678", Binary}}})); r.Failed != 1 {
		t.Error("a path with a quote was written")
	}
}

func TestIndexStages(t *testing.T) {
	share := t.TempDir()
	a := writeFile(t, filepath.Join(share, "bins", "app.dll"), peImage(1, 0x1000, "app"))
	b := writeFile(t, filepath.Join(share, "bins", "b, c.dll"), peImage(2, 0x1000, "b"))
	for _, bare := range []bool{false, true} {
		var index bytes.Buffer
		r, err := WriteIndex(t.Context(), &index, IndexOptions{Share: share, Bare: bare}, paths(a))
		if err != nil || r.Stored != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		r, err = WriteIndex(t.Context(), &index, IndexOptions{Share: share + "/", Bare: bare, Append: true}, paths(b, "../testdata/ppdb/tiny.pdb"))
		if err != nil || r.Stored != 1 || r.Failed != 1 {
			t.Fatalf("%+v %v", r, err)
		}
		index.WriteString(IndexComment(4))
		first, _, _ := strings.Cut(strings.TrimPrefix(index.String(), indexHead+"\r\n"), "\r\n")
		w := fmt.Sprintf(`"app.dll\000000011000","bins/app.dll","bin","%d"`, len(peImage(1, 0x1000, "app")))
		if bare {
			w = strings.ReplaceAll(w, `"`, "")
		}
		if first != w {
			t.Errorf("%q, want %q", first, w)
		}
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, AddOptions{Pointer: true}, FromIndex(ReadIndex(bytes.NewReader(index.Bytes())), `\\archive\app`, ""))
		want(t, s, "app.dll/000000011000/file.ptr", `\\archive\app\bins\app.dll`)
		mustAdd(t, s, AddOptions{}, FromIndex(ReadIndex(bytes.NewReader(index.Bytes())), `\\archive\app`, share))
		want(t, s, "app.dll/000000011000/app.dll", string(peImage(1, 0x1000, "app")))
		want(t, s, "app.dll/000000011000/file.ptr", "ABSENT")
		want(t, s, "b, c.dll/000000021000/b, c.dll", string(peImage(2, 0x1000, "b")))
		mustBeClean(t, s)
	}
	// Between the stages the files may be compressed.
	packed := t.TempDir()
	writeFile(t, filepath.Join(packed, "app.dl_"), []byte("packed"))
	s := create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{}, FromIndex(ReadIndex(strings.NewReader("# x\n\n\"app.dll\\AB12345678\",\"app.dll\",extra,,fields")), packed, ""))
	want(t, s, "app.dll/AB12345678/app.dl_", "packed")
	for _, bad := range []string{`"a.dll\AB","..\..\x"`, `"..\AB","x"`, "nonsense", `"a.dll","x"`} {
		if _, err := s.Add(t.Context(), AddOptions{}, FromIndex(ReadIndex(strings.NewReader(bad)), packed, "")); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestCancel(t *testing.T) {
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
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" || len(leftovers(t, s)) > 0 {
		t.Errorf("%s %q", d, leftovers(t, s))
	}
}

// TestNoSpace fills the disk under one of many files: each that was under way
// says why it is not stored, and nothing is counted.
func TestNoSpace(t *testing.T) {
	src := t.TempDir()
	var list []string
	for i := range 12 {
		list = append(list, writeFile(t, filepath.Join(src, fmt.Sprintf("f%d.dll", i)), peImage(uint32(i), 0x1000, "x")))
	}
	for _, c := range []Compression{Plain, MSZIP} {
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
				t.Errorf("%s: %v", e.Path, e.Err)
			}
		}}, paths(list...))
		if !IsNoSpace(err) || !IsNoSpace(r.Err) || r.Stored != 0 || r.Bytes != 0 || r.Failed != failed || failed == 0 {
			t.Errorf("%+v %v, %d failed", r, err, failed)
		}
		s.opt.stageFault = nil
		after := tree(t, s.Dir())
		if after[pingmeFile] != before[pingmeFile] && len(after) > 0 || len(leftovers(t, s)) > 0 {
			t.Errorf("%q %q", after, leftovers(t, s))
		}
		mustAdd(t, s, AddOptions{}, paths(list...))
		mustBeClean(t, s)
	}
}
