package scan

import (
	"context"
	"errors"
	"iter"
)

// Walk yields the files at and below roots: roots in the given order, folders
// sorted by name, members in the order of their archive. For each file that it
// skips it yields a *Skip error and a nil File, and continues. Members that
// precede the damaged part of an archive are valid. If ctx ends, Walk yields its
// error last.
//
// Members of an archive that is read as a stream are copied to memory or a
// temporary file before they are yielded, all others when they are opened. The
// caller limits the memory by discarding Files.
func Walk(ctx context.Context, roots []string, opt Options) iter.Seq2[*File, error] {
	opt.setDefaults()
	return func(yield func(*File, error) bool) {
		w := &walk{ctx: ctx, opt: opt, yield: yield, pool: &pool{}}
		w.pool.left.Store(opt.TotalMemory)
		for _, root := range roots {
			if w.ended() {
				return
			}
			w.root(root)
		}
		w.ended()
	}
}

// Send walks the roots as Walk does and sends the files to files. Each skipped file
// goes to skipped; sent is called after each file that was received, unless it is nil.
func Send(ctx context.Context, roots []string, opt Options, files chan<- *File, skipped func(*Skip), sent func()) error {
	for f, err := range Walk(ctx, roots, opt) {
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			skip, ok := errors.AsType[*Skip](err)
			if !ok {
				return err
			}
			skipped(skip)
			continue
		}
		select {
		case files <- f:
		case <-ctx.Done():
			f.Discard()
			return ctx.Err()
		}
		if sent != nil {
			sent()
		}
	}
	return nil
}
