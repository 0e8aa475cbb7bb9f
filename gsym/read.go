package gsym

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/symdepot/symdepot/functab"
)

// Limits of a File.
const (
	maxRecord   = 64 << 20 // bytes of one function
	maxTables   = 1 << 30  // bytes of address and file tables, which are held in memory
	maxText     = 64 << 10
	maxDepth    = 512
	maxEqual    = 16   // entries of one address that are compared
	checkEvery  = 32   // rows between two places where decoding of lines can start
	askedAtOnce = 4096 // functions that are remembered as asked for

	// Memory for decoded functions, as much for texts, and as much for paths: a part of
	// the size of the file, within bounds.
	cachePart = 16
	minCache  = 8 << 20
	maxCache  = 24 << 20

	// A file of up to wholeSize bytes is read into memory when wholeAfter functions were
	// decoded: a read of the system takes longer than decoding a function. A larger one of
	// up to mostWhole bytes is, too, as long as all such files have sharedWhole bytes at most.
	wholeSize   = 64 << 20
	mostWhole   = 256 << 20
	sharedWhole = 512 << 20
	wholeAfter  = 256
)

// wholeBytes is how many bytes of files larger than wholeSize are in memory.
var wholeBytes atomic.Int64

// File looks up addresses in a GSYM file of version 1. It holds the address and
// file tables in memory, 8 bytes a function, and a bounded cache of functions. It
// is safe for concurrent use.
type File struct {
	r      io.ReaderAt
	size   int64
	base   uint64
	uuid   []byte
	n      int // entries
	width  int // bytes of an address offset
	starts []byte
	infos  []byte
	files  []byte

	loads atomic.Int64          // functions that were decoded
	whole atomic.Pointer[whole] // nil: not in memory

	textAt, textEnd int64
	funcs, rawNames records // of the trailer

	mu     sync.Mutex
	byUse  *list.List // of *function, most recently used first
	cached map[int]*list.Element
	used   int64 // bytes
	limit  int64
	asked  []uint64 // a bit for each entry that was decoded lately
	askedN int      // the bits that are set
	names  texts
}

// whole is what a file has behind its tables.
type whole struct {
	text  string // the string table
	valid bool   // text is UTF-8
	end   int64  // of the string table in the file
	rest  []byte // what follows

	// paths are the paths of files that were asked for, by number. left is how many bytes more
	// may be kept.
	paths []atomic.Pointer[string]
	left  atomic.Int64

	// firsts are the numbers of the first entries at or above multiples of 1<<shift.
	firsts []uint32
	shift  int
}

// part returns the bytes of the file from an offset on, if they are in memory.
func (w *whole) part(at int64) (b []byte, ok bool) {
	if w == nil || at < w.end || at-w.end > int64(len(w.rest)) {
		return nil, false
	}
	return w.rest[at-w.end:], true
}

// record returns what a record at an offset of the file may have, if that is in memory.
func (w *whole) record(at int64) (b []byte, ok bool) {
	b, ok = w.part(at)
	return b[:min(len(b), maxRecord)], ok
}

// NewFile reads the header and the tables of the GSYM file in the first size bytes
// of r. cacheBytes limits each of the memories for decoded functions, texts and paths; 0
// means a sixteenth of the size, and at least 8 and at most 24 MiB. An error
// wraps ErrFormat or is one of r.
func NewFile(r io.ReaderAt, size, cacheBytes int64) (*File, error) {
	f := &File{r: r, size: size, limit: cacheBytes, byUse: list.New(), cached: map[int]*list.Element{}}
	if f.limit <= 0 {
		f.limit = max(minCache, min(size/cachePart, maxCache))
	}
	f.names.limit = int(f.limit)
	head, err := f.read(0, headerSize)
	if err != nil {
		return nil, err
	}
	if m, v := le.Uint32(head), le.Uint16(head[4:]); m != magic || v != version {
		return nil, fmt.Errorf("%w: magic %#x, version %d; want %#x, version 1, little-endian", ErrFormat, m, v, magic)
	}
	f.width, f.base, f.n = int(head[6]), le.Uint64(head[8:]), int(le.Uint32(head[16:]))
	if n := int(head[7]); n <= uuidSize {
		f.uuid = head[28 : 28+n]
	} else {
		return nil, fmt.Errorf("%w: UUID of %d bytes", ErrFormat, n)
	}
	f.textAt = int64(le.Uint32(head[20:]))
	f.textEnd = f.textAt + int64(le.Uint32(head[24:]))
	switch f.width {
	case 1, 2, 4, 8:
	default:
		return nil, fmt.Errorf("%w: address offsets of %d bytes", ErrFormat, f.width)
	}
	if f.textEnd > size {
		return nil, fmt.Errorf("%w: the string table ends after the end of the file", ErrFormat)
	}
	at := int64(headerSize)
	if f.starts, err = f.read(at, int64(f.n)*int64(f.width)); err != nil {
		return nil, err
	}
	at = (at + int64(len(f.starts)) + 3) &^ 3
	if f.infos, err = f.read(at, int64(f.n)*4); err != nil {
		return nil, err
	}
	at += int64(len(f.infos))
	count, err := f.read(at, 4)
	if err != nil {
		return nil, err
	}
	if f.files, err = f.read(at+4, int64(le.Uint32(count))*8); err != nil {
		return nil, err
	}
	return f, f.readTrailer()
}

