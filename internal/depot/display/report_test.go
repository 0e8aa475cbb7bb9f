package display

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/srclink"
)

// TestLinkLinesWithoutRules: an empty Source Link document is no list of places.
func TestLinkLinesWithoutRules(t *testing.T) {
	got := LinkLines(&srclink.Links{SourceLink: &srclink.MapSummary{}})
	if want := "Source Link without rules, so that it leads nowhere"; len(got) != 1 || got[0] != want {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// TestRestorable: undo is offered only while the removed build is in the trash, not until gc
// frees its files.
func TestRestorable(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 12, 4, 2, 0, 0, 0, time.Local)
	for _, c := range []struct {
		until, now time.Time
		want       string
	}{
		{end, end.Add(-time.Minute), "; symdepot undo 17 restores it until 2026-12-04 02:00"},
		{end, end, "; it cannot be restored any more: its time in the trash ended on 2026-12-04 02:00"},
		{time.Time{}, end, "; it cannot be restored"},
	} {
		tx := Transaction{Transaction: 17, Removed: end.Add(-24 * time.Hour), Until: c.until}
		var w strings.Builder
		State{Transaction: tx}.PrintWhole(&w, c.now)
		if got := tx.Restorable(c.now); got != c.want || !strings.Contains(w.String(), c.want+"\n") {
			t.Errorf("until %v, at %v: %q, want %q, and so in\n%s", c.until, c.now, got, c.want, w.String())
		}
	}
	f := RemovedFile{Transaction: 17, Removed: end, Until: end}
	if got := f.Why(end); strings.Contains(got, "undo") {
		t.Errorf("a file that cannot be restored: %q, want no undo", got)
	}
}

func TestID(t *testing.T) {
	for _, c := range []struct{ kind, code, debug, build, want string }{
		{"elf", "code", "debug", "build", "build"},
		{"pe", "5A3B1C2D45000", "debug", "", "5A3B1C2D45000"},
		{"dbg", "5A3B1C2D45000", "", "", "5A3B1C2D45000"},
		{"pe", "", "debug", "", ""}, // a PE without a code id cannot be asked for by its debug id
		{"pdb", "", "debug", "", "debug"},
		{"breakpad", "code", "debug", "", "debug"},
		{"wasm", "code", "", "", "code"},
	} {
		if got := ID(c.kind, c.code, c.debug, c.build); got != c.want {
			t.Errorf("ID(%q, %q, %q, %q) = %q, want %q", c.kind, c.code, c.debug, c.build, got, c.want)
		}
	}
}

func TestTransaction(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		tx   depot.Transaction
		want string
	}{
		{depot.Transaction{Number: 7, Product: "Game", Time: at, Files: 2, Bytes: 30},
			`{"build":7,"product":"Game","version":"","comment":"","time":"2026-03-04T04:06:07Z","who":"","host":"","files":2,"bytes":30}`},
		{depot.Transaction{Number: 8, Time: at, Removed: at.Add(time.Hour)},
			`{"build":8,"product":"","version":"","comment":"","time":"2026-03-04T04:06:07Z","who":"","host":"","files":0,"bytes":0,"removed":"2026-03-04T05:06:07Z"}`},
	} {
		got, err := json.Marshal(NewTransaction(c.tx))
		if err != nil || string(got) != c.want {
			t.Errorf("build %d: %s, %v, want %s", c.tx.Number, got, err, c.want)
		}
	}
}

// TestOrigin: a member of an archive is one path for people; depots of older
// versions hold that path already.
func TestOrigin(t *testing.T) {
	for _, c := range []struct{ path, archive, want string }{
		{"/b/app.pdb", "", "/b/app.pdb"},
		{"/usr/bin/x", "x.deb", "x.deb!usr/bin/x"},
		{"x.deb!usr/bin/x", "x.deb", "x.deb!usr/bin/x"},
	} {
		c.want = strings.ReplaceAll(c.want, "!", scan.Separator)
		if got := origin(strings.ReplaceAll(c.path, "!", scan.Separator), c.archive); got != c.want {
			t.Errorf("origin(%q, %q) = %q, want %q", c.path, c.archive, got, c.want)
		}
	}
}

