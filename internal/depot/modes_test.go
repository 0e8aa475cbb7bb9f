package depot

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/content"
)

// modesBelow checks the modes of everything in a depot but the folder itself.
func modesBelow(t *testing.T, dir string, folder, file fs.FileMode) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := file
		if e.IsDir() {
			want = folder
		}
		if got := info.Mode() & (fs.ModePerm | fs.ModeSetgid); got != want {
			t.Errorf("%s has the mode %v, want %v", p, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	open := func(t *testing.T, dir string, opt Options) *Depot {
		t.Helper()
		d, err := Open(t.Context(), dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		add(t, d, "", testdata(t, "elf/prog-sha1"))
		return d
	}
	verified := func(t *testing.T, d *Depot) string {
		t.Helper()
		v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v, want none", f) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.Modes
	}
	t.Run("new", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "new", "depot")
		d := open(t, dir, Options{})
		modesBelow(t, filepath.Dir(dir), 0o700, 0o600)
		if m := verified(t, d); m != "" {
			t.Errorf("verify names the modes of a new depot: %s, want %q", m, "")
		}
	})
	t.Run("in a folder that exists", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, Options{})
		modesBelow(t, dir, 0o700, 0o600)
		if m := verified(t, d); m != "" {
			t.Errorf("verify names the modes of a depot that nobody else can read: %s, want %q", m, "")
		}
	})
	t.Run("existing", func(t *testing.T) {
		dir := t.TempDir()
		for p, mode := range map[string]fs.FileMode{dir: 0o755, filepath.Join(dir, "blobs"): 0o755} {
			if err := os.MkdirAll(p, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(p, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "depot.json"), []byte(`{"format":1}`), 0o644); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, Options{Group: "no such group, and nobody looks"})
		modesBelow(t, filepath.Join(dir, "blobs"), 0o755, 0o644)
		if m := verified(t, d); !strings.Contains(m, "0755") || !strings.Contains(m, "chmod") {
			t.Errorf("verify says %q of a depot that everybody can read, want the mode and the remedy", m)
		}
	})
	t.Run("group", func(t *testing.T) {
		g, err := user.LookupGroupId(gid(t))
		if err != nil {
			t.Skipf("the group of this process has no name: %v", err)
		}
		dir := filepath.Join(t.TempDir(), "depot")
		d := open(t, dir, Options{Group: g.Name})
		modesBelow(t, filepath.Dir(dir), 0o770|fs.ModeSetgid, 0o660)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		// Whoever opens it later need not know the group.
		d, err = Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		add(t, d, "", testdata(t, "elf/prog-zlib"))
		if _, err := d.Secret("links"); err != nil {
			t.Fatal(err)
		}
		modesBelow(t, filepath.Dir(dir), 0o770|fs.ModeSetgid, 0o660)
	})
	t.Run("in a folder that a group shares", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o770|fs.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, Options{})
		if _, err := d.Secret("links"); err != nil {
			t.Fatal(err)
		}
		modesBelow(t, dir, 0o770|fs.ModeSetgid, 0o660)
	})
	t.Run("unknown group", func(t *testing.T) {
		_, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Group: "no-such-group-anywhere"})
		if err == nil || !strings.Contains(err.Error(), "no-such-group-anywhere") {
			t.Errorf("open: %v, want an error that names the group", err)
		}
	})
}

func gid(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	return u.Gid
}
