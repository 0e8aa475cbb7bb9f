package symstore

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// holder makes stored files of some names refuse their removal, as a debugger on
// Windows does that holds them open.
type holder struct {
	names  []string
	open   atomic.Bool
	tries  atomic.Int32
	closes int32 // the try that finds the files closed; 0: none does
}

func hold(names ...string) *holder {
	h := &holder{names: names}
	h.open.Store(true)
	return h
}

func (h *holder) fault(name string) error {
	if !h.open.Load() || !slices.Contains(h.names, path.Base(name)) {
		return nil
	}
	if n := h.tries.Add(1); h.closes > 0 && n >= h.closes {
		return nil
	}
	return &os.PathError{Op: "remove", Path: name, Err: errBusyHere}
}

// notes returns the paths of the notes about deferred files. Other findings fail
// the test.
func notes(t *testing.T, s *Store) (list []string) {
	t.Helper()
	found, err := s.Check(t.Context(), CheckOptions{Contents: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Kind != FileHeld || !f.Note {
			t.Errorf("check: %s, want notes about held files only", f)
		}
		list = append(list, f.Path)
	}
	return list
}

// deferredFiles returns the paths of the files to be removed later.
func deferredFiles(s *Store) (list []string) {
	for _, d := range s.readDeferred() {
		list = append(list, d.Name+"/"+d.Key+"/"+d.Leaf)
	}
	return list
}

// TestDelHeld deletes a transaction of three files. Another program holds one of
// them open.
func TestDelHeld(t *testing.T) {
	t.Parallel()
	const held = "b.dll/000000021000/b.dll"
	for _, tiers := range []Tiers{One, Two} {
		synctest.Test(t, func(t *testing.T) {
			src := t.TempDir()
			h := hold("b.dll")
			s := create(t, t.TempDir(), tiers, Options{removeFault: h.fault, Now: at("2020-01-01 00:00:00")})
			other := writeFile(t, filepath.Join(src, "o.dll"), peImage(9, 0x1000, "o"))
			mustAdd(t, s, AddOptions{}, paths(other))
			var list []string
			for i, name := range []string{"a.dll", "b.dll", "c.dll"} {
				list = append(list, writeFile(t, filepath.Join(src, name), peImage(uint32(i+1), 0x1000, name)))
			}
			mustAdd(t, s, AddOptions{}, paths(list...))
			stored := held
			if tiers == Two {
				stored = "b/" + held
			}

			r := mustDel(t, s, 2)
			if r.Removed != 3 || r.Deferred != 1 {
				t.Errorf("%s: %d files removed, %d deferred, want 3 and 1", tiers, r.Removed, r.Deferred)
			}
			if _, err := s.Entries(2); !errors.Is(err, ErrNoTransaction) {
				t.Errorf("%s: the deleted transaction: %v, want %v", tiers, err, ErrNoTransaction)
			}
			want(t, s, stored, string(peImage(2, 0x1000, "b.dll")))
			want(t, s, path.Dir(stored)+"/refs.ptr", noFile)
			for n := range tree(t, s.Dir()) {
				if strings.Contains(n, "a.dll") || strings.Contains(n, "c.dll") {
					t.Errorf("%s: %s is left, want it deleted", tiers, n)
				}
			}
			wantNoLeftovers(t, s)
			if got := notes(t, s); !slices.Equal(got, []string{stored}) {
				t.Errorf("%s: notes about %q, want %q", tiers, got, stored)
			}
			if found, err := s.Repair(t.Context(), CheckOptions{RemoveStray: true}); err != nil || len(found) != 1 || !found[0].Note || found[0].Mended {
				t.Errorf("%s: repair: %+v, %v; want the note", tiers, found, err)
			}
			// Other writers are not disturbed.
			tries := h.tries.Load()
			mustDel(t, s, mustAdd(t, s, AddOptions{}, paths(list[0])).ID)
			if got := h.tries.Load() - tries; got != 2 {
				t.Errorf("%s: two writers tried %d times to remove the file, want once each", tiers, got)
			}
			ro, err := Open(s.Dir(), Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := notes(t, ro); !slices.Equal(got, []string{stored}) {
				t.Errorf("%s: read-only: notes about %q, want %q", tiers, got, stored)
			}
			_ = ro.Close()

			h.open.Store(false)
			mustBeClean(t, s)
			want(t, s, stored, noFile)
			for n := range tree(t, s.Dir()) {
				if strings.Contains(n, "b.dll") {
					t.Errorf("%s: %s is left, want it removed", tiers, n)
				}
			}
			if s.exists(deferredFile) {
				t.Errorf("%s: %s exists, want none", tiers, deferredFile)
			}
		})
	}
}

// TestDelWaits deletes a file that the other program closes in time.
func TestDelWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hold("a.dll")
		h.closes = 5
		s := create(t, t.TempDir(), One, Options{removeFault: h.fault})
		mustAdd(t, s, AddOptions{}, paths(writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))))
		if r := mustDel(t, s, 1); r.Deferred != 0 || h.tries.Load() != 5 {
			t.Errorf("%d files deferred after %d tries, want none after 5", r.Deferred, h.tries.Load())
		}
		if s.exists("a.dll") || s.exists(deferredFile) {
			t.Errorf("a.dll exists: %v, %s exists: %v; want neither", s.exists("a.dll"), deferredFile, s.exists(deferredFile))
		}
		mustBeClean(t, s)
	})
}

