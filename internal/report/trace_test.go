package report

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// traceCase is an explained request, and the cause that is said of it.
type traceCase struct {
	name  string
	trace depot.Trace
	cause string
}

// traceCases are requests of every verdict and of every cause, and of pairs of causes of
// which the first is said.
func traceCases(t *testing.T) []traceCase {
	t.Helper()
	day := time.Date(2026, 12, 4, 2, 0, 0, 0, time.UTC)
	id, err := debugid.Parse("0123456789ABCDEF0123456789ABCDEF2")
	if err != nil {
		t.Fatal(err)
	}
	hit := func(kind symfile.Kind, name string) (h depot.LookupHit) {
		h.Object = symfile.Object{Kind: kind, Name: name, DebugID: id}
		h.Size, h.Ref = 4096, blob.Ref{0xab}
		h.Number, h.Added = 12, day
		return h
	}
	pdb, pe := hit(symfile.PDB, "app.pdb"), hit(symfile.PE, "app.exe")
	cached := hit(symfile.PDB, "app.pdb")
	cached.Source = "microsoft"
	removed := depot.RemovedFile{Name: "app.pdb", Kind: symfile.PDB, ID: "0123"}
	removed.Transaction.Product, removed.Transaction.Removed = "Game", day
	removed.Removal.Number, removed.Removal.Class, removed.Removal.Who, removed.Removal.Until = 17, "nightly", "eve", day.Add(time.Hour)
	gone := removed
	gone.Removal.Until = time.Time{}

	request := layout.Request{Name: "app.pdb", Lookups: []symfile.Lookup{{Name: "app.pdb", ID: id.Breakpad(), Role: symfile.Debug}}}
	lookup := func(o depot.LookupOutcome, hits ...depot.LookupHit) []depot.TracedLookup {
		return []depot.TracedLookup{{Lookup: request.Lookups[0], Outcome: o, Hits: hits}}
	}
	watched := func(places ...depot.TracedPlace) []depot.TracedFolder {
		return []depot.TracedFolder{{Dir: "/builds/game", Watched: true, Places: places}}
	}
	near := func(o depot.LookupOutcome) []depot.TracedFolder {
		return watched(depot.TracedPlace{Path: "out/app.pdb", Why: fs.ErrNotExist, Outcome: o, Object: pe.Object})
	}
	form := func(f layout.Form) layout.Request { r := request; r.Form = f; return r }
	part := func(f layout.Form, name string) layout.Request { r := form(f); r.Part = name; return r }
	lacks := &fetch.Miss{Class: fetch.ClassNotFound, Since: day, Until: day.Add(time.Hour)}
	miss := fetch.UpstreamOutlook{Name: "microsoft", Rank: 2, Miss: lacks}
	excluded := fetch.UpstreamOutlook{Name: "amd", Rank: 3, Excluded: "never_ask excludes that name"}
	paused := fetch.UpstreamOutlook{Name: "intel", Rank: 4, Open: true, Until: day}
	free := fetch.UpstreamOutlook{Name: "mozilla", Rank: 1}
	ask := func(list ...fetch.UpstreamOutlook) []fetch.UpstreamOutlook { return list }

	return []traceCase{
		{"found", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200, Lookups: lookup(depot.Hit, pdb),
			Headers: map[string][]string{"Etag": {`"ab"`}},
			File:    &depot.TracedFile{Object: pdb.Object, Ref: pdb.Ref, Size: 4096, Number: 12, Added: day, Cold: &depot.ColdContent{}},
		}, ""},
		{"found, downloaded", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200, Lookups: lookup(depot.Hit, cached),
			File: &depot.TracedFile{Object: pdb.Object, Ref: pdb.Ref, Size: 4096, Upstream: "microsoft", Added: day, Substitute: true},
		}, ""},
		{"found, made", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200, File: &depot.TracedFile{Object: pdb.Object, Size: -1, Made: true},
		}, ""},
		{"found in a served folder", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200,
			Folders: []depot.TracedFolder{{Dir: "/srv/sym", Layout: layout.SymStore, Places: []depot.TracedPlace{
				{Path: "app.pdb/1/app.pdb"}, {Path: "app.pdb/1/app.pd_", Why: fs.ErrNotExist}, {Path: "app.pdb/1/file.ptr", Why: fs.ErrPermission},
			}}},
			File: &depot.TracedFile{Object: pdb.Object, Size: 4096, Served: true, Folder: "/srv/sym"},
		}, ""},
		{"found in a watched folder", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200, Folders: watched(depot.TracedPlace{Path: "out/app.pdb"}),
			File: &depot.TracedFile{Object: pdb.Object, Size: 4096, Served: true, InPlace: true, Folder: "/builds/game"},
		}, ""},
		{"found in a watched folder of another server", depot.Trace{
			Verdict: depot.VerdictFound, Status: 200,
			File: &depot.TracedFile{Object: pdb.Object, Size: 4096, Served: true, InPlace: true},
		}, ""},
		{"redirect", depot.Trace{Verdict: depot.VerdictRedirect, Status: 302, Redirect: "/app.pdb/0123/app.pdb"}, ""},
		{"made", depot.Trace{
			Verdict: depot.VerdictMakes, Status: 200,
			Forms: []depot.TracedForm{{Name: "breakpad", State: depot.FormPossible, From: "app.pdb"}},
		}, ""},
		{"an upstream decides", depot.Trace{Verdict: depot.VerdictSources, Sources: ask(free, excluded)}, "excluded"},
		{"an upstream decides after a near miss", depot.Trace{
			Verdict: depot.VerdictSources, Sources: ask(free), Lookups: lookup(depot.OtherName, pe),
		}, "other-name"},
		{"an upstream is asked before a substitute answers", depot.Trace{
			Verdict: depot.VerdictSources, Status: 200, Sources: ask(free), Lookups: lookup(depot.CachedOtherName, cached),
		}, "unknown"},
		{"the index fails", depot.Trace{Verdict: depot.VerdictFails, Status: 503, Err: depot.ErrNoDatabase}, "unavailable"},
		{"the store fails", depot.Trace{Verdict: depot.VerdictFails, Status: 503, Err: depot.ErrUnavailable}, "unavailable"},
		{"fails", depot.Trace{
			Verdict: depot.VerdictFails, Status: 500, Err: fs.ErrInvalid, Lookups: lookup(depot.Hit, pdb),
		}, "unavailable"},
		{"no path", depot.Trace{
			Verdict: depot.VerdictNotPath,
			Tries:   []layout.Try{{Shape: "symstore", Why: "the first and the last part differ"}},
		}, "not-path"},
		{"the form failed", depot.Trace{
			Request: form(layout.FormSymCache), Lookups: lookup(depot.Hit, pdb),
			Forms: []depot.TracedForm{
				{Name: "symcache 3.1.0", State: depot.FormFailed, Job: 7, Detail: "exit 1", Until: day},
				{Name: "zstd", State: depot.FormHeld, Size: 512},
			},
		}, "failed"},
		{"no worker", depot.Trace{
			Request: form(layout.FormFile),
			Forms:   []depot.TracedForm{{Name: "breakpad", State: depot.FormNoWorker}, {Name: "gsym", State: depot.FormBeingMade, Job: 8}},
		}, "no-worker"},
		{"no cabinet", depot.Trace{
			Request: form(layout.FormCabinet), Lookups: lookup(depot.HigherAge, pdb),
			Forms: []depot.TracedForm{{Name: "cabinet", State: depot.FormUseless}},
		}, "form"},
		{"no GSYM file", depot.Trace{
			Request: form(layout.FormGSYM), Lookups: lookup(depot.Hit, pdb),
			Forms: []depot.TracedForm{{Name: "gsym", State: depot.FormNever}},
		}, "form"},
		{"nothing makes SymCache files", depot.Trace{
			Request: form(layout.FormSymCache), Lookups: lookup(depot.Hit, pdb), NoMaker: true,
		}, "form"},
		{"no SymCache file and no PDB", depot.Trace{Request: form(layout.FormSymCache), NoMaker: true}, "unknown"},
		{"a pointer", depot.Trace{Request: layout.Request{Form: layout.FormPointer}}, "form"},
		{"a record", depot.Trace{Request: form(layout.FormAdmin)}, "form"},
		{"the file cannot be read", depot.Trace{Lookups: lookup(depot.Hit, pdb, pdb, pdb, pdb)}, "form"},
		{"damaged", depot.Trace{Lookups: lookup(depot.Damaged, pdb), Removed: []depot.RemovedFile{removed}}, "damaged"},
		{"no section", depot.Trace{Request: part(layout.FormSection, ".debug_x"), Lookups: lookup(depot.NoSection, pdb)}, "no-section"},
		{"no text", depot.Trace{Request: part(layout.FormSource, "/b/a.c"), Lookups: lookup(depot.NoText, pdb)}, "no-text"},
		{"not named", depot.Trace{
			Request: part(layout.FormSource, "/b/a.c"), Lookups: lookup(depot.NotNamed, pdb), Folders: near(depot.Away),
		}, "not-named"},
		{"away", depot.Trace{Folders: append(near(depot.NoText), near(depot.Away)...)}, "away"},
		{"no text in a watched folder", depot.Trace{Folders: append(near(depot.NotNamed), near(depot.NoText)...)}, "no-text"},
		{"not named in a watched folder", depot.Trace{
			Request: part(layout.FormSource, "/b/a.c"), Folders: append(near(depot.Changed), near(depot.NotNamed)...),
		}, "not-named"},
		{"changed", depot.Trace{Folders: near(depot.Changed), Removed: []depot.RemovedFile{removed}}, "changed"},
		{"removed", depot.Trace{Removed: []depot.RemovedFile{removed}, OtherAges: []depot.LookupHit{pdb}}, "removed"},
		{"removed for good", depot.Trace{Removed: []depot.RemovedFile{gone}}, "removed"},
		{"a portable PDB", depot.Trace{
			Request: form(layout.FormGSYM), Portable: []depot.LookupHit{hit(symfile.PortablePDB, "lib.pdb")},
		}, "portable"},
		{"no age", depot.Trace{OtherAges: []depot.LookupHit{pdb}, Ageless: true}, "no-age"},
		{"another age", depot.Trace{OtherAges: []depot.LookupHit{pdb}}, "other-age"},
		{"another age of a portable PDB", depot.Trace{OtherAges: []depot.LookupHit{hit(symfile.PortablePDB, "lib.pdb")}}, "other-age"},
		{"another role", depot.Trace{Lookups: lookup(depot.OtherRole, pe)}, "other-role"},
		{"another role in a watched folder", depot.Trace{Folders: near(depot.OtherRole)}, "other-role"},
		{"ambiguous", depot.Trace{Lookups: lookup(depot.Ambiguous, pdb, pe)}, "ambiguous"},
		{"another name", depot.Trace{Lookups: lookup(depot.OtherName, pe)}, "other-name"},
		{"another product", depot.Trace{
			Hidden: []depot.HiddenFile{{LookupHit: pdb, Products: []string{"B; C"}}}, Namesakes: []depot.LookupHit{pe},
		}, "other-product"},
		{"another id", depot.Trace{Namesakes: []depot.LookupHit{pdb}, Sources: ask(miss)}, "other-id"},
		{"paused", depot.Trace{Sources: ask(miss, excluded, paused)}, "paused"},
		{"remembered", depot.Trace{Sources: ask(miss, excluded), Known: true, KnownUntil: day}, "remembered"},
		{"excluded", depot.Trace{Sources: ask(excluded)}, "excluded"},
		{"unknown", depot.Trace{Lookups: lookup(depot.NoHit), Folders: watched()}, "unknown"},
		{"unknown, without a name", depot.Trace{Request: layout.Request{Lookups: []symfile.Lookup{{ID: "0123"}}}}, "unknown"},
		{"a folder that is away", depot.Trace{
			Folders: []depot.TracedFolder{{Watched: true, Other: true, Places: []depot.TracedPlace{{Why: fs.ErrNotExist}}}},
		}, "unknown"},
	}
}

