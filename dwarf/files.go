package dwarf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// Limits of Files.
const (
	maxFileKeys  = 4 << 20  // different entries of file tables
	maxFolders   = 64 << 20 // bytes of the names of their directories
	maxFileUnits = 1 << 20  // units whose compilation directory is kept
	maxDamaged   = 4096     // line programs that are given up before the section is
)

// SourceFile is an entry of the file table of a line program.
type SourceFile struct {
	// Name is the name joined with its directory and with the compilation directory,
	// as functab.JoinPath does. It is relative if none of them is absolute.
	Name string
	// MD5 is the checksum that the compiler recorded; nil if there is none.
	MD5 []byte
	// Text is the source text that the compiler embedded; nil if there is none.
	Text *Text
}

// Text is embedded source text. It can be read as long as the sections.
type Text struct {
	s   Section
	off int64
}

// Reader returns the text. It is as long as the text is until the NUL at its end, and
// no size is known before; callers limit it.
func (t *Text) Reader() io.Reader { return &textReader{s: t.s, off: t.off} }

type textReader struct {
	s    Section
	off  int64
	done bool
}

// Read implements io.Reader.
func (r *textReader) Read(p []byte) (int, error) {
	if r.done || len(p) == 0 {
		return 0, r.end()
	}
	n, err := r.s.ReadAt(p, r.off)
	if i := bytes.IndexByte(p[:n], 0); i >= 0 {
		n, err, r.done = i, nil, true
	}
	r.off += int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // without the NUL
	}
	if n > 0 {
		return n, nil
	}
	return 0, errors.Join(err, r.end())
}

func (r *textReader) end() error {
	if r.done {
		return io.EOF
	}
	return nil
}

// FileStats counts what Files has read.
type FileStats struct {
	Tables  int // line programs
	Damaged int // line programs that were given up
	// Missing is the number of split units whose .dwo file was not found. Their
	// skeleton units name most of their files.
	Missing int
	// NoFolder is the number of line programs with relative names whose compilation
	// directory is not known, such as those whose strings are in a supplementary file
	// that is not there.
	NoFolder int
	// Unread says which section could not be read, such as one that is too large to be
	// decompressed; empty if there is none.
	Unread string
}

// Files yields the source files of all line programs: of the file, and of split units if
// d has a package or opens .dwo files. It reads the headers of the programs and no rows.
// A name may come twice if one of the two has a checksum or a text that the other lacks.
// Damage loses a program and is counted. The error wraps fs.ErrNotExist if there are no
// line programs, and ErrBudget if there are more files or steps than any compiler's output
// has; or it is that of yield, of ctx or of reading a section.
func Files(ctx context.Context, d Data, yield func(SourceFile) error) (FileStats, error) {
	if d.Sections == nil {
		return FileStats{}, fmt.Errorf("DWARF: %w", fs.ErrNotExist)
	}
	f := &fileReader{data: d, yield: yield, ids: map[string]uint32{}, seen: map[fileKey]uint8{}}
	if d.Object != nil {
		open := d.Object
		d.Object = func(name, dir string, id uint64) (Sections, error) {
			get, err := open(name, dir, id)
			if err != nil {
				return nil, err
			}
			return only(get, splitSections), nil
		}
	}
	f.r = &reader{ctx: ctx, data: d}
	f.r.main = f.image("file", d.Sections, "debug_line", "debug_line_str")
	lines, err := f.r.main.section("debug_line")
	if err != nil {
		return FileStats{}, err
	}
	if lines == nil {
		return FileStats{Unread: f.unread()}, fmt.Errorf("section .debug_line: %w", fs.ErrNotExist)
	}
	f.r.steps.Store(baseSteps + stepsPerByte*lines.Size())
	f.w = newWorker(f.r)
	err = f.section(f.w.view(f.r.main), nil)
	if err == nil {
		err = f.splitUnits()
	}
	f.stats.Unread = f.unread()
	return f.stats, err
}