// Memory returns how many bytes the tables have and the memories may have together.
func (f *File) Memory() int64 {
	n := 3*f.limit + int64(len(f.starts)+len(f.infos)+len(f.files))
	if f.size <= mostWhole {
		n += f.size + 4*int64(f.n)
	}
	return n
}

// read returns bytes of the file. The caller limits n where it does not come from
// the size of a table.
func (f *File) read(at, n int64) ([]byte, error) { return f.readTo(nil, at, n) }

// readTo is read into the memory of b, if that is large enough.
func (f *File) readTo(b []byte, at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > f.size || n > f.size-at || n > maxTables {
		return nil, fmt.Errorf("%w: %d bytes at %d of %d bytes", ErrFormat, n, at, f.size)
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	b = b[:n]
	if p, ok := f.whole.Load().part(at); ok {
		copy(b, p)
		return b, nil
	}
	if k, err := f.r.ReadAt(b, at); int64(k) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("gsym: %d bytes at %d: %w", n, at, err)
	}
	return b, nil
}

// readTrailer finds the trailer. A file of another producer has none.
func (f *File) readTrailer() error {
	if f.size < headerSize+trailerHead+trailerEnd {
		return nil
	}
	end, err := f.read(f.size-trailerEnd, trailerEnd)
	if err != nil {
		return err
	}
	at, n := le.Uint64(end), int64(le.Uint32(end[8:]))
	if le.Uint32(end[12:]) != trailerMagic || at > uint64(f.size) || int64(at)+n+trailerEnd != f.size || n < trailerHead {
		return nil
	}
	head, err := f.read(int64(at), trailerHead)
	if err != nil {
		return err
	}
	if le.Uint32(head) != trailerMagic || le.Uint32(head[4:]) != trailerVersion {
		return nil
	}
	funcs, names := int64(le.Uint32(head[8:])), int64(le.Uint32(head[12:]))
	if trailerHead+funcs*trailerFunc+names*trailerName != n {
		return fmt.Errorf("%w: the trailer has %d bytes for %d functions and %d names", ErrFormat, n, funcs, names)
	}
	f.funcs = records{at: int64(at) + trailerHead, n: funcs, size: trailerFunc}
	f.rawNames = records{at: f.funcs.at + funcs*trailerFunc, n: names, size: trailerName}
	return nil
}

// Base returns the address that RVAs are relative to: in files that Write made, the
// preferred base of the module, in others often 0.
func (f *File) Base() uint64 { return f.base }

// UUID returns the id of the module, at most 20 bytes.
func (f *File) UUID() []byte { return slices.Clone(f.uuid) }

// Len returns the number of functions and symbols.
func (f *File) Len() int { return f.n }

// start returns the address of an entry, relative to the base.
func (f *File) start(i int) uint64 {
	b := f.starts[i*f.width:]
	switch f.width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(le.Uint16(b))
	case 4:
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}

// last returns the number of the last entry at or below rva, or -1.
func (f *File) last(rva uint64) int {
	first, end := 0, f.n
	if w := f.whole.Load(); w != nil {
		first, end = w.between(rva, f.n)
	}
	for first < end { // the first one above rva
		half := int(uint(first+end) >> 1)
		if f.start(half) > rva {
			end = half
		} else {
			first = half + 1
		}
	}
	return first - 1
}

