package stage

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // an id of a protocol
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = "tmp-"

// A content is written in steps of a long buffer, as long as few are received at once, and
// of a short one otherwise: hundreds of long ones would be most of the server's memory.
//
// A few contents of known size that fit into a whole buffer stay in memory until they are
// identified, which would read them from the file otherwise. They are written in steps, too: what
// has just come from the network is still in the cache of the processor when it is hashed and
// written.
const (
	longBuffer, shortBuffer     = 128 << 10, 16 << 10
	wholeBuffer, wholeStep      = 2 << 20, 64 << 10
	maxLongBuffers, maxInMemory = 32, 4
)

var (
	longBuffers  = sync.Pool{New: func() any { return new([longBuffer]byte) }}
	shortBuffers = sync.Pool{New: func() any { return new([shortBuffer]byte) }}
	wholeBuffers = sync.Pool{New: func() any { return new([wholeBuffer]byte) }}
	longInUse    atomic.Int32
	inMemory     atomic.Int32
)

// takeWhole returns a buffer that has room for a content of size bytes and one more, and a function
// that takes it back. It is nil if the size is not known, or too large, or if too many are in use.
func takeWhole(size int64) (buf []byte, release func()) {
	if size < 0 || size >= wholeBuffer {
		return nil, nil
	}
	if inMemory.Add(1) > maxInMemory {
		inMemory.Add(-1)
		return nil, nil
	}
	b := wholeBuffers.Get().(*[wholeBuffer]byte)
	return b[:], func() {
		wholeBuffers.Put(b)
		inMemory.Add(-1)
	}
}

// takeBuffer returns a buffer to copy with, and a function that takes it back.
func takeBuffer() (buf []byte, release func()) {
	if longInUse.Add(1) > maxLongBuffers {
		longInUse.Add(-1)
		b := shortBuffers.Get().(*[shortBuffer]byte)
		return b[:], func() { shortBuffers.Put(b) }
	}
	b := longBuffers.Get().(*[longBuffer]byte)
	return b[:], func() {
		longBuffers.Put(b)
		longInUse.Add(-1)
	}
}

// spool is the folder of the staged bytes: a folder for each stage, with a file for each
// content.
type spool struct {
	db        index.Stages
	depot     Depot
	dir       string
	limits    Limits
	perm      fs.FileMode
	began     time.Time // files of before may have been damaged by a power loss
	now       func() time.Time
	receiving atomic.Int64 // bytes of whole contents that are being received
}

// begin reserves space for a whole content until end is called.
func (s *spool) begin(ctx context.Context, row stages.StageRow, size int64) (end func(), err error) {
	if err := s.room(ctx, row, size); err != nil {
		return nil, err
	}
	s.receiving.Add(size)
	return func() { s.receiving.Add(-size) }, nil
}

// room returns an error for size more bytes for a stage if the stages hold too many or the disk
// is full.
func (s *spool) room(ctx context.Context, row stages.StageRow, size int64) error {
	total, free, err := s.depot.Space()
	if err != nil {
		total, free = 0, 1<<62 // not known
	}
	staged, least := s.limits.Staged, s.limits.Free
	if staged == 0 {
		staged = 64 << 30
		if total > 0 {
			staged = min(staged, total/10)
		}
	}
	if least == 0 && total > 0 {
		least = min(10<<30, total/20)
	}
	if free-size < least {
		return refuse(NoSpace, "the disk of the server is nearly full: %d bytes do not fit; nothing was lost, try again later", size)
	}
	if row.Staged+size > staged {
		return refuse(NoSpace, "the push holds %d bytes, and this server keeps at most %d for all unfinished pushes: push "+
			"fewer files at once, or use symdepot add on the server", row.Staged+size, staged)
	}
	held, err := s.db.Staged(ctx)
	held += s.receiving.Load()
	if err == nil && held+size > staged {
		err = refuse(Busy, "unfinished pushes hold %d bytes, and the limit is %d; try again later", held, staged)
	}
	return err
}

// temp is a file of a stage that was written, or that is being written.
type temp struct {
	path string
	size int64
	ref  blob.Ref
	sha1 string
	// whole are its bytes, if they are in memory; release gives the memory back.
	whole   []byte
	release func()
}

// remove removes the file, unless it was renamed, and gives back its memory.
func (t *temp) remove() {
	_ = os.Remove(t.path)
	t.forget()
}

// forget gives back the memory of the file, if it has any.
func (t *temp) forget() {
	if t.release != nil {
		t.release()
	}
	t.whole, t.release = nil, nil
}

// open opens the complete file for reading. done gives back its memory.
func (t *temp) open() (r io.ReaderAt, done func(), err error) {
	if t.whole != nil {
		return bytes.NewReader(t.whole), t.forget, nil
	}
	f, err := durable.OpenShared(t.path)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil // only read
}

// folder returns the folder of a stage.
func (s *spool) folder(id string) string { return filepath.Join(s.dir, id) }

// path returns the name of the file of a whole content.
func (s *spool) path(id string, ref blob.Ref) string {
	return filepath.Join(s.folder(id), ref.String())
}

