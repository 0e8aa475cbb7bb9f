// Package tree serves a folder of symbol files that other programs maintain, in any
// layout, and never writes to it. A Source copies files from such a folder into the
// cache instead.
package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Options of a folder. The zero value detects the layout and follows pointers
// inside the folder only.
type Options struct {
	// Layout is one of layout.Folders; zero: it is detected.
	Layout layout.Layout
	// PointerRoots are the folders inside which the pointers of a symbol
	// store are followed.
	PointerRoots []symstore.PointerRoot
	// AdminFiles serves the records of a symbol store, with source paths masked.
	AdminFiles bool
	// Public says that the folder has only the public forms of files.
	Public bool
	// TempDir is the folder for unpacked files. Empty: that of the system.
	TempDir string
	// MaxUnpacked is the most bytes that a compressed file may have when it is
	// unpacked. 0: 4 GiB.
	MaxUnpacked int64
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Folder is a tree of symbol files that other programs maintain. Its methods may be
// called by many goroutines.
type Folder struct {
	dir   string
	opt   Options
	tree  tree
	store *symstore.Store
	shelf *unpackCache
	facts factsKept

	mu     sync.Mutex
	layout layout.Layout // guarded by mu
	looked time.Time     // guarded by mu; when the layout was detected
}

// Public reports whether the folder has only the public forms of files.
func (f *Folder) Public() bool { return f.opt.Public }

// Open opens the tree in dir.
func Open(ctx context.Context, dir string, opt Options) (*Folder, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: abs, opt: opt, layout: opt.Layout, looked: opt.Now(), shelf: newUnpackCache(opt.TempDir, opt.MaxUnpacked)}
	if f.layout == layout.None {
		if f.layout, err = Detect(ctx, abs); err != nil {
			return nil, err
		}
	}
	if f.tree.root, err = os.OpenRoot(abs); err != nil {
		return nil, err
	}
	f.tree.now = opt.Now
	if f.store, err = symstore.Open(abs, symstore.Options{ReadOnly: true, PointerRoots: opt.PointerRoots}); err != nil {
		return nil, errors.Join(err, f.tree.root.Close())
	}
	return f, nil
}

// Close releases the folder. Open files stay readable.
func (f *Folder) Close() error {
	f.shelf.Close()
	return errors.Join(f.tree.root.Close(), f.store.Close())
}

// Dir returns the folder's absolute path.
func (f *Folder) Dir() string { return f.dir }

// Layout returns the layout of the folder. Detection is repeated from time to time
// as long as no layout fits.
func (f *Folder) Layout(ctx context.Context) layout.Layout {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.opt.Now(); f.opt.Layout == layout.None && f.layout == layout.Flat && now.Sub(f.looked) >= expiry {
		f.looked = now
		if l, err := Detect(ctx, f.dir); err == nil {
			f.layout = l
		}
	}
	return f.layout
}

// File is an answer. It must be closed.
type File struct {
	io.ReaderAt
	Size    int64
	ModTime time.Time // of the file on disk
	Name    string    // in the spelling of the folder
	Path    string    // on disk
	Kind    symfile.Kind
	ETag    string   // without quotes: changes with the file's path, size and time
	Plain   *os.File // when the answer is exactly that whole file
	close   func() error
}

// Close releases the file.
func (f *File) Close() error { return f.close() }

// Open opens the file for req. A miss is fs.ErrNotExist. An existing file that
// cannot be served, such as a damaged cabinet or a pointer that may not be followed,
// is fs.ErrNotExist too, in an error with the reason.
func (f *Folder) Open(ctx context.Context, req layout.Request) (*File, error) {
	return f.OpenTold(ctx, req, nil)
}

// OpenTold is Open that reports each place where it looks, in order: the path below
// the folder, and why the file there is no answer, nil if it is one. told may be nil.
func (f *Folder) OpenTold(ctx context.Context, req layout.Request, told func(place string, why error)) (*File, error) {
	if req.Form != layout.FormFile && req.Form != layout.FormCabinet {
		return nil, fs.ErrNotExist
	}
	absent := fs.ErrNotExist
	lay := f.Layout(ctx)
	for _, l := range req.Lookups {
		for _, c := range lay.Candidates(&req, l) {
			found, err := f.try(ctx, &req, l, c)
			if told != nil {
				told(c.Key(), err)
			}
			switch {
			case err == nil:
				return found, nil
			case errors.Is(err, unpackcache.ErrFull):
				return nil, err
			case errors.Is(err, fs.ErrNotExist):
				continue
			}
			if absent, err = splitError(err); err != nil {
				return nil, err
			}
		}
	}
	if found, err := f.openOther(ctx, lay, &req); err != fs.ErrNotExist {
		if told != nil && found != nil {
			told(found.Name, nil)
		}
		return found, err
	}
	return nil, absent
}

// splitError sorts an error of opening a file: notServed, a miss with a reason, if
// the file exists and cannot be served; failed for every other error.
func splitError(err error) (notServed, failed error) {
	if errors.Is(err, unpack.ErrPacked) || errors.Is(err, symstore.ErrPointer) || errors.Is(err, errMismatch) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err), nil
	}
	return nil, err
}

