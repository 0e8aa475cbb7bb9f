package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/body"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

// Principal is the sender of a request with its rights.
type Principal struct {
	Name      string // as auth names principals; "" is anonymous
	Anonymous bool
	Read      func(product string) bool
	Write     func(product string) bool
	WritesAny bool // it may write to at least one product
	// Says is who it is and what it sees, in a sentence; empty: the name says it.
	Says string
	// Identity and Rights describe the principal.
	Identity auth.Identity
	Rights   auth.Rights
}

// Request is an authenticated request for an address of the API.
type Request struct {
	*http.Request
	// Segments are the segments of the path, from "-" on.
	Segments []string
	Principal
	// Body is the body; reading it fails if the bytes come too slowly. The
	// server sends 100 Continue before the first byte is read.
	Body io.Reader
	// Memory counts what is read of the body into memory; nil: it is not counted.
	Memory *body.Account
	// Allow allows the answer to begin that much later.
	Allow func(time.Duration)
	// Leave prepares for an answer before the whole body was read.
	Leave func()
	// FileHeaders returns the header fields of the answer with a file; may be nil.
	FileHeaders func(*layout.Request, *depot.File) map[string][]string
	// ID is the number of the request in the log.
	ID string
	// Challenges are the values of WWW-Authenticate for anonymous clients.
	Challenges []string
	// Base is the configured prefix in front of the address, such as "/corp", or "".
	Base string
	// BaseURL is the base URL of the server as the client wrote it, without a slash at its
	// end.
	BaseURL string
	// Stopping ends when the server stops; nil: it does not.
	Stopping context.Context
	// Transport says whether the request can carry the cookie of a sign-in.
	Transport Transport
	// Remote is the address of the client, behind known proxies.
	Remote string
	// PathToken is the token in the path, or ""; it must not be shown.
	PathToken string
	// Valid reports whether the credentials still count, for answers that go on for long;
	// nil: they do.
	Valid func() bool
	// StillWrites asks whether the credentials still count and may add files to a product,
	// for uploads that go on for long; nil: that is not asked.
	StillWrites func(ctx context.Context, product string) error
	// Open: everything can be read without credentials.
	Open bool
	// Usage returns what takes the space of the depot, computed some time ago, and the
	// quotas of products; nil as long as it is not known. It waits shortly.
	Usage func(context.Context) (*depot.Usage, map[string]int64)
	// Holdings returns the totals of the depot, if they are known.
	Holdings func() (depot.Stats, bool)

	body *endReader // Body, while Serve runs
}

// endReader records whether its end was read.
type endReader struct {
	from  io.Reader
	ended bool
}

func (r *endReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.ended = r.ended || err == io.EOF
	return n, err
}

// NewRequestID returns a number for a request.
func NewRequestID() string { return strings.ToLower(rand.Text()[:12]) }

// Config configures an API.
type Config struct {
	// Stages take pushes; nil: there are none.
	Stages Stages
	// Forms take files from forms; nil: there is no page for it.
	Forms Forms
	// Tokens are the tokens of the depot; nil: there are none.
	Tokens Tokens
	// Retention and Transactions are those of the depot; nil: there are none.
	Retention    Retention
	Transactions Transactions
	// Files finds what the depot has of files that clients have; nil: there are none.
	Files Files
	// Scratch is the folder for temporary files; empty: that of the system.
	Scratch string
	// Tracing explains requests; the zero value explains none.
	Tracing Tracing
	// Audit is the log that administrators read; nil: there is none.
	Audit *auth.Audit
	// Purged records a purge; nil: Audit does.
	Purged func(auth.Event) error
	// FoundInPlace is how many files of watched folders a search lists at most; 0 is 50.
	FoundInPlace int
	// Catalog lists what the depot holds; nil: there are no pages.
	Catalog Catalog
	// InPlace searches watched folders; nil: there are none.
	InPlace InPlace
	// Sources knows source files; nil: there are no lists of them.
	Sources Sources
	// Upstreams are asked for files that the depot does not have, Jobs run in the
	// background, and Missing are the files that clients did not get; nil: there are none.
	Upstreams Upstreams
	Jobs      Jobs
	Missing   Missing
	// Facts describes the server; nil: nothing is known.
	Facts func(context.Context) Facts
	// Makes says that Breakpad files are made on request.
	Makes bool
	// Version is that of the program.
	Version string
	// SignIns let browsers sign in at /-/login; nil: they cannot.
	SignIns SignIns
	// BaseURL is the URL of the server as browsers know it; empty: unknown. Its pages are
	// the server's own.
	BaseURL string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log receives failures; nil discards them.
	Log *slog.Logger
}

