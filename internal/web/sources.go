package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/srclink"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Sources knows the source files that debug information names.
type Sources interface {
	Names(ctx context.Context, scope depot.Scope, ref blob.Ref, after, limit int) (list []depot.SourceName, total int, why string, err error)
	// Links returns where an object leads debuggers for sources; fs.ErrNotExist: nowhere.
	Links(ctx context.Context, scope depot.Scope, ref blob.Ref) (*srclink.Links, error)
}

var _ Sources = (*depot.SourceFiles)(nil)

// sourceList is a part of the source files that an object names.
type sourceList struct {
	Items []report.SourceName `json:"items"`
	Next  string              `json:"next,omitempty"`
	Total int                 `json:"total"`
	// Incomplete says why names may be missing.
	Incomplete string         `json:"incomplete,omitempty"`
	Links      *srclink.Links `json:"links,omitempty"`
}

// sources reads a part of the names of an object. after is the number of names before it.
func (a *API) sources(r *Request, text string, limit int, after string) (l sourceList, next string, err error) {
	if a.cfg.Sources == nil {
		return l, "", &Problem{Word: "not-found"}
	}
	from := 0
	if after != "" {
		if from, err = strconv.Atoi(after); err != nil || from <= 0 {
			return l, "", &Problem{Word: "cursor"}
		}
	}
	ref, err := depot.ParseContent(text)
	if err != nil {
		return l, "", noContent(text)
	}
	names, total, why, err := a.cfg.Sources.Names(r.Context(), r.scope(), ref, from, limit)
	if err == nil {
		l.Links, err = a.cfg.Sources.Links(r.Context(), r.scope(), ref)
		if total > 0 && errors.Is(err, fs.ErrNotExist) || errors.Is(err, depot.ErrNoLinks) {
			err = nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return l, "", noContent(text)
	}
	if err != nil {
		return l, "", err
	}
	l.Items, l.Total, l.Incomplete = each(names, report.NewSourceName), total, why
	if n := from + len(names); n < total && len(names) > 0 {
		next = strconv.Itoa(n)
	}
	return l, next, nil
}

// listSources answers GET objects/SHA256/sources.
func listSources(a *API, w http.ResponseWriter, r *Request, args []string) error {
	_, limit, after, err := a.reading(r, "sources")
	if err != nil {
		return err
	}
	l, next, err := a.sources(r, args[0], limit, after)
	if err != nil {
		return err
	}
	l.Next = linkNext(w, r, "sources", next)
	return writeJSON(w, http.StatusOK, l)
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
	report.SourceName
	Link, Class string
}

// stateClass are the classes of marks by the states of sources.
var stateClass = map[string]string{"held": "ok", "bundle": "ok", "embedded": "ok", "missing": "warn"}

// showSources answers GET object/SHA256/sources.
func (p *Pages) showSources(w *reply, r *Request, args []string) error {
	limit, after, err := readPage(r.URL.Query(), "sources")
	if err != nil {
		return err
	}
	ref, err := blob.ParseRef(args[0])
	if err != nil {
		return &Problem{Word: "not-found", Detail: "there is no file with this SHA-256"}
	}
	e, err := p.api.cfg.Catalog.Entry(r.Context(), r.scope(), ref)
	if err == nil && len(e.Objects) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return hidden(err, "file with this SHA-256")
	}
	l, next, err := p.api.sources(r, args[0], limit, after)
	if err != nil {
		return err
	}
	o := e.Objects[0].Object
	f := p.frame(r, "Sources of "+plainName(o.Name), nil)
	v := sourcesView{Name: o.Name, Object: f.To("object", ref.String()), Total: l.Total, Incomplete: l.Incomplete, Lines: report.LinkLines(l.Links), Pages: f.pager("sources", next)}
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
	bundle := symfile.Object{Kind: symfile.SourceBundle, Role: symfile.Sources, Name: o.Name, DebugID: o.DebugID, CodeID: o.CodeID, BuildID: o.BuildID}
	if paths := layout.Unified.Paths(bundle); found && len(paths) > 0 && r.Identity.SignIn == "" {
		v.Bundle = r.Base + "/" + layout.Escape(paths[0])
	}
	f.D = v
	return p.print(w, r, http.StatusOK, "sources", f)
}

// namesSources reports whether an object may name source files.
func namesSources(o *depot.EntryObject) bool {
	for _, w := range o.Features {
		if w == "debug" || w == "private" || w == "sources" || w == "unknown" {
			return o.Object.Kind != symfile.Breakpad && o.Object.Kind != symfile.SourceBundle
		}
	}
	return false
}
