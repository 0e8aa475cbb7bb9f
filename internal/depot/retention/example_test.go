package retention_test

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot/retention"
)

// A preview: which transactions would be removed, why, and how many bytes that frees. Content s belongs to
// all three builds, so it stays.
func ExamplePolicy_Plan() {
	policy, err := retention.Parse("policy.yml", []byte(`
retention:
  classes:
    - {name: release, match: {branch: "release/*"}}
    - {name: nightly, match: {branch: main}, keep_last: 1, keep_within: 14d}
  brake: 50%
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	const a, b, s = 0, 1, 2
	state := &retention.State{
		Contents: []retention.Content{a: {Size: 10, Stored: 10}, b: {Size: 20, Stored: 20}, s: {Size: 100, Stored: 100}},
		Transactions: []retention.Transaction{
			{Number: 17, Product: "Game", Version: "4631", Branch: "main", Time: day(1), Contents: []uint32{a, s}},
			{Number: 18, Product: "Game", Version: "4632", Branch: "main", Time: day(30), Contents: []uint32{b, s}},
			{Number: 19, Product: "Game", Version: "1.2", Branch: "release/1.2", Time: day(2), Contents: []uint32{s}},
		},
	}
	plan, err := policy.Plan(state, day(31))
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range plan.Verdicts {
		v := &plan.Verdicts[i]
		fmt.Printf("%d %s %s: %s: %s\n", v.Number, v.Class, v.Version, v.Reason, plan.Detail(v))
	}
	fmt.Printf("listed %d, frees %d bytes, shared %d\n", plan.Listed, plan.Frees.Stored, plan.Shared())

	// The builds go only if the plan is still what the preview printed.
	state.Transactions[0].Holds = []retention.Hold{{By: "anna", Reason: "crash 811"}}
	_, err = policy.Confirm(state, plan.Ticket(), 0)
	fmt.Println(err != nil)
	// Output:
	// 17 nightly 4631: expired: 30 days old (limit 14 days), not among the last 1
	// 18 nightly 4632: last: number 1 of the last 1
	// 19 release 1.2: no rule: class release has no keep rules: kept forever
	// listed 110, frees 10 bytes, shared 100
	// true
}

// A misspelled key is an error with its line and the key that was probably meant.
func ExampleParse() {
	_, err := retention.Parse("policy.yml", []byte("retention:\n  classes:\n    - name: nightly\n      keep_las: 20\n"))
	fmt.Println(err)
	// Output:
	// policy.yml:4: retention.classes[0].keep_las: no such key; the nearest is keep_last
}
