package pages

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// fullTrace is a trace with every kind of step, and a name that somebody gave.
func fullTrace(name string) *why.Trace {
	at := time.Date(2026, 11, 20, 10, 11, 0, 0, time.UTC)
	hit := answer.LookupHit{Role: symfile.Debug}
	hit.Object = symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: name, DebugID: debugid.ID{GUID: debugid.GUID{1, 15: 2}, Age: 1}}
	hit.Number, hit.Added, hit.Source, hit.Size = 17, at, name, 5000
	removed := lifecycle.RemovedFile{Name: name, Kind: symfile.PDB, ID: name}
	removed.Removal.Number, removed.Removal.Who, removed.Removal.Detail, removed.Removal.Until = 16, name, name, at
	l := symfile.Lookup{Name: name, ID: "ab", Role: symfile.Debug | symfile.Executable}
	t := &why.Trace{
		Verdict: why.VerdictAbsent, Status: 404, Headers: map[string][]string{"X-Debuginfod-File": {name}},
		Request: layout.Request{Name: name, Prefix: "/" + name, Age: &layout.PDBAge{Age: 2}, Lookups: []symfile.Lookup{l}},
		Tries:   []layout.Try{{Shape: "gdb", Looks: "x", Why: name}, {Shape: "symstore", Looks: "x", Prefix: "/" + name}},
		Removed: []lifecycle.RemovedFile{removed}, OtherAges: []answer.LookupHit{hit}, Namesakes: []answer.LookupHit{hit}, Hidden: []why.HiddenFile{{LookupHit: hit, Products: []string{name}}},
		Folders: []answer.TracedFolder{{Dir: name, Layout: layout.SymStore, Places: []answer.TracedPlace{{Path: name, Why: fs.ErrNotExist}, {Path: name, Why: errors.New(name)}, {Path: name}}}},
		Fetches: true, Known: true, KnownUntil: at,
		Sources: []fetch.UpstreamOutlook{
			{Name: name, Miss: &fetch.Miss{Class: fetch.ClassNotFound, Since: at, Until: at, Detail: name}}, {Name: name, Excluded: name}, {Name: name, Open: true, Until: at, Why: name}, {Name: name},
		},
	}
	for _, o := range []answer.LookupOutcome{answer.NoHit, answer.OtherRole, answer.OtherName, answer.Ambiguous, answer.Damaged, answer.CachedOtherName, answer.NoSection} {
		t.Lookups = append(t.Lookups, answer.TracedLookup{Lookup: l, Outcome: o, Hits: []answer.LookupHit{hit}})
	}
	for _, s := range []why.FormState{why.FormHeld, why.FormPossible, why.FormBeingMade, why.FormUseless, why.FormNever} {
		t.Forms = append(t.Forms, why.TracedForm{Name: "zstd", State: s, Size: 17, From: name, Job: 12, Detail: name, Until: at})
	}
	return t
}

var hrefs = regexp.MustCompile(`(?:href|action)="([^"]*)"`)

// checkPage wants a page without elements of others, and only links that are claimed.
func checkPage(t *testing.T, what, page string) {
	t.Helper()
	for _, no := range []string{"<script>", "ZgotmplZ", "<no value>", "%!", "href=\"javascript", "\x00"} {
		if strings.Contains(page, no) {
			t.Errorf("%s: the page has %q, want it nowhere:\n%s", what, no, page)
		}
	}
	for _, m := range hrefs.FindAllStringSubmatch(page, -1) {
		to := html.UnescapeString(m[1])
		u, err := url.Parse(to)
		if err != nil || u.Host != "" || u.Scheme != "" {
			t.Errorf("%s: the link %q leads elsewhere, %v", what, to, err)
			continue
		}
		if u.Path == "/" || strings.HasPrefix(to, "#") {
			continue
		}
		if segs, err := layout.Segments(u.EscapedPath()); err != nil || !web.Claims(segs) {
			t.Errorf("%s: the link %q is not claimed", what, to)
		}
	}
}

// TestTraceTemplate: the page of a trace with nothing, with everything and with hostile
// names.
func TestTraceTemplate(t *testing.T) {
	t.Parallel()
	p := New(web.New(web.Config{}))
	show := func(what string, v traceView) string {
		t.Helper()
		r := &web.Request{Request: httptest.NewRequest(http.MethodGet, "/-/trace?path=x", nil), Segments: []string{"-", "trace"}}
		w := httptest.NewRecorder()
		r.Allow, r.Leave = func(time.Duration) {}, func() {}
		if err := (&reply{ResponseWriter: w, around: p.around}).show(r, 200, "trace", "Trace", v); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		checkPage(t, what, w.Body.String())
		return w.Body.String()
	}
	show("nothing", traceView{})
	show("an empty log", traceView{Log: &logView{}})
	show("an empty trace", traceView{Trace: &tracedView{}})
	f := p.around.of(&web.Request{Request: httptest.NewRequest(http.MethodGet, "/-/trace", nil), Segments: []string{"-", "trace"}, Principal: web.Principal{Rights: auth.Rights{All: true}}}, "", nil)
	for _, name := range append(hostile, "renderer.pdb") {
		l := display.NewTrace(display.Traced{Asked: name, Path: "/" + url.PathEscape(name), Token: true, Who: "You are nobody."}, fullTrace(name))
		v := traceView{Text: name, As: name, MayAs: true, Wrong: name, Trace: f.traced(&l, true, true), Log: &logView{Rows: []logRow{{Trace: l, Shown: "bad", Word: "no", Link: f.Ask("trace", "path", name)}}}}
		text := show(fmt.Sprintf("the name %.20q", name), v)
		for _, want := range []string{"Ask the upstreams now", "zstd: is here", "job 12 makes it", "an access token and the prefix", "is not asked"} {
			if !strings.Contains(text, want) {
				t.Errorf("the name %.20q: the page lacks %q", name, want)
			}
		}
		var out strings.Builder
		if err := l.Print(&out, true); err != nil || strings.ContainsAny(out.String(), "\x00\u202E\x1b") {
			t.Errorf("the name %.20q is printed as %q, %v; want no hidden characters", name, out.String(), err)
		}
	}
}

// TestTraceVerdicts: each verdict has a sentence and a mark, and each miss a remedy.
func TestTraceVerdicts(t *testing.T) {
	t.Parallel()
	for v, mark := range map[why.Verdict]string{
		why.VerdictFound: display.MarkOK, why.VerdictRedirect: display.MarkOK, why.VerdictMakes: display.MarkOK, why.VerdictSources: display.MarkWarn,
		why.VerdictAbsent: display.MarkNo, why.VerdictNotPath: display.MarkNo, why.VerdictFails: display.MarkNo,
	} {
		tr := &why.Trace{Verdict: v, Status: 200, File: &why.TracedFile{}, Err: errors.New("x"), Tries: []layout.Try{{Shape: "symstore"}}}
		l := display.NewTrace(display.Traced{}, tr)
		if l.Mark() != mark || l.Says == "" || l.Remedy == "" || len(l.Steps) < 2 {
			t.Errorf("%s: mark %s, %q, %q, %d steps; want %s, and texts", v, l.Mark(), l.Says, l.Remedy, len(l.Steps), mark)
		}
	}
}
