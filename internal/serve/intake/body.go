package intake

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/unpack"
)

var (
	// errCut is wrapped by errors of reading a request's body.
	errCut = errors.New("the body cannot be read")
	// errSlow is the error of a body below the smallest rate.
	errSlow = errors.New("the body arrives too slowly")
)

// paced reads the body of a request as long as bytes keep coming at the smallest
// rate.
type paced struct {
	r     io.Reader
	rc    *http.ResponseController
	rate  int64
	due   int64
	begun bool
}

// paceStep is the number of bytes that must arrive before the deadline moves.
const paceStep = 1 << 20

func newPaced(x *exchange) *paced {
	return &paced{r: x.r.Body, rc: http.NewResponseController(x.w), rate: x.cfg.MinRate}
}

func (p *paced) Read(b []byte) (int, error) {
	p.begun = true
	if p.due <= 0 {
		// Writers in tests have no deadlines.
		limit := time.Now().Add(30*time.Second + time.Duration(paceStep/p.rate)*time.Second)
		_ = p.rc.SetReadDeadline(limit)
		_ = p.rc.SetWriteDeadline(limit.Add(maxWork))
		p.due = paceStep
	}
	n, err := p.r.Read(b)
	p.due -= int64(n)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		p.end()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errSlow
	default:
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	return n, err
}

// maxWork limits the time of the work on an upload after its body has arrived.
const maxWork = 2 * time.Hour

// end removes the read deadline of the body. net/http would take a deadline that
// passes later for a closed connection and cancel the request.
func (p *paced) end() {
	_ = p.rc.SetReadDeadline(time.Time{})
	_ = p.rc.SetWriteDeadline(time.Now().Add(maxWork))
}

// received records that all of the body that counts has been read.
func (x *exchange) received() {
	if p, ok := x.body.(*paced); ok {
		p.end()
	}
}

// decoded returns the decoded bytes of a body. Decoding ends at the limit for
// files and for decompression.
func (x *exchange) decoded(r io.Reader, coding string) (io.ReadCloser, error) {
	coding = strings.ToLower(strings.TrimSpace(coding))
	if coding == "" || coding == "identity" {
		return io.NopCloser(r), nil
	}
	in := &counter{r: r}
	src := bufio.NewReader(in)
	var out io.ReadCloser
	var err error
	switch coding {
	case "gzip", "x-gzip":
		out, err = gzip.NewReader(src)
	case "deflate":
		// RFC 9110 means zlib; some clients send the bare format.
		if head, _ := src.Peek(2); len(head) == 2 && head[0]&15 == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			out, err = zlib.NewReader(src)
		} else {
			out = flate.NewReader(src)
		}
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20), zstd.WithDecoderLowmem(true))
		if err == nil {
			out = z.IOReadCloser()
		}
	default:
		return nil, &failure{http.StatusUnsupportedMediaType, "unsupported Content-Encoding; use gzip, deflate, zstd or none"}
	}
	if err != nil {
		return nil, damagedCoding(err)
	}
	return &decoder{ReadCloser: out, in: in}, nil
}

func damagedCoding(err error) error {
	if errors.Is(err, errCut) || errors.Is(err, errSlow) {
		return err
	}
	return &failure{http.StatusBadRequest, fmt.Sprintf("the body does not have the format of its Content-Encoding: %v", err)}
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// decoder stops decompression bombs.
type decoder struct {
	io.ReadCloser
	in *counter
	n  int64
}

func (d *decoder) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	d.n += int64(n)
	if d.n > unpack.MaxOutput(d.in.n) {
		return n, &failure{http.StatusBadRequest, "the body decompresses to too many bytes"}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = damagedCoding(err)
	}
	return n, err
}

// spoolPattern matches the files of bodies that wait.
const spoolPattern = "body-*"

// spool is a body in a file of its own. It is closed by the last user.
type spool struct {
	*os.File
	h    *service
	size int64
}

// moveTo renames the file to a name that the next process finds. The file is closed
// meanwhile: Windows renames no open file. After an error only Close may be called.
func (s *spool) moveTo(name string) error {
	if err := s.File.Close(); err != nil {
		return err
	}
	if err := durable.RetryRename(func() error { return os.Rename(s.Name(), name) }); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		_ = os.Remove(name) // the client sends it again
		return err
	}
	s.File = f
	return nil
}

