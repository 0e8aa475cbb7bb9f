package public

import (
	"errors"
	"io"

	"github.com/symdepot/symdepot/gsym"
)

// gsym examines a GSYM file.
func (f *form) gsym(r io.ReaderAt, size int64, n *namer) error {
	if n.opt.Exported {
		return private("a GSYM file does not say which names are exported")
	}
	file, err := gsym.NewFile(r, size, 0)
	if err != nil {
		return gsymError(err)
	}
	counts, err := file.WriteNames(io.Discard, n.function)
	if err != nil {
		return gsymError(err)
	}
	if f.names == 0 {
		return ErrNothingPublic
	}
	f.take(RemovedFiles, int64(max(counts.Files-1, 0)), 8*int64(max(counts.Files-1, 0)))
	f.take(RemovedLines, counts.Lines, counts.Bytes)
	f.write = func(w io.Writer) error {
		again := &namer{opt: n.opt, form: &form{removed: map[RemovedKind]*Removed{}}}
		_, err := file.WriteNames(w, again.function)
		return gsymError(err)
	}
	return nil
}

func gsymError(err error) error {
	if errors.Is(err, gsym.ErrFormat) {
		return broken("%w", err)
	}
	return err
}

// function returns the public forms of the names of a function in a GSYM file.
func (n *namer) function(shown, raw string, rva uint64) (string, string) {
	if public, hidden := n.public(raw); raw != "" && (hidden || public != raw) {
		if raw = ""; hidden {
			n.form.names++
			return n.hide(shown, rva), ""
		}
	}
	if _, hidden := n.public(shown); hidden {
		raw = ""
	}
	return n.at(shown, rva), raw
}
