package auth

import (
	"net"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/serve/auth/kdctest"
)

// TestKDC authenticates curl with tickets of a real KDC.
func TestKDC(t *testing.T) {
	k, err := kdctest.New(t)
	if err != nil {
		symtest.Missing(t, "kerberos", "%v", err)
	}
	principal := "alice@" + kdctest.Realm
	g := newGate(t, Config{
		Keytab: k.Keytab(), TicketGroups: true, PerConnection: true, Basic: true,
		Policy: PolicyConfig{Admit: []string{principal}},
	}, nil)
	srv := listen(t, g)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	url := "http://localhost:" + port + "/"
	alice, mallory, nobody := k.As(t, "alice"), k.As(t, "mallory"), k.As(t, "")
	negotiate := func(client *kdctest.KDC, args ...string) kdctest.Response {
		t.Helper()
		return client.Curl(t, append([]string{"--negotiate", "-u", ":"}, args...)...)
	}

	r := alice.Curl(t, url)
	if r.Status != "401" || len(r.Offers) != 3 || r.Offers[0] != "Negotiate" || !strings.HasPrefix(r.Offers[1], "Basic ") || !strings.HasPrefix(r.Offers[2], "Bearer ") {
		t.Errorf("without a ticket: status %s, offers %q, want 401, Negotiate, Basic and Bearer", r.Status, r.Offers)
	}
	for range 3 {
		r := negotiate(alice, url)
		if r.Status != "200" || r.Body != "hello "+principal+"\n" || len(r.Offers) != 1 || !strings.HasPrefix(r.Offers[0], "Negotiate ") {
			t.Errorf("alice: status %s, body %q, offers %q, want 200, her name and one Negotiate reply", r.Status, r.Body, r.Offers)
		}
	}
	if r := negotiate(alice, url, url+"2"); r.Status != "200" || r.Body != "hello "+principal+"\n" {
		t.Errorf("second request of a connection: status %s, body %q, want 200 and alice's name", r.Status, r.Body)
	}
	for _, test := range []struct {
		what   string
		client *kdctest.KDC
		args   []string
		status string
	}{
		{"HEAD", alice, []string{"-I", url}, "200"},
		{"mallory, who is not admitted", mallory, []string{url}, "403"},
		{"a client without a ticket", nobody, []string{url}, "401"},
		{"an IP address, which has no service principal", alice, []string{strings.Replace(url, "localhost", "127.0.0.1", 1)}, "401"},
	} {
		if r := negotiate(test.client, test.args...); r.Status != test.status {
			t.Errorf("%s: status %s, want %s", test.what, r.Status, test.status)
		}
	}
	// The KDC issues new tickets for the new key. The server has only the old
	// key until it reads the keytab again.
	k.ChangeKey(t)
	fresh := k.As(t, "alice")
	if r := negotiate(fresh, url); r.Status != "401" {
		t.Errorf("a key that the server has not read: status %s, want 401", r.Status)
	}
	g.tick()
	if r := negotiate(fresh, url); r.Status != "200" {
		t.Errorf("after the server read the keytab again: status %s, want 200", r.Status)
	}
}
