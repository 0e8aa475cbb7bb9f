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
	// pagePolicy lets a browser load the one style sheet in the page and send
	// the search, and nothing else.
	pagePolicy = func() []string {
		sum := sha256.Sum256([]byte(pageStyle))
		return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
	}()
)

// Bounds of the page.
const (
	pageResults      = 200
	pageTransactions = 10
	pageQuery        = 512 // longest query, in bytes
	pageTimeout      = 10 * time.Second
)

// pageData is what the template shows.
type pageData struct {
	Base, URL, Version string
	Note               string // how to carry a token; may be empty
	Metrics            bool   // who asks may see them
	Style              template.CSS
	Query, Problem     string
	Results            []pageResult
	More               bool
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

// pageTime is a moment for machines and for people.
type pageTime struct{ Stamp, Text string }

func newPageTime(t time.Time) pageTime {
	t = t.UTC()
	return pageTime{t.Format(time.RFC3339), t.Format("2006-01-02 15:04")}
}

// page answers a browser at the base URL: how to connect each tool, and a
// search. It works without scripts.
//
// base is what links begin with. Where a token stands in the path, they are
// relative: no page shows a token.
func (s *Server) page(x *exchange, r *http.Request, url, base string) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	d := pageData{Base: base, URL: url, Note: s.note(x, r), Version: s.cfg.Version, Style: template.CSS(pageStyle), Clients: clients(url, s.restricted && x.caller.token == "")}
	d.Query = strings.TrimSpace(r.URL.Query().Get("q"))
	if len(d.Query) > pageQuery {
		d.Query = d.Query[:pageQuery]
	}
	d.Query = strings.ToValidUTF8(d.Query, "")
	if err := s.lookups.enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	s.fill(ctx, x, &d)
	s.lookups.leave()
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

// fill asks the depot for what the page shows. What cannot be had is left away
// and logged: the page's first purpose is to explain.
func (s *Server) fill(ctx context.Context, x *exchange, d *pageData) {
	if d.Query != "" {
		found, err := s.depot.Find(ctx, x.caller.scope, d.Query, pageResults+1)
		if err != nil {
			s.cfg.Log.Error("the search failed", "error", err)
			d.Problem = "The search failed; the server's log says why."
		}
		if d.More = len(found) > pageResults; d.More {
			found = found[:pageResults]
		}
		for _, f := range found {
			d.Results = append(d.Results, newPageResult(f, d.Base))
		}
	}
	txs, err := s.depot.List(ctx, x.caller.scope, depot.ListFilter{Limit: pageTransactions})
	if err != nil {
		s.cfg.Log.Error("the transactions could not be listed", "error", err)
	}
	for _, t := range txs {
		d.Transactions = append(d.Transactions, pageTransaction{t.Number, t.Files, t.Product, t.Version, t.Comment, term.Size(t.Bytes), newPageTime(t.Time)})
	}
	d.Metrics = x.caller.scope.Products == nil
	if !d.Metrics {
		return // how much there is besides is nobody's business
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

// shownID is the id that people know an object by.
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
