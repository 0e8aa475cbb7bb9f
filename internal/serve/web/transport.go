package web

import (
	"net/http"
	"time"
)

// Transport says how a browser reaches the server.
type Transport int

const (
	// Insecure is over a network without TLS. Cookies with secrets are not sent.
	Insecure Transport = iota
	// Loopback is without TLS, on the same machine.
	Loopback
	// Secure is over TLS.
	Secure
)

// The names of cookies, without the prefix that binds a cookie to this host and to TLS.
const (
	SignInCookie = "sd"
	FlowCookie   = "sd-oidc" // of a sign-in at the OpenID provider
	NewCookie    = "sd-new"  // a new token, until its page has been shown
)

// name returns the name of a cookie.
func (t Transport) name(cookie string) string {
	if t == Secure {
		return "__Host-" + cookie
	}
	return cookie
}

// Cookie returns the value of a cookie of a request, or "".
func (t Transport) Cookie(r *http.Request, name string) string {
	c, err := r.Cookie(t.name(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// SignIn returns the value of the cookie of a request that holds its sign-in, or "".
// Over a network without TLS there is none.
func (t Transport) SignIn(r *http.Request) string {
	if t == Insecure {
		return ""
	}
	return t.Cookie(r, SignInCookie)
}

// SetCookie sets a cookie until a time; in the past: it is deleted.
func (t Transport) SetCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{
		Name: t.name(name), Value: value, Path: "/", HttpOnly: true, Secure: t == Secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	}
	if life <= 0 {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
}

// IsSignIn reports whether a claimed path is one at which browsers sign in or out: the
// server lets everybody ask for it, with whatever credentials.
func IsSignIn(segs []string) bool {
	return Claims(segs) && len(segs) > 1 && (segs[1] == "login" || segs[1] == "logout")
}

// DownloadWord is the last segment of /-/file/get, where browsers that are signed in
// download symbol files: the parameter path is the path that tools ask for.
const DownloadWord = "get"

// IsDownload reports whether a claimed path is one at which the server answers as to
// the path of a symbol file, which the parameter path has.
func IsDownload(segs []string) bool {
	return Claims(segs) && len(segs) == 3 && segs[1] == "file" && segs[2] == DownloadWord
}
