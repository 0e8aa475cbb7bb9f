package display

import (
	"os"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/objfile"
)

// TestAnswers: what symbolication can read of a file, and which other file it needs.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const lines = "functions lines inlines"
	for _, tt := range []struct{ path, answers, needs string }{
		{"pdb/hello-x64.pdb", lines + " publics", "the program, for unwind rules"},
		{"pdb/hello-x86.pdb", lines + " publics unwind", ""},
		{"pdb/hello-x64.exe", "publics", "hello-x64.pdb with the id "},
		{"pe/mingw.exe", lines + " publics unwind", ""},
		{"pe/mingw-stripped.exe", "publics unwind", "the debug file, for functions and lines"},
		{"pe/mingw.debug", lines, "the program, for unwind rules"},
		{"elf/prog-sha1.stripped", "publics unwind", "the debug file with the id "},
		{"elf/prog-sha1.debug", lines + " publics", "the program, for unwind rules"},
		{"join/split.dwp", "", "the program, of which this is split debug information"},
		{"join/first.dwo", "", "the program, of which this is split debug information"},
	} {
		f, err := os.Open("../../../testdata/" + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		objects, err := objfile.Identify(f, info.Size(), tt.path, objfile.Options{})
		if err != nil || len(objects) == 0 {
			t.Fatalf("%s: %d objects, %v", tt.path, len(objects), err)
		}
		id := NewIdentified(tt.path, objects[0])
		if got, needs := strings.Join(id.Answers, " "), strings.Join(id.Needs, "; "); got != tt.answers || (needs == "") != (tt.needs == "") || !strings.Contains(needs, tt.needs) {
			t.Errorf("%s: answers %q and needs %q, want %q and %q", tt.path, got, needs, tt.answers, tt.needs)
		}
	}
}
