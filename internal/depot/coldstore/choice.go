package coldstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

const (
	// MinSize is the length in bytes from which on a content is worth cooling.
	MinSize = 256 << 10
	// MaxDeltas limits the contents that are built from a key.
	MaxDeltas = 32
	// MaxAge is how old a key gets before a new one is made.
	MaxAge = 90 * 24 * time.Hour
)

// Repeats reports whether files of a kind are much like those of the build before:
// programs, libraries and debug information, source bundles, and what is kept by its SHA-1,
// which may be a cabinet, a package or any other file.
func Repeats(k symfile.Kind) bool {
	switch k {
	case symfile.PE, symfile.PDB, symfile.PortablePDB, symfile.ELF, symfile.MachO, symfile.WASM, symfile.Breakpad,
		symfile.SourceBundle, symfile.SHA1:
		return true
	}
	return false
}

// Candidate is one content of a series: the contents that one product has under one name,
// kind and architecture, the builds of one file, in the order in which they were added.
// Contents of different products are never built from each other. What follows decides from
// a series and a time which of them become cold, and from which others they are built.
type Candidate struct {
	Ref     blob.Ref
	Size    int64
	Product string // of the series
	// Order grows with the time of the first adding; Tx is the newest transaction that
	// holds the content.
	Order, Tx int64
	// Newest is set for the newest content of any series, also of another product that
	// has it.
	Newest bool
	// Used is when the content was last added or read.
	Used time.Time
	// Cold is set for a cold content; Base is its base, zero for a key. File is the
	// length of the cold file, and Made when it was made.
	Cold bool
	Base blob.Ref
	File int64
	Made time.Time
	// Needed is the number of cold contents that are built from it.
	Needed int64
}

// Settle corrects the times of a series that are ahead of now, because a clock was: such
// a content counts as used when the next one was, or now.
func Settle(series []Candidate, now time.Time) {
	order := make([]*Candidate, len(series))
	for i := range series {
		order[i] = &series[i]
	}
	slices.SortFunc(order, func(a, b *Candidate) int { return cmp.Compare(b.Order, a.Order) })
	next := now
	for _, c := range order {
		if c.Used.After(now) {
			c.Used = next
		}
		next = c.Used
	}
}

// Due returns the positions of the contents of a series that are to become cold,
// oldest first: those that are long enough and were not used since a time, but not the
// newest content of this series or another one.
func Due(series []Candidate, unusedSince time.Time) (list []int) {
	newest := 0
	for i := range series {
		if c := cmp.Compare(series[i].Tx, series[newest].Tx); c > 0 || c == 0 && series[i].Order > series[newest].Order {
			newest = i
		}
	}
	for i, c := range series {
		if i != newest && !c.Newest && !c.Cold && c.Size >= MinSize && !c.Used.After(unusedSince) {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(series[a].Order, series[b].Order) })
	return list
}

// WorthDelta reports whether a delta of a length is kept, beside a key of another one.
func WorthDelta(delta, key int64) bool { return delta < key/2 }

// KeyLength returns the length that content i of a series would have as a key, if it is known from
// the key that was made last.
func KeyLength(series []Candidate, i int) (int64, bool) {
	last := -1
	for j := range series {
		k := &series[j]
		if k.Cold && k.Base == (blob.Ref{}) && k.Size >= MinSize && (last < 0 || k.Made.After(series[last].Made)) {
			last = j
		}
	}
	if last < 0 {
		return 0, false
	}
	return int64(float64(series[i].Size) / float64(series[last].Size) * float64(series[last].File)), true
}