// errMismatch is the error for a file whose content does not match the request.
var errMismatch = errors.New("file content does not match its path")

// try opens one candidate.
func (f *Folder) try(ctx context.Context, req *layout.Request, l symfile.Lookup, c layout.Place) (*File, error) {
	name, ok := f.tree.find(c.Parts...)
	if !ok {
		return nil, fs.ErrNotExist
	}
	var file *os.File
	var info fs.FileInfo
	var err error
	if c.Pointer {
		file, info, err = f.follow(c.Parts)
		c.Verify = true // a pointer to a pointer, or to an older file
	} else {
		file, info, err = f.tree.open(name)
	}
	if err != nil {
		return nil, err
	}
	a := &File{
		ReaderAt: file, Size: info.Size(), ModTime: info.ModTime(), Path: filepath.Join(f.dir, filepath.FromSlash(name)),
		Name: path.Base(name), Plain: file, close: file.Close,
	}
	if c.Pointer {
		a.Path, a.Name = file.Name(), c.Parts[len(c.Parts)-3]
	} else if c.Packed && req.Form == layout.FormFile {
		a.Name = req.Name
	}
	if l.Role == symfile.Symbols {
		a.Kind = symfile.Breakpad
	}
	key := fmt.Sprintf("%s\x00%d\x00%d", a.Path, a.Size, a.ModTime.UnixNano())
	a.ETag = tag(key)
	if req.Form == layout.FormFile && unpack.Packed(file) {
		if err := f.unpack(ctx, a, key); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Path, err)
		}
	} else if c.Packed && !unpack.IsCabinet(file) {
		// The name is that of a cabinet, the content is not.
		return nil, errors.Join(fmt.Errorf("%s: %w", a.Path, errMismatch), a.Close())
	}
	if err := f.check(ctx, a, req, l, c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", a.Path, err), a.Close())
	}
	return a, nil
}

func tag(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "f-" + hex.EncodeToString(sum[:15])
}

// follow opens the target of the pointer of a key.
func (f *Folder) follow(parts []string) (*os.File, fs.FileInfo, error) {
	found, err := f.store.Find(parts[len(parts)-3], parts[len(parts)-2])
	if err != nil {
		return nil, nil, err
	}
	if found.Pointer == "" {
		return nil, nil, fs.ErrNotExist
	}
	file, err := f.store.Follow(found)
	if err != nil {
		return nil, nil, pointerError(err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// pointerError distinguishes a dangling pointer from a missing file.
func pointerError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s", symstore.ErrPointer, err.Error())
	}
	return err
}

// unpack replaces the bytes of a by their unpacked content.
func (f *Folder) unpack(ctx context.Context, a *File, key string) error {
	r, size, err := f.shelf.get(ctx, key, a.Plain, a.Size)
	if err != nil {
		return err
	}
	a.ReaderAt, a.Size, a.Plain, a.ETag = r, size, nil, tag(key+"\x00plain")
	a.close = r.Close
	return nil
}

// check reads a file if its path is not sufficient.
func (f *Folder) check(ctx context.Context, a *File, req *layout.Request, l symfile.Lookup, c layout.Place) error {
	var start [pdb.SniffLen]byte
	if n, _ := a.ReadAt(start[:], 0); pdb.Detect(start[:n]) == pdb.MSFZ {
		a.Kind = symfile.MSFZ
	}
	// A client that did not say that it reads the container would take it for
	// a damaged PDB.
	if a.Kind == symfile.MSFZ && l.Role&symfile.Compressed == 0 || a.Kind != symfile.MSFZ && c.MSFZ {
		return fs.ErrNotExist
	}
	if c.Text {
		var head [7]byte
		if n, _ := a.ReadAt(head[:], 0); string(head[:n]) != "MODULE " {
			return errMismatch
		}
	}
	if !c.Verify && !c.HigherAge {
		return nil
	}
	r, size := io.ReaderAt(a), a.Size
	if c.Packed && unpack.Packed(a) {
		// A requested cabinet is checked by the file inside it.
		name, _ := f.tree.find(c.Parts...)
		twin, _, err := f.tree.open(name)
		if err != nil {
			return err
		}
		plain, n, err := f.shelf.get(ctx, a.ETag, twin, a.Size)
		if err != nil {
			return err
		}
		defer func() { _ = plain.Close() }()
		r, size = plain, n
	}
	name := a.Name
	if req.Name != "" {
		name = req.Name // the file may be called like its cabinet, or the target of a pointer otherwise
	}
	objects, err := objfile.Identify(r, size, name, objfile.Options{})
	if err != nil {
		return fmt.Errorf("%w: %w", errMismatch, err)
	}
	for _, o := range objects {
		if o.Deflated != 0 || o.Offset != 0 {
			continue // the answer is the whole file
		}
		if c.HigherAge && older(o, req.Age) {
			return nil
		}
		if l.Finds(o.Object) {
			return nil
		}
	}
	return errMismatch
}
