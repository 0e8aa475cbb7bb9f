package removals

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// PolicyRow is the text of a retention policy.
type PolicyRow struct {
	No   int64 // rises with every policy; 0: none was set
	Text string
	Hash string // of its meaning
	At   time.Time
	Who  string
}

// ErrChanged means that what a write relies on was changed meanwhile.
var ErrChanged = errors.New("it was changed meanwhile")

const (
	policySelect = "SELECT no, text, hash, at, who FROM policy"
	// keptPolicies and keptRuns limit the history, plansKept the previews that wait.
	keptPolicies, keptRuns, keptPlans = 100, 1000, 1000
)

func scanPolicy(scan engine.Scan) (p PolicyRow, err error) {
	var at int64
	err = scan(&p.No, &p.Text, &p.Hash, &at, &p.Who)
	p.At = time.UnixMilli(at).UTC()
	return p, err
}

// Policy returns the policy in force; a zero row if none was set.
func (rs Retention) Policy(ctx context.Context) (PolicyRow, error) {
	p, err := scanPolicy(func(dest ...any) error {
		return rs.db.Points.Row(ctx, policySelect+" ORDER BY no DESC LIMIT 1", nil, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return PolicyRow{}, nil
	}
	return p, rs.db.Fail("read the policy", err)
}

// SetPolicy puts a policy into force and returns its row. If before is not negative
// and the policy in force has another number, the error is ErrChanged.
func (rs Retention) SetPolicy(ctx context.Context, p PolicyRow, before int64) (PolicyRow, error) {
	if p.At.IsZero() {
		p.At = rs.db.Now()
	}
	p.At = p.At.UTC().Truncate(time.Millisecond)
	err := rs.db.Update(ctx, "set the policy", func(w *engine.Write) error {
		var last int64
		if err := w.Row("SELECT coalesce(max(no), 0) FROM policy", nil, &last); err != nil {
			return err
		}
		if before >= 0 && before != last {
			return fmt.Errorf("the policy: %w", ErrChanged)
		}
		p.No = last + 1
		if _, err := w.Exec("INSERT INTO policy (no, text, hash, at, who) VALUES ($1, $2, $3, $4, $5)",
			p.No, engine.Text(p.Text), p.Hash, p.At.UnixMilli(), engine.Text(p.Who)); err != nil {
			return err
		}
		_, err := w.Exec("DELETE FROM policy WHERE no <= $1", p.No-keptPolicies)
		return err
	})
	return p, err
}

// PlanRow is a previewed plan.
type PlanRow struct {
	Number string // for people
	Ticket string // JSON
	Who    string
	Made   time.Time
	Ends   time.Time // it cannot be applied later
}

// PutPlan stores a plan. It deletes plans that have ended, and the oldest ones above
// 1,000.
func (rs Retention) PutPlan(ctx context.Context, p PlanRow) error {
	return rs.db.Update(ctx, "store a plan", func(w *engine.Write) error {
		if _, err := w.Exec("DELETE FROM plan WHERE ends < $1", rs.db.Now().UnixMilli()); err != nil {
			return err
		}
		if _, err := w.Exec("DELETE FROM plan WHERE number IN (SELECT number FROM plan "+
			"ORDER BY made DESC, number LIMIT 1000000 OFFSET $1)", keptPlans-1); err != nil {
			return err
		}
		_, err := w.Exec(`INSERT INTO plan (number, ticket, who, made, ends) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (number) DO UPDATE SET ticket = excluded.ticket, who = excluded.who, made = excluded.made, ends = excluded.ends`,
			p.Number, p.Ticket, engine.Text(p.Who), p.Made.UnixMilli(), p.Ends.UnixMilli())
		return err
	})
}

// Plan returns a stored plan. An unknown or ended one is fs.ErrNotExist.
func (rs Retention) Plan(ctx context.Context, number string) (p PlanRow, err error) {
	var made, ends int64
	err = rs.db.Points.Row(ctx, "SELECT number, ticket, who, made, ends FROM plan WHERE number = $1 AND ends >= $2",
		[]any{engine.Text(number), rs.db.Now().UnixMilli()},
		&p.Number, &p.Ticket, &p.Who, &made, &ends)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	p.Made, p.Ends = time.UnixMilli(made).UTC(), time.UnixMilli(ends).UTC()
	return p, rs.db.Fail("look up a plan", err)
}

// Outcomes of runs.
const (
	RunUnfinished = "running" // it removes, or was interrupted
	RunDone       = "done"
	RunBraked     = "brake" // refused: too much would be removed
	RunClock      = "clock" // refused: the clock may be wrong
)

// Run is an application of a plan.
type Run struct {
	No      int64     `json:"run"`
	Plan    string    `json:"plan"`
	Kind    string    `json:"kind"` // apply or schedule
	Outcome string    `json:"outcome"`
	Who     string    `json:"by"`
	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended,omitzero"`
	Policy  string    `json:"-"` // its text
	Hash    string    `json:"policy"`
	Removed int64     `json:"removed"` // transactions so far
	Until   time.Time `json:"until,omitzero"`
	Facts   string    `json:"-"` // JSON
}

const runSelect = "SELECT no, plan, kind, outcome, who, begun, ended, policy, hash, removed, until, facts FROM retention_run"

func scanRun(scan engine.Scan) (r Run, err error) {
	var begun int64
	var ended, until sql.NullInt64
	err = scan(&r.No, &r.Plan, &r.Kind, &r.Outcome, &r.Who, &begun, &ended, &r.Policy, &r.Hash, &r.Removed, &until, &r.Facts)
	r.Begun, r.Ended, r.Until = time.UnixMilli(begun).UTC(), engine.FromMillis(ended), engine.FromMillis(until)
	return r, err
}

// Runs returns the runs with numbers below before, the latest first, at most limit. A
// before of 0 is any number.
func (rs Retention) Runs(ctx context.Context, before int64, limit int) (list []Run, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	err = rs.db.Scans.Each(ctx, true, runSelect+" WHERE no < $1 ORDER BY no DESC LIMIT $2", []any{before, limit},
		func(scan engine.Scan) (bool, error) {
			r, err := scanRun(scan)
			list = append(list, r)
			return true, err
		})
	return list, rs.db.Fail("list runs", err)
}

// Unfinished returns the runs that remove transactions, or were interrupted, oldest
// first; with a plan's number, only those of that plan.
func (rs Retention) Unfinished(ctx context.Context, plan string) (list []Run, err error) {
	err = rs.db.Scans.Each(ctx, true, runSelect+" WHERE outcome = 'running' AND ($1 = '' OR plan = $1) ORDER BY no",
		[]any{engine.Text(plan)}, func(scan engine.Scan) (bool, error) {
			r, err := scanRun(scan)
			list = append(list, r)
			return true, err
		})
	return list, rs.db.Fail("list runs", err)
}

func insertRun(w *engine.Write, r *Run) error {
	if err := w.Row("SELECT coalesce(max(no), 0) + 1 FROM retention_run", nil, &r.No); err != nil {
		return err
	}
	if _, err := w.Exec(`INSERT INTO retention_run (no, plan, kind, outcome, who, begun, ended, policy, hash, removed, until, facts)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		r.No, engine.Text(r.Plan), r.Kind, r.Outcome, engine.Text(r.Who), r.Begun.UnixMilli(), engine.Millis(r.Ended),
		engine.Text(r.Policy), r.Hash, r.Removed, engine.Millis(r.Until), engine.Text(r.Facts)); err != nil {
		return err
	}
	if _, err := w.Exec("DELETE FROM run_removal WHERE run <= $1", r.No-keptRuns); err != nil {
		return err
	}
	_, err := w.Exec("DELETE FROM retention_run WHERE no <= $1 AND outcome <> 'running'", r.No-keptRuns)
	return err
}

// RecordRun records a run that has removed nothing.
func (rs Retention) RecordRun(ctx context.Context, r Run) (Run, error) {
	err := rs.db.Update(ctx, "record a run", func(w *engine.Write) error { return insertRun(w, &r) })
	return r, err
}

// Decision is what a run is to remove.
type Decision struct {
	Run Run
	// Removals name transactions, classes, reasons and details; the rest is that of
	// the run.
	Removals []Removal
}

// Begin begins a run: it records what is to be removed, and removes the first
// transactions. decide is called while no process can write, with nil if the index
// has still the generation for which the caller has decided before, else with the
// state at a time. Its error ends the run, and nothing is recorded. With a negative
// generation decide always gets the state; otherwise, if the index has changed and
// again is set, the error is ErrChanged and decide is not called.
func (rs Retention) Begin(ctx context.Context, generation int64, again bool, now time.Time,
	decide func(*RetainedState) (Decision, error)) (r Run, err error) {
	err = rs.db.Update(ctx, "apply a plan", func(w *engine.Write) error {
		var s *RetainedState
		var current int64
		if err := w.Row("SELECT generation FROM state WHERE one = 1", nil, &current); err != nil {
			return err
		}
		if current != generation {
			if again {
				return ErrChanged
			}
			var err error
			if s, err = readState(w.Each, now); err != nil {
				return err
			}
		}
		d, err := decide(s)
		if err != nil {
			return err
		}
		r = d.Run
		r.Outcome = RunUnfinished
		if err := insertRun(w, &r); err != nil {
			return err
		}
		rows := make([][]any, len(d.Removals))
		for i, x := range d.Removals {
			rows[i] = []any{r.No, x.Number, engine.Text(x.Class), engine.Text(x.Reason), engine.Text(x.Detail)}
		}
		if _, err := w.Many("INSERT INTO run_removal (run, tx_id, class, reason, detail) VALUES ($1, $2, $3, $4, $5)", rows); err != nil {
			return err
		}
		return continueRun(ctx, w, &r, rs.db.Now())
	})
	return r, err
}

// Continue removes further transactions of a run. The run's Outcome tells whether
// there are more. A transaction that was held, promoted or removed meanwhile, or that
// a transaction outside the run needs, is left as it is.
func (rs Retention) Continue(ctx context.Context, no int64) (r Run, err error) {
	err = rs.db.Update(ctx, "apply a plan", func(w *engine.Write) error {
		var err error
		r, err = scanRun(func(dest ...any) error { return w.Row(runSelect+" WHERE no = $1", []any{no}, dest...) })
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("run %d: %w", no, fs.ErrNotExist)
		}
		if err != nil || r.Outcome != RunUnfinished {
			return err
		}
		return continueRun(ctx, w, &r, rs.db.Now())
	})
	return r, err
}

// removeFiles is how many files one write transaction of a run removes, and at
// least one transaction: other writers wait for it. A transaction is always hidden
// with all its files by one write.
const removeFiles = 5_000

// removable is the condition that a run may still remove transaction m.
const removable = `t.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM hold h WHERE h.tx_id = m.tx_id AND (h.ends IS NULL OR h.ends >= $2))
	AND NOT EXISTS (SELECT 1 FROM promotion p WHERE p.tx_id = m.tx_id AND p.at > $3)
	AND NOT EXISTS (SELECT 1 FROM tx_needs n JOIN tx u ON u.id = n.tx_id WHERE n.needs = m.tx_id AND u.deleted_at IS NULL
	  AND NOT EXISTS (SELECT 1 FROM run_removal v WHERE v.run = m.run AND v.tx_id = u.id))`

func continueRun(ctx context.Context, w *engine.Write, r *Run, now time.Time) error {
	var list []Removal
	var files int64
	more := false
	if err := w.Each("SELECT m.tx_id, m.class, m.reason, m.detail, t.files FROM run_removal m JOIN tx t ON t.id = m.tx_id "+
		"WHERE m.run = $1 AND "+removable+" ORDER BY m.tx_id LIMIT 1000",
		[]any{r.No, record.DayOf(now), r.Begun.UnixMilli()}, func(scan engine.Scan) error {
			x := Removal{At: r.Begun, Who: r.Who, Plan: r.Plan, Until: r.Until}
			var n int64
			if err := scan(&x.Number, &x.Class, &x.Reason, &x.Detail, &n); err != nil {
				return err
			}
			if more = more || files > 0 && files+n > removeFiles; !more {
				files += n
				list = append(list, x)
			}
			return nil
		}); err != nil {
		return err
	}
	for _, x := range list {
		if _, err := removeTx(ctx, w, x); err != nil {
			return err
		}
		r.Removed++
	}
	if len(list) == 1000 {
		more = true
	}
	if !more {
		r.Outcome, r.Ended = RunDone, now.UTC().Truncate(time.Millisecond)
	}
	_, err := w.Exec("UPDATE retention_run SET removed = $2, outcome = $3, ended = $4 WHERE no = $1",
		r.No, r.Removed, r.Outcome, engine.Millis(r.Ended))
	return err
}

// StagePins returns the contents that open stages rely on: garbage collection leaves
// them.
func (rs Retention) StagePins(ctx context.Context) (pins map[[32]byte]bool, err error) {
	pins = make(map[[32]byte]bool)
	err = rs.db.Scans.Each(ctx, true, stagePins, nil, func(scan engine.Scan) (bool, error) {
		var id int64
		var sum []byte
		err := scan(&id, &sum)
		if len(sum) == 32 {
			pins[[32]byte(sum)] = true
		}
		return true, err
	})
	return pins, rs.db.Fail("list staged contents", err)
}
