package demangle

import "strings"

// Bare returns the readable form of raw without parameters and what follows them: ns::f for
// _ZN2ns1fEi and for ?f@ns@@YAXH@Z. It is empty if raw is decorated, and so says types, but is not
// understood.
func Bare(raw string, opt Options) string {
	var name string
	if base := StripClones(raw); isMicrosoft(base) {
		name, _ = Microsoft(base, Brief|NoParameters) // with an error, base
	} else {
		name = withoutParameters(Name(raw, opt))
	}
	if decorated(name) {
		return ""
	}
	return name
}

// decorated reports whether a name has the form of one that has types in it.
func decorated(name string) bool {
	return isMicrosoft(name) || isItanium(name) || isSwift(name) ||
		strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "__R")
}

// qualifiers are the words that can follow the parameters of a function.
var qualifiers = map[string]bool{"const": true, "volatile": true, "restrict": true, "noexcept": true, "&": true, "&&": true}

// withoutParameters cuts a readable name before the list of parameters at its end.
func withoutParameters(name string) string {
	end := strings.LastIndexByte(name, ')')
	if end < 0 {
		return name
	}
	rest := name[end+1:]
	if rest != "" && rest[0] != ' ' {
		return name // the parentheses are those of a scope, as in "(anonymous namespace)::f" and "main.(*T).f"
	}
	for word := range strings.FieldsSeq(rest) {
		if !qualifiers[word] {
			return name
		}
	}
	depth := 0
	for i := end; i > 0; i-- {
		switch name[i] {
		case ')':
			depth++
		case '(':
			depth--
		}
		if depth > 0 {
			continue
		}
		if strings.HasSuffix(name[:i], "operator") {
			return name // operator() of something that has no parameters in its name
		}
		return name[:i]
	}
	return name
}
