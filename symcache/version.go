// Package symcache holds the rules of Windows Performance Analyzer's SymCache:
// versions and which may answer which, the requests and headers of its HTTP
// protocol, its folder on disk, and what a server has to do with a request. The
// files themselves are opaque: their format is not public.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Decide is a pure function: equal
// inputs have equal answers.
package symcache

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of the format of a SymCache file. The zero Version
// means "none"; it answers nothing.
type Version struct {
	Major        uint16
	Minor, Patch uint8
	// Pre is the pre-release suffix without its hyphen; no request can ask for one.
	Pre string
}

// ErrVersion is wrapped by the error of a text that is no version.
var ErrVersion = errors.New("not a SymCache version")

var (
	// MinVersion is the first version that this protocol describes; servers have
	// no answer to a request for an older one.
	MinVersion = Version{Major: 3}
	// lastSync is the last version whose clients wait for a transcoder unless
	// they say otherwise.
	lastSync = Version{Major: 3, Minor: 1}
)

// ParseVersion reads major.minor.patch as headers and file names have it: one
// leading v and a pre-release suffix may be there, leading zeros do not count.
// A major is at most 65535, the others 255.
func ParseVersion(s string) (Version, error) {
	text := s
	if s != "" && s[0]|0x20 == 'v' {
		text = s[1:]
	}
	numbers, pre, hasPre := strings.Cut(text, "-")
	v, ok := parseNumbers(numbers)
	if !ok || hasPre && !isPre(pre) {
		return Version{}, fmt.Errorf("%q: %w", clip(s), ErrVersion)
	}
	v.Pre = pre
	return v, nil
}

// parseNumbers reads three numbers and nothing else.
func parseNumbers(s string) (Version, bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return Version{}, false
	}
	var n [3]uint64
	for i, bits := range [3]int{16, 8, 8} {
		var err error
		if n[i], err = strconv.ParseUint(parts[i], 10, bits); err != nil {
			return Version{}, false
		}
	}
	return Version{Major: uint16(n[0]), Minor: uint8(n[1]), Patch: uint8(n[2])}, true
}

func isPre(s string) bool {
	for _, c := range []byte(s) {
		if c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != ""
}

// String returns major.minor.patch, with a pre-release suffix if there is one.
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}

// Segment returns the form that requests and file names have: v3.1.0.
func (v Version) Segment() string { return "v" + v.String() }

// IsZero reports whether v is "none".
func (v Version) IsZero() bool { return v == Version{} }

// Compare returns -1, 0 or 1. A pre-release comes before its release; two of
// them compare as ASCII.
func (v Version) Compare(w Version) int {
	if c := cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)); c != 0 {
		return c
	}
	switch {
	case v.Pre == w.Pre:
		return 0
	case v.Pre == "":
		return 1
	case w.Pre == "":
		return -1
	}
	return cmp.Compare(v.Pre, w.Pre)
}

// CanRead reports whether a client that asks for one version may be given a
// file of another: it reads every version of its own and of lower majors, from
// First on, but pre-releases only if it asks for that very one.
func CanRead(request, held Version) bool {
	if held.Pre != "" {
		return held == request
	}
	return held.Major <= request.Major && held.Compare(MinVersion) >= 0
}

// Best chooses among held versions the one that answers the request: the very
// version if it is there, else the highest that may. Versions up to exceeds do
// not count, unless exceeds is zero.
func Best(held []Version, request, exceeds Version) (best Version, ok bool) {
	for _, h := range held {
		if !CanRead(request, h) || !exceeds.IsZero() && h.Compare(exceeds) <= 0 {
			continue
		}
		if h == request {
			return h, true
		}
		if !ok || h.Compare(best) > 0 {
			best, ok = h, true
		}
	}
	return best, ok
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
