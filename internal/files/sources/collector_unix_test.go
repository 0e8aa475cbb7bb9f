//go:build unix

package sources

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestCollectIrregular: pipes and devices are not opened, whatever their names.
func TestCollectIrregular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symtest.Put(t, dir, "src/a.c", []byte("a"))
	if err := syscall.Mkfifo(filepath.Join(dir, "src", "pipe.c"), 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	symtest.Symlink(t, "/dev/zero", filepath.Join(dir, "src", "zero.c"))
	wantCollected(t, inRoots(named("/x/src/a.c", "/x/src/pipe.c", "/x/src/zero.c"), dir), "/x/src/a.c = a")
}
