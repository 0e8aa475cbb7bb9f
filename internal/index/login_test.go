package index

import (
	"errors"
	"io/fs"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/tokens"
)

func TestLogins(t *testing.T) { onEngines(t, testLogins) }

// loginOf returns a login with a number, and its first access token.
func loginOf(c *clock, n int, by, parent string) (tokens.LoginRow, tokens.TokenRow) {
	l := tokens.LoginRow{
		ID: "login" + strconv.Itoa(n), Family: ref(1000 + n), Hash: ref(2000 + n), Name: by, CreatedBy: by, Credential: `{"method":"basic"}`, Parent: parent,
		Machine: "box", Address: "192.0.2.1", Agent: "symdepot/1", Created: c.t, LastUsed: c.t, Expires: c.t.Add(30 * 24 * time.Hour), Ends: c.t.Add(365 * 24 * time.Hour),
	}
	return l, accessOf(c, &l, 3000+n)
}

func accessOf(c *clock, l *tokens.LoginRow, n int) tokens.TokenRow {
	return tokens.TokenRow{
		ID: "access" + strconv.Itoa(n), Hash: ref(n), Name: l.Name, Kind: tokens.KindAccess, Scopes: []string{}, Created: c.t, Expires: c.t.Add(time.Hour),
		CreatedBy: l.CreatedBy, Parent: l.ID, Facts: l.Credential,
	}
}

