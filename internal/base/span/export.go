package span

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of New.
type Options struct {
	// URL receives the spans, as OTLP in JSON.
	URL string
	// Header has further fields of the requests.
	Header http.Header
	// Client sends them. It follows no redirects here: what answers with one is no collector,
	// and the spans are for no other host.
	Client *http.Client
	// Resource describes the program: attributes of all spans.
	Resource map[string]string
	// Ratio is the share of new traces that are recorded.
	Ratio float64
	// Trust are the hosts, *.domains and networks to which the context of a trace is
	// sent, and from which it is accepted.
	Trust []string
	Log   *slog.Logger
	// Every is the longest time until a span is sent; zero means 5 s.
	Every time.Duration
}

const (
	usualEvery = 5 * time.Second
	mostQueued = 4096             // spans; further ones are dropped
	batch      = 512              // spans of one request
	sendTime   = 10 * time.Second // of one request
	complain   = 5 * time.Minute  // between two complaints in the log
)

// Tracer records spans and sends them. A nil Tracer records nothing.
type Tracer struct {
	opt     Options
	queue   chan *Span
	dropped atomic.Int64
	end     context.CancelFunc
	last    atomic.Pointer[time.Time] // when Close gives up; nil before it
	done    sync.WaitGroup
	silent  time.Time // no complaints before; owned by run
}

// New returns a tracer. It must be closed.
func New(opt Options) *Tracer {
	if opt.Every <= 0 {
		opt.Every = usualEvery
	}
	if opt.Client != nil {
		direct := *opt.Client
		direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		opt.Client = &direct
	}
	ctx, end := context.WithCancel(context.Background())
	t := &Tracer{opt: opt, queue: make(chan *Span, mostQueued), end: end}
	t.done.Go(func() { t.run(ctx) })
	return t
}

// Close sends the last spans, for at most ten seconds.
func (t *Tracer) Close() error {
	if t != nil {
		by := time.Now().Add(sendTime)
		t.last.Store(&by)
		t.end()
		t.done.Wait()
	}
	return nil
}

// put queues a span that has ended. It does not wait.
func (t *Tracer) put(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.dropped.Add(1)
	}
}

// run sends spans until ctx ends, and then the rest.
func (t *Tracer) run(ctx context.Context) {
	var list []*Span
	tick := time.NewTicker(t.opt.Every)
	defer tick.Stop()
	for {
		var full bool
		select {
		case <-ctx.Done():
			for {
				select {
				case s := <-t.queue:
					list = append(list, s)
					continue
				default:
				}
				break
			}
			t.send(list)
			return
		case s := <-t.queue:
			list = append(list, s)
			full = len(list) >= batch
		case <-tick.C:
			full = len(list) > 0
		}
		if full {
			t.send(list)
			list = nil
		}
	}
}

// send sends spans. What the collector does not take is lost, and the log says so.
func (t *Tracer) send(list []*Span) {
	if len(list) == 0 {
		return
	}
	err := t.post(list)
	lost := t.dropped.Swap(0)
	if err == nil && lost == 0 {
		return
	}
	if err != nil {
		lost += int64(len(list))
	}
	if now := time.Now(); t.opt.Log != nil && now.After(t.silent) && !errors.Is(err, context.Canceled) {
		t.silent = now.Add(complain)
		t.opt.Log.Warn("traces were lost", "spans", lost, "error", err)
	}
}

// post sends one request, within ten seconds. One that Close waits for began before it, and
// ends before the time of Close is over; those that follow have the rest of that time.
func (t *Tracer) post(list []*Span) error {
	by := time.Now().Add(sendTime)
	if last := t.last.Load(); last != nil {
		by = *last
	}
	ctx, cancel := context.WithDeadline(context.Background(), by)
	defer cancel()
	body, err := json.Marshal(message(t.opt.Resource, list))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.opt.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range t.opt.Header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := t.opt.Client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which may have a secret
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", answer.Status)
	}
	return nil
}

// The message, ExportTraceServiceRequest of OTLP, in its JSON form: ids are hex, and
// 64-bit numbers are texts.
type (
	exported struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []spanJSON `json:"spans"`
	}
	spanJSON struct {
		TraceID      string     `json:"traceId"`
		SpanID       string     `json:"spanId"`
		ParentSpanID string     `json:"parentSpanId,omitempty"`
		Name         string     `json:"name"`
		Kind         int        `json:"kind"`
		Start        string     `json:"startTimeUnixNano"`
		End          string     `json:"endTimeUnixNano"`
		Attributes   []keyValue `json:"attributes,omitempty"`
		Status       *status    `json:"status,omitempty"`
	}
	status struct {
		Code    int    `json:"code"` // 2: error
		Message string `json:"message,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		Text   *string `json:"stringValue,omitempty"`
		Number *string `json:"intValue,omitempty"`
	}
)

func message(about map[string]string, list []*Span) exported {
	var r resourceSpans
	for k, v := range about {
		r.Resource.Attributes = append(r.Resource.Attributes, keyValue{k, value{Text: &v}})
	}
	var sc scopeSpans
	sc.Scope.Name = "symdepot"
	for _, s := range list {
		j := spanJSON{
			TraceID: hex.EncodeToString(s.trace[:]), SpanID: hex.EncodeToString(s.span[:]),
			Name: strings.ToValidUTF8(s.name, "?"), Kind: s.kind,
			Start: strconv.FormatInt(s.start.UnixNano(), 10), End: strconv.FormatInt(s.end.UnixNano(), 10),
		}
		if s.above != ([8]byte{}) {
			j.ParentSpanID = hex.EncodeToString(s.above[:])
		}
		for _, a := range s.attributes {
			v := value{}
			if a.isText {
				text := strings.ToValidUTF8(a.text, "?")
				v.Text = &text
			} else {
				number := strconv.FormatInt(a.number, 10)
				v.Number = &number
			}
			j.Attributes = append(j.Attributes, keyValue{a.key, v})
		}
		if s.failed != "" {
			j.Status = &status{2, strings.ToValidUTF8(s.failed, "?")}
		}
		sc.Spans = append(sc.Spans, j)
	}
	r.ScopeSpans = []scopeSpans{sc}
	return exported{[]resourceSpans{r}}
}
