package layout

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// Route finds out what a decoded path of two or more segments asks for, in
// any layout, with or without one of the prefixes. extra are more prefixes
// ("corp/symbols"), tried before the known ones.
func Route(segs []string, extra ...string) (Request, error) { return route(match, segs, extra) }

// RouteAdmin is Route for what no layout has: the own files of a symbol store,
// 000Admin/FILE and the refs.ptr of a key. Request.Part is the path.
func RouteAdmin(segs []string, extra ...string) (Request, error) {
	return route(matchAdmin, segs, extra)
}

// Try is one form of path that Route has compared a path with.
type Try struct {
	Shape  string // the name of the form
	Looks  string // an example of it
	Prefix string // what was removed from the front of the path, as in Request.Prefix
	Why    string // why the path has not this form; empty: it has
}

// Explain is Route and, if that finds nothing, RouteAdmin. It also lists the forms
// that were tried, in order: the last one fits if the error is nil.
func Explain(segs []string, extra ...string) (Request, []Try, error) {
	var tries []Try
	add := func(s []string, sh *shape, fits bool) {
		t := Try{Shape: sh.name, Looks: sh.looks}
		if n := len(segs) - len(s); n > 0 {
			t.Prefix = "/" + strings.Join(segs[:n], "/")
		}
		if !fits {
			t.Why = sh.why(s)
		}
		tries = append(tries, t)
	}
	r, err := route(func(s []string) (Request, bool) {
		return matchShapes(s, func(sh *shape, fits bool) { add(s, sh, fits) })
	}, segs, extra)
	if err == nil {
		return r, tries, nil
	}
	admin := shape{name: "symstore_admin", looks: "000Admin/server.txt", why: func([]string) string {
		return "it is neither below 000Admin nor the refs.ptr of a key"
	}}
	r, err = route(func(s []string) (Request, bool) {
		r, ok := matchAdmin(s)
		add(s, &admin, ok)
		return r, ok
	}, segs, extra)
	return r, tries, err
}

func matchAdmin(s []string) (Request, bool) {
	for _, p := range s {
		if !symfile.ValidName(p) {
			return Request{}, false
		}
	}
	r := Request{Form: FormAdmin, Layout: SymStore, Part: strings.Join(s, "/")}
	if len(s) == 4 && isBucket(s[0], s[1]) {
		s = s[1:]
		r.Part = strings.Join(s, "/")
	}
	if len(s) == 3 && strings.EqualFold(s[2], "refs.ptr") {
		_, ok := parseKey(s[1])
		return r, ok
	}
	return r, len(s) == 2 && strings.EqualFold(s[0], "000Admin")
}

func route(match func([]string) (Request, bool), segs, extra []string) (Request, error) {
	if len(segs) < 2 {
		return Request{}, fmt.Errorf("%q: %w", truncate.Text(strings.Join(segs, "/")), ErrNoPath)
	}
	if n := prefixLen(segs, extra); n > 0 {
		// One prefix at most, and none if the rest is not a symbol path: a
		// module may be called like one.
		if r, ok := match(segs[n:]); ok {
			r.Prefix = "/" + strings.Join(segs[:n], "/")
			return r, nil
		}
	}
	if r, ok := match(segs); ok {
		return r, nil
	}
	return Request{}, fmt.Errorf("%q: %w", truncate.Text(strings.Join(segs, "/")), ErrNoPath)
}

// match tries the shapes in their fixed order; the first that fits wins.
func match(s []string) (Request, bool) { return matchShapes(s, nil) }

// matchShapes is match. tried, if not nil, is called for each shape with whether
// it fits.
func matchShapes(s []string, tried func(sh *shape, fits bool)) (Request, bool) {
	for i := range shapes {
		r, ok := shapes[i].parse(s)
		if tried != nil {
			tried(&shapes[i], ok)
		}
		if ok {
			return r, true
		}
	}
	return Request{}, false
}

// shape is one form of path that Route knows.
type shape struct {
	name  string
	looks string // an example, for people
	parse func(segments []string) (Request, bool)
	// why says why parse has refused a path. Only parse decides.
	why func(segments []string) string
}

// shapes are tried in this order.
var shapes = [...]shape{
	{"symcache", "v3.1.0/app.pdb/GUID/1", parseSymCache, whySymCache},
	{"debuginfod", "buildid/BUILDID/debuginfo", parseDebuginfod, whyDebuginfod},
	{"lldb", "4F2A/…/UUID in six parts", parseLLDB, whyLLDB},
	{"gdb", ".build-id/ab/cdef….debug", parseGDB, whyGDB},
	{"unified", "ab/cdef…/debuginfo", parseUnified, whyUnified},
	{"symstore", "app.pdb/GUIDAGE/app.pdb", parseSymstore, whySymstore},
	{"symstore_index2", "ap/app.pdb/GUIDAGE/app.pdb", parseIndex2, whyIndex2},
	{"breakpad", "FOLDERS/app.pdb/GUIDAGE/app.sym", parseBreakpad, whyBreakpad},
}
