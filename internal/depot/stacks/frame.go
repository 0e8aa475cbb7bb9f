package stacks

import (
	"strconv"

	"github.com/symdepot/symdepot/symfile"
)

// Place returns the file name with the line, or an empty text if the file is unknown.
func (f Frame) Place() string {
	if f.File == "" {
		return ""
	}
	return symfile.BaseName(f.File) + ":" + strconv.FormatUint(uint64(f.Line), 10)
}

// String returns the function with its file and its line.
func (f Frame) String() string {
	text := f.Function
	if f.File != "" {
		text += " at " + f.File + ":" + strconv.FormatUint(uint64(f.Line), 10)
	}
	if f.Inlined {
		text += " (inlined)"
	}
	return text
}
