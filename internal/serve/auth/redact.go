package auth

import "strings"

const redacted = tokenPrefix + "***"

// Redact replaces the tokens in a text, such as the path of a request, by
// sd_***, also the refresh tokens of logins. It also finds percent-encoded tokens, even if encoded repeatedly, and
// damaged ones that still disclose most of their characters: with a prefix in a
// different case, without a prefix in the segment after "t" or as a whole segment, or
// with a line break inside.
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

const (
	// redactMin is the number of base64url characters from which they are
	// treated as a token, if they are the segment after "t" or follow a token's
	// prefix.
	redactMin = 20
	// redactAny is the number of characters after a prefix from which they may
	// be arbitrary. Fewer must look random, because file names may begin with
	// sd_ too.
	redactAny = 38
	// maxBreak is the longest gap inside a damaged token, in bytes. redactRest
	// is the shortest piece after a gap that belongs to the token.
	maxBreak   = 4
	redactRest = 6
)

// findToken returns the begin and the end of the next possible token at or after
// start, or -1.
func findToken(s string, start int) (at, end int) {
	segment := start == 0 // i is the beginning of a segment
	behindT := false      // and the previous segment is "t"
	for i := start; i < len(s); {
		end := tokenEnd(s, i, segment && behindT)
		if end < 0 && segment {
			end = bareEnd(s, i)
		}
		if end >= 0 {
			return i, end
		}
		c, n := decodeByte(s[i:])
		switch {
		case c == '/':
			segment = true
		case segment && (c == 't' || c == 'T'):
			next, _ := decodeByte(s[i+n:])
			segment, behindT = false, next == '/'
		default:
			segment, behindT = false, false
		}
		i += n
	}
	return -1, -1
}

// tokenEnd returns the end of the token that begins at i, or -1. A token with
// other characters inside, such as a line break, includes all its pieces.
// behindT says that s[i:] begins with the segment after "t".
func tokenEnd(s string, i int, behindT bool) int {
	prefixed := false
	if j := prefixEnd(s, i); j >= 0 {
		i, prefixed = j, true
	}
	if !prefixed && !behindT {
		return -1
	}
	end, digits, random := digitsFrom(s, i)
	first := digits
	for digits < tokenDigits {
		next := skipBreak(s, end)
		e, n, r := digitsFrom(s, next)
		if next == end || n < redactRest {
			break
		}
		end, digits, random = e, digits+n, random|r
	}
	switch {
	case behindT && first >= redactMin,
		prefixed && first > 0 && digits >= redactAny,
		prefixed && first > 0 && digits >= redactMin && random == upper|lower:
		return end
	}
	return -1
}

// bareEnd returns the end of a token without its prefix that is the whole segment of a path
// which begins at i, or -1. Names of files of this length have other characters too, or
// letters of one case.
func bareEnd(s string, i int) int {
	end, digits, cases := digitsFrom(s, i)
	next, n := decodeByte(s[end:])
	if digits == tokenDigits && cases == upper|lower && (n == 0 || strings.IndexByte("/?# \"\r\n", next) >= 0) {
		return end
	}
	return -1
}

// prefixEnd returns the end of the prefix of a token or a refresh token at i, in upper or lower
// case, or -1.
func prefixEnd(s string, i int) int {
	for k := range len(tokenPrefix) {
		c, n := decodeByte(s[i:])
		if is := func(want byte) bool { return c == want || c == want&^0x20 }; n == 0 || !is(tokenPrefix[k]) && !is(refreshPrefix[k]) {
			return -1
		}
		i += n
	}
	return i
}

// The letter cases of a token's characters. Random characters have both.
const (
	upper = 1 << iota
	lower
)

// digitsFrom reads base64url characters from i on. It returns their end, their
// number and their letter cases.
func digitsFrom(s string, i int) (end, digits, cases int) {
	for {
		c, n := decodeByte(s[i:])
		if n == 0 || !tokenDigit(c) {
			return i, digits, cases
		}
		switch {
		case 'A' <= c && c <= 'Z':
			cases |= upper
		case 'a' <= c && c <= 'z':
			cases |= lower
		}
		digits++
		i += n
	}
}

// skipBreak returns the end of a short gap in a token, or i if there is none.
func skipBreak(s string, i int) int {
	at := i
	for range maxBreak {
		c, n := decodeByte(s[at:])
		if n == 0 {
			return i
		}
		if tokenDigit(c) {
			return at
		}
		at += n
	}
	if c, n := decodeByte(s[at:]); n > 0 && tokenDigit(c) {
		return at
	}
	return i
}

// decodeByte returns the first character of s and the number of bytes that
// encode it: one, or three for %73, five for %2573 and so on. n is 0 at the end.
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
