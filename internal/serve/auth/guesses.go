package auth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Password guessing is slowed down by a bounded table of failed logins. Each
// client address and each user name has a counter. After some free attempts,
// every further failure doubles the time during which the next attempt is
// rejected without checking the password.
//
// A user who has logged in from an address before is exempt at that address, so
// that neither a neighbour behind the same address nor an attacker at a
// different one can lock the user out. trustedFailures wrong passwords end the
// exemption.
const (
	// freeByAddress and freeByUser are the numbers of failures without a delay.
	freeByAddress = 5
	freeByUser    = 10
	// maxDelayAddress and maxDelayUser limit the delay. That of a user is short,
	// because anyone can cause it.
	maxDelayAddress = 10 * time.Minute
	maxDelayUser    = time.Minute
	// firstDelay is the delay after the first failure that is not free.
	firstDelay = time.Second
	// guessMemory is how long a failure or an exemption counts.
	guessMemory = 30 * time.Minute
	// trustedFailures is the number of consecutive wrong passwords that end the
	// exemption of a user at an address.
	trustedFailures = 5
	// maxGuesses limits each generation of each table, in entries.
	maxGuesses = 8192
)

// DelayedError rejects an attempt that comes too early after failures.
type DelayedError struct {
	wait time.Duration
	what string // what was wrong: passwords, …
}

func (e *DelayedError) Error() string {
	return fmt.Sprintf("too many wrong %s from this address or for this user: try again in %s", e.what, e.wait.Round(time.Second))
}

// guessKey identifies an address, a user or both in the table of failures.
type guessKey [16]byte

func keyOfGuess(parts ...string) guessKey { return hash16(parts...) }

// hash16 returns a short hash of a list of texts, for tables of limited size.
func hash16(parts ...string) [16]byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s ", len(p), p)
	}
	return [16]byte(h.Sum(nil)[:16])
}

// ClientAddr returns the part of an address that counts as one client: the IPv4
// address, or the first 64 bits of an IPv6 address, because one client can choose
// the other bits at will.
func ClientAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// addressOf returns the ClientAddr of a host and port, or the text itself if it
// holds no IP address.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	client := ClientAddr(a)
	if client.Is6() {
		return client.String() + "/64"
	}
	return client.String()
}

// guesses is the table of failed logins. The zero value is ready for use.
type guesses struct {
	mu        sync.Mutex
	addresses attempts
	users     attempts
	trusted   attempts // (address, user) pairs that have logged in
}

// wait returns how long an attempt must wait; zero permits it.
func (g *guesses) wait(address, user string, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.trusted.get(keyOfGuess(address, user)); e.live(now) && e.count < trustedFailures {
		return 0
	}
	return max(
		g.addresses.get(keyOfGuess(address)).wait(now, freeByAddress, maxDelayAddress),
		g.users.get(keyOfGuess(user)).wait(now, freeByUser, maxDelayUser),
	)
}

// failed records a wrong password.
func (g *guesses) failed(address, user string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.trusted.get(keyOfGuess(address, user)); e.live(now) {
		g.trusted.put(keyOfGuess(address, user), attempt{e.count + 1, now})
	}
	for _, t := range []struct {
		table *attempts
		key   guessKey
	}{{&g.addresses, keyOfGuess(address)}, {&g.users, keyOfGuess(user)}} {
		e := t.table.get(t.key)
		if !e.live(now) {
			e.count = 0
		}
		t.table.put(t.key, attempt{e.count + 1, now})
	}
}

// succeeded records a correct password. The counters stay: an attacker with an
// account of his own must not be able to reset them.
func (g *guesses) succeeded(address, user string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trusted.put(keyOfGuess(address, user), attempt{0, now})
}

// attempt is one entry of the table.
type attempt struct {
	count int
	last  time.Time
}

// live reports whether the entry still counts.
func (a attempt) live(now time.Time) bool {
	return !a.last.IsZero() && fresh(a.last, now, guessMemory)
}

// wait returns how long the next attempt must wait.
func (a attempt) wait(now time.Time, free int, most time.Duration) time.Duration {
	if !a.live(now) || a.count <= free {
		return 0
	}
	delay := most
	if n := a.count - free - 1; n < 20 {
		delay = min(most, firstDelay<<n)
	}
	return max(0, a.last.Add(delay).Sub(now))
}

// attempts is a bounded table in two generations: when the current one is full,
// it replaces the old one, whose entries are forgotten.
type attempts struct {
	cur, old map[guessKey]attempt
}

func (t *attempts) get(k guessKey) attempt {
	if a, ok := t.cur[k]; ok {
		return a
	}
	return t.old[k]
}

func (t *attempts) put(k guessKey, a attempt) {
	if _, ok := t.cur[k]; !ok && len(t.cur) >= maxGuesses {
		t.old, t.cur = t.cur, nil
	}
	if t.cur == nil {
		t.cur = map[guessKey]attempt{}
	}
	t.cur[k] = a
}

// fairSemaphore limits the concurrent password comparisons. Callers wait in one
// queue per client address, and free slots go to the addresses in turn, so that
// a client with many attempts delays only its own. The queues are limited, each
// and in total.
type fairSemaphore struct {
	each, all int // limits of the queues

	mu      sync.Mutex
	free    int
	queues  map[string][]chan struct{}
	ring    []string // the addresses with a queue, next one first
	waiting int
}

// Limits of the queues for password comparisons.
const (
	queueByAddress = 64
	queueAll       = 2048
)

func newFairSemaphore(slots int) *fairSemaphore {
	return &fairSemaphore{each: queueByAddress, all: queueAll, free: slots, queues: map[string][]chan struct{}{}}
}

// acquire waits for a slot. release returns the slot. The error is errBusy if a
// queue is full or the timeout has passed, or the context's error.
func (s *fairSemaphore) acquire(ctx context.Context, address string, timeout time.Duration) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	if len(s.queues[address]) >= s.each || s.waiting >= s.all {
		s.mu.Unlock()
		return errBusy
	}
	turn := make(chan struct{})
	if len(s.queues[address]) == 0 {
		s.ring = append(s.ring, address)
	}
	s.queues[address] = append(s.queues[address], turn)
	s.waiting++
	s.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errBusy
	}
	s.mu.Lock()
	left := s.leave(address, turn)
	s.mu.Unlock()
	if !left {
		s.release() // the slot was granted at the same moment
	}
	return err
}

// leave removes a waiting caller from its queue; mu is held. It returns false if
// the caller has been granted a slot.
func (s *fairSemaphore) leave(address string, turn chan struct{}) bool {
	q := s.queues[address]
	for i, c := range q {
		if c != turn {
			continue
		}
		s.waiting--
		s.setQueue(address, append(q[:i:i], q[i+1:]...))
		return true
	}
	return false
}

// setQueue replaces the queue of an address; mu is held.
func (s *fairSemaphore) setQueue(address string, q []chan struct{}) {
	if len(q) > 0 {
		s.queues[address] = q
		return
	}
	delete(s.queues, address)
	for i, a := range s.ring {
		if a == address {
			s.ring = append(s.ring[:i:i], s.ring[i+1:]...)
			return
		}
	}
}

// release passes the slot to the next caller.
func (s *fairSemaphore) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) == 0 {
		s.free++
		return
	}
	address := s.ring[0]
	s.ring = append(s.ring[1:len(s.ring):len(s.ring)], address) // its next turn is after all other addresses
	q := s.queues[address]
	s.waiting--
	close(q[0])
	s.setQueue(address, q[1:])
}
