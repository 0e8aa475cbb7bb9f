package depot

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestOpenWhileReplaced opens a depot while another process replaces its depot.json:
// it waits.
func TestOpenWhileReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	release := symtest.HoldAlone(t, filepath.Join(dir, "depot.json"))
	time.AfterFunc(200*time.Millisecond, release)
	d, err = Open(t.Context(), dir, Options{MustExist: true})
	if err != nil {
		t.Fatalf("open while depot.json is replaced: %v, want it to wait", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
