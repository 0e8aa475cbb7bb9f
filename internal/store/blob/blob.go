// Package blob stores contents by the SHA-256 of their bytes, each content once.
// It does not know what they are.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Ref identifies a content: the SHA-256 of its bytes.
type Ref [sha256.Size]byte

// String returns the Ref in lower-case hex.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// ParseRef is the inverse of [Ref.String]. It accepts upper-case digits too.
func ParseRef(s string) (Ref, error) {
	var r Ref
	if len(s) != 2*len(r) {
		return Ref{}, fmt.Errorf("blob ref %.80q: want %d hex digits", s, 2*len(r))
	}
	if _, err := hex.Decode(r[:], []byte(s)); err != nil {
		return Ref{}, fmt.Errorf("blob ref %q: %w", s, err)
	}
	return r, nil
}

// Sum returns the Ref of a content in memory.
func Sum(content []byte) Ref { return sha256.Sum256(content) }

// emptyRef is the Ref of the empty content.
var emptyRef = Sum(nil)

// Info describes a stored blob.
type Info struct {
	Ref  Ref
	Size int64 // bytes
	// ModTime is when the blob was last put or passed to [Batch.Known]. It may
	// be up to [ModTimeSlack] too early.
	ModTime time.Time
}

// ModTimeSlack is how far ModTime may lag behind. Blobs that many builds share are put
// again all the time, and not each of these needs a write.
const ModTimeSlack = time.Minute

// ErrMismatch is the error for content that does not have the given Ref or size.
var ErrMismatch = errors.New("content differs from its description")

// ErrUnavailable means that the store does not answer now, or refuses all
// requests. It says nothing about the blob: the error is never an
// [fs.ErrNotExist].
var ErrUnavailable = errors.New("the store of the files' contents is not available")

// GoneError is the error of a commit whose batch has found contents in the store that were
// deleted before the commit. It is an [fs.ErrNotExist].
type GoneError struct{ Refs []Ref }

func (e *GoneError) Error() string {
	if len(e.Refs) == 1 {
		return fmt.Sprintf("the content %s was deleted while the batch was open", e.Refs[0])
	}
	return fmt.Sprintf("%d contents, %s among them, were deleted while the batch was open", len(e.Refs), e.Refs[0])
}

// Is implements the interface of [errors.Is].
func (e *GoneError) Is(target error) bool { return target == fs.ErrNotExist }

// ErrInUse is the error for a blob that cannot be deleted because another program
// holds its file open.
var ErrInUse = errors.New("another program holds the blob open")

// File is an open blob. Read and Seek must not be called by several goroutines
// at the same time; ReadAt may be.
//
// A blob of more than [HashedAtOpen] bytes that has not been hashed yet is
// hashed while it is read in order, from the first byte to the last. The last
// [Withheld] bytes are returned only if the hash is correct; otherwise reading
// them is an [ErrDamaged]. Reads in a different order are not checked.
//
// Optional: interface{ File() *os.File } returns the operating system's file, if
// the blob is exactly one file whose hash has been checked, and syscall.Conn
// lets net/http send it without copying. The file must not be written to or
// closed.
type File interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	io.Closer
	Size() int64
	ModTime() time.Time
	// Reject makes the store treat the blob as damaged until its file changes,
	// and returns the [ErrDamaged] for it. what describes the damage to users.
	Reject(what string) error
}

