package lifecycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// CollectionPlan says what a garbage collection would free. It can be applied as it
// was printed.
type CollectionPlan struct {
	Collected
	Number string    // 8 hex digits; empty: the plan could not be stored, see Unstored
	Ends   time.Time // it cannot be applied later
	// Unstored is why the plan cannot be applied, such as a full disk.
	Unstored error
}

// planCollection is the kind of a collectTicket.
const planCollection = "gc"

// collectTicket is what the depot stores of a CollectionPlan.
type collectTicket struct {
	Kind       string        `json:"kind"` // planCollection
	Digest     string        `json:"digest"`
	Now        time.Time     `json:"now"`
	Grace      time.Duration `json:"grace"`
	EmptyTrash bool          `json:"empty_trash"`
}

func (t collectTicket) options() CollectOptions {
	return CollectOptions{Grace: t.Grace, EmptyTrash: t.EmptyTrash, DryRun: true}
}

// planError is the error for a number that is no plan of the wanted kind.
type planError string

func (e planError) Error() string { return string(e) }
func (e planError) Unwrap() error { return ErrNoPlan }

// PlanKind is the kind of a plan.
type PlanKind uint8

// Kinds of plans.
const (
	PlanOfPolicy PlanKind = iota
	PlanOfCollection
)

// KindOfPlan returns the kind of a stored plan. The error is ErrNoPlan if there is
// none.
func (r *Retention) KindOfPlan(ctx context.Context, number string) (PlanKind, error) {
	row, err := r.db.Retention.Plan(ctx, number)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("plan %s: %w", number, ErrNoPlan)
	}
	return kindOf(row), err
}

func kindOf(row removals.PlanRow) PlanKind {
	var t collectTicket
	if json.Unmarshal([]byte(row.Ticket), &t) == nil && t.Kind == planCollection {
		return PlanOfCollection
	}
	return PlanOfPolicy
}

// digest is the hash of all that a collection frees at a time.
func (g *garbage) digest(t collectTicket) string {
	h := sha256.New()
	line := func(parts ...any) { _, _ = fmt.Fprintln(h, parts...) } // a hash returns no errors
	line("symdepot gc plan 1", t.Now.UnixMilli(), int64(t.Grace), t.EmptyTrash)
	refs := g.refs()
	sorting.By(refs, func(a, b blob.Ref) int { return bytes.Compare(a[:], b[:]) })
	for i := range refs {
		line("content", refs[i])
	}
	strays := slices.Clone(g.strays)
	sorting.By(strays, func(a, b blob.Info) int { return bytes.Compare(a.Ref[:], b.Ref[:]) })
	for i := range strays {
		line("blob", strays[i].Ref)
	}
	line("trash", g.trash)
	line("frees", g.Bytes, g.Frees)
	return hex.EncodeToString(h.Sum(nil))
}

// PlanCollection computes what a garbage collection would free now, and stores the
// plan so that ApplyCollection can apply it. It frees nothing.
func (r *Retention) PlanCollection(ctx context.Context, opt CollectOptions, who string) (CollectionPlan, error) {
	now := r.now().UTC().Truncate(time.Millisecond)
	t := collectTicket{Kind: planCollection, Now: now, Grace: opt.Grace, EmptyTrash: opt.EmptyTrash}
	g, err := r.survey(ctx, t.options(), now)
	if err != nil {
		return CollectionPlan{}, err
	}
	t.Digest = g.digest(t)
	ticket, err := json.Marshal(t)
	if err != nil {
		return CollectionPlan{}, err
	}
	p := CollectionPlan{Collected: g.Collected, Number: t.Digest[:8], Ends: now.Add(planLife)}
	row := removals.PlanRow{Number: p.Number, Ticket: string(ticket), Who: who, Made: now, Ends: p.Ends}
	if err := r.db.Retention.PutPlan(ctx, row); err != nil {
		if ctx.Err() != nil {
			return p, err
		}
		p.Number, p.Ends, p.Unstored = "", time.Time{}, err
	}
	return p, nil
}

// PlannedCollection computes the plan of an earlier PlanCollection again, for the
// same moment. The error is ErrNoPlan if there is none of this number, or it has
// ended, and retention.ErrStale if it is no longer what was printed.
func (r *Retention) PlannedCollection(ctx context.Context, number string) (CollectionPlan, error) {
	_, _, p, err := r.confirmCollection(ctx, number)
	return p, err
}

func (r *Retention) confirmCollection(ctx context.Context, number string) (g garbage, t collectTicket, p CollectionPlan, err error) {
	row, err := r.db.Retention.Plan(ctx, number)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g, t, p, planError("plan " + number + ": there is no such plan; run symdepot gc --dry-run again")
	case err != nil:
		return g, t, p, err
	case kindOf(row) != PlanOfCollection:
		return g, t, p, planError("plan " + number + " is one of the retention policy; apply it with symdepot policy apply " + number)
	}
	if err := json.Unmarshal([]byte(row.Ticket), &t); err != nil {
		return g, t, p, fmt.Errorf("plan %s: %w", number, err)
	}
	if g, err = r.survey(ctx, t.options(), t.Now); err != nil {
		return g, t, p, err
	}
	if g.digest(t) != t.Digest {
		return g, t, p, fmt.Errorf("plan %s: %w: the depot was changed after the dry run, and other bytes would be freed; "+
			"run symdepot gc --dry-run again", number, retention.ErrStale)
	}
	return g, t, CollectionPlan{Collected: g.Collected, Number: number, Ends: row.Ends}, nil
}

// ApplyCollection frees what PlanCollection has printed, and nothing else. Errors are
// those of PlannedCollection. What something refers to since then stays.
func (r *Retention) ApplyCollection(ctx context.Context, number string) (Collected, error) {
	g, t, _, err := r.confirmCollection(ctx, number)
	if err != nil {
		return Collected{}, err
	}
	end := t.options().trashEnd(t.Now)
	if err := r.db.Trash.GiveUp(ctx, g.trash, end); err != nil {
		return Collected{}, err
	}
	if _, err := r.db.Trash.Empty(ctx, t.Now); err != nil {
		return Collected{}, err
	}
	c, err := r.free(ctx, g, t.Grace, t.Now)
	if err == nil {
		r.recordAfter(ctx, "garbage collection")
	}
	return c, err
}
