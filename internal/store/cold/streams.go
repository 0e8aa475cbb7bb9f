package cold

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/symdepot/symdepot/internal/store/deflate"
	"github.com/symdepot/symdepot/internal/store/zstdseq"
)

const (
	// Streams are looked for as long as searchTime, and a second longer for each
	// searchBytes of the content.
	searchTime  = 10 * time.Second
	searchBytes = 4 << 20
	// maxFailures is how many streams of unknown programs are tried.
	maxFailures = 8
)

// Unpack finds the streams of deflate and zstd of src that can be made again of their bytes: compressed
// sections, members of archives, folders of cabinets. If there are none, it finds the hashes of types of a PDB.
// The result stands for the same content; its cold files hold the streams unpacked, and not the hashes. A
// stream that is damaged, of an unknown program, or takes too long stays as it is.
func Unpack(ctx context.Context, src Source) (Source, error) {
	return unpack(ctx, src, true)
}

// UnpackBase is Unpack for a base, of which no stream has to be made again.
func UnpackBase(ctx context.Context, src Source) (Source, error) {
	return unpack(ctx, src, false)
}

// Unpacked says whether the content has streams that are unpacked.
func (s *Source) Unpacked() bool { return s.layout != nil }

func unpack(ctx context.Context, src Source, recipes bool) (Source, error) {
	limit, cancel := context.WithTimeout(ctx, searchTime+time.Duration(src.Size/searchBytes)*time.Second)
	defer cancel()
	e := workers.Get().(*encoder)
	defer workers.Put(e)
	if !recipes {
		if b := e.bases.find(&src); b != nil {
			return src.withLayout(b.layout, nil), nil
		}
	}
	f := &e.finder
	f.begin(limit, src, recipes)
	defer f.end()
	err := f.search()
	if err == nil {
		err = f.hashes()
	}
	if ctx.Err() != nil {
		return src, ctx.Err()
	}
	if err != nil && limit.Err() == nil {
		return src, err
	}
	if len(f.streams) == 0 {
		if !recipes && err == nil {
			e.bases.add(&src, nil)
		}
		return src, nil
	}
	var lens []int64
	var tail []byte
	newer := false
	for i := range f.streams {
		if f.streams[i].Kind == typeHashes { // its recipe stays in the layout
			lens = append(lens, 0)
			continue
		}
		r := f.streams[i].Recipe
		newer = newer || deflate.Newer(r)
		lens, tail = append(lens, int64(len(r))), append(tail, r...)
		f.streams[i].Recipe = nil
	}
	l := newLayout(src.Size, f.streams, lens)
	l.newer = newer
	if !recipes && err == nil {
		e.bases.add(&src, l)
	}
	return src.withLayout(l, tail), nil
}

// withLayout is the unpacked form of a content that has a layout, and recipes; the content itself if that is nil.
func (s Source) withLayout(l *layout, recipes []byte) Source {
	if l != nil {
		u := newUnpacker(s.ReaderAt, l, 4) // it is read from begin to end
		u.tail = recipes
		s.ReaderAt, s.layout = u, l
	}
	return s
}

// bases are the last bases whose streams were found: many contents have the same.
type bases struct {
	last [4]foundBase
	n    int
}

type foundBase struct {
	sum    [32]byte // zeros if there is none
	size   int64
	layout *layout // nil without streams
}

// find returns what is remembered of a base, or nil.
func (b *bases) find(src *Source) *foundBase {
	for i := range b.last {
		if f := &b.last[i]; f.sum == src.Sum && f.size == src.Size && f.sum != [32]byte{} {
			return f
		}
	}
	return nil
}

// add adds a base.
func (b *bases) add(src *Source, l *layout) {
	b.last[b.n%len(b.last)] = foundBase{src.Sum, src.Size, l}
	b.n++
}

// finder looks for streams.
type finder struct {
	ctx      context.Context
	src      Source
	recipes  bool
	analyzer deflate.Analyzer
	frames   zstdseq.Analyzer
	streams  []deflate.Stream
	failures int
	named    int    // bytes that name the streams
	buf      []byte // of search
}

func (f *finder) begin(ctx context.Context, src Source, recipes bool) {
	f.ctx, f.src, f.recipes = ctx, src, recipes
	f.streams, f.failures, f.named = nil, 0, 0
	if f.buf == nil {
		f.buf = make([]byte, searchSize+headSize)
	}
}

// end lets go of what is not memory.
func (f *finder) end() { f.ctx, f.src, f.streams = nil, Source{}, nil }

const (
	searchSize = 1 << 20
	// headSize is how many bytes the head of a stream has at most.
	headSize = 512
)

// begins and goesOn tell quickly whether two bytes can begin a stream: begins[first]&goesOn[second] is not 0. Each
// bit stands for a format: zlib, gzip, zip archives, cabinets, zstd.
var (
	begins = [256]uint8{0x78: 1, 0x1f: 2, 'P': 4, 'M': 8, 0x28: 16}
	goesOn = [256]uint8{0x01: 1, 0x5e: 1, 0x9c: 1, 0xda: 1, 0x8b: 2, 'K': 4, 'S': 8, 0xb5: 16}
)