// TestDeferredStoredAgain stores a file again that waits for its removal: it stays.
func TestDeferredStoredAgain(t *testing.T) {
	t.Parallel()
	const stored = "a.dll/000000011000/a.dll"
	for _, c := range []struct {
		name string
		opt  AddOptions
	}{
		{"with refs.ptr", AddOptions{NoForceCopy: true}},
		{"without refs.ptr", AddOptions{NoForceCopy: true, NoRefs: true}}, // as some other tools do
	} {
		synctest.Test(t, func(t *testing.T) {
			h := hold("a.dll")
			s := create(t, t.TempDir(), One, Options{removeFault: h.fault})
			src := t.TempDir()
			a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
			b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
			mustAdd(t, s, c.opt, paths(b))
			mustAdd(t, s, c.opt, paths(a))
			mustDel(t, s, 2)
			mustAdd(t, s, c.opt, paths(b))
			mustAdd(t, s, c.opt, paths(a))
			h.open.Store(false)
			mustAdd(t, s, c.opt, paths(b))
			want(t, s, stored, string(peImage(1, 0x1000, "a")))
			if got := deferredFiles(s); len(got) > 0 {
				t.Errorf("%s: to be removed later: %q, want none", c.name, got)
			}
			mustBeClean(t, s)
			// The next deletion works as usual.
			for _, id := range []ID{5, 4, 6, 1} {
				if _, err := s.Entries(id); err == nil {
					mustDel(t, s, id)
				}
			}
			want(t, s, stored, noFile)
			mustBeClean(t, s)
		})
	}
}

// TestDelHeldCrash stops a deletion with a held file at each step, and then the
// writer that completes it. Either nothing has changed, or the transaction is
// deleted and the file is removed later.
func TestDelHeldCrash(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	killed := errors.New("killed")
	for stop, done := 0, false; !done; stop++ {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			mustAdd(t, c.open(t, dir, nil), AddOptions{}, paths(c.first...))
			before := tree(t, dir)
			h := hold("b.dll")
			steps := 0
			step := func(string) error {
				if steps++; steps > stop {
					return killed
				}
				return nil
			}
			s := create(t, dir, One, Options{step: step, removeFault: h.fault})
			steps = 0
			_, err := s.Del(t.Context(), 1)
			done = err == nil
			if !done && !errors.Is(err, killed) {
				t.Fatalf("stopped at %d: %v, want the interruption or success", stop, err)
			}
			// The next writer is stopped too, at the same number of steps.
			steps = 0
			next := create(t, dir, One, Options{step: step, removeFault: h.fault})
			if found, err := next.Check(t.Context(), CheckOptions{}); err != nil && !errors.Is(err, killed) {
				t.Errorf("stopped at %d: the next writer: %v, %v, want nothing found", stop, found, err)
			}
			awaitForks()
			third := create(t, dir, One, Options{removeFault: h.fault})
			got := notes(t, third)
			deleted := len(got) > 0
			if !deleted {
				if d := differ(before, tree(t, dir)); d != "" {
					t.Errorf("stopped at %d: neither deleted nor unchanged:\n%s", stop, d)
				}
			}
			want(t, third, "b.dll/000000011000/b.dll", string(peImage(1, 0x1000, "first")))
			wantNoLeftovers(t, third)
			h.open.Store(false)
			mustBeClean(t, third)
			if _, err := third.Entries(1); deleted != errors.Is(err, ErrNoTransaction) {
				t.Errorf("stopped at %d: transaction 1: %v; want it deleted: %v", stop, err, deleted)
			}
			if third.exists("b.dll") == deleted || third.exists(deferredFile) {
				t.Errorf("stopped at %d: b.dll exists: %v, %s exists: %v; want %v and false", stop, third.exists("b.dll"), deferredFile, third.exists(deferredFile), !deleted)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// TestDelHeldUndo fails a deletion after it met a held file: nothing changes.
func TestDelHeldUndo(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	for _, at := range []string{"remove c.dll/000000021000/c.dll", "defer"} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			mustAdd(t, c.open(t, dir, nil), AddOptions{}, paths(c.first...))
			before := tree(t, dir)
			failed := errors.New("a fault of the disk")
			h := hold("b.dll")
			s := create(t, dir, One, Options{removeFault: h.fault, step: func(what string) error {
				if what == at {
					return failed
				}
				return nil
			}})
			if _, err := s.Del(t.Context(), 1); !errors.Is(err, failed) {
				t.Errorf("%s: error %v, want %v", at, err, failed)
			}
			s.opt.step = nil
			wantUnchanged(t, s, "the failed deletion", before)
			wantNoLeftovers(t, s)
			mustBeClean(t, s)
			if got := deferredFiles(s); len(got) > 0 {
				t.Errorf("%s: to be removed later: %q, want none", at, got)
			}
		})
	}
}

