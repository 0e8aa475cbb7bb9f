package index

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

var all = record.Scope{All: true}

// clock is a clock that stands until it is moved.
type clock struct{ t time.Time }

func newClock() *clock            { return &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }
func (c *clock) now() time.Time   { return c.t }
func (c *clock) hours(n int)      { c.t = c.t.Add(time.Duration(n) * time.Hour) }
func (c *clock) options() Options { return Options{Now: c.now} }

func openTest(t testing.TB, opt Options) *DB {
	t.Helper()
	where := newIndex(t)
	db, err := Open(t.Context(), where, opt)
	if err != nil {
		t.Fatal(err)
	}
	addresses.Store(db, where)
	t.Cleanup(func() {
		addresses.Delete(db)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func ref(n int) blob.Ref { return sha256.Sum256([]byte(fmt.Sprint("content ", n))) }

// pdb is the entry of a PDB with content n; the name is Foo<n>.pdb and the
// GUID's first byte is n.
func pdb(n int) record.Entry { return pdbAge(n, fmt.Sprintf("Foo%d.pdb", n), byte(n), 1) }

func pdbAge(n int, name string, guid byte, age uint32) record.Entry {
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: name, DebugID: debugid.ID{GUID: debugid.GUID{guid, 15: 1}, Age: age}, InfoAge: age}
	return record.Entry{Object: o, Ref: ref(n), Size: int64(1000 + n), Aliases: o.Aliases(), Path: "/build/" + name, ModTime: time.UnixMilli(1700000000123).UTC()}
}

func elf(n int, role symfile.Role, id string, debugSize int64) record.Entry {
	o := symfile.Object{Kind: symfile.ELF, Role: role, Name: "prog", CodeID: id, BuildID: debugid.BuildID(id), DebugID: debugid.BuildID(id).DebugID(true)}
	return record.Entry{Object: o, Arch: "x86_64", Ref: ref(n), Size: int64(1000 + n), DebugSize: debugSize, Aliases: o.Aliases(), Path: fmt.Sprintf("/usr/bin/%d/prog", n)}
}

func commitTest(t testing.TB, db *DB, product string, entries ...record.Entry) int64 {
	t.Helper()
	n, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: product, Entries: entries}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func lookupEntry(t testing.TB, db *DB, scope record.Scope, e record.Entry) []record.Hit {
	t.Helper()
	a := e.Aliases[0]
	hits, err := db.Lookup(t.Context(), scope, symfile.Lookup{Name: a.Name, ID: a.ID, Role: symfile.AnyRole})
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func clean(t testing.TB, db *DB) {
	t.Helper()
	problems, err := db.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("check: %s, want no problem", p)
	}
}

// fill sets every field of a struct to something that is not zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("Ab%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*n))
	default:
		v.SetUint(uint64(*n) % 200)
	}
}

func TestEveryFieldComesBack(t *testing.T) { onEngines(t, testEveryFieldComesBack) }

func testEveryFieldComesBack(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	var o symfile.Object
	n := 0
	fill(reflect.ValueOf(&o).Elem(), &n)
	o.DebugID.PDB20 = false
	e := record.Entry{
		Object: o, Arch: "arm64e", Features: []string{"debug", "unwind"}, DebugSize: 1 << 40, Ref: ref(1), Size: 5 << 30,
		Aliases: []symfile.Alias{{Name: "Näme.PDB", ID: "ABC", Role: 4}}, Path: "/p\xff/x", Archive: "/a.zip", ModTime: time.UnixMilli(5).UTC(), Signature: "0302ab",
	}
	origin := &record.Origin{Store: `\\srv\sym`, Number: "0000000007", Time: time.UnixMilli(99000).UTC()}
	tx := record.Tx{Kind: "add", Product: "P", Version: "1", Comment: "a \"c\"\x00", Who: "me", Host: "h", Tool: "symdepot 1", Time: time.UnixMilli(1234567890123), Origin: origin,
		Entries: []record.Entry{e, e}}
	number, err := db.Commit(t.Context(), tx, nil)
	if err != nil || number != 1 {
		t.Fatalf("Commit: %v, error %v; want 1", number, err)
	}
	hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: "näme.pdb", ID: "abc", Role: 4})
	if err != nil || len(hits) != 1 {
		t.Fatalf("Lookup: %v, error %v; want length 1", hits, err)
	}
	want := record.Hit{Stored: record.Stored{Object: o, Arch: "arm64e", Features: e.Features, DebugSize: e.DebugSize, Ref: e.Ref, Size: e.Size,
		Number: 1, Added: tx.Time.UTC(), ModTime: e.ModTime, Path: "/p\uFFFD/x", Archive: "/a.zip"}, Role: 4, Signature: "0302ab"}
	if d := cmp.Diff(want, hits[0], cmpopts.IgnoreUnexported(record.Stored{})); d != "" {
		t.Errorf("hit (-want +got):\n%s", d)
	}
	var files []record.TxFile
	got, err := db.Show(t.Context(), 1, func(f record.TxFile) error { files = append(files, f); return nil })
	if err != nil {
		t.Fatal(err)
	}
	wantTx := record.Transaction{Number: 1, Kind: "add", Product: "P", Version: "1", Comment: "a \"c\"", Who: "me", Host: "h", Tool: "symdepot 1", Time: tx.Time.UTC(), Files: 2, Bytes: 10 << 30,
		Origin: origin, Arrived: got.Arrived}
	if d := cmp.Diff(wantTx, got); d != "" {
		t.Errorf("build (-want +got):\n%s", d)
	}
	wantFile := record.TxFile{Object: o, Arch: "arm64e", Features: e.Features, DebugSize: e.DebugSize, Ref: e.Ref, Size: e.Size, Path: "/p\uFFFD/x", Archive: "/a.zip", ModTime: e.ModTime, Cold: nil}
	if d := cmp.Diff([]record.TxFile{wantFile, wantFile}, files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	clean(t, db)

	// A PDB 2.0 id, and what a newer program knows better.
	o.DebugID = debugid.PDB20(0x12345678, 0)
	e.Object, e.Features, e.Aliases = o, nil, []symfile.Alias{{Name: "näme.pdb", ID: "abc", Role: 8}}
	commitTest(t, db, "", e)
	hits, err = db.Lookup(t.Context(), all, symfile.Lookup{Name: "näme.pdb", ID: "abc", Role: 8})
	if err != nil || len(hits) != 1 || hits[0].Object != o || hits[0].Role != 12 || len(hits[0].Features) != 0 || hits[0].Number != 2 {
		t.Errorf("Lookup: %+v, error %v; want length 1, hits[0].Object %v, hits[0].Role 12, hits[0].Features of length 0, hits[0].Number 2", hits, err, o)
	}
	clean(t, db)
}

