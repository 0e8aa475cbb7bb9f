package intake

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/layout"
)

// ClaimedBy reports whether a handler answers a request; see Claims. That of None answers
// none.
func ClaimedBy(h *Handler, method string, segs []string) bool {
	return h.stages != nil && Claims(method, segs)
}

// Claims reports whether a request is an upload of one of the protocols. segs is
// the decoded path without a token and a configured prefix. Of GET and HEAD it
// claims few paths, none of which is that of a symbol file in any layout; of other
// methods it claims requests that clients of symbol servers never send. Paths below "-" are
// never claimed.
func Claims(method string, segs []string) bool {
	_, ok := find(method, segs)
	return ok
}

// inWord begins a path that names the product of an upload:
// /in/PRODUCT[/VERSION]/PATH.
const inWord = "in"

func find(method string, segs []string) (t target, ok bool) {
	if len(segs) > 0 && segs[0] == "-" {
		return target{}, false
	}
	if t, ok := protocol(method, segs); ok {
		return t, true
	}
	if len(segs) >= 2 && segs[0] == inWord {
		if t, ok := below(method, segs); ok {
			return t, true
		}
	}
	switch method {
	case http.MethodPut:
		// The SymCache protocol has no uploads: the server answers 405 there.
		if req, err := layout.Route(segs); err == nil && req.Form == layout.FormSymCache {
			return target{}, false
		}
		return target{face: putFace, serve: servePut, args: segs}, len(segs) > 0
	case "MKCOL":
		return target{face: putFace, serve: serveMkcol}, true
	}
	return target{}, false
}

// below reads a path that begins with /in/PRODUCT[/VERSION].
func below(method string, segs []string) (target, bool) {
	for n := 2; n <= 3 && n <= len(segs); n++ {
		if t, ok := protocol(method, segs[n:]); ok && t.face != sentryFace {
			t.in(segs[1:n])
			return t, true
		}
	}
	switch {
	case method == http.MethodPost && len(segs) <= 3:
		t := target{face: breakpadFace, serve: serveForm}
		t.in(segs[1:])
		return t, true
	case method != http.MethodPut || len(segs) < 3:
		return target{}, false
	}
	// PRODUCT/FILE, PRODUCT/VERSION/FILE, PRODUCT/SYMBOLPATH or
	// PRODUCT/VERSION/SYMBOLPATH.
	n := 3
	if _, err := layout.Route(segs[2:]); err == nil && len(segs) >= 5 || len(segs) == 3 {
		n = 2
	}
	t := target{face: putFace, serve: servePut, args: segs[n:]}
	t.in(segs[1:n])
	return t, true
}

func (t *target) in(labels []string) {
	t.product, t.prefix = labels[0], "/"+inWord
	if len(labels) > 1 {
		t.version = labels[1]
	}
	for _, l := range labels {
		t.prefix += "/" + url.PathEscape(l)
	}
}

// route is a row of the table of protocols.
type route struct {
	methods []string
	// path are the words of a path. A word * is any word, which becomes an argument, also
	// before :NAME. The last word ** stands for one word or more; all become arguments.
	path   string
	target target

	words []string // of path
}

var (
	gets  = []string{http.MethodGet, http.MethodHead}
	posts = []string{http.MethodPost}
	puts  = []string{http.MethodPut}
)

