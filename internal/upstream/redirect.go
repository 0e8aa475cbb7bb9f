package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// maxRedirects is how many redirects are followed.
const maxRedirects = 5

// errRedirect is wrapped for redirect not followed.
var errRedirect = errors.New("redirect not followed")

// isRedirect lists the statuses that name another address for a GET.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// nextHop is where a redirect leads. Errors do not quote its address: it may
// carry a signature.
func nextHop(from *url.URL, location string) (*url.URL, error) {
	if location == "" {
		return nil, fmt.Errorf("%w: it names no address", errRedirect)
	}
	to, err := from.Parse(location)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%w: its address is not valid", errRedirect)
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if to.Scheme != "http" && to.Scheme != "https" {
		return nil, fmt.Errorf("%w: to %q", errRedirect, to.Scheme)
	}
	return to, nil
}

// hopAllowed applies the rules that concern a whole chain. went is every
// address so far; the first is the operator's.
func hopAllowed(went []*url.URL, to *url.URL) error {
	if len(went) > maxRedirects {
		return fmt.Errorf("%w: more than %d in a row", errRedirect, maxRedirects)
	}
	for _, u := range went {
		if u.String() == to.String() {
			return fmt.Errorf("%w: in a circle", errRedirect)
		}
	}
	// Where the operator asked for plain http there is nothing to lose.
	if went[0].Scheme == "https" && to.Scheme == "http" {
		return fmt.Errorf("%w: from https to http at %s", errRedirect, to.Host)
	}
	return nil
}

// sameServer reports whether to is the server that the operator named, or the
// same with https in the place of http: credentials may go there.
func sameServer(named, to *url.URL) bool {
	if HostPort(named) == HostPort(to) {
		return named.Scheme == to.Scheme
	}
	return named.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(named.Hostname(), to.Hostname()) && named.Port() == "" && to.Port() == ""
}

// harmless are the headers that follow a redirect to another host. Any other
// may be a credential.
var harmless = []string{"Accept", "Accept-Encoding", "User-Agent", "Range", "If-Range", "Via", HopHeader}

// checkRedirect is the policy of Dialer.Client.
func checkRedirect(req *http.Request, via []*http.Request) error {
	went := make([]*url.URL, len(via))
	for i, v := range via {
		went[i] = v.URL
	}
	if err := hopAllowed(went, req.URL); err != nil {
		return err
	}
	if !sameServer(went[0], req.URL) {
		req.Header = onlyHarmless(req.Header)
	}
	return nil
}

func onlyHarmless(h http.Header) http.Header {
	out := http.Header{}
	for _, k := range harmless {
		if v := h[k]; len(v) > 0 {
			out[k] = v
		}
	}
	return out
}

// codeInfoHop reads the path from the address to which a Breakpad server sends
// a client that knows only the module's code file and code id: NAME/ID/FILE.sym
// behind whatever stands in front. ok is false if it is no such address, or the
// one that was asked for.
func codeInfoHop(asked, to *url.URL) (path string, ok bool) {
	segs, err := layout.Segments(to.EscapedPath())
	if err != nil || len(segs) < 3 {
		return "", false
	}
	segs = segs[len(segs)-3:]
	if _, err := debugid.ParseBreakpad(segs[1]); err != nil || len(segs[1]) < 33 || !symfile.ValidName(segs[0]) || !strings.HasSuffix(symfile.Fold(segs[2]), ".sym") {
		return "", false
	}
	from, err := layout.Segments(asked.EscapedPath())
	if err != nil || len(from) < 3 || strings.EqualFold(from[len(from)-2], segs[1]) {
		return "", false
	}
	return strings.Join(segs, "/"), true
}
