package symbolicate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/ppdb"
	"github.com/symdepot/symdepot/symfile"
)

// methodDef is the table of methods in a metadata token (ECMA-335, partition II,
// section 22.26).
const methodDef = 0x06 << 24

// openPortable opens a portable PDB for lookups by method and IL offset. The error
// wraps fs.ErrNotExist if the file is no portable PDB.
func openPortable(path string) (*Module, error) {
	f, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	objects, err := objfile.Identify(f, info.Size(), filepath.Base(path), objfile.Options{IDs: true})
	if err != nil || len(objects) != 1 || objects[0].Kind != symfile.PortablePDB {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	p, err := openPortableAt(f, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &Module{Looker: p, Name: objects[0].Name, IL: true, Done: func() { _ = f.Close() }}, nil
}

// openPortableAt opens a portable PDB for lookups.
func openPortableAt(r io.ReaderAt, size int64) (portable, error) {
	p, err := ppdb.Open(r, size)
	if err != nil {
		return portable{}, err
	}
	lines, err := p.Lines()
	return portable{lines}, err
}

// portable looks up positions in a portable PDB. An address is the token of a method
// in the upper half, and an IL offset. The file has no names of methods: the shown
// name is the token, and that of the method with await or yield for the method of a
// state machine.
type portable struct{ lines *ppdb.Lines }

// Lookup implements Looker. A damaged method is not found.
func (p portable) Lookup(at uint64) (functab.Answer, bool) {
	token, offset := uint32(at>>32), uint32(at)
	row := token &^ (0xff << 24)
	points, err := p.lines.Points(row)
	if err != nil || token>>24 != methodDef>>24 {
		return functab.Answer{}, false
	}
	point, ok := ppdb.Line(points, offset)
	if !ok {
		return functab.Answer{}, false
	}
	doc, err := p.lines.Document(point.Document)
	if err != nil {
		return functab.Answer{}, false
	}
	if kickoff, err := p.lines.Kickoff(row); err == nil {
		row = kickoff
	}
	return functab.Answer{Frames: []functab.Line{{Function: fmt.Sprintf("0x%08x", methodDef|row), File: doc.Name, Line: point.Line}}}, true
}

// ParseILAddress reads TOKEN+OFFSET: the metadata token of a method, and an IL offset
// in it, both in hex.
func ParseILAddress(text string) (uint64, error) {
	token, offset, ok := strings.Cut(text, "+")
	t, terr := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(token), "0x"), 16, 32)
	o, oerr := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(offset), "0x"), 16, 32)
	if !ok || terr != nil || oerr != nil || t>>24 != methodDef>>24 {
		return 0, fmt.Errorf("%q is not a position in IL; want TOKEN+OFFSET in hex, such as 0x06000001+0x1a", text)
	}
	return t<<32 | o, nil
}
