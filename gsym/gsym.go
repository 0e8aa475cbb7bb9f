// Package gsym writes and reads GSYM files: LLVM's format for looking up functions,
// source lines and inlined calls by address, version 1.
//
// Write makes a file from function tables. The file suits LLVM's own readers, and
// has a trailer with what the format cannot hold: mangled names and the sizes of
// parameters. A File looks up addresses in a GSYM file of any producer.
//
// The package is not yet promised: it may change in any version.
package gsym

import (
	"encoding/binary"
	"errors"
)

// ErrFormat is wrapped by the errors about files that are no valid GSYM file.
var ErrFormat = errors.New("not a valid GSYM file")

// ErrTooLarge is wrapped by the error about tables that do not fit into a GSYM file
// of version 1, whose offsets have 32 bits.
var ErrTooLarge = errors.New("tables above the limit of a GSYM file")

// Numbers of the format, from LLVM's include/llvm/DebugInfo/GSYM.
const (
	magic      = 0x4753594D
	version    = 1
	headerSize = 48
	uuidSize   = 20

	infoEnd    = 0
	infoLines  = 1
	infoInline = 2

	opEnd          = 0
	opFile         = 1
	opAdvance      = 2
	opLine         = 3
	opSpecial      = 4
	maxLineDeltas  = 15
	trailerMagic   = 0x58474453 // "SDGX"
	trailerVersion = 1
	trailerHead    = 16 // magic, version, number of functions, number of names
	trailerFunc    = 12 // entry, raw name, parameter size and flags
	trailerName    = 8  // shown name, raw name
	trailerEnd     = 16 // offset of the trailer (8 bytes), its length, magic

	flagMultiple = 1 << 31
	flagSymbol   = 1 << 30
	paramsMask   = flagSymbol - 1
)

var le = binary.LittleEndian

// unknownFile stands for an unknown file: LLVM's reader loses inlined calls whose
// caller is in file 0.
const unknownFile = "<unknown>"
