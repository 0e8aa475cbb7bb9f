package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// Config configures authentication. The zero value accepts tokens only, requires
// no credentials and lets all clients read everything.
type Config struct {
	Policy PolicyConfig

	// Users is a file of user:bcrypt lines. Empty: passwords are not accepted.
	Users string
	// Basic offers the Basic scheme to clients in addition to Negotiate. Without
	// Negotiate it is always offered, because it makes debuggers and browsers
	// ask the user for a token.
	Basic bool
	// Realm is the text that browsers show when they ask for a password;
	// empty is "symdepot".
	Realm string

	// Keytab is the file of Kerberos keys. Empty: tickets are not accepted.
	Keytab string
	// KeytabPrincipal is the principal whose keys decrypt all tickets, for
	// service accounts that own the HTTP names. Empty: the keys of the HTTP
	// principal that the ticket names are used.
	KeytabPrincipal string
	// MaxClockSkew is the largest accepted difference between the clocks of
	// client and server; zero is 5 minutes.
	MaxClockSkew time.Duration
	// TicketGroups reads the Windows groups in tickets. If they cannot be
	// read, the ticket counts without groups.
	TicketGroups bool
	// Realms are patterns of the Kerberos realms whose clients are accepted in
	// addition to the service's own realm. If empty, clients of other realms are
	// accepted if the ticket says that the KDC has checked the transited realms
	// (TRANSITED-POLICY-CHECKED, RFC 4120 section 2.7).
	Realms []string
	// RequireChannelBinding rejects tickets that are not bound to the TLS
	// connection by tls-server-end-point (RFC 5929 section 4). Without it, a
	// binding is checked if the client sends one and this server terminates TLS.
	RequireChannelBinding bool
	// Started is the time before which no proof is accepted, because an
	// earlier process may have accepted it already. Zero is the time of New.
	Started time.Time
	// PerConnection authenticates all requests on the HTTP/1 connection on which
	// a ticket was accepted, as some Windows clients expect. It must be off
	// behind a proxy that shares connections between users. Requests with header
	// fields of a proxy always need their own credentials.
	PerConnection bool

	// Certificates map client certificates to principal names.
	Certificates []CertRule

	// OIDC are the rules for the id tokens of CI jobs, which Exchange takes. OIDCClient
	// returns a client for the server of an issuer; nil: only rules with a file of keys
	// work.
	OIDC       []oidc.Rule
	OIDCClient func(server string) *http.Client

	// SignIn is the OpenID provider at which browsers sign in; nil: none.
	SignIn *oidc.LoginConfig

	// Generation, for several servers on one Store, returns a number that changes
	// when any of them revokes a token, without a query; ok is false while it is not
	// known. Nil: a revocation takes effect within five seconds.
	Generation func() (_ uint64, ok bool)
	// FirstUse, for several servers with the same keytab, records the hash of a
	// Kerberos authenticator for a time, and reports whether no server has recorded
	// it before. Nil: this server has all of them.
	FirstUse func(ctx context.Context, key [16]byte, keep time.Duration) (bool, error)

	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// policy returns the policy of the gate. Configured credentials imply that
// clients are asked for them, unless anonymous access is configured too.
func (cfg *Config) policy() (*Policy, error) {
	p := cfg.Policy
	methods := cfg.Users != "" || cfg.Keytab != "" || len(cfg.Certificates) > 0 || cfg.SignIn != nil
	p.Demand = p.Demand || p.Anonymous == nil && p.Public == nil && methods
	compiled, err := NewPolicy(p)
	if err != nil {
		return nil, err
	}
	compiled.config = cfg.Policy
	return compiled, nil
}

// Anonymous returns the rights of clients without credentials, without opening
// a file.
func (cfg *Config) Anonymous() (Rights, error) {
	p, err := cfg.policy()
	if err != nil {
		return Rights{}, err
	}
	return p.Decide(&Identity{}), nil
}

// Challenge is the response to a request that is not authorized.
type Challenge struct {
	// Status is 401, 403 or 503; that of Exchange and of FinishOIDC may also
	// be 404 or 429. Debuggers stop
	// asking a server that answers 403: for the path of a symbol file, 403 must be sent
	// as 404.
	Status int
	// Header are the values of WWW-Authenticate, in order.
	Header []string
	// Text is a line for the body; it discloses nothing to an attacker.
	Text string
	// Reason is for logs; it contains no secrets.
	Reason string
}

// negotiator verifies tokens of the Negotiate scheme (RFC 4559). There is one
// implementation, for keytabs; on Windows the system could do the same.
type negotiator interface {
	// accept verifies a token. remote is the client's address, and overTLS says
	// whether this server terminates the client's TLS connection. The reply, if
	// not empty, is sent to the client in base64, even with an error.
	accept(token []byte, remote string, overTLS bool) (t ticket, reply string, err error)
	// poll reloads the keys if they changed.
	poll()
}

// ticket is what a token of Negotiate proves.
type ticket struct {
	principal string // name@REALM
	sids      []string
	until     time.Time
}

// skewError reports that the clocks of client and server differ too much.
type skewError struct{ differ, allowed time.Duration }

func (e *skewError) Error() string {
	ahead := "ahead of"
	d := e.differ
	if d < 0 {
		ahead, d = "behind", -d
	}
	return "the client's clock is " + d.Round(time.Second).String() + " " + ahead + " the server's; at most " +
		e.allowed.String() + " are allowed"
}
