package fetch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/maypok86/otter/v2"
)

// Lifetimes say for how long it is remembered why an upstream gave no file. Zero
// is the default in brackets, negative is not at all.
type Lifetimes struct {
	Absent    time.Duration // 1 h
	Forbidden time.Duration // 24 h
	Timeout   time.Duration // 60 s
	Broken    time.Duration // 10 min
	TooLarge  time.Duration // 24 h
}

// Of returns the lifetime of a class of failures; zero for those that are not
// remembered.
func (l Lifetimes) Of(c Class) time.Duration {
	switch c {
	case ClassAbsent:
		return cmp.Or(l.Absent, time.Hour)
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

// Miss is what is remembered of one upstream and one key.
type Miss struct {
	Class  Class
	Until  time.Time
	Since  time.Time
	Detail string
}

// persists reports whether a miss outlives the process.
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
	retrySoon   = 5 * time.Second
	memoryMiss  = 200_000         // keys remembered in memory
	lookAgain   = 2 * time.Second // age of what memory holds before the index is asked
	longestMiss = 24 * time.Hour  // that an upstream may ask for
	skippedLife = 1 * time.Hour   // of what the configuration excludes
)

// combined is the memory of a key that no upstream has.
type combined struct {
	until time.Time
	renew time.Time // from then on it is worth asking the upstreams again
	// rows are how many of the misses the index holds too, and looked when it was
	// last asked: another process may have made it forget them.
	rows   int
	looked time.Time
}

// negative is the negative cache: which keys no upstream has. Memory stands in
// front of the index.
type negative struct {
	depot Depot
	lives Lifetimes
	now   func() time.Time
	keys  *otter.Cache[string, combined]
}

func newNegative(d Depot, lives Lifetimes, now func() time.Time) *negative {
	return &negative{depot: d, lives: lives, now: now, keys: otter.Must(&otter.Options[string, combined]{MaximumSize: memoryMiss})}
}

// lookup returns the memory of a slot, if no upstream in list has its key.
func (n *negative) lookup(ctx context.Context, key, slot string, list []Upstream) (combined, bool) {
	now := n.now()
	m, ok := n.keys.GetIfPresent(slot)
	if !ok {
		known, err := n.depot.Misses(ctx, key)
		if err != nil {
			return m, false
		}
		if m, ok = n.combine(known, list, now); !ok {
			return m, false
		}
		n.keys.Set(slot, m)
	} else if m.rows > 0 && now.Sub(m.looked) > lookAgain {
		known, err := n.depot.Misses(ctx, key)
		if err != nil || countPersistent(known, now) < m.rows {
			n.keys.Invalidate(slot)
			return m, false
		}
		m.looked = now
		n.keys.Set(slot, m)
	}
	if !now.Before(m.until) {
		n.keys.Invalidate(slot)
		return m, false
	}
	return m, true
}

// quick reports whether memory alone says that no upstream has the key of a slot.
func (n *negative) quick(slot string) bool {
	m, ok := n.keys.GetIfPresent(slot)
	now := n.now()
	return ok && now.Before(m.until) && !now.After(m.renew) && (m.rows == 0 || now.Sub(m.looked) <= lookAgain)
}

// combine returns until when no upstream needs to be asked; false if one does.
func (n *negative) combine(known map[string]Miss, list []Upstream, now time.Time) (combined, bool) {
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
	m.rows, m.looked = countPersistent(known, now), now
	return m, !m.until.IsZero()
}

// remember keeps why the upstreams gave no file; soon makes memory hold for a
// moment what is not to be remembered.
func (n *negative) remember(ctx context.Context, key, slot string, list []Upstream, known map[string]Miss, soon bool) error {
	now := n.now()
	if m, ok := n.combine(known, list, now); ok {
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

// forget drops the memory of one upstream and one key: it has the file now.
func (n *negative) forget(ctx context.Context, key, slot, name string) error {
	n.keys.Invalidate(slot)
	return n.depot.ForgetMiss(ctx, key, name)
}

// missOf turns an upstream's error into what is remembered of it; false if
// nothing is.
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

// worthAsking omits the upstreams that are known not to have the file.
func (n *negative) worthAsking(list []Upstream, known map[string]Miss) (rest []Upstream) {
	now := n.now()
	for _, u := range list {
		if m, ok := known[u.Source.Name()]; !ok || !now.Before(m.Until) {
			rest = append(rest, u)
		}
	}
	return rest
}
