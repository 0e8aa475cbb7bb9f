package login

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// Canonical returns the base URL of a server in the spelling in which two are compared: with
// scheme and host in lower case, without the port that the scheme has anyway, and without a
// slash at the end. A server that this machine reaches by way of a network must have https.
func Canonical(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Opaque != "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not the URL of a server; expected https://…", server)
	}
	switch {
	case u.User != nil:
		return "", fmt.Errorf("the URL of %s has a user or password; give it without", u.Host)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%q: give the base URL of the server, without what follows ? or #", server)
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || strings.ContainsAny(segment, "\\;") {
			return "", fmt.Errorf("%q: the path is not that of a server", server)
		}
	}
	if u.Scheme == "http" && !glob.IsLoopback(u.Hostname()) {
		return "", fmt.Errorf("%s: a login is a secret, which http would send unencrypted; use https (http is for this machine only)", server)
	}
	return origin(u) + path, nil
}

// origin returns the scheme, host and port of a URL (RFC 6454, section 6.2).
func origin(u *url.URL) string {
	host, port := glob.CanonicalHost(u.Hostname()), u.Port()
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		port = ""
	}
	switch {
	case port != "":
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host
}

// Covers reports whether the server with a base URL, in the spelling of Canonical, has an
// address: the same scheme, host and port, and a path that begins with the segments of the
// base path.
func Covers(server, address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Hostname() == "" {
		return false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == ".." {
			return false
		}
	}
	rest, ok := strings.CutPrefix(origin(u)+u.EscapedPath(), server)
	return ok && (rest == "" || rest[0] == '/')
}
