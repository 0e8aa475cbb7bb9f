package public

import (
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// isPDB reports whether package pdb writes the public form of a kind.
func isPDB(kind symfile.Kind) bool { return kind == symfile.PDB || kind == symfile.MSFZ }

// pdbOptions returns the options as package pdb takes them.
func (o Options) pdbOptions() pdb.PublicOptions {
	return pdb.PublicOptions{Exported: o.Exported, Undecorated: o.Undecorated, Hide: o.Hide, Module: o.Module}
}

// writePDB is Write for a PDB. The report has the kinds that package pdb takes away, by its words.
func writePDB(w io.Writer, r io.ReaderAt, size int64, o Options) (Report, error) {
	p, err := pdb.WritePublic(w, r, size, o.pdbOptions())
	if err != nil {
		return Report{}, pdbError(err)
	}
	report := Report{Kind: symfile.PDB, PrivateSize: p.PrivateSize, Size: p.Size, Names: p.Publics, Hidden: p.Hidden}
	for _, x := range p.Removed {
		report.Removed = append(report.Removed, Removed{RemovedKind(x.Kind), x.Count, x.Bytes})
	}
	return report, nil
}

// pdbError returns an error of package pdb as an error of this package.
func pdbError(err error) error {
	switch {
	case errors.Is(err, pdb.ErrNotPublic):
		return fmt.Errorf("%w: %w", ErrPrivate, err)
	case errors.Is(err, pdb.ErrFormat), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %w", objfile.ErrBroken, err)
	}
	return err
}

// privateInPDB is PrivateTexts for a public PDB. Place is a stream.
func privateInPDB(private io.ReaderAt, privateSize int64, public io.ReaderAt, publicSize int64, o Options) ([]PrivateText, error) {
	list, err := pdb.PrivateStrings(private, privateSize, public, publicSize, o.pdbOptions())
	if err != nil || len(list) == 0 {
		return nil, pdbError(err)
	}
	texts := make([]PrivateText, 0, len(list))
	for _, s := range list {
		place := "outside all streams"
		if s.Stream >= 0 {
			place = fmt.Sprintf("stream %d", s.Stream)
		}
		texts = append(texts, PrivateText{Text: s.Text, Place: place})
	}
	return texts, nil
}
