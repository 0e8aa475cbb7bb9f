package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// Gate authorizes requests. It is safe for concurrent use.
type Gate struct {
	off      bool // see Everybody
	cfg      Config
	log      *slog.Logger
	now      func() time.Time
	inForce  atomic.Pointer[Policy]
	tokens   *tokens
	users    *passwords // nil: none
	tickets  negotiator // nil: none
	store    Store
	jobs     *oidc.Verifier // of id tokens of CI jobs; nil: none are exchanged
	login    *oidc.Login    // of browsers; nil: none
	attempts guesses        // to sign in at the OpenID provider, by address
	codes    guesses        // of codes that people type
	rules    certRules
	offers   []string
	ends     endpoints // the certificates that this server shows

	stop   chan struct{}
	done   sync.WaitGroup
	closed sync.Once

	mu     sync.Mutex
	warned map[string]time.Time // when a kind of warning was last given
}

// New returns a gate. Errors name the file or setting at fault. log may be nil.
// The caller must call Close.
func New(cfg Config, store Store, log *slog.Logger) (*Gate, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if store == nil {
		store = noStore{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Realm == "" {
		cfg.Realm = "symdepot"
	}
	g := &Gate{cfg: cfg, log: log, now: cfg.Now, store: store, stop: make(chan struct{}), warned: map[string]time.Time{}}
	policy, err := cfg.policy()
	if err != nil {
		return nil, err
	}
	g.inForce.Store(policy)
	if g.rules, err = newCertRules(cfg.Certificates); err != nil {
		return nil, err
	}
	if cfg.Users != "" {
		if g.users, err = openPasswords(cfg.Users, log, cfg.Now); err != nil {
			return nil, err
		}
	}
	if cfg.Keytab != "" {
		if g.tickets, err = openKeytab(&cfg, &g.ends, log); err != nil {
			return nil, err
		}
		g.offers = append(g.offers, wire.Negotiate)
	}
	realm := strings.NewReplacer(`"`, `'`, `\`, `/`).Replace(cfg.Realm)
	if cfg.Basic || cfg.Users != "" || cfg.Keytab == "" {
		g.offers = append(g.offers, wire.Basic+` realm="`+realm+`", charset="UTF-8"`)
	}
	// Bearer is the last one: clients that take the first scheme they know, and old ones
	// that read the first field only, find what they found without Bearer.
	g.offers = append(g.offers, wire.Bearer+` realm="`+realm+`"`)
	if len(cfg.OIDC) > 0 {
		if g.jobs, err = oidc.New(cfg.OIDC, oidc.Options{Client: cfg.OIDCClient, Now: cfg.Now, Log: log}); err != nil {
			return nil, err
		}
	}
	if cfg.SignIn != nil {
		if g.login, err = oidc.NewLogin(*cfg.SignIn, oidc.Options{Client: cfg.OIDCClient, Now: cfg.Now, Log: log}); err != nil {
			return nil, err
		}
	}
	g.tokens = newTokens(store, g.policy, cfg.Now, cfg.Generation)
	m := &makers{policy: g.policy, tickets: g.tickets != nil, certs: len(g.rules) > 0, signIn: g.login != nil}
	if g.users != nil {
		m.user = g.users.has
	}
	g.tokens.makerRights = func(from *root) (Rights, error) { return m.rights(from.createdBy, &from.facts) }
	g.tokens.byLogin = g.byLogin
	g.done.Go(func() { every(pollEvery, g.stop, g.tick) })
	return g, nil
}

// policy returns the policy in force.
func (g *Gate) policy() *Policy { return g.inForce.Load() }

// UsePolicy puts a policy in force for all requests that come from now on, whatever their
// credentials are, and reports whether it differs from the one before. may is given what
// anonymous clients could do; after its error, or that of a policy that is not valid, the one
// before stays.
func (g *Gate) UsePolicy(c PolicyConfig, may func(anonymous Rights) error) (changed bool, err error) {
	cfg := g.cfg
	cfg.Policy = c
	p, err := cfg.policy()
	if err != nil {
		return false, err
	}
	if err := may(p.anonymous); err != nil {
		return false, err
	}
	return !reflect.DeepEqual(g.inForce.Swap(p).config, c), nil
}

// PolicyHash returns a hash of what decides about access by the configuration and its
// files: the policy, the rules for certificates, and the file of users as it was last
// read. Servers of one depot with different hashes give clients different rights.
func (g *Gate) PolicyHash() string {
	h := sha256.New()
	rules := []any{g.policy().config, g.cfg.Certificates, g.cfg.Realms, g.cfg.OIDC}
	if in := g.cfg.SignIn; in != nil {
		rules = append(rules, in.Issuer, in.ClientID, in.Name, in.Groups)
	}
	b, err := json.Marshal(rules)
	if err != nil {
		return ""
	}
	h.Write(b)
	if g.users != nil {
		sum := g.users.file.sum()
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Reload reads the file of users and the keytab again if they changed. The gate
// does so by itself every half a minute.
func (g *Gate) Reload() {
	if g.users != nil {
		g.users.file.poll()
	}
	if g.tickets != nil {
		g.tickets.poll()
	}
}

// tick does the periodic work.
func (g *Gate) tick() {
	g.Reload()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.tokens.flush(ctx); err != nil {
		g.warn("touch", "cannot record when tokens were last used", "error", err)
	}
}

// Close ends the background work and records when tokens were last used.
func (g *Gate) Close() error {
	g.closed.Do(func() { close(g.stop) })
	g.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return g.tokens.flush(ctx)
}

// HTTP2 reports whether listeners should offer HTTP/2. Negotiate authenticates
// HTTP/1 connections (RFC 4559 section 6).
func (g *Gate) HTTP2() bool { return g.tickets == nil }

// Open returns the rights of anonymous clients, and whether they may read
// everything. If so, requests without credentials that only read need not be
// passed to Authenticate.
func (g *Gate) Open() (Rights, bool) {
	r := g.policy().anonymous
	return r, r.All
}

// OpenTo reports whether Authenticate would let a request without a path token
// read everything as an anonymous client. It only looks at the header, and
// returns false where the connection may identify the client.
func (g *Gate) OpenTo(r *http.Request) bool {
	return g.off || g.policy().anonymous.All && !g.cfg.PerConnection && (len(g.rules) == 0 || r.TLS == nil) && !carriesAny(r.Header)
}

type connKey struct{}

// connState is the identity that a connection has proved.
type connState struct {
	mu sync.Mutex
	id Identity
}

// ConnContext is a function for http.Server.ConnContext.
func (g *Gate) ConnContext(ctx context.Context, _ net.Conn) context.Context {
	if !g.cfg.PerConnection {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, &connState{})
}

// Authenticate returns the identity of a request and its rights. pathToken is
// the token that PathToken found in the path, if any; it takes precedence over
// all other credentials. If the challenge is not nil, it must be sent as the
// response.
func (g *Gate) Authenticate(r *http.Request, pathToken string) (Identity, Rights, *Challenge) {
	if g.off {
		return Identity{}, g.policy().anonymous, nil
	}
	if pathToken != "" {
		id, rights, err := g.byToken(r.Context(), pathToken, "path")
		if err != nil {
			return Identity{}, Rights{}, g.failed(err, nil, true)
		}
		return id, rights, nil
	}
	if !carriesAny(r.Header) {
		return g.byConnection(r)
	}
	c := readCredential(r.Header)
	id, rights, err := g.verify(r, &c)
	cs := g.connection(r)
	if err != nil {
		if cs != nil {
			cs.set(Identity{})
		}
		if anonymous, open := g.Open(); open && !errors.Is(err, errStore) {
			// The credentials may be outdated or meant for another server;
			// reading needs none.
			return Identity{Failure: err.Error()}, anonymous, nil
		}
		return Identity{Reply: id.Reply}, Rights{}, g.failed(err, &id, false)
	}
	if !rights.Admitted {
		return id, Rights{}, notAdmitted(&id)
	}
	if cs != nil && c.kind == kindNegotiate {
		cs.set(id)
	}
	return id, rights, nil
}

// byConnection authenticates a request without credentials by its connection.
func (g *Gate) byConnection(r *http.Request) (Identity, Rights, *Challenge) {
	anonymous, _ := g.Open()
	if cs := g.connection(r); cs != nil {
		if id := cs.get(); !id.Anonymous() && g.now().Before(id.Until) {
			rights := g.policy().Decide(&id)
			if !rights.Admitted {
				return id, Rights{}, notAdmitted(&id)
			}
			return id, rights, nil
		}
	}
	if len(g.rules) > 0 && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		id, err := g.rules.identify(r.TLS, g.now())
		if err == nil {
			rights := g.policy().Decide(&id)
			if !rights.Admitted {
				return id, Rights{}, notAdmitted(&id)
			}
			return id, rights, nil
		}
		if !anonymous.Admitted {
			return Identity{}, Rights{}, g.failed(err, nil, false)
		}
	}
	if !anonymous.Admitted {
		return Identity{}, Rights{}, g.failed(errNothing, nil, false)
	}
	return Identity{}, anonymous, nil
}

var (
	errNothing = errors.New("the request has no credentials")
	errMethod  = errors.New("this server does not accept credentials of this kind")
)

// verify verifies a credential. On an error, only the reply of the identity is
// set.
func (g *Gate) verify(r *http.Request, c *credential) (Identity, Rights, error) {
	switch c.kind {
	case kindToken:
		return g.byToken(r.Context(), c.secret, c.carrier)
	case kindPassword:
		if g.users == nil {
			return Identity{}, Rights{}, errMethod
		}
		if err := g.users.check(r.Context(), r.RemoteAddr, c.user, c.secret); err != nil {
			return Identity{}, Rights{}, err
		}
		id := Identity{Name: c.user, Method: MethodBasic, Carrier: c.carrier}
		return id, g.policy().Decide(&id), nil
	case kindNegotiate:
		if g.tickets == nil {
			return Identity{}, Rights{}, errMethod
		}
		t, reply, err := g.tickets.accept(c.blob, r.RemoteAddr, r.TLS != nil)
		if reply != "" {
			reply = wire.Negotiate + " " + reply
		}
		if err != nil {
			g.warn("ticket", "rejected a Kerberos ticket", "reason", err, "remote", r.RemoteAddr)
			return Identity{Reply: reply}, Rights{}, err
		}
		id := Identity{Name: t.principal, Method: MethodNegotiate, Carrier: c.carrier, SIDs: t.sids, Until: t.until, Reply: reply}
		return id, g.policy().Decide(&id), nil
	}
	if c.why == whyNTLM {
		g.warn("ntlm", whyNTLM, "remote", r.RemoteAddr)
	}
	return Identity{}, Rights{}, errors.New(c.why)
}

func (g *Gate) byToken(ctx context.Context, secret, carrier string) (Identity, Rights, error) {
	if !IsToken(secret) {
		return Identity{}, Rights{}, errNoToken
	}
	id, rights, err := g.tokens.find(ctx, secret, carrier)
	if errors.Is(err, errStore) {
		g.log.Error("cannot look up a token", "error", err)
	}
	return id, rights, err
}

// RightsOf returns the rights that a request with a token would have now: none, if the
// token is expired or revoked, or its maker may not use the server any more.
func (g *Gate) RightsOf(ctx context.Context, row *TokenRow) (Rights, error) {
	if row.ended(g.now()) {
		return Rights{}, nil
	}
	from, err := rootOf(*row, func(id string) (TokenRow, error) { return g.store.TokenByID(ctx, id) })
	if err == nil {
		id := identityOf(row, "")
		rights, err := g.tokens.limit(g.policy().Decide(&id), &from)
		if err == nil {
			return rights, nil
		}
	}
	if errors.Is(err, errNoToken) {
		err = nil
	}
	return Rights{}, err
}

// failed turns an error into a response. path: the credentials were a token in the path.
// The response to an invalid one is that to any other invalid credentials: proxies would
// remember 404 as a miss, and nobody would see that the token is revoked or expired.
func (g *Gate) failed(err error, id *Identity, path bool) *Challenge {
	c := &Challenge{
		Status: http.StatusUnauthorized,
		Text:   "credentials are required; make a token with: symdepot token new --name NAME", Reason: err.Error(),
	}
	switch {
	case errors.Is(err, errStore), errors.Is(err, errBusy), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.Status, c.Text = http.StatusServiceUnavailable, "credentials cannot be checked now"
		return c
	case errors.As(err, new(*DelayedError)):
		c.Status, c.Text = http.StatusServiceUnavailable, err.Error()
		return c
	}
	if skew, ok := errors.AsType[*skewError](err); ok {
		c.Text = skew.Error()
	} else if path {
		c.Text = "invalid credentials: the token in the address is wrong, revoked or expired"
	} else if !errors.Is(err, errNothing) {
		c.Text = "invalid credentials: the token or the password is wrong, revoked or expired"
	}
	c.Header = g.offers
	if id != nil && id.Reply != "" {
		c.Header = append([]string{id.Reply}, g.offers[1:]...)
	}
	return c
}

func notAdmitted(id *Identity) *Challenge {
	c := &Challenge{
		Status: http.StatusForbidden,
		Text: "not authorized to use this server: it knows " + id.Name + ", who has no rights there; " +
			"an administrator gives rights with the key auth.grants",
		Reason: id.Name + " is not authorized",
	}
	if id.Reply != "" {
		c.Header = []string{id.Reply}
	}
	return c
}

// NewChallenge returns the challenge for a request that needs credentials even if
// everything may be read without, such as an upload.
func (g *Gate) NewChallenge() *Challenge { return g.failed(errNothing, nil, false) }

// forwarded are the header fields of requests through a proxy, whose connections
// carry requests of several clients.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

// connection returns the state of a request's connection, or nil if the
// connection must not authenticate the request.
func (g *Gate) connection(r *http.Request) *connState {
	if !g.cfg.PerConnection || r.ProtoMajor != 1 {
		return nil
	}
	for _, h := range forwarded {
		if r.Header[h] != nil {
			return nil
		}
	}
	cs, _ := r.Context().Value(connKey{}).(*connState)
	return cs
}

func (cs *connState) get() Identity {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.id
}

func (cs *connState) set(id Identity) {
	id.Reply = ""
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.id = id
}

// warn logs a warning, but each kind at most every ten seconds, so that failing
// clients cannot fill the disk.
func (g *Gate) warn(kind, msg string, args ...any) {
	now := g.now()
	g.mu.Lock()
	last, ok := g.warned[kind]
	again := !ok || !fresh(last, now, 10*time.Second)
	if again {
		g.warned[kind] = now
	}
	g.mu.Unlock()
	if again {
		g.log.Warn(msg, args...)
	}
}

// ClientAuth returns the client authentication for a listener's TLS;
// authorities says whether the listener has certificate authorities for clients.
// If so, one of them must have signed every certificate, even those with a
// fingerprint rule; if not, only fingerprint rules apply. The handshake accepts
// clients without a certificate: they may have other credentials.
func (g *Gate) ClientAuth(authorities bool) tls.ClientAuthType {
	switch {
	case len(g.rules) == 0:
		return tls.NoClientCert
	case authorities:
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequestClientCert
}

// judge returns who a sign-in or a login is of and what it may do now. It returns an error if the
// credentials that it was begun with have ended.
func (g *Gate) judge(ctx context.Context, name string, facts *signInFacts) (Identity, Rights, error) {
	id := Identity{Name: name, Method: facts.Method}
	switch facts.Method {
	case MethodToken:
		var hash [32]byte
		if n, err := hex.Decode(hash[:], []byte(facts.Token)); err != nil || n != len(hash) {
			return Identity{}, Rights{}, errLoginGone
		}
		id, rights, err := g.tokens.findHash(ctx, hash, "")
		if errors.Is(err, errNoToken) {
			err = errLoginGone
		}
		return id, rights, err
	case MethodBasic:
		if g.users == nil || facts.Password == "" || g.users.fingerprint(name) != facts.Password {
			return Identity{}, Rights{}, errLoginGone
		}
	case MethodNegotiate:
		if id.SIDs = facts.SIDs; g.tickets == nil {
			return Identity{}, Rights{}, errLoginGone
		}
	case MethodCertificate:
		if len(g.rules) == 0 {
			return Identity{}, Rights{}, errLoginGone
		}
	case MethodOIDC:
		if id.Groups = facts.Groups; g.login == nil || g.login.Issuer() != facts.Issuer {
			return Identity{}, Rights{}, errLoginGone
		}
	default:
		return Identity{}, Rights{}, errLoginGone
	}
	return id, g.policy().Decide(&id), nil
}
