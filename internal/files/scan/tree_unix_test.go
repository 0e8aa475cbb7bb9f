//go:build unix

package scan

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "real/f", "f")
	link := func(to, name string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	link("..", "real/up")
	link("real", "alias")
	link("real/f", "file")
	link("nowhere", "broken")
	link("self", "self")
	must(t, os.Link(filepath.Join(dir, "real/f"), filepath.Join(dir, "real/hard")))

	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{
		"alias: " + string(ReasonSymlink), "broken: " + string(ReasonSymlink), "file: " + string(ReasonSymlink),
		"real/f f=f", "real/hard hard=f", "real/up: " + string(ReasonSymlink), "self: " + string(ReasonSymlink)})
	checkLines(t, walkAll(t, dir, []string{dir}, Options{FollowSymlinks: true}), []string{
		"alias/f f=f", "alias/hard hard=f", "alias/up: " + string(ReasonLoop),
		"broken: " + string(ReasonVanished), "file file=f", "real: " + string(ReasonLoop), "self: " + string(ReasonUnreadable)})
	// A root that is a link is followed.
	checkLines(t, walkAll(t, dir, []string{filepath.Join(dir, "alias"), filepath.Join(dir, "file")}, Options{}), []string{
		"alias/f f=f", "alias/hard hard=f", "alias/up: " + string(ReasonSymlink), "file file=f"})
}

// TestExponentialLinks has 2^30 paths for a walk that looks only for loops.
func TestExponentialLinks(t *testing.T) {
	dir := t.TempDir()
	for i := range 30 {
		level := filepath.Join(dir, "l"+strings.Repeat("x", i))
		must(t, os.Mkdir(level, 0o755))
		must(t, os.Symlink("../l"+strings.Repeat("x", i+1), filepath.Join(level, "a")))
		must(t, os.Symlink("../l"+strings.Repeat("x", i+1), filepath.Join(level, "b")))
	}
	if got := walkAll(t, dir, []string{dir}, Options{FollowSymlinks: true}); len(got) > 100 {
		t.Errorf("%d lines, want at most 100", len(got))
	}
}

func TestIrregular(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o644))
	write(t, dir, "z", "z")
	want := []string{"fifo: " + string(ReasonIrregular), "z z=z"}
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), want)
	checkLines(t, walkAll(t, dir, []string{fifo, filepath.Join(dir, "z")}, Options{}), want)
	checkLines(t, walkAll(t, dir, []string{os.DevNull}, Options{}), []string{os.DevNull + ": " + string(ReasonIrregular)})
	// It became one after it was looked at: opening does not block.
	if _, err := openDisk(fifo); reasonOf(err) != ReasonIrregular {
		t.Errorf("got %v, want the reason irregular", err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	must(t, os.Chmod(write(t, dir, "a", "a"), 0))
	write(t, dir, "b/c", "c")
	must(t, os.Chmod(filepath.Join(dir, "b"), 0))
	defer os.Chmod(filepath.Join(dir, "b"), 0o755)
	write(t, dir, "z", "z")
	checkLines(t, walkAll(t, dir, []string{dir}, Options{}), []string{
		"a: " + string(ReasonUnreadable), "b: " + string(ReasonUnreadable), "z z=z"})
}

// TestDeep makes folders deeper than a path may be long.
func TestDeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	name := strings.Repeat("d", 200)
	for range 30 {
		must(t, root.Mkdir(name, 0o755))
		next, err := root.OpenRoot(name)
		must(t, err)
		must(t, root.Close())
		root = next
	}
	must(t, root.Close())
	write(t, dir, "z", "z")
	got := walkAll(t, dir, []string{dir}, Options{})
	if len(got) != 2 || !strings.HasSuffix(got[0], string(ReasonUnreadable)) || got[1] != "z z=z" {
		t.Errorf("%d lines, want one unreadable file and z", len(got))
	}
}
