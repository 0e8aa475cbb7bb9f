package server

import (
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/intake"
	"github.com/symdepot/symdepot/internal/web"
	"github.com/symdepot/symdepot/layout"
)

// place is what the path of a request names. It is found once.
type place struct {
	token string // the path token in front, or ""
	path  string // escaped, without the token
	*endpoint
	err        error          // why the path names nothing
	base, name string         // an own path: the prefix in front, and the name; "" is the root
	job        []string       // what follows the path of the job API
	own        []string       // the segments of an address below /-, from "-" on, or of an upload
	req        layout.Request // a symbol path
}

// handler answers the requests for one kind of path.
type handler interface {
	// admit authorizes a request before anything is looked up. If it returns
	// false, it has answered.
	admit(x *exchange, r *http.Request, p *place) bool
	serve(x *exchange, r *http.Request, p *place)
}

// endpoint says how the requests for one kind of path are answered.
type endpoint struct {
	methods string // for the Allow header; "": serve looks at the method
	options bool   // OPTIONS is answered for it
	body    bool   // takes a body
	origins bool   // scripts of the configured origins may read it
	links   bool   // links on pages of other sites may open it
	// judgesSites: the handler judges requests for pages of other sites itself.
	judgesSites bool
	posts       bool // the method is POST
	// signIn: the cookie of a browser that is signed in counts; root: it counts at the
	// root.
	signIn, root bool
	handler
}

const readMethods = "GET, HEAD, OPTIONS"

// routes finds the endpoint of a path.
type routes struct {
	tokens   bool     // a path may begin with a token
	prefixes []string // configured ones

	uploads      *intake.Handler
	symbolicates bool // the symbolication APIs are answered

	job, api, pages, download, source, upload, own, symbol, symCache, symbolicate, none *endpoint
}

func newRoutes(a *access, sc *symCaches) *routes {
	sy := newSymbolication(a)
	return &routes{
		symbolicates: a.depot.Symbols.Makes(),
		symbolicate:  &endpoint{options: true, body: true, origins: true, posts: true, handler: sy},
		tokens:       !a.cfg.Gate.Off(), prefixes: a.cfg.Prefixes,
		uploads:  a.cfg.Uploads,
		job:      &endpoint{body: true, handler: &jobAPI{a}},
		api:      &endpoint{body: true, judgesSites: true, signIn: true, handler: &webAPI{a}},
		pages:    &endpoint{body: true, judgesSites: true, links: true, signIn: true, handler: &webPages{webAPI{a}}},
		download: &endpoint{methods: readMethods, signIn: true, handler: &downloads{webAPI{a}, &symbols{a, sy.making}}},
		source:   &endpoint{methods: readMethods, options: true, origins: true, handler: &sourceFiles{a, a.depot.Sources}},
		upload:   &endpoint{body: true, handler: &uploads{a}},
		own:      &endpoint{methods: readMethods, options: true, links: true, root: true, handler: &ownPaths{a, &metadataSearch{a, a.depot.Metadata}, a.depot.Missing, a.depot.Ready}},
		symbol:   &endpoint{methods: readMethods, options: true, origins: true, handler: &symbols{a, sy.making}},
		symCache: &endpoint{methods: "GET, HEAD", options: true, origins: true, handler: sc},
		none:     &endpoint{methods: readMethods, options: true, origins: true, handler: &unknownPath{a}},
	}
}

// unknownPath answers requests for paths that name nothing.
type unknownPath struct{ *access }

func (s *unknownPath) serve(x *exchange, r *http.Request, p *place) { s.missing(x, r, p, p.err) }

// place finds out what the path of a request names.
func (rt *routes) place(p *place, r *http.Request) {
	*p = place{path: rawPath(r), endpoint: rt.none}
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
	if own, claimed := rt.webPath(segs); claimed {
		p.own, p.base, p.endpoint = own, "/"+strings.Join(segs[:len(segs)-len(own)], "/"), rt.pages
		if p.base == "/" {
			p.base = ""
		}
		switch {
		case web.IsAPI(own):
			p.endpoint = rt.api
		case web.IsDownload(own):
			p.endpoint = rt.download
		case isSource(own):
			p.endpoint = rt.source
		}
		return
	}
	if base, own, ok := rt.uploadPath(r.Method, segs); ok {
		p.base, p.own, p.endpoint = base, own, rt.upload
		return
	}
	if p.name, ok = rt.symbolicatePath(segs); ok {
		p.endpoint = rt.symbolicate
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
	case p.req.Form == layout.FormSymCache:
		p.endpoint = rt.symCache
	default:
		p.endpoint = rt.symbol
	}
}

// rawPath returns the escaped path of a request as the client sent it: neither
// cleaned nor decoded, without the query.
func rawPath(r *http.Request) string {
	t := r.RequestURI
	if !strings.HasPrefix(t, "/") {
		// An absolute URI, or a request that did not come over the wire.
		return r.URL.EscapedPath()
	}
	if i := strings.IndexByte(t, '?'); i >= 0 {
		t = t[:i]
	}
	return t
}

// builtIn are the server's own paths of one segment.
var builtIn = map[string]bool{
	"healthz": true, "readyz": true, "metrics": true, "metadata": true, missingPath: true, "index2.txt": true, "pingme.txt": true,
	"favicon.ico": true, "robots.txt": true,
}

// ownPath reports whether a path is the server's own and not a symbol file's:
// the root, or one segment, with or without a prefix in front. base is that
// prefix, name is "" for the root.
func (rt *routes) ownPath(segs []string) (base, name string, ok bool) {
	for _, list := range [2][]string{rt.prefixes, layout.Prefixes} {
		for _, p := range list {
			n, ok := below(segs, p)
			if !ok || len(segs) > n+1 {
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

// below reports whether a path begins with a prefix, such as "corp/symbols", in
// any case. n is the number of the prefix's segments.
func below(segs []string, prefix string) (n int, ok bool) {
	for more := true; more; n++ {
		var seg string
		seg, prefix, more = strings.Cut(prefix, "/")
		if n >= len(segs) || !strings.EqualFold(segs[n], seg) {
			return 0, false
		}
	}
	return n, true
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

func isJobs(segs []string) bool { return len(segs) >= 2 && segs[0] == "-" && segs[1] == "jobs" }
