package retention

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/base/term"
)

const days = term.Duration(24 * time.Hour)

// example is the policy of the specification, section "Model".
const example = `retention:
  classes:                       # first that matches, in this order, for pushes without --class
    - {name: release, match: {branch: "release/*"}}            # no keep rule: forever
    - {name: nightly, match: {branch: main}, keep_last: 20, keep_within: 14d, keep_used: 30d, cap: 2TiB}
    - {name: try,     keep_within: 28d}
  default: forever               # a build that no class matches
  products: {Game: {cap: 4TiB}}  # caps may stand at class, product and the depot
  min_age: 1d
  floor: 1
  trash: 7d
  brake: 30%
`

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       Policy
	}{
		{"the example of the specification", example, Policy{
			Classes: []Class{
				{Name: "release", Match: Match{Branch: "release/*"}},
				{Name: "nightly", Match: Match{Branch: "main"}, Rules: Rules{20, 14 * days, 30 * days}, Cap: 2 << 40},
				{Name: "try", Rules: Rules{KeepWithin: 28 * days}},
			},
			Default: Forever, ProductCaps: map[string]term.ByteSize{"Game": 4 << 40}, MinAge: days, Floor: 1, Trash: 7 * days, Brake: 3000,
		}},
		{"defaults", "retention: {}", Policy{Default: Forever, MinAge: days, Floor: 1, Trash: DefaultTrash, Brake: 3000}},
		{"everything", `
retention:
  classes:
    - name: rest
      match: {product: G*, version: "?.*", branch: "*"}
      keep_last: 0
      keep_used: 90d
      publish: public
  default: rest
  products: {"": {cap: 1GiB}, 'a b': {}}
  cap: 100
  min_age: 12h
  floor: 0
  trash: 0
  brake: 12.5%
  schedule: 02:00
`, Policy{
			Classes: []Class{{Name: "rest", Match: Match{"G*", "?.*", "*"}, Rules: Rules{KeepUsed: 90 * days}, Publish: PublishPublic}}, Default: "rest",
			ProductCaps: map[string]term.ByteSize{"": 1 << 30}, Cap: 100, MinAge: days / 2, Brake: 1250, Schedule: "02:00",
		}},
	} {
		got, err := Parse("p.yml", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(&c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		again, err := Parse("printed", []byte(got.String()))
		if d := cmp.Diff(got, again); d != "" || err != nil {
			t.Errorf("%s: the printed policy differs: %v\n%s%s", c.name, err, d, got)
		} else if got.Hash() != again.Hash() {
			t.Errorf("%s: the hash of the printed policy differs", c.name)
		}
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	class := func(text string) string { return "retention:\n  classes:\n    - " + text + "\n" }
	for _, c := range []struct{ text, want string }{
		{"", "p.yml: the policy is empty"},
		{"# only a comment", "p.yml: the policy is empty"},
		{"retention:", "p.yml:1: retention: the value is missing"},
		{"retention: 5", "p.yml:1: retention: a map is expected, with keys such as classes, default"},
		{"[]", "p.yml:1: a map is expected, with keys such as retention"},
		{"classes: []", "p.yml:1: classes: no such key; put it below the key retention"},
		{"retntion: {}", "p.yml:1: retntion: no such key; the nearest is retention"},
		{"retention: {}\nretention: {}", "p.yml:2: retention: the key is set twice"},
		{"retention: {}\n---\nretention: {}", "one document is expected"},
		{"retention:\n\tfloor: 1", "p.yml:2: found character that cannot start any token; YAML is expected"},
		{"retention:\n  floor: 1\n  clases: []", "p.yml:3: retention.clases: no such key; the nearest is classes"},
		{"retention:\n  keep_last: 3", "p.yml:2: retention.keep_last: no such key; it belongs to a class in retention.classes"},
		{"retention:\n  zzzzzzzzz: 3", "p.yml:2: retention.zzzzzzzzz: no such key; known are classes, default, products"},
		{"retention:\n  ? [a]\n  : 3", "a text is expected as key"},
		{"retention: &a\n  cap: 1\n  products: {g: *a}", "p.yml:3: retention.products.g: aliases are not supported"},
		{"retention: {classes: [&a {name: x}, *a]}", "retention.classes[1]: aliases are not supported"},
		{"retention:\n  floor: -1", "p.yml:2: retention.floor: a whole number of 0 or more is expected"},
		{"retention:\n  floor: [1]", "p.yml:2: retention.floor: a whole number of 0 or more is expected"},
		{"retention:\n  floor: 99999999999", "retention.floor: a whole number"},
		{"retention:\n  brake: 30", `p.yml:2: retention.brake: a share from 0% to 100% is expected, such as 30%, not "30"`},
		{"retention:\n  brake: 101%", "retention.brake: a share from 0% to 100% is expected"},
		{"retention:\n  brake: NaN%", "retention.brake: a share from 0% to 100% is expected"},
		{"retention:\n  trash: 1w", `retention.trash: a duration is expected, such as 300ms, 10s, 5m, 24h or 7d, not "1w"`},
		{"retention:\n  cap: [1]", "retention.cap: a size is expected, such as 500MB, 20GiB or a number of bytes, not a list"},
		{"retention:\n  cap: 0", "retention.cap: a cap of 0 would remove all that it may"},
		{"retention:\n  schedule: 2 Uhr", "retention.schedule: a time of day in UTC is expected"},
		{"retention:\n  schedule: 25:00", "retention.schedule: a time of day in UTC is expected"},
		{"retention:\n  default: nightl\n  classes: [{name: nightly}]", `p.yml:2: retention.default: no class is called "nightl"; the nearest is nightly`},
		{"retention:\n  classes: {}", "p.yml:2: retention.classes: a list is expected"},
		{"retention:\n  products: []", "retention.products: a map is expected"},
		{"retention:\n  products: {g: 4TiB}", "retention.products.g: a map is expected, with keys such as cap"},
		{"retention:\n  products: {g: {size: 4TiB}}", "retention.products.g.size: no such key; the nearest is cap"},
		{"retention:\n  products:\n    " + strings.Repeat("p", 201) + ": {}", "p.yml:3: retention.products.pppp"},
		{class("release"), "p.yml:3: retention.classes[0]: a map is expected, with keys such as name"},
		{class("{}"), "p.yml:3: retention.classes[0]: the key name is missing"},
		{class("{name: forever}"), "p.yml:3: retention.classes[0].name: a name of up to 64 letters"},
		{class("{name: a/b}"), "retention.classes[0].name: a name of up to 64 letters"},
		{class("{name: [x]}"), "retention.classes[0].name: text is expected, not a list"},
		{class("{name: a}\n    - {name: a}"), "p.yml:4: retention.classes[1]: class a was defined in line 3 already"},
		{class("{name: a, keep_las: 20}"), "p.yml:3: retention.classes[0].keep_las: no such key; the nearest is keep_last"},
		{class("{name: a, keep_days: 20}"), "retention.classes[0].keep_days: no such key; the nearest is keep_within"},
		{class("name: a\n      keep-within: 20d"), "p.yml:4: retention.classes[0].keep-within: no such key; the nearest is keep_within"},
		{class("{name: a, match: {brnch: main}}"), "retention.classes[0].match.brnch: no such key; the nearest is branch"},
		{class("{name: a, match: {branch: ''}}"), "retention.classes[0].match.branch: a pattern is expected"},
		{class("{name: a, match: main}"), "retention.classes[0].match: a map is expected, with keys such as product"},
		{class("name: a\n      keep_last: 0"), "p.yml:4: retention.classes[0]: the keep rules keep nothing, so every build of the class would be removed"},
		{class("{name: a, keep_within: 0s, keep_used: 0s}"), "the keep rules keep nothing"},
		{class("{name: a, keep_last: }"), "retention.classes[0].keep_last: the value is missing"},
		{class("name: a\n      publish: privat"), `p.yml:4: retention.classes[0].publish: public is expected, not "privat"`},
		{class("{name: a, publish: [public]}"), "retention.classes[0].publish: text is expected, not a list"},
		{class("name: a\n      coverage: 95"), "p.yml:4: retention.classes[0].coverage: a share from 0% to 100% is expected"},
		{class("{name: a, public: true}"), "retention.classes[0].public: no such key; the nearest is publish"},
		{"retention:\n  publish: public", "p.yml:2: retention.publish: no such key; it belongs to a class in retention.classes"},
		{"retention: {products: {" + strings.Repeat("x, ", 100) + "}}", "more errors follow"},
		{"retention:\n  schedule: " + strings.Repeat("x", 100_000) + "\n  ? " + strings.Repeat("y", 100_000) + "\n  : 1", "yyyyyy…: no such key"},
		{strings.Repeat("#", MaxPolicyBytes+1), "at most 262144 are allowed"},
	} {
		p, err := Parse("p.yml", []byte(c.text))
		if err == nil {
			t.Errorf("%.80q: no error, want %q", c.text, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: error %q, want %q", c.text, err, c.want)
		}
		if err != nil && len(err.Error()) > 20_000 {
			t.Errorf("%.80q: an error of %d bytes, want at most 20,000", c.text, len(err.Error()))
		}
		if p != nil {
			t.Errorf("%.80q: a policy beside an error, want none", c.text)
		}
	}
}

// FuzzParse checks that a policy that is read can be printed and read again with the
// same meaning, and that it can be applied.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("retention: {classes: [{name: a, keep_last: 0}], default: a, cap: 1e3, schedule: 02:00}"))
	f.Add([]byte("retention: &a\n  products: {\"\\u0085\\n\": {cap: 9PB}, g: *a}\n  <<: *a"))
	f.Add([]byte("retention: {products: {\"" + strings.Repeat("\\x01", 200) + "\": {cap: 1}}}"))
	f.Add([]byte("retention: {classes: [{name: a, match: {branch: \"\\\"*\\x00\"}, keep_within: 0.00001d}], brake: 0.004%}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("p", text)
		if err != nil {
			return
		}
		again, err := Parse("printed", []byte(p.String()))
		if err != nil {
			t.Fatalf("the printed policy is refused: %v\n%s", err, p)
		}
		if p.String() != again.String() {
			t.Fatalf("printed, read and printed again the policy differs:\n%s\n%s", p, again)
		}
		s := &State{Transactions: []Transaction{{Number: 1, Branch: "main", Time: at(1)}, {Number: 2, Product: "g", Class: "a", Time: at(2)}}}
		if _, err := p.Plan(s, now); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSetRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, class string
		rules             Rules
		size              term.ByteSize
		want, fails       string
	}{
		{name: "a new policy", class: "nightly", rules: Rules{KeepLast: 20, KeepWithin: 14 * days}, want: `retention:
  classes:
    - name: nightly
      keep_last: 20
      keep_within: 14d
`},
		{name: "a known class, comments stay", class: "nightly", rules: Rules{KeepWithin: 7 * days}, size: 1 << 40,
			text: "# ours\nretention:\n  classes:\n    - {name: nightly, keep_last: 20} # every night\n    - name: try\n      keep_within: 28d\n  brake: 50%\n",
			want: "# ours\nretention:\n  classes:\n    - {name: nightly, keep_last: 20, keep_within: 7d, cap: 1TiB} # every night\n    - name: try\n      keep_within: 28d\n  brake: 50%\n"},
		{name: "a name that is a word of YAML", class: "null", rules: Rules{KeepLast: 1}, want: "retention:\n  classes:\n    - name: \"null\"\n      keep_last: 1\n"},
		{name: "a replaced value", class: "a", rules: Rules{KeepLast: 2}, text: "retention:\n  classes:\n    - name: a\n      keep_last: \"3\"\n", want: "retention:\n  classes:\n    - name: a\n      keep_last: 2\n"},
		{name: "no rule", class: "a", fails: "no rule is given"},
		{name: "no name", rules: Rules{KeepLast: 1}, fails: "cannot name a class"},
		{name: "a broken policy", class: "a", rules: Rules{KeepLast: 1}, text: "retention: {x: 1}", fails: "no such key"},
	} {
		got, err := SetRules("p.yml", []byte(c.text), c.class, c.rules, c.size)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if d := cmp.Diff(c.want, string(got)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestPolicyWords(t *testing.T) {
	t.Parallel()
	p, err := Parse("p", []byte(`
retention:
  classes:
    - {name: release, match: {branch: "release/*"}, cap: 1TiB}
    - {name: nightly, match: {product: Game, branch: main}, keep_last: 3}
    - {name: try, keep_within: 28d}
  default: try
  brake: 100%
  schedule: 02:30
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		t    Transaction
		want string
	}{
		{Transaction{Branch: "release/1.2"}, "release"},
		{Transaction{Branch: "Release/1.2"}, "try"},
		{Transaction{Branch: "main", Product: "Game"}, "nightly"},
		{Transaction{Branch: "main", Product: "Tool"}, "try"},
		{Transaction{Branch: "release/1.2", Class: "nightly"}, "nightly"},
		{Transaction{Class: "old"}, "old"},
	} {
		if got := p.ClassOf(&c.t); got != c.want {
			t.Errorf("the class of %+v is %q, want %q", c.t, got, c.want)
		}
	}
	if got := (&Policy{}).ClassOf(&Transaction{}); got != Forever {
		t.Errorf("without a policy the class is %q, want %q", got, Forever)
	}
	const want = `class "nightl" is not in the retention policy; the nearest is nightly; known are forever, release, nightly, try`
	if err := p.CheckClass("nightl"); err == nil || err.Error() != want {
		t.Errorf("a misspelled class: %v, want %s", err, want)
	}
	for _, name := range []string{"nightly", Forever} {
		if err := p.CheckClass(name); err != nil {
			t.Errorf("class %s: %v", name, err)
		}
	}
	warnings := strings.Join(p.Warnings(), "\n")
	for _, want := range []string{"class release has a cap but no keep rule", "class nightly has keep_last but no keep_within", "brake is 100%"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %q, want %q", warnings, want)
		}
	}
	for _, c := range []struct{ after, want float64 }{{5, 5 + 2.5/24}, {5 + 2.5/24, 6 + 2.5/24}, {5.5, 6 + 2.5/24}} {
		if got, ok := p.Next(at(c.after)); !ok || !got.Equal(at(c.want)) {
			t.Errorf("the next run after %v is %v, want %v", at(c.after), got, at(c.want))
		}
	}
	if _, ok := (&Policy{}).Next(now); ok {
		t.Error("a policy without a schedule has a next run")
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		share       string
		part, whole int64
		want        bool
	}{
		{"30%", 3, 10, false}, {"30%", 4, 10, true}, {"0%", 0, 5, false}, {"0%", 1, 1 << 62, true}, {"100%", 1 << 62, 1 << 62, false}, {"33.33%", 1, 3, true},
		{"50%", 1 << 61, 1 << 62, false}, {"50%", 1<<61 + 1, 1 << 62, true},
	} {
		var s Share
		if err := s.UnmarshalText([]byte(c.share)); err != nil || s.String() != c.share {
			t.Errorf("%s is read as %s, %v, want the same", c.share, s, err)
		}
		if got := s.exceeded(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d is more than %s: %v, want %v", c.part, c.whole, c.share, got, c.want)
		}
	}
}

// TestManual: the policy in the manual is valid, without warnings, and equal to the
// example of the specification.
func TestManual(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n    retention:\n")
	text, _, end := strings.Cut(text, "\n\n")
	if !ok || !end {
		t.Fatal("the manual shows no policy")
	}
	p, err := Parse("docs/retention.md", []byte("    retention:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse("example", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, p); d != "" || len(p.Warnings()) > 0 {
		t.Errorf("the policy of the manual has warnings %q, want none and equal policies (-example +manual):\n%s", p.Warnings(), d)
	}
	for _, key := range append(slices.Clone(policyKeys), classKeys...) {
		if !strings.Contains(string(page), key) {
			t.Errorf("the manual does not mention the key %s", key)
		}
	}
}

// TestNewClass: a class that the policy does not have is named, with the nearest.
func TestNewClass(t *testing.T) {
	t.Parallel()
	const text = "retention:\n  classes:\n    - name: nightly\n      keep_last: 20\n"
	for _, c := range []struct{ text, class, want string }{
		{text, "nightly", ""},
		{text, "nightli", "class nightli is new; the nearest that was there before is nightly"},
		{text, "release", "class release is new"},
		{"", "nightly", "class nightly is new"},
	} {
		if got := NewClass("p.yml", []byte(c.text), c.class); got != c.want {
			t.Errorf("NewClass of %s in %q: %q, want %q", c.class, c.text, got, c.want)
		}
	}
}

func TestPublishes(t *testing.T) {
	t.Parallel()
	p, err := Parse("p.yml", []byte(`retention:
  classes:
    - {name: release, match: {branch: "release/*"}, publish: public}
    - {name: nightly, match: {branch: main}, keep_last: 2}
    - {name: rest, keep_last: 2, publish: public}
  default: rest
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tx   Transaction
		want bool
	}{
		{Transaction{Branch: "release/1"}, true},
		{Transaction{Branch: "release/1", Class: "nightly"}, false},
		{Transaction{Branch: "main"}, false},
		{Transaction{Branch: "main", Class: "release"}, true},
		{Transaction{}, true},
		{Transaction{Class: Forever}, false},
		{Transaction{Class: "unknown"}, false},
	} {
		if got := p.Publishes(&c.tx); got != c.want {
			t.Errorf("a build of branch %q and class %q is published: %v, want %v", c.tx.Branch, c.tx.Class, got, c.want)
		}
	}
	if None().Publishes(&Transaction{Branch: "release/1"}) {
		t.Error("a depot without a policy publishes")
	}
}
