package blob_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
)

func TestDiskDamage(t *testing.T) {
	t.Parallel()
	blobtest.RunDamage(t, func(t *testing.T) (blob.Store, blobtest.Damage) {
		d := openDisk(t, t.TempDir())
		return d, func(t testing.TB, ref blob.Ref, stored []byte, unreadable bool) {
			damageFile(t, d.Path(ref), stored, unreadable)
		}
	})
	blobtest.RunVerified(t, func(t *testing.T) blob.Store { return openDisk(t, t.TempDir()) })
}

// damageFile overwrites a blob in place. One that cannot be read even by root
// is a symbolic link that leads nowhere.
func damageFile(t testing.TB, path string, stored []byte, unreadable bool) {
	t.Helper()
	if !unreadable {
		if err := os.WriteFile(path, stored, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	symtest.Symlink(t, "nowhere", path)
}

// later makes a store believe that all files are old enough for their times to
// tell every later change.
func later(d *blob.Disk) {
	d.Now = func() time.Time { return time.Now().Add(time.Minute) }
}

// systemFile returns the operating system's file of a blob, if it may be sent.
func systemFile(t *testing.T, s blob.Store, ref blob.Ref) *os.File {
	t.Helper()
	f, err := s.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if o, ok := f.(interface{ File() *os.File }); ok {
		return o.File()
	}
	return nil
}

func TestDiskSendsFilesOnceHashed(t *testing.T) {
	d := openDisk(t, t.TempDir())
	later(d)
	small, large := blobtest.Content(1, 1000), blobtest.Content(2, blob.HashedAtOpen+1)
	putDisk(t, d, small)
	putDisk(t, d, large)
	if systemFile(t, d, blob.Sum(small)) == nil {
		t.Error("a small blob, hashed when it was opened: no file of the system, want one")
	}
	if systemFile(t, d, blob.Sum(large)) != nil {
		t.Error("a large blob before its first whole read: a file of the system, want none")
	}
	f, err := d.Open(t.Context(), blob.Sum(large))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, len(large))
	if _, err := f.Read(buf); err != nil {
		t.Fatal(err)
	}
	if systemFile(t, d, blob.Sum(large)) == nil {
		t.Error("a large blob after a whole read: no file of the system, want one")
	}
	// The result is good for this state of the file only.
	damageFile(t, d.Path(blob.Sum(large)), blobtest.Content(3, len(large)), false)
	if systemFile(t, d, blob.Sum(large)) != nil {
		t.Error("a large blob after a change of the file: a file of the system, want none")
	}
	damageFile(t, d.Path(blob.Sum(small)), blobtest.Content(3, len(small)), false)
	if _, err := d.Open(t.Context(), blob.Sum(small)); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("open of a small blob after a change of the file: %v, want ErrDamaged", err)
	}
}

// TestDiskUnhashed: a small blob that is opened in a context of Unhashed is read by Unchecked as it is, and
// nothing is known of it then; who reads it otherwise gets no damaged bytes.
func TestDiskUnhashed(t *testing.T) {
	d := openDisk(t, t.TempDir())
	later(d)
	small := blobtest.Content(1, 1000)
	ref := blob.Sum(small)
	putDisk(t, d, small)
	damaged := blobtest.Content(3, len(small))
	damageFile(t, d.Path(ref), damaged, false)
	f, err := d.Open(blob.Unhashed(t.Context()), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got := make([]byte, len(small))
	if _, err := blob.Unchecked(f).ReadAt(got, 0); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("unchecked: %v, want the bytes of the file", err)
	}
	if b, err := io.ReadAll(f); !errors.Is(err, blob.ErrDamaged) || len(b) > 0 {
		t.Errorf("checked: %d bytes, %v; want none, and ErrDamaged", len(b), err)
	}
	if _, err := d.Open(blob.Unhashed(t.Context()), ref); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("when the damage is known: %v, want ErrDamaged", err)
	}
}

func TestDiskVerifyAllowsSending(t *testing.T) {
	d := openDisk(t, t.TempDir())
	later(d)
	large := blobtest.Content(2, blob.HashedAtOpen+1)
	ref := blob.Sum(large)
	putDisk(t, d, large)
	var paced int
	if err := d.Verify(t.Context(), ref, int64(len(large)), func(n int) error { paced += n; return nil }); err != nil || paced != len(large) {
		t.Errorf("verify: %v after %d paced bytes, want no error and %d", err, paced, len(large))
	}
	if systemFile(t, d, ref) == nil {
		t.Error("a large blob after Verify: no file of the system, want one")
	}
	stop := errors.New("stop")
	if err := d.Verify(t.Context(), ref, -1, func(int) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("verify with a pace that fails: %v, want that error", err)
	}
}

