package symbolicate

import (
	"context"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// maxRecent is how many answers are kept.
const maxRecent = 1024

// maxRecentKey limits the texts of a question whose answer is kept, in bytes: they are the client's.
const maxRecentKey = 4 << 10

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
	scope  string
	module ModuleQuery
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
	key := recentKey{record.Scope{All: ask.Products == nil, Products: ask.Products}.Key(), ask.Module}
	if gerr == nil {
		r.mu.Lock()
		kept, ok := r.list[key]
		r.mu.Unlock()
		if ok && kept.generation == now {
			return kept.answer, nil, nil
		}
	}
	if key.size() > maxRecentKey {
		return find(ctx, ask, true)
	}
	key.module = key.module.clone() // the answer may have its texts too
	ask.Module = key.module
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

// size is how many bytes the texts of a question have.
func (k recentKey) size() int {
	q := k.module
	return len(k.scope) + len(q.DebugFile) + len(q.DebugID) + len(q.CodeFile) + len(q.CodeID)
}

// clone returns a query whose texts are not parts of the client's request, which may be much longer.
func (q ModuleQuery) clone() ModuleQuery {
	q.DebugFile, q.DebugID = strings.Clone(q.DebugFile), strings.Clone(q.DebugID)
	q.CodeFile, q.CodeID = strings.Clone(q.CodeFile), strings.Clone(q.CodeID)
	return q
}

// lasts reports whether the files of a module stay the same as long as the index does: all of them
// are in it, and none is missing.
func (f *files) lasts() bool {
	return f != nil && f.source() != (blob.Ref{}) && len(f.missing) == 0 && f.alternate == ""
}
