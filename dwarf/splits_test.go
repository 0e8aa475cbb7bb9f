package dwarf

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"strings"
	"testing"
)

// source is a section in memory.
type source struct{ *bytes.Reader }

func (s source) Size() int64 { return s.Reader.Size() }

// skeletons makes a file of n skeleton units that all refer to one name, and to one
// folder, of these lengths.
func skeletons(n, name, dir int) Sections {
	var info bytes.Buffer
	le := binary.LittleEndian
	for i := range n {
		unit := le.AppendUint16(nil, 5)
		unit = append(unit, unitSkeleton, 8)
		unit = le.AppendUint32(unit, 0)           // abbreviations
		unit = le.AppendUint64(unit, uint64(i)+1) // id
		unit = append(unit, 1)
		unit = le.AppendUint32(unit, 0)
		unit = le.AppendUint32(unit, uint32(name)+1)
		info.Write(le.AppendUint32(nil, uint32(len(unit))))
		info.Write(unit)
	}
	all := map[string][]byte{
		"debug_info":   info.Bytes(),
		"debug_abbrev": {1, 0x4a, 0, 0x76, 0x0e, 0x1b, 0x0e, 0, 0, 0}, // DW_TAG_skeleton_unit: DW_AT_dwo_name and DW_AT_comp_dir, both DW_FORM_strp
		"debug_str":    []byte(strings.Repeat("n", name) + "\x00" + strings.Repeat("d", dir) + "\x00"),
	}
	return func(name string) (Section, error) {
		b, ok := all[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return source{bytes.NewReader(b)}, nil
	}
}

// TestSplitText: a small file whose units all refer to one long name cannot make
// Splits use much memory.
func TestSplitText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ units, name, dir, want int }{
		{3, 10, 20, 3},
		{3, maxSplitPath, maxSplitPath, 3},
		{3, maxSplitPath + 1, 20, 0},
		{3, 10, maxSplitPath + 1, 0},
		{10_000, 4000, 4000, maxSplitText / 8000},
	} {
		list, err := Splits(t.Context(), skeletons(tt.units, tt.name, tt.dir), binary.LittleEndian, 1<<20)
		if err != nil || len(list) != tt.want {
			t.Errorf("%d units with names of %d and folders of %d bytes: %d split units, error %v; want %d", tt.units, tt.name, tt.dir, len(list), err, tt.want)
		}
	}
}
