package coldstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// builds is a series of builds that a test makes: where each one is, so that the delta of one
// against another is as long as they are apart.
type builds struct {
	name string
	at   [][]float64 // of each build, in bytes
}

const (
	builtKey  = 4_000_000 // bytes of each build as a key
	builtSize = 4 * builtKey
)

// delta is the length of a delta.
func (b *builds) delta(i, j int) int64 {
	sum := 1000.0
	for k := range b.at[i] {
		sum += math.Abs(b.at[i][k] - b.at[j][k])
	}
	return int64(min(sum, builtKey))
}

// measured is an estimate of delta, which is up to a third more or less.
func (b *builds) measured(i, j int) int64 {
	r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
	return int64(float64(b.delta(i, j)) * (1 + (r.Float64()*2-1)/3))
}

// builtSeries are series of all sorts.
func builtSeries() (all []*builds) {
	const n = 150
	add := func(name string, at func(i int, r *rand.Rand) []float64) {
		r, b := rand.New(rand.NewPCG(3, uint64(len(all)))), &builds{name: name}
		for i := range n {
			b.at = append(b.at, at(i, r))
		}
		all = append(all, b)
	}
	is := func(yes bool, v float64) float64 {
		if yes {
			return v
		}
		return 0
	}
	for _, step := range []float64{0, 1, 10, 30, 100, 300} {
		add(fmt.Sprintf("equal steps of %.0f kB", step), func(i int, _ *rand.Rand) []float64 { return []float64{1000 * step * float64(i)} })
	}
	for _, long := range []float64{300e3, 800e3, 2e6} {
		x := 0.0
		add(fmt.Sprintf("jumps of %.0f kB", long/1000), func(_ int, r *rand.Rand) []float64 {
			x += 5000 + is(r.IntN(8) == 0, long*r.ExpFloat64())
			return []float64{x}
		})
	}
	for _, long := range []float64{400e3, 1500e3} {
		add(fmt.Sprintf("two branches, %.0f kB apart", long/1000), func(i int, _ *rand.Rand) []float64 {
			return []float64{5000 * float64(i), is(i%2 == 1, long)}
		})
		add(fmt.Sprintf("each fifth of another branch, %.0f kB apart", long/1000), func(i int, _ *rand.Rand) []float64 {
			return []float64{5000 * float64(i), is(i%5 == 3, long)}
		})
		add(fmt.Sprintf("for ten builds %.0f kB apart", long/1000), func(i int, _ *rand.Rand) []float64 {
			return []float64{3000 * float64(i), is(i >= 40 && i < 50, long)}
		})
		add(fmt.Sprintf("one jump of %.0f kB", long/1000), func(i int, _ *rand.Rand) []float64 {
			return []float64{2000 * float64(i), is(i >= 60, long)}
		})
	}
	add("three branches", func(i int, _ *rand.Rand) []float64 {
		return []float64{5000 * float64(i), is(i%3 == 1, 800e3), is(i%3 == 2, 800e3)}
	})
	for _, noise := range []float64{100e3, 500e3, 1e6} {
		// Each build has a direction of its own.
		add(fmt.Sprintf("noise of %.0f kB", noise/1000), func(i int, r *rand.Rand) []float64 {
			at := make([]float64, n)
			at[i] = noise * (0.35 + 0.3*r.Float64())
			return at
		})
	}
	add("one build in nine is far from all", func(i int, _ *rand.Rand) []float64 {
		at := make([]float64, 1+n)
		at[0], at[1+i] = 5000*float64(i), is(i%9 == 5, 1500e3)
		return at
	})
	x := 0.0
	add("longer and longer steps", func(i int, _ *rand.Rand) []float64 {
		x += 1000 * math.Pow(1.04, float64(i))
		return []float64{x}
	})
	add("nothing is alike", func(i int, _ *rand.Rand) []float64 {
		at := make([]float64, n)
		at[i] = builtKey
		return at
	})
	return all
}

// rule is a choice of bases: Base, or the one before it.
type rule func(series []Candidate, i int, now time.Time, key int64, measure Measure) (int, int64, error)

