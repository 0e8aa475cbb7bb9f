package web

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Transactions finds and changes transactions, as far as the sender of a request may.
type Transactions struct {
	depot     Depot
	policies  Policies
	changes   Changes
	computing *Gate
	recorded  func(auth.Event) error
	now       func() time.Time
	log       *slog.Logger
}

// Undo restores a removed transaction that the client may change.
func (a *Transactions) Undo(r *Request, t depot.Transaction) (depot.Transaction, error) {
	return a.changes.Undo(r.Context(), t.Number, r.Name)
}

// Find returns the transaction that an address names, if the client may see
// it.
func (a *Transactions) Find(r *Request, number string) (t depot.Transaction, err error) {
	missing := &Problem{Word: "not-found", Detail: "there is no build " + Clip(number)}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != number {
		return t, missing
	}
	t, err = a.depot.Transaction(r.Context(), n)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Rights.MayRead(t.Product) {
		return t, missing
	}
	return t, err
}

// Writable is transaction for a client that changes it.
func (a *Transactions) Writable(r *Request, number string) (t depot.Transaction, err error) {
	if err := r.May(ChangeAny); err != nil {
		return t, err
	}
	if t, err = a.Find(r, number); err != nil {
		return t, err
	}
	if !r.Rights.MayWrite(t.Product) {
		return t, noRightTo("change", t.Product, r.Rights.WriteProducts)
	}
	if c := r.Identity.Uploads.Class; c != "" && c != t.Class {
		return t, &Problem{Word: "forbidden", Detail: "the token is for the class " + strconv.Quote(c) + " only"}
	}
	return t, nil
}

// Limits of texts, in bytes.
const (
	MaxReason  = 1000
	maxClass   = 200
	maxComment = 4096
)

// isControl reports whether a comment must not contain a character; a push permits
// the same ones.
func isControl(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }

// checkChange returns a problem if a change is not valid, and otherwise the end of
// its hold.
func (a *Transactions) checkChange(r *Request, q *wire.TransactionChange) (until time.Time, err error) {
	wrong := func(field, why string) error {
		return BadMember("the change is not valid", field, why)
	}
	if q.Class == "" && q.Force {
		return until, wrong("force", "belongs to a class")
	}
	if q.Class == "" && q.Hold == nil && q.Unhold == nil && q.Comment == nil {
		return until, &Problem{Word: "query", Detail: "the body changes nothing; expected are class, hold, unhold or comment"}
	}
	if c := q.Comment; c != nil && (len(*c) > maxComment || strings.ContainsFunc(*c, isControl)) {
		return until, wrong("comment", fmt.Sprintf("has a control character, or is longer than %d bytes", maxComment))
	}
	if len(q.Class) > maxClass || !utf8.ValidString(q.Class) {
		return until, wrong("class", fmt.Sprintf("is longer than %d bytes", maxClass))
	}
	if h := q.Hold; h != nil {
		if h.Reason == "" || len(h.Reason) > MaxReason {
			return until, wrong("hold.reason", fmt.Sprintf("is empty or longer than %d bytes", MaxReason))
		}
		if h.Until != "" {
			if until, err = time.Parse(time.DateOnly, h.Until); err != nil {
				return until, wrong("hold.until", "a day is expected, such as 2026-12-31")
			}
		}
	}
	if q.Class != "" {
		p, err := a.policies.Policy(r.Context())
		if err != nil {
			return until, err
		}
		if p.Number > 0 {
			if err := p.Policy.CheckClass(q.Class); err != nil {
				return until, wrong("class", err.Error())
			}
		}
	}
	return until, nil
}

