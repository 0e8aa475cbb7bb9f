package display

import (
	"time"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// Held is a hold in JSON.
type Held struct {
	Transaction int64     `json:"build"`
	Name        string    `json:"name"`
	Reason      string    `json:"reason"`
	By          string    `json:"by"`
	Placed      time.Time `json:"placed"`
	Until       string    `json:"until,omitempty"` // the last day
}

// NewHeld describes a hold.
func NewHeld(h lifecycle.Hold) Held {
	l := Held{h.Number, h.Name, h.Reason, h.Who, h.Placed.UTC(), ""}
	if !h.Until.IsZero() {
		l.Until = h.Until.UTC().Format(time.DateOnly)
	}
	return l
}

// Promoted is a change of a class in JSON.
type Promoted struct {
	Transaction int64     `json:"build"`
	From        string    `json:"from"`
	To          string    `json:"to"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

// NewPromoted describes a change of a class.
func NewPromoted(p lifecycle.Promotion) Promoted {
	return Promoted{p.Number, p.From, p.To, p.Who, p.At}
}

// NewHolds describes holds.
func NewHolds(list []lifecycle.Hold) []Held {
	out := make([]Held, len(list))
	for i, h := range list {
		out[i] = NewHeld(h)
	}
	return out
}
