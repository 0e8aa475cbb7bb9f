package symstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/layout"
)

// stale makes the first transaction of s guess its number wrong: another writer
// commits while the files are staged.
func stale(t *testing.T, s *Store, other string) {
	t.Helper()
	between := create(t, s.Dir(), One, Options{})
	var once sync.Once
	s.opt.stageFault = func(string) error {
		once.Do(func() { mustAdd(t, between, AddOptions{}, paths(other)) })
		return nil
	}
}

// guessTest makes transactions whose refs.ptr have the wrong number at first.
type guessTest struct{ a, b, other string }

func newGuessTest(t *testing.T) *guessTest {
	t.Helper()
	src := t.TempDir()
	return &guessTest{
		a:     writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a")),
		b:     writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b")),
		other: writeFile(t, filepath.Join(src, "other.dll"), peImage(3, 0x1000, "other")),
	}
}

// check checks the numbers in all refs.ptr.
func (g *guessTest) check(t *testing.T, s *Store) {
	t.Helper()
	line := func(id int, file string) string { return fmt.Sprintf(`%010d,file,"%s",bin,,N,,`, id, file) }
	want(t, s, "a.dll/000000011000/refs.ptr", line(2, g.a))
	want(t, s, "b.dll/000000021000/refs.ptr", line(2, g.b))
	want(t, s, "other.dll/000000031000/refs.ptr", line(1, g.other))
	mustBeClean(t, s)
}

// TestWrongGuessedNumber publishes folders whose refs.ptr had another number when they were
// staged. It loses the correction in a crash at several steps.
func TestWrongGuessedNumber(t *testing.T) {
	t.Parallel()
	g := newGuessTest(t)
	t.Run("without a crash", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		stale(t, s, g.other)
		if r := mustAdd(t, s, AddOptions{}, paths(g.a, g.b)); r.ID != 2 {
			t.Errorf("transaction %s, want 2", r.ID)
		}
		g.check(t, s)
	})
	killed := errors.New("killed")
	for _, stop := range []string{"create 000Admin/0000000002", "folder a.dll", "folder b.dll", "append 000Admin/server.txt", "applied", "settle"} {
		t.Run("crash at "+stop, func(t *testing.T) {
			t.Parallel()
			dead := false
			dir := t.TempDir()
			s := create(t, dir, One, Options{})
			stale(t, s, g.other)
			s.opt.step = func(what string) error {
				if dead = dead || what == stop; dead {
					return killed
				}
				return nil
			}
			_, err := s.Add(t.Context(), AddOptions{}, paths(g.a, g.b))
			if !errors.Is(err, killed) {
				t.Fatalf("add: error %v, want the crash", err)
			}
			loseCorrection(t, dir)
			next := create(t, dir, One, Options{})
			if r := mustDel(t, next, mustAdd(t, next, AddOptions{}, paths(g.other)).ID); r.ID != 4 {
				t.Errorf("the deletion after the recovery is transaction %s, want 4", r.ID)
			}
			g.check(t, next)
		})
	}
}

// loseCorrection sets the number in each refs.ptr back to the guess, as a power
// loss may.
func loseCorrection(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != refsLeaf || strings.Contains(name, "other.dll") {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, append([]byte("0000000001"), data[10:]...), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForeignFolder simulates another tool, which takes no lock and makes the same
// folder at the last moment.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	const theirs = "a.dll/ABCDEF121000/a.dll"
	t.Run("both are kept", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		s.opt.step = func(what string) error {
			if what == "folder a.dll" {
				writeFile(t, filepath.Join(s.Dir(), theirs), []byte("theirs"))
			}
			return nil
		}
		mustAdd(t, s, AddOptions{}, paths(a, b))
		want(t, s, theirs, "theirs")
		want(t, s, "a.dll/000000011000/a.dll", string(peImage(1, 0x1000, "a")))
		want(t, s, "a.dll/000000011000/refs.ptr", fmt.Sprintf(`0000000001,file,"%s",bin,,N,,`, a))
	})
	t.Run("undoing removes our files only", func(t *testing.T) {
		t.Parallel()
		s := create(t, t.TempDir(), One, Options{})
		before := tree(t, s.Dir())
		s.opt.step = func(what string) error {
			if what == "folder b.dll" {
				writeFile(t, filepath.Join(s.Dir(), theirs), []byte("theirs"))
				writeFile(t, filepath.Join(s.Dir(), "b.dll"), []byte("in the way"))
			}
			return nil
		}
		_, err := s.Add(t.Context(), AddOptions{}, paths(a, b))
		wantError(t, "add", err, ErrExists)
		got := tree(t, s.Dir())
		for _, name := range []string{"a.dll/", "a.dll/ABCDEF121000/", theirs, "b.dll"} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s of the other tool was removed, want it kept", name)
			}
			delete(got, name)
		}
		if d := differ(before, got); d != "" {
			t.Errorf("undoing leaves changes:\n%s, want none", d)
		}
	})
}

// TestSpelling stores names that differ in case only. The spelling of an existing
// folder is used, otherwise that of the first file.
func TestSpelling(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	upper := writeFile(t, filepath.Join(src, "1", "LIB.DLL"), peImage(1, 0x1000, "1"))
	lower := writeFile(t, filepath.Join(src, "2", "lib.dll"), peImage(2, 0x1000, "2"))
	mixed := writeFile(t, filepath.Join(src, "3", "Lib.dll"), peImage(3, 0x1000, "3"))
	for _, tiers := range []Tiers{One, Two} {
		s := create(t, t.TempDir(), tiers, Options{})
		mustAdd(t, s, AddOptions{Workers: 3}, paths(upper, lower))
		mustAdd(t, s, AddOptions{Compress: MSZIP}, paths(mixed))
		var names []string
		for name := range tree(t, s.Dir()) {
			if strings.Contains(strings.ToLower(name), "lib.d") && !strings.HasSuffix(name, "/") && !strings.HasSuffix(name, refsLeaf) {
				names = append(names, strings.TrimPrefix(strings.TrimPrefix(name, "LI/"), "li/"))
			}
		}
		if len(names) != 3 {
			t.Errorf("%s: files %q, want three", tiers, names)
		}
		for _, n := range names {
			dir, _, _ := strings.Cut(n, "/")
			if leaf := filepath.Base(n); leaf != dir && leaf != layout.CabinetName(dir) || dir != strings.Split(names[0], "/")[0] {
				t.Errorf("%s: %s is not spelled like %s", tiers, n, names[0])
			}
		}
		everyFileThere(t, s, tiers.String())
		mustBeClean(t, s)
	}
}
