package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/body"
	"github.com/symdepot/symdepot/internal/symbolicate"
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
