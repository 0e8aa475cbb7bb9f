package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/index/removals"
)

// Planned computes the plan of an earlier preview again, for the same moment. The
// error is ErrNoPlan if there is none of this number, or it has ended, and
// retention.ErrStale if it is no longer what the preview printed.
func (r *Retention) Planned(ctx context.Context, number string) (*Preview, error) {
	row, err := r.db.Retention.Plan(ctx, number)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("plan %s: %w", number, ErrNoPlan)
	}
	if err != nil {
		return nil, err
	}
	t, err := ticketOf(row)
	if err != nil {
		return nil, err
	}
	p, err := r.Policy(ctx)
	if err != nil {
		return nil, err
	}
	s, generation, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := p.Policy.Confirm(s, t, t.Builds) // the brake is tried when it is applied
	if err != nil {
		return nil, err
	}
	return &Preview{Plan: plan, Ticket: t, Policy: p, Ends: row.Ends, generation: generation}, nil
}

// ticketOf returns the ticket of a plan of the policy.
func ticketOf(row removals.PlanRow) (t retention.Ticket, err error) {
	if kindOf(row) != PlanOfPolicy {
		return t, planError("plan " + row.Number + " is one of garbage collection; apply it with symdepot gc --plan " + row.Number)
	}
	if err := json.Unmarshal([]byte(row.Ticket), &t); err != nil {
		return t, fmt.Errorf("plan %s: %w", row.Number, err)
	}
	return t, nil
}
