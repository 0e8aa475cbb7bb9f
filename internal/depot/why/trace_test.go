package why_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/depottest"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
)

const pdbName = "hello-x64.pdb"

// world is a depot with a PDB of the product app.
type world struct {
	*depot.Depot
	body   []byte
	id     string // its GUID and age
	number int64
}

func newWorld(t *testing.T, opt depot.Options) *world {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	w := &world{Depot: d, body: symtest.Testdata(t, "pdb/"+pdbName)}
	list, err := objfile.Identify(bytes.NewReader(w.body), int64(len(w.body)), pdbName, objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.id = list[0].DebugID.Breakpad()
	w.number = depottest.Add(t, d, depot.TxInfo{Product: "app", Version: "1"}, pdbName, w.body)
	return w
}

func (w *world) trace(t *testing.T, ask why.TraceAsk) *why.Trace {
	t.Helper()
	tr, err := w.Tracer.Trace(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const otherID = "0123456789ABCDEF0123456789ABCDEF1"

// TestTrace: each way in which a request ends has its verdict, its status and its reason.
func TestTrace(t *testing.T) {
	in := func(name, id, file string) func(*world) []string {
		return func(w *world) []string {
			if id == "" {
				id = w.id
			}
			return []string{name, id, file}
		}
	}
	for _, c := range []struct {
		name    string
		before  func(t *testing.T, w *world)
		path    func(*world) []string
		scope   answer.Scope
		beyond  bool
		verdict why.Verdict
		status  int
		says    func(w *world, tr *why.Trace) (got any, ok bool)
	}{
		{name: "found", path: in(pdbName, "", pdbName), verdict: why.VerdictFound, status: 200, says: func(w *world, tr *why.Trace) (any, bool) {
			return tr.File, tr.File != nil && tr.File.Ref == blob.Sum(w.body) && tr.File.Number == w.number && tr.File.Size == int64(len(w.body)) && tr.File.Upstream == ""
		}},
		{name: "forms of a file", path: in(pdbName, "", pdbName), verdict: why.VerdictFound, status: 200, says: func(_ *world, tr *why.Trace) (any, bool) {
			state := map[string]why.FormState{}
			for _, f := range tr.Forms {
				state[f.Name] = f.State
			}
			return state, len(state) == 3 && state["zstd"] == why.FormPossible && state["cabinet"] == why.FormNever
		}},
		{name: "no path", path: func(*world) []string { return []string{"x"} }, verdict: why.VerdictNotPath, status: 404, says: func(_ *world, tr *why.Trace) (any, bool) {
			return tr, tr.Lookups == nil && tr.File == nil && tr.Err == nil
		}},
		{name: "another id", path: in(pdbName, otherID, pdbName), verdict: why.VerdictAbsent, status: 404, says: func(w *world, tr *why.Trace) (any, bool) {
			return tr.Namesakes, len(tr.Namesakes) == 1 && tr.Namesakes[0].Ref == blob.Sum(w.body)
		}},
		{name: "another age", path: func(w *world) []string { return []string{pdbName, w.id[:32] + "fff", pdbName} }, verdict: why.VerdictAbsent, status: 404,
			says: func(w *world, tr *why.Trace) (any, bool) {
				return tr.OtherAges, len(tr.OtherAges) == 1 && tr.OtherAges[0].Ref == blob.Sum(w.body) && len(tr.Namesakes) == 0 && !tr.Ageless
			}},
		{name: "other ages, those of the name first", path: func(w *world) []string { return []string{pdbName, w.id[:32] + "2", pdbName} }, verdict: why.VerdictAbsent, status: 404,
			before: func(t *testing.T, w *world) {
				depottest.Add(t, w.Depot, depot.TxInfo{Product: "app"}, "aged.pdb", symtest.PDBOfAge(t, 26))
			},
			says: func(w *world, tr *why.Trace) (any, bool) {
				return tr.OtherAges, len(tr.OtherAges) == 2 && tr.OtherAges[0].Ref == blob.Sum(w.body) && tr.OtherAges[1].Object.DebugID.Age == 26
			}},
		{name: "removed", path: in(pdbName, "", pdbName), verdict: why.VerdictAbsent, status: 404, before: func(t *testing.T, w *world) {
			if _, err := w.Retention.Remove(t.Context(), w.number, "anna"); err != nil {
				t.Fatal(err)
			}
		}, says: func(_ *world, tr *why.Trace) (any, bool) { return tr.Removed, len(tr.Removed) == 1 }},
		{name: "hidden", path: in(pdbName, "", pdbName), scope: answer.Scope{Products: []string{"other"}}, verdict: why.VerdictAbsent, status: 404,
			says: func(_ *world, tr *why.Trace) (any, bool) {
				return tr, len(tr.Hidden) == 0 && len(tr.Namesakes) == 0 && len(tr.OtherAges) == 0
			}},
		{name: "hidden, for an administrator", path: in(pdbName, "", pdbName), scope: answer.Scope{Products: []string{"other"}}, beyond: true, verdict: why.VerdictAbsent, status: 404,
			says: func(_ *world, tr *why.Trace) (any, bool) {
				return tr.Hidden, len(tr.Hidden) == 1 && slices.Equal(tr.Hidden[0].Products, []string{"app"})
			}},
		{name: "damaged", path: in(pdbName, "", pdbName), before: func(t *testing.T, w *world) { depottest.Damage(t, w.Depot, w.body) }, verdict: why.VerdictAbsent, status: 404, says: func(_ *world, tr *why.Trace) (any, bool) {
			return tr.File, tr.File == nil
		}},
		{name: "can be made", path: in(pdbName, "", "hello-x64.sym"), verdict: why.VerdictMakes, status: 200, before: func(t *testing.T, w *world) {
			depottest.Add(t, w.Depot, depot.TxInfo{Product: "app"}, "hello-x64.exe", symtest.Testdata(t, "pdb/hello-x64.exe"))
		}, says: func(_ *world, tr *why.Trace) (any, bool) {
			return tr.Forms, len(tr.Forms) == 1 && tr.Forms[0].Name == "sym" && tr.Forms[0].State == why.FormPossible && tr.Forms[0].Job == 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, depot.Options{})
			if c.before != nil {
				c.before(t, w)
			}
			tr := w.trace(t, why.TraceAsk{Scope: c.scope, Segments: c.path(w), Beyond: c.beyond})
			if tr.Verdict != c.verdict || tr.Status != c.status {
				t.Errorf("verdict %q with status %d, want %q with %d", tr.Verdict, tr.Status, c.verdict, c.status)
			}
			if got, ok := c.says(w, tr); !ok {
				t.Errorf("the trace says %+v, want what the case is about", got)
			}
		})
	}
}

// TestTraceHeaders are asked for with the file that answers.
func TestTraceHeaders(t *testing.T) {
	w := newWorld(t, depot.Options{})
	tr := w.trace(t, why.TraceAsk{Segments: []string{pdbName, w.id, pdbName}, Headers: func(req *layout.Request, f *answer.File) map[string][]string {
		return map[string][]string{"X-Size": {req.Name, f.Object.Name}}
	}})
	if got := strings.Join(tr.Headers["X-Size"], " "); got != pdbName+" "+pdbName {
		t.Errorf("headers %v, want those for the request and the file", tr.Headers)
	}
}

// TestTraceSources: a request that goes on to upstreams says so, and the trace asks none.
func TestTraceSources(t *testing.T) {
	up := &depottest.Upstream{}
	w := newWorld(t, depot.Options{Upstreams: []depot.Upstream{{Source: up}}})
	segs := []string{"ntdll.pdb", otherID, "ntdll.pdb"}
	tr := w.trace(t, why.TraceAsk{Segments: segs})
	if tr.Verdict != why.VerdictSources || tr.Status != 0 || !tr.Fetches || tr.Known || len(tr.Sources) != 1 || tr.Sources[0].Name != "upstream" || tr.Sources[0].Miss != nil {
		t.Errorf("%+v, want that the upstream would be asked", tr)
	}
	if n := up.Asked.Load(); n != 0 {
		t.Errorf("the upstream was asked %d times by a trace, want never", n)
	}
	if _, err := w.Get(t.Context(), answer.Question{Request: tr.Request}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("get: %v, want fs.ErrNotExist", err)
	}
	if tr = w.trace(t, why.TraceAsk{Segments: segs}); tr.Verdict != why.VerdictAbsent || !tr.Known || tr.Sources[0].Miss == nil || tr.KnownUntil.IsZero() {
		t.Errorf("after a miss: %+v, want that it is known until a time that the upstream lacks the file", tr)
	}
}

// TestAsk asks the upstreams also if they are remembered to lack the file.
func TestAsk(t *testing.T) {
	up := &depottest.Upstream{}
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Upstreams: []depot.Upstream{{Source: up}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	file := depottest.Breakpad(t, 1, 1)
	segs := strings.Split(file.Path, "/")
	for range 2 {
		if err := d.Tracer.Ask(t.Context(), answer.Question{}, nil, segs); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("ask: %v, want fs.ErrNotExist", err)
		}
	}
	if n := up.Asked.Load(); n != 2 {
		t.Errorf("the upstream was asked %d times, want twice", n)
	}
	up.File = file
	if err := d.Tracer.Ask(t.Context(), answer.Question{}, nil, segs); err != nil {
		t.Errorf("ask when the upstream has the file: %v, want none", err)
	}
	tr, err := d.Tracer.Trace(t.Context(), why.TraceAsk{Segments: segs})
	if err != nil || tr.Verdict != why.VerdictFound || tr.File.Upstream != "upstream" {
		t.Errorf("the trace afterwards: %+v, %v; want the file of the upstream", tr, err)
	}
	if err := d.Tracer.Ask(t.Context(), answer.Question{}, nil, []string{"x"}); err == nil {
		t.Error("ask for what is no path succeeds, want an error")
	}
}

// TestTraceFails: a failure of the depot is the result; the end of the context is an error.
func TestTraceFails(t *testing.T) {
	w := newWorld(t, depot.Options{})
	ask := why.TraceAsk{Segments: []string{pdbName, w.id, pdbName}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if tr, err := w.Tracer.Trace(ctx, ask); !errors.Is(err, context.Canceled) || tr != nil {
		t.Errorf("under a context that has ended: %+v, %v; want context.Canceled", tr, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if tr := w.trace(t, ask); tr.Verdict != why.VerdictFails || tr.Status != 500 || tr.Err == nil {
		t.Errorf("of a closed depot: %+v, want that it fails with 500, and why", tr)
	}
}
