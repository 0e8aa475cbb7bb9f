// Package glob compares texts with patterns. It neither folds case nor treats
// slashes specially: callers fold pattern and text alike beforehand.
package glob

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether a pattern fits all of s. In the pattern * stands for any
// text, slashes and the empty text included, and ? for one character. Bytes that
// are not UTF-8 count as one character each. It takes time in proportion to the
// product of both lengths at most, and no memory.
func Match(pattern, s string) bool { return match(pattern, s, true, "") }

// MatchAccount reports whether a pattern fits a name such as user@REALM. In the
// pattern only * is special. It stands for any text without an @, so that
// *@REALM fits the users of that realm only.
func MatchAccount(pattern, s string) bool { return match(pattern, s, false, "@") }

// match steps back to the last * where the rest does not fit. That finds a match
// if there is one: what each earlier * stands for is as short as can be. A stop
// in s is passed by the same character of the pattern only, after which no
// earlier * can take more.
func match(pattern, s string, question bool, stop string) bool {
	i, j := 0, 0
	star, back := -1, 0
	for j < len(s) {
		_, n := utf8.DecodeRuneInString(s[j:])
		c := s[j : j+n]
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, back = i, j
			i++
		case i < len(pattern) && question && pattern[i] == '?':
			i++
			j += n
		case strings.HasPrefix(pattern[i:], c):
			if c == stop {
				star = -1
			}
			i += n
			j += n
		case star >= 0 && (stop == "" || !strings.HasPrefix(s[back:], stop)):
			_, n := utf8.DecodeRuneInString(s[back:])
			back += n
			i, j = star+1, back
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
