package scan

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"
)

// Zstandard data in several frames can be read from the middle, if it says where the
// frames begin: in the table at the end that the seekable format has, or in skippable
// frames in front of each, as pzstd writes them.

// Limits of such data.
const (
	maxFrames     = 1 << 20
	seekMagic     = 0x8f92eab1 // at the end of the table of the seekable format
	skippable     = 0x184d2a50 // and the 15 numbers after it
	tableFrame    = skippable + 0xe
	zstdMagic     = 0xfd2fb528
	maxZstdHeader = 18
)

var errNoFrames = errors.New("zstd: the data does not say where its frames are")

// frame is a part of zstd data that can be decompressed alone.
type frame struct {
	at, packed  int64
	from, plain int64 // its offset in the decompressed bytes, and their number
}

// frames decompresses zstd data in several frames. What is skipped is not decompressed
// where that is possible.
type frames struct {
	at     io.ReaderAt
	window uint64
	list   []frame
	size   int64

	pos  int64
	next int
	z    *zstd.Decoder
	end  int64
}

// newFrames finds the frames in the zstd data of size bytes at r. It returns an error if
// nothing would be gained.
func newFrames(r io.ReaderAt, size int64, window uint64) (*frames, error) {
	list, err := seekTable(r, size)
	if err != nil {
		list, err = announcedFrames(r, size)
	}
	if err != nil {
		return nil, err
	}
	f := &frames{at: r, window: window, list: list}
	for i := range list {
		list[i].from = f.size
		if f.size += list[i].plain; f.size < 0 || f.size > 1<<61 {
			return nil, errNoFrames
		}
	}
	if len(list) < 2 {
		return nil, errNoFrames
	}
	return f, f.open(0)
}

// seekTable reads the table of the seekable format (zstd, contrib/seekable_format).
func seekTable(r io.ReaderAt, size int64) ([]frame, error) {
	var foot [9]byte
	if size < 17 || readAt(r, foot[:], size-9) != nil {
		return nil, errNoFrames
	}
	le := binary.LittleEndian
	n := int64(le.Uint32(foot[:]))
	if le.Uint32(foot[5:]) != seekMagic || foot[4]&0x7c != 0 || n > maxFrames {
		return nil, errNoFrames
	}
	each := int64(8)
	if foot[4]&0x80 != 0 {
		each = 12 // with checksums
	}
	table := make([]byte, 8+n*each)
	start := size - 9 - int64(len(table))
	if start < 0 || readAt(r, table, start) != nil || le.Uint32(table) != tableFrame || int64(le.Uint32(table[4:])) != n*each+9 {
		return nil, errNoFrames
	}
	var list []frame
	at := int64(0)
	for i := range n {
		e := table[8+i*each:]
		f := frame{at: at, packed: int64(le.Uint32(e)), plain: int64(le.Uint32(e[4:]))}
		if at += f.packed; at > start {
			return nil, errNoFrames
		}
		list = append(list, f)
	}
	return list, nil
}

// announcedFrames reads frames with skippable frames in front of them, which have their
// sizes.
func announcedFrames(r io.ReaderAt, size int64) ([]frame, error) {
	var list []frame
	le := binary.LittleEndian
	for at := int64(0); at < size; {
		var h [12 + maxZstdHeader]byte
		n, err := r.ReadAt(h[:min(int64(len(h)), size-at)], at)
		if n < 12 && err != nil || le.Uint32(h[:])&^0xf != skippable || le.Uint32(h[4:]) != 4 || len(list) >= maxFrames {
			return nil, errNoFrames
		}
		f := frame{at: at + 12, packed: int64(le.Uint32(h[8:]))}
		var zh zstd.Header
		if f.packed > size-f.at || zh.Decode(h[12:n]) != nil || !zh.HasFCS || zh.Skippable || zh.FrameContentSize > 1<<61 {
			return nil, errNoFrames
		}
		f.plain = int64(zh.FrameContentSize)
		list = append(list, f)
		at = f.at + f.packed
	}
	return list, nil
}

func (f *frames) open(i int) error {
	l := f.list[i]
	r := bufio.NewReaderSize(io.NewSectionReader(f.at, l.at, l.packed), int(min(max(l.packed, 16), 64<<10)))
	if f.z == nil {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(f.window), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return err
		}
		f.z = z
	} else if err := f.z.Reset(r); err != nil {
		return err
	}
	f.next, f.pos, f.end = i+1, l.from, l.from+l.plain
	return nil
}

// Close releases the decoder.
func (f *frames) Close() error {
	if f.z != nil {
		f.z.Close()
		f.z = nil
	}
	return nil
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for {
		if f.z == nil {
			return 0, io.ErrClosedPipe
		}
		if left := f.end - f.pos; int64(len(p)) > left+1 {
			p = p[:left+1] // one more, to meet the end of the frame
		}
		n, err := f.z.Read(p)
		if f.pos += int64(n); f.pos > f.end || err == io.EOF && f.pos != f.end {
			return 0, errors.New("zstd: a frame has another size than the data says")
		}
		if err == io.EOF && n > 0 {
			err = nil
		}
		if err != io.EOF {
			return n, err
		}
		if f.next == len(f.list) {
			return 0, io.EOF
		}
		if err := f.open(f.next); err != nil {
			return 0, err
		}
	}
}

// holder returns the frame that has the byte at an offset, or the last one.
func (f *frames) holder(off int64) int {
	i := sort.Search(len(f.list), func(i int) bool { return f.list[i].from+f.list[i].plain > off })
	return min(i, len(f.list)-1)
}

// Restart implements restarter.
func (f *frames) Restart(n int64) int64 {
	to := f.pos + n
	if to < f.end || to >= f.size {
		return 0
	}
	return max(0, f.list[f.holder(to)].from-f.pos)
}

// Skip implements skipper.
func (f *frames) Skip(n int64) error {
	to := f.pos + n
	if n < 0 || to < f.pos || to > f.size {
		return io.ErrUnexpectedEOF
	}
	if to >= f.end && f.next < len(f.list) {
		if err := f.open(f.holder(to)); err != nil {
			return err
		}
	}
	_, err := io.CopyN(io.Discard, f, to-f.pos)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
