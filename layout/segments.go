package layout

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// Prefixes are the path prefixes under which every layout is answered too,
// because clients and their users append them to a base URL; longest first.
var Prefixes = []string{"download/symbols", "symbols", "proxy", "try", "unified", "symcache"}

func splitNonEmpty(path string) []string {
	segs := make([]string, 0, min(strings.Count(path, "/")+1, 8))
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			segs = append(segs, s)
		}
	}
	return segs
}

// Segments splits an escaped URL path: empty segments fall away, each segment
// is decoded on its own, and %2F splits again only where fewer than three
// segments stand, because dotnet clients escape the slashes of a whole key.
func Segments(escaped string) ([]string, error) {
	if len(escaped) > 8192 {
		return nil, fmt.Errorf("a path of %d bytes: %w", len(escaped), ErrNoPath)
	}
	segs := splitNonEmpty(escaped)
	if strings.IndexByte(escaped, '%') < 0 {
		return segs, nil
	}
	for i, s := range segs {
		d, err := url.PathUnescape(s)
		if err != nil {
			return nil, fmt.Errorf("path segment %q: %w", truncate.Text(s), ErrNoPath)
		}
		segs[i] = d
	}
	if len(segs) < 3 && strings.Contains(strings.Join(segs, ""), "/") {
		segs = splitNonEmpty(strings.Join(segs, "/"))
	}
	return segs, nil
}

// Escape escapes the bytes of a path that a URL must not contain. Slashes stay, and
// Segments returns the segments of the path again.
func Escape(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/$&,;=@!'()*", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// prefixLen returns how many segments the first prefix takes that segs begin
// with, leaving at least one; 0 if none does.
func prefixLen(segs, extra []string) int {
	for _, list := range [2][]string{extra, Prefixes} {
		for _, p := range list {
			n, is := 0, true
			for part := range strings.SplitSeq(p, "/") {
				if part == "" {
					continue
				}
				if is = n < len(segs) && strings.EqualFold(segs[n], part); !is {
					break
				}
				n++
			}
			if is && n > 0 && n < len(segs) {
				return n
			}
		}
	}
	return 0
}
