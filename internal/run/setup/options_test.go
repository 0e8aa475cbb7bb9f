package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/config"
)

// conf loads a configuration from text.
func conf(t *testing.T, text string, env map[string]string) (*config.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "symdepot.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path, func(k string) string { return env[k] })
}

// TestDefaults: without keys, the depot has the limits that docs/config.md promises.
func TestDefaults(t *testing.T) {
	c, err := conf(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Lifetimes(c), (depot.Lifetimes{NotFound: time.Hour, Forbidden: 24 * time.Hour}); got != want {
		t.Errorf("lifetimes %+v, want %+v", got, want)
	}
	want := depot.Limits{NextRank: 300 * time.Millisecond, FirstByte: 3 * time.Second, Stall: 10 * time.Second, MaxBytes: 16 << 30, Fetches: 64}
	if got := Limits(); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
}

// TestOptions: the keys reach the packages that apply them.
func TestOptions(t *testing.T) {
	c, err := conf(t, `
misses: {absent: 0s, forbidden: 2d}
cache:
  max_bytes: 100GB
  max_unused: 90d
  per_upstream: {microsoft: 50GiB}
upstreams: [microsoft, {url: 'https://sym.example.org', name: x, rank: 2, product: windows}]
push:
  max_file: 1GiB
  max_staged: 200GiB
  min_free: 50GiB
  collect: 15m
  quotas: {Game: 500GiB}
  deny_other: true
sources:
  srcsrv: {Game: refuse-commands, "*": flag}
  link_hosts: [github.com]
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := Lifetimes(c); l.NotFound >= 0 || l.Forbidden != 48*time.Hour {
		t.Errorf("lifetimes %+v, want none of files that are not found, and two days of refused ones", l)
	}
	if l := CacheLimits(c); l.MaxBytes != 1e11 || l.MaxUnused != 90*24*time.Hour || l.PerUpstream["microsoft"] != 50<<30 {
		t.Errorf("limits of the cache %+v, want those of the file", l)
	}
	if n := ScrubRate(c); n != 8<<20 {
		t.Errorf("depot.scrub_rate is %d by default, want 8 MiB", n)
	}
	c.Depot.ScrubRate = 0
	if n := ScrubRate(c); n >= 0 {
		t.Errorf("depot.scrub_rate 0 is %d in the depot's options, want a negative number: no check", n)
	}
	l := PushLimits(c)
	if l.MaxFile != 1<<30 || l.MaxFiles != 1_000_000 || l.MaxBytes != 256<<30 || l.Idle != 24*time.Hour || l.Longest != 7*24*time.Hour {
		t.Errorf("the limits of a push are %+v; want those of the file, and the usual ones", l)
	}
	if l.Open != 32 || l.Staged != 200<<30 || l.Free != 50<<30 || l.Quiet != 15*time.Minute || l.Quotas["Game"] != 500<<30 || !l.DenyOther {
		t.Errorf("the limits of all pushes are %+v; want those of the file, and the usual ones", l)
	}
	if r := LinkRules(c); r.For("Game") != "refuse-commands" || r.For("Other") != "flag" || len(r.Hosts) != 1 {
		t.Errorf("the rules for links are %+v; want those of the file", r)
	}
	specs, err := c.Specs()
	if err != nil {
		t.Fatal(err)
	}
	far, err := OpenUpstreams(t.Context(), c, specs, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	var got []string
	for _, u := range far.List {
		got = append(got, fmt.Sprintf("%s %d %s", u.Source.Name(), u.Rank, u.Product))
	}
	if want := []string{"microsoft 0 ", "x 2 windows"}; !slices.Equal(got, want) {
		t.Errorf("upstreams %q, want %q", got, want)
	}
}

// The servers of one depot have one id for upstreams, others have different ones.
func TestServerID(t *testing.T) {
	t.Parallel()
	const depot = "postgres://symdepot@db/symdepot\ns3://symbols/depot"
	a, b := serverID(depot), serverID(depot)
	if a != b || len(a) != len("symdepot-")+12 {
		t.Errorf("ids %q and %q of one depot, want equal ones", a, b)
	}
	for _, other := range []string{serverID(""), serverID(""), serverID(depot + "2")} {
		if other == a || len(other) != len(a) {
			t.Errorf("id %q of another depot, want one that differs from %q", other, a)
		}
	}
}

// TestCold: nothing becomes cold by default, and values with which files would be
// restored all the time are refused.
func TestCold(t *testing.T) {
	c, err := conf(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := ColdOptions(c); o.After != 0 || o.Rate != 32<<20 || o.Near != 8<<30 {
		t.Errorf("by default %+v, want no time, 32 MiB per second and 8 GiB", o)
	}
	if c, err = conf(t, "cold: {after: 14d, rate: 0, near: 50GiB}", nil); err != nil {
		t.Fatal(err)
	}
	if o := ColdOptions(c); o.After != 14*24*time.Hour || o.Rate >= 0 || o.Near != 50<<30 {
		t.Errorf("configured %+v, want 14 days, no limit of the rate and 50 GiB", o)
	}
	for _, text := range []string{"cold: {after: 10m}", "cold: {after: -1d}", "cold: {near: 0}"} {
		if _, err := conf(t, text, nil); err == nil {
			t.Errorf("%s was accepted, want an error", text)
		}
	}
}
