package auth

import (
	"log/slog"
	"time"
)

// Everybody returns a gate that knows no credentials: everybody reads everything, and
// nobody may do more. It needs no Close.
func Everybody() *Gate {
	g := &Gate{
		off: true, log: slog.New(slog.DiscardHandler), now: time.Now, store: noStore{}, warned: map[string]time.Time{},
	}
	g.inForce.Store(&Policy{anonymous: Rights{Admitted: true, All: true}})
	return g
}

// Off reports whether the gate knows no credentials; see Everybody.
func (g *Gate) Off() bool { return g.off }

// NoAudit returns an audit log that keeps nothing. It needs no Close.
func NoAudit() *Audit { return &Audit{off: true} }

// Off reports whether nothing is kept; see NoAudit.
func (a *Audit) Off() bool { return a.off }
