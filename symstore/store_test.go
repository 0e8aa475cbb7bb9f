package symstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBytes builds stores with the times and paths of published ones and
// compares every byte of the records.
func TestBytes(t *testing.T) {
	src := writeFile(t, filepath.Join(t.TempDir(), "dummyprog.dll"), peImage(0x5A0BC0C6, 0xc83000, "x"))
	source := `F:\symstore\compstore\dummyprog.pdb`
	file := File{Path: src, Source: source, Keys: []Key{{"dummyprog.pdb", "F6301B4562FE4B4DB691192733ECE6B71", Private}}}
	s := create(t, t.TempDir(), One, Options{Now: at("2016-09-06 10:34:19")})
	add := AddOptions{Product: "dummyprod"}
	if r := mustAdd(t, s, add, files(file)); r.ID != 1 {
		t.Errorf("first transaction is %s", r.ID)
	}
	line := `0000000001,add,file,09/06/2016,10:34:19,"dummyprod","","",`
	want(t, s, "000Admin/lastid.txt", "0000000001")
	want(t, s, "000Admin/server.txt", line+"\r\n")
	want(t, s, "000Admin/history.txt", line)
	want(t, s, "000Admin/0000000001", `"dummyprog.pdb\F6301B4562FE4B4DB691192733ECE6B71","F:\symstore\compstore\dummyprog.pdb"`+"\r\n")
	want(t, s, "pingme.txt", "")
	want(t, s, "index2.txt", "ABSENT")
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
	if got := leftovers(t, s); len(got) > 0 {
		t.Errorf("left over: %q", got)
	}
}

