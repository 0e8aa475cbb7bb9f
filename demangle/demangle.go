// Package demangle makes readable names from the names in symbol tables: those of
// Microsoft's C++ compilers by its own undecorator, those of the Itanium C++ ABI and
// of Rust by github.com/ianlancetaylor/demangle. Names of Swift, Objective-C and Go
// are returned as they are.
//
// It accepts untrusted input: each name is made in bounded time and memory, and a
// name that is not understood whole is returned unchanged.
//
// The package is not yet promised: it may change in any version.
package demangle

import "strings"

// Name returns the readable form of raw. It decides by the shape of the name how
// it was mangled. A name of another shape, or one that is malformed, is returned
// without its clone suffix.
func Name(raw string, opt Options) string {
	base := StripClones(raw)
	shown, ok := demangle(base, opt)
	if !opt.KeepClones {
		return shown
	}
	if suffix := raw[len(base):]; ok && suffix != "" {
		return shown + " [clone " + strings.TrimSpace(suffix) + "]"
	} else if ok {
		return shown
	}
	return raw
}

// demangle returns the readable form of a name without clone suffix. Its second
// result says whether that differs in shape from the name.
func demangle(name string, opt Options) (string, bool) {
	if len(name) > MaxLength {
		return name, false
	}
	switch {
	case isMicrosoft(name):
		flags := Brief
		if opt.Return {
			flags &^= NoReturn
		}
		shown, err := Microsoft(name, flags)
		return shown, err == nil
	case isSwift(name):
		return name, false
	case strings.HasPrefix(name, "_R"), strings.HasPrefix(name, "__R"), isItanium(name):
		return itanium(name, opt)
	case opt.Arch386:
		if c, _, ok := ParamBytes(name); ok {
			return c, true
		}
		if c, ok := strings.CutPrefix(name, "_"); ok && c != "" && !strings.ContainsAny(c, ":(") {
			return c, true
		}
	}
	return name, false
}
