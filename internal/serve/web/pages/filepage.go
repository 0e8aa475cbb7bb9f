package pages

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/stacks"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// objectPages are the pages about a content.
type objectPages struct {
	catalog       *catalog.Catalog
	lists         *web.SourceLists
	symbolication *web.Symbolication
	tracing       web.Tracing
	makes         bool // Breakpad files are made on request
	now           func() time.Time
}

func (p objectPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "file/*", web.Anyone, "", p.showObject).explainedIn("web"),
		page(http.MethodGet, "file/*/sources", web.Anyone, "", sourcePages{p.catalog, p.lists}.showSources),
		page(http.MethodGet, "file/*/source", web.Anyone, "", sourcePages{p.catalog, p.lists}.showSource),
	}
}

// objectView is what the page of a content shows.
type objectView struct {
	SHA256  string
	Size    int64
	Objects []objectSection
	Forms   []catalog.EntryForm
	Cold    *display.ColdFile
	Base    string // the address of the page of its base, or ""
	Now     time.Time
}

// objectSection is one object of a content.
type objectSection struct {
	Name, Kind, Arch string
	Size             int64
	Verdict          string // what symbolication gets from it
	Download, Public string // Public is the form for people outside
	Why              string // the address of the trace
	Sources          string // the address of the list of its source files, or ""
	Functions        string // the address of the list of its functions, or ""
	LookUp           string // the address of the form for its addresses, or ""
	IDs              []web.NamedValue
	Paths            []askedPath
	Has              []web.NamedValue
	Holders          []holderRow
	More             bool // there are other holders
	Downloads        []catalog.Download
	Partners         []partnerRow
	Siblings         table
	AllSiblings      string
	Path, Archive    string
}

// askedPath is an address under which clients ask for an object.
type askedPath struct {
	Layout, URL, What string
	Other             string // the address of the other file that answers, or ""
}

type holderRow struct {
	catalog.Holder
	Link string
}

type partnerRow struct {
	Kind, Name, ID, Link string // no link: it is missing
	Why                  string
	Others               int
}

// badgeOf is the word of pages for a feature, where it is another one.
var badgeOf = map[string]string{
	"debug": "lines", "symtab": "symbols", "no-sections": "no sections", "type-only": "types", "unknown": "not read",
}

// program stands with the features of a file that has code.
const program = "program"

// legend are the features that the badges of tables are explained for.
var legend = []string{program, "debug", "symtab", "unwind", "sources"}

// badgesOf returns the badges of an object. The flavor of a PDB is none: lines and
// symbols say the same.
func badgesOf(o symfile.Object, features []string) (list []string) {
	if o.Role&symfile.Executable != 0 {
		list = append(list, program)
	}
	for _, w := range features {
		if w != "private" && w != "public" {
			list = append(list, cmp.Or(badgeOf[w], w))
		}
	}
	return list
}

// hasList says what features mean.
func hasList(features []string) (list []web.NamedValue) {
	for _, w := range features {
		list = append(list, web.NamedValue{Label: cmp.Or(badgeOf[w], w), Value: featureText[w]})
	}
	return list
}

// featureText says what a feature means.
var featureText = map[string]string{
	program:       "the program or library itself",
	"debug":       "debug information: functions and lines",
	"symtab":      "a table of symbols: names of functions without lines",
	"unwind":      "unwind information: the stack can be walked",
	"sources":     "source files in it, or links to them",
	"no-sections": "no section headers: tools that need them cannot read the file",
	"unknown":     "its features are not known, because they were too large to read",
	"private":     "private symbols: functions, lines and types",
	"public":      "public symbols only: names of functions without lines",
	"type-only":   "types only, without functions",
}

// showObject answers GET file/SHA256.
func (p objectPages) showObject(w *reply, r *web.Request, args []string) error {
	missing := &web.Problem{Word: "not-found", Detail: "there is no file with this SHA-256"}
	ref, err := blob.ParseRef(args[0])
	if err != nil {
		return missing
	}
	e, err := p.catalog.Entry(r.Context(), r.Scope(), ref)
	if err != nil {
		return hidden(err, "file with this SHA-256")
	}
	f := w.frame(r, "", nil)
	v := objectView{SHA256: ref.String(), Size: e.Size, Cold: display.NewColdFile(e.Cold), Now: p.now()}
	v.Forms = slices.DeleteFunc(e.Forms, func(form catalog.EntryForm) bool { return form.Name == "cold" }) // the page says it by itself
	if v.Cold != nil && v.Cold.Base != "" {
		if _, err := p.catalog.Entry(r.Context(), r.Scope(), e.Cold.Base.Ref); err == nil {
			v.Base = f.To("file", e.Cold.Base.Ref.String())
		}
	}
	for i := range v.Forms { // what follows names the other files that it was made of
		v.Forms[i].Tool, _, _ = strings.Cut(v.Forms[i].Tool, "+")
	}
	for i := range e.Objects {
		section, err := p.objectSection(f, r, &e.Objects[i])
		if err != nil {
			return err
		}
		v.Objects = append(v.Objects, section)
	}
	if len(v.Objects) == 0 {
		return missing
	}
	f.Title, f.D = plainName(v.Objects[0].Name), v
	return w.print(r, http.StatusOK, "file", f)
}

