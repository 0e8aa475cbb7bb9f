// Package truncate limits the length of untrusted text in messages and logs.
package truncate

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s, or its first 120 bytes with an ellipsis.
func Text(s string) string { return To(s, 120) }

// To returns s, or its first n bytes with an ellipsis. It does not cut within a
// character.
func To(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; n > 0 && back < utf8.UTFMax-1 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n] + "…"
}

// Printable reports whether a text is UTF-8 and has only characters that are printed
// (unicode.IsPrint): no control characters, no line breaks, no invisible ones.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Quoted returns Text of s in quotes, with escapes for what is not printed.
func Quoted(s string) string { return strconv.Quote(Text(s)) }

// Name returns s as it is if it is printable, else Quoted: so that a name which somebody
// else has chosen does not move the cursor of whoever reads the message.
func Name(s string) string {
	if Printable(s) {
		return s
	}
	return Quoted(s)
}
