package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

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
func quoted(s string) string { return truncate.Quoted(s) }
