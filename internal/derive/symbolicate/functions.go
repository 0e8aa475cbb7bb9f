package symbolicate

import (
	"context"
	"iter"
	"strings"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
)

// Function is a function of a module.
type Function = gsym.Function

// functionLister is a Looker that lists its functions.
type functionLister interface {
	functions(ctx context.Context, from int, match func(name string) bool) iter.Seq2[Function, error]
}

// Functions returns the functions of a module whose shown names contain a text, in upper or
// lower case, in the order of their addresses: those from the entry with the number from on,
// at most limit. next is the from of those behind them; 0: there are none. A module of IL has
// no functions with addresses: ErrNoFunctions. Any other error is that of ctx or of reading.
func (m *Module) Functions(ctx context.Context, text string, from, limit int) (list []Function, next int, err error) {
	l, ok := m.Looker.(functionLister)
	if !ok {
		return nil, 0, ErrNoFunctions
	}
	text = strings.ToLower(text)
	match := func(name string) bool {
		return strings.Contains(strings.ToLower(name), text) && !functab.IsMarker(name)
	}
	for fn, err := range l.functions(ctx, from, match) {
		if err != nil {
			return nil, 0, err
		}
		if len(list) == limit {
			return list, fn.Entry, nil
		}
		list = append(list, fn)
	}
	return list, 0, nil
}

// functions implements functionLister.
func (g gsymLooker) functions(ctx context.Context, from int, match func(name string) bool) iter.Seq2[Function, error] {
	return g.f.Functions(ctx, from, match)
}
