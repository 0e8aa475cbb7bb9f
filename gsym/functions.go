package gsym

import (
	"context"
	"fmt"
	"iter"
)

// Function is a function or a symbol of a File.
type Function struct {
	Entry int    // the number of the entry in the file
	Start uint64 // relative to Base
	Size  uint64 // in bytes; 0: it ends where the next one starts, or is unknown
	Name  string // as it is shown
	File  string // of the first line; empty if it is unknown
	Line  uint32 // 0 if it is unknown
}

// Functions returns the functions and symbols whose shown names match, in the order of their
// addresses, from an entry on. Of all others only the names are read. The error is that of ctx
// or of reading, or wraps ErrFormat; it comes last.
func (f *File) Functions(ctx context.Context, from int, match func(name string) bool) iter.Seq2[Function, error] {
	return func(yield func(Function, error) bool) {
		head := make([]byte, 8)
		for i := max(0, from); i < f.n; i++ {
			fn, err := f.matching(i, head, match)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Function{}, fmt.Errorf("function at %#x: %w", f.start(i), err))
				return
			}
			if fn != nil && !yield(*fn, nil) {
				return
			}
		}
	}
}

// matching returns the function of an entry, or nil if its name does not match. The first
// bytes of its record are read into head.
func (f *File) matching(i int, head []byte, match func(name string) bool) (*Function, error) {
	head, err := f.readTo(head, int64(le.Uint32(f.infos[4*i:])), int64(len(head)))
	if err != nil {
		return nil, err
	}
	name, err := f.text(le.Uint32(head[4:]))
	if err != nil || name == "" || !match(name) {
		return nil, err
	}
	fn, err := f.function(i)
	if err != nil {
		return nil, err
	}
	defer fn.free()
	out := Function{Entry: i, Start: fn.start, Size: uint64(fn.size), Name: name}
	first := fn.row(0)
	if first.line == 0 {
		return &out, nil
	}
	if out.File, err = f.path(first.file); out.File != "" {
		out.Line = first.line
	}
	return &out, err
}
