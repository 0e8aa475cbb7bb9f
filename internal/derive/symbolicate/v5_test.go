package symbolicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// fixed answers every lookup below 0x2000 from a list.
type fixed map[uint64]functab.Answer

func (f fixed) Lookup(rva uint64) (functab.Answer, bool) {
	a, ok := f[rva]
	return a, ok
}

// shelf is a Source of modules by debug id.
type shelf map[string]*Module

func (s shelf) Module(_ context.Context, q ModuleQuery) (*Module, error) {
	switch q.DebugID {
	case "BAD0":
		return nil, errors.New("broken")
	case "DDD0":
		return nil, PendingError{}
	}
	if m := s[q.DebugID]; m != nil {
		return m, nil
	}
	return nil, fs.ErrNotExist
}

var testShelf = shelf{"ABC1": {
	Looker: fixed{
		0xb2e3f7: {Frames: []functab.Line{{Function: "g", Raw: "?g@@YAXXZ", File: "hg:hg.mozilla.org/a", Line: 12}, {Function: "f", File: "b.cpp", Line: 574}}, FunctionStart: 0xb2df4d, FunctionSize: 0x500},
		0x10:     {Frames: []functab.Line{{Function: "public"}}, FunctionStart: 0x8, Symbol: true},
		0x20:     {Frames: []functab.Line{{Function: "noline", File: "c.cpp"}}, FunctionStart: 0x20},
	},
	CodeFile: "xul.dll", Arch: "x86_64", From: "pdb xul.pdb",
}}

