package keyring

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// secret is what stores keep here; no error may have it.
const secret = "planted-secret"

// keeps is what every store does.
func keeps(t *testing.T, s Store) {
	t.Helper()
	ctx := t.Context()
	const key, other = "https://symbols.example.com", "https://symbols.example.com:8443/corp"
	absent := func(when string) {
		t.Helper()
		if got, err := s.Get(ctx, key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v; want %v", when, got, err, fs.ErrNotExist)
		}
		if err := s.Delete(ctx, key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, deleted: %v, want %v", when, err, fs.ErrNotExist)
		}
	}
	absent("before")
	long := strings.Repeat("x", MaxSecret)
	for _, v := range []string{secret, "", long, "a line\nand another\x00 with ünicode", secret + "2"} {
		if err := s.Set(ctx, key, v); err != nil {
			t.Fatalf("%d bytes: %v", len(v), err)
		}
		if got, err := s.Get(ctx, key); got != v || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, v)
		}
	}
	if err := s.Set(ctx, key, long+"x"); !errors.Is(err, ErrTooLong) {
		t.Errorf("a byte too many: %v, want %v", err, ErrTooLong)
	}
	if err := s.Set(ctx, other, "of the other"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, key); err != nil {
		t.Error(err)
	}
	absent("after")
	if got, err := s.Get(ctx, other); got != "of the other" || err != nil {
		t.Errorf("the other key: %q, %v", got, err)
	}
	if err := s.Delete(ctx, other); err != nil {
		t.Error(err)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	keeps(t, File{Dir: filepath.Join(t.TempDir(), "config", "symdepot", "logins")})
}

// TestFileReadable: a file or a folder that others have rights to is not used.
func TestFileReadable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files of Windows have no such modes")
	}
	ctx := t.Context()
	f := File{Dir: filepath.Join(t.TempDir(), "logins")}
	if err := f.Set(ctx, "k", secret); err != nil {
		t.Fatal(err)
	}
	name := f.Path("k")
	for path, mode := range map[string]fs.FileMode{f.Dir: 0o700, name: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, mode)
		}
		for _, wrong := range []fs.FileMode{0o004, 0o020, 0o010} {
			if err := os.Chmod(path, mode|wrong); err != nil {
				t.Fatal(err)
			}
			_, err := f.Get(ctx, "k")
			if want := "chmod " + map[bool]string{true: "700", false: "600"}[path == f.Dir] + " " + path; !errors.Is(err, ErrReadable) ||
				!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s with %v: %v; want %v, and %q", path, mode|wrong, err, ErrReadable, want)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(name, make([]byte, MaxSecret+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(ctx, "k"); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), name) {
		t.Errorf("a longer file: %v, want %v", err, ErrTooLong)
	}
}

// TestFilePath: keys have paths of their own, whatever their letters; the path is a name in the folder.
func TestFilePath(t *testing.T) {
	t.Parallel()
	f := File{Dir: filepath.Join("logins")}
	seen := map[string]string{}
	for _, key := range []string{"", "a", "A", "../../x", "https://a/b", "https://a_b", "http://a/b", strings.Repeat("a", 400), strings.Repeat("a", 401), "a\x00b", "con"} {
		path := f.Path(key)
		if filepath.Dir(path) != "logins" || len(filepath.Base(path)) > 80 || seen[path] != "" {
			t.Errorf("%q: %s, as %q", key, path, seen[path])
		}
		seen[path] = key + "."
	}
}

// TestChoose: a store that is named must answer; files stand in for a keyring that is not there.
func TestChoose(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems always have a keyring")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "nobody"))
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, without, err := Choose(t.Context(), "", dir)
	if err != nil || s.Name() != NameFile || !errors.Is(without, ErrAbsent) {
		t.Errorf("no keyring: %v, %v, %v; want files, and %v", s, without, err, ErrAbsent)
	}
	if s, without, err = Choose(t.Context(), NameFile, dir); err != nil || s.Name() != NameFile || without != nil {
		t.Errorf("files: %v, %v, %v", s, without, err)
	}
	if _, _, err = Choose(t.Context(), NameSystem, dir); !errors.Is(err, ErrAbsent) {
		t.Errorf("the keyring is named: %v, want %v", err, ErrAbsent)
	}
	if _, _, err = Choose(t.Context(), "vault", dir); err == nil || !strings.Contains(err.Error(), `"vault" is no keyring: expected system or file`) {
		t.Errorf("another name: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err = Choose(ended, "", dir); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrAbsent) && err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
