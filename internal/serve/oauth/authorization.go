package oauth

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// Authorization is a request of the authorization endpoint: a browser brings it from a program
// of its machine, and takes the answer back to Redirect.
type Authorization struct {
	Redirect  string // the address of the program: plain HTTP to a loopback address
	Challenge string // SHA-256 in base64url of what the program alone knows (RFC 7636)
	Machine   string // what the program calls its machine

	state string
}

const (
	// maxState limits the parameter state, in bytes: the address must stay short enough for
	// the cookie of a sign-in at an OpenID provider.
	maxState = 512
	// maxRedirect limits the parameter redirect_uri, in bytes.
	maxRedirect = 256
	// challengeDigits is the length of a code challenge.
	challengeDigits = 43
)

// ReadAuthorization reads the parameters of a request for the authorization endpoint; unknown
// ones are ignored. The error is a *web.Problem for the person if the client or its address is
// not known. Otherwise it is an *Error for the program: the address of Refuse tells it.
func ReadAuthorization(q url.Values) (*Authorization, error) {
	wrong := func(detail string) error {
		return &web.Problem{Word: "query", Detail: "the address does not come from symdepot login: " + detail}
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(q[name]) != 1 {
			return nil, wrong("the parameter " + name + " must occur once")
		}
	}
	if q.Get("client_id") != wire.LoginClient {
		return nil, wrong("client_id must be " + wire.LoginClient)
	}
	a := &Authorization{Redirect: q.Get("redirect_uri"), Challenge: q.Get("code_challenge"), Machine: q.Get(wire.LoginMachine)}
	if !isLoopback(a.Redirect) {
		return nil, wrong("redirect_uri must be http://127.0.0.1:PORT/… or http://[::1]:PORT/…")
	}
	if len(q["state"]) == 1 && len(q.Get("state")) <= maxState {
		a.state = q.Get("state")
	}
	switch err := once(q); {
	case err != nil:
		return a, err
	case len(q.Get("state")) > maxState:
		return a, refusal("invalid_request", "state is longer than "+strconv.Itoa(maxState)+" bytes")
	case !q.Has("response_type"):
		return a, needs(q, "response_type")
	case q.Get("response_type") != "code":
		return a, refusal("unsupported_response_type", "response_type must be code")
	case q.Get("code_challenge_method") != "S256":
		return a, refusal("invalid_request", "code_challenge_method must be S256 (RFC 7636)")
	case len(a.Challenge) != challengeDigits || strings.Trim(a.Challenge, base64url) != "":
		return a, refusal("invalid_request", "code_challenge must be the SHA-256 of the verifier in base64url (RFC 7636)")
	}
	return a, nil
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// isLoopback reports whether a URL is that of a program on the machine of the browser: a
// loopback address, not a name, which others may answer for (RFC 8252 section 8.3).
func isLoopback(redirect string) bool {
	rest, ok := strings.CutPrefix(redirect, "http://")
	if !ok || len(redirect) > maxRedirect || auth.Redact(redirect) != redirect {
		return false
	}
	host, path, ok := strings.Cut(rest, "/")
	if !ok || strings.Trim(path, base64url+"/.~") != "" {
		return false
	}
	a, err := netip.ParseAddrPort(host)
	return err == nil && a.String() == host && a.Port() != 0 &&
		(a.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a.Addr() == netip.IPv6Loopback())
}

// FormTarget is the source (CSP 3 section 2.3.1) to which the form of the page leads. Sources
// have no IPv6 addresses: the scheme stands for that of this machine.
func (a *Authorization) FormTarget() string {
	if strings.HasPrefix(a.Redirect, "http://[") {
		return "http:"
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(a.Redirect, "http://"), "/")
	return "http://" + host
}

// Allow is the address that brings a code to the program.
func (a *Authorization) Allow(issuer, code string) string {
	return a.to(url.Values{"code": {code}}, issuer)
}

// Refuse is the address that tells the program why it gets none.
func (a *Authorization) Refuse(issuer string, e *Error) string {
	return a.to(url.Values{"error": {e.Code}, "error_description": {e.Description}}, issuer)
}

// Denied is the error for a program whose login the person denied.
func Denied() *Error { return errorOf(auth.ErrDenied) }

// to adds parameters, the state and the issuer (RFC 9207) to the address of the program.
func (a *Authorization) to(q url.Values, issuer string) string {
	if a.state != "" {
		q.Set("state", a.state)
	}
	q.Set("iss", issuer)
	return a.Redirect + "?" + q.Encode()
}