// cooled makes all builds of a series cold, in steps if steady is set: each is due when 14 newer
// ones are there. Otherwise all are there. It returns the series, and how many estimates were made.
func (b *builds) cooled(t *testing.T, steady bool, choose rule) (series []Candidate, estimates int) {
	t.Helper()
	now := days(0)
	add := func() {
		i := int64(len(series))
		series = append(series, Candidate{Ref: blob.Sum(fmt.Append(nil, b.name, i)), Size: builtSize, Order: i + 1, Tx: i + 1, Used: now})
	}
	cool := func(i int) {
		base, _, err := choose(series, i, now, builtKey, func(i, j int) (int64, error) {
			if series[i].Base != (blob.Ref{}) || series[j].Base != (blob.Ref{}) {
				t.Fatalf("%s: build %d is measured against %d, and one of them is a delta", b.name, i, j)
			}
			estimates++
			return b.measured(i, j), nil
		})
		if err != nil {
			t.Fatalf("%s: build %d: %v", b.name, i, err)
		}
		done := Cooled{File: builtKey}
		if base >= 0 && WorthDelta(b.delta(i, base), builtKey) {
			if k := series[base]; k.Base != (blob.Ref{}) || k.Needed >= MaxDeltas || base == i || series[i].Needed > 0 {
				t.Fatalf("%s: build %d is to be built from %d: %+v", b.name, i, base, k)
			}
			done = Cooled{Base: series[base].Ref, File: b.delta(i, base)}
		}
		cooled(series, &series[i], done, now)
	}
	for i := range b.at {
		if add(); steady {
			if i >= 14 {
				cool(i - 14)
			}
			now = now.AddDate(0, 0, 1)
		}
	}
	for i := range series {
		if !series[i].Cold {
			cool(i)
		}
	}
	return series, estimates
}

// bytesOf returns the bytes of the cold files of a series, and the number of keys.
func bytesOf(series []Candidate) (sum int64, keys int) {
	for _, c := range series {
		if sum += c.File; c.Base == (blob.Ref{}) {
			keys++
		}
	}
	return sum, keys
}

// former is the rule before Base: the nearest keys that are not worn, or else the 16th later content.
func former(series []Candidate, i int, now time.Time, _ int64, measure Measure) (int, int64, error) {
	if series[i].Needed > 0 {
		return -1, 0, nil
	}
	earlier, later, plain := -1, -1, []int(nil)
	for j, c := range series {
		if j == i || c.Base != (blob.Ref{}) {
			continue
		}
		if j > i && !c.Cold {
			plain = append(plain, j)
		}
		if !c.Cold && c.Needed == 0 || worn(series, j, now) {
			continue
		}
		if j < i {
			earlier = j
		} else if later < 0 {
			later = j
		}
	}
	if earlier < 0 && later < 0 {
		if len(plain) == 0 {
			return -1, 0, nil
		}
		j := plain[min(len(plain), MaxDeltas/2)-1]
		n, err := measure(i, j)
		return j, n, err
	}
	best, length := -1, int64(0)
	for _, j := range []int{earlier, later} {
		if j >= 0 {
			n, err := measure(i, j)
			if err != nil {
				return -1, 0, err
			}
			if best < 0 || n < length {
				best, length = j, n
			}
		}
	}
	return best, length, nil
}

// worn is part of former: a key has enough deltas, is old, or what the deltas take more than usual
// would pay for a new key.
func worn(series []Candidate, j int, now time.Time) bool {
	key := series[j]
	if key.Needed >= MaxDeltas || key.Cold && now.Sub(key.Made) > MaxAge {
		return true
	}
	if !key.Cold {
		key.File = key.Size / 3
	}
	usual, excess := int64(-1), int64(0)
	for _, c := range series {
		if c.Cold && c.Base == key.Ref {
			if usual < 0 {
				usual = min(c.File, key.File/20)
			}
			excess += max(0, c.File-usual)
		}
	}
	return excess >= key.File
}

// TestBaseOfSeries cools series of all sorts by Base and by the rule before it.
func TestBaseOfSeries(t *testing.T) {
	for _, steady := range []bool{false, true} {
		log, all := 0.0, builtSeries()
		for _, b := range all {
			series, estimates := b.cooled(t, steady, Base)
			again, _ := b.cooled(t, steady, Base)
			if !slices.Equal(series, again) {
				t.Errorf("%s: other bases the second time", b.name)
			}
			before, _ := b.cooled(t, steady, former)
			sum, keys := bytesOf(series)
			old, oldKeys := bytesOf(before)
			ratio, each := float64(sum)/float64(old), float64(estimates)/float64(len(series))
			log += math.Log(ratio)
			t.Logf("steady %-5v %-45s %3d keys, %5.2f %% of plain; before %3d keys, %5.2f %%; %.2f; %.1f estimates for each build",
				steady, b.name, keys, 100*float64(sum)/builtSize/float64(len(series)), oldKeys, 100*float64(old)/builtSize/float64(len(series)), ratio, each)
			if ratio > 1.15 {
				t.Errorf("%s: %.2f times the bytes of the rule before, want 1.15 at most", b.name, ratio)
			}
			for _, c := range series {
				if c.Base == (blob.Ref{}) {
					continue
				}
				k := slices.IndexFunc(series, func(k Candidate) bool { return k.Ref == c.Base })
				if k < 0 || series[k].Base != (blob.Ref{}) || series[k].Needed > MaxDeltas {
					t.Errorf("%s: build %d has the base %d: %+v", b.name, c.Order-1, k, series[max(k, 0)])
				}
			}
			if each > 2*keysTried+float64(len(lookAt)) {
				t.Errorf("%s: %.1f estimates for each build", b.name, each)
			}
		}
		if mean := math.Exp(log / float64(len(all))); mean > 0.85 {
			t.Errorf("%.2f times the bytes of the rule before on the average, want 0.85 at most", mean)
		}
	}
}

