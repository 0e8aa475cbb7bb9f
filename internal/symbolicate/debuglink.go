package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/ctxio"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
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

// missingByName names the debug file of a program that has no id for it.
func missingByName(l objtab.Links) string {
	return fmt.Sprintf("the debug file %s with the CRC-32 %08x", symfile.BaseName(l.Debug), l.CRC)
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

// checksum returns the CRC-32 that .gnu_debuglink has of a file.
func checksum(ctx context.Context, r io.ReaderAt, size int64) (uint32, error) {
	h := crc32.NewIEEE()
	_, err := io.Copy(h, ctxio.NewReader(ctx, io.NewSectionReader(r, 0, size)))
	return h.Sum32(), err
}

// sumOf returns the checksum that keepSum has kept.
func (ms *modules) sumOf(tag string) (uint32, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	sum, ok := ms.sums[tag]
	return sum, ok
}

// keepSum keeps the checksum of a content. At a limit it forgets all others.
func (ms *modules) keepSum(tag string, sum uint32) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if len(ms.sums) >= maxSums || ms.sums == nil {
		ms.sums = map[string]uint32{}
	}
	ms.sums[tag] = sum
}

// joinNamed joins programs of MinGW without debug information with the debug files that
// .gnu_debuglink names, by name and checksum.
func joinNamed(ctx context.Context, groups [][]Part) ([][]Part, error) {
	for i, g := range groups {
		if len(g) != 1 || g[0].Kind != symfile.PE || hasDWARF(g[0]) {
			continue
		}
		name, crc, err := objtab.PELink(objtab.File{Reader: g[0], Size: g[0].Input.Size})
		if err != nil && !errors.Is(err, objfile.ErrBroken) && !errors.Is(err, objfile.ErrNotSymbolFile) {
			return nil, err
		}
		if name == "" {
			continue // reading the module reports an error
		}
		for k, o := range groups {
			if len(o) != 1 || o[0].Kind != symfile.PE || !hasDWARF(o[0]) || !strings.EqualFold(o[0].Object.Name, symfile.BaseName(name)) {
				continue
			}
			sum, err := checksum(ctx, o[0], o[0].Input.Size)
			if err != nil {
				return nil, err
			}
			if sum == crc {
				groups[i] = append(g, o[0])
				return joinNamed(ctx, slices.Delete(groups, k, k+1))
			}
		}
	}
	return groups, nil
}
