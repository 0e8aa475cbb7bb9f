// Package client is the other side of a server's own APIs: pushes, and the API that commands
// use.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// Errors of a push that callers tell apart.
var (
	// ErrCredentials means that the token is wrong or does not allow the push.
	ErrCredentials = errors.New("the server does not accept the credentials")
	// ErrTooLarge means that a limit on sizes, or a quota, is exceeded.
	ErrTooLarge = errors.New("a limit of the server is exceeded")
	// ErrUnreachable means that the server did not answer until retries ended.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrNothing means that there are no symbol files.
	ErrNothing = errors.New("no symbol files found")
	// ErrPartial means that a push was committed without some of its files.
	ErrPartial = errors.New("committed without the refused files")
	// errConflict means that the request does not fit the state of the stage.
	errConflict = errors.New("the stage is in a different state")
)

// Pusher pushes symbol files to one server. URL, Token and HTTP are required.
type Pusher struct {
	// URL is the server's base URL.
	URL string
	// Token returns the bearer token; it is called for every request.
	Token func() (string, error)
	// HTTP sends the requests. Redirects are not followed.
	HTTP *http.Client
	// Retrying is told of each failed request that is sent again, and when, and of each file that is
	// sent again at once, because it has arrived damaged; nil: nobody.
	Retrying func(failed error, in time.Duration)
	// RetryFor is how long a request is retried; zero is 10 minutes.
	RetryFor time.Duration
	// Backoff is the pause after the first failure; zero is one second. It
	// doubles up to 30 times that.
	Backoff time.Duration
	// Parallel is how many uploads run at the same time; zero is 4.
	Parallel int
	// Plain sends contents uncompressed.
	Plain bool
	// NoDelta sends changed files whole, although the server has the one of the build before.
	NoDelta bool
	// Hashes, if not nil, has the hashes of files that need not be read again. The caller saves it.
	Hashes *Hashes
	// Event, if set, is called for each file, by one goroutine at a time.
	Event func(PushEvent)
	// Command is the command of the program that pushes, for the log of the server.
	Command string
	// Hint, if not empty, says in place of the server why it wants credentials.
	Hint string
	// Progress, if set, is called with the bytes that were read and sent.
	Progress func(bytes int64)
}

// maxPushAnswer bounds the body of an answer.
const maxPushAnswer = 64 << 20

// exchange is one request of a push. Every one may be repeated.
type exchange struct {
	method, path string // below base
	reads        bool   // it changes nothing, whatever the method is: it may be sent again
	base         string // empty: wire.PushPath
	header       http.Header
	body         func() io.Reader // begins the body again; nil: none
	size         int64            // of the body
	timeout      time.Duration
	answer       time.Duration // from the last byte of the body to the answer; zero: as timeout
	into         any           // the answer is decoded into it; nil: ignored
	raw          *[]byte       // the answer, if it is no JSON
}

// usualRetry is how long requests are repeated if RetryFor is zero.
const usualRetry = 10 * time.Minute

// RetryAndTell makes p retry requests for a time, and print on w why and when.
func (p *Pusher) RetryAndTell(during time.Duration, w io.Writer) {
	p.RetryFor = during
	until := time.Now().Add(cmp.Or(during, usualRetry)).Format("15:04:05")
	p.Retrying = func(failed error, in time.Duration) {
		if in == 0 {
			fmt.Fprintf(w, "symdepot: %v\n", term.Printable(failed.Error()))
			return
		}
		fmt.Fprintf(w, "symdepot: trying again in %v, until %s: %v\n", in.Round(100*time.Millisecond), until, term.Printable(failed.Error()))
	}
}

