package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	defaultParallel = 4
	// askFirst is the size of a body from which the client waits for 100 Continue,
	// so that a refused body is not sent.
	askFirst = 4 << 20
	// A sample of a content is compressed to see whether the whole is compressed already: a
	// sixteenth of it, but not less than leastSample and not more than mostSample.
	leastSample, mostSample = 16 << 10, 256 << 10
	// window is the window of the zstd encoder, which the server needs as memory
	// for each upload.
	window = 1 << 20
	// uploadTime is how long an upload of a part or of a whole content may take.
	uploadTime = 20 * time.Minute
	// answerTime is how long the answer to an upload may take after the last byte was sent.
	answerTime = 2 * time.Minute
)

// uploads are the contents of a run that are sent.
type uploads struct {
	r        *run
	queue    chan []*found // each group is sent in one request if it has several contents
	requests chan struct{} // a semaphore
	mu       sync.Mutex    // guards taken
	taken    map[blob.Ref]bool
}

func (u *uploads) init(r *run) {
	n := cmp.Or(r.p.Parallel, defaultParallel)
	u.r, u.queue, u.requests, u.taken = r, make(chan []*found, n), make(chan struct{}, n), map[blob.Ref]bool{}
}

// add queues contents that were not queued before.
func (u *uploads) add(ctx context.Context, list []*found) error {
	for _, group := range u.groups(list) {
		select {
		case u.queue <- group:
		case <-ctx.Done():
			for _, f := range group {
				f.file.Discard()
			}
		}
	}
	return ctx.Err()
}

// isNew reports whether a content was not queued before.
func (u *uploads) isNew(f *found) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	again := u.taken[f.ref]
	u.taken[f.ref] = true
	return !again
}

// end ends the queue.
func (u *uploads) end() { close(u.queue) }

