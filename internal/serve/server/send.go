package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// encodeMin is the size in bytes from which a compressed variant is looked for.
const encodeMin = 1 << 10

// delivery is a file that is sent, with what the protocols do differently.
type delivery struct {
	file *answer.File
	// encode allows a content coding.
	encode bool
	// modified allows Last-Modified and the conditions that compare with it.
	modified bool
	// unconditional ignores the headers of conditional requests.
	unconditional bool
	// header sets the fields of a successful answer. body is the file, or its
	// compressed variant; its ETag is set already.
	header func(h http.Header, body *answer.File)
	// refusal is the Cache-Control of 412 and 416.
	refusal []string
	// keep lets the answer be kept in memory.
	keep bool
	// sent, if not nil, is called after a body was sent.
	sent func()
}

// deliver answers with a file: with its bytes, with the part of them that was
// requested, or with the result of a conditional request.
func (s *service) deliver(x *exchange, r *http.Request, d *delivery) {
	h, f := x.Header(), d.file
	body := f
	if enc := s.encoded(x, r, d); enc != nil {
		defer func() { _ = enc.Close() }()
		body = enc
		h["Content-Encoding"] = []string{enc.Encoding}
	}
	tag, modified := d.describe(h, body)
	if !d.unconditional {
		switch status := precondition(r.Header, tag, modified); status {
		case http.StatusNotModified:
			s.reads.Count(f, x.start)
			delete(h, "Content-Type")
			delete(h, "Content-Encoding")
			x.WriteHeader(status)
			return
		case http.StatusPreconditionFailed:
			s.refuse(x, d, status, "precondition failed\n")
			return
		}
	}
	p := partOf(r.Header, body, tag, modified)
	if p.status == http.StatusRequestedRangeNotSatisfiable {
		h["Content-Range"] = []string{p.contentRange}
		s.refuse(x, d, p.status, "the file has "+itoa(body.Size)+" bytes\n")
		return
	}
	s.reads.Count(f, x.start)
	if p.contentRange != "" {
		h["Content-Range"] = []string{p.contentRange}
	}
	if p.n >= 0 {
		h["Content-Length"] = contentLength(p.n)
	}
	switch {
	case r.Method == http.MethodHead:
		x.WriteHeader(p.status)
		return
	case d.keep && x.memory.keep && p.status == http.StatusOK && p.n >= 0 && !body.Growing && p.n <= s.hot.longest(x.memory.key.path):
		x.err = s.keep(x, body, p.n)
	default:
		x.err = s.copyBody(x, body, p)
		x.abort = x.err != nil && body.Growing
	}
	if x.err != nil && x.status == 0 { // nothing was sent yet
		forgetFile(h)
		delete(h, "Content-Range")
		x.abort = false
		if broken, ok := errors.AsType[*fetch.BrokenError](x.err); ok {
			x.err = broken.Unsent()
		}
		s.fail(x, x.err)
		return
	}
	if d.sent != nil {
		d.sent()
	}
}

// describe sets the fields of a successful answer that do not depend on the request's
// range, and returns what conditions compare with.
func (d *delivery) describe(h http.Header, body *answer.File) (tag string, modified time.Time) {
	if !body.Growing { // else it is not known before the end
		tag = `"` + body.ETag + `"`
		h["Etag"] = []string{tag}
	}
	h["Accept-Ranges"] = bytesUnit
	d.header(h, body)
	if d.modified && !d.file.ModTime.IsZero() {
		modified = d.file.ModTime.Truncate(time.Second)
		h["Last-Modified"] = []string{modified.UTC().Format(http.TimeFormat)}
	}
	return tag, modified
}

// refuse answers with an error in place of a file whose header is set already.
func (s *service) refuse(x *exchange, d *delivery, status int, text string) {
	h := x.Header()
	forgetFile(h)
	h["Cache-Control"] = d.refusal
	s.text(x, status, text)
}

// forgetFile removes the fields that describe a file.
func forgetFile(h http.Header) {
	for _, k := range [...]string{"Etag", "Last-Modified", "Content-Encoding", "Content-Length"} {
		delete(h, k)
	}
}