// TestBase: which contents are looked at, and which one is taken.
func TestBase(t *testing.T) {
	full := key(1, 1000, 1)
	full.Needed = MaxDeltas
	needed := plain(5, 80)
	needed.Needed = 1
	small := plain(3, 90)
	small.Size = MinSize - 1
	var many []Candidate
	for n := range int64(40) {
		many = append(many, plain(n+1, 90))
	}
	away := func(i, j int) (int64, error) { return max(int64(i-j), int64(j-i)), nil }
	far := func(i, j int) (int64, error) { return 800, nil }
	lost := errors.New("lost")
	for _, c := range []struct {
		name    string
		series  []Candidate
		i       int
		measure Measure
		want    int
	}{
		{"no key, the last content", []Candidate{plain(1, 90), plain(2, 90)}, 1, away, -1},
		{"no key, a later content is plain", []Candidate{plain(1, 90), plain(2, 90)}, 0, away, 1},
		{"no key, a later content is plain and small", []Candidate{plain(1, 90), small}, 0, away, -1},
		{"no key, many later ones", many, 0, away, 15},
		{"nothing is like it", many, 0, far, -1},
		{"a plain content that others need counts as a key", []Candidate{plain(1, 90), needed, plain(9, 90)}, 0, away, 1},
		{"the nearer of two keys", []Candidate{key(1, 1000, 1), key(3, 1000, 1), plain(5, 90), key(7, 1000, 1), key(9, 1000, 1)}, 2, away, 1},
		{"a delta is no base", []Candidate{key(1, 1000, 1), delta(2, 1, 10), plain(3, 90)}, 2, away, 0},
		{"enough deltas", []Candidate{full, plain(2, 90)}, 1, away, -1},
		{"an old key", []Candidate{key(1, 1000, 91), plain(2, 90)}, 1, away, -1},
		{"a content that others need", []Candidate{key(1, 1000, 1), needed}, 1, away, -1},
		{"the key cannot be read", []Candidate{key(1, 1000, 1), plain(2, 90), plain(3, 90)}, 1, func(_, j int) (int64, error) {
			if j == 0 {
				return 0, fmt.Errorf("open: %w", fs.ErrNotExist)
			}
			return 5, nil
		}, 2},
	} {
		got, _, err := Base(c.series, c.i, now, 1000, c.measure)
		if err != nil || got != c.want {
			t.Errorf("%s: base %d, %v, want %d", c.name, got, err, c.want)
		}
	}
	if _, _, err := Base(many, 0, now, 1000, func(int, int) (int64, error) { return 0, lost }); !errors.Is(err, lost) {
		t.Errorf("an error of measuring: %v", err)
	}
}

// TestBaseLooks: with a key that is not near, later contents are measured whenever its deltas have
// taken another third of it, and one of them is taken that is near to what follows.
func TestBaseLooks(t *testing.T) {
	const kB, length = 1000, 1000 * 1000
	for _, c := range []struct {
		name        string
		spent, near int64
		later       func(j int) int64
		want        int // 0 is the key
	}{
		{"near", 400, 20, func(int) int64 { return 1 }, 0},
		{"too little was spent", 0, 300, func(int) int64 { return 1 }, 0},
		{"far, and the next ones are near", 300, 300, func(int) int64 { return 10 }, 17},
		{"far, and so are the next ones", 300, 300, func(int) int64 { return 250 }, 0},
		{"far, and the next ones are near for a while", 300, 300, func(j int) int64 { return int64(j/20) * 400 }, 11},
		{"far, and later ones are near to it again", 300, 300, func(j int) int64 { return 300 - int64(j) }, 0},
	} {
		series := []Candidate{key(1, length, 1), delta(2, 1, c.spent*kB), plain(3, 90)}
		for n := range int64(40) {
			series = append(series, plain(n+4, 90))
		}
		got, _, err := Base(series, 2, now, length, func(_, j int) (int64, error) {
			if j == 0 {
				return c.near * kB, nil
			}
			return c.later(j-2) * kB, nil
		})
		if err != nil || got != c.want {
			t.Errorf("%s: base %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}
