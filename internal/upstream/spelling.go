package upstream

import (
	"path"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// place is where below a source's address an answer may be.
type place struct {
	parts []string
	// packed: a cabinet of the file.
	packed bool
	// pointer: a file.ptr, which says where the file is.
	pointer bool
	// exact: the bytes are the answer whatever they look like.
	exact bool
}

func (p place) key() string { return strings.Join(p.parts, "/") }

// maxPlaces bounds the attempts for one file.
const maxPlaces = 12

// spelling knows how the files of one server are called, to the letter: other
// than folders, servers tell cases apart, and each guess costs a round trip.
type spelling struct {
	arranged string
	casing   string
	two      bool // two tiers
	packed   bool // cabinets are asked for
	pointers bool // likewise
	inside   bool // the address ends in buildid or .build-id already
}

// wanted collects places without repeating any.
type wanted struct {
	spelling
	req  *layout.Request
	l    symfile.Lookup
	list []place
}

// places lists where the answer to a request may be, best first.
func (s spelling) places(req *layout.Request) []place {
	w := &wanted{spelling: s, req: req}
	if s.arranged == Auto {
		// A server that nobody described is asked as the client asked.
		switch req.Layout {
		case layout.Debuginfod.Name(), layout.GDB.Name(), layout.LLDB.Name(), layout.Unified.Name(), layout.SlashSymbols.Name():
			w.arranged = req.Layout
		default:
			w.arranged = layout.SymStore.Name()
		}
	}
	switch req.Form {
	case layout.FormFile:
		for _, w.l = range req.Lookups {
			w.file()
		}
	case layout.FormSource, layout.FormSection:
		w.part()
	case layout.FormSymCache:
		w.symCache()
	}
	if len(w.list) > maxPlaces {
		w.list = w.list[:maxPlaces]
	}
	return w.list
}

func (w *wanted) put(p place) {
	for _, part := range p.parts {
		if !symfile.ValidName(part) {
			return
		}
	}
	for i, part := range p.parts {
		if w.req.Form != layout.FormFile {
			break // paths of sources are of other people's systems
		}
		switch w.casing {
		case CasingUpper:
			p.parts[i] = mapASCII(part, 'a', 'z')
		case CasingLower:
			p.parts[i] = mapASCII(part, 'A', 'Z')
		}
	}
	for _, have := range w.list {
		if have.key() == p.key() {
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

func (w *wanted) add(parts ...string) { w.put(place{parts: parts}) }

func (w *wanted) file() {
	switch w.arranged {
	case layout.SymStore.Name(), layout.Index2.Name(), layout.SSQP.Name(), layout.BreakpadTree.Name():
		w.microsoft()
	case layout.Native.Name():
		w.microsoft()
		elf, mach := w.family()
		if elf {
			w.gdb(false)
		}
		if mach {
			w.lldb()
		}
	case layout.Unified.Name():
		w.unified()
	case layout.GDB.Name():
		if elf, _ := w.family(); elf {
			w.gdb(!w.inside)
		}
	case layout.LLDB.Name():
		if _, mach := w.family(); mach {
			w.lldb()
		}
	case layout.Debuginfod.Name():
		w.debuginfod()
	case layout.SlashSymbols.Name():
		if name := w.name(); name != "" && w.l.Role&plainRoles != 0 && debugid.IsHex(w.l.ID) {
			w.add(name, strings.ToUpper(w.l.ID), "symbols")
			w.add(name, w.l.ID, "symbols")
		}
	}
}

// name is the lookup's name in the case that the client used.
func (w *wanted) name() string {
	if w.arranged != layout.SSQP.Name() && symfile.Fold(w.req.Name) == w.l.Name {
		return w.req.Name
	}
	return w.l.Name
}

// wordless reports whether a name came with an id whose kind was not said: it is
// that of an image or PDB, or of a WASM module.
func (w *wanted) wordless() bool {
	if w.l.Name == "" && w.req.Name == "" {
		return false
	}
	if w.l.Role&(symfile.Executable|symfile.Debug) == symfile.Executable|symfile.Debug {
		return true
	}
	n := len(w.l.ID)
	return debugid.IsHex(w.l.ID) && (n >= 9 && n < 16 || n == 33 || w.l.Name != "" && w.l.Role&symfile.Debug != 0 && n >= 32)
}

func (w *wanted) wasm() bool { return strings.HasSuffix(symfile.Fold(w.req.Name), ".wasm") }

// family says which kinds of id it may be: a build-id, a Mach-O UUID.
func (w *wanted) family() (elf, mach bool) {
	id := w.l.ID
	if _, err := debugid.ParseBuildID(id); err != nil || len(id) < 4 {
		return false, false
	}
	wasm := w.wasm()
	switch {
	case w.wordless(), w.req.Age != nil:
		return wasm, false
	case len(id) != 32 || wasm:
		return true, false
	case w.req.Layout == layout.LLDB.Name(), strings.HasSuffix(w.l.Name, ".dylib"), symfile.Fold(w.req.Name) == "_.dwarf":
		return false, true
	case w.req.Layout == layout.GDB.Name(), w.req.Layout == layout.Debuginfod.Name(), strings.Contains(w.l.Name, ".so"), symfile.Fold(w.req.Name) == "_.debug":
		return true, false
	}
	return true, true
}

// microsoft adds name/key/leaf.
func (w *wanted) microsoft() {
	name, role := w.name(), w.l.Role
	native, ssqp := w.arranged == layout.Native.Name(), w.arranged == layout.SSQP.Name()
	files := w.arranged != layout.BreakpadTree.Name()
	switch {
	case name == "":
		if files && !native && role&symfile.Debug != 0 && (w.req.Name == "" || strings.HasPrefix(w.req.Name, "_.")) {
			w.symbolNames()
		}
	case role&(symfile.Symbols|symfile.CodeInfo) != 0:
		if !ssqp {
			w.breakpad(name)
		}
	case role&symfile.Sources != 0:
		for _, stem := range []string{cutLast(name), layout.Stem(name)} {
			w.tiered(place{parts: []string{name, w.key(), stem + ".src.zip"}})
		}
	case !files:
	case role == symfile.Compressed:
		w.tiered(place{parts: []string{name, w.key(), "msfz0", name}})
	case role&(symfile.Executable|symfile.Debug) == 0 && role&symfile.Other != 0:
		w.tiered(place{parts: []string{name, w.l.ID, name}, exact: strings.HasPrefix(w.l.ID, "sha1-")})
	case w.wordless():
		w.image(name)
	case role&symfile.Executable != 0 && !native:
		w.codeNames(name)
	}
}

// tiered adds a path of one tier in the tiers of the server.
func (w *wanted) tiered(p place) {
	if w.two && len(p.parts) > 0 {
		p.parts = append([]string{layout.Bucket(p.parts[0])}, p.parts...)
	}
	w.put(p)
}

// image adds the forms of an image or PDB in the order in which Microsoft's
// clients ask for them.
func (w *wanted) image(name string) {
	key := w.key()
	w.tiered(place{parts: []string{name, key, name}})
	if strings.HasSuffix(key, portableKey) || w.wasm() {
		return // never packed
	}
	if w.packed {
		w.tiered(place{parts: []string{name, key, packedName(name)}, packed: true})
	}
	if w.pointers && (w.arranged == layout.SymStore.Name() || w.arranged == layout.Index2.Name()) {
		w.tiered(place{parts: []string{name, key, "file.ptr"}, pointer: true})
	}
}

// codeNames adds SSQP's keys of ELF and Mach-O images.
func (w *wanted) codeNames(name string) {
	if rest, ok := strings.CutPrefix(w.l.ID, "coreclr-"); ok {
		word := "elf-buildid-"
		if len(rest) == 32 {
			word = "mach-uuid-"
		}
		w.tiered(place{parts: []string{name, word + w.l.ID, name}})
		return
	}
	elf, mach := w.family()
	if mach {
		w.tiered(place{parts: []string{name, "mach-uuid-" + w.l.ID, name}})
	}
	if elf {
		for _, id := range w.padded() {
			w.tiered(place{parts: []string{name, "elf-buildid-" + id, name}})
		}
	}
}

// symbolNames adds SSQP's keys of ELF and Mach-O symbols, which have no name of
// their own.
func (w *wanted) symbolNames() {
	elf, mach := w.family()
	if elf {
		for _, id := range w.padded() {
			w.tiered(place{parts: []string{"_.debug", "elf-buildid-sym-" + id, "_.debug"}})
		}
	}
	if mach {
		w.tiered(place{parts: []string{"_.dwarf", "mach-uuid-sym-" + w.l.ID, "_.dwarf"}})
	}
}

// padded lists the spellings of a build-id in stores: SSQP fills it to 20
// bytes, others do not.
func (w *wanted) padded() []string {
	list := elfSpellings(w.l.ID)
	if len(list) == 2 && w.arranged == layout.SSQP.Name() {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// bare lists the spellings of a build-id where it is not padded. A client that
// asks in SSQP's form may have added zeros.
func (w *wanted) bare() []string {
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

// breakpad adds name/id/stem.sym. Only .pdb leaves the stem, but Sentry's
// documentation and the code-info lookup of Tecken cut .exe and .dll too.
func (w *wanted) breakpad(name string) {
	key, stem := w.key(), layout.Stem(name)
	list := []string{stem}
	if f := symfile.Fold(name); strings.HasSuffix(f, ".dll") || strings.HasSuffix(f, ".exe") {
		list = append(list, cutLast(name))
	}
	if len(key) < 33 { // a code id
		key = strings.ToUpper(key)
		list[0], list[len(list)-1] = list[len(list)-1], list[0]
	}
	for _, stem := range list {
		w.tiered(place{parts: []string{name, key, stem + ".sym"}})
	}
}

func cutLast(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// portableKey stands in the place of a portable PDB's age.
const portableKey = "FFFFFFFF"

// key is the id as Microsoft's tools write it: the stamp of an image in upper
// case, its size in lower case without padding; the GUID of a PDB in upper case
// (in lower case for SSQP), its age in lower case.
func (w *wanted) key() string {
	id := w.l.ID
	if p, err := debugid.ParsePE(id); err == nil {
		return p.String()
	}
	if len(id) < 32 || !debugid.IsHex(id) || w.wasm() || len(id) > 40 {
		return id
	}
	guid, age := id[:32], id[32:]
	if len(id) == 40 && w.l.Role&symfile.Other != 0 && !strings.HasSuffix(w.l.Name, ".pdb") && age != symfile.Fold(portableKey) {
		return id // a build id
	}
	if w.arranged != layout.SSQP.Name() {
		guid = strings.ToUpper(guid)
	}
	if age == symfile.Fold(portableKey) {
		age = portableKey
	} else if t := strings.TrimLeft(age, "0"); t != "" {
		age = t
	}
	return guid + age
}

func (w *wanted) unified() {
	if len(w.l.ID) < 3 || !debugid.IsHex(w.l.ID) {
		return
	}
	leaves := []struct {
		role symfile.Role
		name string
	}{
		{symfile.Executable, "executable"}, {symfile.Debug | symfile.Companion, "debuginfo"}, {symfile.Symbols, "breakpad"}, {symfile.Sources, "sourcebundle"},
		{symfile.UUIDs, "uuidmap"}, {symfile.BCSymbols, "bcsymbolmap"}, {symfile.IL2CPPMap, "il2cpp"}, {symfile.Mapping, "proguard"},
	}
	for _, id := range w.bare() {
		for _, leaf := range leaves {
			if w.l.Role&leaf.role == 0 || leaf.role == symfile.Executable && w.wordless() && w.req.Age != nil {
				continue // the id of a PDB
			}
			w.add(id[:2], id[2:], leaf.name)
		}
	}
}

// gdb adds the paths of a build-id tree, which may stand in a folder of its
// own.
func (w *wanted) gdb(folder bool) {
	for _, id := range w.bare() {
		for _, p := range []struct {
			role   symfile.Role
			suffix string
		}{{symfile.Debug, ".debug"}, {symfile.Executable, ""}, {symfile.Sources, ".src.zip"}} {
			if w.l.Role&p.role == 0 {
				continue
			}
			if folder {
				w.add(".build-id", id[:2], id[2:]+p.suffix)
			}
			w.add(id[:2], id[2:]+p.suffix)
		}
	}
}

func (w *wanted) lldb() {
	for _, c := range candidates(layout.LLDB.Name(), w.req, w.l) {
		w.add(c.parts...)
	}
}

// buildID returns the parts in front of a debuginfod artifact.
func (w *wanted) buildID(id string) []string {
	if w.inside {
		return []string{id}
	}
	return []string{"buildid", id}
}

func (w *wanted) debuginfod() {
	if elf, _ := w.family(); !elf || w.wasm() {
		return
	}
	for _, id := range w.bare() {
		if w.l.Role&symfile.Debug != 0 {
			w.add(append(w.buildID(id), "debuginfo")...)
		}
		if w.l.Role&symfile.Executable != 0 {
			w.add(append(w.buildID(id), "executable")...)
		}
	}
}

// part adds the address of a section or a source file, which only debuginfod
// has. Dots in a source's path are resolved: it must not lead out of there.
func (w *wanted) part() {
	if w.arranged != layout.Debuginfod.Name() || len(w.req.Lookups) == 0 {
		return
	}
	w.l = w.req.Lookups[0]
	if _, err := debugid.ParseBuildID(w.l.ID); err != nil {
		return
	}
	if w.req.Form == layout.FormSection {
		w.put(place{parts: append(w.buildID(w.l.ID), "section", w.req.Section), exact: true})
		return
	}
	clean := strings.TrimPrefix(path.Clean("/"+w.req.Section), "/")
	w.put(place{parts: append(append(w.buildID(w.l.ID), "source"), strings.Split(clean, "/")...), exact: true})
}

// symCache adds the address of a file for Windows Performance Analyzer. The age
// is decimal there.
func (w *wanted) symCache() {
	if w.arranged != SymCacheServer || len(w.req.Lookups) == 0 {
		return
	}
	id, err := debugid.ParseBreakpad(w.req.Lookups[0].ID)
	if err != nil {
		return
	}
	w.put(place{parts: []string{w.req.Version, w.req.Name, id.GUID.Upper(), strconv.FormatUint(uint64(id.Age), 10)}, exact: true})
}