func TestRemark(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		f    Found
		want string
	}{
		{Found{}, ""},
		{Found{SameContent: &yes}, "same content"},
		{Found{SameContent: &no, FetchedFrom: "ms", Fetched: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)}, "other content, fetched from ms on 2026-01-02 03:04"},
	} {
		if got := c.f.Remark(); got != c.want {
			t.Errorf("remark = %q, want %q", got, c.want)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name, want string
		print      func(*strings.Builder)
	}{
		{"fault", "fault: ab: is cut\n  app.pdb of build 3 (Game 1)\n  to get it back: add it again\n", func(w *strings.Builder) {
			Fault(w, content.Fault{Ref: "ab", What: "is cut", Files: []content.FaultFile{{File: "app.pdb", Transaction: 3, Product: "Game", Version: "1"}}, Remedy: "add it again"})
		}},
		{"clean", "clean: 2 contents, 1.0 KiB, every byte read\n", func(w *strings.Builder) {
			Verified(w, check.Verified{Contents: 2, Bytes: 1024}, check.ScrubState{}, false)
		}},
		{"bucket", "1 fault: 2 contents, 1.0 KiB, the rows checked\n9 objects in the bucket, 4 of them unknown and older than a month: a gc that runs in seven days deletes these\n", func(w *strings.Builder) {
			Verified(w, check.Verified{Contents: 2, Bytes: 1024, Faults: 1, Objects: 9, Unknown: 4, Doomed: true}, check.ScrubState{}, true)
		}},
		{"freed", "would free 1.0 KiB: 1 content that no build uses\n2.0 KiB more are kept until 2026-11-23 01:20: their last build is gone for less than --grace\n", func(w *strings.Builder) {
			NewCollected(lifecycle.Collected{Contents: 1, Frees: 1024, Waiting: 2048, WaitingUntil: time.Date(2026, 11, 23, 1, 20, 0, 0, time.Local)}, true).Print(w)
		}},
		{"plan of gc", "would free 1.0 KiB: 1 content that no build uses\nplan 8c1f2a90: symdepot gc --plan 8c1f2a90 frees exactly this, until 2026-11-23 01:20\n", func(w *strings.Builder) {
			NewCollectionPlan(lifecycle.CollectionPlan{Collected: lifecycle.Collected{Contents: 1, Frees: 1024}, Number: "8c1f2a90", Ends: time.Date(2026, 11, 23, 1, 20, 0, 0, time.Local)}).Print(w)
		}},
	} {
		var w strings.Builder
		c.print(&w)
		if w.String() != c.want {
			t.Errorf("%s: printed %q, want %q", c.name, w.String(), c.want)
		}
	}
}

func TestChecked(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		st   check.ScrubState
		want string
	}{
		{check.ScrubState{}, `{"contents":1,"bytes":2,"strays":0,"faults":0}`},
		{check.ScrubState{Finished: at, LastContents: 9, LastDamaged: 1}, `{"contents":1,"bytes":2,"strays":0,"faults":0,"background_check":{"finished":"2026-01-02T03:04:05Z","contents":9,"damaged":1}}`},
		{check.ScrubState{Started: at, Finished: at, Contents: 3}, `{"contents":1,"bytes":2,"strays":0,"faults":0,"background_check":{"started":"2026-01-02T03:04:05Z","contents":3,"damaged":0}}`},
	} {
		got, err := json.Marshal(NewChecked(check.Verified{Contents: 1, Bytes: 2}, c.st))
		if err != nil || string(got) != c.want {
			t.Errorf("background check %+v: %s, %v, want %s", c.st, got, err, c.want)
		}
	}
}
