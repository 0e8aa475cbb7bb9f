// Package oauth is the authorization server at which programs log in (OAuth 2.0, RFC 6749, for
// one public client): its endpoints for programs, and what its pages share with them. Package
// auth keeps the logins.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// The grant types of the token endpoint.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// maxForm limits the body of a request, in bytes.
const maxForm = 8 << 10

// word is the last segment of wire.LoginPath; authorizeWord and the words of endpoints follow it.
const (
	word          = "oauth"
	authorizeWord = "authorize"
)

// DeviceWord is the segment after "-" of the page where a person types the code of a program.
const DeviceWord = "device"

// wellKnown are the segments in front of, or behind, those of the issuer (RFC 8414 section 3).
var wellKnown = strings.Split(strings.TrimPrefix(wire.LoginDiscovery, "/"), "/")

// IsIssuer reports whether segments are those of the issuer: what discovery is asked about.
func IsIssuer(segs []string) bool { return slices.Equal(segs, []string{"-", word}) }

// Discovery returns the segments of the issuer about which a path asks in the form of RFC 8414.
func Discovery(segs []string) (issuer []string, ok bool) {
	if len(segs) < len(wellKnown) || !slices.Equal(segs[:len(wellKnown)], wellKnown) {
		return nil, false
	}
	return segs[len(wellKnown):], true
}

// IsEndpoint reports whether a claimed path is an endpoint for programs, which Serve answers:
// everybody may ask it, with whatever credentials.
func IsEndpoint(segs []string) bool {
	return web.Claims(segs) && len(segs) > 1 && segs[1] == word && (len(segs) == 2 || segs[2] != authorizeWord)
}

// IsPage reports whether a claimed path is a page at which a person lets a program log in.
func IsPage(segs []string) bool {
	return web.Claims(segs) && len(segs) > 1 && (segs[1] == DeviceWord || len(segs) > 2 && segs[1] == word && segs[2] == authorizeWord)
}

// Issuer is the issuer's URL, as the client of a request wrote it.
func Issuer(r *web.Request) string {
	base := r.BaseURL
	if plain, ok := strings.CutPrefix(base, "http:"); ok && r.Transport == web.Secure {
		base = "https:" + plain // a proxy has the certificate
	}
	return base + r.Base + wire.LoginPath
}

// Error is an error of RFC 6749 in the form that the client receives.
type Error struct {
	wire.LoginFailure

	status int
	allow  string // the methods of the address, if that is what is wrong
}

func (e *Error) Error() string { return e.Description }

func refusal(code, description string) *Error {
	return failure(http.StatusBadRequest, code, description)
}

func failure(status int, code, description string) *Error {
	return &Error{LoginFailure: wire.LoginFailure{Code: code, Description: description}, status: status}
}

func wrongMethod(allow string) *Error {
	e := failure(http.StatusMethodNotAllowed, "invalid_request", "this address supports only "+allow)
	e.allow = allow
	return e
}

// Serve answers a request for an endpoint. The error is for the log.
func Serve(gate *auth.Gate, w http.ResponseWriter, r *web.Request) error {
	r.NoteEnd()
	v, err := answer(gate, r)
	if err != nil {
		return refuse(w, r, err)
	}
	return write(w, r, http.StatusOK, v)
}

// answer returns what Serve answers: a value that is printed as JSON.
func answer(gate *auth.Gate, r *web.Request) (any, error) {
	if len(r.Challenges) == 0 {
		return nil, failure(http.StatusNotFound, "invalid_request", "nothing needs a login here: this server asks nobody for credentials")
	}
	if r.Transport == web.Insecure {
		return nil, refusal("invalid_request",
			"programs log in over HTTPS only: the server needs a certificate (tls), or base_url if a proxy has one")
	}
	name := strings.Join(r.Segments[2:], "/")
	if name == "" || name == strings.Join(wellKnown, "/") {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return nil, wrongMethod("GET, HEAD")
		}
		return discovery(r), nil
	}
	serve := map[string]func(*auth.Gate, *web.Request, url.Values) (any, error){
		"token": token, "device_authorization": device, "revoke": revoke,
	}[name]
	if serve == nil {
		return nil, failure(http.StatusNotFound, "invalid_request", "there is no such endpoint")
	}
	if r.Method != http.MethodPost {
		return nil, wrongMethod(http.MethodPost)
	}
	form, err := readForm(r)
	if err != nil {
		return nil, err
	}
	return serve(gate, r, form)
}

// discovery is the discovery document.
func discovery(r *web.Request) wire.LoginMetadata {
	issuer, public := Issuer(r), []string{"none"}
	return wire.LoginMetadata{
		Issuer: issuer, Authorization: issuer + "/" + authorizeWord, Token: issuer + "/token", Device: issuer + "/device_authorization",
		Revocation: issuer + "/revoke", Responses: []string{"code"}, Modes: []string{"query"},
		Grants: []string{grantCode, grantRefresh, grantDevice}, Challenges: []string{"S256"}, Methods: public, RevokeMethods: public, Iss: true,
	}
}

