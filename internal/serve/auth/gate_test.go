package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// clock is a clock that stands until it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// memStore keeps tokens in memory.
type memStore struct {
	noLogins
	limits  SignInLimits // of the last sign-in
	mu      sync.Mutex
	rows    map[[32]byte]TokenRow
	err     error
	asked   int
	touched map[string]time.Time
	writes  int
	full    bool // PutToken fails
}

func (s *memStore) PutToken(_ context.Context, row TokenRow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return ErrManyTokens
	}
	for _, r := range s.rows {
		if row.Origin != [32]byte{} && r.Origin == row.Origin {
			return fs.ErrExist
		}
	}
	s.rows[row.Hash] = row
	return nil
}

func (s *memStore) TokenByHash(_ context.Context, h [32]byte) (TokenRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return TokenRow{}, s.err
	}
	r, ok := s.rows[h]
	if !ok {
		return TokenRow{}, fs.ErrNotExist
	}
	return r, nil
}

func (s *memStore) TokenByID(_ context.Context, id string) (TokenRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.ID == id && r.Kind == "" {
			return r, nil
		}
	}
	return TokenRow{}, cmp.Or(s.err, fs.ErrNotExist)
}

func (s *memStore) TouchToken(_ context.Context, used map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.writes++
	for id, at := range used {
		s.touched[id] = at
	}
	return nil
}

func (s *memStore) PutSignIn(_ context.Context, row TokenRow, limits SignInLimits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return ErrManySignIns
	}
	s.limits = limits
	s.rows[row.Hash] = row
	return nil
}

func (s *memStore) EndSignIn(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, r := range s.rows {
		if r.ID == id && r.Kind == KindSignIn {
			delete(s.rows, h)
			return nil
		}
	}
	return fs.ErrNotExist
}

func newStore() *memStore {
	return &memStore{rows: map[[32]byte]TokenRow{}, touched: map[string]time.Time{}}
}

// issue makes a token and keeps it.
func (s *memStore) issue(t *testing.T, c *clock, spec TokenSpec) (string, TokenRow) {
	t.Helper()
	secret, row, err := MakeToken(spec, c.now())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[row.Hash] = row
	return secret, row
}

