package clientsetup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is symdepot credential for the wrapper: it prints its arguments.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "credential" {
		fmt.Println(strings.Join(os.Args[1:], "|"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestWrapper runs the wrapper as a debugger does, with one argument: in folders whose names have
// blanks and percent signs.
func TestWrapper(t *testing.T) {
	m, files := windowsMachine(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.Program = filepath.Join(files, "a 100% b", "symdepot.exe")
	text, err := os.ReadFile(self)
	if err == nil {
		err = os.Mkdir(filepath.Dir(m.Program), 0o755)
	}
	if err == nil {
		err = os.WriteFile(m.Program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	kit(t, files, "x64", "")
	f := plan(t, m.setup(), "windows-debuggers")
	if err := RecordsIn(m.Own).Apply(t.Context(), f.Edits); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Edits {
		if filepath.Ext(e.Path) != ".cmd" {
			continue
		}
		out, err := exec.CommandContext(t.Context(), e.Path, "Get").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != "credential|Get" {
			t.Errorf("%s: %q, %v", e.Path, got, err)
		}
		return
	}
	t.Errorf("no wrapper in %+v", f)
}
