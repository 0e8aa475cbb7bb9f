package auth

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// Limits of credentials, in bytes. Kerberos tickets of users in many Windows
// groups are the longest.
const (
	maxNegotiate = 64 << 10 // base64
	maxBasic     = 2 << 10  // base64
	maxPassword  = 512
)

// headerAuthToken carries a token, like wire.Token, for clients that need
// Authorization for another server. Tools that upload Breakpad symbols send it; a
// comment may follow the token after a dash.
const headerAuthToken = "Auth-Token"

type kind int

const (
	kindNone      kind = iota
	kindToken          // secret
	kindPassword       // user, secret
	kindNegotiate      // blob
	kindBad            // why
)

// credential is an unverified credential of a request.
type credential struct {
	kind    kind
	carrier string
	user    string
	secret  string
	blob    []byte
	why     string // never contains any part of the credentials
}

func badCredential(why string) credential { return credential{kind: kindBad, why: why} }

// carriesAny reports whether a header can carry credentials.
func carriesAny(h http.Header) bool {
	return h["Authorization"] != nil || h[wire.Token] != nil || h[headerAuthToken] != nil
}

// readCredential reads the credentials in a request's header. Authorization
// takes precedence over the other headers.
func readCredential(h http.Header) credential {
	if v, ok := h["Authorization"]; ok {
		if len(v) != 1 {
			return badCredential("more than one Authorization header")
		}
		return readAuthorization(v[0])
	}
	for _, name := range []string{wire.Token, headerAuthToken} {
		v, ok := h[name]
		if !ok {
			continue
		}
		if len(v) != 1 {
			return badCredential("more than one " + name + " header")
		}
		secret := v[0]
		if name == headerAuthToken && len(secret) > tokenLen && secret[tokenLen] == '-' {
			secret = secret[:tokenLen]
		}
		if !IsToken(secret) {
			return badCredential(name + " contains no token")
		}
		return credential{kind: kindToken, carrier: "header", secret: secret}
	}
	return credential{}
}

func readAuthorization(v string) credential {
	if len(v) > maxNegotiate {
		return badCredential("the Authorization header is too long")
	}
	scheme, rest, _ := strings.Cut(v, " ")
	rest = strings.Trim(rest, " ")
	switch strings.ToLower(scheme) {
	case strings.ToLower(wire.Basic):
		return readBasic(rest)
	case strings.ToLower(wire.Bearer):
		if !IsToken(rest) {
			return badCredential("the bearer token does not have the form of this server's tokens")
		}
		return credential{kind: kindToken, carrier: "bearer", secret: rest}
	case strings.ToLower(wire.Negotiate):
		return readNegotiate(rest)
	case "ntlm":
		return badCredential(whyNTLM)
	}
	return badCredential("unknown Authorization scheme")
}

// whyNTLM says what to check when a Windows client has no Kerberos ticket.
const whyNTLM = "the client fell back to NTLM, which is not supported: check that it uses the server's DNS name and " +
	"that HTTP/name is registered for it (setspn -Q)"

func readBasic(s string) credential {
	if len(s) > maxBasic {
		return badCredential("the Basic credentials are too long")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return badCredential("the Basic credentials are not valid base64")
	}
	user, password, ok := strings.Cut(string(b), ":")
	switch {
	case !ok:
		return badCredential("the Basic credentials have no colon")
	case IsToken(password):
		// Many clients require a user name; any is accepted.
		return credential{kind: kindToken, carrier: "basic", secret: password}
	case password == "" && IsToken(user):
		return credential{kind: kindToken, carrier: "basic", secret: user}
	}
	return passwordCredential(user, password)
}

// passwordCredential is a user name with its password.
func passwordCredential(user, password string) credential {
	switch {
	case user == "" || len(user) > maxName || len(password) > maxPassword:
		return badCredential("the user name or password is empty or too long")
	case !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return badCredential("the user name contains control characters or is not valid UTF-8")
	}
	return credential{kind: kindPassword, carrier: "basic", user: user, secret: password}
}

func readNegotiate(s string) credential {
	if strings.HasPrefix(s, "TlRMTVNTUA") { // NTLMSSP
		return badCredential(whyNTLM)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return badCredential("the Negotiate token is not valid base64")
	}
	return credential{kind: kindNegotiate, carrier: "negotiate", blob: b}
}
