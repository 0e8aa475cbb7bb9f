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

// Scope says whose eyes look into the depot. Objects outside the scope are
// absent, and ranking happens inside it. The zero Scope sees everything.
type Scope struct {
	// Products limits what is seen to these; nil means all. "" is what was
	// added, fetched or found without a product.
	Products []string
}

// sees reports whether what has this product is inside the scope.
func (s Scope) sees(product string) bool {
	return s.Products == nil || slices.Contains(s.Products, product)
}

// File is an answer. It must be closed.
//
// Size may be unknown, -1, while a file is still being fetched from elsewhere;
// ReadAt then waits for the bytes it needs.
type File struct {
	Object  symfile.Object // what the bytes belong to
	Ref     blob.Ref       // SHA-256 of the whole object's bytes
	Size    int64          // bytes of the answer, -1 while unknown
	ModTime time.Time      // last modification of the file itself; when it was added if that is unknown
	// Path and Archive say where the object came from, as it was given to
	// add; they may tell more about a build machine than strangers should know.
	Path, Archive string
	// Redirect is set instead of bytes when the client must learn the
	// canonical path: a relative path in Breakpad's layout.
	Redirect string
	// Volatile marks an answer of a source, which may change without notice.
	// Its Ref is zero: nobody has read all of it.
	Volatile bool
	// Substitute marks a cached file of another name than the requested one, with
	// the same id. It answers as long as no upstream has the requested file.
	Substitute bool
	// Growing marks a file that is still arriving. It has no ETag, and its
	// bytes are right only if the last of them can be read.
	Growing bool
	// Downloaded marks a file that Get had an upstream asked for.
	Downloaded bool
	// Encoding is the Content-Encoding of the bytes, "" for the plain ones.
	Encoding string
	// ETag is the strong entity tag, without quotes: of the content, the
	// encoding and the part of it that is answered.
	ETag string

	source  blob.Ref      // the content that it is, or was made of
	product string        // of the source of a file that grows
	made    *symcache.Key // of a SymCache file: the PDB that it was made of

	r      io.ReaderAt
	packed bool        // a form that cannot be compressed further
	plain  *os.File    // set when r is a whole plain file on disk
	stored bool        // r is a whole blob
	report func(error) // takes the damage found while r is read; nil if nothing is to report
	// arrived, on a file that grows, waits for bytes at an offset.
	arrived func(off int64) (int64, error)
	closer  io.Closer
}

// Products returns the products through which a file's content is seen, in
// order: those of its source for what was derived from another. None are left
// of what was let go of meanwhile, or is only seen by who sees everything.
func (d *Depot) Products(ctx context.Context, f *File) ([]string, error) {
	if f.made != nil {
		return d.symCacheProducts(ctx, f)
	}
	ref := f.source
	if ref == (blob.Ref{}) {
		ref = f.Ref
	}
	if ref == (blob.Ref{}) {
		return []string{f.product}, nil // it is arriving, or stands elsewhere
	}
	return d.db.ContentProducts(ctx, ref)
}

// symCacheProducts is Products for a SymCache file: those of the PDB, and those
// with which it came itself.
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

// Arrived waits until there are bytes at off and returns how many may be read
// from there by now; io.EOF if off is the end. Only a Growing file has to be
// asked.
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
// file and its hash is known to be right, so that a server can let the kernel
// copy it; else nil. Of a Growing file it has the bytes that have Arrived, and
// more that must not be sent yet.
func (f *File) OSFile() *os.File { return f.plain }

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
