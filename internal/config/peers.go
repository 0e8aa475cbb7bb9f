package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/symdepot/symdepot/internal/depot"
)

// checkPeers checks the addresses for other servers. An error is returned with
// its key.
func (d *Depot) checkPeers() (key string, err error) {
	const listen, address = "depot.peer_listen", "depot.peer_address"
	if d.PeerListen == "" {
		if d.PeerAddress != "" {
			return address, errors.New("depot.peer_listen is missing: without it, this server answers no other server")
		}
		return "", nil
	}
	host, _, err := net.SplitHostPort(d.PeerListen)
	if err != nil {
		return listen, fmt.Errorf("an address and a port are expected, such as 10.0.0.1:8081, not %q", d.PeerListen)
	}
	if d.PeerAddress == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return listen, fmt.Errorf("other machines cannot reach %q; set depot.peer_address too, such as node1.internal:8081", d.PeerListen)
		}
		return "", nil
	}
	if host, port, err := net.SplitHostPort(d.PeerAddress); err != nil || host == "" || port == "" || port == "0" {
		return address, fmt.Errorf("a host and a port are expected, such as node1.internal:8081, not %q", d.PeerAddress)
	}
	return "", nil
}

// ListenForPeers opens the listener for the other servers of the depot, if there
// is to be one. The depot closes it.
func (d *Depot) ListenForPeers(ctx context.Context) (opt depot.NodeOptions, err error) {
	if d.PeerListen == "" {
		return opt, nil
	}
	var lc net.ListenConfig
	if opt.Listener, err = lc.Listen(ctx, "tcp", d.PeerListen); err != nil {
		return opt, fmt.Errorf("depot.peer_listen: %w", err)
	}
	opt.Address = cmp.Or(d.PeerAddress, opt.Listener.Addr().String())
	return opt, nil
}
