package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A revocation by another server takes effect with the next generation, and
// within a second while the generation is not known.
func TestSharedRevocation(t *testing.T) {
	t.Parallel()
	c := newClock()
	secret := NewToken()
	hash := HashToken(secret)
	store := &memStore{rows: map[[32]byte]TokenRow{hash: {ID: "a", Hash: hash, Name: "ci", Scopes: []string{"read"}}}}
	policy, err := NewPolicy(PolicyConfig{Demand: true})
	if err != nil {
		t.Fatal(err)
	}
	generation, known := uint64(1), true
	toks := newTokens(store, func() *Policy { return policy }, c.now, func() (uint64, bool) { return generation, known })
	revoke := func(at time.Time) {
		store.mu.Lock()
		defer store.mu.Unlock()
		row := store.rows[hash]
		row.Revoked = at
		store.rows[hash] = row
	}
	find := func(what string, want error, queries int) {
		t.Helper()
		before := store.asked
		if _, _, err := toks.find(t.Context(), secret, "bearer"); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
		if n := store.asked - before; n != queries {
			t.Errorf("%s: %d queries, want %d", what, n, queries)
		}
	}
	find("first use", nil, 1)
	c.add(2 * time.Second)
	find("later use", nil, 0)
	revoke(c.now())
	generation++
	find("after the revocation", errNoToken, 1)
	revoke(time.Time{})
	generation++
	find("another change", nil, 1)
	known = false
	c.add(900 * time.Millisecond)
	find("unknown generation", nil, 0)
	revoke(c.now())
	c.add(200 * time.Millisecond)
	find("unknown generation, a second later", errNoToken, 1)
}

// An authenticator that was used at one server is a replay at all others, and a
// ticket is not accepted while that cannot be known.
func TestSharedReplays(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	used := map[[16]byte]bool{}
	var failing error
	first := func(_ context.Context, key [16]byte, keep time.Duration) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if keep != 10*time.Minute {
			t.Errorf("a use is recorded for %v, want twice the permitted difference of the clocks", keep)
		}
		is := !used[key]
		used[key] = true
		return is, failing
	}
	server := func() *krb5 {
		return &krb5{skew: 5 * time.Minute, now: time.Now, first: first, seen: replays{keep: 10 * time.Minute}}
	}
	a, b := server(), server()
	for i, c := range []struct {
		at   *krb5
		key  byte
		err  error
		want replay
	}{
		{a, 1, nil, replayNew}, {a, 1, nil, replaySeen}, {b, 1, nil, replaySeen}, {b, 1, nil, replaySeen}, {b, 2, nil, replayNew}, {a, 2, nil, replaySeen},
		{a, 3, errors.New("no database"), replayFull}, {a, 3, nil, replaySeen},
	} {
		failing = c.err
		if got := c.at.use([32]byte{c.key}, "alice@X"); got != c.want {
			t.Errorf("use %d of authenticator %d: %v, want %v", i, c.key, got, c.want)
		}
	}
	if len(used) != 3 {
		t.Errorf("%d authenticators recorded, want 3: one that this server knows is not recorded again", len(used))
	}
}

// The logs of several servers are merged by time; each record names its server.
func TestAuditsMerged(t *testing.T) {
	t.Parallel()
	c := newClock()
	dir := t.TempDir()
	var files []string
	var logs []*Audit
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprint(i), "audit.jsonl")
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		logs = append(logs, openAudit(t, AuditConfig{File: file, Node: fmt.Sprint("node", i), MaxBytes: 500, Now: c.now}))
	}
	var want []string
	for i := range 30 { // in files that were rotated, too
		c.add(time.Minute)
		logs[i*i%3].Record(Event{Action: "read", Name: fmt.Sprint("f", i)})
		want = append(want, fmt.Sprintf("node%d f%d", i*i%3, i))
	}
	c.add(time.Minute)
	for _, i := range []int{2, 0, 1, 0} { // at one moment
		logs[i].Record(Event{Action: "read", Name: fmt.Sprint("same", len(want))})
		want = append(want, fmt.Sprintf("node%d same%d", i, len(want)))
	}
	slices.SortStableFunc(want[30:], func(a, b string) int { return strings.Compare(a[:5], b[:5]) })
	for _, a := range logs {
		a.Flush()
	}
	read := func(f AuditFilter, files ...string) (list []string) {
		for e, err := range ReadAudits(files, f) {
			if err != nil {
				t.Error(err)
			}
			list = append(list, e.Node+" "+e.Name)
		}
		return list
	}
	for range files {
		if got := read(AuditFilter{}, files...); !slices.Equal(got, want) {
			t.Errorf("records of %v: %v, want %v", files, got, want)
		}
		files = append(files[1:], files[0])
	}
	if got := read(AuditFilter{Node: "node1", Name: "f1?"}, files...); len(got) == 0 || !slices.ContainsFunc(got, func(s string) bool { return s == "node1 f10" }) {
		t.Errorf("records of node1: %v, want f10 among them", got)
	}
	if got := read(AuditFilter{}, files[0]); len(got) != 12 {
		t.Errorf("%d records in one file, want 12", len(got))
	}
	// An end before the last record, and a file that is missing.
	for range ReadAudits(files, AuditFilter{}) {
		break
	}
	missing := 0
	for _, err := range ReadAudits([]string{filepath.Join(dir, "0", "none.jsonl"), files[1], files[2]}, AuditFilter{}) {
		if err != nil {
			missing++
		}
	}
	if missing != 1 {
		t.Errorf("%d errors for one missing file, want 1", missing)
	}
}

// Servers have the same hash if and only if they have the same rules of access.
func TestPolicyHash(t *testing.T) {
	t.Parallel()
	users := func(pairs ...string) string { return usersFile(t, pairs...) }
	same := users("alice", "x")
	b, err := os.ReadFile(same)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "users of another machine")
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(cfg Config) *Gate {
		t.Helper()
		g, err := New(cfg, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		return g
	}
	policy := PolicyConfig{Grants: []Grant{{Who: []string{"alice"}, Read: []string{"P"}}}, Groups: map[string][]string{"a": {"x"}, "b": {"y"}}}
	first := open(Config{Policy: policy, Users: same})
	want := first.PolicyHash()
	if got := open(Config{Policy: policy, Users: copied, Realm: "another"}).PolicyHash(); got != want || want == "" {
		t.Errorf("policy hashes %q and %q of equal rules, want them equal and not empty", got, want)
	}
	wider := policy
	wider.Grants = []Grant{{Who: []string{"alice"}, Read: []string{"P", "Q"}}}
	for what, cfg := range map[string]Config{
		"a wider grant": {Policy: wider, Users: same}, "another user": {Policy: policy, Users: users("bob", "x")}, "no users": {Policy: policy},
		"a rule for certificates": {Policy: policy, Users: same, Certificates: []CertRule{{CN: "*"}}},
	} {
		if got := open(cfg).PolicyHash(); got == want {
			t.Errorf("%s: the same hash, want a different one", what)
		}
	}
	if err := os.WriteFile(same, append(b, "\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	first.tick()
	if first.PolicyHash() == want {
		t.Error("the same hash after the file of users has changed")
	}
}