// Change changes a transaction that the client may change.
func (a *Transactions) Change(r *Request, t depot.Transaction, q *wire.TransactionChange) (out display.Changed, err error) {
	until, err := a.checkChange(r, q)
	if err != nil {
		return out, err
	}
	if q.Unhold != nil && !r.Rights.Admin {
		return out, &Problem{Word: "forbidden", Detail: "only a token with the scope admin removes holds"}
	}
	if c := r.Identity.Uploads.Class; q.Class != "" && c != "" && q.Class != c {
		return out, &Problem{
			Word: "forbidden", Detail: "the token is for the class " + strconv.Quote(c) + " only",
			Fields: map[string]string{"class": "must be " + strconv.Quote(c)},
		}
	}
	ctx, k := r.Context(), a.changes
	var below error // the coverage is less than the class demands
	if q.Class != "" {
		if below = k.CheckBar(ctx, t.Number, q.Class); below != nil && (!q.Force || !isBelowBar(below)) {
			return out, RetentionProblem(below)
		}
	}
	// The hold comes first: if the rest fails, the transaction is kept.
	if q.Hold != nil {
		h := lifecycle.Hold{
			Number: t.Number, Name: q.Hold.Reason, Who: r.Name, Reason: q.Hold.Reason, Until: until,
			Placed: a.now().UTC().Truncate(time.Millisecond),
		}
		if err := k.Hold(ctx, h); err != nil {
			return out, RetentionProblem(err)
		}
		l := display.NewHeld(h)
		out.Held = &l
		a.log.Info("a hold was placed", "request", r.ID, "by", r.Name, "build", t.Number, "reason", h.Reason)
	}
	if q.Class != "" {
		p, err := k.Promote(ctx, t.Number, q.Class, r.Name, q.Force)
		if err != nil {
			return out, RetentionProblem(err)
		}
		if below != nil {
			e := auth.ForceEvent(t.Number, t.Product, below.Error())
			e.By(&r.Identity)
			e.Remote, e.Agent = r.RemoteAddr, r.UserAgent()
			if err := a.recorded(e); err != nil {
				return out, err
			}
		}
		l := display.NewPromoted(p)
		out.Promoted = &l
		a.log.Info("a build was promoted", "request", r.ID, "by", r.Name, "build", t.Number, "from", p.From, "to", p.To)
	}
	if q.Comment != nil {
		changed, err := k.SetComment(ctx, t.Number, *q.Comment)
		if err != nil {
			return out, RetentionProblem(err)
		}
		l := display.NewTransaction(changed)
		out.Transaction = &l
		a.log.Info("the comment of a build was changed", "request", r.ID, "by", r.Name, "build", t.Number, "before", Clip(t.Comment))
	}
	if q.Unhold != nil {
		list, err := k.Unhold(ctx, t.Number, *q.Unhold)
		if err != nil {
			return out, RetentionProblem(err)
		}
		out.Released = display.NewHolds(list)
		a.log.Info("holds were released", "request", r.ID, "by", r.Name, "build", t.Number, "count", len(list))
	}
	return out, nil
}

func isBelowBar(err error) bool {
	_, ok := errors.AsType[*lifecycle.BelowBarError](err)
	return ok
}

// planned returns a problem if the removal of a transaction is not the plan that the client
// has seen; "" is any plan.
func (a *Transactions) planned(r *Request, t depot.Transaction, plan string) error {
	if plan == "" {
		return nil
	}
	now, err := a.RemovePlan(r, t)
	if err == nil && now.Plan != plan {
		err = &Problem{Word: "plan-changed", Detail: fmt.Sprintf("the removal of build %d is plan %s now", t.Number, now.Plan)}
	}
	return err
}

// Remove removes a transaction that the client may change, if plan is still what its
// removal would do.
func (a *Transactions) Remove(r *Request, t depot.Transaction, plan string) (depot.Transaction, error) {
	done, err := a.computing.Enter(r)
	if err != nil {
		return t, err
	}
	defer done()
	if err := a.planned(r, t, plan); err != nil {
		return t, err
	}
	if t, err = a.changes.Remove(r.Context(), t.Number, r.Name); err != nil {
		return t, RetentionProblem(err)
	}
	a.log.Info("a build was removed", "request", r.ID, "by", r.Name, "build", t.Number)
	return t, nil
}

