package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
)

// catalogPages are the pages that show what the depot holds.
var catalogPages = []pageRoute{
	page(http.MethodGet, "search", anyone, "Search", (*Pages).search),
	page(http.MethodGet, "tx", anyone, "Transactions", (*Pages).listTx),
	page(http.MethodGet, "tx/*", anyone, "", (*Pages).showTx),
	page(http.MethodGet, "tx/*/remove", mayChange, "", (*Pages).confirmRemove),
	page(http.MethodPost, "tx/*/*", mayChange, "", (*Pages).actTx),
	page(http.MethodGet, "object/*", anyone, "", (*Pages).showObject),
	page(http.MethodGet, "object/*/sources", anyone, "", (*Pages).showSources),
}

// otherPages are the pages about the server.
var otherPages = []pageRoute{
	page(http.MethodGet, "connect", anyone, "Connect", (*Pages).connect),
	page(http.MethodGet, "prefs", anyone, "", (*Pages).showPrefs),
	page(http.MethodPost, "prefs", anyone, "", (*Pages).setPrefs),
}

// homeView is what the root page shows.
type homeView struct {
	URL     string
	Note    string // how to send a token, or ""
	Clients []Client
	Newest  []txRow
	Empty   bool   // the depot holds nothing that the client may see
	Health  string // in a line
	Bad     bool   // something is wrong
	Metrics string // the address of the metrics, or ""
	// Identify: files can be identified here.
	Identify bool
	// Found are the objects of a search, for clients whose address contains a token:
	// their links are downloads.
	Query string
	Found []downloadRow
	More  bool
}

type downloadRow struct {
	Name, Link, Kind, Arch, ID string
	Size                       int64
}

const (
	homeNewest = 10
	homeFound  = 100
)

// Home describes the root page of a request.
type Home struct {
	// URL is the base URL for tools, with a prefix, and with TOKEN in place of a token.
	URL  string
	Note string // how to send a token, or ""
	// Restricted: the settings of the tools have a place for a token.
	Restricted bool
	// Below is set for an address that contains a token: what relative links begin with.
	Below string
}

// Home answers a browser that asks for the root. The error is for the log.
func (p *Pages) Home(w http.ResponseWriter, r *Request, h Home) error {
	err := p.limited(w, r, func(w *reply) error { return p.home(w, r, h) })
	if err == nil {
		return nil
	}
	return p.Refuse(w, r, err)
}

func (p *Pages) home(w *reply, r *Request, h Home) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if query != "" && h.Below == "" {
		return seeOther(w, r, link(r.Base, "search", nil, values("q", query)))
	}
	f := p.frame(r, "", nil)
	if h.Below != "" {
		f.path, f.Nav, f.Below = r.Base+"/", nil, h.Below // the path of the request has the token
	}
	v := homeView{URL: h.URL, Note: h.Note, Clients: Clients(h.URL, h.Restricted), Query: query}
	v.Identify = p.api.mayAsk(r) == nil && h.Below == ""
	f.Search = query
	if r.Rights.All && h.Below == "" && r.Identity.SignIn == "" { // the cookie does not count there
		v.Metrics = r.Base + "/metrics"
	}
	if query != "" {
		if err := p.downloads(r, h, &v); err != nil {
			return err
		}
	}
	txs, err := p.api.cfg.Transactions.List(r.Context(), r.scope(), depot.ListFilter{Limit: homeNewest})
	if err != nil {
		// The settings of the tools do not depend on the depot.
		p.api.cfg.Log.Error("cannot list the transactions", "error", err)
	}
	for _, t := range txs {
		row := f.txRow(t)
		if h.Below != "" {
			row.Link = ""
		}
		v.Newest = append(v.Newest, row)
	}
	v.Empty = err == nil && len(txs) == 0
	v.Health, v.Bad = p.health(r)
	f.D = v
	return p.print(w, r, http.StatusOK, "home", f)
}

// downloads searches for a client whose address contains a token.
func (p *Pages) downloads(r *Request, h Home, v *homeView) error {
	found, err := p.api.cfg.Catalog.Objects(r.Context(), r.scope(), depot.ObjectQuery{Text: clip(v.Query), Sort: depot.SortName, Limit: homeFound})
	if err != nil {
		return badQuery(err)
	}
	for _, o := range found.Objects {
		v.Found = append(v.Found, downloadRow{o.Object.Name, download(h.Below, o.Object), o.Object.Kind.String(), o.Arch, report.ObjectID(o.Object), o.Size})
	}
	v.More = found.Next != ""
	return nil
}

// health says in a line how the server is.
func (p *Pages) health(r *Request) (text string, bad bool) {
	var list []string
	if p.api.cfg.Upstreams != nil {
		all, up := p.api.cfg.Upstreams.Upstreams(), 0
		for _, u := range all {
			if !u.Open && u.Failures == 0 {
				up++
			}
		}
		switch bad = up < len(all); {
		case bad:
			list = append(list, fmt.Sprintf("%d of %s answer", up, term.Count(int64(len(all)), "upstream")))
		case len(all) > 0:
			list = append(list, term.Count(int64(up), "upstream")+" in order")
		}
	}
	if st, ok := r.holdings(); ok && r.Rights.All {
		list = append(list, fileCount(st.Objects), term.Size(st.Bytes))
	}
	return strings.Join(list, " · "), bad
}

// fileCount prints a number of files with a comma between its thousands.
func fileCount(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return number(n) + " files"
}

func (r *Request) holdings() (depot.Stats, bool) {
	if r.Holdings == nil {
		return depot.Stats{}, false
	}
	return r.Holdings()
}

// connectView is what the page about tools shows.
type connectView struct {
	URL, Note string
	Clients   []Client
}

// connection describes how tools connect to the server.
func connection(r *Request) connectView {
	v := connectView{URL: r.BaseURL + r.Base}
	restricted := len(r.Challenges) > 0 && !r.Open
	if restricted {
		v.Note = AccessText(v.URL)
	}
	v.Clients = Clients(v.URL, restricted)
	return v
}

// connect answers GET connect.
func (p *Pages) connect(w *reply, r *Request, _ []string) error {
	return p.show(w, r, http.StatusOK, "connect", "Connect a tool", connection(r))
}