// unread describes the first error of opening a section.
func (f *fileReader) unread() string {
	for _, im := range f.images {
		for _, err := range im.errs {
			return err.Error()
		}
	}
	return ""
}

// fileReader is the state of one Files.
type fileReader struct {
	data  Data
	yield func(SourceFile) error
	r     *reader
	w     *worker
	stats FileStats

	units  *fileUnits
	images []*image // for their errors; those of .dwo files are not among them
	text   int      // bytes of the names in ids
	ids    map[string]uint32
	dirs   []string // by number
	seen   map[fileKey]uint8
}

// fileKey names a file before its name is read: equal names of a directory nearly always
// are at one place of a section of strings.
type fileKey struct {
	folder uint32
	form   uint16
	off    uint64
	name   string // of DW_FORM_string
}

// What an entry says of a file besides its name.
const (
	hasName = 1 << iota
	hasSum
	hasText
)

// fileUnits is what the units of the main file say about their line programs.
type fileUnits struct {
	view      *view
	folders   map[uint64]string // compilation directories, by offset in .debug_line
	skeletons []*unit
}

// image returns a file of which some sections are read. Others may be compressed and
// large.
func (f *fileReader) image(name string, get Sections, sections ...string) *image {
	im := &image{name: name, be: f.data.Order == binary.BigEndian, get: only(get, sections)}
	f.images = append(f.images, im)
	return im
}

// only gives some sections of a file.
func only(get Sections, sections []string) Sections {
	return func(name string) (Section, error) {
		if !slices.Contains(sections, name) {
			return nil, fs.ErrNotExist
		}
		return get(name)
	}
}

// load reads the first entries of all units of the main file, once.
func (f *fileReader) load() (*fileUnits, error) {
	if f.units != nil {
		return f.units, nil
	}
	main := f.image("file", f.data.Sections, "debug_line", "debug_line_str", "debug_info", "debug_abbrev", "debug_str", "debug_str_offsets")
	if f.data.Alternate != nil {
		f.r.alt = f.image("supplementary file", f.data.Alternate, "debug_str")
	}
	f.r.main = main
	f.r.steps.Add(stepsPerByte * main.bytes())
	v := f.w.view(main)
	f.units = &fileUnits{view: v, folders: map[uint64]string{}}
	folders := map[string]string{} // one string for equal ones
	for off := uint64(0); len(f.units.folders) < maxFileUnits; {
		h, err := v.header(off)
		if err != nil {
			break // the end, or damage
		}
		if off = h.end; h.unsupported || h.die >= h.end {
			continue
		}
		u, err := f.w.openUnit(v, h, nil, contribution{})
		if f.w.fatal(err) {
			return nil, err
		}
		if err != nil {
			continue
		}
		if s, ok := folders[u.compDir]; ok {
			u.compDir = s
		} else if folders[u.compDir] = u.compDir; len(folders) > maxFileUnits/16 {
			clear(folders)
		}
		if _, ok := f.units.folders[u.lines]; u.hasLines && !ok && u.compDir != "" {
			if f.text += len(u.compDir); f.text > maxFolders {
				return nil, fmt.Errorf("%w: the names of compilation directories", ErrBudget)
			}
			f.units.folders[u.lines] = u.compDir
		}
		if u.dwoID != 0 && u.dwo != "" && len(f.units.skeletons) < maxSkeletons {
			f.units.skeletons = append(f.units.skeletons, u)
		}
	}
	return f.units, v.err()
}

// section reads all line programs of a section. Folders are the compilation directories
// of its programs; nil means that those of the units are read if they are needed.
func (f *fileReader) section(v *view, folders map[uint64]string) error {
	t := &f.w.lines
	size := v.line.Size()
	for off := uint64(0); off < size; off = t.end {
		u := &unit{header: header{off: off, encoding: encoding{addrSize: 8}}, v: v, hasLines: true, lines: off, compDir: folders[off]}
		if v.im.split {
			u.strOffsets = 8 // behind the header of .debug_str_offsets.dwo
		}
		t.reset(u)
		if err := f.w.spend(256); err != nil {
			return err
		}
		if err := t.header(f.w); err != nil {
			return err
		}
		if err := v.line.Err(); err != nil {
			return err
		}
		f.stats.Tables++
		if t.err != nil {
			f.stats.Damaged++
		}
		if t.end <= off || f.stats.Damaged == maxDamaged {
			break // the length is damaged, or all is
		}
		if t.err != nil {
			continue
		}
		if folders == nil && f.needsUnits(t) {
			units, err := f.load()
			if err != nil {
				return err
			}
			v, folders = units.view, units.folders
			u.v, u.compDir = v, folders[off]
		}
		if err := f.table(t); err != nil {
			return err
		}
	}
	return v.err()
}

