package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/oauth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// routes finds the endpoint of a path.
type routes struct {
	tokens   bool     // a path may begin with a token
	prefixes []string // configured ones

	uploads      *intake.Handler
	symbolicates bool // the symbolication APIs are answered

	job, api, oauth, pages, download, source, upload, own, symbol, symCache, symbolicate, minidump, none *endpoint
}

func newRoutes(a *access, sc *symCaches) *routes {
	sy := newSymbolication(a)
	return &routes{
		symbolicates: a.depot.Symbols.Makes(),
		symbolicate:  &endpoint{options: true, body: true, origins: true, posts: true, handler: sy},
		minidump:     &endpoint{options: true, body: true, origins: true, posts: true, handler: newMinidumps(sy)},
		tokens:       !a.cfg.Gate.Off(), prefixes: a.cfg.Prefixes,
		uploads:  a.cfg.Uploads,
		job:      &endpoint{body: true, handler: &jobAPI{a}},
		api:      &endpoint{body: true, judgesSites: true, signIn: true, handler: &webAPI{a, sy}},
		oauth:    &endpoint{body: true, judgesSites: true, handler: &oauthEndpoints{webAPI{a, sy}}},
		pages:    &endpoint{body: true, judgesSites: true, links: true, signIn: true, handler: &webPages{webAPI{a, sy}}},
		download: &endpoint{methods: readMethods, signIn: true, handler: &downloads{webAPI{a, sy}, &symbols{a, sy.making}}},
		source:   &endpoint{methods: readMethods, options: true, origins: true, handler: &sourceFiles{a, a.depot.Sources}},
		upload:   &endpoint{body: true, handler: &uploads{a}},
		own: &endpoint{
			methods: readMethods, options: true, links: true, root: true,
			handler: &ownPaths{a, &metadataSearch{a, a.depot.Metadata}, a.depot.Missing, a.depot.Ready},
		},
		symbol:   &endpoint{methods: readMethods, options: true, origins: true, handler: &symbols{a, sy.making}},
		symCache: &endpoint{methods: "GET, HEAD", options: true, origins: true, handler: sc},
		none:     &endpoint{methods: readMethods, options: true, origins: true, handler: &unknownPath{a}},
	}
}

// unknownPath answers requests for paths that name nothing.
type unknownPath struct{ *access }

// admit authorizes a request. Below /-/, a browser is led to the page for signing in, as
// from the pages that are there.
func (s *unknownPath) admit(x *exchange, r *http.Request, p *place) bool {
	if p.token == "" && p.own != nil {
		return (&webAPI{access: s.access}).admitBrowser(x, r, p)
	}
	return s.access.admit(x, r, p)
}

func (s *unknownPath) serve(x *exchange, r *http.Request, p *place) { s.missing(x, r, p, p.err) }

// place finds out what the path of a request names.
func (rt *routes) place(p *place, r *http.Request) {
	*p = place{path: rawPath(r), endpoint: rt.none}
	p.path, p.asks = cutAsking(p.path)
	if rt.tokens {
		p.token, p.path = cutToken(p.path)
	}
	segs, err := layout.Segments(p.path)
	if err != nil {
		p.err = err
		return
	}
	var ok bool
	if p.job, ok = rt.jobPath(segs); ok {
		p.endpoint = rt.job
		return
	}
	if own, claimed := rt.webPath(segs, web.Claims); claimed {
		p.claim(segs, own)
		p.endpoint = rt.pages
		switch {
		case web.IsAPI(own):
			p.endpoint = rt.api
		case oauth.IsEndpoint(own):
			p.endpoint = rt.oauth
		case web.IsDownload(own):
			p.endpoint = rt.download
		case isSource(own):
			p.endpoint = rt.source
		}
		return
	}
	if base, own, ok := rt.discoveryPath(segs); ok {
		p.base, p.own, p.endpoint = base, own, rt.oauth
		return
	}
	if base, own, ok := rt.uploadPath(r.Method, segs); ok {
		p.base, p.own, p.endpoint = base, own, rt.upload
		return
	}
	if p.name, ok = rt.symbolicatePath(segs); ok {
		p.endpoint = rt.symbolicate
		if isMinidump(p.name) {
			p.endpoint = rt.minidump
		}
		return
	}
	if p.base, p.name, ok = rt.ownPath(segs); ok {
		p.endpoint = rt.own
		return
	}
	if p.req, err = layout.Route(segs, rt.prefixes...); err != nil {
		p.req, p.err = layout.RouteAdmin(segs, rt.prefixes...)
	}
	switch {
	case p.err != nil:
		if own, ok := rt.webPath(segs, func(segs []string) bool { return len(segs) > 0 && segs[0] == "-" }); ok {
			p.claim(segs, own)
		}
	case p.req.Form == layout.FormSymCache:
		p.endpoint = rt.symCache
	default:
		p.endpoint = rt.symbol
	}
}

