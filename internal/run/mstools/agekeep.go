package mstools

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/symstore"
)

// keepRules are the rules and holds that spare transactions. They mean the same as in
// a retention policy; a group is a product, because a store knows neither branches
// nor classes.
type keepRules struct {
	retention.Rules
	holds []symstore.ID
}

// choose reports whether there are rules: what they do not keep is selected.
func (k keepRules) choose() bool { return k.Rules != retention.Rules{} }

// keepRules reads the options.
func (r *symstoreRun) keepRules() (k keepRules, err error) {
	if r.args.has("-keep-last") {
		n, err := strconv.ParseUint(r.args.get("-keep-last"), 10, 31)
		if err != nil || n == 0 {
			return k, term.UsageError("--keep-last wants a number of transactions above 0")
		}
		k.KeepLast = int(n)
	}
	if r.args.has("-keep-within") {
		if err := k.KeepWithin.UnmarshalText([]byte(r.args.get("-keep-within"))); err != nil {
			return k, term.UsageError("--keep-within: " + err.Error())
		}
		if k.KeepWithin == 0 {
			return k, term.UsageError("--keep-within wants a time above 0, such as 14d")
		}
	}
	for _, v := range r.args.values["-hold"] {
		id, err := symstore.ParseID(v)
		if err != nil {
			return k, term.UsageError("--hold: " + err.Error())
		}
		k.holds = append(k.holds, id)
	}
	return k, nil
}

// keeps returns the transactions of a store that a rule or a hold spares.
func (k keepRules) keeps(s *symstore.Store, now time.Time) ([]retention.Verdict, error) {
	if len(k.holds) == 0 && !k.choose() {
		return nil, nil
	}
	const class = "store"
	state, at := &retention.State{}, map[symstore.ID]int{}
	for t, err := range s.Transactions(false) {
		if _, twice := at[t.ID]; err != nil || t.Deletes != 0 || twice || int64(t.ID) <= 0 {
			continue // Age reports unreadable records
		}
		at[t.ID] = len(state.Transactions)
		state.Transactions = append(state.Transactions,
			retention.Transaction{Number: int64(t.ID), Product: t.Product, Version: t.Version, Class: class, Time: t.Time})
	}
	for _, id := range k.holds {
		i, ok := at[id]
		if !ok {
			return nil, fmt.Errorf("--hold: %w: %s", symstore.ErrNoTransaction, id)
		}
		state.Transactions[i].Holds = []retention.Hold{{Name: "--hold"}}
	}
	policy := &retention.Policy{Classes: []retention.Class{{Name: class, Rules: k.Rules}}, Brake: retention.AllShare}
	plan, err := policy.Plan(state, now)
	if err != nil {
		return nil, err
	}
	var kept []retention.Verdict
	for _, v := range plan.Verdicts {
		if v.Reason == retention.Held || v.Reason.Keeps() && k.choose() {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

// printKept lists what is kept, with the reasons.
func (r *symstoreRun) printKept(kept []retention.Verdict) {
	count := map[retention.Reason]int{}
	for _, v := range kept {
		count[v.Reason]++
		r.line(ageLine{
			Event: "kept", ID: symstore.ID(v.Number).String(), What: strings.TrimSpace(v.Product + " " + v.Version),
			Reason: v.Reason.String(),
		})
	}
	if len(kept) == 0 {
		return
	}
	var parts []string
	for _, reason := range []retention.Reason{retention.Held, retention.Young, retention.Last, retention.Within} {
		if n := count[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	r.print("kept: %s\n", strings.Join(parts, ", "))
}
