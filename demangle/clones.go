package demangle

import "strings"

// clones are the words of the suffixes that compilers add to names of copies and
// parts of functions, and whether a number must follow. Without that rule, names of Go
// such as "main.part" would be cut.
var clones = map[string]bool{
	"cold": false, "localalias": false,
	"constprop": true, "isra": true, "llvm": true, "lto_priv": true, "part": true, "str": true,
}

// StripClones removes the suffixes that GCC and LLVM add to names of copies and parts
// of functions, such as ".cold", ".constprop.0", ".llvm.123" and " [clone .isra.0]". A
// name that consists of suffixes only is returned as it is.
func StripClones(name string) string {
	rest := name
	for {
		cut := cutClone(rest)
		if cut == rest {
			break
		}
		rest = cut
	}
	if rest == "" {
		return name
	}
	return rest
}

// cutClone removes the last clone suffix of a name.
func cutClone(name string) string {
	if trimmed := strings.TrimSuffix(name, " "); strings.HasSuffix(trimmed, "]") {
		if i := strings.LastIndex(trimmed, "[clone"); i >= 0 && strings.IndexByte(trimmed[i:], ']') == len(trimmed)-i-1 {
			return strings.TrimSuffix(name[:i], " ")
		}
		return name
	}
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name
	}
	word, end := name[i+1:], i
	numbered := word != "" && strings.Trim(word, "0123456789") == ""
	if numbered {
		if end = strings.LastIndexByte(name[:i], '.'); end < 0 {
			return name
		}
		word = name[end+1 : i]
	}
	if mustNumber, known := clones[word]; !known || mustNumber && !numbered {
		return name
	}
	return name[:end]
}

// ParamBytes splits a C name of a Windows module for 32-bit x86: "_name@12" is
// __stdcall, "@name@12" is __fastcall, and "name@@12" is __vectorcall. The number is
// the size of the parameters in bytes. ok is false for other names.
func ParamBytes(raw string) (name string, bytes uint32, ok bool) {
	i := strings.LastIndexByte(raw, '@')
	if i <= 0 || i+1 == len(raw) || len(raw)-i > 7 {
		return "", 0, false
	}
	for _, c := range []byte(raw[i+1:]) {
		if c < '0' || c > '9' {
			return "", 0, false
		}
		bytes = bytes*10 + uint32(c-'0')
	}
	switch name = raw[:i]; {
	case strings.HasSuffix(name, "@"):
		name = name[:len(name)-1]
	case name[0] == '_' || name[0] == '@':
		name = name[1:]
	default:
		return "", 0, false
	}
	if name == "" || strings.HasPrefix(name, "?") || strings.Contains(name, "@") {
		return "", 0, false
	}
	return name, bytes, true
}
