package shipment

import (
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/sbom"
)

// Bill returns a bill of materials with the result of each file that it names, as JSON.
func (r *Report) Bill(bill *sbom.Bill, now time.Time) ([]byte, error) {
	for i := range r.Results {
		x := &r.Results[i]
		facts := []sbom.Fact{{Name: "symdepot:covered", Value: strconv.FormatBool(x.Covered)}}
		if x.Allowed != "" {
			facts = append(facts, sbom.Fact{Name: "symdepot:allowed", Value: x.Allowed})
		}
		if x.ID != "" {
			facts = append(facts, sbom.Fact{Name: "symdepot:id", Value: x.ID})
		}
		for _, what := range wire.Requirements {
			facts = append(facts, sbom.Fact{Name: "symdepot:" + what, Value: string(x.States[what])})
		}
		if h := x.Coverage.Symbols; h.SHA256 != "" {
			facts = append(facts, sbom.Fact{Name: "symdepot:symbols-sha256", Value: h.SHA256})
		}
		for _, e := range bill.Find(x.Path, x.file.Sums) {
			e.Set(facts, "symdepot-"+r.Tool, now)
		}
	}
	return bill.JSON()
}
