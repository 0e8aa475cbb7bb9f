package lookup

import (
	"context"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// maxChecksumImages limits the images that are read for the checksum of a PDB: those
// with one GUID have one PDB, unless their builds are faulty.
const maxChecksumImages = 4

// PDBChecksum returns the value of the header SymbolChecksum for the portable PDB that a request
// asks for, from an image in the scope; empty if there is none.
func (l *Lookups) PDBChecksum(ctx context.Context, scope answer.Scope, req layout.Request) string {
	for _, pdb := range req.Lookups {
		if !strings.HasSuffix(pdb.Name, ".pdb") || len(pdb.ID) <= 32 || !debugid.IsHex(pdb.ID) {
			continue
		}
		hits, err := index.ImagesOf(ctx, l.parts.DB, scope.Index(), pdb.ID[:32], maxChecksumImages)
		if err != nil {
			l.parts.Log.Warn("cannot look for the image of a PDB; upstreams are asked without its checksum", "pdb", pdb.Name, "error", err)
			return ""
		}
		for _, h := range l.Intact(hits) {
			if sums := l.checksumIn(ctx, h, pdb); sums != "" {
				return sums
			}
		}
		return ""
	}
	return ""
}

// checksumIn returns the checksums that an image has of the portable PDB that a lookup asks
// for, as clients send them. An image that cannot be read has none: the upstream is
// asked without it then.
func (l *Lookups) checksumIn(ctx context.Context, h record.Hit, pdb symfile.Lookup) string {
	f, err := l.OpenHit(ctx, h, nil)
	if err != nil {
		return ""
	}
	defer f.Close()
	objects, err := objfile.Identify(f, f.Size, h.Object.Name, objfile.Options{})
	if err != nil {
		return ""
	}
	for _, o := range objects {
		for _, want := range o.PDBs {
			// An image may name two PDBs. Its checksums are those of the portable one.
			named := symfile.Fold(symfile.BaseName(want.Name)) == pdb.Name
			if !named || want.Kind != symfile.PortablePDB || want.DebugID.GUID.Lower() != pdb.ID[:32] {
				continue
			}
			var list []string
			sums, err := objfile.PDBChecksums(f, f.Size)
			if err != nil {
				return ""
			}
			for _, s := range sums {
				list = append(list, s.String())
			}
			return strings.Join(list, ";")
		}
	}
	return ""
}
