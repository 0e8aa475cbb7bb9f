// Package crashes walks the stacks of crash dumps with the files of a depot, in the process that has
// opened it.
package crashes

import (
	"context"
	"fmt"
	"sync"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/crash"
)

// Stacks walks the stacks of the dump in a file with what a depot has, or fetches, of its modules. It
// does the jobs of the depot meanwhile: nobody else may be there to do them. The dump is read in this
// process, for its owner.
func Stacks(ctx context.Context, d *depot.Depot, path string) (*wire.Stacks, error) {
	file, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { d.Jobs().Run(work) })
	defer all.Wait()
	defer stop()
	ask := depot.SymbolsAsk{Hold: func(ctx context.Context, made func(context.Context) error) (bool, error) { return false, made(ctx) }}
	a, err := crash.Analyze(ctx, func(ctx context.Context, r crash.Resolver) (*crash.Walk, error) {
		return crash.WalkFile(ctx, file, info.Size(), r)
	}, d.Symbols.Source(ask), d.Symbols.Texts(ask), false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a.Stacks(), nil
}
