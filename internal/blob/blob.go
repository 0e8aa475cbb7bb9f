// Package blob keeps contents under the SHA-256 of their plain bytes, each
// once. It knows nothing of what they are.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Ref names a content: the SHA-256 of its plain bytes.
type Ref [sha256.Size]byte

// String is the Ref in lower-case hex.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// ParseRef undoes [Ref.String]. Upper-case digits are accepted.
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

// Sum is the Ref of a content in memory.
func Sum(content []byte) Ref { return sha256.Sum256(content) }

// emptyRef names the content of no bytes.
var emptyRef = Sum(nil)

// Info describes a blob that is in a store.
type Info struct {
	Ref  Ref
	Size int64 // bytes of plain content
	// ModTime is when the blob was last put or asked for with [Batch.Known],
	// up to [Slack] too early.
	ModTime time.Time
}

// Slack is how far ModTime may lag behind. Blobs that many builds carry are
// put again all the time, and not each of that is worth a write.
const Slack = time.Minute

// ErrMismatch is the error for content that is not what its Ref or its size
// says.
var ErrMismatch = errors.New("content differs from its description")

// File is an open blob. Read and Seek are for one goroutine at a time; ReadAt
// may be called by several.
//
// The bytes of a blob of more than [HashedAtOpen] bytes that was not hashed
// before are hashed while they are read in order, from the first to the last.
// The last [Withheld] bytes are only returned once the hash is right; else
// reading them is an [ErrDamaged]. Reads in another order are not checked.
//
// Optional: interface{ File() *os.File } gives the operating system's file, if
// there is one with exactly the blob's bytes and the hash of these is known to
// be right, and syscall.Conn lets net/http send it without copying. It must
// not be written to or closed.
type File interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	io.Closer
	Size() int64
	ModTime() time.Time
	// Reject makes the store treat the blob as damaged, as long as the file
	// does not change, and returns the [ErrDamaged] for it. What says, for
	// people, what the caller found wrong.
	Reject(what string) error
}

// Store keeps blobs.
//
// All methods may be called by several goroutines, and several processes may
// use one store at once. A blob is visible whole or not at all. When Put
// returns without an error, the blob survives a power loss; a Delete may be
// undone by one, which leaves garbage for the next collection. A missing blob
// is [fs.ErrNotExist] to Open and Stat. A full disk is an error that
// durable.IsNoSpace knows.
//
// A store does not return a content that has another hash than its Ref. A
// damaged blob is an [ErrDamaged] to Open: one that is visibly damaged (empty
// although its Ref is not that of nothing) or unreadable at once, one of up to
// [HashedAtOpen] bytes after it was hashed, a larger one as described at
// [File]. A result holds until the file changes: it is remembered, in bounded
// memory, with the file's inode, size and times. List shows damaged blobs too;
// Stat those that are not visibly damaged. Put and a [Batch] replace a damaged
// blob by the content that they are given.
//
// Letting go of blobs is agreed upon as follows, with the index's write lock
// as referee. The collector, holding the lock, checks that nothing refers to
// the blob and that its ModTime from Stat is older than a grace period, which
// is far above [Slack], and then calls Delete. Put and [Batch.Known] of a
// blob that is there refresh its ModTime first and look afterwards whether it
// is still there. Who is about to record references to blobs asks Stat or
// [Batch.Has] once more after taking the lock, for those that it found there
// and did not write: a refresh between the collector's look at ModTime and its
// Delete comes too late.
//
// Optional: [Batcher].
type Store interface {
	// Put keeps the content that r yields, which must have the size and the
	// hash given, else the error is [ErrMismatch]. It succeeds if the blob
	// exists and is intact, possibly without reading r; a damaged one is
	// replaced. Nothing is kept on an error,
	// but for one case: if only making the name durable has failed, the
	// blob may be there, whole.
	Put(ctx context.Context, ref Ref, size int64, r io.Reader) error
	// Open opens a blob. It stays readable when it is deleted meanwhile.
	Open(ctx context.Context, ref Ref) (File, error)
	// Stat describes a blob.
	Stat(ctx context.Context, ref Ref) (Info, error)
	// Delete removes a blob. It succeeds if there is none.
	Delete(ctx context.Context, ref Ref) error
	// Verify hashes a stored blob, whatever is remembered of it, and remembers
	// the result for Open. Size is the content's, or -1 if it is unknown. pace,
	// if not nil, is called with the number of bytes of each read; it may wait,
	// and its error ends the reading. A missing blob is an [fs.ErrNotExist] that
	// is no [ErrDamaged].
	Verify(ctx context.Context, ref Ref, size int64, pace func(n int) error) error
	// Suspect reports whether this process found the blob damaged, or was told
	// by Missing, and the stored bytes did not change since. It reads no content.
	Suspect(ref Ref) bool
	// Missing tells the store that a blob which it does not have should exist,
	// and returns the [ErrDamaged] for it.
	Missing(ref Ref) error
	// List yields all blobs in the order of their refs. One that comes or
	// goes meanwhile may or may not be among them. It ends at the first error.
	List(ctx context.Context) iter.Seq2[Info, error]
}

// Batcher is a Store that takes many blobs at once, faster than one by one.
type Batcher interface {
	Begin(ctx context.Context) (Batch, error)
}

// Batch is a number of contents that become visible and durable together,
// although not in one instant: what a commit cut short leaves behind is whole
// blobs that nothing refers to. Its methods may be called by several
// goroutines. Commit and Abort end it: a Put that is not done by then is
// dropped. After the end Put and Commit return [fs.ErrClosed].
type Batch interface {
	// Put takes the content that r yields and returns its Ref and size. A
	// size of -1 is unknown; with any other the content must have it, else
	// the error is [ErrMismatch]. A content that the store or the batch has
	// already, intact, is read, recognised and not written. Others need not be
	// visible before Commit. The batch stays usable after an error.
	Put(ctx context.Context, size int64, r io.Reader) (Ref, int64, error)
	// Known says whether the store or the batch has a content, intact, and makes
	// it part of the batch if so: its ModTime is refreshed, and it is durable
	// after Commit. A stored blob that was not hashed before is hashed for that.
	// In doubt, as after an error, the answer is no.
	Known(ctx context.Context, ref Ref) bool
	// Has says the same and does nothing else. It may also be called after
	// the end of the batch.
	Has(ctx context.Context, ref Ref) bool
	// Commit makes all contents of the batch durable and visible, with a
	// fresh ModTime. A content that was in the store and was deleted since then is
	// an error that wraps [fs.ErrNotExist], and nothing becomes visible; after
	// other errors some contents may be visible.
	Commit(ctx context.Context) error
	// Abort drops everything that is not visible yet. It does nothing after
	// Commit.
	Abort()
}
