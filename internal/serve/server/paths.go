package server

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// rawPath returns the escaped path of a request as the client sent it: neither
// cleaned nor decoded, without the query.
func rawPath(r *http.Request) string {
	t := r.RequestURI
	if !strings.HasPrefix(t, "/") {
		// An absolute URI, or a request that did not come over the wire.
		return r.URL.EscapedPath()
	}
	if i := strings.IndexByte(t, '?'); i >= 0 {
		t = t[:i]
	}
	return t
}

// baseURL returns the URL of this server as the client wrote it, from the Host
// field and, behind a proxy that terminates TLS, X-Forwarded-Proto.
func baseURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// BaseURL is the URL of a listener's address, as a program on this machine
// would ask it.
func BaseURL(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return "http://" + a.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// cutToken removes a path token from an escaped path, as in /t/TOKEN/app.pdb/…,
// before the path is read. Anything that is not exactly a token stays: a module
// may be called "t".
func cutToken(escaped string) (token, rest string) {
	first, more := firstSegment(escaped)
	if first != "t" {
		return "", escaped
	}
	second, more := firstSegment(more)
	if token, _, ok := auth.PathToken([]string{first, second}); ok {
		return token, more
	}
	return "", escaped
}

// cutAsking removes web.AskingPrefix from an escaped path.
func cutAsking(escaped string) (rest string, asks bool) {
	first, more := firstSegment(escaped)
	if first != "-" {
		return escaped, false
	}
	if second, more := firstSegment(more); "/-/"+second == web.AskingPrefix {
		return more, true
	}
	return escaped, false
}

// firstSegment returns the first segment of an escaped path that is not empty,
// decoded, and what follows it.
func firstSegment(escaped string) (seg, rest string) {
	escaped = strings.TrimLeft(escaped, "/")
	if i := strings.IndexByte(escaped, '/'); i >= 0 {
		escaped, rest = escaped[:i], escaped[i:]
	}
	seg, err := url.PathUnescape(escaped)
	if err != nil {
		return escaped, rest
	}
	return seg, rest
}

// below reports whether a path begins with a prefix, such as "corp/symbols", in
// any case. n is the number of the prefix's segments.
func below(segs []string, prefix string) (n int, ok bool) {
	for more := true; more; n++ {
		var seg string
		seg, prefix, more = strings.Cut(prefix, "/")
		if n >= len(segs) || !strings.EqualFold(segs[n], seg) {
			return 0, false
		}
	}
	return n, true
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) > len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}
