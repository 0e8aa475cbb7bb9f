// Package span records what a request or a job spends its time on, and sends the
// records to an OpenTelemetry collector (OTLP over HTTP, as JSON). A nil Tracer and a
// nil Span do nothing, so that code that is traced needs no switch.
package span

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// Kinds of spans, as OTLP numbers them.
const (
	Internal = 1
	Server   = 2 // answers a request
	Client   = 3 // sends one
)

// Parent is the context of a trace: where a new span belongs. The zero value is none.
type Parent struct {
	trace   [16]byte
	span    [8]byte
	sampled bool
}

// Span is a stretch of time with a name. Its methods may not be called by several
// goroutines at the same time.
type Span struct {
	Parent     // of its children: its own ids
	tracer     *Tracer
	above      [8]byte
	name       string
	kind       int
	start      time.Time
	end        time.Time
	attributes []attribute
	failed     string
}

type attribute struct {
	key    string
	text   string
	number int64
	isText bool
}

type contextKey struct{}

// From returns the context of the span in ctx; zero if there is none.
func From(ctx context.Context) Parent {
	p, _ := ctx.Value(contextKey{}).(Parent)
	return p
}

// With returns a context in which new spans belong to p.
func With(ctx context.Context, p Parent) context.Context {
	if p == (Parent{}) {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, p)
}

// Start begins a span below the one in ctx, or a new trace. The context is for what
// happens within the span, which must be ended.
func (t *Tracer) Start(ctx context.Context, name string, kind int) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	s := &Span{tracer: t, name: name, kind: kind, start: time.Now()}
	if above := From(ctx); above != (Parent{}) {
		s.trace, s.above, s.sampled = above.trace, above.span, above.sampled
	} else {
		binary.BigEndian.PutUint64(s.trace[:8], rand.Uint64())
		low := rand.Uint64() | 1 // ids of zeros are not valid
		binary.BigEndian.PutUint64(s.trace[8:], low)
		s.sampled = float64(low>>1) < t.opt.Ratio*(1<<63)
	}
	binary.BigEndian.PutUint64(s.span[:], rand.Uint64()|1)
	return With(ctx, s.Parent), s
}

// Name replaces the name of the span.
func (s *Span) Name(name string) {
	if s != nil {
		s.name = name
	}
}

// Text adds a text to the span.
func (s *Span) Text(key, value string) {
	if s != nil && s.sampled {
		s.attributes = append(s.attributes, attribute{key: key, text: value, isText: true})
	}
}

// Number adds a number to the span.
func (s *Span) Number(key string, value int64) {
	if s != nil && s.sampled {
		s.attributes = append(s.attributes, attribute{key: key, number: value})
	}
}

// Fail marks the span as failed.
func (s *Span) Fail(why string) {
	if s != nil {
		s.failed = why
	}
}

// End ends the span.
func (s *Span) End() {
	if s == nil || !s.sampled {
		return
	}
	s.end = time.Now()
	s.tracer.put(s)
}

// header is the field of W3C Trace Context.
const header = "Traceparent"

// Inject adds the context of the span in ctx to a request to a host that is trusted.
func (t *Tracer) Inject(ctx context.Context, host string, h http.Header) {
	if t == nil || !t.trusts(host) {
		return
	}
	if p := From(ctx); p != (Parent{}) {
		flags := "00"
		if p.sampled {
			flags = "01"
		}
		h[header] = []string{"00-" + hex.EncodeToString(p.trace[:]) + "-" + hex.EncodeToString(p.span[:]) + "-" + flags}
	}
}

// Extract returns ctx with the context of the trace of a request from a client that is
// trusted.
func (t *Tracer) Extract(ctx context.Context, remote string, h http.Header) context.Context {
	if t == nil || len(h[header]) != 1 {
		return ctx
	}
	if at, err := netip.ParseAddrPort(remote); err == nil {
		remote = at.Addr().Unmap().WithZone("").String()
	}
	if !t.trusts(remote) {
		return ctx
	}
	return With(ctx, parse(h[header][0]))
}

// parse reads a traceparent field: VERSION-TRACE-SPAN-FLAGS. What cannot be read is
// zero.
func parse(text string) (p Parent) {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return Parent{}
	}
	var version, flags [1]byte
	for _, f := range []struct {
		to   []byte
		from string
	}{{version[:], parts[0]}, {p.trace[:], parts[1]}, {p.span[:], parts[2]}, {flags[:], parts[3]}} {
		if f.from != strings.ToLower(f.from) {
			return Parent{}
		}
		if _, err := hex.Decode(f.to, []byte(f.from)); err != nil {
			return Parent{}
		}
	}
	if p.trace == ([16]byte{}) || p.span == ([8]byte{}) {
		return Parent{}
	}
	p.sampled = flags[0]&1 != 0
	return p
}

// trusts reports whether a host is one of ours: a name, or an address within a network.
func (t *Tracer) trusts(host string) bool {
	host = strings.Trim(host, "[]")
	addr, err := netip.ParseAddr(host)
	return slices.ContainsFunc(t.opt.Trust, func(own string) bool {
		n, nerr := netip.ParsePrefix(own)
		return glob.Host(own, host) || err == nil && nerr == nil && n.Contains(addr)
	})
}
