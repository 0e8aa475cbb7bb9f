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
	all, some := Rights{All: true, Admitted: true}, Rights{Admitted: true, Products: []string{"ours"}}
	for _, tt := range []struct {
		name   string
		gate   *Gate
		header string
		tls    bool
		want   bool
	}{
		{"open", &Gate{anonymous: all}, "", false, true},
		{"open, over TLS", &Gate{anonymous: all}, "", true, true},
		{"open to some products", &Gate{anonymous: some}, "", false, false},
		{"closed", &Gate{}, "", false, false},
		{"credentials", &Gate{anonymous: all}, "Authorization", false, false},
		{"a token", &Gate{anonymous: all}, wire.Token, false, false},
		{"a token of another header", &Gate{anonymous: all}, headerAuthToken, false, false},
		{"an authenticated connection", &Gate{anonymous: all, cfg: Config{PerConnection: true}}, "", false, false},
		{"client certificates over TLS", &Gate{anonymous: all, rules: make(certRules, 1)}, "", true, false},
		{"client certificates without TLS", &Gate{anonymous: all, rules: make(certRules, 1)}, "", false, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if tt.header != "" {
			r.Header.Set(tt.header, "x")
		}
		if tt.tls {
			r.TLS = new(tls.ConnectionState)
		}
		if got := tt.gate.OpenTo(r); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
