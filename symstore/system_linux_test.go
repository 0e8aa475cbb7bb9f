package symstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mountSmall mounts a file system of so many bytes in memory.
func mountSmall(t *testing.T, size int) string {
	return mountTmpfs(t, fmt.Sprintf("size=%d", size))
}

func mountTmpfs(t *testing.T, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting takes root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no mount here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestFullDisk fills the disk to each of many degrees before an add. Either it
// works, or the store is as it was.
func TestFullDisk(t *testing.T) {
	dir := mountSmall(t, 1<<20)
	src := t.TempDir()
	var list []string
	for i := range 8 {
		list = append(list, writeFile(t, filepath.Join(src, fmt.Sprintf("f%d.dll", i)), peImage(uint32(i), 0x1000, strings.Repeat("x", 5000))))
	}
	s := create(t, filepath.Join(dir, "store"), One, Options{})
	mustAdd(t, s, AddOptions{}, paths(list[:2]...))
	failures := 0
	for pad := 0; pad < 1<<20; pad += 7 << 12 {
		before := tree(t, s.Dir())
		if err := os.WriteFile(filepath.Join(dir, "pad"), make([]byte, pad), 0o644); err != nil {
			break
		}
		r, err := s.Add(t.Context(), AddOptions{}, paths(list...))
		if err == nil {
			mustDel(t, s, r.ID)
			continue
		}
		failures++
		if !IsNoSpace(err) {
			t.Errorf("with %d bytes taken: %v, want a full disk", pad, err)
		}
		if d := differ(before, tree(t, s.Dir())); d != "" {
			t.Errorf(`with %d bytes taken the store was changed: %s, want ""`, pad, d)
		}
	}
	if failures == 0 {
		t.Error("the disk was never full")
	}
	if err := os.Remove(filepath.Join(dir, "pad")); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, s, AddOptions{}, paths(list...))
	mustBeClean(t, s)
}

// TestFullDiskAtFirst fills the disk to each degree before a store is made on
// it: the folder stays as it was, or away.
func TestFullDiskAtFirst(t *testing.T) {
	src := t.TempDir()
	var list []string
	for i := range 3 {
		list = append(list, writeFile(t, filepath.Join(src, fmt.Sprintf("f%d.dll", i)), peImage(uint32(i), 0x1000, "x")))
	}
	failures := 0
	try := func(what, disk string, inside string, tiers Tiers) (stored bool) {
		t.Helper()
		dir := filepath.Join(disk, filepath.FromSlash(inside))
		s, err := Create(dir, tiers, Options{})
		if err == nil {
			_, err = s.Add(t.Context(), AddOptions{}, paths(list...))
			_ = s.Close()
		}
		if err == nil {
			return true
		}
		failures++
		if !IsNoSpace(err) {
			t.Errorf("got %s, error %v; want IsNoSpace(err)", what, err)
		}
		left, err := os.ReadDir(disk)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: there is %v, %v, want nothing", what, left, err)
		}
		return false
	}
	for _, tiers := range []Tiers{One, Two} {
		for _, inside := range []string{".", "new/store"} {
			// Each thing that is made takes an inode.
			for inodes, stored := 2, false; !stored && inodes < 100; inodes++ {
				disk := mountTmpfs(t, fmt.Sprintf("nr_inodes=%d", inodes))
				stored = try(fmt.Sprintf("%d inodes, %s", inodes, inside), disk, inside, tiers)
				if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
					t.Fatal(err)
				}
			}
			for pages, stored := 1, false; !stored && pages < 100; pages++ {
				disk := mountSmall(t, pages<<12)
				stored = try(fmt.Sprintf("%d pages, %s", pages, inside), disk, inside, tiers)
				if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if failures < 40 {
		t.Errorf("the disk was full %d times only", failures)
	}
}

// TestReadOnlyDisk writes to a disk that is mounted so.
func TestReadOnlyDisk(t *testing.T) {
	dir := mountSmall(t, 1<<20)
	s := create(t, filepath.Join(dir, "store"), One, Options{})
	p := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "a"))
	mustAdd(t, s, AddOptions{}, paths(p))
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip("needs to remount a disk read-only: ", err)
	}
	_, e1 := s.Add(t.Context(), AddOptions{}, paths(p))
	_, e2 := s.Del(t.Context(), 1)
	_, e3 := Create(filepath.Join(dir, "other"), One, Options{})
	for _, err := range []error{e1, e2, e3} {
		if !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
	}
	everyFileThere(t, s, "read-only disk")
}

// BenchmarkFind looks one key up among many.
func BenchmarkFind(b *testing.B) {
	dir := b.TempDir()
	create(b, dir, One, Options{})
	for i := range 200_000 {
		d := filepath.Join(dir, fmt.Sprintf("file%d.pdb", i%2000), fmt.Sprintf("%032X1", i))
		if err := os.MkdirAll(d, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, fmt.Sprintf("file%d.pdb", i%2000)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct{ what, name, key string }{
		{"exact", "file77.pdb", fmt.Sprintf("%032X1", 77)}, {"lower key", "file1999.pdb", fmt.Sprintf("%032x1", 199_999)},
		{"mixed case", "FiLe77.PDB", fmt.Sprintf("%032x1", 2077)}, {"absent", "none.pdb", "AB"},
	} {
		b.Run(c.what, func(b *testing.B) {
			for b.Loop() {
				fresh, err := Open(dir, Options{ReadOnly: true})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := fresh.Find(c.name, c.key); err != nil && c.what != "absent" {
					b.Fatal(err)
				}
				fresh.Close()
			}
		})
	}
}
