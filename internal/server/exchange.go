package server

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/wire"
)

// The results of a lookup, as metrics and the access log call them.
const (
	resultNone  = ""
	resultHit   = "hit"
	resultMiss  = "miss"
	resultError = "error"
)

// exchange is one request and the state of its answer.
type exchange struct {
	w        http.ResponseWriter
	r        *http.Request
	start    time.Time
	status   int   // 0 until the header is written
	bytes    int64 // of the body
	head     bool  // the body is omitted
	protocol string
	result   string
	err      error     // why the answer was cut short
	request  string    // the number of the request in the log; "" is none
	place    place     // what the path names
	caller   caller    // who sends the request, and what they may read
	memory   memory    // what the request has to do with answers in memory
	counters *counters // of this kind of request, if already known
	// abort breaks the connection, so that a partial file is not taken for the
	// whole.
	abort bool
}

// exchanges are exchanges for reuse: most answers are short, and their exchange
// is the largest of their allocations.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := exchanges.Get().(*exchange)
	x.w, x.r, x.start, x.protocol, x.head = w, r, time.Now(), protocolNone, r.Method == http.MethodHead
	return x
}

// free makes x available to another request. Nothing may refer to it any more.
func (x *exchange) free() {
	*x = exchange{}
	exchanges.Put(x)
}

// Header returns the header to be sent.
func (x *exchange) Header() http.Header { return x.w.Header() }

// WriteHeader sends the header.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.w.WriteHeader(status)
}

// Write sends part of the body.
func (x *exchange) Write(p []byte) (int, error) {
	if x.head {
		return len(p), nil
	}
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.w.Write(p)
	x.bytes += int64(n)
	return n, err
}

// WriteString sends part of the body.
func (x *exchange) WriteString(p string) (int, error) {
	if x.head {
		return len(p), nil
	}
	n, err := io.WriteString(x.w, p)
	x.bytes += int64(n)
	return n, err
}

// ReadFrom sends part of the body from a file, which lets the kernel copy it.
func (x *exchange) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := x.w.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{x}, r)
	}
	n, err := rf.ReadFrom(r)
	x.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

type writerOnly struct{ io.Writer }

// Header values that do not change, ready for use.
var (
	nosniff    = []string{"nosniff"}
	noCache    = []string{"no-cache"}
	immutable  = []string{"public, max-age=31536000, immutable"}
	shortLived = []string{"public, max-age=300"}
	plainText  = []string{"text/plain; charset=utf-8"}
	// barePlainText is for file.ptr: clients compare the whole field.
	barePlainText = []string{"text/plain"}
	octetStream   = []string{"application/octet-stream"}
	exposed       = []string{"ETag, Content-Encoding, Content-Range, " + wire.DebuginfodSize + ", " + wire.DebuginfodFile + ", " + wire.DebuginfodArchive + ", " + wire.DebuginfodSignature}
	bytesUnit     = []string{"bytes"}
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