// routes are the requests of all protocols but those to a product, /in.
var routes = split([]route{
	{methods: gets, path: "api/0", target: target{face: sentryFace, serve: serveSentryInfo}},
	{methods: gets, path: "api/0/organizations/*/chunk-upload", target: target{face: sentryFace, serve: serveSentryOptions}},
	{methods: posts, path: "api/0/organizations/*/chunk-upload", target: target{face: sentryChunkFace, serve: serveSentryChunks}},
	{methods: posts, path: "api/0/organizations/*/artifactbundle/assemble", target: target{face: sentryFace,
		serve: refuse(http.StatusBadRequest, "source maps are not kept here; push .js.map with symdepot push --as jsmap")}},
	{methods: posts, path: "api/0/projects/*/*/files/difs/assemble", target: target{face: sentryFace, serve: serveSentryAssemble}},
	{methods: gets, path: "api/0/projects/*/*/files/dsyms/unknown", target: target{face: sentryFace, serve: serveSentryUnknown}},
	{methods: posts, path: "api/0/projects/*/*/files/dsyms", target: target{face: sentryFace, serve: serveSentryZip}},

	{methods: gets, path: "nuget/v3/index.json", target: target{face: nugetFace, serve: serveNugetIndex, access: accessOpen}},

	{methods: posts, path: "upload", target: target{face: teckenFace, serve: serveTecken}},
	{methods: posts, path: "upload/auth_info", target: target{face: teckenFace, serve: serveTeckenAuth}},
	{methods: posts, path: "upload/v2", target: target{face: teckenFace, serve: serveTeckenV2}},
	{methods: append(posts, puts...), path: "upload/v2/*/*", target: target{face: teckenFace, serve: serveTeckenPut, access: accessOwnKey}},

	{methods: posts, path: "upload/breakpad", target: target{face: breakpadFace, serve: serveForm}},
	{methods: posts, path: "breakpad-symbol", target: target{face: breakpadFace, serve: serveForm}},
	{methods: posts, path: "dsym", target: target{face: breakpadFace, serve: serveForm}},
	{methods: posts, path: "ndk-symbol", target: target{face: breakpadFace, serve: serveForm}},

	{methods: gets, path: "v1/symbols/*/*:checkStatus", target: target{face: breakpad2Face, serve: serveCheckStatus}},
	{methods: posts, path: "v1/uploads:create", target: target{face: breakpad2Face, serve: serveCreate}},
	{methods: puts, path: "v1/uploads/*", target: target{face: breakpad2Face, serve: serveUploadData, access: accessOwnKey}},
	{methods: posts, path: "v1/uploads/*:complete", target: target{face: breakpad2Face, serve: serveComplete}},

	{methods: posts, path: pyroscopeService + "/**", target: target{face: pyroscopeFace, serve: servePyroscope}},
})

func split(list []route) []route {
	for i := range list {
		list[i].words = strings.Split(list[i].path, "/")
	}
	return list
}

// match returns the arguments of a path, if it is that of the route.
func (r *route) match(segs []string) (args []string, ok bool) {
	words := r.words
	if last := len(words) - 1; words[last] == "**" && len(segs) >= len(words) {
		words, segs, args = words[:last], segs[:last], segs[last:]
	}
	if len(words) != len(segs) {
		return nil, false
	}
	for i, w := range words {
		tail, any := strings.CutPrefix(w, "*")
		arg, ends := strings.CutSuffix(segs[i], tail)
		switch {
		case any && ends:
			args = append(args, arg)
		case any || w != segs[i]:
			return nil, false
		}
	}
	return args, true
}

// protocol finds the protocol of a path by its fixed words.
func protocol(method string, s []string) (target, bool) {
	if len(s) == 0 {
		return target{}, false
	}
	get, sentry := slices.Contains(gets, method), len(s) >= 2 && s[0] == "api" && s[1] == "0"
	if sentry && get {
		if _, err := layout.Route(s); err == nil {
			return target{}, false
		}
	}
	for i := range routes {
		if r := &routes[i]; slices.Contains(r.methods, method) {
			if args, ok := r.match(s); ok {
				t := r.target
				t.args = args
				return t, true
			}
		}
	}
	switch {
	case sentry:
		no := refuse(http.StatusNotFound, "this request is not part of this server; it takes debug information files only")
		return target{face: sentryFace, serve: no}, true
	case len(s) < 3 || s[1] != "v2" || s[2] != "package" && s[2] != "symbolpackage":
	case s[0] == "nuget", s[0] == "api" && len(s) == 3:
		return nugetTarget(method, s[2:], get)
	}
	return target{}, false
}

func nugetTarget(method string, s []string, get bool) (target, bool) {
	t := target{face: nugetFace, args: s}
	switch {
	case get:
		return target{}, false
	case method == http.MethodPut && len(s) == 1:
		t.serve = serveNugetPush
	case method == http.MethodDelete:
		t.serve = refuse(http.StatusForbidden, "packages are not deleted here; remove the build with: symdepot rm")
	default:
		t.serve = refuse(http.StatusNotFound, "not found")
	}
	return t, true
}

// refuse returns a handler that refuses a request of the protocol.
func refuse(status int, text string) func(x *exchange) error {
	return func(*exchange) error { return &failure{status, text} }
}
