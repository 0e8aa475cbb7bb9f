package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// gate lets a fixed number of requests through at once.
type gate chan struct{}

func newGate(n int) gate { return make(gate, n) }

// try passes if there is room now.
func (g gate) try() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter passes or waits until deadline; then it is errBusy.
func (g gate) enter(ctx context.Context, deadline time.Time) error {
	if g.try() {
		return nil
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return errBusy
	}
}

func (g gate) leave() { <-g }

// listener accepts connections as long as there are not too many, and wraps
// them so that short answers can be sent on a short way.
type listener struct {
	net.Listener
	s     *Server
	room  gate
	close chan struct{}
	once  sync.Once
}

func newListener(s *Server, ln net.Listener) *listener {
	return &listener{Listener: ln, s: s, room: newGate(2 * s.cfg.MaxConns), close: make(chan struct{})}
}

// Accept waits for room, then for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.close:
		return nil, net.ErrClosed
	}
	nc, err := l.Listener.Accept()
	if err != nil {
		l.room.leave()
		return nil, err
	}
	return l.s.newConn(nc, l.room.leave), nil
}

// Close stops accepting.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.close) })
	return l.Listener.Close()
}

// copyStep is how many bytes of a long answer are sent under one deadline.
const copyStep = 1 << 20

// sendStep is how many bytes the kernel is asked to copy in one call. A call
// that takes long looks blocked to Go's scheduler, which then starts threads
// that have nothing to do.
const sendStep = 128 << 10

// allow gives the next n bytes of an answer the time that they may take.
func (s *Server) allow(rc *http.ResponseController, n int64) {
	d := s.cfg.WriteTimeout + time.Duration(n/s.cfg.MinRate)*time.Second
	// A writer without deadlines, as in tests, has none to extend.
	_ = rc.SetWriteDeadline(time.Now().Add(d))
}
