package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
	"github.com/symdepot/symdepot/layout"
)

// service is what the handlers of all protocols share: the configuration, the
// depot, the limits, and the methods that write answers.
type service struct {
	cfg     Config
	depot   *depot.Depot
	files   finder
	reads   *depot.Reads // which content was read on which day
	ownHop  []string     // the hops of a request that has passed no other server
	metrics *metrics.Metrics
	hot     *hot

	lookups  limit.Semaphore // lookups in the depot
	searches limit.Semaphore // searches by pattern
	bodies   *body.Memory    // of requests that are not for symbolication

	// waits ends with Serve's context: requests that wait for an event give up.
	waits    context.Context
	endWaits context.CancelFunc
}

// finder finds the file that answers a question: a depot. Not found is fs.ErrNotExist.
type finder interface {
	Lacks(ctx context.Context, scope answer.Scope, req *layout.Request) bool
	Get(ctx context.Context, q answer.Question) (*answer.File, error)
}

// fail answers with the status of an error. It writes nothing to a client that
// went away.
func (s *service) fail(x *exchange, err error) {
	status, text := classify(err)
	if miss, ok := errors.AsType[missError](err); ok {
		text = miss.text
	}
	if status == statusGone {
		x.status, x.err = status, err
		return
	}
	if status >= 500 && !errors.Is(err, limit.ErrBusy) && !errors.Is(err, errStopped) &&
		!errors.Is(err, content.ErrUnavailable) && !errors.Is(err, home.ErrNoDatabase) {
		s.cfg.Log.Error("a request failed", "error", err)
	}
	h := x.Header()
	delete(h, "Content-Disposition") // a browser would store the error under the name of the file
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	// A later add may create the file, so a 404 must not be cached.
	h["Cache-Control"] = noCache
	if text == notFoundText {
		s.text(x, status, notFoundLine)
		return
	}
	s.text(x, status, text+"\n")
}

// text answers with a short plain text.
func (s *service) text(x *exchange, status int, body string) {
	h := x.Header()
	h["Content-Type"] = plainText
	h["Content-Length"] = contentLength(int64(len(body)))
	x.WriteHeader(status)
	_, x.err = x.WriteString(body)
}

// json answers with JSON.
func (s *service) json(x *exchange, status int, v any) { s.jsonBy(x, status, v, x.Write) }

// jsonBy is json with another way to send the body.
func (s *service) jsonBy(x *exchange, status int, v any, write func([]byte) (int, error)) {
	var b []byte
	var err error
	if a, ok := v.(jsonAppender); ok {
		buf := answers.Get().(*[]byte)
		defer func() {
			if cap(b) <= maxKept {
				*buf = b[:0]
			}
			answers.Put(buf)
		}()
		b, err = a.AppendJSON((*buf)[:0])
	} else {
		b, err = json.Marshal(v)
	}
	if err != nil {
		s.fail(x, err)
		return
	}
	b = append(b, '\n')
	h := x.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{itoa(int64(len(b)))}
	x.WriteHeader(status)
	_, x.err = write(b)
}

// jsonAppender is an answer that is written into memory that is there.
type jsonAppender interface {
	AppendJSON([]byte) ([]byte, error)
}

// answers are the buffers of such answers, of maxKept bytes at most.
var answers = sync.Pool{New: func() any { return new([]byte) }}

const maxKept = 4 << 20

// redirect sends a client that knows only a module's code id to the path that
// has the debug id, which some clients read from the Location itself.
func (s *service) redirect(x *exchange, r *http.Request, path string) {
	h := x.Header()
	loc := layout.Escape(path)
	if _, query, ok := strings.Cut(r.RequestURI, "?"); ok {
		loc += "?" + query
	}
	h["Location"] = []string{loc}
	h["Cache-Control"] = noCache
	s.text(x, http.StatusFound, "found\n")
}
