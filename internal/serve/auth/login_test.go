package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
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
	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "40") // of each engine; the flag of the command line wins
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

// clock is a clock that stands until it is moved.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

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

// world is a gate with users, on an index.
type world struct {
	*clock
	gate   *auth.Gate
	store  setup.Tokens
	db     *index.DB
	file   string            // of users
	hashes map[string]string // of the passwords, by user
}

// newWorld opens a gate on an index: of a file, or of a database.
func newWorld(t *testing.T, where string) *world {
	t.Helper()
	w := &world{clock: &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}, file: filepath.Join(t.TempDir(), "users"), hashes: map[string]string{}}
	var err error
	if w.db, err = index.Open(t.Context(), where, index.Options{Now: w.now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.store = setup.TokensOf(&depot.Depot{Tokens: w.db.Tokens})
	w.set(t, "alice", "secret")
	w.set(t, "nobody", "secret")
	w.gate, err = auth.New(auth.Config{
		Users: w.file, Now: w.now, Policy: auth.PolicyConfig{Demand: true, Grants: []auth.Grant{{Who: []string{"alice", "user*"}, Read: []string{"App"}}}},
	}, w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gate.Close() })
	return w
}

// set gives a user a password; without one the user is removed.
func (w *world) set(t interface{ Fatal(...any) }, user, password string) {
	delete(w.hashes, user)
	if password != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		w.hashes[user] = string(hash)
	}
	w.writeUsers(t)
}

func (w *world) writeUsers(t interface{ Fatal(...any) }) {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(w.hashes)) {
		text += name + ":" + w.hashes[name] + "\n"
	}
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.add(2 * time.Second) // the gate looks at the file once in a second
	if w.gate != nil {
		w.gate.Reload()
	}
}

func onEngines(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, filepath.Join(t.TempDir(), "index.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, pgtest.Shared(t).Database(t)))
	})
}

