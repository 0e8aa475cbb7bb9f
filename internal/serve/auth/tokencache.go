package auth

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// tokenFresh is how long a token's row is cached. A revocation takes
	// effect after this time and one query, within five seconds.
	tokenFresh = 3 * time.Second
	// tokenUnsure is the same time where revocations are noticed by the generation
	// of the store, while that is not known.
	tokenUnsure = time.Second
	// tokenQuery is the time limit of a query to the store.
	tokenQuery = 1500 * time.Millisecond
	// maxCached limits the cache of tokens and, separately, the negative cache
	// of unknown ones, so that guesses cannot evict valid tokens.
	maxCached = 4096
	// maxTouched limits the uses that are collected before they are written.
	maxTouched = 1024
)

// tokens looks tokens up in a store and caches them for seconds.
type tokens struct {
	store  Store
	policy func() *Policy // in force
	now    func() time.Time
	// generation changes whenever a token is revoked; nil: that is not reported.
	// ok is false while it is not known.
	generation func() (_ uint64, ok bool)
	// makerRights returns the rights of the maker of a token now; nil: tokens are not
	// limited by those of their makers.
	makerRights func(*root) (Rights, error)
	// byLogin returns the identity and the rights of the access token of a login; nil: there
	// are none.
	byLogin func(ctx context.Context, e *tokenEntry, carrier string) (Identity, Rights, error)
	flight  singleflight.Group

	mu      sync.Mutex
	known   map[[32]byte]*tokenEntry
	unknown map[[32]byte]time.Time
	touched map[string]time.Time
}

type tokenEntry struct {
	asked  time.Time // just before the query to the store
	state  uint64    // the generation then
	known  bool      // it is known
	row    TokenRow
	upload Uploads
	policy *Policy
	rights Rights // by the policy, without regard to the maker
	root   root
	job    string          // of an exchanged token
	login  credentialFacts // of an access token
}

func newTokens(s Store, p func() *Policy, now func() time.Time, generation func() (uint64, bool)) *tokens {
	return &tokens{
		store: s, policy: p, now: now, generation: generation,
		known: map[[32]byte]*tokenEntry{}, unknown: map[[32]byte]time.Time{}, touched: map[string]time.Time{},
	}
}

// find returns the identity and rights of a token. The error is errNoToken or the
// context's, or it wraps errStore.
func (t *tokens) find(ctx context.Context, secret, carrier string) (Identity, Rights, error) {
	return t.findHash(ctx, HashToken(secret), carrier)
}

// findHash is find for the hash of a token.
func (t *tokens) findHash(ctx context.Context, hash [32]byte, carrier string) (Identity, Rights, error) {
	id, rights, err := t.look(ctx, hash, carrier)
	if err == nil {
		t.touch(cmp.Or(id.access, id.TokenID), t.now())
	}
	return id, rights, err
}

// look is findHash, but no use of the token.
func (t *tokens) look(ctx context.Context, hash [32]byte, carrier string) (Identity, Rights, error) {
	e, err := t.entry(ctx, hash)
	if err != nil {
		return Identity{}, Rights{}, err
	}
	r := &e.row
	access := r.Kind == KindAccess && t.byLogin != nil
	if r.Kind != "" && !access || subtle.ConstantTimeCompare(r.Hash[:], hash[:]) != 1 || r.ended(t.now()) {
		return Identity{}, Rights{}, errNoToken
	}
	if access {
		return t.byLogin(ctx, e, carrier)
	}
	rights, err := t.limit(e.rights, &e.root)
	if err != nil {
		return Identity{}, Rights{}, err
	}
	id := identityOf(r, carrier)
	id.Uploads, id.hash, id.job = e.upload, hash, e.job
	return id, rights, nil
}

// limit returns what is left of the rights of a token when its root is looked at: they
// are those that its maker has, too.
func (t *tokens) limit(rights Rights, m *root) (Rights, error) {
	if t.makerRights == nil || !m.limited() {
		return rights, nil
	}
	its, err := t.makerRights(m)
	if err != nil {
		return Rights{}, err
	}
	return rights.both(&its), nil
}

func identityOf(r *TokenRow, carrier string) Identity {
	return Identity{
		Name: r.Name, Method: MethodToken, Carrier: carrier, TokenID: r.ID,
		Scopes: r.Scopes, Products: r.Products, Until: r.Expires, Exchanged: r.Origin != [32]byte{},
	}
}

// fresh reports whether an entry made at asked is less than d old.
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
	if e != nil && t.usable(e, now) {
		return e, nil
	}
	if wrong && fresh(asked, now, tokenFresh) {
		return nil, errNoToken
	}
	// One caller may give up while others still wait for the same query.
	ch := t.flight.DoChan(string(hash[:]), func() (any, error) { return t.query(hash) })
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case res := <-ch:
		e, _ := res.Val.(*tokenEntry)
		return e, res.Err
	}
}

// usable reports whether an entry may answer without a query.
func (t *tokens) usable(e *tokenEntry, now time.Time) bool {
	if e.policy != t.policy() {
		return false
	}
	if t.generation == nil {
		return fresh(e.asked, now, tokenFresh)
	}
	g, ok := t.generation()
	switch {
	case !ok || !e.known:
		return fresh(e.asked, now, tokenUnsure)
	case g != e.state:
		return false
	}
	return fresh(e.asked, now, tokenFresh)
}

// query queries the store and caches the result.
func (t *tokens) query(hash [32]byte) (*tokenEntry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenQuery)
	defer cancel()
	asked := t.now()
	var state uint64
	var known bool
	if t.generation != nil {
		state, known = t.generation() // before the row is read
	}
	policy := t.policy()
	row, err := t.store.TokenByHash(ctx, hash)
	var from root
	var facts tokenFacts
	var login credentialFacts
	if err == nil && row.Kind == KindAccess {
		err = json.Unmarshal([]byte(row.Facts), &login)
	}
	if err == nil && row.Kind == "" {
		if facts, err = row.facts(); err == nil {
			from, err = rootOf(row, func(id string) (TokenRow, error) { return t.store.TokenByID(ctx, id) })
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMaker):
		if len(t.unknown) >= maxCached {
			clear(t.unknown)
		}
		t.unknown[hash] = asked
		return nil, errNoToken
	case err != nil:
		return nil, errors.Join(errStore, err)
	}
	upload, err := row.uploads()
	if err != nil {
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
	e := &tokenEntry{
		asked: asked, state: state, known: known, row: row, upload: upload, policy: policy, rights: policy.Decide(&id), root: from,
		job: facts.job(row.Products), login: login,
	}
	t.known[hash] = e
	return e, nil
}

// usedSince reports whether a sign-in was begun or used after a time.
func (t *tokens) usedSince(r *TokenRow, since time.Time) bool {
	if r.Created.After(since) || r.LastUsed.After(since) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.touched[r.ID].After(since)
}

// forget drops the cached row of an id, and those of the access tokens of a login.
func (t *tokens) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.known, func(_ [32]byte, e *tokenEntry) bool {
		return e.row.ID == id || e.row.Kind == KindAccess && e.row.Parent == id
	})
}

// touch records a use. If too many are collected already, further tokens are
// recorded at a later use.
func (t *tokens) touch(id string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.touched[id]; ok && !now.After(old) || !ok && len(t.touched) >= maxTouched {
		return
	}
	t.touched[id] = now
}

// flush writes the recorded uses. After an error they stay recorded.
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
