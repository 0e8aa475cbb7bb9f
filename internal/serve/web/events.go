package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// Limits of streams of events.
const (
	maxStreams       = 64
	maxStreamsOfOne  = 4
	eventsEvery      = 2 * time.Second  // between two looks at the state
	eventsAlive      = 15 * time.Second // between two signs of life
	eventsWrite      = time.Minute      // how long a client may take to read an event
	eventsLife       = 15 * time.Minute // of a stream: then the browser asks again, with its credentials
	eventJobs        = ListRows         // jobs whose state is sent
	eventsRetryAfter = 5000             // milliseconds after which a browser asks again
)

// fields are the texts of one thing on a page, by the name of the field.
type fields map[string]string

// streams counts the streams of events.
type streams struct {
	mu  sync.Mutex
	all int            // guarded by mu
	by  map[string]int // guarded by mu; by the principal, or the address of an anonymous client
}

// begin counts a stream, if there are not too many.
func (s *streams) begin(who string) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams || s.by[who] >= maxStreamsOfOne {
		return nil, false
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.all++
	s.by[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.by[who]--; s.by[who] == 0 {
			delete(s.by, who)
		}
	}, true
}

// Events tells pages what changes.
type Events struct {
	// topics are the things of which events tell, by the word of a topic.
	topics  map[string]func(context.Context) (map[string]fields, error)
	streams streams
	log     *slog.Logger
}

func newEvents(queue *jobs.Queue, remote *depot.Remote, log *slog.Logger) *Events {
	return &Events{log: log, topics: map[string]func(context.Context) (map[string]fields, error){
		"jobs":      func(ctx context.Context) (map[string]fields, error) { return jobFields(ctx, queue) },
		"upstreams": func(context.Context) (map[string]fields, error) { return upstreamFields(remote.Upstreams()), nil },
	}}
}

// Serve answers GET events?topics=…: a stream of server-sent events. Each is an object
// of what changed since the one before; the first has everything, so that a page that
// was cut off catches up.
func (a *Events) Serve(w http.ResponseWriter, r *Request) error {
	if err := r.MayOpen(SeesAll); err != nil {
		return err
	}
	names := strings.SplitN(r.URL.Query().Get("topics"), ",", len(a.topics)+1)
	slices.Sort(names)
	names = slices.Compact(names) // each is looked up again and again
	for _, n := range names {
		if a.topics[n] == nil {
			return BadParameter("topics", "jobs or upstreams is expected")
		}
	}
	who := r.Identity.Maker()
	if r.Anonymous {
		who = hostOf(cmp.Or(r.Remote, r.RemoteAddr))
	}
	end, ok := a.streams.begin(who)
	if !ok {
		return &Problem{Word: "busy", Detail: "too many pages are kept current"}
	}
	defer end()
	Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would collect events
	r.Allow(eventsWrite)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	return a.stream(w, r, names)
}

// stream writes events until the client or the server ends.
func (a *Events) stream(w http.ResponseWriter, r *Request, names []string) error {
	rc := http.NewResponseController(w)
	write := func(format string, args ...any) error {
		r.Allow(eventsWrite)
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return NotSent(err)
		}
		return rc.Flush()
	}
	if err := write("retry: %d\n\n", eventsRetryAfter); err != nil {
		return err
	}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	life := time.NewTimer(eventsLife)
	defer life.Stop()
	last, alive := map[string]fields{}, time.Now()
	var stopping <-chan struct{}
	if r.Stopping != nil {
		stopping = r.Stopping.Done()
	}
	for n := 1; ; n++ {
		now := map[string]fields{}
		for _, name := range names {
			part, err := a.topics[name](r.Context())
			if err != nil {
				if r.Context().Err() == nil {
					a.log.Warn("events of a page ended", "request", r.ID, "error", err)
				}
				return nil // the browser asks again
			}
			maps.Copy(now, part)
		}
		changed := map[string]fields{}
		for key, f := range now {
			if !reflect.DeepEqual(last[key], f) {
				changed[key] = f
			}
		}
		if len(changed) > 0 {
			b, err := json.Marshal(changed)
			if err != nil {
				return err
			}
			if err := write("id: %d\ndata: %s\n\n", n, b); err != nil {
				return err
			}
			last, alive = now, time.Now()
		} else if time.Since(alive) > eventsAlive {
			if err := write(": alive\n\n"); err != nil {
				return err
			}
			alive = time.Now()
		}
		select {
		case <-tick.C:
			if r.Valid != nil && !r.Valid() {
				return nil // the browser asks again, and is refused
			}
		case <-life.C:
			return nil
		case <-stopping:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// jobFields are the texts of the newest jobs.
func jobFields(ctx context.Context, queue *jobs.Queue) (map[string]fields, error) {
	list, err := queue.List(ctx, jobs.Filter{Limit: eventJobs})
	if err != nil {
		return nil, err
	}
	m := make(map[string]fields, len(list))
	for _, j := range list {
		outcome := j.Outcome
		if j.Detail != "" {
			outcome += ": " + j.Detail
		}
		m["job:"+strconv.FormatInt(j.ID, 10)] = fields{
			"state": j.State.String(), "attempts": strconv.Itoa(j.Attempts), "worker": j.Worker, "outcome": outcome,
		}
	}
	return m, nil
}

// upstreamFields are the texts of the upstreams.
func upstreamFields(list []depot.UpstreamStatus) map[string]fields {
	m := map[string]fields{}
	for _, u := range list {
		row := NewUpstreamRow(u)
		m["upstream:"+u.Name] = fields{
			"state": row.State, "requests": Number(u.Requests), "hits": Number(u.Hits), "misses": Number(u.Misses),
			"errors": Number(u.Errors), "bytes": term.Size(u.Bytes),
		}
	}
	return m
}