// request is a request of a client at an address.
func request(address string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/a.pdb/K/a.pdb", nil)
	r.RemoteAddr = address + ":1234"
	r.Header.Set("User-Agent", "symdepot/1")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func bearer(token string) *http.Request {
	return request("192.0.2.1", "Authorization", "Bearer "+token)
}

// person returns who has credentials, and the rights.
func (w *world) person(t interface{ Fatalf(string, ...any) }, r *http.Request) (auth.Identity, auth.Rights) {
	id, rights, ch := w.gate.Authenticate(r, "")
	if ch != nil {
		t.Fatalf("%+v", ch)
	}
	return id, rights
}

func byPassword(user, password string) *http.Request {
	r := request("192.0.2.1")
	r.SetBasicAuth(user, password)
	return r
}

const (
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of RFC 7636 appendix B, and so the next
	digest   = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	redirect = "http://127.0.0.1:1234/"
)

// code allows a login at the will of somebody.
func (w *world) code(t testing.TB, who *http.Request) string {
	t.Helper()
	id, rights := w.person(t, who)
	code, err := w.gate.AllowCode(t.Context(), &id, &rights, auth.ProgramOf(who, "box"), digest, redirect)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func (w *world) login(t testing.TB, who *http.Request) auth.LoginTokens {
	t.Helper()
	tokens, err := w.gate.RedeemCode(request("192.0.2.7"), w.code(t, who), verifier, redirect)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// token makes a token of the operator.
func (w *world) token(t testing.TB, spec auth.TokenSpec) (secret, id string) {
	t.Helper()
	secret, row, err := auth.MakeToken(spec, w.now())
	if err == nil {
		err = w.store.PutToken(t.Context(), row)
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret, row.ID
}

// counts reports whether an access token is accepted.
func (w *world) counts(access string) bool {
	_, _, ch := w.gate.Authenticate(bearer(access), "")
	return ch == nil
}

// TestLogin: the access token of a login is accepted wherever a token is, as the person who
// allowed the login. It makes no tokens, allows no logins, and signs in no browser.
func TestLogin(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		got := w.login(t, byPassword("alice", "secret"))
		if got.Name != "alice" || got.AccessLife != time.Hour || got.RefreshLife != 30*24*time.Hour || len(got.Refresh) != 68 || !strings.HasPrefix(got.Refresh, "sr_") || !auth.IsToken(got.Access) || auth.IsToken(got.Refresh) {
			t.Fatalf("the tokens are %+v", got)
		}
		basic := request("192.0.2.1")
		basic.SetBasicAuth("any", got.Access)
		for carrier, r := range map[string]*http.Request{"bearer": bearer(got.Access), "basic": basic, "header": request("192.0.2.1", "X-Symdepot-Token", got.Access), "path": request("192.0.2.1")} {
			inPath := ""
			if carrier == "path" {
				inPath = got.Access
			}
			id, rights, ch := w.gate.Authenticate(r, inPath)
			if ch != nil || id.Name != "alice" || id.Method != auth.MethodBasic || id.Carrier != carrier || id.Login != got.Login || id.TokenID != "" || id.Maker() != "basic:alice" || !id.Until.Equal(w.now().Add(time.Hour)) || !rights.MayRead("App") || rights.MayRead("Other") {
				t.Errorf("%s: %+v, %+v, %+v; want alice with her rights, by the login", carrier, id, rights, ch)
			}
			if !w.gate.Again(r, inPath, "", &id) {
				t.Errorf("%s: a long answer does not go on", carrier)
			}
		}
		id, rights := w.person(t, bearer(got.Access))
		if _, _, err := w.gate.MakeFor(&id, &rights, auth.TokenSpec{Name: "x", Products: []string{"App"}}, w.now()); !errors.As(err, new(*auth.NotAllowedError)) {
			t.Errorf("a token by a login: %v, want a NotAllowedError", err)
		}
		if _, err := w.gate.AllowCode(t.Context(), &id, &rights, auth.Program{}, digest, redirect); !errors.As(err, new(*auth.NotAllowedError)) {
			t.Errorf("a login by a login: %v, want a NotAllowedError", err)
		}
		if in, ch := w.gate.SignInPassword(request("192.0.2.1"), "", got.Access); ch == nil || ch.Status != http.StatusForbidden {
			t.Errorf("the token of a login in a browser: %+v, %+v; want 403", in, ch)
		}
		for _, secret := range []string{got.Refresh, "sd_" + got.Refresh[3:46], "sd_" + got.Refresh[25:]} {
			if w.counts(secret) {
				t.Errorf("%s: a refresh token is accepted as a token", secret)
			}
		}
		// Uploads that go on for long end with the login, and not with the access token.
		credential := w.gate.Credential(&id)
		w.add(2 * time.Hour)
		if still, _, err := w.gate.Still(t.Context(), credential); err != nil || still.Login != got.Login || still.Name != "alice" {
			t.Errorf("after two hours: %+v, %v; want alice", still, err)
		}
		if w.counts(got.Access) {
			t.Error("the access token is accepted after two hours")
		}
		var e auth.Event
		if e.By(&id); e.Who != "alice" || e.Login != got.Login {
			t.Errorf("the audit record is %+v, want alice and the login", e)
		}
		rows, err := w.store.SignIns(t.Context())
		if len(rows) != 1 || err != nil {
			t.Fatalf("the list has %+v, %v; want the login", rows, err)
		}
		info, ok := auth.DescribeSignIn(&rows[0], w.now())
		if !ok || info.ID != got.Login || info.Kind != auth.KindLogin || info.Machine != "box" || info.Name != "alice" || info.Method != auth.MethodBasic || info.Remote != "192.0.2.1" || info.Agent != "symdepot/1" || !auth.MayManage(&id, &rights, &rows[0]) {
			t.Errorf("the list has %+v, %v; want the login of alice at box", info, ok)
		}
		if err := w.gate.EndSignIn(t.Context(), got.Login); err != nil {
			t.Error(err)
		}
		if _, _, err := w.gate.Still(t.Context(), credential); !errors.Is(err, auth.ErrEnded) {
			t.Errorf("after the end: %v, want ErrEnded", err)
		}
		if _, err := w.gate.Refresh(t.Context(), got.Refresh); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("a refresh after the end: %v, want ErrGrant", err)
		}
		if err := w.gate.EndSignIn(t.Context(), got.Login); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a second end: %v, want ErrNotExist", err)
		}
	})
}

