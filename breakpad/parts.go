package breakpad

import (
	"runtime"
	"sync"
)

const (
	lineBytes  = 24        // of a record in the mean
	partBytes  = 256 << 10 // about the text of a part
	wholeBytes = 4 << 20   // a function with more text is not held as a whole
	maxWriters = 8
)

// chunk is a run of functions, whose records are made at once.
type chunk struct {
	first, end int // numbers of functions
	size       int // about the bytes of their records
}

// divide adds the next function, with records of about size bytes, to the last part or a new one.
func (s *symWriter) divide(size int) {
	last := len(s.parts) - 1
	if last < 0 || s.parts[last].size+size > partBytes {
		first := 0
		if last >= 0 {
			first = s.parts[last].end
		}
		s.parts = append(s.parts, chunk{first: first, end: first})
		last++
	}
	s.parts[last].end++
	s.parts[last].size += size
}

// pending is a part whose records are being made.
type pending struct {
	chunk
	text chan []byte // has one place
}

// functions writes the records of all functions. On several processors, several parts are made at the
// same time, and written in their order.
func (s *symWriter) functions() {
	if s.err != nil {
		return
	}
	n := min(runtime.GOMAXPROCS(0), maxWriters, len(s.parts)-1)
	if _, counts := s.w.(*sizeOnly); counts || n < 2 {
		s.functionsIn(chunk{end: s.t.Counts().Functions})
		return
	}
	order, work, stop := make(chan pending, n), make(chan pending), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(order)
		defer close(work)
		for _, p := range s.parts {
			next := pending{p, make(chan []byte, 1)}
			select {
			case order <- next:
			case <-stop:
				return
			}
			if p.size <= wholeBytes {
				work <- next
			}
		}
	})
	var texts sync.Pool
	for range n {
		all.Go(func() {
			one := &symWriter{t: s.t, opt: s.opt, files: s.files, origins: s.origins, hold: true}
			for p := range work {
				one.buf, _ = texts.Get().([]byte)
				one.buf = one.buf[:0]
				one.functionsIn(p.chunk)
				p.text <- one.buf
			}
		})
	}
	for p := range order {
		if s.err != nil {
			continue
		}
		if p.size > wholeBytes {
			s.functionsIn(p.chunk)
		} else if s.flush(); s.err == nil {
			text := <-p.text
			_, s.err = s.w.Write(text)
			texts.Put(text) //nolint:staticcheck // a slice is small beside its text
		}
		if s.err != nil {
			close(stop)
		}
	}
	all.Wait()
}

// functionsIn writes the records of the functions of a part.
func (s *symWriter) functionsIn(p chunk) {
	for f := range s.t.FunctionsIn(p.first, p.end) {
		if s.function(f); !s.more() {
			return
		}
	}
}
