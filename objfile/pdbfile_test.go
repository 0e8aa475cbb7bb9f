package objfile

import (
	"testing"

	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// infoStream returns a PDB info stream: version, signature, age and, from
// 1999 on, the GUID.
func infoStream(version, signature, age uint32, guid string) []byte {
	b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, version), signature), age)
	return append(b, guid...)
}

// msfzImage builds a compressed-container PDB whose only stream is info.
func msfzImage(info []byte) []byte {
	var dir []byte
	for _, b := range [][]byte{nil, info, nil, nil} {
		if b == nil {
			dir = le.AppendUint32(dir, 0xffffffff)
			continue
		}
		dir = le.AppendUint32(le.AppendUint64(le.AppendUint32(dir, uint32(len(b))), 80), 0)
	}
	b := []byte(pdb.MagicMSFZ)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, uint64(80+len(info)))
	b = le.AppendUint64(b, uint64(80+len(info)+len(dir)))
	for _, v := range []int{4, 0, len(dir), len(dir), 0, 0} {
		b = le.AppendUint32(b, uint32(v))
	}
	return append(append(b, info...), dir...)
}

// jgImage builds a PDB 2.0 of four pages: header, free map, directory, info.
func jgImage(info []byte) []byte {
	const page = 1024
	b := make([]byte, 4*page)
	copy(b, pdb.MagicPDB20)
	le.PutUint32(b[44:], page)
	le.PutUint16(b[48:], 1)
	le.PutUint16(b[50:], 4)
	dir := le.AppendUint16(le.AppendUint16(nil, 2), 0)
	for _, n := range []int{0, len(info)} {
		dir = le.AppendUint32(le.AppendUint32(dir, uint32(n)), 0)
	}
	dir = le.AppendUint16(dir, 3)
	le.PutUint32(b[52:], uint32(len(dir)))
	le.PutUint16(b[60:], 2)
	copy(b[2*page:], dir)
	copy(b[3*page:], info)
	return b
}

// TestPDBContainers checks kind, role and key of the rarer containers.
func TestPDBContainers(t *testing.T) {
	const guid = "\x9d\xd9\x49\x32\x40\x0c\x31\x49\x86\x10\xf4\xe4\xfb\x0b\x69\x36"
	o := mustIdentify(t, msfzImage(infoStream(20000404, 7, 2, guid)), "x/a.pdb")[0]
	if o.Kind != symfile.MSFZ || o.Role != symfile.Compressed || o.Version != 0 || o.DebugID.Breakpad() != testGUID+"2" || !o.NoDBI || o.InfoAge != 2 || o.Name != "a.pdb" {
		t.Errorf("MSFZ: got %+v, want kind msfz, role compressed, name a.pdb, debug id %s, no DBI, info age 2", o, testGUID+"2")
	}
	o = mustIdentify(t, jgImage(infoStream(19970604, 0x37A8F40E, 2, "")), "msvcrt.pdb")[0]
	if o.Kind != symfile.PDB20 || o.Role != symfile.Debug || symfile.Fold(o.DebugID.Breakpad()) != "37a8f40e2" {
		t.Errorf("PDB 2.0: got %+v, want kind pdb20, role debug, debug id 37a8f40e2", o)
	}
}
