package objfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/ppdb"
)

// TestPDBChecksums compares the checksum in a real image with that of its portable
// PDB.
func TestPDBChecksums(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(symtest.Material(t), "public/npm/fable")
	dll, err := os.ReadFile(filepath.Join(dir, "Fable.Cli.dll"))
	if err != nil {
		t.Fatal(err)
	}
	pdb, err := os.ReadFile(filepath.Join(dir, "Fable.Cli.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := PDBChecksums(bytes.NewReader(dll), int64(len(dll)))
	if err != nil || len(list) != 1 || list[0].Algorithm != "SHA256" || len(list[0].Sum) != 32 {
		t.Fatalf("Fable.Cli.dll: %v, %v; want one SHA256", list, err)
	}
	want, err := ppdb.Checksum(bytes.NewReader(pdb), int64(len(pdb)), "SHA256")
	if err != nil || !bytes.Equal(list[0].Sum, want) || !strings.HasPrefix(list[0].String(), "SHA256:") {
		t.Errorf("the image has %s, want the hash of its PDB %x (%v)", list[0], want, err)
	}
	// A directory that claims too much.
	hostile := bytes.Clone(dll)
	for at := range hostile[:len(hostile)-8] {
		if binary.LittleEndian.Uint32(hostile[at:]) == debugChecksum && binary.LittleEndian.Uint32(hostile[at+4:]) == uint32(len("SHA256\x00")+32) {
			binary.LittleEndian.PutUint32(hostile[at+4:], 1<<31)
		}
	}
	if list, err := PDBChecksums(bytes.NewReader(hostile), int64(len(hostile))); len(list) != 0 || err != nil {
		t.Errorf("an entry of 2 GiB: %v, %v; want none", list, err)
	}
}

func TestPDBChecksumsNone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pdb/hello-x64.exe", "pdb/hello-x64.pdb", "elf/prog-sha1", "pe/resources.dll"} {
		b, err := os.ReadFile(filepath.Join("../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := PDBChecksums(bytes.NewReader(b), int64(len(b))); len(list) != 0 || err != nil {
			t.Errorf("%s: %v, %v; want none", name, list, err)
		}
	}
	for _, b := range [][]byte{nil, []byte("MZ"), append([]byte("MZ"), make([]byte, 62)...)} {
		if list, err := PDBChecksums(bytes.NewReader(b), int64(len(b))); len(list) != 0 || err != nil {
			t.Errorf("%q: %v, %v; want none", b, list, err)
		}
	}
}

// FuzzPDBChecksums: any bytes are read within the limits.
func FuzzPDBChecksums(f *testing.F) {
	for _, name := range []string{"pdb/hello-x64.exe", "pe/x86.exe", "pe/mingw.exe"} {
		b, err := os.ReadFile(filepath.Join("../testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := PDBChecksums(bytes.NewReader(b), int64(len(b)))
		if len(list) > maxRecords {
			t.Errorf("%d checksums, want at most %d", len(list), maxRecords)
		}
		for _, c := range list {
			if len(c.Sum) > maxChecksum || c.Algorithm == "" {
				t.Errorf("a checksum %q of %d bytes, want an algorithm and at most %d", c.Algorithm, len(c.Sum), maxChecksum)
			}
		}
	})
}
