package symcache

import (
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
)

// ErrPath is wrapped by the error of a path that asks for no SymCache file;
// the answer is a final 404.
var ErrPath = errors.New("not a SymCache request")

// ErrHeader is wrapped by the error of a header that makes no sense in its
// request; the answer is 400.
var ErrHeader = errors.New("not a usable header")

// ErrContent is wrapped by the error of an answer that holds no SymCache file
// or one that its client cannot read.
var ErrContent = errors.New("not a SymCache file that was asked for")

// The headers of the protocol. The text calls the first one so; Microsoft's
// sample server reads the second. A server takes either, a client sends both.
const (
	HeaderAllowRetry  = "Allow-Retry-After"
	HeaderAcceptRetry = "Accept-Retry-After"
	HeaderExceeds     = "If-Version-Exceeds"
	// MediaType is the type of every SymCache file that is sent.
	MediaType = "application/vnd.ms-symcache"
)

// Key names what a SymCache file was made of: the PDB's file name and its GUID
// and age. A version is not part of it. Names compare without regard to case.
type Key struct {
	Name string
	ID   debugid.ID
}

// Fold returns the key in the form that can be compared.
func (k Key) Fold() Key {
	k.Name = strings.ToLower(k.Name)
	return k
}

// Request is what a path asks for.
type Request struct {
	Version Version
	Key     Key
	// Hex is the key if the digits of the age are read as hex, in case that a
	// client writes it like the folders on disk do. It may be answered from
	// what is held, but nothing may be made for it. It is zero where both
	// readings are one.
	Hex Key
	// HexOnly says that the age has no decimal reading: Key is zero, and where
	// Hex is not to be tried nothing matches.
	HexOnly bool
}

// ParseRequest reads the decoded segments vN.N.N, NAME, GUID and, if it is not
// 1, the age in decimal. A version too old to be answered is still a request.
func ParseRequest(segs []string) (Request, error) {
	bad := func(what, s string) (Request, error) {
		return Request{}, fmt.Errorf("%s %q: %w", what, clip(s), ErrPath)
	}
	if n := len(segs); n > 3 && segs[n-1] == "" {
		segs = segs[:n-1] // one trailing slash
	}
	if len(segs) < 3 || len(segs) > 4 {
		return bad("path", strings.Join(segs, "/"))
	}
	numbers, ok := strings.CutPrefix(strings.ToLower(segs[0]), "v")
	if !ok {
		return bad("version", segs[0])
	}
	v, ok := parseNumbers(numbers)
	if !ok {
		return bad("version", segs[0])
	}
	if !ValidName(segs[1]) {
		return bad("PDB name", segs[1])
	}
	guid, ok := parseGUID(segs[2])
	if !ok {
		return bad("GUID", segs[2])
	}
	r := Request{Version: v, Key: Key{segs[1], debugid.ID{GUID: guid, Age: 1}}}
	if len(segs) == 3 {
		return r, nil
	}
	age, decErr := strconv.ParseUint(segs[3], 10, 32)
	hex, hexErr := strconv.ParseUint(segs[3], 16, 32)
	r.Key.ID.Age = uint32(age)
	if hexErr == nil && (decErr != nil || hex != age) {
		r.Hex = Key{segs[1], debugid.ID{GUID: guid, Age: uint32(hex)}}
	}
	if decErr != nil {
		if hexErr != nil {
			return bad("age", segs[3])
		}
		r.Key, r.HexOnly = Key{}, true
	}
	return r, nil
}

// Segments returns the path of the request, not escaped; the age is always there.
func (r Request) Segments() []string {
	return []string{r.Version.Segment(), r.Key.Name, r.Key.ID.GUID.Upper(), strconv.FormatUint(uint64(r.Key.ID.Age), 10)}
}

