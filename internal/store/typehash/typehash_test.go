package typehash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// without is a file without runs of hashes.
func without(b []byte, runs []Run) (bare []byte) {
	end := int64(0)
	for _, r := range runs {
		bare = append(bare, b[end:r.At]...)
		end = r.At + r.Len
	}
	return append(bare, b[end:]...)
}

// remade gives the hashes of a run.
func remade(t testing.TB, bare []byte, r Run) []byte {
	t.Helper()
	h, err := NewHasher(r.Recipe, r.Len)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.Read(bytes.NewReader(bare), make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func find(t testing.TB, b []byte, recipes bool) []Run {
	t.Helper()
	runs, err := Find(context.Background(), bytes.NewReader(b), int64(len(b)), recipes)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// TestFind: the hashes that clang and lld wrote follow from the records; where some do not, they stay.
func TestFind(t *testing.T) {
	for _, name := range []string{"pdb/hello-x64.pdb", "pdb/hello-x86.pdb", "pdb/hello-arm64.pdb"} {
		b := bytes.Clone(symtest.Testdata(t, name))
		runs := find(t, b, true)
		if len(runs) != 2 {
			t.Fatalf("%s has %d runs, want 2", name, len(runs))
		}
		longest := runs[0]
		for _, r := range runs {
			if got := remade(t, without(b, runs), r); !bytes.Equal(got, b[r.At:r.At+r.Len]) {
				t.Errorf("%s: hashes %x, want %x", name, got, b[r.At:r.At+r.Len])
			}
			if len(r.Recipe) > 12 {
				t.Errorf("%s: a recipe of %d bytes", name, len(r.Recipe))
			}
			if r.Len > longest.Len {
				longest = r
			}
		}
		if plain := find(t, b, false); len(plain) != 2 || plain[0].Range != runs[0].Range || plain[1].Range != runs[1].Range {
			t.Errorf("%s: other runs without recipes", name)
		}
		b[longest.At+5]++
		if runs := find(t, b, true); len(runs) != 1 {
			t.Errorf("%s: with a wrong one of ten: %d runs, want 1", name, len(runs))
		}
	}
}

// record is a type record.
func record(leaf uint16, b ...byte) []byte {
	r := binary.LittleEndian.AppendUint16(nil, uint16(len(b)+2))
	return append(binary.LittleEndian.AppendUint16(r, leaf), b...)
}

// TestOf: hashes by name do not depend on the rest of a record, those of other records do.
func TestOf(t *testing.T) {
	class := func(leaf, options uint16, size []byte, fields byte, names string) []byte {
		b := binary.LittleEndian.AppendUint16([]byte{3, 0}, options)
		b = append(b, fields, 0x10, 0, 0)
		switch leaf {
		case leafClass, leafStructure, leafInterface:
			b = append(b, make([]byte, 8)...)
		case leafEnum:
			b, size = append(b, make([]byte, 4)...), nil
		}
		return record(leaf, append(append(b, size...), names...)...)
	}
	small, large := []byte{8, 0}, []byte{4, 0x80, 1, 2, 3, 4}
	for _, leaf := range []uint16{leafClass, leafStructure, leafInterface, leafUnion, leafEnum} {
		for _, test := range []struct {
			name    string
			options uint16
			size    []byte
			names   string
			want    string // whose hash it is; "" for that of the whole record
		}{
			{"by name", 0, small, "box\x00", "box"},
			{"by name, with a unique name", uniqueName, large, "box\x00.?AVbox@@\x00", "box"},
			{"by unique name", uniqueName | scoped, small, "f::box\x00.?AVbox@f@@\x00", ".?AVbox@f@@"},
			{"forward", forwardReference, small, "box\x00", ""},
			{"scoped", scoped, small, "box\x00", ""},
			{"anonymous", uniqueName, large, "a::<unnamed-tag>\x00.?AU1\x00", ""},
			{"not quite anonymous", uniqueName, large, "a<unnamed-tag>\x00.?AU1\x00", "a<unnamed-tag>"},
		} {
			a, b := class(leaf, test.options, test.size, 1, test.names), class(leaf, test.options, test.size, 2, test.names)
			switch {
			case test.want == "" && (of(a) == of(b) || of(a) != ofBytes(a)):
				t.Errorf("%#x %s: not the hash of all bytes", leaf, test.name)
			case test.want != "" && (of(a) != ofString([]byte(test.want)) || of(b) != of(a)):
				t.Errorf("%#x %s: not the hash of %s", leaf, test.name, test.want)
			}
		}
		whole := class(leaf, 0, large, 1, "name")
		for n := 4; n < len(whole); n++ { // no short record is too short
			of(whole[:n:n])
		}
	}
	if a, b := record(leafUDTSrcLine, 1, 16, 0, 0, 5), record(leafUDTSrcLine, 1, 16, 0, 0, 6); of(a) != of(b) {
		t.Error("the hash of a line of a type depends on the line")
	}
}

// FuzzFind: any bytes are a PDB or none; what is found can be made again.
func FuzzFind(f *testing.F) {
	f.Add(symtest.Testdata(f, "pdb/hello-x64.pdb"))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		find(t, b, false)
		runs := find(t, b, true)
		bare := without(b, runs)
		for _, r := range runs {
			if got := remade(t, bare, r); !bytes.Equal(got, b[r.At:r.At+r.Len]) {
				t.Fatalf("hashes at %d are others", r.At)
			}
		}
	})
}

// FuzzHasher: any recipe and records are hashes or an error, however the records are cut.
func FuzzHasher(f *testing.F) {
	records := append(record(leafClass, make([]byte, 30)...), record(0x1001, 1, 2, 3, 4)...)
	f.Add([]byte{200, 1, 1, 0, 42}, records, uint16(2), uint8(3))
	f.Add([]byte{200, 1, 1, 0, 42, 1, 7}, records, uint16(2), uint8(3))
	f.Fuzz(func(t *testing.T, recipe, records []byte, n uint16, cut uint8) {
		var made [2][]byte
		var errs [2]error
		for i, k := range []int{1 << 16, int(cut) + 1} {
			h, err := NewHasher(recipe, 4*int64(n))
			if err != nil {
				return
			}
			made[i], errs[i] = h.Read(bytes.NewReader(records), make([]byte, k))
			if errs[i] != nil && !errors.Is(errs[i], ErrRecipe) {
				t.Fatal(errs[i])
			}
		}
		if !bytes.Equal(made[0], made[1]) || (errs[0] == nil) != (errs[1] == nil) || errs[0] == nil && len(made[0]) != 4*int(n) {
			t.Fatalf("%x, %v; cut %x, %v", made[0], errs[0], made[1], errs[1])
		}
	})
}

// TestBytes: short and long records have the CRC-32 of package crc32, whose begin and end are inverted here.
func TestBytes(t *testing.T) {
	b := make([]byte, 300)
	for i := range b {
		b[i] = byte(i * i * 31)
	}
	for n := range b {
		if got, want := ofBytes(b[:n]), ^crc32.Update(0xffffffff, crc32.IEEETable, b[:n]); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", n, got, want)
		}
	}
}