// encoded returns a compressed variant of a delivery's file in a content coding
// that the client accepts, or nil.
func (s *service) encoded(x *exchange, r *http.Request, d *delivery) *answer.File {
	if !d.encode || r.Header["Accept-Encoding"] == nil || r.Header["Range"] != nil || d.file.Size < encodeMin {
		return nil
	}
	codings := acceptedCodings(r.Header["Accept-Encoding"])
	if len(codings) == 0 {
		return nil
	}
	enc, err := s.depot.Encoded(r.Context(), d.file, codings)
	if err != nil {
		s.cfg.Log.Warn("a compressed variant cannot be read", "content", d.file.Ref.String(), "error", err)
	}
	if enc == nil {
		x.memory.until = x.start.Add(hotBrief) // it may be ready soon
	}
	return enc
}

// part is the part of a file that an answer has.
type part struct {
	off, n       int64 // n is negative while the size is unknown
	status       int
	contentRange string
}

// partOf evaluates the Range header.
func partOf(h http.Header, body *answer.File, tag string, modified time.Time) part {
	size, ranges := body.Size, h["Range"]
	whole := part{0, size, http.StatusOK, ""}
	if len(ranges) != 1 || !ifRange(h, tag, modified) {
		return whole
	}
	if size < 0 {
		if off, n, ok := arrivingRange(ranges[0], body); ok {
			return part{off, n, http.StatusPartialContent, "bytes " + itoa(off) + "-" + itoa(off+n-1) + "/*"}
		}
		return whole
	}
	switch off, n, kind := parseRange(ranges[0], size); kind {
	case rangeOne:
		return part{off, n, http.StatusPartialContent, "bytes " + itoa(off) + "-" + itoa(off+n-1) + "/" + itoa(size)}
	case rangeNone:
		return part{status: http.StatusRequestedRangeNotSatisfiable, contentRange: "bytes */" + itoa(size)}
	}
	return whole
}

// copyBody sends the status and a part of f. If the first bytes cannot be read, nothing is
// sent. A client that receives too slowly is cut off.
func (s *service) copyBody(x *exchange, f *answer.File, p part) error {
	off, n := p.off, p.n
	var rc *http.ResponseController
	if n < 0 || n > copyStep/4 {
		rc = http.NewResponseController(x.w)
	}
	if file := f.OSFile(); file != nil && (n >= 0 || f.Growing) {
		x.WriteHeader(p.status)
		return s.sendFile(x, rc, f, file, off, n)
	}
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	if n == 0 {
		x.WriteHeader(p.status)
	}
	for left := copyStep; n != 0; {
		want := int64(len(buf))
		if n > 0 {
			want = min(want, n)
		}
		if left += int(want); rc != nil && left > copyStep {
			s.allow(rc, copyStep)
			left = 0
		}
		m, err := f.ReadAt(buf[:want], off)
		if n > 0 && int64(m) == n && f.Changed() {
			return fmt.Errorf("%s has changed while it was sent: %w", f.Object.Name, fs.ErrNotExist)
		}
		if x.status == 0 && (m > 0 || err == nil || errors.Is(err, io.EOF)) {
			x.WriteHeader(p.status)
		}
		if m > 0 {
			if _, werr := x.Write(buf[:m]); werr != nil {
				return werr
			}
			off += int64(m)
			if n > 0 {
				n -= int64(m)
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && n <= 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
	return nil
}

// sendFile lets the kernel copy the bytes of a file on disk to the connection.
func (s *service) sendFile(x *exchange, rc *http.ResponseController, f *answer.File, file *os.File, off, n int64) error {
	if off > 0 {
		if _, err := file.Seek(off, io.SeekStart); err != nil {
			return err
		}
	}
	if rc != nil {
		// After the header is sent, the kernel can copy whole pages from the
		// first byte on. A writer that cannot flush does not need to.
		_ = rc.Flush()
	}
	src := &io.LimitedReader{R: file}
	for due := int64(0); n != 0; {
		if rc != nil && due <= 0 {
			s.allow(rc, copyStep)
			due = copyStep
		}
		step := int64(copyStep)
		if f.Growing {
			there, err := f.Arrived(off)
			if err == io.EOF && n < 0 {
				return nil
			}
			if err != nil {
				return noEOF(err)
			}
			step = min(step, there)
		}
		if n > 0 {
			step = min(n, step)
		}
		src.N = step
		m, err := x.ReadFrom(src)
		if err != nil {
			return err
		}
		if m < step {
			return io.ErrUnexpectedEOF // net/http breaks the connection
		}
		if off += m; n > 0 {
			n -= m
		}
		due -= m
	}
	return nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

const copyBuffer = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}
