package server

import (
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// TestGuessesBehindProxy: wrong passwords that come through a proxy count for the
// client that the proxy names, and not for the proxy's other clients.
func TestGuessesBehindProxy(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users")
	// The password is "right".
	if err := os.WriteFile(users, []byte("alice:$2b$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, c := range []struct {
		name    string
		proxies []netip.Prefix
		want    int // status of another client's right password
	}{
		{"the proxy is configured", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 404},
		{"it is not", nil, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			gate, err := auth.New(auth.Config{Policy: demand, Users: users, Now: func() time.Time { return now }}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = gate.Close() })
			s := newServer(t, Config{Depot: newDepot(t), Gate: gate, ProxyNetworks: c.proxies})
			client := dial(t, listen(t, s))
			get := func(address, password string) int {
				return client.do("GET", "/app.pdb/"+smallID+"/app.pdb", basic("alice", password), "X-Forwarded-For: "+address).status
			}
			slowed := false
			for i := range 8 {
				slowed = get("198.51.100.1", "wrong"+itoa(int64(i))) == 503
			}
			if !slowed {
				t.Error("eight wrong passwords: the last one was not answered 503, want the client slowed down")
			}
			if got := get("198.51.100.2", "right"); got != c.want {
				t.Errorf("right password of another client: status %d, want %d", got, c.want)
			}
		})
	}
}

// TestClientOf: behind a configured proxy the client is the last address in
// X-Forwarded-For that is not a proxy's; without one the header is ignored.
func TestClientOf(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, remote string
		forwarded    []string
		want, limit  string
	}{
		{"no proxy", "203.0.113.9:1", nil, "203.0.113.9", "203.0.113.9"},
		{"a client that writes the header itself", "203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9", "203.0.113.9"},
		{"a proxy", "127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"a proxy that appends to what the client wrote", "127.0.0.1:1", []string{"192.0.2.66, 198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"two header lines", "127.0.0.1:1", []string{"192.0.2.66", "198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"two proxies", "127.0.0.1:1", []string{"192.0.2.66, 198.51.100.1, 10.1.2.3"}, "198.51.100.1", "198.51.100.1"},
		{"IPv6", "[fd00::1]:1", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
		{"IPv6 with brackets and a port", "[fd00::1]:1", []string{"[2001:db8:1:2::7]:4711"}, "2001:db8:1:2::7", "2001:db8:1:2::"},
		{"an IPv4 address in IPv6 form", "[::ffff:127.0.0.1]:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1", "198.51.100.1"},
		{"a proxy without the header", "127.0.0.1:1", nil, "127.0.0.1", ""},
		{"no address", "127.0.0.1:1", []string{"198.51.100.1, unknown"}, "127.0.0.1", ""},
		{"no address behind a proxy", "127.0.0.1:1", []string{"unknown, 10.1.2.3"}, "10.1.2.3", ""},
		{"a connection without an address", "@", []string{"198.51.100.1"}, "invalid IP", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{cfg: Config{ProxyNetworks: proxies}}
			r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.forwarded}}
			if got := s.clientOf(r).String(); got != c.want {
				t.Errorf("clientOf %s, X-Forwarded-For %q: %s, want %s", c.remote, c.forwarded, got, c.want)
			}
			if got := s.limitKey(r); got != c.limit {
				t.Errorf("limitKey %s, X-Forwarded-For %q: %q, want %q", c.remote, c.forwarded, got, c.limit)
			}
		})
	}
}
