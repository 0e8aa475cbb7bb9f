package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// backend is the part that differs between the stores. Its keys include the
// prefix and are valid. Its errors are *Error without bucket, operation and
// key, or errors of the transport.
type backend interface {
	// get requests an object. rng is the Range header, unless it is empty.
	get(ctx context.Context, key, rng, ifMatch string) (*reply, error)
	head(ctx context.Context, key string) (Info, error)
	put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error)
	remove(ctx context.Context, key string) error
	list(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// reply is the response to get before its range is checked.
type reply struct {
	status int // 200 or 206
	header http.Header
	info   Info // Size is that of the whole object only if status is 200
	body   io.ReadCloser
}

// front is the part that the stores have in common: the prefix, the checks of
// keys, ranges and lengths, and the messages of errors.
type front struct {
	backend
	name   string
	prefix string // empty, or ends with a slash
	via    http.RoundTripper
}

func newFront(b backend, name, prefix string, via http.RoundTripper) *front {
	return &front{backend: b, name: name, prefix: prefix, via: via}
}

func (f *front) Name() string { return f.name }

func (f *front) Close() error {
	if c, ok := f.via.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	return nil
}

func (f *front) fail(op, key string, err error) error {
	var e Error
	if p := (*Error)(nil); errors.As(err, &p) {
		e = *p
	} else {
		e.Err = scrub(err)
	}
	e.Bucket, e.Op, e.Key = f.name, op, key
	return &e
}

func (f *front) Get(ctx context.Context, key string, off, n int64, ifMatch string) (*Object, error) {
	if off < 0 {
		return nil, f.fail("get", key, fmt.Errorf("offset %d: %w", off, fs.ErrInvalid))
	}
	if !validKey(f.prefix + key) {
		return nil, f.fail("get", key, fs.ErrNotExist)
	}
	if !validTag(ifMatch) { // no store has such a tag
		return nil, f.fail("get", key, ErrPrecondition)
	}
	o, err := f.open(ctx, f.prefix+key, off, n, ifMatch)
	if err != nil {
		return nil, f.fail("get", key, err)
	}
	o.Key = key
	return o, nil
}

func (f *front) open(ctx context.Context, key string, off, n int64, ifMatch string) (*Object, error) {
	if n == 0 { // HTTP cannot request zero bytes
		return f.empty(ctx, key, off, ifMatch)
	}
	var rng string
	switch {
	case n > 0 && off+n > off:
		rng = fmt.Sprintf("bytes=%d-%d", off, off+n-1)
	case off > 0:
		n, rng = -1, fmt.Sprintf("bytes=%d-", off)
	}
	r, err := f.get(ctx, key, rng, ifMatch)
	if off == 0 && errors.Is(err, ErrRange) { // an empty object
		return f.empty(ctx, key, off, ifMatch)
	}
	if err != nil {
		return nil, err
	}
	// Some stores ignore the condition.
	if ifMatch != "" && r.info.ETag != ifMatch {
		r.body.Close()
		return nil, &Error{Status: r.status, Err: ErrPrecondition}
	}
	o, err := r.object(off, n)
	if err != nil {
		r.body.Close()
	}
	if off == 0 && errors.Is(err, ErrRange) {
		return f.empty(ctx, key, off, ifMatch)
	}
	return o, err
}

// empty answers a request for zero bytes of an object.
func (f *front) empty(ctx context.Context, key string, off int64, ifMatch string) (*Object, error) {
	info, err := f.head(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case ifMatch != "" && info.ETag != ifMatch:
		return nil, ErrPrecondition
	case info.Size >= 0 && off > info.Size:
		return nil, ErrRange
	}
	return &Object{Info: info, Offset: off, Total: info.Size, Body: http.NoBody}, nil
}

// object checks that the response has the requested range.
func (r *reply) object(off, n int64) (*Object, error) {
	o := &Object{Info: r.info, Offset: off, Total: r.info.Size, Body: r.body}
	if r.status != http.StatusPartialContent {
		if off > 0 {
			return nil, &Error{Status: r.status, Err: errors.New("the store does not support range requests")}
		}
		if n >= 0 && (o.Total < 0 || o.Total > n) {
			o.Body = limited{io.LimitReader(r.body, n), r.body}
		}
		return o, nil
	}
	first, last, total, ok := parseContentRange(r.header.Get("Content-Range"))
	if ok && total >= 0 && off >= total {
		return nil, &Error{Status: r.status, Err: ErrRange} // Azurite's response for an offset beyond the end
	}
	want := total - 1
	if n >= 0 && (total < 0 || off+n-1 < want) {
		want = off + n - 1
	}
	if !ok || first != off || last < first || (want >= 0 && last != want) {
		return nil, &Error{Status: r.status, Err: errors.New("the response has a different range than requested")}
	}
	o.Total, o.Size = total, total
	return o, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// parseContentRange parses "bytes FIRST-LAST/TOTAL". The total is -1 for "*".
func parseContentRange(s string) (first, last, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, whole, ok2 := strings.Cut(s, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, false
	}
	first, err1 := strconv.ParseInt(a, 10, 64)
	last, err2 := strconv.ParseInt(b, 10, 64)
	total = -1
	var err3 error
	if whole != "*" {
		total, err3 = strconv.ParseInt(whole, 10, 64)
	}
	ok = err1 == nil && err2 == nil && err3 == nil && first >= 0 && last >= first-1 && (whole == "*" || total > last)
	return first, last, total, ok
}

func (f *front) Head(ctx context.Context, key string) (Info, error) {
	if !validKey(f.prefix + key) {
		return Info{}, f.fail("head", key, fs.ErrNotExist)
	}
	info, err := f.head(ctx, f.prefix+key)
	if err != nil {
		return Info{}, f.fail("head", key, err)
	}
	info.Key = key
	return info, nil
}

func (f *front) Put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error) {
	switch {
	case size < 0:
		return Info{}, f.fail("put", key, fmt.Errorf("size %d: %w", size, fs.ErrInvalid))
	case !validKey(f.prefix + key):
		return Info{}, f.fail("put", key, fmt.Errorf("invalid key: %w", fs.ErrInvalid))
	case !validHeader(opt.ContentType) || !validHeader(opt.ContentEncoding):
		return Info{}, f.fail("put", key, fmt.Errorf("invalid content type or encoding: %w", fs.ErrInvalid))
	}
	if opt.ContentType == "" {
		opt.ContentType = "application/octet-stream"
	}
	exact := &exactReader{r: r, left: size}
	if size == 0 { // a request without a body does not read it
		if _, err := exact.Read(nil); err != io.EOF {
			return Info{}, f.fail("put", key, err)
		}
	}
	if opt.IfAbsent && size > expectAbove && f.has(ctx, f.prefix+key) {
		return Info{}, f.fail("put", key, ErrPrecondition) // without sending the content
	}
	opt.at = readerAt(r, size)
	info, err := f.put(ctx, f.prefix+key, size, exact, opt)
	if rerr := exact.failure(); err != nil && rerr != nil {
		err = rerr // the error of the reader is more useful than that of the transport
	} else if err != nil && opt.IfAbsent && !errors.As(err, new(*Error)) && f.has(ctx, f.prefix+key) {
		err = ErrPrecondition // the store rejected the request before it read the content
	}
	if err != nil {
		return Info{}, f.fail("put", key, err)
	}
	info.Key, info.Size, info.ContentEncoding = key, size, opt.ContentEncoding
	return info, nil
}

// has reports whether the object is known to exist.
func (f *front) has(ctx context.Context, key string) bool {
	_, err := f.head(ctx, key)
	return err == nil
}

func (f *front) Delete(ctx context.Context, key string) error {
	if !validKey(f.prefix + key) {
		return nil
	}
	err := f.remove(ctx, f.prefix+key)
	if err == nil || (errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNoBucket)) {
		return nil
	}
	return f.fail("delete", key, err)
}

