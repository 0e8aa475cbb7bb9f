package pdb

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// Limits of modules.
const (
	maxModuleCount  = 1 << 20
	maxExports      = 16 << 20 // of all modules
	maxNames        = 8 << 20  // bytes of the string table that are kept
	maxContribs     = 64 << 20
	maxStringLength = 64 << 10
)

// linkerModule is the name of the module that has the records of the linker.
const linkerModule = "* Linker *"

// compiland is a module record: the contribution of one object file to the image.
type compiland struct {
	stream       int // noStream if there is none
	symbols      int64
	c11, c13     int64 // bytes of line numbers in the old and in the current form
	name, object string
}

// readModules reads the module records.
func (f *File) readModules() ([]compiland, error) {
	var list []compiland
	err := f.eachModule(func(_ []byte, m compiland) error {
		list = append(list, m)
		return nil
	})
	return list, err
}

// eachModule calls visit with each module record: its fixed part of 64 bytes, which
// is valid until the next call, and what it says.
func (f *File) eachModule(visit func(head []byte, m compiland) error) error {
	s, err := f.section(DBIStream)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s, 64, f.dbi.modules), 64<<10)
	var h [64]byte
	for done, n := int64(0), 0; f.dbi.modules-done >= int64(len(h)); n++ {
		if n == maxModuleCount {
			return fmt.Errorf("more than the limit of %d modules", maxModuleCount)
		}
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return err
		}
		m := compiland{stream: int(u16(h[:], 34)), symbols: int64(u32(h[:], 36)), c11: int64(u32(h[:], 40)), c13: int64(u32(h[:], 44))}
		done += int64(len(h))
		for _, to := range []*string{&m.name, &m.object} {
			text, err := r.ReadString(0)
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			done += int64(len(text))
			*to = text[:len(text)-1]
		}
		pad := min(-done&3, f.dbi.modules-done)
		if _, err := r.Discard(int(pad)); err != nil {
			return err
		}
		done += pad
		if err := visit(h[:], m); err != nil {
			return err
		}
	}
	return nil
}

// readContributions reads the contributions of modules to sections of code as
// internal addresses, sorted.
func (f *File) readContributions(ctx context.Context, a *addresses) ([]extent, error) {
	s, err := f.section(DBIStream)
	if err != nil || f.dbi.contributions < 4 {
		return nil, err
	}
	var w window
	w.reset(s, 64+f.dbi.modules, 64+f.dbi.modules+f.dbi.contributions)
	p, err := w.peek(4)
	if err != nil || len(p) < 4 {
		return nil, err
	}
	size := int(contributionSize(p))
	if size == 0 {
		return nil, nil // of before 1997
	}
	w.skip(4)
	var list []extent
	for n := 0; len(list) < maxContribs; n++ {
		if n%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if p, err = w.peek(size); err != nil || len(p) < size {
			break
		}
		if e, ok := a.codeRange(u16(p, 0), u32(p, 4), u32(p, 8)); ok {
			list = append(list, e)
		}
		w.skip(int64(size))
	}
	slices.SortFunc(list, func(x, y extent) int { return cmp.Compare(x.start, y.start) })
	return list, err
}

// contributionSize returns the size of a record of contributions that start with p, in bytes;
// 0 if the version is not known.
func contributionSize(p []byte) int64 {
	switch u32(p, 0) {
	case 0xF12EBA2D: // version 1
		return 28
	case 0xF13151E4: // version 2: with the number of the section in the object file
		return 32
	}
	return 0
}

// stringTable is the stream /names: the paths of source files and the programs
// of frame data, found by their offsets.
type stringTable struct {
	b          *blocks
	start, end int64
}

// readNames opens the string table. One without bytes is returned if the file
// has none.
func (f *File) readNames() (*stringTable, error) {
	names, err := f.Names()
	if err != nil {
		return &stringTable{}, err
	}
	n, ok := names["/names"]
	if !ok {
		return &stringTable{}, nil
	}
	s, err := f.section(n)
	if err != nil {
		return &stringTable{}, err
	}
	var h [12]byte
	if err := readFull(s, h[:], 0); err != nil {
		return &stringTable{}, err
	}
	if u32(h[:], 0) != 0xEFFEEFFE {
		return &stringTable{}, fmt.Errorf("the signature is %#x", u32(h[:], 0))
	}
	t := &stringTable{start: 12, end: min(12+int64(u32(h[:], 8)), s.Size())}
	t.b = newBlocks(s, t.end, blockSize, min(maxNames, s.Size()/4))
	if f.Format == MSFZ {
		t.b = newBlocks(s, t.end, spanSize, min(s.Size(), maxMSFZTypes)+spanSize)
	}
	return t, nil
}

// text returns the text at an offset of the table, at most most bytes; empty if
// there is none.
func (t *stringTable) text(off uint32, most int64) string {
	at := t.start + int64(off)
	if t.b == nil || at >= t.end {
		return ""
	}
	b, err := t.b.text(at, most)
	if err != nil {
		return ""
	}
	return string(b)
}

// exports are the indexes that modules offer to others.
type exports struct {
	f       *File
	modules []compiland

	mu     sync.Mutex
	byName map[string]int            // module by lower-case name
	lists  map[int]map[uint32]uint32 // by module: local to global index
	count  int
}

// global returns the global index of the local index of the module with the
// name.
func (e *exports) global(name string, local uint32) (uint32, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil {
		e.byName = make(map[string]int, len(e.modules))
		e.lists = map[int]map[uint32]uint32{}
		for i := len(e.modules) - 1; i >= 0; i-- {
			e.byName[strings.ToLower(e.modules[i].name)] = i
		}
	}
	i, ok := e.byName[strings.ToLower(name)]
	if !ok {
		return 0, false
	}
	list, ok := e.lists[i]
	if !ok {
		list = e.read(i)
		e.lists[i] = list
	}
	g, ok := list[local]
	return g, ok && g&crossScope == 0
}

// read reads the exports of module i. e.mu is held.
func (e *exports) read(i int) map[uint32]uint32 {
	m := e.modules[i]
	s, err := e.f.section(m.stream)
	if m.stream == noStream || err != nil {
		return nil
	}
	list := map[uint32]uint32{}
	start := m.symbols + m.c11
	var w window
	w.reset(s, start, min(start+m.c13, s.Size()))
	for {
		p, err := w.peek(8)
		if err != nil || len(p) < 8 {
			return list
		}
		kind, n := u32(p, 0), int64(u32(p, 4))
		w.skip(8)
		next := w.off + (n+3)&^3
		for n = min(n, w.left()); kind == c13Exports && n >= 8 && e.count < maxExports; n -= 8 {
			if p, err = w.peek(8); err != nil {
				return list
			}
			list[u32(p, 0)] = u32(p, 4)
			e.count++
			w.skip(8)
		}
		w.skip(next - w.off)
	}
}
