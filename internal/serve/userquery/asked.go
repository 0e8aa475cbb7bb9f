// Package userquery finds out what a debugger has asked for, from what a person types or
// pastes: a URL, a path, a name and an id, or the log of a debugger.
package userquery

import (
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Ask is a request of a debugger.
type Ask struct {
	// Text is the request as it was written, without secrets.
	Text string
	// Host is the server of a URL; empty for anything else.
	Host string
	// Token is set if the path had an access token, which is removed.
	Token bool
	// Secret is set if the text has a token or a password: it must not be shown.
	Secret bool
	// Segments are those of the decoded path.
	Segments []string
	// Read says how the text was understood.
	Read Read
	// Line is the first line of a log that names the request, Times how many do.
	Line, Times int
	// Outcome is what the log says of it.
	Outcome Outcome
}

// Path is the escaped path, which begins with a slash.
func (a *Ask) Path() string {
	var b strings.Builder
	for _, s := range a.Segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// Read says how a text was understood.
type Read string

// The readings.
const (
	ReadURL  Read = "url"
	ReadPath Read = "path"
	ReadPair Read = "name-and-id"
	ReadDisk Read = "local-path" // a path in a debugger's local store
	ReadID   Read = "build-id"
)

// Outcome is what a log says of a request.
type Outcome string

// The outcomes.
const (
	Unknown Outcome = ""
	Missing Outcome = "missing"
	Got     Outcome = "found"
)

// MaxText is how many bytes of one request are read.
const MaxText = 8192

// TextError is the error of Parse: the text is no request.
type TextError string

func (e TextError) Error() string { return string(e) }

// Errors of Parse.
const (
	ErrEmpty TextError = "nothing was asked for: a path, a URL, or a name and an id is expected"
	ErrLong  TextError = "the text is too long for one request"
	ErrCoded TextError = "the path has a percent sign that is followed by no two hex digits"
)

// Parse reads one request: a URL, the path of one, a path in a debugger's local
// store, a name and an id, or a build-id.
func Parse(text string) (Ask, error) {
	text = strings.Trim(strings.TrimSpace(text), `"'`)
	if len(text) <= MaxText {
		var a Ask
		var ok bool
		if text, a, ok = ofDumpbin(text); ok {
			return a, nil
		}
	}
	switch {
	case text == "":
		return Ask{}, ErrEmpty
	case len(text) > MaxText:
		return Ask{}, ErrLong
	}
	if rest, ok := cutScheme(text); ok {
		host, path, _ := strings.Cut(rest, "/")
		a, err := ofPath("/" + path)
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			host, a.Secret = host[at+1:], true // a password may stand in front
		}
		a.Host, a.Read = truncate.Text(auth.Redact(host)), ReadURL
		a.Text = truncate.Text(a.Host + a.Text)
		return a, err
	}
	if !strings.ContainsAny(text, `/\`) {
		if i := strings.LastIndexAny(text, " \t"); i > 0 {
			if a, ok := Pair(text[:i], text[i+1:]); ok {
				return a, nil
			}
		}
		if i := strings.IndexAny(text, " \t"); i > 0 {
			if a, ok := Pair(text[i+1:], text[:i]); ok {
				return a, nil
			}
		}
	}
	if strings.Contains(text, `\`) {
		if a, ok := onDisk(text); ok {
			return a, nil
		}
		text = strings.ReplaceAll(text, `\`, "/")
	}
	if a, ok := buildID(text, "debuginfo"); ok && !strings.Contains(text, "/") {
		return a, nil
	}
	a, err := ofPath(text)
	if err == nil && text[0] != '/' && len(a.Segments) == 2 && !routes(a.Segments) {
		if pair, ok := Pair(a.Segments[0], a.Segments[1]); ok {
			return pair, nil
		}
	}
	return a, err
}

// inDumpbin is the id of a PDB as Microsoft's dumpbin prints it, with the path behind it
// in that line: {GUID}, AGE, PATH.
var inDumpbin = pattern(`(?i)(\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?\s*,\s*[0-9]{1,10}\b)(?:\s*,\s*([^"<>|*?]+))?`)

// ofDumpbin returns text with the id in it, if dumpbin has printed it, in the spelling
// of requests. ok means that the line names the PDB too: a is the request for it.
func ofDumpbin(text string) (plain string, a Ask, ok bool) {
	m := inDumpbin().FindStringSubmatchIndex(text)
	if m == nil {
		return text, a, false
	}
	id, err := debugid.Parse(text[m[2]:m[3]])
	if err != nil {
		return text, a, false
	}
	if m[4] >= 0 {
		a, ok = Pair(text[m[4]:m[5]], id.Breakpad())
	}
	return text[:m[2]] + id.Breakpad() + text[m[3]:], a, ok
}

func cutScheme(text string) (rest string, ok bool) {
	for _, s := range []string{"https://", "http://"} {
		if len(text) > len(s) && strings.EqualFold(text[:len(s)], s) {
			return text[len(s):], true
		}
	}
	return "", false
}

// ofPath reads the escaped path of a request. A query does not count.
func ofPath(path string) (Ask, error) {
	whole := path
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	a := Ask{Text: truncate.Text(auth.Redact(path)), Read: ReadPath}
	segs, err := layout.Segments(path)
	if err != nil {
		return a, ErrCoded
	}
	_, a.Segments, a.Token = auth.PathToken(segs)
	a.Secret = auth.Redact(whole) != whole
	return a, nil
}

// Pair returns the request for a name and an id, in any spelling of the id. ok is
// false if they are not that.
func Pair(name, id string) (a Ask, ok bool) {
	name = symfile.BaseName(strings.ReplaceAll(strings.Trim(name, `"' `), `\`, "/"))
	id = cleanID(id)
	if !isID(id) {
		return a, false
	}
	w, err := needed.Of(name, id, "")
	if err != nil {
		return a, false
	}
	return Ask{Text: truncate.Text(auth.Redact(name + " " + id)), Segments: strings.Split(w.Path, "/"), Read: ReadPair}, true
}

// buildID returns the request for a file of a module by its build-id alone.
func buildID(id, artifact string) (a Ask, ok bool) {
	id = cleanID(id)
	if len(id) < 16 || !isHex(id) {
		return a, false
	}
	a = Ask{Text: id, Segments: []string{"buildid", id, artifact}, Read: ReadID}
	return a, routes(a.Segments)
}

// onDisk reads a path in a debugger's local store, such as
// C:\symbols\app.pdb\GUIDAGE\app.pdb.
func onDisk(text string) (a Ask, ok bool) {
	var parts []string
	for p := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\\' || r == '/' }) {
		parts = append(parts, strings.TrimSpace(p))
	}
	for _, n := range []int{3, 4} { // four: an MSFZ container
		if len(parts) < n {
			continue
		}
		last := parts[len(parts)-n:]
		if req, err := layout.Route(last); err == nil && req.Name != "" && req.Prefix == "" {
			return Ask{Text: truncate.Text(auth.Redact(text)), Segments: last, Read: ReadDisk}, true
		}
	}
	return a, false
}

// routes reports whether a path is one of a symbol file.
func routes(segs []string) bool {
	_, err := layout.Route(segs)
	return err == nil
}

// cleanID removes what people and tools put around an id.
func cleanID(id string) string {
	id, _, _ = ofDumpbin(id)
	id = strings.Trim(id, `"'{}()[]<>,;: `)
	if rest, ok := strings.CutPrefix(strings.ToLower(id), "0x"); ok {
		id = id[len(id)-len(rest):]
	}
	id = strings.ReplaceAll(id, "}", "")
	bare := strings.ReplaceAll(id, "-", "")
	if isHex(bare) {
		return bare
	}
	return id
}

// isID reports whether a text may be the id of a file: hex digits, or a hash with its
// word in front.
func isID(s string) bool {
	if strings.HasPrefix(s, "sha1-") || strings.HasPrefix(s, "elf-buildid-") || strings.HasPrefix(s, "mach-uuid-") {
		return true
	}
	return len(s) >= 8 && isHex(s)
}

func isHex(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (s[i] < '0' || s[i] > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