// claim notes that a path ends with the segments of an own address.
func (p *place) claim(segs, own []string) {
	p.own = own
	if n := len(segs) - len(own); n > 0 {
		p.base = "/" + strings.Join(segs[:n], "/")
	}
}

// ownPath reports whether a path is the server's own and not a symbol file's:
// the root, or one segment, with or without a prefix in front. base is that
// prefix, name is "" for the root.
func (rt *routes) ownPath(segs []string) (base, name string, ok bool) {
	for _, list := range [2][]string{rt.prefixes, layout.Prefixes} {
		for _, p := range list {
			if len(segs) > strings.Count(p, "/")+2 {
				continue // more than one segment would follow
			}
			n, ok := below(segs, p)
			if !ok {
				continue
			}
			base = "/" + strings.Join(segs[:n], "/")
			if len(segs) == n {
				return base, "", true
			}
			if builtIn[segs[n]] {
				return base, segs[n], true
			}
		}
	}
	switch len(segs) {
	case 0:
		return "", "", true
	case 1:
		return "", segs[0], true
	}
	return "", "", false
}

// jobPath returns what follows the path of the job API, which may have a
// configured prefix in front.
func (rt *routes) jobPath(segs []string) ([]string, bool) {
	for _, p := range rt.prefixes {
		if n, ok := below(segs, p); ok && isJobs(segs[n:]) {
			return segs[n+2:], true
		}
	}
	if isJobs(segs) {
		return segs[2:], true
	}
	return nil, false
}

func isJobs(segs []string) bool { return len(segs) >= 2 && segs[0] == "-" && segs[1] == "worker" }

// webPath returns the segments of an address that is claimed for own ones below /-/, which
// may have a configured prefix in front.
func (rt *routes) webPath(segs []string, claims func([]string) bool) ([]string, bool) {
	for _, p := range rt.prefixes {
		if n, ok := below(segs, p); ok && claims(segs[n:]) {
			return segs[n:], true
		}
	}
	return segs, claims(segs)
}

// uploadPath returns the segments of the path of an upload, and the configured
// prefix in front of it.
func (rt *routes) uploadPath(method string, segs []string) (base string, own []string, ok bool) {
	for _, p := range rt.prefixes {
		if n, ok := below(segs, p); ok && intake.ClaimedBy(rt.uploads, method, segs[n:]) {
			return "/" + strings.Join(segs[:n], "/"), segs[n:], true
		}
	}
	return "", segs, intake.ClaimedBy(rt.uploads, method, segs)
}

// discoveryPath returns the segments of the issuer about which a path in the form of RFC 8414
// asks. A configured prefix may stand in front of the path, or of those segments.
func (rt *routes) discoveryPath(segs []string) (base string, own []string, ok bool) {
	asks := func(segs []string) bool { _, ok := oauth.Discovery(segs); return ok }
	path, ok := rt.webPath(segs, asks)
	if !ok {
		return "", nil, false
	}
	issuer, _ := oauth.Discovery(path)
	if own, ok = rt.webPath(issuer, oauth.IsIssuer); !ok {
		return "", nil, false
	}
	before := slices.Concat(segs[:len(segs)-len(path)], issuer[:len(issuer)-len(own)])
	if len(before) > 0 {
		base = "/" + strings.Join(before, "/")
	}
	return base, own, true
}

// symbolicatePath returns the name of a symbolication API: v4, v5, source, symbolicator, minidump,
// applecrashreport or requests.
// A configured prefix may stand in front.
func (rt *routes) symbolicatePath(segs []string) (name string, ok bool) {
	if !rt.symbolicates {
		return "", false
	}
	for _, p := range rt.prefixes {
		if n, below := below(segs, p); below {
			if name, ok = symbolicateAPI(segs[n:]); ok {
				return name, true
			}
		}
	}
	return symbolicateAPI(segs)
}
