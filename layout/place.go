package layout

import "strings"

// Place is where below the address of a server, in a bucket or in a folder an
// answer to a request may be.
type Place struct {
	Parts []string
	// Packed: a cabinet of the file.
	Packed bool
	// Pointer: a file.ptr, which holds the path of the file.
	Pointer bool
	// Exact: the bytes are the answer whatever they look like.
	Exact bool
	// Text: only a Breakpad file is an answer; others may have that name too.
	Text bool
	// MSFZ: only an MSFZ container is an answer.
	MSFZ bool
	// Verify: only a file whose own ids match the lookup is an answer.
	Verify bool
	// HigherAge: likewise, or a PDB of equal GUID and higher age.
	HigherAge bool
}

// Key is the path of the place, with slashes.
func (p Place) Key() string { return strings.Join(p.Parts, "/") }
