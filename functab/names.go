package functab

import "strings"

// shownName removes the suffixes of clones from a name, and spells the anonymous
// namespace as Itanium demanglers do.
func shownName(s string) string {
	if strings.IndexByte(s, '`') >= 0 {
		s = strings.ReplaceAll(s, "`anonymous namespace'", "(anonymous namespace)")
		s = strings.ReplaceAll(s, "`anonymous-namespace'", "(anonymous namespace)")
	}
	for {
		cut, ok := cutClone(s)
		if !ok {
			return s
		}
		s = cut
	}
}

// cutClone removes one suffix of a clone: ".cold", ".constprop.0", " [clone .isra.0]".
func cutClone(s string) (string, bool) {
	if strings.HasSuffix(s, "]") {
		i := strings.LastIndex(s, " [clone ")
		if i <= 0 || strings.IndexByte(s[i+2:], '[') >= 0 {
			return s, false
		}
		return s[:i], true
	}
	if strings.IndexByte(s, '.') < 0 { // looks at many bytes at once, other than LastIndexByte
		return s, false
	}
	dot := strings.LastIndexByte(s, '.')
	if dot <= 0 || dot == len(s)-1 {
		return s, false
	}
	word, numbered := s[dot+1:], false
	if digits(word) {
		before := strings.LastIndexByte(s[:dot], '.')
		if before <= 0 {
			return s, false
		}
		word, dot, numbered = s[before+1:dot], before, true
	}
	switch word {
	case "cold", "localalias":
		return s[:dot], true
	case "constprop", "llvm", "lto_priv", "isra", "part", "str":
		return s[:dot], numbered
	}
	return s, false
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
