package lzx

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// chunkSize is how many bytes are parsed by one worker in a row, behind the
// window's worth of history that it takes in first. It does not depend on the
// number of workers, so neither does the output.
const chunkSize = 128 * FrameSize

// Options say how to compress. The zero value is ready for use.
type Options struct {
	Window  int // MinWindow to MaxWindow; 0 means MaxWindow
	Workers int // goroutines that look for matches; below 2 means one
}

type chunk struct {
	buf   []byte // history, then what is to be parsed
	from  int    // where the history ends
	first bool   // nothing was before the chunk
	err   error  // the input failed
	items []item
	done  chan struct{}
}

// Compress reads r to its end and calls emit with each frame in order, with the
// number of bytes that it expands to. The frame is valid during the call only.
// The first error of r or emit ends it and is returned. Call targets are
// translated as genuine encoders do. The output is the same for any number of
// workers; each holds about 50 MiB.
func Compress(r io.Reader, opt Options, emit func(frame []byte, size int) error) error {
	window, workers := opt.Window, max(opt.Workers, 1)
	if window == 0 {
		window = MaxWindow
	}
	if window < MinWindow || window > MaxWindow {
		return fmt.Errorf("lzx: window of 2^%d: want %d to %d", window, MinWindow, MaxWindow)
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
					p = newParser(usable(window, c))
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
	go feed(r, 1<<window, work, order, free, stop)
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

// feed cuts r into chunks, with their call targets translated, until it ends,
// fails, or stop is closed. It closes order and work and leaves when every
// chunk was handed over.
func feed(r io.Reader, window int, work, order chan<- *chunk, free <-chan *chunk, stop <-chan struct{}) {
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
		c.buf, err = fill(r, append(c.buf[:0], history...), chunkSize)
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
		if n < chunkSize {
			return
		}
	}
}

// usable is the window that the first chunk of a worker can make use of: all of
// it unless nothing follows.
func usable(window int, c *chunk) int {
	if c.first && len(c.buf) < chunkSize {
		return min(window, max(MinWindow, bits.Len(uint(len(c.buf)))))
	}
	return window
}

// fill appends what r yields to buf until there are n bytes more, r ends or r
// fails. buf grows as needed.
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
