package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// isProxy reports whether an address is one of Config.ProxyNetworks.
func isProxy(proxies []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// clientOf returns the address of the client that sent a request. Behind a
// proxy of Config.ProxyNetworks that is the last entry of X-Forwarded-For that
// is not such a proxy: a client can write earlier entries itself. The result is
// the proxy's address if no entry is usable, and invalid if the connection has
// no IP address.
func (s *service) clientOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap().WithZone("")
	lines := r.Header["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		entries := strings.Split(lines[i], ",")
		for j := len(entries) - 1; j >= 0; j-- {
			if !isProxy(s.cfg.ProxyNetworks, client) {
				return client
			}
			next, ok := forwarded(entries[j])
			if !ok {
				return client
			}
			client = next
		}
	}
	return client
}

// forwarded reads an entry of X-Forwarded-For: an IP address, which some proxies
// put into brackets or follow with a port.
func forwarded(entry string) (netip.Addr, bool) {
	entry = strings.TrimSpace(entry)
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"))
	return a.Unmap().WithZone(""), err == nil
}

// limitKey returns the name under which the downloads and jobs of a request's
// client are counted, or "" for a client that has no limit of its own.
func (s *service) limitKey(r *http.Request) string {
	client := s.clientOf(r)
	if !client.IsValid() || isProxy(s.cfg.ProxyNetworks, client) {
		return ""
	}
	return auth.ClientAddr(client).String()
}

// withoutProxies returns the request as if its client had sent it without the proxies
// of Config.ProxyNetworks in between.
func (s *service) withoutProxies(r *http.Request) *http.Request {
	if len(s.cfg.ProxyNetworks) == 0 || len(r.Header["X-Forwarded-For"]) == 0 {
		return r
	}
	client := s.clientOf(r)
	if !client.IsValid() {
		return r
	}
	c := *r
	c.RemoteAddr = net.JoinHostPort(client.String(), "0")
	return &c
}
