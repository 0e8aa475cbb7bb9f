package keeper

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/retention"
	"github.com/symdepot/symdepot/internal/wire"
)

// OfServer returns the retention of the depot of a server.
func OfServer(c *client.Retention) Keeper { return server{c} }

type server struct{ c *client.Retention }

// serverError is an error of a server that has a meaning on this machine, too.
type serverError struct {
	text    string
	meaning error
	cause   error
}

func (e *serverError) Error() string   { return e.text }
func (e *serverError) Unwrap() []error { return []error{e.meaning, e.cause} }

// meant gives the errors of a server the meaning that those of a local depot have.
// missing is the meaning of a 404.
func meant(err, missing error) error {
	if err == nil {
		return nil
	}
	meaning := map[string]error{
		wire.ProblemNotFound: missing, wire.ProblemNoPolicy: depot.ErrNoPolicy, wire.ProblemBrake: retention.ErrBrake, wire.ProblemPlanChanged: retention.ErrStale,
		wire.ProblemChanged: depot.ErrPolicyChanged, wire.ProblemNotInTrash: errNotInTrash,
	}[client.ProblemWord(err)]
	if meaning == nil {
		return err
	}
	return &serverError{client.ProblemText(err), meaning, err}
}

// ask sends a request and returns the answer.
func ask[T any](missing error, do func(into any) error) (T, error) {
	var answer T
	err := meant(do(&answer), missing)
	return answer, err
}

func (k server) Policy(ctx context.Context) (report.Policy, error) {
	return ask[report.Policy](nil, func(into any) error { return k.c.Rules(ctx, into) })
}

func (k server) SetPolicy(ctx context.Context, file string, text []byte, before int64) (report.Policy, error) {
	if _, err := retention.Parse(file, text); err != nil {
		return report.Policy{}, err // with the name of the file
	}
	return ask[report.Policy](nil, func(into any) error { return k.c.SetRules(ctx, text, before, into) })
}

func (k server) Preview(ctx context.Context) (report.Plan, error) {
	return ask[report.Plan](nil, func(into any) error { return k.c.Preview(ctx, into) })
}

func (k server) Apply(ctx context.Context, plan string, yesRemove int) (report.Run, error) {
	return ask[report.Run](depot.ErrNoPlan, func(into any) error { return k.c.Apply(ctx, plan, wire.PlanApply{YesRemove: yesRemove}, into) })
}

func (k server) PlanCollection(ctx context.Context, opt depot.CollectOptions) (report.Collected, error) {
	return ask[report.Collected](nil, func(into any) error { return k.c.PlanCollection(ctx, opt.Grace, opt.EmptyTrash, into) })
}

func (k server) ApplyCollection(ctx context.Context, plan string) (report.Collected, error) {
	return ask[report.Collected](depot.ErrNoPlan, func(into any) error { return k.c.Apply(ctx, plan, wire.PlanApply{}, into) })
}

// collectTries is how often a collection is planned again because the depot has
// changed before it was applied.
const collectTries = 5

func (k server) Collect(ctx context.Context, opt depot.CollectOptions) (c report.Collected, err error) {
	for range collectTries {
		if c, err = k.PlanCollection(ctx, opt); err != nil {
			return c, err
		}
		if c, err = k.ApplyCollection(ctx, c.Plan); !errors.Is(err, retention.ErrStale) {
			break
		}
	}
	return c, err
}

func (k server) Comment(ctx context.Context, number int64, comment string) (report.Transaction, error) {
	done, err := k.change(ctx, number, wire.TransactionChange{Comment: &comment})
	if done.Transaction == nil {
		return report.Transaction{}, err
	}
	return *done.Transaction, err
}

func (k server) Transaction(ctx context.Context, number int64) (report.Transaction, error) {
	s, err := ask[report.State](fs.ErrNotExist, func(into any) error { return k.c.Transaction(ctx, number, into) })
	return s.Transaction, err
}

func (k server) change(ctx context.Context, number int64, q wire.TransactionChange) (report.Changed, error) {
	return ask[report.Changed](fs.ErrNotExist, func(into any) error { return k.c.Change(ctx, number, q, into) })
}

func (k server) Hold(ctx context.Context, h depot.Hold) (report.Held, error) {
	spec := &wire.HoldSpec{Reason: h.Reason}
	if !h.Until.IsZero() {
		spec.Until = h.Until.UTC().Format(time.DateOnly)
	}
	done, err := k.change(ctx, h.Number, wire.TransactionChange{Hold: spec})
	if done.Held == nil {
		return report.Held{}, err
	}
	return *done.Held, err
}

func (k server) Unhold(ctx context.Context, number int64, name string) ([]report.Held, error) {
	done, err := k.change(ctx, number, wire.TransactionChange{Unhold: &name})
	return done.Released, err
}

func (k server) Promote(ctx context.Context, number int64, class, hold string) (report.Promoted, error) {
	q := wire.TransactionChange{Class: class}
	if hold != "" {
		q.Hold = &wire.HoldSpec{Reason: hold}
	}
	done, err := k.change(ctx, number, q)
	if done.Promoted == nil {
		return report.Promoted{}, err
	}
	return *done.Promoted, err
}

func (k server) PlanRemoval(ctx context.Context, number int64) (report.RemovePlan, error) {
	return ask[report.RemovePlan](fs.ErrNotExist, func(into any) error { return k.c.PlanRemoval(ctx, number, into) })
}

func (k server) Remove(ctx context.Context, number int64, plan string) (report.Transaction, error) {
	return ask[report.Transaction](fs.ErrNotExist, func(into any) error { return k.c.Remove(ctx, number, plan, into) })
}

func (k server) Purge(ctx context.Context, number int64, reason string) (report.Purged, error) {
	return ask[report.Purged](fs.ErrNotExist, func(into any) error { return k.c.Purge(ctx, number, reason, into) })
}

func (k server) Undo(ctx context.Context, number int64) (report.Transaction, error) {
	return ask[report.Transaction](fs.ErrNotExist, func(into any) error { return k.c.Undo(ctx, number, into) })
}

func (k server) Usage(ctx context.Context) (report.Usage, error) {
	return ask[report.Usage](nil, func(into any) error { return k.c.Usage(ctx, into) })
}

func (k server) UsageDays(ctx context.Context, f depot.UsageFilter) ([]report.UsageDay, error) {
	type items struct {
		Items []report.UsageDay `json:"items"`
	}
	by := wire.UsageByTotal
	if !f.All {
		by = wire.UsageByProduct
	}
	l, err := ask[items](nil, func(into any) error { return k.c.UsageDays(ctx, f.From, f.To, by, f.Product, into) })
	return l.Items, err
}
