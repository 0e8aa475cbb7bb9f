package index

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// visible is a model of what is seen: of each content the transactions that
// hold it and the sources that gave it.
type visible struct {
	t       *rapid.T
	db      *DB
	clock   *clock
	base    int               // number of the first content
	tx      map[int64]modelTx // that stand
	fetched map[int]map[string]modelFile
}

type modelTx struct {
	product  string
	contents []int
}

type modelFile struct {
	product string
	used    time.Time
}

var (
	modelProducts = []string{"", "P", "Q"}
	modelSources  = []string{"msdl", "other"}
)

const modelContents = 4

func (m *visible) content() int {
	return m.base + rapid.IntRange(0, modelContents-1).Draw(m.t, "content")
}
func (m *visible) product() string {
	return rapid.SampledFrom(modelProducts).Draw(m.t, "product")
}
func (m *visible) source() string { return rapid.SampledFrom(modelSources).Draw(m.t, "source") }

// gone is the deleteBlob of the model: no row may know what goes.
func (m *visible) gone(r blob.Ref) error {
	if is, err := m.db.HasContent(m.t.Context(), r); is || err != nil {
		m.t.Fatalf("content %x was freed, want it kept: it is in use; %v", r, err)
	}
	return nil
}

func (m *visible) fail(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *visible) Add(*rapid.T) {
	tx := modelTx{product: m.product(), contents: []int{m.content(), m.content()}}
	var entries []record.Entry
	for _, n := range tx.contents {
		entries = append(entries, figureEntry(n))
	}
	number, err := m.db.Commit(m.t.Context(), record.Tx{Kind: "add", Product: tx.product, Entries: entries}, nil)
	m.fail(err)
	m.tx[number] = tx
}

func (m *visible) Remove(t *rapid.T) {
	if len(m.tx) == 0 {
		t.Skip("nothing to remove")
	}
	number := rapid.SampledFrom(slices.Sorted(maps.Keys(m.tx))).Draw(t, "number")
	_, err := m.db.Remove(t.Context(), number)
	m.fail(err)
	delete(m.tx, number)
}