// TestLoginRefused: codes and refresh tokens that are guessed, damaged, of another place or late
// begin nothing, and who may not allow a login does not.
func TestLoginRefused(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		alice := byPassword("alice", "secret")
		code := w.code(t, alice)
		for what, tt := range map[string][3]string{
			"no code": {"", verifier, redirect}, "a guess": {strings.Repeat("A", 43), verifier, redirect}, "another verifier": {code, verifier + "x", redirect},
			"no verifier": {code, "", redirect}, "the challenge": {code, digest, redirect}, "another place": {code, verifier, redirect + "x"}, "NUL": {code + "\x00", verifier, redirect},
		} {
			if got, err := w.gate.RedeemCode(request("192.0.2.7"), tt[0], tt[1], tt[2]); !errors.Is(err, auth.ErrGrant) || got != (auth.LoginTokens{}) {
				t.Errorf("%s: %+v, %v; want ErrGrant", what, got, err)
			}
		}
		if _, err := w.gate.RedeemDevice(request("192.0.2.7"), code); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("a code as a device code: %v, want ErrGrant", err)
		}
		first, err := w.gate.RedeemCode(request("192.0.2.7"), code, verifier, redirect)
		if err != nil || !w.counts(first.Access) {
			t.Fatalf("the code after all: %v, want a login", err)
		}
		late := w.code(t, alice)
		w.add(time.Minute)
		if _, err := w.gate.RedeemCode(request("192.0.2.7"), late, verifier, redirect); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("a code after a minute: %v, want ErrGrant", err)
		}
		if _, err := w.gate.RedeemCode(request("192.0.2.7"), code, verifier, redirect); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("a code that was used: %v, want ErrGrant", err)
		}
		w.add(5 * time.Second) // what the gate keeps in memory
		if w.counts(first.Access) {
			t.Error("the login goes on after its code came again")
		}
		got := w.login(t, alice)
		for what, token := range map[string]string{
			"empty": "", "short": got.Refresh[:67], "long": got.Refresh + "A", "another family": "sr_" + strings.Repeat("A", 22) + got.Refresh[25:], "an access token": got.Access,
			"NUL": got.Refresh[:67] + "\x00", "not ASCII": got.Refresh[:66] + "é",
		} {
			if _, err := w.gate.Refresh(t.Context(), token); !errors.Is(err, auth.ErrGrant) {
				t.Errorf("a refresh token, %s: %v, want ErrGrant", what, err)
			}
			if what == "an access token" {
				continue
			}
			if err := w.gate.EndLoginOf(t.Context(), token); err != nil {
				t.Errorf("the end by a token, %s: %v, want nothing", what, err)
			}
		}
		if !w.counts(got.Access) {
			t.Error("tokens of others end a login")
		}
		secret, _ := w.token(t, auth.TokenSpec{Name: "ci"})
		if err := w.gate.EndLoginOf(t.Context(), secret); err != nil || !w.counts(secret) {
			t.Errorf("a token that somebody made is ended like a login: %v", err)
		}
		// Who may not.
		nobody := auth.Identity{}
		exchanged := auth.Identity{Name: "job", Method: auth.MethodToken, TokenID: "x", Exchanged: true}
		for what, id := range map[string]*auth.Identity{"nobody": &nobody, "a CI job": &exchanged} {
			if _, err := w.gate.AllowCode(t.Context(), id, &auth.Rights{}, auth.Program{}, digest, redirect); !errors.As(err, new(*auth.NotAllowedError)) {
				t.Errorf("%s allows a login: %v, want a NotAllowedError", what, err)
			}
			if _, err := w.gate.Asked(request("192.0.2.1"), id, "BBBB-BBBB"); !errors.As(err, new(*auth.NotAllowedError)) {
				t.Errorf("%s asks for a program: %v, want a NotAllowedError", what, err)
			}
		}
		// Somebody who loses the rights before the code is used.
		code = w.code(t, alice)
		w.set(t, "alice", "other")
		if _, err := w.gate.RedeemCode(request("192.0.2.7"), code, verifier, redirect); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("the code of somebody with another password now: %v, want ErrGrant", err)
		}
		if _, err := w.gate.Refresh(t.Context(), got.Refresh); !errors.Is(err, auth.ErrGrant) {
			t.Errorf("the refresh token of somebody with another password now: %v, want ErrGrant", err)
		}
	})
}