// work sends contents until the queue ends.
func (u *uploads) work(ctx context.Context) error {
	for group := range u.queue {
		err := u.sendGroup(ctx, group)
		for _, f := range group {
			f.file.Discard()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendAlone sends one content, and reports if the server refuses it.
func (u *uploads) sendAlone(ctx context.Context, f *found) error {
	err := u.send(ctx, f)
	if answer, ok := errors.AsType[*answerError](err); ok && answer.is("not-symbol") {
		u.r.answered(f, wire.PushVerdict{Answer: wire.PushRefuse, Reason: answer.Detail})
		return nil
	}
	return err
}

// send sends one content, whole or in parts.
func (u *uploads) send(ctx context.Context, f *found) error {
	c, err := f.file.Open(ctx)
	if err != nil {
		return &endpoint.LocalError{What: "read " + f.file.Path, Err: err}
	}
	defer c.Close()
	if c.Size() != f.Size {
		return &endpoint.LocalError{What: "read " + f.file.Path, Err: errChanged}
	}
	from := &source{Content: c}
	from.encode = u.packs(c)
	if err := u.compare(ctx, f, from); err != nil {
		return err
	}
	if err = u.sendFrom(ctx, f, from); err != nil {
		if err = u.prepareAgain(ctx, f, from, err); err == nil {
			err = u.sendFrom(ctx, f, from)
		}
	}
	if answer, ok := errors.AsType[*answerError](err); ok && answer.is("digest") {
		return fmt.Errorf("send %s: %w", f.file.Path, err)
	}
	if err != nil {
		return err
	}
	u.r.mu.Lock()
	u.r.res.SentFiles++
	u.r.mu.Unlock()
	return nil
}

// packs reports whether a content is sent compressed.
func (u *uploads) packs(c *scan.Content) bool {
	return !u.r.p.Plain && slices.Contains(u.r.limits.Encodings, "zstd") && compressible(c, c.Size())
}

// prepareAgain prepares the second attempt to send a content, if its first one has failed for a
// reason that the second one avoids: it is sent without a recipe, and with a hash of each part.
// Otherwise it returns the error of the push.
func (u *uploads) prepareAgain(ctx context.Context, f *found, c *source, failed error) error {
	answer, ok := errors.AsType[*answerError](failed)
	switch {
	case !ok:
		return failed
	case answer.is("digest"):
		ref, _, err := blob.Hash(ctx, c.Reader())
		if err != nil {
			return &endpoint.LocalError{What: "read " + f.file.Path, Err: err}
		}
		if ref != f.ref {
			u.r.p.unhash(c.Content)
			return &endpoint.LocalError{What: "read " + f.file.Path, Err: errOther}
		}
	case answer.is("query") && (c.recipe != nil || c.encode):
	case answer.is("not-found") && c.recipe != nil:
		c.recipe = nil // the base was removed meanwhile
		return nil
	default:
		return failed
	}
	if tell := u.r.p.Retrying; tell != nil {
		tell(fmt.Errorf("%s has arrived damaged and is sent again: %w", f.file.Path, failed), 0)
	}
	c.recipe, c.encode, c.sumParts = nil, false, true
	return nil
}

// errOther means that a content is not the one that was hashed.
var errOther = errors.New("it has changed since it was hashed; push again")

// sendFrom sends a content as c says.
func (u *uploads) sendFrom(ctx context.Context, f *found, c *source) error {
	path := stagePath(u.r.res.Stage) + "/contents/" + f.SHA256
	if f.Size < u.r.limits.WholeBelow || c.isShort(&u.r.limits) {
		return u.piece(ctx, path, c, 0, f.Size, http.Header{"Repr-Digest": {digest(f.ref)}})
	}
	return u.parts(ctx, path, f, c)
}

// parts sends the parts of a content that the server lacks.
func (u *uploads) parts(ctx context.Context, path string, f *found, c *source) error {
	var have wire.PushParts
	if _, err := u.r.p.do(ctx, exchange{method: http.MethodGet, path: path + "/parts", into: &have}); err != nil {
		return err
	}
	size := u.r.limits.Part
	count := (f.Size + size - 1) / size
	got := parseRanges(have.Got, count)
	parent := ctx
	g, ctx := errgroup.WithContext(ctx)
	for n := range count {
		if got[n] {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		select {
		case u.requests <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		g.Go(func() error {
			defer func() { <-u.requests }()
			header := http.Header{wire.UploadLength: {strconv.FormatInt(f.Size, 10)}}
			return u.send1(ctx, path+"/parts/"+strconv.FormatInt(n, 10), c, n*size, min(size, f.Size-n*size), header)
		})
	}
	return errors.Join(g.Wait(), parent.Err())
}

// piece sends a piece of a content when there is room for another request.
func (u *uploads) piece(ctx context.Context, path string, c *source, off, n int64, header http.Header) error {
	select {
	case u.requests <- struct{}{}:
		defer func() { <-u.requests }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return u.send1(ctx, path, c, off, n, header)
}

// send1 sends a piece of a content in one request.
func (u *uploads) send1(ctx context.Context, path string, c *source, off, n int64, header http.Header) error {
	plain, size := func() io.Reader { return io.NewSectionReader(c, off, n) }, n
	body := func() io.Reader {
		if f := c.reopen(off, n); f != nil {
			return f
		}
		return plain()
	}
	if c.recipe != nil {
		_, size = c.recipe.Open(c, off, n)
		plain = func() io.Reader {
			written, _ := c.recipe.Open(c, off, n)
			return written
		}
		body = plain
		header.Set(wire.UploadBase, c.base)
	}
	header.Set("Content-Type", "application/octet-stream")
	if c.encode {
		// Not reused: the transport may still read it when the server has answered.
		buf := bytes.NewBuffer(make([]byte, 0, size/2))
		if err := compress(buf, plain()); err != nil {
			return &endpoint.LocalError{What: "read a file", Err: err}
		}
		if int64(buf.Len()) < size {
			body, size = func() io.Reader { return bytes.NewReader(buf.Bytes()) }, int64(buf.Len())
			header.Set("Content-Encoding", "zstd")
		}
	}
	if header.Get(wire.UploadLength) != "" && (c.sumParts || !u.r.limits.BareParts) {
		h := sha256.New()
		r := body()
		_, err := io.Copy(h, r)
		if f, ok := r.(io.Closer); ok {
			_ = f.Close() // only read
		}
		if err != nil {
			return &endpoint.LocalError{What: "read a file", Err: err}
		}
		header.Set("Content-Digest", digest(blob.Ref(h.Sum(nil))))
	}
	if size >= askFirst {
		header.Set("Expect", "100-continue")
	}
	put := exchange{method: http.MethodPut, path: path, header: header, body: body, size: size, timeout: uploadTime, answer: answerTime}
	if _, err := u.r.p.do(ctx, put); err != nil {
		return err
	}
	u.r.mu.Lock()
	u.r.res.SentBytes += n
	u.r.res.WireBytes += size
	u.r.mu.Unlock()
	u.r.progress(n)
	return nil
}

// reopen returns n bytes of the file on disk of which c is the content, so that the system can send
// them. It is nil if there is no such file.
func (c *source) reopen(off, n int64) *fileRange {
	f := c.Reopen()
	if f == nil {
		return nil
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		_ = f.Close() // only read
		return nil
	}
	return &fileRange{f, off + n}
}

// fileRange reads a file from its position to an end. It is a syscall.Conn so that the kernel
// sends its bytes, if the connection is not encrypted.
type fileRange struct {
	f   *os.File
	end int64
}

// Read implements io.Reader.
func (r *fileRange) Read(p []byte) (int, error) {
	at, err := r.f.Seek(0, io.SeekCurrent) // the kernel may have sent some
	if err != nil {
		return 0, err
	}
	if at >= r.end {
		return 0, io.EOF
	}
	return r.f.Read(p[:min(int64(len(p)), r.end-at)])
}

// Close implements io.Closer.
func (r *fileRange) Close() error { return r.f.Close() }

// SyscallConn implements syscall.Conn.
func (r *fileRange) SyscallConn() (syscall.RawConn, error) { return r.f.SyscallConn() }

// digest returns the value of a digest field (RFC 9530).
func digest(ref blob.Ref) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(ref[:]) + ":"
}

// encoders are zstd encoders for reuse.
var encoders = sync.Pool{New: func() any {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(3)), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return z
}}

func compress(w io.Writer, r io.Reader) error {
	z := encoders.Get().(*zstd.Encoder)
	defer encoders.Put(z)
	z.Reset(w)
	_, err := io.Copy(z, r)
	return errors.Join(err, z.Close())
}

// compressible reports whether a sample of a content gets shorter by a twentieth:
// compressed contents do not.
func compressible(c io.ReaderAt, size int64) bool {
	n := min(size, max(leastSample, min(size/16, mostSample)))
	var buf bytes.Buffer
	if compress(&buf, io.NewSectionReader(c, (size-n)/2, n)) != nil {
		return false
	}
	return int64(buf.Len()) < n-n/20
}

// parseRanges reads ranges of numbers below count, such as "0-11,13".
func parseRanges(s string, count int64) map[int64]bool {
	out := map[int64]bool{}
	for part := range strings.SplitSeq(s, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		a, err := strconv.ParseInt(from, 10, 64)
		b, err2 := strconv.ParseInt(to, 10, 64)
		if err != nil || err2 != nil || a < 0 {
			continue
		}
		for n := a; n <= b && n < count; n++ {
			out[n] = true
		}
	}
	return out
}

// sourceReader remembers an error of this machine in reading a body.
type sourceReader struct {
	r      io.Reader
	mu     sync.Mutex // guards failed: the transport may read after the answer
	failed error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.mu.Lock()
		s.failed = &endpoint.LocalError{What: "read a file", Err: err}
		s.mu.Unlock()
	}
	return n, err
}

func (s *sourceReader) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
