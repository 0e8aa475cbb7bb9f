package pdb

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/symdepot/symdepot/demangle"
	"github.com/symdepot/symdepot/internal/base/glob"
)

// Limits of the symbols of a public PDB.
const (
	hashBuckets     = 4096                     // of the tables of symbols
	bucketBits      = 4 * (hashBuckets/32 + 1) // bytes that say which are used
	maxPublicText   = 0xFF00
	maxKeptRecords  = 96 << 20 // bytes of records of the output that are kept in memory
	maxSortedNames  = 64 << 20 // bytes of names that are sorted at once, if they are not
	maxStaticNames  = 64 << 20 // bytes
	maxExportNames  = 64 << 20 // bytes
	publicNameStart = 14       // of a public symbol: length, kind, flags, offset and section come before
)

// publicSymbol is a symbol of the output.
type publicSymbol struct {
	was    uint32 // offset in the symbol records of the input; of a static function, its number
	at     uint32 // offset in those of the output
	off    uint32 // in the section
	seg    uint16
	bucket uint16 // of its name
}

// staticFunction is a function without a public symbol.
type staticFunction struct {
	off  uint32
	seg  uint16
	name string
}

// publicSymbols are the symbols of the output.
type publicSymbols struct {
	f       *File
	opt     PublicOptions
	addr    *addresses
	exports map[string]bool
	static  []staticFunction

	list []publicSymbol
	// kept has the records of the output. It is nil if they are too many; then the input is read
	// again each time.
	kept    []byte
	size    int64 // bytes of all records
	hidden  int64
	byHash  []uint32 // the numbers of the symbols in the order of the hash table
	byAddr  []uint32 // and by address
	buckets [hashBuckets]uint32
	x86     bool
}

// rawSymbol is a public symbol of the input.
type rawSymbol struct {
	at, flags, off uint32
	seg            uint16
	name           []byte // valid until the next symbol
}

// readSymbols decides which symbols the output has, and makes its streams of symbols.
func (s *stripper) readSymbols(modules []compiland) error {
	p := &publicSymbols{f: s.f, opt: s.opt, addr: s.addr, x86: s.f.Machine == machineX86}
	s.symbols = p
	var err error
	if p.opt.Exported {
		if p.exports, err = s.f.exported(modules); err != nil {
			return fmt.Errorf("exports: %w", err)
		}
	}
	if err := p.choose(s, maxKeptRecords); err != nil {
		return fmt.Errorf("symbol records: %w", err)
	}
	if !p.opt.NoStatic && !p.opt.Exported {
		if err := p.readStatic(modules); err != nil {
			return fmt.Errorf("static functions: %w", err)
		}
	}
	if p.size >= nilSize {
		return fmt.Errorf("%d bytes of public symbols are more than the format can have", p.size)
	}
	if err := p.sortByHash(maxSortedNames); err != nil {
		return fmt.Errorf("symbol records: %w", err)
	}
	if err := p.sortByAddress(); err != nil {
		return fmt.Errorf("public symbols: %w", err)
	}
	s.streams[publicRecords] = publicStream{p.size, p.records}
	s.streams[publicPublics] = p.publics()
	s.streams[publicGlobals] = memory(p.globals())
	for _, n := range []int{s.f.dbi.publics, s.f.dbi.record} {
		if s.used[n] {
			return fmt.Errorf("the symbols are in stream %d, which has something else", n)
		}
		s.used[n] = true
	}
	return s.takeStream(RemovedGlobals, s.f.dbi.globals, 0)
}

