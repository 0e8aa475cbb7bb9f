package cab

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/symdepot/symdepot/cab/lzx"
	"github.com/symdepot/symdepot/cab/mszip"
)

// blockDecoder decodes the blocks of a folder in order. The result is valid
// until the next call.
type blockDecoder interface {
	Decode(src []byte, size int) ([]byte, error)
}

// stored is the decoder of folders without compression.
type stored struct{}

func (stored) Decode(src []byte, size int) ([]byte, error) {
	if len(src) != size {
		return nil, ErrFormat
	}
	return src, nil
}

// stream decodes one folder from its start.
type stream struct {
	r      *Reader
	folder int
	dec    blockDecoder
	in     *bufio.Reader
	blocks int    // remaining blocks
	out    []byte // decoded bytes that were not read yet
	taken  int    // bytes of in that the current block takes
	pos    int64  // of out[0] in the folder
	err    error  // the error that ended the stream
}

// freeDecoders and freeReaders pool MSZIP decoders (350 KiB each) and input
// buffers.
var (
	freeDecoders = sync.Pool{New: func() any { return mszip.NewDecoder() }}
	freeReaders  = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 128<<10) }}
)

// release returns the memory to the pools. The stream must not be used again.
func (s *stream) release() {
	if d, ok := s.dec.(*mszip.Decoder); ok {
		d.Reset()
		freeDecoders.Put(d)
	}
	s.in.Reset(nil)
	freeReaders.Put(s.in)
	s.dec, s.in, s.out, s.err = nil, nil, nil, errClosed
}

func (r *Reader) newStream(folder int) (*stream, error) {
	f := r.folders[folder]
	s := &stream{r: r, folder: folder, blocks: f.Blocks}
	switch f.Compression.Method {
	case None:
		s.dec = stored{}
	case MSZIP:
		s.dec = freeDecoders.Get().(*mszip.Decoder)
	case LZX:
		d, err := lzx.NewDecoder(f.Compression.Window, int64(f.Blocks)*blockSize)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		s.dec = d
	case Quantum:
		return nil, ErrQuantum
	default:
		return nil, fmt.Errorf("%w: %s", ErrMethod, f.Compression)
	}
	if f.offset > r.size {
		return nil, fmt.Errorf("%w: folder %d begins after the end of the cabinet", ErrFormat, folder)
	}
	s.in = freeReaders.Get().(*bufio.Reader)
	s.in.Reset(io.NewSectionReader(r.src, f.offset, r.size-f.offset))
	return s, nil
}

// fill decodes the next block. out must be empty.
func (s *stream) fill() error {
	if s.err != nil {
		return s.err
	}
	if err := s.block(); err != nil {
		s.err = err
		return err
	}
	return nil
}

func (s *stream) block() error {
	if s.blocks == 0 {
		return fmt.Errorf("%w: folder %d ends before the last of its files", ErrFormat, s.folder)
	}
	if err := s.discard(); err != nil {
		return err
	}
	head, err := s.peek(dataSize + s.r.reserve)
	if err != nil {
		return err
	}
	sum, packed, size := binary.LittleEndian.Uint32(head), int(binary.LittleEndian.Uint16(head[4:])), int(binary.LittleEndian.Uint16(head[6:]))
	switch {
	case packed > maxBlock || size > blockSize:
		return fmt.Errorf("%w: block of %d bytes that expands to %d", ErrFormat, packed, size)
	case size == 0:
		return fmt.Errorf("%w: a block continues in another cabinet", ErrSplit)
	}
	s.taken = len(head) + packed
	all, err := s.peek(s.taken)
	if err != nil {
		return err
	}
	data := all[len(head):]
	if sum != 0 && !s.r.unchecked && sum != blockChecksum(data, all[4:len(head)]) {
		return fmt.Errorf("%w in folder %d, %d blocks before its end", ErrChecksum, s.folder, s.blocks)
	}
	if s.out, err = s.dec.Decode(data, size); err != nil {
		if !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: folder %d: %w", ErrFormat, s.folder, err)
		}
		return err
	}
	s.blocks--
	return nil
}

// peek returns the next n bytes of the cabinet without consuming them.
func (s *stream) peek(n int) ([]byte, error) {
	p, err := s.in.Peek(n)
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: cut off in folder %d", ErrFormat, s.folder)
	}
	return p, err
}

// discard consumes the block that was decoded last.
func (s *stream) discard() error {
	n := s.taken
	s.taken = 0
	_, err := s.in.Discard(n)
	return err
}

// next consumes and returns up to n > 0 bytes. They are valid until the next
// call.
func (s *stream) next(n int64) ([]byte, error) {
	if len(s.out) == 0 {
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
	p := s.out[:min(int64(len(s.out)), n)]
	s.out = s.out[len(p):]
	s.pos += int64(len(p))
	return p, nil
}

// skipTo decodes up to the offset pos of the folder, which must not be before
// the current one.
func (s *stream) skipTo(pos int64) error {
	for s.pos < pos {
		if _, err := s.next(pos - s.pos); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	q, err := s.next(int64(len(p)))
	return copy(p, q), err
}
