package symstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// sampleStore has three transactions of files, one of pointers, one deleted.
func sampleStore(t *testing.T, tiers Tiers) *Store {
	t.Helper()
	s := create(t, t.TempDir(), tiers, Options{Now: at("2021-02-03 04:05:06")})
	src := t.TempDir()
	for i, name := range []string{"a.dll", "b.dll", "a.dll"} {
		p := writeFile(t, filepath.Join(src, fmt.Sprint(i), name), peImage(uint32(i), 0x1000, "x"))
		q := writeFile(t, filepath.Join(src, fmt.Sprint(i), "common.dll"), peImage(7, 0x1000, "c"))
		opt := AddOptions{Product: "p", Version: fmt.Sprint(i)}
		if i == 1 {
			opt.Compress = MSZIP
		}
		mustAdd(t, s, opt, paths(p, q))
	}
	ptr := File{Source: `\\server\ptr.dll`, Keys: []Key{{"ptr.dll", "000000051000", Binary}}}
	mustAdd(t, s, AddOptions{Pointer: true}, files(ptr))
	p := writeFile(t, filepath.Join(src, "gone.dll"), peImage(9, 0x1000, "x"))
	mustDel(t, s, mustAdd(t, s, AddOptions{}, paths(p)).ID)
	mustBeClean(t, s)
	return s
}

