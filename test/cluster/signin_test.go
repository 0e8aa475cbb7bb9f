package cluster

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestSignInNodes: of two servers on one PostgreSQL database, what one signs in, the
// other knows at once, and what one revokes ends at the other within five seconds.
func TestSignInNodes(t *testing.T) {
	t.Parallel()
	users := commandtest.WriteUsers(t, t.TempDir(), "alice")
	conf := filepath.Join(t.TempDir(), "server.yaml")
	commandtest.Write(t, conf, fmt.Sprintf("auth:\n  users_file: %s\n", users))
	c := commandtest.NewClusterWith(t, 2, func(int) []string { return []string{"--config", conf, "--auth"} })
	token := strings.TrimSpace(c.Run(t, "token", "new", "--name", "boss", "--scope", "admin"))
	signIn := func(password string) *commandtest.Person {
		t.Helper()
		p := commandtest.NewPerson(t)
		if status, where, text := p.Open(c.Nodes[0].URL+"/-/login", url.Values{"user": {"alice"}, "password": {password}}); status != 200 || where.Path != "/" {
			t.Fatalf("signing in: status %d at %s, want the root\n%s", status, where, text)
		}
		return p
	}
	in := func(p *commandtest.Person, node int) bool {
		t.Helper()
		_, where, _ := p.Open(c.Nodes[node].URL+"/-/builds", nil) // the cookie of an address counts on all its ports
		return where.Path == "/-/builds"
	}
	out := func(what string, p *commandtest.Person, end func()) {
		t.Helper()
		if !in(p, 0) || !in(p, 1) {
			t.Fatalf("%s: signed in at the servers: %v, %v; want both", what, in(p, 0), in(p, 1))
		}
		end()
		begun := time.Now()
		symtest.Await(t, time.Minute, "the end of the sign-in at the other server", func() bool { return !in(p, 1) })
		if d := time.Since(begun); d > 5*time.Second {
			t.Errorf("%s: the sign-in counts for another %v at the other server, want at most 5 s", what, d)
		}
		if in(p, 0) {
			t.Errorf("%s: the sign-in counts at its server", what)
		}
	}
	a, b, boss := signIn("secret"), signIn("secret"), signIn(token)
	out("signing out", a, func() { a.Open(c.Nodes[0].URL+"/-/logout", url.Values{}) })
	out("an end by an administrator", b, func() {
		_, _, text := boss.Open(c.Nodes[0].URL+"/-/signins", nil) //nolint:misspell // a word of addresses
		m := regexp.MustCompile(`<bdi>alice</bdi></th>.*?action="(/-/signins/[0-9a-f]+/end)"`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("there is no button to end the sign-in of alice:\n%s", text)
		}
		boss.Open(c.Nodes[0].URL+m[1], url.Values{})
	})
	out("a revoked token", boss, func() {
		list := c.Run(t, "token", "list", "--json")
		id := regexp.MustCompile(`"id":"([0-9a-f]{12})","name":"boss"`).FindStringSubmatch(list)
		if id == nil {
			t.Fatalf("the list has no token boss:\n%s", list)
		}
		c.Run(t, "token", "revoke", id[1])
	})
}
