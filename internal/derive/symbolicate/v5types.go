package symbolicate

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// RequestError is the error for a request that does not have the form of its API.
// The text is for the client.
type RequestError struct{ Title string }

func (e RequestError) Error() string { return e.Title }

func badRequest(format string, args ...any) error { return RequestError{fmt.Sprintf(format, args...)} }

// Job is one unit of a request to /symbolicate/v5 (Eliot's symbolication API,
// version 5): a list of modules, and stacks of offsets in them.
type Job struct {
	Modules []ModuleQuery
	Stacks  [][]Offset
}

// Offset is an address in a module.
type Offset struct {
	Module int   // index in the job's modules; -1: the address is in no module
	Offset int64 // from the base of the module; -1: unknown
}

// answerSize is how much of an answer there is.
type answerSize struct{ lines, text int }

// add counts a part of the answer. The error refuses the whole.
func (s *answerSize) add(lines, text int) error {
	s.lines += lines
	s.text += text
	switch {
	case s.lines > maxLines:
		return errLong
	case s.text > maxText:
		return errLongText
	}
	return nil
}

// validModule reports whether a module has a valid name and id.
func validModule(q ModuleQuery) bool {
	return validModuleName(q.DebugFile) && (q.DebugID == "" || debugid.IsHex(q.DebugID))
}

// validModuleName reports whether a name has only characters that Eliot and samply
// accept in names of debug files.
func validModuleName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_.+{}@<> ~-[]:()&,=!#'", c) >= 0 || c >= 0x80 {
			continue
		}
		return false
	}
	return len(s) <= 1024
}

// V5Answer is the answer to a request of version 5.
type V5Answer struct {
	Results []V5Result `json:"results"`
}

// V5Result is the answer to one job.
type V5Result struct {
	Stacks [][]V5Frame `json:"stacks"`
	// FoundModules says for each module, by "file/id" as the client spells them,
	// whether it was found; null if no frame refers to it.
	FoundModules map[string]*bool `json:"found_modules"`
	// ModuleErrors says why modules were not found (samply's addition).
	ModuleErrors map[string][]V5Error `json:"module_errors,omitempty"`
	// ModuleSources says which file answered for a module that was found (our own
	// addition).
	ModuleSources map[string]string `json:"module_sources,omitempty"`
	// ModuleNotes says which files of a module that was found were not found, so that
	// functions or lines may lack (our own addition).
	ModuleNotes map[string][]string `json:"module_notes,omitempty"`
}

// V5Error is the reason why a module was not found.
type V5Error struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// V5Frame is one frame of a stack.
type V5Frame struct {
	Frame          int        `json:"frame"`
	Module         string     `json:"module"`
	ModuleOffset   string     `json:"module_offset"`
	Function       string     `json:"function,omitempty"`
	FunctionOffset string     `json:"function_offset,omitempty"`
	FunctionSize   string     `json:"function_size,omitempty"`
	File           string     `json:"file,omitempty"`
	Line           uint32     `json:"line,omitempty"`
	Inlines        []V5Inline `json:"inlines,omitempty"`
}

// V5Inline is a function that was inlined at a frame, innermost first.
type V5Inline struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     uint32 `json:"line,omitempty"`
}

// Limits of one request to the symbolication APIs.
const (
	MaxBody    = 8 << 20 // bytes
	maxValues  = 1 << 20 // of JSON
	maxJobs    = 10      // Eliot's limit
	maxModules = 2000    // of all jobs
	maxFrames  = 200_000 // of all stacks
	maxLines   = 600_000 // of one answer, with inlined calls: a frame may have hundreds
	// maxText is how many bytes of names and of source lines one answer has: a name may
	// have thousands.
	maxText = 128 << 20
	// framesAtOnce is how many frames are looked up until it is checked whether the
	// client still waits.
	framesAtOnce = 1024
)

// Errors that refuse an answer that would need too much memory.
var (
	errLong     = badRequest("please ask for fewer frames: the answer has more than %d lines", maxLines)
	errLongText = badRequest("please ask for fewer frames: the names and the source lines of the answer have more than %d bytes", maxText)
)
