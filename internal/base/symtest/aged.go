package symtest

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// PDBOfAge returns testdata/pdb/hello-x64.pdb, whose age is 1, with another age.
func PDBOfAge(t testing.TB, age byte) []byte {
	t.Helper()
	b := Testdata(t, "pdb/hello-x64.pdb")
	guid, err := hex.DecodeString("B6E0EFF975AE39004C4C44205044422E")
	if err != nil {
		t.Fatal(err)
	}
	// The age stands before the GUID in the info stream, and at offset 8 of
	// the DBI stream, behind -1 and 19990903.
	i := bytes.Index(b, guid)
	j := bytes.Index(b, []byte{0xff, 0xff, 0xff, 0xff, 0x77, 0x09, 0x31, 0x01})
	if i < 0 || j < 0 || b[i-4] != 1 || b[j+8] != 1 {
		t.Fatalf("hello-x64.pdb is not what it was: %d %d", i, j)
	}
	b[i-4], b[j+8] = age, age
	return b
}