// Lookup describes the code at rva, the address minus Base. ok is
// false if no function contains it, and after an end marker. The answer is that of
// functab.Table.Lookup for the tables that Write was given. An error wraps ErrFormat
// or is one of the reader.
func (f *File) Lookup(rva uint64) (answer functab.Answer, ok bool, err error) {
	return f.lookup(rva, nil, true)
}

// LookupShown is Lookup without raw names: each Raw is empty. It is faster, because raw
// names are in other places of the file than the functions. The frames of the answer
// are in the memory of frames, if that is large enough.
func (f *File) LookupShown(rva uint64, frames []functab.Line) (answer functab.Answer, ok bool, err error) {
	return f.lookup(rva, frames, false)
}

// lookup is Lookup; raw asks for raw names.
func (f *File) lookup(rva uint64, frames []functab.Line, raw bool) (answer functab.Answer, ok bool, err error) {
	i := f.last(rva)
	if i < 0 {
		return functab.Answer{}, false, nil
	}
	s := scratches.Get().(*scratch)
	defer s.put()
	if ok, err := f.locate(&s.site, i, rva); !ok || err != nil {
		return functab.Answer{}, false, err
	}
	answer, err = f.answer(&s.site, frames[:0], raw)
	return answer, err == nil && !(s.site.symbol && functab.IsMarker(s.site.name)), err
}

// locate finds an address in the function of an entry, which is the last one at or below it.
func (f *File) locate(s *site, i int, rva uint64) (ok bool, err error) {
	if i == 0 || f.start(i-1) != f.start(i) {
		if b, ok := f.whole.Load().record(int64(le.Uint32(f.infos[4*i:]))); ok && f.isScanned(i) {
			if ok, err = f.scan(s, i, rva, b); err != nil {
				err = fmt.Errorf("function at %#x: %w", f.start(i), err)
			}
			return ok, err
		}
	}
	fn, err := f.best(i, rva)
	if err != nil || fn == nil {
		return false, err
	}
	s.at(fn, rva)
	fn.free()
	return true, nil
}

