package oauth

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// valid are the parameters of a request that is answered.
func valid() url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {wire.LoginClient}, "redirect_uri": {"http://127.0.0.1:4711/back"}, "code_challenge": {strings.Repeat("a", 43)},
		"code_challenge_method": {"S256"}, "state": {"s t&te"}, "device_name": {"box"}, "unknown": {"x"},
	}
}

// TestReadAuthorization: what is wrong with the client or its address is told to the person,
// anything else to the program.
func TestReadAuthorization(t *testing.T) {
	a, err := ReadAuthorization(valid())
	if err != nil || a.Redirect != "http://127.0.0.1:4711/back" || a.Machine != "box" || a.FormTarget() != "http://127.0.0.1:4711" {
		t.Fatalf("%+v, %v; want the request", a, err)
	}
	const issuer = "https://symbols.example.com/-/oauth"
	for want, got := range map[string]string{
		"code=c&iss=https%3A%2F%2Fsymbols.example.com%2F-%2Foauth&state=s+t%26te":                                                     a.Allow(issuer, "c"),
		"error=access_denied&error_description=the+login+was+denied&iss=https%3A%2F%2Fsymbols.example.com%2F-%2Foauth&state=s+t%26te": a.Refuse(issuer, Denied()),
	} {
		if got != "http://127.0.0.1:4711/back?"+want {
			t.Errorf("the answer goes to %s, want %s", got, want)
		}
	}
	for _, tt := range []struct {
		name, value, want string // want: the code of the program's error; empty: the person is told
	}{
		{"client_id", "other", ""}, {"client_id", "", ""}, {"redirect_uri", "", ""}, {"redirect_uri", "https://127.0.0.1:1/", ""}, {"redirect_uri", "http://localhost:1/", ""},
		{"redirect_uri", "http://127.0.0.1/", ""}, {"redirect_uri", "http://127.0.0.1:1", ""}, {"redirect_uri", "http://127.0.0.2:1/", ""}, {"redirect_uri", "http://127.0.0.1:1@evil/", ""},
		{"redirect_uri", "http://evil@127.0.0.1:1/", ""}, {"redirect_uri", "http://127.0.0.1:1/?a=b", ""}, {"redirect_uri", "http://127.0.0.1:1/#a", ""}, {"redirect_uri", "http://127.0.0.1:0/", ""},
		{"redirect_uri", "http://127.0.0.1:99999/", ""}, {"redirect_uri", "http://127.0.0.1:080/", ""}, {"redirect_uri", "http://127.1:80/", ""}, {"redirect_uri", "http://[::1%25eth0]:80/", ""},
		{"redirect_uri", "http://[::ffff:127.0.0.1]:80/", ""}, {"redirect_uri", "http://127.0.0.1:1/\r\nX: y", ""}, {"redirect_uri", "http://127.0.0.1:1/" + strings.Repeat("a", 300), ""},
		{"redirect_uri", "javascript:alert(1)", ""}, {"redirect_uri", "http://127.0.0.1.evil:1/", ""}, {"redirect_uri", `http://127.0.0.1:1\@evil/`, ""},
		{"response_type", "token", "unsupported_response_type"}, {"response_type", "", "unsupported_response_type"}, {"code_challenge_method", "plain", "invalid_request"},
		{"code_challenge_method", "", "invalid_request"}, {"code_challenge", "", "invalid_request"}, {"code_challenge", strings.Repeat("a", 42) + "=", "invalid_request"},
		{"code_challenge", strings.Repeat("a", 44), "invalid_request"}, {"state", strings.Repeat("a", 513), "invalid_request"},
	} {
		q := valid()
		q.Set(tt.name, tt.value)
		_, err := ReadAuthorization(q)
		program, ok := errors.AsType[*Error](err)
		if tt.want == "" && web.AsProblem(err) == nil || tt.want != "" && (!ok || program.Code != tt.want) {
			t.Errorf("%s=%.60q: %v, want %q", tt.name, tt.value, err, tt.want)
		}
	}
	for name := range valid() {
		q := valid()
		q.Add(name, q.Get(name))
		_, err := ReadAuthorization(q)
		if problem := web.AsProblem(err) != nil; err == nil || problem != (name == "client_id" || name == "redirect_uri") {
			t.Errorf("%s twice: %v, want an error, for the person if it is about the client", name, err)
		}
		q = valid()
		q.Del(name)
		if _, err := ReadAuthorization(q); (err == nil) != (name == "state" || name == "device_name" || name == "unknown") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	q := valid()
	q.Set("redirect_uri", "http://[::1]:80/")
	if a, err := ReadAuthorization(q); err != nil || a.FormTarget() != "http:" {
		t.Errorf("IPv6: %+v, %v; want the request, and the scheme as the target of the form", a, err)
	}
}

// FuzzLoopback: an accepted address leads to this machine, whoever reads it.
func FuzzLoopback(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:80/", "http://[::1]:80/a/b", "http://127.0.0.1:80/a?b#c", "http://a@127.0.0.1:80/", "https://127.0.0.1:1/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isLoopback(s) {
			return
		}
		u, err := url.Parse(s)
		if err != nil {
			t.Fatalf("%q is accepted: %v", s, err)
		}
		a, err := netip.ParseAddr(u.Hostname())
		if err != nil || !a.IsLoopback() || u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() == "" || auth.Redact(s) != s || u.String() != s {
			t.Errorf("%q is accepted as %+v", s, u)
		}
	})
}
