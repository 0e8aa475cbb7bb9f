package upstream

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// answer makes a Reply from a server's response. It closes a on failure.
func (x *question) answer(ctx context.Context, p layout.Place, a *answer) (*fetch.Reply, error) {
	var reply *fetch.Reply
	err := x.loop(a, x.refusal(a))
	if err == nil && p.Pointer {
		defer a.end()
		to, err := x.pointer(a)
		if err != nil {
			return nil, err
		}
		return x.follow(ctx, a, to)
	}
	if err == nil {
		reply, err = x.body(p, a)
	}
	if err != nil {
		a.end()
		return nil, err
	}
	return reply, nil
}

// pointer reads a file.ptr.
func (x *question) pointer(a *answer) (*url.URL, error) {
	h := x.h
	text, err := a.text(h.cfg.Timeouts.Header)
	if err != nil {
		return nil, err
	}
	if isPage(text) || a.isHTML() || isRefusal(text) {
		return nil, h.failed(fetch.ClassNotFound, "a web page instead of file.ptr")
	}
	to := symstore.ParsePointer(text)
	switch u, err := url.Parse(to.Target); {
	case to.Target == "" && to.Message != "":
		return nil, h.failed(fetch.ClassNotFound, "file.ptr of the server says %q", truncate.Text(to.Message))
	case to.Target == "":
		return nil, h.failed(fetch.ClassNotFound, "file.ptr of the server is empty")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, h.failed(fetch.ClassNotFound, "file.ptr names a path that only the server's own network can reach: %q",
			truncate.Text(to.Target))
	default:
		u.User, u.Fragment, u.RawFragment = nil, "", ""
		return u, nil
	}
}

// follow downloads the target of a pointer. Its URL comes from the server, not
// from the operator.
func (x *question) follow(ctx context.Context, from *answer, to *url.URL) (*fetch.Reply, error) {
	h := x.h
	p := layout.Place{Parts: []string{x.ask.Request.Name}}
	if err := hopAllowed([]*url.URL{h.base, from.at}, to); err != nil {
		return nil, h.failed(fetch.ClassNotFound, "file.ptr: %w", err)
	}
	header, err := x.header(p)
	if err != nil {
		return nil, h.failed(fetch.ClassBroken, "%w", err)
	}
	a, err := x.exchange(ctx, []*url.URL{h.base, from.at, to}, header)
	if errors.Is(err, ErrAddress) {
		return nil, h.failed(fetch.ClassNotFound, "file.ptr: %w", err)
	}
	if err != nil {
		return nil, err
	}
	a.named = to
	reply, err := x.answer(ctx, p, a)
	if err != nil {
		return nil, err
	}
	reply.Tag = "" // the pointer may name a different target next time
	return reply, nil
}

// reply makes a Reply without a body from the response headers.
func (x *question) reply(p layout.Place, a *answer) *fetch.Reply {
	head := a.resp.Header
	r := &fetch.Reply{Size: -1, Path: x.h.redact(a.named), Name: x.name(p, a), CodeInfo: a.codeInfo}
	if at, err := http.ParseTime(head.Get("Last-Modified")); err == nil && at.Unix() > 0 {
		r.ModTime = at
	}
	for _, k := range []string{"Content-Type", "X-Debuginfod-Size", "X-Debuginfod-File", "X-Debuginfod-Archive"} {
		if v := head.Get(k); v != "" && len(v) <= 4096 {
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Set(k, v)
		}
	}
	if raw, err := hex.DecodeString(head.Get(wire.DebuginfodSignature)); err == nil && len(raw) <= maxSignature && !p.Packed {
		r.Signature = hex.EncodeToString(raw)
	}
	return r
}

// maxSignature limits an IMA signature, in bytes: one of RSA with 16,384 bits fits.
const maxSignature = 2100

// name returns the file's name as the server spells it.
func (x *question) name(p layout.Place, a *answer) string {
	if a.codeInfo != "" {
		name, _, _ := strings.Cut(a.codeInfo, "/")
		return name
	}
	leaf := p.Parts[len(p.Parts)-1]
	if n := symfile.BaseName(a.resp.Header.Get("X-Debuginfod-File")); symfile.ValidName(n) {
		return n
	}
	if x.ask.Request.Name != "" && (p.Packed || len(p.Parts) < 3 || !strings.Contains(leaf, ".")) {
		return x.ask.Request.Name
	}
	return leaf
}

// strongTag returns the validator for resuming a transfer: a strong entity tag,
// or a Last-Modified time at least a minute before the response.
func strongTag(head http.Header) string {
	if strings.EqualFold(head.Get("Accept-Ranges"), "none") {
		return ""
	}
	if tag := head.Get("Etag"); tag != "" {
		if strings.HasPrefix(tag, `"`) && len(tag) <= 512 {
			return tag
		}
		return ""
	}
	changed, err := http.ParseTime(head.Get("Last-Modified"))
	date, derr := http.ParseTime(head.Get("Date"))
	if err == nil && derr == nil && date.Sub(changed) >= time.Minute {
		return head.Get("Last-Modified")
	}
	return ""
}

// isSymCache checks that a content type is that of a SymCache file in a version
// that the client can read.
func (x *question) isSymCache(contentType string) error {
	_, err := symcache.ParseContentType(contentType, x.ask.Request.SymCache.Version)
	if err != nil {
		return x.h.failed(fetch.ClassBroken, "not a SymCache file: %w", err)
	}
	return nil
}
