package index

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

func TestNamesakes(t *testing.T) { onEngines(t, testNamesakes) }

// testNamesakes: objects of one name, those first that became known last, in a scope.
func testNamesakes(t *testing.T) {
	db := openTest(t, Options{})
	one, two, three := pdb(1), pdb(2), pdb(3)
	two.Object.Name, three.Object.Name = one.Object.Name, strings.ToUpper(one.Object.Name)
	commitTest(t, db, "A", one, pdb(12))
	commitTest(t, db, "B", two)
	commitTest(t, db, "A", three)
	for _, c := range []struct {
		what  string
		scope record.Scope
		limit int
		want  string
	}{
		{"all", all, 10, "3 2 1"}, {"limit", all, 2, "3 2"}, {"one product", record.Scope{Products: []string{"A"}}, 10, "3 1"}, {"another", record.Scope{Products: []string{"B"}}, 10, "2"}, {"none", record.Scope{}, 10, ""},
	} {
		hits, err := Namesakes(t.Context(), db, c.scope, "foo1.pdb", c.limit)
		var got []string
		for _, h := range hits {
			for i, e := range []record.Entry{one, two, three} {
				if h.Ref == e.Ref {
					got = append(got, string(rune('1'+i)))
				}
			}
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v, want %s", c.what, got, err, c.want)
		}
	}
}

func TestNamedNear(t *testing.T) { onEngines(t, testNamedNear) }

// testNamedNear: objects of one name and kind, those of close transactions first, in a
// scope.
func testNamedNear(t *testing.T) {
	db := openTest(t, Options{})
	list := make([]record.Entry, 4)
	for i, product := range []string{"A", "B", "A", "A"} {
		list[i] = pdb(1 + i)
		list[i].Object.Name = "Foo.pdb"
		commitTest(t, db, product, list[i])
	}
	for _, c := range []struct {
		what   string
		scope  record.Scope
		kind   symfile.Kind
		number int64
		limit  int
		want   string
	}{
		{"first", all, symfile.PDB, 1, 10, "1 2 3 4"}, {"third", all, symfile.PDB, 3, 10, "3 4 2 1"}, {"limit", all, symfile.PDB, 4, 2, "4 3"},
		{"one product", record.Scope{Products: []string{"A"}}, symfile.PDB, 2, 10, "3 1 4"}, {"none", record.Scope{}, symfile.PDB, 1, 10, ""}, {"another kind", all, symfile.PE, 1, 10, ""},
	} {
		hits, err := NamedNear(t.Context(), db, c.scope, "foo.pdb", c.kind, c.number, c.limit)
		var got []string
		for _, h := range hits {
			for i, e := range list {
				if h.Ref == e.Ref {
					got = append(got, string(rune('1'+i)))
				}
			}
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v, want %s", c.what, got, err, c.want)
		}
	}
}
