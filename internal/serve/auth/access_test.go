package auth

import (
	"context"
	"strings"
	"testing"
	"time"
)

// accessSecret is an access token.
const accessSecret = "sd_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// accessRow is the row of that token, for whoever a credential names.
func accessRow(now time.Time, credential string) TokenRow {
	return TokenRow{ID: "access", Hash: HashToken(accessSecret), Kind: KindAccess, Parent: "login", Created: now, Expires: now.Add(time.Hour), Facts: credential}
}

// TestAccessOfTicket: a connection on which the token of a login was accepted proves nothing
// without it, although a ticket allowed the login.
func TestAccessOfTicket(t *testing.T) {
	t.Parallel()
	c, s := newClock(), newStore()
	kt := testKeytab(t, "pw", "HTTP/sym.unit.test")
	g := newGate(t, Config{
		Now: c.now, Started: c.now().Add(-time.Hour), Keytab: writeKeytab(t, kt, ""), PerConnection: true,
		Policy: PolicyConfig{Grants: []Grant{{Who: []string{"carol@" + testRealm}, Read: []string{"App"}}}},
	}, s)
	s.rows[HashToken(accessSecret)] = accessRow(c.now(), `{"name":"carol@`+testRealm+`","method":"negotiate"}`)
	ctx := g.ConnContext(context.Background(), nil)
	id, rights, ch := g.Authenticate(get("Authorization", "Bearer "+accessSecret).WithContext(ctx), "")
	if ch != nil || id.Method != MethodNegotiate || id.Login != "login" || !rights.MayRead("App") {
		t.Fatalf("%+v, %+v, %+v; want carol", id, rights, ch)
	}
	if id, _, ch := g.Authenticate(get().WithContext(ctx), ""); ch == nil {
		t.Errorf("the next request without credentials: %+v, want 401", id)
	}
	// With a ticket the connection does.
	b, _, _ := forge{kt: kt, cname: []string{"carol"}}.token(t, c)
	if id, _, ch := g.Authenticate(negotiate(b).WithContext(ctx), ""); ch != nil {
		t.Fatalf("a ticket: %+v, %+v; want carol", id, ch)
	}
	if id, _, ch := g.Authenticate(get().WithContext(ctx), ""); ch != nil || id.Login != "" {
		t.Errorf("the next request: %+v, %+v; want carol by the connection", id, ch)
	}
}

// TestLoginLifeOfGroups: a login whose rights come from groups lives as long as a token of them.
func TestLoginLifeOfGroups(t *testing.T) {
	t.Parallel()
	g := newGate(t, Config{Policy: PolicyConfig{Demand: true, Grants: []Grant{
		{Who: []string{"oidc:*@corp.example"}, Read: []string{"App"}}, {Who: []string{"oidc-group:tools"}, Read: []string{"Tool"}}, {Who: []string{"sid:S-1-5-32-1"}, Admin: true},
	}}}, newStore())
	for _, tt := range []struct {
		id   Identity
		want time.Duration
	}{
		{Identity{Name: "a@corp.example", Method: MethodOIDC}, madeLife}, {Identity{Name: "a@corp.example", Method: MethodOIDC, Groups: []string{"others"}}, madeLife},
		{Identity{Name: "a@corp.example", Method: MethodOIDC, Groups: []string{"tools"}}, groupLife}, {Identity{Name: "a@other.example", Method: MethodOIDC, Groups: []string{"tools"}}, groupLife},
		{Identity{Name: "a@X", Method: MethodNegotiate, SIDs: []string{"S-1-5-32-1"}}, groupLife}, {Identity{Name: "alice", Method: MethodBasic}, madeLife},
		{Identity{Name: "ci", Method: MethodToken}, madeLife}, {Identity{Name: "box", Method: MethodCertificate}, madeLife},
	} {
		rights := g.policy().Decide(&tt.id)
		if got := g.loginLife(&tt.id, &rights); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.id, got, tt.want)
		}
	}
}

// TestRedactRefresh: a refresh token is replaced like a token.
func TestRedactRefresh(t *testing.T) {
	secret := refreshPrefix + randomDigits(16) + randomDigits(32)
	for _, text := range []string{"x " + secret + " y", "token=" + secret + "&x", "/a/" + strings.ToUpper(secret[:3]) + secret[3:]} {
		if got := Redact(text); strings.Contains(got, secret[10:30]) || !strings.Contains(got, redacted) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
