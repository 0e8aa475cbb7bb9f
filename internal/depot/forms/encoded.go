package forms

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Encoded returns a file in the first of the content codings that has been f. If
// there is none, the file is nil and the request counts towards making one. The file must
// be a whole plain file; the caller closes it.
func (f *Forms) Encoded(ctx context.Context, file *answer.File, codingNames []string) (*answer.File, error) {
	if !file.Whole || file.Packed || file.Volatile || file.Size < variantMin || file.Size > variantMax {
		return nil, nil
	}
	var first *Form
	for _, name := range codingNames {
		tool, ok := Codings[name]
		if !ok {
			continue
		}
		want := Form{Ref: file.Ref, Tool: tool}
		if first == nil {
			first = &want
		}
		v, err := f.Known(ctx, want)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.Size == 0 {
			return nil, nil // was tried: it would not be smaller
		}
		b, err := f.contents.Open(ctx, v)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the plain bytes are right
		}
		if err != nil {
			return nil, err
		}
		e := *file
		e.Encoding, e.Size, e.ETag = tool.Name, b.Size(), file.ETag+"-"+tool.Name
		e.Bytes, e.Disk, e.Closer = b, blob.OSFile(b), b
		return &e, nil
	}
	if first != nil {
		f.ask(*first, Asks)
	}
	return nil, nil
}
