package mszip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

// runBlocks is how many blocks are compressed by one worker in a row. Only the
// first of a run has to load its history as a dictionary; and since the length
// does not depend on the number of workers, neither does the output.
const (
	runBlocks = 32
	runSize   = runBlocks * BlockSize
)

// DefaultLevel balances size and speed for symbol files: within 5 % of the
// best level at many times its speed.
const DefaultLevel = 6

// Options say how to compress. The zero value is ready for use.
type Options struct {
	Level   int // deflate level 1 to 9; 0 means DefaultLevel
	Workers int // goroutines that compress; below 2 means one
}

type run struct {
	dict, data []byte
	err        error  // the input or the compressor failed
	out        []byte // compressed blocks, one behind the other
	ends       []int  // end of each block in out
	done       chan struct{}
}

// Compress reads r to its end and calls emit with each compressed block in
// order, with the number of bytes that it expands to. The block is valid
// during the call only. The first error of r or emit ends it and is returned.
// The output is the same for any number of workers; each holds about 3 MiB.
func Compress(r io.Reader, opt Options, emit func(block []byte, size int) error) error {
	level, workers := opt.Level, max(opt.Workers, 1)
	if level == 0 {
		level = DefaultLevel
	}
	if level < 1 || level > 9 {
		return fmt.Errorf("mszip: level %d: want 1 to 9", level)
	}
	var (
		work  = make(chan *run)
		order = make(chan *run, workers)
		free  = make(chan *run, workers+2)
		stop  = make(chan struct{})
	)
	for range workers + 2 {
		free <- &run{data: make([]byte, 0, runSize), dict: make([]byte, 0, historySize)}
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
	return err
}

// deliver hands the blocks of a finished run on.
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

// feed cuts r into runs until it ends, fails, or stop is closed. It closes
// order and work and leaves when every run was handed over.
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
		n, err := fill(r, j.data[:runSize])
		last := n < runSize
		j.data, j.err, j.done = j.data[:n], err, make(chan struct{})
		j.dict = append(j.dict[:0], tail...)
		if n >= historySize {
			tail = append(tail[:0], j.data[n-historySize:]...)
		}
		order <- j
		work <- j
		if last {
			return
		}
	}
}

// fill reads until buf is full, r ends or r fails. Unlike io.ReadFull it does
// not take a reader's own io.ErrUnexpectedEOF for an end.
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

func worker(level int, work <-chan *run) {
	var buf bytes.Buffer
	var c completer
	fw, err := flate.NewWriter(&buf, level)
	for j := range work {
		j.out, j.ends = j.out[:0], j.ends[:0]
		if err != nil {
			j.err = err
			close(j.done)
			continue
		}
		fw.ResetDict(&buf, j.dict)
		history := j.dict
		for from := 0; from < len(j.data) && j.err == nil; from += BlockSize {
			plain := j.data[from:min(from+BlockSize, len(j.data))]
			buf.Reset()
			if _, werr := fw.Write(plain); werr != nil {
				j.err = werr
			} else if werr := fw.Flush(); werr != nil {
				j.err = werr
			}
			j.out = appendBlock(j.out, c.complete(buf.Bytes(), history, len(plain)), plain)
			j.ends = append(j.ends, len(j.out))
			history = plain
		}
		close(j.done)
	}
}

// appendBlock adds one block: a complete stream, or the plain bytes stored
// where that is no longer or there is no stream.
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
