package demangle

import (
	"errors"
	"fmt"
)

// Options choose the form of Name. The zero value is the form of names in Breakpad
// symbol files.
type Options struct {
	// KeepClones keeps suffixes such as ".cold.1", which compilers add to the name of
	// a copy or part of a function. Suffixes of demangled names appear as
	// "[clone .cold.1]".
	KeepClones bool
	// Return shows the types that functions return, where the name has them.
	Return bool
	// Arch386 means that the name is from a Windows module for 32-bit x86, whose C names
	// start with an underscore and can end in the size of the parameters.
	Arch386 bool
}

// Flags choose what Microsoft omits from a name, and how it writes the rest. The
// zero value gives the full declaration as llvm-undname writes it.
type Flags uint

// The flags of Microsoft.
const (
	// NoAccess omits "public:", "protected:" and "private:".
	NoAccess Flags = 1 << iota
	// NoMember omits "static", "virtual" and `extern "C"`.
	NoMember
	// NoConvention omits calling conventions such as "__cdecl".
	NoConvention
	// NoClassKey omits "class", "struct", "union" and "enum" before types.
	NoClassKey
	// NoReturn omits the return type of the function. Return types of function
	// pointers stay.
	NoReturn
	// NoVariableType omits the type of a variable.
	NoVariableType
	// NoThunk omits "[thunk]:" and what a thunk adds to the pointer to the object.
	NoThunk
	// Hug writes "int* const" and "int&" instead of "int *const" and "int &".
	Hug
	// SplitAngles writes "> >" instead of ">>" where template arguments end.
	SplitAngles
	// LongWords writes "constructor" and "destructor" instead of "ctor" and "dtor"
	// in the names of functions that the compiler makes.
	LongWords
	// StdInt writes "int64_t" and "uint64_t" instead of "__int64" and "unsigned __int64",
	// and the same for 128 bits.
	StdInt
	// Parentheses writes "(anonymous namespace)" instead of
	// "`anonymous namespace'".
	Parentheses
	// NoParameters omits the parameters of functions and what follows them. Parameters in the types
	// of function pointers stay.
	NoParameters

	// Brief is the form of names in Breakpad symbol files: scopes, names and
	// parameters only.
	Brief = NoAccess | NoMember | NoConvention | NoClassKey | NoReturn | NoVariableType | NoThunk |
		Hug | SplitAngles | LongWords | StdInt | Parentheses
)

// Limits of one name. MaxLength holds for the name and for its text.
const (
	// MaxLength is the limit in bytes of a decorated name and of the text that is
	// made from it.
	MaxLength      = 1 << maxLengthPower
	maxLengthPower = 16
	maxDepth       = 128     // nesting of types, template arguments and scopes
	maxSteps       = 1 << 20 // nodes that are written for one name
	maxBack        = 10      // names, and types, that back-references reach
)

var (
	errFormat = errors.New("malformed decorated name")
	// errRecount means that back-references do not count anonymous namespaces.
	errRecount = errors.New("back-reference to an anonymous namespace")
	errDepth   = fmt.Errorf("the nesting exceeds the limit of %d", maxDepth)
	errLength  = fmt.Errorf("the length exceeds the limit of %d bytes", MaxLength)
)