// isScanned reports whether addresses are found in the record of an entry without decoding all of it:
// if it is short, or is asked for after a long time.
func (f *File) isScanned(i int) bool {
	if i+1 < f.n && le.Uint32(f.infos[4*(i+1):])-le.Uint32(f.infos[4*i:]) <= maxScan {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cached[i] == nil && !f.ask(i)
}

// best returns the function with the most detail of those that start where entry i
// does and contain rva, or nil. The caller frees it.
func (f *File) best(i int, rva uint64) (*function, error) {
	start := f.start(i)
	var best *function
	for k := i; k >= 0 && i-k < maxEqual && f.start(k) == start; k-- {
		fn, err := f.function(k)
		if err != nil {
			best.free()
			return nil, err
		}
		if fn.size > 0 && rva-start >= uint64(fn.size) {
			fn.free()
			continue
		}
		if best == nil || fn.detail() >= best.detail() {
			best, fn = fn, best
		}
		fn.free()
	}
	return best, nil
}

// detail orders functions of one address.
func (fn *function) detail() int {
	d := 0
	if len(fn.checks) > 0 {
		d += 2
	}
	if len(fn.calls) > 0 {
		d++
	}
	return d
}

// answer describes an address; raw asks for raw names too.
func (f *File) answer(s *site, frames []functab.Line, raw bool) (functab.Answer, error) {
	a := functab.Answer{FunctionStart: s.start, FunctionSize: s.size, Symbol: s.symbol}
	a.Frames = slices.Grow(frames, len(s.calls)+1)
	file, line := s.row.file, s.row.line
	for _, c := range slices.Backward(s.calls) {
		l := functab.Line{}
		var err error
		if l.Function, err = f.name(c.name); err == nil && raw {
			l.Raw, err = f.rawOfName(c.name)
		}
		if err == nil {
			err = f.place(&l, file, line)
		}
		if err != nil {
			return a, err
		}
		a.Frames = append(a.Frames, l)
		file, line = c.file, c.line
	}
	l := functab.Line{Function: s.name}
	var err error
	if raw {
		l.Raw, err = f.rawOfFunction(s.entry)
	}
	if err == nil {
		err = f.place(&l, file, line)
	}
	a.Frames = append(a.Frames, l)
	return a, err
}

// place sets the position of a frame: no line without a file.
func (f *File) place(l *functab.Line, file, line uint32) (err error) {
	if line != 0 {
		l.File, err = f.path(file)
	}
	if l.File != "" {
		l.Line = line
	}
	return err
}

// text returns a text of the string table.
func (f *File) text(at uint32) (string, error) {
	from := f.textAt + int64(at)
	if from >= f.textEnd {
		return "", fmt.Errorf("%w: no text at %d of the string table", ErrFormat, at)
	}
	if w := f.whole.Load(); w != nil {
		part := w.text[at:min(int64(len(w.text)), int64(at)+maxText)]
		n := strings.IndexByte(part, 0)
		if n >= 0 {
			part = part[:n]
		}
		if n >= 0 && w.valid && (n == 0 || utf8.RuneStart(part[0])) {
			return part, nil
		}
		return strings.ToValidUTF8(part, "\uFFFD"), nil
	}
	s := scratches.Get().(*scratch)
	defer s.put()
	for n := int64(2048); ; n *= 8 {
		part, err := f.readTo(s.bytes, from, min(n, f.textEnd-from, maxText))
		if err != nil {
			return "", err
		}
		s.bytes = part
		end := bytes.IndexByte(part, 0)
		switch {
		case end >= 0:
			part = part[:end]
		case int64(len(part)) < min(f.textEnd-from, maxText):
			continue
		}
		return validText(part), nil
	}
}

// validText returns a copy of b as valid UTF-8.
func validText(b []byte) string {
	if utf8.Valid(b) { // nearly always, and found out faster
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// readWhole reads the file into memory if that is worth it. An error leaves it where it is:
// another read has it too.
func (f *File) readWhole() {
	if f.size > mostWhole || f.loads.Load() >= wholeAfter || f.loads.Add(1) != wholeAfter {
		return
	}
	if f.size > wholeSize {
		if wholeBytes.Add(f.size) > sharedWhole {
			wholeBytes.Add(-f.size)
			return
		}
		runtime.AddCleanup(f, func(size int64) { wholeBytes.Add(-size) }, f.size)
	}
	w := &whole{end: f.textEnd, rest: make([]byte, f.size-f.textEnd)}
	if n := len(f.files) / 8; int64(8*n) < f.limit {
		w.paths = make([]atomic.Pointer[string], n)
		w.left.Store(f.limit - int64(8*n))
	}
	w.group(f)
	var text strings.Builder
	text.Grow(int(f.textEnd - f.textAt))
	if n, _ := io.Copy(&text, io.NewSectionReader(f.r, f.textAt, f.textEnd-f.textAt)); n != f.textEnd-f.textAt {
		return
	}
	if n, _ := f.r.ReadAt(w.rest, f.textEnd); n == len(w.rest) {
		w.text = text.String()
		w.valid = utf8.ValidString(w.text)
		f.whole.Store(w)
	}
}

// group makes the list of first entries: about half as many as there are entries.
func (w *whole) group(f *File) {
	if f.n == 0 {
		return
	}
	most := f.start(f.n - 1)
	w.shift = max(0, bits.Len64(most)-bits.Len(uint(f.n))+1)
	n := int(most>>w.shift) + 1
	w.firsts = make([]uint32, 0, n)
	for i := range f.n {
		for len(w.firsts) < n && uint64(len(w.firsts))<<w.shift <= f.start(i) {
			w.firsts = append(w.firsts, uint32(i))
		}
	}
}

// between returns the numbers of two of n entries; the first entry above an address is one of them or
// between them.
func (w *whole) between(rva uint64, n int) (first, end int) {
	k := rva >> w.shift
	if k >= uint64(len(w.firsts)) {
		return 0, n
	}
	first, end = int(w.firsts[k]), n
	if k+1 < uint64(len(w.firsts)) {
		end = int(w.firsts[k+1])
	}
	return first, end
}

// path returns the path of a file, which load makes the first time.
func (w *whole) path(number uint32, load func(number uint32) (string, error)) (string, error) {
	if p := w.paths[number].Load(); p != nil {
		return *p, nil
	}
	s, err := load(number)
	if size := int64(len(s)) + 24; err == nil && w.left.Load() >= size {
		w.left.Add(-size)
		w.paths[number].Store(&s)
	}
	return s, err
}

// scratch is memory for decoding, which is used again.
type scratch struct {
	bytes  []byte
	checks []check
	calls  []call
	ranges []functab.Range
	bases  []uint64
	open   []int
	fn     function
	site   site
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxScratch is how many bytes of a record are kept for the next one.
const maxScratch = 256 << 10

func (s *scratch) put() {
	s.fn, s.site = function{}, site{calls: s.site.calls[:0]}
	if cap(s.bytes) <= maxScratch && len(s.checks)+len(s.calls)+len(s.ranges) <= maxScratch/32 {
		scratches.Put(s)
	}
}

// texts are names and paths that were read. When they exceed their limit, those that
// were not used for the longest time are forgotten.
type texts struct {
	recent, older map[textKey]string
	size          int // bytes of recent
	limit         int // of the bytes of both
}

// textKey names a text.
type textKey struct {
	kind textKind
	at   uint32
}

// textKind says what the number of a textKey is.
type textKind uint8

const (
	textAt        textKind = iota // an offset in the string table
	filePath                      // the number of a file
	rawOfName                     // the offset of a shown name in the string table
	rawOfFunction                 // the number of an entry
)

// get returns a text that was read.
func (t *texts) get(k textKey) (string, bool) {
	if s, ok := t.recent[k]; ok {
		return s, true
	}
	s, ok := t.older[k]
	if ok {
		t.put(k, s)
	}
	return s, ok
}

// put keeps a text.
func (t *texts) put(k textKey, s string) {
	size := len(s) + 64
	if t.recent == nil || t.size+size > t.limit/2 {
		t.older, t.recent, t.size = t.recent, map[textKey]string{}, 0
	}
	t.size += size
	t.recent[k] = s
}

// textOf returns the result of load for a key. Results are kept within a limit.
func (f *File) textOf(k textKey, load func(f *File, at uint32) (string, error)) (string, error) {
	f.mu.Lock()
	s, ok := f.names.get(k)
	f.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := load(f, k.at)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names.put(k, s)
	return s, nil
}

// name returns the shown name of an inlined function.
func (f *File) name(at uint32) (s string, err error) {
	if f.whole.Load() != nil {
		s, err = f.text(at)
	} else {
		s, err = f.textOf(textKey{textAt, at}, (*File).text)
	}
	if s == "" {
		s = functab.Omitted
	}
	return s, err
}

// rawOfName returns the raw name that belongs to the name of an inlined function, or "".
func (f *File) rawOfName(at uint32) (string, error) {
	return f.textOf(textKey{rawOfName, at}, func(f *File, at uint32) (string, error) {
		rec, err := f.find(&f.rawNames, at)
		if rec == nil || err != nil {
			return "", err
		}
		return f.text(le.Uint32(rec[4:]))
	})
}

// rawOfFunction returns the raw name of an entry, or "".
func (f *File) rawOfFunction(entry int) (string, error) {
	return f.textOf(textKey{rawOfFunction, uint32(entry)}, func(f *File, entry uint32) (string, error) {
		raw, _, err := f.extra(entry)
		return raw, err
	})
}

// extra returns what the trailer says of an entry: its raw name and flags.
func (f *File) extra(entry uint32) (raw string, flags uint32, err error) {
	rec, err := f.find(&f.funcs, entry)
	if rec == nil || err != nil {
		return "", 0, err
	}
	if at := le.Uint32(rec[4:]); at != 0 {
		raw, err = f.text(at)
	}
	return raw, le.Uint32(rec[8:]), err
}

// records is a list of records of the trailer in ascending order of their first
// four bytes, their number.
type records struct {
	at, n, size int64 // offset of the list, number of records, bytes of one

	mu    sync.Mutex
	marks []uint32 // numbers of every markStep-th record; guarded by mu
}

// markStep is the number of records that one read fetches.
const markStep = 64

// find returns the record with the given number, or nil.
func (f *File) find(r *records, number uint32) ([]byte, error) {
	marks, err := f.marksOf(r)
	if err != nil {
		return nil, err
	}
	i := sort.Search(len(marks), func(i int) bool { return marks[i] > number }) - 1
	if i < 0 {
		return nil, nil
	}
	first := int64(i) * markStep
	list, err := f.read(r.at+first*r.size, min(markStep, r.n-first)*r.size)
	if err != nil {
		return nil, err
	}
	size := int(r.size)
	n := len(list) / size
	k := sort.Search(n, func(k int) bool { return le.Uint32(list[k*size:]) >= number })
	if k == n || le.Uint32(list[k*size:]) != number {
		return nil, nil
	}
	return list[k*size : (k+1)*size], nil
}

// marksOf reads the marks of r, the first time.
func (f *File) marksOf(r *records) ([]uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.marks != nil || r.n == 0 {
		return r.marks, nil
	}
	const atOnce = 128 * markStep
	marks := make([]uint32, 0, (r.n+markStep-1)/markStep)
	for first := int64(0); first < r.n; first += atOnce {
		list, err := f.read(r.at+first*r.size, min(atOnce, r.n-first)*r.size)
		if err != nil {
			return nil, err
		}
		for ; len(list) > 0; list = list[min(int64(len(list)), markStep*r.size):] {
			marks = append(marks, le.Uint32(list))
		}
	}
	r.marks = marks
	return marks, nil
}

// path returns the path of a file, or "" for an unknown one.
func (f *File) path(number uint32) (string, error) {
	if number == 0 || int64(number) >= int64(len(f.files)/8) {
		return "", nil
	}
	if w := f.whole.Load(); w != nil && w.paths != nil {
		return w.path(number, f.joined)
	}
	return f.textOf(textKey{filePath, number}, (*File).joined)
}

// joined joins the folder and the name of a file.
func (f *File) joined(number uint32) (string, error) {
	rec := f.files[8*number:]
	var part [2]string
	for i := range part {
		at := le.Uint32(rec[4*i:])
		if at == 0 {
			continue
		}
		var err error
		if part[i], err = f.textOf(textKey{textAt, at}, (*File).text); err != nil {
			return "", err
		}
	}
	path := joinPath(part[0], part[1])
	if path == unknownFile {
		path = ""
	}
	return path, nil
}

// function returns a decoded function. It is kept while the cache has room, if it was decoded
// a short time before, too: an address that is asked for once needs no memory. The caller frees
// it.
func (f *File) function(i int) (*function, error) {
	f.mu.Lock()
	if e := f.cached[i]; e != nil {
		f.byUse.MoveToFront(e)
		f.mu.Unlock()
		return e.Value.(*function), nil
	}
	again := f.ask(i)
	f.mu.Unlock()
	if !again {
		s := scratches.Get().(*scratch)
		s.fn.scratch = s
		if err := f.decode(i, &s.fn, s); err != nil {
			s.put()
			return nil, fmt.Errorf("function at %#x: %w", f.start(i), err)
		}
		return &s.fn, nil
	}
	fn, err := f.load(i)
	if err != nil {
		return nil, fmt.Errorf("function at %#x: %w", f.start(i), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cached[i] != nil || fn.cost > f.limit {
		return fn, nil
	}
	f.cached[i] = f.byUse.PushFront(fn)
	for f.used += fn.cost; f.used > f.limit; {
		old := f.byUse.Remove(f.byUse.Back()).(*function)
		delete(f.cached, old.entry)
		f.used -= old.cost
	}
	return fn, nil
}

// ask notes that an entry is decoded, and reports whether it was lately. The caller holds mu.
func (f *File) ask(i int) (again bool) {
	if f.askedN >= askedAtOnce {
		clear(f.asked)
		f.askedN = 0
	}
	if f.asked == nil {
		f.asked = make([]uint64, (f.n+63)/64)
	}
	bit := uint64(1) << (i % 64)
	if f.asked[i/64]&bit != 0 {
		return true
	}
	f.asked[i/64] |= bit
	f.askedN++
	return false
}

// load reads and decodes the record of an entry.
func (f *File) load(i int) (*function, error) {
	s := scratches.Get().(*scratch)
	defer s.put()
	fn := &function{}
	return fn, f.decode(i, fn, s)
}

// decode reads and decodes the record of an entry into fn, with the working memory s.
func (f *File) decode(i int, fn *function, s *scratch) error {
	f.readWhole()
	at := int64(le.Uint32(f.infos[4*i:]))
	guess := int64(1024)
	if i+1 < f.n {
		if next := int64(le.Uint32(f.infos[4*(i+1):])); next > at {
			guess = min(next-at, 1<<20)
		}
	}
	var b []byte
	keep := bytes.Clone
	p, inMemory := f.whole.Load().record(at)
	if inMemory {
		b = p
	}
	if inMemory || fn.scratch != nil {
		keep = func(b []byte) []byte { return b }
	}
	need := func(n int) error {
		if n <= len(b) {
			return nil
		}
		if n > maxRecord {
			return fmt.Errorf("%w: a record of more than %d bytes", ErrFormat, maxRecord)
		}
		var err error
		b, err = f.readTo(s.bytes, at, max(int64(n), min(max(guess, 2*int64(len(b))), f.size-at, maxRecord)))
		if err == nil {
			s.bytes = b
		}
		return err
	}
	if err := need(8); err != nil {
		return err
	}
	fn.entry, fn.start, fn.size = i, f.start(i), le.Uint32(b)
	nameAt := le.Uint32(b[4:])
	for pos := 8; ; {
		if err := need(pos + 8); err != nil {
			return err
		}
		kind, n := le.Uint32(b[pos:]), le.Uint32(b[pos+4:])
		pos += 8
		if kind == infoEnd {
			break
		}
		if n > maxRecord {
			return fmt.Errorf("%w: information of %d bytes", ErrFormat, n)
		}
		if err := need(pos + int(n)); err != nil {
			return err
		}
		body := b[pos : pos+int(n)]
		pos += int(n)
		var err error
		switch kind {
		case infoLines:
			err = fn.decodeLines(keep(body), s)
		case infoInline:
			err = fn.decodeCalls(body, s)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if fn.name, fn.symbol, err = f.nameOf(i, nameAt, fn.detail() > 0, fn.size); err != nil {
		return err
	}
	fn.cost = int64(256 + len(fn.lines) + 32*cap(fn.checks) + 40*cap(fn.calls) + 16*cap(fn.ranges) + len(fn.name))
	return nil
}

// nameOf returns the name of an entry, and whether it is a symbol. One that is detailed, with rows or
// inlined calls, is none, so that the trailer is read for few functions.
func (f *File) nameOf(i int, nameAt uint32, detailed bool, size uint32) (name string, symbol bool, err error) {
	if name, err = f.text(nameAt); err != nil {
		return "", false, err
	}
	if name == "" {
		name = functab.Omitted
	}
	if detailed || size == 0 {
		return name, !detailed, nil
	}
	_, flags, err := f.extra(uint32(i))
	return name, flags&flagSymbol != 0, err
}

// Read adds all functions and symbols of the file to b, and sets the base and the
// UUID of its module.
func (f *File) Read(ctx context.Context, b *functab.Builder) error {
	m := b.Module()
	m.Base, m.UUID = f.base, f.UUID()
	b.SetModule(m)
	files := map[uint32]functab.FileID{}
	file := func(number uint32) (functab.FileID, error) {
		id, ok := files[number]
		if !ok {
			path, err := f.path(number)
			if err != nil {
				return 0, err
			}
			id = b.File(path)
			files[number] = id
		}
		return id, nil
	}
	for i := range f.n {
		if err := ctx.Err(); err != nil {
			return err
		}
		fn, err := f.load(i)
		if err != nil {
			return fmt.Errorf("function at %#x: %w", f.start(i), err)
		}
		raw, flags, err := f.extra(uint32(i))
		if err != nil {
			return fmt.Errorf("function at %#x: %w", fn.start, err)
		}
		id, params, multiple := b.Name(fn.name, raw), flags&paramsMask, flags&flagMultiple != 0
		if fn.symbol {
			if err := b.Symbol(functab.Symbol{Address: fn.start, Size: fn.size, Name: id, Params: params, Multiple: multiple}); err != nil {
				return err
			}
			continue
		}
		out := functab.Function{Start: fn.start, Size: fn.size, Name: id, Params: params, Multiple: multiple}
		for r := range fn.rows() {
			id, err := file(r.file)
			if err != nil {
				return err
			}
			if id == 0 {
				r.line = 0
			}
			out.Rows = append(out.Rows, functab.Row{Start: fn.start + r.at, File: id, Line: r.line})
		}
		for k := range fn.calls {
			c := &fn.calls[k]
			shown, err := f.name(c.name)
			if err != nil {
				return err
			}
			raw, err := f.rawOfName(c.name)
			if err != nil {
				return err
			}
			in := functab.Inline{Depth: c.depth, Name: b.Name(shown, raw), CallLine: c.line, Ranges: fn.ranges[c.first:c.end]}
			if in.CallFile, err = file(c.file); err != nil {
				return err
			}
			out.Inlines = append(out.Inlines, in)
		}
		if err := b.Add(out); err != nil {
			return err
		}
	}
	return nil
}
