package pdb

import (
	"context"

	"github.com/symdepot/symdepot/functab"
)

// Limits of the symbols of a module.
const (
	signatureC13  = 4
	maxScopes     = 512     // open scopes
	maxSites      = 1 << 20 // inlined calls of a function
	maxPieces     = 1 << 12 // cold blocks of a function
	maxSepLook    = 4096    // functions before separated code that may be its parent
	keptNodes     = 1 << 12 // nodes whose memory is kept from function to function
	keptNodeBytes = 1 << 16
)

// The kinds of open scopes.
const (
	scopeBlock = 'b'
	scopeSite  = 's'
)

// node is a function in a tree of inlined calls: the procedure itself or a call.
type node struct {
	parent, child, last, next int32 // -1 for none
	depth                     int   // of a call: 0 if it is inlined into the procedure
	id                        uint32
	rows                      []row    // its own, which may include those of its calls
	all                       []extent // its code and that of its calls
	code                      []extent // the part of all that is in the current piece
}

// done is a function that was added.
type done struct {
	extent
	name functab.NameID
}

// item is a part of the code of a call.
type item struct {
	extent
	node int32
}

// worker reads modules, one after the other.
type worker struct {
	r       *reader
	ctx     context.Context
	lines   moduleLines
	print   printer
	symbols window
	inlines map[uint32]functab.NameID
	module  int
	added   []done
	folded  map[uint64]int // functions read so far at an address of several contributions

	// The procedure that is being read.
	open   bool
	code   extent
	name   []byte
	typ    uint32
	isID   bool
	known  functab.NameID // of separated code
	cold   []extent
	scopes []byte
	over   int // scopes that were opened beyond the limit
	nodes  []node
	at     int32 // the innermost open node
	rows   int   // of all inlined calls
	lost   bool  // inlined calls were left out

	// Reused.
	pieces  []piece
	out     []row
	items   []item
	cover   []extent
	free    []extent
	outRows []functab.Row
	outCall []functab.Inline
}