// needsUnits reports whether names of a line program are not complete without the units.
func (f *fileReader) needsUnits(t *lineTable) bool {
	if t.enc.version < 5 || len(t.dirs) == 0 {
		return true
	}
	elsewhere := func(v value) bool { return v.form != 0 && v.form != formString && v.form != formLineStrp }
	if elsewhere(t.dirs[0]) || len(t.files) > 0 && (elsewhere(t.files[0].name) || elsewhere(t.files[0].text)) {
		return true
	}
	// Go names "." in both places; its units are compressed and large.
	comp := t.str(f.w, t.dirs[0])
	return comp != "." && !functab.IsAbsolute(comp)
}

// table yields the files of one line program.
func (f *fileReader) table(t *lineTable) error {
	folders := make([]uint32, len(t.dirs)+1) // number of the joined name, plus 1
	lacks := false
	for i := range t.files {
		x := &t.files[i]
		if x.done { // number 0 of old versions
			continue
		}
		if err := f.w.spend(16); err != nil {
			return err
		}
		at := min(int(x.dir), len(t.dirs))
		if folders[at] == 0 {
			id, err := f.folder(t, uint32(at))
			if err != nil {
				return err
			}
			folders[at] = id + 1
		}
		relative, err := f.file(t, x, folders[at]-1)
		if err != nil {
			return err
		}
		lacks = lacks || relative
	}
	if lacks && t.unit.compDir == "" && (t.enc.version < 5 || len(t.dirs) == 0 || t.str(f.w, t.dirs[0]) == "") {
		f.stats.NoFolder++
	}
	return nil
}

// folder returns the number of the directory with an index, joined with the compilation
// directory.
func (f *fileReader) folder(t *lineTable, i uint32) (uint32, error) {
	comp, dir := t.folder(f.w, i)
	name := functab.JoinPath(comp, dir)
	if err := f.w.spend(int64(len(name))); err != nil {
		return 0, err
	}
	id, ok := f.ids[name]
	if !ok {
		if f.text += len(name); f.text > maxFolders {
			return 0, fmt.Errorf("%w: the names of directories", ErrBudget)
		}
		id = uint32(len(f.ids))
		f.ids[name] = id
		f.dirs = append(f.dirs, name)
	}
	return id, nil
}

// file yields a file if that was not done before, and reports whether its name is
// relative.
func (f *fileReader) file(t *lineTable, x *sourceFile, folder uint32) (relative bool, err error) {
	key := fileKey{folder: folder, form: x.name.form, off: x.name.u}
	if x.name.form == formString {
		key = fileKey{folder: folder, name: t.str(f.w, x.name)}
	}
	old, has := f.seen[key], uint8(hasName)
	if x.md5.form == formData16 {
		has |= hasSum
	}
	if old&hasText == 0 && f.begins(t, x.text) {
		has |= hasText
	}
	if old|has == old {
		return false, nil
	}
	if len(f.seen) >= maxFileKeys {
		return false, fmt.Errorf("%w: more than %d source files", ErrBudget, maxFileKeys)
	}
	f.seen[key] = old | has
	name := t.str(f.w, x.name)
	if name == "" {
		return false, nil
	}
	if err := f.w.spend(int64(len(name))); err != nil {
		return false, err
	}
	out := SourceFile{Name: functab.JoinPath(f.dirs[folder], name)}
	if has&hasSum != 0 {
		// Compilers that must write a checksum for each file write zeros for none.
		if p := t.unit.v.line.At(x.md5.u, 16); len(p) == 16 && [16]byte(p) != [16]byte{} {
			out.MD5 = slices.Clone(p)
		}
	}
	if has&hasText != 0 {
		out.Text = f.textOf(t, x.text)
	}
	return !functab.IsAbsolute(out.Name), f.yield(out)
}