// API answers the requests below /-/api, and its Pages the others. Its methods may be called by many
// goroutines.
type API struct {
	// Pages answers browsers.
	Pages *Pages

	cfg    Config
	unpack chan struct{} // a semaphore: bodies that are decompressed at the same time
	// compute is a semaphore: plans and sums that are computed at the same time.
	compute chan struct{}
	streams streams
	// arriving and examining are semaphores: files that arrive, and files that are read, at
	// the same time.
	arriving, examining chan struct{}
	audits              chan struct{} // a semaphore: parts of the audit log that are read at the same time
	logs                chan struct{} // a semaphore: logs whose requests are traced at the same time
	origin              *http.CrossOriginProtection
}

// New returns an API.
func New(cfg Config) *API {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.FoundInPlace = cmp.Or(cfg.FoundInPlace, maxInPlace)
	if cfg.Purged == nil {
		cfg.Purged = func(e auth.Event) error {
			if cfg.Audit != nil {
				cfg.Audit.Record(e)
				cfg.Audit.Flush()
			}
			return nil
		}
	}
	a := &API{
		cfg: cfg, unpack: make(chan struct{}, maxUnpacking), compute: make(chan struct{}, maxComputing),
		arriving: make(chan struct{}, maxArriving), examining: make(chan struct{}, maxExamining), audits: make(chan struct{}, maxAudits), logs: make(chan struct{}, maxLogs), origin: http.NewCrossOriginProtection(),
	}
	a.Pages = &Pages{api: a, gate: make(chan struct{}, maxPages)}
	if o := origin(cfg.BaseURL); o != "" {
		if err := a.origin.AddTrustedOrigin(o); err != nil {
			cfg.Log.Error("the base URL has no origin", "error", err) // a checked one has
		}
	}
	return a
}

