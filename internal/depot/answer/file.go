package answer

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

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
	// Features are the kinds of information in a file of a watched folder, as words; nil for others.
	Features []string
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

	// What follows is for the packages of the depot.

	Source     blob.Ref      // the content itself, or the one from which it was derived
	Product    string        // of the upstream, while the file is being downloaded
	Kept       string        // of a source: "embedded", "bundle", "here" or "in place"
	Cached     bool          // no transaction holds it
	SymCacheOf *symcache.Key // of a SymCache file: the PDB from which it was made
	Packed     bool          // it cannot be compressed further

	// Bytes are what ReadAt reads. Whole: they are a whole content. Disk is the file on
	// disk if they are all of it; else nil.
	Bytes io.ReaderAt
	Whole bool
	Disk  *os.File
	// OnDamage receives the damage that is found while Bytes are read; may be nil.
	OnDamage func(error)
	// Await waits for the bytes of a growing file at an offset.
	Await func(off int64) (int64, error)
	// ChangedSince reports that a file in place has changed since it was opened; may be nil.
	ChangedSince func() bool
	Closer       io.Closer
}

// ReadRef returns the content whose read a read of the file is: that from which it was
// made, if it is derived.
func (f *File) ReadRef() blob.Ref {
	if f.Source != (blob.Ref{}) {
		return f.Source
	}
	return f.Ref
}

// ReadAt reads the answer's bytes. The bytes of a large file that the depot did
// not hash before are hashed while they are read in order from the first one;
// if the hash is wrong, the end is not returned, and the error is a
// blob.ErrDamaged.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.Bytes.ReadAt(p, off)
	if err != nil && err != io.EOF && f.OnDamage != nil && errors.Is(err, blob.ErrDamaged) {
		f.OnDamage(err)
	}
	return n, err
}

// Arrived waits until there are bytes at off and returns how many bytes can be
// read from there without waiting; io.EOF if off is the end. Only a Growing file
// needs it.
func (f *File) Arrived(off int64) (int64, error) {
	if f.Await != nil {
		return f.Await(off)
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
func (f *File) OSFile() *os.File { return f.Disk }

// Changed reports whether the file lies in a watched folder and has changed since it was
// opened: bytes that were read may be wrong. ReadAt finds that out only at the end of the
// file, so who sends a part asks after its last byte.
func (f *File) Changed() bool {
	return f.ChangedSince != nil && f.ChangedSince()
}

// Content returns the name of the file, its SHA-256 (zero if unknown) and its
// size (-1 if unknown).
func (f *File) Content() (name string, ref blob.Ref, size int64) { return f.Object.Name, f.Ref, f.Size }

// Close releases the file.
func (f *File) Close() error {
	if f.Closer == nil {
		return nil
	}
	return f.Closer.Close()
}

// CodeRedirect returns the answer to a lookup of roles that found a file by a code id alone: the path
// that Breakpad's clients then ask for. ok says that it was such a lookup; the answer is nil if
// the file has no such path.
func CodeRedirect(h record.Hit, role symfile.Role) (f *File, ok bool) {
	if role&symfile.CodeInfo == 0 || h.Role&role != symfile.CodeInfo {
		return nil, false
	}
	if paths := layout.BreakpadTree.Paths(h.Object); len(paths) > 0 {
		f = &File{Object: h.Object, Redirect: paths[0]}
	}
	return f, true
}

// Cut makes the answer, which is an ELF file, that of one of its sections. On an error, it is closed.
// It is fs.ErrNotExist if there is no such section, or one without contents.
func (f *File) Cut(section string) error {
	off, n, err := objfile.ELFSection(f.Bytes, f.Size, section)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	f.Bytes, f.Disk, f.Whole, f.Size = io.NewSectionReader(f.Bytes, off, n), nil, false, n
	f.ETag += "-" + SectionTag(section)
	f.Signature = ""
	return nil
}

// SectionTag returns a section's name, made fit for an entity tag.
func SectionTag(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x21 || r == '"' || r > 0x7e {
			return '_'
		}
		return r
	}, name)
}

// Text returns the answer with a small text.
func Text(text []byte, changed time.Time) *File {
	return &File{
		Volatile: true, Size: int64(len(text)), ModTime: changed, ETag: "a-" + blob.Sum(text).String()[:30],
		Bytes: bytes.NewReader(text),
	}
}
