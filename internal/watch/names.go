package watch

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/scan"
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
	slices.SortFunc(files, func(a, b sourceFile) int { return strings.Compare(a.name, b.name) })
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

// unpackNames decompresses a list of encodeNames, for namesIn.
func unpackNames(list []byte) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
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
	return plain, nil
}

// namesIn returns the files of a decompressed list whose names end in end. It keeps
// nothing of the others: a list may have a hundred thousand names.
func namesIn(plain []byte, end string) (files []sourceFile, err error) {
	if len(plain) == 0 {
		return nil, nil
	}
	d := &decoder{b: plain}
	n := d.number()
	common := scan.Place{Method: scan.Method(d.number()), Base: int64(d.number()), Packed: int64(d.number())}
	if n > uint64(len(plain)) {
		return nil, errRow
	}
	var name []byte
	for range n {
		same := d.number()
		if same > uint64(len(name)) {
			return nil, errRow
		}
		name = append(name[:same], d.bytes(d.number())...)
		m := member{size: int64(d.number()) - 1}
		var sum uint32
		at := d.number()
		switch at {
		case placeUnknown:
		case placeOwn:
			m.place = d.place()
		case placeSummed:
			m.place = d.place()
			sum = uint32(d.number())
		default:
			m.place = common
			m.place.Offset = int64(at - inCommon)
		}
		if d.bad {
			return nil, errRow
		}
		if len(name) < len(end) || string(name[len(name)-len(end):]) != end {
			continue
		}
		if at == placeSummed {
			m.sum = &sum
		}
		files = append(files, sourceFile{string(name), m})
	}
	return files, nil
}
