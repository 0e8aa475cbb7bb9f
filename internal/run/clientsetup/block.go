package clientsetup

import (
	"bytes"
	"errors"
	"strings"
)

// block is what a file of the user gets, between two marked lines.
type block struct {
	comment string // what begins a comment, such as "#"
	lines   []string
	front   bool // at the beginning of the file; else at its end
}

// Marks are followed by the address of the server, to the end of the line.
const (
	beginMark = ">>> symdepot "
	endMark   = "<<< symdepot "
)

// errMark means that a block does not end.
var errMark = errors.New("a line \"" + strings.TrimSpace(beginMark) + "\" has no line \"" + strings.TrimSpace(endMark) +
	"\" after it; mend the file, or remove the lines of symdepot by hand")

// in returns text with the block, in place of an older block of the server.
func (b block) in(text []byte, server string) ([]byte, error) {
	eol := lineEnd(text)
	var own bytes.Buffer
	for _, line := range append(append([]string{b.comment + " " + beginMark + server}, b.lines...), b.comment+" "+endMark+server) {
		own.WriteString(line + eol)
	}
	from, to, err := findBlock(text, server)
	switch {
	case err != nil:
		return nil, err
	case to > from:
	case b.front:
		from, to = 0, 0
	default:
		from, to = len(text), len(text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			return append(append(bytes.Clone(text), eol...), own.Bytes()...), nil
		}
	}
	return append(append(bytes.Clone(text[:from]), own.Bytes()...), text[to:]...), nil
}

// withoutBlocks returns text without the blocks of a server, and whether there was one.
func withoutBlocks(text []byte, server string) (out []byte, found bool, err error) {
	out = bytes.Clone(text)
	for {
		from, to, err := findBlock(out, server)
		if err != nil || to == from {
			return out, found, err
		}
		found = true
		out = append(out[:from:from], out[to:]...)
	}
}

// findBlock returns where the first block of a server stands, in whole lines. Both are 0 if
// there is none.
func findBlock(text []byte, server string) (from, to int, err error) {
	at, begin := 0, -1
	for line := range bytes.Lines(text) {
		word := string(bytes.TrimSpace(line))
		at += len(line)
		switch {
		case begin < 0 && isMark(word, beginMark+server):
			begin = at - len(line)
		case begin >= 0 && isMark(word, endMark+server):
			return begin, at, nil
		}
	}
	if begin >= 0 {
		return 0, 0, errMark
	}
	return 0, 0, nil
}

// isMark reports whether a line is a comment that is a mark and nothing else.
func isMark(line, mark string) bool {
	before, ok := strings.CutSuffix(line, mark)
	return ok && strings.Trim(before, "#/ \t") == ""
}

// lineEnd is how the lines of a text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
