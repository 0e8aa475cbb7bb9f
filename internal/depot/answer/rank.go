package answer

import (
	"cmp"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Rank sorts hits by preference, deterministically. An added file comes before
// a downloaded one, because an id says nothing about the content and an
// upstream must not replace what the operator added. A file that only try builds
// have comes after all other added ones. Among files of the same origin, debug
// information is preferred where there is most of it, and then in the file that
// holds nothing else; an ELF executable where it is smallest,
// unless it has no section headers, as one copied from memory; any other file
// where it is newest.
func Rank(hits []record.Hit, role symfile.Role) {
	slices.SortStableFunc(hits, func(a, b record.Hit) int {
		if (a.Source == "") != (b.Source == "") {
			if a.Source == "" {
				return -1
			}
			return 1
		}
		if a.Try != b.Try {
			if b.Try {
				return -1
			}
			return 1
		}
		// A static program answers as debug information only if no debug file exists.
		if c := cmp.Compare(b.Role&role&symfile.Debug, a.Role&role&symfile.Debug); c != 0 && role&symfile.Companion != 0 {
			return c
		}
		// A relocatable object answers as an executable only if no executable exists.
		if c := cmp.Compare(b.Role&role&symfile.Executable, a.Role&role&symfile.Executable); c != 0 && role&symfile.Relocatable != 0 {
			return c
		}
		if role&symfile.Debug != 0 {
			if c := cmp.Compare(b.DebugSize, a.DebugSize); c != 0 {
				return c
			}
			if c := cmp.Compare(a.Role&symfile.Executable, b.Role&symfile.Executable); c != 0 {
				return c
			}
		} else if role&^symfile.Relocatable == symfile.Executable && a.Object.Kind == symfile.ELF && b.Object.Kind == symfile.ELF {
			if noSections(a) != noSections(b) {
				if noSections(b) {
					return -1
				}
				return 1
			}
			if c := cmp.Compare(a.Size, b.Size); c != 0 {
				return c
			}
		}
		return cmp.Or(b.Added.Compare(a.Added), slices.Compare(a.Ref[:], b.Ref[:]), cmp.Compare(a.Object.Name, b.Object.Name))
	})
}

// noSections reports whether a hit is an ELF image without section headers,
// which is smaller than the file that it was copied from and worth less.
func noSections(h record.Hit) bool {
	return slices.Contains(h.Features, objfile.Features{NoSections: true}.Words()[0])
}

// FileTime is the time of the file itself, or that of its adding if it is
// unknown or lies after that.
func FileTime(h record.Hit) time.Time {
	if h.ModTime.IsZero() || h.ModTime.Unix() <= 0 || h.ModTime.After(h.Added) {
		return h.Added
	}
	return h.ModTime
}

// OneContent reports whether all hits have one content.
func OneContent(hits []record.Hit) bool {
	for _, h := range hits[1:] {
		if h.Ref != hits[0].Ref {
			return false
		}
	}
	return true
}

// Ranked is a file that may answer a request, with the time of its transaction.
type Ranked struct {
	record.TxFile
	Added time.Time
	Try   bool // of a try build, and of no other
}

// RankedIn returns a file of a transaction.
func RankedIn(tx record.Transaction, f record.TxFile) Ranked {
	return Ranked{TxFile: f, Added: tx.Time, Try: tx.Class == record.ClassTry}
}

// Better reports whether the depot prefers a to b as the answer to a request for
// the roles.
func Better(a, b Ranked, role symfile.Role) bool {
	hit := func(r Ranked) record.Hit {
		return record.Hit{Role: r.Object.Role, Stored: record.Stored{
			Object: r.Object, Features: r.Features, DebugSize: r.DebugSize, Ref: r.Ref, Size: r.Size, Added: r.Added, Try: r.Try,
		}}
	}
	hits := []record.Hit{hit(b), hit(a)}
	Rank(hits, role)
	return hits[0].Ref != b.Ref
}
