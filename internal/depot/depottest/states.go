// Package depottest brings the stored contents of a depot into each state that a disk, a
// bucket, a cache and a trash can leave them in, for tests of the ways in which a file comes
// into a depot. Tests only.
package depottest

import (
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Home is where the stored bytes of a content are.
type Home string

// The homes. Of a cold key others are built, and a cold delta is built from another content.
const (
	Disk            Home = "disk"
	Bucket          Home = "bucket"
	Key             Home = "cold key"
	Delta           Home = "cold delta"
	KeyInBucket     Home = "cold key in a bucket"
	DeltaInBucket   Home = "cold delta in a bucket"
	DatabaseCluster Home = "database and bucket" // of several servers
)

// cold reports whether the contents of the home are cold.
func (h Home) cold() bool {
	return h == Key || h == Delta || h == KeyInBucket || h == DeltaInBucket
}

// OnDisk reports whether the bytes are in the folder of the depot.
func (h Home) OnDisk() bool { return h == Disk || h == Key || h == Delta }

// Holder is what holds a content.
type Holder string

// The holders.
const (
	Added   Holder = "added"
	Cached  Holder = "only cached"  // it was downloaded
	Trashed Holder = "in the trash" // its transaction was removed
)

// Harm is what has happened to the stored bytes.
type Harm string

// The harms. Of one that is not seen no process knows.
const (
	Intact      Harm = "intact"
	Damaged     Harm = "damaged" // other bytes of the same length
	DamagedSeen Harm = "damaged and seen"
	Deleted     Harm = "deleted"
	DeletedSeen Harm = "deleted and seen"
)

func (h Harm) deleted() bool { return h == Deleted || h == DeletedSeen }
func (h Harm) seen() bool    { return h == DamagedSeen || h == DeletedSeen }

// State is the state of a content before its file comes in again.
type State struct {
	Home   Home
	Holder Holder
	Harm   Harm
}

// String names the state.
func (s State) String() string {
	return string(s.Home) + ", " + string(s.Holder) + ", " + string(s.Harm)
}

// exists reports whether contents can be in the state, and whether writers promise to notice.
func (s State) exists() bool {
	switch {
	case s.Holder == Cached && s.Home.cold():
		return false // downloaded files stay plain
	case s.Harm == Damaged && !s.Home.OnDisk():
		return false // only a reader finds other bytes of the same length in a bucket
	}
	return true
}

// Rounds is how often files should come into the state. At the second time the depot knows that
// the same way has brought them before. A process does not ask a bucket for an object that it has
// uploaded itself minutes ago: there, somebody must have seen the harm.
func (s State) Rounds() int {
	switch {
	case s.Holder != Added:
	case s.Home == Disk, s.Home == Bucket && s.Harm != Deleted:
		return 2
	}
	return 1
}

// All returns all states.
func All() []State {
	var list []State
	for _, home := range []Home{Disk, Bucket, Key, Delta, KeyInBucket, DeltaInBucket, DatabaseCluster} {
		for _, holder := range []Holder{Added, Cached, Trashed} {
			for _, harm := range []Harm{Intact, Damaged, DamagedSeen, Deleted, DeletedSeen} {
				list = append(list, State{home, holder, harm})
			}
		}
	}
	return slices.DeleteFunc(list, func(s State) bool { return !s.exists() })
}

// Today returns those of some states that have their turn today, see symtest.Pairs: every home
// with every harm, every home with every holder, every holder with every harm.
func Today(tb testing.TB, list []State) []State {
	tb.Helper()
	return symtest.Pairs(tb, list, func(s State) []string { return []string{string(s.Home), string(s.Holder), string(s.Harm)} })
}
