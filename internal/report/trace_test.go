package report

import (
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// TestTraceRemedies: what to do about a miss, and a command that a shell reads as one
// command whatever clients have asked for.
func TestTraceRemedies(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 4, 2, 0, 0, 0, time.UTC)
	trash := depot.RemovedFile{Name: "a.pdb"}
	trash.Removal.Number, trash.Removal.Until = 17, at
	hit := depot.LookupHit{}
	hit.Object = symfile.Object{Kind: symfile.PE, Name: "a.exe"}
	name := "a'$(rm).pdb"
	for _, tt := range []struct {
		tr             depot.Trace
		cause, command string
	}{
		{depot.Trace{Removed: []depot.RemovedFile{trash}}, "removed", "symdepot undo 17"},
		{depot.Trace{Namesakes: []depot.LookupHit{hit}}, "other-id", `symdepot find 'a'\''$(rm).pdb'`},
		{depot.Trace{Sources: []fetch.UpstreamOutlook{{Name: "up", Miss: &fetch.Miss{Class: fetch.ClassNotFound, Until: at}}}}, "remembered", "symdepot cache forget"},
		{depot.Trace{Sources: []fetch.UpstreamOutlook{{Name: "up", Excluded: "never_ask excludes that name"}}}, "excluded", "symdepot config check"},
		{depot.Trace{Sources: []fetch.UpstreamOutlook{{Name: "up", Open: true, Until: at}}}, "paused", ""},
		{depot.Trace{Hidden: []depot.HiddenFile{{LookupHit: hit, Products: []string{"B; C"}}}}, "other-product", "symdepot token new --name NAME --scope read --product 'B; C'"},
		{depot.Trace{Forms: []depot.TracedForm{{State: depot.FormFailed}}}, "failed", "symdepot jobs --state failed"},
		{depot.Trace{}, "unknown", "symdepot add FOLDER-OF-THE-BUILD"},
	} {
		tt.tr.Verdict, tt.tr.Status, tt.tr.Request, tt.tr.Tries = depot.VerdictAbsent, 404, layout.Request{Name: name}, []layout.Try{{Shape: "symstore"}}
		l := NewTrace(Traced{Asked: "x", Path: "/x"}, &tt.tr)
		if l.Cause != tt.cause || l.Command != tt.command || l.Remedy == "" || !strings.HasPrefix(l.Says, "Not found, 404: ") {
			t.Errorf("cause %q, %q, remedy %q, command %q; want %q and %q", l.Cause, l.Says, l.Remedy, l.Command, tt.cause, tt.command)
		}
	}
}
