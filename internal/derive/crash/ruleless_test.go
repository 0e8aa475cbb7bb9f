package crash

import (
	"bytes"
	"context"
	"testing"

	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/symfile"
)

// ruleless is a source that has programs without unwind rules.
type ruleless struct{ nothing }

func (ruleless) Unwind(context.Context, symbolicate.ModuleQuery) (*symbolicate.Unwind, error) {
	return nil, symbolicate.ErrNoRules
}

// TestRuleless: a program that has no unwind rules is not waited for, and no help.
func TestRuleless(t *testing.T) {
	t.Parallel()
	waited := 0
	for name, data := range testDumps(t) {
		programs := map[bool]int{}
		for _, has := range []bool{false, true} {
			var src Source = nothing{}
			if has {
				src = ruleless{}
			}
			a, err := Analyze(t.Context(), func(ctx context.Context, r Resolver) (*Walk, error) {
				return WalkFile(ctx, bytes.NewReader(data), int64(len(data)), r)
			}, src, nil, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, l := range a.Lacking() {
				if l.Role&symfile.Executable != 0 {
					programs[has]++
				}
			}
			for _, m := range a.Stacks().Modules {
				if m.Unwind == "found" {
					t.Errorf("%s: module %+v has unwind rules, want none", name, m)
				}
			}
		}
		if programs[true] > 0 {
			t.Errorf("%s: %d programs are waited for although they are there, want none", name, programs[true])
		}
		waited += programs[false]
	}
	if waited == 0 {
		t.Error("no program is waited for although none is there")
	}
}
