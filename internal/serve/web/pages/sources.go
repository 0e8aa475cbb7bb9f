package pages

import (
	"net/http"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/stacks"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// sourcePages are the pages about the source files that a content names.
type sourcePages struct {
	catalog *catalog.Catalog
	lists   *web.SourceLists
}

// sourcesView is what the page of the sources of a content shows.
type sourcesView struct {
	Name, Object string // of the file, and the address of its page
	Rows         []sourceRow
	Total        int
	Incomplete   string
	Lines        []string // where the links lead
	Command      bool     // a debugger could run a command
	Bundle       string   // the address of the source bundle
	Pages        pages
}

// sourceRow is a source file. Without a Link its text is not here.
type sourceRow struct {
	display.SourceName
	Link, Class string
}

// stateClass are the classes of marks by the states of sources.
var stateClass = map[string]string{"here": "ok", "bundle": "ok", "embedded": "ok", "missing": "warn"}

// showSources answers GET file/SHA256/sources.
func (p sourcePages) showSources(w *reply, r *web.Request, args []string) error {
	limit, after, err := web.ReadPage(r.URL.Query(), "sources")
	if err != nil {
		return err
	}
	ref, entry, err := visible(p.catalog, r, args[0])
	if err != nil {
		return err
	}
	l, next, err := p.lists.List(r, args[0], limit, after)
	if err != nil {
		return err
	}
	o := entry.Object
	f := w.frame(r, "Sources of "+plainName(o.Name), nil)
	v := sourcesView{
		Name: o.Name, Object: f.To("file", ref.String()), Total: l.Total, Incomplete: l.Incomplete,
		Lines: display.LinkLines(l.Links), Pages: f.pager("sources", next),
	}
	v.Command = l.Links != nil && l.Links.Runs() != ""
	found := false
	for _, n := range l.Items {
		row := sourceRow{SourceName: n, Class: stateClass[n.State]}
		if n.State != "missing" && stacks.ModuleID(o) != "" {
			row.Link = sourceLine(f.Base, ref, n.Name, 0)
		}
		found = found || n.State != "missing"
		v.Rows = append(v.Rows, row)
	}
	bundle := symfile.Object{
		Kind: symfile.SourceBundle, Role: symfile.Sources, Name: o.Name, DebugID: o.DebugID, CodeID: o.CodeID,
		BuildID: o.BuildID,
	}
	if paths := layout.Unified.Paths(bundle); found && len(paths) > 0 && r.Identity.SignIn == "" {
		v.Bundle = r.Base + "/" + layout.Escape(paths[0])
	}
	f.D = v
	return w.print(r, http.StatusOK, "sources", f)
}

// namesSources reports whether an object may name source files.
func namesSources(o *catalog.EntryObject) bool {
	for _, w := range o.Features {
		if w == "debug" || w == "private" || w == "sources" || w == "unknown" {
			return o.Object.Kind != symfile.Breakpad && o.Object.Kind != symfile.SourceBundle
		}
	}
	return false
}
