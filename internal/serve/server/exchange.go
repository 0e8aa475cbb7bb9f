package server

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
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
	err      error             // why the answer was cut short
	request  string            // the number of the request in the log; "" is none
	place    place             // what the path names
	caller   caller            // who sends the request, and what they may read
	turn     limit.Turn        // at lookups, while it has one
	memory   memory            // what the request has to do with answers in memory
	counters *metrics.Counters // of this kind of request, if already known
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

// place is what the path of a request names. It is found once.
type place struct {
	token string // the path token in front, or ""
	asks  bool   // web.AskingPrefix was in front
	path  string // escaped, without the token
	*endpoint
	err        error          // why the path names nothing
	base, name string         // an own path: the prefix in front, and the name; "" is the root
	job        []string       // what follows the path of the job API
	own        []string       // the segments of an address below /-, from "-" on, or of an upload
	req        layout.Request // a symbol path
}

// isForReaders reports whether debuggers and other readers of symbol files request the
// path, rather than people and administrators.
func (p *place) isForReaders() bool {
	return p.origins && (p.own == nil || isSource(p.own)) || p.root && p.name != ""
}

// handler answers the requests for one kind of path.
type handler interface {
	// admit authorizes a request before anything is looked up. If it returns
	// false, it has answered.
	admit(x *exchange, r *http.Request, p *place) bool
	serve(x *exchange, r *http.Request, p *place)
}

// endpoint says how the requests for one kind of path are answered.
type endpoint struct {
	methods string // for the Allow header; "": serve looks at the method
	options bool   // OPTIONS is answered for it
	body    bool   // takes a body
	origins bool   // scripts of the configured origins may read it
	links   bool   // links on pages of other sites may open it
	// judgesSites: the handler judges requests for pages of other sites itself.
	judgesSites bool
	posts       bool // the method is POST
	// signIn: the cookie of a browser that is signed in counts; root: it counts at the
	// root.
	signIn, root bool
	handler
}

// caller is the principal that sends a request, and what it may see. The zero
// caller, on a server without a gate, sees everything.
type caller struct {
	id     auth.Identity
	rights auth.Rights
	scope  answer.Scope
	public audience.Scope // of what it may see the public forms only
	token  string         // from the path, or ""
	why    string         // for the log: why the credentials were rejected
}

// below returns what precedes the paths of redirects for a request: nothing, the token, or
// the prefix below which the server asks. It is never part of a text or a log.
func (p *place) below() string {
	switch {
	case p.token != "":
		return "/t/" + p.token
	case p.asks:
		return web.AskingPrefix
	}
	return ""
}

// memory is what a request has to do with the answers in memory.
type memory struct {
	asked      bool // fromMemory was called
	keep       bool // the answer may be kept
	key        hotKey
	generation uint64
	until      time.Time // when it may improve; zero: not known
}

// hotKey is all of a request that a kept answer depends on.
type hotKey struct {
	path   string // escaped, without token and query
	coding string // Accept-Encoding
	// restricted is whether some content needed authorization: Cache-Control depends on it.
	restricted bool
}

// preflightMethods returns the methods that OPTIONS reports, and those that scripts
// of other origins may use.
func (e *endpoint) preflightMethods() (all, scripts string) {
	if e.posts {
		return postMethods, "POST"
	}
	return readMethods, strings.TrimSuffix(readMethods, ", OPTIONS")
}

// postMethods are the methods of the symbolication APIs.
const postMethods = "POST, OPTIONS"

const readMethods = "GET, HEAD, OPTIONS"
