package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// keysFresh is how long keys are used before they are read again.
	keysFresh = time.Hour
	// keysPause is the least time between two attempts to read the keys of an issuer.
	keysPause = time.Minute
	// keysLast is how long the last keys are used while they cannot be read again.
	keysLast = 24 * time.Hour
	// keysTimeout limits one attempt.
	keysTimeout = 10 * time.Second

	maxKeys      = 100
	maxKeyID     = 256       // bytes
	maxDiscovery = 64 << 10  // bytes
	maxKeySet    = 512 << 10 // bytes
	maxUnknown   = 256       // ids of unknown keys
)

// RSA keys have this many bits.
const minRSA, maxRSA = 2048, 8192

// keySet has the keys of one issuer.
type keySet struct {
	issuer, file string
	client       *http.Client // nil: none
	now          func() time.Time
	log          *slog.Logger
	flight       singleflight.Group

	mu    sync.Mutex
	keys  map[string]any // by id; *rsa.PublicKey or *ecdsa.PublicKey
	since time.Time      // when the keys were read, just before that
	tried time.Time      // when that was last tried
	// unknown has the ids that were asked for in vain, with the time of the first
	// request.
	unknown map[string]time.Time
	// seen is the state of the file when it was last read; failed says that this failed.
	seen   fileState
	failed bool
}

// fileState tells whether a file has changed.
type fileState struct {
	size    int64
	changed time.Time
}

// state returns the state of the file of keys: the zero value if there is none.
func (s *keySet) state() fileState {
	if s.file == "" {
		return fileState{}
	}
	at, err := os.Stat(s.file)
	if err != nil {
		return fileState{}
	}
	return fileState{at.Size(), at.ModTime()}
}

func newKeySet(issuer, file string, opt Options) *keySet {
	s := &keySet{issuer: issuer, file: file, now: opt.Now, log: opt.Log, unknown: map[string]time.Time{}}
	if file == "" && opt.Client != nil {
		s.client = opt.Client(issuer)
	}
	return s
}

// key returns the public key of an id.
func (s *keySet) key(ctx context.Context, id, alg string) (any, error) {
	first := true
	for {
		key, state := s.lookup(id, first)
		switch state {
		case keyKnown:
			if !fits(key, alg) {
				return nil, refuse("the key %.100q of the issuer is not for the algorithm %s", id, alg)
			}
			return key, nil
		case keyUnknown:
			return nil, refuse("the issuer %s has no key %.100q", s.issuer, id)
		case keyWait:
			return nil, fmt.Errorf("%w: %s", ErrUnavailable, s.issuer)
		}
		first = false
		ch := s.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
			defer cancel()
			if s.justTried() {
				return nil, nil
			}
			return s.read(ctx)
		})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ch:
			// An error is logged. The last keys may still count.
		}
	}
}

// States of a lookup.
type keyState int

const (
	keyKnown   keyState = iota
	keyUnknown          // the issuer has no such key
	keyRead             // the keys must be read first
	keyWait             // they cannot be read now
)

// lookup looks for a key in the cache. may says that the keys may be read before
// the answer.
func (s *keySet) lookup(id string, may bool) (any, keyState) {
	state := s.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	ago := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 1 << 62
		}
		return now.Sub(t).Abs() // a clock that was set back must not stop reading
	}
	fresh := keysFresh
	if s.file != "" {
		fresh = keysPause
	}
	age := ago(s.since)
	changed := s.seen != state
	may = may && (ago(s.tried) >= keysPause || changed)
	key, ok := s.keys[id]
	switch {
	case ok && (age < fresh && !(changed && may) || !may && age < keysLast):
		return key, keyKnown
	case may:
		s.asked(id, now)
		return nil, keyRead
	case ok || age >= keysLast:
		return nil, keyWait
	case s.file != "" && !s.failed:
		return nil, keyUnknown // a file has what it has: nothing changes by waiting
	}
	// The keys were read lately. The issuer may have got this one since.
	if first, asked := s.unknown[id]; asked && !s.since.Before(first) {
		return nil, keyUnknown
	}
	s.asked(id, now)
	return nil, keyWait
}

