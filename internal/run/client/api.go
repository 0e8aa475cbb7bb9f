package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
)

// API is a client of the API of one depot: that of a server, or one that this process has
// opened. Errors have the same meaning for both: an unknown transaction or job is
// fs.ErrNotExist, see also IsNo, and those of package depot and package retention that the
// table of meanings names.
type API struct {
	// ask sends a request and decodes the answer.
	ask func(context.Context, exchange) error
}

// NewAPI returns a client of the server of a Pusher, with its credentials.
func NewAPI(p *Pusher) *API { return &API{remote{p, 5 * time.Second}.ask} }

// Within returns a client of the API that a transport of this process answers. An error of
// the transport is what the depot has failed with, and is returned as it is.
func Within(answers http.RoundTripper) *API { return &API{within{answers}.ask} }

// computeTime is how long an answer may take for which a server computes a plan.
const computeTime = 35 * time.Minute

// remote asks a server.
type remote struct {
	p *Pusher
	// retryFor is how long a request is retried that the server has not seen, or was too
	// busy for.
	retryFor time.Duration
}

// ask sends a request. Requests change something and are not repeated once the server may
// have seen them, unless they only read.
func (r remote) ask(ctx context.Context, x exchange) error {
	x.timeout = computeTime
	until := time.Now().Add(r.retryFor)
	first := cmp.Or(r.p.Backoff, time.Second)
	for pause := first; ; pause = min(2*pause, 8*first) {
		_, err := r.p.once(ctx, x)
		if err == nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		answer, answered := errors.AsType[*answerError](err)
		if answered && !answer.transient() || isLocal(err) {
			return err
		}
		again := answered || x.method == http.MethodGet || x.reads
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			again = true
		}
		if !again || isFinal(err) || time.Now().Add(pause).After(until) {
			if answered {
				return err
			}
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if err := ctxio.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// within asks a depot of this process.
type within struct{ answers http.RoundTripper }

func (w within) ask(ctx context.Context, x exchange) error {
	var body io.Reader
	if x.body != nil {
		body = x.body()
	}
	req, err := http.NewRequestWithContext(ctx, x.method, x.base+x.path, body)
	if err != nil {
		return err
	}
	for name, values := range x.header {
		req.Header[name] = values
	}
	resp, err := w.answers.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode/100 != 2:
		e := problemOf(resp, b)
		e.here = true
		return e
	case x.into == nil:
		return nil
	}
	return json.Unmarshal(b, x.into)
}

// request is a request for the API.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte // nil: none
	reads        bool   // as in exchange
	// missing is what it means that the address is not found; nil: nothing but that.
	missing error
}

// call sends a request and returns the answer.
func call[T any](ctx context.Context, a *API, q request) (answer T, err error) {
	err = meant(a.ask(ctx, q.exchange(&answer)), q.missing)
	return answer, err
}

// order sends a request whose answer has no body.
func order(ctx context.Context, a *API, q request) error {
	return meant(a.ask(ctx, q.exchange(nil)), q.missing)
}

// exchange is the request on the wire.
func (q request) exchange(into any) exchange {
	x := exchange{method: q.method, base: q.path, reads: q.reads, header: q.header, into: into}
	if e := q.query.Encode(); e != "" {
		x.base += "?" + e
	}
	if q.body != nil {
		x.body, x.size = func() io.Reader { return bytes.NewReader(q.body) }, int64(len(q.body))
	}
	return x
}

// get reads what an address has.
func get[T any](ctx context.Context, a *API, path string, query url.Values) (T, error) {
	return call[T](ctx, a, request{method: http.MethodGet, path: path, query: query, missing: fs.ErrNotExist})
}

// send sends a value as JSON. missing is that of a request.
func send[T any](ctx context.Context, a *API, method, path string, value any, missing error) (T, error) {
	return sendAs[T](ctx, a, request{method: method, path: path, missing: missing}, value)
}

// sendAs sends a request with a value as JSON.
func sendAs[T any](ctx context.Context, a *API, q request, value any) (answer T, err error) {
	if q.body, err = json.Marshal(value); err != nil {
		return answer, err
	}
	q.header = http.Header{"Content-Type": {"application/json"}}
	return call[T](ctx, a, q)
}

// pageRows is how many items a page of a list has.
const pageRows = 500

// list calls each for the items of a list, at most limit (0: all), and returns their number.
func list[T any](ctx context.Context, a *API, path string, query url.Values, limit int, each func(T) error) (n int, err error) {
	for {
		rows := pageRows
		if limit > 0 {
			rows = min(limit-n, pageRows)
		}
		query.Set("limit", strconv.Itoa(rows))
		page, err := get[struct {
			Items []T    `json:"items"`
			Next  string `json:"next"`
		}](ctx, a, path, query)
		if err != nil {
			return n, err
		}
		for _, x := range page.Items {
			if err := each(x); err != nil {
				return n, err
			}
			n++
		}
		if page.Next == "" || limit > 0 && n >= limit {
			return n, nil
		}
		query.Set("cursor", page.Next)
	}
}

// given returns parameters without those that are empty.
func given(values map[string]string) url.Values {
	q := url.Values{}
	for name, value := range values {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// moment is a time as a parameter; empty for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// numbered is the path of the thing with a number.
func numbered(path string, number int64) string { return path + "/" + strconv.FormatInt(number, 10) }
