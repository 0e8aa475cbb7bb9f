package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Causes for which a call is cancelled.
var (
	errHeader = errors.New("no answer in time")
	errIdle   = errors.New("no bytes arrived in time")
	errClosed = errors.New("closed")
)

// call is one request, from its start to the end of the response body.
type call struct {
	h      *HTTP
	parent context.Context
	ctx    context.Context
	stop   context.CancelCauseFunc
	idle   *time.Timer
	body   io.Closer
}

func (h *HTTP) call(ctx context.Context) *call {
	c := &call{h: h, parent: ctx}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	return c
}

// within cancels the call after d unless done is called first.
func (c *call) within(d time.Duration, why error) (done func() bool) {
	return time.AfterFunc(d, func() { c.stop(why) }).Stop
}

func (c *call) end() {
	c.stop(errClosed)
	if c.body != nil {
		_ = c.body.Close()
	}
}

// drain reads the rest of a short response so that its connection can be reused.
func (c *call) drain(resp *http.Response) {
	if resp.ContentLength > maxText {
		return
	}
	defer c.within(drainTime, errIdle)()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxText))
}

// answer is a server's response after all redirects.
type answer struct {
	*call
	resp *http.Response
	at   *url.URL // URL of the response
	// named is the last URL on the operator's own server.
	named    *url.URL
	away     bool   // the response came from another server
	codeInfo string // the path with the debug id, if a redirect led to it
}

func (a *answer) isHTML() bool {
	t := symfile.Fold(a.resp.Header.Get("Content-Type"))
	return strings.HasPrefix(t, "text/html") || strings.HasPrefix(t, "application/xhtml")
}

// text reads a short response.
func (a *answer) text(d time.Duration) ([]byte, error) { return a.textUpTo(d, maxText) }

func (a *answer) textUpTo(d time.Duration, most int64) ([]byte, error) {
	defer a.within(d, errHeader)()
	p, err := decodeContent(a.resp.Body, a.resp.Header["Content-Encoding"])
	if err != nil {
		return nil, a.failure(err)
	}
	defer p.release()
	b, err := io.ReadAll(io.LimitReader(p, most))
	if err != nil {
		return nil, a.failure(err)
	}
	return b, nil
}

// exchange sends a request and follows redirects. went begins with the URL that
// the operator configured and ends with the URL to request.
func (x *question) exchange(ctx context.Context, went []*url.URL, header http.Header) (*answer, error) {
	h := x.h
	a := &answer{named: went[0]}
	if len(went) > 1 {
		a.away = true
	}
	for {
		a.at = went[len(went)-1]
		c := h.call(ctx)
		req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, a.at.String(), nil)
		if err != nil {
			c.end()
			return nil, h.failed(fetch.ClassBroken, "invalid URL")
		}
		req.Header = header
		if !sameServer(h.base, a.at) {
			req.Header = onlyHarmless(header)
		}
		if h.cfg.Tracer != nil {
			req.Header = req.Header.Clone()
			h.cfg.Tracer.Inject(ctx, a.at.Hostname(), req.Header)
		}
		done := c.within(h.cfg.Timeouts.Connect+h.cfg.Timeouts.Header, errHeader)
		resp, err := h.via.RoundTrip(req) //nolint:bodyclose // call.end closes it
		done()
		if err != nil {
			f := c.failure(err)
			c.end()
			return nil, f
		}
		c.body = resp.Body
		a.call, a.resp = c, resp
		if id := resp.Header.Get(HopHeader); id != "" && isToken(id) && len(id) <= 64 && sameServer(h.base, a.at) {
			h.peer.Store(&id)
		}
		if !isRedirect(resp.StatusCode) {
			return a, nil
		}
		c.drain(resp)
		c.end()
		to, err := nextHop(a.at, resp.Header.Get("Location"))
		if err == nil {
			err = hopAllowed(went, to)
		}
		if err != nil {
			return nil, h.failed(fetch.ClassBroken, "%w", err)
		}
		if sameServer(h.base, to) {
			if path, ok := codeInfoHop(a.at, to); ok && wants(&x.ask.Request, symfile.Symbols|symfile.CodeInfo) {
				a.codeInfo = path
			}
			if !a.away {
				a.named = to
			}
		} else {
			a.away = true
		}
		went = append(went, to)
	}
}

