package symbolicate

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// api asks one of the APIs for frames of one stack.
type api func(ctx context.Context, src Source, texts Texts, frames int) error

// apis are all APIs.
var apis = map[string]api{
	"v5": func(ctx context.Context, src Source, _ Texts, frames int) error {
		_, err := V5(ctx, src, []Job{oneStack(frames)})
		return err
	},
	"v5 as JSON": func(ctx context.Context, src Source, _ Texts, frames int) error {
		_, err := V5Written(ctx, src, []Job{oneStack(frames)})
		return err
	},
	"v4": func(ctx context.Context, src Source, _ Texts, frames int) error {
		_, err := V4(ctx, src, oneStack(frames))
		return err
	},
	"native": func(ctx context.Context, src Source, texts Texts, frames int) error {
		q := NativeRequest{Modules: []NativeModule{{DebugID: helloNative, DebugFile: "a.pdb", ImageAddr: 0x1000}}, Stacktraces: []NativeStacktrace{{Frames: make([]NativeFrame, frames)}}}
		for i := range q.Stacktraces[0].Frames {
			q.Stacktraces[0].Frames[i].Instruction = 0x2000
		}
		q.Options.SourceContext = texts != nil
		_, err := Native(ctx, src, texts, q)
		return err
	},
}

const helloNative = "f9efe0b6-ae75-0039-4c4c-44205044422e-1"

func oneStack(frames int) Job {
	return Job{Modules: []ModuleQuery{{DebugFile: "a.pdb", DebugID: "1"}}, Stacks: [][]Offset{make([]Offset, frames)}}
}

// lookupFunc is a Source of one module, and answers its lookups.
type lookupFunc func() functab.Line

func (f lookupFunc) Module(context.Context, ModuleQuery) (*Module, error) {
	return &Module{Looker: f}, nil
}

func (f lookupFunc) Lookup(uint64) (functab.Answer, bool) {
	return functab.Answer{Frames: []functab.Line{f()}}, true
}

// TestLongStack: the frames of one stack are not all looked up for a client that is gone.
func TestLongStack(t *testing.T) {
	t.Parallel()
	for name, ask := range apis {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		err := ask(ctx, lookupFunc(func() functab.Line {
			n++
			cancel()
			return functab.Line{Function: "f"}
		}), nil, 20*framesAtOnce)
		if !errors.Is(err, context.Canceled) || n > framesAtOnce {
			t.Errorf("%s: %d lookups after the client went, error %v; want %d at most and the error of the context", name, n, err, framesAtOnce)
		}
	}
}

// longLines are source files of one long line.
type longLines struct{}

func (longLines) Text(context.Context, ModuleQuery, string) ([]byte, error) {
	return []byte(strings.Repeat("x", contextLine)), nil
}

// TestLongNames: an answer of long names or source lines is refused before it takes
// gigabytes.
func TestLongNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		what  string
		line  functab.Line
		texts Texts
		only  string // an API; empty: all
	}{
		{"names", functab.Line{Function: strings.Repeat("f", 64<<10)}, nil, ""},
		{"source lines", functab.Line{Function: "f", File: "f.c", Line: 1}, longLines{}, "native"},
	} {
		for name, ask := range apis {
			if tt.only != "" && tt.only != name {
				continue
			}
			src := lookupFunc(func() functab.Line { return tt.line })
			each := len(tt.line.Function)
			if tt.texts != nil {
				each = contextLine
			}
			if err := ask(t.Context(), src, tt.texts, maxText/each/4); err != nil {
				t.Errorf("%s, %s: error %v, want an answer of a quarter of the limit", name, tt.what, err)
			}
			err := ask(t.Context(), src, tt.texts, maxText/each+1)
			if _, ok := errors.AsType[RequestError](err); !ok {
				t.Errorf("%s, %s: error %v, want a refusal of more than the limit", name, tt.what, err)
			}
		}
	}
}

// TestEmptyLines: a source file of very many lines gives none, instead of taking many times
// its size.
func TestEmptyLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"one\ntwo\n": "two",
		"one\ntwo\n" + strings.Repeat("\n", contextMost): "",
	} {
		s := sourceLines{texts: textOf(text), files: map[sourceKey][][]byte{}}
		f := NativeFrame{AbsPath: "a.c", Lineno: 2}
		if err := s.add(t.Context(), 0, ModuleQuery{}, &f); err != nil || f.ContextLine != want {
			t.Errorf("line 2 of a file of %d bytes is %q, error %v; want %q", len(text), f.ContextLine, err, want)
		}
	}
}

type textOf string

func (s textOf) Text(context.Context, ModuleQuery, string) ([]byte, error) { return []byte(s), nil }

// TestImages: a module is found by an address as by comparing it with all modules, and no
// more often than there are modules.
func TestImages(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	some := func() Hex {
		switch r.IntN(8) {
		case 0:
			return ^Hex(0) - Hex(r.IntN(20))
		case 1:
			return Hex(r.Uint64())
		}
		return Hex(r.IntN(200))
	}
	for range 300 {
		list := make([]NativeModule, r.IntN(12))
		for i := range list {
			list[i] = NativeModule{ImageAddr: some(), ImageSize: uint64(some()), Type: []string{"", "elf", managed}[r.IntN(3)]}
			if r.IntN(4) == 0 {
				list[i].ImageSize = 0
			}
		}
		im := newImages(list)
		for range 300 {
			addr := some()
			if len(list) > 0 && r.IntN(3) == 0 {
				m := list[r.IntN(len(list))]
				addr = m.ImageAddr + Hex(m.ImageSize) - Hex(r.IntN(3)) + 1
			}
			if got, want := im.at(addr), im.seek(addr); got != want {
				t.Fatalf("the module at %#x is %d, want %d of %+v", addr, got, want, list)
			}
		}
		if len(im.found) > 2*len(list) {
			t.Fatalf("%d modules are compared up to %d times, want twice as often as there are modules", len(list), len(im.found))
		}
	}
}
