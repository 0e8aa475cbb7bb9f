package lzx

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// chunkSize is the number of bytes that one worker parses at a time. Before them
// it reads one window of history. The size does not depend on the number of
// workers, so the output does not either.
const chunkSize = 128 * FrameSize

// Options are the settings of Compress. The zero value uses the largest window
// and one worker.
type Options struct {
	Window  int // base-2 logarithm of the window size: MinWindow to MaxWindow; 0 means MaxWindow
	Workers int // number of goroutines that search for matches; below 2 means one

	// chunk replaces chunkSize in tests; 0 means chunkSize.
	chunk int
}

// chunk is one part of the input on its way from feed to a worker and on to the
// encoder.
type chunk struct {
	buf   []byte // the history, then the bytes to be parsed
	from  int    // length of the history
	first bool   // the chunk is the first of the input
	err   error  // of reading the input
	items []item // the result of the parser
	done  chan struct{}
}

// Compress reads r to its end and calls emit with each compressed frame, in
// order, and with the number of bytes that the frame expands to. The frame is
// valid during the call only. Compress returns the first error of r or emit. It
// translates the targets of x86 calls, as Microsoft's encoder does. The output is
// the same for any number of workers. Each worker needs about 50 MiB of memory.
func Compress(r io.Reader, opt Options, emit func(frame []byte, size int) error) error {
	window, workers := opt.Window, max(opt.Workers, 1)
	if window == 0 {
		window = MaxWindow
	}
	if window < MinWindow || window > MaxWindow {
		return fmt.Errorf("lzx: window of 2^%d bytes is not supported, want 2^%d to 2^%d", window, MinWindow, MaxWindow)
	}
	size := opt.chunk
	if size == 0 {
		size = chunkSize
	}
	var (
		work  = make(chan *chunk)
		order = make(chan *chunk, workers)
		free  = make(chan *chunk, workers+1)
		stop  = make(chan struct{})
	)
	for range workers + 1 {
		free <- &chunk{}
	}
	for range workers {
		go func() {
			var p *parser
			for c := range work {
				if p == nil && len(c.buf) > c.from {
					p = newParser(usable(window, size, c))
				}
				var last repeats
				if c.first {
					last = repeats{1, 1, 1}
				}
				if len(c.buf) > c.from {
					c.items = p.parse(c.items[:0], c.buf, c.from, last)
				}
				close(c.done)
			}
		}()
	}
	go feed(r, size, 1<<window, work, order, free, stop)
	e := newEncoder(window, emit)
	var err error
	for c := range order {
		<-c.done
		if err == nil {
			if len(c.buf) > c.from {
				err = e.encode(c.items, c.buf[c.from:])
			}
			if err == nil {
				err = c.err
			}
			if err != nil {
				close(stop)
			}
		}
		c.items = c.items[:0]
		free <- c
	}
	if err != nil {
		return err
	}
	return e.flush()
}

// feed cuts r into chunks of size bytes and translates their call targets, until
// r ends, r fails, or stop is closed. It closes order and work when all chunks
// are handed over.
func feed(r io.Reader, size, window int, work, order chan<- *chunk, free <-chan *chunk, stop <-chan struct{}) {
	defer close(order)
	defer close(work)
	var history []byte
	var total int64
	for {
		var c *chunk
		select {
		case c = <-free:
		case <-stop:
			return
		}
		c.from = len(history)
		var err error
		c.buf, err = fill(r, append(c.buf[:0], history...), size)
		n := len(c.buf) - c.from
		c.first, c.err, c.done = total == 0, err, make(chan struct{})
		for at := 0; at < n && total < translatedFrames*FrameSize; at += FrameSize {
			frame := c.buf[c.from+at : c.from+min(at+FrameSize, n)]
			translate(frame, int32(total), translationSize, true)
			total += int64(len(frame))
		}
		history = append(history[:0], c.buf[max(0, len(c.buf)-window):]...)
		order <- c
		work <- c
		if n < size {
			return
		}
	}
}

// usable returns the window for the parser of a worker whose first chunk is c. A
// shorter one than window is enough if c is the whole input. size is that of a
// full chunk.
func usable(window, size int, c *chunk) int {
	if c.first && len(c.buf) < size {
		return min(window, max(MinWindow, bits.Len(uint(len(c.buf)))))
	}
	return window
}

// fill appends up to n bytes of r to buf. It returns fewer at the end of r or
// after an error of r.
func fill(r io.Reader, buf []byte, n int) ([]byte, error) {
	for end := len(buf) + n; len(buf) < end; {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, min(max(len(buf), 2*FrameSize), end-len(buf)))
		}
		k, err := r.Read(buf[len(buf):min(cap(buf), end)])
		buf = buf[:len(buf)+k]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}
