package symbolicate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestPortableHasNoSymbolFile: who wants a symbol file of a portable PDB is told why
// there is none.
func TestPortableHasNoSymbolFile(t *testing.T) {
	t.Parallel()
	err := Dump(t.Context(), []string{"../../../testdata/ppdb/lines.pdb"}, Breakpad, io.Discard, "", nil, nil)
	if !errors.Is(err, ErrNoFunctions) || !strings.Contains(err.Error(), "a portable PDB has positions in IL, and no Breakpad or GSYM form") {
		t.Errorf("error %v, want that a portable PDB has no such form", err)
	}
}

// TestPortable: positions in a portable PDB are looked up by the token of the method and
// the IL offset.
func TestPortable(t *testing.T) {
	t.Parallel()
	const path = "../../../testdata/ppdb/lines.pdb"
	m, base, err := OpenLocal(t.Context(), path, "")
	if err != nil || base != 0 {
		t.Fatalf("OpenLocal(%s): base %#x, %v; want base 0", path, base, err)
	}
	defer m.Done()
	texts := []string{"0x06000001+0", "06000001+8", "0x06000001+0x9", "0x06000001+c8", "0x06000003+12C", "0x06000002+0", "0x06000004+0", "06ffffff+0", "0x1000"}
	const want = "0x06000001\n/src/a.cs:10:0\n\n0x06000001\n/src/a.cs:10:0\n\n0x06000001\n/src/a.cs:12:0\n\n0x06000001\nb.cs:3:0\n\n" +
		"0x06000001\nb.cs:4000:0\n\n" + // a state machine of method 1
		"??\n??:0:0\n\n??\n??:0:0\n\n??\n??:0:0\n\n0x1000\n\n" // without points, damaged, not there, no position
	var got bytes.Buffer
	p := NewPrinter(&got, m, path, base, false)
	if err := p.All(texts); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || got.String() != want {
		t.Errorf("positions %q: %q, %v; want %q", texts, got.String(), err, want)
	}
	for _, bad := range []string{"", "+", "06000001", "0a000001+1", "0x06000001+", "1060000001+1", "06000001+100000000"} {
		if at, err := ParseILAddress(bad); err == nil {
			t.Errorf("%q is read as %#x, want an error", bad, at)
		}
	}
}
