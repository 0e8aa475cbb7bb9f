package objfile

import (
	"bytes"
	"os"
	"testing"

	"github.com/symdepot/symdepot/symfile"
)

// TestSplitIDs: files with split DWARF are found under the ids that the skeleton
// units of the program have.
func TestSplitIDs(t *testing.T) {
	t.Parallel()
	hash := func(path string) string {
		t.Helper()
		b, err := os.ReadFile("../testdata/" + path)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := Identify(bytes.NewReader(b), int64(len(b)), path, Options{})
		if err != nil || len(objects) != 1 {
			t.Fatalf("Identify(%s): %d objects, %v; want one", path, len(objects), err)
		}
		o := objects[0]
		if o.Hash != "" && !(symfile.Lookup{ID: o.Hash, Role: symfile.Debug}).Finds(o.Object) {
			t.Errorf("%s: no alias with the id %s among %v", path, o.Hash, o.Aliases())
		}
		return o.Hash
	}
	first, second, pkg := hash("join/first.dwo"), hash("join/second.dwo"), hash("join/split.dwp")
	if len(first) != len("dwo-")+16 || first[:4] != "dwo-" || len(second) != len(first) || first == second {
		t.Errorf("ids %q and %q of .dwo files, want two of 16 digits", first, second)
	}
	if want := "dwp-" + min(first, second)[4:]; pkg != want {
		t.Errorf("id %q of the package, want %q: the lower one of its units", pkg, want)
	}
	for _, path := range []string{"join/split", "join/shared.debug", "elf/prog-sha1.debug"} {
		if got := hash(path); got != "" {
			t.Errorf("%s: %q, want no id of split units", path, got)
		}
	}
	for _, path := range []string{"elf/split.dwo", "elf/prog-split.dwp"} {
		if got := hash(path); got == "" {
			t.Errorf("%s: no id of its unit", path)
		}
	}
}
