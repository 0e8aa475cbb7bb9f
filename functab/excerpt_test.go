package functab

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestExcerpt: an Excerpt answers as the Table of the same functions, also while more are
// added, and when functions overlap.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	shout := func(raw string) string {
		if strings.HasPrefix(raw, "_Z") {
			return strings.ToUpper(raw)
		}
		return ""
	}
	for round := range 200 {
		m := Module{OS: "Linux", Name: "x"}
		part, whole := NewBuilder(m, Limits{}), NewBuilder(m, Limits{})
		x := NewExcerpt(part, shout)
		for step := range 4 {
			base := uint64(0x1000 * (4 - step)) // later functions come before
			for i := range rng.IntN(30) {
				f := Function{Start: base + uint64(rng.IntN(200)), Size: 1 + uint32(rng.IntN(40)), Unit: uint32(rng.IntN(3))}
				raw := fmt.Sprintf("_Zn%d.cold", rng.IntN(50))
				rows := rng.IntN(3)
				for _, b := range []*Builder{part, whole} {
					g := f
					if b == whole {
						g.Name = b.Name(shout(raw), raw)
					} else {
						g.Name = b.Name(raw, raw)
					}
					for k := range rows {
						g.Rows = append(g.Rows, Row{Start: g.Start + uint64(k), File: b.File("/a.c"), Line: uint32(10*i + k + 1)})
					}
					if err := b.Add(g); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, _, err := x.Lookup(base); err != nil { // sorts what there is
				t.Fatal(err)
			}
		}
		table, err := whole.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for rva := uint64(0xff0); rva < 0x4120; rva++ {
			got, ok, err := x.Lookup(rva)
			want, found := table.Lookup(rva)
			if err != nil || ok != found || ok && !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d, %#x: %+v, %v, %v; want %+v, %v", round, rva, got, ok, err, want, found)
			}
		}
	}
}