// ValidName reports whether s can be the file name of a PDB in a request or in
// a folder: it can never lead to another place, nor to a hidden one.
func ValidName(s string) bool {
	if s == "" || len(s) > 255 || !utf8.ValidString(s) || s[0] == '.' || strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") {
		return false
	}
	return !strings.ContainsAny(s, `/\:*?"<>|`) && !strings.ContainsFunc(s, unicode.IsControl)
}

// parseGUID reads 32 digits or the form with hyphens, in braces or parentheses
// or without.
func parseGUID(s string) (debugid.GUID, bool) {
	for _, pair := range [2]string{"{}", "()"} {
		if in, ok := strings.CutPrefix(s, pair[:1]); ok {
			if in, ok = strings.CutSuffix(in, pair[1:]); !ok {
				return debugid.GUID{}, false
			}
			s = in
			break
		}
	}
	g, err := debugid.ParseGUID(s)
	return g, err == nil
}

// ParseExceeds reads the lines of the header If-Version-Exceeds: the client has
// that version and wants only a newer one. No line gives the zero Version.
func ParseExceeds(lines []string, request Version) (Version, error) {
	if len(lines) == 0 {
		return Version{}, nil
	}
	if len(lines) > 1 {
		return Version{}, fmt.Errorf("%s: %d lines: %w", HeaderExceeds, len(lines), ErrHeader)
	}
	v, err := ParseVersion(strings.Trim(lines[0], " \t"))
	switch {
	case err != nil:
		return Version{}, fmt.Errorf("%s: %w: %w", HeaderExceeds, err, ErrHeader)
	case v.Major == 0:
		return Version{}, fmt.Errorf("%s: %s does not exist: %w", HeaderExceeds, v, ErrHeader)
	case v.Compare(request) >= 0:
		return Version{}, fmt.Errorf("%s: %s is not less than %s, which is asked for: %w", HeaderExceeds, v, request, ErrHeader)
	}
	return v, nil
}

// AllowsRetry reports whether the lines of both retry headers, in any order,
// say that the client will come again instead of waiting.
func AllowsRetry(lines ...string) bool {
	for _, l := range lines {
		if strings.EqualFold(strings.TrimSpace(l), "true") {
			return true
		}
	}
	return false
}

// Async reports whether a client comes again instead of waiting for a
// transcoder: all that ask for more than 3.1.0 do, others if they allow it.
func Async(request Version, allowsRetry bool) bool {
	return allowsRetry || request.Compare(lastSync) > 0
}

// Bounds of Retry-After; clients may ignore the number.
const (
	minRetry = time.Second
	maxRetry = 10 * time.Second
)

// RetryAfter prints how long a client should wait before it comes again, in
// whole seconds from 1 to 10.
func RetryAfter(d time.Duration) string {
	d = min(max(d, minRetry), maxRetry)
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// ParseRetryAfter reads the header of a 404: work is under way if it is there.
// A date is not part of the protocol; it and other texts count as one second.
func ParseRetryAfter(lines []string) (d time.Duration, ok bool) {
	if len(lines) == 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(lines[0]), 10, 31)
	if err != nil {
		return minRetry, true
	}
	return max(time.Duration(n)*time.Second, minRetry), true
}

// ContentType returns the type of a file of version v. It names the version of
// the file, whatever was asked for.
func ContentType(v Version) string { return MediaType + "; version=" + v.String() }

// ParseContentType returns the version of the file that another server sent for
// a request; without a parameter it is the very one asked for. A file that the
// request's client cannot read is an error.
func ParseContentType(s string, request Version) (Version, error) {
	media, params, err := mime.ParseMediaType(s)
	if err != nil || media != MediaType {
		return Version{}, fmt.Errorf("type %q: %w", clip(s), ErrContent)
	}
	text, ok := params["version"]
	if !ok {
		return request, nil
	}
	v, err := ParseVersion(text)
	if err != nil {
		return Version{}, fmt.Errorf("%w: %w", err, ErrContent)
	}
	if !CanRead(request, v) {
		return Version{}, fmt.Errorf("version %s for %s: %w", v, request, ErrContent)
	}
	return v, nil
}
