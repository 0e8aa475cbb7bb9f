package functab

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
)

// Table sorts and normalizes what was added. The Builder must not be used
// afterwards. The error is that of ctx, or wraps ErrLimit.
//
// Of the functions at one address, the Table keeps the one with line rows, then
// with a known size, then with the lowest Unit; others with different names set
// Multiple. Functions that overlap are cut where the next one starts; a function
// without rows inside one with rows is left out. Functions at address 0 are left
// out unless the module is relocatable. A function of unknown size without rows
// becomes a symbol. Symbols inside functions are left out; on Windows, one at the
// start of a function gives it its name, if that of the function has no
// parameters, and the size of its parameters.
func (b *Builder) Table(ctx context.Context) (*Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, step := range []func() error{
		b.sortFunctions, b.sortSymbols, b.resolveSizes, b.sortFrames, b.mergeSymbols, b.addMarkers, b.endLast,
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	if b.omitted > 0 {
		b.warnings = append(b.warnings, fmt.Sprintf("%d more warnings", b.omitted))
	}
	b.names.plain, b.names.slots, b.names.texts.slots, b.files.slots, b.rules.slots = nil, slots{}, slots{}, slots{}, slots{}
	t := &Table{
		module: b.module, names: b.names, files: b.files, rules: b.rules, records: b.records,
		funcs: b.funcs, symbols: b.symbols, frames: b.frames, wins: b.wins,
		sections: b.sections, warnings: b.warnings,
	}
	t.counts = Counts{Symbols: t.symbols.len(), Frames: t.frames.len() + t.wins.len(), Files: len(t.files.at), Names: len(t.names.pairs)}
	for i := range t.funcs.len() {
		_, rec := t.function(i)
		d := decoder{rec[headSize:]}
		body := d.body()
		t.counts.Functions++
		t.counts.Rows += body.rows
		t.counts.Inlines += body.inlines
	}
	t.counts.Bytes = b.used()
	return t, nil
}

// candidate is a function that may become part of the table.
type candidate struct {
	start uint64
	pos   uint32
	head  head
	body  body
}

func (b *Builder) candidate(i int) candidate {
	start, pos := b.funcs.get(i)
	rec := b.records.at(pos)
	d := decoder{rec[headSize:]}
	return candidate{start, pos, readHead(rec), d.body()}
}

// better reports whether c is kept rather than o at the same address.
func (c *candidate) better(o *candidate) bool {
	if (c.body.rows > 0) != (o.body.rows > 0) {
		return c.body.rows > 0
	}
	if sized := c.head.params&flagUnsized == 0; sized != (o.head.params&flagUnsized == 0) {
		return sized
	}
	return c.body.unit < o.body.unit
}

// sortFunctions orders the functions by address and makes their ranges disjoint.
func (b *Builder) sortFunctions() error {
	b.funcs.sort()
	kept := b.funcs.emptied()
	var moved []Symbol
	unknown := NameID(0)
	b.arrange(0, b.funcs.len(), func(c *candidate) {
		if c.head.params&flagUnsized != 0 && c.body.rows == 0 {
			moved = append(moved, Symbol{
				Address: c.start, Name: NameID(c.head.name), Params: c.head.params & paramsMask,
				Multiple: c.head.params&flagMultiple != 0})
			return
		}
		if name, _ := b.names.get(NameID(c.head.name)); name == "" {
			if unknown == 0 {
				unknown = b.names.number(fmt.Sprintf("<unknown in %s>", b.moduleName()), "")
			}
			c.head.name = uint32(unknown)
		}
		c.head.write(b.records.at(c.pos))
		kept.add(c.start, c.pos)
	})
	b.funcs = kept
	for _, s := range moved {
		if err := b.put(&b.symbols, s.Address, encodeSymbol(s), "symbols"); err != nil {
			return err
		}
	}
	return nil
}

// arrange yields those of the sorted functions from number i up to n that a Table
// keeps, with their ranges made disjoint, and those that become symbols. It changes no
// record. The function keep may add up to as many entries to the emptied index as were
// yielded.
func (b *Builder) arrange(i, n int, keep func(*candidate)) {
	var last *candidate
	for i < n {
		c := b.candidate(i)
		name := b.names.either(NameID(c.head.name))
		multiple := c.head.params & flagMultiple
		for i++; i < n; i++ {
			if start, _ := b.funcs.get(i); start != c.start {
				break
			}
			o := b.candidate(i)
			other := b.names.either(NameID(o.head.name))
			if multiple |= o.head.params & flagMultiple; name != "" && other != "" && other != name {
				multiple = flagMultiple
			}
			if o.better(&c) {
				c, o, name, other = o, c, other, name
			}
			if name == "" {
				c.head.name, name = o.head.name, other
			}
		}
		c.head.params |= multiple
		if c.start == 0 && !b.module.Relocatable {
			continue
		}
		if c.head.params&flagUnsized != 0 && c.body.rows == 0 {
			keep(&c)
			continue
		}
		if last != nil && last.head.end(last.start) > c.start {
			end, within := c.head.end(c.start), last.head.end(last.start)
			if c.body.rows == 0 && last.body.rows > 0 && end <= within && last.head.params&flagUnsized == 0 {
				continue
			}
			last.head.size = uint32(min(c.start-last.start, maxSize))
			last.head.params = last.head.params&^flagUnsized | flagClipped
		}
		if last != nil {
			keep(last)
		}
		last = &c
	}
	if last != nil {
		keep(last)
	}
}

// sortSymbols orders the symbols by address, one at each.
func (b *Builder) sortSymbols() error {
	b.symbols.sort()
	kept := b.symbols.emptied()
	n := b.symbols.len()
	for i := 0; i < n; {
		address, pos := b.symbols.get(i)
		s := decodeSymbol(address, b.records.at(pos))
		name, _ := b.names.get(s.Name)
		changed := false
		for i++; i < n; i++ {
			next, pos := b.symbols.get(i)
			if next != address {
				break
			}
			o := decodeSymbol(next, b.records.at(pos))
			other, _ := b.names.get(o.Name)
			if name == "" {
				s.Name, name, changed = o.Name, other, true
			}
			if other != name && other != "" && !s.Multiple {
				s.Multiple, changed = true, true
			}
			if s.Size < o.Size {
				s.Size, changed = o.Size, true
			}
			if s.Params == 0 && o.Params != 0 {
				s.Params, changed = o.Params, true
			}
		}
		if address == 0 && !b.module.Relocatable || name == "" {
			continue
		}
		if changed {
			var ok bool
			if pos, ok = b.records.put(encodeSymbol(s)); !ok {
				return fmt.Errorf("%w: tables of 16 GiB", ErrLimit)
			}
		}
		kept.add(address, pos)
	}
	b.symbols = kept
	return nil
}

// resolveSizes ends the functions of unknown size that no other function ends: at
// the next symbol after their last row, or at the end of their section.
func (b *Builder) resolveSizes() error {
	// Other functions of unknown size were cut at the start of the next one. The
	// last function is the only one that can be left.
	i := b.funcs.len() - 1
	if i < 0 {
		return nil
	}
	c := b.candidate(i)
	if c.head.params&flagUnsized == 0 {
		return nil
	}
	last := c.start
	if f := new(scratch).function(c.start, b.records.at(c.pos)); len(f.Rows) > 0 {
		last = f.Rows[len(f.Rows)-1].Start
	}
	end := uint64(math.MaxUint64)
	if k := b.symbols.last(last) + 1; k < b.symbols.len() {
		end, _ = b.symbols.get(k)
	}
	for _, s := range b.sections {
		if last >= s.Start && last-s.Start < s.Size {
			end = min(end, s.Start+s.Size)
		}
	}
	if end == math.MaxUint64 {
		end = last + 1
	}
	c.head.size = uint32(min(end-c.start, maxSize))
	c.head.params = c.head.params&^flagUnsized | flagClipped
	c.head.write(b.records.at(c.pos))
	return nil
}

// sortFrames orders the unwind rules. Ranges of CFI do not overlap. Those of
// Windows records may: a record for the rest of a function is inside another one.
func (b *Builder) sortFrames() error {
	b.frames.sort()
	kept := b.frames.emptied()
	end := uint64(0)
	for i := range b.frames.len() {
		start, pos := b.frames.get(i)
		if start < end {
			continue
		}
		kept.add(start, pos)
		d := decoder{b.records.at(pos)}
		end = start + d.uint()
	}
	b.frames = kept

	b.wins.sort()
	kept = b.wins.emptied()
	type key struct {
		start  uint64
		kind   int
		size   uint32
		prolog uint32
	}
	var before []key // at the same address
	var w WinFrame
	for i := range b.wins.len() {
		start, pos := b.wins.get(i)
		f := decodeWin(start, b.records.at(pos), &b.rules, &w)
		k := key{start, w.Type, f.Size, w.Prolog}
		if len(before) > 0 && before[0].start != start {
			before = before[:0]
		}
		if len(before) >= 16 || slices.Contains(before, k) {
			continue
		}
		before = append(before, k)
		kept.add(start, pos)
	}
	b.wins = kept
	return nil
}

// mergeSymbols leaves out symbols inside functions, and gives the functions the
// names and sizes of parameters of the symbols and frames at their start.
func (b *Builder) mergeSymbols() error {
	windows := b.module.OS == "windows"
	kept := b.symbols.emptied()
	for i := range b.symbols.len() {
		address, pos := b.symbols.get(i)
		k := b.funcs.last(address)
		if k < 0 {
			kept.add(address, pos)
			continue
		}
		c := b.candidate(k)
		if address >= c.head.end(c.start) {
			kept.add(address, pos)
			continue
		}
		if windows && address == c.start {
			b.merge(&c.head, decodeSymbol(address, b.records.at(pos)))
			c.head.write(b.records.at(c.pos))
		}
	}
	b.symbols = kept
	if !windows {
		return nil
	}
	var w WinFrame
	for i := range b.wins.len() {
		start, pos := b.wins.get(i)
		k := b.funcs.last(start)
		if k < 0 {
			continue
		}
		c := b.candidate(k)
		if c.start != start || c.head.params&paramsMask != 0 {
			continue
		}
		if decodeWin(start, b.records.at(pos), &b.rules, &w); w.Type == 4 && w.Params > 0 {
			c.head.params |= packParams(w.Params, false)
			c.head.write(b.records.at(c.pos))
		}
	}
	return nil
}

// merge completes a function with the public symbol at its start.
func (b *Builder) merge(h *head, s Symbol) {
	shown, raw := b.names.get(NameID(h.name))
	if public, linker := b.names.get(s.Name); IsMarker(public) {
		return
	} else if !strings.Contains(shown, "(") {
		h.name = uint32(s.Name)
	} else if raw == "" {
		if linker == "" {
			linker = public
		}
		h.name = uint32(b.names.number(shown, linker))
	}
	if s.Params > 0 {
		h.params = h.params&^paramsMask | packParams(s.Params, false)
	}
}

// IsMarker reports whether a name is that of an end marker.
func IsMarker(name string) bool {
	return strings.HasPrefix(name, "<") && strings.HasSuffix(name, ">") &&
		(strings.HasPrefix(name, "<unknown in ") || strings.Contains(name, " ELF section in "))
}

// addMarkers adds the symbols that end the range of the last symbol of a section
// or of the module: readers of symbol files give a symbol all code up to the next
// one.
func (b *Builder) addMarkers() error {
	module := b.moduleName()
	slices.SortStableFunc(b.sections, func(x, y Section) int {
		return cmp.Or(compare(x.Start, y.Start), compare(x.Size, y.Size))
	})
	markers := make(map[uint64]string)
	if b.module.OS == "windows" || b.module.OS == "mac" {
		if end, ok := b.lastEnd(); ok {
			markers[end] = fmt.Sprintf("<unknown in %s>", module)
		}
	} else {
		for _, s := range slices.Backward(b.sections) {
			markers[s.Start] = fmt.Sprintf("<%s ELF section in %s>", s.Name, module)
		}
	}
	maps.DeleteFunc(markers, func(address uint64, _ string) bool { return b.known(address) })
	for _, address := range slices.Sorted(maps.Keys(markers)) {
		s := Symbol{Address: address, Name: b.names.number(markers[address], "")}
		if err := b.put(&b.symbols, address, encodeSymbol(s), "symbols"); err != nil {
			return err
		}
	}
	if len(markers) > 0 {
		b.symbols.sort()
	}
	return nil
}

// endLast gives the last symbol of the module the size that lastEnd finds, if it has
// none: no marker follows it, so that it would own every address above.
func (b *Builder) endLast() error {
	k := b.symbols.len() - 1
	end, ok := b.lastEnd()
	if k < 0 || !ok {
		return nil
	}
	address, pos := b.symbols.get(k)
	s := decodeSymbol(address, b.records.at(pos))
	if next := b.funcs.last(math.MaxUint64); s.Size > 0 || end <= address || end-address > maxSize ||
		next >= 0 && b.candidate(next).start > address {
		return nil
	}
	s.Size = uint32(end - address)
	b.symbols.drop()
	return b.put(&b.symbols, address, encodeSymbol(s), "symbols")
}

// moduleName returns the name of the module in names made here: that of the
// program, on other systems than Windows that of the debug file.
func (b *Builder) moduleName() string {
	return cleanLine(cmp.Or(b.module.CodeFile, b.module.Name), b.lim.Name)
}

// known reports whether a function contains an address or a symbol has it, or
// whether no symbol can have it.
func (b *Builder) known(address uint64) bool {
	if k := b.funcs.last(address); k >= 0 {
		if c := b.candidate(k); address < c.head.end(c.start) {
			return true
		}
	}
	if k := b.symbols.last(address); k >= 0 {
		if at, _ := b.symbols.get(k); at == address {
			return true
		}
	}
	return address == 0 && !b.module.Relocatable
}

// lastEnd returns the end of the last function or symbol. ok is false if there is
// none, or if nothing says where it ends.
func (b *Builder) lastEnd() (end uint64, ok bool) {
	if k := b.funcs.len() - 1; k >= 0 {
		c := b.candidate(k)
		end = c.head.end(c.start)
	}
	k := b.symbols.len() - 1
	if k < 0 {
		return end, end > 0
	}
	address, pos := b.symbols.get(k)
	if address < end {
		return end, true
	}
	s := decodeSymbol(address, b.records.at(pos))
	if name, _ := b.names.get(s.Name); IsMarker(name) {
		return 0, false
	}
	if s.Size > 0 && address+uint64(s.Size) > address {
		return address + uint64(s.Size), true
	}
	i := sort.Search(len(b.sections), func(i int) bool { return b.sections[i].Start > address }) - 1
	if i >= 0 && address-b.sections[i].Start < b.sections[i].Size {
		return b.sections[i].Start + b.sections[i].Size, true
	}
	return 0, false
}
