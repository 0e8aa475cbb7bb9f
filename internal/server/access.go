package server

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
)

// Bounds of what an access record repeats of a request.
const (
	maxLogPath  = 512
	maxLogAgent = 256
)

// record is what the access log says of a request itself.
type record struct {
	method, path, remote, agent string
	who                         *asker // nil: it did not matter
}

// account counts a finished exchange and writes its access record.
func (s *Server) account(x *exchange, rec *record) {
	now := time.Now()
	d := now.Sub(x.start)
	k := kind{x.protocol, methodLabel(rec.method), x.result, x.status}
	s.metrics.child(k).count(x.bytes, d)
	s.logAccess(now, d, rec, k, x.bytes, x.err)
}

func (s *Server) logAccess(now time.Time, d time.Duration, rec *record, k kind, bytes int64, err error) {
	ctx, h := context.Background(), s.access
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	r := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	r.AddAttrs(
		slog.String("method", clip(rec.method, 16)),
		slog.String("path", clip(auth.Redact(rec.path), maxLogPath)),
		slog.Int("status", k.status),
		slog.Int64("bytes", bytes),
		slog.Float64("seconds", float64(d.Microseconds())/1e6),
		slog.String("remote", rec.remote),
		slog.String("agent", clip(auth.Redact(rec.agent), maxLogAgent)),
		slog.String("protocol", k.protocol),
		slog.String("result", k.result),
	)
	if w := rec.who; w != nil {
		if !w.id.Anonymous() {
			r.AddAttrs(slog.String("who", w.id.Name), slog.String("by", string(w.id.Method)))
		}
		if w.id.TokenID != "" {
			r.AddAttrs(slog.String("token_id", w.id.TokenID))
		}
		if w.why != "" {
			r.AddAttrs(slog.String("refused", w.why))
		}
	}
	if err != nil {
		r.AddAttrs(slog.String("error", err.Error()))
	}
	_ = h.Handle(ctx, r) // a log that cannot be written has nowhere to say so
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// LogWriter collects what is written to it and passes it on at least four
// times a second, so that a log line costs a request no system call. Lines
// stay whole and in order. It must be closed, or the last lines are lost.
type LogWriter struct {
	mu      sync.Mutex // guards buf, and err
	buf     *bytes.Buffer
	err     error
	out     sync.Mutex // guards w and spare; taken before mu
	w       io.Writer
	spare   *bytes.Buffer
	timer   *time.Timer // guarded by mu; nil while nothing waits
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

// Write takes p; it reports an error of an earlier line, if any.
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

// Flush passes on what waits.
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

// Close passes on what waits. It does not close the writer behind.
func (l *LogWriter) Close() error { return l.Flush() }
