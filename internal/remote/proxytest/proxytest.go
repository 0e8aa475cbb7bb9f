// Package proxytest is a TCP proxy that fails as networks do, for tests. It stands
// in front of databases and object stores.
package proxytest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is how the proxy fails. The zero value passes everything on.
type Fault struct {
	// Delay is the time that each piece of data takes in each direction.
	Delay time.Duration
	// Rate limits each direction of each connection, in bytes per second; zero
	// means no limit.
	Rate int64
	// CutAfter resets a connection when that many further bytes have reached the
	// client; zero means never.
	CutAfter int64
	// ToServer and ToClient let nothing through in one direction, as a network
	// that loses all packets; both are a black hole. What is sent arrives when the
	// fault ends, if the connection still exists.
	ToServer, ToClient bool
	// HalfOpen hides the end of one side of a connection from the other: a
	// connection that one side has closed stays open for the other.
	HalfOpen bool
	// Refuse resets new connections.
	Refuse bool
}

// Proxy passes connections to a server on.
type Proxy struct {
	ln     net.Listener
	life   context.Context
	end    context.CancelFunc
	active sync.WaitGroup

	mu      sync.Mutex
	target  string             // guarded by mu
	fault   Fault              // guarded by mu
	changed chan struct{}      // closed when the fault changes; guarded by mu
	conns   map[*line]struct{} // guarded by mu
	made    int                // guarded by mu
}

// New starts a proxy in front of an address, until the test ends.
func New(tb testing.TB, target string) *Proxy {
	tb.Helper()
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{ln: ln, target: target, changed: make(chan struct{}), conns: make(map[*line]struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	p.active.Go(p.accept)
	tb.Cleanup(func() {
		p.end()
		_ = ln.Close()
		p.Cut()
		p.active.Wait()
	})
	return p
}

// Addr returns the host and port of the proxy.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Set changes how the proxy fails, for existing connections too.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for l := range p.conns {
		l.left = f.CutAfter
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Target passes new connections to a different address on.
func (p *Proxy) Target(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = addr
}

// Cut resets all connections and returns their number.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.conns {
		l.reset()
	}
	return len(p.conns)
}

// Connections returns the number of connections that were made so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// now returns the fault, and a channel that is closed when it changes.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func (p *Proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.active.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// line is one connection through the proxy.
type line struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
	left           int64 // bytes to the client until the cut; 0: no cut; guarded by Proxy.mu
}

// reset ends both sides as a crash of the network does.
func (l *line) reset() {
	l.once.Do(func() {
		close(l.closed)
		for _, c := range []*net.TCPConn{l.client, l.server} {
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	})
}

// serve passes one connection on.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	if f, _ := p.now(); f.Refuse {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	server, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(p.life, "tcp", target)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	l := &line{client: client, server: server.(*net.TCPConn), closed: make(chan struct{})}
	p.mu.Lock()
	l.left = p.fault.CutAfter
	p.conns[l] = struct{}{}
	p.made++
	p.mu.Unlock()
	if p.life.Err() != nil { // Cut has run already
		l.reset()
	}
	var both sync.WaitGroup
	both.Go(func() { p.pass(l, l.server, l.client, false) })
	both.Go(func() { p.pass(l, l.client, l.server, true) })
	both.Wait()
	l.reset()
	p.mu.Lock()
	delete(p.conns, l)
	p.mu.Unlock()
}

// pass copies one direction until it ends.
func (p *Proxy) pass(l *line, to, from *net.TCPConn, toServer bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !p.send(l, to, buf[:n], toServer) {
			return
		}
		if err == nil {
			continue
		}
		// The end of a side does not get through a black hole either.
		if !p.open(l, toServer) {
			return
		}
		for {
			f, changed := p.now()
			if !f.HalfOpen {
				break
			}
			select {
			case <-l.closed:
				return
			case <-changed:
			}
		}
		if err == io.EOF {
			_ = to.CloseWrite()
		} else {
			l.reset()
		}
		return
	}
}

// send writes one piece of data as the fault permits. It returns false if the
// connection has ended.
func (p *Proxy) send(l *line, to *net.TCPConn, b []byte, toServer bool) bool {
	for len(b) > 0 {
		if !p.open(l, toServer) {
			return false
		}
		f, _ := p.now()
		n := len(b)
		wait := f.Delay
		if f.Rate > 0 {
			n = int(min(int64(n), max(f.Rate/20, 1))) // a twentieth of a second
			wait += time.Duration(int64(n)) * time.Second / time.Duration(f.Rate)
		}
		if !p.wait(l, wait) {
			return false
		}
		cut := false
		if !toServer {
			p.mu.Lock()
			if l.left > 0 {
				n = int(min(int64(n), l.left))
				l.left -= int64(n)
				cut = l.left == 0
			}
			p.mu.Unlock()
		}
		_, err := to.Write(b[:n])
		if cut {
			l.reset()
			return false
		}
		if err != nil {
			l.reset()
			return false
		}
		b = b[n:]
	}
	return true
}

// open waits while a direction is blocked. It returns false if the connection has
// ended.
func (p *Proxy) open(l *line, toServer bool) bool {
	for {
		f, changed := p.now()
		if toServer && !f.ToServer || !toServer && !f.ToClient {
			return true
		}
		select {
		case <-l.closed:
			return false
		case <-changed:
		}
	}
}

func (p *Proxy) wait(l *line, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.closed:
		return false
	case <-t.C:
		return true
	}
}
