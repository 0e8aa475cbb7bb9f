// Package sparsetest makes large files that take little space on disk; for tests only.
package sparsetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/symdepot/symdepot/pdb"
)

// page is the size of a page of a large PDB in bytes: linkers need more than the usual
// 4 KiB for files of more than 4 GiB.
const page = 8 << 10

// WritePDB writes a PDB of size bytes to a path. It has the streams of the PDB from, and
// so its ids and features, in pages far from each other. Stream 0, which nobody reads,
// takes the rest, so that the directory has megabytes.
func WritePDB(path, from string, size int64) (err error) {
	p, small, err := pdb.OpenFile(from)
	if err != nil {
		return err
	}
	defer small.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	pages := size / page
	if err := out.Truncate(pages * page); err != nil {
		return err
	}
	w := &writer{out: out, pages: pages, next: 16, step: max(1, pages/1000)}
	sizes, numbers := []uint32{uint32(min(pages/2, 1<<19) * page / 2)}, []uint32{}
	for i := range int64(sizes[0]) / page {
		numbers = append(numbers, uint32(i+16))
	}
	for n := 1; n < p.Streams(); n++ {
		s, err := p.Stream(n)
		if err != nil {
			return err
		}
		b := make([]byte, s.Size())
		if _, err := io.ReadFull(s, b); err != nil {
			return err
		}
		sizes, numbers = append(sizes, uint32(len(b))), append(numbers, w.put(b)...)
	}
	words := append([]uint32{uint32(len(sizes))}, sizes...)
	directory := bytesOf(append(words, numbers...))
	blockMap := w.put(bytesOf(w.put(directory)))
	if len(blockMap) != 1 {
		return fmt.Errorf("the block map takes %d pages, want one", len(blockMap))
	}
	head := append([]byte(pdb.MagicMSF), bytesOf([]uint32{page, 1, uint32(pages), uint32(len(directory)), 0, blockMap[0]})...)
	return errors.Join(w.err, w.write(head, 0))
}

// writer puts pages into a file.
type writer struct {
	out               *os.File
	pages, next, step int64
	err               error
}

func (w *writer) write(b []byte, off int64) error {
	_, err := w.out.WriteAt(b, off)
	return err
}

// put writes bytes to pages that are apart, and returns the numbers of these.
func (w *writer) put(b []byte) (numbers []uint32) {
	for len(b) > 0 {
		n := min(len(b), page)
		w.err = errors.Join(w.err, w.write(b[:n], w.next*page))
		numbers, b = append(numbers, uint32(w.next)), b[n:]
		if w.next += w.step; w.next >= w.pages {
			w.next = w.next%w.step + 17 // between those that are taken
		}
	}
	return numbers
}

func bytesOf(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, x := range words {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}
