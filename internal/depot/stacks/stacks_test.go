package stacks

import (
	"slices"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

func TestNamesOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"app":       {"app", "app.debug", "app.pdb", "app.exe", "app.dll"},
		"app.exe":   {"app.exe", "app.exe.debug", "app.pdb"},
		"libfoo.so": {"libfoo.so", "libfoo.so.debug"},
		"a*":        nil,
	} {
		if got := namesOf(name); !slices.Equal(got, want) {
			t.Errorf("the files of %q are %q, want %q", name, got, want)
		}
	}
}

// TestSourceRequest: the request is that of a debugger, by the id of each kind of file.
func TestSourceRequest(t *testing.T) {
	t.Parallel()
	id, err := debugid.Parse("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    symfile.Object
		want string
	}{
		{symfile.Object{Kind: symfile.PDB, Name: "a.pdb", DebugID: id}, "f9efe0b6ae7500394c4c44205044422e1"},
		{symfile.Object{Kind: symfile.ELF, Name: "a", BuildID: "00112233445566778899aabbccddeeff00112233", DebugID: id}, "00112233445566778899aabbccddeeff00112233"},
	} {
		req, ok := SourceRequest(c.o, "/src/../a b.c")
		if !ok || req.Form != layout.FormSource || req.Part != "/src/../a b.c" || len(req.Lookups) == 0 || req.Lookups[0].ID != c.want {
			t.Errorf("%s: %+v, %v; want a request for the source under the id %s", c.o.Name, req, ok, c.want)
		}
	}
	for _, o := range []symfile.Object{{Kind: symfile.ELF, Name: "a"}, {}} {
		if _, ok := SourceRequest(o, "/a.c"); ok {
			t.Errorf("%+v: there is a request, want none without an id", o)
		}
	}
	if _, ok := SourceRequest(symfile.Object{BuildID: "00112233"}, ""); ok {
		t.Error("there is a request for a source without a name, want none")
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	a := Answer{Lines: []Line{
		{Text: "head", Module: -1},
		{Text: "#0 x", Frames: []Frame{{Function: "f", File: "/s/a.c", Line: 3, Inlined: true}, {Function: "g"}}},
	}}
	const want = "head\n#0 x\n      f at /s/a.c:3 (inlined)\n      g\n"
	if got := a.Text(); got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
}