// TestDeleteHistory repeats the three adds and three deletes of a published
// store.
func TestDeleteHistory(t *testing.T) {
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
			t.Errorf("%+v", r)
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
	if len(names) != 9 { // ./, 000Admin/, pingme, four texts... and three .deleted
		t.Errorf("left: %q", names)
	}
	for _, id := range []string{"1", "2", "3"} {
		if read(t, s, "000Admin/000000000"+id+".deleted") == "ABSENT" {
			t.Errorf("%s.deleted is missing", id)
		}
	}
	if _, err := s.Del(context.Background(), 1); !errors.Is(err, ErrNoTransaction) {
		t.Errorf("second del: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "JobProcess.exe")); err == nil {
		t.Error("the name folder is still there")
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
		{nil, true, `\\a\B`}, {[]ID{47}, true, `\\a\A`}, {[]ID{47, 46}, true, "ABSENT"}, {[]ID{43, 44}, true, `\\a\B`},
		{[]ID{43, 44, 45}, false, `\\a\B`}, {[]ID{43, 44, 45, 47}, false, `\\a\A`}, {[]ID{43, 44, 45, 46, 47}, false, "ABSENT"},
		{[]ID{47, 43, 46, 45}, true, "ABSENT"},
	} {
		s := build(t)
		for _, id := range c.del {
			mustDel(t, s, id)
		}
		dir := name + "/" + key + "/"
		if got := read(t, s, dir+name) != "ABSENT"; got != c.file {
			t.Errorf("after %v: file is there: %v", c.del, got)
		}
		want(t, s, dir+"file.ptr", c.pointer)
		if len(c.del) == 5 && s.exists(name) {
			t.Error("the folder is still there")
		}
	}
}

func TestTwoTier(t *testing.T) {
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
		if f, err := s.Find(q, "000000012000"); err != nil || f.Plain == "" {
			t.Errorf("%s: %+v %v", q, f, err)
		}
	}
	for id := range ID(2) {
		mustDel(t, s, id+1)
	}
	for _, d := range []string{"Cr", "x"} {
		if s.exists(d) {
			t.Errorf("bucket %s is still there", d)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		files []string
		want  Tiers
	}{
		{nil, Flat}, {[]string{"a.pdb", "b.dll"}, Flat}, {[]string{"pingme.txt"}, One}, {[]string{"000admin/server.txt"}, One},
		{[]string{"index2.txt"}, Two}, {[]string{"a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb"}, One},
		{[]string{"a.dll/5A0BC0C6c83000/a.dl_"}, One}, {[]string{"a./a.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/a.pdb"}, Two},
		{[]string{"cr/crash.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/crash.pd_"}, Two}, {[]string{"src/a.pdb/readme/a.pdb"}, Flat},
		{[]string{"_.debug/elf-buildid-sym-0011223344556677889900112233445566778899/_.debug"}, One},
	} {
		dir := t.TempDir()
		for _, f := range c.files {
			writeFile(t, filepath.Join(dir, f), nil)
		}
		if got, err := Detect(dir); got != c.want || err != nil {
			t.Errorf("%q: %v %v, want %v", c.files, got, err, c.want)
		}
	}
}

// TestCrash stops an add, and then a delete, at each step that others can see,
// as if killed there. The next writer must complete or undo it, and what was
// committed must be there.
func TestCrash(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	var first, second []string
	for i := range 3 {
		name := []string{"a.dll", "b.dll", "c.dll"}[i]
		first = append(first, writeFile(t, filepath.Join(src, "1", name), peImage(uint32(i), 0x1000, "first")))
		second = append(second, writeFile(t, filepath.Join(src, "2", name), peImage(uint32(i+1), 0x1000, "second")))
	}
	third := writeFile(t, filepath.Join(src, "3", "d.dll"), peImage(9, 0x1000, "third"))
	killed := errors.New("killed")
	run := func(t *testing.T, stopAt int, what string) (steps int, err error) {
		dir := t.TempDir()
		mustAdd(t, create(t, dir, One, Options{Now: at("2020-01-01 00:00:00")}), AddOptions{}, paths(first...))
		before := tree(t, dir)
		n := 0
		s := create(t, dir, One, Options{Now: at("2020-01-01 00:00:00"), step: func(string) error {
			if n++; n > stopAt && stopAt >= 0 {
				return killed
			}
			return nil
		}})
		n = 0
		if what == "add" {
			_, err = s.Add(context.Background(), AddOptions{}, paths(second...))
		} else {
			_, err = s.Del(context.Background(), 1)
		}
		if stopAt < 0 {
			return n, err
		}
		next := create(t, dir, One, Options{Now: at("2020-01-01 00:00:00")})
		r := mustAdd(t, next, AddOptions{}, paths(third))
		mustDel(t, next, r.ID)
		if left := leftovers(t, next); len(left) > 0 {
			t.Errorf("%s, step %d: left over %q", what, stopAt, left)
		}
		// Without the deleted third the store is as before, or as after.
		got := tree(t, dir)
		done := r.ID == 3
		switch {
		case !done && what == "add":
			for i := range 3 {
				if got["a.dll/000000001000/a.dll"] != before["a.dll/000000001000/a.dll"] {
					t.Errorf("step %d: file %d was lost", stopAt, i)
				}
			}
			for k := range got {
				if strings.HasPrefix(k, "a.dll/000000011000") {
					t.Errorf("step %d: %s was not undone", stopAt, k)
				}
			}
		case done && what == "add":
			for _, k := range []string{"a.dll/000000011000/a.dll", "b.dll/000000021000/b.dll", "c.dll/000000031000/refs.ptr", "000Admin/0000000002"} {
				if _, ok := got[k]; !ok {
					t.Errorf("step %d: %s was not completed", stopAt, k)
				}
			}
		case done:
			for k := range got {
				if strings.HasSuffix(k, ".dll") {
					t.Errorf("del, step %d: %s is left", stopAt, k)
				}
			}
		}
		return n, err
	}
	for _, what := range []string{"add", "del"} {
		steps, err := run(t, -1, what)
		if err != nil {
			t.Fatal(err)
		}
		for i := range steps {
			if _, err := run(t, i, what); err == nil && i < steps-1 {
				t.Errorf("%s: step %d of %d did not fail", what, i, steps)
			}
		}
		t.Logf("%s: %d steps", what, steps)
	}
}
