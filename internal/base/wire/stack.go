package wire

import "time"

// Stacks says what a crash dump shows of a process: the answer to POST /-/api/v1/stack, and the
// output of symdepot stack --json. Addresses are hexadecimal, with 0x.
type Stacks struct {
	Kind   string      `json:"kind"` // minidump, elfcore or applecrashreport
	Time   *time.Time  `json:"time,omitempty"`
	System StackSystem `json:"system"`
	PID    int64       `json:"pid,omitempty"`
	Uptime int64       `json:"uptime,omitempty"` // of the process, in seconds
	// Crash is why the dump was made; absent if it is not of a crash.
	Crash *StackCrash `json:"crash,omitempty"`
	// Requesting is the index in Threads of the thread that crashed or that asked for the dump; -1
	// if it is unknown.
	Requesting int `json:"requesting"`
	// Key groups crashes of one cause: it is equal over builds. It is made of KeyFrames.
	Key       string   `json:"key,omitempty"`
	KeyFrames []string `json:"key_frames,omitempty"`
	// Pending means that files are still being fetched or made: ask again.
	Pending     bool              `json:"pending,omitempty"`
	Threads     []StackThread     `json:"threads"`
	Modules     []StackModule     `json:"modules"`
	Annotations []StackAnnotation `json:"annotations,omitempty"`
	Problems    []string          `json:"problems,omitempty"`
	Kept        *KeptDump         `json:"kept,omitempty"` // the dump, if the server keeps it
}

// KeptDump is a dump that a server keeps for some time.
type KeptDump struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`          // of the file, as it was sent
	Who    string    `json:"who,omitempty"` // who sent it
	Size   int64     `json:"size"`
	Key    string    `json:"key,omitempty"` // of the crash
	Reason string    `json:"reason,omitempty"`
	Time   time.Time `json:"time"`  // when it was sent
	Until  time.Time `json:"until"` // then it is deleted
}

// StackSystem is the machine of a dump.
type StackSystem struct {
	OS      string `json:"os,omitempty"`
	Version string `json:"version,omitempty"`
	Arch    string `json:"arch,omitempty"` // as Breakpad names it
	CPU     string `json:"cpu,omitempty"`  // family, model, stepping
	CPUs    int    `json:"cpus,omitempty"`
}

// StackCrash is the reason of a crash.
type StackCrash struct {
	Reason  string `json:"reason"` // in words, such as EXCEPTION_ACCESS_VIOLATION_WRITE
	Address string `json:"address"`
	// Meaning says the reason in a sentence for people; empty for a reason that is not known.
	Meaning   string `json:"meaning,omitempty"`
	Assertion string `json:"assertion,omitempty"`
}

// StackThread is a thread of a dump.
type StackThread struct {
	ID      int64  `json:"id"`
	Name    string `json:"name,omitempty"`
	Crashed bool   `json:"crashed,omitempty"`
	// Frames are the calls, innermost first. A function into which others were inlined is one frame.
	Frames    []StackFrame      `json:"frames"`
	Registers map[string]string `json:"registers,omitempty"`
	Problem   string            `json:"problem,omitempty"` // why the stack may be incomplete
}

// StackFrame is a call.
type StackFrame struct {
	Address string `json:"address"`
	// Trust says how the frame was found, in the words of minidump-stackwalk: context, cfi,
	// frame_pointer, scan, cfi_scan, prewalked.
	Trust  string `json:"trust"`
	Module string `json:"module,omitempty"` // file name of the program or library
	Offset string `json:"offset,omitempty"` // of the address in the module
	// Status is symbolicated, missing (the module has no symbols here), missing_symbol (its symbols
	// do not have the address), malformed or unknown_image.
	Status         string        `json:"status"`
	Function       string        `json:"function,omitempty"`
	FunctionOffset string        `json:"function_offset,omitempty"`
	File           string        `json:"file,omitempty"`
	Line           int           `json:"line,omitempty"`
	Inlines        []StackInline `json:"inlines,omitempty"` // innermost first
	Source         string        `json:"source,omitempty"`  // the line of the innermost function
	SourceBefore   []string      `json:"source_before,omitempty"`
	SourceAfter    []string      `json:"source_after,omitempty"`
	Problem        string        `json:"problem,omitempty"` // why the unwind rules did not lead to the caller
}

// StackInline is a function that was inlined at a frame.
type StackInline struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
}

// StackModule is a program or library of a dump. Its states are found, missing, malformed, timeout (it
// is being prepared) and unused (no frame is in it).
type StackModule struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	Address   string `json:"address"`
	Size      int64  `json:"size"`
	CodeID    string `json:"code_id,omitempty"`
	DebugFile string `json:"debug_file,omitempty"`
	DebugID   string `json:"debug_id,omitempty"`
	Unloaded  bool   `json:"unloaded,omitempty"`
	Debug     string `json:"debug"`  // state of the names and lines
	Unwind    string `json:"unwind"` // state of the unwind rules
	From      string `json:"from,omitempty"`
	Help      string `json:"help,omitempty"` // what would make the stacks better
}

// StackAnnotation is a value that the program or its crash reporter stored.
type StackAnnotation struct {
	Module string `json:"module,omitempty"`
	Name   string `json:"name"`
	Value  string `json:"value"`
}