// TestDeferredDamaged reads damaged lists: no writer fails, and no other file is
// removed.
func TestDeferredDamaged(t *testing.T) {
	t.Parallel()
	entry := func(name, key, leaf string) string {
		return fmt.Sprintf(`{"version":1,"files":[{"name":%q,"key":%q,"leaf":%q,"after":1}]}`, name, key, leaf)
	}
	for _, text := range []string{
		"", "garbage", "{", `{"version":1}`, `{"version":9,"files":[{"name":"a.dll","key":"000000011000","leaf":"a.dll"}]}`,
		entry("a.dll", "000000011000", "a.dll"), // listed by a live transaction
		entry("a.dll", "000000011000", "refs.ptr"),
		entry("000Admin", "..", "000Admin"),
		entry("..", "x", ".."),
		entry("a.dll", "../000Admin", "a.dll"),
		entry("none.dll", "000000011000", "none.dll"),
	} {
		s := create(t, t.TempDir(), One, Options{})
		src := t.TempDir()
		mustAdd(t, s, AddOptions{}, paths(writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))))
		before := tree(t, s.Dir())
		writeFile(t, filepath.Join(s.Dir(), filepath.FromSlash(deferredFile)), []byte(text))
		mustBeClean(t, s)
		wantUnchanged(t, s, fmt.Sprintf("the list %q", text), before)
		b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
		mustDel(t, s, mustAdd(t, s, AddOptions{}, paths(b)).ID)
		mustBeClean(t, s)
	}
}

// TestDeferredLimit refuses a deletion that would make the list too long.
func TestDeferredLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hold("a.dll", "b.dll", "c.dll")
		s := create(t, t.TempDir(), One, Options{removeFault: h.fault, maxDeferred: 2})
		src := t.TempDir()
		for i, name := range []string{"a.dll", "b.dll", "c.dll"} {
			mustAdd(t, s, AddOptions{}, paths(writeFile(t, filepath.Join(src, name), peImage(uint32(i), 0x1000, name))))
		}
		mustDel(t, s, 1)
		mustDel(t, s, 2)
		before := tree(t, s.Dir())
		if _, err := s.Del(t.Context(), 3); err == nil || !strings.Contains(err.Error(), deferredFile) {
			t.Errorf("error %v, want one that names %s", err, deferredFile)
		}
		wantUnchanged(t, s, "the refused deletion", before)
		h.open.Store(false)
		mustDel(t, s, 3)
		mustBeClean(t, s)
		for _, name := range []string{"a.dll", "b.dll", "c.dll"} {
			if s.exists(name) {
				t.Errorf("%s is left, want it removed", name)
			}
		}
	})
}

// TestDelHeldBesidePointer deletes the transaction of a held file whose key another
// transaction keeps as a pointer.
func TestDelHeldBesidePointer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const dir = "a.dll/000000011000/"
		h := hold("a.dll")
		s := create(t, t.TempDir(), One, Options{removeFault: h.fault})
		mustAdd(t, s, AddOptions{Pointer: true}, files(File{Source: `\\server\a.dll`, Keys: []Key{{"a.dll", "000000011000", Binary}}}))
		mustAdd(t, s, AddOptions{}, paths(writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))))
		if r := mustDel(t, s, 2); r.Deferred != 1 {
			t.Errorf("%d files deferred, want 1", r.Deferred)
		}
		want(t, s, dir+"file.ptr", `\\server\a.dll`)
		if got := notes(t, s); !slices.Equal(got, []string{dir + "a.dll"}) {
			t.Errorf("notes about %q, want the held file", got)
		}
		h.open.Store(false)
		mustBeClean(t, s)
		want(t, s, dir+"a.dll", noFile)
		want(t, s, dir+"file.ptr", `\\server\a.dll`)
		if s.exists(deferredFile) {
			t.Errorf("%s exists, want none", deferredFile)
		}
	})
}
