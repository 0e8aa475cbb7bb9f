package auth

import "strings"

const redacted = tokenPrefix + "***"

// Redact replaces the tokens in a text, such as the path of a request, by
// sd_***. Percent-encoded ones are found too, even if encoded repeatedly, and
// so is what is nearly a token: a mistyped one gives most of its digits away.
func Redact(s string) string {
	start := 0
	for {
		at, end := findToken(s, start)
		if at < 0 {
			break
		}
		s = s[:at] + redacted + s[end:]
		start = at + len(redacted)
	}
	return s
}

// redactMin is from how many digits on something is taken for a token.
const redactMin = 38

// findToken returns where the next thing like a token begins and ends, at or
// after start, or -1.
func findToken(s string, start int) (at, end int) {
	for i := start; i < len(s); i++ {
		if s[i] != tokenPrefix[0] && s[i] != '%' {
			if j := strings.IndexAny(s[i:], "s%"); j >= 0 {
				i += j
			} else {
				return -1, -1
			}
		}
		if end := tokenEnd(s, i); end >= 0 {
			return i, end
		}
	}
	return -1, -1
}

// tokenEnd returns the end of the token that begins at i, or -1.
func tokenEnd(s string, i int) int {
	for k := range len(tokenPrefix) {
		c, n := decodeByte(s[i:])
		if n == 0 || c != tokenPrefix[k] {
			return -1
		}
		i += n
	}
	digits := 0
	for {
		c, n := decodeByte(s[i:])
		if n == 0 || !tokenDigit(c) {
			break
		}
		digits++
		i += n
	}
	if digits < redactMin {
		return -1
	}
	return i
}

// decodeByte returns the first character of s and how many bytes spell it: one,
// or three for %73, five for %2573 and so on. n is 0 at the end.
func decodeByte(s string) (c byte, n int) {
	if s == "" {
		return 0, 0
	}
	if s[0] != '%' {
		return s[0], 1
	}
	i := 1
	for strings.HasPrefix(s[i:], "25") && i < 64 {
		i += 2
	}
	if len(s) < i+2 {
		return '%', 1
	}
	hi, lo := hexDigit(s[i]), hexDigit(s[i+1])
	if hi < 0 || lo < 0 {
		return '%', 1
	}
	return byte(hi<<4 | lo), i + 2
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
