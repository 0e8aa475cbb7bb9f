package watch

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/symfile"
)

// A package's list of source files is kept as one compressed text: the names are sorted,
// and each says how many bytes it shares with the one before.

// maxNameList is the most bytes that a list may have when it is decompressed.
const maxNameList = 256 << 20

// sourceFile is one entry of such a list.
type sourceFile struct {
	name string // as in the package
	member
}

// canonical returns the path under which a member of a package is asked for; "" if its
// name is not a path inside the package.
func canonical(member string) string {
	p := strings.TrimPrefix(member, "/")
	if p == "" || slices.Contains(strings.Split(p, "/"), "..") {
		return ""
	}
	return path.Clean("/" + p)
}

// sourceRows returns the hashes and the list of the source files that were met.
func (r *reading) sourceRows(kind int) (hashes []int64, list []byte) {
	if len(r.sources) == 0 {
		return nil, nil
	}
	files := make([]sourceFile, 0, len(r.sources))
	for name, m := range r.sources {
		p := canonical(name)
		if p == "" {
			continue
		}
		if files = append(files, sourceFile{name, m}); kind == kindSources {
			hashes = append(hashes, hash(byBase, path.Base(p)))
		} else {
			hashes = append(hashes, hash(byPath, p))
		}
	}
	slices.Sort(hashes)
	sorting.By(files, func(a, b sourceFile) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(hashes), encodeNames(files)
}

// How the place of a file follows its size: a number, and what it says. A number from
// inCommon on is the offset in the stream that most files of the package are in.
const (
	placeUnknown = iota
	placeOwn     // the place
	placeSummed  // the place and the checksum
	inCommon
)

func encodeNames(files []sourceFile) []byte {
	var common scan.Place // the stream that most files are in
	for _, f := range files {
		if f.sum == nil && f.place.Method > scan.Stored {
			common = f.place
			break
		}
	}
	var e encoder
	e.number(uint64(len(files)))
	e.number(uint64(common.Method))
	e.number(uint64(common.Base))
	e.number(uint64(common.Packed))
	last := ""
	for _, f := range files {
		same := 0
		for same < min(len(last), len(f.name)) && last[same] == f.name[same] {
			same++
		}
		e.number(uint64(same))
		e.text(f.name[same:])
		e.number(uint64(f.size + 1))
		p := f.place
		switch {
		case p.Method == scan.Nested:
			e.number(placeUnknown)
		case f.sum != nil:
			e.number(placeSummed)
			e.place(p)
			e.number(uint64(*f.sum))
		case p.Method == common.Method && p.Base == common.Base && p.Packed == common.Packed:
			e.number(uint64(inCommon + p.Offset))
		default:
			e.number(placeOwn)
			e.place(p)
		}
		last = f.name
	}
	z := packer()
	if z == nil {
		return nil
	}
	return z.EncodeAll(e.b, nil)
}

// packer is the encoder of all lists. It may be used by many goroutines.
var packer = sync.OnceValue(func() *zstd.Encoder {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
	if err != nil {
		return nil // impossible: the options are constant
	}
	return z
})

// packageNames are the source files of a package, to be found by their base names. They
// are not held as values: a list may have a hundred thousand names.
type packageNames struct {
	common scan.Place
	flat   []byte   // the entries, with whole names
	at     []nameAt // in the order of the hashes
}

// nameAt says where in packageNames.flat an entry is.
type nameAt struct{ hash, off uint32 }

func baseHash(name string) uint32 { return uint32(xxhash.Sum64String(symfile.BaseName(name))) }

// bytes is the memory that the list takes.
func (l *packageNames) bytes() int { return len(l.flat) + 8*len(l.at) + 200 }

// unpackNames reads a list of encodeNames.
func unpackNames(list []byte) (*packageNames, error) {
	l := &packageNames{}
	if len(list) == 0 {
		return l, nil
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxNameList))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	plain, err := z.DecodeAll(list, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRow, err)
	}
	d := &decoder{b: plain}
	n := d.number()
	l.common = scan.Place{Method: scan.Method(d.number()), Base: int64(d.number()), Packed: int64(d.number())}
	if n > uint64(len(plain)) {
		return nil, errRow
	}
	flat := encoder{b: make([]byte, 0, 2*len(plain))}
	l.at = make([]nameAt, 0, n)
	var name []byte
	for range n {
		same := d.number()
		if same > uint64(len(name)) {
			return nil, errRow
		}
		name = append(name[:same], d.bytes(d.number())...)
		rest := d.b
		d.member(l.common)
		if d.bad || len(flat.b) > maxNameList {
			return nil, errRow
		}
		l.at = append(l.at, nameAt{baseHash(string(name)), uint32(len(flat.b))})
		flat.text(string(name))
		flat.b = append(flat.b, rest[:len(rest)-len(d.b)]...)
	}
	l.flat = flat.b
	slices.SortFunc(l.at, func(a, b nameAt) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.off, b.off)) })
	return l, nil
}

// member reads what follows the name of an entry; the sum is that of the member if it has
// one.
func (d *decoder) member(common scan.Place) (m member, sum uint32, summed bool) {
	m.size = int64(d.number()) - 1
	switch at := d.number(); at {
	case placeUnknown:
	case placeOwn:
		m.place = d.place()
	case placeSummed:
		m.place = d.place()
		sum, summed = uint32(d.number()), true
	default:
		m.place = common
		m.place.Offset = int64(at - inCommon)
	}
	return m, sum, summed
}

// file returns the entry at an offset.
func (l *packageNames) file(off uint32) sourceFile {
	d := &decoder{b: l.flat[off:]}
	name := d.text()
	m, sum, summed := d.member(l.common)
	if summed {
		m.sum = &sum
	}
	return sourceFile{name, m}
}

// named returns the files with a base name.
func (l *packageNames) named(base string) (files []sourceFile) {
	hash := baseHash(base)
	i, _ := slices.BinarySearchFunc(l.at, hash, func(a nameAt, hash uint32) int { return cmp.Compare(a.hash, hash) })
	for ; i < len(l.at) && l.at[i].hash == hash; i++ {
		if f := l.file(l.at[i].off); symfile.BaseName(f.name) == base {
			files = append(files, f)
		}
	}
	return files
}
