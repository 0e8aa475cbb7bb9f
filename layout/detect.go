package layout

import "github.com/symdepot/symdepot/internal/base/sorting"

// Sample finds out the layout of a tree by the paths of some of its files. The
// zero value is an empty sample.
type Sample struct {
	files int
	votes map[Layout]int
}

// Files returns the number of files that count.
func (s *Sample) Files() int { return s.files }

// Add counts the relative path of a file for the most telling layout that it
// fits.
func (s *Sample) Add(path string) {
	s.files++
	for _, l := range sampled {
		r, err := l.Parse(path)
		if err != nil {
			continue
		}
		switch r.Layout { // several layouts share the shape name/id/leaf
		case Native:
			s.files-- // a source bundle may be in many layouts
			return
		case BreakpadTree, SlashSymbols:
			l = r.Layout
		}
		if s.votes == nil {
			s.votes = map[Layout]int{}
		}
		s.votes[l]++
		return
	}
}

// sampled lists the layouts that paths are counted for, the most telling first.
var sampled []Layout

func init() {
	sampled = withTable(func(_ Layout, t *table) bool { return t.rank > 0 })
	sorting.By(sampled, func(a, b Layout) int { return a.table().rank - b.table().rank })
}

// Layout returns the layout of most of the files; Native if they are of several
// of its parts; Flat if most fit no layout.
func (s *Sample) Layout() Layout {
	best, most, sum, mixed := Flat, 0, 0, 0
	for _, l := range Folders() {
		n := s.votes[l]
		sum += n
		if l.table().mixed {
			mixed += n
		}
		if n > most {
			best, most = l, n
		}
	}
	switch {
	case most == 0 || most*2 < s.files-sum:
		return Flat // the paths that fit a layout do so by chance
	case most < sum && mixed > most:
		return Native
	}
	return best
}

// Mark is an entry in the root of a tree that only trees of one layout have.
type Mark struct {
	Name   string
	Layout Layout
}

// Marks lists the marks of the layouts.
func Marks() []Mark {
	var list []Mark
	for i := range tables {
		for _, name := range tables[i].marks {
			list = append(list, Mark{name, Layout(i)})
		}
	}
	return list
}
