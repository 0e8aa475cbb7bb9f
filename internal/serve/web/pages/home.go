package pages

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// homePages are the root page, and those that are not about the depot.
type homePages struct {
	depot   web.Depot
	catalog *catalog.Catalog
	inPlace *inplace.Places
	remote  *depot.Remote
	log     *slog.Logger
}

func (p homePages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "connect", web.Anyone, "Tools/Connect", p.connect),
	}
}

// homeView is what the root page shows.
type homeView struct {
	URL     string
	Note    string       // how to send a token, or ""
	Clients []web.Client // how tools are connected, where the page Connect does not say it
	Newest  []txRow
	Empty   bool // the depot holds nothing that the client may see
	Served  []display.ServedFolder
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

func (p homePages) root(w *reply, r *web.Request, h Home) error {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	if query != "" && h.Below == "" {
		return seeOther(w, r, link(r.Base, "search", nil, values("q", query)))
	}
	f := w.frame(r, "", nil)
	f.stayBelow(r, h.Below)
	v := homeView{URL: h.URL, Note: h.Note, Query: query}
	v.Identify = r.MayRead() == nil && h.Below == ""
	f.Search = query
	if r.Rights.All && h.Below == "" && r.Identity.SignIn == "" { // the cookie does not count there
		v.Metrics = r.Base + "/metrics"
	}
	if query != "" {
		if err := p.downloads(r, h, &v); err != nil {
			return err
		}
	}
	txs, err := p.depot.List(r.Context(), r.Scope(), depot.ListFilter{Limit: homeNewest})
	if err != nil {
		// The settings of the tools do not depend on the depot.
		p.log.Error("cannot list the builds", "error", err)
	}
	for _, t := range txs {
		row := f.txRow(t)
		if h.Below != "" {
			row.Link = ""
		}
		v.Newest = append(v.Newest, row)
	}
	v.Empty = err == nil && len(txs) == 0
	if len(txs) == 0 || h.Below != "" {
		v.Clients = web.Clients(h.URL, h.Restricted)
	}
	if r.MayRead() == nil {
		v.Served = web.Describe(p.inPlace.ServedFolders(r.Context(), r.Scope()), display.NewServedFolder)
	}
	var held *depot.Stats
	if st, ok := r.Totals(); ok && r.Rights.All {
		held = &st
	}
	v.Health, v.Bad = health(p.remote.Upstreams(), held)
	f.D = v
	return w.print(r, http.StatusOK, "home", f)
}

// downloads searches for a client whose address contains a token.
func (p homePages) downloads(r *web.Request, h Home, v *homeView) error {
	query := catalog.ObjectQuery{Text: web.Clip(v.Query), Sort: catalog.SortName, Limit: homeFound}
	found, err := p.catalog.Objects(r.Context(), r.Scope(), query)
	if err != nil {
		return badQuery(err)
	}
	for _, o := range found.Objects {
		v.Found = append(v.Found, downloadRow{
			o.Object.Name, download(h.Below, o.Object), o.Object.Kind.String(), o.Arch, display.ObjectID(o.Object), o.Size,
		})
	}
	v.More = found.Next != ""
	return nil
}

// health says in a line how a server is that asks upstreams. held are the totals of the
// depot, if the client may see them.
func health(all []depot.UpstreamStatus, held *depot.Stats) (text string, bad bool) {
	var list []string
	up := 0
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
	if held != nil {
		list = append(list, fileCount(held.Objects), term.Size(held.Bytes))
	}
	return strings.Join(list, " · "), bad
}

// fileCount prints a number of files with a comma between its thousands.
func fileCount(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return web.Number(n) + " files"
}

// connect answers GET connect.
func (p homePages) connect(w *reply, r *web.Request, _ []string) error {
	return w.show(r, http.StatusOK, "connect", "Connect a tool", web.Connection(r))
}
