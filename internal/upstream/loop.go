package upstream

import "errors"

// LoopHeader marks an absence that says only that the question came back to who
// had asked it.
const LoopHeader = "X-Symdepot-Loop"

// loop sees to it that such an absence is not remembered: tomorrow's question
// may come another way.
func (x *question) loop(a *answer, err error) error {
	if f, ok := errors.AsType[*Failure](err); ok && f.Class == ClassAbsent && a.resp.Header.Get(LoopHeader) != "" {
		f.Retry = x.h.now()
	}
	return err
}

// ServerID is what the server calls itself where loops are looked for; empty
// until it has said so.
func (h *HTTP) ServerID() string {
	if id := h.peer.Load(); id != nil {
		return *id
	}
	return ""
}

// ServerID is what the source calls itself where loops are looked for; empty if
// it has not said so.
func (g *Guarded) ServerID() string {
	if s, ok := g.src.(interface{ ServerID() string }); ok {
		return s.ServerID()
	}
	return ""
}

// NeedsChecksum reports whether the source is asked only what came with a
// checksum.
func (g *Guarded) NeedsChecksum() bool { return g.opt.RequiresChecksum }
