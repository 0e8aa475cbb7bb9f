// Package daemon is what a running server and the service manager of its machine
// say to each other: the socket that the manager passes, readiness, reloads, and
// the check of a server's health.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// Listen returns the socket that the service manager has passed to this process,
// or else a new one for addr, "host:port". check refuses addresses; it gets that
// of the socket that is used.
func Listen(ctx context.Context, addr string, check func(addr string) error) (net.Listener, error) {
	ln, err := passed()
	if err != nil {
		return nil, err
	}
	if ln != nil {
		if ln.Addr().Network() != "tcp" { // only this machine reaches other kinds
			return ln, nil
		}
		if err := check(ln.Addr().String()); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
		return ln, nil
	}
	if err := check(addr); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err = lc.Listen(ctx, "tcp", addr)
	if isTaken(err) {
		err = fmt.Errorf("%w\nAnother program uses that port; --listen 127.0.0.1:0 picks a free one", err)
	}
	return ln, err
}

// countPassed reads what systemd says of passed sockets: LISTEN_PID is the process
// that they are for, and LISTEN_FDS is how many there are. A process that inherited
// the variables of another one has none.
func countPassed(pid, fds string, self int) (int, error) {
	if fds == "" || pid != strconv.Itoa(self) {
		return 0, nil
	}
	n, err := strconv.Atoi(fds)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("LISTEN_FDS is %q, not a number of sockets", fds)
	}
	if n > 1 {
		return 0, fmt.Errorf("the service manager passed %d sockets; symdepot serves one: leave one ListenStream in the .socket unit", n)
	}
	return n, nil
}

// healthTime limits a check of a server's health.
const healthTime = 5 * time.Second

// Health asks a server whether it is ready. The error says why it is not. base is
// its base URL; requests makes the requests. depot is the fingerprint of the server's
// depot, also of one that is not ready; empty: the server does not name it.
func Health(ctx context.Context, base string, requests *http.Client) (depot string, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	to, err := url.JoinPath(base, "readyz")
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return "", err
	}
	answer, err := requests.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<10))
	depot = answer.Header.Get(wire.DepotHeader)
	if answer.StatusCode != http.StatusOK {
		return depot, fmt.Errorf("%s answered %s", to, answer.Status)
	}
	return depot, nil
}

// LocalURL is the base URL under which a server that listens on addr is reached
// from its own machine.
func LocalURL(addr string, tls bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("the address %q: want ADDRESS:PORT", addr)
	}
	if port == "0" {
		return "", fmt.Errorf("the address %s does not say which port is in use; name the server's URL", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	scheme := "http"
	if tls {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}
