package sourcefiles

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

const (
	talliesKept  = 5_000 // results of Count in memory
	tallyMissing = 20    // names in one
)

// Tally counts the source files that the debug information of an object names.
type Tally struct {
	Named  int64 // without those that are ignored
	Found  int64 // of them, with the checksum that the debug information has
	Linked int64 // of the others, those for which Source Link has an address
	// Missing are the first names that are neither.
	Missing []string
}

// tallyKey says what was counted.
type tallyKey struct {
	object  blob.Ref
	scope   string
	ignored string
}

// tallied is how far the names of an object were counted.
type tallied struct {
	Tally
	generation uint64 // of the index, when the count began
	next       int    // the name to go on with
	done       bool
}

// Count counts the sources that the debug information of a content names, without names that a
// pattern of ignored matches. If ctx ends before all are counted, it returns what was counted and the
// error of ctx; the next call goes on there. A result holds until what the depot has changes; a count that has begun is
// brought to its end first, so that it ends on a depot that changes often. A content outside of the scope, or without
// names, counts nothing.
func (s *Files) Count(ctx context.Context, scope answer.Scope, ref blob.Ref, ignored []string) (Tally, error) {
	generation, err := s.db.Generation(ctx)
	if err != nil {
		return Tally{}, err
	}
	key := tallyKey{ref, scope.Index().Key(), strings.Join(ignored, "\x00")}
	t, known := s.tallies.Get(key)
	switch {
	case known && t.done && t.generation == generation:
		return t.Tally, nil
	case !known || t.done:
		t = tallied{generation: generation}
	}
	err = s.count(ctx, scope, ref, ignored, &t)
	if err == nil || ctx.Err() != nil {
		s.tallies.Set(key, t)
	}
	return t.Tally, err
}

func (s *Files) count(ctx context.Context, scope answer.Scope, ref blob.Ref, ignored []string, t *tallied) error {
	found, err := s.db.Find(ctx, scope.Index(), record.Query{Ref: &ref}, 1)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		t.done = true
		return nil
	}
	h := record.Hit{Stored: found[0].Stored}
	list, err := s.list(ctx, scope, h)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if list == nil {
		list = &nameList{}
	}
	o := s.object(scope, h)
	defer o.close()
	t.Missing = append([]string(nil), t.Missing...) // another caller may go on from the same state
	for ; t.next < len(list.names); t.next++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := list.names[t.next]
		if isIgnored(n, ignored) {
			continue
		}
		f, err := o.named(ctx, n)
		switch {
		case err == nil:
			t.Found++
			_ = f.Close() // only looked at
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case list.links != nil && linked(list, n):
			t.Linked++
		case len(t.Missing) < tallyMissing:
			t.Missing = append(t.Missing, n.Name)
		}
		t.Named++
	}
	t.done = true
	return nil
}

// linked reports whether Source Link has an address for a name.
func linked(list *nameList, n sources.Name) bool {
	_, ok := list.links.URL(n.Name)
	return ok
}

// isIgnored reports whether a pattern matches a name. Slashes and letter case do not count.
func isIgnored(n sources.Name, patterns []string) bool {
	if len(patterns) == 0 {
		return false
	}
	name := symfile.Fold(strings.ReplaceAll(n.Name, `\`, "/"))
	for _, p := range patterns {
		if glob.Match(symfile.Fold(strings.ReplaceAll(p, `\`, "/")), name) {
			return true
		}
	}
	return false
}
