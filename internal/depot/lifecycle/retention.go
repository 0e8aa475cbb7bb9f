// Package lifecycle is the lifecycle of transactions and contents: the retention policy with
// its plans, holds and promotions; the trash; garbage collection; what takes the space.
package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Retention is the part of a depot that decides which transactions are kept: the
// policy, its plans and their application, holds, promotions and the trash.
type Retention struct {
	db     *index.DB
	blobs  blob.Backend
	placed bool // the contents are in a bucket
	// Block is the unit in bytes in which the store allocates space; in a bucket 1.
	Block int64
	cold  *coldstore.Cold
	audit func(context.Context) error
	// EnterPublic has the public forms of a build's files made, in a write; nil: nobody
	// makes any.
	EnterPublic func(w *engine.Write, number int64) error
	log         *slog.Logger
	now         func() time.Time
}

// Home is what the contents of a depot are kept in.
type Home struct {
	DB    *index.DB
	Blobs blob.Backend
	// Placed is set if the contents are in a bucket. Block is the unit in bytes in which
	// the store allocates space; in a bucket 1.
	Placed bool
	Block  int64
	Cold   *coldstore.Cold
	// Audit compares a bucket with the index if that is due.
	Audit func(context.Context) error
}

// NewRetention returns what decides which transactions of a depot are kept.
func NewRetention(h Home, log *slog.Logger, now func() time.Time) *Retention {
	return &Retention{db: h.DB, blobs: h.Blobs, placed: h.Placed, Block: h.Block, cold: h.Cold, audit: h.Audit, log: log, now: now}
}

// Records of the index for retention.
type (
	// Hold protects a transaction from removal.
	Hold = removals.Hold
	// Promotion is a change of a transaction's class.
	Promotion = removals.Promotion
	// RetentionRun is an application of a plan.
	RetentionRun = removals.Run
	// Removal says who removed a transaction, and why.
	Removal = removals.Removal
	// RemovedFile is a file that a removal hid.
	RemovedFile = removals.RemovedFile
	// Trashed is a transaction in the trash.
	Trashed = removals.Trashed
)

// ErrPolicyChanged means that the policy was changed meanwhile.
var ErrPolicyChanged = removals.ErrChanged

// ErrNoPolicy means that no retention policy was set: everything is kept.
var ErrNoPolicy = errors.New("no retention policy is set; everything is kept. Set one with symdepot policy set FILE")

// ErrNoPlan means that there is no plan of a number, or that it has ended.
var ErrNoPlan = errors.New("there is no such plan; run symdepot policy preview again")

// planLife is how long a previewed plan can be applied.
const planLife = 7 * 24 * time.Hour

// PolicyInForce is the retention policy of a depot.
type PolicyInForce struct {
	// Policy is never nil; it is retention.None if none was set.
	Policy *retention.Policy
	// Number rises with every change; 0: none was set.
	Number int64
	Text   string // as it was set
	Set    time.Time
	By     string
}

// Policy returns the policy in force.
func (r *Retention) Policy(ctx context.Context) (PolicyInForce, error) {
	row, err := r.db.Retention.Policy(ctx)
	if err != nil {
		return PolicyInForce{}, err
	}
	return inForce(row)
}

func inForce(row removals.PolicyRow) (PolicyInForce, error) {
	p := PolicyInForce{Policy: retention.None(), Number: row.No, Text: row.Text, Set: row.At, By: row.Who}
	if row.No == 0 {
		return p, nil
	}
	var err error
	if p.Policy, err = retention.Parse("policy", []byte(row.Text)); err != nil {
		return PolicyInForce{}, fmt.Errorf("policy %d of the depot: %w; set it again", row.No, err)
	}
	return p, nil
}

// SetPolicy checks a policy and puts it into force. file names it in error messages.
// If before is not negative and the policy in force has another number, the error is
// ErrPolicyChanged. Nothing is removed.
func (r *Retention) SetPolicy(ctx context.Context, file string, text []byte, who string, before int64) (PolicyInForce, error) {
	p, err := retention.Parse(file, text)
	if err != nil {
		return PolicyInForce{}, err
	}
	row, err := r.db.Retention.SetPolicy(ctx, removals.PolicyRow{Text: string(text), Hash: p.Hash(), Who: who}, before)
	if err != nil {
		return PolicyInForce{}, err
	}
	return PolicyInForce{Policy: p, Number: row.No, Text: row.Text, Set: row.At, By: row.Who}, nil
}

