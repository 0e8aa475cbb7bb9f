package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config says how those who ask are known. The zero value knows tokens alone,
// demands nothing and lets everybody read.
type Config struct {
	Policy PolicyConfig

	// Users is a file of user:bcrypt lines; empty takes no passwords.
	Users string
	// Basic offers Basic to clients, besides Negotiate. Without Negotiate it
	// is offered anyhow: it is how debuggers ask people for a token.
	Basic bool
	// Realm is what browsers show when they ask; empty is "symdepot".
	Realm string

	// Keytab is the file of Kerberos keys; empty takes no tickets.
	Keytab string
	// KeytabPrincipal is the principal whose keys are used whatever the
	// ticket names, as where a service account holds the HTTP names; empty
	// uses the keys of the HTTP principal that the ticket names.
	KeytabPrincipal string
	// MaxClockSkew is how far clocks may differ; zero is 5 minutes.
	MaxClockSkew time.Duration
	// TicketGroups reads the Windows groups of tickets. A ticket whose
	// groups cannot be read counts without them.
	TicketGroups bool
	// PerConnection lets a ticket count for the further requests of its
	// HTTP/1 connection, as some Windows clients expect. It must stay off
	// where a proxy may send several people through one connection; requests
	// that say they come through one have to prove themselves in any case.
	PerConnection bool

	// Certificates give client certificates names.
	Certificates []CertRule

	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Challenge is how a request is turned away.
type Challenge struct {
	// Status is 401, 403, 404 or 503. 404 must look exactly like an
	// absence.
	Status int
	// Header are the values of WWW-Authenticate, in order.
	Header []string
	// Text is a line for the body that gives nothing away.
	Text string
	// Reason is for logs; it holds no secrets either.
	Reason string
}

// Gate knows those who ask. Its methods may be called at the same time.
type Gate struct {
	cfg       Config
	log       *slog.Logger
	now       func() time.Time
	policy    *Policy
	tokens    *tokens
	users     *passwords // nil: none
	tickets   negotiator // nil: none
	rules     certRules
	anonymous Rights
	offers    []string

	stop   chan struct{}
	done   sync.WaitGroup
	closed sync.Once

	mu     sync.Mutex
	warned map[string]time.Time // when a kind of warning was last given
}

// negotiator judges the tokens of Negotiate. There is one for keytabs; Windows
// can do the same without one.
type negotiator interface {
	// accept judges a token; remote is the client's address. The reply, if
	// not empty, goes back to the client in base64, whether there is an
	// error or not.
	accept(token []byte, remote string) (t ticket, reply string, err error)
	// poll looks for changed keys.
	poll()
}

// ticket is what a token of Negotiate proves.
type ticket struct {
	principal string // name@REALM
	sids      []string
	until     time.Time
}

// New makes a gate; the error names the file or setting that is wrong. log may
// be nil. Close must be called at the end.
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
	if cfg.Policy.Anonymous == nil && (cfg.Users != "" || cfg.Keytab != "" || len(cfg.Certificates) > 0) {
		// Whoever sets up credentials wants them asked for.
		cfg.Policy.Demand = true
	}
	g := &Gate{cfg: cfg, log: log, now: cfg.Now, stop: make(chan struct{}), warned: map[string]time.Time{}}
	var err error
	if g.policy, err = NewPolicy(cfg.Policy); err != nil {
		return nil, err
	}
	g.anonymous = g.policy.Decide(&Identity{})
	if g.rules, err = newCertRules(cfg.Certificates); err != nil {
		return nil, err
	}
	if cfg.Users != "" {
		if g.users, err = openPasswords(cfg.Users, log, cfg.Now); err != nil {
			return nil, err
		}
	}
	if cfg.Keytab != "" {
		if g.tickets, err = openKeytab(&cfg, log); err != nil {
			return nil, err
		}
		g.offers = append(g.offers, "Negotiate")
	}
	if cfg.Basic || cfg.Users != "" || cfg.Keytab == "" {
		g.offers = append(g.offers, `Basic realm="`+strings.NewReplacer(`"`, `'`, `\`, `/`).Replace(cfg.Realm)+`", charset="UTF-8"`)
	}
	g.tokens = newTokens(store, g.policy, cfg.Now)
	g.done.Go(func() { every(pollEvery, g.stop, g.tick) })
	return g, nil
}

// tick is what is done from time to time.
func (g *Gate) tick() {
	if g.users != nil {
		g.users.file.poll()
	}
	if g.tickets != nil {
		g.tickets.poll()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := g.tokens.flush(ctx); err != nil {
		g.warn("touch", "the last uses of tokens cannot be noted now", "error", err)
	}
}

// Close ends what runs beside, and notes the last uses of tokens.
func (g *Gate) Close() error {
	g.closed.Do(func() { close(g.stop) })
	g.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return g.tokens.flush(ctx)
}

// HTTP2 reports whether listeners should offer HTTP/2. Clients of Negotiate
// expect connections of HTTP/1.
func (g *Gate) HTTP2() bool { return g.tickets == nil }

// Open returns the rights of everybody, and whether nobody needs credentials
// to read anything. Where that is so, requests that carry none, and want to
// read only, need not be shown to Authenticate.
func (g *Gate) Open() (Rights, bool) { return g.anonymous, g.anonymous.All }

type connKey struct{}

// connState is what is known of a connection.
type connState struct {
	mu     sync.Mutex
	id     Identity
	rights Rights
}

// ConnContext is for http.Server.ConnContext, or to be called by it.
func (g *Gate) ConnContext(ctx context.Context, _ net.Conn) context.Context {
	if !g.cfg.PerConnection {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, &connState{})
}

// Authenticate says who asks and what they may. pathToken is the token that
// PathToken took from the path, if any; it goes before everything else. With a
// challenge, the request is to be answered by that and nothing else.
func (g *Gate) Authenticate(r *http.Request, pathToken string) (Identity, Rights, *Challenge) {
	if pathToken != "" {
		id, rights, err := g.byToken(r.Context(), pathToken, "path")
		if err != nil {
			return Identity{}, Rights{}, g.failed(err, nil, true)
		}
		return id, rights, nil
	}
	if !carriesAny(r.Header) {
		return g.silent(r)
	}
	c := readCredential(r.Header)
	id, rights, err := g.believe(r, &c)
	cs := g.connection(r)
	if err != nil {
		if cs != nil {
			cs.set(Identity{}, Rights{})
		}
		if g.anonymous.All && !errors.Is(err, errStore) {
			// Somebody else's credentials, or outdated ones: to read, nobody
			// needs any.
			return Identity{Failure: err.Error()}, g.anonymous, nil
		}
		return Identity{Reply: id.Reply}, Rights{}, g.failed(err, &id, false)
	}
	if !rights.Admitted {
		return id, Rights{}, notAdmitted(&id)
	}
	if cs != nil && id.Method == MethodNegotiate {
		cs.set(id, rights)
	}
	return id, rights, nil
}

// silent judges a request that carries nothing, by its connection.
func (g *Gate) silent(r *http.Request) (Identity, Rights, *Challenge) {
	if cs := g.connection(r); cs != nil {
		if id, rights := cs.get(); !id.Anonymous() && g.now().Before(id.Until) {
			return id, rights, nil
		}
	}
	if len(g.rules) > 0 && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		id, err := g.rules.identify(r.TLS, g.now())
		if err == nil {
			rights := g.policy.Decide(&id)
			if !rights.Admitted {
				return id, Rights{}, notAdmitted(&id)
			}
			return id, rights, nil
		}
		if !g.anonymous.Admitted {
			return Identity{}, Rights{}, g.failed(err, nil, false)
		}
	}
	if !g.anonymous.Admitted {
		return Identity{}, Rights{}, g.failed(errNothing, nil, false)
	}
	return Identity{}, g.anonymous, nil
}

var (
	errNothing = errors.New("no credentials were shown")
	errMethod  = errors.New("credentials of this kind are not taken here")
)

// believe looks whether a credential holds. With an error, of the identity
// only the reply counts.
func (g *Gate) believe(r *http.Request, c *credential) (Identity, Rights, error) {
	switch c.kind {
	case kindToken:
		return g.byToken(r.Context(), c.secret, c.carrier)
	case kindPassword:
		if g.users == nil {
			return Identity{}, Rights{}, errMethod
		}
		if err := g.users.check(r.Context(), c.user, c.secret); err != nil {
			return Identity{}, Rights{}, err
		}
		id := Identity{Name: c.user, Method: MethodBasic, Carrier: c.carrier}
		return id, g.policy.Decide(&id), nil
	case kindNegotiate:
		if g.tickets == nil {
			return Identity{}, Rights{}, errMethod
		}
		t, reply, err := g.tickets.accept(c.blob, r.RemoteAddr)
		if reply != "" {
			reply = "Negotiate " + reply
		}
		if err != nil {
			g.warn("ticket", "a ticket was refused", "reason", err, "remote", r.RemoteAddr)
			return Identity{Reply: reply}, Rights{}, err
		}
		id := Identity{Name: t.principal, Method: MethodNegotiate, Carrier: c.carrier, SIDs: t.sids, Until: t.until, Reply: reply}
		return id, g.policy.Decide(&id), nil
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
		g.log.Error("a token could not be looked up", "error", err)
	}
	return id, rights, err
}

// failed turns an error into an answer. Path tokens that do not count are
// answered as if the path were unknown.
func (g *Gate) failed(err error, id *Identity, path bool) *Challenge {
	c := &Challenge{Status: http.StatusUnauthorized, Text: "credentials are needed", Reason: err.Error()}
	switch {
	case errors.Is(err, errStore), errors.Is(err, errBusy), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.Status, c.Text = http.StatusServiceUnavailable, "credentials cannot be checked now"
		return c
	case path:
		c.Status, c.Text = http.StatusNotFound, ""
		return c
	}
	if skew, ok := errors.AsType[*skewError](err); ok {
		c.Text = skew.Error()
	} else if !errors.Is(err, errNothing) {
		c.Text = "the credentials do not hold"
	}
	c.Header = g.offers
	if id != nil && id.Reply != "" {
		c.Header = append([]string{id.Reply}, g.offers[1:]...)
	}
	return c
}

func notAdmitted(id *Identity) *Challenge {
	c := &Challenge{Status: http.StatusForbidden, Text: "not admitted to this server", Reason: id.Name + " is not admitted"}
	if id.Reply != "" {
		c.Header = []string{id.Reply}
	}
	return c
}

// Ask is the challenge for a request that anonymous may not make, such as an
// upload, though reading is open to everybody.
func (g *Gate) Ask() *Challenge { return g.failed(errNothing, nil, false) }

// forwarded are headers of requests that came through a proxy, whose
// connections belong to many.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

// connection returns the state of a request's connection, or nil where it must
// not count.
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

func (cs *connState) get() (Identity, Rights) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.id, cs.rights
}

func (cs *connState) set(id Identity, rights Rights) {
	id.Reply = ""
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.id, cs.rights = id, rights
}

// skewError says that clocks differ too much.
type skewError struct{ differ, allowed time.Duration }

func (e *skewError) Error() string {
	ahead := "ahead of"
	d := e.differ
	if d < 0 {
		ahead, d = "behind", -d
	}
	return "the client's clock is " + d.Round(time.Second).String() + " " + ahead + " the server's; at most " + e.allowed.String() + " are allowed"
}

// warn logs, but one kind of warning at most every ten seconds: whoever knocks
// in vain must not fill the disk.
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

// ClientAuth is what a listener's TLS should ask of clients, given whether it
// has authorities to check their certificates by. With authorities, every
// certificate must come from one of them, those known by fingerprint too;
// without, only fingerprints count. Clients without a certificate are not
// stopped at the handshake: they may have other credentials.
func (g *Gate) ClientAuth(authorities bool) tls.ClientAuthType {
	switch {
	case len(g.rules) == 0:
		return tls.NoClientCert
	case authorities:
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequestClientCert
}