func wants(r *layout.Request, role symfile.Role) bool {
	for _, l := range r.Lookups {
		if l.Role&role != 0 {
			return true
		}
	}
	return false
}

// ended returns the failure of a Fetch whose context has ended.
func (h *HTTP) ended(ctx context.Context) *fetch.Failure {
	cause := context.Cause(ctx)
	if f, ok := errors.AsType[*fetch.Failure](cause); ok {
		return f
	}
	return &fetch.Failure{Source: h.cfg.Name, Class: fetch.ClassTimeout, Err: cause}
}

// failure turns an error of the connection, the body or its decoding into a
// Failure.
func (c *call) failure(err error) *fetch.Failure {
	if f, ok := errors.AsType[*fetch.Failure](err); ok {
		return f
	}
	h := c.h
	if c.parent.Err() != nil {
		return h.ended(c.parent)
	}
	for _, why := range []error{errHeader, errIdle} {
		if errors.Is(context.Cause(c.ctx), why) {
			return h.failed(fetch.ClassTimeout, "%w", why)
		}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL, which may contain a secret
	}
	_, dns := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrNoEgress):
		return h.failed(fetch.ClassSkipped, "%w", err)
	case errors.Is(err, ErrAddress):
		return h.failed(fetch.ClassBroken, "%w", err)
	case errors.Is(err, errTooLarge), errors.Is(err, cab.ErrLimit):
		return h.failed(fetch.ClassTooLarge, "%w", err)
	case isNet && timeout.Timeout(), dns, isOp && op.Op == "dial", errors.Is(err, os.ErrDeadlineExceeded):
		return h.failed(fetch.ClassTimeout, "%w", err)
	}
	return h.failed(fetch.ClassBroken, "%w", shortError{noEOF(err)})
}

// shortError cuts long messages of libraries that quote a server.
type shortError struct{ error }

func (e shortError) Error() string {
	s := e.error.Error()
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}

func (e shortError) Unwrap() error { return e.error }

// wireBody is a body as received, with a limit on its bytes and on each wait.
type wireBody struct {
	c     *call
	r     io.Reader
	n     int64
	limit int64
	err   error
}

func (x *question) wire(a *answer) *wireBody {
	// Compressed data may be slightly larger than its content.
	w := &wireBody{c: a.call, r: a.resp.Body, limit: x.limit + x.limit/64 + maxText}
	a.idle = time.AfterFunc(time.Hour, func() { a.stop(errIdle) })
	a.idle.Stop()
	return w
}

func (w *wireBody) Read(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.c.idle.Reset(w.c.h.cfg.Timeouts.Idle)
	n, err := w.r.Read(b)
	w.c.idle.Stop()
	w.n += int64(n)
	switch {
	case err == nil && w.n > w.limit:
		err = w.c.h.failed(fetch.ClassTooLarge, "%w", errTooLarge)
	case err != nil && !errors.Is(err, io.EOF):
		err = w.c.failure(err)
	}
	w.err = err
	return n, err
}

