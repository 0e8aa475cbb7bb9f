package symstore

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// peSections is a small PE image with sections of these names and no bytes.
func peSections(names ...string) []byte {
	b := peImage(1, 0x1000, "")
	binary.LittleEndian.PutUint16(b[0x80+6:], uint16(len(names)))
	for i, n := range names {
		copy(b[0x80+24+240+40*i:], n)
	}
	return b
}

// TestOnRequest: what the genuine tool passes over is stored on request only.
func TestOnRequest(t *testing.T) {
	packed, err := os.ReadFile("../testdata/rare/packed.pdb")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file []byte
		kind symfile.Kind // of what has to be asked for; unknown: it is stored always
		key  string
	}{
		{"res.dll", peSections(".rsrc"), symfile.PE, "000000011000"},
		{"res.dll", peSections(".rsrc", ".reloc"), symfile.KindUnknown, "000000011000"},
		{"code.dll", peSections(".text", ".rsrc"), symfile.KindUnknown, "000000011000"},
		{"none.dll", peSections(), symfile.KindUnknown, "000000011000"},
		{"packed.pdb", packed, symfile.MSFZ, "0403020106050807090A0B0C0D0E0F10"},
	} {
		p := writeFile(t, filepath.Join(t.TempDir(), c.name), c.file)
		s := create(t, t.TempDir(), One, Options{})
		var told error
		r, err := s.Add(t.Context(), AddOptions{Event: func(e Event) {
			if e.Kind == EventIgnored {
				told = e.Err
			}
		}}, paths(p))
		if err != nil {
			t.Fatal(err)
		}
		var asked *NeedsAllError
		switch {
		case c.kind == symfile.KindUnknown:
			if r.Stored != 1 {
				t.Errorf("%s: got %+v, want Stored 1", c.name, r)
			}
			continue
		case r.Ignored != 1 || r.Stored != 0 || !errors.As(told, &asked) || asked.Kind != c.kind || !errors.Is(told, objfile.ErrNotSymbolFile):
			t.Errorf("%s: %+v, told %v; want one ignored, and why: a file of kind %v that is no symbol file", c.name, r, told, c.kind)
		}
		mustAdd(t, s, AddOptions{AllKinds: true}, paths(p))
		found, err := s.Find(c.name, c.key)
		if err != nil {
			list, _ := filepath.Glob(s.Dir() + "/*/*")
			t.Errorf("%s: %v, want it; the store has %s", c.name, err, strings.Join(list, " "))
		} else {
			want(t, s, found.Plain, string(c.file))
		}
		mustBeClean(t, s)
	}
}
