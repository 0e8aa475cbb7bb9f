package symbolicate

import (
	"context"
	"errors"
	"io/fs"
	"math"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// orPortable returns why the functions of a module were not found: a PortableError if
// the depot has its portable PDB.
func (svc *Service) orPortable(ctx context.Context, products []string, q ModuleQuery, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(NoWorkerError)) {
		return err
	}
	hits, _, lerr := svc.lookup(ctx, products, q)
	if lerr == nil && best(hits, func(h *record.Hit) bool { return h.Object.Kind == symfile.PortablePDB }, q.DebugFile) != nil {
		return PortableError{}
	}
	return err
}

// managedFrame is the answer for a frame with IL, whose method is FunctionID. The name
// of the function stays that of the client: a portable PDB has none.
func (f NativeFrame) managedFrame(l Looker, offset uint64) NativeFrame {
	f.Status = "missing_symbol"
	if f.FunctionID == nil || offset > math.MaxUint32 || *f.FunctionID > math.MaxUint32 {
		return f
	}
	token := uint64(*f.FunctionID)
	if token>>24 == 0 {
		token |= methodDef
	}
	a, ok := l.Lookup(token<<32 | offset)
	if !ok {
		return f
	}
	at := a.Frames[0]
	f.Status, f.AbsPath, f.Filename, f.Lineno = "symbolicated", at.File, symfile.BaseName(at.File), at.Line
	return f
}