// TestLoginLife: a login lives a year, one that a token allowed as long as the token, and one
// whose rights come from groups 90 days.
func TestLoginLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, filepath.Join(t.TempDir(), "index.db"))
	secret, id := w.token(t, auth.TokenSpec{Name: "ci", Lifetime: 48 * time.Hour})
	begun := w.now()
	alice, ci := w.login(t, byPassword("alice", "secret")), w.login(t, bearer(secret))
	if ci.RefreshLife != 48*time.Hour || ci.Name != "ci" {
		t.Errorf("the login by a token: %+v, want one for 48 hours", ci)
	}
	if who, _ := w.person(t, bearer(ci.Access)); who.TokenID != id || who.Method != auth.MethodToken || who.Login != ci.Login {
		t.Errorf("the login by a token is %+v, want the token", who)
	}
	if err := w.store.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.add(5 * time.Second)
	if _, err := w.gate.Refresh(t.Context(), ci.Refresh); !errors.Is(err, auth.ErrGrant) || w.counts(ci.Access) {
		t.Errorf("after the token was revoked: %v, want the end of the login", err)
	}
	for n := 0; ; n++ {
		w.add(29 * 24 * time.Hour)
		next, err := w.gate.Refresh(t.Context(), alice.Refresh)
		age := w.now().Sub(begun)
		if err != nil {
			if age < 366*24*time.Hour || n == 0 {
				t.Errorf("after %v: %v, want another refresh", age, err)
			}
			break
		}
		if age > 366*24*time.Hour {
			t.Fatalf("a login goes on after %v", age)
		}
		if left := 366*24*time.Hour - age; next.RefreshLife > left+5*time.Second {
			t.Errorf("after %v the refresh token is valid for %v, want at most %v", age, next.RefreshLife, left)
		}
		alice = next
	}
}

