package symstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/symtest"
)

// TestDelWhileOpen deletes a transaction while a debugger holds one of its files
// open: nothing changes, and the next try deletes all of it.
func TestDelWhileOpen(t *testing.T) {
	src := t.TempDir()
	a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
	b := writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b"))
	s := create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{}, paths(a, b))
	before := tree(t, s.Dir())
	release := symtest.Hold(t, filepath.Join(s.Dir(), "b.dll", "000000021000", "b.dll"))
	if _, err := s.Del(t.Context(), 1); err == nil {
		t.Error("deleted a file that is held open")
	}
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf("the failed deletion changed the store: %s", d)
	}
	release()
	if _, err := s.Del(t.Context(), 1); err != nil {
		t.Errorf("after the file was closed: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "b.dll")); !os.IsNotExist(err) {
		t.Errorf("the deleted folder: %v, want not found", err)
	}
	mustBeClean(t, s)
}
