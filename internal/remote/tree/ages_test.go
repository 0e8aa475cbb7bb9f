package tree

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

// TestHigherAge: a PDB that is not found is replaced by the one with equal GUID
// and the next higher age, or found under another of its keys.
func TestHigherAge(t *testing.T) {
	guid := pdbKey[:32]
	ages := map[byte][]byte{}
	for _, n := range []byte{2, 3, 16, 17} {
		ages[n] = symtest.PDBOfAge(t, n)
	}
	tiny := symtest.Testdata(t, "ppdb/tiny.pdb")
	const tinyGUID = "EE4F138B1B2548FDBA63E986D370518F"
	store := map[string][]byte{
		"pingme.txt":                           nil,
		"A.pdb/" + guid + "3/A.pdb":            ages[3],
		"A.pdb/" + guid + "10/A.pdb":           ages[16],
		"b.pdb/" + guid + "11/b.pd_":           unpacktest.Cabinet(t, "b.pdb", ages[17]),
		"p.pdb/" + guid + "2/file.ptr":         []byte("A.pdb/" + guid + "3/A.pdb"), // another age
		"p.pdb/" + guid + "3/file.ptr":         []byte("A.pdb/" + guid + "3/A.pdb"),
		"A.pdb/" + guid + "ffffffff/x":         nil,
		"A.pdb/" + guid + "zz/x":               nil,
		"t.pdb/" + tinyGUID + "1/t.pdb":        tiny,
		"w.pdb/" + tinyGUID + "ffffffff/w.pdb": tiny,
		"wrong.pdb/" + guid + "1/wrong.pdb":    ages[3],
	}
	two := map[string][]byte{"index2.txt": nil}
	for name, body := range store {
		if i := strings.IndexByte(name, '/'); i >= 0 {
			bucket := name[:2]
			if name[1] == '.' {
				bucket = name[:1]
			}
			two[bucket+"/"+name] = body
		}
	}
	for _, files := range []map[string][]byte{store, two} {
		dir := t.TempDir()
		for name, body := range files {
			symtest.Put(t, dir, name, body)
		}
		f := open(t, dir, Options{PointerRoots: []symstore.PointerRoot{{Dir: dir}}})
		for p, want := range map[string][]byte{
			"a.pdb/" + guid + "1/a.pdb":                  ages[3],
			"a.pdb/" + guid + "2/a.pdb":                  ages[3],
			"a.pdb/" + guid + "3/a.pdb":                  ages[3],
			"a.pdb/" + strings.ToLower(guid) + "4/a.pdb": ages[16],
			"a.pdb/" + guid + "11/a.pdb":                 nil,
			"a.pdb/" + guid + "1/a.pd_":                  nil,
			"a.pdb/" + guid + "/a.pdb":                   nil,
			"b.pdb/" + guid + "1/b.pdb":                  ages[17],
			"other.pdb/" + guid + "1/other.pdb":          nil,
			"t.pdb/" + tinyGUID + "ffffffff/t.pdb":       tiny,
			"w.pdb/" + tinyGUID + "1/w.pdb":              tiny,
			"w.pdb/" + tinyGUID + "2/w.pdb":              nil,
			"wrong.pdb/" + guid + "2/wrong.pdb":          nil,
		} {
			b, err := get(t, f, p)
			if want == nil && !errors.Is(err, fs.ErrNotExist) || want != nil && (err != nil || !bytes.Equal(b, want)) {
				t.Errorf("%s: %d bytes, %v; want %d, or not found for 0", p, len(b), err, len(want))
			}
		}
	}
	uni := t.TempDir()
	id := strings.ToLower(guid)
	symtest.Put(t, uni, id[:2]+"/"+id[2:]+"3/debuginfo", ages[3])
	symtest.Put(t, uni, id[:2]+"/"+id[2:]+"2/executable", symtest.Testdata(t, "pdb/hello-x64.exe"))
	flat := t.TempDir()
	symtest.Put(t, flat, "a.pdb", ages[3])
	symtest.Put(t, flat, "README", nil)
	for _, dir := range []string{uni, flat} {
		f := open(t, dir, Options{})
		for _, p := range []string{"1", "2", "3"} {
			if b, err := get(t, f, "a.pdb/"+guid+p+"/a.pdb"); err != nil || !bytes.Equal(b, ages[3]) {
				t.Errorf("%s: age %s: %d bytes, %v; want the highest age", f.Layout(t.Context()), p, len(b), err)
			}
		}
		if b, err := get(t, f, "a.pdb/"+guid+"4/a.pdb"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %d bytes, %v; want not found", f.Layout(t.Context()), len(b), err)
		}
	}
}

// TestUnstripped: a program with its own debug information answers requests for
// both by its build-id alone, wherever the layout stores it.
func TestUnstripped(t *testing.T) {
	whole, stripped := symtest.Testdata(t, "elf/prog-sha1"), symtest.Testdata(t, "elf/prog-sha1.stripped")
	for at, lay := range map[string]layout.Layout{
		"ad/" + progID[2:]:                  layout.GDB,
		".build-id/ad/" + progID[2:]:        layout.GDB,
		"ad/" + progID[2:] + "/executable":  layout.Unified,
		"buildid/" + progID + "/executable": layout.Debuginfod,
		progID + "/executable":              layout.Debuginfod,
	} {
		for _, c := range []struct {
			body  []byte
			debug bool
		}{{whole, true}, {stripped, false}} {
			dir := t.TempDir()
			symtest.Put(t, dir, at, c.body)
			f := open(t, dir, Options{Layout: lay})
			if b, err := get(t, f, "buildid/"+progID+"/executable"); err != nil || !bytes.Equal(b, c.body) {
				t.Errorf("%s: executable: %d bytes, %v; want the program", at, len(b), err)
			}
			b, err := get(t, f, "buildid/"+progID+"/debuginfo")
			if c.debug && (err != nil || !bytes.Equal(b, c.body)) || !c.debug && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: debuginfo: %d bytes, %v; want it found: %v", at, len(b), err, c.debug)
			}
		}
	}
}
