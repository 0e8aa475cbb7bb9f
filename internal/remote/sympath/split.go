package sympath

import "strings"

// Part is one element of a symbol path, by the grammar alone: nothing is looked
// up.
type Part struct {
	Text string // as written
	Bare string // without quotes and the blanks around
	// Word is what precedes the first asterisk, in lower case: srv, symsrv,
	// cache, debuginfod. It is empty for an element without an asterisk.
	Word string
	// Stores are the texts between the asterisks that follow Word. For an
	// element without an asterisk this is Bare alone, and nil if Bare is empty.
	// The first of symsrv is the name of a DLL.
	Stores []string
}

// Split takes a symbol path apart at the semicolons outside of quotes. quoted
// reports whether quotes enclosed the whole path; they are removed.
func Split(path string) (parts []Part, quoted bool) {
	trimmed := strings.Trim(path, " \t\r\n")
	if len(trimmed) > 1 && trimmed[0] == '"' && strings.IndexByte(trimmed[1:], '"') == len(trimmed)-2 {
		path, quoted = trimmed[1:len(trimmed)-1], true
	}
	start, open := 0, false
	for i := range len(path) {
		switch {
		case path[i] == '"':
			open = !open
		case path[i] == ';' && !open:
			parts = append(parts, newPart(path[start:i]))
			start = i + 1
		}
	}
	return append(parts, newPart(path[start:])), quoted
}

func newPart(text string) Part {
	p := Part{Text: text, Bare: strings.ReplaceAll(strings.TrimSpace(text), `"`, "")}
	word, rest, starred := strings.Cut(p.Bare, "*")
	switch {
	case starred:
		p.Word, p.Stores = strings.ToLower(word), strings.Split(rest, "*")
	case p.Bare != "":
		p.Stores = []string{p.Bare}
	}
	return p
}
