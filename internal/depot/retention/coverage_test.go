package retention

import "testing"

// TestBar: which coverage a class demands, and which parts meet it.
func TestBar(t *testing.T) {
	t.Parallel()
	p, err := Parse("p", []byte("retention:\n  classes:\n    - {name: release, coverage: 66.66%}\n    - {name: nightly, keep_last: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]Share{"release": 6666, "nightly": 0, Forever: 0, "other": 0} {
		if got := p.Bar(class); got != want {
			t.Errorf("class %s demands %s, want %s", class, got, want)
		}
	}
	for _, c := range []struct {
		bar         Share
		part, whole int64
		want        bool
	}{
		{6666, 2, 3, true}, {6667, 2, 3, false}, {AllShare, 3, 3, true}, {AllShare, 1<<62 - 1, 1 << 62, false}, {0, 0, 3, true},
		{AllShare, 0, 0, true}, {1, 0, 1, false}, {9500, 95, 100, true}, {9500, 94, 100, false},
	} {
		if got := c.bar.MetBy(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d meet %s: %v, want %v", c.part, c.whole, c.bar, got, c.want)
		}
	}
}
