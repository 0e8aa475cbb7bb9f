package objtab

import (
	stddwarf "debug/dwarf"
	"debug/elf"
	slash "path"
	"path/filepath"
	"testing"
)

// TestStandardLibrary compares functions and rows with those that the standard
// library reads. It is an oracle in tests only: it is not made for hostile input.
func TestStandardLibrary(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, path := range oracleFiles(t) {
		f := openFile(t, path)
		e, err := elf.NewFile(f.Reader)
		if err != nil || e.Type == elf.ET_REL {
			continue
		}
		d, err := e.DWARF()
		if err != nil {
			continue
		}
		table := elfTable(t, ELFFiles{Name: filepath.Base(path), Program: f})
		base := table.Module().Base
		sizes := map[uint64]uint64{}
		for fn := range table.Functions() {
			sizes[fn.Start+base] = uint64(fn.Size)
		}
		type row struct {
			file string
			line int
		}
		want := map[uint64]row{}
		for r := d.Reader(); ; {
			entry, err := r.Next()
			if err != nil {
				t.Logf("%s: the standard library does not read it: %v", path, err)
			}
			if err != nil || entry == nil {
				break
			}
			switch entry.Tag {
			case stddwarf.TagCompileUnit:
				lines, err := d.LineReader(entry)
				if err != nil || lines == nil {
					continue
				}
				dir, _ := entry.Val(stddwarf.AttrCompDir).(string)
				for {
					var le stddwarf.LineEntry
					if lines.Next(&le) != nil {
						break
					}
					if !le.EndSequence && le.File != nil {
						name := le.File.Name
						if !slash.IsAbs(name) {
							name = slash.Join(dir, name)
						}
						want[le.Address] = row{slash.Clean(name), le.Line}
					}
				}
			case stddwarf.TagSubprogram:
				ranges, err := d.Ranges(entry)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range ranges {
					if r[0] != 0 && r[0] < r[1] && sizes[r[0]] != r[1]-r[0] {
						t.Errorf("%s: function at %#x has %d bytes, want %d", path, r[0], sizes[r[0]], r[1]-r[0])
					}
				}
			}
		}
		for fn := range table.Functions() {
			for _, r := range fn.Rows {
				w, ok := want[r.Start+base]
				if !ok || w.line == 0 {
					continue
				}
				rows++
				if have := slash.Clean(table.FileName(r.File)); have != w.file || int(r.Line) != w.line {
					t.Errorf("%s: row at %#x is %s:%d, want %s:%d", path, r.Start+base, have, r.Line, w.file, w.line)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows compared, want 20 at least", rows)
	}
}
