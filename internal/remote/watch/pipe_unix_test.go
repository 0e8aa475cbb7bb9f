//go:build unix

package watch

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipe: a named pipe is not a file of the folder, and a request for a file in whose
// place there is one now does not wait for a writer.
func TestPipe(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "lib", m.lib)
	f := open(t, dir, Options{})
	scanned(t, f)
	lib := filepath.Join(dir, "lib")
	if err := os.Remove(lib); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(lib, 0o600); err != nil {
		t.Skipf("there are no named pipes here: %v", err)
	}
	wantMissing(t, f, "buildid/"+m.libID+"/executable")
	if s := scanned(t, f); s.Files != 0 || s.Gone != 1 {
		t.Errorf("the scan saw %d files and misses %d, want none and 1", s.Files, s.Gone)
	}
}
