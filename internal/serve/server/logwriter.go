package server

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// LogWriter buffers log lines and writes them at least four times a second, so
// that a request's log line costs no system call. Lines stay whole and in order.
// It must be closed, or the last lines are lost.
type LogWriter struct {
	mu      sync.Mutex // guards buf, and err
	buf     *bytes.Buffer
	err     error
	out     sync.Mutex // guards w and spare; taken before mu
	w       io.Writer
	spare   *bytes.Buffer
	timer   *time.Timer // guarded by mu; nil before the first line
	pending bool        // guarded by mu
}

const (
	logFlush  = 250 * time.Millisecond
	logBuffer = 64 << 10
)

// NewLogWriter returns a LogWriter in front of w.
func NewLogWriter(w io.Writer) *LogWriter {
	return &LogWriter{w: w, buf: new(bytes.Buffer), spare: new(bytes.Buffer)}
}

// Write buffers p. It returns an error of an earlier line, if any.
func (l *LogWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	l.buf.Write(p)
	full := l.buf.Len() >= logBuffer
	if !l.pending {
		l.pending = true
		if l.timer == nil {
			l.timer = time.AfterFunc(logFlush, func() { _ = l.Flush() })
		} else {
			l.timer.Reset(logFlush)
		}
	}
	err := l.err
	l.mu.Unlock()
	if full {
		err = l.Flush()
	}
	return len(p), err
}

// Flush writes the buffered lines.
func (l *LogWriter) Flush() error {
	l.out.Lock()
	defer l.out.Unlock()
	l.mu.Lock()
	l.buf, l.spare = l.spare, l.buf
	l.pending = false
	l.mu.Unlock()
	if l.spare.Len() == 0 {
		return nil
	}
	_, err := l.w.Write(l.spare.Bytes())
	l.spare.Reset()
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	return err
}

// Close writes the buffered lines. It does not close the underlying writer.
func (l *LogWriter) Close() error { return l.Flush() }
