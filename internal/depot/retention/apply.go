package retention

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrStale means that a plan differs from its preview.
var ErrStale = errors.New("the plan is stale")

// ErrBrake means that a plan removes more than the brake allows.
var ErrBrake = errors.New("the brake holds the plan")

// Ticket is the part of a previewed plan that a depot stores so that it can be applied
// later, as it was printed or not at all.
type Ticket struct {
	Number     string    `json:"plan"`   // for people: 8 hex digits of Digest
	Digest     string    `json:"digest"` // of all that the plan promises
	PolicyHash string    `json:"policy"`
	Now        time.Time `json:"now"`    // the time for which the plan was computed
	Builds     int       `json:"builds"` // transactions that it removes
}

// Ticket returns the ticket of the plan. Two plans have the same digest if they have
// the same time and policy, remove the same transactions for the same reasons, and
// free the same bytes. What they keep, and why, does not count: a push or a read
// that changes nothing of this leaves a ticket valid. The brake is tried again when
// the plan is applied.
func (p *Plan) Ticket() Ticket {
	h := sha256.New()
	line := func(parts ...any) { _, _ = fmt.Fprintln(h, parts...) } // a hash returns no errors
	line("symdepot retention plan 1", p.Now.UnixMilli(), p.PolicyHash)
	for v := range p.Removed() {
		line("remove", v.Number, v.Reason, v.CapOf, v.Listed, v.Alone)
	}
	line("frees", p.Frees, p.FreesNow, p.Listed)
	digest := hex.EncodeToString(h.Sum(nil))
	return Ticket{Number: digest[:8], Digest: digest, PolicyHash: p.PolicyHash, Now: p.Now, Builds: p.Builds()}
}

// Confirm computes the plan of a ticket again from the present state and returns it
// if it still equals its preview. The caller applies the result within the
// write transaction in which it read the state.
//
// yesRemove is the number of transactions that the user agreed to remove; 0 if the
// user gave none. A plan above the brake needs exactly its own number.
//
// The errors are ErrStale and ErrBrake, wrapped with the cause and the next step.
func (p *Policy) Confirm(s *State, t Ticket, yesRemove int) (*Plan, error) {
	const again = "; run symdepot policy preview again"
	if p.Hash() != t.PolicyHash {
		return nil, fmt.Errorf("plan %s: %w: the policy was changed after the preview%s", t.Number, ErrStale, again)
	}
	plan, err := p.Plan(s, t.Now)
	if err != nil {
		return nil, err
	}
	if now := plan.Ticket(); now.Digest != t.Digest {
		what := "other builds would be removed now, or other bytes would be freed"
		if now.Builds != t.Builds {
			what = fmt.Sprintf("it would remove %d builds now, not %d", now.Builds, t.Builds)
		}
		return nil, fmt.Errorf("plan %s: %w: the depot was changed after the preview, and %s%s", t.Number, ErrStale, what, again)
	}
	return plan, plan.Allowed(p, yesRemove)
}

// Allowed returns an error of ErrBrake if the brake of the policy holds the plan, or
// if yesRemove is not 0 and not the number of transactions that the plan removes. A
// scheduled run passes 0.
func (p *Plan) Allowed(policy *Policy, yesRemove int) error {
	builds, number := p.Builds(), p.Ticket().Number
	switch {
	case yesRemove == builds:
		return nil
	case yesRemove != 0:
		return fmt.Errorf("plan %s: %w: it removes %d builds, not %d; nothing was removed", number, ErrBrake, builds, yesRemove)
	case len(p.Brake) == 0:
		return nil
	}
	var list []string
	for _, b := range p.Brake[:min(len(p.Brake), 5)] {
		list = append(list, fmt.Sprintf("%d of %d builds and %d of %d bytes of product %q", b.Removed, b.Live, b.Bytes, b.Total, b.Product))
	}
	if n := len(p.Brake) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("%d more products", n))
	}
	return fmt.Errorf("plan %s: %w: it removes %s, and the brake is %s; "+
		"nothing was removed. To remove them, run symdepot policy apply %s --yes-remove %d",
		number, ErrBrake, strings.Join(list, ", "), policy.Brake, number, builds)
}

// Tombstone is the record that the depot keeps of a removed transaction, to tell a client that
// asks for one of its files when and why it was removed. Names and ids of the files
// belong to it and are kept by the index.
type Tombstone struct {
	Number  int64     `json:"number"`
	Product string    `json:"product"`
	Version string    `json:"version"`
	Branch  string    `json:"branch"`
	Class   string    `json:"class"` // by which it was judged
	Removed time.Time `json:"removed"`
	By      string    `json:"by"` // the principal who applied the plan; "schedule" for a scheduled run
	// Reason is the rule in one word: expired or cap; "rm" for a removal by command.
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	Plan   string `json:"plan,omitempty"` // the plan's number
	// Until is the time until which the transaction can be restored. Zero: it cannot.
	Until time.Time `json:"until,omitzero"`
}

// String describes the removal in one sentence:
//
//	removed on 2026-10-02 by rule of class nightly: 50 days old, not among the last 20
func (t Tombstone) String() string {
	text := "removed on " + t.Removed.UTC().Format(time.DateOnly)
	if t.Reason == Expired.String() || t.Reason == Cap.String() {
		text += " by rule of class " + t.Class
	} else if t.By != "" {
		text += " by " + t.By
	}
	if t.Detail != "" {
		text += ": " + t.Detail
	}
	return text
}

// Tombstones returns one tombstone for each transaction that the plan removes, as of
// the time at which by applies it.
func (p *Plan) Tombstones(by string, at time.Time) []Tombstone {
	at = at.UTC().Truncate(time.Millisecond)
	number := p.Ticket().Number
	list := make([]Tombstone, 0, p.Builds())
	for v := range p.Removed() {
		t := Tombstone{
			Number: v.Number, Product: v.Product, Version: v.Version, Branch: v.Branch, Class: v.Class,
			Removed: at, By: by, Reason: v.Reason.String(), Detail: p.Detail(v), Plan: number,
			Until: trashEnd(p.Trash, at),
		}
		list = append(list, t)
	}
	return list
}