func (f *front) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		whole := f.prefix + prefix
		if len(whole) > maxKey || !utf8.ValidString(whole) {
			return // no key has such a prefix
		}
		for info, err := range f.list(ctx, whole) {
			if err != nil {
				yield(Info{}, f.fail("list", prefix, err))
				return
			}
			rest, ok := strings.CutPrefix(info.Key, f.prefix)
			if !ok || rest == "" || !strings.HasPrefix(info.Key, whole) {
				continue
			}
			info.Key = rest
			if !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Info{}, f.fail("list", prefix, err))
		}
	}
}

// errLength is the error for a reader of a different length than announced.
var errLength = errors.New("content length differs from the announced size")

// exactReader reads left bytes and fails if there are fewer or more. It checks
// for more before it returns the last bytes, so that no store accepts truncated
// content.
type exactReader struct {
	mu   sync.Mutex // the transport may read on after the response
	r    io.Reader
	left int64
	err  error
}

func (e *exactReader) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	var n int
	if e.left > 0 {
		if int64(len(p)) > e.left {
			p = p[:e.left]
		}
		var err error
		n, err = e.r.Read(p)
		e.left -= int64(n)
		switch {
		case e.left == 0:
		case err == io.EOF:
			e.err = fmt.Errorf("%w: %d bytes are missing", errLength, e.left)
			return n, e.err
		default:
			e.err = err
			return n, err
		}
	}
	switch _, err := io.ReadFull(e.r, make([]byte, 1)); err {
	case nil:
		e.err = fmt.Errorf("%w: the content is longer", errLength)
	case io.EOF:
		e.err = io.EOF
		if n > 0 {
			return n, nil
		}
	default:
		e.err = err
	}
	return 0, e.err
}

// failure returns the error of the reader, or nil.
func (e *exactReader) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == io.EOF {
		return nil
	}
	return e.err
}