// TestDeviceLogin: a person allows or denies a program at another machine by a code, in any
// spelling; guesses of codes are slowed down.
func TestDeviceLogin(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		id, rights := w.person(t, byPassword("alice", "secret"))
		ask := func() auth.DeviceRequest {
			t.Helper()
			d, err := w.gate.AskDevice(t.Context(), auth.ProgramOf(request("198.51.100.9"), "far \x1bbox"))
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		poll := func(d auth.DeviceRequest, want error) auth.LoginTokens {
			t.Helper()
			got, err := w.gate.RedeemDevice(request("198.51.100.9"), d.Code)
			if !errors.Is(err, want) {
				t.Fatalf("the answer: %v, want %v", err, want)
			}
			return got
		}
		spellings := []func(string) string{
			func(s string) string { return s }, strings.ToLower, func(s string) string { return strings.Replace(s, "-", "", 1) }, func(s string) string { return " " + strings.Replace(s, "-", " ", 1) + " " },
		}
		for i, spell := range spellings {
			d := ask()
			poll(d, auth.ErrWaiting)
			poll(d, auth.ErrSoon)
			p, err := w.gate.Asked(request("192.0.2.1"), &id, spell(d.UserCode))
			if err != nil || p != (auth.Program{Machine: "far box", Address: "198.51.100.9", Agent: "symdepot/1", UserCode: d.UserCode}) {
				t.Errorf("spelling %d: %+v, %v; want the program", i, p, err)
			}
			if _, err := w.gate.Answer(request("192.0.2.1"), &id, &rights, spell(d.UserCode), i%2 == 0); err != nil {
				t.Errorf("spelling %d: the answer: %v", i, err)
			}
			if i%2 != 0 {
				poll(d, auth.ErrDenied)
				continue
			}
			got := poll(d, nil)
			if who, _ := w.person(t, bearer(got.Access)); who.Name != "alice" || who.Login != got.Login {
				t.Errorf("the login is of %+v, want alice", who)
			}
			poll(d, auth.ErrGrant)
			w.add(5 * time.Second)
			if w.counts(got.Access) {
				t.Error("the login goes on after its code came again")
			}
		}
		d := ask()
		w.add(10 * time.Minute)
		poll(d, auth.ErrLate)
		if _, err := w.gate.Asked(request("192.0.2.1"), &id, d.UserCode); !errors.Is(err, auth.ErrCode) {
			t.Errorf("the code after ten minutes: %v, want ErrCode", err)
		}
		wrong := 0
		for _, code := range []string{"", "A", "AAAA-AAAA", "BBBB-BBBB", "BBBB-BBBB\x00", strings.Repeat("B", 1000), "ＢＢＢＢ-ＢＢＢＢ"} {
			_, err := w.gate.Asked(request("192.0.2.1"), &id, code)
			if errors.As(err, new(*auth.DelayedError)) {
				break
			}
			if wrong++; !errors.Is(err, auth.ErrCode) {
				t.Errorf("the code %.20q: %v, want ErrCode", code, err)
			}
		}
		d = ask()
		if _, err := w.gate.Answer(request("192.0.2.1"), &id, &rights, d.UserCode, true); !errors.As(err, new(*auth.DelayedError)) || wrong > 6 {
			t.Errorf("after %d wrong codes: %v, want a delay", wrong, err)
		}
		w.add(10 * time.Minute)
		// One address asks for few logins at the same time.
		var err error
		n := 0
		for ; err == nil && n <= 20; n++ {
			_, err = w.gate.AskDevice(t.Context(), auth.ProgramOf(request("203.0.113.5"), ""))
		}
		if !errors.Is(err, auth.ErrManyRequests) || n != 21 {
			t.Errorf("request %d of an address: %v, want ErrManyRequests for the 21st", n, err)
		}
	})
}

// TestRefreshRace: of many refreshes with one token one succeeds, and the others end the login.
func TestRefreshRace(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		got := w.login(t, byPassword("alice", "secret"))
		var wg sync.WaitGroup
		var mu sync.Mutex
		var good []auth.LoginTokens
		for range 8 {
			wg.Go(func() {
				next, err := w.gate.Refresh(t.Context(), got.Refresh)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					good = append(good, next)
				} else if !errors.Is(err, auth.ErrGrant) {
					t.Errorf("a refresh: %v, want ErrGrant", err)
				}
			})
		}
		wg.Wait()
		w.add(5 * time.Second)
		if len(good) != 1 || w.counts(good[0].Access) || w.counts(got.Access) {
			t.Errorf("%d refreshes succeed, and the login goes on: %v; want one, and its end", len(good), len(good) > 0 && w.counts(good[0].Access))
		}
		if problems, err := w.db.Check(t.Context()); len(problems) != 0 || err != nil {
			t.Errorf("check: %q, %v; want no problem", problems, err)
		}
	})
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// modelLogin is what a login should be.
type modelLogin struct {
	id            string
	user, hash    string // hash: the stored password when it was allowed
	refresh       string
	old           []string
	access        []modelAccess // the newest last
	expires, ends time.Time
	forced        bool // it was ended
}

