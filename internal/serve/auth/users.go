package auth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const (
	// verdictFresh is how long the result of a comparison is cached: bcrypt
	// is slow by design.
	verdictFresh = 10 * time.Second
	// maxVerdicts limits the cached results.
	maxVerdicts = 4096
	// maxCost limits the work of one bcrypt comparison. Each step doubles it; 14
	// takes about a second.
	maxCost = 14
	// passwordWait is how long a comparison waits in the queue.
	passwordWait = 5 * time.Second
)

// passwords compares passwords with a file of user:bcrypt lines, as
// "htpasswd -B" writes them.
type passwords struct {
	file  *reloaded[users]
	now   func() time.Time
	slots *fairSemaphore // limits concurrent comparisons
	key   [32]byte       // keys the verdicts, so that no password is kept in memory
	tried guesses

	mu       sync.Mutex
	verdicts map[[32]byte]verdict
}

// users are the password hashes by user name. nobody is the hash for unknown users:
// comparing with it takes as long as comparing with the others.
type users struct {
	hashes map[string][]byte
	nobody []byte
}

type verdict struct {
	at   time.Time
	good bool
}

func openPasswords(path string, log *slog.Logger, now func() time.Time) (*passwords, error) {
	f, err := newReloaded(log, []string{path}, func(b [][]byte) (*users, error) { return parsePasswords(path, b[0]) })
	if err != nil {
		return nil, err
	}
	p := &passwords{
		file: f, now: now, verdicts: map[[32]byte]verdict{},
		slots: newFairSemaphore(max(1, runtime.GOMAXPROCS(0)/2)),
	}
	_, _ = rand.Read(p.key[:])
	return p, nil
}

func parsePasswords(path string, b []byte) (*users, error) {
	u := &users{hashes: map[string][]byte{}}
	n, most := 0, bcrypt.MinCost
	for line := range bytes.Lines(b) {
		n++
		s := strings.TrimSpace(string(line))
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		user, hash, ok := strings.Cut(s, ":")
		if !ok {
			return nil, fmt.Errorf("%s:%d: no colon between user and password", path, n)
		}
		if err := checkName(user); err != nil {
			return nil, fmt.Errorf("%s:%d: the user name %w", path, n, err)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil || len(hash) != 60 {
			return nil, fmt.Errorf("%s:%d: the password of %q is not a bcrypt hash; make one with htpasswd -B", path, n, user)
		}
		if cost > maxCost {
			return nil, fmt.Errorf("%s:%d: the password of %q takes too long to compare: its bcrypt cost is %d; the limit is %d",
				path, n, user, cost, maxCost)
		}
		if u.hashes[user] != nil {
			return nil, fmt.Errorf("%s:%d: the user %q is listed twice", path, n, user)
		}
		u.hashes[user] = []byte(hash)
		most = max(most, cost)
	}
	u.nobody = fmt.Appendf(nil, "$2a$%02d$7EqJtq98hPqEX7fNZaFWoOa4wrv0p3Tj5Y9SWUgeSD3iMQ6eOtZbS", most)
	return u, nil
}

// check compares the password of a client at remote. The error is errPassword,
// errBusy, a *DelayedError or the context's.
func (p *passwords) check(ctx context.Context, remote, user, password string) error {
	u := p.users()
	hash, known := u.hashes[user]
	if !known {
		hash = u.nobody
	}
	if len(password) > 72 {
		// bcrypt compares only 72 bytes. A longer password must not be accepted.
		password, known = password[:72], false
	}
	key := p.verdictKey(user, password, hash)
	if v, ok := p.verdict(key); ok {
		return v.err(known)
	}
	address := addressOf(remote)
	if wait := p.tried.wait(address, user, p.now()); wait > 0 {
		return &DelayedError{wait, "passwords"}
	}
	if err := p.slots.acquire(ctx, address, passwordWait); err != nil {
		return err
	}
	defer p.slots.release()
	// While this attempt waited, an equal one may have been compared, and others
	// may have failed.
	if v, ok := p.verdict(key); ok {
		return v.err(known)
	}
	if wait := p.tried.wait(address, user, p.now()); wait > 0 {
		return &DelayedError{wait, "passwords"}
	}
	v := verdict{p.now(), bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil}
	p.remember(key, v)
	err := v.err(known)
	if err != nil {
		p.tried.failed(address, user, p.now())
	} else {
		p.tried.succeeded(address, user, p.now())
	}
	return err
}

// users returns the users of the file, which is read again within a second of a change.
func (p *passwords) users() *users {
	p.file.pollQuickly(p.now())
	return p.file.get()
}

// has reports whether there is a user.
func (p *passwords) has(user string) bool { return p.users().hashes[user] != nil }

// fingerprint identifies the stored password of a user, without telling it; empty if
// there is no such user.
func (p *passwords) fingerprint(user string) string {
	hash, known := p.users().hashes[user]
	if !known {
		return ""
	}
	sum := hash16(user, string(hash))
	return hex.EncodeToString(sum[:])
}

// verdictKey returns the cache key of a comparison.
func (p *passwords) verdictKey(user, password string, hash []byte) (key [32]byte) {
	mac := hmac.New(sha256.New, p.key[:])
	fmt.Fprintf(mac, "%d %s %d %s %s", len(user), user, len(password), password, hash)
	mac.Sum(key[:0])
	return key
}

// verdict returns a cached result.
func (p *passwords) verdict(key [32]byte) (verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.verdicts[key]
	return v, ok && fresh(v.at, p.now(), verdictFresh)
}

// err returns the error for a result; known says whether the user exists.
func (v verdict) err(known bool) error {
	if !v.good || !known {
		return errPassword
	}
	return nil
}

func (p *passwords) remember(key [32]byte, v verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.verdicts) >= maxVerdicts {
		maps.DeleteFunc(p.verdicts, func(_ [32]byte, o verdict) bool { return !fresh(o.at, v.at, verdictFresh) })
	}
	if len(p.verdicts) >= maxVerdicts {
		clear(p.verdicts)
	}
	p.verdicts[key] = v
}