// justTried reports whether another goroutine has tried to read the keys since the
// caller looked.
func (s *keySet) justTried() bool {
	state := s.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tried.IsZero() && s.now().Sub(s.tried).Abs() < keysPause && s.seen == state
}

// asked remembers that a key was asked for in vain. The caller holds mu.
func (s *keySet) asked(id string, now time.Time) {
	if _, ok := s.unknown[id]; ok {
		return
	}
	if len(s.unknown) >= maxUnknown {
		clear(s.unknown)
	}
	s.unknown[id] = now
}

// read reads the keys of the issuer. Without success the last ones stay.
func (s *keySet) read(ctx context.Context) (any, error) {
	began, state := s.now(), s.state()
	s.mu.Lock()
	s.tried, s.seen = began, state
	s.mu.Unlock()
	keys, err := s.load(ctx)
	if err != nil {
		s.mu.Lock()
		s.failed = true
		s.mu.Unlock()
		s.log.Warn("cannot read the keys of an issuer of id tokens; the last ones stay in use for a day", "issuer", s.issuer, "error", err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.keys {
		if keys[id] == nil {
			s.asked(id, began) // it was withdrawn
		}
	}
	s.keys, s.since, s.failed = keys, began, false
	for id := range keys {
		delete(s.unknown, id)
	}
	return nil, nil
}

func (s *keySet) load(ctx context.Context) (map[string]any, error) {
	if s.file != "" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := readAll(f, maxKeySet)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
		keys, err := parseKeys(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
		return keys, nil
	}
	if s.client == nil {
		return nil, errors.New("this server makes no connections; set jwks_file")
	}
	b, err := s.discovery(ctx)
	if err != nil {
		return nil, err
	}
	where, err := parseDiscovery(b, s.issuer)
	if err != nil {
		return nil, err
	}
	if b, err = s.get(ctx, where, maxKeySet); err != nil {
		return nil, err
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return keys, nil
}

// discovery returns the metadata of the issuer.
func (s *keySet) discovery(ctx context.Context) ([]byte, error) {
	return s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", maxDiscovery)
}

func (s *keySet) get(ctx context.Context, where string, limit int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", where, resp.StatusCode)
	}
	b, err := readAll(resp.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return b, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return b, err
}

// parseDiscovery returns the URL of the keys in the metadata of an issuer (OpenID
// Connect Discovery 1.0 section 3).
func parseDiscovery(b []byte, issuer string) (string, error) {
	var d struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return "", fmt.Errorf("the metadata of the issuer are no JSON: %w", err)
	}
	if d.Issuer != issuer {
		return "", fmt.Errorf("the metadata are those of the issuer %.200q", d.Issuer)
	}
	if !isEndpoint(d.Keys, issuer) {
		return "", fmt.Errorf("the metadata have no URL of keys with https, but %.200q", d.Keys)
	}
	return d.Keys, nil
}

// isEndpoint reports whether a text is a URL that the metadata of an issuer may name.
func isEndpoint(text, issuer string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http" && strings.HasPrefix(issuer, "http:"))
}

// parseKeys reads the keys for signatures in a key set (RFC 7517 section 5). Keys
// of other kinds are omitted.
func parseKeys(b []byte) (map[string]any, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("the key set is no JSON: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys; the limit is %d", len(set.Keys), maxKeys)
	}
	keys := map[string]any{}
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.KeyID == "" || len(k.KeyID) > maxKeyID || k.Use != "" && k.Use != "sig" {
			continue
		}
		// Another algorithm in the key means that it must not be used for these.
		if k.Algorithm != "" && !fits(k.Key, k.Algorithm) {
			continue
		}
		switch p := k.Key.(type) {
		case *rsa.PublicKey:
			if n := p.N.BitLen(); n < minRSA || n > maxRSA {
				continue
			}
		case *ecdsa.PublicKey:
			if p.Curve != elliptic.P256() {
				continue
			}
		default:
			continue
		}
		keys[k.KeyID] = k.Key
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no RSA or P-256 key for signatures")
	}
	return keys, nil
}

// fits reports whether a key is for an algorithm.
func fits(key any, alg string) bool {
	switch key.(type) {
	case *rsa.PublicKey:
		return alg == string(jose.RS256)
	case *ecdsa.PublicKey:
		return alg == string(jose.ES256)
	}
	return false
}
