// Package layout knows the paths of symbol files: those that debuggers, crash
// processors and symbol servers ask for, and those under which trees and servers
// keep them. It is pure: names and ids in, paths out, and back. It touches no
// disk and no network.
//
// A layout is known in four directions: the paths of an object ([Layout.Paths]),
// the request that a path makes ([Layout.Parse], [Route]), and the places where
// a server ([Dialect.Places]) or a folder ([Layout.Candidates]) may have the
// answer to a request. All of it, and the properties in which layouts differ,
// is in one table, so that a new layout is a constant, a row of the table
// and the functions that the row names.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. A path that Paths prints is parsed by
// the same layout and by Route, and finds its object. The order of places may
// improve in any version.
package layout

// Layout is one arrangement of symbol files in a tree or on a server: which
// paths an object has there, what a path asks for, and where on a server or in
// a folder the answer to a request may be. Parse(p) finds the object for every p
// in its Paths.
type Layout uint8

// The layouts. Paths prints what the layout's owner prints: Microsoft's form
// for symstore and ssqp, Breakpad's for breakpad, Sentry's for unified, native
// and slashsymbols, elfutils' for debuginfod.
const (
	None         Layout = iota // no layout, or one that is to be detected
	SymStore                   // Microsoft's symbol store of one tier: name/key/name
	Index2                     // the same in two tiers: na/name/key/name
	SSQP                       // Microsoft's Simple Symbol Query Protocol
	BreakpadTree               // name/ID/name.sym
	Unified                    // Sentry's unified layout: id/id/leaf
	GDB                        // a build-id tree: id/id.debug
	LLDB                       // a tree of UUIDs: 4/4/4/4/4/12 digits
	Debuginfod                 // buildid/ID/artifact
	SlashSymbols               // name/ID/symbols
	Native                     // Sentry's mixture: symstore, breakpad, gdb and lldb side by side
	Auto                       // an undescribed server: it is asked in the layout of the client's request
	SymCache                   // a server that transcodes for Windows Performance Analyzer
	Flat                       // a folder of files beside each other, without keys
)

// symbolStore reports whether trees of this layout are stores of Microsoft's
// tools.
func (l Layout) symbolStore() bool { return l == SymStore || l == Index2 || l == SSQP }

// Records says which files beside the symbol files a tree has.
type Records uint8

// The records.
const (
	NoRecords        Records = iota
	SymStoreRecords          // 000Admin with transactions, refs.ptr and file.ptr, as symstore.exe writes them
	SymsorterRecords         // bundles, and .meta and refs beside each file, as Sentry's symsorter writes them
)

// String returns "none", "symstore" or "symsorter".
func (r Records) String() string {
	switch r {
	case SymStoreRecords:
		return "symstore"
	case SymsorterRecords:
		return "symsorter"
	}
	return "none"
}

// Packing says how the clients of a layout take compressed files.
type Packing uint8

// The packings.
const (
	PackNone    Packing = iota
	PackCabinet         // a cabinet under the CabinetName
	PackZstd            // zstd under the plain name
)

// String returns "none", "cabinet" or "zstd".
func (p Packing) String() string {
	switch p {
	case PackCabinet:
		return "cabinet"
	case PackZstd:
		return "zstd"
	}
	return "none"
}

// Tiers is the number of folder levels for names: one or two.
type Tiers uint8

// The tiers.
const (
	TiersNone   Tiers = iota // paths do not begin with a name
	TiersOne                 // one, unless the operator says two
	TiersProbed              // two if the server has an index2.txt
	TiersTwo                 // two, unless the operator says one
)

// String returns "none", "one", "probed" or "two".
func (t Tiers) String() string {
	switch t {
	case TiersOne:
		return "one"
	case TiersProbed:
		return "probed"
	case TiersTwo:
		return "two"
	}
	return "none"
}