// begins reports whether there is a text and it is not empty, as it is for files whose
// text the compiler did not have.
func (f *fileReader) begins(t *lineTable, v value) bool {
	x := f.textOf(t, v)
	if x == nil {
		return false
	}
	var b [1]byte
	n, _ := x.s.ReadAt(b[:], x.off)
	return n == 1 && b[0] != 0
}

// textOf returns where a text is; nil if there is none.
func (f *fileReader) textOf(t *lineTable, v value) *Text {
	im := t.unit.v.im
	var name string
	switch v.form {
	case formString:
		name = "debug_line"
	case formLineStrp:
		name = "debug_line_str"
	case formStrp:
		name = "debug_str"
	case formStrpSup, formGNUStrpAlt:
		if im, name = f.r.alt, "debug_str"; im == nil {
			return nil
		}
	default:
		return nil
	}
	if im.split {
		name += ".dwo"
	}
	s, err := im.section(name)
	if err != nil || s == nil || v.u >= uint64(s.Size()) {
		return nil
	}
	return &Text{s, int64(v.u)}
}

// splitSections are the sections of a .dwo file that name source files.
var splitSections = []string{"debug_line.dwo", "debug_str.dwo", "debug_str_offsets.dwo"}

// splitUnits reads the line programs of split units: they name the files of
// declarations and types, too.
func (f *fileReader) splitUnits() error {
	if f.data.Package == nil && f.data.Object == nil {
		return nil
	}
	units, err := f.load()
	if err != nil || len(units.skeletons) == 0 {
		return err
	}
	rest := units.skeletons
	if f.data.Package != nil {
		pkg := f.image("package", f.data.Package, append(slices.Clone(splitSections), "debug_cu_index")...)
		pkg.split = true
		if rest, err = f.packed(pkg, rest); err != nil {
			return err
		}
	}
	for _, u := range rest {
		im, err := f.w.object(u)
		if err != nil {
			return err
		}
		if im == nil {
			f.stats.Missing++
			continue
		}
		if err := f.loose(im, u); err != nil {
			return err
		}
	}
	return nil
}

// loose reads the line programs of the .dwo file of a skeleton.
func (f *fileReader) loose(im *image, skeleton *unit) error {
	v := f.w.view(im)
	defer delete(f.w.views, im)
	// One program for the unit and, before version 5, one for its types.
	folders := map[uint64]string{}
	for off, n := uint64(0), 0; off < v.line.Size() && n < unitsPerMark; n++ {
		folders[off] = skeleton.compDir
		c := cursor{b: v.line.At(off, 12), be: im.be}
		size := uint64(c.u32())
		if size == 0xffffffff {
			size = c.u64()
		}
		if c.short || size > v.line.Size()-off {
			break
		}
		off += uint64(c.i) + size
	}
	return f.section(v, folders)
}

// packed reads the line programs in a package, and returns the skeletons whose units it
// lacks.
func (f *fileReader) packed(pkg *image, skeletons []*unit) (rest []*unit, err error) {
	v := f.w.view(pkg)
	f.r.steps.Add(stepsPerByte * pkg.bytes())
	index, err := f.w.readPackageIndex(v)
	if f.w.fatal(err) {
		return nil, err
	}
	if err != nil {
		return skeletons, v.err()
	}
	folders := map[uint64]string{}
	for _, u := range skeletons {
		if err := f.w.spend(16); err != nil {
			return nil, err
		}
		at, ok := index.find(v, u.dwoID)
		if !ok {
			rest = append(rest, u)
			continue
		}
		folders[at.line] = u.compDir
	}
	return rest, f.section(v, folders)
}
