package web

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Content codings of uploads.
const (
	Identity  = "identity"
	zstdCoded = "zstd"
	GzipCoded = "gzip"
)

// Codings are the content codings in which bodies of uploads may come.
var Codings = []string{zstdCoded, GzipCoded}

const (
	// maxWindow is the largest window of a zstd body, which takes that much
	// memory. RFC 8878 section 3.1.1.1.2 asks for 8 MiB at least.
	maxWindow = 8 << 20
	// maxUnpacking is how many bodies are decompressed at the same time.
	maxUnpacking = 16
)

// Uploads opens the bodies of uploads.
type Uploads struct {
	Unpack chan struct{} // a semaphore: bodies that are decompressed at the same time
}

// NewUploads returns the limits that all uploads of a server share.
func NewUploads() *Uploads { return &Uploads{make(chan struct{}, maxUnpacking)} }

// Upload is the body of an upload. It checks the digest of the bytes as they
// arrived, and decompresses them. It reads nothing before the first Read.
type Upload struct {
	ctx    context.Context
	raw    io.Reader
	coding string
	sem    chan struct{}
	allow  func(time.Duration) // of the Request

	plain   io.Reader // nil before the first Read
	release func()
	err     error // why reading failed; io.EOF is no failure
}

// Open checks the header of an upload. The caller closes the upload.
func (a *Uploads) Open(r *Request) (*Upload, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ",")))
	if coding == "" {
		coding = Identity
	}
	if coding != Identity && !slices.Contains(Codings, coding) {
		return nil, &Problem{
			Word:   "coding",
			Detail: fmt.Sprintf("the content coding %.50q is not one of %s", coding, strings.Join(Codings, ", ")),
		}
	}
	want, ok, err := DigestOf(r.Header, "Content-Digest")
	if err != nil {
		return nil, err
	}
	u := &Upload{ctx: r.Context(), raw: r.Body, coding: coding, sem: a.Unpack, allow: r.Allow, release: func() {}}
	if ok {
		u.raw = &digestReader{from: r.Body, want: want, sum: sha256.New()}
	}
	return u, nil
}

// Read reads the decompressed bytes.
func (u *Upload) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.plain == nil {
		if u.err = u.open(); u.err != nil {
			u.err = u.broken(u.err)
			return 0, u.err
		}
	}
	n, err := u.plain.Read(p)
	if err != nil && err != io.EOF {
		err = u.broken(err)
	}
	if err == io.EOF {
		u.allow(CommitTime) // the content is identified, and brought to a bucket
	}
	u.err = err
	return n, err
}

// Failure returns why reading failed, or nil. It matters more than the error
// of the reader's caller.
func (u *Upload) Failure() error {
	if u.err == io.EOF {
		return nil
	}
	return u.err
}

// broken returns the problem that an error of decompression is.
func (u *Upload) broken(err error) error {
	if u.coding == Identity || AsProblem(err) != nil || isTransport(err) {
		return err
	}
	return &Problem{Word: "query", Detail: "the body is not valid " + u.coding + ": " + err.Error()}
}

// open begins to decompress.
func (u *Upload) open() error {
	if u.coding == Identity {
		u.plain = u.raw
		return nil
	}
	select {
	case u.sem <- struct{}{}:
	case <-u.ctx.Done():
		return u.ctx.Err()
	}
	raw := &markReader{from: u.raw}
	if u.coding == GzipCoded {
		u.release = func() { <-u.sem }
		z, err := gzip.NewReader(raw)
		u.plain = z
		return err
	}
	z, ok := decoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		// A concurrency of one needs no goroutines.
		one, window := zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow)
		if z, err = zstd.NewReader(nil, one, window, zstd.WithDecoderLowmem(true)); err != nil {
			<-u.sem
			return err
		}
	}
	u.release = func() {
		_ = z.Reset(nil)
		decoders.Put(z)
		<-u.sem
	}
	u.plain = z
	return z.Reset(raw)
}

// decoders are zstd decoders for reuse.
var decoders sync.Pool

// Close releases the memory of the decompressor.
func (u *Upload) Close() {
	u.release()
	u.release = func() {}
	if u.err == nil {
		u.err = io.ErrClosedPipe
	}
}

// transportError is an error of the connection, as opposed to one in the bytes.
type transportError struct{ error }

func (e transportError) Unwrap() error { return e.error }

func isTransport(err error) bool {
	_, ok := errors.AsType[transportError](err)
	return ok
}

// markReader marks the errors of the connection.
type markReader struct{ from io.Reader }

func (r *markReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		err = transportError{err}
	}
	return n, err
}

// digestReader checks the SHA-256 of the bytes that it reads. The last bytes are returned
// only if the digest is right.
type digestReader struct {
	from io.Reader
	want [sha256.Size]byte
	sum  hash.Hash
	buf  *bufio.Reader
}

func (r *digestReader) Read(p []byte) (int, error) {
	if r.buf == nil {
		r.buf = bufio.NewReaderSize(r.from, 32<<10)
	}
	n, err := r.buf.Read(p)
	r.sum.Write(p[:n])
	if err == nil {
		_, err = r.buf.Peek(1)
		if err != nil && err != io.EOF {
			return 0, err
		}
	}
	if err == io.EOF && [sha256.Size]byte(r.sum.Sum(nil)) != r.want {
		return 0, &Problem{Word: "digest", Detail: "the body does not have the SHA-256 of Content-Digest"}
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// DigestOf returns the SHA-256 in a digest field (RFC 9530), and whether there
// is one. Digests of other algorithms are ignored.
func DigestOf(h http.Header, field string) (sum [sha256.Size]byte, ok bool, err error) {
	for _, line := range h.Values(field) {
		for member := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
			if name != "sha-256" {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			value = strings.TrimSpace(value)
			b, err := base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
			if err != nil || len(b) != sha256.Size || len(value) < 2 || value[0] != ':' || value[len(value)-1] != ':' {
				return sum, false, &Problem{Word: "query", Detail: "the header field " + field + " has no valid sha-256; expected sha-256=:BASE64:"}
			}
			sum, ok = [sha256.Size]byte(b), true // the last member of a name counts (RFC 8941)
		}
	}
	return sum, ok, nil
}
