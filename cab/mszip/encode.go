package mszip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
)

// A worker compresses runBlocks blocks in sequence. Only the first block of a run
// has to load its history as a dictionary. The length of a run does not depend
// on the number of workers, so the output does not either.
const (
	runBlocks = 32
	runSize   = runBlocks * BlockSize
	maxLevel  = 9
)

// DefaultLevel balances size and speed for symbol files: it is the lowest level
// whose output is no larger than zlib's default for executables as well.
const DefaultLevel = 7

// Options selects the compression. The zero value is ready for use.
type Options struct {
	Level   int // deflate level 1 to 9; 0 means DefaultLevel
	Workers int // number of compressing goroutines; values below 2 mean one
}

// run is a part of the input that one worker compresses.
type run struct {
	dict, data []byte
	err        error  // error of the input or the compressor
	out        []byte // compressed blocks, one after the other
	ends       []int  // end of each block in out
	done       chan struct{}
}

// compressor is the state of one worker.
type compressor struct {
	fw       *flate.Writer
	buf      bytes.Buffer // receives what fw writes
	complete completer
}

// Symbol stores compress many small files in sequence. Runs and compressors,
// about 1 MiB each, are therefore reused by later calls.
var (
	freeRuns = sync.Pool{New: func() any {
		return &run{data: make([]byte, 0, runSize), dict: make([]byte, 0, historySize)}
	}}
	freeCompressors [maxLevel + 1]sync.Pool // by level
)

// newCompressor returns a pooled or a new compressor for a level, which must be
// valid.
func newCompressor(level int) (*compressor, error) {
	if c, ok := freeCompressors[level].Get().(*compressor); ok {
		return c, nil
	}
	c := &compressor{}
	var err error
	c.fw, err = flate.NewWriter(&c.buf, level)
	return c, err
}

// Compress reads r to its end and calls emit with each compressed block, in
// order, and with the number of bytes that the block expands to. The block is
// valid during the call only. Compress stops at the first error of r or emit
// and returns it. The output does not depend on the number of workers; each
// worker uses about 3 MiB.
func Compress(r io.Reader, opt Options, emit func(block []byte, size int) error) error {
	level, workers := opt.Level, max(opt.Workers, 1)
	if level == 0 {
		level = DefaultLevel
	}
	if level < 1 || level > maxLevel {
		return fmt.Errorf("mszip: level %d: want 1 to %d", level, maxLevel)
	}
	var (
		work  = make(chan *run)
		order = make(chan *run, workers)
		free  = make(chan *run, workers+2)
		stop  = make(chan struct{})
	)
	for range workers + 2 {
		free <- nil // feed takes a run from the pool only if the input needs it
	}
	for range workers {
		go worker(level, work)
	}
	go feed(r, work, order, free, stop)
	var err error
	for j := range order {
		<-j.done
		if err == nil {
			if err = deliver(j, emit); err != nil {
				close(stop)
			}
		}
		free <- j
	}
	for range workers + 2 {
		if j := <-free; j != nil {
			freeRuns.Put(j)
		}
	}
	return err
}

// deliver passes the blocks of a finished run to emit.
func deliver(j *run, emit func([]byte, int) error) error {
	from := 0
	for i, end := range j.ends {
		if err := emit(j.out[from:end], min(BlockSize, len(j.data)-i*BlockSize)); err != nil {
			return err
		}
		from = end
	}
	return j.err
}

// feed cuts r into runs until r ends or fails or stop is closed. It closes order
// and work after it has sent the last run.
func feed(r io.Reader, work, order chan<- *run, free <-chan *run, stop <-chan struct{}) {
	defer close(order)
	defer close(work)
	var tail []byte
	for {
		var j *run
		select {
		case j = <-free:
		case <-stop:
			return
		}
		if j == nil {
			j = freeRuns.Get().(*run)
		}
		n, err := fill(r, j.data[:runSize])
		last := n < runSize
		j.data, j.err, j.done = j.data[:n], err, make(chan struct{})
		j.dict = append(j.dict[:0], tail...)
		if !last {
			tail = append(tail[:0], j.data[n-historySize:]...)
		}
		order <- j
		work <- j
		if last {
			return
		}
	}
}

// fill reads until buf is full or r ends or fails. Unlike io.ReadFull it reports
// an io.ErrUnexpectedEOF of r as an error.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// worker compresses runs until work is closed.
func worker(level int, work <-chan *run) {
	c, err := newCompressor(level)
	for j := range work {
		j.out, j.ends = j.out[:0], j.ends[:0]
		if err != nil {
			j.err = err
		} else {
			c.compress(j)
		}
		close(j.done)
	}
	if err == nil {
		freeCompressors[level].Put(c)
	}
}

// compress compresses j.data into j.out and j.ends.
func (c *compressor) compress(j *run) {
	c.fw.ResetDict(&c.buf, j.dict)
	history := j.dict
	for from := 0; from < len(j.data) && j.err == nil; from += BlockSize {
		plain := j.data[from:min(from+BlockSize, len(j.data))]
		c.buf.Reset()
		if _, err := c.fw.Write(plain); err != nil {
			j.err = err
		} else if err := c.fw.Flush(); err != nil {
			j.err = err
		}
		j.out = appendBlock(j.out, c.complete.complete(c.buf.Bytes(), history, len(plain)), plain)
		j.ends = append(j.ends, len(j.out))
		history = plain
	}
}

// appendBlock appends one block: the complete stream, or the plain bytes as a
// stored block if that is shorter or stream is empty.
func appendBlock(out, stream, plain []byte) []byte {
	out = append(out, 'C', 'K')
	if len(stream) > 0 && len(stream) < len(plain)+5 {
		return append(out, stream...)
	}
	out = append(out, 1)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(plain)))
	out = binary.LittleEndian.AppendUint16(out, ^uint16(len(plain)))
	return append(out, plain...)
}
