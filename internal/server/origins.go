package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Pages of other sites run in browsers that can reach this server, and every
// shipped binary contains the ids of its symbol files. Without a rule, any page
// could read the files. Scripts may therefore read answers only if the origin of
// their page is configured, and requests that a browser sends for pages of other
// sites are refused.

// anyOrigin means all origins in Config.Origins.
const anyOrigin = "*"

var errCrossSite = errors.New("this server does not answer requests of web pages of other sites; the page's origin can be listed under origins in its configuration")

// parseOrigins checks and normalizes Config.Origins.
func parseOrigins(list []string) ([]string, error) {
	var out []string
	for _, o := range list {
		if o == anyOrigin {
			out = append(out, o)
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("origins: %q is not an origin; want SCHEME://HOST, such as https://profiler.firefox.com, or *", o)
		}
		out = append(out, strings.ToLower(u.Scheme+"://"+u.Host))
	}
	return out, nil
}

// originAllowed reports whether scripts of the page that sends a request may
// read the answer.
func (s *access) originAllowed(r *http.Request) bool {
	o := r.Header["Origin"]
	return len(o) == 1 && (slices.Contains(s.origins, anyOrigin) || slices.Contains(s.origins, strings.ToLower(o[0])))
}

// allowOrigin lets a configured origin read an answer, and reports whether the
// request came from one.
func (s *access) allowOrigin(h http.Header, r *http.Request) bool {
	if len(s.origins) == 0 {
		return false
	}
	addVary(h, "Origin")
	if !s.originAllowed(r) {
		return false
	}
	h["Access-Control-Allow-Origin"] = r.Header["Origin"]
	h["Access-Control-Expose-Headers"] = exposed
	return true
}

// crossSite is an error if a browser sends the request for a page of another
// site whose origin is not configured. Links to the server's own pages work:
// a page cannot read what a link of it opens.
func (s *access) crossSite(r *http.Request, p *place) error {
	if site := r.Header["Sec-Fetch-Site"]; len(site) == 0 || site[0] != "cross-site" {
		return nil
	}
	if p.origins && s.originAllowed(r) {
		return nil
	}
	if p.links && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return errCrossSite
}
