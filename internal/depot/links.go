package depot

import (
	"fmt"
	"io"

	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/objfile"
)

// judgeLinks applies the rules for links to source files to the objects of a file. flags
// has an entry for each object. The error wraps ErrLinks if the product refuses one.
func judgeLinks(rules *srclink.Rules, product string, src Source, objs []objfile.Object) (flags [][]string, err error) {
	flags = make([][]string, len(objs))
	for i, o := range objs {
		v, err := judge(rules, product, src.Content, o)
		if err != nil {
			return nil, err
		}
		if v.Refused != "" {
			return nil, fmt.Errorf("%w: %s", ErrLinks, v.Refused)
		}
		flags[i] = v.Flags
	}
	return flags, nil
}

// judge applies the rules to an object of a file.
func judge(rules *srclink.Rules, product string, f io.ReaderAt, o objfile.Object) (srclink.Verdict, error) {
	if o.Deflated != 0 {
		return srclink.Verdict{}, nil // a portable PDB, which runs no command
	}
	return rules.Judge(product, o.Kind, io.NewSectionReader(f, o.Offset, o.Size), o.Size)
}