// search looks at each byte that is in no stream.
func (f *finder) search() error {
	for at := int64(0); at < f.src.Size; {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		b := f.buf[:min(int64(len(f.buf)), f.src.Size-at)]
		if err := readAll(f.src, b, at); err != nil {
			return err
		}
		n := min(searchSize, len(b))
		next := at + int64(n)
		for i := 0; i < n; i++ {
			if k := begins[b[i]]; k == 0 || i+1 == len(b) || k&goesOn[b[i+1]] == 0 {
				continue
			}
			end, err := f.look(b[i:], at+int64(i))
			if err != nil {
				return err
			}
			if end == 0 {
				continue
			}
			if i = int(min(end-at, int64(n))) - 1; end > next {
				next = end
			}
		}
		if f.failures >= maxFailures || len(f.streams) >= maxStreams || f.named > maxLayout/4 {
			return nil
		}
		at = next
	}
	return nil
}

// look looks for streams whose heads are at the begin of b, at a place of the content, and returns
// where they end; 0 if there are none.
func (f *finder) look(b []byte, at int64) (end int64, err error) {
	if b[0] == zstdseq.Magic[0] {
		if bytes.HasPrefix(b, []byte(zstdseq.Magic)) {
			return f.frame(at)
		}
		return 0, nil
	}
	if head := streamHead(b[:min(len(b), headSize)]); head > 0 {
		return f.try(at + int64(head))
	}
	if isCabinet(b) {
		return f.cabinet(at)
	}
	return 0, nil
}

// streamHead is how many bytes at the begin of b are the head of a deflate stream; 0 if they are
// none: of zlib, of gzip, or of a member of a zip archive.
func streamHead(b []byte) int {
	if len(b) < 18 {
		return 0
	}
	switch {
	case b[0] == 0x78: // deflate, window of 32 KiB, no dictionary, check bits
		if b[1]&0x20 == 0 && (uint(b[0])<<8|uint(b[1]))%31 == 0 {
			return 2
		}
	case b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 && b[3]&^0x1f == 0:
		return gzipHead(b)
	case string(b[:4]) == "PK\x03\x04" && len(b) >= 30 && b[8] == 8 && b[9] == 0:
		return 30 + int(binary.LittleEndian.Uint16(b[26:])) + int(binary.LittleEndian.Uint16(b[28:]))
	}
	return 0
}

// gzipHead is the length of the head of a gzip stream.
func gzipHead(b []byte) int {
	flags, n := b[3], 10
	if flags&4 != 0 {
		n += 2 + int(binary.LittleEndian.Uint16(b[n:]))
	}
	for _, text := range []byte{8, 16} { // name, comment
		if flags&text == 0 {
			continue
		}
		for n < len(b) && b[n] != 0 {
			n++
		}
		n++
	}
	if flags&2 != 0 {
		n += 2
	}
	if n > len(b) {
		return 0
	}
	return n
}

// try looks for a stream at a place, and returns where it ends; 0 if there is none.
func (f *finder) try(at int64) (end int64, err error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if at >= f.src.Size || f.failures >= maxFailures || len(f.streams) >= maxStreams {
		return 0, nil
	}
	ok, err := f.analyzer.Probe(f.ctx, f.src, at, f.src.Size)
	if err != nil {
		return 0, f.passed(err)
	}
	if !ok {
		f.failures++
		return 0, nil
	}
	s := deflate.Stream{At: at}
	if f.recipes {
		s, err = f.analyzer.Analyze(f.ctx, f.src, at, f.src.Size)
	} else {
		s.Size, s.Len, err = f.analyzer.Measure(f.ctx, f.src, at, f.src.Size)
	}
	if err != nil {
		f.failures++
		return 0, f.passed(err)
	}
	if s.Size < deflate.MinStream {
		return s.At + s.Len, nil
	}
	f.found(s)
	return s.At + s.Len, nil
}

// found takes a stream.
func (f *finder) found(s deflate.Stream) {
	f.streams = append(f.streams, s)
	f.named += 32
}

// passed drops the error of bytes that are no stream.
func (f *finder) passed(err error) error {
	if errors.Is(err, deflate.ErrRefused) || errors.Is(err, zstdseq.ErrRefused) || errors.Is(err, io.EOF) || deflate.IsRecipe(err) {
		return nil
	}
	return err
}

// Packs returns the SHA-256 of the file that an unpacked content packs: the bytes of its longest
// stream, if they are most of what it holds.
func (s *Source) Packs(ctx context.Context) (sum [32]byte, ok bool, err error) {
	if s.layout == nil {
		return sum, false, nil
	}
	l, longest := s.layout, 0
	for i := range l.streams {
		if l.streams[i].Size > l.streams[longest].Size {
			longest = i
		}
	}
	at, size := l.starts[longest], l.streams[longest].Size
	if size < l.unpacked/2 {
		return sum, false, nil
	}
	h := sha256.New()
	for b := make([]byte, min(searchSize, size)); size > 0; {
		if err := ctx.Err(); err != nil {
			return sum, false, err
		}
		b = b[:min(int64(len(b)), size)]
		if err := readAll(s, b, at); err != nil {
			return sum, false, err
		}
		h.Write(b)
		at, size = at+int64(len(b)), size-int64(len(b))
	}
	h.Sum(sum[:0])
	return sum, true, nil
}
