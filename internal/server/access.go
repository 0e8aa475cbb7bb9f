package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/clip"
)

// Limits of the request's parts in an access record, in bytes.
const (
	maxLogPath  = 512
	maxLogAgent = 256
)

// account counts a finished exchange and writes its access record.
func (s *Server) account(x *exchange, req *http.Request) {
	now := time.Now()
	d := now.Sub(x.start)
	if x.counters == nil {
		x.counters = s.metrics.counters(requestKind{x.protocol, methodLabel(req.Method), x.result, x.status})
	}
	x.counters.count(x.bytes, d)
	ctx, h := context.Background(), s.log
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	r := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	r.AddAttrs(
		slog.String("method", clip.To(req.Method, 16)),
		slog.String("path", clip.To(auth.Redact(rawPath(req)), maxLogPath)),
		slog.Int("status", x.status),
		slog.Int64("bytes", x.bytes),
		slog.Float64("seconds", float64(d.Microseconds())/1e6),
		slog.String("remote", req.RemoteAddr),
		slog.String("agent", clip.To(auth.Redact(req.UserAgent()), maxLogAgent)),
		slog.String("protocol", x.protocol),
		slog.String("result", x.result),
	)
	c := &x.caller
	if !c.id.Anonymous() {
		r.AddAttrs(slog.String("who", c.id.Name), slog.String("by", string(c.id.Method)))
	}
	if c.id.TokenID != "" {
		r.AddAttrs(slog.String("token_id", c.id.TokenID))
	}
	if x.request != "" {
		r.AddAttrs(slog.String("request", x.request))
	}
	if c.why != "" {
		r.AddAttrs(slog.String("refused", c.why))
	}
	if x.err != nil {
		r.AddAttrs(slog.String("error", x.err.Error()))
	}
	_ = h.Handle(ctx, r) // a failure of the log cannot be logged
}

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
