package auth

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// TestOpenTo: only requests without any credentials need no Authenticate, and
// only where every client may read everything.
func TestOpenTo(t *testing.T) {
	all, some := &Policy{anonymous: Rights{All: true, Admitted: true}}, &Policy{anonymous: Rights{Admitted: true, Products: []string{"ours"}}}
	for _, tt := range []struct {
		name   string
		policy *Policy
		gate   *Gate
		header string
		tls    bool
		want   bool
	}{
		{"open", all, &Gate{}, "", false, true},
		{"open, over TLS", all, &Gate{}, "", true, true},
		{"open to some products", some, &Gate{}, "", false, false},
		{"closed", &Policy{}, &Gate{}, "", false, false},
		{"credentials", all, &Gate{}, "Authorization", false, false},
		{"a token", all, &Gate{}, wire.Token, false, false},
		{"a token of another header", all, &Gate{}, headerAuthToken, false, false},
		{"an authenticated connection", all, &Gate{cfg: Config{PerConnection: true}}, "", false, false},
		{"client certificates over TLS", all, &Gate{rules: make(certRules, 1)}, "", true, false},
		{"client certificates without TLS", all, &Gate{rules: make(certRules, 1)}, "", false, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		if tt.tls {
			r.TLS = new(tls.ConnectionState)
		}
		tt.gate.inForce.Store(tt.policy)
		if got := tt.gate.OpenTo(r); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
