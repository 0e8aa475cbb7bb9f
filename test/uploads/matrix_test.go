// Package uploads proves that what a server calls accepted can be had back, whatever the
// client and whatever the build: every way of files into a depot, with the real program
// and, where they can be had, the real clients.
package uploads

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// cell is a build that one way has sent.
type cell struct {
	product string
	large   bool
	byID    bool // the server does not know the names of files
	files   []file
	answers [][]answer // of each run, for each file
	faults  []error    // of each run
	err     error
}

// place is a path under which a file is asked for.
type place struct {
	layouts []layout.Layout
	kind    symfile.Kind
	sums    map[blob.Ref]bool // the contents of which one is there: that of the best file
	file    string            // the name of the first file that has the path
}

// expectation is what files and the answers about them promise.
type expectation struct {
	contents map[blob.Ref]string // the contents that the product has, and nothing else; the names of files
	paths    map[string]*place
	refusals []string // refusals without a reason in the files
	silent   []string // files without an answer
}

// expect is the expectation of all cells: a file that any run was told to be accepted is
// there, under its own ids, and nothing else is.
func expect(files []file, answers [][]answer) expectation {
	e := expectation{contents: map[blob.Ref]string{}, paths: map[string]*place{}}
	ids := map[string][]object{} // of the accepted files
	for i := range files {
		if slices.ContainsFunc(answers, func(run []answer) bool { return run[i].fate == accepted }) {
			e.add(&files[i], ids)
		}
	}
	for p, at := range e.paths {
		at.find(p, ids)
	}
	for i := range files {
		for _, run := range answers {
			switch a := run[i]; a.fate {
			case unanswered:
				e.silent = append(e.silent, files[i].name)
			case refused, leftOut:
				if !justified(sent{files, i, ids}, a) {
					e.refusals = append(e.refusals, fmt.Sprintf("%s: %s", files[i].name, a.why))
				}
			case accepted:
			}
		}
	}
	return e
}

// idsOf returns the ids that an object shares with others of the same module.
func idsOf(o *object) (ids []string) {
	if o.BuildID != "" {
		ids = append(ids, string(o.BuildID))
	}
	if !o.DebugID.IsZero() {
		ids = append(ids, o.DebugID.GUID.Lower())
	}
	return ids
}

// add expects a file.
func (e *expectation) add(f *file, ids map[string][]object) {
	objects := f.objects()
	if len(objects) == 0 {
		e.contents[blob.Sum(f.body)] = f.name // it cannot be there
	}
	for _, o := range objects {
		e.contents[o.sum] = f.name
		for _, id := range idsOf(&o) {
			ids[id] = append(ids[id], o)
		}
		for p, l := range o.paths {
			if e.paths[p] == nil {
				e.paths[p] = &place{l, o.Kind, map[blob.Ref]bool{}, f.name}
			}
			e.paths[p].sums[o.sum] = true
		}
	}
}

// find adds the other accepted files that a request for the path finds: the best is there.
func (at *place) find(path string, ids map[string][]object) {
	segs, err := layout.Segments(escaped(path))
	if err != nil {
		return
	}
	req, err := layout.Route(segs)
	if err != nil {
		return
	}
	for _, l := range req.Lookups {
		for _, id := range lookupIDs(l) {
			for _, o := range ids[id] {
				if l.Finds(o.Object.Object) {
					at.sums[o.sum] = true
				}
			}
		}
	}
}

// lookupIDs returns what idsOf returns for objects that a lookup may find.
func lookupIDs(l symfile.Lookup) []string {
	id := symfile.Fold(l.ID)
	if guid := 32; len(id) > guid {
		return []string{id, id[:guid]}
	}
	return []string{id}
}

// sent is a file among those of a cell.
type sent struct {
	files []file
	i     int
	ids   map[string][]object // of the accepted files
}

// reasons are the refusals that a server may give, with what must be true of the file, or
// of one of those that were sent together. That a client or a protocol is silent about a
// file which it takes for none with symbols is a refusal, too.
var reasons = []struct {
	says *regexp.Regexp
	true func(sent) bool
}{
	{regexp.MustCompile(`not a symbol file|no symbol file|a text file|broken|not of interest|invalid key|unrecognized file pattern|400 \(Bad Request\)|^$`), withoutSymbols},
	{regexp.MustCompile(`^$`), func(s sent) bool { return !s.files[s.i].useful() }},
	{regexp.MustCompile(`there already`), isHeld},
	{regexp.MustCompile(`(?i)other bytes|409`), hasOtherBytes},
	{regexp.MustCompile(`two different files`), hasTwinKey},
	{regexp.MustCompile(`invalid key|unrecognized file pattern|not safe|is not the path of`), func(s sent) bool { return s.files[s.i].raw }},
}

