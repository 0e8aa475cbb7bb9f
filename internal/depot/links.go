package depot

import (
	"io"

	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/objfile"
)

// judge applies the rules to an object of a file.
func judge(rules *srclink.Rules, product string, f io.ReaderAt, o objfile.Object) (srclink.Verdict, error) {
	if o.Deflated != 0 {
		return srclink.Verdict{}, nil // a portable PDB, which runs no command
	}
	return rules.Judge(product, o.Kind, io.NewSectionReader(f, o.Offset, o.Size), o.Size)
}
