package dwarf

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Split is a split unit: the skeleton unit that remains in the program names the
// .dwo file, and the id finds the unit in that file or in a package.
type Split struct {
	ID        uint64
	Name, Dir string // of the .dwo file, as the compiler was told
}

// unitsBeforeSkeleton is the number of units in which Splits looks for a skeleton
// before it decides that there is none. Units of a linked library may come before
// those of the program.
const unitsBeforeSkeleton = 256

const (
	// maxSkeletons is the number of skeleton units that Splits reads.
	maxSkeletons = 1 << 16
	// maxSplitPath is the longest name or folder of a .dwo file in bytes, as of paths
	// on Linux. A unit with a longer one is left out.
	maxSplitPath = 4096
	// maxSplitText is the limit of all names and folders together, in bytes. Units
	// after it are left out: a small file can refer to one long name many times.
	maxSplitText = 16 << 20
)

// Splits lists the units that the skeleton units of a file refer to: the limit
// lowest ones, by id. The error wraps fs.ErrNotExist if there is no debug
// information, or it is that of ctx or of reading. Damage ends the list early.
func Splits(ctx context.Context, get Sections, order binary.ByteOrder, limit int) ([]Split, error) {
	r := &reader{ctx: ctx, main: &image{name: "file", be: order == binary.BigEndian, get: get}}
	w, v, err := r.look(r.main)
	if err != nil {
		return nil, err
	}
	var list []Split
	text := 0
	for off, n := uint64(0), 0; len(list) < maxSkeletons && (len(list) > 0 || n < unitsBeforeSkeleton); n++ {
		h, err := v.header(off)
		if err != nil {
			break // the end, or damage
		}
		if off = h.end; h.unsupported || h.version == 5 && h.typ != unitSkeleton {
			continue
		}
		u, err := w.openUnit(v, h, nil, contribution{})
		if w.fatal(err) {
			return nil, err
		}
		if err == nil && u.dwoID != 0 && u.dwo != "" && len(u.dwo) <= maxSplitPath && len(u.compDir) <= maxSplitPath {
			if text += len(u.dwo) + len(u.compDir); text > maxSplitText {
				break
			}
			list = append(list, Split{u.dwoID, u.dwo, u.compDir})
		}
	}
	slices.SortFunc(list, func(a, b Split) int { return cmp.Compare(a.ID, b.ID) })
	list = slices.CompactFunc(list, func(a, b Split) bool { return a.ID == b.ID })
	return list[:min(len(list), limit)], v.err()
}

// look returns a worker and a view that read the units of im and of no other image.
func (r *reader) look(im *image) (*worker, *view, error) {
	name := "debug_info"
	if im.split {
		name += ".dwo"
	}
	info, err := im.section(name)
	if err != nil {
		return nil, nil, err
	}
	if info == nil {
		return nil, nil, fmt.Errorf("section .%s: %w", name, fs.ErrNotExist)
	}
	r.steps.Store(baseSteps)
	w := newWorker(r)
	return w, w.view(im), nil
}

// SplitIDs returns ids of the units in a .dwo file or, if packed, in a .dwp
// package, in ascending order, and at most limit of them. The error wraps
// fs.ErrNotExist if the file has no split units, or it is that of ctx or of
// reading.
func SplitIDs(ctx context.Context, get Sections, order binary.ByteOrder, limit int) (ids []uint64, packed bool, err error) {
	r := &reader{ctx: ctx, main: &image{name: "file", be: order == binary.BigEndian, get: get, split: true}}
	w, v, err := r.look(r.main)
	if err != nil {
		return nil, false, err
	}
	if packed = v.index != nil; packed {
		ids, err = w.packedIDs(v, limit)
	} else {
		ids, err = w.looseIDs(v, limit)
	}
	if err == nil {
		err = v.err()
	}
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("split units: %w", fs.ErrNotExist)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), limit)], packed, err
}

// looseIDs returns the ids of the units in a .dwo file.
func (w *worker) looseIDs(v *view, limit int) (ids []uint64, err error) {
	for off := uint64(0); len(ids) < limit; {
		h, err := v.header(off)
		if err != nil {
			break // the end, or damage
		}
		if off = h.end; h.unsupported || h.typ == unitType || h.typ == unitSplitType {
			continue
		}
		id := h.dwoID
		if h.version < 5 {
			u, err := w.openUnit(v, h, nil, contribution{})
			if w.fatal(err) {
				return nil, err
			}
			if err != nil {
				continue
			}
			id = u.dwoID
		}
		if id != 0 {
			ids = append(ids, id)
		}
	}
	return ids, nil //nolint:nilerr // the end, or damage: the ids before it count
}

// packedIDs returns the ids in the index of a package: the limit lowest ones.
func (w *worker) packedIDs(v *view, limit int) (ids []uint64, err error) {
	x, err := w.readPackageIndex(v)
	if errors.Is(err, errBad) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	const chunk = 512
	for slot := uint64(0); slot < x.slots; slot += chunk {
		n := min(chunk, x.slots-slot)
		if err := w.spend(int64(n)); err != nil {
			return nil, err
		}
		c := cursor{b: slices.Clone(v.index.At(x.ids+8*slot, int(8*n))), be: v.im.be}
		rows := cursor{b: v.index.At(x.rows+4*slot, int(4*n)), be: v.im.be}
		for range n {
			if id := c.u64(); rows.u32() != 0 && !c.short && !rows.short {
				ids = append(ids, id)
			}
		}
		if len(ids) > 16*limit {
			slices.Sort(ids)
			ids = ids[:limit]
		}
	}
	return ids, nil
}