// justified reports whether a refusal has a reason in the files.
func justified(s sent, a answer) bool {
	for _, r := range reasons {
		if !r.says.MatchString(a.why) {
			continue
		}
		for k := range s.files {
			if (a.whole || k == s.i) && r.true(sent{s.files, k, s.ids}) {
				return true
			}
		}
	}
	return false
}

func withoutSymbols(s sent) bool { return len(s.files[s.i].objects()) == 0 }

// hasOtherBytes reports whether another file has other bytes of the same kind, role and id.
func hasOtherBytes(s sent) bool {
	for _, o := range s.files[s.i].objects() {
		for k := range s.files {
			for _, other := range s.files[k].objects() {
				if o.Kind == other.Kind && o.Role == other.Role && o.sum != other.sum && slices.Equal(idsOf(&o), idsOf(&other)) {
					return true
				}
			}
		}
	}
	return false
}

// hasTwinKey reports whether another file has other bytes and the path of the file in
// Tecken's trees.
func hasTwinKey(s sent) bool {
	for k := range s.files {
		if k != s.i && moduleKey(&s.files[k]) == moduleKey(&s.files[s.i]) && !bytes.Equal(s.files[k].body, s.files[s.i].body) {
			return true
		}
	}
	return false
}

// isHeld reports whether a file with an id of the file was accepted.
func isHeld(s sent) bool {
	for _, o := range s.files[s.i].objects() {
		for _, id := range idsOf(&o) {
			if len(s.ids[id]) > 0 {
				return true
			}
		}
	}
	return false
}

// send runs a client, as the manner says.
func (c *cell) send(ctx context.Context, s *site, w *way, m manner, dir string) {
	runs := make([]*run, m.runs)
	c.answers = make([][]answer, m.runs)
	errs := make([]error, m.runs)
	var wg sync.WaitGroup
	for i := range runs {
		runs[i] = &run{site: s, ctx: ctx, product: c.product, dir: dir}
		wg.Go(func() {
			if c.answers[i], errs[i] = w.send(runs[i], c.files); c.answers[i] == nil {
				c.answers[i] = make([]answer, len(c.files))
			}
		})
		if !m.atOnce {
			wg.Wait()
		}
	}
	wg.Wait()
	for i, r := range runs {
		c.faults = append(c.faults, r.fault)
		if errs[i] != nil {
			c.err = errs[i]
		}
	}
}

// newCell makes the files of a cell; why says why there is none.
func newCell(t *testing.T, w *way, s *shape, name string) (c *cell, why string) {
	switch {
	case w.cannot[name] != "":
		return nil, w.cannot[name]
	case s.large && w.slow, w.only != nil && !slices.Contains(w.only, name):
		return nil, "too many starts of the client; the way that sends the same bytes without it has the cell"
	}
	c = &cell{product: strings.NewReplacer(" ", "-", ",", "").Replace(w.name + "." + name), large: s.large}
	for _, f := range s.make(&maker{tb: t, salt: w.name + name}) {
		if w.takes != nil {
			if why = w.takes(&f); why != "" {
				continue
			}
		}
		c.files = append(c.files, f)
	}
	if w.prepare != nil {
		c.files = w.prepare(c.files)
	}
	if len(c.files) == 0 {
		return nil, why
	}
	return c, ""
}

// days is how many days make test takes for all builds and manners of all ways. Every day it
// sends some builds by each way, and each build by some ways; make torture sends all.
const days = 5

// TestMatrix: every way, every build, every manner.
func TestMatrix(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the builds have names that only file systems of Unix have")
	}
	turn := symtest.Turns(t, days)
	for i := range ways {
		w := &ways[i]
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			if w.tool != "" {
				symtest.Tool(t, w.tool)
			}
			testWay(t, w, func(k int) bool { return turn(i + k) })
		})
	}
}

