package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// checksum returns the CRC-32 that .gnu_debuglink has of a file.
func checksum(ctx context.Context, r io.ReaderAt, size int64) (uint32, error) {
	h := crc32.NewIEEE()
	_, err := io.Copy(h, ctxio.NewReader(ctx, io.NewSectionReader(r, 0, size)))
	return h.Sum32(), err
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

// missingByName names the debug file of a program that has no id for it.
func missingByName(l objtab.Links) string {
	return fmt.Sprintf("the debug file %s with the CRC-32 %08x", symfile.BaseName(l.Debug), l.CRC)
}
