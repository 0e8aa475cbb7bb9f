package server

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Pages of other sites run in browsers that can reach this server, and every
// shipped binary contains the ids of its symbol files. Without a rule, any page
// could read the files. Scripts may therefore read answers only if the origin of
// their page is configured, and requests that a browser sends for pages of other
// sites are refused.

// anyOrigin means all origins in Config.Origins.
const anyOrigin = "*"

var errCrossSite = errors.New("this server does not answer requests of web pages of other sites; the page's origin " +
	"can be listed under origins in its configuration")

// parseOrigins checks and normalizes Config.Origins.
func parseOrigins(list []string) ([]string, error) {
	var out []string
	for _, o := range list {
		if o == anyOrigin {
			out = append(out, o)
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
			u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("origins: %q is not an origin; want SCHEME://HOST, such as https://profiler.firefox.com, or *", o)
		}
		out = append(out, strings.ToLower(u.Scheme+"://"+u.Host))
	}
	return out, nil
}
