// Package glob matches text against patterns. It neither folds case nor treats
// slashes specially; callers fold the case of both pattern and text.
package glob

import (
	"strings"
	"unicode/utf8"
)

// Match reports whether the pattern matches all of s. In the pattern, * matches
// any text including slashes and the empty text, and ? matches one character.
// Each byte that is not valid UTF-8 counts as one character. It takes time
// proportional to the product of both lengths at most, and allocates no memory.
func Match(pattern, s string) bool { return match(pattern, s, true, "") }

// MatchAccount reports whether the pattern matches an account name such as
// user@REALM. In the pattern only * is special: it matches any text without an
// @, so that *@REALM matches only the users of that realm.
func MatchAccount(pattern, s string) bool { return match(pattern, s, false, "@") }

// MatchSegments reports whether the pattern matches a name with slashes. In the
// pattern only * is special: it matches any text without a slash, so that
// owner/* matches the names directly below owner only.
func MatchSegments(pattern, s string) bool { return match(pattern, s, false, "/") }

// match backtracks to the last * when the rest does not match. Backtracking to
// earlier ones is not needed, because each earlier * matches as little text as
// possible. Only the same character in the pattern matches stop; after that, no
// earlier * can be extended.
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