func (p objectPages) objectSection(f *frame, r *web.Request, o *catalog.EntryObject) (objectSection, error) {
	s := objectSection{
		Name: o.Object.Name, Kind: o.Object.Kind.String(), Arch: o.Arch, Size: o.Size, IDs: web.Spellings(o.Object),
		Path: o.Path, Archive: o.Archive, Downloads: o.Downloads, More: o.MoreHolders,
	}
	var err error
	if s.Paths, err = p.askedUnder(f, r, o); err != nil {
		return s, err
	}
	if path := layout.Path(o.Object); path != "" {
		s.Download = download(r.Base, o.Object)
		outside := s.Download + "?" + values(web.Audience, web.AudiencePublic).Encode()
		if r.Identity.SignIn != "" {
			// The cookie does not count on the paths of symbol files.
			s.Download = link(r.Base, "file", []string{web.DownloadWord}, values("path", "/"+path))
			outside = link(r.Base, "file", []string{web.DownloadWord}, values("path", "/"+path, web.Audience, web.AudiencePublic))
		}
		if public.MayHave(o.Object.Kind) {
			s.Public = outside
		}
		s.Why = f.Ask("trace", "path", "/"+path)
	}
	if namesSources(o) {
		s.Sources = f.To("file", o.Ref.String(), "sources")
	}
	if holdsFunctions(o) && !p.symbolication.Off() {
		s.Functions = f.To("file", o.Ref.String(), "functions")
		s.LookUp = f.Ask("symbolicate", "name", o.Object.Name, "id", stacks.ModuleID(o.Object))
	}
	s.Has = hasList(o.Features)
	s.Verdict = verdict(o)
	for _, h := range o.Holders {
		s.Holders = append(s.Holders, holderRow{h, f.To("builds", h.Transaction.Number)})
	}
	for _, x := range o.Partners {
		row := partnerRow{Kind: x.Kind.String(), Name: x.Name, ID: x.ID}
		if len(x.Held) > 0 {
			row.Link, row.Others = f.To("file", x.Held[0].Ref.String()), len(x.Held)-1
		} else {
			row.Why = f.Ask("trace", "name", x.Name, "id", x.ID)
		}
		s.Partners = append(s.Partners, row)
	}
	s.Siblings = f.objects("Other files named "+o.Object.Name, "", o.Siblings)
	if o.MoreSiblings {
		s.AllSiblings = f.Ask("search", "q", o.Object.Name, "sort", string(catalog.SortAdded))
	}
	return s, nil
}

// holdsFunctions reports whether addresses can be looked up in an object.
func holdsFunctions(o *catalog.EntryObject) bool {
	switch o.Object.Kind {
	case symfile.PDB, symfile.PE, symfile.ELF, symfile.MachO:
		return stacks.ModuleID(o.Object) != "" && verdict(o) != "" && !o.Object.NoDBI
	}
	return o.Object.Kind == symfile.Breakpad
}

// verdict says in a few words what symbolication gets from an object.
func verdict(o *catalog.EntryObject) string {
	has := func(w string) bool { return slices.Contains(o.Features, w) }
	switch {
	case o.Object.NoDBI:
		return "types only"
	case has("debug") || has("private"):
		return "full, with lines"
	case has("symtab") || has("public"):
		return "names of functions, no lines"
	case has("unwind"):
		return "unwind information only"
	}
	return ""
}

// maxPaths is how many addresses of an object are shown.
const maxPaths = 24

// askedUnder lists the addresses under which clients ask for an object, with what this
// client gets there.
func (p objectPages) askedUnder(f *frame, r *web.Request, o *catalog.EntryObject) ([]askedPath, error) {
	var list []askedPath
	add := func(obj symfile.Object) error {
		for _, l := range layout.All() {
			for _, path := range l.Paths(obj) {
				a := askedPath{Layout: l.Name(), URL: r.BaseURL + r.Base + "/" + layout.Escape(path)}
				if len(list) == maxPaths || slices.ContainsFunc(list, func(x askedPath) bool { return x.URL == a.URL }) {
					continue
				}
				if err := p.answerTo(f, r, path, o.Ref, &a); err != nil {
					return err
				}
				list = append(list, a)
			}
		}
		return nil
	}
	if err := add(o.Object); err != nil {
		return nil, err
	}
	if p.makes && makesSym(o) {
		if err := add(symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: o.Object.Name, DebugID: o.Object.DebugID}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// answerTo says what a request for a path gets, by the lookup that the server does.
func (p objectPages) answerTo(f *frame, r *web.Request, path string, ref blob.Ref, a *askedPath) error {
	tracing := p.tracing
	if tracing.Depot == nil {
		a.What = "available"
		return nil
	}
	t, err := tracing.Depot.Trace(r.Context(), why.TraceAsk{Scope: r.Scope(), Segments: strings.Split(path, "/"), Prefixes: tracing.Prefixes})
	if err != nil {
		return err
	}
	switch t.Verdict {
	case why.VerdictFound:
		switch {
		case t.File.Ref == ref:
			a.What = "available"
		case t.File.Made:
			a.What = "available, made from it"
		default:
			a.What = "another file answers"
			if t.File.Ref != (blob.Ref{}) {
				a.Other = f.To("file", t.File.Ref.String())
			}
		}
	case why.VerdictMakes:
		a.What = "Breakpad symbols, made on request"
	case why.VerdictRedirect:
		a.What = "redirected"
	case why.VerdictSources:
		a.What = "asked of upstreams"
	case why.VerdictFails:
		a.What = "not known: the depot does not answer"
	default:
		a.What = "not found"
	}
	return nil
}

// makesSym reports whether a Breakpad file can be made of an object.
func makesSym(o *catalog.EntryObject) bool {
	switch o.Object.Kind {
	case symfile.PDB, symfile.PE, symfile.ELF, symfile.MachO:
		return !o.Object.DebugID.IsZero() && !o.Object.NoDBI && slices.Contains(o.Features, "debug")
	}
	return false
}

// download is the address of an object's file; "" if no client asks for such an object.
func download(base string, o symfile.Object) string {
	path := layout.Path(o)
	if path == "" {
		return ""
	}
	return base + "/" + layout.Escape(path)
}
