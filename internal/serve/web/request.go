package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/auth"
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
	FileHeaders func(*layout.Request, *answer.File) map[string][]string
	// Find finds the file that answers a request of a debugger of this client. Not found is
	// fs.ErrNotExist; nil: no files are found.
	Find func(context.Context, layout.Request) (*answer.File, error)
	// Symbols waits for the turn of the request at symbolication, and returns what symbolication
	// must know of the client; end gives the turn back. Nil: it has its turn at once.
	Symbols func(context.Context) (ask depot.SymbolsAsk, end func(), err error)
	// Dump walks the stacks of a crash dump for this client; nil: no dumps are taken. note is called if all
	// was there that the walk has read.
	Dump func(ctx context.Context, dump io.ReaderAt, size int64) (stacks *wire.Stacks, note NoteDump, err error)
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
	Usage func(context.Context) (*lifecycle.Usage, map[string]int64)
	// Lookups calls a function for each hour with lookups since the start of the server, the
	// oldest first; nil: they are not counted.
	Lookups func(func(begin time.Time, found, missing int64))
	// Holdings returns the totals of the depot, if they are known.
	Holdings func() (depot.Stats, bool)

	body *endReader // Body, while Serve runs
}

// NoteDump remembers what the stacks of a dump lack. keep is the name of a dump that is kept if the server
// keeps dumps: all of it is there. Empty: it is not.
type NoteDump func(ctx context.Context, keep string)

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

// ErrCut means that an answer ended before its end: the connection must be broken, so
// that the part is not taken for the whole.
var ErrCut = errors.New("the answer was cut short")

// maxDrained is how much of the body of a refused request is read: clients such
// as curl send it whole before they read the answer.
const maxDrained = 1 << 20

// Judge returns the problem that an error is, and the error for the log if the client
// can do nothing about it. gone: the client disconnected.
func (r *Request) Judge(err error, log *slog.Logger) (p *Problem, logged error, gone bool) {
	p = AsProblem(err)
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
		log.Error("a request below /-/ failed", "request", r.ID, "error", err)
	}
	return p, logged, false
}

// Finish reads the rest of a body that is not needed, if that is short, so that
// the connection stays usable.
func Finish(w http.ResponseWriter, r *Request) {
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

// Need says who may open a page.
type Need uint8

// The needs of pages.
const (
	Anyone    Need = iota
	SeesAll        // who reads all products
	MayChange      // who may change a product
	MayPush        // who may add files to a product, also the token of a CI job
	IsAdmin
)

// ReceiveForm reads the body of a form before the page is made, so that a slow client
// does not keep others from their pages.
func (r *Request) ReceiveForm() error {
	if r.Method != http.MethodPost {
		return nil
	}
	b, err := r.Memory.Read(r.Context(), io.LimitReader(r.Body, FormLimit+1), FormLimit+1)
	if err != nil {
		return err
	}
	r.Body = io.MultiReader(bytes.NewReader(b), r.Body)
	r.Allow(AnswerTime)
	return nil
}

// MayOpen returns a problem if the client may not open a page.
func (r *Request) MayOpen(n Need) error {
	ok, text := true, ""
	switch n {
	case SeesAll:
		ok, text = r.Rights.All, "this needs the right to read all products: use a token that was made without --product"
	case MayChange:
		ok, text = r.Rights.Write && !r.Identity.Exchanged, "this needs the right to change a product: a token with the scope write"
	case MayPush:
		ok, text = r.WritesAny, "this needs the right to add files to a product: a token with the scope write"
	case IsAdmin:
		ok, text = r.Rights.Admin, "this needs the rights of an administrator: a token with the scope admin"
	}
	switch {
	case ok:
		return nil
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials", Detail: text}
	}
	return &Problem{Word: "forbidden", Detail: text}
}

// Next is the address to which a sign-in leads back; "" if it has a token.
func (r *Request) Next() string {
	if r.PathToken != "" {
		return ""
	}
	return r.URL.RequestURI()
}

// ReadAll reads the body, which is what, of at most limit bytes.
func (r *Request) ReadAll(limit int64, what string) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLong(limit, what)
	}
	b, err := r.Memory.Read(r.Context(), r.Body, limit)
	if errors.Is(err, body.ErrLong) {
		return nil, tooLong(limit, what)
	}
	return b, err
}

const (
	// MaxComputing is how many plans and sums are computed at the same time: each
	// reads the facts about all transactions into memory.
	MaxComputing = 2
	// ComputeWait is how long a request waits for that.
	ComputeWait = time.Minute
)

// needs returns the right that a request needs.
type needs uint8

// The rights of requests.
const (
	ReadAll   needs = iota // reading all products
	ChangeAny              // changing something: the handler asks for the product
	Administer
)

// May returns a problem if the client lacks a right.
func (r *Request) May(need needs) error {
	ok, text := r.Rights.Admin, "this needs a token with the scope admin"
	switch need {
	case ReadAll:
		ok, text = r.Rights.All, "this needs the right to read all products: use a token that was made without --product"
	case ChangeAny:
		ok, text = r.Rights.Write, "this needs a token with the scope write"
		if r.Identity.Exchanged {
			ok, text = false, "the token of a CI job adds files, and changes nothing else"
		}
	}
	switch {
	case ok:
		return nil
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials", Detail: text}
	case r.Anonymous:
		return &Problem{Word: "forbidden", Detail: "this server accepts no changes, because no credentials are configured"}
	}
	return &Problem{Word: "forbidden", Detail: text}
}

// Scope returns the scope of a client.
func (r *Request) Scope() answer.Scope {
	if r.Rights.All {
		return answer.Scope{}
	}
	return answer.Scope{Products: append([]string{}, r.Rights.Products...)} // nil would stand for all
}

// MayRead returns a problem for an anonymous client that can read nothing, if it could
// send credentials.
func (r *Request) MayRead() error {
	if r.Anonymous && len(r.Challenges) > 0 && !r.Rights.All && len(r.Rights.Products) == 0 {
		return &Problem{Word: "credentials"}
	}
	return nil
}

// MayReadAll returns a problem if the client may not read all products.
func (r *Request) MayReadAll() error { return r.MayOpen(SeesAll) }

// MayAdminister returns a problem if the client is no administrator.
func (r *Request) MayAdminister() error { return r.MayOpen(IsAdmin) }

// Client is the request as its client has sent it.
func (r *Request) Client() *http.Request {
	c := *r.Request
	if r.Remote != "" {
		c.RemoteAddr = r.Remote
	}
	return &c
}

// tookLonger returns the problem that an error of look-ups is that examineTime ended.
func (r *Request) tookLonger(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return &Problem{Word: "busy", Detail: "the look-ups took longer than " + examineTime.String()}
	}
	return err
}

// Totals returns the numbers of objects and bytes of the depot, if they are known.
func (r *Request) Totals() (depot.Stats, bool) {
	if r.Holdings == nil {
		return depot.Stats{}, false
	}
	return r.Holdings()
}

// NoteEnd makes finish know whether the end of the body was read.
func (r *Request) NoteEnd() {
	body := &endReader{from: r.Body}
	r.Body, r.body = body, body
}

// FormLimit is the longest body of a form.
const FormLimit = 64 << 10
