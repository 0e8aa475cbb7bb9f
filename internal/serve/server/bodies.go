package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

const (
	// maxBodies is how many bytes of bodies are in memory at once, of the requests
	// that are answered and of those that wait. Symbolication, whose requests may be held
	// until files are made, has as much for itself.
	maxBodies = 8 * symbolicate.MaxBody
	// maxClientBodies is how many bytes of them are of one client. No body is longer.
	maxClientBodies = maxBodies / 4
	// slowBody is how long the next 64 KiB of a body, or of an answer of symbolication,
	// may take while others wait for memory.
	slowBody = 2 * time.Second
)

var errLongBody = errors.New("the request is too long")

// newBodies returns memory for the bodies of requests.
func (s *service) newBodies() *body.Memory {
	return body.NewMemory(body.Limits{Total: maxBodies, Client: maxClientBodies, Slow: slowBody, Wait: s.cfg.Wait})
}

// account opens the account of a request's body. A client is counted by its address. One
// that has none, because it comes through a proxy that does not name it, is counted by its
// credentials, and has no share of its own without them.
func (s *service) account(m *body.Memory, x *exchange, r *http.Request) *body.Account {
	client := s.limitKey(r)
	if id := &x.caller.id; client == "" && !id.Anonymous() {
		client = "credential " + id.Maker()
	}
	rc := http.NewResponseController(x.w)
	return m.Open(client, func() { _ = rc.SetReadDeadline(time.Now()) })
}

// slowReader reads a long body as long as bytes keep coming.
type slowReader struct {
	r   io.Reader
	s   *service
	rc  *http.ResponseController
	due int64
}

func (p *slowReader) Read(b []byte) (int, error) {
	if p.due <= 0 {
		// Writers in tests have no deadlines.
		_ = p.rc.SetReadDeadline(time.Now().Add(p.s.cfg.WriteTimeout + time.Duration(copyStep/p.s.cfg.MinRate)*time.Second))
		p.s.allow(p.rc, 2*copyStep)
		p.due = copyStep
	}
	n, err := p.r.Read(b)
	p.due -= int64(n)
	return n, err
}

// longBody returns the body of a request, which may be long, but must not come
// more slowly than Config.MinRate. allow lets the answer begin later than
// usual, once the body has been read.
func (s *service) longBody(x *exchange, r *http.Request) (body io.Reader, allow func(time.Duration)) {
	b := &slowReader{r: r.Body, s: s, rc: http.NewResponseController(x.w)}
	if r.Body == nil {
		b.r = http.NoBody
	}
	return b, func(d time.Duration) {
		// Writers in tests have no deadlines. The deadline for reading would be
		// taken for a disconnected client.
		_ = b.rc.SetReadDeadline(time.Time{})
		_ = b.rc.SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout + d))
	}
}

// longAnswer renews the deadline of an answer whose length is not known.
type longAnswer struct {
	io.Writer
	s  *service
	rc *http.ResponseController
}

func (w *longAnswer) Write(p []byte) (int, error) {
	w.s.allow(w.rc, int64(len(p)))
	return w.Writer.Write(p)
}
