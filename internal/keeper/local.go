package keeper

import (
	"context"
	"fmt"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/retention"
)

// Local returns the retention of a depot. who is recorded with changes. quotas
// returns those of products, in bytes.
func Local(d *depot.Depot, who string, quotas func() map[string]int64) Keeper {
	return &local{d, d.Retention, who, quotas}
}

type local struct {
	d      *depot.Depot
	r      *depot.Retention
	who    string
	quotas func() map[string]int64
}

func (k *local) Policy(ctx context.Context) (report.Policy, error) {
	p, err := k.r.Policy(ctx)
	if err != nil {
		return report.Policy{}, err
	}
	return report.NewPolicy(p), nil
}

func (k *local) SetPolicy(ctx context.Context, file string, text []byte, before int64) (report.Policy, error) {
	p, err := k.r.SetPolicy(ctx, file, text, k.who, before)
	if err != nil {
		return report.Policy{}, err
	}
	return report.NewPolicy(p), nil
}

func (k *local) Preview(ctx context.Context) (report.Plan, error) {
	p, err := k.r.Preview(ctx, k.who)
	if err != nil {
		return report.Plan{}, err
	}
	return report.NewPlan(p), nil
}

func (k *local) Apply(ctx context.Context, plan string, yesRemove int) (report.Run, error) {
	a, err := k.r.Apply(ctx, plan, yesRemove, k.who)
	if err != nil {
		return report.Run{}, err
	}
	return report.NewRun(a), nil
}

func (k *local) PlanCollection(ctx context.Context, opt depot.CollectOptions) (report.Collected, error) {
	p, err := k.r.PlanCollection(ctx, opt, k.who)
	return report.NewCollectionPlan(p), err
}

func (k *local) ApplyCollection(ctx context.Context, plan string) (report.Collected, error) {
	c, err := k.r.ApplyCollection(ctx, plan)
	return report.NewCollected(c, false), err
}

func (k *local) Collect(ctx context.Context, opt depot.CollectOptions) (report.Collected, error) {
	c, err := k.r.Collect(ctx, opt)
	return report.NewCollected(c, opt.DryRun), err
}

func (k *local) Comment(ctx context.Context, number int64, comment string) (report.Transaction, error) {
	t, err := k.r.SetComment(ctx, number, comment)
	return report.NewTransaction(t), err
}

func (k *local) Transaction(ctx context.Context, number int64) (report.Transaction, error) {
	t, err := k.d.Transaction(ctx, number)
	return report.NewTransaction(t), err
}

func (k *local) Hold(ctx context.Context, h depot.Hold) (report.Held, error) {
	h.Who = k.who
	return report.NewHeld(h), k.r.Hold(ctx, h)
}

func (k *local) Unhold(ctx context.Context, number int64, name string) ([]report.Held, error) {
	list, err := k.r.Unhold(ctx, number, name)
	return report.NewHolds(list), err
}

func (k *local) Promote(ctx context.Context, number int64, class, hold string) (report.Promoted, error) {
	p, err := k.r.Promote(ctx, number, class, k.who)
	if err == nil && hold != "" {
		_, err = k.Hold(ctx, depot.Hold{Number: number, Name: hold, Reason: hold})
	}
	return report.NewPromoted(p), err
}

func (k *local) PlanRemoval(ctx context.Context, number int64) (report.RemovePlan, error) {
	if _, err := k.d.Transaction(ctx, number); err != nil {
		return report.RemovePlan{}, err
	}
	s, _, err := k.r.Snapshot(ctx)
	if err != nil {
		return report.RemovePlan{}, err
	}
	removal, err := s.Removal(number)
	if err != nil {
		return report.RemovePlan{}, err
	}
	return report.NewRemovePlan(number, removal)
}

func (k *local) Remove(ctx context.Context, number int64, plan string) (report.Transaction, error) {
	if plan != "" {
		now, err := k.PlanRemoval(ctx, number)
		if err != nil {
			return report.Transaction{}, err
		}
		if now.Plan != plan {
			return report.Transaction{}, fmt.Errorf("%w: the removal of transaction %d is plan %s now", retention.ErrStale, number, now.Plan)
		}
	}
	t, err := k.r.Remove(ctx, number, k.who)
	return report.NewTransaction(t), err
}

func (k *local) Purge(ctx context.Context, number int64, reason string) (report.Purged, error) {
	p, err := k.r.Purge(ctx, number, k.who, reason)
	return report.NewPurged(p), err
}

func (k *local) Undo(ctx context.Context, number int64) (report.Transaction, error) {
	t, err := k.r.Undo(ctx, number, k.who)
	return report.NewTransaction(t), err
}

func (k *local) Usage(ctx context.Context) (report.Usage, error) {
	u, err := k.r.Usage(ctx)
	if err != nil {
		return report.Usage{}, err
	}
	return report.NewUsage(u, k.quotas(), k.d.Watched.Statuses(ctx)), nil
}

func (k *local) UsageDays(ctx context.Context, f depot.UsageFilter) ([]report.UsageDay, error) {
	list, err := k.r.UsageOverTime(ctx, f)
	return report.NewUsageDays(list), err
}
