package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/asked"
	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/layout"
)

// Tracing is what explains requests.
type Tracing struct {
	Depot TraceDepot // nil: nothing is explained
	// Prefixes are the configured ones in front of the paths of symbol files.
	Prefixes []string
	// HexAge and Redirect are those of the configuration of SymCache files.
	HexAge, Redirect bool
	// Gate tells what others may read; nil: everybody reads everything.
	Gate TraceGate
}

// TraceDepot is the part of a depot that explains requests.
type TraceDepot interface {
	Trace(ctx context.Context, ask depot.TraceAsk) (*depot.Trace, error)
	Ask(ctx context.Context, q depot.Question, prefixes, segs []string) error
}

// TraceGate is the part of a gate that tells what others may read.
type TraceGate interface {
	Open() (anonymous auth.Rights, all bool)
	RightsOf(ctx context.Context, row *auth.TokenRow) (auth.Rights, error)
}

var (
	_ TraceDepot = (*depot.Tracer)(nil)
	_ TraceGate  = (*auth.Gate)(nil)
)

const (
	// traceTime is how long the traces of one request may take, askTime a download.
	traceTime = 20 * time.Second
	askTime   = 2 * time.Minute
	// maxLogs is how many logs are traced at the same time: each has many requests.
	maxLogs = 2
)

// traces is the part of the API that explains requests.
type traces struct{ api *API }

func traceOne(a *API, w http.ResponseWriter, r *Request, args []string) error {
	return traces{a}.one(w, r, args)
}

func traceLog(a *API, w http.ResponseWriter, r *Request, args []string) error {
	return traces{a}.log(w, r, args)
}

func traceAsk(a *API, w http.ResponseWriter, r *Request, args []string) error {
	return traces{a}.ask(w, r, args)
}

// viewer is the one for whom a request is traced.
type viewer struct {
	scope  depot.Scope
	beyond bool   // also say what the scope hides
	who    string // in one sentence
}

// viewer returns the one for whom the client wants a request traced: itself or, for
// an administrator, nobody in particular (as=anonymous) or a token (as=token:ID).
func (a traces) viewer(r *Request, as string) (v viewer, err error) {
	switch {
	case a.api.cfg.Tracing.Depot == nil:
		return v, &Problem{Word: "not-found"}
	case r.Anonymous && len(r.Challenges) > 0 && !r.Rights.All && len(r.Rights.Products) == 0:
		return v, &Problem{Word: "credentials"}
	case as == "":
		name := "You are " + strconv.Quote(clip(r.Name))
		if r.Anonymous {
			name = "You have sent no credentials"
		}
		v = viewer{r.scope(), r.Rights.Admin, cmp.Or(r.Says, name+", and see "+productsText(r.scope())+".")}
		return v, nil
	case !r.Rights.Admin:
		return v, &Problem{Word: "forbidden", Detail: "only a token with the scope admin traces for others"}
	}
	var rights auth.Rights
	name := "without credentials"
	id, isToken := strings.CutPrefix(as, "token:")
	switch {
	case as == "anonymous" && a.api.cfg.Tracing.Gate == nil:
		rights = auth.Rights{All: true}
	case as == "anonymous":
		rights, _ = a.api.cfg.Tracing.Gate.Open()
	case isToken && a.api.cfg.Tokens != nil && a.api.cfg.Tracing.Gate != nil:
		row, err := accounts(a).token(r, id)
		if err != nil {
			return v, err
		}
		if rights, err = a.api.cfg.Tracing.Gate.RightsOf(r.Context(), &row); err != nil {
			return v, err
		}
		name = "with the token " + strconv.Quote(clip(row.Name))
	default:
		return v, &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"as": "anonymous or token:ID is expected"}}
	}
	scope := (&Request{Principal: Principal{Rights: rights}}).scope()
	return viewer{scope, true, "Traced for a client " + name + ", which sees " + productsText(scope) + "."}, nil
}

// productsText describes a scope.
func productsText(s depot.Scope) string {
	switch {
	case s.Products == nil:
		return "all products"
	case len(s.Products) == 0:
		return "no product"
	}
	var names []string
	for _, p := range s.Products[:min(len(s.Products), 10)] {
		names = append(names, strconv.Quote(clip(p)))
	}
	text := "the product " + names[0]
	if len(s.Products) > 1 {
		text = "the products " + strings.Join(names, ", ")
	}
	if n := len(s.Products) - len(names); n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// askOf reads the parameters that name a request: path, or name and id.
func askOf(path, name, id string) (asked.Ask, error) {
	if path == "" && name != "" && id != "" {
		if a, ok := asked.Pair(name, id); ok {
			return a, nil
		}
		return asked.Ask{}, &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"id": "this is no id of a file of that name"}}
	}
	a, err := asked.Parse(path)
	if err != nil {
		return a, &Problem{Word: "query", Detail: err.Error(), Fields: map[string]string{"path": "a URL, a path, or name and id are expected"}}
	}
	return a, nil
}

