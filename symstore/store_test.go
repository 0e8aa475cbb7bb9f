package symstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBytes builds stores with the times and paths of published ones and
// compares every byte of the records.
func TestBytes(t *testing.T) {
	t.Parallel()
	src := writeFile(t, filepath.Join(t.TempDir(), "dummyprog.dll"), peImage(0x5A0BC0C6, 0xc83000, "x"))
	source := `F:\symstore\compstore\dummyprog.pdb`
	file := File{Path: src, Source: source, Keys: []Key{{"dummyprog.pdb", "F6301B4562FE4B4DB691192733ECE6B71", Private}}}
	s := create(t, t.TempDir(), One, Options{Now: at("2016-09-06 10:34:19")})
	add := AddOptions{Product: "dummyprod"}
	if r := mustAdd(t, s, add, files(file)); r.ID != 1 {
		t.Errorf("the first transaction is %s, want 0000000001", r.ID)
	}
	line := `0000000001,add,file,09/06/2016,10:34:19,"dummyprod","","",`
	want(t, s, "000Admin/lastid.txt", "0000000001")
	want(t, s, "000Admin/server.txt", line+"\r\n")
	want(t, s, "000Admin/history.txt", line)
	want(t, s, "000Admin/0000000001", `"dummyprog.pdb\F6301B4562FE4B4DB691192733ECE6B71","F:\symstore\compstore\dummyprog.pdb"`+"\r\n")
	want(t, s, "pingme.txt", "")
	want(t, s, "index2.txt", noFile)
	dir := "dummyprog.pdb/F6301B4562FE4B4DB691192733ECE6B71/"
	ref := `0000000001,file,"F:\symstore\compstore\dummyprog.pdb",pri,,N,,`
	want(t, s, dir+"refs.ptr", ref)
	want(t, s, dir+"dummyprog.pdb", string(peImage(0x5A0BC0C6, 0xc83000, "x")))
	if n := len(read(t, s, "000Admin/server.txt")); n != 60 {
		t.Errorf("server.txt has %d bytes, want 60", n)
	}
	if n := len(read(t, s, "000Admin/0000000001")); n != 89 {
		t.Errorf("the transaction file has %d bytes, want 89", n)
	}

	mustAdd(t, s, add, files(file))
	want(t, s, "000Admin/lastid.txt", "0000000002")
	want(t, s, dir+"refs.ptr", ref+"\r\n"+strings.Replace(ref, "1", "2", 1))
	wantNoLeftovers(t, s)
}

// TestDeleteHistory repeats the three adds and three deletes of a published
// store.
func TestDeleteHistory(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	dir := t.TempDir()
	times := []string{"2020-08-10 18:50:24", "2020-08-10 18:52:31", "2020-08-10 18:53:12"}
	for i, stamp := range times {
		s := create(t, dir, One, Options{Now: at(stamp)})
		p := writeFile(t, filepath.Join(src, "JobProcess.exe"), peImage(uint32(i), 0x1000, ""))
		mustAdd(t, s, AddOptions{Product: "prod"}, paths(p))
	}
	s := create(t, dir, One, Options{})
	for i, id := range []ID{1, 3, 2} {
		if r := mustDel(t, s, id); r.ID != ID(4+i) || r.Removed != 1 {
			t.Errorf("deletion of %s: transaction %s removes %d files, want %s and 1", id, r.ID, r.Removed, ID(4+i))
		}
	}
	want(t, s, "000Admin/history.txt", strings.Join([]string{
		`0000000001,add,file,08/10/2020,18:50:24,"prod","","",`,
		`0000000002,add,file,08/10/2020,18:52:31,"prod","","",`,
		`0000000003,add,file,08/10/2020,18:53:12,"prod","","",`,
		`0000000004,del,0000000001`, `0000000005,del,0000000003`, `0000000006,del,0000000002`}, "\r\n"))
	if n := len(read(t, s, "000Admin/history.txt")); n != 244 {
		t.Errorf("history.txt has %d bytes, want 244", n)
	}
	want(t, s, "000Admin/server.txt", "")
	want(t, s, "000Admin/lastid.txt", "0000000006")
	var names []string
	for n := range tree(t, dir) {
		names = append(names, n)
	}
	if len(names) != 9 {
		t.Errorf("%d files and folders %q are left, want 9: the root, 000Admin, pingme.txt, three lists and three .deleted", len(names), names)
	}
	for _, id := range []string{"1", "2", "3"} {
		if read(t, s, "000Admin/000000000"+id+".deleted") == noFile {
			t.Errorf("%s.deleted is missing", id)
		}
	}
	if _, err := s.Del(context.Background(), 1); !errors.Is(err, ErrNoTransaction) {
		t.Errorf("second deletion of 1: error %v, want ErrNoTransaction", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "JobProcess.exe")); err == nil {
		t.Error("the empty folder JobProcess.exe is left")
	}
	want(t, s, "000Admin/lastid.txt", "0000000006")
}

