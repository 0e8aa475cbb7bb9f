package coldstore

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

const (
	// keysTried is how many keys before a content, and after it, are measured.
	keysTried = 2
	// lookEvery is how often later contents are measured: each time that the deltas of a
	// key have taken another third of it.
	lookEvery = 3
	// fewContents are so few that it may take long until there are more.
	fewContents = 8
)

// lookAt are the later contents that are measured, of those that are plain: the second one
// and so on. The last one is always measured, too.
var lookAt = []int{2, 5, 9, 15, 22, MaxDeltas - 1}

// Measure estimates the length of a delta of content i of a series against content j, in
// bytes. Its error is fs.ErrNotExist if one of them cannot be read.
type Measure func(i, j int) (int64, error)

// Base returns the position of the content that content i of a series is best built from,
// and the estimated length of that delta; -1 if it becomes a key. key is the length that it
// would have as a key. The same series, time and lengths always give the same base.
//
// A base is a key or a plain content. The nearest keys are measured. If the best of them is
// not near, some later contents are measured that are still plain: one of them becomes the
// base, and later a key, if all contents from i on then take less on the average, the key
// included, than content i takes with the best key. That is how the fewest bytes are spent
// if deltas become longer with time: a key serves until one more delta of it takes more than the
// average of what comes next.
//
// Candidate i has no base if others are built from it, because nothing is built from a
// content that needs a base.
func Base(series []Candidate, i int, now time.Time, key int64, measure Measure) (base int, delta int64, err error) {
	if series[i].Needed > 0 {
		return -1, 0, nil
	}
	s := search{series, i, key, measure}
	near, err := s.nearest(now)
	if err != nil || near.base >= 0 && !s.looks(near) {
		return near.base, near.delta, err
	}
	next, average, err := s.next(near)
	switch {
	case err != nil:
		return -1, 0, err
	case next.base >= 0 && (near.base < 0 || next.delta < near.delta/5*4 && average < near.delta):
		return next.base, next.delta, nil
	}
	return near.base, near.delta, nil
}

// search finds the base of content i of a series, which has length key as a key.
type search struct {
	series  []Candidate
	i       int
	key     int64
	measure Measure
}

// found is a base and the length of the delta against it; base is -1 if there is none.
type found struct {
	base  int
	delta int64
}

// length returns the estimated length of a delta; math.MaxInt64 if it cannot be made.
func (s *search) length(i, j int) (int64, error) {
	n, err := s.measure(i, j)
	if errors.Is(err, fs.ErrNotExist) {
		return math.MaxInt64, nil // damaged: verify names it
	}
	return n, err
}

// nearest returns the best of the nearest keys. A content that is plain and that others are
// built from counts as a key, because it becomes one.
func (s *search) nearest(now time.Time) (best found, err error) {
	keys := func(k *Candidate) bool {
		return (k.Cold || k.Needed > 0) && k.Needed < MaxDeltas && !(k.Cold && now.Sub(k.Made) > MaxAge)
	}
	earlier, later := s.beside(-1, keys), s.beside(1, keys)
	best.base = -1
	for n := range keysTried {
		for _, list := range [][]int{earlier, later} {
			if n >= len(list) {
				continue
			}
			delta, err := s.length(s.i, list[n])
			if err != nil {
				return best, err
			}
			if WorthDelta(delta, s.key) && (best.base < 0 || delta < best.delta) {
				best = found{list[n], delta}
			}
		}
		if s.isNear(best) {
			break
		}
	}
	return best, nil
}

// beside returns the positions of those contents before content i (side -1) or after it
// (side 1) that are no deltas and are wanted, nearest first.
func (s *search) beside(side int, wanted func(k *Candidate) bool) (list []int) {
	for j := range s.series {
		k := &s.series[j]
		if j != s.i && (k.Order < s.series[s.i].Order) == (side < 0) && k.Base == (blob.Ref{}) && wanted(k) {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return side * cmp.Compare(s.series[a].Order, s.series[b].Order) })
	return list
}

// isNear reports whether no other key can be worth its bytes, since all the deltas that it may
// have take less than it does.
func (s *search) isNear(f found) bool { return f.base >= 0 && f.delta < s.key/(MaxDeltas+1) }

// looks reports whether later contents are measured although there is a key.
func (s *search) looks(near found) bool {
	if s.isNear(near) {
		return false
	}
	spent := int64(0)
	for j := range s.series {
		if k := &s.series[j]; k.Cold && k.Base == s.series[near.base].Ref {
			spent += k.File
		}
	}
	step := max(s.key/lookEvery, 1)
	return (spent+near.delta)/step > spent/step
}