func rename(from, to string) error {
	return durable.RetryRename(func() error { return os.Rename(from, to) })
}

func (s *spool) create(id string) (*os.File, error) {
	if err := os.MkdirAll(s.folder(id), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(s.folder(id), tempPrefix+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.perm)
}

// receive writes a body to a file and hashes it. size is that of the body; -1 is
// unknown, and the SHA-1 is computed too.
func (s *spool) receive(ctx context.Context, id string, size int64, body io.Reader) (*temp, error) {
	f, err := s.create(id)
	if err != nil {
		return nil, err
	}
	t := &temp{path: f.Name()}
	limit := size
	sum, old := sha256.New(), hash.Hash(nil)
	to := io.MultiWriter(f, sum)
	if size < 0 {
		limit, old = s.limits.MaxFile, sha1.New() //nolint:gosec // an id of a protocol
		to = io.MultiWriter(f, sum, old)
	}
	var buf []byte
	if buf, t.release = takeWhole(size); buf == nil {
		t.size, err = s.copy(ctx, id, to, io.LimitReader(body, limit+1))
	} else if t.size, err = s.copyWith(ctx, id, to, io.LimitReader(body, limit+1), buf, wholeStep); err == nil {
		t.whole = buf[:t.size]
	}
	beginWriting(s.depot, f, 0, t.size)
	err = errors.Join(err, f.Close())
	switch {
	case err != nil:
	case t.size > limit && size < 0:
		err = refuse(TooLarge, "the file has more than %d bytes, the limit", limit)
	case t.size > limit:
		err = refuse(WrongHash, "the content has more than the announced %d bytes", size)
	case size >= 0 && t.size < size:
		err = refuse(WrongHash, "the content has %d bytes instead of the announced %d", t.size, size)
	}
	if err != nil {
		t.remove()
		return nil, err
	}
	sum.Sum(t.ref[:0])
	if old != nil {
		t.sha1 = hex.EncodeToString(old.Sum(nil))
	}
	return t, nil
}

// beginWriting has the disk begin to write n bytes of a file, so that the commit
// waits less. In a bucket they are not kept.
func beginWriting(d Depot, f *os.File, off, n int64) {
	if !d.InBucket() {
		durable.StartWriting(f, off, n)
	}
}

// touchEvery is the interval at which a slow transfer records that its stage is in use.
const touchEvery = time.Minute

// copy copies a body and keeps the stage alive meanwhile. It writes whole buffers: a
// file system keeps aligned blocks in fewer steps than the pieces that a network
// brings.
func (s *spool) copy(ctx context.Context, id string, w io.Writer, r io.Reader) (n int64, err error) {
	buf, release := takeBuffer()
	defer release()
	return s.copyWith(ctx, id, w, r, buf, len(buf))
}

// copyWith is copy with a buffer, which it writes in steps. A buffer of more than one step has all
// bytes in the end, and has room for them.
func (s *spool) copyWith(ctx context.Context, id string, w io.Writer, r io.Reader, buf []byte, step int) (n int64, err error) {
	from, to := 0, 0 // what is in buf and not yet written
	for touched := s.now(); ; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, rerr := r.Read(buf[to:min(from+step, len(buf))])
		to += m
		if to == from+step || to == len(buf) || rerr != nil {
			if _, err := w.Write(buf[from:to]); err != nil {
				return n, err
			}
			n += int64(to - from)
			if from = to; step == len(buf) {
				from, to = 0, 0
			}
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
		if now := s.now(); now.Sub(touched) > touchEvery {
			touched = now
			if err := s.db.Touch(ctx, id); err != nil {
				return n, err
			}
		}
	}
}

var errObjectSize = errors.New("the size of an object in it differs from the recorded one")

// keepObject keeps an object that is a part of a file.
func (s *spool) keepObject(ctx context.Context, id string, f io.ReaderAt, size int64, o objfile.Object) (record.Content, error) {
	t, err := s.receive(ctx, id, o.Size, s.depot.ObjectReader(f, size, o))
	if r, ok := errors.AsType[*Refusal](err); ok && r.Kind == WrongHash {
		err = fmt.Errorf("%w: %w", objfile.ErrBroken, errObjectSize)
	}
	if err != nil {
		return record.Content{}, err
	}
	defer t.remove()
	c := record.Content{Ref: t.ref, Size: t.size}
	if !s.depot.InBucket() {
		return c, rename(t.path, s.path(id, t.ref))
	}
	g, err := os.Open(t.path)
	if err != nil {
		return c, err
	}
	defer func() { _ = g.Close() }() // only read
	return c, s.depot.Place(ctx, c, g)
}

// intact reports whether a file has its content. One that was written before this
// process began is hashed: a power loss may have damaged it.
func (s *spool) intact(ctx context.Context, id string, ref blob.Ref, size int64, info fs.FileInfo) (bool, error) {
	if info.Size() != size || info.ModTime().After(s.began) {
		return info.Size() == size, nil
	}
	f, err := os.Open(s.path(id, ref))
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	sum := sha256.New()
	if _, err := s.copy(ctx, id, sum, f); err != nil {
		return false, err
	}
	return blob.Ref(sum.Sum(nil)) == ref, nil
}
