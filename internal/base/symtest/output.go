package symtest

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// Output collects what a log or another process writes, and lets tests wait for
// a text. The zero value is ready; its methods may be called by many goroutines.
type Output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed by the next Write, if not nil
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written != nil {
		close(o.written)
		o.written = nil
	}
	return o.b.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// outputTime is how long Await waits. The slowest machines need seconds to start
// a process.
const outputTime = 40 * time.Second

// Await waits until the output contains a text. After 40 seconds, the test ends
// with a failure that shows the output.
func (o *Output) Await(tb testing.TB, text string) {
	tb.Helper()
	end := time.NewTimer(outputTime)
	defer end.Stop()
	for {
		o.mu.Lock()
		found := bytes.Contains(o.b.Bytes(), []byte(text))
		if o.written == nil {
			o.written = make(chan struct{})
		}
		written := o.written
		o.mu.Unlock()
		if found {
			return
		}
		select {
		case <-written:
		case <-end.C:
			tb.Fatalf("the output has no %q after %v:\n%s", text, outputTime, o)
		}
	}
}