type modelAccess struct {
	secret  string
	expires time.Time
}

type modelCode struct {
	code, verifier string
	user, hash     string
	expires, ends  time.Time
	login          *modelLogin
}

// TestLoginModel: whatever people and programs do, in any order, an access token is accepted as
// long as a simple model says.
func TestLoginModel(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		n := 0
		rapid.Check(t, func(t *rapid.T) {
			n++
			m := &model{world: w, user: fmt.Sprintf("user%d", n), address: fmt.Sprintf("10.%d.%d.1", n/250, n%250)}
			w.set(t, m.user, "secret")
			t.Repeat(map[string]func(*rapid.T){
				"allow": m.allow, "redeem": m.redeem, "refresh": m.refresh, "reuse": m.reuse, "revoke": m.revoke, "end": m.end, "password": m.password, "wait": m.wait, "": m.check,
			})
			w.set(t, m.user, "")
		})
		if problems, err := w.db.Check(t.Context()); len(problems) != 0 || err != nil {
			t.Errorf("check: %q, %v; want no problem", problems, err)
		}
	})
}

type model struct {
	*world
	user, address string
	logins        []*modelLogin
	codes         []*modelCode
	passwords     int
}

// lives reports whether a login exists, is not over, and its person has the password still.
func (m *model) lives(l *modelLogin) bool {
	return !l.forced && m.now().Before(l.expires) && m.hashes[l.user] == l.hash
}