func TestVisibility(t *testing.T) { onEngines(t, testVisibility) }

func testVisibility(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	commitTest(t, db, "A", a, b)
	for range 28 {
		commitTest(t, db, "B", a)
	}
	commitTest(t, db, "A", a)
	see := func(when string, s record.Scope, e record.Entry, want int64) {
		t.Helper()
		var got int64
		if hits := lookupEntry(t, db, s, e); len(hits) > 0 {
			got = hits[0].Number
		}
		if got != want {
			t.Errorf("%s: seen from build %d, want %d", when, got, want)
		}
	}
	remove := func(n int64) {
		t.Helper()
		if _, err := db.Remove(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		clean(t, db)
	}
	inA, inB, inC := record.Scope{Products: []string{"A"}}, record.Scope{Products: []string{"B"}}, record.Scope{Products: []string{"C", "B"}}
	see("all", all, a, 30)
	see("A", inA, a, 30)
	see("B", inB, a, 29)
	see("C and B", inC, a, 29)
	see("b in B", inB, b, 0)
	see("no scope", record.Scope{}, a, 0)
	remove(30)
	see("without 30", all, a, 29)
	see("without 30 in A", inA, a, 1)
	remove(1)
	see("without 1 in A", inA, a, 0)
	see("without 1 in B", inB, a, 29)
	see("b without 1", all, b, 0)
	for n := int64(2); n < 29; n++ {
		if _, err := db.Remove(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		see("thirty adds", all, a, 29)
	}
	g1, _ := db.Generation(t.Context())
	remove(29)
	if g2, _ := db.Generation(t.Context()); g2 == g1 {
		t.Error("a removal does not change the generation")
	}
	see("none left", all, a, 0)
	for _, n := range []int64{29, 31, 0, -1} {
		if _, err := db.Remove(t.Context(), n); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("remove %d: %v, want fs.ErrNotExist", n, err)
		}
	}
	commitTest(t, db, "A", a)
	see("again", all, a, 31)
	clean(t, db)
}

func unreferenced(t *testing.T, db *DB, before time.Time) (list []blob.Ref) {
	t.Helper()
	for c, err := range db.Unreferenced(t.Context(), before) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c.Ref)
	}
	return list
}

func TestDrop(t *testing.T) { onEngines(t, testDrop) }

