package mstools

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// miniDump builds a minidump of modules that ask for PDBs by GUID, as bytes of a
// record, and age 1.
func miniDump(modules map[string][16]byte) []byte {
	le := binary.LittleEndian
	b := append([]byte("MDMP\x93\xa7\x00\x00"), make([]byte, 24)...)
	le.PutUint32(b[8:], 1)
	le.PutUint32(b[12:], 32)
	list := 44
	size := 4 + 108*len(modules)
	b = le.AppendUint32(b, 4) // the list of modules
	b = le.AppendUint32(b, uint32(size))
	b = le.AppendUint32(b, uint32(list))
	b = append(b, make([]byte, size)...)
	le.PutUint32(b[list:], uint32(len(modules)))
	at := list + 4
	for path, guid := range modules {
		le.PutUint64(b[at:], 0x140000000+uint64(at)<<16)
		le.PutUint32(b[at+8:], 0x4000)
		le.PutUint32(b[at+16:], 0xC1089175)
		le.PutUint32(b[at+20:], uint32(len(b)))
		name := utf16.Encode([]rune(path))
		b = le.AppendUint32(b, uint32(2*len(name)))
		for _, u := range append(name, 0) {
			b = le.AppendUint16(b, u)
		}
		record := append(append([]byte("RSDS"), guid[:]...), 1, 0, 0, 0)
		record = append(record, strings.TrimSuffix(path, ".exe")+".pdb\x00"...)
		le.PutUint32(b[at+76:], uint32(len(record)))
		le.PutUint32(b[at+80:], uint32(len(b)))
		b = append(b, record...)
		at += 108
	}
	return b
}

// TestCheckDump: the modules of a dump are checked like programs.
func TestCheckDump(t *testing.T) {
	work := t.TempDir()
	guid, err := hex.DecodeString("B6E0EFF975AE39004C4C44205044422E")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(work, "crash.dmp")
	if err := os.WriteFile(file, miniDump(map[string][16]byte{`C:\app\hello-x64.exe`: [16]byte(guid), `C:\app\other.exe`: {1}}), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(work, "bad.dmp")
	if err := os.WriteFile(bad, []byte("MDMP"), 0o600); err != nil {
		t.Fatal(err)
	}
	pdbs, err := filepath.Abs("../../../testdata/pdb")
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(work, "needs.txt")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"/id " + file + " /s " + pdbs + " /v", 1, "hello-x64.exe PASSED"},
		{"/id " + file + " /s " + pdbs, 1, "other.exe            FAILED  - other.pdb mismatched or not found"},
		{"/id " + file + " /s " + pdbs + " /fm hello-x64 /ov", 0, `hello-x64.exe        VERSION - C10891754000`},
		{"/id " + file + " /om " + manifest, 0, "2 symbol files"},
		{"/im " + manifest + " /s " + pdbs, 1, "FAILED files = 1"},
		{"/id " + bad + " /s " + pdbs, 1, "bad.dmp"},
		{"/id " + work + " /s " + pdbs, 1, "not a regular file"},
	} {
		var out bytes.Buffer
		args := append([]string{"chk"}, strings.Fields(c.args)...)
		code := Run(t.Context(), args, Env{Stdout: &out, Stderr: &out})
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("symchk %s: %d, want %d and %q\n%s", c.args, code, c.code, c.want, out.String())
		}
	}
}