// testLogins: a request begins one login; a refresh puts another token in place of the one that
// counts, and one that does not count ends the login; a principal has a limited number of logins,
// and so have all together; the end of a login, and that of its token, changes the generation.
func testLogins(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	requests := tokens.RequestLimits{Each: 100, All: 100, Keep: 10 * time.Minute}
	n := 0
	allowed := func() [32]byte {
		t.Helper()
		n++
		q := tokens.RequestRow{Hash: ref(4000 + n), State: tokens.RequestAllowed, Created: c.t, Expires: c.t.Add(time.Minute)}
		if err := db.Tokens.PutRequest(ctx, q, requests); err != nil {
			t.Fatal(err)
		}
		return q.Hash
	}
	begin := func(by, parent string) (tokens.LoginRow, tokens.TokenRow, [32]byte, error) {
		request := allowed()
		l, access := loginOf(c, n, by, parent)
		err := db.Tokens.BeginLogin(ctx, request, tokens.LoginLimits{Each: 3, All: 5}, func(*tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) {
			return l, access, nil
		})
		return l, access, request, err
	}
	must := func(by, parent string) (tokens.LoginRow, tokens.TokenRow, [32]byte) {
		t.Helper()
		l, access, request, err := begin(by, parent)
		if err != nil {
			t.Fatal(err)
		}
		return l, access, request
	}
	have := func(want string) {
		t.Helper()
		list, err := db.Tokens.Logins(ctx)
		ids := ""
		for _, l := range list {
			ids += l.ID[len("login"):] + " "
		}
		if ids != want || err != nil {
			t.Errorf("the logins are %q, %v; want %q", ids, err, want)
		}
	}
	knows := func(what string, access *tokens.TokenRow, want bool) {
		t.Helper()
		_, err := db.Tokens.ByHash(ctx, access.Hash)
		if want && err != nil || !want && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: access token: %v, want it known: %v", what, err, want)
		}
	}
	changes := func(what string, want bool, do func()) {
		t.Helper()
		before, err := db.Generation(ctx)
		do()
		after, err2 := db.Generation(ctx)
		if (before != after) != want || err != nil || err2 != nil {
			t.Errorf("%s: the generation goes from %d to %d (%v, %v), want a change: %v", what, before, after, err, err2, want)
		}
	}
	if err := db.Tokens.Put(ctx, tokens.TokenRow{ID: "token", Hash: ref(100), Name: "ci", Scopes: []string{"read"}, Created: c.t}); err != nil {
		t.Fatal(err)
	}
	var l tokens.LoginRow
	var access tokens.TokenRow
	var request [32]byte
	changes("a new login", false, func() { l, access, request = must("basic:alice", "") }) // 1
	for what, get := range map[string]func() (tokens.LoginRow, error){
		"family": func() (tokens.LoginRow, error) { return db.Tokens.LoginByFamily(ctx, l.Family) },
		"id":     func() (tokens.LoginRow, error) { return db.Tokens.LoginByID(ctx, l.ID) },
	} {
		got, err := get()
		if d := cmp.Diff(l, got); d != "" || err != nil {
			t.Errorf("by its %s: %v (-want +got):\n%s", what, err, d)
		}
	}
	got, err := db.Tokens.ByHash(ctx, access.Hash)
	if d := cmp.Diff(access, got); d != "" || err != nil {
		t.Errorf("the access token: %v (-want +got):\n%s", err, d)
	}
	if list, err := db.Tokens.List(ctx); len(list) != 1 || err != nil {
		t.Errorf("the tokens are %+v, %v; want the one that somebody made", list, err)
	}
	if _, err := db.Tokens.ByID(ctx, access.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an access token by its id: %v, want ErrNotExist", err)
	}

	// Refreshes: of the access tokens 16 are left.
	all := []tokens.TokenRow{access}
	for i := range 17 {
		c.t = c.t.Add(time.Minute)
		next := accessOf(c, &l, 5000+i)
		changes("a refresh", false, func() {
			if err := db.Tokens.RefreshLogin(ctx, l.Family, l.Hash, ref(6000+i), c.t.Add(time.Hour), next); err != nil {
				t.Fatal(err)
			}
		})
		l.Hash, l.LastUsed, l.Expires = ref(6000+i), c.t, c.t.Add(time.Hour)
		all = append(all, next)
	}
	for i := range all {
		knows("after the refreshes", &all[i], i >= 2)
	}
	if got, err := db.Tokens.LoginByID(ctx, l.ID); !cmp.Equal(l, got) || err != nil {
		t.Errorf("after the refreshes: %v\n%s", err, cmp.Diff(l, got))
	}
	later := c.t.Add(time.Minute)
	if err := db.Tokens.Touch(ctx, map[string]time.Time{all[4].ID: later}); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Tokens.LoginByID(ctx, l.ID); !got.LastUsed.Equal(later) || err != nil {
		t.Errorf("used at %v, %v; want %v", got.LastUsed, err, later)
	}
	for what, tt := range map[string]struct{ family, hash [32]byte }{"an unknown family": {ref(1), l.Hash}} {
		if err := db.Tokens.RefreshLogin(ctx, tt.family, tt.hash, ref(7000), l.Expires, accessOf(c, &l, 7001)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want ErrNotExist", what, err)
		}
	}
	changes("a refresh token that comes again", true, func() {
		if err := db.Tokens.RefreshLogin(ctx, l.Family, ref(6000), ref(7000), l.Expires, accessOf(c, &l, 7001)); !errors.Is(err, tokens.ErrReused) {
			t.Errorf("a refresh token that comes again: %v, want ErrReused", err)
		}
	})
	knows("after the reuse", &all[4], false)
	have("")

	// A code begins one login.
	unused := func(*tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) {
		t.Error("a request begins a second login")
		return tokens.LoginRow{}, tokens.TokenRow{}, errors.New("no")
	}
	_, access, request = must("basic:alice", "") // 2
	changes("a code that comes again", true, func() {
		if err := db.Tokens.BeginLogin(ctx, request, tokens.LoginLimits{Each: 3, All: 5}, unused); !errors.Is(err, tokens.ErrReused) {
			t.Errorf("a code that comes again: %v, want ErrReused", err)
		}
	})
	knows("after the reuse of its code", &access, false)
	request = allowed() // 3
	refused := errors.New("the verifier is wrong")
	if err := db.Tokens.BeginLogin(ctx, request, tokens.LoginLimits{Each: 3, All: 5}, func(*tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) {
		return tokens.LoginRow{}, tokens.TokenRow{}, refused
	}); !errors.Is(err, refused) {
		t.Errorf("a refused code: %v, want the error of the caller", err)
	}
	c.t = c.t.Add(time.Minute)
	for what, hash := range map[string][32]byte{"an expired code": request, "an unknown code": ref(1)} {
		if err := db.Tokens.BeginLogin(ctx, hash, tokens.LoginLimits{Each: 3, All: 5}, unused); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want ErrNotExist", what, err)
		}
	}

	// Limits.
	for range 3 { // 4, 5, 6
		must("basic:alice", "")
		c.t = c.t.Add(time.Second)
	}
	if err := db.Tokens.Touch(ctx, map[string]time.Time{"access3004": c.t}); err != nil {
		t.Fatal(err)
	}
	c.t = c.t.Add(time.Second)
	changes("a login beyond those of its principal", true, func() { must("basic:alice", "") }) // 7
	have("4 6 7 ")
	_, access, _ = must("token:token", "token") // 8
	must("basic:bob", "")                       // 9
	have("4 6 7 8 9 ")
	if _, _, _, err := begin("basic:carol", ""); !errors.Is(err, tokens.ErrManyLogins) { // 10
		t.Errorf("a sixth login: %v, want ErrManyLogins", err)
	}
	changes("a revocation", true, func() {
		if err := db.Tokens.Revoke(ctx, "token"); err != nil {
			t.Error(err)
		}
	})
	knows("after the revocation of its token", &access, false)
	have("4 6 7 9 ")
	changes("the end of a login", true, func() {
		if err := db.Tokens.EndLogin(ctx, "login9"); err != nil {
			t.Error(err)
		}
	})
	for _, id := range []string{"login9", "token"} {
		if err := db.Tokens.EndLogin(ctx, id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the end of the login %s: %v, want ErrNotExist", id, err)
		}
	}
	have("4 6 7 ")
	c.hours(31 * 24)
	must("basic:dave", "") // 11
	have("11 ")
	clean(t, db)
}

func TestLoginRequests(t *testing.T) { onEngines(t, testLoginRequests) }