// do sends a request until it succeeds, fails finally or was retried for
// RetryFor.
func (p *Pusher) do(ctx context.Context, x exchange) (status int, err error) {
	first := cmp.Or(p.Backoff, time.Second)
	until := time.Now().Add(cmp.Or(p.RetryFor, usualRetry))
	for pause := first; ; pause = min(2*pause, 30*first) {
		status, err = p.once(ctx, x)
		if err == nil {
			return status, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		answer, answered := errors.AsType[*answerError](err)
		switch {
		case answered && !answer.transient():
			return status, err
		case isLocal(err):
			return status, err
		case isFinal(err):
			return status, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		wait := pause/2 + rand.N(pause) // so that clients do not retry all at once
		if answered {
			wait = max(wait, min(answer.after, 30*first))
		}
		if time.Now().Add(wait).After(until) {
			if answered {
				return status, err
			}
			return status, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if p.Retrying != nil {
			p.Retrying(err, wait)
		}
		if err := ctxio.Pause(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// isReadError reports whether reading a file of this machine has failed.
func isReadError(err error) bool {
	file, ok := errors.AsType[*fs.PathError](err)
	return ok && file.Op == "read" || errors.Is(err, syscall.EIO)
}

func isLocal(err error) bool {
	_, ok := errors.AsType[*endpoint.LocalError](err)
	return ok
}

// isFinal reports whether a request without an answer is not retried.
func isFinal(err error) bool {
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		return true
	}
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return cert || plain
}

// once sends a request once.
func (p *Pusher) once(ctx context.Context, x exchange) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(x.timeout, 2*time.Minute))
	defer cancel()
	if x.answer > 0 {
		var stop func()
		ctx, stop = awaitAnswer(ctx, x.answer)
		defer stop()
	}
	h := http.Header{"User-Agent": {strings.TrimSpace("symdepot " + p.Command)}, "Accept": {"application/json"}}
	for k, v := range x.header {
		h[k] = v
	}
	var body io.Reader
	var source *sourceReader
	if x.body != nil {
		body = x.body()
		// The kernel sends a file, if nothing is in between; the transport closes it.
		if _, ok := body.(syscall.Conn); !ok {
			source = &sourceReader{r: body}
			body = source
		}
	}
	server := endpoint.Endpoint{HTTP: p.HTTP, URL: p.URL, Token: p.Token}
	resp, err := server.Send(ctx, x.method, cmp.Or(x.base, wire.PushPath)+x.path, h, body, x.size)
	if source != nil && source.err() != nil {
		return 0, source.err()
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errNoAnswer) {
		err = cause
	}
	if err != nil && source == nil && isReadError(err) {
		err = &endpoint.LocalError{What: "read a file", Err: err}
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPushAnswer))
	if err != nil {
		return 0, err
	}
	if resp.StatusCode/100 != 2 {
		problem := problemOf(resp, b)
		if resp.StatusCode == http.StatusUnauthorized && p.Hint != "" {
			problem.Title, problem.Detail = p.Hint, ""
		}
		return resp.StatusCode, problem
	}
	if x.raw != nil {
		*x.raw = b
	}
	if x.into != nil {
		if err := json.Unmarshal(b, x.into); err != nil {
			return 0, &endpoint.LocalError{What: "read the answer, which is not that of a symdepot server", Err: err}
		}
	}
	return resp.StatusCode, nil
}

// errNoAnswer means that a request was sent, and its answer did not come in time.
var errNoAnswer = errors.New("the server does not answer")

// awaitAnswer returns a context for one request. It ends with errNoAnswer if stop was not
// called within a time after the request was sent whole.
func awaitAnswer(ctx context.Context, within time.Duration) (waiting context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(within, func() { cancel(fmt.Errorf("%w within %v", errNoAnswer, within)) })
	timer.Stop()
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { timer.Reset(within) }}
	return httptrace.WithClientTrace(ctx, trace), func() {
		timer.Stop()
		cancel(nil)
	}
}

// problemOf reads the answer to a request that was refused.
func problemOf(resp *http.Response, body []byte) *answerError {
	e := &answerError{}
	if json.Unmarshal(body, &e.Problem) != nil || !strings.HasPrefix(e.Type, wire.ProblemType) {
		e.Problem = wire.Problem{Detail: endpoint.Printable(strings.TrimSpace(string(body[:min(len(body), 500)])))}
		switch {
		case resp.StatusCode/100 == 3:
			e.Detail = endpoint.Redirected(resp)
		case resp.StatusCode == http.StatusNotFound:
			e.Detail = "the URL is not that of a symdepot server with this API"
		}
	}
	e.Status = resp.StatusCode
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		e.after = time.Duration(min(n, 3600)) * time.Second
	}
	return e
}

// post sends a JSON body.
func (p *Pusher) post(ctx context.Context, path string, timeout time.Duration, body, into any) (int, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	return p.do(ctx, exchange{
		method: http.MethodPost, path: path, header: http.Header{"Content-Type": {"application/json"}}, timeout: timeout, into: into,
		body: func() io.Reader { return bytes.NewReader(b) }, size: int64(len(b)),
	})
}

