package upstream

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// url returns the URL of a place.
func (h *HTTP) url(parts []string) *url.URL {
	u := *h.base
	raw := h.base.EscapedPath()
	for _, p := range parts {
		u.Path += "/" + p
		// Buckets decode a plus sign as a space.
		raw += "/" + strings.ReplaceAll(url.PathEscape(p), "+", "%2B")
	}
	u.RawPath = raw
	return &u
}

// redact returns a URL without possible secrets.
func (h *HTTP) redact(u *url.URL) string {
	p := u.EscapedPath()
	if base := h.base.EscapedPath(); sameServer(h.base, u) && strings.HasPrefix(p, base+"/") {
		return h.shown + p[len(base):]
	}
	return u.Scheme + "://" + u.Host + p
}

// unredact is the inverse of redact for URLs on the configured server.
func (h *HTTP) unredact(shown string) (*url.URL, bool) {
	rest, ok := strings.CutPrefix(shown, h.shown+"/")
	if !ok {
		u, err := url.Parse(shown)
		if err != nil || !sameServer(h.base, u) {
			return nil, false
		}
		u.RawQuery = h.base.RawQuery
		return u, true
	}
	u := *h.base
	u.RawPath = h.base.EscapedPath() + "/" + rest
	var err error
	u.Path, err = url.PathUnescape(u.RawPath)
	return &u, err == nil
}

// header returns the header fields for the configured server.
func (x *question) header(p layout.Place) (http.Header, error) {
	h, out := x.h, http.Header{}
	extra, err := h.headers.get()
	if err != nil {
		return nil, err
	}
	for _, from := range []http.Header{h.cfg.Header, extra} {
		for k, v := range from {
			out[http.CanonicalHeaderKey(k)] = v
		}
	}
	if h.basic != "" {
		out.Set("Authorization", h.basic)
	}
	if h.basic != "" || h.cfg.Credentials.Negotiate || len(extra) > 0 {
		out.Set("X-Tfs-Fedauthredirect", "Suppress") // a 401 instead of a login page
	}
	if x.ask.Checksum != "" {
		out.Set("Symbolchecksum", x.ask.Checksum)
	}
	agent := h.agent
	if o := x.ask.Origin.Agent; o != "" && h.cfg.UserAgent == "" && h.dialect.Layout == layout.Debuginfod {
		agent = o // debuginfod servers pass on the client's User-Agent
	}
	if out.Get("User-Agent") == "" || h.cfg.UserAgent != "" {
		out.Set("User-Agent", agent)
	}
	out.Set("Accept", "*/*")
	if !p.Exact && !p.Pointer {
		for _, l := range x.ask.Request.Lookups {
			if l.Role&symfile.Compressed != 0 && l.Role != symfile.Compressed {
				out.Set("Accept", "application/msfz0, */*;q=0.9")
			}
		}
	}
	out.Set("Accept-Encoding", "zstd, gzip")
	if x.ask.Request.Form == layout.FormSymCache {
		// The protocol document specifies the first one; its sample server reads
		// the second one.
		out.Set(symcache.HeaderAllowRetry, "true")
		out.Set(symcache.HeaderAcceptRetry, "true")
	}
	x.hops(out)
	return out, nil
}

// hops adds the servers that the request has passed. elfutils' debuginfod passes
// on X-Forwarded-For but no fields that it does not know, so X-Forwarded-For
// contains the ids too, which detects a loop through such a server. In front of
// them it holds what debuginfod servers expect: the addresses of the client and
// of proxies.
func (x *question) hops(out http.Header) {
	ids := x.ask.Via
	if len(ids) == 0 && x.h.cfg.ServerID != "" {
		ids = []string{x.h.cfg.ServerID}
	}
	var via, list, forwarded []string
	for _, id := range ids {
		if isToken(id) {
			via, list = append(via, "1.1 "+id), append(list, id)
		}
	}
	if x.h.dialect.Layout == layout.Debuginfod {
		forwarded = slices.DeleteFunc(slices.Clone(x.ask.Origin.Forwarded), func(s string) bool { return !isToken(strings.Trim(s, "[]")) })
	}
	for _, id := range list {
		if !slices.Contains(forwarded, id) {
			forwarded = append(forwarded, id)
		}
	}
	if len(list) > 0 {
		out.Set("Via", strings.Join(via, ", "))
		out.Set(HopHeader, strings.Join(list, ", "))
	}
	if len(forwarded) > 0 && (x.ask.Request.Layout == layout.Debuginfod || x.h.dialect.Layout == layout.Debuginfod) {
		out.Set("X-Forwarded-For", strings.Join(forwarded, ", "))
	}
}

// isToken reports whether s can be used in a header field without quotes.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'z', c == '-', c == '.', c == '_', c == ':':
		default:
			return false
		}
	}
	return s != ""
}

// attempt requests the file at one place.
func (x *question) attempt(ctx context.Context, p layout.Place) (*fetch.Reply, error) {
	header, err := x.header(p)
	if err != nil {
		return nil, x.h.failed(fetch.ClassBroken, "%w", err)
	}
	a, err := x.exchange(ctx, []*url.URL{x.h.url(p.Parts)}, header)
	if err != nil {
		return nil, err
	}
	return x.answer(ctx, p, a)
}
