package symbolicate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// TestScratch: temporary files hold what is written, within the limit, and are removed
// at the end.
func TestScratch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &scratch{dir: dir, left: 10}
	f, err := s.sections().Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("12345")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b, []byte("12345")) {
		t.Errorf("content %q, %v; want 12345", b, err)
	}
	g, err := s.sections().Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("678901")); !errors.Is(err, functab.ErrLimit) || !errors.Is(s.failure(), functab.ErrLimit) {
		t.Errorf("beyond the limit: %v and %v, want %v", err, s.failure(), functab.ErrLimit)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("files %v, %v after the end; want none", list, err)
	}
	if _, err := (&scratch{dir: dir + "/none"}).sections().Scratch(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: %v, want %v", err, os.ErrNotExist)
	}
}
