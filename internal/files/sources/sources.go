// Package sources knows the source files that debug information names: which names an
// object has, which file of a tree or an archive belongs to which name, and source
// bundles, the archives in which Sentry's tools keep the sources of one object.
//
// All of its input may be hostile: names are data, never paths, and sizes are claims.
package sources

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // the sums of compilers
	"crypto/sha1" //nolint:gosec // the same
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Limits of the sources of one object.
const (
	MaxNames    = 200_000  // names
	MaxFile     = 10 << 20 // bytes of one file that is taken
	MaxEmbedded = 64 << 20 // bytes of all embedded files
	maxRatio    = 200      // of a compressed file
	maxNameText = 64 << 20 // bytes of all names
	maxNameSize = 4096     // bytes of one name
)

// ErrTooLarge is wrapped by the error of reading a source file that exceeds a limit.
var ErrTooLarge = errors.New("the source file is too large")

// Name is a source file that the debug information of an object names.
type Name struct {
	// Name is the path as the debug information has it, joined with the compilation
	// directory where that is known. It is the path that symbolication prints.
	Name string
	// Alg is the algorithm of Sum: md5, sha1, sha256, or empty without a sum.
	Alg string
	Sum []byte
	// Embedded opens the text that the object has of the file; nil if it has none. The
	// reader must not be used after the object was closed. The error of reading wraps
	// ErrTooLarge if the text has more than MaxFile bytes.
	Embedded func() (io.ReadCloser, error)
}

// Listed are the source files of one object.
type Listed struct {
	Names []Name
	Links []byte // the JSON of Source Link, merged if there are several; nil without
	// Srcsrv is the source index for Microsoft's source server; nil without.
	Srcsrv []byte
	// Incomplete says why names may be missing, for people; empty if none are.
	Incomplete string
	// Alternate is the build-id of the supplementary file of dwz that would complete the
	// names; empty if none is needed or it was given.
	Alternate debugid.BuildID
}

// Verdict is what a sum says about a file.
type Verdict uint8

// The verdicts.
const (
	Unverified   Verdict = iota // the debug information has no sum
	Verified                    // the file is the one that was compiled
	Contradicted                // it is not
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	switch v {
	case Verified:
		return "verified"
	case Contradicted:
		return "contradicted"
	}
	return "unverified"
}

// Check compares a file with the sum of a name: all bytes are written to it.
type Check struct {
	h    hash.Hash // nil without a sum
	want []byte
}

// Check returns the check of n.
func (n Name) Check() *Check {
	c := &Check{want: n.Sum}
	switch n.Alg {
	case "md5":
		c.h = md5.New() //nolint:gosec // the sums of compilers
	case "sha1":
		c.h = sha1.New() //nolint:gosec // the same
	case "sha256":
		c.h = sha256.New()
	}
	return c
}

// Write implements io.Writer.
func (c *Check) Write(p []byte) (int, error) {
	if c.h == nil {
		return len(p), nil
	}
	return c.h.Write(p)
}

// Verdict returns what the sum says about all that was written.
func (c *Check) Verdict() Verdict {
	switch {
	case c.h == nil || len(c.want) != c.h.Size():
		return Unverified
	case bytes.Equal(c.h.Sum(nil), c.want):
		return Verified
	}
	return Contradicted
}

// Canonical returns the one spelling of a path for comparisons: slashes for backslashes,
// "." and ".." removed as text (RFC 3986, section 5.2.4), repeated slashes and a trailing
// one dropped. A leading "./" or "../" of a relative path is dropped too, and the slash
// before a drive letter. Letter case stays.
func Canonical(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	if clean(name) {
		return name
	}
	out := make([]string, 0, 16)
	for s := range strings.SplitSeq(name, "/") {
		switch s {
		case "", ".":
		case "..":
			if n := len(out); n > 0 && (n > 1 || !isDrive(out[0])) {
				out = out[:n-1]
			}
		default:
			out = append(out, s)
		}
	}
	joined := strings.Join(out, "/")
	if strings.HasPrefix(name, "/") && joined != "" && !isDrive(out[0]) {
		return "/" + joined
	}
	return joined
}

// clean reports whether Canonical has nothing to change.
func clean(name string) bool {
	segment := name
	for i := 0; ; i++ {
		at := strings.IndexByte(segment, '/')
		s := segment
		if at >= 0 {
			s = segment[:at]
		}
		if s == "" && i > 0 || s == "." || s == ".." || i == 1 && name[0] == '/' && isDrive(s) {
			return false
		}
		if at < 0 {
			return true
		}
		segment = segment[at+1:]
	}
}

// isDrive reports whether a segment of a path is a drive of Windows.
func isDrive(s string) bool {
	return len(s) == 2 && s[1] == ':' && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}

// Keys returns the canonical spellings that a requested path may have among the names of
// an object, the best first. The path in a URL always begins with a slash, also if the
// name is relative, as those of Go programs built with -trimpath are.
func Keys(requested string) []string {
	c := Canonical(requested)
	switch {
	case c == "":
		return nil
	case c[0] == '/':
		return []string{c, c[1:]}
	case isDrive(firstSegment(c)):
		return []string{c}
	}
	return []string{c, "/" + c}
}

func firstSegment(path string) string {
	s, _, _ := strings.Cut(path, "/")
	return s
}

// limited reads at most n bytes and reports more with ErrTooLarge.
type limited struct {
	r    io.Reader
	left int64
	max  int64
}

func limit(r io.Reader, n int64) io.Reader { return &limited{r, n, n} }

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return n - 1, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.max)
	}
	return n, err
}
