package objfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/ppdb"
	"github.com/symdepot/symdepot/symfile"
)

// identifyPDB describes a PDB in any of its three containers.
func identifyPDB(b *budget, head []byte, name string) ([]Object, error) {
	f, err := pdb.Open(b, b.size)
	if errors.Is(err, pdb.ErrFormat) {
		return nil, notSymbol("%w", err)
	}
	if err != nil {
		return nil, err
	}
	// A truncated file of the old format may lack only the padding of its last
	// page.
	if f.Truncated > 0 && (f.Format != pdb.PDB20 || f.Truncated >= int64(f.PageSize)) {
		return nil, broken("the PDB is cut off: %d bytes are missing", f.Truncated)
	}
	o := b.whole(symfile.Object{
		Kind: symfile.PDB, Role: symfile.Debug, Name: name, DebugID: f.ID(), InfoAge: f.InfoAge, NoDBI: f.NoDBI,
	})
	o.Arch = f.Arch()
	switch f.Format {
	case pdb.PDB20:
		o.Kind = symfile.PDB20
	case pdb.MSFZ:
		o.Kind, o.Role = symfile.MSFZ, symfile.Compressed
		o.Version = int(binary.LittleEndian.Uint32(head[32:]))
	}
	b.allowFeatures()
	if o.Features, err = pdbFeatures(f); errors.Is(err, errBudget) {
		o.Features.Unknown = true
	} else if err != nil {
		return nil, err
	}
	return []Object{o}, nil
}

// pdbFeatures returns the features. After an error they are those found before
// it.
func pdbFeatures(f *pdb.File) (Features, error) {
	var w Features
	sort, err := f.Flavor()
	if err != nil {
		return w, err
	}
	w.PDB = string(sort)
	if sort == pdb.Private {
		// A PDB of /DEBUG:FASTLINK refers to object files and has no symbols
		// itself.
		minimal, err := f.FastLink()
		if err != nil {
			return w, err
		}
		w.Debug = !minimal
	}
	for _, q := range []struct {
		ask func() (bool, error)
		is  *bool
	}{{f.HasSymtab, &w.Symtab}, {f.HasUnwind, &w.Unwind}, {f.HasSources, &w.Sources}} {
		if *q.is, err = q.ask(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// identifyPortablePDB describes a portable PDB in a file of its own.
func identifyPortablePDB(b *budget, name string) ([]Object, error) {
	o := b.whole(symfile.Object{Kind: symfile.PortablePDB, Role: symfile.Debug, Name: name})
	if err := o.readPortable(b, b.size, b.allowFeatures); err != nil {
		return nil, err
	}
	return []Object{o}, nil
}

// readPortable sets the id and the features of the portable PDB of size bytes
// at r. It calls idsDone between the two.
func (o *Object) readPortable(r io.ReaderAt, size int64, idsDone func()) error {
	f, err := ppdb.Open(r, size)
	if errors.Is(err, ppdb.ErrFormat) {
		return notSymbol("%w", err)
	}
	if err != nil {
		return err
	}
	o.DebugID = f.ID()
	idsDone()
	o.Features = Features{}
	for _, q := range []struct {
		ask func() (bool, error)
		is  *bool
	}{{f.HasDebug, &o.Features.Debug}, {f.HasSources, &o.Features.Sources}} {
		if *q.is, err = q.ask(); errors.Is(err, errBudget) {
			o.Features.Unknown = true
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// maxInflated is the size in bytes up to which an embedded portable PDB is
// inflated in memory to read its features.
const maxInflated = 4 << 20

// embeddedPDB locates the portable PDB in a debug entry of type 17: "MPDB", the
// size, and raw deflate.
func embeddedPDB(b *budget, e debugEntry) (*Object, error) {
	h, err := b.bytes(e.off, min(e.size, 8))
	if err != nil {
		return nil, err
	}
	if len(h) < 8 || string(h[:4]) != "MPDB" || e.size == 8 {
		return nil, broken("the embedded portable PDB has no header")
	}
	o := &Object{
		Object: symfile.Object{Kind: symfile.PortablePDB, Role: symfile.Debug},
		Offset: e.off + 8, Size: int64(binary.LittleEndian.Uint32(h[4:])), Deflated: e.size - 8,
	}
	if o.Size == 0 || o.Size > o.Deflated*maxInflateRatio {
		return nil, broken("the embedded portable PDB claims that %d bytes inflate to %d", o.Deflated, o.Size)
	}
	return o, nil
}

// describeEmbedded reads the features of an embedded portable PDB as far as the
// budget allows. The debug directory has its id.
func describeEmbedded(b *budget, o *Object) error {
	o.Features = Features{Debug: true, Unknown: true}
	r := flate.NewReader(io.NewSectionReader(b, o.Offset, o.Deflated))
	if o.Size > maxInflated {
		magic := make([]byte, 4)
		if _, err := io.ReadFull(r, magic); err != nil {
			return inflateError(err)
		}
		if string(magic) != "BSJB" {
			return broken("the embedded data is not a portable PDB")
		}
		return nil
	}
	p, err := io.ReadAll(io.LimitReader(r, o.Size+1))
	if errors.Is(err, errBudget) {
		return nil
	}
	if err != nil {
		return inflateError(err)
	}
	if int64(len(p)) != o.Size {
		return broken("the embedded portable PDB does not have the %d bytes that it claims", o.Size)
	}
	err = o.readPortable(bytes.NewReader(p), o.Size, func() {})
	if errors.Is(err, ErrNotSymbolFile) {
		return broken("the embedded data is not a portable PDB")
	}
	return err
}

func inflateError(err error) error {
	return fmt.Errorf("the embedded portable PDB cannot be inflated: %w", err)
}
