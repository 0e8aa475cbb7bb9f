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
)

var (
	// ErrNoEgress says that the program was told not to connect anywhere.
	ErrNoEgress = errors.New("outbound connections are switched off")
	// ErrAddress is wrapped when a redirect or an upstream's content leads to an
	// address that only an operator may name.
	ErrAddress = errors.New("not a public address, but a private or reserved one")
)

// connectTime bounds one TCP or TLS connect where nobody says otherwise.
const connectTime = 5 * time.Second

// DialerOptions of a Dialer. The zero value connects to whatever an operator
// named, and to public addresses.
type DialerOptions struct {
	// NoEgress refuses every connection, this machine's own included.
	NoEgress bool
	// AllowCIDRs are reached by redirects although they are not public.
	AllowCIDRs []netip.Prefix
	// AllowHosts are names that redirects may lead to where a proxy resolves
	// names: a host, or *.domain for all hosts below a domain. Other names are
	// resolved here first.
	AllowHosts []string
	// Connect bounds each connect. 0: 5 s.
	Connect time.Duration
	// Proxy chooses the proxy of a request; nil: HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Lookup replaces the system's resolver; nil: the system's.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Dialer is the program's only way out. It may be used by many goroutines.
type Dialer struct {
	opt     DialerOptions
	trusted net.Dialer
	guarded net.Dialer // looks at the address of each connection
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
	// Here the address is the one that is connected to: names that resolve to
	// something else the second time gain nothing.
	d.guarded.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%s: %w", address, ErrAddress)
		}
		return d.check(at.Addr())
	}
	return d
}

// check refuses an address that is not public, unless it is allowed.
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

// trust is the set of host:port that an operator named, for one transport.
type trust struct {
	d     *Dialer
	hosts map[string]bool // not changed after construction

	mu      sync.Mutex
	proxies map[string]bool // guarded by mu; host:port of proxies in use
}

// Transport returns a transport that reaches the operator's hosts at any
// address and every other host at public addresses only. A host may carry a
// port; without one it stands for ports 80 and 443. Bodies come as they were
// sent, still encoded. The address of a proxy is allowed too. A proxy resolves
// names by itself, so that hosts other than the operator's must be listed in
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

// transportWithin is Transport with another limit on each connect.
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

// Client returns a client with such a transport that follows redirects by the
// rules of sources: five at most, never from https to http, and without
// credentials to other hosts.
func (d *Dialer) Client(operatorHosts ...string) *http.Client {
	return &http.Client{Transport: d.Transport(operatorHosts...), CheckRedirect: checkRedirect}
}

// answerTime is how long a server may take to begin an answer to a client that
// ClientFor returned: it may have to ask an upstream first.
const answerTime = 2 * time.Minute

// ClientFor returns a client for one server, which the operator named by its
// URL and which may have any address. Redirects are followed by the rules of
// sources.
func (d *Dialer) ClientFor(server string) *http.Client {
	var hosts []string
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		hosts = append(hosts, HostPort(u))
	}
	t := d.Transport(hosts...)
	t.ResponseHeaderTimeout = answerTime
	return &http.Client{Transport: t, CheckRedirect: checkRedirect}
}

// hostPort is the form in which addresses to dial are compared.
func hostPort(host, port string) string {
	return net.JoinHostPort(canonicalHost(host), port)
}

// HostPort returns the host, in lower case and without a final dot, and the port
// that a URL of http or https leads to.
func HostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return hostPort(u.Hostname(), port)
}

// proxy chooses the proxy and sees every request, also those that go out on an
// idle connection.
func (t *trust) proxy(req *http.Request) (*url.URL, error) {
	if t.d.opt.NoEgress {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, ErrNoEgress)
	}
	at := HostPort(req.URL)
	p, err := t.d.opt.Proxy(req)
	if err != nil {
		// The error holds the proxy's address, and so maybe its password.
		return nil, errors.New("the proxy's address is not valid")
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
		return nil, fmt.Errorf("%s: %w", at, ErrAddress) // nobody but us talks to the proxy
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
