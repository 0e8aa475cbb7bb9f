package index

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/store/blob"
)

func TestTokens(t *testing.T) { onEngines(t, testTokens) }

func testTokens(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	a := tokens.TokenRow{ID: "a", Hash: ref(1), Name: "CI", Scopes: []string{"read", "write"}, Products: []string{"P", "Q,\"R"}, Created: c.t, Expires: c.t.Add(time.Hour), CreatedBy: "me"}
	b := tokens.TokenRow{ID: "b", Hash: ref(2), Scopes: []string{}, Created: c.t.Add(time.Minute)}
	none := tokens.TokenRow{ID: "none", Hash: ref(3), Scopes: []string{"read"}, Products: []string{}, Created: c.t.Add(time.Hour)}
	generation := func() uint64 {
		g, err := db.Generation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, row := range []tokens.TokenRow{a, b, none} {
		g := generation()
		if err := db.Tokens.Put(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if generation() == g {
			t.Error("a new token does not change the generation")
		}
		got, err := db.Tokens.ByHash(t.Context(), row.Hash)
		if d := cmp.Diff(row, got); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
	for _, row := range []tokens.TokenRow{{ID: "a", Hash: ref(9)}, {ID: "z", Hash: ref(1)}} {
		if err := db.Tokens.Put(t.Context(), row); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%+v: Put: error %v, want fs.ErrExist", row, err)
		}
	}
	for _, row := range []tokens.TokenRow{{ID: "z"}, {Hash: ref(9)}} {
		if err := db.Tokens.Put(t.Context(), row); err == nil {
			t.Errorf("entered %+v, want an error", row)
		}
	}
	if _, err := db.Tokens.ByHash(t.Context(), ref(9)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	g := generation()
	used := c.t.Add(time.Minute)
	for _, at := range []time.Time{used, c.t} { // never backwards
		if err := db.Tokens.Touch(t.Context(), map[string]time.Time{"a": at, "nobody": at}); err != nil {
			t.Error(err)
		}
	}
	if generation() != g {
		t.Error("a last use changes the generation")
	}
	c.hours(1)
	revoked := c.t
	for range 2 {
		if err := db.Tokens.Revoke(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		c.hours(1)
	}
	if generation() == g {
		t.Error("a revocation does not change the generation")
	}
	if err := db.Tokens.Revoke(t.Context(), "nobody"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	a.LastUsed, a.Revoked = used, revoked
	list, err := db.Tokens.List(t.Context())
	if d := cmp.Diff([]tokens.TokenRow{a, b, none}, list); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	clean(t, db)
}

func TestFailures(t *testing.T) { onEngines(t, testFailures) }

func testFailures(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	e := pdb(1)
	commitTest(t, db, "", e)
	put := func(source blob.Ref, tool, version, class string, hours int) {
		t.Helper()
		if err := db.Jobs.PutFailure(t.Context(), queue.Failure{Source: source, Tool: tool, Version: version, Class: class, Detail: "why", Until: c.t.Add(time.Duration(hours) * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	start := c.t
	put(e.Ref, "gen", "3.1.0", "crash", 2)
	put(e.Ref, "gen", "3.1.1", "crash", 2)
	put(ref(5), "gen", "3.1.0", "timeout", 2)
	c.hours(1)
	put(e.Ref, "gen", "3.1.0", "timeout", 3)
	got, err := db.Jobs.Failure(t.Context(), e.Ref, "gen", "3.1.0")
	want := queue.Failure{Source: e.Ref, Tool: "gen", Version: "3.1.0", Class: "timeout", Detail: "why", Since: start, Until: start.Add(4 * time.Hour), Tries: 2}
	if got != want || err != nil {
		t.Errorf("got %+v, error %v; want %v", got, err, want)
	}
	for _, k := range []struct{ tool, version string }{{"gen", "3.1.2"}, {"other", "3.1.0"}} {
		if _, err := db.Jobs.Failure(t.Context(), e.Ref, k.tool, k.version); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: Failure: error %v, want fs.ErrNotExist", k, err)
		}
	}
	c.hours(1)
	if _, err := db.Jobs.Failure(t.Context(), e.Ref, "gen", "3.1.1"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("believed too long", err)
	}
	classes := func(f queue.FailureFilter) (list []string) {
		rows, err := db.Jobs.Failures(t.Context(), f, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			list = append(list, r.Version+" "+r.Class)
		}
		slices.Sort(list)
		return list
	}
	r := e.Ref
	for _, q := range []struct {
		f    queue.FailureFilter
		want []string
	}{
		{queue.FailureFilter{}, []string{"3.1.0 timeout", "3.1.0 timeout", "3.1.1 crash"}},
		{queue.FailureFilter{Source: &r, Tool: "gen"}, []string{"3.1.0 timeout", "3.1.1 crash"}},
		{queue.FailureFilter{Version: "3.1.1"}, []string{"3.1.1 crash"}},
		{queue.FailureFilter{Class: "timeout", Ended: c.t.Add(time.Millisecond)}, []string{"3.1.0 timeout"}},
	} {
		if got := classes(q.f); !slices.Equal(got, q.want) {
			t.Errorf("%+v: classes: %q, want %v", q.f, got, q.want)
		}
	}
	if n, err := db.Jobs.FlushFailures(t.Context(), queue.FailureFilter{Ended: c.t.Add(time.Millisecond), Class: "crash"}); n != 1 || err != nil {
		t.Errorf("FlushFailures: %v, error %v; want 1", n, err)
	}
	// A content that goes takes its failures along.
	if _, err := db.Remove(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := db.DropContents(t.Context(), []blob.Ref{e.Ref}, c.t, func(blob.Ref) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := classes(queue.FailureFilter{}); !slices.Equal(got, []string{"3.1.0 timeout"}) {
		t.Errorf(`classes: %q, want []string{"3.1.0 timeout"}`, got)
	}
	clean(t, db)
}

func TestExchangedTokens(t *testing.T) { onEngines(t, testExchangedTokens) }

func testExchangedTokens(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	token := func(n byte, keep time.Duration) tokens.TokenRow {
		row := tokens.TokenRow{ID: string('a' + rune(n)), Hash: ref(int(n) + 1), Scopes: []string{"write"}, Created: c.t, Expires: c.t.Add(time.Hour), Uploads: `{"class":"nightly"}`, Keep: c.t.Add(keep)}
		row.Origin[0] = n + 1
		return row
	}
	a := token(0, time.Hour)
	if err := db.Tokens.Put(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	got, err := db.Tokens.ByHash(t.Context(), a.Hash)
	if d := cmp.Diff(a, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	again := token(1, time.Hour)
	again.Origin = a.Origin
	if err := db.Tokens.Put(t.Context(), again); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second token for one id token: %v, want ErrExist", err)
	}
	// Tokens that somebody made have no origin, and are never forgotten.
	for i := range 2 {
		made := token(byte(2+i), 0)
		made.Origin, made.Keep, made.Uploads = [32]byte{}, time.Time{}, ""
		if err := db.Tokens.Put(t.Context(), made); err != nil {
			t.Errorf("a token without an origin: %v", err)
		}
	}
	c.hours(2)
	if err := db.Tokens.Put(t.Context(), token(4, time.Hour)); err != nil {
		t.Fatal(err)
	}
	list, err := db.Tokens.List(t.Context())
	ids := ""
	for _, r := range list {
		ids += r.ID
	}
	if ids != "cde" || err != nil {
		t.Errorf("after two hours there are the tokens %q (%v), want cde: the exchanged one is forgotten", ids, err)
	}
	// After that its origin counts no more.
	again.Keep = c.t.Add(time.Hour)
	if err := db.Tokens.Put(t.Context(), again); err != nil {
		t.Errorf("the origin of a forgotten token: %v", err)
	}
}

func TestSignIns(t *testing.T) { onEngines(t, testSignIns) }

// testSignIns: sign-ins are stored beside the tokens and are not listed with them. A
// principal has a limited number of them, and so have all together; what has ended is
// deleted; the end of one, and that of its token, changes the generation.
func testSignIns(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	limits := tokens.SignInLimits{Idle: 12 * time.Hour, Each: 3, All: 5}
	const week = 7 * 24 * time.Hour
	n := 0
	put := func(by, parent string, life time.Duration) error {
		n++
		row := tokens.TokenRow{ID: string('a' + rune(n)), Hash: ref(n), Name: by, Kind: tokens.KindSignIn, Scopes: []string{}, Created: c.t, Expires: c.t.Add(life), CreatedBy: by, Parent: parent, Facts: `{"method":"basic"}`}
		if err := db.Tokens.PutSignIn(t.Context(), row, limits); err != nil {
			return err
		}
		got, err := db.Tokens.ByHash(t.Context(), row.Hash)
		if d := cmp.Diff(row, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		return err
	}
	must := func(by, parent string, life time.Duration) {
		t.Helper()
		if err := put(by, parent, life); err != nil {
			t.Fatal(err)
		}
	}
	have := func(want string) {
		t.Helper()
		list, err := db.Tokens.SignIns(t.Context())
		ids := ""
		for _, r := range list {
			ids += r.ID
		}
		if ids != want || err != nil {
			t.Errorf("the sign-ins are %q, %v; want %q", ids, err, want)
		}
	}
	changes := func(what string, want bool, do func()) {
		t.Helper()
		before, err := db.Generation(t.Context())
		do()
		after, err2 := db.Generation(t.Context())
		if (before != after) != want || err != nil || err2 != nil {
			t.Errorf("%s: the generation goes from %d to %d (%v, %v), want a change: %v", what, before, after, err, err2, want)
		}
	}
	if err := db.Tokens.Put(t.Context(), tokens.TokenRow{ID: "token", Hash: ref(100), Name: "ci", Scopes: []string{"read"}, Created: c.t}); err != nil {
		t.Fatal(err)
	}
	changes("a new sign-in", false, func() { must("basic:alice", "", week) }) // b
	c.hours(1)
	must("basic:alice", "", week)      // c
	must("token:token", "token", week) // d
	must("basic:bob", "", 2*time.Hour) // e
	list, err := db.Tokens.List(t.Context())
	if len(list) != 1 || list[0].ID != "token" || err != nil {
		t.Errorf("the tokens are %+v, %v; want the token alone", list, err)
	}
	c.hours(1)
	must("basic:alice", "", week) // f
	have("bcdef")
	if err := db.Tokens.Touch(t.Context(), map[string]time.Time{"b": c.t}); err != nil {
		t.Fatal(err)
	}
	c.hours(1)
	// c makes room, which was not used for the longest time; e has expired.
	changes("a sign-in beyond those of its principal", true, func() { must("basic:alice", "", week) }) // g
	have("bdfg")
	must("basic:carol", "", week) // h
	if err := put("basic:dave", "", week); !errors.Is(err, tokens.ErrManySignIns) {
		t.Errorf("a sixth sign-in: %v, want ErrManySignIns", err)
	}
	c.hours(11)                  // b, d and f are idle
	must("basic:dave", "", week) // j
	have("ghj")
	must("token:token", "token", week) // k
	for _, id := range []string{"nobody", "token"} {
		if err := db.Tokens.EndSignIn(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the end of the sign-in %s: %v, want ErrNotExist", id, err)
		}
	}
	if err := db.Tokens.Revoke(t.Context(), "g"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a sign-in is revoked as a token: %v, want ErrNotExist", err)
	}
	changes("the end of a sign-in", true, func() {
		if err := db.Tokens.EndSignIn(t.Context(), "g"); err != nil {
			t.Error(err)
		}
	})
	have("hjk")
	if err := db.Tokens.Revoke(t.Context(), "token"); err != nil {
		t.Error(err)
	}
	have("hj")
	for _, row := range []tokens.TokenRow{{ID: "z", Hash: ref(90)}, {ID: "z", Hash: ref(90), Kind: tokens.KindSignIn, CreatedBy: "a"}, {ID: "z", Hash: ref(90), Kind: tokens.KindSignIn, Expires: c.t}} {
		if err := db.Tokens.PutSignIn(t.Context(), row, limits); err == nil {
			t.Errorf("entered %+v, want an error", row)
		}
	}
	if err := db.Tokens.Put(t.Context(), tokens.TokenRow{ID: "z", Hash: ref(90), Kind: tokens.KindSignIn}); err == nil {
		t.Error("a sign-in is entered as a token, want an error")
	}
	clean(t, db)
}