// TestLastEntry walks the published state table: 43 to 45 stored the file, 46
// and 47 pointers.
func TestLastEntry(t *testing.T) {
	t.Parallel()
	const key, name = "38039ff439000", "dbghelp.dbg"
	build := func(t *testing.T) *Store {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, adminDir, "lastid.txt"), []byte("0000000042"))
		s := create(t, dir, One, Options{})
		src := writeFile(t, filepath.Join(t.TempDir(), name), []byte("content"))
		keys := []Key{{name, key, Private}}
		for range 3 {
			mustAdd(t, s, AddOptions{}, files(File{Path: src, Keys: keys}))
		}
		for _, p := range []string{`\\a\A`, `\\a\B`} {
			mustAdd(t, s, AddOptions{Pointer: true}, files(File{Source: p, Keys: keys}))
		}
		return s
	}
	for _, c := range []struct {
		del     []ID
		file    bool
		pointer string
	}{
		{nil, true, `\\a\B`}, {[]ID{47}, true, `\\a\A`}, {[]ID{47, 46}, true, noFile}, {[]ID{43, 44}, true, `\\a\B`},
		{[]ID{43, 44, 45}, false, `\\a\B`}, {[]ID{43, 44, 45, 47}, false, `\\a\A`}, {[]ID{43, 44, 45, 46, 47}, false, noFile},
		{[]ID{47, 43, 46, 45}, true, noFile},
	} {
		t.Run(fmt.Sprintf("deletion of %v", c.del), func(t *testing.T) {
			t.Parallel()
			s := build(t)
			for _, id := range c.del {
				mustDel(t, s, id)
			}
			dir := name + "/" + key + "/"
			if got := read(t, s, dir+name) != noFile; got != c.file {
				t.Errorf("the store has the file: %v, want %v", got, c.file)
			}
			want(t, s, dir+"file.ptr", c.pointer)
			if len(c.del) == 5 && s.exists(name) {
				t.Errorf("the empty folder %s is left", name)
			}
		})
	}
}

func TestTwoTier(t *testing.T) {
	t.Parallel()
	dir, src := t.TempDir(), t.TempDir()
	s := create(t, dir, Two, Options{})
	want(t, s, "index2.txt", "")
	a := writeFile(t, filepath.Join(src, "Crash.dll"), peImage(1, 0x2000, "a"))
	b := writeFile(t, filepath.Join(src, "x.dll"), peImage(2, 0x2000, "b"))
	mustAdd(t, s, AddOptions{}, paths(a, b))
	c := writeFile(t, filepath.Join(src, "other", "CRASH.DLL"), peImage(3, 0x2000, "c"))
	mustAdd(t, s, AddOptions{}, paths(c))
	want(t, s, "Cr/Crash.dll/000000012000/Crash.dll", string(peImage(1, 0x2000, "a")))
	want(t, s, "x/x.dll/000000022000/x.dll", string(peImage(2, 0x2000, "b")))
	want(t, s, "Cr/Crash.dll/000000032000/Crash.dll", string(peImage(3, 0x2000, "c")))
	want(t, s, "000Admin/0000000002", `"CRASH.DLL\000000032000","`+c+`"`+"\r\n")
	for _, q := range []string{"crash.dll", "CRASH.DLL", "Crash.dll", "cRaSh.DlL"} {
		if f := mustFind(t, s, q, "000000012000"); f.Plain == "" {
			t.Errorf("%s is not found in any letter case: %+v", q, f)
		}
	}
	for id := range ID(2) {
		mustDel(t, s, id+1)
	}
	for _, d := range []string{"Cr", "x"} {
		if s.exists(d) {
			t.Errorf("the empty bucket %s is left", d)
		}
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files []string
		want  Tiers
	}{
		{nil, Flat}, {[]string{"a.pdb", "b.dll"}, Flat}, {[]string{"pingme.txt"}, One}, {[]string{"pingback.txt"}, One}, {[]string{"PingBack.TXT"}, One}, {[]string{"000admin/server.txt"}, One},
		{[]string{"index2.txt"}, Two}, {[]string{"a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb"}, One},
		{[]string{"a.dll/5A0BC0C6c83000/a.dl_"}, One}, {[]string{"a./a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb"}, Two},
		{[]string{"cr/crash.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/crash.pd_"}, Two}, {[]string{"src/a.pdb/readme/a.pdb"}, Flat},
		{[]string{"_.debug/elf-buildid-sym-0011223344556677889900112233445566778899/_.debug"}, One},
	} {
		t.Run(strings.Join(c.files, ","), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, f := range c.files {
				writeFile(t, filepath.Join(dir, f), nil)
			}
			if got, err := Detect(dir); got != c.want || err != nil {
				t.Errorf("Detect: %v, error %v; want %v", got, err, c.want)
			}
		})
	}
}

