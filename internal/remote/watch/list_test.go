package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestLists: objects are listed page by page, found by name and id, and searched as
// debuginfod's clients do.
func TestLists(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "a/prog", m.prog)
	put(t, dir, "p.deb", makeDeb(t, true, entry{"usr/bin/prog", m.stripped}, entry{"usr/lib/libprog.so", m.lib}))
	put(t, dir, "cut.deb", makeDeb(t, true, entry{"x", m.lib})[:300])
	put(t, dir, "note.txt", []byte("text"))
	f := open(t, dir, Options{Product: "app", Version: "1"})
	scanned(t, f)
	var names []string
	for after := int64(0); ; {
		list, err := f.Entries(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, e := range list {
			names = append(names, e.Object.Name)
			after = e.ID
		}
	}
	if len(names) != 3 {
		t.Errorf("the entries are %v, want 3", names)
	}
	prog, deb := filepath.Join(dir, "a/prog"), filepath.Join(dir, "p.deb")
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Name: "prog"}, "[" + prog + " /usr/bin/prog]"},
		{Query{Name: "*prog*"}, "[/usr/lib/libprog.so " + prog + " /usr/bin/prog]"},
		{Query{Name: "prog*", IDs: []string{m.libID}}, "[/usr/lib/libprog.so " + prog + " /usr/bin/prog]"},
		{Query{IDs: []string{m.id}, Name: "prog"}, "[" + prog + " /usr/bin/prog]"},
		{Query{Name: "nothing"}, "[]"},
	} {
		list, err := f.Find(t.Context(), c.q, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, e := range list {
			got = append(got, e.Path)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("Find %+v: %v, want %v", c.q, got, c.want)
		}
	}
	if list, err := f.Find(t.Context(), Query{Name: "*"}, 2); err != nil || len(list) != 2 {
		t.Errorf("Find with a limit: %d, %v, want 2", len(list), err)
	}
	for _, c := range []struct {
		key, value string
		want       []Metadata
	}{
		{"file", "/usr/bin/prog", []Metadata{{"executable", m.id, "/usr/bin/prog", deb}}},
		{"file", prog, []Metadata{{"executable", m.id, prog, ""}, {"debuginfo", m.id, prog, ""}}},
		{"glob", "/usr/*/lib*", []Metadata{{"executable", m.libID, "/usr/lib/libprog.so", deb}, {"debuginfo", m.libID, "/usr/lib/libprog.so", deb}}},
		{"glob", "*prog*", nil},
		{"glob", "[", nil},
		{"buildid", m.libID, []Metadata{{"executable", m.libID, "/usr/lib/libprog.so", deb}, {"debuginfo", m.libID, "/usr/lib/libprog.so", deb}}},
		{"buildid", "xyz", nil},
	} {
		got, complete, err := f.Metadata(t.Context(), c.key, c.value, 0)
		if err != nil || !complete || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("Metadata %s=%s: %v, %v, %v, want %v", c.key, c.value, got, complete, err, c.want)
		}
	}
	if _, complete, err := f.Metadata(t.Context(), "glob", "/usr/*/*", 1); err != nil || complete {
		t.Errorf("Metadata with a limit: complete %v, %v, want incomplete", complete, err)
	}
	if _, _, err := f.Metadata(t.Context(), "source", "x", 0); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Metadata of an unknown key: %v, want %v", err, fs.ErrInvalid)
	}
	s, err := f.Status(t.Context())
	if err != nil || s.Files != 3 || s.Packages != 1 || s.Objects != 3 || s.Problems != 1 || s.Last.Files != 4 || s.Index == 0 {
		t.Errorf("the status is %+v, %v, want 3 files, 1 package, 3 objects, 1 problem", s, err)
	}
	problems, err := f.Problems(t.Context(), 0, 10)
	if err != nil || len(problems) != 1 || problems[0].Path != filepath.Join(dir, "cut.deb") || problems[0].Reason == "" {
		t.Errorf("the problems are %+v, %v, want that of cut.deb", problems, err)
	}
	if _, err := f.Find(cancelled(t), Query{Name: "*"}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Find of a caller that left: %v, want %v", err, context.Canceled)
	}
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestOtherFolder: the index of another folder is emptied.
func TestOtherFolder(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	one, two := t.TempDir(), t.TempDir()
	put(t, one, "prog", m.stripped)
	ix := filepath.Join(t.TempDir(), "ix", "watch.db")
	f, err := Open(t.Context(), one, Options{Index: ix})
	if err != nil {
		t.Fatal(err)
	}
	scanned(t, f)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = open(t, two, Options{Index: ix})
	if list, err := f.Entries(t.Context(), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("the entries are %v, %v, want none", list, err)
	}
}
