package pages

import (
	"io/fs"
	"net/http"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
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

// sourceRow is a source file. Without a Link its text cannot be opened by its content.
type sourceRow struct {
	display.SourceName
	Link, Class string
}

// stateClass are the classes of marks by the states of sources.
var stateClass = map[string]string{"held": "ok", "bundle": "ok", "embedded": "ok", "missing": "warn"}

// showSources answers GET object/SHA256/sources.
func (p sourcePages) showSources(w *reply, r *web.Request, args []string) error {
	limit, after, err := web.ReadPage(r.URL.Query(), "sources")
	if err != nil {
		return err
	}
	ref, err := blob.ParseRef(args[0])
	if err != nil {
		return &web.Problem{Word: "not-found", Detail: "there is no file with this SHA-256"}
	}
	e, err := p.catalog.Entry(r.Context(), r.Scope(), ref)
	if err == nil && len(e.Objects) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return hidden(err, "file with this SHA-256")
	}
	l, next, err := p.lists.List(r, args[0], limit, after)
	if err != nil {
		return err
	}
	o := e.Objects[0].Object
	f := w.frame(r, "Sources of "+plainName(o.Name), nil)
	v := sourcesView{
		Name: o.Name, Object: f.To("file", ref.String()), Total: l.Total, Incomplete: l.Incomplete,
		Lines: display.LinkLines(l.Links), Pages: f.pager("sources", next),
	}
	v.Command = l.Links != nil && l.Links.Runs() != ""
	found := false
	for _, n := range l.Items {
		row := sourceRow{SourceName: n, Class: stateClass[n.State]}
		if text, err := blob.ParseRef(n.SHA256); err == nil {
			row.Link = link(r.Base, "src", []string{srclink.HashPath(text, n.Name)}, nil)
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