// The shapes are those of Eliot's documentation, with samply's additions.
func TestV5(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body, want string }{
		{"one job at the top", `{"memoryMap":[["xul.pdb","ABC1"],["other.pdb","EEE0"],["unused.pdb","ABC1"]],"stacks":[[[0,11723767],[0,16],[1,5],[-1,-1],[0,32],[0,99]]],"version":5}`,
			`{"results":[{"stacks":[[` +
				`{"frame":0,"module":"xul.dll","module_offset":"0xb2e3f7","function":"f","function_offset":"0x4aa","function_size":"0x500","file":"b.cpp","line":574,"inlines":[{"function":"g","file":"hg:hg.mozilla.org/a","line":12}]},` +
				`{"frame":1,"module":"xul.dll","module_offset":"0x10","function":"public","function_offset":"0x8"},` +
				`{"frame":2,"module":"other.pdb","module_offset":"0x5"},` +
				`{"frame":3,"module":"\u003cunknown\u003e","module_offset":"-0x1"},` +
				`{"frame":4,"module":"xul.dll","module_offset":"0x20","function":"noline","function_offset":"0x0","file":"c.cpp"},` +
				`{"frame":5,"module":"xul.dll","module_offset":"0x63"}]],` +
				`"found_modules":{"other.pdb/EEE0":false,"unused.pdb/ABC1":null,"xul.pdb/ABC1":true},` +
				`"module_errors":{"other.pdb/EEE0":[{"name":"NotFound","message":"no symbol file of this module was found"}]},` +
				`"module_sources":{"xul.pdb/ABC1":"pdb xul.pdb"}}]}`},
		{"jobs; an empty stack; an empty module", `{"jobs":[{"memoryMap":[["",""]],"stacks":[[],[[0,1]]]},{"memoryMap":[],"stacks":[[]]}]}`,
			`{"results":[{"stacks":[[],[{"frame":0,"module":"\u003cunknown\u003e","module_offset":"0x1"}]],"found_modules":{"/":false},"module_errors":{"/":[{"name":"NotFound","message":"no symbol file of this module was found"}]}},{"stacks":[[]],"found_modules":{}}]}`},
		{"failures are told apart", `{"memoryMap":[["a","BAD0"],["b","DDD0"]],"stacks":[[[0,1],[1,1]]]}`,
			`{"results":[{"stacks":[[{"frame":0,"module":"a","module_offset":"0x1"},{"frame":1,"module":"b","module_offset":"0x1"}]],"found_modules":{"a/BAD0":false,"b/DDD0":false},` +
				`"module_errors":{"a/BAD0":[{"name":"Unusable","message":"the symbol file of this module cannot be used"}],"b/DDD0":[{"name":"Pending","message":"the symbols of this module are being prepared; ask again later"}]}}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			jobs, err := ParseV5([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			a, err := V5(t.Context(), testShelf, jobs)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(a); string(got) != tt.want {
				t.Errorf("answer\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestV4(t *testing.T) {
	t.Parallel()
	jobs, err := ParseV5([]byte(`{"memoryMap":[["xul.pdb","ABC1"],["other.pdb","EEE0"],["x","F"]],"stacks":[[[0,11723767],[1,5]]],"version":4}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := V4(t.Context(), testShelf, jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"symbolicatedStacks":[["f (in xul.dll)","0x5 (in other.pdb)"]],"knownModules":[true,false,null]}`
	if got, _ := json.Marshal(a); string(got) != want {
		t.Errorf("answer\n%s\nwant\n%s", got, want)
	}
}

// The titles are Eliot's.
func TestV5Refuses(t *testing.T) {
	t.Parallel()
	eleven := strings.TrimSuffix(strings.Repeat(`{"memoryMap":[],"stacks":[[]]},`, 11), ",")
	for _, tt := range []struct{ body, title string }{
		{`{`, "Payload is not valid JSON"},
		{`{} {}`, "Payload is not valid JSON"},
		{`{"jobs":[` + eleven + `]}`, "please limit number of jobs in a single request to <= 10"},
		{`[]`, "job 0 is invalid"},
		{`"x"`, "job 0 is invalid"},
		{`3`, "job 0 is invalid"},
		{`{"jobs":[3]}`, "job 0 is invalid"},
		{`{"memoryMap":[]}`, "job 0 is invalid: no stacks specified"},
		{`{"stacks":[[]]}`, "job 0 is invalid: no memoryMap specified"},
		{`{"memoryMap":3,"stacks":[[]]}`, "job 0 has invalid modules: modules must be a list"},
		{`{"memoryMap":[["a"]],"stacks":[[]]}`, "job 0 has invalid modules: module index 0 does not have a debug_filename and debug_id"},
		{`{"memoryMap":[["a/b","ABC"]],"stacks":[[]]}`, "job 0 has invalid modules: module index 0 has an invalid debug_filename"},
		{`{"memoryMap":[["a","xyz"]],"stacks":[[]]}`, "job 0 has invalid modules: module index 0 has an invalid debug_id"},
		{`{"memoryMap":[["a","ABC"]],"stacks":3}`, "job 0 has invalid stacks: stacks must be a list of lists"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[]}`, "job 0 has invalid stacks: no stacks specified"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[3]}`, "job 0 has invalid stacks: stack 0 is not a list"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[[1]]]}`, "job 0 has invalid stacks: stack 0 frame 0 is not a list of two items"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[["x",1]]]}`, "job 0 has invalid stacks: stack 0 frame 0 has an invalid module_index"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[[-2,1]]]}`, "job 0 has invalid stacks: stack 0 frame 0 has an invalid module_index"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[[1,1]]]}`, "job 0 has invalid stacks: stack 0 frame 0 has a module_index that isn't in modules"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[[0,1.5]]]}`, "job 0 has invalid stacks: stack 0 frame 0 has an invalid module_offset"},
		{`{"memoryMap":[["a","ABC"]],"stacks":[[[0,-2]]]}`, "job 0 has invalid stacks: stack 0 frame 0 has an invalid module_offset"},
	} {
		_, err := ParseV5([]byte(tt.body))
		if bad, ok := errors.AsType[RequestError](err); !ok || bad.Title != tt.title {
			t.Errorf("%s: error %v, want %q", tt.body, err, tt.title)
		}
	}
	_, err := ParseV5([]byte(`{"memoryMap":[["a","ABC"]],"stacks":[[` + strings.Repeat("[0,1],", maxFrames) + `[0,1]]]}`))
	if _, ok := errors.AsType[RequestError](err); !ok {
		t.Errorf("%d frames: error %v, want a RequestError", maxFrames+1, err)
	}
}

