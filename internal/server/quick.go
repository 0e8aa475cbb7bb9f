package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// Most requests of a busy symbol server are alike: a plain GET for a small
// file, or for one that is not there. net/http spends more time on such a
// request than the answer takes. So connections look at what they read while
// net/http waits for the next request, and when it is one whole simple GET,
// they answer it themselves, with exactly the bytes that the handler gave
// before or gives now, and read on. Whatever is not simple goes to net/http as
// it came, and so does everything from a client that sends requests in pieces
// or without waiting for answers.

var errNotKept = errors.New("the answer is too long to be kept")

// conn is a client's connection.
type conn struct {
	net.Conn
	s      *Server
	leave  func()
	remote string

	// fresh is set while net/http waits for a new request and holds no bytes
	// of one. Changed only by the goroutine that serves the connection.
	fresh atomic.Bool
	// mixed is set once net/http may hold bytes of a further request; from
	// then on nothing is answered here.
	mixed atomic.Bool

	busy     sync.Mutex // held while a request is looked at, and answered here
	closing  atomic.Bool
	reset    atomic.Bool // Close is to be seen as a failure, not as an end
	closed   bool        // guarded by busy
	answered bool        // guarded by busy; something was answered here since net/http set deadlines

	// The rest belongs to the goroutine that serves the connection.
	handed  bool      // net/http answers a request that it was given whole
	readBy  time.Time // deadlines in force if answered
	writeBy time.Time
	host    string // the Host last allowed
	agent   string // the User-Agent last seen
	client  string // its kind
	lines   [3][]byte
	out     net.Buffers
}

// newConn wraps an accepted connection; leave is called once it is closed.
func (s *Server) newConn(nc net.Conn, leave func()) *conn {
	c := &conn{Conn: nc, s: s, leave: leave, remote: nc.RemoteAddr().String()}
	c.fresh.Store(true)
	// The answers kept here are everybody's: where not everybody may read
	// everything, each request is judged, and net/http answers it. Behind TLS
	// there is nothing to be read here.
	c.mixed.Store(s.cfg.HotBytes < 0 || s.closed || s.cfg.TLS != nil)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	return c
}

// connState follows net/http: idle means that an answer is complete and the
// next request is awaited.
func connState(nc net.Conn, st http.ConnState) {
	c, ok := nc.(*conn)
	if !ok || st != http.StateIdle || !c.handed {
		return
	}
	c.busy.Lock()
	defer c.unlock()
	c.handed, c.answered = false, false
	c.fresh.Store(true)
}

// ReadFrom lets the kernel copy files to the connection.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if rf, ok := c.Conn.(io.ReaderFrom); ok {
		return rf.ReadFrom(r)
	}
	return io.Copy(writerOnly{c.Conn}, r)
}

// CloseWrite lets net/http end a refused request so that the client can read
// why.
func (c *conn) CloseWrite() error {
	if cw, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return nil
}

// Close closes the connection. In the middle of an answer that is sent here it
// only asks for it: whoever sends the answer closes then.
func (c *conn) Close() error {
	c.closing.Store(true)
	if !c.busy.TryLock() {
		return nil
	}
	defer c.busy.Unlock()
	return c.close()
}

// unlock gives up busy, and closes if that was asked for meanwhile.
func (c *conn) unlock() {
	c.busy.Unlock()
	if c.closing.Load() {
		_ = c.Close()
	}
}

// close is Close with busy held.
func (c *conn) close() error {
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	c.leave()
	if tcp, ok := c.Conn.(*net.TCPConn); ok && c.reset.Load() {
		_ = tcp.SetLinger(0) // an old client takes a clean end for the end of the file
	}
	return c.Conn.Close()
}

// closeIdle closes the connections that wait for a request after having been
// answered here, which net/http takes for new ones. It waits for the answers
// that are being sent.
func (s *Server) closeIdle() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		c.busy.Lock()
		if c.answered && c.fresh.Load() {
			_ = c.close()
		}
		c.unlock()
	}
}

// Read gives net/http the next bytes of the client. While a new request is
// awaited, it first answers all that it can itself.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.handed && !c.mixed.Load() {
		// While it answers, net/http reads one byte to learn whether the client
		// is still there. That byte may be the next request's, if the answer has
		// just arrived there; it is left for the next proper read.
		if err, ok := awaitEnd(c.Conn); ok {
			return 0, err
		}
	}
	if !c.fresh.Load() || c.mixed.Load() || len(p) < 512 {
		n, err := c.Conn.Read(p)
		if n > 0 {
			// A request in pieces, a body, or a request behind another one.
			c.mixed.Store(true)
		}
		return n, err
	}
	for {
		n, err := c.Conn.Read(p)
		if n == 0 {
			return n, err
		}
		rest, qerr := c.requests(p[:n])
		if qerr != nil {
			return 0, qerr
		}
		if len(rest) > 0 || err != nil {
			return copy(p, rest), err
		}
	}
}

// requests answers the requests in b one after the other and returns the first
// that is for net/http, with all that follows.
func (c *conn) requests(b []byte) (rest []byte, err error) {
	c.busy.Lock()
	defer c.unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	for len(b) > 0 {
		q, whole := parseHead(b)
		if whole && q.simple {
			done, err := c.quick(&q)
			if err != nil {
				return nil, err
			}
			if done {
				b = b[len(q.head):]
				continue
			}
		}
		c.fresh.Store(false)
		c.handed = whole && len(q.head) == len(b)
		if !c.handed {
			c.mixed.Store(true)
			if c.answered {
				// net/http set its deadline before what was answered here.
				return b, c.SetReadDeadline(time.Now().Add(c.s.cfg.HeaderTimeout))
			}
		}
		return b, nil
	}
	return nil, nil
}