// Snapshot returns what a plan is computed from, and the generation of the index.
func (r *Retention) Snapshot(ctx context.Context) (*retention.State, int64, error) {
	s, err := r.db.Retention.State(ctx, r.now())
	if err != nil {
		return nil, 0, err
	}
	return r.stateOf(s), s.Generation, nil
}

// secondsPerDay converts the days of reads.
const secondsPerDay = 24 * 60 * 60

// stateOf converts a state of the index. The space of a content is that of whole
// blocks of the file system; in a bucket it is the length.
func (r *Retention) stateOf(s *removals.RetainedState) *retention.State {
	block := r.Block
	out := &retention.State{
		Transactions: make([]retention.Transaction, len(s.Transactions)), Contents: make([]retention.Content, len(s.Contents)),
	}
	for i := range s.Transactions {
		t := &s.Transactions[i]
		x := AsRetained(&t.Transaction)
		x.Needs, x.Contents = t.Needs, t.Contents
		for _, h := range t.Holds {
			x.Holds = append(x.Holds, retention.Hold{Name: h.Name, By: h.Who, Reason: h.Reason, Until: h.Until})
		}
		out.Transactions[i] = x
	}
	for i, c := range s.Contents {
		out.Contents[i] = retention.Content{
			Size: c.Size, Stored: (c.Size + block - 1) / block * block,
			LastRead: c.ReadDay * secondsPerDay, Pinned: c.Pinned, Pushed: c.Pushed,
		}
		if c.Cold {
			out.Contents[i].Stored = 0 // what its cold file takes is counted with that
		}
	}
	out.Derived = make([]retention.Derivation, len(s.Derived))
	for i, d := range s.Derived {
		out.Derived[i] = retention.Derivation{Source: d[0], Result: d[1]}
	}
	return out
}

// AsRetained is a transaction as policies see it, without its holds, needs and
// contents.
func AsRetained(t *record.Transaction) retention.Transaction {
	x := retention.Transaction{
		Number: t.Number, Product: t.Product, Version: t.Version, Branch: t.Branch, Class: t.Class,
		Time: t.Time, Arrived: t.Arrived, Open: t.Collecting, Removed: t.Removed, TrashUntil: t.TrashUntil,
	}
	if o := t.Origin; o != nil && !o.Time.IsZero() {
		x.Time = o.Time
		if x.Arrived.IsZero() {
			x.Arrived = t.Time
		}
	}
	return x
}

// Preview is a plan that can be applied as it was printed.
type Preview struct {
	*retention.Plan
	Ticket retention.Ticket
	Policy PolicyInForce
	Ends   time.Time // it cannot be applied later
	// Unfinished are applications of earlier plans that were interrupted.
	Unfinished []RetentionRun

	generation int64
}

// plan computes the plan of the policy in force for now.
func (r *Retention) plan(ctx context.Context) (*Preview, error) {
	p, err := r.Policy(ctx)
	if err != nil {
		return nil, err
	}
	if p.Number == 0 {
		return nil, ErrNoPolicy
	}
	return r.planOf(ctx, p)
}

// Try checks the text of a policy and computes what the policy would remove now if it were
// in force. Try stores neither the policy nor the plan. file names the text in error
// messages; a text that is not valid is a *retention.Fault, or several that are joined.
func (r *Retention) Try(ctx context.Context, file string, text []byte) (*Preview, error) {
	p, err := retention.Parse(file, text)
	if err != nil {
		return nil, err
	}
	return r.planOf(ctx, PolicyInForce{Policy: p, Text: string(text)})
}

// planOf computes the plan of a policy for now.
func (r *Retention) planOf(ctx context.Context, p PolicyInForce) (*Preview, error) {
	s, generation, err := r.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := p.Policy.Plan(s, r.now())
	if err != nil {
		return nil, err
	}
	return &Preview{Plan: plan, Ticket: plan.Ticket(), Policy: p, Ends: plan.Now.Add(planLife), generation: generation}, nil
}

