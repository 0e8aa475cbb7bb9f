package upstream

import (
	"errors"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// LoopHeader marks a 404 that only means that the request reached a server a
// second time.
const LoopHeader = wire.Loop

// loop prevents such a miss from being remembered: the next request may take
// another path.
func (x *question) loop(a *answer, err error) error {
	if f, ok := errors.AsType[*fetch.Failure](err); ok && f.Class == fetch.ClassNotFound && a.resp.Header.Get(LoopHeader) != "" {
		f.Retry = x.h.now()
	}
	return err
}
