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

// stale makes every transaction of s guess its number wrong: another writer
// comes while it copies.
func stale(t *testing.T, s *Store, other string) {
	t.Helper()
	between := create(t, s.Dir(), One, Options{})
	var once sync.Once
	s.opt.stageFault = func(string) error {
		once.Do(func() { mustAdd(t, between, AddOptions{}, paths(other)) })
		return nil
	}
}

// TestGuess publishes folders whose refs.ptr had another number when they were
// staged, and loses that correction in a power loss.
func TestGuess(t *testing.T) {
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	other := writeFile(t, filepath.Join(src, "other.dll"), peImage(3, 0x1000, "other"))
	line := func(id int, file string) string { return fmt.Sprintf(`%010d,file,"%s",bin,,N,,`, id, file) }
	check := func(what string, s *Store) {
		t.Helper()
		for name, refs := range map[string]string{
			"a.dll/000000011000": line(2, a), "b.dll/000000021000": line(2, b), "other.dll/000000031000": line(1, other),
		} {
			if got := read(t, s, name+"/refs.ptr"); got != refs {
				t.Errorf("%s: %s: %q, want %q", what, name, got, refs)
			}
		}
		mustBeClean(t, s)
	}
	s := create(t, t.TempDir(), One, Options{})
	stale(t, s, other)
	if r := mustAdd(t, s, AddOptions{}, paths(a, b)); r.ID != 2 {
		t.Errorf("%+v", r)
	}
	check("whole", s)

	killed := errors.New("killed")
	for _, stop := range []string{"create 000Admin/0000000002", "folder a.dll", "folder b.dll", "append 000Admin/server.txt", "applied", "settle"} {
		dead := false
		dir := t.TempDir()
		s := create(t, dir, One, Options{})
		stale(t, s, other)
		s.opt.step = func(what string) error {
			if dead = dead || what == stop; dead {
				return killed
			}
			return nil
		}
		if _, err := s.Add(t.Context(), AddOptions{}, paths(a, b)); !errors.Is(err, killed) {
			t.Fatalf("%s: %v", stop, err)
		}
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
		next := create(t, dir, One, Options{})
		if r := mustDel(t, next, mustAdd(t, next, AddOptions{}, paths(other)).ID); r.ID != 4 {
			t.Errorf("%s: %+v", stop, r)
		}
		check(stop, next)
	}
}

// TestForeignFolder lets another tool, which locks nothing, make the same
// folder at the last moment.
func TestForeignFolder(t *testing.T) {
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	s := create(t, t.TempDir(), One, Options{})
	theirs := filepath.Join(s.Dir(), "a.dll", "ABCDEF121000", "a.dll")
	s.opt.step = func(what string) error {
		if what == "folder a.dll" {
			writeFile(t, theirs, []byte("theirs"))
		}
		return nil
	}
	mustAdd(t, s, AddOptions{}, paths(a, b))
	want(t, s, "a.dll/ABCDEF121000/a.dll", "theirs")
	want(t, s, "a.dll/000000011000/a.dll", string(peImage(1, 0x1000, "a")))
	want(t, s, "a.dll/000000011000/refs.ptr", fmt.Sprintf(`0000000001,file,"%s",bin,,N,,`, a))

	// What is taken back is ours alone.
	s = create(t, t.TempDir(), One, Options{})
	theirs = filepath.Join(s.Dir(), "a.dll", "ABCDEF121000", "a.dll")
	before := tree(t, s.Dir())
	s.opt.step = func(what string) error {
		if what == "folder b.dll" {
			writeFile(t, theirs, []byte("theirs"))
			writeFile(t, filepath.Join(s.Dir(), "b.dll"), []byte("in the way"))
		}
		return nil
	}
	if _, err := s.Add(t.Context(), AddOptions{}, paths(a, b)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	got := tree(t, s.Dir())
	for _, name := range []string{"a.dll/", "a.dll/ABCDEF121000/", "a.dll/ABCDEF121000/a.dll", "b.dll"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is gone", name)
		}
		delete(got, name)
	}
	if d := differ(before, got); d != "" {
		t.Errorf("left over: %s", d)
	}
}

// TestSpelling stores names that differ in case only: the first decides, and a
// folder that is there decides before it.
func TestSpelling(t *testing.T) {
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
			t.Errorf("%s: %q", tiers, names)
		}
		for _, n := range names {
			dir, _, _ := strings.Cut(n, "/")
			if leaf := filepath.Base(n); leaf != dir && leaf != layout.CabinetName(dir) || dir != strings.Split(names[0], "/")[0] {
				t.Errorf("%s: %s is spelled otherwise than %s", tiers, n, names[0])
			}
		}
		everyFileThere(t, s, tiers.String())
		mustBeClean(t, s)
	}
}

// TestNear holds near to what os.Root does, links that lead out included.
func TestNear(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, filepath.Join(outside, "secret"), []byte("secret"))
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a", "b", "f"), []byte("content"))
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	if err := os.Symlink("a", filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	n := &dirCache{root: root}
	defer n.close()
	if data, err := n.read("a/b/f", 3); err != nil || string(data) != "cont" {
		t.Errorf("%q %v", data, err)
	}
	if data, err := n.read("in/b/f", 100); err != nil || string(data) != "content" {
		t.Errorf("a link inside: %q %v", data, err)
	}
	if _, err := n.read("a/b/none", 3); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if names, err := n.names("in/b"); err != nil || len(names) != 1 || names[0] != "f" {
		t.Errorf("%q %v", names, err)
	}
	if _, err := n.names("none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for i, err := range []error{
		n.rename("a/b/f", "out/f"), n.rename("out/secret", "a/secret"), n.rename("a/b/f", "../f"), n.link("out/secret", "a/l"),
		n.write("out/new", nil), n.mkdir("out/dir"), n.patch("out/secret", []byte("x")), n.write("../new", nil), n.rename("a/b/none", "a/x"), n.rename("a/b/f", "none/x"),
	} {
		if err == nil {
			t.Errorf("%d went through", i)
		}
	}
	if err := errors.Join(n.mkdir("in/new"), n.mkdir("in/new"), n.write("in/new/w", []byte("w")), n.patch("in/new/w", []byte("v"))); err != nil || !n.exists("a/new/w") {
		t.Error(err)
	}
	if f, err := n.create("in/new/c"); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if _, err := n.create("out/c"); err == nil {
		t.Error("a file was made outside")
	}
	if n.exists("out/secret") || n.exists("../x") || n.exists("a/none") || !n.exists("a/b/f") || !n.exists("in/b/f") {
		t.Error("exists is wrong")
	}
	if _, err := n.read("out/secret", 100); err == nil {
		t.Error("a link outside was followed")
	}
	// Folders that went away and came again under their name.
	if err := root.Rename("a/b", "a/c"); err != nil {
		t.Fatal(err)
	}
	if err := root.Mkdir("a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := n.rename("a/c/f", "a/g"); err != nil {
		t.Error(err)
	}
	for i := range 3 * 250 {
		p := fmt.Sprintf("many/%d", i)
		if err := root.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := n.write(p+"/f", []byte(p)); err != nil {
			t.Fatal(err)
		}
		if err := n.rename(p+"/f", p+"/g"); err != nil || !n.exists(p+"/g") {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != "secret" {
		t.Errorf("%q %v", data, err)
	}
}
