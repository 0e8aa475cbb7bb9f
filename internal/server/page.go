package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/style.css
var pageStyle string

var (
	pageTemplate = template.Must(template.New("page").Parse(pageHTML))
	// pagePolicy allows only the inline style sheet, images of this server, and
	// the search form.
	pagePolicy = func() []string {
		sum := sha256.Sum256([]byte(pageStyle))
		return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
	}()
)

// Limits of the page.
const (
	pageResults      = 200
	pageDeepest      = 10_000 // the largest from=
	pageTransactions = 10
	pageQuery        = 512 // longest query, in bytes
	pageTimeout      = 10 * time.Second
)

// pageData is what the template shows.
type pageData struct {
	Base, URL, Version string
	Note               string // how to send a token, or empty
	Metrics            bool   // whether the caller may read the metrics
	Style              template.CSS
	Query, Problem     string
	Results            []pageResult
	More               bool // whether there are results after Last
	From               int  // number of results before this page
	First, Last        int  // first and last result of this page, counted from 1
	Next               int  // From of the next page, or 0 for none
	Clients            []client
	Transactions       []pageTransaction
	Stats              string
}

type pageResult struct {
	Name, Link, Kind, Arch, ID, Features, Size, Transactions string
	Added                                                    pageTime
}

type pageTransaction struct {
	Number, Files                   int64
	Product, Version, Comment, Size string
	When                            pageTime
}

// pageTime is a time in RFC 3339 and as displayed.
type pageTime struct{ Stamp, Text string }

func newPageTime(t time.Time) pageTime {
	t = t.UTC()
	return pageTime{t.Format(time.RFC3339), t.Format("2006-01-02 15:04")}
}

// page answers a browser at the base URL with instructions for each tool and a
// search. It needs no scripts.
//
// Links begin with base. If the URL contains a token, base is relative, so that
// the page does not show the token.
func (s *ownPaths) page(x *exchange, r *http.Request, url, base string) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := pageData{Base: base, URL: url, Note: s.note(x, r), Version: s.cfg.Version, Style: template.CSS(pageStyle), Clients: clients(url, s.restricted && x.caller.token == "")}
	d.Query = strings.TrimSpace(r.URL.Query().Get("q"))
	if len(d.Query) > pageQuery {
		d.Query = d.Query[:pageQuery]
	}
	d.Query = strings.ToValidUTF8(d.Query, "")
	d.From = number(r.URL.Query().Get("from"), 0, pageDeepest)
	limiter := s.lookups
	if strings.ContainsAny(d.Query, "*?") {
		limiter = s.searches
	}
	if err := limiter.enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	s.fill(ctx, x, &d)
	limiter.leave()
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, d); err != nil {
		s.fail(x, err)
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Security-Policy"] = pagePolicy
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Length"] = []string{itoa(int64(b.Len()))}
	x.WriteHeader(http.StatusOK)
	_, x.err = x.Write(b.Bytes())
}

// fill reads the search results and the latest transactions. A part that cannot
// be read is logged and omitted, because the instructions do not depend on it.
func (s *ownPaths) fill(ctx context.Context, x *exchange, d *pageData) {
	if d.Query != "" {
		found, err := s.depot.Find(ctx, x.caller.scope, d.Query, d.From+pageResults+1)
		if err != nil {
			s.cfg.Log.Error("cannot search the depot", "error", err)
			d.Problem = "The search failed. The server's log has the cause."
		}
		found = found[min(d.From, len(found)):]
		if len(found) > pageResults {
			found = found[:pageResults]
			if d.Next = d.From + pageResults; d.Next > pageDeepest {
				d.Next = 0
			}
			d.More = true
		}
		d.First, d.Last = d.From+1, d.From+len(found)
		for _, f := range found {
			d.Results = append(d.Results, newPageResult(f, d.Base))
		}
	}
	txs, err := s.depot.List(ctx, x.caller.scope, depot.ListFilter{Limit: pageTransactions})
	if err != nil {
		s.cfg.Log.Error("cannot list the transactions", "error", err)
	}
	for _, t := range txs {
		d.Transactions = append(d.Transactions, pageTransaction{t.Number, t.Files, t.Product, t.Version, t.Comment, term.Size(t.Bytes), newPageTime(t.Time)})
	}
	d.Metrics = x.caller.scope.Products == nil
	if !d.Metrics {
		return // only callers without a scope see the size of the depot
	}
	if st, ok := s.metrics.holdings.stats(); ok && st.Objects > 0 {
		d.Stats = fmt.Sprintf("%s in %s", term.Count(st.Objects, "object"), term.Size(st.Bytes))
	}
}

func newPageResult(f depot.Found, base string) pageResult {
	r := pageResult{Name: f.Object.Name, Kind: f.Object.Kind.String(), Arch: f.Arch, ID: shownID(f.Object), Size: term.Size(f.Size),
		Features: strings.Join(f.Features, ", "), Added: newPageTime(f.Added)}
	if p := layout.Path(f.Object); p != "" {
		r.Link = base + escapePath("/"+p)
	}
	const shown = 5
	var list []string
	for _, n := range f.Transactions[:min(shown, len(f.Transactions))] {
		list = append(list, itoa(n))
	}
	r.Transactions = strings.Join(list, ", ")
	if more := len(f.Transactions) - shown; more > 0 {
		r.Transactions += fmt.Sprintf(" and %d more", more)
	}
	return r
}

// shownID returns the id of an object as its own tools display it.
func shownID(o symfile.Object) string {
	switch {
	case o.BuildID != "":
		return string(o.BuildID)
	case o.Kind == symfile.PE || o.Kind == symfile.DBG:
		return o.CodeID
	case !o.DebugID.IsZero():
		return o.DebugID.Breakpad()
	case o.Hash != "":
		return o.Hash
	}
	return o.CodeID
}