func testDrop(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	b2 := b
	b2.Object.Name, b2.Aliases = "Other.pdb", []symfile.Alias{{Name: "other.pdb", ID: "b2", Role: symfile.Debug}}
	commitTest(t, db, "", a, b)
	commitTest(t, db, "", b2)
	start := c.t
	c.hours(1)
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	removed := c.t
	c.hours(48)
	if got := unreferenced(t, db, removed.Add(-time.Millisecond)); got != nil {
		t.Errorf("unreferenced too early: %x", got)
	}
	if got := unreferenced(t, db, removed); !slices.Equal(got, []blob.Ref{a.Ref}) {
		t.Errorf("unreferenced: %x, want %x", got, []blob.Ref{a.Ref})
	}
	var deleted []blob.Ref
	drop := func(before time.Time) int {
		t.Helper()
		deleted = nil
		n, err := db.DropContents(t.Context(), []blob.Ref{a.Ref, b.Ref, ref(77)}, before, func(r blob.Ref) error {
			deleted = append(deleted, r)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		clean(t, db)
		return n
	}
	if n := drop(start); n != 0 || deleted != nil {
		t.Errorf("dropped %d inside the grace, want none", n)
	}
	// Seen again: stays, and its time starts anew when it goes.
	commitTest(t, db, "", a)
	if n := drop(c.t); n != 0 {
		t.Errorf("dropped %d that are in use, want 0", n)
	}
	if _, err := db.Remove(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if n := drop(removed); n != 0 {
		t.Errorf("dropped %d inside the second grace, want 0", n)
	}
	if n := drop(c.t); n != 1 || !slices.Equal(deleted, []blob.Ref{a.Ref}) {
		t.Errorf("dropped %d: %x, want %x", n, deleted, []blob.Ref{a.Ref})
	}
	if is, err := db.HasContent(t.Context(), a.Ref); is || err != nil {
		t.Errorf("HasContent of the removed content: %v, error %v; want false", is, err)
	}
	if is, _ := db.HasContent(t.Context(), b.Ref); !is {
		t.Error("b is gone, which another object needs")
	}
	s, err := db.Stats(t.Context())
	if err != nil || s.Contents != 1 || s.Objects != 2 || s.Bytes != b.Size || s.Transactions != 1 {
		t.Errorf("Stats: %+v, error %v; want Contents 1, Objects 2, Bytes %v, Builds 1", s, err, b.Size)
	}
	// A failing delete leaves bytes without a row, not a row without bytes.
	if _, err := db.Remove(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if _, err := db.DropContents(t.Context(), []blob.Ref{b.Ref}, c.t, func(blob.Ref) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if is, _ := db.HasContent(t.Context(), b.Ref); is {
		t.Error("the row is there without its bytes")
	}
	clean(t, db)
}

func TestDropAddedMeanwhile(t *testing.T) { onEngines(t, testDropAddedMeanwhile) }

func testDropAddedMeanwhile(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	commitTest(t, db, "", a, b)
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	// The writer's connection is given back between the two halves of a
	// batch: a second handle commits b exactly there.
	other := reopen(t, db, c.options())
	var deleted []blob.Ref
	for _, r := range []blob.Ref{a.Ref, b.Ref} {
		if _, err := db.DropContents(t.Context(), []blob.Ref{r}, c.t, func(r blob.Ref) error {
			deleted = append(deleted, r)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(deleted) == 1 {
			commitTest(t, other, "", b)
		}
	}
	if !slices.Equal(deleted, []blob.Ref{a.Ref}) {
		t.Errorf("deleted %x, want %x", deleted, []blob.Ref{a.Ref})
	}
	clean(t, db)
}

func TestDerived(t *testing.T) { onEngines(t, testDerived) }

func testDerived(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a, b := pdb(1), pdb(2)
	commitTest(t, db, "", a)
	zstd, gzip := record.Tool{Name: "zstd", Version: 1}, record.Tool{Name: "gzip", Version: 1}
	if _, err := db.Derived(t.Context(), a.Ref, zstd); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	put := func(source blob.Ref, tool record.Tool, n int) error {
		if n == 0 {
			return db.PutDerived(t.Context(), source, tool, nil)
		}
		return db.PutDerived(t.Context(), source, tool, &record.Content{Ref: ref(n), Size: int64(n)})
	}
	if err := put(b.Ref, zstd, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an unknown source:", err)
	}
	for _, p := range []struct {
		tool record.Tool
		n    int
	}{{zstd, 10}, {gzip, 0}, {record.Tool{Name: "gzip", Version: 2}, 11}, {zstd, 12}, {record.Tool{Name: "same", Version: 1}, 12}} {
		if err := put(a.Ref, p.tool, p.n); err != nil {
			t.Fatal(err)
		}
		got, err := db.Derived(t.Context(), a.Ref, p.tool)
		want := record.Content{}
		if p.n != 0 {
			want = record.Content{Ref: ref(p.n), Size: int64(p.n)}
		}
		if err != nil || got != want {
			t.Errorf("%v: got %v, error %v; want %v", p.tool, got, err, want)
		}
		clean(t, db)
	}
	if got := unreferenced(t, db, c.t); !slices.Equal(got, []blob.Ref{ref(10)}) {
		t.Errorf("replaced result: %x, want %x", got, []blob.Ref{ref(10)})
	}
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var deleted []blob.Ref
	n, err := db.DropContents(t.Context(), []blob.Ref{a.Ref, ref(10), ref(11)}, c.t, func(r blob.Ref) error { deleted = append(deleted, r); return nil })
	slices.SortFunc(deleted, func(a, b blob.Ref) int { return bytes.Compare(a[:], b[:]) })
	want := []blob.Ref{a.Ref, ref(10), ref(11), ref(12)}
	slices.SortFunc(want, func(a, b blob.Ref) int { return bytes.Compare(a[:], b[:]) })
	if err != nil || n != 2 || !slices.Equal(deleted, want) {
		t.Errorf("got %d, error %v, %x; want 2, %v", n, err, deleted, want)
	}
	clean(t, db)
	if s, _ := db.Stats(t.Context()); s.Contents != 0 || s.Bytes != 0 || s.Objects != 0 || s.Lookups != 0 {
		t.Errorf("Stats: %+v, want Contents 0, Bytes 0, Objects 0, Lookups 0", s)
	}
}

func TestLookup(t *testing.T) { onEngines(t, testLookup) }

func testLookup(t *testing.T) {
	db := openTest(t, Options{})
	id := strings.Repeat("ab", 20)
	exe, dbg := elf(1, symfile.Executable, id, 0), elf(2, symfile.Debug, id, 500)
	other := elf(3, symfile.Debug, id, 100)
	other.Object.Name = "Prog.debug"
	other.Aliases = other.Object.Aliases()
	commitTest(t, db, "", exe, dbg)
	commitTest(t, db, "", other)
	for _, c := range []struct {
		l    symfile.Lookup
		want []int
	}{
		{symfile.Lookup{Name: "prog", ID: id, Role: symfile.Executable}, []int{1}},
		{symfile.Lookup{Name: "prog", ID: id, Role: symfile.Debug}, []int{2}},
		{symfile.Lookup{Name: "prog", ID: id, Role: symfile.AnyRole}, []int{2, 1}},
		{symfile.Lookup{Name: "prog.debug", ID: id, Role: symfile.AnyRole}, []int{3}},
		{symfile.Lookup{ID: id, Role: symfile.Debug}, []int{3, 2}},
		{symfile.Lookup{ID: id, Role: symfile.Symbols}, nil},
		{symfile.Lookup{ID: id[:39], Role: symfile.AnyRole}, nil},
		{symfile.Lookup{Name: "Prog", ID: id, Role: symfile.AnyRole}, nil},
		{symfile.Lookup{Name: "prog", Role: symfile.AnyRole}, nil},
		{symfile.Lookup{Name: "pro%", ID: id, Role: symfile.AnyRole}, nil},
	} {
		hits, err := db.Lookup(t.Context(), all, c.l)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []blob.Ref
		for _, h := range hits {
			got = append(got, h.Ref)
		}
		for _, n := range c.want {
			want = append(want, ref(n))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %d hits %x, want %v", c.l, len(hits), got, want)
		}
	}
	for _, c := range []struct {
		e    record.Entry
		size int64
		want bool
	}{{exe, exe.Size, true}, {exe, exe.Size + 100, false}, {pdb(9), 1009, false}, {record.Entry{}, 0, false}} {
		if got, err := db.HasObject(t.Context(), c.e.Object, c.size); got != c.want || err != nil {
			t.Errorf("HasObject %s %d: %v, %v; want %v", c.e.Object.Name, c.size, got, err, c.want)
		}
	}
}

func TestHigherAge(t *testing.T) { onEngines(t, testHigherAge) }

func testHigherAge(t *testing.T) {
	db := openTest(t, Options{})
	msfz := pdbAge(5, "A.pdb", 1, 7)
	msfz.Object.Kind, msfz.Object.Role = symfile.MSFZ, symfile.Compressed
	msfz.Aliases = msfz.Object.Aliases()
	info := pdbAge(6, "A.pdb", 1, 3)
	info.Object.InfoAge = 40 // found under guid+28 too, but its age is 3
	info.Aliases = info.Object.Aliases()
	portable := pdbAge(7, "A.pdb", 1, 0x99)
	portable.Object.Kind = symfile.PortablePDB
	portable.Aliases = portable.Object.Aliases()
	commitTest(t, db, "P", pdbAge(1, "A.pdb", 1, 2), pdbAge(2, "a.PDB", 1, 0x10), pdbAge(3, "b.pdb", 1, 5), pdbAge(4, "A.pdb", 2, 9), msfz, info, portable)
	guid := debugid.GUID{1, 15: 1}.Lower()
	for _, c := range []struct {
		name string
		age  uint32
		want []uint32
	}{{"a.pdb", 1, []uint32{2, 3, 7, 16}}, {"a.pdb", 2, []uint32{3, 7, 16}}, {"a.pdb", 15, []uint32{16}}, {"a.pdb", 16, nil}, {"", 4, []uint32{5, 7, 16}}, {"c.pdb", 1, nil}} {
		hits, err := db.HigherAge(t.Context(), all, c.name, guid, c.age)
		if err != nil {
			t.Fatal(err)
		}
		var ages []uint32
		for _, h := range hits {
			ages = append(ages, h.Object.DebugID.Age)
		}
		if !slices.Equal(ages, c.want) {
			t.Errorf("%q above %d: %v, want %v", c.name, c.age, ages, c.want)
		}
	}
	if hits, err := db.HigherAge(t.Context(), record.Scope{Products: []string{"Q"}}, "a.pdb", guid, 1); len(hits) != 0 || err != nil {
		t.Errorf(`HigherAge("a.pdb", 1): %v, error %v; want none`, hits, err)
	}
}

func TestFind(t *testing.T) { onEngines(t, testFind) }

func testFind(t *testing.T) {
	db := openTest(t, Options{})
	id := strings.Repeat("cd", 20)
	e := elf(9, symfile.Debug|symfile.Executable, id, 1)
	odd := pdb(8)
	odd.Object.Name = "[x]_%.pdb"
	commitTest(t, db, "A", pdb(1), pdb(2), pdb(12))
	commitTest(t, db, "B", pdb(1), e, odd)
	r := ref(2)
	for _, c := range []struct {
		name  string
		q     record.Query
		scope record.Scope
		limit int
		want  string
	}{
		{"name", record.Query{Name: "foo1.pdb"}, all, 0, "Foo1.pdb[2 1]"},
		{"name in a product", record.Query{Name: "foo1.pdb"}, record.Scope{Products: []string{"A"}}, 0, "Foo1.pdb[1]"},
		{"star", record.Query{Name: "foo1*"}, all, 0, "Foo1.pdb[2 1] Foo12.pdb[1]"},
		{"star first", record.Query{Name: "*2.p?b"}, all, 0, "Foo12.pdb[1] Foo2.pdb[1]"},
		{"question mark", record.Query{Name: "foo?.pdb"}, all, 0, "Foo1.pdb[2 1] Foo2.pdb[1]"},
		{"no other magic", record.Query{Name: "[x]_%.pd?"}, all, 0, "[x]_%.pdb[2]"},
		{"limit", record.Query{Name: "foo*"}, all, 2, "Foo1.pdb[2 1] Foo12.pdb[1]"},
		{"kind", record.Query{Name: "*", Kind: symfile.ELF}, all, 0, "prog[2]"},
		{"ids", record.Query{IDs: []string{id, "nothing"}}, all, 0, "prog[2]"},
		{"prefix", record.Query{Prefix: debugid.GUID{1, 15: 1}.Lower()}, all, 0, "Foo1.pdb[2 1]"},
		{"content", record.Query{Ref: &r}, all, 0, "Foo2.pdb[1]"},
		{"union", record.Query{Ref: &r, Name: "prog", IDs: []string{id}}, all, 0, "Foo2.pdb[1] prog[2]"},
		{"nothing", record.Query{}, all, 0, ""},
		{"no scope", record.Query{Name: "*"}, record.Scope{}, 0, ""},
	} {
		found, err := db.Find(t.Context(), c.scope, c.q, c.limit)
		if err != nil {
			t.Fatalf("%v: Find: error %v, want no error", c.name, err)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Object.Name+fmt.Sprint(f.Transactions))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestELFPaths(t *testing.T) { onEngines(t, testELFPaths) }

func testELFPaths(t *testing.T) {
	db := openTest(t, Options{})
	a, b := elf(1, symfile.Executable, strings.Repeat("0a", 20), 1), elf(2, symfile.Debug, strings.Repeat("0b", 20), 1)
	b.Archive = "/x/p.deb"
	commitTest(t, db, "A", a, pdb(3))
	commitTest(t, db, "B", a, b, b)
	for _, c := range []struct {
		q        PathQuery
		limit    int
		scope    record.Scope
		want     int
		complete bool
	}{
		{PathQuery{Path: "/usr/bin/1/prog"}, 0, all, 1, true},
		{PathQuery{Path: "/usr/bin/2/prog"}, 0, record.Scope{Products: []string{"A"}}, 0, true},
		{PathQuery{Path: "/build/Foo3.pdb"}, 0, all, 0, true},
		{PathQuery{Glob: "/usr/bin/*/prog"}, 0, all, 2, true},
		{PathQuery{Glob: "/usr/bin/*/prog"}, 2, all, 2, true},
		{PathQuery{Glob: "/usr/bin/*/prog"}, 1, all, 1, false},
		{PathQuery{Glob: "/*/*/[!2]/p*"}, 0, all, 1, true},
		{PathQuery{Glob: "*prog*"}, 0, all, 0, true},
		{PathQuery{Glob: "[", Path: ""}, 0, all, 0, true},
		{PathQuery{BuildID: strings.Repeat("0b", 20)}, 0, all, 1, true},
		{PathQuery{}, 0, all, 0, true},
	} {
		got, complete, err := db.ELFPaths(t.Context(), c.scope, c.q, c.limit)
		if err != nil || len(got) != c.want || complete != c.complete {
			t.Errorf("%+v: ELFPaths: %v, %v, error %v; want length %v, %v", c.q, got, complete, err, c.want, c.complete)
		}
	}
	got, _, _ := db.ELFPaths(t.Context(), all, PathQuery{BuildID: string(b.Object.BuildID)}, 0)
	if want := (ELFPath{symfile.Debug, string(b.Object.BuildID), b.Path, b.Archive}); len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want length 1, got[0] %v", got, want)
	}
}

func TestListShowStats(t *testing.T) { onEngines(t, testListShowStats) }

func testListShowStats(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	for i := range 6 {
		c.hours(1)
		if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: []string{"A", "B", ""}[i%3], Version: fmt.Sprint(i / 3), Who: []string{"Anna@X", "b_b"}[i%2], Entries: []record.Entry{pdb(i), pdb(i + 1)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Remove(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	for _, l := range []struct {
		f     ListFilter
		scope record.Scope
		want  string
	}{
		{ListFilter{}, all, "[5 4 3 2 1]"},
		{ListFilter{Removed: true}, all, "[6 5 4 3 2 1]"},
		{ListFilter{Limit: 2}, all, "[5 4]"},
		{ListFilter{Limit: 2, Before: 4}, all, "[3 2]"},
		{ListFilter{Product: new("A")}, all, "[4 1]"},
		{ListFilter{Product: new("")}, all, "[3]"},
		{ListFilter{Product: new("none")}, all, "[]"},
		{ListFilter{Product: new("A")}, record.Scope{Products: []string{"B"}}, "[]"},
		{ListFilter{Product: new("A"), Version: "1"}, all, "[4]"},
		{ListFilter{Version: "0"}, all, "[3 2 1]"},
		{ListFilter{Who: "anna@x"}, all, "[5 3 1]"},
		{ListFilter{Who: "a*"}, all, "[5 3 1]"},
		{ListFilter{Who: "b?b"}, all, "[4 2]"},
		{ListFilter{Who: "b_*"}, all, "[4 2]"},
		{ListFilter{Who: "_*"}, all, "[]"},
		{ListFilter{Since: c.t.Add(-2 * time.Hour)}, all, "[5 4]"},
		{ListFilter{}, record.Scope{Products: []string{""}}, "[3]"},
		{ListFilter{}, record.Scope{Products: []string{"A", "B"}}, "[5 4 2 1]"},
		{ListFilter{}, record.Scope{}, "[]"},
	} {
		list, err := db.List(t.Context(), l.scope, l.f)
		if err != nil {
			t.Fatal(err)
		}
		got := []int64{}
		for _, x := range list {
			got = append(got, x.Number)
		}
		if fmt.Sprint(got) != l.want {
			t.Errorf("%+v: %v, want %s", l.f, got, l.want)
		}
	}
	if _, err := db.Show(t.Context(), 7, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	boom := errors.New("boom")
	if _, err := db.Show(t.Context(), 1, func(record.TxFile) error { return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	gone, err := db.Show(t.Context(), 6, func(record.TxFile) error { return boom })
	if err != nil || gone.Removed != c.t || gone.Files != 2 {
		t.Errorf("Show(6): %+v, error %v; want Removed %v, Files 2", gone, err, c.t)
	}
	s, err := db.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) time.Time { return newClock().t.Add(time.Duration(n) * time.Hour) }
	want := Stats{Transactions: 5, Contents: 7, Bytes: 7021, Objects: 7, Lookups: 7, UnreferencedContents: 1, UnreferencedBytes: 1006,
		Products: []ProductStats{{"", 1, 2, 2005, at(3)}, {"A", 2, 4, 4008, at(4)}, {"B", 2, 4, 4012, at(5)}}}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var refs []blob.Ref
	for k, err := range db.Contents(t.Context()) {
		if err != nil || k.Size < 1000 {
			t.Fatalf("%v: got error %v, want Size at least 1000", k, err)
		}
		refs = append(refs, k.Ref)
	}
	if len(refs) != 7 {
		t.Errorf("%d contents, want 7", len(refs))
	}
}

func TestPages(t *testing.T) { onEngines(t, testPages) }

func testPages(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	db := openTest(t, c.options())
	n := engine.PageRows + 7
	var entries []record.Entry
	for i := range n {
		entries = append(entries, pdbAge(i, fmt.Sprintf("x%d.pdb", i), byte(i), uint32(i)))
		entries[i].Aliases[0].ID = fmt.Sprint(i) // GUIDs of byte 0 would have none
	}
	commitTest(t, db, "", entries...)
	i := 0
	if _, err := db.Show(t.Context(), 1, func(f record.TxFile) error {
		if f.Ref != ref(i) {
			t.Errorf("file %d is out of order, want the order of adding", i)
		}
		i++
		return nil
	}); err != nil || i != n {
		t.Errorf("Show(1): %v, error %v; want %v", i, err, n)
	}
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	list := unreferenced(t, db, c.t)
	if len(list) != n {
		t.Errorf("%d unreferenced, want %v", len(list), n)
	}
	for range db.Contents(t.Context()) {
		break
	}
	gone := 0
	if k, err := db.DropContents(t.Context(), list, c.t, func(blob.Ref) error { gone++; return nil }); k != n || gone != n || err != nil {
		t.Errorf("DropContents: %v, %v, error %v; want %v, %v", k, gone, err, n, n)
	}
	clean(t, db)
}

func TestCommitRefuses(t *testing.T) { onEngines(t, testCommitRefuses) }

func testCommitRefuses(t *testing.T) {
	db := openTest(t, Options{})
	bad := func(change func(*record.Entry)) []record.Entry {
		e := pdb(2)
		change(&e)
		return []record.Entry{pdb(1), e}
	}
	for name, entries := range map[string][]record.Entry{
		"nothing":  nil,
		"no name":  bad(func(e *record.Entry) { e.Object.Name = "" }),
		"no kind":  bad(func(e *record.Entry) { e.Object.Kind = 0 }),
		"no key":   bad(func(e *record.Entry) { e.Aliases = nil }),
		"no id":    bad(func(e *record.Entry) { e.Aliases[0].ID = "" }),
		"no role":  bad(func(e *record.Entry) { e.Aliases[0].Role = 0 }),
		"sizes":    bad(func(e *record.Entry) { e.Ref, e.Object.Name = ref(1), "x" }),
		"negative": bad(func(e *record.Entry) { e.Size = -1 }),
	} {
		if n, err := db.Commit(t.Context(), record.Tx{Entries: entries}, nil); err == nil || n != 0 {
			t.Errorf("%s: committed", name)
		}
	}
	boom := errors.New("boom")
	var asked []blob.Ref
	_, err := db.Commit(t.Context(), record.Tx{Entries: []record.Entry{pdb(1), pdb(2), pdb(1)}}, func(_ context.Context, refs []blob.Ref) error {
		asked = refs
		return boom
	})
	if !errors.Is(err, boom) || !slices.Equal(asked, []blob.Ref{ref(1), ref(2)}) {
		t.Errorf("Commit: error %v, %v; want %v, []blob.Ref{ref(1), ref(2)}", err, asked, boom)
	}
	if lookupEntry(t, db, all, pdb(1)) != nil {
		t.Error("visible after a refused commit")
	}
	if n := commitTest(t, db, "", pdb(1)); n != 1 {
		t.Errorf("number %d: refused commits used numbers up, want 1", n)
	}
	clean(t, db)
}

// TestModel: after random commits, removals and collections, the visible
// objects equal those of a model in memory.
func TestModel(t *testing.T) { onEngines(t, testModel) }

func testModel(t *testing.T) {
	symtest.Sequential(t)
	c := newClock()
	db := openTest(t, c.options())
	rnd := rand.New(rand.NewPCG(1, 2))
	products := []string{"A", "B", ""}
	type txm struct {
		number  int64
		product string
		has     map[int]bool
	}
	var live []txm
	newest := func(n int, p string) (number int64) {
		for _, x := range live {
			if x.has[n] && (p == "*" || x.product == p) {
				number = x.number
			}
		}
		return number
	}
	contents, steps := 12, 150
	if testing.Short() {
		steps = 40
	}
	for step := range steps {
		c.hours(1)
		switch k := rnd.IntN(10); {
		case k < 5:
			x := txm{product: products[rnd.IntN(3)], has: map[int]bool{}}
			var entries []record.Entry
			for range 1 + rnd.IntN(4) {
				n := 1 + rnd.IntN(contents)
				x.has[n] = true
				entries = append(entries, pdb(n))
			}
			x.number = commitTest(t, db, x.product, entries...)
			live = append(live, x)
		case k < 9 && len(live) > 0:
			i := rnd.IntN(len(live))
			if _, err := db.Remove(t.Context(), live[i].number); err != nil {
				t.Fatal(err)
			}
			live = slices.Delete(live, i, i+1)
		default:
			if _, err := db.DropContents(t.Context(), unreferenced(t, db, c.t), c.t, func(r blob.Ref) error {
				for n := range contents {
					if ref(n) == r && newest(n, "*") != 0 {
						t.Errorf("content %d was dropped and is in use, want it kept", n)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; n <= contents; n++ {
			for _, p := range append(products, "*") {
				scope := record.Scope{Products: []string{p}}
				if p == "*" {
					scope = all
				}
				var got int64
				if hits := lookupEntry(t, db, scope, pdb(n)); len(hits) == 1 {
					got = hits[0].Number
				}
				if want := newest(n, p); got != want {
					t.Fatalf("step %d: object %d in %q is seen from %d, want %d", step, n, p, got, want)
				}
			}
		}
		if step%10 == 0 {
			clean(t, db)
		}
	}
	clean(t, db)
}

// breakRows runs statements behind the index's back, foreign keys off.
func breakRows(t *testing.T, db *DB, statements ...string) {
	t.Helper()
	raw := rawFile(t, db)
	defer raw.Close() // Windows removes no file that is open
	for _, s := range statements {
		if _, err := raw.Exec(s); err != nil {
			t.Fatalf("%v: Exec: error %v, want no error", s, err)
		}
	}
}

func TestCheckFindsFaults(t *testing.T) {
	symtest.Sequential(t)
	for statement, want := range map[string]string{
		"DELETE FROM content WHERE id = 1":                                             "has no content",
		"DELETE FROM lookup WHERE object_id = 1":                                       "has no key",
		"DELETE FROM object WHERE id = 1":                                              "belongs to no object",
		"UPDATE tx_file SET object_id = 99":                                            "has no object",
		"DELETE FROM tx WHERE id = 1":                                                  "does not exist or was removed",
		"DELETE FROM tx_file WHERE seq = 2":                                            "differ in number or size",
		"DELETE FROM seen WHERE object_id = 1":                                         "is not visible",
		"UPDATE seen SET tx_id = 7":                                                    "is not visible through the newest",
		"INSERT INTO seen VALUES (1, 2, 1)":                                            "visible without a build",
		"UPDATE content SET unreferenced_since = 5":                                    "but has references",
		"INSERT INTO content (id, sha256, size, added) VALUES (9, zeroblob(32), 1, 1)": "has no references",
		"UPDATE state SET last_tx = 3":                                                 "build numbers",
		"UPDATE state SET lookups = 3":                                                 "counters are wrong",
		"DELETE FROM state":                                                            "rows of counters",
		"INSERT INTO derived (source_id, tool, tool_version, content_id, added) VALUES (77, 'x', 1, NULL, 1)": "refers to a missing row",
		"DELETE FROM product": "refers to a missing row",
		"UPDATE content SET sha256 = zeroblob(32), id = 50 WHERE id=2":                     "has no content",
		"UPDATE content SET sha256 = (SELECT sha256 FROM content WHERE id = 1) WHERE id=2": "content 2 has the hash",
	} {
		db := openTest(t, Options{})
		commitTest(t, db, "", pdb(1), pdb(2))
		clean(t, db)
		breakRows(t, db, statement)
		problems, err := db.Check(t.Context())
		if err != nil {
			t.Fatalf("%v: Check: error %v, want no error", statement, err)
		}
		if !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: %q does not say %q", statement, problems, want)
		}
	}
}

func TestDamagedFile(t *testing.T) {
	symtest.Sequential(t)
	db := openTest(t, Options{})
	for i := range 40 {
		commitTest(t, db, "", pdb(i+1))
	}
	path := filepath.Join(t.TempDir(), "broken.db")
	if _, err := rawFile(t, db).Exec("VACUUM INTO $1", path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 3 * 4096; i < len(b); i++ {
		b[i] ^= 0x5a
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	broken, err := Open(t.Context(), path, Options{})
	if err == nil {
		var problems []string
		problems, err = broken.Check(t.Context())
		if err == nil && len(problems) == 0 {
			t.Error("the damaged index passes Check, want an error or a problem")
		}
		_ = broken.Close()
	}
	if err != nil && (!errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), path)) {
		t.Errorf("the damaged index: error %v, want none, or ErrCorrupt with the path %s", err, path)
	}
}

func TestOpenRefuses(t *testing.T) {
	symtest.Sequential(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "index.db")
	if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Error("read-only without a file:", err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "no", "index.db"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open in a folder that does not exist: error %v, want fs.ErrNotExist", err)
	}
	for name, text := range map[string]string{"short": "SQLi", "text": strings.Repeat("no database ", 1000), "magic only": "SQLite format 3\x00", "zeros": "SQLite format 3\x00" + strings.Repeat("\x00", 5000)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Open: error %v, want ErrCorrupt, one with %q", name, err, path)
		}
		if b, _ := os.ReadFile(path); string(b) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	make1 := func(statements ...string) []byte {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		db, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		breakRows(t, db, statements...)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		statement string
		want      error
		says      string
	}{
		{"PRAGMA user_version = 99; UPDATE state SET format_floor = 98; INSERT INTO migration WITH RECURSIVE k(n) AS (SELECT " + fmt.Sprint(len(migrations)+1) +
			" UNION ALL SELECT n + 1 FROM k WHERE n < 99) SELECT n, 'later', 'x', 1 FROM k", engine.ErrNewer,
			fmt.Sprintf("has format 99, which needs a program that supports format 98, and this program supports formats up to %d", len(migrations))},
		{"PRAGMA user_version = 99", engine.ErrCorrupt, fmt.Sprintf("it has format 99, and %d migrations are recorded", len(migrations))},
		{"PRAGMA application_id = 5", engine.ErrForeign, "the database of a different program (application id 0x5); use a different folder"},
		{"UPDATE migration SET sha256 = 'x'", engine.ErrCorrupt, "differs from that of this program"},
		{"DELETE FROM migration", engine.ErrCorrupt, "migrations are recorded"},
	} {
		before := make1(c.statement)
		_, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Open: error %v, want %v, one with %q, one with %q", c.statement, err, c.want, c.says, path)
		}
		if b, _ := os.ReadFile(path); !bytes.Equal(b, before) {
			t.Errorf("%s: the file was changed", c.statement)
		}
	}
}

func TestMigrations(t *testing.T) {
	for i, m := range migrations {
		if m.Number != i+1 {
			t.Errorf("migration %s has number %d, want %d", m.Name, m.Number, i+1)
		}
	}
	if len(migrations) == 0 || len(postgresMigrations) == 0 {
		t.Error("there are no migrations, want at least one of each engine")
	}
}

func TestReadOnly(t *testing.T) {
	db := openTest(t, Options{})
	commitTest(t, db, "", pdb(1))
	ro, err := Open(t.Context(), nameOf(db), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if n := len(lookupEntry(t, ro, all, pdb(1))); n != 1 {
		t.Errorf("the read-only index finds %d rows of an added PDB, want 1", n)
	}
	if _, err := ro.Commit(t.Context(), record.Tx{Entries: []record.Entry{pdb(2)}}, nil); !errors.Is(err, engine.ErrReadOnly) {
		t.Error(err)
	}
	if _, err := ro.Remove(t.Context(), 1); !errors.Is(err, engine.ErrReadOnly) {
		t.Error(err)
	}
	clean(t, ro)
}

func TestOddPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b#c%20d&e=é")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), filepath.Join(dir, "index.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	commitTest(t, db, "", pdb(1))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "index.db" {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestNoSpace(t *testing.T) {
	db := openTest(t, Options{})
	commitTest(t, db, "", pdb(1))
	var pages int
	// The limit is one of the writing connection.
	onWriter := func(pragma string, dest any) {
		t.Helper()
		if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error { return w.Row(pragma, nil, dest) }); err != nil {
			t.Fatal(err)
		}
	}
	onWriter("PRAGMA page_count", &pages)
	limit := func(n int) {
		var most int
		onWriter(fmt.Sprintf("PRAGMA max_page_count = %d", n), &most)
	}
	limit(pages + 4)
	var entries []record.Entry
	for i := range 500 {
		entries = append(entries, pdbAge(i+10, "x.pdb", 9, uint32(i)))
	}
	_, err := db.Commit(t.Context(), record.Tx{Entries: entries}, nil)
	if !errors.Is(err, engine.ErrNoSpace) || !strings.Contains(err.Error(), nameOf(db)) {
		t.Fatal(err)
	}
	clean(t, db)
	if s, _ := db.Stats(t.Context()); s.Transactions != 1 || s.Contents != 1 {
		t.Errorf("Stats: %+v, want Builds 1, Contents 1", s)
	}
	limit(1 << 30)
	if n := commitTest(t, db, "", entries...); n != 2 {
		t.Errorf(`commitTest(""): %v, want 2`, n)
	}
	clean(t, db)
}

func TestWriteLock(t *testing.T) {
	db := openTest(t, Options{})
	impatient, err := Open(t.Context(), nameOf(db), Options{BusyWait: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	patient, err := Open(t.Context(), nameOf(db), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	waited := make(chan error, 1)
	_, err = db.Commit(t.Context(), record.Tx{Entries: []record.Entry{pdb(1)}}, func(ctx context.Context, _ []blob.Ref) error {
		// Others cannot write while the check runs, and can read.
		if _, err := impatient.Commit(ctx, record.Tx{Entries: []record.Entry{pdb(2)}}, nil); !errors.Is(err, engine.ErrBusy) {
			t.Errorf("a second writer: %v, want ErrBusy", err)
		}
		if hits := lookupEntry(t, impatient, all, pdb(1)); hits != nil {
			t.Error("seen before the commit")
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := patient.Commit(gone, record.Tx{Entries: []record.Entry{pdb(2)}}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait: %v, want %v", err, context.Canceled)
		}
		go func() {
			_, err := patient.Commit(context.Background(), record.Tx{Entries: []record.Entry{pdb(3)}}, nil)
			waited <- err
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the patient writer: %v", err)
	}
	clean(t, db)
	// A context that ends in the middle undoes everything.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := db.Commit(ctx, record.Tx{Entries: []record.Entry{pdb(4)}}, func(context.Context, []blob.Ref) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := db.Lookup(ctx, all, symfile.Lookup{ID: "x", Role: 1}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := commitTest(t, db, "", pdb(5)); n != 3 {
		t.Errorf(`commitTest(""): %v, want 3`, n)
	}
	known := false
	if err := db.Locked(t.Context(), func(k func(blob.Ref) (bool, error)) (err error) { known, err = k(ref(5)); return err }); err != nil || !known {
		t.Errorf("Locked: %v, error %v; want true", known, err)
	}
}

// TestQueryPlans makes sure that no lookup ever walks through a table.
func TestQueryPlans(t *testing.T) {
	db := openTest(t, Options{})
	raw, two := rawFile(t, db), record.Scope{Products: []string{"A", "B"}}
	name := "n"
	for cond, q := range map[string]keyQuery{
		"a name and an id": {from: "a", name: &name, role: 1, limit: record.MaxRows},
		"an id":            {from: "a", role: 1, limit: record.MaxRows},
		"an age":           {from: "a", to: "b", name: &name, kinds: []symfile.Kind{1, 2}, limit: record.MaxRows},
		"any age":          {from: "a", to: "b", kinds: []symfile.Kind{1, 2}, limit: record.MaxRows},
	} {
		for _, scope := range []record.Scope{all, two} {
			query, args := q.rows(scope, true)
			rows, err := raw.Query("EXPLAIN QUERY PLAN "+query, args...)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var plan []string
			for rows.Next() {
				var a, b, c sql.NullInt64
				var detail string
				if err := rows.Scan(&a, &b, &c, &detail); err != nil {
					t.Fatal(err)
				}
				plan = append(plan, detail)
				if strings.HasPrefix(detail, "SCAN") && detail != "SCAN r" && detail != "SCAN b" || strings.Contains(detail, "TEMP B-TREE") {
					t.Errorf(`%s: got %s, want not strings.HasPrefix(detail, "SCAN"), one without "TEMP B-TREE"`, cond, detail)
				}
			}
			first := slices.IndexFunc(plan, func(step string) bool { return strings.HasPrefix(step, "SEARCH") })
			if first < 0 || !strings.HasPrefix(plan[first], "SEARCH l USING PRIMARY KEY") ||
				!slices.ContainsFunc(plan, func(step string) bool { return strings.HasPrefix(step, "SEARCH old_key USING ") }) ||
				!slices.Contains(plan, "SEARCH f USING PRIMARY KEY (object_id=? AND tx_id=?)") {
				t.Errorf(`%s: got %s, want a first search that begins with "SEARCH l USING PRIMARY KEY", one of old_key, one with "SEARCH f USING PRIMARY KEY (object_id=? AND tx_id=?)"`, cond, plan)
			}
		}
	}
}

// FuzzNames commits an object with any name, id and path, and finds it again.
func FuzzNames(f *testing.F) {
	db := openTest(f, Options{})
	n := 0
	f.Add("foo.pdb", "ABC1", "/x/foo.pdb", "A")
	f.Add("İ\x00'\"%_*", "\xff", "\x00", "")
	f.Fuzz(func(t *testing.T, name, id, path, product string) {
		if name == "" || id == "" {
			return
		}
		n++
		e := record.Entry{Object: symfile.Object{Kind: symfile.SHA1, Role: symfile.Other, Name: name}, Ref: ref(n), Size: 1,
			Aliases: []symfile.Alias{{Name: symfile.Fold(name), ID: symfile.Fold(id), Role: symfile.Other}}, Path: path}
		number := commitTest(t, db, product, e)
		hits, err := db.Lookup(t.Context(), record.Scope{Products: []string{engine.Text(product)}}, symfile.Lookup{Name: symfile.Fold(symfile.Fold(name)), ID: symfile.Fold(symfile.Fold(id)), Role: symfile.AnyRole})
		if err != nil || len(hits) == 0 || hits[0].Ref != e.Ref || hits[0].Object.Name != name {
			t.Fatalf("Lookup: %q, %q, %v, error %v; want length not 0, hits[0].Ref %v, hits[0].Object.Name %v", name, id, hits, err, e.Ref, name)
		}
		if _, err := db.Find(t.Context(), all, record.Query{Name: symfile.Fold(name), IDs: []string{id}, Prefix: id}, 5); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Remove(t.Context(), number); err != nil {
			t.Fatal(err)
		}
	})
}
