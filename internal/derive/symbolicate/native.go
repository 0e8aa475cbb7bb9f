package symbolicate

import (
	"encoding/json"
	"strconv"
)

// NativeRequest is a request of Symbolicator's API for native code, and for IL by method
// and offset. Sources of the request are ignored: the depot is the only source.
type NativeRequest struct {
	Platform    string             `json:"platform"`
	Signal      *int               `json:"signal"`
	Modules     []NativeModule     `json:"modules"`
	Stacktraces []NativeStacktrace `json:"stacktraces"`
	Threads     []NativeStacktrace `json:"threads"`
	Options     struct {
		DIFCandidates bool   `json:"dif_candidates"`
		FrameOrder    string `json:"frame_order"`
		SourceContext bool   `json:"apply_source_context"`
	} `json:"options"`

	images *images // of the modules; nil before the first use
}

// NativeModule is a module of such a request, and of its answer.
type NativeModule struct {
	Type      string `json:"type"`
	DebugID   string `json:"debug_id,omitempty"`
	CodeID    string `json:"code_id,omitempty"`
	DebugFile string `json:"debug_file,omitempty"`
	CodeFile  string `json:"code_file,omitempty"`
	ImageAddr Hex    `json:"image_addr"`
	ImageSize uint64 `json:"image_size,omitempty"`

	// Fields of the answer.
	DebugStatus  string            `json:"debug_status,omitempty"`
	UnwindStatus string            `json:"unwind_status,omitempty"` // of the modules of dumps
	Arch         string            `json:"arch,omitempty"`
	Features     *NativeFeatures   `json:"features,omitempty"`
	Candidates   []NativeCandidate `json:"candidates,omitempty"`
}

// NativeFeatures says what the files of a module hold.
type NativeFeatures struct {
	Debug   bool `json:"has_debug_info"`
	Unwind  bool `json:"has_unwind_info"`
	Symbols bool `json:"has_symbols"`
	Sources bool `json:"has_sources"`
}

// NativeCandidate is a file that answered for a module.
type NativeCandidate struct {
	Source   string            `json:"source"`
	Location string            `json:"location"`
	Download map[string]string `json:"download"`
}

// NativeStacktrace is a list of frames.
type NativeStacktrace struct {
	Registers json.RawMessage `json:"registers,omitempty"`
	Frames    []NativeFrame   `json:"frames"`
	Crashed   *bool           `json:"is_requesting,omitempty"`

	// Of the threads of dumps.
	ThreadID   *uint64 `json:"thread_id,omitempty"`
	ThreadName string  `json:"thread_name,omitempty"`
}

// NativeFrame is a frame of a request, and of its answer.
type NativeFrame struct {
	Status        string `json:"status,omitempty"`
	OriginalIndex *int   `json:"original_index,omitempty"`
	Instruction   Hex    `json:"instruction_addr"`
	AddrMode      string `json:"addr_mode,omitempty"`
	Adjust        *bool  `json:"adjust_instruction_addr,omitempty"`
	FunctionID    *Hex   `json:"function_id,omitempty"` // of IL: the row or the metadata token of the method
	Package       string `json:"package,omitempty"`
	Lang          string `json:"lang,omitempty"`
	Symbol        string `json:"symbol,omitempty"`
	SymAddr       *Hex   `json:"sym_addr,omitempty"`
	Function      string `json:"function,omitempty"`
	AbsPath       string `json:"abs_path,omitempty"`
	Filename      string `json:"filename,omitempty"`
	Lineno        uint32 `json:"lineno,omitempty"`

	Trust string `json:"trust,omitempty"` // of the frames of dumps

	PreContext  []string `json:"pre_context,omitempty"`
	ContextLine string   `json:"context_line,omitempty"`
	PostContext []string `json:"post_context,omitempty"`
}

// RelativeFrame returns the frame of a request with an address from the start of a module. behind
// means that the address is that of the instruction behind a call.
func RelativeFrame(module int, offset uint64, behind bool) NativeFrame {
	return NativeFrame{Instruction: Hex(offset), AddrMode: "rel:" + strconv.Itoa(module), Adjust: &behind}
}

// Hex is an address, a number or a text such as "0x1f" in JSON.
type Hex uint64

// MarshalJSON implements json.Marshaler.
func (h Hex) MarshalJSON() ([]byte, error) {
	return []byte(`"0x` + strconv.FormatUint(uint64(h), 16) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hex) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" {
		return nil
	}
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseUint(s, 0, 64)
	*h = Hex(n)
	return err
}

// NativeAnswer is the answer to a NativeRequest.
type NativeAnswer struct {
	Status      string             `json:"status"`
	Stacktraces []NativeStacktrace `json:"stacktraces"`
	Modules     []NativeModule     `json:"modules"`
	// NativeCrash is set in answers for dumps.
	*NativeCrash
}

// NativeCrash is what Symbolicator says of a dump beside its stacks.
type NativeCrash struct {
	Timestamp   int64        `json:"timestamp,omitempty"` // seconds since 1970
	System      NativeSystem `json:"system_info"`
	Crashed     bool         `json:"crashed"`
	CrashReason string       `json:"crash_reason"`
	Details     string       `json:"crash_details,omitempty"` // of a crash report of Apple's systems
	Assertion   string       `json:"assertion"`
}

// NativeSystem is the system of a dump.
type NativeSystem struct {
	OSName    string `json:"os_name"`
	OSVersion string `json:"os_version"`
	OSBuild   string `json:"os_build"`
	Arch      string `json:"cpu_arch"`
	Device    string `json:"device_model"`
}

// managed is Symbolicator's type of modules with IL.
const managed = "pe_dotnet"
