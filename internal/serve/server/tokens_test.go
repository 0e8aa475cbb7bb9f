package server

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oidc"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

func (s *tokenStore) PutToken(_ context.Context, row auth.TokenRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if row.Origin != [32]byte{} && r.Origin == row.Origin {
			return fs.ErrExist
		}
	}
	s.rows[row.Hash] = row
	return nil
}

func (s *tokenStore) PutSignIn(_ context.Context, row auth.TokenRow, _ auth.SignInLimits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[row.Hash] = row
	return nil
}

func (s *tokenStore) EndSignIn(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, r := range s.rows {
		if r.ID == id && r.Kind == auth.KindSignIn {
			delete(s.rows, h)
			return nil
		}
	}
	return fs.ErrNotExist
}

func (s *tokenStore) EndLogin(context.Context, string) error { return fs.ErrNotExist }

// apiTokens is the API's view of a tokenStore.
type apiTokens struct{ *tokenStore }

func (a apiTokens) List(context.Context) (list []auth.TokenRow, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.rows {
		if r.Kind == "" {
			list = append(list, r)
		}
	}
	return list, nil
}

func (a apiTokens) SignIns(context.Context) (list []auth.TokenRow, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.rows {
		if r.Kind == auth.KindSignIn {
			list = append(list, r)
		}
	}
	return list, nil
}

func (a apiTokens) Revoke(_ context.Context, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h, r := range a.rows {
		if r.ID == id {
			r.Revoked = time.Now().Add(-time.Second)
			a.rows[h] = r
			return nil
		}
	}
	return fs.ErrNotExist
}

// decoded expects a status and decodes the answer.
func decoded[T any](t *testing.T, r reply, status int) (v T) {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("the answer %s: %v, want valid JSON", r.body, err)
	}
	return v
}

// TestTokenAPI: tokens are made, listed and revoked in the shapes of the API; nobody
// sees those of others, and nobody makes one beyond its own rights.
func TestTokenAPI(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	g.s.cfg.API, g.s.cfg.Pages = webOf(g.d, web.Config{Gate: g.s.cfg.Gate, Tokens: apiTokens{g.store}})
	admin := g.store.add(t, "admin", nil, "admin")
	const path = wire.TokensPath
	send := func(method, path, token, body string) reply {
		return askBody(g.s, method, path, body, bearer(token))
	}
	made := decoded[wire.TokenInfo](t, send("POST", path, admin, `{"name":"ci","scopes":["write"],"products":["ours"],"uploads":{"class":"nightly","version":"7"}}`), 201)
	if !auth.IsToken(made.Token) || made.State != "valid" || made.Uploads == nil || made.Uploads.Class != "nightly" || !strings.HasPrefix(made.CreatedBy, "token:") {
		t.Errorf("the new token is %+v, want a valid one for nightly uploads, made by a token", made)
	}
	if strings.Contains(g.log.String(), made.Token) {
		t.Error("the log has the new token")
	}
	list := decoded[wire.TokenList](t, send("GET", path, admin, ""), 200)
	if len(list.Items) != 6 || list.Next != "" || slices.ContainsFunc(list.Items, func(i wire.TokenInfo) bool { return i.Token != "" }) {
		t.Errorf("the list of an admin: %+v; want 6 tokens without secrets", list)
	}
	var ids []string
	for cursor := ""; ; {
		part := decoded[wire.TokenList](t, send("GET", path+"?limit=2&cursor="+cursor, admin, ""), 200)
		for _, i := range part.Items {
			ids = append(ids, i.ID)
		}
		if cursor = part.Next; cursor == "" {
			break
		}
	}
	if len(ids) != 6 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 6 {
		t.Errorf("in parts of two: %q, want 6 different ids", ids)
	}
	// A token sees itself alone, and makes none.
	own := decoded[wire.TokenList](t, send("GET", path, g.ours, ""), 200)
	if len(own.Items) != 1 || own.Items[0].Name != "ours" {
		t.Errorf("the list of a token: %+v, want itself", own)
	}
	for _, tt := range []struct {
		method, path, token, body string
		status                    int
	}{
		{"POST", path, g.ours, `{"name":"x","products":["ours"]}`, 403},
		{"POST", path, admin, `{"name":"x","scopes":["fly"]}`, 400},
		{"POST", path, admin, `{"name":"x","lifetime":1}`, 400},
		{"POST", path, admin, `{"name":"x","expires":"2020-01-01T00:00:00Z"}`, 400},
		{"POST", path, admin, `{"name":""}`, 400},
		{"POST", path, admin, `{"name":"x","scopes":["write"],"uploads":{"url":"https://evil.example"}}`, 400},
		{"GET", path + "?limit=0", admin, "", 400},
		{"GET", path + "?limit=1001", admin, "", 400},
		{"GET", path + "?cursor=AAAA", admin, "", 400},
		{"GET", path + "/" + made.ID, g.ours, "", 404},
		{"GET", path + "/" + made.ID, admin, "", 200},
		{"DELETE", path + "/" + made.ID, g.ours, "", 404},
		{"DELETE", path + "/000000000000", admin, "", 404},
		{"PUT", path, admin, "", 405},
	} {
		if r := send(tt.method, tt.path, tt.token, tt.body); r.status != tt.status || tt.status >= 400 && r.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %s: status %d, %s; want %d", tt.method, tt.path, tt.body, r.status, r.body, tt.status)
		}
	}
	if r := ask(g.s, "GET", path); r.status != 401 {
		t.Errorf("without credentials: status %d, want 401", r.status)
	}
	if r := send("DELETE", path+"/"+made.ID, admin, ""); r.status != 204 {
		t.Errorf("DELETE: status %d, want 204", r.status)
	}
	if got := decoded[wire.TokenInfo](t, send("GET", path+"/"+made.ID, admin, ""), 200); got.State != "revoked" || got.Revoked.IsZero() {
		t.Errorf("after DELETE: %+v, want it revoked", got)
	}
	// A token may revoke itself.
	self := own.Items[0].ID
	if r := send("DELETE", path+"/"+self, g.ours, ""); r.status != 204 {
		t.Errorf("a token that revokes itself: status %d, want 204", r.status)
	}
}

