package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// tokenFresh is how long a token's row is believed. A revocation is in
	// force after this and one query, well within five seconds.
	tokenFresh = 3 * time.Second
	// tokenQuery is how long the store may take.
	tokenQuery = 1500 * time.Millisecond
	// maxCached bounds the tokens remembered, and apart from them the wrong
	// ones, so that nobody can push the good ones out.
	maxCached = 4096
	// maxTouched is how many uses are collected before they are written.
	maxTouched = 1024
)

// tokens finds tokens in a store and remembers them for seconds.
type tokens struct {
	store  Store
	policy *Policy
	now    func() time.Time
	flight singleflight.Group

	mu      sync.Mutex
	known   map[[32]byte]*tokenEntry
	unknown map[[32]byte]time.Time
	touched map[string]time.Time
}

type tokenEntry struct {
	asked  time.Time // before the store was asked
	row    TokenRow
	rights Rights
}

var (
	errNoToken = errors.New("the token is not known, revoked or expired")
	errStore   = errors.New("the tokens cannot be read")
)

func newTokens(s Store, p *Policy, now func() time.Time) *tokens {
	return &tokens{
		store: s, policy: p, now: now,
		known: map[[32]byte]*tokenEntry{}, unknown: map[[32]byte]time.Time{}, touched: map[string]time.Time{},
	}
}

// find returns the identity and rights of a token. The error is errNoToken,
// wraps errStore, or is the context's.
func (t *tokens) find(ctx context.Context, secret, carrier string) (Identity, Rights, error) {
	hash := HashToken(secret)
	e, err := t.entry(ctx, hash)
	if err != nil {
		return Identity{}, Rights{}, err
	}
	now := t.now()
	r := &e.row
	if subtle.ConstantTimeCompare(r.Hash[:], hash[:]) != 1 ||
		!r.Revoked.IsZero() && !now.Before(r.Revoked) || !r.Expires.IsZero() && !now.Before(r.Expires) {
		return Identity{}, Rights{}, errNoToken
	}
	t.touch(r.ID, now)
	return identityOf(r, carrier), e.rights, nil
}

func identityOf(r *TokenRow, carrier string) Identity {
	return Identity{
		Name: r.Name, Method: MethodToken, Carrier: carrier, TokenID: r.ID,
		Scopes: r.Scopes, Products: r.Products, Until: r.Expires,
	}
}

// fresh reports whether what was asked for then is still believed.
func fresh(asked, now time.Time, d time.Duration) bool {
	age := now.Sub(asked)
	return age >= 0 && age < d
}

func (t *tokens) entry(ctx context.Context, hash [32]byte) (*tokenEntry, error) {
	now := t.now()
	t.mu.Lock()
	e := t.known[hash]
	asked, wrong := t.unknown[hash]
	t.mu.Unlock()
	if e != nil && fresh(e.asked, now, tokenFresh) {
		return e, nil
	}
	if wrong && fresh(asked, now, tokenFresh) {
		return nil, errNoToken
	}
	// Who waits may go away; the others still want the answer.
	ch := t.flight.DoChan(string(hash[:]), func() (any, error) { return t.ask(hash) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case res := <-ch:
		e, _ := res.Val.(*tokenEntry)
		return e, res.Err
	}
}

// ask asks the store and remembers what it says.
func (t *tokens) ask(hash [32]byte) (*tokenEntry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenQuery)
	defer cancel()
	asked := t.now()
	row, err := t.store.TokenByHash(ctx, hash)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if len(t.unknown) >= maxCached {
			clear(t.unknown)
		}
		t.unknown[hash] = asked
		return nil, errNoToken
	case err != nil:
		return nil, errors.Join(errStore, err)
	}
	delete(t.unknown, hash)
	if len(t.known) >= maxCached {
		maps.DeleteFunc(t.known, func(_ [32]byte, e *tokenEntry) bool { return !fresh(e.asked, asked, tokenFresh) })
	}
	if len(t.known) >= maxCached {
		clear(t.known)
	}
	id := identityOf(&row, "")
	e := &tokenEntry{asked: asked, row: row, rights: t.policy.Decide(&id)}
	t.known[hash] = e
	return e, nil
}

// touch notes a use. When there are too many to hold, those that are held are
// enough: the next use of the others will be noted.
func (t *tokens) touch(id string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.touched[id]; ok && !now.After(old) || !ok && len(t.touched) >= maxTouched {
		return
	}
	t.touched[id] = now
}

// flush writes the uses that were noted. What cannot be written is kept.
func (t *tokens) flush(ctx context.Context) error {
	t.mu.Lock()
	used := t.touched
	t.touched = map[string]time.Time{}
	t.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := t.store.TouchToken(ctx, used)
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		for id, at := range used {
			if at.After(t.touched[id]) {
				t.touched[id] = at
			}
		}
	}
	return err
}