// origin returns the origin (RFC 6454) of a URL; empty if it has none.
func origin(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// route is one method of one address.
type route struct {
	method string
	path   []string // below /-/api; "*" is any segment
	answer func(*API, http.ResponseWriter, *Request, []string) error
}

func on(method, path string, answer func(*API, http.ResponseWriter, *Request, []string) error) route {
	return route{method, strings.Split(path, "/"), answer}
}

// bare refuses all parameters in the query of a route.
func bare(rt route) route {
	answer := rt.answer
	rt.answer = func(a *API, w http.ResponseWriter, r *Request, args []string) error {
		if err := only(r); err != nil {
			return err
		}
		return answer(a, w, r, args)
	}
	return rt
}

// part is a group of handlers of the API: a type of its own, so that none has too many
// methods.
type part interface{ ~struct{ *API } }

// onPart is on for a handler of a part.
func onPart[P part](method, path string, answer func(P, http.ResponseWriter, *Request, []string) error) route {
	return on(method, path, func(a *API, w http.ResponseWriter, r *Request, args []string) error {
		return answer(P(struct{ *API }{a}), w, r, args)
	})
}

// The parts.
type (
	pushAPI      struct{ *API }
	retentionAPI struct{ *API }
	serverAPI    struct{ *API }
)

// match returns the segments in place of "*".
func (rt *route) match(segs []string) (args []string, ok bool) {
	if len(segs) != len(rt.path) {
		return nil, false
	}
	for i, s := range rt.path {
		switch s {
		case "*":
			args = append(args, segs[i])
		case segs[i]:
		default:
			return nil, false
		}
	}
	return args, true
}

// find returns the route of a request. If the address has no such method,
// allow lists those that it has.
func find(method string, segs []string) (rt *route, args []string, allow []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range routes {
		a, ok := routes[i].match(segs)
		if !ok {
			continue
		}
		if routes[i].method == method {
			return &routes[i], a, nil
		}
		if allow = append(allow, routes[i].method); routes[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	return nil, nil, allow
}

// Serve answers a request. The error is for the log: the client has been
// answered unless the connection is broken.
func (a *API) Serve(w http.ResponseWriter, r *Request) error {
	body := &endReader{from: r.Body}
	r.Body, r.body = body, body
	err := a.serve(w, r)
	if err == nil || errors.Is(err, ErrCut) {
		return err
	}
	return a.Refuse(w, r, err)
}

// ErrCut means that an answer ended before its end: the connection must be broken, so
// that the part is not taken for the whole.
var ErrCut = errors.New("the answer was cut short")

func (a *API) serve(w http.ResponseWriter, r *Request) error {
	if err := a.CheckOrigin(r.Request); err != nil {
		return err
	}
	rt, args, allow := find(r.Method, r.Segments[2:])
	switch {
	case rt == nil && len(allow) == 0:
		return &Problem{Word: "not-found"}
	case rt == nil:
		slices.Sort(allow)
		return &Problem{Word: "method", Allow: strings.Join(allow, ", ")}
	}
	return rt.answer(a, w, r, args)
}

// CheckOrigin returns a problem if a browser sends the request for a page of another
// site and it could change something. Whatever the credentials are, a browser sends
// them unasked.
func (a *API) CheckOrigin(r *http.Request) *Problem {
	if err := a.origin.Check(r); err != nil {
		return &Problem{Word: "forbidden", Detail: "this server does not accept requests of web pages of other sites; behind a proxy, base_url of its configuration says where its own pages are"}
	}
	return nil
}

// maxDrained is how much of the body of a refused request is read: clients such
// as curl send it whole before they read the answer.
const maxDrained = 1 << 20

// Refuse answers with the problem that an error is. It returns an error for the
// log, or nil if the client can do something about the problem.
func (a *API) Refuse(w http.ResponseWriter, r *Request, err error) error {
	p, logged, gone := a.judge(r, err)
	if gone {
		return context.Canceled
	}
	finish(w, r)
	if p.Word == "credentials" {
		w.Header()["Www-Authenticate"] = r.Challenges
	}
	return errors.Join(logged, WriteProblem(w, p, r.ID))
}

// judge returns the problem that an error is, and the error for the log if the client
// can do nothing about it. gone: the client disconnected.
func (a *API) judge(r *Request, err error) (p *Problem, logged error, gone bool) {
	p = asProblem(err)
	switch {
	case p != nil:
	case errors.Is(err, body.ErrShare):
		p = &Problem{Word: "rate", Detail: err.Error()}
	case errors.Is(err, body.ErrBusy):
		p = &Problem{Word: "busy", Detail: err.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		p = &Problem{Word: "timeout"}
	case r.Context().Err() != nil:
		return nil, nil, true //nolint:nilerr // gone says it
	case errors.Is(err, io.ErrUnexpectedEOF):
		p = &Problem{Word: "query", Detail: "the body is truncated"}
	default:
		p, logged = &Problem{Word: "internal"}, err
		a.cfg.Log.Error("a request below /-/ failed", "request", r.ID, "error", err)
	}
	return p, logged, false
}

// finish reads the rest of a body that is not needed, if that is short, so that
// the connection stays usable.
func finish(w http.ResponseWriter, r *Request) {
	if r.ContentLength != 0 && (r.body == nil || !r.body.ended) && !drain(r) {
		w.Header().Set("Connection", "close")
		r.Leave()
		return
	}
	r.Allow(0)
}

// drain reads the rest of a short body and reports whether it was short. It
// does not ask a client that waits for 100 Continue to send the body.
func drain(r *Request) bool {
	if r.Header.Get("Expect") != "" || r.ContentLength > maxDrained {
		return false
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r.Body, maxDrained+1))
	return err == nil && n <= maxDrained
}