// quick answers a request if its answer is short. An error means that the
// connection is of no more use.
func (c *conn) quick(q *head) (done bool, err error) {
	s := c.s
	if s.cfg.Gate != nil && mayHaveToken(q.path) {
		return false, nil // whose it is, and what it opens, may change at any time
	}
	if s.stopping.Load() || !s.slots.try() {
		return false, nil // net/http waits, and closes
	}
	defer s.slots.leave()
	start := time.Now()
	if string(q.host) != c.host {
		if !s.hostAllowed(string(q.host)) {
			return false, nil
		}
		c.host = string(q.host)
	}
	ctx := context.Background()
	generation, err := s.symbols.Generation(ctx)
	if err != nil {
		return false, nil // the handler will meet the error and say it
	}
	a := s.hot.get(q.path, q.query, q.coding)
	if a == nil || a.generation != generation || !a.until.IsZero() && start.After(a.until) {
		if a, err = s.record(q, start, generation); err != nil {
			return false, nil // as above
		}
	}
	if a.pass {
		return false, nil
	}
	if a.wanted != nil {
		s.symbols.CountMissing(a.wanted, c.clientKind(q.agent))
	}
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	if err := c.deadlines(start); err != nil {
		return false, err
	}
	c.lines = [3][]byte{a.head, dateLine(start), a.body}
	c.out = c.lines[:]
	n, err := c.out.WriteTo(c.Conn)
	now := time.Now()
	bytes := max(0, n-int64(len(a.head)+len(c.lines[1])))
	if err == nil {
		bytes = int64(len(a.body))
	}
	a.child.count(bytes, now.Sub(start))
	s.logAccess(now, now.Sub(start), &record{method: http.MethodGet, path: a.target, remote: c.remote, agent: q.agent}, a.kind, bytes, err)
	return err == nil, err
}

// clientKind is clientKind for a connection, whose client hardly changes.
func (c *conn) clientKind(agent string) string {
	if agent != c.agent || c.client == "" {
		c.agent, c.client = agent, clientKind(agent)
	}
	return c.client
}

// deadlines sees to it that the client has time to take an answer and to send
// the next request. A deadline that is nearly right is left alone.
func (c *conn) deadlines(now time.Time) error {
	if !c.answered {
		c.answered, c.readBy, c.writeBy = true, time.Time{}, time.Time{}
	}
	if d := c.s.cfg.WriteTimeout; c.writeBy.Sub(now) < d*3/4 {
		c.writeBy = now.Add(d)
		if err := c.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	if d := c.s.cfg.IdleTimeout; c.readBy.Sub(now) < d*3/4 {
		c.readBy = now.Add(d)
		return c.SetReadDeadline(c.readBy)
	}
	return nil
}

// record gets the answer to a request from the handler and keeps it.
func (s *Server) record(q *head, start time.Time, generation uint64) (*answer, error) {
	key := hotKeyOf{string(q.path), string(q.query), string(q.coding)}
	a := &answer{generation: generation, pass: true, target: key.target}
	segs, err := layout.Segments(key.target)
	if err == nil {
		if _, _, own := s.ownPath(segs); own {
			return a, nil
		}
		req, err := layout.Route(segs, s.cfg.Prefixes...)
		if err == nil && req.Form == layout.FormSymCache {
			return a, nil // what can be made may be made without anything being added
		}
		if err == nil && s.symbols.Absent(context.Background(), req) {
			if absence := s.hot.absence(req.Layout.Name(), key.target); absence != nil {
				if req.Form == layout.FormFile {
					absence.wanted = &req
				}
				return absence, nil
			}
		}
	}
	rec := &recorder{header: http.Header{"X-Content-Type-Options": nosniff}, most: hotUnseen}
	if s.hot.again(q.path) {
		rec.most = hotBody
	}
	br := bufio.NewReaderSize(bytes.NewReader(q.head), len(q.head))
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	x := &exchange{w: rec, start: start, protocol: protocolNone, quick: true}
	s.serve(x, r)
	a.kind = kind{x.protocol, http.MethodGet, x.result, x.status}
	switch {
	case x.result == resultError, x.err != nil && !rec.pass:
		return a, nil // not to be kept
	case rec.pass && rec.most == hotUnseen && rec.length <= hotBody && rec.status == http.StatusOK:
		return a, nil // the next request for it may be worth keeping
	case !rec.pass:
		a.pass = false
		a.child = s.metrics.child(a.kind)
		a.wanted = x.wanted
		a.head = s.hot.share(rec.lines())
		a.body = rec.body
		if x.notSoon {
			a.until = start.Add(hotSoon)
		}
		if x.result == resultMiss && x.status == http.StatusNotFound && string(rec.body) == "not found\n" {
			s.hot.absences.Store(x.protocol, &answer{head: a.head, body: a.body, kind: a.kind, child: a.child})
		}
	}
	s.hot.put(key, a)
	return a, nil
}

// date is the Date header's line of one second, with the empty line behind the
// header.
type date struct {
	unix int64
	line []byte
}

var dateNow atomic.Pointer[date]

func dateLine(now time.Time) []byte {
	d := dateNow.Load()
	if d == nil || d.unix != now.Unix() {
		d = &date{now.Unix(), []byte("Date: " + now.UTC().Format(http.TimeFormat) + "\r\n\r\n")}
		dateNow.Store(d)
	}
	return d.line
}
