package symstore

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// Ref is one line of a refs.ptr: one transaction that stored a file, or a
// pointer to one, in the folder.
type Ref struct {
	ID      ID
	Pointer bool
	// Path is the source of a stored file, or the target of a pointer.
	Path string
	// Type may be empty: lines written in 1999 have none.
	Type Type
	// Compressed means that the transaction stored a compressed file.
	Compressed bool

	raw []byte // the line as read; nil for a new one
}

// parseRef reads a line of eight fields, or of three as written in 1999.
func parseRef(line string) (Ref, error) {
	f := fields(strings.TrimSpace(line))
	if len(f) < 3 {
		return Ref{}, fmt.Errorf("line %q has fewer than three fields, the minimum", truncate.Text(line))
	}
	id, err := ParseID(f[0])
	if err != nil {
		return Ref{}, err
	}
	r := Ref{ID: id, Path: f[2]}
	switch strings.ToLower(strings.TrimSpace(f[1])) {
	case "ptr":
		r.Pointer = true
	case "file":
	default:
		return r, fmt.Errorf("line %q has neither file nor ptr as its second field", truncate.Text(line))
	}
	if len(f) < 8 && !strings.Contains(line, `"`) {
		// Old paths are not quoted and may contain commas.
		_, rest, _ := strings.Cut(line, ",")
		_, r.Path, _ = strings.Cut(rest, ",")
		r.Path = strings.TrimSpace(r.Path)
		return r, nil
	}
	if len(f) > 3 {
		r.Type = Type(f[3])
	}
	r.Compressed = len(f) > 5 && strings.EqualFold(f[5], "Y")
	return r, nil
}

// line formats r as symstore.exe does, without a line end. A line that was read
// is returned unchanged, unknown fields included.
func (r Ref) line() string {
	if r.raw != nil {
		return string(r.raw)
	}
	kind, compressed := "file", "N"
	if r.Pointer {
		kind = "ptr"
	}
	if r.Compressed {
		compressed = "Y"
	}
	return fmt.Sprintf(`%s,%s,"%s",%s,,%s,,`, r.ID, kind, clean(r.Path), r.Type, compressed)
}

// parseRefs reads a refs.ptr with line ends of any kind. Unreadable lines are
// returned as junk, to be kept when the file is rewritten.
func parseRefs(data []byte) (list, junk []Ref) {
	for _, raw := range splitLines(data) {
		r, err := parseRef(decode(raw))
		if err != nil {
			junk = append(junk, Ref{raw: raw})
			continue
		}
		r.raw = raw
		list = append(list, r)
	}
	return list, junk
}

// FormatRefs returns the content of a refs.ptr with these lines.
func FormatRefs(list []Ref) []byte { return printRefs(list) }

// printRefs formats a refs.ptr: lines separated by CR LF. The last line has no
// end.
func printRefs(list []Ref) []byte {
	var b []byte
	for i, r := range list {
		if i > 0 {
			b = append(b, "\r\n"...)
		}
		b = append(b, r.line()...)
	}
	return b
}

// Preference lets some entries of a refs.ptr win over later ones, as the
// options /m and /h do. The zero value prefers none.
type Preference struct {
	// Prefix prefers sources whose path begins with it, in any letter case.
	Prefix string
	// Type prefers Private or Public symbols. Binaries are not affected.
	Type Type
}

func (p Preference) prefers(r Ref) bool {
	if p == (Preference{}) {
		return false
	}
	if p.Prefix != "" && (len(r.Path) < len(p.Prefix) || !strings.EqualFold(r.Path[:len(p.Prefix)], p.Prefix)) {
		return false
	}
	return p.Type == "" || r.Type == Binary || r.Type == p.Type
}

// insert adds a line. Clients get the file of the last line, so a line that
// must not win is inserted before the preferred one. Otherwise the lines are in
// the order of their numbers. wins reports whether the new line is the last
// one.
func (p Preference) insert(list []Ref, r Ref) (out []Ref, wins bool) {
	n := len(list)
	out = append(out, list...)
	if n > 0 && p.prefers(list[n-1]) && !p.prefers(r) {
		return append(out[:n-1:n-1], r, list[n-1]), false
	}
	return append(out, r), true
}

// without returns the lines of all other transactions.
func without(list []Ref, id ID) []Ref {
	var out []Ref
	for _, r := range list {
		if r.ID != id {
			out = append(out, r)
		}
	}
	return out
}

// anyFile reports whether any line is of a stored file, not of a pointer.
func anyFile(list []Ref) bool {
	for _, r := range list {
		if !r.Pointer {
			return true
		}
	}
	return false
}

// Pointer is the parsed content of a file.ptr.
type Pointer struct {
	// Target is the path or URL of the file; empty if there is none.
	Target string
	// Message explains why there is no file; it may be empty.
	Message string
}

// parsePointer reads a file.ptr as any tool or server writes it: a path, a
// path after "PATH:", or a message after "MSG:".
func parsePointer(data []byte) Pointer {
	var p Pointer
	for _, raw := range splitLines(data) {
		line := strings.TrimSpace(decode(raw))
		switch upper := strings.ToUpper(line); {
		case strings.HasPrefix(upper, "MSG"):
			if p.Message == "" {
				p.Message = strings.TrimSpace(strings.TrimPrefix(line[3:], ":"))
			}
		case p.Target != "":
		case strings.HasPrefix(upper, "PATH:"):
			p.Target = strings.TrimSpace(line[5:])
		default:
			p.Target = line
		}
	}
	p.Target = strings.Trim(p.Target, `"`)
	return p
}

// isMessage reports whether a file.ptr has a message instead of a path.
func isMessage(data []byte) bool {
	p := parsePointer(data)
	return p.Target == "" && bytes.Contains(bytes.ToUpper(data), []byte("MSG"))
}