// trace explains one request.
func (a traces) trace(ctx context.Context, v *viewer, q *asked.Ask, headers func(*layout.Request, *depot.File) map[string][]string) (report.Trace, error) {
	t, err := a.api.cfg.Tracing.Depot.Trace(ctx, depot.TraceAsk{Scope: v.scope, Segments: q.Segments, Prefixes: a.api.cfg.Tracing.Prefixes, HexAge: a.api.cfg.Tracing.HexAge, Redirect: a.api.cfg.Tracing.Redirect, Beyond: v.beyond, Headers: headers})
	if err != nil {
		return report.Trace{}, err
	}
	l := report.NewTrace(report.Traced{Asked: q.Text, Path: q.Path(), Token: q.Token, Who: v.who}, t)
	l.Line, l.Times, l.Log = q.Line, q.Times, string(q.Outcome)
	return l, nil
}

// one answers GET trace.
func (a traces) one(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "path", "name", "id", "as"); err != nil {
		return err
	}
	p := r.URL.Query()
	l, err := a.traced(r, p)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, l)
}

// traced explains the request that parameters name.
func (a traces) traced(r *Request, p url.Values) (report.Trace, error) {
	v, err := a.viewer(r, p.Get("as"))
	if err != nil {
		return report.Trace{}, err
	}
	q, err := askOf(p.Get("path"), p.Get("name"), p.Get("id"))
	if err != nil {
		return report.Trace{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), traceTime)
	defer cancel()
	return a.trace(ctx, &v, &q, r.FileHeaders)
}

// log answers POST trace/log: the body is a log as a text.
func (a traces) log(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "as"); err != nil {
		return err
	}
	text, err := readText(r, asked.MaxLog)
	if err != nil {
		return err
	}
	l, err := a.tracedLog(r, r.URL.Query().Get("as"), text)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, l)
}

// tracedLog explains the requests in a log, those first that fail.
func (a traces) tracedLog(r *Request, as, text string) (report.TraceLog, error) {
	out := report.TraceLog{Items: []report.Trace{}}
	v, err := a.viewer(r, as)
	if err != nil {
		return out, err
	}
	done, err := r.turn(a.api.logs, traceTime, "other logs are being traced")
	if err != nil {
		return out, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), traceTime)
	defer cancel()
	list, complete := asked.ParseLog(text)
	out.Complete = complete
	for i := range list {
		l, err := a.trace(ctx, &v, &list[i], r.FileHeaders)
		if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
			out.Complete = false
			break
		}
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, l)
	}
	report.SortTraces(out.Items)
	return out, nil
}

// readText reads a body that is a text of at most limit bytes.
func readText(r *Request, limit int64) (string, error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != identity {
		return "", &Problem{Word: "coding", Detail: "a text is accepted only without a content coding"}
	}
	b, err := r.readAll(limit, "body")
	if err != nil {
		return "", err
	}
	r.Allow(traceTime)
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// ask answers POST trace/ask: the upstreams are asked once, and then the request
// is explained.
func (a traces) ask(w http.ResponseWriter, r *Request, _ []string) error {
	var q wire.TraceAsk
	if err := readJSON(r, maxSpecBody, &q); err != nil {
		return err
	}
	l, err := a.askNow(r, url.Values{"path": {q.Path}, "name": {q.Name}, "id": {q.ID}})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, l)
}

// mayAsk reports whether a client may have the upstreams asked.
func mayAsk(r *Request) bool { return r.Rights.All }

// askNow has the upstreams asked for the request that parameters name, and explains
// it then.
func (a traces) askNow(r *Request, p url.Values) (report.Trace, error) {
	v, err := a.viewer(r, "")
	if err != nil {
		return report.Trace{}, err
	}
	if !mayAsk(r) {
		if r.Anonymous && len(r.Challenges) > 0 {
			return report.Trace{}, &Problem{Word: "credentials", Detail: "asking the upstreams needs the right to read all products"}
		}
		return report.Trace{}, &Problem{Word: "forbidden", Detail: "asking the upstreams needs the right to read all products"}
	}
	q, err := askOf(p.Get("path"), p.Get("name"), p.Get("id"))
	if err != nil {
		return report.Trace{}, err
	}
	r.Allow(askTime)
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	err = a.api.cfg.Tracing.Depot.Ask(ctx, depot.Question{Scope: v.scope, Client: hostOf(r.RemoteAddr)}, a.api.cfg.Tracing.Prefixes, slices.Clone(q.Segments))
	if r.Context().Err() != nil {
		return report.Trace{}, r.Context().Err()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, layout.ErrNoPath) {
		a.api.cfg.Log.Info("the upstreams were asked for a file and none was kept", "request", r.ID, "error", err)
	}
	return a.trace(r.Context(), &v, &q, r.FileHeaders)
}

// hostOf returns the address of a client without its port.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