// Store stores blobs.
//
// All methods may be called by several goroutines, and several processes may use
// one store at the same time. A blob is visible completely or not at all. When
// Put returns without an error, the blob survives a power loss. A power loss may
// undo a Delete, which leaves garbage for the next collection. Open and Stat
// return [fs.ErrNotExist] for a missing blob. durable.IsNoSpace recognizes the
// error of a full disk.
//
// A store never returns a content whose hash differs from its Ref. Open returns
// [ErrDamaged] for a damaged blob: without hashing if it is unreadable or
// visibly damaged (empty although its Ref is not that of the empty content),
// after hashing if it has up to [HashedAtOpen] bytes, and as described at [File]
// if it is larger. Results are remembered, in bounded memory, with the file's
// inode, size and times; a result holds until one of these changes. List
// includes damaged blobs; Stat includes those that are not visibly damaged. Put
// and a [Batch] replace a damaged blob with the content that they receive.
//
// A blob that the user of this process may not read is neither damaged nor missing: the error
// of every method is an account.DeniedError and an [ErrUnavailable], nothing of it is
// remembered as damage, and nothing is stored in its place.
//
// Garbage collection and references are synchronized by the index's write lock.
// The collector takes the lock and calls Delete if nothing refers to the blob
// and its ModTime from Stat is older than a grace period, which is much longer
// than [ModTimeSlack]. Put and [Batch.Known] of an existing blob first refresh its
// ModTime and then check that it still exists. Before a writer records
// references to blobs that it found in the store and did not write, it takes the
// lock and calls Stat or [Batch.Has] again: if its refresh came between the
// collector's Stat and Delete, it was too late.
//
// Optional: [Batcher].
type Store interface {
	// Put stores the content that r yields. If the content does not have the
	// given size and hash, the error is [ErrMismatch]. Put succeeds if the blob
	// exists and is intact, possibly without reading r; it replaces a damaged
	// blob. On an error nothing is stored, with one exception: if only the flush
	// of the file name has failed, the complete blob may exist.
	Put(ctx context.Context, ref Ref, size int64, r io.Reader) error
	// Open opens a blob. The file stays readable if the blob is deleted
	// meanwhile.
	Open(ctx context.Context, ref Ref) (File, error)
	// Stat describes a stored blob.
	Stat(ctx context.Context, ref Ref) (Info, error)
	// Delete removes a blob. It succeeds if the blob does not exist. The error is
	// [ErrInUse] for a blob that another program holds open on Windows; it stays,
	// and the next garbage collection deletes it.
	Delete(ctx context.Context, ref Ref) error
	// Verify hashes a stored blob even if a result is remembered, and remembers
	// the new result for Open. size is the content's size, or -1 if it is
	// unknown. pace, if not nil, is called with the number of bytes of each
	// read. It may wait; its error ends the reading. A missing blob is an
	// [fs.ErrNotExist] that is not an [ErrDamaged].
	Verify(ctx context.Context, ref Ref, size int64, pace func(n int) error) error
	// Suspect reports whether this process found the blob damaged, or learned it
	// from Missing, and the stored bytes have not changed since. It reads no
	// content.
	Suspect(ref Ref) bool
	// Missing records that the index lists a blob which the store does not have,
	// and returns the [ErrDamaged] for it.
	Missing(ref Ref) error
	// List yields all blobs in the order of their refs. Blobs that are added or
	// deleted meanwhile may or may not be included. It stops at the first error.
	List(ctx context.Context) iter.Seq2[Info, error]
}

// Batcher is a Store that can store many blobs together, faster than one by one.
type Batcher interface {
	Begin(ctx context.Context) (Batch, error)
}

// Backend is a Store with all that a depot needs of the place where it keeps its
// contents.
type Backend interface {
	Store
	Batcher
	// OpenWhole opens a blob like Open, but hashes an unknown large blob before
	// it returns. The file of the result, see [OSFile], stays until the blob is
	// deleted. It is for callers that pass the file's name on.
	OpenWhole(ctx context.Context, ref Ref) (File, error)
	// SetAside moves a blob that this process found damaged out of the store and
	// returns where it is now. If the blob is missing or has been replaced
	// meanwhile, the error is [fs.ErrNotExist].
	SetAside(ref Ref) (where string, err error)
	// Sweep removes temporary files of ended processes that were last written at
	// least olderThan ago (an hour is a good value). It returns their number.
	Sweep(ctx context.Context, olderThan time.Duration) (int, error)
	// Spool creates an empty spool.
	Spool() (*Spool, error)
	// Ready reports whether contents can be read and written now.
	Ready(ctx context.Context) error
	// Close closes the store. Open files stay usable.
	Close() error
}

// Adopter is a Batch that takes over whole files.
type Adopter interface {
	// Adopt adds the content of a file that is on the file system of the store and is
	// not written to any more. The caller knows that it has this Ref and size, and
	// may remove the file after the end of the batch. The bytes are not copied where
	// the file system permits.
	Adopt(ctx context.Context, ref Ref, size int64, name string) error
}

// Batch is a set of contents that become durable together. They become visible
// one after the other: an interrupted commit leaves complete blobs without
// references. Its methods may be called by several goroutines. Commit and Abort
// end the batch and discard every Put that has not returned. After the end Put
// and Commit return [fs.ErrClosed].
//
// Optional: [Adopter], and interface{ Again(ctx context.Context) error } of a store that gives up
// what nothing refers to after a while. Again makes the contents of a committed
// batch durable again that the store has given up since.
type Batch interface {
	// Put adds the content that r yields and returns its Ref and size. A size of
	// -1 means unknown; any other size must be correct, otherwise the error is
	// [ErrMismatch]. A content that the store or the batch already has, intact,
	// is read but not written again. New contents need not be visible before
	// Commit. The batch stays usable after an error.
	Put(ctx context.Context, size int64, r io.Reader) (Ref, int64, error)
	// Known reports whether the store or the batch has a content, intact. If so,
	// it adds the content to the batch: it refreshes its ModTime, and the
	// content is durable after Commit. To find out, it hashes a stored blob that
	// has not been hashed yet. On an error it returns false.
	Known(ctx context.Context, ref Ref) bool
	// Has reports the same without any side effect. It may also be called after
	// the end of the batch.
	Has(ctx context.Context, ref Ref) bool
	// Commit makes all contents of the batch durable and visible, with a fresh
	// ModTime. If contents that the store had were deleted meanwhile, the error
	// wraps a [GoneError] of all of them and nothing becomes visible. After other
	// errors some contents may be visible.
	Commit(ctx context.Context) error
	// Abort discards all contents that are not visible yet. It does nothing
	// after Commit.
	Abort()
}
