package fetch

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// Outlook is what a download would do. It is found out without a request, and
// changes nothing.
type Outlook struct {
	// Upstreams are those that the client may see, in the order in which they would
	// be asked.
	Upstreams []UpstreamOutlook
	// Known is set if no upstream would be asked because all of them are known to
	// lack the file, until Until.
	Known bool
	Until time.Time
}

// Asks reports whether an upstream would be asked.
func (o Outlook) Asks() bool {
	if o.Known {
		return false
	}
	for i := range o.Upstreams {
		if o.Upstreams[i].Asked() {
			return true
		}
	}
	return false
}

// UpstreamOutlook is the part of one upstream in an Outlook.
type UpstreamOutlook struct {
	Name string
	Rank int
	// Miss is the remembered miss, nil if there is none.
	Miss *Miss
	// Excluded is why the configuration excludes the question; empty: it does not.
	Excluded string
	// Open is set while the circuit breaker stops all requests, until Until; Why is
	// the reason.
	Open  bool
	Until time.Time
	Why   string
	// Unauthorized is what the upstream said if it asked for credentials last.
	Unauthorized string
}

// Asked reports whether a request would be sent to the upstream.
func (u *UpstreamOutlook) Asked() bool { return u.Miss == nil && u.Excluded == "" && !u.Open }

// Outlook returns what Open would do for a question that the depot cannot answer.
func (f *Fetcher) Outlook(ctx context.Context, q Question) (o Outlook, err error) {
	q = f.withChecksum(ctx, q)
	list := f.permitted(q)
	key, slot := missKey(q.Request), f.coalesceKey(q, list)
	known, err := f.depot.Misses(ctx, key)
	if err != nil {
		return o, err
	}
	now := f.now()
	ask := Ask{Request: q.Request, Checksum: q.Checksum, Via: q.Via}
	if ask.Request.Form == layout.FormCabinet {
		ask.Request.Form = layout.FormFile // as start does
	}
	for _, u := range list {
		l := UpstreamOutlook{Name: u.Source.Name(), Rank: u.Rank}
		if m, ok := known[l.Name]; ok && now.Before(m.Until) {
			l.Miss = &m
		}
		t := u.Source.Traits()
		if t.Excludes != nil {
			l.Excluded = t.Excludes(ask)
		}
		if t.Status != nil {
			s := t.Status()
			l.Open, l.Until, l.Why, l.Unauthorized = s.Open, s.Until, s.Why, s.Unauthorized
		}
		o.Upstreams = append(o.Upstreams, l)
	}
	if len(list) == 0 {
		return o, nil
	}
	if o.Until, o.Known = f.misses.peek(slot, known, list); o.Known {
		return o, nil
	}
	if wide, ok := acceptingMSFZ(q); ok { // as knownMiss does
		if known, err = f.depot.Misses(ctx, missKey(wide.Request)); err == nil {
			o.Until, o.Known = f.misses.peek(f.coalesceKey(wide, list), known, list)
		}
	}
	return o, err
}

// peek is lookup, but changes nothing. known are the stored misses of the key.
func (n *negative) peek(slot string, known map[string]Miss, list []Upstream) (until time.Time, ok bool) {
	now := n.now()
	if m, is := n.keys.Peek(slot); is && now.Before(m.until) && countPersistent(known, now) >= m.rows {
		return m.until, true
	}
	m, ok := n.combine(known, list, now, 0)
	return m.until, ok
}