func TestNative(t *testing.T) {
	t.Parallel()
	const body = `{"platform":"native","modules":[{"type":"pe","debug_id":"%s","debug_file":"C:\\b\\xul.pdb","code_file":"C:\\b\\xul.dll","image_addr":"0x10000","image_size":16777216},{"type":"elf","debug_id":"%s","code_file":"/lib/b.so","image_addr":"0x9000000"},{"type":"wasm","image_addr":0}],
		"stacktraces":[{"registers":{"rip":"0xb3e3f7"},"frames":[{"instruction_addr":"0xb3e3f7"},{"instruction_addr":"0x11","addr_mode":"rel:0"},{"instruction_addr":"0x9000005"},{"instruction_addr":"0x5"}]}]}`
	const id, other = "00000000000000000000000000000abc-1", "00000000000000000000000000000eee-0"
	q, err := ParseNative(fmt.Appendf(nil, body, id, other))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Native(t.Context(), shelf{"00000000000000000000000000000ABC1": testShelf["ABC1"]}, nil, q)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(a)
	for _, want := range []string{
		`"status":"completed"`, `"registers":{"rip":"0xb3e3f7"}`,
		`{"status":"symbolicated","original_index":0,"instruction_addr":"0xb3e3f7","package":"C:\\b\\xul.dll","symbol":"?g@@YAXXZ","function":"g","abs_path":"hg:hg.mozilla.org/a","filename":"a","lineno":12}`,
		`{"status":"symbolicated","original_index":0,"instruction_addr":"0xb3e3f7","package":"C:\\b\\xul.dll","symbol":"f","sym_addr":"0xb3df4d","function":"f","abs_path":"b.cpp","filename":"b.cpp","lineno":574}`,
		`"original_index":1,"instruction_addr":"0x10","addr_mode":"rel:0","package":"C:\\b\\xul.dll","symbol":"public","sym_addr":"0x8"`,
		`{"status":"missing","original_index":2,"instruction_addr":"0x9000005","package":"/lib/b.so"}`,
		`"debug_status":"found"`, `"debug_status":"missing"`, `"debug_status":"unsupported"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("answer\n%s\nwants\n%s", got, want)
		}
	}
	if _, err := ParseNative([]byte(`[`)); !errors.As(err, new(RequestError)) {
		t.Errorf("broken JSON: error %v, want a RequestError", err)
	}
}

// TestNativeAdjusts: which addresses of frames are those of return addresses.
func TestNativeAdjusts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, signal, stack, arch string
		frame                     int
		want                      bool
	}{
		{"first frame", "null", `{"registers":{"rip":"0x1"}}`, "x86_64", 0, false},
		{"caller", "null", `{}`, "x86_64", 1, true},
		{"first frame after a wrong access", "11", `{"registers":{"rip":"0x1000"}}`, "x86_64", 0, false},
		{"without the frame of the crash", "11", `{"registers":{"rip":"0x1"}}`, "x86_64", 0, true},
		{"SIGILL on ARM64", "4", `{"registers":{"pc":"0x1"}}`, "arm64", 0, true},
		{"SIGBUS on x86, a register as Breakpad writes it", "10", `{"registers":{"$eip":1}}`, "x86", 0, true},
		{"SIGABRT", "6", `{"registers":{"rip":"0x1"}}`, "x86_64", 0, false},
		{"another thread", "11", `{"is_requesting":false,"registers":{"rip":"0x1"}}`, "x86_64", 0, false},
		{"no registers", "11", `{"registers":null}`, "x86_64", 0, false},
		{"registers that are none", "11", `{"registers":{"rip":{}}}`, "x86_64", 0, false},
	} {
		q, err := ParseNative([]byte(`{"signal":` + tt.signal + `,"stacktraces":[` + tt.stack + `]}`))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		f := NativeFrame{Instruction: 0x1000}
		if got := q.adjusts(tt.frame, f, q.Stacktraces[0], tt.arch); got != tt.want {
			t.Errorf("%s: adjusted %t, want %t", tt.name, got, tt.want)
		}
		yes := true
		f.Adjust = &yes
		if !q.adjusts(tt.frame, f, q.Stacktraces[0], tt.arch) {
			t.Errorf("%s: not adjusted although the request says so", tt.name)
		}
	}
}

// TestNativeCandidates: the files that answered and those that were not found are
// listed if the client wants them.
func TestNativeCandidates(t *testing.T) {
	t.Parallel()
	m := NativeModule{Type: "elf", DebugFile: "b.so", DebugID: "00000000000000000000000000000eee-0"}
	m.note(true, opened{err: fs.ErrNotExist}, true)
	if got := fmt.Sprint(m.Candidates); !strings.Contains(got, "b.so/00000000000000000000000000000EEE0 map[status:notfound]") {
		t.Errorf("candidates %s of a module that was not found, want it with the status notfound", got)
	}
	m.note(true, opened{Module: &Module{From: "elf b.so", Missing: []string{"b.dwz"}}}, true)
	if got := fmt.Sprint(m.Candidates); !strings.Contains(got, "elf b.so map[status:ok]") || !strings.Contains(got, "b.dwz map[status:notfound]") {
		t.Errorf("candidates %s, want the file with the status ok and its part with notfound", got)
	}
	m.Candidates = nil
	m.note(true, opened{err: fs.ErrNotExist}, false)
	if len(m.Candidates) > 0 {
		t.Errorf("candidates %v although the client wants none", m.Candidates)
	}
}

// TestManyValues: a body of brackets, which would take many times its bytes when it is
// decoded, is refused before that.
func TestManyValues(t *testing.T) {
	body := []byte(`{"memoryMap":[],"stacks":[` + strings.Repeat("[],", maxValues/2) + `[]]}`)
	for name, parse := range map[string]func([]byte) error{
		"v5":     func(b []byte) error { _, err := ParseV5(b); return err },
		"native": func(b []byte) error { _, err := ParseNative(b); return err },
	} {
		err := parse(body)
		if _, ok := errors.AsType[RequestError](err); !ok || !strings.Contains(err.Error(), "values") {
			t.Errorf("%s of %d bytes: %v, want a refusal of so many values", name, len(body), err)
		}
	}
	frame := `[0,1048575],`
	all := `{"memoryMap":[["a.pdb","0"]],"stacks":[[` + strings.Repeat(frame, maxFrames-1) + `[0,1]]]}`
	if jobs, err := ParseV5([]byte(all)); err != nil || len(jobs[0].Stacks[0]) != maxFrames {
		t.Errorf("a request of %d frames: %v, want it accepted", maxFrames, err)
	}
}

// deepSource has one module in which every address has the most inlined calls.
type deepSource struct{ Source }

func (deepSource) Module(context.Context, ModuleQuery) (*Module, error) {
	answer := functab.Answer{Frames: make([]functab.Line, 512)}
	for i := range answer.Frames {
		answer.Frames[i] = functab.Line{Function: "f", File: "f.c", Line: 1}
	}
	return &Module{Looker: deepModule(answer)}, nil
}

type deepModule functab.Answer

func (m deepModule) Lookup(uint64) (functab.Answer, bool) { return functab.Answer(m), true }

// TestLongAnswer: frames with many inlined calls each are refused before the answer
// takes gigabytes.
func TestLongAnswer(t *testing.T) {
	job := Job{Modules: []ModuleQuery{{DebugFile: "a.pdb", DebugID: "1"}}, Stacks: [][]Offset{make([]Offset, 2000)}}
	_, err := V5(t.Context(), deepSource{}, []Job{job})
	if _, ok := errors.AsType[RequestError](err); !ok {
		t.Errorf("2,000 frames of 512 lines each: %v, want a refusal", err)
	}
	job.Stacks[0] = job.Stacks[0][:100]
	if a, err := V5(t.Context(), deepSource{}, []Job{job}); err != nil || len(a.Results[0].Stacks[0]) != 100 {
		t.Errorf("100 frames of 512 lines each: %v, want an answer", err)
	}
}
