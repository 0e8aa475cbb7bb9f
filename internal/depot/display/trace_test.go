package display

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// traceCase is an explained request, and the cause that is said of it.
type traceCase struct {
	name  string
	trace why.Trace
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
	hit := func(kind symfile.Kind, name string) (h answer.LookupHit) {
		h.Object = symfile.Object{Kind: kind, Name: name, DebugID: id}
		h.Size, h.Ref = 4096, blob.Ref{0xab}
		h.Number, h.Added = 12, day
		return h
	}
	aged := func(h answer.LookupHit, age uint32) answer.LookupHit { h.Object.DebugID.Age = age; return h }
	pdb, pe := hit(symfile.PDB, "app.pdb"), hit(symfile.PE, "app.exe")
	cached := hit(symfile.PDB, "app.pdb")
	cached.Source = "microsoft"
	removed := lifecycle.RemovedFile{Name: "app.pdb", Kind: symfile.PDB, ID: "0123"}
	removed.Transaction.Product, removed.Transaction.Removed = "Game", day
	removed.Removal.Number, removed.Removal.Class, removed.Removal.Who, removed.Removal.Until = 17, "nightly", "eve", day.Add(time.Hour)
	gone, ended := removed, removed
	gone.Removal.Until, ended.Removal.Until = time.Time{}, day.Add(-time.Hour)

	request := layout.Request{Name: "app.pdb", Lookups: []symfile.Lookup{{Name: "app.pdb", ID: id.Breakpad(), Role: symfile.Debug}}}
	lookup := func(o answer.LookupOutcome, hits ...answer.LookupHit) []answer.TracedLookup {
		return []answer.TracedLookup{{Lookup: request.Lookups[0], Outcome: o, Hits: hits}}
	}
	watched := func(places ...answer.TracedPlace) []answer.TracedFolder {
		return []answer.TracedFolder{{Dir: "/builds/game", Watched: true, Places: places}}
	}
	near := func(o answer.LookupOutcome) []answer.TracedFolder {
		return watched(answer.TracedPlace{Path: "out/app.pdb", Why: fs.ErrNotExist, Outcome: o, Object: pe.Object})
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
		{"found", why.Trace{
			Verdict: why.VerdictFound, Status: 200, Lookups: lookup(answer.Hit, pdb),
			Headers: map[string][]string{"Etag": {`"ab"`}},
			File:    &why.TracedFile{Object: pdb.Object, Ref: pdb.Ref, Size: 4096, Number: 12, Added: day, Cold: &coldstore.ColdContent{}},
		}, ""},
		{"found, downloaded", why.Trace{
			Verdict: why.VerdictFound, Status: 200, Lookups: lookup(answer.Hit, cached),
			File: &why.TracedFile{Object: pdb.Object, Ref: pdb.Ref, Size: 4096, Upstream: "microsoft", Added: day, Substitute: true},
		}, ""},
		{"found, made", why.Trace{
			Verdict: why.VerdictFound, Status: 200, File: &why.TracedFile{Object: pdb.Object, Size: -1, Made: true},
		}, ""},
		{"not in served folders", why.Trace{Folders: []answer.TracedFolder{
			{Dir: "/srv/sym", Layout: layout.SymStore, Places: []answer.TracedPlace{
				{Path: "app.pdb/1A/app.pdb", Why: fs.ErrNotExist}, {Path: "app.pdb/1a/app.pdb", Why: fs.ErrNotExist},
				{Path: "app.pdb/1A/app.pd_", Why: fs.ErrNotExist}, {Path: "app.pdb/1a/app.pd_", Why: fs.ErrPermission},
			}},
			{Dir: "/srv/ssqp", Layout: layout.SSQP, Places: []answer.TracedPlace{
				{Path: "app.pdb/1a/app.pdb", Why: fs.ErrNotExist}, {Path: "APP.PDB/1a/APP.PDB", Why: fs.ErrNotExist},
			}},
		}}, "unknown"},
		{"found in a served folder", why.Trace{
			Verdict: why.VerdictFound, Status: 200,
			Folders: []answer.TracedFolder{{Dir: "/srv/sym", Layout: layout.SymStore, Places: []answer.TracedPlace{
				{Path: "app.pdb/1/app.pdb"}, {Path: "app.pdb/1/app.pd_", Why: fs.ErrNotExist}, {Path: "app.pdb/1/file.ptr", Why: fs.ErrPermission},
			}}},
			File: &why.TracedFile{Object: pdb.Object, Size: 4096, Served: true, Folder: "/srv/sym"},
		}, ""},
		{"found in a watched folder", why.Trace{
			Verdict: why.VerdictFound, Status: 200, Folders: watched(answer.TracedPlace{Path: "out/app.pdb"}),
			File: &why.TracedFile{Object: pdb.Object, Size: 4096, Served: true, InPlace: true, Folder: "/builds/game"},
		}, ""},
		{"found in a watched folder of another server", why.Trace{
			Verdict: why.VerdictFound, Status: 200,
			File: &why.TracedFile{Object: pdb.Object, Size: 4096, Served: true, InPlace: true},
		}, ""},
		{"redirect", why.Trace{Verdict: why.VerdictRedirect, Status: 302, Redirect: "/app.pdb/0123/app.pdb"}, ""},
		{"made", why.Trace{
			Verdict: why.VerdictMakes, Status: 200,
			Forms: []why.TracedForm{{Name: "breakpad", State: why.FormPossible, From: "app.pdb"}},
		}, ""},
		{"an upstream decides", why.Trace{Verdict: why.VerdictSources, Sources: ask(free, excluded)}, "excluded"},
		{"an upstream decides after a near miss", why.Trace{
			Verdict: why.VerdictSources, Sources: ask(free), Lookups: lookup(answer.OtherName, pe),
		}, "other-name"},
		{"an upstream is asked before a substitute answers", why.Trace{
			Verdict: why.VerdictSources, Status: 200, Sources: ask(free), Lookups: lookup(answer.CachedOtherName, cached),
		}, "unknown"},
		{"the index fails", why.Trace{Verdict: why.VerdictFails, Status: 503, Err: home.ErrNoDatabase}, "unavailable"},
		{"the store refuses", why.Trace{
			Verdict: why.VerdictFails, Status: 503, Err: fmt.Errorf("blob: %w", &account.DeniedError{Root: "/srv/depot/blobs", Path: "/srv/depot/blobs/28", What: "it is root's", Cure: "sudo chown -R s:s /srv"}),
		}, "denied"},
		{"the store fails", why.Trace{Verdict: why.VerdictFails, Status: 503, Err: content.ErrUnavailable}, "unavailable"},
		{"fails", why.Trace{
			Verdict: why.VerdictFails, Status: 500, Err: fs.ErrInvalid, Lookups: lookup(answer.Hit, pdb),
		}, "unavailable"},
		{"no path", why.Trace{
			Verdict: why.VerdictNotPath,
			Tries:   []layout.Try{{Shape: "symstore", Why: "the first and the last part differ"}},
		}, "not-path"},
		{"the form failed", why.Trace{
			Request: form(layout.FormSymCache), Lookups: lookup(answer.Hit, pdb),
			Forms: []why.TracedForm{
				{Name: "symcache 3.1.0", State: why.FormFailed, Job: 7, Detail: "exit 1", Until: day},
				{Name: "zstd", State: why.FormHeld, Size: 512},
			},
		}, "failed"},
		{"no worker", why.Trace{
			Request: form(layout.FormFile),
			Forms:   []why.TracedForm{{Name: "breakpad", State: why.FormNoWorker}, {Name: "gsym", State: why.FormBeingMade, Job: 8}},
		}, "no-worker"},
		{"no cabinet", why.Trace{
			Request: form(layout.FormCabinet), Lookups: lookup(answer.HigherAge, pdb),
			Forms: []why.TracedForm{{Name: "cabinet", State: why.FormUseless}},
		}, "form"},
		{"no GSYM file", why.Trace{
			Request: form(layout.FormGSYM), Lookups: lookup(answer.Hit, pdb),
			Forms: []why.TracedForm{{Name: "gsym", State: why.FormNever}},
		}, "form"},
		{"nothing makes SymCache files", why.Trace{
			Request: form(layout.FormSymCache), Lookups: lookup(answer.Hit, pdb), NoMaker: true,
		}, "form"},
		{"no SymCache file and no PDB", why.Trace{Request: form(layout.FormSymCache), NoMaker: true}, "unknown"},
		{"a pointer", why.Trace{Request: layout.Request{Form: layout.FormPointer}}, "form"},
		{"a record", why.Trace{Request: form(layout.FormAdmin)}, "form"},
		{"the file cannot be read", why.Trace{Lookups: lookup(answer.Hit, pdb, pdb, pdb, pdb)}, "form"},
		{"damaged", why.Trace{Lookups: lookup(answer.Damaged, pdb), Removed: []lifecycle.RemovedFile{removed}}, "damaged"},
		{"no section", why.Trace{Request: part(layout.FormSection, ".debug_x"), Lookups: lookup(answer.NoSection, pdb)}, "no-section"},
		{"no text", why.Trace{Request: part(layout.FormSource, "/b/a.c"), Lookups: lookup(answer.NoText, pdb)}, "no-text"},
		{"not named", why.Trace{
			Request: part(layout.FormSource, "/b/a.c"), Lookups: lookup(answer.NotNamed, pdb), Folders: near(answer.Away),
		}, "not-named"},
		{"away", why.Trace{Folders: append(near(answer.NoText), near(answer.Away)...)}, "away"},
		{"no text in a watched folder", why.Trace{Folders: append(near(answer.NotNamed), near(answer.NoText)...)}, "no-text"},
		{"not named in a watched folder", why.Trace{
			Request: part(layout.FormSource, "/b/a.c"), Folders: append(near(answer.Changed), near(answer.NotNamed)...),
		}, "not-named"},
		{"changed", why.Trace{Folders: near(answer.Changed), Removed: []lifecycle.RemovedFile{removed}}, "changed"},
		{"removed", why.Trace{Removed: []lifecycle.RemovedFile{removed}, OtherAges: []answer.LookupHit{pdb}}, "removed"},
		{"removed for good", why.Trace{Removed: []lifecycle.RemovedFile{gone}}, "removed"},
		{"removed, and no longer in the trash", why.Trace{Removed: []lifecycle.RemovedFile{ended}}, "removed"},
		{"a portable PDB", why.Trace{
			Request: form(layout.FormGSYM), Portable: []answer.LookupHit{hit(symfile.PortablePDB, "lib.pdb")},
		}, "portable"},
		{"no age", why.Trace{OtherAges: []answer.LookupHit{pdb}, Ageless: true}, "no-age"},
		{"another age", why.Trace{OtherAges: []answer.LookupHit{pdb}}, "other-age"},
		{"another age, to a reader", why.Trace{OtherAges: []answer.LookupHit{pdb}}, "other-age"},
		{"several ages", why.Trace{OtherAges: []answer.LookupHit{aged(pdb, 1), aged(pdb, 1), aged(pdb, 26)}}, "other-age"},
		{"another age of a portable PDB", why.Trace{OtherAges: []answer.LookupHit{hit(symfile.PortablePDB, "lib.pdb")}}, "other-age"},
		{"another role", why.Trace{Lookups: lookup(answer.OtherRole, pe)}, "other-role"},
		{"another role in a watched folder", why.Trace{Folders: near(answer.OtherRole)}, "other-role"},
		{"ambiguous", why.Trace{Lookups: lookup(answer.Ambiguous, pdb, pe)}, "ambiguous"},
		{"another name", why.Trace{Lookups: lookup(answer.OtherName, pe)}, "other-name"},
		{"another product", why.Trace{
			Hidden: []why.HiddenFile{{LookupHit: pdb, Products: []string{"B; C"}}}, Namesakes: []answer.LookupHit{pe},
		}, "other-product"},
		{"another id", why.Trace{Namesakes: []answer.LookupHit{pdb}, Sources: ask(miss)}, "other-id"},
		{"paused", why.Trace{Sources: ask(miss, excluded, paused)}, "paused"},
		{"remembered", why.Trace{Sources: ask(miss, excluded), Known: true, KnownUntil: day}, "remembered"},
		{"excluded", why.Trace{Sources: ask(excluded)}, "excluded"},
		{"unknown", why.Trace{Lookups: lookup(answer.NoHit), Folders: watched()}, "unknown"},
		{"unknown, without a name", why.Trace{Request: layout.Request{Lookups: []symfile.Lookup{{ID: "0123"}}}}, "unknown"},
		{"a folder that is away", why.Trace{
			Folders: []answer.TracedFolder{{Watched: true, Other: true, Places: []answer.TracedPlace{{Why: fs.ErrNotExist}}}},
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
			c.trace.Verdict, c.trace.Status = why.VerdictAbsent, 404
		}
		if c.trace.Request.Name == "" && c.trace.Request.Form == layout.FormFile && c.trace.Request.Lookups == nil {
			c.trace.Request = layout.Request{Name: "app.pdb", Lookups: []symfile.Lookup{{Name: "app.pdb", ID: id.Breakpad(), Role: symfile.Debug}}}
		}
		if c.trace.Tries == nil && c.trace.Verdict != why.VerdictNotPath {
			c.trace.Tries = []layout.Try{{Shape: "symstore", Looks: "a name, an id and the name again"}}
		}
		q := Traced{
			Asked: "http://x/app.pdb/1/app.pdb", Path: "/app.pdb/1/app.pdb", Token: c.name == "no path", Who: "You read all products.", MayAdd: c.name != "another age, to a reader",
			Now: time.Date(2026, 12, 4, 2, 0, 0, 0, time.UTC),
		}
		l := NewTrace(q, &c.trace)
		if l.Cause != c.cause {
			t.Errorf("%s: the cause is %q, want %q", c.name, l.Cause, c.cause)
		}
		var w strings.Builder
		if err := l.Print(&w, slices.Contains(whole, c.name)); err != nil {
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
	if err := PrintTraces(&w, all, false); err != nil {
		t.Fatal(err)
	}
	g.add("all of them as a list", w.String(), nil)
	g.check("traces.txt")
}

// TestTraceRemedies: the command is one that a shell reads as one command, whatever
// clients have asked for.
func TestTraceRemedies(t *testing.T) {
	t.Parallel()
	tr := why.Trace{Verdict: why.VerdictAbsent, Status: 404, Request: layout.Request{Name: "a'$(rm).pdb"}}
	tr.Tries, tr.Namesakes = []layout.Try{{Shape: "symstore"}}, make([]answer.LookupHit, 1)
	l := NewTrace(Traced{Asked: "x", Path: "/x"}, &tr)
	if want := `symdepot find 'a'\''$(rm).pdb'`; l.Command != want {
		t.Errorf("command %q, want %q", l.Command, want)
	}
}
