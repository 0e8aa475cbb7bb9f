package upstream

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/sspi"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// TestGiveCredentials: credentials are given to exactly one private host, or to
// none.
func TestGiveCredentials(t *testing.T) {
	t.Parallel()
	preset, err := PresetByName("microsoft")
	if err != nil {
		t.Fatal(err)
	}
	server := func(address string) Spec { return Spec{Type: TypeHTTP, URL: address} }
	bucket := Spec{Type: TypeBucket, URL: "s3://b/x"}
	for _, c := range []struct {
		name  string
		specs []Spec
		given []bool
		want  error
	}{
		{"one server", []Spec{preset, server("https://corp.example/a"), bucket}, []bool{false, true, false}, nil},
		{"two paths of one host", []Spec{server("https://corp.example/a"), server("https://CORP.example/b")}, []bool{true, true}, nil},
		{"two hosts", []Spec{server("https://corp.example/a"), server("https://other.example")}, []bool{false, false}, ErrManyPrivateServers},
		{"presets only", []Spec{preset, bucket}, []bool{false, false}, ErrNoPrivateServer},
	} {
		if err := GiveCredentials(c.specs, Credentials{Token: "secret"}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		for i, s := range c.specs {
			if got := s.Credentials.Token != ""; got != c.given[i] {
				t.Errorf("%s: %s has credentials: %v, want %v", c.name, s.URL, got, c.given[i])
			}
		}
	}
}

// TestNegotiate sends the ticket to the server itself, and not to the target of a
// redirect.
func TestNegotiate(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := r.Header.Get("Authorization"); v != "" {
			t.Errorf("the target of a redirect got Authorization %q, want %q", v, "")
		}
		w.Header().Set("WWW-Authenticate", "Negotiate")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(away.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Negotiate dGlja2V0":
			w.Header().Set("WWW-Authenticate", "Negotiate")
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/away.sym"):
			http.Redirect(w, r, away.URL, http.StatusFound)
		default:
			_, _ = w.Write(content)
		}
	}))
	t.Cleanup(s.Close)
	h, err := NewHTTP(HTTPConfig{Name: "x", URL: s.URL, Layout: layout.BreakpadTree.Name(), Credentials: Credentials{Negotiate: true}}, NewDialer(DialerOptions{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}))
	if err != nil {
		t.Fatal(err)
	}
	h.via.(*sspi.Transport).Begin = func(string, []byte) (sspi.Login, error) { return oneTicket{}, nil }
	for path, ok := range map[string]bool{"app.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/app.sym": true, "away.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/away.sym": false} {
		req, err := layout.Route(strings.Split(path, "/"))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := h.Fetch(t.Context(), fetch.Ask{Request: req})
		if (err == nil) != ok {
			t.Errorf("%s: error %v, want success %v", path, err, ok)
		}
		if reply != nil {
			_ = reply.Body.Close()
		}
	}
}

// oneTicket is a login whose token is "ticket".
type oneTicket struct{}

func (oneTicket) Next([]byte) ([]byte, error) { return []byte("ticket"), nil }
func (oneTicket) Close()                      {}