// Purge frees the bytes of a transaction at once, and records that.
func (a *Transactions) Purge(r *Request, t depot.Transaction, plan, reason string) (lifecycle.Purged, error) {
	done, err := a.computing.Enter(r)
	if err != nil {
		return lifecycle.Purged{}, err
	}
	defer done()
	if err := a.planned(r, t, plan); err != nil {
		return lifecycle.Purged{}, err
	}
	p, err := a.changes.Purge(r.Context(), t.Number, r.Name, reason)
	if p.Transaction.Number > 0 { // also if bytes could not be freed
		e := auth.PurgeEvent(t.Number, t.Product, reason, display.NewPurged(p).Frees)
		e.By(&r.Identity)
		e.Remote, e.Agent = r.RemoteAddr, r.UserAgent()
		if record := a.recorded(e); record != nil {
			return p, errors.Join(err, record)
		}
	}
	return p, RetentionProblem(err)
}

// RemovePlan computes the space that the removal of a transaction frees, and says how long
// it can be undone.
func (a *Transactions) RemovePlan(r *Request, t depot.Transaction) (display.RemovePlan, error) {
	s, _, err := a.changes.Snapshot(r.Context())
	if err != nil {
		return display.RemovePlan{}, err
	}
	p, err := a.policies.Policy(r.Context())
	if err != nil {
		return display.RemovePlan{}, err
	}
	removal, err := s.Removal(t.Number)
	if err != nil {
		return display.RemovePlan{}, &Problem{Word: wire.ProblemNotInTrash, Detail: fmt.Sprintf("build %d was removed already", t.Number)}
	}
	l, err := display.NewRemovePlan(t.Number, removal, time.Duration(p.Policy.Trash))
	// Holders of products that the client may not see are not named.
	l.Holders = a.Visible(r, l.Holders)
	return l, err
}

// Visible returns the numbers of the transactions that a client may see.
func (a *Transactions) Visible(r *Request, numbers []int64) []int64 {
	out := []int64{}
	for _, n := range numbers {
		if t, err := a.depot.Transaction(r.Context(), n); err == nil && r.Rights.MayRead(t.Product) {
			out = append(out, n)
		}
	}
	return out
}

// PolicyFormLimit is the longest form with a policy, in bytes: a line end takes six in it.
const PolicyFormLimit = 6 * retention.MaxPolicyBytes

// SetPolicy puts the text of a policy into force for an administrator, as Policies.SetPolicy
// does. The error is a problem.
func SetPolicy(r *Request, of Policies, log *slog.Logger, text []byte, before int64) (p lifecycle.PolicyInForce, err error) {
	if err := r.May(Administer); err != nil {
		return p, err
	}
	if p, err = of.SetPolicy(r.Context(), "policy", text, r.Name, before); err != nil {
		return p, RetentionProblem(err)
	}
	log.Info("the retention policy was set", "request", r.ID, "by", r.Name, "number", p.Number, "hash", p.Policy.Hash())
	return p, nil
}

// RetentionProblem returns the problem that an error of retention is.
func RetentionProblem(err error) error {
	if err == nil || AsProblem(err) != nil {
		return err
	}
	var word string
	detail := err.Error()
	bar, below := errors.AsType[*lifecycle.BelowBarError](err)
	hold, held := errors.AsType[*lifecycle.ErrHeld](err)
	trash, outside := errors.AsType[*lifecycle.NotInTrashError](err)
	_, fault := errors.AsType[*retention.Fault](err)
	switch {
	case errors.Is(err, lifecycle.ErrNoPolicy):
		word = wire.ProblemNoPolicy
	case errors.Is(err, lifecycle.ErrNoPlan):
		word = wire.ProblemNotFound
	case errors.Is(err, retention.ErrStale):
		word = wire.ProblemPlanChanged
	case errors.Is(err, retention.ErrBrake):
		word = wire.ProblemBrake
	case errors.Is(err, lifecycle.ErrPolicyChanged):
		return &Problem{Word: wire.ProblemChanged, Detail: "the policy was changed meanwhile; read it again"}
	case below:
		word, detail = wire.ProblemBelowBar, bar.Error()
	case held: // without the path of the index
		word, detail = wire.ProblemHeld, hold.Error()
	case outside:
		word, detail = wire.ProblemNotInTrash, trash.Error()
	case fault:
		word = "query"
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Word: wire.ProblemNotFound}
	default:
		return err
	}
	return &Problem{Word: word, Detail: detail}
}
