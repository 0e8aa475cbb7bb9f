package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func openTree(t *testing.T, dir string) *Tree {
	t.Helper()
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

// newTree is a tree with a directory tmp.
func newTree(t *testing.T) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	return openTree(t, dir), dir
}

// put writes name by way of tmp.
func put(t *Tree, name, content string) error {
	f, err := t.Create("tmp", 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte(content)); err != nil {
		f.Abort()
		return err
	}
	return f.Commit(name)
}

// putAll writes n files as a group, spread over the directories.
func putAll(t *Tree, n int, dirs ...string) error {
	return putGroup(t, t.NewGroup(), n, dirs...)
}

func putGroup(t *Tree, g *Group, n int, dirs ...string) error {
	defer g.Abort()
	for _, dir := range dirs {
		if err := g.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for i := range n {
		dir := dirs[i%len(dirs)]
		f, err := t.Create("tmp", 0o644)
		if err != nil {
			return err
		}
		if _, err := f.Write([]byte("content")); err != nil {
			f.Abort()
			return err
		}
		g.Add(f, fmt.Sprintf("%s/%d", dir, i))
	}
	return g.Commit()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// recorder notes the steps, in order.
type recorder struct {
	mu    sync.Mutex
	steps []string
}

func (r *recorder) faults(op Op, name string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(name, "tmp/") || strings.HasPrefix(name, tempPrefix) {
		name = "TEMP"
	}
	r.steps = append(r.steps, string(op)+" "+name)
	return true, nil
}

// TestOrder holds the steps to the order on which durability rests: content
// before name before directory.
func TestOrder(t *testing.T) {
	tests := []struct {
		name string
		do   func(*Tree) error
		want []string
	}{
		{"file", func(t *Tree) error { return put(t, "a", "x") },
			[]string{"create TEMP", "write TEMP", "sync TEMP", "rename a", "syncdir ."}},
		{"mkdir", func(t *Tree) error { return t.MkdirAll("a/b", 0o755) },
			[]string{"mkdir a", "syncdir .", "mkdir a/b", "syncdir a"}},
		{"mkdir again", func(t *Tree) error { return t.MkdirAll("tmp", 0o755) }, nil},
		{"remove", func(t *Tree) error { return t.Remove("tmp") }, []string{"remove tmp", "syncdir ."}},
		{"small group", func(t *Tree) error { return putAll(t, 1, "d") },
			[]string{"mkdir d", "create TEMP", "write TEMP", "sync TEMP", "rename d/0", "syncdir .", "syncdir d"}},
		{"empty group", func(t *Tree) error { return t.NewGroup().Commit() }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree, _ := newTree(t)
			var r recorder
			tree.Faults = r.faults
			if err := test.do(tree); err != nil {
				t.Fatal(err)
			}
			// The directories of a group are flushed side by side.
			if n := len(r.steps); n > 2 && strings.HasPrefix(r.steps[n-2], "syncdir") {
				slices.Sort(r.steps[n-2:])
			}
			if !slices.Equal(r.steps, test.want) {
				t.Errorf("steps %q, want %q", r.steps, test.want)
			}
		})
	}
}

// TestLargeGroup checks that a large group is flushed before the first rename
// and its directories after the last.
func TestLargeGroup(t *testing.T) {
	var dirs []string
	for i := range manyFiles + 5 {
		dirs = append(dirs, fmt.Sprintf("d%d", i))
	}
	for _, n := range []int{manyFiles, manyFiles + 1, 5 * manyFiles} {
		tree, dir := newTree(t)
		g := tree.NewGroup()
		large := g.bulk != nil // else it is flushed file by file
		g.Abort()
		var r recorder
		tree.Faults = r.faults
		if err := putAll(tree, n, dirs...); err != nil {
			t.Fatal(err)
		}
		if left := names(t, filepath.Join(dir, "tmp")); len(left) > 0 {
			t.Errorf("%d files: left over: %q, want none", n, left)
		}
		index := func(op Op) (list []int) {
			for i, s := range r.steps {
				if strings.HasPrefix(s, string(op)+" ") {
					list = append(list, i)
				}
			}
			return list
		}
		renames, syncs, all := index(OpRename), index(OpSync), index(OpSyncAll)
		if len(renames) != n {
			t.Fatalf("%d renames of %d, want %v", len(renames), n, n)
		}
		first, last := renames[0], renames[n-1]
		if !large {
			if dirSyncs := index(OpSyncDir); len(syncs) != n || syncs[n-1] > first || dirSyncs[0] < last {
				t.Errorf("%d files: steps %q; want all synced before the first rename, and the folders after the last", n, r.steps)
			}
			continue
		}
		if n > manyFiles {
			if len(syncs) > 0 || len(all) != 2 || all[0] > first {
				t.Errorf("%d files: steps %q; want two syncs of the file system, the first before the first rename", n, r.steps)
			}
		} else if len(syncs) != n || syncs[n-1] > first || len(all) != 1 {
			t.Errorf("%d files: steps %q; want all synced before the first rename, then one sync of the file system", n, r.steps)
		}
		if all[len(all)-1] < last {
			t.Errorf("%d files: directories flushed too early: %q", n, r.steps)
		}
	}
}

// TestFaults lets each step go wrong in each way. What reports success must
// have happened unless the fault was silent; a failure is reported; nothing is
// left over; a second try works.
func TestFaults(t *testing.T) {
	t.Parallel() // waits for the disk, mostly
	boom := fmt.Errorf("injected: %w", syscall.ENOSPC)
	jobs := map[string]func(*Tree) error{
		"file":  func(t *Tree) error { return put(t, "a", "content") },
		"group": func(t *Tree) error { return putAll(t, 3, "x", "y") },
		"large": func(t *Tree) error { return putAll(t, manyFiles+2, "x", "y") },
		"mkdir": func(t *Tree) error { return t.MkdirAll("a/b/c", 0o755) },
	}
	for name, job := range jobs {
		tree, _ := newTree(t)
		var r recorder
		tree.Faults = r.faults
		if err := job(tree); err != nil {
			t.Fatal(err)
		}
		for step := range r.steps {
			if step > 6 && step < len(r.steps)-6 && step%19 != 0 {
				continue // like its neighbours
			}
			for _, land := range []bool{false, true} {
				for _, fault := range []error{nil, boom} {
					if land && fault == nil {
						continue // nothing goes wrong
					}
					what := fmt.Sprintf("%s: step %d (%s), land %v, error %v", name, step, r.steps[step], land, fault)
					tree, dir := newTree(t)
					var mu sync.Mutex
					var n int
					tree.Faults = func(Op, string) (bool, error) {
						mu.Lock()
						defer mu.Unlock()
						n++
						if n-1 == step {
							return land, fault
						}
						return true, nil
					}
					err := job(tree)
					if fault != nil && (!errors.Is(err, fault) || !IsNoSpace(err)) {
						t.Errorf("%s: reported %v, want %v", what, err, fault)
					}
					silent := !land && fault == nil
					if left := names(t, filepath.Join(dir, "tmp")); len(left) > 0 && !silent {
						t.Errorf("%s: left over: %q", what, left)
					}
					tree.Faults = nil
					if err := job(tree); err != nil {
						t.Errorf("%s: second try: %v", what, err)
					}
				}
			}
		}
	}
}

// TestFileByFile is a large group where the file system cannot be flushed as a
// whole.
func TestFileByFile(t *testing.T) {
	tree, dir := newTree(t)
	withoutBulk := func() *Group {
		g := tree.NewGroup()
		g.bulk.close()
		g.bulk = nil
		return g
	}
	const n = 2*manyFiles + 1
	if err := putGroup(tree, withoutBulk(), n, "x", "y"); err != nil {
		t.Fatal(err)
	}
	if got := len(names(t, filepath.Join(dir, "x"))) + len(names(t, filepath.Join(dir, "y"))); got != n {
		t.Errorf("%d files of %d, want %v", got, n, n)
	}
	boom := errors.New("injected")
	tree.Faults = func(op Op, name string) (bool, error) {
		if op == OpSync && strings.HasSuffix(name, "7") {
			return true, boom
		}
		return true, nil
	}
	if err := putGroup(tree, withoutBulk(), n, "z"); !errors.Is(err, boom) {
		t.Errorf("reported %v, want %v", err, boom)
	}
	if got := append(names(t, filepath.Join(dir, "z")), names(t, filepath.Join(dir, "tmp"))...); len(got) > 0 {
		t.Errorf("after a failure stand %q", got)
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(deep, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(deep, "f")
	for _, content := range []string{"one", "two", ""} {
		if err := WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("read %q, %v; want %q", got, err, content)
		}
	}
	if got := names(t, deep); !slices.Equal(got, []string{"f"}) {
		t.Errorf("directory holds %q, want f alone", got)
	}
	if err := MkdirAll(filepath.Join(name, "x"), 0o755); err == nil {
		t.Error("made a directory below a file")
	}
	if err := MkdirAll(name, 0o755); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("mkdir on a file: %v, want %v", err, syscall.ENOTDIR)
	}
	if err := WriteFile(filepath.Join(dir, "none", "f"), nil, 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write to an absent directory: %v, want fs.ErrNotExist", err)
	}
	if err := SyncDir(deep); err != nil {
		t.Error(err)
	}
	if err := Remove(name); err != nil {
		t.Error(err)
	}
	if err := Remove(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("second remove: %v, want fs.ErrNotExist", err)
	}
}

// TestConfined checks that a link cannot lead writing out of the tree.
func TestConfined(t *testing.T) {
	tree, dir := newTree(t)
	outside := t.TempDir()
	symtest.Symlink(t, outside, filepath.Join(dir, "link"))
	for _, name := range []string{"link/f", "../f", "/f", "tmp/../../f"} {
		if err := put(tree, name, "x"); err == nil {
			t.Errorf("wrote %s, want an error", name)
		}
	}
	if err := tree.MkdirAll("link/d", 0o755); err == nil {
		t.Error("made a directory behind a link")
	}
	if got := names(t, outside); len(got) > 0 {
		t.Errorf("outside stand %q", got)
	}
	if left := names(t, filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("left over: %q, want none", left)
	}
}

func TestTempNames(t *testing.T) {
	pid, token, ok := parseTempName(tempName(7))
	if !ok || pid != os.Getpid() || token != session {
		t.Errorf("parsed %d, %q, %v; want this process and session", pid, token, ok)
	}
	for _, bad := range []string{"", "x", ".tmp-", ".tmp-1-2-3", ".tmp-0-0123456789ab-1", ".tmp--1-0123456789ab-1",
		".tmp-1-0123456789ab-", ".tmp-1-0123456789ax-1", ".tmp-1-0123456789ab-1-1", "tmp-1-0123456789ab-1"} {
		if _, _, ok := parseTempName(bad); ok {
			t.Errorf("%q parsed, want a failure", bad)
		}
	}
}

func TestSweep(t *testing.T) {
	tree, dir := newTree(t)
	old := time.Now().Add(-2 * time.Hour)
	mine, err := tree.Create("tmp", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Abort()
	self := os.Getpid()
	files := []struct {
		name string
		time time.Time
		keep bool
	}{
		{filepath.Base(mine.Name()), old, true},
		{fmt.Sprintf(".tmp-%d-0123456789ab-1", self), old, false}, // an earlier process of this number
		{fmt.Sprintf(".tmp-%d-0123456789ab-2", self), time.Now(), true},
		{fmt.Sprintf(".tmp-%d-0123456789ab-3", os.Getppid()), old, true}, // alive
		{".tmp-999999999-0123456789ab-4", old, false},                    // there are no such numbers
		{"else", old, true},
	}
	var want []string
	for _, f := range files {
		name := filepath.Join(dir, "tmp", f.name)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, f.time); err != nil {
			t.Fatal(err)
		}
		if f.keep {
			want = append(want, f.name)
		}
	}
	n, err := tree.Sweep(context.Background(), "tmp", time.Now().Add(-time.Hour))
	if err != nil || n != 2 {
		t.Errorf("swept %d, %v; want 2", n, err)
	}
	slices.Sort(want)
	if got := names(t, filepath.Join(dir, "tmp")); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tree.Sweep(ctx, "tmp", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled sweep: %v, want %v", err, context.Canceled)
	}
}

func TestIsNoSpace(t *testing.T) {
	if !IsNoSpace(fmt.Errorf("write: %w", &fs.PathError{Err: syscall.ENOSPC})) {
		t.Error("ENOSPC is not seen")
	}
	if IsNoSpace(nil) || IsNoSpace(fs.ErrNotExist) {
		t.Error("seen where it is not")
	}
	if runtime.GOOS == "linux" {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("needs /dev/full: ", err)
		}
		defer func() { _ = full.Close() }()
		f := &File{tree: &Tree{}, file: full}
		if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) || !IsNoSpace(err) {
			t.Errorf("write to a full device: %v, want ENOSPC", err)
		}
	}
}