// Preview computes what the policy in force would remove now, and stores the plan so
// that Apply can apply it. It removes nothing. Without a policy the error is
// ErrNoPolicy.
func (r *Retention) Preview(ctx context.Context, who string) (*Preview, error) {
	p, err := r.plan(ctx)
	if err != nil {
		return nil, err
	}
	if p.Unfinished, err = r.db.Retention.Unfinished(ctx, ""); err != nil {
		return nil, err
	}
	ticket, err := json.Marshal(p.Ticket)
	if err != nil {
		return nil, err
	}
	row := removals.PlanRow{Number: p.Ticket.Number, Ticket: string(ticket), Who: who, Made: p.Now, Ends: p.Ends}
	return p, r.db.Retention.PutPlan(ctx, row)
}

// Applied is the result of an application of a plan.
type Applied struct {
	Run RetentionRun
	// Preview is the plan; nil if an interrupted run went on.
	Preview *Preview
	// Skipped are the transactions that were held or removed meanwhile, while a large
	// plan was applied in parts.
	Skipped int64
}

// UnfinishedError is the error for an application of a plan that was interrupted
// after it had removed some of the transactions, each with all its files.
type UnfinishedError struct {
	Plan    string
	Removed int64 // transactions that were removed
	Of      int64 // transactions that the plan removes
	Cause   error
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("plan %s was applied in part: %d of %d builds were removed; symdepot policy apply %s removes the others: %v",
		e.Plan, e.Removed, e.Of, e.Plan, e.Cause)
}

// Unwrap returns the cause.
func (e *UnfinishedError) Unwrap() error { return e.Cause }

// Apply applies the plan of a preview, as it was printed or not at all. yesRemove is
// the number of transactions that the user agreed to remove, 0 if none was given. An
// interrupted application goes on. The errors are ErrNoPlan, retention.ErrStale and
// retention.ErrBrake.
func (r *Retention) Apply(ctx context.Context, number string, yesRemove int, who string) (Applied, error) {
	unfinished, err := r.db.Retention.Unfinished(ctx, number)
	if err != nil {
		return Applied{}, err
	}
	if len(unfinished) > 0 {
		return r.Finish(ctx, Applied{Run: unfinished[0]})
	}
	row, err := r.db.Retention.Plan(ctx, number)
	if errors.Is(err, fs.ErrNotExist) {
		return Applied{}, fmt.Errorf("plan %s: %w", number, ErrNoPlan)
	}
	if err != nil {
		return Applied{}, err
	}
	t, err := ticketOf(row)
	if err != nil {
		return Applied{}, err
	}
	p, err := r.Policy(ctx)
	if err != nil {
		return Applied{}, err
	}
	return r.apply(ctx, p, "apply", who, func(s *retention.State) (*retention.Plan, error) { return p.Policy.Confirm(s, t, yesRemove) })
}

// attempts is how often a plan is computed without the lock for writers. While it is
// computed with it, pushes wait.
const attempts = 3

// apply applies the plan that decide returns. It is computed again if the depot has
// changed meanwhile.
func (r *Retention) apply(
	ctx context.Context, p PolicyInForce, kind, who string, decide func(*retention.State) (*retention.Plan, error),
) (Applied, error) {
	var a Applied
	for i := range attempts {
		s, generation, err := r.Snapshot(ctx)
		if err != nil {
			return a, err
		}
		plan, err := decide(s)
		if err != nil {
			return a, err
		}
		decision := func(changed *removals.RetainedState) (removals.Decision, error) {
			if changed != nil {
				if plan, err = decide(r.stateOf(changed)); err != nil {
					return removals.Decision{}, err
				}
			}
			return r.Decision(plan, p, kind, who)
		}
		a.Run, err = r.db.Retention.Begin(ctx, generation, i < attempts-1, r.now(), decision)
		if errors.Is(err, removals.ErrChanged) {
			continue
		}
		if err != nil {
			return a, err
		}
		a.Preview = &Preview{Plan: plan, Ticket: plan.Ticket(), Policy: p}
		break
	}
	return r.Finish(ctx, a)
}

// runFacts are the sums of a run.
type runFacts struct {
	Plan   int             `json:"plan,omitempty"` // transactions to remove
	Listed int64           `json:"listed"`
	Frees  retention.Bytes `json:"frees"`
	Error  string          `json:"error,omitempty"`
}

