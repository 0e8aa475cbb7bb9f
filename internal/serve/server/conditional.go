package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
)

// precondition evaluates the conditional headers in the order of RFC 9110,
// section 13.2.2; 0 means go on.
func precondition(h http.Header, tag string, mod time.Time) int {
	if im := h["If-Match"]; im != nil {
		if !matches(im, tag, true) {
			return http.StatusPreconditionFailed
		}
	} else if t, ok := httpTime(h, "If-Unmodified-Since", mod); ok && mod.After(t) {
		return http.StatusPreconditionFailed
	}
	if inm := h["If-None-Match"]; inm != nil {
		if matches(inm, tag, false) {
			return http.StatusNotModified
		}
	} else if t, ok := httpTime(h, "If-Modified-Since", mod); ok && !mod.After(t) {
		return http.StatusNotModified
	}
	return 0
}

// httpTime reads a date header. ok is false if it is missing or malformed, or
// if the file has no date to compare it with.
func httpTime(h http.Header, key string, mod time.Time) (time.Time, bool) {
	v := h[key]
	if len(v) != 1 || mod.IsZero() {
		return time.Time{}, false
	}
	t, err := http.ParseTime(v[0])
	return t, err == nil
}

// matches reports whether one of the listed entity tags is tag. Unless strong,
// weak tags compare like strong ones.
func matches(list []string, tag string, strong bool) bool {
	for _, l := range list {
		for e := range strings.SplitSeq(l, ",") {
			e = strings.TrimSpace(e)
			if weak, ok := strings.CutPrefix(e, "W/"); ok {
				if strong {
					continue
				}
				e = weak
			}
			if e == "*" || e != "" && e == tag {
				return true
			}
		}
	}
	return false
}

// ifRange reports whether a Range header applies: If-Range is missing or matches
// the file.
func ifRange(h http.Header, tag string, mod time.Time) bool {
	v := h["If-Range"]
	if len(v) == 0 {
		return true
	}
	if strings.HasPrefix(v[0], `"`) {
		return v[0] == tag
	}
	t, err := http.ParseTime(v[0])
	return err == nil && !mod.IsZero() && t.Equal(mod)
}

// The kinds of Range header.
type rangeKind int

const (
	rangeAll  rangeKind = iota // none, several or not understood: the whole file
	rangeOne                   // one, to be answered
	rangeNone                  // one that lies outside the file
)

// parseRange reads a Range header for a file of size bytes. Several ranges are
// answered with the whole file, as RFC 9110 section 14.2 allows.
func parseRange(v string, size int64) (off, n int64, kind rangeKind) {
	unit, spec, ok := strings.Cut(v, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return 0, 0, rangeAll
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return 0, 0, rangeAll
	}
	if first == "" {
		n, ok := digits(last)
		switch {
		case !ok, size == 0 && n > 0:
			return 0, 0, rangeAll
		case n == 0:
			return 0, 0, rangeNone
		}
		n = min(n, size)
		return size - n, n, rangeOne
	}
	off, ok = digits(first)
	if !ok {
		return 0, 0, rangeAll
	}
	end := size - 1
	if last != "" {
		l, ok := digits(last)
		if !ok || l < off {
			return 0, 0, rangeAll
		}
		end = min(end, l)
	}
	if off >= size {
		return 0, 0, rangeNone
	}
	return off, end - off + 1, rangeOne
}

// arrivingRange reads a Range header for a file of unknown size that is still
// being downloaded, and waits for the end of the range. ok is false if the whole
// file is the answer.
func arrivingRange(v string, f *answer.File) (off, n int64, ok bool) {
	const longest = 1 << 62
	off, n, kind := parseRange(v, longest)
	if kind != rangeOne || n <= 0 || off+n == longest {
		return 0, 0, false // without an end, or counted from the end
	}
	if _, err := f.Arrived(off + n - 1); err != nil {
		return 0, 0, false
	}
	return off, n, true
}

// digits reads a decimal number without a sign, capped at the largest int64.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// acceptsMSFZ reports whether a client accepts PDBs in MSFZ containers.
func acceptsMSFZ(accept []string) bool {
	for _, a := range accept {
		for e := range strings.SplitSeq(a, ",") {
			media, _, _ := strings.Cut(e, ";")
			if strings.EqualFold(strings.TrimSpace(media), "application/msfz0") && quality(e) > 0 {
				return true
			}
		}
	}
	return false
}

// acceptedCodings returns the supported content codings that a client accepts
// with at least the quality of identity, best first; zstd precedes an equal gzip.
func acceptedCodings(accept []string) []string {
	type coding struct {
		name string
		q    float64
	}
	ours := []coding{{"zstd", -1}, {"gzip", -1}}
	identity, others := -1.0, -1.0
	for _, a := range accept {
		for e := range strings.SplitSeq(a, ",") {
			name, _, _ := strings.Cut(e, ";")
			name, q := strings.TrimSpace(name), quality(e)
			switch {
			case name == "*":
				others = q
			case strings.EqualFold(name, "identity"):
				identity = q
			case strings.EqualFold(name, "x-gzip"):
				ours[1].q = q
			default:
				for i := range ours {
					if strings.EqualFold(name, ours[i].name) {
						ours[i].q = q
					}
				}
			}
		}
	}
	for i := range ours {
		if ours[i].q < 0 {
			ours[i].q = others
		}
	}
	ours = slices.DeleteFunc(ours, func(c coding) bool { return c.q <= 0 || c.q < identity })
	sorting.Stable(ours, func(a, b coding) int { return cmp.Compare(b.q, a.q) })
	var names []string
	for _, c := range ours {
		names = append(names, c.name)
	}
	return names
}

// quality returns the q parameter of a list element, 1 without one.
func quality(e string) float64 {
	_, params, ok := strings.Cut(e, ";")
	for ok {
		var p string
		p, params, ok = strings.Cut(params, ";")
		k, v, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(k), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil || !(q >= 0 && q <= 1) { // NaN too
				return 0
			}
			return q
		}
	}
	return 1
}
