package depot

import (
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestTraceRecordsNoUse: the trace of a cached file does not make it a used one, while
// a request does.
func TestTraceRecordsNoUse(t *testing.T) {
	d, c := newDepot(t)
	body := "cached"
	ref := blob.Sum([]byte(body))
	batch, err := d.blobs.Begin(t.Context())
	check1(t, err)
	_, _, err = batch.Put(t.Context(), int64(len(body)), strings.NewReader(body))
	check1(t, err)
	check1(t, batch.Commit(t.Context()))
	e := vectorEntry("a")
	e.Ref, e.Size = ref, int64(len(body))
	check1(t, d.db.Cached.Put(t.Context(), contents.CachedFile{Source: "up", Name: "a.pdb", URL: "http://up/a", Ref: ref, Size: e.Size, Entries: []record.Entry{e}}, nil))
	segs := []string{"a.pdb", e.Object.DebugID.Breakpad(), "a.pdb"}
	used := func() time.Time {
		t.Helper()
		check1(t, d.Cache.StoreUses(t.Context()))
		for f, err := range d.Cache.Files(t.Context(), cache.Filter{}) {
			check1(t, err)
			return f.Used
		}
		t.Fatal("no file is cached")
		return time.Time{}
	}
	before := used()
	c.t = c.t.Add(time.Hour)
	tr, err := d.Tracer.Trace(t.Context(), why.TraceAsk{Segments: segs})
	check1(t, err)
	if tr.Verdict != why.VerdictFound || tr.File.Upstream != "up" || tr.File.Ref != ref {
		t.Fatalf("the trace is %+v, want the cached file of up", tr)
	}
	if now := used(); !now.Equal(before) {
		t.Errorf("a trace has recorded a use: %v, want %v", now, before)
	}
	f, err := d.Get(t.Context(), answer.Question{Request: tr.Request})
	check1(t, err)
	check1(t, f.Close())
	if used().Equal(before) {
		t.Error("a request has recorded no use: the test proves nothing")
	}
}

// TestTraceLookups: each result of a lookup has its own word.
func TestTraceLookups(t *testing.T) {
	d, _ := newDepot(t)
	entry := func(letter, name string, kind symfile.Kind, role symfile.Role) record.Entry {
		e := vectorEntry("a")
		e.Object.Name, e.Object.Kind, e.Object.Role, e.Ref = name, kind, role, blob.Sum([]byte(letter))
		e.Aliases = e.Object.Aliases()
		return e
	}
	a, b := entry("1", "one.pdb", symfile.PDB, symfile.Debug), entry("2", "two.pdb", symfile.PDB, symfile.Debug)
	_, err := d.db.Commit(t.Context(), record.Tx{Kind: "add", Product: "P", Entries: []record.Entry{a, b}}, nil)
	check1(t, err)
	id := a.Object.DebugID.Breakpad()
	outcomes := func(segs ...string) (list []answer.LookupOutcome) {
		tr, err := d.Tracer.Trace(t.Context(), why.TraceAsk{Segments: segs})
		check1(t, err)
		for _, l := range tr.Lookups {
			list = append(list, l.Outcome)
		}
		return list
	}
	for _, tt := range []struct {
		segs []string
		want []answer.LookupOutcome
	}{
		{[]string{"three.pdb", id, "three.pdb"}, []answer.LookupOutcome{answer.OtherName, answer.Ambiguous}},
		{[]string{"three.pdb", strings.Repeat("ab", 16) + "1", "three.pdb"}, []answer.LookupOutcome{answer.NoHit, answer.NoHit}},
		{[]string{"one.pdb", id, "one.sym"}, []answer.LookupOutcome{answer.OtherRole, answer.OtherRole, answer.OtherRole}},
		{[]string{"one.pdb", id[:32] + "0", "one.pdb"}, []answer.LookupOutcome{answer.NoHit, answer.NoHit, answer.HigherAge}},
		// Its bytes were not found at the trace before.
		{[]string{"one.pdb", id, "one.pdb"}, []answer.LookupOutcome{answer.Damaged, answer.Ambiguous}},
	} {
		got := outcomes(tt.segs...)
		if strings.Join(outcomeWords(got), " ") != strings.Join(outcomeWords(tt.want), " ") {
			t.Errorf("%v: %v, want %v", tt.segs, got, tt.want)
		}
	}
}

func outcomeWords(list []answer.LookupOutcome) (out []string) {
	for _, o := range list {
		out = append(out, string(o))
	}
	return out
}
