package symstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// errBusyHere is the error for a file that another program holds open.
const errBusyHere = windows.ERROR_SHARING_VIOLATION

// TestDelWhileOpen deletes a transaction while another program uses one of its
// files, in each way in which programs do. The transaction is deleted, and the
// next writer after the program removes the file.
func TestDelWhileOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, name string) (release func())
		left bool // the file keeps its name
	}{
		{"opened without sharing", func(t *testing.T, name string) func() { return symtest.Hold(t, name) }, true},
		// Wine 10.0 lets others rename a deleted file.
		{"opened, and deleted by a third program", useDeleted, symtest.Wine() == ""},
		{"mapped as data", func(t *testing.T, name string) func() { return useMapped(t, name, 0) }, false},
		{"mapped as an image", func(t *testing.T, name string) func() { return useMapped(t, name, secImage) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := t.TempDir()
			a := writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a"))
			program, err := os.ReadFile("../testdata/pdb/hello-x64.exe")
			if err != nil {
				t.Fatal(err)
			}
			b := writeFile(t, filepath.Join(src, "b.exe"), program)
			s := create(t, t.TempDir(), One, Options{})
			mustAdd(t, s, AddOptions{}, paths(a, b))
			const stored = "b.exe/C10891754000/b.exe"
			release := c.use(t, filepath.Join(s.Dir(), filepath.FromSlash(stored)))
			r := mustDel(t, s, 1)
			if got := r.Deferred == 1; got != c.left {
				t.Errorf("%d files deferred, want one: %v", r.Deferred, c.left)
			}
			if _, err := s.Entries(1); !errors.Is(err, ErrNoTransaction) {
				t.Errorf("the deleted transaction: %v, want %v", err, ErrNoTransaction)
			}
			var wanted []string
			if c.left {
				wanted = []string{stored}
			}
			if got := notes(t, s); !slices.Equal(got, wanted) {
				t.Errorf("notes about %q, want %q", got, wanted)
			}
			release()
			mustBeClean(t, s)
			if got := tree(t, s.Dir()); len(got) != len(emptyStore(t)) {
				t.Errorf("the store holds %v, want no symbol files", got)
			}
			wantNoLeftovers(t, s)
			if s.exists(deferredFile) {
				t.Errorf("%s exists, want none", deferredFile)
			}
		})
	}
}

// TestConvertWhileOpen converts a store while a debugger holds one of its files open.
// The conversion fails, readers find every file, and the first writer after the
// debugger completes it.
func TestConvertWhileOpen(t *testing.T) {
	for _, move := range []bool{false, true} {
		src := t.TempDir()
		s := create(t, t.TempDir(), One, Options{})
		list := paths(writeFile(t, filepath.Join(src, "a.dll"), peImage(1, 0x1000, "a")), writeFile(t, filepath.Join(src, "b.dll"), peImage(2, 0x1000, "b")))
		mustAdd(t, s, AddOptions{}, list)
		release := symtest.Hold(t, filepath.Join(s.Dir(), "b.dll", "000000021000", "b.dll"))
		err := s.Convert(t.Context(), Two, ConvertOptions{Move: move})
		if busy := durable.IsBusy(err) || errors.Is(err, windows.ERROR_ACCESS_DENIED); !busy && (err != nil || !move) { // Wine renames such folders
			t.Errorf("move %v: error %v, want that the file is in use", move, err)
		}
		everyFileThere(t, s, "while a file is held")
		release()
		mustBeClean(t, s)
		everyFileThere(t, s, "afterwards")
		if s.Tiers() != Two {
			t.Errorf("move %v: the store is %s, want two-tier", move, s.Tiers())
		}
	}
}

// emptyStore returns the tree of a store whose only transaction is deleted.
func emptyStore(t *testing.T) map[string]string {
	s := create(t, t.TempDir(), One, Options{})
	mustAdd(t, s, AddOptions{}, paths(writeFile(t, filepath.Join(t.TempDir(), "a.dll"), peImage(1, 0x1000, "a"))))
	mustDel(t, s, 1)
	return tree(t, s.Dir())
}

// useDeleted opens a file, and lets another program delete it by the old rules,
// which hold on every disk: it keeps its name until it is closed, and refuses all
// access.
func useDeleted(t *testing.T, name string) (release func()) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		t.Fatal(err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(p, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := windows.CreateFile(p, windows.DELETE, share, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	pending := byte(1) // FILE_DISPOSITION_INFO
	if err := windows.SetFileInformationByHandle(d, windows.FileDispositionInfo, &pending, 1); err != nil {
		t.Fatal(err)
	}
	_ = windows.CloseHandle(d)
	return func() { _ = windows.CloseHandle(h) }
}

// secImage is SEC_IMAGE: the file is mapped as a program.
const secImage = 0x1000000

// useMapped maps a file and closes it, as debuggers and loaders do.
func useMapped(t *testing.T, name string, flags uint32) (release func()) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	m, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY|flags, 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := windows.MapViewOfFile(m, windows.FILE_MAP_READ, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The address of the mapping, which the garbage collector does not move.
	if head := unsafe.Slice(*(**byte)(unsafe.Pointer(&view)), 2); string(head) != "MZ" {
		t.Fatalf("the mapped file begins with %q, want MZ", head)
	}
	return func() {
		_ = windows.UnmapViewOfFile(view)
		_ = windows.CloseHandle(m)
	}
}
