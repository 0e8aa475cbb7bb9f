// Package srclink knows the links from debug information to source files on
// servers: Source Link, a JSON map from names to URLs, and source server
// streams (srcsrv), which tell a debugger for each file a URL or a command. It
// reads, resolves and writes them, and never follows a link or runs a command.
// The Index of a PDB has all its links, and the names of source files that they are for.
package srclink

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Limits of Source Link. Real maps have a few rules.
const (
	MaxMap   = 1 << 20 // bytes of one JSON text
	maxRules = 10_000  // of all texts together
	maxURL   = 4 << 10 // bytes of a name, a URL or a result
)

// Map finds the URLs of source files by Source Link. The zero Map has none.
type Map struct {
	rules   []rule
	skipped int
}

// rule is one line of a map.
type rule struct {
	key    string // without the * at its end
	prefix bool   // the key had a *
	url    string // with one * if prefix
}

// ParseMap reads Source Link's JSON; a module may have several texts. Rules that
// are not valid are left out and counted by Skipped. The error is for a text that
// is not Source Link, or too large; the rules of the other texts are valid even then.
func ParseMap(texts ...[]byte) (*Map, error) {
	m := &Map{}
	var bad error
	seen := map[rule]bool{}
	for i, text := range texts {
		if err := m.add(text, seen); err != nil {
			bad = errors.Join(bad, fmt.Errorf("source link, text %d of %d: %w", i+1, len(texts), err))
		}
	}
	// The longest key wins. Of equal ones, one that is exact, then the first.
	sorting.Stable(m.rules, func(a, b rule) int {
		if c := cmp.Compare(utf8.RuneCountInString(b.key), utf8.RuneCountInString(a.key)); c != 0 || a.prefix == b.prefix {
			return c
		}
		if b.prefix {
			return -1
		}
		return 1
	})
	return m, bad
}

func (m *Map) add(text []byte, seen map[rule]bool) error {
	if len(text) > MaxMap {
		return fmt.Errorf("%d bytes, more than the limit of %d", len(text), MaxMap)
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xEF\xBB\xBF"))))
	var doc struct {
		Documents json.RawMessage `json:"documents"`
	}
	if err := dec.Decode(&doc); err != nil {
		return err
	}
	if doc.Documents == nil {
		return errors.New("no member documents")
	}
	dec = json.NewDecoder(bytes.NewReader(doc.Documents))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("documents is not an object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var to any
		if err := dec.Decode(&to); err != nil {
			return err
		}
		target, ok := to.(string)
		name, _ := key.(string)
		r, valid := newRule(name, target)
		if !ok || !valid || len(m.rules) == maxRules {
			m.skipped++
		} else if !seen[r] {
			seen[r] = true
			m.rules = append(m.rules, r)
		}
	}
	return nil
}

// newRule checks a rule: at most one *, which is the last character of the key,
// and then one anywhere in the URL.
func newRule(key, target string) (rule, bool) {
	if key == "" || len(key) > maxURL || len(target) > maxURL {
		return rule{}, false
	}
	if u, err := url.Parse(target); err != nil || u.Scheme == "" {
		return rule{}, false
	}
	k, prefix := strings.CutSuffix(key, "*")
	want := 0
	if prefix {
		want = 1
	}
	if strings.Contains(k, "*") || strings.Count(target, "*") != want {
		return rule{}, false
	}
	// A name must not decide on the server.
	if _, rest, ok := strings.Cut(target, "://"); ok && prefix {
		if server, _, ok := strings.Cut(rest, "/"); !ok || strings.Contains(server, "*") {
			return rule{}, false
		}
	}
	return rule{k, prefix, target}, true
}

// Rules returns the number of rules.
func (m *Map) Rules() int { return len(m.rules) }

// Skipped returns the number of rules that were left out.
func (m *Map) Skipped() int { return m.skipped }

// URL returns where the source file of this name is, and false if no rule is
// for it. The name is as in the debug information; letter case does not matter.
func (m *Map) URL(name string) (string, bool) {
	for _, r := range m.rules {
		rest, ok := cutFold(name, r.key)
		if !ok || !r.prefix && rest != "" {
			continue
		}
		if !r.prefix {
			return r.url, true
		}
		to := strings.Replace(r.url, "*", escape(rest), 1)
		return to, len(to) <= maxURL
	}
	return "", false
}

// cutFold returns s without the prefix, which may differ in letter case.
func cutFold(s, prefix string) (string, bool) {
	for _, want := range prefix {
		r, n := utf8.DecodeRuneInString(s)
		if n == 0 || r != want && unicode.ToUpper(r) != unicode.ToUpper(want) {
			return "", false
		}
		s = s[n:]
	}
	return s, true
}

// escape writes a path for a URL: each part between slashes or backslashes is
// percent-encoded, but for letters, digits and -._~.
func escape(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/' || c == '\\':
			b.WriteByte('/')
		case isPlain(c):
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// isPlain reports whether c stands for itself in a URL.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// Place is where links lead to.
type Place struct {
	Scheme string `json:"scheme"` // lower case: https, http, file
	Host   string `json:"host,omitempty"`
}

// String returns the place as the start of a URL.
func (p Place) String() string { return p.Scheme + "://" + p.Host }

// Fault says what is wrong with a place for a client that fetches sources from
// it: a file of the client's own machine or network, or a transfer that is not encrypted, or a host that
// is not one of hosts. An entry of hosts is a host with or without a port, or
// *.example.com for all below it; no hosts allow all. It is empty if nothing is wrong.
func (p Place) Fault(hosts []string) string {
	switch {
	case p.Scheme == "file":
		return "reads a file of the machine of the debugger"
	case p.Scheme == "http":
		return "is not encrypted"
	case p.Scheme != "https":
		return "is no address of a server"
	case len(hosts) > 0 && !slices.ContainsFunc(hosts, p.below):
		return "is not an allowed host"
	}
	return ""
}

// below reports whether the host is the one of the pattern.
func (p Place) below(pattern string) bool {
	host := p.Host
	if !strings.Contains(pattern, ":") {
		host, _, _ = strings.Cut(host, ":")
	}
	return glob.Host(pattern, host)
}

// PlaceOf returns the place of a URL; the zero Place if it has none.
func PlaceOf(target string) Place {
	p, _ := placeOf(target)
	return p
}

// placeOf returns the place of a URL.
func placeOf(target string) (Place, bool) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme == "" {
		return Place{}, false
	}
	return Place{strings.ToLower(u.Scheme), strings.ToLower(u.Host)}, true
}

// Places returns the places of all rules, sorted.
func (m *Map) Places() []Place {
	seen := map[Place]bool{}
	for _, r := range m.rules {
		if p, ok := placeOf(r.url); ok {
			seen[p] = true
		}
	}
	return sortedPlaces(seen)
}

func sortedPlaces(seen map[Place]bool) []Place {
	var all []Place
	for p := range seen {
		all = append(all, p)
	}
	sorting.By(all, func(a, b Place) int {
		return cmp.Or(strings.Compare(a.Scheme, b.Scheme), strings.Compare(a.Host, b.Host))
	})
	return all
}
