package server

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// TestKeyFlood: clients without credentials who send id tokens with unknown keys make the
// server ask its issuer once, even while the issuer does not answer; jobs exchange their
// tokens meanwhile, and files are answered.
func TestKeyFlood(t *testing.T) {
	t.Parallel()
	const audience = "https://symbols.example.com"
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprint("the issuer hangs: ", hangs), func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, demand, Config{})
			issuer := oidctest.New(t, "")
			var mu sync.Mutex
			now := time.Now()
			clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			gate, err := auth.New(auth.Config{Policy: demand, Now: clock, OIDCClient: func(string) *http.Client { return http.DefaultClient }, OIDC: []oidc.Rule{{
				Issuer: issuer.URL, Audience: audience, Match: map[string]string{"repository_id": "74"}, Write: []string{"ours"}, Product: "ours",
			}}}, g.store, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer gate.Close()
			g.s.cfg.Gate = gate
			g.s.cfg.API, g.s.cfg.Pages = webOf(g.d, web.Config{Gate: gate, Tokens: apiTokens{g.store}})
			exchange := func(token string) int { return askBody(g.s, "POST", wire.TokenPath, "", bearer(token)).status }
			good := func(n int) string {
				return issuer.Sign(issuer.GitHub(audience, clock(), map[string]any{"jti": fmt.Sprint(n)}))
			}
			if status := exchange(good(0)); status != 201 {
				t.Fatalf("a good token before the flood: status %d, want 201", status)
			}
			mu.Lock()
			now = now.Add(2 * time.Minute) // the keys are fresh, and may be read again
			mu.Unlock()
			release := make(chan struct{})
			var waiting atomic.Int32
			if hangs {
				issuer.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
					waiting.Add(1)
					select {
					case <-release:
					case <-r.Context().Done():
					}
					return false
				})
			}
			before := issuer.Requests()
			var flood sync.WaitGroup
			for n := range 200 {
				flood.Go(func() {
					for m := range 5 {
						token := oidctest.Encode(map[string]any{"alg": "RS256", "kid": fmt.Sprintf("unknown-%d-%d", n, m)}) + "." + oidctest.Encode(issuer.GitHub(audience, clock(), nil)) + ".AAAA"
						if status := exchange(token); status != 401 && status != 503 {
							t.Errorf("an unknown key: status %d, want 401 or 503", status)
						}
					}
				})
			}
			if hangs {
				symtest.Await(t, 20*time.Second, "a question to the issuer", func() bool { return waiting.Load() > 0 })
			}
			for n := range 20 {
				if status := exchange(good(n + 1)); status != 201 {
					t.Errorf("a good token during the flood: status %d, want 201", status)
				}
				if r := ask(g.s, "GET", g.oursPDB.path(t, layout.SymStore), bearer(g.ours)); r.status != 200 {
					t.Errorf("a file during the flood: status %d, want 200", r.status)
				}
			}
			close(release)
			flood.Wait()
			if n := issuer.Requests() - before; n > 2 {
				t.Errorf("the issuer got %d requests, want 2 at most (metadata and keys)", n)
			}
		})
	}
}
