package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/symcachework"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// Scope is the set of products that a caller may see. Objects outside the scope
// are reported as not found, and only objects inside it are ranked. The zero
// Scope contains everything.
type Scope struct {
	// Products are the visible products; nil means all. "" stands for files that
	// were added, downloaded or found in a served folder without a product.
	Products []string
}

// sees reports whether the scope contains a product.
func (s Scope) sees(product string) bool {
	return s.Products == nil || slices.Contains(s.Products, product)
}

// File is an answer. It must be closed.
//
// Size may be unknown, -1, while a file is still being downloaded; ReadAt then
// waits for the requested bytes.
type File struct {
	Object  symfile.Object // the object to which the bytes belong
	Ref     blob.Ref       // SHA-256 of the whole object's bytes
	Size    int64          // bytes of the answer, -1 while unknown
	ModTime time.Time      // last modification of the file itself; the time of adding if that is unknown
	// Path and Archive are the paths that were given to add. They may reveal
	// details of the build machine.
	Path, Archive string
	// Signature is the IMA signature of the whole file in hex, from an RPM package or a
	// debuginfod server; empty if there is none, and for a part of the file. The client
	// checks it.
	Signature string
	// Redirect is set instead of bytes when the client must learn the
	// canonical path: a relative path in Breakpad's layout.
	Redirect string
	// Volatile marks a file of a served folder, which may change at any time. Its
	// Ref is zero, because the file has not been hashed.
	Volatile bool
	// InPlace marks a file of a watched folder: it is Volatile, and was identified.
	InPlace bool
	// Substitute marks a cached file of another name than the requested one, with
	// the same id. It answers as long as no upstream has the requested file.
	Substitute bool
	// Made marks a file that was made of other files of its module. A file of the
	// depot or of an upstream takes its place as soon as there is one.
	Made bool
	// Growing marks a file that is still being downloaded. It has no ETag, and
	// its bytes are verified only when the last of them has been read.
	Growing bool
	// Downloaded marks a file that Get requested from an upstream.
	Downloaded bool
	// Encoding is the Content-Encoding of the bytes, "" for the plain ones.
	Encoding string
	// ETag is the strong entity tag, without quotes: of the content, the
	// encoding and the part of it that is answered.
	ETag string

	source  blob.Ref      // the content itself, or the one from which it was derived
	product string        // of the upstream, while the file is being downloaded
	kept    string        // of a source: "embedded", "bundle", "held" or "in place"
	cached  bool          // no transaction holds it
	made    *symcache.Key // of a SymCache file: the PDB from which it was made

	r      io.ReaderAt
	packed bool        // a form that cannot be compressed further
	plain  *os.File    // set when r is a whole plain file on disk
	stored bool        // r is a whole blob
	report func(error) // receives the damage found while r is read; may be nil
	// arrived waits for the bytes of a growing file at an offset.
	arrived func(off int64) (int64, error)
	closer  io.Closer
}

// Products returns, in order, the products that contain a file's content; for
// derived content, those of its source. The list is empty if the content was
// removed meanwhile, or is visible to callers of all products only.
func (d *Depot) Products(ctx context.Context, f *File) ([]string, error) {
	if f.made != nil {
		return d.symCacheProducts(ctx, f)
	}
	ref := f.source
	if ref == (blob.Ref{}) {
		ref = f.Ref
	}
	if ref == (blob.Ref{}) {
		return []string{f.product}, nil // being downloaded, or in a served folder
	}
	return d.db.ContentProducts(ctx, ref)
}

// symCacheProducts is Products for a SymCache file: the products of its PDB, and
// those of the file itself.
func (d *Depot) symCacheProducts(ctx context.Context, f *File) (list []string, err error) {
	if f.Ref != (blob.Ref{}) {
		if list, err = d.db.ContentProducts(ctx, f.Ref); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(p string) bool { return p == symcachework.Product })
	pdb, err := d.symcache.FindPDB(ctx, *f.made)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return list, nil
	case err != nil:
		return nil, err
	}
	of, err := d.db.ContentProducts(ctx, pdb.Ref)
	return slices.Compact(slices.Sorted(slices.Values(append(list, of...)))), err
}

// ReadAt reads the answer's bytes. The bytes of a large file that the depot did
// not hash before are hashed while they are read in order from the first one;
// if the hash is wrong, the end is not returned, and the error is a
// blob.ErrDamaged.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.r.ReadAt(p, off)
	if err != nil && err != io.EOF && f.report != nil && errors.Is(err, blob.ErrDamaged) {
		f.report(err)
	}
	return n, err
}

// Arrived waits until there are bytes at off and returns how many bytes can be
// read from there without waiting; io.EOF if off is the end. Only a Growing file
// needs it.
func (f *File) Arrived(off int64) (int64, error) {
	if f.arrived != nil {
		return f.arrived(off)
	}
	if off >= f.Size {
		return 0, io.EOF
	}
	return f.Size - off, nil
}

// OSFile returns the open file on disk when the answer is exactly that whole
// file and its hash has been verified, so that a server can let the kernel copy
// it; else nil. The file of a Growing file may contain more bytes than Arrived
// has reported; they must not be sent yet.
func (f *File) OSFile() *os.File { return f.plain }

// Changed reports whether the file lies in a watched folder and has changed since it was
// opened: bytes that were read may be wrong. ReadAt finds that out only at the end of the
// file, so who sends a part asks after its last byte.
func (f *File) Changed() bool {
	w, ok := f.r.(watchedReader)
	return ok && w.f.Changed()
}

// Content returns the name of the file, its SHA-256 (zero if unknown) and its
// size (-1 if unknown).
func (f *File) Content() (name string, ref blob.Ref, size int64) { return f.Object.Name, f.Ref, f.Size }

// Close releases the file.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
