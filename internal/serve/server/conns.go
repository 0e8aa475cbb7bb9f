package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// A client may hold this share of all connections, but at least clientConns of
// them.
const (
	clientShare = 8
	clientConns = 64
)

// conns are the open connections. When there are too many, it closes the one
// that has waited longest for a request.
type conns struct {
	limit     int // on open connections
	perClient int // on open connections of one client
	proxies   []netip.Prefix

	mu      sync.Mutex
	open    map[net.Conn]*tracked
	clients map[netip.Addr]*clientConnections
	idle    idleList      // connections without a request
	waiting bool          // a connection waits for another to end
	room    chan struct{} // receives when one has ended or has become idle
	hook    func()        // for tests: called with mu held after each change, if not nil
}

// clientConnections are the connections of one client; guarded by conns.mu.
type clientConnections struct {
	open int
	idle idleList
}

// tracked is an open connection; guarded by conns.mu.
type tracked struct {
	nc     net.Conn
	addr   netip.Addr // invalid: without a limit of its own
	client *clientConnections
	idle   bool
	links  [2]idleLink // in conns.idle and in client.idle, while idle
}

// idleList is a list of idle connections, the longest idle one first. A
// connection has the links of both of its lists itself, because it enters and
// leaves them with each request.
type idleList struct {
	link        int // index into tracked.links
	first, last *tracked
	n           int
}

type idleLink struct{ before, after *tracked }

func (l *idleList) push(t *tracked) {
	t.links[l.link] = idleLink{before: l.last}
	if l.last == nil {
		l.first = t
	} else {
		l.last.links[l.link].after = t
	}
	l.last = t
	l.n++
}

func (l *idleList) remove(t *tracked) {
	k := t.links[l.link]
	if k.before == nil {
		l.first = k.after
	} else {
		k.before.links[l.link].after = k.after
	}
	if k.after == nil {
		l.last = k.before
	} else {
		k.after.links[l.link].before = k.before
	}
	t.links[l.link] = idleLink{}
	l.n--
}

func newConns(limit int, proxies []netip.Prefix) *conns {
	return &conns{
		limit: limit, perClient: max(clientConns, limit/clientShare), proxies: proxies,
		open: make(map[net.Conn]*tracked), clients: make(map[netip.Addr]*clientConnections), room: make(chan struct{}, 1),
	}
}

// clientAddr returns the address under which a client's connections are counted;
// see auth.ClientAddr. It is invalid for proxies and for connections without an
// IP address, for which only the limit of all connections holds.
func (c *conns) clientAddr(nc net.Conn) netip.Addr {
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := tcp.AddrPort().Addr().Unmap().WithZone("")
	if isProxy(c.proxies, a) {
		return netip.Addr{}
	}
	return auth.ClientAddr(a)
}

// add enters an accepted connection. If there are too many, it closes the
// longest idle one: of the same client if that has too many, or of all clients.
// Without an idle one, a client with too many connections is refused, and a
// full server waits until stop is closed. add reports whether the connection may be
// used.
func (c *conns) add(nc net.Conn, stop <-chan struct{}) bool {
	t := &tracked{nc: nc, addr: c.clientAddr(nc)}
	for {
		evicted, ok, wait := c.tryAdd(t)
		if evicted != nil {
			_ = evicted.Close()
		}
		if !wait {
			return ok
		}
		select {
		case <-c.room:
		case <-stop:
			return false
		}
	}
}

// busy returns the number of connections with a request.
func (c *conns) busy() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.open {
		if !t.idle {
			n++
		}
	}
	return n
}

func (c *conns) tryAdd(t *tracked) (evicted net.Conn, ok, wait bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed()
	client := c.clients[t.addr]
	if t.addr.IsValid() && client != nil && client.open >= c.perClient {
		if evicted = c.evict(&client.idle); evicted == nil {
			return nil, false, false
		}
	} else if len(c.open) >= c.limit {
		if evicted = c.evict(&c.idle); evicted == nil {
			c.waiting = true
			return nil, false, true
		}
	}
	c.waiting = false
	// The eviction may have removed the client's last connection.
	if client = c.clients[t.addr]; client == nil {
		client = &clientConnections{idle: idleList{link: 1}}
		c.clients[t.addr] = client
	}
	t.client = client
	client.open++
	c.open[t.nc] = t
	c.setIdle(t, true)
	return evicted, true, false
}

// evict removes the first connection of an idle list and returns it.
func (c *conns) evict(idle *idleList) net.Conn {
	t := idle.first
	if t == nil {
		return nil
	}
	c.remove(t)
	return t.nc
}

func (c *conns) remove(t *tracked) {
	c.setIdle(t, false)
	delete(c.open, t.nc)
	if t.client.open--; t.client.open == 0 {
		delete(c.clients, t.addr)
	}
}

func (c *conns) setIdle(t *tracked, idle bool) {
	if t.idle == idle {
		return
	}
	if t.idle = idle; idle {
		c.idle.push(t)
		t.client.idle.push(t)
		return
	}
	c.idle.remove(t)
	t.client.idle.remove(t)
}

// changed calls the hook.
func (c *conns) changed() {
	if c.hook != nil {
		c.hook()
	}
}

// state follows the connections; it is an http.Server's ConnState.
func (c *conns) state(nc net.Conn, st http.ConnState) {
	if st == http.StateNew {
		return // entered by add
	}
	nc = rawConn(nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed()
	t := c.open[nc]
	if t == nil {
		return // evicted
	}
	switch st {
	case http.StateActive:
		c.setIdle(t, false)
		return
	case http.StateIdle:
		c.setIdle(t, true)
	default:
		c.remove(t)
	}
	if c.waiting {
		select {
		case c.room <- struct{}{}:
		default:
		}
	}
}

// rawConn returns the connection below TLS.
func rawConn(nc net.Conn) net.Conn {
	if t, ok := nc.(*tls.Conn); ok {
		return t.NetConn()
	}
	return nc
}

// listener accepts connections and enters them.
type listener struct {
	net.Listener
	conns *conns
	stop  chan struct{}
	once  sync.Once
}

func newListener(ln net.Listener, c *conns) *listener {
	return &listener{Listener: ln, conns: c, stop: make(chan struct{})}
}

// Accept returns the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limitUnsent(nc)
		if l.conns.add(nc, l.stop) {
			return nc, nil
		}
		_ = nc.Close()
	}
}

// Close stops accepting.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.stop) })
	return l.Listener.Close()
}

// unsentBytes is how many bytes of a response the kernel accepts before it sends
// them. With more, the bytes of a file leave the processor's cache between the copy
// from the file and the copy to the network, and large downloads are about half as
// fast. Bytes in flight do not count: the kernel tunes the send buffer for long
// paths, where a fixed SO_SNDBUF would slow distant clients.
const unsentBytes = 64 << 10
