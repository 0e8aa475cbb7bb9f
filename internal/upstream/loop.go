package upstream

import (
	"errors"

	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/wire"
)

// LoopHeader marks an absence that says only that the question came back to who
// had asked it.
const LoopHeader = wire.Loop

// loop sees to it that such an absence is not remembered: tomorrow's question
// may come another way.
func (x *question) loop(a *answer, err error) error {
	if f, ok := errors.AsType[*fetch.Failure](err); ok && f.Class == fetch.ClassAbsent && a.resp.Header.Get(LoopHeader) != "" {
		f.Retry = x.h.now()
	}
	return err
}