// crashTest stops a change of a store as if the process were killed. The store
// has a.dll, b.dll and c.dll in transaction 1.
type crashTest struct {
	first, second []string // the files of transaction 1, and those of the add
	third         string   // a file that the next writer adds
}

func newCrashTest(t *testing.T) *crashTest {
	t.Helper()
	src := t.TempDir()
	c := &crashTest{third: writeFile(t, filepath.Join(src, "3", "d.dll"), peImage(9, 0x1000, "third"))}
	for i, name := range []string{"a.dll", "b.dll", "c.dll"} {
		c.first = append(c.first, writeFile(t, filepath.Join(src, "1", name), peImage(uint32(i), 0x1000, "first")))
		c.second = append(c.second, writeFile(t, filepath.Join(src, "2", name), peImage(uint32(i+1), 0x1000, "second")))
	}
	return c
}

func (c *crashTest) open(t *testing.T, dir string, step func(string) error) *Store {
	t.Helper()
	return create(t, dir, One, Options{Now: at("2020-01-01 00:00:00"), step: step})
}

// run makes a store and changes it. The step after stopAt others fails; none does
// if stopAt is negative. It returns the number of steps.
func (c *crashTest) run(t *testing.T, stopAt int, change func(*Store) error) (dir string, before map[string]string, steps int, err error) {
	t.Helper()
	dir = t.TempDir()
	mustAdd(t, c.open(t, dir, nil), AddOptions{}, paths(c.first...))
	before = tree(t, dir)
	s := c.open(t, dir, func(string) error {
		if steps++; steps > stopAt && stopAt >= 0 {
			return errors.New("killed")
		}
		return nil
	})
	steps = 0
	err = change(s)
	return dir, before, steps, err
}

// recover lets the next writer add a file and delete it again. It returns the
// tree, and whether the change before was completed.
func (c *crashTest) recover(t *testing.T, dir string) (got map[string]string, completed bool) {
	t.Helper()
	awaitForks()
	next := c.open(t, dir, nil)
	r := mustAdd(t, next, AddOptions{}, paths(c.third))
	mustDel(t, next, r.ID)
	wantNoLeftovers(t, next)
	return tree(t, dir), r.ID == 3
}

// TestCrash stops an add, and then a delete, at each step that other processes can
// see. The next writer completes or undoes the change; what was committed before
// is kept.
func TestCrash(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	for _, change := range []struct {
		name  string
		do    func(*Store) error
		check func(t *testing.T, before, got map[string]string, completed bool)
	}{
		{"add", func(s *Store) error {
			_, err := s.Add(context.Background(), AddOptions{}, paths(c.second...))
			return err
		}, crashedAdd},
		{"del", func(s *Store) error {
			_, err := s.Del(context.Background(), 1)
			return err
		}, crashedDel},
	} {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel()
			_, _, steps, err := c.run(t, -1, change.do)
			if err != nil {
				t.Fatalf("without a crash: %v", err)
			}
			t.Logf("%d steps", steps)
			for i := range steps {
				t.Run(fmt.Sprintf("step %d", i), func(t *testing.T) {
					t.Parallel()
					dir, before, _, err := c.run(t, i, change.do)
					if err == nil && i < steps-1 {
						t.Errorf("the change succeeds although it was stopped, want an error")
					}
					got, completed := c.recover(t, dir)
					change.check(t, before, got, completed)
				})
			}
		})
	}
}

func crashedAdd(t *testing.T, before, got map[string]string, completed bool) {
	t.Helper()
	if completed {
		for _, name := range []string{"a.dll/000000011000/a.dll", "b.dll/000000021000/b.dll", "c.dll/000000031000/refs.ptr", "000Admin/0000000002"} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s was not completed", name)
			}
		}
		return
	}
	for _, name := range []string{"a.dll/000000001000/a.dll", "b.dll/000000011000/b.dll", "c.dll/000000021000/c.dll"} {
		if before[name] == "" || got[name] != before[name] {
			t.Errorf("%s of the first transaction has %q, want %q", name, got[name], before[name])
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "a.dll/000000011000") {
			t.Errorf("%s was not undone", name)
		}
	}
}

func crashedDel(t *testing.T, before, got map[string]string, completed bool) {
	t.Helper()
	for name, data := range before {
		switch {
		case !strings.HasSuffix(name, ".dll"):
		case completed && got[name] != "":
			t.Errorf("%s is left after the deletion", name)
		case !completed && got[name] != data:
			t.Errorf("%s has %q after the deletion was undone, want %q", name, got[name], data)
		}
	}
}
