package server

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// encodeMin is the size in bytes from which a compressed answer is looked for.
const encodeMin = 1 << 10

// symbol answers what a symbol path asks for.
func (s *Server) symbol(x *exchange, r *http.Request, req *layout.Request) {
	h := x.Header()
	allowOrigin(h)
	msfz := acceptsMSFZ(r.Header["Accept"])
	if msfz {
		req.AcceptMSFZ()
	}
	f, err := s.open(x, r, req)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			x.result = resultMiss
		} else {
			x.result = resultError
		}
		if err != errNotQuick { // net/http gets the request then
			s.fail(x, err)
		}
		return
	}
	defer func() { _ = f.Close() }()
	x.result = resultHit
	if f.Redirect != "" {
		s.redirect(x, r, x.who.below()+req.Prefix+"/"+f.Redirect)
		return
	}
	if req.Layout == layout.Debuginfod {
		if err := s.debuginfodHeaders(h, r, f); err != nil {
			s.fail(x, err)
			return
		}
	}
	s.file(x, r, req, f)
}

// redirect sends a client that knows only a module's code id to the path that
// has the debug id, which some clients read from the Location itself.
func (s *Server) redirect(x *exchange, r *http.Request, path string) {
	h := x.Header()
	loc := escapePath(path)
	if _, query, ok := strings.Cut(r.RequestURI, "?"); ok {
		loc += "?" + query
	}
	h["Location"] = []string{loc}
	h["Cache-Control"] = noCache
	s.text(x, http.StatusFound, "found\n")
}

