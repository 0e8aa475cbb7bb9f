// Package symcache implements the rules of Windows Performance Analyzer's
// SymCache: versions and their compatibility, the requests and headers of its HTTP
// protocol, its folder on disk, and how a server answers a request. The files are
// opaque, because their format is not public.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Decide is a pure function: its result
// depends only on its arguments.
package symcache

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// Version is the format version of a SymCache file. The zero Version means
// "none" and matches no request.
type Version struct {
	Major        uint16
	Minor, Patch uint8
	// Pre is the pre-release suffix without its hyphen. Requests cannot contain one.
	Pre string
}

// ErrVersion is wrapped by the error for an invalid version.
var ErrVersion = errors.New("not a SymCache version")

var (
	// MinVersion is the lowest version of this protocol. Servers answer requests
	// for lower versions with 404.
	MinVersion = Version{Major: 3}
	// lastSync is the highest version whose clients wait for a transcoder unless
	// they send a retry header.
	lastSync = Version{Major: 3, Minor: 1}
)

// ParseVersion parses major.minor.patch as in headers and file names, with an
// optional leading v and an optional pre-release suffix. Leading zeros are
// ignored. The limits are 65535 for major and 255 for minor and patch.
func ParseVersion(s string) (Version, error) {
	text := s
	if s != "" && s[0]|0x20 == 'v' {
		text = s[1:]
	}
	numbers, pre, hasPre := strings.Cut(text, "-")
	v, ok := parseNumbers(numbers)
	if !ok || hasPre && !isPre(pre) {
		return Version{}, fmt.Errorf("%q: %w", truncate.Text(s), ErrVersion)
	}
	v.Pre = pre
	return v, nil
}

// parseNumbers parses major.minor.patch without prefix and suffix.
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

// String returns major.minor.patch and the pre-release suffix, if any.
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre != "" {
		s += "-" + v.Pre
	}
	return s
}

// Segment returns the form in requests and file names, such as v3.1.0.
func (v Version) Segment() string { return "v" + v.String() }

// IsZero reports whether v is "none".
func (v Version) IsZero() bool { return v == Version{} }

// Compare returns -1, 0 or 1. A pre-release is lower than its release; two
// pre-release suffixes are compared as ASCII strings.
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

// CanRead reports whether a client that requests one version can read a file of
// version held. A client reads all versions of its own major and of lower majors,
// from MinVersion on, but a pre-release only if it requests exactly this one.
func CanRead(request, held Version) bool {
	if held.Pre != "" {
		return held == request
	}
	return held.Major <= request.Major && held.Compare(MinVersion) >= 0
}

// Best returns the held version that answers the request: the requested version
// if it is held, otherwise the highest that the client can read. Unless exceeds is
// zero, Best ignores versions up to exceeds.
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
