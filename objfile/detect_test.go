package objfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestCandidate: Detect accepts the first bytes of every file that Identify
// accepts.
func TestCandidate(t *testing.T) {
	taken := 0
	err := filepath.WalkDir("../testdata", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, ierr := Identify(bytes.NewReader(b), int64(len(b)), path, Options{})
		cerr := Detect(b[:min(len(b), 4096)], filepath.Base(path))
		if !errors.Is(ierr, ErrNotSymbolFile) {
			taken++
			if cerr != nil {
				t.Errorf("%s: Identify says %v, Detect %v", path, ierr, cerr)
			}
		}
		return nil
	})
	if err != nil || taken < 40 {
		t.Errorf("%d files, %v; want at least 40", taken, err)
	}
	if err := Detect([]byte("just words"), "a.txt"); !errors.Is(err, ErrNotSymbolFile) {
		t.Errorf("a text file: %v, want ErrNotSymbolFile", err)
	}
	if err := Detect(nil, "a.pdb"); !errors.Is(err, ErrNotSymbolFile) {
		t.Errorf("an empty file: %v, want ErrNotSymbolFile", err)
	}
}
