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

// maxRedirects is the number of redirects to follow.
const maxRedirects = 5

// errRedirect is wrapped for a redirect that is not followed.
var errRedirect = errors.New("redirect not followed")

// isRedirect reports whether a status redirects a GET.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// nextHop returns the target of a redirect. Errors do not quote its URL, which
// may contain a signature.
func nextHop(from *url.URL, location string) (*url.URL, error) {
	if location == "" {
		return nil, fmt.Errorf("%w: no Location", errRedirect)
	}
	to, err := from.Parse(location)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("%w: invalid Location", errRedirect)
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if to.Scheme != "http" && to.Scheme != "https" {
		return nil, fmt.Errorf("%w: scheme %q is not http or https", errRedirect, to.Scheme)
	}
	return to, nil
}

// hopAllowed applies the rules for a chain of redirects. went holds all URLs so
// far; the first is the operator's.
func hopAllowed(went []*url.URL, to *url.URL) error {
	if len(went) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", errRedirect, maxRedirects)
	}
	for _, u := range went {
		if u.String() == to.String() {
			return fmt.Errorf("%w: redirect loop", errRedirect)
		}
	}
	// If the operator configured plain http, there is no protection to lose.
	if went[0].Scheme == "https" && to.Scheme == "http" {
		return fmt.Errorf("%w: from https to http at %s", errRedirect, to.Host)
	}
	return nil
}

// sameServer reports whether to is on the server that the operator configured,
// or on the same host with https instead of http. Credentials may be sent there.
func sameServer(named, to *url.URL) bool {
	if HostPort(named) == HostPort(to) {
		return named.Scheme == to.Scheme
	}
	return named.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(named.Hostname(), to.Hostname()) &&
		named.Port() == "" && to.Port() == ""
}

// harmless are the header fields that are sent after a redirect to another host.
// Any other field may be a credential.
var harmless = []string{"Accept", "Accept-Encoding", "User-Agent", "Range", "If-Range", "Via", HopHeader}

// checkRedirect is the redirect policy of Dialer.Client.
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

// codeInfoHop returns the path NAME/ID/FILE.sym from the URL to which a Breakpad
// server redirects a client that knows only the module's code file and code id.
// ok is false if the URL has a different form or names the id of the request.
func codeInfoHop(asked, to *url.URL) (path string, ok bool) {
	segs, err := layout.Segments(to.EscapedPath())
	if err != nil || len(segs) < 3 {
		return "", false
	}
	segs = segs[len(segs)-3:]
	if _, err := debugid.ParseBreakpad(segs[1]); err != nil || len(segs[1]) < 33 || !symfile.ValidName(segs[0]) ||
		!strings.HasSuffix(symfile.Fold(segs[2]), ".sym") {
		return "", false
	}
	from, err := layout.Segments(asked.EscapedPath())
	if err != nil || len(from) < 3 || strings.EqualFold(from[len(from)-2], segs[1]) {
		return "", false
	}
	return strings.Join(segs, "/"), true
}
