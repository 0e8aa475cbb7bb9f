package localproxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// peer says who is at the other end of a connection.
type peer int

const (
	peerUnknown peer = iota // the system does not say
	peerSame                // the user of this process
	peerOther               // another user
)

// refusal is what another user is told.
const refusal = "This proxy has the login of another user of this machine, and answers only that user.\n" +
	"Run a proxy of your own: symdepot login URL, then symdepot proxy URL\n"

const (
	refuseTime = 5 * time.Second
	maxRefused = 64 // connections that are being refused at the same time
	maxRequest = 64 << 10
)

// guard is a listener that refuses the connections of other users.
type guard struct {
	net.Listener
	places  chan struct{}
	refused func(net.Addr)
	who     func(net.Conn) peer
}

// OnlyUser returns a listener that accepts connections of the user of this process alone, where
// the system says whose a connection is: see [Tells]. Another user gets status 403 with a text that
// says why; refused is told the address of that client.
func OnlyUser(ln net.Listener, refused func(net.Addr)) net.Listener {
	return &guard{Listener: ln, places: make(chan struct{}, maxRefused), refused: refused, who: whoIs}
}

// Accept implements net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := g.who(c)
		if who == peerSame || who == peerUnknown && !Tells {
			return c, nil
		}
		g.refused(c.RemoteAddr())
		select {
		case g.places <- struct{}{}:
			go func() {
				refuse(c)
				<-g.places
			}()
		default:
			_ = c.Close()
		}
	}
}

// refuse answers the first request of a connection with 403, and closes it.
func refuse(c net.Conn) {
	defer func() { _ = c.Close() }()
	if c.SetDeadline(time.Now().Add(refuseTime)) != nil {
		return
	}
	// The request is read first: a connection that is closed with unread bytes is reset, and the
	// client may lose the answer.
	r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(c, maxRequest)))
	if err != nil {
		return
	}
	resp := http.Response{
		StatusCode: http.StatusForbidden, ProtoMajor: 1, ProtoMinor: 1, Request: r, Close: true, ContentLength: int64(len(refusal)),
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Cache-Control": {"no-store"}},
		Body:   io.NopCloser(strings.NewReader(refusal)),
	}
	_ = resp.Write(c)
}

// ListenSocket listens on a Unix socket that only the user can connect to. A socket that an ended
// process has left is replaced.
func ListenSocket(ctx context.Context, path string) (net.Listener, error) {
	d := net.Dialer{Timeout: refuseTime}
	c, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close()
		return nil, &net.OpError{Op: "listen", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"},
			Err: errors.New("another process listens there already")}
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	return listenPrivate(ctx, path)
}
