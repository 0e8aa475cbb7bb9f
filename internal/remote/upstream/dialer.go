package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
)

var (
	// ErrNoEgress means that outbound connections are disabled.
	ErrNoEgress = errors.New("outbound connections are disabled")
	// ErrAddress is wrapped when a redirect or an upstream's content leads to an
	// address that is not public and not allowed.
	ErrAddress = errors.New("the address is private or reserved, not public")
)

// connectTime is the default limit of one TCP connect and of one TLS handshake.
const connectTime = 5 * time.Second

// DialerOptions of a Dialer. The zero value permits the operator's hosts and all
// public addresses.
type DialerOptions struct {
	// NoEgress rejects every connection, including those to this machine.
	NoEgress bool
	// AllowCIDRs are networks that redirects may reach although they are not
	// public.
	AllowCIDRs []netip.Prefix
	// AllowHosts are names that redirects may reach through a proxy, which
	// resolves names itself: a host, or *.domain for all hosts below a domain.
	// Other names must resolve to public addresses here.
	AllowHosts []string
	// Connect limits each connect; 0 means 5 s.
	Connect time.Duration
	// Proxy selects the proxy of a request; nil means HTTP_PROXY, HTTPS_PROXY
	// and NO_PROXY of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Lookup replaces the system's resolver if not nil.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Dialer opens all outbound connections of the program. It may be used by
// several goroutines.
type Dialer struct {
	opt     DialerOptions
	trusted net.Dialer
	guarded net.Dialer // checks the address of each connection
}

// NewDialer returns a Dialer.
func NewDialer(opt DialerOptions) *Dialer {
	if opt.Connect <= 0 {
		opt.Connect = connectTime
	}
	if opt.Proxy == nil {
		opt.Proxy = http.ProxyFromEnvironment
	}
	d := &Dialer{opt: opt}
	d.trusted = net.Dialer{Timeout: opt.Connect, KeepAlive: 30 * time.Second}
	d.guarded = d.trusted
	// This is the address that is actually connected to. Checking it here
	// prevents DNS rebinding.
	d.guarded.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%s: %w", address, ErrAddress)
		}
		return d.check(at.Addr())
	}
	return d
}

// check rejects an address that is neither public nor allowed.
func (d *Dialer) check(a netip.Addr) error {
	if Public(a) {
		return nil
	}
	plain := a.Unmap().WithZone("")
	for _, p := range d.opt.AllowCIDRs {
		if p.Contains(plain) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", a, ErrAddress)
}

// trust is the set of host:port that the operator configured, for one transport.
type trust struct {
	d     *Dialer
	hosts map[string]bool // not changed after construction

	mu      sync.Mutex
	proxies map[string]bool // guarded by mu; host:port of proxies in use
}

// Transport returns a transport that reaches the operator's hosts at any
// address, and every other host at public addresses only. A host may include a
// port; without one it means ports 80 and 443. Bodies are returned as sent,
// without decoding content codings. Proxies may have any address. Because a
// proxy resolves names itself, hosts other than the operator's must be listed in
// AllowHosts or resolve here to public addresses.
func (d *Dialer) Transport(operatorHosts ...string) *http.Transport {
	t := &trust{d: d, hosts: map[string]bool{}, proxies: map[string]bool{}}
	for _, h := range operatorHosts {
		if host, port, err := net.SplitHostPort(h); err == nil {
			t.hosts[hostPort(host, port)] = true
			continue
		}
		host := strings.Trim(h, "[]")
		t.hosts[hostPort(host, "80")], t.hosts[hostPort(host, "443")] = true, true
	}
	return &http.Transport{
		Proxy:                  t.proxy,
		DialContext:            t.dial,
		TLSHandshakeTimeout:    d.opt.Connect,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		DisableCompression:     true,
		MaxIdleConns:           128,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         64 << 10,
	}
}

// Dial connects to a server that the operator configured, at any address,
// without a proxy.
func (d *Dialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.opt.NoEgress {
		return nil, ErrNoEgress
	}
	return d.trusted.DialContext(ctx, network, addr)
}

// transportWithin is Transport with a different limit on each connect.
func (d *Dialer) transportWithin(limit time.Duration, operatorHosts ...string) *http.Transport {
	t := d.Transport(operatorHosts...)
	dial := t.DialContext
	t.TLSHandshakeTimeout = limit
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(ctx, network, addr)
	}
	return t
}

// Client returns a client with such a transport. It follows redirects by the
// rules for upstreams: at most five, never from https to http, and without
// credentials to other hosts.
func (d *Dialer) Client(operatorHosts ...string) *http.Client {
	return &http.Client{Transport: d.Transport(operatorHosts...), CheckRedirect: checkRedirect}
}

// answerTime is how long a client of ClientFor waits for the first byte of a
// response. The server may have to ask an upstream first.
const answerTime = 2 * time.Minute

// ClientFor returns a client for one server, given by the operator's URL, which
// may have any address. It follows redirects by the rules for upstreams.
func (d *Dialer) ClientFor(server string) *http.Client {
	var hosts []string
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		hosts = append(hosts, HostPort(u))
	}
	t := d.Transport(hosts...)
	t.ResponseHeaderTimeout = answerTime
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

// hostPort returns host:port in the form used for comparisons.
func hostPort(host, port string) string {
	return net.JoinHostPort(glob.CanonicalHost(host), port)
}

// HostPort returns the host, in lower case and without a final dot, and the port
// of an http or https URL.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return hostPort(u.Hostname(), port)
}

// proxy selects the proxy of a request. The transport calls it for every
// request, including those on idle connections, so it also checks the host.
func (t *trust) proxy(req *http.Request) (*url.URL, error) {
	if t.d.opt.NoEgress {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, ErrNoEgress)
	}
	at := HostPort(req.URL)
	p, err := t.d.opt.Proxy(req)
	if err != nil {
		// The error contains the proxy's URL, possibly with its password.
		return nil, errors.New("the proxy URL is invalid; check HTTP_PROXY and HTTPS_PROXY")
	}
	if !t.hosts[at] {
		if err := t.d.checkHost(req.Context(), req.URL.Hostname(), p != nil); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p != nil {
		t.proxies[HostPort(p)] = true
	}
	if t.proxies[at] && !t.hosts[at] {
		return nil, fmt.Errorf("%s: %w", at, ErrAddress) // redirects must not reach the proxy itself
	}
	return p, nil
}

// dial connects to host:port.
func (t *trust) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if t.d.opt.NoEgress {
		return nil, fmt.Errorf("%s: %w", addr, ErrNoEgress)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	at := hostPort(host, port)
	t.mu.Lock()
	known := t.hosts[at] || t.proxies[at]
	t.mu.Unlock()
	by := &t.d.guarded
	if known {
		by = &t.d.trusted
	} else if err := t.d.checkHost(ctx, host, false); err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(host); err == nil || t.d.opt.Lookup == nil {
		return by.DialContext(ctx, network, addr)
	}
	addrs, err := t.d.lookup(ctx, host)
	for _, a := range addrs {
		var c net.Conn
		if c, err = by.DialContext(ctx, network, net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}
