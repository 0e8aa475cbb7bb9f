package intake

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/layout"
)

// access is the kind of credentials that a request needs.
type access uint8

const (
	accessWrite  access = iota // a principal that may write something
	accessForm                 // likewise, but a field of the form may have the token
	accessOpen                 // none
	accessOwnKey               // the key of an open upload, which is part of the path
)

// target is the resource that the path of a request names.
type target struct {
	face    *face
	serve   func(x *exchange) error
	access  access
	args    []string
	product string // of a path below /in
	version string
	prefix  string // the escaped /in/PRODUCT[/VERSION], or ""
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
		t := target{face: breakpadFace, serve: serveForm, access: accessForm}
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

// protocol finds the protocol of a path by its fixed words.
func protocol(method string, s []string) (target, bool) {
	if len(s) == 0 {
		return target{}, false
	}
	is := func(words ...string) bool {
		if len(s) != len(words) {
			return false
		}
		for i, w := range words {
			if w != "*" && s[i] != w {
				return false
			}
		}
		return true
	}
	post, put, get := method == http.MethodPost, method == http.MethodPut, method == http.MethodGet || method == http.MethodHead
	switch s[0] {
	case "api":
		if len(s) >= 2 && s[1] == "0" {
			if _, err := layout.Route(s); get && err == nil {
				return target{}, false
			}
			return sentryTarget(method, s[2:]), true
		}
		if is("api", "v2", "package") || is("api", "v2", "symbolpackage") {
			return nugetTarget(method, s[2:], get)
		}
	case "nuget":
		switch {
		case get && is("nuget", "v3", "index.json"):
			return target{face: nugetFace, serve: serveNugetIndex, access: accessOpen}, true
		case len(s) >= 3 && s[1] == "v2" && (s[2] == "package" || s[2] == "symbolpackage"):
			return nugetTarget(method, s[2:], get)
		}
	case "upload":
		switch {
		case post && is("upload"):
			return target{face: teckenFace, serve: serveTecken}, true
		case post && is("upload", "auth_info"):
			return target{face: teckenFace, serve: serveTeckenAuth}, true
		case post && is("upload", "v2"):
			return target{face: teckenFace, serve: serveTeckenV2}, true
		case (post || put) && is("upload", "v2", "*", "*"):
			return target{face: teckenFace, serve: serveTeckenPut, access: accessOwnKey, args: s[2:]}, true
		case post && (is("upload", "breakpad") || is("upload", "backtrace")):
			return target{face: breakpadFace, serve: serveForm, access: accessForm}, true
		}
	case "v1":
		id, checks := strings.CutSuffix(s[len(s)-1], ":checkStatus")
		key, completes := strings.CutSuffix(s[len(s)-1], ":complete")
		switch {
		case get && checks && is("v1", "symbols", "*", "*"):
			return target{face: breakpad2Face, serve: serveCheckStatus, args: []string{s[2], id}}, true
		case post && is("v1", "uploads:create"):
			return target{face: breakpad2Face, serve: serveCreate}, true
		case put && is("v1", "uploads", "*"):
			return target{face: breakpad2Face, serve: serveUploadData, access: accessOwnKey, args: s[2:]}, true
		case post && completes && is("v1", "uploads", "*"):
			return target{face: breakpad2Face, serve: serveComplete, args: []string{key}}, true
		}
	case "breakpad-symbol", "dsym", "ndk-symbol":
		if post && len(s) == 1 {
			return target{face: breakpadFace, serve: serveForm, access: accessForm}, true
		}
	case pyroscopeService:
		if post && len(s) >= 2 {
			return target{face: pyroscopeFace, serve: servePyroscope, args: s[1:]}, true
		}
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
		t.serve = refuse(http.StatusForbidden, "packages are not deleted here; remove the transaction with: symdepot rm")
	default:
		t.serve = refuse(http.StatusNotFound, "not found")
	}
	return t, true
}

// refuse returns a handler that refuses a request of the protocol.
func refuse(status int, text string) func(x *exchange) error {
	return func(*exchange) error { return &failure{status, text} }
}
