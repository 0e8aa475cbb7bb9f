// Package keeper is the retention of a depot and the lists of what it holds, as commands
// use them: of a depot on this machine, or of a server. Both answer with the same reports
// and the same errors.
package keeper

import (
	"context"
	"errors"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/retention"
)

// Keeper is the retention of a depot. Errors are those of depot.Retention: an unknown
// transaction is fs.ErrNotExist; see also IsNo.
type Keeper interface {
	Policy(ctx context.Context) (report.Policy, error)
	// SetPolicy sets a policy. file names it in errors, which are a *retention.Fault if
	// the text is wrong. before is the number of the policy that must be in force;
	// negative: any.
	SetPolicy(ctx context.Context, file string, text []byte, before int64) (report.Policy, error)
	Preview(ctx context.Context) (report.Plan, error)
	Apply(ctx context.Context, plan string, yesRemove int) (report.Run, error)

	// PlanCollection computes the garbage that a collection would free, as a plan.
	PlanCollection(ctx context.Context, opt depot.CollectOptions) (report.Collected, error)
	ApplyCollection(ctx context.Context, plan string) (report.Collected, error)
	// Collect collects garbage without a plan that was shown.
	Collect(ctx context.Context, opt depot.CollectOptions) (report.Collected, error)

	Transaction(ctx context.Context, number int64) (report.Transaction, error)
	Comment(ctx context.Context, number int64, comment string) (report.Transaction, error)
	Hold(ctx context.Context, h depot.Hold) (report.Held, error)
	// Unhold releases the hold of a name, or all if it is empty.
	Unhold(ctx context.Context, number int64, name string) ([]report.Held, error)
	// Promote changes the class of a transaction. If hold is not empty, it also places
	// a hold for this reason.
	Promote(ctx context.Context, number int64, class, hold string) (report.Promoted, error)
	// PlanRemoval computes what the removal of a transaction would free, as a plan.
	PlanRemoval(ctx context.Context, number int64) (report.RemovePlan, error)
	// Remove removes a transaction. If plan is not empty and would be another one now,
	// nothing is removed, and the error is retention.ErrStale.
	Remove(ctx context.Context, number int64, plan string) (report.Transaction, error)
	Purge(ctx context.Context, number int64, reason string) (report.Purged, error)
	Undo(ctx context.Context, number int64) (report.Transaction, error)

	Usage(ctx context.Context) (report.Usage, error)
	UsageDays(ctx context.Context, f depot.UsageFilter) ([]report.UsageDay, error)
}

// errNotInTrash means that a server cannot restore a transaction.
var errNotInTrash = errors.New("the transaction is not in the trash")

// IsNo reports whether an error is an answer, and no failure: there is no policy or no
// such plan, the brake holds the plan, or a transaction is not in the trash.
func IsNo(err error) bool {
	_, outside := errors.AsType[*depot.NotInTrashError](err)
	return outside || errors.Is(err, errNotInTrash) || errors.Is(err, depot.ErrNoPolicy) || errors.Is(err, depot.ErrNoPlan) || errors.Is(err, retention.ErrBrake)
}
