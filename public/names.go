package public

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/demangle"
	"github.com/symdepot/symdepot/internal/base/glob"
)

// namer decides which names of functions and objects are public, as the options say.
type namer struct {
	opt  Options
	form *form
	// underscore says that the C compiler puts an underscore before each name, as for Mach-O and for
	// Windows on 32-bit x86. Debuggers remove it, so that names of C keep it.
	underscore bool
}

// keepsAll reports whether each name is public as it is.
func (n *namer) keepsAll() bool { return !n.opt.Undecorated && len(n.opt.Hide) == 0 }

// public returns the public form of a name, and whether the name is hidden.
func (n *namer) public(raw string) (name string, hidden bool) {
	if n.keepsAll() || raw == "" {
		return raw, false
	}
	plain := raw
	if n.underscore {
		plain = strings.TrimPrefix(raw, "_")
	}
	if len(n.opt.Hide) > 0 {
		read := demangle.Name(plain, demangle.Options{})
		for _, pattern := range n.opt.Hide {
			if glob.Match(pattern, raw) || glob.Match(pattern, plain) || glob.Match(pattern, read) {
				return "", true
			}
		}
	}
	if !n.opt.Undecorated {
		return raw, false
	}
	bare := demangle.Bare(plain, demangle.Options{})
	switch bare {
	case "":
		return "", true
	case plain:
		return raw, false
	}
	return bare, false
}

// at returns the public name of a symbol at an address relative to the base, and counts what is
// hidden.
func (n *namer) at(raw string, rva uint64) string {
	name, hidden := n.public(raw)
	n.form.names++
	if !hidden {
		return name
	}
	return n.hide(raw, rva)
}

// hide returns the name in place of a hidden one, and counts it.
func (n *namer) hide(raw string, rva uint64) string {
	n.form.hidden++
	n.form.take(RemovedNames, 1, int64(len(raw)))
	return fmt.Sprintf("%s+%#x", n.module(), rva)
}

// module returns the name of the module in hidden names.
func (n *namer) module() string { return cmp.Or(n.opt.Module, "module") }

// isPublic reports whether a public form may have a name.
func (n *namer) isPublic(name string) bool {
	if rva, ok := strings.CutPrefix(name, n.module()+"+0x"); ok && strings.Trim(rva, "0123456789abcdef") == "" {
		return true // a hidden name
	}
	shown, hidden := n.public(name)
	return !hidden && shown == name
}