// testWay sends the builds that have their turn by one way into one depot, then looks what the
// depot gives back.
func testWay(t *testing.T, w *way, turn func(k int) bool) {
	s := newSite(t)
	type named struct {
		name string
		*cell
		why string
	}
	var cells []named
	another := "needs another day, on which it has its turn (SYMDEPOT_TORTURE=1 sends all builds)"
	for i := range shapes {
		if !turn(i) {
			cells = append(cells, named{shapes[i].name, nil, another})
			continue
		}
		c, why := newCell(t, w, &shapes[i], shapes[i].name)
		cells = append(cells, named{shapes[i].name, c, why})
		if c != nil {
			c.send(t.Context(), s, w, manner{runs: 1}, t.TempDir())
		}
	}
	for i, m := range manners {
		if !turn(len(shapes) + i) {
			cells = append(cells, named{m.name, nil, another})
			continue
		}
		c, why := newCell(t, w, &mixed, m.name)
		cells = append(cells, named{m.name, c, why})
		if c == nil {
			continue
		}
		if m.restart {
			s.newFront(t)
			c.byID = w.forgets
		}
		c.send(t.Context(), s, w, m, t.TempDir())
	}
	s.url = s.backend.String()
	g, err := s.give(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			if c.cell == nil {
				t.Skip(c.why)
			}
			c.check(t, s, g)
		})
	}
}

// check compares what a cell was told with what the depot gives back.
func (c *cell) check(t *testing.T, s *site, g *given) {
	if c.err != nil {
		t.Errorf("the client cannot go on: %v", c.err)
	}
	for _, f := range c.faults {
		if f != nil {
			t.Errorf("an answer that the protocol does not have: %v", f)
		}
	}
	e := expect(c.files, c.answers)
	few(t, e.silent, "%d files have no answer, want one for each: %s")
	few(t, e.refusals, "%d files were refused without a reason that is true: %s")
	c.checkContents(t, &e, g)
	c.checkTrees(t, &e, g)
	c.checkRequests(t, &e, s)
}

// few reports a list, shortened.
func few(t *testing.T, list []string, format string) {
	t.Helper()
	if len(list) == 0 {
		return
	}
	slices.Sort(list)
	shown := list[:min(len(list), 5)]
	if len(list) > len(shown) {
		shown = append(slices.Clone(shown), "…")
	}
	t.Errorf(format, len(list), strings.Join(shown, "\n\t"))
}

// checkContents: the product's transactions hold what was accepted, and nothing else.
func (c *cell) checkContents(t *testing.T, e *expectation, g *given) {
	t.Helper()
	have := g.products[c.product]
	var lost, extra []string
	for sum, name := range e.contents {
		if _, ok := have[sum]; !ok {
			lost = append(lost, name+" "+sum.String()[:12])
		}
	}
	for sum, at := range have {
		if _, ok := e.contents[sum]; !ok {
			extra = append(extra, at+" "+sum.String()[:12])
		}
	}
	few(t, lost, "%d files were accepted and are in no build of the product: %s")
	few(t, extra, "%d files are in a build of the product and were not accepted: %s")
}

// checkTrees: the exported trees have the files at their paths.
func (c *cell) checkTrees(t *testing.T, e *expectation, g *given) {
	t.Helper()
	var bad []string
	for i := range g.trees {
		tree := &g.trees[i]
		for p, want := range e.paths {
			if !slices.Contains(want.layouts, tree.layout) || !tree.has(want.kind) || c.byID && tree.layout == layout.SymStore {
				continue
			}
			sum, ok, err := tree.sum(p)
			switch {
			case err != nil:
				bad = append(bad, err.Error())
			case !ok:
				bad = append(bad, fmt.Sprintf("%s: %s is not in the tree %s", want.file, p, tree.layout.Name()))
			case !want.sums[sum]:
				bad = append(bad, fmt.Sprintf("%s: %s in the tree %s has the content %s, want one of %s", want.file, p, tree.layout.Name(), sum.String()[:12], want.want()))
			}
		}
	}
	few(t, bad, "%d paths of exported trees lack their file: %s")
}

// want lists the contents of a place.
func (p *place) want() string {
	var list []string
	for sum := range p.sums {
		list = append(list, sum.String()[:12])
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// checkRequests: the server answers with the file to a request for any of its paths.
func (c *cell) checkRequests(t *testing.T, e *expectation, s *site) {
	t.Helper()
	r := &run{site: s, ctx: t.Context(), product: c.product}
	var bad []string
	for p, want := range e.paths {
		if c.large && !slices.Contains(want.layouts, layout.Unified) {
			continue // a request or two for each file
		}
		status, body, _, err := r.do(http.MethodGet, "/"+escaped(p), nil)
		switch {
		case err != nil:
			t.Fatal(err)
		case status != http.StatusOK:
			bad = append(bad, fmt.Sprintf("%s: GET /%s: %d", want.file, p, status))
		case !want.sums[blob.Sum(body)]:
			bad = append(bad, fmt.Sprintf("%s: GET /%s: the content %s, want one of %s", want.file, p, blob.Sum(body).String()[:12], want.want()))
		}
	}
	few(t, bad, "%d requests were not answered with the file: %s")
}