// TestRepair damages a store in each way, and expects it to be found, to be
// mended, and nothing to be found afterwards. Where nothing was lost for good
// the store must be as before, byte for byte.
func TestRepair(t *testing.T) {
	t.Parallel()
	const a0, common = "a.dll/000000001000/", "common.dll/000000071000/"
	write := func(name, content string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { writeFile(t, filepath.Join(s.Dir(), name), []byte(content)) }
	}
	remove := func(names ...string) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			for _, n := range names {
				if err := os.RemoveAll(filepath.Join(s.Dir(), n)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	truncate := func(name string, by int) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) {
			old := read(t, s, name)
			writeFile(t, filepath.Join(s.Dir(), name), []byte(old[:len(old)-by]))
		}
	}
	for _, c := range []struct {
		what  string
		harm  func(*testing.T, *Store)
		kinds []FindingKind
		same  bool
	}{
		{"lastid garbage", write("000Admin/lastid.txt", "x"), []FindingKind{LastIDWrong}, true},
		{"lastid low", write("000Admin/lastid.txt", "0000000002"), []FindingKind{LastIDWrong}, true},
		{"lastid missing", remove("000Admin/lastid.txt"), []FindingKind{LastIDWrong}, true},
		{"server truncated", truncate("000Admin/server.txt", 30), []FindingKind{ServerLine}, true},
		{"server truncated more", truncate("000Admin/server.txt", 110), []FindingKind{ServerLine, ServerMissing}, true},
		{"server empty", write("000Admin/server.txt", ""), []FindingKind{ServerMissing}, true},
		{"history missing", remove("000Admin/history.txt"), []FindingKind{HistoryMissing}, false},
		{"transaction lost", remove("000Admin/0000000002"), []FindingKind{TransactionLost}, true},
		{"pointers lost", remove("000Admin/0000000004", "000Admin/server.txt"), []FindingKind{ServerMissing, TransactionLost}, true},
		{"transaction cut", truncate("000Admin/0000000001", 20), []FindingKind{TransactionCut}, true},
		{"file lost", remove(a0 + "a.dll"), []FindingKind{FileLost}, false},
		{"common file lost", remove(common), []FindingKind{FileLost, Leftover}, false},
		{"all files lost", remove("b.dll", "common.dll"), []FindingKind{FileLost}, false},
		{"refs lost", remove(a0 + "refs.ptr"), []FindingKind{RefMissing}, true},
		{"refs garbage", write(a0+"refs.ptr", "garbage"), []FindingKind{RefLine, RefMissing}, true},
		{"ref of a deleted one", write(a0+"refs.ptr", `0000000005,file,"x",bin,,N,,`), []FindingKind{RefMissing, RefStray}, true},
		{"pointer wrong", write("ptr.dll/000000051000/file.ptr", `\\elsewhere`), []FindingKind{PointerWrong}, true},
		{"pointer missing", remove("ptr.dll/000000051000/file.ptr"), []FindingKind{PointerWrong}, true},
		{"pointer folder missing", remove("ptr.dll"), []FindingKind{PointerWrong}, true},
		{"pointer too many", write(a0+"file.ptr", `\\elsewhere`), []FindingKind{PointerWrong}, true},
		{"file too many", write("ptr.dll/000000051000/ptr.dll", string(peImage(5, 0x1000, ""))), []FindingKind{FileUnneeded}, true},
		{"stray", write("s.dll/000000051000/s.dll", string(peImage(5, 0x1000, ""))), []FindingKind{FileStray}, true},
		{"cabinet", write("b.dll/000000011000/b.dl_", "MSCF garbage"), []FindingKind{CabinetBad, FileLost}, false},
		{"content", write(a0+"a.dll", string(peImage(77, 0x1000, ""))), []FindingKind{ContentWrong, FileLost}, false},
		{"content garbage", write(a0+"a.dll", "garbage"), []FindingKind{ContentWrong, FileLost}, false},
		{"empty folder", func(t *testing.T, s *Store) {
			if err := os.MkdirAll(filepath.Join(s.Dir(), "e.dll/00"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, []FindingKind{Leftover}, true},
		{"half deleted", func(t *testing.T, s *Store) {
			server := strings.SplitAfter(read(t, s, serverFile), "\r\n")
			writeFile(t, filepath.Join(s.Dir(), serverFile), []byte(server[0]+server[2]+server[3]))
			writeFile(t, filepath.Join(s.Dir(), historyFile), []byte(read(t, s, historyFile)+"\r\n0000000007,del,0000000002"))
			writeFile(t, filepath.Join(s.Dir(), lastIDFile), []byte("0000000007"))
		}, []FindingKind{HalfDeleted, RefStray}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := sampleStore(t, One)
			before := tree(t, s.Dir())
			c.harm(t, s)
			opt := CheckOptions{Contents: true, RemoveStray: true}
			seen, err := s.Check(t.Context(), opt)
			if err != nil {
				t.Fatalf("%s: Check: error %v, want no error", c.what, err)
			}
			found, err := s.Repair(t.Context(), opt)
			if err != nil {
				t.Fatalf("%s: Repair: error %v, want no error", c.what, err)
			}
			if len(seen) != len(found) {
				t.Errorf("%s: %d found, then %d; want the same", c.what, len(seen), len(found))
			}
			var kinds []FindingKind
			for _, f := range found {
				kinds = append(kinds, f.Kind)
				if !f.Mended {
					t.Errorf("%s: not mended: %s", c.what, f)
				}
			}
			slices.Sort(kinds)
			kinds = slices.Compact(kinds)
			if !slices.Equal(kinds, c.kinds) {
				t.Errorf("%s: got %v, %v; want %v", c.what, found, kinds, c.kinds)
			}
			again, err := s.Check(t.Context(), opt)
			if err != nil || len(again) > 0 {
				t.Errorf("%s: after the repair %v %v; want nothing found", c.what, again, err)
			}
			if d := differ(before, tree(t, s.Dir())); c.same && d != "" {
				t.Errorf("%s: not as before:\n%s", c.what, d)
			}
		})
	}
}

// TestConvert goes there and back, and is killed at each step of each way.
func TestConvert(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	stride := 9
	if torture() {
		stride = 1
	}
	for _, way := range []struct{ from, to Tiers }{{One, Two}, {Two, One}} {
		for _, move := range []bool{false, true} {
			for stop := 0; ; stop += stride {
				s := sampleStore(t, way.from)
				// Names that look like buckets, and a key below them.
				src := writeFile(t, filepath.Join(t.TempDir(), "a."), peImage(3, 0x1000, "x"))
				mustAdd(t, s, AddOptions{}, files(File{Path: src, Keys: []Key{{"ab", "000000031000", Binary}, {"c", "000000031000", Binary}}}))
				before := tree(t, s.Dir())
				n := 0
				s.opt.step = func(what string) error {
					everyFileThere(t, s, what)
					if n++; n > stop {
						return killed
					}
					return nil
				}
				err := s.Convert(t.Context(), way.to, ConvertOptions{Move: move})
				s.opt.step = nil
				if err != nil && !errors.Is(err, killed) {
					t.Fatal(err)
				}
				done := err == nil
				if !done {
					// Any writing command completes it.
					p := writeFile(t, filepath.Join(t.TempDir(), "n.dll"), peImage(8, 0x1000, "x"))
					mustDel(t, s, mustAdd(t, s, AddOptions{}, paths(p)).ID)
				}
				if s.Tiers() != way.to && n > 1 {
					t.Errorf("stopped at %d: the store is %s, want %s", stop, s.Tiers(), way.to)
				}
				everyFileThere(t, s, "end")
				mustBeClean(t, s)
				if done {
					if err := s.Convert(t.Context(), way.from, ConvertOptions{Move: move}); err != nil {
						t.Fatal(err)
					}
					if d := differ(before, tree(t, s.Dir())); d != "" {
						t.Errorf(`there and back: %s, want ""`, d)
					}
					break
				}
				if t.Failed() {
					break
				}
			}
		}
	}
}

// everyFileThere makes sure that a reader finds everything.
func everyFileThere(t *testing.T, s *Store, when string) {
	t.Helper()
	for u, err := range s.Walk(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		for _, e := range u.Entries {
			f, err := s.Find(strings.ToUpper(e.Name), e.Key)
			if err != nil {
				t.Errorf("Find(%q): %s, error %v; want no error", e.Key, when, err)
				continue
			}
			leaf := f.Best()
			file, err := s.Open(e.Name, e.Key, leaf[strings.LastIndexByte(leaf, '/')+1:])
			if err != nil {
				t.Errorf("Open(%q, %q): %s, error %v; want no error", e.Name, e.Key, when, err)
				continue
			}
			file.Close()
		}
	}
}

// TestReadOnly refuses everything and reads everything.
func TestReadOnly(t *testing.T) {
	s := sampleStore(t, Two)
	before := tree(t, s.Dir())
	r, err := Open(s.Dir(), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, e1 := r.Add(t.Context(), AddOptions{}, paths())
	_, e2 := r.Del(t.Context(), 1)
	_, e3 := r.Repair(t.Context(), CheckOptions{})
	e4 := r.Convert(t.Context(), One, ConvertOptions{})
	for i, err := range []error{e1, e2, e3, e4} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%d: got error %v, want ErrReadOnly", i, err)
		}
	}
	everyFileThere(t, r, "read-only")
	if found, err := r.Check(t.Context(), CheckOptions{Contents: true}); err != nil || len(found) > 0 {
		t.Errorf("Check: %v, error %v; want none", found, err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf(`differ: %q, want ""`, d)
	}
}

// sameName compares the names of files as the disks of the system do.
func sameName(a, b string) bool {
	return a == b || runtime.GOOS == "windows" && strings.EqualFold(a, b)
}

func TestFlat(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "symbols", "pdb", "Hello-x64.PDB"), data)
	writeFile(t, filepath.Join(dir, "hello-arm64.pdb"), data)
	s, err := Open(dir, Options{})
	if err != nil || s.Tiers() != Flat {
		t.Fatal(err)
	}
	defer s.Close()
	if a, err := s.Query("../testdata/pdb/hello-x64.pdb", false); err != nil || a[0].Found == nil || !sameName(a[0].Found.Plain, "symbols/pdb/Hello-x64.PDB") {
		t.Errorf(`Query("../testdata/pdb/hello-x64.pdb"): %+v, error %v; want a[0].Found not nil, sameName(a[0].Found.Plain, "symbols/pdb/Hello-x64.PDB")`, a, err)
	}
	if a, err := s.Query("../testdata/pdb/hello-arm64.pdb", false); err != nil || a[0].Found != nil {
		t.Errorf("another file of that name: %+v %v", a, err)
	}
	if _, err := s.Add(t.Context(), AddOptions{}, paths()); !errors.Is(err, ErrNotStore) {
		t.Error(err)
	}
	if _, err := s.Find("hello-x64.pdb", "AB"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestOldStore reads what the tool of 1999 wrote, and what others get wrong.
func TestOldStore(t *testing.T) {
	s := create(t, t.TempDir(), One, Options{})
	put := func(name, content string) { writeFile(t, filepath.Join(s.Dir(), name), []byte(content)) }
	put("000Admin/server.txt", "0000000096,add,ptr,10/09/99,00:08:32,Windows Vista SP 1,x86 fre 1.156c-RTM-2,Added from \\\\mybuilds\\symbols,\n"+
		"0000000097,add,file,09/06/2016,10:57:50,\"Gr\xf6\xdfe\",\"1,0\",\"\",\r\n\r\nnonsense\n0000000098,add,file,09/06/2016,10:57:51,\"Größe\",\"\",\"\",")
	put("000Admin/0000000096", `canon800.dbg\35d9fd51b000,\\mybuilds\symbols\sp4\dll\canon800.dbg`+"\n")
	put("000Admin/0000000097", "\"dummyprog.src\\5617D4FE8000\",\"/home/u/dummyprog.src\n\"b.dll\\5617D4FE8000\",\"C:\\a, b\\b.dll\"\r\n")
	put("000Admin/0000000098", "\"b.dll\\5617D4FE8000\",\"C:\\b")
	put("canon800.dbg/35D9FD51B000/file.ptr", "PATH:\\\\mybuilds\\symbols\\sp4\\dll\\canon800.dbg\r\nMSG: was here\r\n")
	put("canon800.dbg/35D9FD51B000/refs.ptr", "0000000096,ptr,\\\\mybuilds\\symbols\\sp4\\dll\\canon800.dbg\n0000000097,ptr,\"\\\\x\\y\",pri,,N,,")
	var list []Transaction
	var bad int
	for tx, err := range s.Transactions(false) {
		if err != nil {
			bad++
			continue
		}
		list = append(list, tx)
	}
	if bad != 1 || len(list) != 3 || !list[0].Pointer || list[0].Time.Year() != 1999 || list[0].Time.Month() != time.October ||
		list[0].Product != "Windows Vista SP 1" || list[1].Product != "Größe" || list[1].Version != "1,0" || list[2].Product != "Größe" {
		t.Errorf(`got %d, %+v; want 1, length 3, list[0].Pointer true, list[0].Time.Year() 1999, list[0].Time.Month() %v, list[0].Product "Windows Vista SP 1", list[1].Product "Größe", list[1].Version "1,0", list[2].Product "Größe"`, bad, list, time.October)
	}
	e, err := s.Entries(96)
	if err != nil || len(e) != 1 || e[0] != (Entry{"canon800.dbg", "35d9fd51b000", `\\mybuilds\symbols\sp4\dll\canon800.dbg`}) {
		t.Errorf("Entries(96): %+v, error %v; want the one of canon800.dbg", e, err)
	}
	e, err = s.Entries(97)
	if err != nil || len(e) != 2 || e[0].Source != "/home/u/dummyprog.src" || e[1].Source != `C:\a, b\b.dll` {
		t.Errorf(`Entries(97): %+v, error %v; want length 2, e[0].Source "/home/u/dummyprog.src", e[1].Source %q`, e, err, `C:\a, b\b.dll`)
	}
	before := tree(t, s.Dir())
	if e, err := s.Entries(98); !errors.Is(err, ErrDamaged) || len(e) != 1 {
		t.Errorf("Entries(98): %+v, error %v; want ErrDamaged, length 1", e, err)
	}
	if _, err := s.Del(t.Context(), 98); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf(`differ: %q, want ""`, d)
	}
	f, err := s.Find("CANON800.DBG", "35d9fd51b000")
	if err != nil || f.Target.Target != `\\mybuilds\symbols\sp4\dll\canon800.dbg` || f.Target.Message != "was here" || len(f.Refs) != 2 {
		t.Errorf(`Find("CANON800.DBG", "35d9fd51b000"): %+v, error %v; want Target.Target %q, Target.Message "was here", Refs of length 2`, f, err, `\\mybuilds\symbols\sp4\dll\canon800.dbg`)
	}
	// Lines that stay keep their bytes; the old one wins again.
	mustDel(t, s, 97)
	want(t, s, "canon800.dbg/35D9FD51B000/refs.ptr", "0000000096,ptr,\\\\mybuilds\\symbols\\sp4\\dll\\canon800.dbg\n0000000097,ptr,\"\\\\x\\y\",pri,,N,,")
	if got := read(t, s, serverFile); strings.Contains(got, "0000000097") || !strings.Contains(got, "nonsense\r\n") {
		t.Errorf(`read: %q, want one without "0000000097", one with %q`, got, "nonsense\r\n")
	}
}

// TestWithoutRecords checks a store that other tools filled without any records,
// such as a downloader: its files are no faults.
func TestWithoutRecords(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pingme.txt", "a.dll/000000011000/a.dll", "b.dll/000000021000/b.dll"} {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(name)), []byte(name))
	}
	s := create(t, dir, One, Options{})
	found, err := s.Check(t.Context(), CheckOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Kind != FileStray || !found[0].Note || !strings.Contains(found[0].Detail, "2 of the stored files") {
		t.Errorf("found %+v, want one note on 2 files", found)
	}
	found, err = s.Repair(t.Context(), CheckOptions{})
	if err != nil || len(found) != 1 || found[0].Mended {
		t.Errorf("repair: %+v, %v; want the note alone", found, err)
	}
	want(t, s, "a.dll/000000011000/a.dll", "a.dll/000000011000/a.dll")
	found, err = s.Repair(t.Context(), CheckOptions{RemoveStray: true})
	if err != nil || len(found) != 2 || !found[0].Mended {
		t.Errorf("repair with RemoveStray: %+v, %v; want 2 files removed", found, err)
	}
	want(t, s, "a.dll/000000011000/a.dll", noFile)
}

// TestOlderFiles checks stores that other tools filled before our first add: what they
// left out is no fault after it either.
func TestOlderFiles(t *testing.T) {
	t.Parallel()
	note := func(t *testing.T, s *Store, detail string) {
		t.Helper()
		found, err := s.Check(t.Context(), CheckOptions{})
		if err != nil || len(found) != 1 || !found[0].Note || !strings.Contains(found[0].Detail, detail) {
			t.Errorf("check finds %v, error %v; want one note with %q", found, err, detail)
		}
	}
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	c := writeFile(t, filepath.Join(src, "c.dll"), peImage(3, 0x1000, "c"))

	t.Run("transactions without refs.ptr", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, AddOptions{NoRefs: true}, paths(a, b))
		if err := s.root.Remove(noRefsFile); err != nil { // another tool leaves no mark
			t.Fatal(err)
		}
		mustBeClean(t, s)
		mustAdd(t, s, AddOptions{}, paths(b, c))
		note(t, s, "2 of the stored files have no line in refs.ptr")
		found, err := s.Repair(t.Context(), CheckOptions{})
		if err != nil || len(found) != 1 || !found[0].Mended {
			t.Errorf("repair: %v, error %v; want the note, mended", found, err)
		}
		mustBeClean(t, s)
		if refs := read(t, s, "b.dll/000000021000/refs.ptr"); !strings.HasPrefix(refs, "0000000001,file,") || !strings.Contains(refs, "\r\n0000000002,file,") {
			t.Errorf("refs.ptr of b.dll is %q, want the lines of both transactions, the older one first", refs)
		}
		// A line that a transaction alone lacks is a fault, as before.
		if err := s.root.Remove("a.dll/000000011000/refs.ptr"); err != nil {
			t.Fatal(err)
		}
		found, err = s.Check(t.Context(), CheckOptions{})
		if err != nil || len(found) != 1 || found[0].Kind != RefMissing || found[0].Note {
			t.Errorf("check after a lost refs.ptr: %v, error %v; want the fault %s", found, err, RefMissing)
		}
	})
	t.Run("files without transactions", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		old := filepath.Dir(writeFile(t, filepath.Join(s.Dir(), "o.dll", "000000091000", "o.dll"), peImage(9, 0x1000, "o")))
		mustAdd(t, s, AddOptions{}, paths(a))
		note(t, s, "1 of the stored files; they were there before the first transaction")
		if _, err := s.Repair(t.Context(), CheckOptions{}); err != nil {
			t.Fatal(err)
		}
		want(t, s, "o.dll/000000091000/o.dll", string(peImage(9, 0x1000, "o")))
		// What came later, without a record, is a fault.
		later := time.Now().Add(time.Minute)
		if err := os.Chtimes(old, later, later); err != nil {
			t.Fatal(err)
		}
		found, err := s.Check(t.Context(), CheckOptions{})
		if err != nil || len(found) != 1 || found[0].Kind != FileStray || found[0].Note {
			t.Errorf("check: %v, error %v; want the fault %s", found, err, FileStray)
		}
	})
}