func TestDiskSetAside(t *testing.T) {
	d := openDisk(t, t.TempDir())
	content := blobtest.Content(1, 1000)
	ref := blob.Sum(content)
	putDisk(t, d, content)
	if _, err := d.SetAside(ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("set an intact blob aside: %v, want fs.ErrNotExist", err)
	}
	damageFile(t, d.Path(ref), content[:500], false)
	if err := d.Verify(t.Context(), ref, 1000, nil); !errors.Is(err, blob.ErrDamaged) {
		t.Fatalf("verify of a cut blob: %v, want ErrDamaged", err)
	}
	path, err := d.SetAside(ref)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || len(b) != 500 {
		t.Errorf("the file set aside, %s: %d bytes, %v; want the 500 damaged bytes", path, len(b), err)
	}
	if err := d.Verify(t.Context(), ref, 1000, nil); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrDamaged) {
		t.Errorf("verify of a blob set aside: %v, want fs.ErrNotExist only", err)
	}
	if refs := blobtest.Refs(t, d); len(refs) != 0 {
		t.Errorf("the store lists %v, want nothing", refs)
	}
	putDisk(t, d, content)
	// Something that is no file can be set aside too.
	if err := os.Remove(d.Path(ref)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(d.Path(ref), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), ref); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("open of a folder: %v, want ErrDamaged", err)
	}
	if _, err := d.SetAside(ref); err != nil {
		t.Errorf("set a folder aside: %v", err)
	}
	putDisk(t, d, content)
	if err := d.Verify(t.Context(), ref, 1000, nil); err != nil {
		t.Errorf("verify after the content was put again: %v", err)
	}
}

func putDisk(t *testing.T, d *blob.Disk, content []byte) {
	t.Helper()
	if err := d.Put(t.Context(), blob.Sum(content), int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatalf("put %d bytes: %v", len(content), err)
	}
}

// TestFolderInTheWay replaces a blob by a directory: storing the content again
// moves the directory aside.
func TestFolderInTheWay(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	ref := blob.Sum(content)
	puts := map[string]func(t *testing.T, d *blob.Disk) error{
		"put": func(t *testing.T, d *blob.Disk) error {
			return d.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content))
		},
		"batch": func(t *testing.T, d *blob.Disk) error {
			b, err := d.Begin(t.Context())
			if err != nil {
				return err
			}
			if _, _, err := b.Put(t.Context(), -1, bytes.NewReader(content)); err != nil {
				return err
			}
			return b.Commit(t.Context())
		},
	}
	for name, put := range puts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := openDisk(t, dir)
			if err := put(t, d); err != nil {
				t.Fatal(err)
			}
			for n, moved := range []string{ref.String(), ref.String() + "-1"} {
				if err := os.Remove(d.Path(ref)); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(d.Path(ref), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(d.Path(ref), "note"), []byte("kept"), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := d.Open(t.Context(), ref); !errors.Is(err, blob.ErrDamaged) {
					t.Errorf("Open of a directory: error %v, want %v", err, blob.ErrDamaged)
				}
				if err := put(t, d); err != nil {
					t.Fatalf("round %d: the content could not be stored again: %v", n, err)
				}
				if got, err := os.ReadFile(d.Path(ref)); err != nil || !bytes.Equal(got, content) {
					t.Errorf("round %d: the blob is %q, error %v; want %q", n, got, err, content)
				}
				if got, err := os.ReadFile(filepath.Join(dir, "damaged", moved, "note")); err != nil || string(got) != "kept" {
					t.Errorf("round %d: the directory that was moved aside has %q, error %v; want its file", n, got, err)
				}
			}
		})
	}
}

// TestUnchecked: the bytes of a large blob are read as they are stored, and not remembered as those
// of its Ref.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	d := openDisk(t, t.TempDir())
	content := bytes.Repeat([]byte("0123456789abcdef"), blob.HashedAtOpen/8)
	ref := blob.Sum(content)
	if err := d.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	content[len(content)-1]++
	damageFile(t, d.Path(ref), content, false)
	f, err := d.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := func(r io.ReaderAt) ([]byte, error) { return io.ReadAll(io.NewSectionReader(r, 0, f.Size())) }
	if got, err := all(blob.Unchecked(f)); err != nil || !bytes.Equal(got, content) {
		t.Errorf("unchecked: %d bytes, %v; want the stored ones", len(got), err)
	}
	if _, err := all(f); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("checked: %v, want ErrDamaged", err)
	}
}
