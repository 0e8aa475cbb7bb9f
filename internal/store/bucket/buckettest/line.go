package buckettest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Fault is the way in which a line fails.
type Fault int

// The faults.
const (
	Stall Fault = iota // no more bytes arrive
	Reset              // the peer resets the connection
	Shut               // the peer closes the connection
)

// Line is a connection to a server that fails after a number of response bytes.
type Line struct {
	Reached chan struct{} // closed when the line has failed

	fault Fault
	mu    sync.Mutex
	left  int64 // guarded by mu
}

// NewLine returns a Line.
func NewLine(after int64, fault Fault) *Line {
	return &Line{Reached: make(chan struct{}), fault: fault, left: after}
}

// take returns how many of want bytes may pass.
func (l *Line) take(want int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left <= 0 {
		select {
		case <-l.Reached:
		default:
			close(l.Reached)
		}
		return 0
	}
	n := int(min(int64(want), l.left))
	l.left -= int64(n)
	return n
}

// Transport connects only to loopback addresses, for any host in the request. It
// uses the line if there is one.
func Transport(line *Line) *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 16, ExpectContinueTimeout: 5 * time.Second, DisableKeepAlives: line != nil,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
			if err != nil || line == nil {
				return conn, err
			}
			return &badConn{Conn: conn, line: line, closed: make(chan struct{})}, nil
		},
	}
}

// badConn is a connection over a line.
type badConn struct {
	net.Conn
	line   *Line
	once   sync.Once
	closed chan struct{}
}

func (c *badConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *badConn) Read(p []byte) (int, error) {
	if n := c.line.take(len(p)); n > 0 {
		return c.Conn.Read(p[:n])
	}
	switch c.line.fault {
	case Stall:
		<-c.closed
		return 0, net.ErrClosed
	case Reset:
		c.Conn.Close()
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	c.Conn.Close()
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}
}
