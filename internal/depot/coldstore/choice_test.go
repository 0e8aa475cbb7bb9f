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

func TestBases(t *testing.T) {
	full := key(1, 1000, 1)
	full.Needed = MaxDeltas
	needed := plain(5, 80)
	needed.Needed = 1
	var many []Candidate
	for n := range int64(40) {
		many = append(many, plain(n+1, 90))
	}
	for _, c := range []struct {
		name   string
		series []Candidate
		i      int
		want   []int
	}{
		{"no key, the last content", []Candidate{plain(1, 90), plain(2, 90)}, 1, nil},
		{"no key, a later content is plain", []Candidate{plain(1, 90), plain(2, 90), plain(3, 90)}, 0, []int{2}},
		{"no key, many later ones", many, 0, []int{16}},
		{"a plain content that others need counts as a key", []Candidate{plain(1, 90), needed, plain(9, 90)}, 0, []int{1}},
		{"nearest earlier, nearest later", []Candidate{key(1, 1000, 1), key(3, 1000, 1), plain(5, 90), key(7, 1000, 1), key(9, 1000, 1)}, 2, []int{1, 3}},
		{"a delta is no base", []Candidate{key(1, 1000, 1), delta(2, 1, 10), plain(3, 90)}, 2, []int{0}},
		{"enough deltas", []Candidate{full, plain(2, 90)}, 1, nil},
		{"an old key", []Candidate{key(1, 1000, 91), plain(2, 90)}, 1, nil},
		{"a content that others need", []Candidate{key(1, 1000, 1), needed}, 1, nil},
	} {
		if got := Bases(c.series, c.i, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: bases %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWorn lets deltas grow until what they take more than a twentieth of the key is a
// key.
func TestWorn(t *testing.T) {
	series := []Candidate{key(1, 1000, 1)}
	grow := func(order, file int64) {
		d := delta(order, 1, file)
		d.Made = days(1).Add(time.Duration(order) * time.Minute)
		series = append(series, d)
	}
	grow(2, 100) // 50 more than a twentieth
	grow(3, 500) // 500 more
	grow(4, 540) // 990 more
	if Worn(series, 0, now) {
		t.Error("worn with an excess of 990 of 1000, want not worn")
	}
	grow(5, 60)
	if !Worn(series, 0, now) {
		t.Error("not worn with an excess of 1000 of 1000, want worn")
	}
}
