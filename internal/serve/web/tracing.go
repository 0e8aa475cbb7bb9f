package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/userquery"
	"github.com/symdepot/symdepot/layout"
)

// Tracing is what explains requests.
type Tracing struct {
	Depot *why.Tracer
	// Prefixes are the configured ones in front of the paths of symbol files.
	Prefixes []string
	// HexAge and Redirect are those of the configuration of SymCache files.
	HexAge, Redirect bool
	// Gate tells what others may read; nil: everybody reads everything.
	Gate *auth.Gate
}

const (
	// TraceTime is how long the traces of one request may take, askTime a download.
	TraceTime = 20 * time.Second
	askTime   = 2 * time.Minute
	// maxLogs is how many logs are traced at the same time: each has many requests.
	maxLogs = 2
)

// Traces explains requests.
type Traces struct {
	Tracing
	accounts *Accounts
	logs     *Gate
	log      *slog.Logger
}

func newTraces(t Tracing, accounts *Accounts, log *slog.Logger) *Traces {
	return &Traces{t, accounts, newGate(maxLogs, TraceTime, "other logs are being traced"), log}
}

// viewer is the one for whom a request is traced.
type viewer struct {
	scope  answer.Scope
	beyond bool   // also say what the scope hides
	mayAdd bool   // the client may add files
	who    string // in one sentence
	public bool   // who also may have public forms, which are not traced
}

// Viewer returns the one for whom the client wants a request traced: itself or, for
// an administrator, nobody in particular (as=anonymous) or a token (as=token:ID).
func (a *Traces) Viewer(r *Request, as string) (v viewer, err error) {
	switch {
	case r.Anonymous && len(r.Challenges) > 0 && !r.Rights.All && len(r.Rights.Products) == 0:
		return v, &Problem{Word: "credentials"}
	case as == "":
		name := "You are " + strconv.Quote(Clip(r.Name))
		if r.Anonymous {
			name = "You have sent no credentials"
		}
		v = viewer{r.Scope(), r.Rights.Admin, r.WritesAny, cmp.Or(r.Says, name+", and see "+productsText(r.Scope())+"."), hasPublic(&r.Rights)}
		return v, nil
	case !r.Rights.Admin:
		return v, &Problem{Word: "forbidden", Detail: "only a token with the scope admin traces for others"}
	}
	var rights auth.Rights
	name := "without credentials"
	id, isToken := strings.CutPrefix(as, "token:")
	switch {
	case as == "anonymous" && a.Gate == nil:
		rights = auth.Rights{All: true}
	case as == "anonymous":
		rights, _ = a.Gate.Open()
	case isToken && a.accounts.store != nil && a.Gate != nil:
		row, err := a.accounts.Token(r, id)
		if err != nil {
			return v, err
		}
		if rights, err = a.Gate.RightsOf(r.Context(), &row); err != nil {
			return v, err
		}
		name = "with the token " + strconv.Quote(Clip(row.Name))
	default:
		return v, BadParameter("as", "anonymous or token:ID is expected")
	}
	scope := (&Request{Principal: Principal{Rights: rights}}).Scope()
	who := "Traced for a client " + name + ", which sees " + productsText(scope) + "."
	return viewer{scope, true, r.WritesAny, who, hasPublic(&rights)}, nil
}

// hasPublic reports whether somebody may have the public forms of some products.
func hasPublic(r *auth.Rights) bool { return r.PublicAll || len(r.Public) > 0 }

// productsText describes a scope.
func productsText(s answer.Scope) string {
	switch {
	case s.Products == nil:
		return "all products"
	case len(s.Products) == 0:
		return "no product"
	}
	var names []string
	for _, p := range s.Products[:min(len(s.Products), 10)] {
		names = append(names, strconv.Quote(Clip(p)))
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
func askOf(path, name, id string) (userquery.Ask, error) {
	if path == "" && name != "" && id != "" {
		if a, ok := userquery.Pair(name, id); ok {
			return a, nil
		}
		return userquery.Ask{}, BadParameter("id", "this is no id of a file of that name")
	}
	a, err := userquery.Parse(path)
	if err != nil {
		return a, BadMember(err.Error(), "path", "a URL, a path, or name and id are expected")
	}
	return a, nil
}

// trace explains one request.
func (a *Traces) trace(
	ctx context.Context, v *viewer, q *userquery.Ask, headers func(*layout.Request, *answer.File) map[string][]string,
) (display.Trace, error) {
	t, err := a.Depot.Trace(ctx, why.TraceAsk{
		Scope: v.scope, Segments: q.Segments, Prefixes: a.Prefixes, HexAge: a.HexAge, Redirect: a.Redirect,
		Beyond: v.beyond, Headers: headers,
	})
	if err != nil {
		return display.Trace{}, err
	}
	l := display.NewTrace(display.Traced{
		Asked: q.Text, Path: q.Path(), Token: q.Token, Who: v.who, MayAdd: v.mayAdd, Public: v.public, Now: time.Now(),
	}, t)
	l.Line, l.Times, l.Log = q.Line, q.Times, string(q.Outcome)
	return l, nil
}

// Traced explains the request that parameters name.
func (a *Traces) Traced(r *Request, p url.Values) (display.Trace, error) {
	v, err := a.Viewer(r, p.Get("as"))
	if err != nil {
		return display.Trace{}, err
	}
	q, err := askOf(p.Get("path"), p.Get("name"), p.Get("id"))
	if err != nil {
		return display.Trace{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), TraceTime)
	defer cancel()
	return a.trace(ctx, &v, &q, r.FileHeaders)
}

// TracedLog explains the requests in a log, those first that fail.
func (a *Traces) TracedLog(r *Request, as, text string) (display.TraceLog, error) {
	out := display.TraceLog{Items: []display.Trace{}}
	v, err := a.Viewer(r, as)
	if err != nil {
		return out, err
	}
	done, err := a.logs.Enter(r)
	if err != nil {
		return out, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), TraceTime)
	defer cancel()
	list, complete := userquery.ParseLog(text)
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
	display.SortTraces(out.Items)
	return out, nil
}

// MayAskUpstreams reports whether a client may have the upstreams asked.
func MayAskUpstreams(r *Request) bool { return r.Rights.All }

// AskNow has the upstreams asked for the request that parameters name, and explains
// it then.
func (a *Traces) AskNow(r *Request, p url.Values) (display.Trace, error) {
	v, err := a.Viewer(r, "")
	if err != nil {
		return display.Trace{}, err
	}
	if !MayAskUpstreams(r) {
		if r.Anonymous && len(r.Challenges) > 0 {
			return display.Trace{}, &Problem{Word: "credentials", Detail: "asking the upstreams needs the right to read all products"}
		}
		return display.Trace{}, &Problem{Word: "forbidden", Detail: "asking the upstreams needs the right to read all products"}
	}
	q, err := askOf(p.Get("path"), p.Get("name"), p.Get("id"))
	if err != nil {
		return display.Trace{}, err
	}
	r.Allow(askTime)
	ctx, cancel := context.WithTimeout(r.Context(), askTime)
	defer cancel()
	err = a.Depot.Ask(ctx, answer.Question{Scope: v.scope, Client: hostOf(r.RemoteAddr)}, a.Prefixes, slices.Clone(q.Segments))
	if r.Context().Err() != nil {
		return display.Trace{}, r.Context().Err()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, layout.ErrNoPath) {
		a.log.Info("the upstreams were asked for a file and none was kept", "request", r.ID, "error", err)
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