// TestExchangeAPI: a job pushes with the token that it got for its id token, which
// needs no other credentials, and what it pushes is filed as the rule says.
func TestExchangeAPI(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	issuer := oidctest.New(t, "")
	const audience = "https://symbols.example.com"
	gate, err := auth.New(auth.Config{Policy: demand, OIDCClient: func(string) *http.Client { return http.DefaultClient }, OIDC: []oidc.Rule{{
		Issuer: issuer.URL, Audience: audience, Match: map[string]string{"repository_id": "74"}, Write: []string{"ours"}, Product: "ours", Class: "nightly",
	}}}, g.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	g.s.cfg.Gate = gate
	g.s.cfg.API, g.s.cfg.Pages = webOf(g.d, web.Config{Gate: gate, Tokens: apiTokens{g.store}})
	idToken := issuer.Sign(issuer.GitHub(audience, time.Now(), nil))
	done := decoded[wire.Exchanged](t, askBody(g.s, "POST", wire.TokenPath, "", bearer(idToken)), 201)
	if !auth.IsToken(done.Token) || time.Until(done.Expires) > time.Hour || !slices.Equal(done.Products, []string{"ours"}) {
		t.Errorf("exchanged for %+v, want a token of at most an hour for the product ours", done)
	}
	for what, header := range map[string]string{"again": bearer(idToken), "nothing": "X-Nothing: 1", "Basic": basic("x", done.Token), "a token of the server": bearer(done.Token), "nonsense": bearer("a.b.c")} {
		r := askBody(g.s, "POST", wire.TokenPath, "", header)
		if p := decoded[wire.Problem](t, r, 401); p.Type != wire.ProblemType+"credentials" || p.Detail == "" {
			t.Errorf("%s: %+v, want the problem credentials with a detail", what, p)
		}
	}
	if r := askBody(g.s, "GET", wire.TokenPath, "", bearer(idToken)); r.status != 401 {
		t.Errorf("GET with an id token: status %d, want 401", r.status)
	}
	open := func(body string) reply {
		return askBody(g.s, "POST", wire.PushPath+"/stages", body, bearer(done.Token))
	}
	st := decoded[wire.PushState](t, open(`{"version":"1","ci_job":{"ci":"jenkins","url":"https://evil.example"}}`), 201)
	if st.Product != "ours" || st.Class != "nightly" {
		t.Errorf("the stage is for product %q, class %q; want ours and nightly", st.Product, st.Class)
	}
	if p := decoded[wire.Problem](t, open(`{"version":"1","class":"release"}`), 403); p.Fields["class"] == "" {
		t.Errorf("another class: %+v, want the field class", p)
	}
	decoded[wire.Problem](t, open(`{"product":"theirs"}`), 403)
	if r := askBody(g.s, "GET", wire.TokensPath, "", bearer(done.Token)); r.status != 200 || strings.Contains(r.body, `"name":"all"`) {
		t.Errorf("the job's list of tokens: status %d, %s; want itself", r.status, r.body)
	}
	for token, want := range map[string]int{done.Token: 403, g.writes: 404} { // this server has no retention
		if r := askBody(g.s, "PATCH", "/-/api/v1/builds/1", `{"class":"release"}`, bearer(token)); r.status != want {
			t.Errorf("a change of the class: status %d, %s; want %d", r.status, r.body, want)
		}
	}
	// A job is no worker, even if it may write everything.
	all, row, err := auth.MakeToken(auth.TokenSpec{Name: "job", Scopes: []string{"write"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	row.Origin[0] = 1
	if err := g.store.PutToken(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if r := askBody(g.s, "POST", wire.JobsPath+"lease", "{}", bearer(all)); r.status != 403 {
		t.Errorf("a job that leases work: status %d, want 403", r.status)
	}
	// The transaction has the facts of the claims, not those of the request.
	body := sym(bigID, "job.pdb", "", 300)
	ref := blob.Sum(body).String()
	stage := wire.PushPath + "/stages/" + st.ID
	if r := askBody(g.s, "POST", stage+"/check", `[{"path":"job.sym","size":300,"sha256":"`+ref+`"}]`, bearer(done.Token)); r.status != 200 {
		t.Fatalf("check: status %d, want 200, %s", r.status, r.body)
	}
	if r := askBody(g.s, "PUT", stage+"/contents/"+ref, string(body), bearer(done.Token)); r.status != 201 {
		t.Fatalf("PUT: status %d, want 201, %s", r.status, r.body)
	}
	committed := decoded[wire.PushCommitted](t, askBody(g.s, "POST", stage+"/commit", `{"files":1}`, bearer(done.Token)), 200)
	info, err := g.d.Transaction(t.Context(), committed.Transaction)
	if err != nil {
		t.Fatal(err)
	}
	if info.Who != "oidc:github:octo/game@refs/heads/main" || !strings.Contains(string(info.Build), `"verified":true`) || !strings.Contains(string(info.Build), "2f1c0ffee") || strings.Contains(string(info.Build), "evil") {
		t.Errorf("the build is by %q with the build %s; want the job and its verified facts", info.Who, info.Build)
	}
}
