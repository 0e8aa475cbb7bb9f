package layout

import (
	"path"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// maxPlaces bounds the requests to a server for one file.
const maxPlaces = 12

// Casing says how a server spells the paths of its layout.
type Casing string

// The casings. The zero value is CasingDefault.
const (
	CasingDefault Casing = "default" // as the layout spells them
	CasingUpper   Casing = "uppercase"
	CasingLower   Casing = "lowercase"
)

// Dialect is how one server or bucket spells the paths of its layout, to the
// letter: unlike folders, servers tell upper from lower case, and each attempt
// costs a round trip. The zero value is an undescribed server that has plain
// files only.
type Dialect struct {
	// Layout is the server's; zero or Auto: the server is asked as the client
	// asked.
	Layout   Layout
	Casing   Casing
	TwoTier  bool
	Cabinets bool // ask for cabinets too
	Pointers bool // ask for file.ptr too
	Inside   bool // the address ends in buildid or .build-id already
}

// placeList collects places without repeating any.
type placeList struct {
	Dialect
	req  *Request
	l    symfile.Lookup
	list []Place
}

func (w *placeList) put(p Place) {
	for _, part := range p.Parts {
		if !symfile.ValidName(part) {
			return
		}
	}
	for i, part := range p.Parts {
		if w.req.Form != FormFile {
			break // paths of sources are of other people's systems
		}
		switch w.Casing {
		case CasingUpper:
			p.Parts[i] = mapASCII(part, 'a', 'z')
		case CasingLower:
			p.Parts[i] = mapASCII(part, 'A', 'Z')
		}
	}
	for _, have := range w.list {
		if have.Key() == p.Key() {
			return
		}
	}
	w.list = append(w.list, p)
}

// mapASCII changes the case of the letters from a to z, or A to Z.
func mapASCII(s string, from, to byte) string {
	b := []byte(s)
	for i, c := range b {
		if c >= from && c <= to {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}

func (w *placeList) add(parts ...string) { w.put(Place{Parts: parts}) }

func (w *placeList) native() {
	w.microsoft()
	elf, mach := w.family()
	if elf {
		w.gdb(false)
	}
	if mach {
		w.lldb()
	}
}

func (w *placeList) gdbTree() {
	if elf, _ := w.family(); elf {
		w.gdb(!w.Inside)
	}
}

func (w *placeList) lldbTree() {
	if _, mach := w.family(); mach {
		w.lldb()
	}
}

func (w *placeList) slash() {
	if name := w.name(); name != "" && w.l.Role&plain != 0 && debugid.IsHex(w.l.ID) {
		w.add(name, strings.ToUpper(w.l.ID), "symbols")
		w.add(name, w.l.ID, "symbols")
	}
}

// name is the lookup's name in the case that the client used.
func (w *placeList) name() string {
	if w.l.Name == "" && w.req.Layout == SlashSymbols && w.Layout == SlashSymbols || w.Layout != SSQP && symfile.Fold(w.req.Name) == w.l.Name {
		return w.req.Name
	}
	return w.l.Name
}

// hasUnknownKind reports whether a name came with an id whose kind was not said: it is
// that of an image or PDB, or of a WASM module.
func (w *placeList) hasUnknownKind() bool {
	if w.l.Name == "" && w.req.Name == "" {
		return false
	}
	if w.l.Role&(symfile.Executable|symfile.Debug) == symfile.Executable|symfile.Debug {
		return true
	}
	n := len(w.l.ID)
	return debugid.IsHex(w.l.ID) && (n >= 9 && n < 16 || n == 33 || w.l.Name != "" && w.l.Role&symfile.Debug != 0 && n >= 32)
}

func (w *placeList) wasm() bool { return strings.HasSuffix(symfile.Fold(w.req.Name), ".wasm") }

// family says which kinds of id it may be: a build-id, a Mach-O UUID.
func (w *placeList) family() (elf, mach bool) {
	id := w.l.ID
	if _, err := debugid.ParseBuildID(id); err != nil || len(id) < 4 {
		return false, false
	}
	switch w.l.IDKind {
	case symfile.BuildIDs:
		return true, false
	case symfile.MachIDs:
		return false, len(id) == 32
	}
	wasm := w.wasm()
	switch {
	case w.hasUnknownKind(), w.req.Age != nil:
		return wasm, false
	case len(id) != 32 || wasm:
		return true, false
	case w.req.Layout == LLDB, strings.HasSuffix(w.l.Name, ".dylib"), symfile.Fold(w.req.Name) == machSymName:
		return false, true
	case w.req.Layout == GDB, w.req.Layout == Debuginfod, strings.Contains(w.l.Name, ".so"), symfile.Fold(w.req.Name) == elfSymName:
		return true, false
	}
	return true, true
}

// microsoft adds name/key/leaf.
func (w *placeList) microsoft() {
	name, role := w.name(), w.l.Role
	native := w.Layout == Native
	files := w.Layout != BreakpadTree
	switch {
	case name == "":
		if files && !native && role&symfile.Debug != 0 && (w.req.Name == "" || strings.HasPrefix(w.req.Name, "_.")) {
			w.symbolNames()
		}
	case role&(symfile.Symbols|symfile.CodeInfo) != 0:
		w.breakpad()
	case role&symfile.Sources != 0:
		for _, key := range w.keys() {
			for _, bundle := range bundleNames(name) {
				w.tiered(Place{Parts: []string{name, key, bundle}})
			}
		}
	case !files:
	case role == symfile.Compressed:
		for _, key := range w.keys() {
			w.tiered(Place{Parts: []string{name, key, "msfz0", name}})
		}
	case role&(symfile.Executable|symfile.Debug) == 0 && role&symfile.Other != 0:
		w.tiered(Place{Parts: []string{name, w.l.ID, name}, Exact: strings.HasPrefix(w.l.ID, "sha1-")})
	case w.hasUnknownKind():
		w.image(name)
	case role&symfile.Executable != 0 && !native:
		w.codeNames(name)
	}
}

// tiered adds a path of one tier in the tiers of the server.
func (w *placeList) tiered(p Place) {
	if w.TwoTier && len(p.Parts) > 0 {
		p.Parts = append([]string{Bucket(p.Parts[0])}, p.Parts...)
	}
	w.put(p)
}

// image adds the forms of an image or PDB.
func (w *placeList) image(name string) {
	for _, key := range w.keys() {
		if strings.HasSuffix(key, symfile.PortableAge) || w.wasm() {
			w.tiered(Place{Parts: []string{name, key, name}}) // never packed
			continue
		}
		w.stored(name, key)
	}
}

// keys lists the spellings of the id on servers that tell upper from lower case:
// two if the age of a PDB has letters, else one. First is that of the page of Sentry that
// describes the layouts: upper case in symbol stores and SSQP, lower case in the native
// layout. Microsoft's tools and Symbolicator write it in lower case in symbol stores.
func (w *placeList) keys() []string {
	key := w.key()
	if !strings.HasSuffix(symfile.Fold(w.l.Name), ".pdb") || !debugid.IsHex(key) || strings.HasSuffix(key, symfile.PortableAge) {
		return []string{key}
	}
	age := 32
	if len(key) < age {
		age = 8 // the signature of a PDB 2.0
	}
	if len(key) <= age {
		return []string{key}
	}
	upper := key[:age] + strings.ToUpper(key[age:])
	switch {
	case upper == key:
		return []string{key}
	case w.Layout.symbolStore():
		return []string{upper, key}
	}
	return []string{key, upper}
}

// stored adds the forms of a file in a symbol store, in the order in which
// Microsoft's clients ask for them.
func (w *placeList) stored(name, key string) {
	w.tiered(Place{Parts: []string{name, key, name}})
	if w.Cabinets {
		w.tiered(Place{Parts: []string{name, key, CabinetName(name)}, Packed: true})
	}
	if w.Pointers && (w.Layout == SymStore || w.Layout == Index2) {
		w.tiered(Place{Parts: []string{name, key, "file.ptr"}, Pointer: true})
	}
}

// StorePlaces lists where a symbol store on the server may have the file with a
// name and key, best first. Name and key are spelled as the store spells them,
// whatever the kind of the file; compare [Dialect.Places].
func (d Dialect) StorePlaces(name, key string) []Place {
	w := &placeList{Dialect: d, req: &Request{Name: name}}
	w.stored(name, key)
	return w.list
}

// codeNames adds SSQP's keys of ELF and Mach-O images.
func (w *placeList) codeNames(name string) {
	if rest, ok := strings.CutPrefix(w.l.ID, "coreclr-"); ok {
		word := elfWord
		if len(rest) == 32 {
			word = machWord
		}
		w.tiered(Place{Parts: []string{name, word + w.l.ID, name}})
		return
	}
	elf, mach := w.family()
	if mach {
		w.tiered(Place{Parts: []string{name, machWord + w.l.ID, name}})
	}
	if elf {
		for _, id := range w.padded() {
			w.tiered(Place{Parts: []string{name, elfWord + id, name}})
		}
	}
}

// symbolNames adds SSQP's keys of ELF and Mach-O symbols, which have no name of
// their own.
func (w *placeList) symbolNames() {
	elf, mach := w.family()
	if elf {
		for _, id := range w.padded() {
			w.tiered(Place{Parts: []string{elfSymName, elfSymWord + id, elfSymName}})
		}
	}
	if mach {
		w.tiered(Place{Parts: []string{machSymName, machSymWord + w.l.ID, machSymName}})
	}
}

// padded lists the spellings of a build-id in stores: SSQP fills it to 20
// bytes, others do not.
func (w *placeList) padded() []string {
	list := elfSpellings(w.l.ID)
	if len(list) == 2 && w.Layout == SSQP {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// unpadded lists the spellings of a build-id where it is not padded. A client that
// asks in SSQP's form may have added zeros.
func (w *placeList) unpadded() []string {
	id := w.l.ID
	if w.req.Name == "" || len(id) != 40 {
		return []string{id}
	}
	short := id
	for len(short) > 16 && strings.HasSuffix(short, "00") {
		short = short[:len(short)-2]
	}
	switch {
	case short == id:
		return []string{id}
	case len(short) <= 32:
		return []string{short, id}
	}
	return []string{id, short}
}

// breakpad adds name/id/stem.sym: the name as it is given and the GUID in upper case
// on servers of every layout. Only .pdb leaves the stem, but Sentry's documentation
// and the code-info lookup of Tecken cut .exe and .dll too.
func (w *placeList) breakpad() {
	own := *w
	own.Layout = BreakpadTree
	name, key := own.name(), own.key()
	stem := Stem(name)
	list := []string{stem}
	if f := symfile.Fold(name); strings.HasSuffix(f, ".dll") || strings.HasSuffix(f, ".exe") {
		list = append(list, cutExt(name))
	}
	if len(key) < 33 { // a code id
		key = strings.ToUpper(key)
		list[0], list[len(list)-1] = list[len(list)-1], list[0]
	}
	for _, stem := range list {
		w.tiered(Place{Parts: []string{name, key, stem + ".sym"}})
	}
}

// key is the id as Microsoft's tools write it: the stamp of an image in upper
// case, its size in lower case without padding; the GUID of a PDB in upper case
// (in lower case for SSQP), its age in lower case.
func (w *placeList) key() string {
	id := w.l.ID
	if p, err := debugid.ParsePE(id); err == nil {
		return p.String()
	}
	if len(id) < 32 || !debugid.IsHex(id) || w.wasm() || len(id) > 40 {
		return id
	}
	guid, age := id[:32], id[32:]
	if len(id) == 40 && w.l.Role&symfile.Other != 0 && !strings.HasSuffix(w.l.Name, ".pdb") && age != symfile.Fold(symfile.PortableAge) {
		return id // a build id
	}
	if w.Layout != SSQP {
		guid = strings.ToUpper(guid)
	}
	if age == symfile.Fold(symfile.PortableAge) {
		age = symfile.PortableAge
	} else if t := strings.TrimLeft(age, "0"); t != "" {
		age = t
	}
	return guid + age
}

func (w *placeList) unified() {
	if len(w.l.ID) < 3 || !debugid.IsHex(w.l.ID) {
		return
	}
	for _, id := range w.unpadded() {
		for _, leaf := range unifiedLeaves {
			if w.l.Role&leaf.role == 0 || leaf.role&symfile.Executable != 0 && w.hasUnknownKind() && w.req.Age != nil {
				continue // the id of a PDB
			}
			w.add(id[:2], id[2:], leaf.name)
		}
	}
}

// gdb adds the paths of a build-id tree, which may have a folder of its own.
func (w *placeList) gdb(folder bool) {
	for _, id := range w.unpadded() {
		for _, p := range gdbLeaves {
			if w.l.Role&p.role == 0 {
				continue
			}
			if folder {
				w.add(".build-id", id[:2], id[2:]+p.name)
			}
			w.add(id[:2], id[2:]+p.name)
		}
	}
}

func (w *placeList) lldb() {
	for _, parts := range lldbParts(w.l) {
		w.add(parts...)
	}
}

// buildID returns the parts in front of a debuginfod artifact.
func (w *placeList) buildID(id string) []string {
	if w.Inside {
		return []string{id}
	}
	return []string{"buildid", id}
}

func (w *placeList) debuginfod() {
	if elf, _ := w.family(); !elf || w.wasm() {
		return
	}
	for _, id := range w.unpadded() {
		for _, artifact := range debuginfodLeaves {
			if w.l.Role&artifact.role != 0 {
				w.add(append(w.buildID(id), artifact.name)...)
			}
		}
	}
}

// sectionOrSource adds the address of a section or a source file, which only debuginfod
// has. Dots in a source's path are resolved: it must not lead out of there.
func (w *placeList) sectionOrSource() {
	if w.Layout != Debuginfod || len(w.req.Lookups) == 0 {
		return
	}
	w.l = w.req.Lookups[0]
	if _, err := debugid.ParseBuildID(w.l.ID); err != nil {
		return
	}
	if w.req.Form == FormSection {
		w.put(Place{Parts: append(w.buildID(w.l.ID), "section", w.req.Part), Exact: true})
		return
	}
	clean := strings.TrimPrefix(path.Clean("/"+w.req.Part), "/")
	w.put(Place{Parts: append(append(w.buildID(w.l.ID), "source"), strings.Split(clean, "/")...), Exact: true})
}

// symCache adds the address of a file for Windows Performance Analyzer. The age
// is decimal there.
func (w *placeList) symCache() {
	if w.Layout != SymCache || len(w.req.Lookups) == 0 {
		return
	}
	id, err := debugid.ParseBreakpad(w.req.Lookups[0].ID)
	if err != nil {
		return
	}
	age := strconv.FormatUint(uint64(id.Age), 10)
	w.put(Place{Parts: []string{w.req.SymCache.Version.Segment(), w.req.Name, id.GUID.Upper(), age}, Exact: true})
}