// Decision returns what the index records of a plan that is applied.
func (r *Retention) Decision(plan *retention.Plan, p PolicyInForce, kind, who string) (removals.Decision, error) {
	facts, err := json.Marshal(runFacts{Plan: plan.Builds(), Listed: plan.Listed, Frees: plan.Frees})
	if err != nil {
		return removals.Decision{}, err
	}
	d := removals.Decision{Run: removals.Run{
		Plan: plan.Ticket().Number, Kind: kind, Who: who, Begun: r.now().UTC().Truncate(time.Millisecond),
		Policy: p.Text, Hash: plan.PolicyHash, Facts: string(facts),
	}}
	for _, t := range plan.Tombstones(who, d.Run.Begun) {
		d.Run.Until = t.Until
		d.Removals = append(d.Removals, removals.Removal{Number: t.Number, Class: t.Class, Reason: t.Reason, Detail: t.Detail})
	}
	return d, nil
}

// Finish removes what a run has not removed yet.
func (r *Retention) Finish(ctx context.Context, a Applied) (Applied, error) {
	var facts runFacts
	known := json.Unmarshal([]byte(a.Run.Facts), &facts) == nil
	for a.Run.Outcome == removals.RunUnfinished {
		err := ctx.Err()
		if err == nil {
			var run RetentionRun
			if run, err = r.db.Retention.Continue(ctx, a.Run.No); err == nil {
				a.Run = run
			}
		}
		if err != nil {
			return a, &UnfinishedError{Plan: a.Run.Plan, Removed: a.Run.Removed, Of: int64(facts.Plan), Cause: err}
		}
	}
	if known {
		a.Skipped = max(0, int64(facts.Plan)-a.Run.Removed)
	}
	if a.Run.Removed > 0 {
		r.recordAfter(ctx, "application of a plan")
	}
	return a, nil
}

// Runs returns the runs of the policy with numbers below before, newest first, at most
// limit. A before of 0 is any number.
func (r *Retention) Runs(ctx context.Context, before int64, limit int) ([]RetentionRun, error) {
	return r.db.Retention.Runs(ctx, before, limit)
}

// Hold protects a transaction from removal. A hold of the same name on it is
// replaced. A transaction that does not exist or was removed is fs.ErrNotExist.
func (r *Retention) Hold(ctx context.Context, h Hold) error { return r.db.Retention.Hold(ctx, h) }

// Unhold releases the hold of a name on a transaction, or all of them if name is
// empty, and returns these.
func (r *Retention) Unhold(ctx context.Context, number int64, name string) ([]Hold, error) {
	return r.db.Retention.Unhold(ctx, number, name)
}

// Holds returns the holds on a transaction, ended ones included; 0: on all.
func (r *Retention) Holds(ctx context.Context, number int64) ([]Hold, error) {
	return r.db.Retention.Holds(ctx, number)
}

// Promote moves a transaction to another class. If a policy was set, it must have
// the class, and the transaction the coverage that the class demands: else the error is a
// *BelowBarError. With force the coverage does not matter.
func (r *Retention) Promote(ctx context.Context, number int64, class, who string, force bool) (Promotion, error) {
	if err := r.CheckClass(ctx, class); err != nil {
		return Promotion{}, err
	}
	if !force {
		if err := r.CheckBar(ctx, number, class); err != nil {
			return Promotion{}, err
		}
	}
	also, err := r.Entering(ctx, &retention.Transaction{Class: class})
	if err != nil {
		return Promotion{}, err
	}
	return r.db.Retention.Promote(ctx, number, class, who, also)
}

// Entering returns what else is to be written when a transaction gets its files or its class;
// nil: nothing.
func (r *Retention) Entering(ctx context.Context, t *retention.Transaction) (also func(w *engine.Write, number int64) error, err error) {
	p, err := r.Policy(ctx)
	if _, invalid := errors.AsType[*retention.Fault](err); invalid {
		r.log.Warn("no public forms are made for a push, because the retention policy is not valid", "error", err)
		return nil, nil
	}
	if err != nil || !p.Policy.Publishes(t) {
		return nil, err
	}
	return r.EnterPublic, nil
}

// CheckClass returns an error if a policy was set that does not have the class. Without
// a policy every class is permitted.
func (r *Retention) CheckClass(ctx context.Context, class string) error {
	p, err := r.Policy(ctx)
	if err != nil || p.Number == 0 {
		return err
	}
	return p.Policy.CheckClass(class)
}