// TestTraces: what is said of a request, as text and as JSON.
func TestTraces(t *testing.T) {
	t.Parallel()
	g := golden{t: t}
	id, _ := debugid.Parse("0123456789ABCDEF0123456789ABCDEF2")
	whole := []string{"found", "found in a served folder", "no path", "the form failed", "removed", "another product", "remembered", "paused"}
	var all []Trace
	for _, c := range traceCases(t) {
		if c.trace.Verdict == "" {
			c.trace.Verdict, c.trace.Status = depot.VerdictAbsent, 404
		}
		if c.trace.Request.Name == "" && c.trace.Request.Form == layout.FormFile && c.trace.Request.Lookups == nil {
			c.trace.Request = layout.Request{Name: "app.pdb", Lookups: []symfile.Lookup{{Name: "app.pdb", ID: id.Breakpad(), Role: symfile.Debug}}}
		}
		if c.trace.Tries == nil && c.trace.Verdict != depot.VerdictNotPath {
			c.trace.Tries = []layout.Try{{Shape: "symstore", Looks: "a name, an id and the name again"}}
		}
		q := Traced{Asked: "http://x/app.pdb/1/app.pdb", Path: "/app.pdb/1/app.pdb", Token: c.name == "no path", Who: "You read all products."}
		l := NewTrace(q, &c.trace)
		if l.Cause != c.cause {
			t.Errorf("%s: the cause is %q, want %q", c.name, l.Cause, c.cause)
		}
		var w strings.Builder
		if err := l.Print(&w); err != nil {
			t.Fatal(err)
		}
		var value any
		if slices.Contains(whole, c.name) {
			value = l
		}
		g.add(c.name, w.String(), value)
		all = append(all, l)
	}
	SortTraces(all)
	var w strings.Builder
	if err := PrintTraces(&w, all); err != nil {
		t.Fatal(err)
	}
	g.add("all of them as a list", w.String(), nil)
	g.check("traces.txt")
}

// TestTraceRemedies: the command is one that a shell reads as one command, whatever
// clients have asked for.
func TestTraceRemedies(t *testing.T) {
	t.Parallel()
	tr := depot.Trace{Verdict: depot.VerdictAbsent, Status: 404, Request: layout.Request{Name: "a'$(rm).pdb"}}
	tr.Tries, tr.Namesakes = []layout.Try{{Shape: "symstore"}}, make([]depot.LookupHit, 1)
	l := NewTrace(Traced{Asked: "x", Path: "/x"}, &tr)
	if want := `symdepot find 'a'\''$(rm).pdb'`; l.Command != want {
		t.Errorf("command %q, want %q", l.Command, want)
	}
}
