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
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

//go:embed page/page.html
var pageHTML string

//go:embed page/notfound.html
var notFoundHTML string

//go:embed page/style.css
var pageStyle string

var (
	pageTemplate     = template.Must(template.New("page").Parse(pageHTML))
	notFoundTemplate = template.Must(template.New("notfound").Parse(notFoundHTML))
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
	Wider              string // a query that finds more, or empty
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
	d.Query, d.From = pageSearch(r)
	limiter := s.searchLimit(d.Query)
	if err := limiter.enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	s.fill(ctx, x, &d)
	limiter.leave()
	s.html(x, http.StatusOK, pageTemplate, d)
}

// pageSearch returns the query of a request for the page, and the number of results
// before the requested ones.
func pageSearch(r *http.Request) (query string, from int) {
	q := r.URL.Query()
	query = strings.TrimSpace(q.Get("q"))
	if len(query) > pageQuery {
		query = query[:pageQuery]
	}
	return strings.ToValidUTF8(query, ""), number(q.Get("from"), 0, pageDeepest)
}

const wildcards = "*?"

// searchLimit returns the semaphore for a query.
func (s *ownPaths) searchLimit(query string) semaphore {
	if strings.ContainsAny(query, wildcards) {
		return s.searches
	}
	return s.lookups
}

// find searches the depot. next is the number of results up to the next page, or 0
// if there is none that can be requested; more means that there are more results.
func (s *ownPaths) find(ctx context.Context, x *exchange, query string, from int) (list []depot.Found, next int, more bool, err error) {
	list, err = s.depot.Find(ctx, x.caller.scope, query, from+pageResults+1)
	if err != nil {
		return nil, 0, false, err
	}
	list = list[min(from, len(list)):]
	if len(list) > pageResults {
		list, more = list[:pageResults], true
		if next = from + pageResults; next > pageDeepest {
			next = 0
		}
	}
	return list, next, more, nil
}

// searchAnswer is the answer to a search in JSON.
type searchAnswer struct {
	Query   string         `json:"query"`
	Results []report.Found `json:"results"`
	More    bool           `json:"more"`
	// Next is the value of from= for the next results.
	Next int `json:"next,omitempty"`
}

// search answers a search with JSON.
func (s *ownPaths) search(x *exchange, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	query, from := pageSearch(r)
	limiter := s.searchLimit(query)
	if err := limiter.enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	found, next, more, err := s.find(ctx, x, query, from)
	limiter.leave()
	if err != nil {
		s.fail(x, err)
		return
	}
	a := searchAnswer{Query: query, Results: []report.Found{}, More: more, Next: next}
	for _, f := range found {
		a.Results = append(a.Results, report.NewFound(query, f, nil))
	}
	x.Header()["Cache-Control"] = noStore
	s.json(x, http.StatusOK, a)
}

// missing answers 404 to a path that names nothing: with a page for browsers, with
// a text for others.
func (s *service) missing(x *exchange, r *http.Request, p *place, err error) {
	if status, _ := classify(err); status != http.StatusNotFound || !wantsHTML(r) {
		s.fail(x, err)
		return
	}
	home := p.base + "/"
	if p.token != "" {
		// Relative, so that the page does not show the token.
		home = "./" + strings.Repeat("../", strings.Count(p.path, "/")-1)
	}
	x.Header()["Vary"] = []string{"Accept"}
	s.html(x, http.StatusNotFound, notFoundTemplate, struct {
		Home  string
		Style template.CSS
	}{home, template.CSS(pageStyle)})
}

// wantsHTML reports whether a request comes from a browser.
func wantsHTML(r *http.Request) bool { return accepts(r, "text/html") }

// accepts reports whether a request names a media type.
func accepts(r *http.Request, mediaType string) bool {
	return strings.Contains(strings.Join(r.Header["Accept"], ","), mediaType)
}

// html answers with a page.
func (s *service) html(x *exchange, status int, t *template.Template, data any) {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		s.fail(x, err)
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Security-Policy"] = pagePolicy
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{itoa(int64(b.Len()))}
	x.WriteHeader(status)
	_, x.err = x.Write(b.Bytes())
}

// fill reads the search results and the latest transactions. A part that cannot
// be read is logged and omitted, because the instructions do not depend on it.
func (s *ownPaths) fill(ctx context.Context, x *exchange, d *pageData) {
	if d.Query != "" {
		found, next, more, err := s.find(ctx, x, d.Query, d.From)
		if err != nil {
			s.cfg.Log.Error("cannot search the depot", "error", err)
			d.Problem = "The search failed. The server's log has the cause."
		}
		if len(found) == 0 && !strings.ContainsAny(d.Query, wildcards) && len(d.Query) < pageQuery {
			d.Wider = d.Query + "*"
		}
		d.Next, d.More = next, more
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
