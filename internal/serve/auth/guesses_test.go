package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// from is a request with a password from an address.
func from(address, user, password string) *http.Request {
	r := get("Authorization", basic(user, password))
	r.RemoteAddr = address
	return r
}

// statusOf is what a gate answers; 0 lets in.
func statusOf(g *Gate, r *http.Request) int {
	_, _, ch := g.Authenticate(r, "")
	if ch == nil {
		return 0
	}
	return ch.Status
}

// TestGuessesAreDelayed: after a few failures an address is answered 503
// without a comparison, for a time that doubles with each failure.
func TestGuessesAreDelayed(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, Config{Now: c.now, Users: usersFile(t, "alice", "right", "bob", "right too")}, nil)
	n := 0
	guess := func(address string) int {
		n++
		return statusOf(g, from(address, fmt.Sprintf("user%d", n), fmt.Sprintf("wrong%d", n)))
	}
	const evil = "192.0.2.66:4444"
	for i := range freeByAddress + 1 {
		if got := guess(evil); got != 401 {
			t.Fatalf("guess %d: status %d, want 401", i+1, got)
		}
	}
	_, _, ch := g.Authenticate(from("192.0.2.66:5555", "alice", "right"), "")
	if ch == nil || ch.Status != 503 || len(ch.Header) > 0 || !strings.Contains(ch.Reason, "too many wrong passwords") {
		t.Fatalf("the right password from an address that guesses: %+v, want 503", ch)
	}
	if got := statusOf(g, from("192.0.2.7:1", "alice", "right")); got != 0 {
		t.Errorf("another address: status %d, want it let in", got)
	}
	wait := firstDelay
	for range 12 {
		c.add(wait - time.Millisecond)
		if got := guess(evil); got != 503 {
			t.Fatalf("within a delay of %v: status %d, want 503", wait, got)
		}
		c.add(time.Millisecond)
		if got := guess(evil); got != 401 {
			t.Fatalf("after a delay of %v: status %d, want 401", wait, got)
		}
		wait = min(2*wait, maxDelayAddress)
	}
	if wait != maxDelayAddress {
		t.Errorf("the delay is %v after 12 failures, want %v", wait, maxDelayAddress)
	}
	c.add(guessMemory)
	if got := statusOf(g, from(evil, "alice", "right")); got != 0 {
		t.Errorf("after %v: status %d, want it let in", guessMemory, got)
	}
}

// TestGuessesOfOneUser: guesses from ever new addresses delay the user, but not
// at an address where the user has logged in.
func TestGuessesOfOneUser(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, Config{Now: c.now, Users: usersFile(t, "alice", "right")}, nil)
	const home = "203.0.113.5:100"
	if got := statusOf(g, from(home, "alice", "right")); got != 0 {
		t.Fatalf("alice at home: status %d, want her let in", got)
	}
	for i := range freeByUser + 1 {
		if got := statusOf(g, from(fmt.Sprintf("198.51.100.%d:1", i), "alice", fmt.Sprintf("wrong%d", i))); got != 401 {
			t.Fatalf("guess %d: status %d, want 401", i+1, got)
		}
	}
	if got := statusOf(g, from("198.51.100.99:1", "alice", "one more")); got != 503 {
		t.Errorf("the next guess, from a new address: status %d, want 503", got)
	}
	c.add(verdictFresh) // her password is compared again
	for i := range freeByUser + 20 {
		_ = statusOf(g, from(fmt.Sprintf("198.51.101.%d:1", i), "alice", fmt.Sprintf("again%d", i)))
	}
	if got := statusOf(g, from(home, "alice", "right")); got != 0 {
		t.Errorf("alice at home, while others guess: status %d, want her let in", got)
	}
	// Somebody beside alice, at her address, has few guesses too.
	tries := 0
	for statusOf(g, from(home, "alice", fmt.Sprintf("at home %d", tries))) == 401 {
		if tries++; tries > 20 {
			t.Fatal("guesses at an address where alice has logged in are not limited")
		}
	}
	if tries != trustedFailures {
		t.Errorf("%d guesses counted at an address where alice has logged in, want %d", tries, trustedFailures)
	}
}