// escapePath escapes what may not stand in a path. Slashes stay; whatever
// could be read as the beginning of a host does not arise, as no segment of a
// path is empty.
func escapePath(p string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(p) {
		c := p[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/$&,;=@!'()*", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// file answers with a file's bytes, or with the part of them that was asked
// for, or that the client has them already.
func (s *Server) file(x *exchange, r *http.Request, req *layout.Request, f *depot.File) {
	h := x.Header()
	size := f.Size
	ranges := r.Header["Range"]
	body := f
	if r.Header["Accept-Encoding"] != nil && ranges == nil && size >= encodeMin && req.Form != layout.FormCabinet {
		enc, waiting, err := s.encoded(r, f)
		if err != nil {
			s.cfg.Log.Warn("no compressed variant could be read", "content", f.Ref.String(), "error", err)
		}
		if enc != nil {
			defer func() { _ = enc.Close() }()
			body, size = enc, enc.Size
			h["Content-Encoding"] = []string{enc.Encoding}
		}
		x.notSoon = waiting
	}
	s.fileHeaders(h, req, body)
	if body.Growing {
		delete(h, "Etag") // it is not known before the end
	}
	var mod time.Time
	if !f.ModTime.IsZero() {
		mod = f.ModTime.Truncate(time.Second)
		h["Last-Modified"] = []string{mod.UTC().Format(http.TimeFormat)}
	}
	tag := ""
	if !body.Growing {
		tag = h["Etag"][0]
	}
	switch status := precondition(r.Header, tag, mod); status {
	case http.StatusNotModified:
		delete(h, "Content-Type")
		delete(h, "Content-Encoding")
		x.WriteHeader(status)
		return
	case http.StatusPreconditionFailed:
		forgetFile(h)
		s.text(x, status, "precondition failed\n")
		return
	}
	off, n, status := int64(0), size, http.StatusOK
	if len(ranges) == 1 && size < 0 && ifRange(r.Header, tag, mod) {
		if first, count, ok := arrivingRange(ranges[0], body); ok {
			off, n, status = first, count, http.StatusPartialContent
			h["Content-Range"] = []string{"bytes " + itoa(off) + "-" + itoa(off+n-1) + "/*"}
		}
	}
	if len(ranges) == 1 && size >= 0 && ifRange(r.Header, tag, mod) {
		switch first, count, kind := parseRange(ranges[0], size); kind {
		case rangeOne:
			off, n, status = first, count, http.StatusPartialContent
			h["Content-Range"] = []string{"bytes " + itoa(off) + "-" + itoa(off+n-1) + "/" + itoa(size)}
		case rangeNone:
			forgetFile(h)
			h["Content-Range"] = []string{"bytes */" + itoa(size)}
			s.text(x, http.StatusRequestedRangeNotSatisfiable, "the file has "+itoa(size)+" bytes\n")
			return
		}
	}
	if n >= 0 {
		h["Content-Length"] = []string{itoa(n)}
	}
	x.WriteHeader(status)
	if r.Method != http.MethodHead {
		x.err = s.copyBody(x, body, off, n)
		x.abort = x.err != nil && body.Growing
		s.audit(x, r, req, f)
	}
}

// fileHeaders sets what is the same for every answer of a file.
func (s *Server) fileHeaders(h http.Header, req *layout.Request, body *depot.File) {
	h["Etag"] = []string{`"` + body.ETag + `"`}
	h["Accept-Ranges"] = bytesUnit
	h["Content-Type"] = octetStream
	if body.Object.Kind == symfile.Breakpad || req.Form == layout.FormAdmin {
		h["Content-Type"] = plainText
	}
	h["Cache-Control"] = s.lasting(immutable)
	if req.Form == layout.FormAdmin {
		h["Cache-Control"] = noCache
	} else if body.Volatile {
		h["Cache-Control"] = s.lasting(shortLived) // somebody else may be writing it just now
	}
	if o := &body.Object; req.Age != nil && (o.Kind == symfile.PDB || o.Kind == symfile.MSFZ) &&
		o.DebugID.GUID == req.Age.GUID && o.DebugID.Age != req.Age.Age && o.InfoAge != req.Age.Age && !o.NoDBI {
		// A PDB of a higher age answers only until the right one is there.
		h["Cache-Control"] = s.lasting(shortLived)
	}
	vary := "Accept-Encoding"
	if req.Form == layout.FormSection || req.Form == layout.FormCabinet || body.Size >= 0 && body.Size < encodeMin && body.Encoding == "" {
		vary = ""
	}
	if req.Name != "" && (body.Object.Kind == symfile.PDB || body.Object.Kind == symfile.MSFZ) {
		vary = strings.TrimPrefix(vary+", Accept", ", ")
	}
	if vary != "" {
		h["Vary"] = []string{vary}
	}
}

// forgetFile takes back what fileHeaders said, for an answer that is no file.
func forgetFile(h http.Header) {
	for _, k := range []string{"Etag", "Last-Modified", "Content-Encoding", "Vary"} {
		delete(h, k)
	}
	h["Cache-Control"] = noCache
}

// encoded returns a compressed variant of f in a coding that the client takes,
// or nil. waiting reports that one may be there later.
func (s *Server) encoded(r *http.Request, f *depot.File) (enc *depot.File, waiting bool, err error) {
	codings := acceptedCodings(r.Header["Accept-Encoding"])
	if len(codings) == 0 {
		return nil, false, nil
	}
	enc, err = s.symbols.Encoded(r.Context(), f, codings)
	return enc, enc == nil, err
}

// copyBody sends n bytes of f from off, all of them if n is negative. A client
// that takes nothing for too long is given up.
func (s *Server) copyBody(x *exchange, f *depot.File, off, n int64) error {
	var rc *http.ResponseController
	if n < 0 || n > copyStep/4 {
		rc = http.NewResponseController(x.w)
	}
	if file := f.OSFile(); file != nil && (n >= 0 || f.Growing) {
		return s.sendFile(x, rc, f, file, off, n)
	}
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
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

// sendFile lets the kernel copy, from where the file stands.
func (s *Server) sendFile(x *exchange, rc *http.ResponseController, f *depot.File, file *os.File, off, n int64) error {
	if off > 0 {
		if _, err := file.Seek(off, io.SeekStart); err != nil {
			return err
		}
	}
	if rc != nil {
		// Once the header is out, all bytes are the kernel's to copy, whole
		// pages from the first on. A writer that cannot flush has no need to.
		_ = rc.Flush()
	}
	src := &io.LimitedReader{R: file}
	for due := int64(0); n != 0; {
		if rc != nil && due <= 0 {
			s.allow(rc, copyStep)
			due = copyStep
		}
		step := int64(sendStep)
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
			return io.ErrUnexpectedEOF // net/http then breaks the connection
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

// precondition evaluates the conditional headers in the order of RFC 9110,
// section 13.2.2; 0 means go on.
func precondition(h http.Header, tag string, mod time.Time) int {
	if im := h["If-Match"]; im != nil {
		if !matches(im, tag, true) {
			return http.StatusPreconditionFailed
		}
	} else if t, ok := httpTime(h, "If-Unmodified-Since", mod); ok && mod.After(t) {
		return http.StatusPreconditionFailed
	}
	if inm := h["If-None-Match"]; inm != nil {
		if matches(inm, tag, false) {
			return http.StatusNotModified
		}
	} else if t, ok := httpTime(h, "If-Modified-Since", mod); ok && !mod.After(t) {
		return http.StatusNotModified
	}
	return 0
}

// httpTime reads a date header; ok is false if it is not there, not a date, or
// the answer has none to compare with.
func httpTime(h http.Header, key string, mod time.Time) (time.Time, bool) {
	v := h[key]
	if len(v) != 1 || mod.IsZero() {
		return time.Time{}, false
	}
	t, err := http.ParseTime(v[0])
	return t, err == nil
}

// matches reports whether one of the listed entity tags is tag. A weak one is
// as good as a strong one unless strong.
func matches(list []string, tag string, strong bool) bool {
	for _, l := range list {
		for e := range strings.SplitSeq(l, ",") {
			e = strings.TrimSpace(e)
			if weak, ok := strings.CutPrefix(e, "W/"); ok {
				if strong {
					continue
				}
				e = weak
			}
			if e == "*" || e != "" && e == tag {
				return true
			}
		}
	}
	return false
}

// ifRange reports whether a Range header holds: there is no If-Range, or it
// names exactly this answer.
func ifRange(h http.Header, tag string, mod time.Time) bool {
	v := h["If-Range"]
	if len(v) == 0 {
		return true
	}
	if strings.HasPrefix(v[0], `"`) {
		return v[0] == tag
	}
	t, err := http.ParseTime(v[0])
	return err == nil && !mod.IsZero() && t.Equal(mod)
}

// The kinds of Range header.
type rangeKind int

const (
	rangeAll  rangeKind = iota // none, several or not understood: the whole file
	rangeOne                   // one, to be answered
	rangeNone                  // one that lies outside the file
)

// parseRange reads a Range header for a file of size bytes. Several ranges are
// answered with the whole file, as RFC 9110 section 14.2 allows.
func parseRange(v string, size int64) (off, n int64, kind rangeKind) {
	unit, spec, ok := strings.Cut(v, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return 0, 0, rangeAll
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return 0, 0, rangeAll
	}
	if first == "" {
		n, ok := digits(last)
		switch {
		case !ok, size == 0 && n > 0:
			return 0, 0, rangeAll
		case n == 0:
			return 0, 0, rangeNone
		}
		n = min(n, size)
		return size - n, n, rangeOne
	}
	off, ok = digits(first)
	if !ok {
		return 0, 0, rangeAll
	}
	end := size - 1
	if last != "" {
		l, ok := digits(last)
		if !ok || l < off {
			return 0, 0, rangeAll
		}
		end = min(end, l)
	}
	if off >= size {
		return 0, 0, rangeNone
	}
	return off, end - off + 1, rangeOne
}

// arrivingRange reads a Range header for a file of unknown size that is still
// arriving, and waits for the end of the range. ok is false if the whole file is
// the answer.
func arrivingRange(v string, f *depot.File) (off, n int64, ok bool) {
	const longest = 1 << 62
	off, n, kind := parseRange(v, longest)
	if kind != rangeOne || n <= 0 || off+n == longest {
		return 0, 0, false // without an end, or counted from the end
	}
	if _, err := f.Arrived(off + n - 1); err != nil {
		return 0, 0, false
	}
	return off, n, true
}

// digits reads a decimal number without a sign. One too large for an int64 is
// the largest.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// acceptsMSFZ reports whether a client takes PDBs in MSFZ containers.
func acceptsMSFZ(accept []string) bool {
	for _, a := range accept {
		for e := range strings.SplitSeq(a, ",") {
			media, _, _ := strings.Cut(e, ";")
			if strings.EqualFold(strings.TrimSpace(media), "application/msfz0") && quality(e) > 0 {
				return true
			}
		}
	}
	return false
}

// acceptedCodings returns those of our content codings that a client takes and
// does not like less than the plain bytes, its favourite first. Of equals,
// zstd comes first.
func acceptedCodings(accept []string) []string {
	type coding struct {
		name string
		q    float64
	}
	ours := []coding{{"zstd", -1}, {"gzip", -1}}
	identity, others := -1.0, -1.0
	for _, a := range accept {
		for e := range strings.SplitSeq(a, ",") {
			name, _, _ := strings.Cut(e, ";")
			name, q := strings.TrimSpace(name), quality(e)
			switch {
			case name == "*":
				others = q
			case strings.EqualFold(name, "identity"):
				identity = q
			case strings.EqualFold(name, "x-gzip"):
				ours[1].q = q
			default:
				for i := range ours {
					if strings.EqualFold(name, ours[i].name) {
						ours[i].q = q
					}
				}
			}
		}
	}
	for i := range ours {
		if ours[i].q < 0 {
			ours[i].q = others
		}
	}
	ours = slices.DeleteFunc(ours, func(c coding) bool { return c.q <= 0 || c.q < identity })
	slices.SortStableFunc(ours, func(a, b coding) int { return cmp.Compare(b.q, a.q) })
	var names []string
	for _, c := range ours {
		names = append(names, c.name)
	}
	return names
}

// quality returns the q parameter of a list element, 1 without one.
func quality(e string) float64 {
	_, params, ok := strings.Cut(e, ";")
	for ok {
		var p string
		p, params, ok = strings.Cut(params, ";")
		k, v, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(k), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil || !(q >= 0 && q <= 1) { // NaN too
				return 0
			}
			return q
		}
	}
	return 1
}
