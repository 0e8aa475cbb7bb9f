package nodes

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// What a server tells has a limit.
func TestFactsLimit(t *testing.T) {
	var f facts
	for i := range 5000 {
		f.Workers = append(f.Workers, jobs.Worker{Name: fmt.Sprint("worker", i), Abilities: []jobs.Ability{{Kind: "symcache", Variant: 3}}})
	}
	var back facts
	if err := json.Unmarshal([]byte(f.text()), &back); err != nil || len(f.text()) > mostFacts || len(back.Workers) < 100 {
		t.Errorf("%d bytes with %d workers, %v; want some hundreds in %d bytes", len(f.text()), len(back.Workers), err, mostFacts)
	}
}
