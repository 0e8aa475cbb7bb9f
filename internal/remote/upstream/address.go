package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// checkHost rejects a host to which a redirect or a pointer of an upstream may
// not lead. Without a proxy, the address is checked when the connection is made.
// A proxy resolves names itself; then AllowHosts must list the name, or all its
// addresses, as resolved here, must be public.
func (d *Dialer) checkHost(ctx context.Context, host string, viaProxy bool) error {
	host = glob.CanonicalHost(host)
	if a, err := netip.ParseAddr(host); err == nil {
		return d.check(a)
	}
	if !isHostName(host) {
		return fmt.Errorf("host %q is an unusual spelling of an address: %w", host, ErrAddress)
	}
	if !viaProxy || d.listed(host) {
		return nil
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		return fmt.Errorf("host %q is not in ASCII form: %w", host, ErrAddress)
	}
	ctx, cancel := context.WithTimeout(ctx, d.opt.Connect)
	defer cancel()
	addrs, err := d.lookup(ctx, host)
	if err != nil {
		return fmt.Errorf("host %s is reached through the proxy and cannot be resolved here; "+
			"list it in allow_hosts to permit it: %w", host, ErrAddress)
	}
	for _, a := range addrs {
		if err := d.check(a); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
	}
	return nil
}

// lookup resolves a name. It returns at least one address.
func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	resolve := d.opt.Lookup
	if resolve == nil {
		resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addrs, err := resolve(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, err
}

// listed reports whether AllowHosts lists a host.
func (d *Dialer) listed(host string) bool {
	return slices.ContainsFunc(d.opt.AllowHosts, func(pattern string) bool { return glob.Host(pattern, host) })
}

// isHostName reports whether a host that is not an IP address in standard form
// is a name. By the WHATWG URL standard, a host whose last label is a number is
// an IPv4 address in an unusual form, such as 0x7f.1 or 2130706433, which many
// resolvers accept.
func isHostName(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" {
			return false
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") != ""
	}
	return strings.Trim(last, "0123456789") != "" && !strings.ContainsAny(host, ":%[]")
}

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

var (
	// reserved4 are the IPv4 networks without public hosts, by the IANA registry
	// of special-purpose addresses, and Azure's wire server, whose address looks
	// public.
	reserved4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"168.63.129.16/32")
	// global6 holds all unicast addresses of the IPv6 internet. reserved6 are
	// the networks in it without public hosts: protocol assignments with Teredo
	// and ORCHID, documentation, 6to4.
	global6   = netip.MustParsePrefix("2000::/3")
	reserved6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	// nat64 addresses hold an IPv4 address in their last four bytes. Networks
	// without IPv4 reach public hosts through them.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// Public reports whether an address belongs to the public internet, in any
// spelling. Private, loopback, link-local, shared, reserved, documentation and
// multicast addresses do not.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return !within(a, reserved4)
	}
	if nat64.Contains(a) {
		b := a.As16()
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	}
	return global6.Contains(a) && !within(a, reserved6)
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
