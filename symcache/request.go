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
	"github.com/symdepot/symdepot/internal/base/truncate"
)

// ErrPath is wrapped by the error for a path that does not request a SymCache file.
// The answer is 404 without Retry-After.
var ErrPath = errors.New("not a SymCache request")

// ErrHeader is wrapped by the error for a header that is invalid in its request.
// The answer is 400.
var ErrHeader = errors.New("invalid header")

// ErrContent is wrapped by the error for an answer that is not a SymCache file or
// that the client of the request cannot read.
var ErrContent = errors.New("not a SymCache file that the client can read")

// Headers and media type of the protocol. A server accepts either of the two
// retry headers, and a client sends both: the protocol description defines the
// first, Microsoft's sample server reads the second.
const (
	HeaderAllowRetry  = "Allow-Retry-After"
	HeaderAcceptRetry = "Accept-Retry-After"
	HeaderExceeds     = "If-Version-Exceeds"
	// MediaType is the media type of SymCache files, without parameters.
	MediaType = "application/vnd.ms-symcache"
)

// Key identifies the PDB of a SymCache file by file name, GUID and age. It does
// not include the version. Names are compared case-insensitively.
type Key struct {
	Name string
	ID   debugid.ID
}

// Fold returns the key with a lower-case name, for comparison with ==.
func (k Key) Fold() Key {
	k.Name = strings.ToLower(k.Name)
	return k
}

// Request is the parsed path of a request.
type Request struct {
	Version Version
	Key     Key
	// Hex is the key with the digits of the age parsed as hex, for clients that
	// write the age like the folders on disk. The server may answer it with a
	// held file, but must not make a file for it. It is zero if both readings
	// give the same key.
	Hex Key
	// HexOnly reports an age that is not a decimal number. Key is then zero, and
	// only Hex can match.
	HexOnly bool
}

// ParseRequest parses the decoded path segments vN.N.N, NAME, GUID and the age in
// decimal, which may be omitted if it is 1. It accepts versions below MinVersion.
func ParseRequest(segs []string) (Request, error) {
	bad := func(what, s string) (Request, error) {
		return Request{}, fmt.Errorf("%s %q: %w", what, truncate.Text(s), ErrPath)
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

// Segments returns the unescaped path segments of the request, always with the age.
func (r Request) Segments() []string {
	return []string{r.Version.Segment(), r.Key.Name, r.Key.ID.GUID.Upper(), strconv.FormatUint(uint64(r.Key.ID.Age), 10)}
}

// ValidName reports whether s can be the file name of a PDB in a request or in a
// folder. It rejects path separators and the names of hidden files.
func ValidName(s string) bool {
	if s == "" || len(s) > 255 || !utf8.ValidString(s) || s[0] == '.' || strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") {
		return false
	}
	return !strings.ContainsAny(s, `/\:*?"<>|`) && !strings.ContainsFunc(s, unicode.IsControl)
}

// parseGUID parses 32 digits, with or without hyphens, braces or parentheses.
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

// ParseExceeds parses the values of the header If-Version-Exceeds, the version that
// the client has: it accepts only a newer one. Without a value it returns the
// zero Version. The version may be any, also one that is newer than the requested one.
func ParseExceeds(lines []string) (Version, error) {
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
	}
	return v, nil
}

// AllowsRetry reports whether one of the values of both retry headers, in any
// order, announces that the client repeats its request instead of waiting.
func AllowsRetry(lines ...string) bool {
	for _, l := range lines {
		if strings.EqualFold(strings.TrimSpace(l), "true") {
			return true
		}
	}
	return false
}

// Async reports whether a client repeats its request instead of waiting for a
// transcoder: every client that requests a version above 3.1.0 does; others only
// with a retry header.
func Async(request Version, allowsRetry bool) bool {
	return allowsRetry || request.Compare(lastSync) > 0
}

// Bounds of Retry-After; clients may ignore the number.
const (
	minRetry = time.Second
	maxRetry = 10 * time.Second
)

// RetryAfter formats the time that a client should wait before it repeats its
// request, in whole seconds from 1 to 10.
func RetryAfter(d time.Duration) string {
	d = min(max(d, minRetry), maxRetry)
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

// ParseRetryAfter parses the Retry-After values of a 404. If ok, the server is
// making or downloading the file. The protocol does not allow dates; a value that
// is not a number counts as one second.
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

// ContentType returns the media type of a file of version v. The parameter is the
// version of the file, which may differ from the requested version.
func ContentType(v Version) string { return MediaType + "; version=" + v.String() }

// ParseContentType returns the version of a file that an upstream sent for a
// request: the parameter of the media type s, or the requested version without a
// parameter. The error wraps ErrContent if the client of the request cannot read
// the file.
func ParseContentType(s string, request Version) (Version, error) {
	media, params, err := mime.ParseMediaType(s)
	if err != nil || media != MediaType {
		return Version{}, fmt.Errorf("media type %q: %w", truncate.Text(s), ErrContent)
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
		return Version{}, fmt.Errorf("version %s in answer to a request for %s: %w", v, request, ErrContent)
	}
	return v, nil
}
