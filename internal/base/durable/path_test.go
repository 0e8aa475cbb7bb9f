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

func TestIsSame(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte("same bytes"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{{a, a, true}, {a, filepath.Join(dir, ".", "a"), true}, {dir, filepath.Join(dir, "."), true}, {a, b, false}, {a, filepath.Join(dir, "none"), false}, {filepath.Join(dir, "none"), a, false}} {
		if got := IsSame(tt.a, tt.b); got != tt.want {
			t.Errorf("IsSame(%s, %s) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}
