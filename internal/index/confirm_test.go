package index

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// TestUnfound: what a transaction is said to have is looked up by each of its keys, in
// the product and the transaction, with its content.
func TestUnfound(t *testing.T) { onEngines(t, testUnfound) }

func testUnfound(t *testing.T) {
	db := openTest(t, Options{})
	first := commitTest(t, db, "P", pdb(1), pdb(2), pdb(3))
	second := commitTest(t, db, "P", pdb(2), pdb(4))
	commitTest(t, db, "Q", pdb(5))
	otherBytes := pdb(1)
	otherBytes.Ref = ref(77)
	moreKeys := pdb(2)
	moreKeys.Aliases = append(slices.Clone(moreKeys.Aliases), symfile.Alias{ID: "0123", Name: "other.pdb", Role: symfile.Debug})
	noKeys := pdb(3)
	noKeys.Aliases = nil
	otherRole := pdb(3)
	otherRole.Aliases = slices.Clone(otherRole.Aliases)
	otherRole.Aliases[0].Role |= symfile.Executable
	for _, c := range []struct {
		name    string
		number  int64
		entries []record.Entry
		want    []int
	}{
		{"all", first, []record.Entry{pdb(1), pdb(2), pdb(3)}, nil},
		{"none", first, nil, nil},
		{"held by an earlier build too", second, []record.Entry{pdb(2), pdb(4)}, nil},
		{"held by an earlier build only", second, []record.Entry{pdb(2), pdb(1), pdb(4)}, []int{1}},
		{"held by another product only", second, []record.Entry{pdb(5)}, []int{0}},
		{"unknown", first, []record.Entry{pdb(9), pdb(1), pdb(8)}, []int{0, 2}},
		{"other bytes with the id", first, []record.Entry{otherBytes, pdb(2)}, []int{0}},
		{"a key that is not there", first, []record.Entry{pdb(1), moreKeys}, []int{1}},
		{"a role that is not there", first, []record.Entry{otherRole}, []int{0}},
		{"without a key", first, []record.Entry{noKeys}, []int{0}},
		{"an unknown build", 99, []record.Entry{pdb(1)}, []int{0}},
	} {
		got, err := db.Unfound(t.Context(), c.number, c.entries)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: entries %v are not found, %v; want %v", c.name, got, err, c.want)
		}
	}
	if _, err := db.Remove(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Unfound(t.Context(), second, []record.Entry{pdb(4)}); err != nil || len(got) > 0 {
		t.Errorf("a removed build: entries %v are not found, %v; want that it is no fault", got, err)
	}
}

// explainUnfound asks for the plan of the lookup of unconfirmed entries.
var explainUnfound = engine.Dialects("EXPLAIN QUERY PLAN "+unfound(keysSQLite), "EXPLAIN "+unfound(keysPostgres))

// TestUnfoundPlan: the accepted files of a commit are looked up one by one, each without a
// walk through the files of its transaction.
func TestUnfoundPlan(t *testing.T) { onEngines(t, testUnfoundPlan) }

func testUnfoundPlan(t *testing.T) {
	db := openTest(t, Options{})
	var steps []string
	err := db.base.Points.Each(t.Context(), false, explainUnfound, []any{"[]", int64(1)}, func(scan engine.Scan) (bool, error) {
		var id, parent, unused int
		var step string
		err := scan(&step) // PostgreSQL
		if err != nil {
			err = scan(&id, &parent, &unused, &step)
		}
		steps = append(steps, step)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(steps, "\n")
	for _, want := range []string{
		`SEARCH l USING PRIMARY KEY \(id=\? AND name=\?|Index Scan using lookup_pkey on lookup l`,
		`SEARCH f USING PRIMARY KEY \(object_id=\?\)|Index (Only )?Scan (using|on) tx_file_pkey`,
	} {
		if !regexp.MustCompile(want).MatchString(plan) {
			t.Errorf("plan:\n%s\nwant a step %s", plan, want)
		}
	}
}
