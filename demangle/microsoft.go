package demangle

import (
	"fmt"
)

// Microsoft returns the declaration that the decorated name raw of Microsoft's
// C++ compilers stands for. Names of type descriptors, which start with ".?A", are
// accepted too. An MD5 name is returned as it is. With an error, the result is
// raw: Microsoft either understands the whole name or changes nothing.
func Microsoft(raw string, flags Flags) (string, error) {
	if len(raw) > MaxLength {
		return raw, fmt.Errorf("demangle: %w", errLength)
	}
	p := msParser{in: raw}
	s := p.whole()
	if p.err != nil {
		// Compilers differ in which names back-references count.
		again := msParser{in: raw, skipAnonymous: p.err == errRecount, countTemplates: p.err != errRecount}
		if s = again.whole(); again.err == nil {
			p.err = nil
		}
	}
	if p.err != nil {
		return raw, fmt.Errorf("demangle: offset %d of %q: %w", p.failed, clip(raw), p.err)
	}
	w := msPrinter{flags: flags}
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
