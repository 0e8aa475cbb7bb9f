package index

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// sourceEntry returns the entry of a source file.
func sourceEntry(path, text string) record.Entry {
	sum := sha1.Sum([]byte(text))
	o := symfile.Object{Kind: symfile.SHA1, Role: symfile.Other, Name: symfile.BaseName(path), Hash: hex.EncodeToString(sum[:])}
	return record.Entry{Object: o, Ref: blob.Sum([]byte(text)), Size: int64(len(text)), Aliases: o.Aliases(), Path: path}
}

// TestSources: source files are found by transaction and path or name, and only in
// transactions that hold them now and are in the scope.
func TestSources(t *testing.T) { onEngines(t, testSources) }

func testSources(t *testing.T) {
	db := openTest(t, newClock().options())
	first := commitTest(t, db, "A", pdb(1), sourceEntry("/src/main.c", "one"), sourceEntry("/src/sub/main.c", "two"))
	second := commitTest(t, db, "B", pdb(1), sourceEntry("/src/main.c", "three"))
	ctx := t.Context()

	holding := func(scope record.Scope) (numbers []int64) {
		list, err := db.Sources.Holding(ctx, scope, pdb(1).Ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			numbers = append(numbers, f.Number)
		}
		return numbers
	}
	if got, want := holding(all), []int64{second, first}; !slices.Equal(got, want) {
		t.Errorf("held by %v, want %v", got, want)
	}
	if got, want := holding(record.Scope{Products: []string{"A"}}), []int64{first}; !slices.Equal(got, want) {
		t.Errorf("held by %v in the scope, want %v", got, want)
	}
	filed, err := db.Sources.FiledAs(ctx, all, "A", "")
	if err != nil || len(filed) != 1 || filed[0] != (Filed{Number: first, Product: "A"}) {
		t.Errorf("filed %v, %v; want build %d of A", filed, err, first)
	}
	if filed, err := db.Sources.FiledAs(ctx, record.Scope{Products: []string{"B"}}, "A", ""); err != nil || len(filed) != 0 {
		t.Errorf("filed %v, %v outside of the scope; want none", filed, err)
	}

	paths := func(list []SourceFile, err error) (out []string) {
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			out = append(out, f.Path+" "+f.Ref.String()[:4])
		}
		return out
	}
	one, two, three := blob.Sum([]byte("one")).String()[:4], blob.Sum([]byte("two")).String()[:4], blob.Sum([]byte("three")).String()[:4]
	for _, tt := range []struct {
		what string
		got  []string
		want []string
	}{
		{"at a path", paths(db.Sources.At(ctx, first, "/src/main.c", "src/main.c")), []string{"/src/main.c " + one}},
		{"at a path of another build", paths(db.Sources.At(ctx, second, "/src/main.c")), []string{"/src/main.c " + three}},
		{"at no path", paths(db.Sources.At(ctx, first, "/main.c")), nil},
		{"by name", paths(db.Sources.Named(ctx, first, "main.c")), []string{"/src/main.c " + one, "/src/sub/main.c " + two}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.what, tt.got, tt.want)
		}
	}
	if _, err := db.Remove(ctx, first); err != nil {
		t.Fatal(err)
	}
	if got := paths(db.Sources.At(ctx, first, "/src/main.c")); len(got) != 0 {
		t.Errorf("a removed build has %q, want nothing", got)
	}
	if got, want := holding(all), []int64{second}; !slices.Equal(got, want) {
		t.Errorf("held by %v after the removal, want %v", got, want)
	}
}