// pick draws one of a list.
func pick[T any](t *rapid.T, list []T) T {
	if len(list) == 0 {
		t.Skip("there is none")
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
}

func (m *model) allow(t *rapid.T) {
	if m.hashes[m.user] == "" {
		t.Skip("the person is away")
	}
	m.add(11 * time.Second) // the gate remembers the verdict on a password for so long
	id, rights := m.person(t, byPassword(m.user, m.secret()))
	c := &modelCode{verifier: fmt.Sprintf("%043d", len(m.codes)), user: m.user, hash: m.hashes[m.user]}
	var err error
	c.code, err = m.gate.AllowCode(t.Context(), &id, &rights, auth.ProgramOf(request(m.address), "box"), challengeOf(c.verifier), redirect)
	if err != nil {
		t.Fatal(err)
	}
	c.expires, c.ends = m.now().Add(time.Minute), m.now().Add(366*24*time.Hour)
	m.codes = append(m.codes, c)
}

// secret is the present password.
func (m *model) secret() string {
	if m.passwords == 0 {
		return "secret"
	}
	return fmt.Sprint("secret", m.passwords)
}

func (m *model) redeem(t *rapid.T) {
	if len(m.logins) == 20 {
		t.Skip("more end others")
	}
	c := pick(t, m.codes)
	right := rapid.IntRange(0, 3).Draw(t, "right") > 0
	v := c.verifier
	if !right {
		v += "x"
	}
	got, err := m.gate.RedeemCode(request(m.address), c.code, v, redirect)
	kept := m.now().Before(c.expires.Add(10 * time.Minute))
	switch {
	case c.login != nil:
		if !errors.Is(err, auth.ErrGrant) {
			t.Fatalf("a code that was used: %v, want ErrGrant", err)
		}
		m.add(5 * time.Second) // what the gate keeps in memory
		if kept {              // later nobody knows it any more, perhaps
			c.login.forced = true
		} else if _, err := m.store.LoginByID(t.Context(), c.login.id); errors.Is(err, fs.ErrNotExist) {
			c.login.forced = true
		}
		return
	case !right, !m.now().Before(c.expires), m.hashes[c.user] != c.hash:
		if !errors.Is(err, auth.ErrGrant) {
			t.Fatalf("a wrong code: %v, want ErrGrant", err)
		}
		if right && m.now().Before(c.expires) {
			c.login = &modelLogin{forced: true} // it is used, though its person is away
		}
		return
	case err != nil:
		t.Fatalf("a code: %v, want a login", err)
	}
	l := &modelLogin{id: got.Login, user: c.user, hash: c.hash, ends: c.ends}
	c.login = l
	m.note(t, l, got)
	m.logins = append(m.logins, l)
}

// note takes the tokens of a login over.
func (m *model) note(t *rapid.T, l *modelLogin, got auth.LoginTokens) {
	if l.refresh != "" {
		l.old = append(l.old, l.refresh)
	}
	l.refresh, l.expires = got.Refresh, m.now().Add(30*24*time.Hour)
	if l.ends.Before(l.expires) {
		l.expires = l.ends
	}
	if want := l.expires.Sub(m.now()); (got.RefreshLife-want).Abs() > time.Second || got.AccessLife != min(time.Hour, got.RefreshLife) {
		t.Fatalf("the tokens are valid for %v and %v, want %v for the refresh token", got.AccessLife, got.RefreshLife, want)
	}
	l.access = append(l.access, modelAccess{got.Access, m.now().Add(got.AccessLife)})
}

func (m *model) refresh(t *rapid.T) {
	l := pick(t, m.logins)
	m.add(time.Second) // the newest access token is known by its time
	got, err := m.gate.Refresh(t.Context(), l.refresh)
	if !m.lives(l) {
		if !errors.Is(err, auth.ErrGrant) {
			t.Fatalf("the refresh of a login that is over: %v, want ErrGrant", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("a refresh: %v", err)
	}
	m.note(t, l, got)
	m.add(5 * time.Second) // the gate keeps the oldest access token in memory
}

func (m *model) reuse(t *rapid.T) {
	l := pick(t, m.logins)
	if _, err := m.gate.Refresh(t.Context(), pick(t, l.old)); !errors.Is(err, auth.ErrGrant) {
		t.Fatalf("a refresh token that comes again: %v, want ErrGrant", err)
	}
	if m.now().Before(l.expires) {
		l.forced = true
	}
}

func (m *model) revoke(t *rapid.T) {
	l := pick(t, m.logins)
	token := l.refresh
	if last := l.access[len(l.access)-1]; m.now().Before(last.expires) && rapid.Bool().Draw(t, "access") {
		token = last.secret
	}
	if err := m.gate.EndLoginOf(t.Context(), token); err != nil {
		t.Fatalf("the end by a token: %v", err)
	}
	l.forced = true
}

func (m *model) end(t *rapid.T) {
	l := pick(t, m.logins)
	if err := m.gate.EndSignIn(t.Context(), l.id); err != nil && (!errors.Is(err, fs.ErrNotExist) || m.lives(l)) {
		t.Fatalf("the end: %v", err)
	}
	l.forced = true
}

func (m *model) password(t *rapid.T) {
	m.passwords++
	if m.hashes[m.user] != "" && rapid.Bool().Draw(t, "away") {
		m.set(t, m.user, "")
		return
	}
	m.set(t, m.user, m.secret())
}

func (m *model) wait(t *rapid.T) {
	m.add(rapid.SampledFrom([]time.Duration{5 * time.Second, time.Minute, time.Hour, 8 * 24 * time.Hour, 29 * 24 * time.Hour}).Draw(t, "time"))
}

func (m *model) check(t *rapid.T) {
	for _, l := range m.logins {
		for i, a := range l.access {
			if want := m.lives(l) && i >= len(l.access)-16 && m.now().Before(a.expires); m.counts(a.secret) != want {
				t.Fatalf("access token %d of %d of the login %s is accepted: %v, want %v", i, len(l.access), l.id, !want, want)
			}
		}
	}
}