// readForm reads the parameters of a request. Each may be there once; unknown ones are ignored.
func readForm(r *web.Request) (url.Values, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, refusal("invalid_request", "the body must be a form: application/x-www-form-urlencoded")
	}
	b, err := r.ReadAll(maxForm, "form")
	if problem := web.AsProblem(err); problem != nil {
		return nil, failure(problem.Status(), "invalid_request", problem.Error())
	}
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, refusal("invalid_request", "the form is not valid")
	}
	if err := once(form); err != nil {
		return nil, err
	}
	if form.Get("client_id") != wire.LoginClient {
		return nil, refusal("invalid_client", "client_id must be "+wire.LoginClient)
	}
	return form, nil
}

// once refuses parameters that occur more than once (RFC 6749 section 3.1).
func once(form url.Values) error {
	for name, values := range form {
		if len(values) > 1 {
			return refusal("invalid_request", "the parameter "+strconv.Quote(shown(name))+" occurs more than once")
		}
	}
	return nil
}

// shown shortens a name that a client sent.
func shown(name string) string {
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	return auth.Redact(name)
}

// token answers the token endpoint.
func token(gate *auth.Gate, r *web.Request, form url.Values) (any, error) {
	var t auth.LoginTokens
	var err error
	switch grant := form.Get("grant_type"); grant {
	case grantCode:
		if err = needs(form, "code", "redirect_uri", "code_verifier"); err == nil {
			t, err = gate.RedeemCode(r.Client(), form.Get("code"), form.Get("code_verifier"), form.Get("redirect_uri"))
		}
	case grantRefresh:
		if err = needs(form, "refresh_token"); err == nil {
			t, err = gate.Refresh(r.Context(), form.Get("refresh_token"))
		}
	case grantDevice:
		if err = needs(form, "device_code"); err == nil {
			t, err = gate.RedeemDevice(r.Client(), form.Get("device_code"))
		}
	case "":
		err = needs(form, "grant_type")
	default:
		err = refusal("unsupported_grant_type", "grant_type is one of "+strings.Join([]string{grantCode, grantRefresh, grantDevice}, ", "))
	}
	if err != nil {
		return nil, err
	}
	return wire.LoginTokens{
		Access: t.Access, Type: wire.Bearer, Expires: seconds(t.AccessLife), Refresh: t.Refresh, Name: t.Name, Login: t.Login,
		RefreshExpires: seconds(t.RefreshLife),
	}, nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// needs returns an error if a parameter is missing.
func needs(form url.Values, names ...string) error {
	for _, name := range names {
		if form.Get(name) == "" {
			return refusal("invalid_request", "the parameter "+name+" is missing")
		}
	}
	return nil
}

// deviceAnswer is the answer of the endpoint for devices (RFC 8628 section 3.2).
type deviceAnswer struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	URI        string `json:"verification_uri"`
	Complete   string `json:"verification_uri_complete"`
	Expires    int64  `json:"expires_in"` // seconds
	Interval   int64  `json:"interval"`   // seconds
}

// device answers the endpoint for devices.
func device(gate *auth.Gate, r *web.Request, form url.Values) (any, error) {
	d, err := gate.AskDevice(r.Context(), auth.ProgramOf(r.Client(), form.Get(wire.LoginMachine)))
	if err != nil {
		return nil, err
	}
	page := strings.TrimSuffix(Issuer(r), word) + DeviceWord
	return deviceAnswer{d.Code, d.UserCode, page, page + "?code=" + d.UserCode, seconds(d.Life), seconds(d.Pace)}, nil
}

// revoke answers the revocation endpoint (RFC 7009): either token ends the login.
func revoke(gate *auth.Gate, r *web.Request, form url.Values) (any, error) {
	if err := needs(form, "token"); err != nil {
		return nil, err
	}
	return struct{}{}, gate.EndLoginOf(r.Context(), form.Get("token"))
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, r *web.Request, err error) error {
	if r.Context().Err() != nil {
		return context.Canceled
	}
	e, ok := errors.AsType[*Error](err)
	var logged error
	if !ok {
		if e = errorOf(err); e == nil {
			e = failure(http.StatusServiceUnavailable, "temporarily_unavailable", "logins cannot be looked up or stored now")
			logged = err
		}
	}
	h := w.Header()
	if e.status == http.StatusServiceUnavailable || e.status == http.StatusTooManyRequests {
		h.Set("Retry-After", "5")
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	return errors.Join(logged, write(w, r, e.status, e))
}

// errorOf returns the error of RFC 6749 or RFC 8628 for one of package auth, or nil.
func errorOf(err error) *Error {
	for _, known := range []struct {
		err  error
		code string
	}{
		{auth.ErrGrant, "invalid_grant"},
		{auth.ErrWaiting, "authorization_pending"},
		{auth.ErrSoon, "slow_down"},
		{auth.ErrDenied, "access_denied"},
		{auth.ErrLate, "expired_token"},
	} {
		if errors.Is(err, known.err) {
			return refusal(known.code, known.err.Error())
		}
	}
	if errors.Is(err, auth.ErrManyLogins) || errors.Is(err, auth.ErrManyRequests) {
		return failure(http.StatusTooManyRequests, "temporarily_unavailable", err.Error())
	}
	return nil
}

// write answers with JSON, which nobody may keep.
func write(w http.ResponseWriter, r *web.Request, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Cache-Control", "no-store")
	h.Set("Pragma", "no-cache")
	w.WriteHeader(status)
	_, err = w.Write(b)
	return web.NotSent(err)
}
