package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
)

// Protocols that are not layouts, as metrics and the access log call them.
const (
	protocolNone = "none" // no symbol path
	protocolOwn  = "own"  // the server's own paths
)

// methodLabel bounds the number of label values: clients may invent methods.
func methodLabel(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost, http.MethodPut:
		return m
	}
	return "other"
}

// Header values that do not change, ready for use.
var (
	nosniff    = []string{"nosniff"}
	noCache    = []string{"no-cache"}
	immutable  = []string{"public, max-age=31536000, immutable"}
	shortLived = []string{"public, max-age=300"}
	askAgain   = []string{"public, no-cache"}
	plainText  = []string{"text/plain; charset=utf-8"}
	// barePlainText is for file.ptr: clients compare the whole field.
	barePlainText = []string{"text/plain"}
	octetStream   = []string{"application/octet-stream"}
	exposed       = []string{"ETag, Content-Encoding, Content-Range, " + wire.DebuginfodSize + ", " +
		wire.DebuginfodFile + ", " + wire.DebuginfodArchive + ", " + wire.DebuginfodSignature}
	bytesUnit = []string{"bytes"}
)

// lengths are the values of Content-Length for short bodies.
var lengths = func() (l [256][]string) {
	for i := range l {
		l[i] = []string{itoa(int64(i))}
	}
	return l
}()

// contentLength returns the value of Content-Length for n bytes.
func contentLength(n int64) []string {
	if n >= 0 && n < int64(len(lengths)) {
		return lengths[n]
	}
	return []string{itoa(n)}
}

// addVary adds request header fields that an answer depends on.
func addVary(h http.Header, fields string) {
	if old := h["Vary"]; len(old) > 0 {
		fields = old[0] + ", " + fields
	}
	h["Vary"] = []string{fields}
}

// Header values of the protocol's answers.
var (
	noStore     = []string{"no-store"}
	privateHour = []string{"private, max-age=3600"}
	zeroLength  = []string{"0"}
)

// wantsHTML reports whether a request comes from a browser.
func wantsHTML(r *http.Request) bool { return accepts(r, "text/html") }

// accepts reports whether a request names a media type.
func accepts(r *http.Request, mediaType string) bool {
	return strings.Contains(strings.Join(r.Header["Accept"], ","), mediaType)
}

// number parses an optional decimal parameter. It returns zero if s is not a
// number, and at most most.
func number(s string, zero, most int) int {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return min(n, most)
	}
	return zero
}

// The results of a lookup, as metrics and the access log call them.
const (
	resultNone  = ""
	resultHit   = metrics.ResultHit
	resultMiss  = metrics.ResultMiss
	resultError = "error"
)
