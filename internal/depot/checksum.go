package depot

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

// Checksum implements fetch.Depot.
func (k fetchDepot) Checksum(ctx context.Context, products []string, req layout.Request) string {
	for _, l := range req.Lookups {
		if !strings.HasSuffix(l.Name, ".pdb") || len(l.ID) <= 32 || !debugid.IsHex(l.ID) {
			continue
		}
		hits, err := index.ImagesOf(ctx, k.d.db, answer.Scope{Products: products}.Index(), l.ID[:32], maxChecksumImages)
		if err != nil {
			k.d.log.Warn("cannot look for the image of a PDB; upstreams are asked without its checksum", "pdb", l.Name, "error", err)
			return ""
		}
		for _, h := range k.d.intact(hits) {
			if sums := checksumIn(ctx, k.d, h, l); sums != "" {
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
func checksumIn(ctx context.Context, d *Depot, h record.Hit, l symfile.Lookup) string {
	f, err := d.openHit(ctx, h, nil)
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
			if want.Kind != symfile.PortablePDB || want.DebugID.GUID.Lower() != l.ID[:32] || symfile.Fold(symfile.BaseName(want.Name)) != l.Name {
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
