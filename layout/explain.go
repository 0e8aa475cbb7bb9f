package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

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

func parts(s []string, want string) string {
	if len(s) == 1 {
		return "it has one part, not " + want
	}
	return fmt.Sprintf("it has %d parts, not %s", len(s), want)
}

func whySymCache(s []string) string {
	if len(s) == 0 || !strings.HasPrefix(symfile.Fold(s[0]), "v") {
		return "it does not begin with a version such as v3.1.0"
	}
	if _, err := symcache.ParseRequest(s); err != nil {
		return err.Error()
	}
	return "it is no path of the SymCache protocol"
}

func whyDebuginfod(s []string) string {
	if len(s) != 2 {
		if len(s) < 3 || !strings.EqualFold(s[0], "buildid") {
			return "it does not begin with buildid"
		}
		s = s[1:]
	}
	if _, err := debugid.ParseBuildID(s[0]); err != nil {
		return quoted(s[0]) + " is no build-id"
	}
	artifact := symfile.Fold(s[1])
	if artifact == "section" || artifact == "source" {
		return "the name of the " + artifact + " is missing"
	}
	if artifact == "gsym" || slices.ContainsFunc(debuginfodLeaves, func(l leaf) bool { return l.name == artifact }) {
		return "something follows " + artifact
	}
	return quoted(s[1]) + " is none of debuginfo, executable, section, source and gsym"
}

func whyLLDB(s []string) string {
	if len(s) != 6 {
		return parts(s, "six")
	}
	return "the parts are not 4, 4, 4, 4, 4 and 12 hex digits"
}

func whyGDB(s []string) string {
	if len(s) == 3 && s[0] == ".build-id" {
		s = s[1:]
	}
	switch {
	case len(s) > 2 || len(s) == 0:
		return parts(s, "two, or three behind .build-id")
	case len(s[0]) != 2:
		return quoted(s[0]) + " is not the first two digits of a build-id"
	}
	return quoted(strings.Join(s, "")) + " is no build-id with an ending .debug or none"
}

func whyUnified(s []string) string {
	switch {
	case len(s) < 2 || len(s) > 3:
		return parts(s, "three")
	case len(s[0]) != 2 || !debugid.IsHex(s[0]):
		return quoted(s[0]) + " is not the first two digits of an id"
	case len(s) == 3 && s[1] != "" && !debugid.IsHex(s[1]):
		return quoted(s[1]) + " is not the rest of an id"
	case len(s) == 3 && len(s[1]) > 2*debugid.MaxBuildID:
		return "the id is too long"
	}
	return quoted(s[len(s)-1]) + " is none of executable, debuginfo, breakpad and sourcebundle"
}

func whySymstore(s []string) string {
	switch len(s) {
	case 3:
		return whyNameIDLeaf(s[0], s[1], s[2])
	case 4:
		if _, ok := msfzVersion(s[2]); !ok {
			return quoted(s[2]) + " is no version of MSFZ, such as msfz0"
		}
		if why := whyNameIDLeaf(s[0], s[1], s[3]); why != "" {
			return why
		}
		return "an MSFZ container has no such form"
	}
	return parts(s, "three: name, id, name")
}

func whyIndex2(s []string) string {
	switch {
	case len(s) < 4:
		return parts(s, "four: the first characters of the name, name, id, name")
	case !isBucket(s[0], s[1]):
		return quoted(s[0]) + " is not the first one or two characters of " + quoted(s[1])
	}
	return whySymstore(s[1:])
}

func whyBreakpad(s []string) string {
	if len(s) < 3 || len(s) > 32 {
		return parts(s, "three to 32")
	}
	last := s[len(s)-3:]
	if why := whyNameIDLeaf(last[0], last[1], last[2]); why != "" {
		return why
	}
	return quoted(last[2]) + " ends in neither .sym nor .src.zip"
}

// whyNameIDLeaf says why nameIDLeaf refuses its parts; "" if it does not.
func whyNameIDLeaf(rawName, id, rawLeaf string) string {
	if _, ok := nameIDLeaf(rawName, id, rawLeaf); ok {
		return ""
	}
	name, ok := cleanName(rawName)
	if !ok {
		return quoted(rawName) + " is no file name"
	}
	if _, ok := parseKey(id); !ok {
		return quoted(id) + " is no id: hex digits are expected, for a PDB its GUID and its age without hyphens"
	}
	if _, ok := cleanName(rawLeaf); !ok {
		return quoted(rawLeaf) + " is no file name"
	}
	return "the last part, " + quoted(rawLeaf) + ", is not derived from the name " + quoted(name)
}

// quoted is a part of a path for people.
func quoted(s string) string { return clip.Quoted(s) }
