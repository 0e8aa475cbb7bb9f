package demangle

import (
	"fmt"
	"strings"
)

// isMicrosoft reports whether a name starts as one of Microsoft's C++ compilers.
func isMicrosoft(name string) bool {
	return strings.HasPrefix(name, "?") || strings.HasPrefix(name, "@?")
}

// Microsoft returns the declaration that the decorated name raw of Microsoft's
// C++ compilers stands for. Names of type descriptors, which start with ".?A", are
// accepted too. An MD5 name is returned as it is. With an error, the result is
// raw: Microsoft either understands the whole name or changes nothing.
func Microsoft(raw string, flags Flags) (string, error) {
	if len(raw) > MaxLength {
		return raw, fmt.Errorf("demangle: %w", errLength)
	}
	p, _ := msParsers.Get().(*msParser)
	defer msParsers.Put(p)
	s := p.parse(raw)
	if p.err != nil {
		return raw, fmt.Errorf("demangle: offset %d of %q: %w", p.failed, clip(raw), p.err)
	}
	w := msPrinter{flags: flags, buf: make([]byte, 0, 256)}
	w.symbol(s)
	if w.err != nil {
		return raw, fmt.Errorf("demangle: %q: %w", clip(raw), w.err)
	}
	return string(w.buf), nil
}

// clip shortens a name for an error.
func clip(name string) string {
	if len(name) > 80 {
		return name[:80] + "..."
	}
	return name
}