// hashHeader returns the start of a hash table of n symbols.
func hashHeader(n, buckets int) []byte {
	b := make([]byte, 0, 16)
	for _, v := range []uint32{0xFFFFFFFF, 0xF12F091A, uint32(8 * n), uint32(buckets)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// globals returns the hash table of the other symbols than public ones, of which there are none. It
// has one of the public symbols nevertheless: of a table without symbols, LLVM 19 does not read the bits, and
// lldb crashes when it looks for a name. Readers take no public symbol for another.
func (p *publicSymbols) globals() []byte {
	bits := make([]byte, bucketBits)
	if len(p.list) == 0 {
		return append(hashHeader(0, bucketBits), bits...)
	}
	first := p.list[0]
	bits[first.bucket/8] = 1 << (first.bucket % 8)
	b := hashHeader(1, bucketBits+4)
	b = binary.LittleEndian.AppendUint32(b, first.at+1)
	b = binary.LittleEndian.AppendUint32(b, 1) // one reference
	return append(append(b, bits...), 0, 0, 0, 0)
}

// publicReader reads the public symbols of the input.
type publicReader struct {
	w    window
	size int64
	// other is called with the size of each other record, if it is set.
	other func(bytes int64)
}

// open returns a reader of the public symbols of the input.
func (p *publicSymbols) open() (*publicReader, error) {
	if p.f.dbi.record == noStream {
		return nil, fmt.Errorf("there are none: %w", ErrNotPublic)
	}
	s, err := p.f.section(p.f.dbi.record)
	if err != nil {
		return nil, err
	}
	r := &publicReader{size: s.Size()}
	r.w.reset(s, 0, s.Size())
	return r, nil
}

// next returns the next public symbol, or io.EOF at the end. An end that is not that of a
// record is another error.
func (r *publicReader) next() (rawSymbol, error) {
	for r.w.left() > 0 {
		at, kind, data, err := r.w.record(4)
		switch {
		case err != nil:
			return rawSymbol{}, err
		case kind == 0:
			return rawSymbol{}, fmt.Errorf("no record at offset %d of %d bytes", at, r.size)
		case kind != symPublic && kind != symPublicST:
			if r.other != nil {
				r.other(r.w.off - at)
			}
			continue
		case len(data) < 11:
			return rawSymbol{}, fmt.Errorf("a public symbol of %d bytes at offset %d", len(data), at)
		}
		return rawSymbol{at: uint32(at), flags: u32(data, 0), off: u32(data, 4), seg: u16(data, 8), name: symbolName(kind, data, 10)}, nil
	}
	return rawSymbol{}, io.EOF
}

// shown returns the name of a symbol in the output, and whether it is hidden. The symbol is
// not in the output if ok is false. The name is valid until the next call.
func (p *publicSymbols) shown(r rawSymbol) (name []byte, hidden, ok bool) {
	if r.name, _ = untilNUL(r.name); len(r.name) == 0 || p.exports != nil && !p.isExported(string(r.name)) {
		return nil, false, false
	}
	if len(p.opt.Hide) > 0 || p.opt.Undecorated {
		raw := string(r.name)
		shown, isHidden := p.opt.shown(raw, p.x86)
		if isHidden {
			return []byte(p.hiddenName(r)), true, true
		}
		name = []byte(shown)
	} else {
		name = r.name
	}
	return name[:min(len(name), maxPublicText)], false, true
}

// shown returns the name of a public symbol as the options have it, and whether that is hidden.
func (o PublicOptions) shown(raw string, x86 bool) (name string, hidden bool) {
	opt := demangle.Options{Arch386: x86}
	if len(o.Hide) > 0 {
		read := anonymous(demangle.Name(raw, opt))
		for _, pattern := range o.Hide {
			if glob.Match(pattern, raw) || glob.Match(pattern, read) {
				return "", true
			}
		}
	}
	if !o.Undecorated {
		return raw, false
	}
	if c, _, ok := demangle.ParamBytes(raw); ok {
		raw, opt = c, demangle.Options{}
	}
	name = anonymous(demangle.Bare(raw, opt))
	return name, name == ""
}

// hiddenName returns the name of a symbol that has none: the address in the image.
func (p *publicSymbols) hiddenName(r rawSymbol) string {
	module := p.opt.module()
	if h := p.addr.section(r.seg); h != nil {
		if image, ok := p.addr.toImage(h.start + uint64(r.off)); ok {
			return fmt.Sprintf("%s+0x%x", module, image)
		}
	}
	return fmt.Sprintf("%s+%04x:%08x", module, r.seg, r.off)
}

// module returns the name of the image in hidden names.
func (o PublicOptions) module() string { return cmp.Or(o.Module, "module") }

// isExported reports whether the symbol is exported. Exports of C functions for x86 lack the
// underscore.
func (p *publicSymbols) isExported(raw string) bool {
	if p.exports[raw] {
		return true
	}
	if !p.x86 {
		return false
	}
	if c, _, ok := demangle.ParamBytes(raw); ok && p.exports[c] {
		return true
	}
	c, ok := strings.CutPrefix(raw, "_")
	return ok && p.exports[c]
}

// recordSize returns the size in bytes of a public symbol.
func recordSize(name []byte) int64 { return (publicNameStart + int64(len(name)) + 1 + 3) &^ 3 }

// choose reads the public symbols of the input and decides which of them the output has. It keeps their
// records in memory if these have at most most bytes.
func (p *publicSymbols) choose(s *stripper, most int64) error {
	in, err := p.open()
	if err != nil {
		return err
	}
	p.kept = make([]byte, 0, min(2*in.size+1<<16, most))
	in.other = func(bytes int64) { s.take(RemovedGlobals, 1, bytes) }
	for {
		r, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, hidden, ok := p.shown(r)
		if !ok {
			s.take(RemovedPublics, 1, recordSize(r.name))
			continue
		}
		if hidden {
			p.hidden++
			s.take(RemovedNames, 1, int64(len(r.name)))
		}
		if err := p.add(r, name); err != nil {
			return err
		}
	}
}

// add adds a symbol to the output.
func (p *publicSymbols) add(r rawSymbol, name []byte) error {
	if p.size >= nilSize {
		return errors.New("more than 4 GiB of public symbols")
	}
	p.list = append(p.list, publicSymbol{was: r.at, at: uint32(p.size), seg: r.seg, off: r.off, bucket: uint16(hashText(name) % hashBuckets)})
	p.size += recordSize(name)
	if p.size > int64(cap(p.kept)) {
		p.kept = nil
	} else {
		p.kept = appendPublic(p.kept, r.flags&0xF, r.off, r.seg, name)
	}
	return nil
}

// keptReader reads the symbols of the output in their order.
type keptReader struct {
	p  *publicSymbols
	in *publicReader
	i  int
}

// again returns a reader of the symbols of the output, which reads the input once more.
func (p *publicSymbols) again() (*keptReader, error) {
	in, err := p.open()
	return &keptReader{p: p, in: in}, err
}

// next returns the number, the flags and the name of the next symbol, or io.EOF at the end.
// The name is valid until the next call.
func (k *keptReader) next() (i int, flags uint32, name []byte, err error) {
	p, public := k.p, len(k.p.list)-len(k.p.static)
	for k.i < public {
		r, err := k.in.next()
		if errors.Is(err, io.EOF) {
			return 0, 0, nil, errChanged
		}
		if err != nil {
			return 0, 0, nil, err
		}
		name, _, ok := p.shown(r)
		if !ok {
			continue
		}
		if i = k.i; p.list[i].was != r.at || p.end(i)-int64(p.list[i].at) != recordSize(name) {
			return 0, 0, nil, errChanged
		}
		k.i++
		return i, r.flags & 0xF, name, nil
	}
	if k.i == len(p.list) {
		return 0, 0, nil, io.EOF
	}
	k.i++
	return k.i - 1, publicFunction, []byte(p.static[k.i-1-public].name), nil
}

var errChanged = errors.New("the file changed while it was read")

// publicFunction marks a public symbol as that of a function.
const publicFunction = 2

// end returns the offset behind symbol i in the records of the output.
func (p *publicSymbols) end(i int) int64 {
	if i+1 < len(p.list) {
		return int64(p.list[i+1].at)
	}
	return p.size
}

// records returns the symbol records of the output.
func (p *publicSymbols) records() io.Reader {
	if p.kept != nil {
		return bytes.NewReader(p.kept)
	}
	in, err := p.again()
	var b []byte
	return &pulled{next: func() ([]byte, error) {
		if err != nil {
			return nil, err
		}
		i, flags, name, err := in.next()
		if err != nil {
			return nil, err
		}
		b = appendPublic(b[:0], flags, p.list[i].off, p.list[i].seg, name)
		return b, nil
	}}
}

// appendPublic appends a public symbol to b.
func appendPublic(b []byte, flags, off uint32, seg uint16, name []byte) []byte {
	size := recordSize(name)
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(size-2))
	b = le.AppendUint16(b, symPublic)
	b = le.AppendUint32(b, flags)
	b = le.AppendUint32(b, off)
	b = le.AppendUint16(b, seg)
	b = append(b, name...)
	return append(b, make([]byte, size-publicNameStart-int64(len(name)))...)
}

// sortByHash sorts the symbols by the bucket of their names and these by name. It
// reads the names of so many buckets at once as have at most most bytes, but of one at least.
func (p *publicSymbols) sortByHash(most int64) error {
	p.byHash = make([]uint32, len(p.list))
	var bytesOf [hashBuckets]int64
	for i, s := range p.list {
		p.buckets[s.bucket]++
		bytesOf[s.bucket] += p.end(i) - int64(s.at)
	}
	var next [hashBuckets]uint32
	at := uint32(0)
	for b, n := range p.buckets {
		next[b] = at
		at += n
	}
	for i, s := range p.list {
		p.byHash[next[s.bucket]] = uint32(i)
		next[s.bucket]++
	}
	if p.kept != nil {
		p.sortEach(0, hashBuckets, 0, p.name)
		return nil
	}
	for first, from := 0, 0; first < hashBuckets; {
		last, n, to := first, int64(0), from
		for last < hashBuckets && (last == first || n+bytesOf[last] <= most) {
			n += bytesOf[last]
			to += int(p.buckets[last])
			last++
		}
		if err := p.sortBuckets(first, last, from, n); err != nil {
			return err
		}
		first, from = last, to
	}
	return nil
}

// sortBuckets sorts each of the buckets from first up to last, whose symbols begin at from in
// byHash and whose records have n bytes.
func (p *publicSymbols) sortBuckets(first, last, from int, n int64) error {
	text := make([]byte, 0, n)
	spans := make([]struct{ start, end uint32 }, len(p.list)) // of the names in text
	in, err := p.again()
	for err == nil {
		var i int
		var name []byte
		if i, _, name, err = in.next(); err != nil {
			break
		}
		if b := int(p.list[i].bucket); b >= first && b < last && p.buckets[b] > 1 {
			spans[i].start = uint32(len(text))
			text = append(text, name...)
			spans[i].end = uint32(len(text))
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	p.sortEach(first, last, from, func(i uint32) []byte { return text[spans[i].start:spans[i].end] })
	return nil
}

// sortEach sorts the symbols of each of the buckets by name.
func (p *publicSymbols) sortEach(first, last, from int, name func(i uint32) []byte) {
	type named struct{ i, start, end uint32 }
	var list []named
	var text []byte // the names of a bucket, which fit in the processor's cache
	for _, n := range p.buckets[first:last] {
		part := p.byHash[from : from+int(n)]
		from += len(part)
		if n < 2 {
			continue
		}
		list, text = list[:0], text[:0]
		for _, i := range part {
			start := uint32(len(text))
			text = append(text, name(i)...)
			list = append(list, named{i, start, uint32(len(text))})
		}
		slices.SortFunc(list, func(x, y named) int {
			return cmp.Or(compareNames(text[x.start:x.end], text[y.start:y.end]), cmp.Compare(x.i, y.i))
		})
		for j, e := range list {
			part[j] = e.i
		}
	}
}

// name returns the name of a symbol whose record is in memory.
func (p *publicSymbols) name(i uint32) []byte {
	return nameAt(p.kept, int(p.list[i].at)+publicNameStart)
}

// compareNames orders the names of a bucket, as readers of PDBs expect: shorter ones first,
// those of equal length without regard to case, unless they have other characters than ASCII.
func compareNames(x, y []byte) int {
	if c := cmp.Compare(len(x), len(y)); c != 0 {
		return c
	}
	if !isASCII(x) || !isASCII(y) {
		return bytes.Compare(x, y)
	}
	for i := range x {
		if a, b := x[i], y[i]; a != b {
			if c := cmp.Compare(lower(a), lower(b)); c != 0 {
				return c
			}
		}
	}
	return 0
}

func isASCII(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b)&0x8080808080808080 != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// sortByAddress sorts the symbols by address. Those of one address keep the order that they have in
// the map of the input, if that has one.
func (p *publicSymbols) sortByAddress() error {
	rank, err := p.ranks()
	if err != nil {
		return err
	}
	p.byAddr = make([]uint32, len(p.list))
	for i := range p.byAddr {
		p.byAddr[i] = uint32(i)
	}
	slices.SortFunc(p.byAddr, func(x, y uint32) int {
		a, b := &p.list[x], &p.list[y]
		return cmp.Or(cmp.Compare(a.seg, b.seg), cmp.Compare(a.off, b.off), cmp.Compare(rank[x], rank[y]), cmp.Compare(x, y))
	})
	return nil
}

// ranks returns the place of each symbol in the map of addresses of the input.
func (p *publicSymbols) ranks() ([]uint32, error) {
	rank := make([]uint32, len(p.list))
	for i := range rank {
		rank[i] = 0xFFFFFFFF
	}
	has, err := p.f.hasBytes(p.f.dbi.publics)
	if err != nil || !has {
		return rank, err
	}
	s, err := p.f.section(p.f.dbi.publics)
	if err != nil {
		return nil, err
	}
	var h [28]byte
	if err := readFull(s, h[:], 0); err != nil {
		return nil, err
	}
	start, n := 28+int64(u32(h[:], 0)), int64(u32(h[:], 4))
	if start+n > s.Size() {
		return nil, fmt.Errorf("a map of addresses of %d bytes at offset %d of %d", n, start, s.Size())
	}
	public := p.list[:len(p.list)-len(p.static)]
	var w window
	w.reset(s, start, start+n)
	for place := uint32(0); w.left() >= 4; place++ {
		b, err := w.peek(4)
		if err != nil {
			return nil, err
		}
		was := u32(b, 0)
		w.skip(4)
		if i := sort.Search(len(public), func(i int) bool { return public[i].was >= was }); i < len(public) && public[i].was == was {
			rank[i] = place
		}
	}
	return rank, nil
}

// publics returns the stream with the hash table and the map of addresses.
func (p *publicSymbols) publics() publicStream {
	var table []byte // an empty one has no bits
	if len(p.list) > 0 {
		table = make([]byte, bucketBits)
	}
	at := uint32(0)
	for b, n := range p.buckets {
		if n > 0 {
			table[b/8] |= 1 << (b % 8)
			// A table in memory has 12 bytes for each symbol, and that is what counts.
			table = binary.LittleEndian.AppendUint32(table, 12*at)
			at += n
		}
	}
	n := len(p.list)
	hash := hashHeader(n, len(table))
	h := make([]byte, 28)
	binary.LittleEndian.PutUint32(h, uint32(len(hash)+8*n+len(table)))
	binary.LittleEndian.PutUint32(h[4:], uint32(4*n))
	return publicStream{int64(len(h)+len(hash)+len(table)) + 12*int64(n), func() io.Reader {
		return io.MultiReader(bytes.NewReader(h), bytes.NewReader(hash),
			words(2*n, func(i int) uint32 {
				if i%2 == 1 {
					return 1 // one reference
				}
				return p.list[p.byHash[i/2]].at + 1
			}), bytes.NewReader(table),
			words(n, func(i int) uint32 { return p.list[p.byAddr[i]].at }))
	}}
}

// exported returns the names that the image exports: those of the modules that linkers make.
func (f *File) exported(modules []compiland) (map[string]bool, error) {
	names, size := map[string]bool{}, 0
	for _, m := range modules {
		if m.name != linkerModule && !strings.HasSuffix(strings.ToLower(m.name), ".exp") || m.stream == noStream {
			continue
		}
		err := f.eachSymbol(&window{}, m, func(kind uint16, data []byte) error {
			if kind != symExport {
				return nil
			}
			name := string(nameAt(data, 4))
			if size += len(name) + 32; size > maxExportNames {
				return fmt.Errorf("names of more than %d bytes", maxExportNames)
			}
			names[name] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the PDB does not say what the image exports: take all names: %w", ErrNotPublic)
	}
	return names, nil
}

// eachSymbol calls visit with each symbol of a module but those in functions, which it reads through w.
// The data is valid until the next call.
func (f *File) eachSymbol(w *window, m compiland, visit func(kind uint16, data []byte) error) error {
	s, err := f.section(m.stream)
	if err != nil {
		return err
	}
	if m.symbols > s.Size() {
		return fmt.Errorf("module %.80q: %d bytes of symbols in a stream of %d", m.name, m.symbols, s.Size())
	}
	for w.reset(s, 4, m.symbols); w.left() > 0; {
		at, kind, data, err := w.record(4)
		if err != nil {
			return err
		}
		if kind == 0 {
			return fmt.Errorf("module %.80q: no record at offset %d of %d bytes of symbols", m.name, at, m.symbols)
		}
		if err := visit(kind, data); err != nil {
			return err
		}
		if end := int64(u32(data, 4)); isFunction(kind) && end > w.off && end < m.symbols {
			w.skip(end - w.off) // to its end, which is a symbol too
		}
	}
	return nil
}

// isFunction reports whether a symbol is a function and says where it ends.
func isFunction(kind uint16) bool {
	switch kind {
	case symGlobalProc, symGlobalProcID, symGlobalProcST:
		return true
	}
	return isStatic(kind)
}

// isStatic reports whether a symbol is a static function.
func isStatic(kind uint16) bool {
	switch kind {
	case symLocalProc, symLocalProcID, symLocalProcST, symLocalProcDPC, symLocalDPCID:
		return true
	}
	return false
}

// readStatic reads the static functions at addresses that no public symbol has.
func (p *publicSymbols) readStatic(modules []compiland) error {
	known := make(map[uint64]bool, len(p.list))
	for _, s := range p.list {
		known[uint64(s.seg)<<32|uint64(s.off)] = true
	}
	size := 0
	var w window
	for _, m := range modules {
		if m.stream == noStream || m.symbols <= 4 {
			continue
		}
		err := p.f.eachSymbol(&w, m, func(kind uint16, data []byte) error {
			if !isStatic(kind) {
				return nil
			}
			f := staticFunction{off: u32(data, 28), seg: u16(data, 32)}
			raw := string(symbolName(kind, data, 35))
			key := uint64(f.seg)<<32 | uint64(f.off)
			if raw == "" || known[key] {
				return nil
			}
			known[key] = true
			var hidden bool
			if f.name, hidden = p.opt.shown(raw, p.x86); hidden {
				f.name = p.hiddenName(rawSymbol{off: f.off, seg: f.seg})
				p.hidden++
			}
			f.name = f.name[:min(len(f.name), maxPublicText)]
			if size += len(f.name) + 48; size > maxStaticNames {
				return fmt.Errorf("static functions of more than %d bytes", maxStaticNames)
			}
			p.static = append(p.static, f)
			return p.add(rawSymbol{at: uint32(len(p.static) - 1), flags: publicFunction, seg: f.seg, off: f.off}, []byte(f.name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
