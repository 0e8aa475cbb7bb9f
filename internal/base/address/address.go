// Package address tells apart where a depot or a tree of files can be: in a folder, in a
// database or in a bucket. It also knows which networks an IP address belongs to.
package address

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// IsDatabase reports whether the address of a depot names a PostgreSQL database, as opposed
// to a folder.
func IsDatabase(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}

// Shown returns the address of a depot for messages: that of a database without password,
// user and options.
func Shown(where string) string {
	u, err := url.Parse(where)
	if !IsDatabase(where) || err != nil {
		return where
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// IsBucket reports whether the address of files is that of a bucket, or of a part of it, and
// not a path.
func IsBucket(where string) bool { return strings.Contains(where, "://") }

// ParseNetworks reads IP addresses and networks, such as 10.0.0.5 and 10.1.0.0/16. The index
// is that of the first text that is neither.
func ParseNetworks(list []string) (nets []netip.Prefix, faulty int, err error) {
	for i, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, aerr := netip.ParseAddr(text)
			if aerr != nil {
				return nil, i, fmt.Errorf("%q is neither an IP address nor a network such as 10.1.0.0/16", text)
			}
			a = a.Unmap().WithZone("")
			p = netip.PrefixFrom(a, a.BitLen())
		}
		nets = append(nets, p.Masked())
	}
	return nets, 0, nil
}
