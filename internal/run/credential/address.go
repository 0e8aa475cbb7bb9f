package credential

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// address returns the URL that a request is for. The host is refused if two programs could
// take it for different servers.
func (q request) address() (string, error) {
	switch {
	case q.scheme == "":
		return "", errors.New("the request has no protocol")
	case q.host == "":
		return "", errors.New("the request has no host")
	}
	name, ok := hostName(q.host)
	switch {
	case !ok || q.scheme != "http" && q.scheme != "https": // the text may hold a password
		return "", errors.New("the request has no protocol and host of a server; symdepot login --list shows the logins of this machine")
	case q.scheme == "http" && !glob.IsLoopback(name):
		return "", fmt.Errorf("http://%s gets no credential, because others could read it on the way; use https", q.host)
	}
	u := url.URL{Scheme: q.scheme, Host: strings.ToLower(q.host)}
	if path, plain, ok := cleanPath(q.path); ok {
		u.Path, u.RawPath = "/"+plain, "/"+path
	}
	return u.String(), nil
}

// hostName returns the host of a host with or without a port, as URLs have it, in lower case.
// It refuses what is no host of a server, such as a user name or an escape, and unusual
// spellings of ports and names.
func hostName(host string) (name string, ok bool) {
	var port string
	name, port, given := strings.Cut(strings.ToLower(host), ":")
	if six, rest, closed := strings.Cut(strings.ToLower(host), "]"); closed && strings.HasPrefix(six, "[") {
		name = six[1:]
		if port, given = strings.CutPrefix(rest, ":"); rest != "" && !given {
			return "", false
		}
		if a, err := netip.ParseAddr(name); err != nil || !a.Is6() || a.Zone() != "" {
			return "", false
		}
	} else if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" || strings.HasSuffix(name, ".") {
		return "", false
	}
	if given && (port == "" || port[0] == '0' || len(port) > 5 || strings.Trim(port, "0123456789") != "") {
		return "", false
	}
	return name, name != ""
}

// cleanPath returns a path without slash before it, query and fragment, as it is and without
// escapes. ok: no program takes it for a path elsewhere.
func cleanPath(path string) (escaped, plain string, ok bool) {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	path = strings.TrimPrefix(path, "/")
	plain, err := url.PathUnescape(path)
	if err != nil {
		return "", "", false
	}
	for s := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s == "." || s == ".." {
			return "", "", false
		}
	}
	return path, plain, true
}