// Promotions returns the changes of a transaction's class, oldest first.
func (r *Retention) Promotions(ctx context.Context, number int64) ([]Promotion, error) {
	return r.db.Retention.Promotions(ctx, number)
}

// PushKey returns the key of the push that made a transaction; empty if it had none,
// or if the depot does not remember the push any more.
func (r *Retention) PushKey(ctx context.Context, number int64) (string, error) {
	return r.db.Stages.KeyOf(ctx, number)
}

// SetComment replaces the comment of a transaction and returns it. A transaction that
// does not exist or was removed is fs.ErrNotExist.
func (r *Retention) SetComment(ctx context.Context, number int64, comment string) (record.Transaction, error) {
	return r.db.Retention.SetComment(ctx, number, comment)
}

// SetNeeds records that a transaction needs others, which are kept as long as it is.
func (r *Retention) SetNeeds(ctx context.Context, number int64, needs []int64) error {
	return r.db.Retention.SetNeeds(ctx, number, needs)
}

// Needs returns the numbers of the transactions that a transaction needs.
func (r *Retention) Needs(ctx context.Context, number int64) ([]int64, error) {
	return r.db.Retention.Needs(ctx, number)
}

// Scheduled applies the policy if it has a schedule and its time has come since the
// last run. It is called by servers again and again; one of them does it. A plan
// above the brake, and a clock that has jumped, are recorded and reported once a
// day. It finishes interrupted runs first.
func (r *Retention) Scheduled(ctx context.Context) error {
	unfinished, err := r.db.Retention.Unfinished(ctx, "")
	if err != nil {
		return err
	}
	for _, run := range unfinished {
		if r.now().Sub(run.Begun) < runLife {
			continue // a command may be at it
		}
		if _, err := r.Finish(ctx, Applied{Run: run}); err != nil {
			return err
		}
	}
	p, err := r.Policy(ctx)
	if err != nil || p.Number == 0 {
		return err
	}
	last, proven, err := r.lastRuns(ctx)
	if err != nil {
		return err
	}
	after := p.Set
	if last.After(after) {
		after = last
	}
	now := r.now()
	if next, ok := p.Policy.Next(after); !ok || next.After(now) {
		return nil
	}
	if err := retention.CheckClock(proven, now); err != nil {
		return r.refused(ctx, p, removals.RunClock, err)
	}
	a, err := r.apply(ctx, p, "schedule", "schedule", func(s *retention.State) (*retention.Plan, error) {
		plan, err := p.Policy.Plan(s, now)
		if err != nil {
			return nil, err
		}
		return plan, plan.Allowed(p.Policy, 0)
	})
	switch {
	case errors.Is(err, retention.ErrBrake):
		return r.refused(ctx, p, removals.RunBraked, err)
	case err != nil:
		return err
	}
	r.log.Info("the retention policy was applied", "plan", a.Run.Plan, "removed", a.Run.Removed,
		"frees", a.Preview.Frees.Stored, "restorable_until", a.Run.Until)
	return nil
}

// runLife is how long an interrupted run is left to the command that began it.
const runLife = 10 * time.Minute

// refused records a scheduled run that has removed nothing.
func (r *Retention) refused(ctx context.Context, p PolicyInForce, outcome string, cause error) error {
	facts, err := json.Marshal(runFacts{Error: cause.Error()})
	if err != nil {
		return err
	}
	now := r.now()
	r.log.Warn("the retention policy was not applied", "error", cause)
	_, err = r.db.Retention.RecordRun(ctx, removals.Run{
		Kind: "schedule", Outcome: outcome, Who: "schedule", Begun: now, Ended: now,
		Policy: p.Text, Hash: p.Policy.Hash(), Facts: string(facts),
	})
	return err
}

// lastRuns returns the times of the last scheduled run, and of the last run whose
// clock was not in doubt.
func (r *Retention) lastRuns(ctx context.Context) (scheduled, proven time.Time, err error) {
	runs, err := r.db.Retention.Runs(ctx, 0, 100)
	for _, run := range runs {
		if run.Kind == "schedule" && scheduled.IsZero() {
			scheduled = run.Begun
		}
		if run.Outcome != removals.RunClock && proven.IsZero() {
			proven = run.Begun
		}
	}
	return scheduled, proven, err
}
