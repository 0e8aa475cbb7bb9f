package symbolicate

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/symfile"
)

const (
	// maxNamed is how many files of one name are considered as the debug file of a
	// program, and maxSummed how many of them are read for their checksum.
	maxNamed, maxSummed = 64, 8
	// maxSums is the number of contents of which the checksum is kept.
	maxSums = 4096
)

// findByName adds the debug file that .gnu_debuglink of a MinGW program names, if
// nothing else has the debug information of the program. Its checksum decides: the name
// alone is that of every build.
func (svc *Service) findByName(ctx context.Context, products []string, f *files) error {
	if len(f.list) != 1 || f.list[0].kind != symfile.PE || f.list[0].hit == nil || hasDebug(f.list) {
		return nil
	}
	program := f.list[0].hit
	l, err := svc.links(ctx, f.list[0])
	if errors.Is(err, fs.ErrNotExist) || isBadSource(err) {
		return nil // reading the module reports it
	}
	if err != nil || l.Debug == "" {
		return err
	}
	name := symfile.Fold(symfile.BaseName(l.Debug))
	hits, err := svc.Depot.Named(ctx, products, name, symfile.PE, program.Number, maxNamed)
	if err != nil {
		return err
	}
	tries := 0
	for i := range hits {
		h := &hits[i]
		if h.Object.Role&symfile.Debug == 0 || h.Arch != program.Arch || h.Ref == program.Ref {
			continue
		}
		p := pieceOf(h)
		sum, known := svc.modules.sumOf(p.tag)
		if !known {
			if tries++; tries > maxSummed {
				continue
			}
			if sum, err = svc.sum(ctx, p); errors.Is(err, fs.ErrNotExist) {
				continue // it is damaged, or was removed meanwhile
			} else if err != nil {
				return err
			}
			svc.modules.keepSum(p.tag, sum)
		}
		if sum == l.CRC {
			f.list = append(f.list, p)
			return nil
		}
	}
	f.missing = append(f.missing, missingByName(l))
	return nil
}

// sum returns the CRC-32 of a content.
func (svc *Service) sum(ctx context.Context, p *piece) (uint32, error) {
	file, err := svc.open(ctx, p)
	if err != nil {
		return 0, err
	}
	sum, err := checksum(ctx, file, p.size)
	return sum, errors.Join(err, file.Close())
}