// spool writes a body to a file. also receive the bytes too.
func (h *service) spool(r io.Reader, limit int64, also ...io.Writer) (*spool, error) {
	f, err := os.CreateTemp(h.cfg.Dir, spoolPattern)
	if err != nil {
		return nil, err
	}
	s := &spool{File: f, h: h}
	w := io.MultiWriter(append([]io.Writer{spoolWriter{s}}, also...)...)
	_, err = io.Copy(w, io.LimitReader(r, limit+1))
	if err == nil && s.size > limit {
		err = &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the file is larger than %d bytes", limit)}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// spoolWriter counts its bytes against the limit for all bodies.
type spoolWriter struct{ s *spool }

func (w spoolWriter) Write(b []byte) (int, error) {
	if err := w.s.h.reserve(int64(len(b))); err != nil {
		return 0, err
	}
	w.s.size += int64(len(b))
	return w.s.Write(b)
}

// reserve counts bytes that wait in the folder.
func (h *service) reserve(n int64) error {
	if h.spooled.Add(n) > h.cfg.MaxSpool {
		h.spooled.Add(-n)
		return &stage.Refusal{Kind: stage.Busy, Text: "too many bytes of unfinished uploads; try again later"}
	}
	return nil
}

// Close removes the file.
func (s *spool) Close() error {
	s.h.spooled.Add(-s.size)
	s.size = 0
	_ = s.File.Close() // it was only read since
	return os.Remove(s.Name())
}

// reader returns a reader of the whole file.
func (s *spool) reader() *io.SectionReader { return io.NewSectionReader(s, 0, s.size) }

// form is a multipart form with one file.
type form struct {
	fields map[string]string // the first value of each
	part   string            // the name of the file's part
	name   string            // the file name of the part
	file   *spool            // nil: none
}

func (f *form) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// Limits of forms.
const (
	maxField = 64 << 10 // bytes of all fields, which are kept until the form has ended
	maxParts = 128
)

// readForm reads a multipart form: fields and the one part that isFile names. The caller
// closes the form.
func (x *exchange) readForm(isFile func(field, filename string) bool) (_ *form, err error) {
	m, err := x.multipart()
	if err != nil {
		return nil, err
	}
	f := &form{fields: map[string]string{}}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	left := int64(maxField)
	for n := 0; ; n++ {
		p, err := m.NextRawPart()
		if errors.Is(err, io.EOF) {
			x.received()
			return f, nil
		}
		if err != nil {
			return nil, badForm(err)
		}
		if n == maxParts {
			return nil, &failure{http.StatusBadRequest, fmt.Sprintf("the form has more than %d parts", maxParts)}
		}
		field, filename := p.FormName(), p.FileName()
		if !isFile(field, filename) {
			b, err := readField(x, p, &left)
			if err != nil {
				return nil, err
			}
			if _, ok := f.fields[field]; !ok {
				f.fields[field] = string(b)
			}
			continue
		}
		if f.file != nil {
			return nil, &failure{http.StatusBadRequest, "the form has more than one file; send one in each request"}
		}
		body, err := x.decoded(partReader{p}, p.Header.Get("Content-Encoding"))
		if err != nil {
			return nil, err
		}
		f.part, f.name = field, filename
		f.file, err = x.spool(body, x.limit)
		body.Close()
		if err != nil {
			return nil, err
		}
	}
}

// readField reads a part of a form that is no file that is stored. left is how many bytes
// the fields may still have.
func readField(x *exchange, p *multipart.Part, left *int64) ([]byte, error) {
	b, err := x.in.Memory.Read(x.r.Context(), p, *left)
	switch {
	case errors.Is(err, body.ErrLong) && p.FileName() == "":
		return nil, longField(p.FormName())
	case err == nil && p.FileName() != "" && len(b) > 0, errors.Is(err, body.ErrLong):
		return nil, &failure{
			http.StatusBadRequest,
			fmt.Sprintf("the form has a file in the unknown part %q, which would not be kept", truncate.Text(p.FormName())),
		}
	case err != nil:
		return nil, badForm(err)
	}
	*left -= int64(len(b))
	return b, nil
}

// longField is the error for the field of a form with which its fields have too many bytes.
func longField(name string) error {
	return &failure{
		http.StatusBadRequest,
		fmt.Sprintf("the fields of the form, up to %q, have more than %d bytes", truncate.Text(name), maxField),
	}
}

// multipart returns the reader of a multipart body.
func (x *exchange) multipart() (*multipart.Reader, error) {
	kind, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, &failure{http.StatusBadRequest, "the body must be multipart/form-data"}
	}
	body, err := x.decoded(x.body, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	return multipart.NewReader(newFormEnd(body, params["boundary"]), params["boundary"]), nil
}

// formEnd is a multipart body whose closing boundary may follow a line feed alone. RFC 2046,
// section 5.1.1, wants a carriage return before it; NuGet 2 under Mono writes the line end
// of the system there, and nowhere else.
type formEnd struct {
	r    io.Reader
	last []byte // the line feed and the closing boundary
	buf  []byte
	held []byte // what was read and not given; it begins somewhere in buf
	err  error  // what reading ended with
}

// maxFormTail limits what may follow the closing boundary of such a body: line ends.
const maxFormTail = 8

func newFormEnd(r io.Reader, boundary string) *formEnd {
	return &formEnd{r: r, last: []byte("\n--" + boundary + "--"), buf: make([]byte, 16<<10)}
}

// Read gives all but the last bytes, which are given when the body has ended.
func (f *formEnd) Read(p []byte) (int, error) {
	keep := len(f.last) + maxFormTail
	for f.err == nil && len(f.held) <= keep {
		f.held = f.buf[:copy(f.buf, f.held)]
		var n int
		n, f.err = f.r.Read(f.buf[len(f.held):])
		f.held = f.buf[:len(f.held)+n]
		if errors.Is(f.err, io.EOF) {
			f.held = f.repaired()
		}
	}
	if f.err != nil {
		keep = 0
	}
	n := copy(p, f.held[:len(f.held)-keep])
	f.held = f.held[n:]
	if n == 0 && len(p) > 0 {
		return 0, f.err
	}
	return n, nil
}

// repaired is the end of the body with the carriage return in front of the closing
// boundary, and nothing behind it.
func (f *formEnd) repaired() []byte {
	i := bytes.LastIndex(f.held, f.last)
	if i < 1 || f.held[i-1] == '\r' || len(bytes.Trim(f.held[i+len(f.last):], "\r\n")) > 0 {
		return f.held
	}
	return slices.Insert(f.held[:i+len(f.last)], i, '\r')
}

// partReader marks the errors of a part as errors of the body.
type partReader struct{ p *multipart.Part }

func (r partReader) Read(b []byte) (int, error) {
	n, err := r.p.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badForm(err)
	}
	return n, err
}

func badForm(err error) error {
	var f *failure
	if errors.As(err, &f) || errors.Is(err, errSlow) || errors.Is(err, errCut) || body.Lacks(err) {
		return err
	}
	return &failure{http.StatusBadRequest, fmt.Sprintf("the multipart form is damaged: %v", err)}
}
