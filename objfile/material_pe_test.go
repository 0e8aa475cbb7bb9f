package objfile

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// materialRow is one line of the table of expected values, by column name.
type materialRow map[string]string

// readMaterial returns the folder of real files and the table of their
// expected values, or skips the test.
func readMaterial(t *testing.T) (string, []materialRow) {
	t.Helper()
	dir, table := symtest.Table(t)
	rows := make([]materialRow, len(table))
	for i, row := range table {
		maps.DeleteFunc(row, func(_, v string) bool { return v == "-" })
		rows[i] = row
	}
	return dir, rows
}

func identifyFile(t testing.TB, path string, opt Options) ([]Object, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return Identify(f, st.Size(), path, opt)
}

// TestMaterialMicrosoft checks the Microsoft and text kinds against values
// that other tools gave for real files.
func TestMaterialMicrosoft(t *testing.T) {
	dir, rows := readMaterial(t)
	kinds := map[string]int{"pe": 0, "pdb": 0, "portablepdb": 0, "breakpad": 0, "sourcebundle": 0, "other": 0, "minidump": 0, "cab": 0}
	for _, row := range rows {
		if _, mine := kinds[row["kind"]]; !mine {
			continue
		}
		kinds[row["kind"]]++
		objects, err := identifyFile(t, filepath.Join(dir, filepath.FromSlash(row["path"])), Options{})
		switch row["kind"] {
		case "other", "minidump", "cab":
			if err == nil || !strings.HasPrefix(err.Error(), ErrNotSymbolFile.Error()) {
				t.Errorf("%s: got %v, error %v; want an error, one that begins with ErrNotSymbolFile.Error()", row["path"], objects, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want no error", row["path"], err)
			continue
		}
		checkRow(t, row, objects[0])
	}
	t.Log(kinds)
}

func checkRow(t *testing.T, row materialRow, o Object) {
	t.Helper()
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s is %q, want %q", row["path"], what, got, want)
		}
	}
	check("kind", o.Kind.String(), row["kind"])
	code := row["code_id"]
	if o.Kind == symfile.Breakpad && o.Of != symfile.PE {
		code = symfile.Fold(code) // Breakpad prints build-ids in upper case
	}
	check("code_id", o.CodeID, code)
	check("debug_id", o.DebugID.Breakpad(), row["debug_id"])
	check("arch", o.Arch, row["arch"])
	pdbRef := ""
	for _, w := range o.PDBs {
		if p := layout.SymStore.Paths(w); pdbRef == "" && w.Kind != symfile.DBG && len(p) > 0 {
			pdbRef = p[0]
		}
	}
	check("pdb_ref", pdbRef, row["pdb_ref"])
	class := strings.Fields(row["object_kind"])
	if o.Kind == symfile.PE && len(class) > 1 {
		// The table calls a managed program an executable; it is never an apphost.
		if main := class[1] == "executable"; o.Main && !main {
			t.Errorf("%s: Main of a library is true, want false", row["path"])
		}
	}
	t.Logf("%s: %v %s role=%b main=%v of=%v name=%s code=%s/%s wants=%d %v debugsize=%d", row["path"], o.Kind, o.Arch, o.Role, o.Main, o.Of, o.Name, o.CodeName, o.CodeID, len(o.PDBs), o.Features.Words(), o.DebugSize)
}
