package symbolicate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// readNet reads the functions of an assembly of .NET.
func readNet(t *testing.T, b []byte) *functab.Table {
	t.Helper()
	table, err := Read(t.Context(), []Input{{ReaderAt: bytes.NewReader(b), Size: int64(len(b)), Name: "Pool.dll"}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestReadyToRun: the functions of a .NET assembly without a PDB have the names of its methods. One whose entry points are
// damaged keeps its functions and unwind rules.
func TestReadyToRun(t *testing.T) {
	t.Parallel()
	b := symtest.Testdata(t, "readytorun/Microsoft.Extensions.ObjectPool.dll")
	table := readNet(t, b)
	lines := strings.Split(strings.TrimSpace(string(symtest.Testdata(t, "readytorun/Microsoft.Extensions.ObjectPool.dll.names"))), "\n")
	for _, line := range lines {
		at, want, _ := strings.Cut(line, " ")
		var rva uint64
		if _, err := fmt.Sscanf(at, "%x", &rva); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		a, ok := table.Lookup(rva)
		if !ok || len(a.Frames) != 1 || a.Frames[0].Function != want || a.FunctionStart != rva {
			t.Errorf("%#x: %+v, want %s at its start", rva, a, want)
		}
	}
	if len(lines) < 30 || len(table.Warnings()) > 0 {
		t.Errorf("%d names, warnings %q; want at least 30, none", len(lines), table.Warnings())
	}
	// The entry points have more bytes than the file.
	broken := bytes.Clone(b)
	header := bytes.Index(broken, []byte("RTR\x00"))
	for at := header + 16; ; at += 12 {
		if binary.LittleEndian.Uint32(broken[at:]) == 103 {
			binary.LittleEndian.PutUint32(broken[at+8:], 1<<30)
			break
		}
	}
	damaged := readNet(t, broken)
	if w := damaged.Warnings(); len(w) != 1 || !strings.Contains(w[0], "names of .NET methods: ") {
		t.Errorf("damaged entry points: warnings %q, want one", w)
	}
	if n, want := damaged.Counts(), table.Counts(); n.Functions != want.Functions || n.Frames != want.Frames {
		t.Errorf("damaged entry points: %+v, want as many functions and frames as %+v", n, want)
	}
	for f := range damaged.Functions() {
		if shown, _ := damaged.NameOf(f.Name); !functab.IsMarker(shown) {
			t.Errorf("damaged entry points: a function is named %q, want no name", shown)
		}
	}
}
