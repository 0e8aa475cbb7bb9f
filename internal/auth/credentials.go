package auth

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what a request may carry, in bytes. Kerberos tickets of people in
// many Windows groups are the longest by far.
const (
	maxNegotiate = 64 << 10 // base64
	maxBasic     = 2 << 10  // base64
	maxPassword  = 512
)

// Headers that carry a token besides Authorization, for clients whose own
// Authorization is somebody else's. The second is what uploaders of Breakpad
// symbols send; behind a dash it may have a comment.
const (
	HeaderToken     = "X-Symdepot-Token"
	headerAuthToken = "Auth-Token"
)

type kind int

const (
	kindNone      kind = iota
	kindToken          // secret
	kindPassword       // user, secret
	kindNegotiate      // blob
	kindBad            // why
)

// credential is what a request shows, not yet believed.
type credential struct {
	kind    kind
	carrier string
	user    string
	secret  string
	blob    []byte
	why     string // never holds any of what was shown
}

func bad(why string) credential { return credential{kind: kindBad, why: why} }

// carriesAny reports whether credentials must be looked for at all.
func carriesAny(h http.Header) bool {
	return h["Authorization"] != nil || h[HeaderToken] != nil || h[headerAuthToken] != nil
}

// readCredential reads what a request's header carries. Authorization goes
// before the others.
func readCredential(h http.Header) credential {
	if v, ok := h["Authorization"]; ok {
		if len(v) != 1 {
			return bad("more than one Authorization header")
		}
		return readAuthorization(v[0])
	}
	for _, name := range []string{HeaderToken, headerAuthToken} {
		v, ok := h[name]
		if !ok {
			continue
		}
		if len(v) != 1 {
			return bad("more than one " + name + " header")
		}
		secret := v[0]
		if name == headerAuthToken && len(secret) > tokenLen && secret[tokenLen] == '-' {
			secret = secret[:tokenLen]
		}
		if !IsToken(secret) {
			return bad(name + " holds no token")
		}
		return credential{kind: kindToken, carrier: "header", secret: secret}
	}
	return credential{}
}

func readAuthorization(v string) credential {
	if len(v) > maxNegotiate {
		return bad("the Authorization header is too long")
	}
	scheme, rest, _ := strings.Cut(v, " ")
	rest = strings.Trim(rest, " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return readBasic(rest)
	case "bearer":
		if !IsToken(rest) {
			return bad("the bearer's token is none of this server's")
		}
		return credential{kind: kindToken, carrier: "bearer", secret: rest}
	case "negotiate":
		return readNegotiate(rest)
	case "ntlm":
		return bad(whyNTLM)
	}
	return bad("an Authorization scheme that is not known here")
}

// whyNTLM says what to look at when Windows found no Kerberos ticket.
const whyNTLM = "the client fell back to NTLM, which is not taken: check that it uses the server's DNS name and that HTTP/name is registered for it (setspn -Q)"

func readBasic(s string) credential {
	if len(s) > maxBasic {
		return bad("the Basic credentials are too long")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return bad("the Basic credentials are no base64")
	}
	user, password, ok := strings.Cut(string(b), ":")
	switch {
	case !ok:
		return bad("the Basic credentials have no colon")
	case IsToken(password):
		// Many clients insist on some user name; any will do.
		return credential{kind: kindToken, carrier: "basic", secret: password}
	case password == "" && IsToken(user):
		return credential{kind: kindToken, carrier: "basic", secret: user}
	case user == "" || len(user) > maxName || len(password) > maxPassword:
		return bad("the Basic user name or password is empty or too long")
	case !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return bad("the Basic user name has characters that no name has")
	}
	return credential{kind: kindPassword, carrier: "basic", user: user, secret: password}
}

func readNegotiate(s string) credential {
	if strings.HasPrefix(s, "TlRMTVNTUA") { // NTLMSSP
		return bad(whyNTLM)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return bad("the Negotiate token is no base64")
	}
	return credential{kind: kindNegotiate, carrier: "negotiate", blob: b}
}