// TestEqualGuessesCountOnce: a client that sends the same wrong password with
// every request of a burst does not lock its address out.
func TestEqualGuessesCountOnce(t *testing.T) {
	t.Parallel()
	c := newClock()
	g := newGate(t, Config{Now: c.now, Users: usersFile(t, "alice", "right")}, nil)
	for range 100 {
		if got := statusOf(g, from("192.0.2.1:1", "alice", "outdated")); got != 401 {
			t.Fatalf("status %d, want 401", got)
		}
	}
	if got := statusOf(g, from("192.0.2.1:1", "alice", "right")); got != 0 {
		t.Errorf("status %d, want alice let in", got)
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
		"[2001:db8:1:2::1%eth0]:1": "2001:db8:1:2::/64", "[2001:db8:1:3::1]:1": "2001:db8:1:3::/64", "": "", "pipe": "pipe",
	} {
		if got := addressOf(in); got != want {
			t.Errorf("addressOf(%q) is %q, want %q", in, got, want)
		}
	}
}

// TestGuessesAreBounded: the memory of failures does not grow with their number.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	var m guesses
	now := time.Unix(1e9, 0)
	for i := range 5 * maxGuesses {
		m.failed(fmt.Sprint("address", i), fmt.Sprint("user", i), now)
		m.succeeded(fmt.Sprint("address", i), fmt.Sprint("user", i), now)
	}
	for name, tab := range map[string]*attempts{"addresses": &m.addresses, "users": &m.users, "trusted": &m.trusted} {
		if n := len(tab.cur) + len(tab.old); n > 2*maxGuesses {
			t.Errorf("%s: %d entries, want at most %d", name, n, 2*maxGuesses)
		}
	}
}

// TestFairSemaphore: a client with many attempts delays only its own, and
// cannot fill the queues.
func TestFairSemaphore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFairSemaphore(1)
		if err := s.acquire(t.Context(), "first", time.Second); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		wait := func(address string) {
			wg.Go(func() {
				err := s.acquire(t.Context(), address, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					order = append(order, address+" "+err.Error())
					return
				}
				order = append(order, address)
				s.release()
			})
			synctest.Wait()
		}
		for range queueByAddress + 3 {
			wait("evil")
		}
		wait("good")
		if len(order) != 3 {
			t.Errorf("%d attempts of one address were turned away, want 3", len(order))
		}
		order = nil
		s.release()
		wg.Wait()
		if len(order) != queueByAddress+1 || order[0] != "evil" || order[1] != "good" {
			t.Errorf("order %v, want the other address to be second of %d", order[:2], queueByAddress+1)
		}
		if s.free != 1 || s.waiting != 0 || len(s.queues) != 0 || len(s.ring) != 0 {
			t.Errorf("afterwards: %+v, want one free slot and nobody waiting", s)
		}
	})
}

// TestFairSemaphoreGivesUp: a waiter that gives up keeps no slot.
func TestFairSemaphoreGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFairSemaphore(1)
		if err := s.acquire(t.Context(), "a", time.Second); err != nil {
			t.Fatal(err)
		}
		if err := s.acquire(t.Context(), "b", time.Second); !errors.Is(err, errBusy) {
			t.Errorf("after the timeout: %v, want errBusy", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.acquire(ctx, "b", time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("without a client: %v, want the context's error", err)
		}
		s.release()
		if err := s.acquire(t.Context(), "c", time.Second); err != nil {
			t.Errorf("after the release: %v, want a slot", err)
		}
		s.release()
		if s.free != 1 || s.waiting != 0 {
			t.Errorf("afterwards: %d free, %d waiting, want 1 and 0", s.free, s.waiting)
		}
	})
}
