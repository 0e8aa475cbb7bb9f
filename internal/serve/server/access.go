package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
)

// Limits of the request's parts in an access record, in bytes.
const (
	maxLogPath  = 512
	maxLogAgent = 256
)

// accessMessage is the message of access records.
const accessMessage = "request"

// account counts a finished exchange and writes its access record.
func (s *Server) account(x *exchange, req *http.Request) {
	now := time.Now()
	d := now.Sub(x.start)
	if x.counters == nil {
		x.counters = s.metrics.Counters(metrics.Kind{Protocol: x.protocol, Method: methodLabel(req.Method), Result: x.result, Status: x.status})
	}
	x.counters.Count(x.bytes, d, now)
	ctx, h := context.Background(), s.log
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	r := slog.NewRecord(now, slog.LevelInfo, accessMessage, 0)
	r.AddAttrs(
		slog.String("method", truncate.To(req.Method, 16)),
		slog.String("path", truncate.To(auth.Redact(rawPath(req)), maxLogPath)),
		slog.Int("status", x.status),
		slog.Int64("bytes", x.bytes),
		slog.Float64("seconds", float64(d.Microseconds())/1e6),
		slog.String("remote", req.RemoteAddr),
		slog.String("agent", truncate.To(auth.Redact(req.UserAgent()), maxLogAgent)),
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
	if c.id.Login != "" {
		r.AddAttrs(slog.String("login_id", c.id.Login))
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
