package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/pages"
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
	q := (&webAPI{access: s.access}).request(x, r, p)
	q.Base = s.pageBase(p)
	x.err = s.cfg.Pages.Home(x, q, pages.Home{
		URL: url, Note: s.note(x, web.ConnectNote(baseURL(r))), Restricted: s.restricted() && x.caller.token == "", Below: below,
	})
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
func (s *ownPaths) searchLimit(query string) limit.Semaphore {
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
	Query   string          `json:"query"`
	Results []display.Found `json:"results"`
	More    bool            `json:"more"`
	// Next is the value of from= for the next results.
	Next int `json:"next,omitempty"`
}

// search answers a search with JSON.
func (s *ownPaths) search(x *exchange, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	query, from := pageSearch(r)
	limiter := s.searchLimit(query)
	if err := limiter.Enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	found, next, more, err := s.find(ctx, x, query, from)
	limiter.Leave()
	if err != nil {
		s.fail(x, err)
		return
	}
	a := searchAnswer{Query: query, Results: []display.Found{}, More: more, Next: next}
	for _, f := range found {
		a.Results = append(a.Results, display.NewFound(query, f, nil))
	}
	x.Header()["Cache-Control"] = noStore
	s.json(x, http.StatusOK, a)
}
