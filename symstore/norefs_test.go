package symstore

import (
	"path/filepath"
	"testing"
)

// TestNoRefs: whether a store has refs.ptr files is decided when it is created.
func TestNoRefs(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	const aRefs, bRefs = "a.dll/000000011000/refs.ptr", "b.dll/000000021000/refs.ptr"
	omit := AddOptions{NoRefs: true}

	t.Run("a store with refs.ptr refuses it", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, AddOptions{}, paths(a))
		before := tree(t, s.Dir())
		_, err := s.Add(t.Context(), omit, paths(b))
		wantError(t, "NoRefs for a store with refs.ptr", err, ErrRefs)
		wantUnchanged(t, s, "a refused Add", before)
		wantNoLeftovers(t, s)
		if s.NoRefs() {
			t.Error("NoRefs: true after a refused Add, want false")
		}
		mustDel(t, s, 1)
		_, err = s.Add(t.Context(), omit, paths(b))
		wantError(t, "NoRefs for an emptied store", err, ErrRefs)
	})
	t.Run("a store created so keeps none", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, omit, paths(a))
		mustAdd(t, s, AddOptions{}, paths(b))
		mustAdd(t, s, omit, paths(a, b))
		mustAdd(t, s, AddOptions{Pointer: true, AllowLocal: true}, files(File{Source: `\\x\c.dll`, Keys: []Key{{"c.dll", "000000031000", Binary}}}))
		for _, name := range []string{aRefs, bRefs, "c.dll/000000031000/refs.ptr"} {
			want(t, s, name, noFile)
		}
		if !s.NoRefs() {
			t.Error("NoRefs: false, want true")
		}
		mustBeClean(t, s)
		for id := ID(1); id <= 4; id++ {
			mustDel(t, s, id)
		}
		mustAdd(t, s, omit, paths(a))
		want(t, s, aRefs, noFile)
		mustBeClean(t, s)
	})
	t.Run("another tool created it so", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		mustAdd(t, s, omit, paths(a))
		if err := s.root.Remove(noRefsFile); err != nil { // nobody else leaves it
			t.Fatal(err)
		}
		mustAdd(t, s, omit, paths(b))
		want(t, s, bRefs, noFile)
		if !s.NoRefs() {
			t.Error("NoRefs: false, want true")
		}
	})
	t.Run("two writers create the store", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			what          string
			first, second AddOptions
			err           error
		}{{"with, then without", AddOptions{}, omit, ErrRefs}, {"without, then with", omit, AddOptions{}, ErrExists}} {
			dir := t.TempDir()
			s := create(t, dir, One, Options{})
			other := create(t, dir, One, Options{})
			done := false
			c.second.Event = func(Event) { // its files are staged, and the store is not locked
				if !done {
					done = true
					mustAdd(t, other, c.first, paths(b))
				}
			}
			_, err := s.Add(t.Context(), c.second, paths(a))
			wantError(t, c.what, err, c.err)
			mustBeClean(t, s)
			wantNoLeftovers(t, s)
		}
	})
}

// TestLastByOther: a store knows whether this package made its last transaction.
func TestLastByOther(t *testing.T) {
	t.Parallel()
	a := writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))
	s := create(t, t.TempDir(), One, Options{})
	is := func(what string, other bool) {
		t.Helper()
		if got, err := s.LastByOther(); err != nil || got != other {
			t.Errorf("%s: LastByOther %v, error %v; want %v", what, got, err, other)
		}
	}
	is("a new store", false)
	mustAdd(t, s, AddOptions{Product: "p"}, paths(a))
	is("own add", false)
	// Another tool adds: it knows nothing of our files.
	line := Transaction{ID: 2, Product: "q", Time: at("2024-01-02 03:04:05")()}.line()
	writeFile(t, filepath.Join(s.Dir(), serverFile), []byte(read(t, s, serverFile)+line+"\r\n"))
	writeFile(t, filepath.Join(s.Dir(), historyFile), []byte(read(t, s, historyFile)+"\r\n"+line))
	writeFile(t, filepath.Join(s.Dir(), lastIDFile), []byte("0000000002"))
	writeFile(t, filepath.Join(s.Dir(), adminDir, "0000000002"), []byte("\"a.dll\\000000011000\",\"C:\\a.dll\"\r\n"))
	is("another tool's add", true)
	mustDel(t, s, 1)
	is("own del", false)
}