// testLoginRequests: a request waits for one answer; a program that asks too often must wait
// longer; each address, and all together, have a limited number of requests.
func testLoginRequests(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	ctx := t.Context()
	limits := tokens.RequestLimits{Each: 2, All: 3, Keep: 10 * time.Minute}
	asked := func(n int, address string) tokens.RequestRow {
		return tokens.RequestRow{
			Hash: ref(n), UserCode: ref(100 + n), State: tokens.RequestAsked, Machine: "box", Address: address, Agent: "a", Created: c.t,
			Expires: c.t.Add(10 * time.Minute), Pace: 5 * time.Second,
		}
	}
	put := func(n int, address string, want error) {
		t.Helper()
		if err := db.Tokens.PutRequest(ctx, asked(n, address), limits); !errors.Is(err, want) {
			t.Errorf("request %d: %v, want %v", n, err, want)
		}
	}
	put(1, "a", nil)
	put(1, "b", fs.ErrExist)
	put(2, "a", nil)
	put(3, "a", tokens.ErrManyRequests)
	put(3, "b", nil)
	put(4, "c", tokens.ErrManyRequests)
	got, err := db.Tokens.RequestByUserCode(ctx, ref(101))
	if d := cmp.Diff(asked(1, "a"), got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	// The pace.
	for i, tt := range []struct {
		after, pace time.Duration // since the last one; before it
		soon        bool
	}{{0, 5 * time.Second, false}, {5 * time.Second, 5 * time.Second, false}, {time.Second, 5 * time.Second, true}, {9 * time.Second, 10 * time.Second, true}, {15 * time.Second, 15 * time.Second, false}} {
		c.t = c.t.Add(tt.after)
		q, soon, err := db.Tokens.AskRequest(ctx, ref(1), 5*time.Second)
		if q.Pace != tt.pace || soon != tt.soon || err != nil {
			t.Errorf("question %d: %v, %v, %v; want %v, %v", i, q.Pace, soon, err, tt.pace, tt.soon)
		}
	}
	if _, _, err := db.Tokens.AskRequest(ctx, ref(50), time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown request: %v, want ErrNotExist", err)
	}
	// One answer.
	answer := asked(1, "a")
	answer.State, answer.Name, answer.CreatedBy, answer.Credential, answer.Parent, answer.Ends = tokens.RequestAllowed, "alice", "basic:alice", "{}", "token", c.t.Add(time.Hour)
	if err := db.Tokens.AnswerRequest(ctx, answer); err != nil {
		t.Fatal(err)
	}
	if err := db.Tokens.AnswerRequest(ctx, answer); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second answer: %v, want ErrNotExist", err)
	}
	if _, err := db.Tokens.RequestByUserCode(ctx, ref(101)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an answered request by its user code: %v, want ErrNotExist", err)
	}
	q, _, err := db.Tokens.AskRequest(ctx, ref(1), 5*time.Second)
	if q.State != tokens.RequestAllowed || q.Name != "alice" || q.CreatedBy != "basic:alice" || q.Credential != "{}" || q.Parent != "token" || !q.Ends.Equal(answer.Ends) || err != nil {
		t.Errorf("after the answer: %+v, %v", q, err)
	}
	// The end.
	c.t = c.t.Add(10 * time.Minute)
	if _, err := db.Tokens.RequestByUserCode(ctx, ref(102)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an expired request by its user code: %v, want ErrNotExist", err)
	}
	if err := db.Tokens.AnswerRequest(ctx, asked(2, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the answer to an expired request: %v, want ErrNotExist", err)
	}
	put(5, "a", nil)
	if _, _, err := db.Tokens.AskRequest(ctx, ref(2), time.Second); err != nil {
		t.Errorf("an expired request that is kept: %v", err)
	}
	c.t = c.t.Add(10 * time.Minute)
	put(6, "a", nil)
	if _, _, err := db.Tokens.AskRequest(ctx, ref(2), time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an expired request that need not be kept: %v, want ErrNotExist", err)
	}
	clean(t, db)
}

// TestLoginsChecked: the check of an index finds an access token without its login.
func TestLoginsChecked(t *testing.T) {
	onEngines(t, func(t *testing.T) {
		c := newClock()
		db := openTest(t, c.options())
		q := tokens.RequestRow{Hash: ref(1), State: tokens.RequestAllowed, Created: c.t, Expires: c.t.Add(time.Minute)}
		l, access := loginOf(c, 1, "basic:alice", "")
		err := db.Tokens.PutRequest(t.Context(), q, tokens.RequestLimits{Each: 1, All: 1})
		if err == nil {
			err = db.Tokens.BeginLogin(t.Context(), q.Hash, tokens.LoginLimits{Each: 1, All: 1}, func(*tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) { return l, access, nil })
		}
		if err == nil {
			err = db.base.Update(t.Context(), "test", func(w *engine.Write) error { _, err := w.Exec("DELETE FROM login"); return err })
		}
		if err != nil {
			t.Fatal(err)
		}
		want := "access token " + access.ID + " belongs to no login"
		if problems, err := db.Check(t.Context()); len(problems) != 1 || problems[0] != want || err != nil {
			t.Errorf("check: %q, %v; want %q", problems, err, want)
		}
	})
}
