package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteTo(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "list")
	put := func(text string, fail error) error {
		return WriteTo(name, 0o666, func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			return fail
		})
	}
	if err := put("first", nil); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := put("second", boom); !errors.Is(err, boom) {
		t.Errorf("a failing writer: error %v, want %v", err, boom)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "first" {
		t.Errorf("after a failure: %q, %v; want the old content", got, err)
	}
	if err := put("third", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "third" {
		t.Errorf("after success: %q, %v; want the new content", got, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%d entries, %v; want the file alone", len(list), err)
	}
}
