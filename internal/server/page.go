package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/web"
	"github.com/symdepot/symdepot/internal/web/pages"
)

//go:embed page/notfound.html
var notFoundHTML string

//go:embed page/style.css
var pageStyle string

var (
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
	pageResults = 200
	pageDeepest = 10_000 // the largest from=
	pageQuery   = 512    // longest query, in bytes
	pageTimeout = 10 * time.Second
)

// page answers a browser at the base URL. url is for tools. If the request's URL has a
// token, below is what the links of the page begin with, so that it does not show the
// token.
func (s *ownPaths) page(x *exchange, r *http.Request, p *place, url, below string) {
	x.request = web.NewRequestID()
	q := (&webAPI{s.access}).request(x, r, p)
	q.Base = s.pageBase(p)
	x.err = s.cfg.Pages.Home(x, q, pages.Home{URL: url, Note: s.note(x, r), Restricted: s.restricted && x.caller.token == "", Below: below})
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
	delete(x.Header(), "Content-Disposition") // as in fail
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