func newGate(t *testing.T, cfg Config, s Store) *Gate {
	t.Helper()
	g, err := New(cfg, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func get(h ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/a.pdb/K/a.pdb", nil)
	for i := 0; i < len(h); i += 2 {
		r.Header.Add(h[i], h[i+1])
	}
	return r
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func usersFile(t *testing.T, pairs ...string) string {
	t.Helper()
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		h, err := bcrypt.GenerateFromPassword([]byte(pairs[i+1]), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(pairs[i] + ":" + string(h) + "\n")
	}
	name := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestCredentials sends every kind of credential, and nearly valid ones, to a
// server that requires credentials.
func TestCredentials(t *testing.T) {
	c, s := newClock(), newStore()
	game, row := s.issue(t, c, TokenSpec{Name: "ci", Products: []string{"Game"}})
	old, _ := s.issue(t, c, TokenSpec{Name: "old", Lifetime: time.Second})
	gone, goneRow := s.issue(t, c, TokenSpec{Name: "gone"})
	goneRow.Revoked = c.now()
	s.rows[goneRow.Hash] = goneRow
	c.add(time.Second)
	g := newGate(t, Config{
		Now: c.now, Users: usersFile(t, "alice", "secret", "mallory", "m", "mötley", "crüe:x", "long", strings.Repeat("x", 72)),
		Policy: PolicyConfig{Grants: []Grant{{Who: []string{"alice", "basic:mötley", "long"}, Read: []string{"App"}}}},
	}, s)
	never := NewToken()
	tests := []struct {
		name   string
		header []string
		path   string
		status int // 0: let in
		who    string
		method Method
	}{
		{"nothing", nil, "", 401, "", ""},
		{"path token", nil, game, 0, "ci", MethodToken},
		{"path token unknown", nil, never, 401, "", ""},
		{"path token revoked", nil, gone, 401, "", ""},
		{"path token expired", nil, old, 401, "", ""},
		{"path token misshapen", nil, "sd_x", 401, "", ""},
		{"path token before header", []string{"Authorization", "Bearer " + game}, never, 401, "", ""},
		{"bearer", []string{"Authorization", "Bearer " + game}, "", 0, "ci", MethodToken},
		{"bearer, other case", []string{"Authorization", "bEARER  " + game}, "", 0, "ci", MethodToken},
		{"bearer revoked", []string{"Authorization", "Bearer " + gone}, "", 401, "", ""},
		{"bearer expired", []string{"Authorization", "Bearer " + old}, "", 401, "", ""},
		{"bearer unknown", []string{"Authorization", "Bearer " + never}, "", 401, "", ""},
		{"bearer longer", []string{"Authorization", "Bearer " + game + "A"}, "", 401, "", ""},
		{"bearer shorter", []string{"Authorization", "Bearer " + game[:45]}, "", 401, "", ""},
		{"bearer empty", []string{"Authorization", "Bearer"}, "", 401, "", ""},
		{"no scheme", []string{"Authorization", game}, "", 401, "", ""},
		{"empty header", []string{"Authorization", ""}, "", 401, "", ""},
		{"digest", []string{"Authorization", "Digest username=x"}, "", 401, "", ""},
		{"basic, any user", []string{"Authorization", basic("anything at all", game)}, "", 0, "ci", MethodToken},
		{"basic, no user", []string{"Authorization", basic("", game)}, "", 0, "ci", MethodToken},
		{"basic, token as user", []string{"Authorization", basic(game, "")}, "", 0, "ci", MethodToken},
		{"basic, token as user with password", []string{"Authorization", basic(game, "x")}, "", 401, "", ""},
		{"basic, revoked", []string{"Authorization", basic("x", gone)}, "", 401, "", ""},
		{"basic, no colon", []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(game))}, "", 401, "", ""},
		{"basic, no base64", []string{"Authorization", "Basic !!!"}, "", 401, "", ""},
		{"basic, no padding", []string{"Authorization", strings.TrimRight(basic("alice", "secret"), "=") + "A"}, "", 401, "", ""},
		{"basic, loose bits", []string{"Authorization", "Basic YTpiYx=="}, "", 401, "", ""},
		{"basic, too long", []string{"Authorization", basic("alice", strings.Repeat("x", 4000))}, "", 401, "", ""},
		{"password", []string{"Authorization", basic("alice", "secret")}, "", 0, "alice", MethodBasic},
		{"password with colon", []string{"Authorization", basic("mötley", "crüe:x")}, "", 0, "mötley", MethodBasic},
		{"password wrong", []string{"Authorization", basic("alice", "Secret")}, "", 401, "", ""},
		{"password empty", []string{"Authorization", basic("alice", "")}, "", 401, "", ""},
		{"password of 72 bytes", []string{"Authorization", basic("long", strings.Repeat("x", 72))}, "", 0, "long", MethodBasic},
		{"password of 73 bytes", []string{"Authorization", basic("long", strings.Repeat("x", 73))}, "", 401, "", ""},
		{"user unknown", []string{"Authorization", basic("bob", "secret")}, "", 401, "", ""},
		{"user of other case", []string{"Authorization", basic("Alice", "secret")}, "", 401, "", ""},
		{"user empty", []string{"Authorization", basic("", "secret")}, "", 401, "", ""},
		{"user with NUL", []string{"Authorization", basic("a\x00", "secret")}, "", 401, "", ""},
		{"user not admitted", []string{"Authorization", basic("mallory", "m")}, "", 403, "mallory", MethodBasic},
		{"two headers", []string{"Authorization", basic("alice", "secret"), "Authorization", "Bearer " + game}, "", 401, "", ""},
		{"own header", []string{"X-Symdepot-Token", game}, "", 0, "ci", MethodToken},
		{"own header twice", []string{"X-Symdepot-Token", game, "X-Symdepot-Token", game}, "", 401, "", ""},
		{"own header, no token", []string{"X-Symdepot-Token", "x"}, "", 401, "", ""},
		{"uploader's header", []string{"Auth-Token", game}, "", 0, "ci", MethodToken},
		{"uploader's header with label", []string{"Auth-Token", game + "-nightly build"}, "", 0, "ci", MethodToken},
		{"uploader's header, longer", []string{"Auth-Token", game + "x"}, "", 401, "", ""},
		{"Authorization before the rest", []string{"Authorization", "Bearer " + gone, "X-Symdepot-Token", game}, "", 401, "", ""},
		{"ticket where none is taken", []string{"Authorization", "Negotiate AAAA"}, "", 401, "", ""},
		{"NTLM", []string{"Authorization", "NTLM TlRMTVNTUAABAAAA"}, "", 401, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			id, rights, ch := g.Authenticate(get(test.header...), test.path)
			status := 0
			if ch != nil {
				status = ch.Status
				if rights.Admitted {
					t.Errorf("refused with rights %+v, want none", rights)
				}
			}
			if status != test.status {
				t.Fatalf("status %d, want %d (%+v)", status, test.status, ch)
			}
			if id.Name != test.who || id.Method != test.method {
				t.Errorf("identity %+v, want %s by %s", id, test.who, test.method)
			}
			if ch != nil && (ch.Status == 401) != (len(ch.Header) > 0) {
				t.Errorf("challenge %+v, want a header with status 401 and only there", ch)
			}
			if ch != nil && strings.Contains(ch.Text+ch.Reason+strings.Join(ch.Header, ""), "sd_") {
				t.Errorf("a token in %+v, want no secret", ch)
			}
		})
	}
	if id, rights, _ := g.Authenticate(get(), game); !slices.Equal(rights.Products, []string{"Game"}) || rights.All || rights.Write || id.TokenID != row.ID || id.Carrier != "path" {
		t.Errorf(`Authenticate: %+v, %+v; want Products []string{"Game"}, All false, Write false, TokenID %v, Carrier "path"`, id, rights, row.ID)
	}
}

func TestRevocationIsQuick(t *testing.T) {
	c, s := newClock(), newStore()
	secret, row := s.issue(t, c, TokenSpec{Name: "ci", Lifetime: time.Hour})
	g := newGate(t, Config{Now: c.now, Policy: PolicyConfig{Demand: true}}, s)
	in := func() bool {
		_, _, ch := g.Authenticate(get(), secret)
		return ch == nil
	}
	for range 100 {
		if !in() {
			t.Fatal("not let in")
		}
	}
	if s.asked != 1 {
		t.Errorf("the store was asked %d times, want 1", s.asked)
	}
	row.Revoked = c.now()
	s.rows[row.Hash] = row
	c.add(5 * time.Second)
	if in() {
		t.Error("let in 5 s after the revocation")
	}
	row.Revoked = time.Time{}
	s.rows[row.Hash] = row
	c.add(5 * time.Second)
	if !in() {
		t.Error("not let in")
	}
	c.add(time.Hour - 10*time.Second - 1)
	if !in() {
		t.Error("not let in at the last moment")
	}
	c.add(1)
	if in() {
		t.Error("let in by what was remembered of an expired token")
	}
	// What is unknown is asked for again soon, too.
	c.add(-time.Hour)
	late, lateRow := s.issue(t, c, TokenSpec{Name: "late"})
	delete(s.rows, lateRow.Hash)
	if _, _, ch := g.Authenticate(get(), late); ch == nil {
		t.Error("an unknown token lets in")
	}
	s.rows[lateRow.Hash] = lateRow
	c.add(5 * time.Second)
	if _, _, ch := g.Authenticate(get(), late); ch != nil {
		t.Error("a new token does not let in")
	}
	// A store that cannot be read lets nobody in for longer, and says so.
	s.err = errors.New("disk I/O error")
	c.add(5 * time.Second)
	if _, _, ch := g.Authenticate(get(), late); ch == nil || ch.Status != 503 {
		t.Errorf("Authenticate: %+v, want not nil, Status 503", ch)
	}
}

func TestLastUseIsNotedInBatches(t *testing.T) {
	c, s := newClock(), newStore()
	secret, row := s.issue(t, c, TokenSpec{Name: "ci"})
	g := newGate(t, Config{Now: c.now}, s)
	for range 50 {
		c.add(time.Second)
		g.Authenticate(get("Authorization", "Bearer "+secret), "")
	}
	if s.writes != 0 {
		t.Fatal("written at once")
	}
	s.err = errors.New("locked")
	g.tick()
	s.err = nil
	g.tick()
	g.tick()
	if s.writes != 1 || !s.touched[row.ID].Equal(c.now()) {
		t.Errorf("%d writes, %v; want one, at %v", s.writes, s.touched, c.now())
	}
	g.Authenticate(get("Authorization", "Bearer "+secret), "")
	c.add(time.Second)
	g.Authenticate(get("Authorization", "Bearer "+secret), "")
	if err := g.Close(); err != nil || !s.touched[row.ID].Equal(c.now()) {
		t.Errorf("not noted at the end: %v %v", err, s.touched)
	}
}

// TestOpen: a server without configured credentials is open.
func TestOpen(t *testing.T) {
	c, s := newClock(), newStore()
	write, _ := s.issue(t, c, TokenSpec{Name: "push", Scopes: []string{"write"}, Products: []string{"Game"}})
	g := newGate(t, Config{Now: c.now}, s)
	if r, open := g.Open(); !open || !r.All || r.Write || r.Admin {
		t.Errorf("Open: %+v, %v; want true, All true, Write false, Admin false", r, open)
	}
	for _, h := range [][]string{nil, {"Authorization", "Bearer somebody-else's"}, {"Authorization", "Bearer " + NewToken()}, {"Authorization", basic("a", "b")}} {
		id, r, ch := g.Authenticate(get(h...), "")
		if ch != nil || !r.All || r.Write || !id.Anonymous() || (h != nil) != (id.Failure != "") {
			t.Errorf("%v: id %+v, rights %+v, challenge %+v; want anonymous, who may read all and write nothing, with a failure if there are credentials", h, id, r, ch)
		}
	}
	_, r, ch := g.Authenticate(get("Authorization", "Bearer "+write), "")
	if ch != nil || !r.All || !r.MayWrite("Game") || r.MayWrite("App") || r.WriteAll || r.Admin {
		t.Errorf(`Authenticate(""): %+v, %+v; want nil, All true, r.MayWrite("Game"), not r.MayWrite("App"), WriteAll false, Admin false`, r, ch)
	}
	if _, _, ch := g.Authenticate(get(), NewToken()); ch == nil || ch.Status != 401 {
		t.Errorf("unknown path token: %+v, want 401", ch)
	}
	if ch := g.NewChallenge(); ch.Status != 401 || !strings.HasPrefix(ch.Header[0], "Basic ") {
		t.Errorf(`NewChallenge: %+v, want Status 401, Header[0] that begins with "Basic "`, ch)
	}
	none := newGate(t, Config{}, nil)
	if _, _, ch := none.Authenticate(get(), write); ch == nil || ch.Status != 401 {
		t.Errorf("a gate without a store: %+v", ch)
	}
}

// TestSomeForAnonymous: some products are for everybody, others are not.
func TestSomeForAnonymous(t *testing.T) {
	c, s := newClock(), newStore()
	game, _ := s.issue(t, c, TokenSpec{Name: "game", Products: []string{"Game"}})
	g := newGate(t, Config{Now: c.now, Policy: PolicyConfig{Anonymous: []string{"Public"}}, Users: usersFile(t, "alice", "secret")}, s)
	if _, open := g.Open(); open {
		t.Error("the gate is open to everybody, want it closed")
	}
	_, r, ch := g.Authenticate(get(), "")
	if ch != nil || !slices.Equal(r.Products, []string{"Public"}) || r.All {
		t.Errorf(`Authenticate(""): %+v, %+v; want nil, Products []string{"Public"}, All false`, r, ch)
	}
	_, r, ch = g.Authenticate(get(), game)
	if ch != nil || !slices.Equal(r.Products, []string{"Game", "Public"}) || r.All {
		t.Errorf(`Authenticate: %+v, %+v; want nil, Products []string{"Game", "Public"}, All false`, r, ch)
	}
	if _, _, ch = g.Authenticate(get("Authorization", basic("alice", "wrong")), ""); ch == nil || ch.Status != 401 {
		t.Errorf(`Authenticate(""): %+v, want not nil, Status 401`, ch)
	}
	if _, r, ch = g.Authenticate(get("Authorization", basic("alice", "secret")), ""); ch != nil || !r.All {
		t.Errorf(`Authenticate(""): %+v, %+v; want nil, All true`, r, ch)
	}
}

func TestUsersFile(t *testing.T) {
	good := "$2y$05$7EqJtq98hPqEX7fNZaFWoOa4wrv0p3Tj5Y9SWUgeSD3iMQ6eOtZbS"
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"# people\n\nalice:" + good + "\n", ""},
		{"alice:" + good + "\nalice:" + good, "2: the user \"alice\" is listed twice"},
		{"alice", "1: no colon"},
		{":" + good, "1: the user name is empty"},
		{"alice:secret", "htpasswd -B"},
		{"alice:$apr1$xxxxxxxx$yyyyyyyyyyyyyyyyyyyyyy", "htpasswd -B"},
		{"alice:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "htpasswd -B"},
		{"alice:" + strings.Replace(good, "$05$", "$31$", 1), "cost is 31"},
		{"alice:" + good[:59], "htpasswd -B"},
	} {
		u, err := parsePasswords("users", []byte(test.text))
		if test.want == "" {
			if err != nil {
				t.Errorf("%q: got error %v, want no error", test.text, err)
			} else if err := bcrypt.CompareHashAndPassword(u.nobody, []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
				t.Errorf("nobody: %v, want bcrypt.ErrMismatchedHashAndPassword", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "users:") {
			t.Errorf("%q: %v, want %q", test.text, err, test.want)
		}
	}
	if _, err := New(Config{Users: "/does/not/exist"}, nil, nil); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf(`New: error %v, want an error, one with "/does/not/exist"`, err)
	}
}

func TestUsersAreReadAgain(t *testing.T) {
	c := newClock()
	name := usersFile(t, "alice", "one")
	g := newGate(t, Config{Now: c.now, Users: name}, nil)
	status := func(password string) int {
		_, _, ch := g.Authenticate(get("Authorization", basic("alice", password)), "")
		if ch == nil {
			return 200
		}
		return ch.Status
	}
	if status("one") != 200 || status("two") != 401 {
		t.Fatal("at first the second password is taken or the first one is not, want only the first")
	}
	b, err := os.ReadFile(usersFile(t, "alice", "two"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("alice:two"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.tick()
	if status("one") != 200 {
		t.Error("a bad file puts the good one out of force")
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	g.tick()
	if status("one") != 401 || status("two") != 200 {
		t.Error("a new file is not in force at once")
	}
}

func TestConcurrentAuthenticate(t *testing.T) {
	c, s := newClock(), newStore()
	good, _ := s.issue(t, c, TokenSpec{Name: "ci"})
	g := newGate(t, Config{Now: c.now, Policy: PolicyConfig{Demand: true}}, s)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 200 {
				if i%4 == 0 {
					c.add(100 * time.Millisecond)
					g.tick()
				}
				if _, r, ch := g.Authenticate(get("Authorization", "Bearer "+good), ""); ch != nil || !r.All {
					t.Errorf(`Authenticate(""): %+v, %v; want nil, true`, ch, r.All)
				}
				if _, _, ch := g.Authenticate(get(), NewToken()); ch == nil {
					t.Error("a random token lets in")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"", "Basic ", basic("u", NewToken()), basic(NewToken(), ""), "Bearer " + NewToken(), "Negotiate YII=", "negotiate TlRMTVNTUAABAAAA", "NTLM x", "Basic ====", "\x00", "Bearer\tx"} {
		f.Add(s)
	}
	g, err := New(Config{Policy: PolicyConfig{Demand: true}}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, name := range []string{"Authorization", wire.Token, headerAuthToken} {
			r := get()
			r.Header[name] = []string{v}
			id, rights, ch := g.Authenticate(r, "")
			if ch == nil || ch.Status != 401 || rights.Admitted || !id.Anonymous() {
				t.Fatalf("%q: identity %+v, rights %+v, challenge %+v; want an anonymous one and 401", v, id, rights, ch)
			}
		}
		if _, _, ch := g.Authenticate(get(), v); v != "" && (ch == nil || ch.Status != 401) {
			t.Fatalf("path %q: %+v, want 401", v, ch)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	s := newStore()
	secret, row, _ := MakeToken(TokenSpec{Name: "ci"}, time.Now())
	s.rows[row.Hash] = row
	g, err := New(Config{}, s, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	access := accessRow(time.Now(), `{"name":"ci","method":"token","token":"`+hex.EncodeToString(row.Hash[:])+`"}`)
	s.rows[HashToken(accessSecret)] = access
	plain, bearer := get(), get("Authorization", "Bearer "+secret)
	b.Run("login", func(b *testing.B) {
		r := get("Authorization", "Bearer "+accessSecret)
		for b.Loop() {
			g.Authenticate(r, "")
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			g.Authenticate(plain, "")
		}
	})
	b.Run("bearer", func(b *testing.B) {
		for b.Loop() {
			g.Authenticate(bearer, "")
		}
	})
	b.Run("path", func(b *testing.B) {
		for b.Loop() {
			g.Authenticate(plain, secret)
		}
	})
}
