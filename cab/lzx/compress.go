package lzx

import (
	"errors"
	"fmt"
	"io"
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
					p = newParser(window)
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
	history := make([]byte, 0, window)
	var total int64
	for {
		var c *chunk
		select {
		case c = <-free:
		case <-stop:
			return
		}
		if c.buf == nil {
			c.buf = make([]byte, 0, window+chunkSize)
		}
		c.from = copy(c.buf[:window], history)
		n, err := fill(r, c.buf[c.from:c.from+chunkSize])
		c.buf = c.buf[:c.from+n]
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
