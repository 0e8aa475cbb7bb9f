package demangle

import (
	"strconv"
	"strings"

	library "github.com/ianlancetaylor/demangle"
)

// isItanium reports whether name starts as one of the Itanium C++ ABI, or as a
// legacy name of Rust. Mach-O adds an underscore; functions of blocks have two
// more.
func isItanium(name string) bool {
	rest := strings.TrimLeft(name, "_")
	n := len(name) - len(rest)
	return 1 <= n && n <= 4 && strings.HasPrefix(rest, "Z")
}

// isSwift reports whether name starts as one of Swift.
func isSwift(name string) bool {
	for _, prefix := range []string{"$s", "$S", "_$s", "_$S", "_T0", "_Tt"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// hashes are the digits that some compilers of Darwin and Solidity add after '$'.
const hashes = 32

// cutHash removes a '$' and 32 hexadecimal digits from the end of a name.
func cutHash(name string) string {
	i := len(name) - hashes - 1
	if i <= 0 || name[i] != '$' {
		return name
	}
	for _, c := range []byte(name[i+1:]) {
		if !isHex(c) {
			return name
		}
	}
	return name[:i]
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// isLegacyRust reports whether name, of the Itanium ABI, ends in the hash of a legacy
// name of Rust.
func isLegacyRust(name string) bool {
	const suffix = len("17h") + 16 + len("E")
	i := len(name) - suffix
	if i < 3 || !strings.HasPrefix(name, "_ZN") || name[len(name)-1] != 'E' || name[i:i+3] != "17h" {
		return false
	}
	for _, c := range []byte(name[i+3 : len(name)-1]) {
		if !isHex(c) {
			return false
		}
	}
	return true
}

// keepUnderscores gives each identifier of a legacy name of Rust that begins with an
// underscore a second one. The library takes the first for the separator that only
// names of Rust's second scheme have, and omits it: "28__rust_begin_short_backtrace"
// would lose one.
func keepUnderscores(name string) string {
	var out strings.Builder
	rest := name[len("_ZN"):]
	out.WriteString("_ZN")
	for rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		n, i := 0, 0
		for ; i < len(rest) && rest[i] >= '0' && rest[i] <= '9' && n < maxItanium; i++ {
			n = 10*n + int(rest[i]-'0')
		}
		if n > len(rest)-i {
			return name
		}
		id := rest[i : i+n]
		rest = rest[i+n:]
		// Of "_$LT$" the underscore is none of the name.
		if strings.HasPrefix(id, "_") && !strings.HasPrefix(id, "_$") {
			id = "_" + id
		}
		out.WriteString(strconv.Itoa(len(id)) + id)
	}
	return out.String() + rest
}

// Limits of names that the library reads: its time grows with the square of the
// nesting. Other demanglers show no text above 4096 bytes, which a name of this length
// nearly always exceeds.
const (
	maxItanium  = 8 << 10
	maxPointers = 256 // pointers and qualifiers in a row
)

// isDeep reports whether the library would take long for a name of the Itanium ABI.
func isDeep(name string) bool {
	if len(name) > maxItanium {
		return true
	}
	run := 0
	for _, c := range []byte(name) {
		switch c {
		case 'P', 'R', 'O', 'K', 'V', 'C', 'G', 'r':
			run++
		default:
			run = 0
		}
		if run > maxPointers {
			return true
		}
	}
	return false
}

// itanium demangles a name of the Itanium ABI or of Rust with the library.
func itanium(raw string, opt Options) (shown string, ok bool) {
	name := cutHash(raw)
	// Mach-O adds one underscore to "_Z" and "_R", and to "___Z" of blocks.
	if strings.HasPrefix(name, "__Z") || strings.HasPrefix(name, "__R") || strings.HasPrefix(name, "____Z") {
		name = name[1:]
	}
	// The library is tested against hostile names; a panic in it must still not end
	// the program for the sake of one name.
	defer func() {
		if recover() != nil {
			shown, ok = raw, false
		}
	}()
	options := []library.Option{library.LLVMStyle, library.MaxLength(maxLengthPower)}
	var err error
	if strings.HasPrefix(name, "_R") {
		shown, err = library.ToString(name, options...)
	} else if isLegacyRust(name) {
		shown, err = library.ToString(keepUnderscores(name), options...)
	} else if s, quick := quickly(name); quick && !opt.Return {
		return s, true
	} else if isDeep(name) {
		return raw, false
	} else {
		var tree library.AST
		tree, err = library.ToAST(name, options...)
		if err == nil {
			if !opt.Return {
				dropReturn(tree)
			}
			shown = library.ASTToString(tree, options...)
		}
	}
	// A text of the greatest length was cut.
	if err != nil || shown == "" || len(shown) >= MaxLength {
		return raw, false
	}
	return shown, true
}

// dropReturn removes the return type of the function that tree names.
func dropReturn(tree library.AST) {
	for {
		switch t := tree.(type) {
		case *library.Typed:
			tree = t.Type
		case *library.MethodWithQualifiers:
			tree = t.Method
		case *library.Clone:
			tree = t.Base
		case *library.Special:
			tree = t.Val
		case *library.EnableIf:
			tree = t.Type
		case *library.Constraint:
			tree = t.Name
		case *library.FunctionType:
			t.Return = nil
			return
		default:
			return
		}
	}
}
