package login

import (
	"context"
	"testing"
)

// TestRefreshed: what keeps files with tokens fresh is told of each new access token, once, when
// others can read it too.
func TestRefreshed(t *testing.T) {
	t.Parallel()
	srv, s := newAuthServer(t), newLogins(t)
	var told []string
	s.Refreshed = func(ctx context.Context, server, token string) {
		told = append(told, token)
		other := &Logins{Dir: s.Dir, HTTP: plain, Keyring: s.Keyring}
		if got, err := other.Access(ctx, server, Options{}); err != nil || got.Token != token {
			t.Errorf("told of %q; others get %q, %v", token, got.Token, err)
		}
	}
	signIn(t, s, srv.URL)
	first, err := s.Access(t.Context(), srv.URL, Options{})
	if err != nil || len(told) != 1 || told[0] != first.Token {
		t.Errorf("after the sign-in: told %q, %v; want %q", told, err, first.Token)
	}
	second, err := s.Access(t.Context(), srv.URL, Options{PassOverCache: true, Refused: first.Token})
	if err != nil || len(told) != 2 || told[1] != second.Token {
		t.Errorf("after a refresh: told %q, %v; want %q", told, err, second.Token)
	}
}
