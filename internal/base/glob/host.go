package glob

import (
	"net/netip"
	"strings"
)

// Host reports whether a pattern names a host: the same name, or *.DOMAIN for every
// name below the domain, but not the domain itself. Case and a final dot do not count.
func Host(pattern, host string) bool {
	pattern, host = CanonicalHost(pattern), CanonicalHost(host)
	if domain, ok := strings.CutPrefix(pattern, "*"); ok && strings.HasPrefix(domain, ".") {
		return len(domain) > 1 && len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	return pattern == host
}

// CanonicalHost returns a host in lower case without the final dot.
func CanonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// IsHost reports whether a text has the form of a pattern for Host: a host, which may
// have a port, or *.DOMAIN.
func IsHost(pattern string) bool {
	name := strings.TrimPrefix(pattern, "*.")
	return name != "" && !strings.ContainsAny(name, "*/@ ")
}

// IsLoopback reports whether a host, as URLs name it, is always this machine: an address of
// the loopback, or localhost.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return CanonicalHost(host) == "localhost" || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}