// next returns the later content that is the best base for content i and those that follow
// it, and how many bytes each of them would take on the average, that key included.
func (s *search) next(near found) (best found, average int64, err error) {
	best.base = -1
	after := s.beside(1, func(k *Candidate) bool { return !k.Cold && k.Needed == 0 && k.Size >= MinSize })
	if near.base >= 0 && near.delta <= s.key/int64(min(len(after), MaxDeltas)+1) {
		return best, 0, nil // they are too few for a key
	}
	points, err := s.points(after)
	if err != nil || !slices.ContainsFunc(points, func(p point) bool { return WorthDelta(p.away, s.key) }) {
		return best, 0, err
	}
	returns, err := s.returns(near, after, points)
	if err != nil {
		return best, 0, err
	}
	deltas, err := s.deltas(near, after, points)
	if err != nil {
		return best, 0, err
	}
	away := line(points, 0, func(_ int, p point) int64 { return p.away })
	for o, p := range points {
		if !WorthDelta(p.away, s.key) {
			continue
		}
		sum, n := s.key+p.away, int64(1)
		if near.base < 0 && p.after == len(after) && len(after) <= fewContents {
			sum -= s.key / 8 // the newest content is stored plain anyway, until there is a newer one
		}
		for m := 1; m < len(away); m++ {
			if !returns || !alike(away[m], near.delta) { // else it is built from the key that there is
				sum, n = sum+deltas[o][m], n+1
			}
			if m >= p.after && (best.base < 0 || sum/n <= average) {
				best, average = found{after[p.after-1], p.away}, sum/n
			}
		}
	}
	return best, average, nil
}

// point is a later content that was measured.
type point struct {
	after int   // how many contents after content i
	away  int64 // the length of a delta of content i against it
}

// points measures some later contents.
func (s *search) points(after []int) (list []point, err error) {
	last := min(len(after), MaxDeltas-1)
	for _, n := range append(slices.Clone(lookAt), last) {
		if n > last || n == 0 || len(list) > 0 && list[len(list)-1].after == n {
			continue
		}
		away, err := s.length(s.i, after[n-1])
		if err != nil {
			return nil, err
		}
		if away < math.MaxInt64 {
			list = append(list, point{n, min(away, s.key)})
		}
	}
	return list, nil
}

// deltas returns for each point how long the deltas of content i and of those after it are against
// it. If there is no key, all points are measured against each other. Otherwise all contents count as
// on one line, as far from each other as their distances from content i differ. No content is nearer
// than if a third of all that changes were new in each step.
func (s *search) deltas(near found, after []int, points []point) ([][]int64, error) {
	lists := make([][]int64, len(points))
	for o, p := range points {
		between := func(_ int, q point) int64 { return max(q.away-p.away, p.away-q.away) }
		if near.base < 0 {
			measured := make([]int64, len(points))
			for k, q := range points {
				if k < o {
					measured[k] = lists[k][p.after]
				}
				if k <= o {
					continue
				}
				n, err := s.length(after[p.after-1], after[q.after-1])
				if err != nil {
					return nil, err
				}
				measured[k] = min(n, s.key)
			}
			between = func(k int, _ point) int64 { return measured[k] }
		}
		lists[o] = line(points, p.away, between)
	}
	last := points[len(points)-1]
	for o, p := range points {
		for m := range lists[o] {
			steps := int64(max(m-p.after, p.after-m))
			lists[o][m] = max(lists[o][m], last.away*steps/int64(3*last.after))
		}
	}
	return lists, nil
}

// line returns a length for content i, which is first, and for each content after it: what of says
// of the points, and evenly between them.
func line(points []point, first int64, of func(k int, p point) int64) []int64 {
	list := []int64{first}
	for k, p := range points {
		from, begin, end := len(list)-1, list[len(list)-1], of(k, p)
		for m := from + 1; m <= p.after; m++ {
			list = append(list, begin+(end-begin)*int64(m-from)/int64(p.after-from))
		}
	}
	return list
}

// alike reports whether two lengths are of the same order: one is less than twice the other.
func alike(a, b int64) bool { return a < 2*b && b < 2*a }

// returns reports whether later contents are like those before content i again: builds of two
// branches take turns, or one build was made in another way.
func (s *search) returns(near found, after []int, points []point) (bool, error) {
	if near.base < 0 {
		return false, nil
	}
	for _, p := range points {
		if alike(p.away, near.delta) {
			back, err := s.length(after[p.after-1], near.base)
			return back < near.delta/2, err
		}
	}
	return false, nil
}