// body makes a Reply from a response with a file.
func (x *question) body(p layout.Place, a *answer) (*fetch.Reply, error) {
	h := x.h
	page := a.isHTML()
	if x.ask.Request.Form == layout.FormSymCache && !page {
		if err := x.isSymCache(a.resp.Header.Get("Content-Type")); err != nil {
			return nil, err
		}
	}
	length := a.resp.ContentLength
	if length > x.limit+x.limit/64+maxText {
		return nil, h.failed(fetch.ClassTooLarge, "%w: %d", errTooLarge, length)
	}
	// The time for the first bytes includes decoding.
	defer a.within(h.cfg.Timeouts.Header, errHeader)()
	w := x.wire(a)
	outer, err := decodeContent(w, a.resp.Header["Content-Encoding"])
	if err != nil {
		outer.close()
		return nil, a.failure(err)
	}
	if outer.packed {
		length = -1
	}
	br := bufio.NewReaderSize(outer, 64<<10)
	inner := &plain{Reader: br, size: length, release: func() {}}
	if err := x.look(p, a, br, page); err != nil {
		outer.close()
		return nil, err
	}
	if !p.Exact && (p.Packed || !isCompressedName(p.Parts[len(p.Parts)-1])) {
		if inner, err = decodeContainer(br, length, x.limit, h.cfg.TempDir); err != nil {
			inner.close()
			outer.close()
			return nil, x.blame(a, err)
		}
		if !inner.packed {
			inner.size = length
		}
	}
	size := inner.size
	if n, err := strconv.ParseInt(a.resp.Header.Get("X-Debuginfod-Size"), 10, 64); err == nil && n >= 0 && size < 0 && !inner.packed {
		size = n
	}
	reply := x.reply(p, a)
	reply.Size = size
	if !inner.packed && !outer.packed {
		reply.Tag = strongTag(a.resp.Header)
	}
	b := x.newBody(a, inner, outer, 0, size)
	b.wire = func() int64 { return w.n }
	b.packed = inner.packed || outer.packed
	reply.Body = b
	if err := b.first(); err != nil {
		_ = b.Close()
		return nil, err
	}
	return reply, nil
}

// blame separates errors of the local disk from errors of the upstream.
func (x *question) blame(a *answer, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return a.failure(err)
}

// look reads as many bytes as it needs to distinguish a web page from a file.
func (x *question) look(p layout.Place, a *answer, br *bufio.Reader, page bool) error {
	h := x.h
	head, err := br.Peek(1)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		if p.Exact && x.ask.Request.Form != layout.FormSymCache {
			return nil // source files may be empty
		}
		return h.failed(fetch.ClassNotFound, "the file is empty")
	case len(head) == 0:
		return a.failure(err)
	}
	if !page && !p.Exact {
		switch head[0] {
		case '<', ' ', '\t', '\r', '\n', 0xef:
			head, _ = br.Peek(512)
		case 'S', 's', '4', 'N':
			head, _ = br.Peek(24)
		}
		page = isPage(head)
		if isRefusal(head) {
			return h.failed(fetch.ClassNotFound, "%q instead of a file", truncate.Text(strings.ToValidUTF8(string(head), "")))
		}
	}
	switch {
	case !page || p.Exact && strings.HasPrefix(a.lookupID(x), "sha1-"):
		return nil
	case a.away:
		return h.failed(fetch.ClassBroken, "a web page of %s instead of a file: a login page?", a.at.Host)
	}
	return h.failed(fetch.ClassNotFound, "a web page instead of a file")
}

func (a *answer) lookupID(x *question) string {
	if len(x.ask.Request.Lookups) == 0 {
		return ""
	}
	return x.ask.Request.Lookups[0].ID
}

func (p *plain) close() {
	if p != nil && p.release != nil {
		p.release()
	}
}

// newBody returns the rest of the response, decoded. outer may be nil.
func (x *question) newBody(a *answer, inner, outer *plain, offset, size int64) *body {
	br, ok := inner.Reader.(*bufio.Reader)
	if !ok {
		br = bufio.NewReaderSize(inner, 64<<10)
	}
	return &body{
		limit: x.limit, size: size, offset: offset, r: br,
		blame: func(err error) error { return x.blame(a, err) }, failed: x.h.failed,
		end: func() { a.stop(errClosed) }, closers: []func(){outer.close, inner.close, a.end},
	}
}
