package fetch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
)

// Lifetimes are how long the negative cache remembers each class of failure.
// Zero means the default in the comment; a negative value means that the class
// is not remembered.
type Lifetimes struct {
	NotFound  time.Duration // 1 h
	Forbidden time.Duration // 24 h
	Timeout   time.Duration // 60 s
	Broken    time.Duration // 10 min
	TooLarge  time.Duration // 24 h
}

// Of returns the lifetime of a class, zero or less if the class is not
// remembered.
func (l Lifetimes) Of(c Class) time.Duration {
	switch c {
	case ClassNotFound:
		return cmp.Or(l.NotFound, time.Hour)
	case ClassForbidden:
		return cmp.Or(l.Forbidden, 24*time.Hour)
	case ClassTimeout:
		return cmp.Or(l.Timeout, time.Minute)
	case ClassBroken:
		return cmp.Or(l.Broken, 10*time.Minute)
	case ClassTooLarge:
		return cmp.Or(l.TooLarge, 24*time.Hour)
	}
	return 0
}

// Miss is the remembered failure of one upstream for one key.
type Miss struct {
	Class  Class
	Until  time.Time
	Since  time.Time
	Detail string
}

// persists reports whether a miss is stored in the index.
func (m Miss) persists(now time.Time) bool {
	return m.Class != ClassSkipped && m.Class != ClassBusy && m.Until.After(now)
}

func countPersistent(known map[string]Miss, now time.Time) (n int) {
	for _, m := range known {
		if m.persists(now) {
			n++
		}
	}
	return n
}

const (
	retrySoon    = 5 * time.Second
	memoryMiss   = 200_000         // keys in memory
	recheckAfter = 2 * time.Second // age of an entry in memory at which the index is read again
	longestMiss  = 24 * time.Hour  // longest Retry-After of an upstream that is honoured
	skippedLife  = 1 * time.Hour   // lifetime of what the configuration excludes
)

// combined is the entry in memory for a key that no upstream has.
type combined struct {
	until time.Time
	renew time.Time // time after which the miss is renewed in the background
	// rows is the number of these misses in the index, and looked the time of
	// the last read: another process may have deleted them.
	rows   int
	looked time.Time
	epoch  uint64 // at that time; 0: unknown
}

// negative is the negative cache: keys that no upstream has. A cache in memory
// avoids most reads of the index.
type negative struct {
	depot Depot
	lives Lifetimes
	now   func() time.Time
	epoch func() (uint64, bool) // see Options.MissEpoch
	keys  *memo.Map[string, combined]
}

func newNegative(d Depot, lives Lifetimes, now func() time.Time, epoch func() (uint64, bool)) *negative {
	if epoch == nil {
		epoch = func() (uint64, bool) { return 0, false }
	}
	return &negative{
		depot: d, lives: lives, now: now, epoch: epoch,
		keys: memo.New[string, combined](memoryMiss),
	}
}

// lookup returns the entry of a slot if no upstream in list has its key.
func (n *negative) lookup(ctx context.Context, key, slot string, list []Upstream) (combined, bool) {
	now := n.now()
	epoch, shared := n.epoch() // before the stored misses are read
	m, ok := n.keys.Get(slot)
	if !ok {
		known, err := n.depot.Misses(ctx, key)
		if err != nil {
			return m, false
		}
		if m, ok = n.combine(known, list, now, epoch); !ok {
			return m, false
		}
		n.keys.Set(slot, m)
	} else if m.rows > 0 && (shared && m.epoch != epoch || !shared && now.Sub(m.looked) > recheckAfter) {
		known, err := n.depot.Misses(ctx, key)
		if err != nil || countPersistent(known, now) < m.rows {
			n.keys.Delete(slot)
			return m, false
		}
		m.looked, m.epoch = now, epoch
		n.keys.Set(slot, m)
	}
	if !now.Before(m.until) {
		n.keys.Delete(slot)
		return m, false
	}
	return m, true
}

// combine returns the common miss of all upstreams in list, or false if one of
// them must be asked.
func (n *negative) combine(known map[string]Miss, list []Upstream, now time.Time, epoch uint64) (combined, bool) {
	var m combined
	for _, u := range list {
		k, ok := known[u.Source.Name()]
		if !ok || !now.Before(k.Until) {
			return combined{}, false
		}
		if m.until.IsZero() || k.Until.Before(m.until) {
			m.until = k.Until
			m.renew = k.Until.Add(-n.lives.Of(k.Class) / 4)
		}
	}
	m.rows, m.looked, m.epoch = countPersistent(known, now), now, epoch
	return m, !m.until.IsZero()
}

// remember stores the failures of the upstreams. If soon is set, memory holds
// the miss for a moment even if one of the failures is not to be remembered.
func (n *negative) remember(ctx context.Context, key, slot string, list []Upstream, known map[string]Miss, soon bool) error {
	now := n.now()
	epoch, _ := n.epoch()
	if m, ok := n.combine(known, list, now, epoch); ok {
		n.keys.Set(slot, m)
	} else if soon {
		n.keys.Set(slot, combined{until: now.Add(retrySoon)})
	}
	kept := map[string]Miss{}
	for name, m := range known {
		if m.persists(now) {
			kept[name] = m
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return n.depot.PutMisses(ctx, key, kept)
}

// learn remembers a miss that a peer has found, and has stored if it has to be
// stored.
func (n *negative) learn(ctx context.Context, key, slot string, list []Upstream, why []error) {
	epoch, _ := n.epoch()
	known, err := n.depot.Misses(ctx, key)
	if err != nil {
		return
	}
	rows := countPersistent(known, n.now())
	for _, err := range why {
		if fail, ok := errors.AsType[*Failure](err); ok {
			if m, ok := n.missOf(err); ok {
				if _, stored := known[fail.Source]; !stored {
					known[fail.Source] = m
				}
			}
		}
	}
	if m, ok := n.combine(known, list, n.now(), epoch); ok {
		m.rows = rows
		n.keys.Set(slot, m)
	}
}

// forget deletes the miss of one upstream, which now has the file.
func (n *negative) forget(ctx context.Context, key, slot, name string) error {
	n.keys.Delete(slot)
	return n.depot.ForgetMiss(ctx, key, name)
}

// missOf returns the miss for an upstream's error, or false if it is not
// remembered.
func (n *negative) missOf(err error) (Miss, bool) {
	now, class := n.now(), ClassOf(err)
	m := Miss{Class: class, Since: now, Detail: err.Error()}
	if fail, ok := errors.AsType[*Failure](err); ok && !fail.Retry.IsZero() {
		m.Until = fail.Retry
		if most := now.Add(longestMiss); m.Until.After(most) {
			m.Until = most
		}
		return m, m.Until.After(now)
	}
	switch class {
	case ClassSkipped:
		m.Until = now.Add(skippedLife)
		return m, true
	case ClassBusy:
		m.Until = now.Add(retrySoon)
		return m, true
	}
	life := n.lives.Of(class)
	m.Until = now.Add(life)
	return m, life > 0
}

// withoutMiss returns the upstreams without a remembered miss.
func (n *negative) withoutMiss(list []Upstream, known map[string]Miss) (rest []Upstream) {
	now := n.now()
	for _, u := range list {
		if m, ok := known[u.Source.Name()]; !ok || !now.Before(m.Until) {
			rest = append(rest, u)
		}
	}
	return rest
}
