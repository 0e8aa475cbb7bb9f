package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
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

// TestReplaceFile: a replaced file keeps its mode, and is replaced where a link leads; a new one has
// exactly the mode that is asked for.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	file, made := filepath.Join(dir, "file"), filepath.Join(dir, "made")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Chmod(file, 0o640)); err != nil {
		t.Fatal(err)
	}
	link := file
	if runtime.GOOS != "windows" {
		link = filepath.Join(dir, "link")
		if err := os.Symlink("file", link); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(ReplaceFile(link, []byte("new"), 0o600), ReplaceFile(made, []byte("new"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{file: 0o640, made: 0o666} {
		got, err := os.ReadFile(name)
		info, statErr := os.Lstat(name)
		if err := errors.Join(err, statErr); err != nil || string(got) != "new" || runtime.GOOS != "windows" && info.Mode() != mode {
			t.Errorf("%s: %q, %v, %v; want the new content and mode %v", name, got, info, err, mode)
		}
	}
	if runtime.GOOS != "windows" {
		if to, err := os.Readlink(link); err != nil || to != "file" {
			t.Errorf("the link leads to %q, %v", to, err)
		}
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