func (m *visible) Fetch(t *rapid.T) {
	n, source, product := m.content(), m.source(), m.product()
	e := figureEntry(n)
	m.fail(m.db.Cached.Put(t.Context(), contents.CachedFile{Source: source, Product: product, Name: e.Object.Name, Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil))
	if m.fetched[n] == nil {
		m.fetched[n] = map[string]modelFile{}
	}
	m.fetched[n][source] = modelFile{product, m.clock.t}
}

func (m *visible) Use(t *rapid.T) {
	n := m.content()
	m.clock.hours(1)
	m.fail(m.db.Cached.Touch(t.Context(), map[blob.Ref]time.Time{figureEntry(n).Ref: m.clock.t}))
	for s, f := range m.fetched[n] {
		f.used = m.clock.t
		m.fetched[n][s] = f
	}
}

// Derive makes one content from another, which may be one that is added too.
func (m *visible) Derive(t *rapid.T) {
	from, to := m.content(), m.content()
	e := figureEntry(to)
	if is, _ := m.db.HasContent(t.Context(), figureEntry(from).Ref); !is || from == to {
		t.Skip("nothing to make it from")
	}
	m.fail(m.db.PutDerived(t.Context(), figureEntry(from).Ref, record.Tool{Name: "t", Version: to}, &record.Content{Ref: e.Ref, Size: e.Size}))
}

func (m *visible) Evict(t *rapid.T) {
	n, other := m.content(), m.content()
	want := len(m.fetched[n])
	if other != n {
		want += len(m.fetched[other])
	}
	files, _, err := m.db.Cached.Evict(t.Context(), []blob.Ref{figureEntry(n).Ref, figureEntry(other).Ref}, m.gone)
	m.fail(err)
	if files != want {
		t.Fatalf("%d files evicted, want %d", files, want)
	}
	delete(m.fetched, n)
	delete(m.fetched, other)
}

func (m *visible) Flush(t *rapid.T) {
	source := m.source()
	_, _, err := m.db.Cached.Drop(t.Context(), contents.CacheFilter{Source: source}, m.gone)
	m.fail(err)
	for n := range m.fetched {
		delete(m.fetched[n], source)
	}
}

func (m *visible) Collect(t *rapid.T) {
	var refs []blob.Ref
	for n := range modelContents {
		refs = append(refs, figureEntry(m.base+n).Ref)
	}
	_, err := m.db.DropContents(t.Context(), refs, m.clock.t, m.gone)
	m.fail(err)
}

// Check compares what is seen with the model.
func (m *visible) Check(t *rapid.T) {
	scopes := map[string]record.Scope{"all": all, "two": {Products: []string{"P", "Q"}}}
	for _, p := range modelProducts[:2] {
		scopes["product "+p] = record.Scope{Products: []string{p}}
	}
	for n := m.base; n < m.base+modelContents; n++ {
		e := figureEntry(n)
		for name, scope := range scopes {
			in := func(product string) bool { return scope.All || slices.Contains(scope.Products, product) }
			var number int64
			for id, tx := range m.tx {
				if in(tx.product) && slices.Contains(tx.contents, n) {
					number = max(number, id)
				}
			}
			sources := map[string]bool{}
			for s, f := range m.fetched[n] {
				sources[s] = in(f.product)
			}
			l := symfile.Lookup{Name: e.Aliases[0].Name, ID: e.Aliases[0].ID, Role: symfile.AnyRole}
			hits, err := m.db.Lookup(t.Context(), scope, l)
			m.fail(err)
			found, err := m.db.Find(t.Context(), scope, record.Query{Ref: &e.Ref}, 0)
			m.fail(err)
			var got record.Stored
			if len(hits) > 0 {
				got = hits[0].Stored
			}
			want := number > 0 || slices.Contains(slices.Collect(maps.Values(sources)), true)
			if (len(hits) == 1) != want || (len(found) == 1) != want || got.Number != number || (got.Source != "") != (want && number == 0) || got.Source != "" && !sources[got.Source] {
				t.Fatalf("%s: content %d: %+v, %+v; want build %d or one of %v", name, n, hits, found, number, sources)
			}
			if want && (len(found[0].Transactions) == 0) != (number == 0) {
				t.Fatalf("%s: content %d: builds %v, want none exactly for a cached file", name, n, found[0].Transactions)
			}
			if is, _ := m.db.HasContent(t.Context(), e.Ref); want && !is {
				t.Fatalf("content %d is seen and not known", n)
			}
		}
	}
	m.checkOrder(t)
}

// checkOrder compares what can be evicted.
func (m *visible) checkOrder(t *rapid.T) {
	type file struct {
		ref    blob.Ref
		source string
		used   time.Time
	}
	var want, got []file
	var files, bytes int64
	for n, sources := range m.fetched {
		for s, f := range sources {
			want = append(want, file{figureEntry(n).Ref, s, f.used})
			files, bytes = files+1, bytes+figureEntry(n).Size
		}
	}
	for c, err := range m.db.Cached.Evictable(t.Context(), contents.CacheFilter{}) {
		m.fail(err)
		got = append(got, file{c.Ref, c.Source, c.Used})
	}
	if !slices.IsSortedFunc(got, func(a, b file) int { return a.used.Compare(b.used) }) {
		t.Fatalf("not the longest unused first: %v", got)
	}
	order := func(a, b file) int {
		return cmp.Or(slices.Compare(a.ref[:], b.ref[:]), cmp.Compare(a.source, b.source))
	}
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(want, got) {
		t.Fatalf("evictable: %v, want %v", got, want)
	}
	if s, err := m.db.Stats(t.Context()); err != nil || s.CachedFiles != files || s.CachedBytes != bytes || s.Transactions != int64(len(m.tx)) {
		t.Fatalf("%+v, %v; want %d files, %d bytes, %d builds", s, err, files, bytes, len(m.tx))
	}
}

// TestVisibleProperties has any sequence of adding, removing, fetching and
// evicting compared with a model.
func TestVisibleProperties(t *testing.T) {
	symtest.Sequential(t)
	// A hundred sequences, the default, take minutes on a busy machine.
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue && os.Getenv("SYMDEPOT_TORTURE") == "" {
		if err := f.Value.Set("8"); err != nil {
			t.Fatal(err)
		}
	}
	onEngines(t, testVisibleProperties)
}

func testVisibleProperties(t *testing.T) {
	clock := newClock()
	short := os.Getenv("SYMDEPOT_TORTURE") == "" && strings.HasSuffix(t.Name(), "/postgres")
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		if n++; short && n > 3 {
			return // a sequence takes seconds there, and torture has a hundred
		}
		db := openTest(t, clock.options())
		m := &visible{t: r, db: db, clock: clock, tx: map[int64]modelTx{}, fetched: map[int]map[string]modelFile{}}
		actions := rapid.StateMachineActions(m)
		delete(actions, "Check")
		actions[""] = m.Check
		r.Repeat(actions)
		clean(t, db)
		// In the end everything can go.
		for n := range m.tx {
			_, err := db.Remove(r.Context(), n)
			m.fail(err)
		}
		for _, s := range modelSources {
			_, _, err := db.Cached.Drop(r.Context(), contents.CacheFilter{Source: s}, m.gone)
			m.fail(err)
		}
		for range modelContents { // what was derived gets its own time
			m.Collect(r)
		}
		clean(t, db)
	})
}