// Limits returns the limits of the server.
func (p *Pusher) Limits(ctx context.Context) (l wire.PushLimits, err error) {
	if _, err = p.do(ctx, exchange{method: http.MethodGet, into: &l}); err != nil {
		return l, err
	}
	if l.Version != 1 || l.CheckBatch < 1 || l.Part < 1 {
		unknown := errors.New("unknown protocol version " + strconv.Itoa(l.Version))
		return l, &endpoint.LocalError{What: "read the limits of the server; update this program", Err: unknown}
	}
	return l, nil
}

// Open opens a stage, or returns the one with the same key.
func (p *Pusher) Open(ctx context.Context, spec wire.PushSpec) (st wire.PushState, err error) {
	_, err = p.post(ctx, "/stages", 0, spec, &st)
	return st, err
}

// State returns the state of a stage.
func (p *Pusher) State(ctx context.Context, id string) (st wire.PushState, err error) {
	_, err = p.do(ctx, exchange{method: http.MethodGet, path: stagePath(id), into: &st})
	return st, err
}

// Abandon deletes a stage.
func (p *Pusher) Abandon(ctx context.Context, id string) error {
	_, err := p.do(ctx, exchange{method: http.MethodDelete, path: stagePath(id)})
	return err
}

// Commit makes the transaction of a stage.
func (p *Pusher) Commit(ctx context.Context, id string, q wire.PushCommit) (done wire.PushCommitted, err error) {
	_, err = p.post(ctx, stagePath(id)+"/commit", 35*time.Minute, q, &done)
	return done, err
}

// stagePath returns the path of a stage. Ids come from the command line, too.
func stagePath(id string) string {
	return "/stages/" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
}

// TokenVariable is the environment variable with the token.
const TokenVariable = "SYMDEPOT_TOKEN"

// CheckURL reports whether a text is the URL of a server.
func CheckURL(server string) error {
	if u, err := url.Parse(server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q is not a URL; expected https://…", server)
	}
	return nil
}

// LoginToken returns the function that gives an access token of the user's login for a server;
// nil: the user has none.
type LoginToken func(server string) (token func() (string, error), err error)

// NewPusher returns a Pusher whose token is that of a file or, without one, of
// the environment variable SYMDEPOT_TOKEN. Without a token, the id token of a CI job
// is exchanged for one; without an id token, it is that of the user's login for the server,
// as login says (nil: there are no logins); without a login, it pushes anonymously. clientFor
// returns an HTTP client for one server.
func NewPusher(
	server, tokenFile string, getenv func(string) string, clientFor func(server string) *http.Client, login LoginToken,
) (*Pusher, error) {
	if server == "" {
		return nil, term.UsageError("the server is missing: give --server URL, or set SYMDEPOT_SERVER")
	}
	if err := CheckURL(server); err != nil {
		return nil, term.UsageError("--server: " + err.Error())
	}
	token := getenv(TokenVariable)
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, err
		}
		token = string(b)
	}
	if token = strings.TrimSpace(token); token == "" && tokenFile != "" {
		return nil, fmt.Errorf("%s is empty", tokenFile)
	}
	requests := clientFor(server)
	if t, ok := requests.Transport.(*http.Transport); ok {
		t.ResponseHeaderTimeout = 0 // each request has a limit of its own; a commit may take long
	}
	p := &Pusher{URL: server, HTTP: requests, Token: func() (string, error) { return token, nil }}
	if token != "" {
		p.Hint = "the server does not know the token, or it was revoked or has expired; " +
			"an administrator sees those of the server with symdepot token list"
	}
	if token == "" || isIDToken(token) {
		if j := newJobToken(server, token, getenv, clientFor); j != nil {
			p.Token = j.get
			return p, nil
		}
	}
	if token == "" {
		return p, p.signedIn(server, getenv, login)
	}
	return p, nil
}

// signedIn gives a Pusher without a token that of the user's login, if there is one.
func (p *Pusher) signedIn(server string, getenv func(string) string, login LoginToken) error {
	p.Hint = "no token was sent: sign in with symdepot login " + server + ", name a file that has a token with --token-file, or set " +
		TokenVariable + "; symdepot token new --name NAME makes one on the machine with the depot"
	if getenv("GITHUB_ACTIONS") == "true" {
		p.Hint = forkHint
	}
	if login == nil {
		return nil
	}
	token, err := login(server)
	if err == nil && token != nil {
		p.Token = token
		p.Hint = "the server no longer accepts the login of this machine: sign in again with symdepot login " + server
	}
	return err
}
