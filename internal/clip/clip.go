// Package clip limits the length of untrusted text in messages and logs.
package clip

import "unicode/utf8"

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
