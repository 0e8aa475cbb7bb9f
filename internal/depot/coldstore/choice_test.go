package coldstore

import (
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

var now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func days(n int) time.Time { return now.AddDate(0, 0, -n) }

func plain(n int64, used int) Candidate {
	return Candidate{Ref: blob.Sum([]byte{byte(n)}), Size: 1 << 20, Order: n, Tx: n, Used: days(used)}
}

func key(n, file int64, made int) Candidate {
	c := plain(n, 100)
	c.Cold, c.File, c.Made = true, file, days(made)
	return c
}

func delta(n, base, file int64) Candidate {
	c := key(n, file, 1)
	c.Base = blob.Sum([]byte{byte(base)})
	return c
}

func TestDue(t *testing.T) {
	small := plain(4, 90)
	small.Size = MinSize - 1
	again := plain(1, 90) // an old content that the newest build has again
	again.Tx = 99
	for _, c := range []struct {
		name   string
		series []Candidate
		want   []int
	}{
		{"none", nil, nil},
		{"one content is the newest", []Candidate{plain(1, 90)}, nil},
		{"all but the newest", []Candidate{plain(1, 90), plain(2, 80), plain(3, 70)}, []int{0, 1}},
		{"oldest first", []Candidate{plain(2, 80), plain(1, 90), plain(3, 70)}, []int{1, 0}},
		{"read lately", []Candidate{plain(1, 90), plain(2, 3), plain(3, 70)}, []int{0}},
		{"cold already", []Candidate{key(1, 10, 1), plain(2, 80), plain(3, 70)}, []int{1}},
		{"too small", []Candidate{plain(1, 90), small, plain(5, 70)}, []int{0}},
		{"the newest build has an old content", []Candidate{again, plain(2, 80), plain(3, 80)}, []int{1, 2}},
	} {
		if got := Due(c.series, days(14)); !slices.Equal(got, c.want) {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSettle: a time that is ahead of the clock counts as that of the content which was
// added next.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name   string
		series []Candidate
		want   []int // days ago
	}{
		{"none", nil, nil},
		{"none is ahead", []Candidate{plain(1, 90), plain(2, 3)}, []int{90, 3}},
		{"as the next one", []Candidate{plain(1, 90), plain(2, -400), plain(3, -399), plain(4, 20)}, []int{90, 20, 20, 20}},
		{"in another order", []Candidate{plain(4, 20), plain(3, -399), plain(1, 90)}, []int{20, 20, 90}},
		{"the last ones are as now", []Candidate{plain(1, 90), plain(2, -400), plain(3, -1)}, []int{90, 0, 0}},
	} {
		Settle(c.series, now)
		for i, d := range c.want {
			if !c.series[i].Used.Equal(days(d)) {
				t.Errorf("%s: content %d counts as used at %v, want %v", c.name, i, c.series[i].Used, days(d))
			}
		}
	}
}
