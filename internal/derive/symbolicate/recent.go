package symbolicate

import (
	"context"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// maxRecent is how many answers are kept.
const maxRecent = 1024

// recentAnswers are the files in which the modules of the last requests were looked up: of most
// requests, finding these again takes longer than some hundred lookups. They hold for one generation
// of the depot. A nil value keeps nothing.
type recentAnswers struct {
	generation func(context.Context) (uint64, error)

	mu   sync.Mutex
	list map[recentKey]recentAnswer // guarded by mu
}

// recentKey is a question. Callers who see other products may get another answer.
type recentKey struct {
	all      bool
	products string
	module   ModuleQuery
}

type recentAnswer struct {
	generation uint64
	answer     Answer
}

// find returns what find, a prepare with .sym files, found for a question before, or calls it.
func (r *recentAnswers) find(
	ctx context.Context, ask Ask, find func(context.Context, Ask, bool) (Answer, *files, error),
) (Answer, *files, error) {
	if r == nil {
		return find(ctx, ask, true)
	}
	now, gerr := r.generation(ctx)
	key := recentKey{ask.Products == nil, strings.Join(ask.Products, "\x00"), ask.Module}
	if gerr == nil {
		r.mu.Lock()
		kept, ok := r.list[key]
		r.mu.Unlock()
		if ok && kept.generation == now {
			return kept.answer, nil, nil
		}
	}
	a, f, err := find(ctx, ask, true)
	if gerr != nil || err != nil || !f.lasts() || a.Source == (blob.Ref{}) || a.Cached != nil {
		return a, f, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) >= maxRecent || r.list == nil {
		r.list = map[recentKey]recentAnswer{}
	}
	r.list[key] = recentAnswer{now, a}
	return a, f, nil
}

// lasts reports whether the files of a module stay the same as long as the index does: all of them
// are in it, and none is missing.
func (f *files) lasts() bool {
	return f != nil && f.source() != (blob.Ref{}) && len(f.missing) == 0 && f.alternate == ""
}
