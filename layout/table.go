package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// table is all that is known of a layout.
type table struct {
	name  string
	paths func(symfile.Object) []string
	parse func(segments []string) (Request, bool)
	// server adds where at a server the answer to the lookup w.l may be; folder
	// adds where in a folder it may be.
	server func(w *placeList)
	folder func(c *places)
	// keys lists the folders whose entries are keys of one PDB.
	keys    func(req *Request, lk symfile.Lookup) []KeyFolder
	kinds   []symfile.Kind // the only kinds that requests of this layout ask for; nil: any
	marks   []string       // entries of a tree's root that no other layout has
	records Records
	packing Packing
	tiers   Tiers
	// symsrv: servers of this layout expect Microsoft's client.
	symsrv bool
	// direct: an undescribed server is asked for requests of this layout in
	// this layout, and two tiers make no difference to them.
	direct bool
	// rank orders the layouts that a sampled path may fit, the most telling
	// first; 0: the layout is not sampled.
	rank int
	// named: a folder has the files of a name below that name, by their keys.
	named bool
	// mixed: the layout is a part of Native.
	mixed bool
	// root is the folder that debuggers expect above the paths in a tree.
	root string
	// linked: clients look for one file under several of its paths.
	linked bool
}

var buildIDKinds = []symfile.Kind{symfile.ELF}

var tables = [...]table{
	None: {},
	SymStore: {
		name: "symstore", named: true, paths: symstorePaths, parse: parseSymstore,
		server: (*placeList).microsoft, folder: (*places).microsoft, keys: namedKeys,
		records: SymStoreRecords, packing: PackCabinet, tiers: TiersProbed, symsrv: true, rank: 5, mixed: true,
	},
	Index2: {
		name: "symstore_index2", named: true, paths: index2Paths, parse: parseIndex2,
		server: (*placeList).microsoft, folder: (*places).microsoft, keys: namedKeys,
		records: SymStoreRecords, packing: PackCabinet, tiers: TiersTwo, symsrv: true, rank: 6, marks: []string{"index2.txt"},
	},
	SSQP: {
		name: "ssqp", named: true, paths: ssqpPaths, parse: parseSymstore,
		server: (*placeList).microsoft, folder: (*places).microsoft, keys: namedKeys,
		packing: PackCabinet, tiers: TiersOne, symsrv: true,
	},
	BreakpadTree: {
		name: "breakpad", named: true, paths: breakpadPaths, parse: parseBreakpad,
		server: (*placeList).microsoft, folder: (*places).microsoft, keys: namedKeys,
		rank: 7, mixed: true,
	},
	Unified: {
		name: "unified", paths: unifiedPaths, parse: parseUnified, server: (*placeList).unified, folder: (*places).unified, keys: unifiedKeys,
		records: SymsorterRecords, packing: PackZstd, direct: true, rank: 2,
	},
	GDB: {
		name: "gdb", paths: gdbPaths, parse: parseGDB, server: (*placeList).gdbTree, folder: (*places).gdb,
		kinds: buildIDKinds, marks: []string{".build-id"}, direct: true, rank: 3, mixed: true, root: ".build-id", linked: true,
	},
	LLDB: {
		name: "lldb", paths: lldbPaths, parse: parseLLDB, server: (*placeList).lldbTree, folder: (*places).lldb,
		kinds: []symfile.Kind{symfile.MachO}, direct: true, rank: 1, mixed: true,
	},
	Debuginfod: {
		name: "debuginfod", paths: debuginfodPaths, parse: parseDebuginfod, server: (*placeList).debuginfod, folder: (*places).debuginfod,
		kinds: buildIDKinds, direct: true, rank: 4,
	},
	SlashSymbols: {
		name: "slashsymbols", named: true, paths: slashPaths, parse: parseSlash,
		server: (*placeList).slash, folder: (*places).slash, direct: true,
	},
	Native: {
		name: "native", named: true, paths: nativePaths, parse: parseNative,
		server: (*placeList).native, folder: (*places).native, keys: namedKeys,
		packing: PackCabinet, tiers: TiersOne, symsrv: true,
	},
	Auto:     {name: "auto", tiers: TiersProbed, symsrv: true},
	SymCache: {name: "symcache"},
	Flat:     {name: "flat", folder: (*places).flat, keys: flatKeys},
}

func (l Layout) table() *table {
	if int(l) < len(tables) {
		return &tables[l]
	}
	return &tables[None]
}

// All lists the layouts that have paths.
func All() []Layout { return withTable(func(_ Layout, t *table) bool { return t.paths != nil }) }

// Servers lists the layouts that a server can have.
func Servers() []Layout {
	return append([]Layout{Auto}, withTable(func(l Layout, t *table) bool { return t.server != nil || l == SymCache })...)
}

// Folders lists the layouts that a folder can have.
func Folders() []Layout { return withTable(func(_ Layout, t *table) bool { return t.folder != nil }) }

func withTable(is func(Layout, *table) bool) []Layout {
	var list []Layout
	for i := range tables {
		if is(Layout(i), &tables[i]) {
			list = append(list, Layout(i))
		}
	}
	return list
}

// Names returns the names of layouts.
func Names(list []Layout) []string {
	names := make([]string, len(list))
	for i, l := range list {
		names[i] = l.Name()
	}
	return names
}

// ByName returns the layout of that name, one of those that have paths.
func ByName(name string) (Layout, bool) { return byName(All(), name) }

// ServerByName returns the layout of that name, one of Servers.
func ServerByName(name string) (Layout, bool) { return byName(Servers(), name) }

// FolderByName returns the layout of that name, one of Folders.
func FolderByName(name string) (Layout, bool) { return byName(Folders(), name) }

func byName(list []Layout, name string) (Layout, bool) {
	for _, l := range list {
		if l.Name() == name {
			return l, true
		}
	}
	return None, false
}

// ParseFolder is FolderByName for configuration and flags: "auto" and "" are
// None, a layout that is to be detected. Its error names the known layouts.
func ParseFolder(name string) (Layout, error) {
	if name == "" || name == Auto.Name() {
		return None, nil
	}
	l, ok := FolderByName(name)
	if !ok {
		return l, fmt.Errorf("unknown layout %q; known are auto, %s", truncate.Text(name), strings.Join(Names(Folders()), ", "))
	}
	return l, nil
}

// Name returns the name used in configuration, output and logs; "" for None.
func (l Layout) Name() string { return l.table().name }

// String is Name.
func (l Layout) String() string { return l.Name() }

// Paths returns the relative paths under which o is asked for in this layout,
// exactly cased, the canonical one first; nil if it has none there.
func (l Layout) Paths(o symfile.Object) []string {
	t := l.table()
	if t.paths == nil || !symfile.ValidName(o.Name) {
		return nil
	}
	return t.paths(o)
}

// Path returns one path of o for people and archives: the first one in the layout SymStore,
// also for an ELF or Mach-O file, because that path shows the kind of id. gdb asks for
// such a file under Debuginfod.Paths, and LLDB under LLDB.Paths. If SymStore has no path
// for o, Path returns that of the next layout that has one; "" if none has.
func Path(o symfile.Object) string {
	for _, l := range append([]Layout{SymStore, BreakpadTree, Debuginfod, Unified, Native, LLDB, GDB}, All()...) {
		if p := l.Paths(o); len(p) > 0 {
			return p[0]
		}
	}
	return ""
}

// Parse reads a relative path of this layout. The path is not escaped.
func (l Layout) Parse(path string) (Request, error) {
	segs := splitNonEmpty(path)
	if len(segs) == 0 {
		return Request{}, fmt.Errorf("an empty path: %w", ErrNoPath)
	}
	if t := l.table(); t.parse != nil {
		if r, ok := t.parse(segs); ok {
			return r, nil
		}
	}
	return Request{}, fmt.Errorf("%q in layout %s: %w", truncate.Text(path), l, ErrNoPath)
}

// ParseFile reads the path of a file in a tree of this layout. Symbol stores of
// one tier may hold files of two, and the other way round.
func (l Layout) ParseFile(path string) (Request, error) {
	if l.symbolStore() {
		if r, err := Index2.Parse(path); err == nil {
			return r, nil
		}
		return SymStore.Parse(path)
	}
	return l.Parse(path)
}

// FileName returns the name that the path of a file in a tree of this layout
// gives it, "" where the layout names files by their ids.
func (l Layout) FileName(path string) string {
	if !l.symbolStore() && l != SlashSymbols {
		return ""
	}
	r, err := SSQP.ParseFile(path)
	if err != nil || r.Layout != SymStore && r.Layout != SlashSymbols || strings.HasPrefix(r.Name, "_.d") {
		return ""
	}
	return r.Name
}

// Records returns which records trees of this layout have.
func (l Layout) Records() Records { return l.table().records }

// IsRecord reports whether the relative path of a file in a tree of this layout
// is one of the tree's records.
func (l Layout) IsRecord(path string) bool {
	segs := splitNonEmpty(symfile.Fold(path))
	if len(segs) == 0 {
		return false
	}
	last := segs[len(segs)-1]
	switch l.Records() {
	case SymStoreRecords:
		return segs[0] == "000admin" || slices.Contains([]string{"refs.ptr", "file.ptr", "pingme.txt", "pingback.txt", "index2.txt"}, last)
	case SymsorterRecords:
		return segs[0] == "bundles" || strings.HasSuffix(last, ".meta") || len(segs) > 1 && segs[len(segs)-2] == "refs"
	}
	return false
}

// Packing returns how the clients of this layout take compressed files.
func (l Layout) Packing() Packing { return l.table().packing }

// Tiers returns in how many tiers servers of this layout keep their names.
func (l Layout) Tiers() Tiers { return l.table().tiers }

// ForSymsrv reports whether servers of this layout expect Microsoft's client,
// as a User-Agent may have to say.
func (l Layout) ForSymsrv() bool { return l.table().symsrv }

// Root returns the folder in the root of a tree below which debuggers expect
// the paths of this layout; "" for most layouts.
func (l Layout) Root() string { return l.table().root }

// Linked reports whether clients look for one file under several of its paths,
// so that trees of this layout should have hard links.
func (l Layout) Linked() bool { return l.table().linked }

// Kinds lists the only kinds of files that requests of this layout ask for; nil
// if they may ask for any.
func (l Layout) Kinds() []symfile.Kind { return l.table().kinds }

// TierMatters reports whether the path differs between servers of one tier and
// of two.
func (r *Request) TierMatters() bool { return r.Form == FormFile && !r.Layout.table().direct }

// Candidates lists where in a folder of this layout the answer to one lookup of
// a request may be, best first. Names and ids are folded.
func (l Layout) Candidates(req *Request, lk symfile.Lookup) []Place {
	c := &places{req: req, l: lk}
	if folder := l.table().folder; folder != nil {
		folder(c)
	}
	return c.list
}

// NameFolders lists where in a folder of this layout the keys of the files of a name may be;
// nil if its paths do not begin with a name and a key.
func (l Layout) NameFolders(name string) [][]string {
	if !l.table().named {
		return nil
	}
	return nameFolders(name)
}

// KeyFolders lists where in a folder of this layout the other keys of the PDB
// are that a lookup of req asks for, those of higher ages among them.
func (l Layout) KeyFolders(req *Request, lk symfile.Lookup) []KeyFolder {
	keys := l.table().keys
	if keys == nil || req.Age == nil || req.Form != FormFile || lk.Role&symfile.Debug == 0 {
		return nil
	}
	lk.Role &= symfile.Debug | symfile.Compressed
	return keys(req, lk)
}

// Places lists where on the server the answer to a request may be, best first.
func (d Dialect) Places(req *Request) []Place {
	w := &placeList{Dialect: d, req: req}
	if d.Layout == Auto || d.Layout == None {
		w.Layout = SymStore
		if req.Layout.table().direct {
			w.Layout = req.Layout
		}
	}
	switch req.Form {
	case FormFile:
		if server := w.Layout.table().server; server != nil {
			for _, w.l = range req.Lookups {
				server(w)
			}
		}
	case FormSource, FormSection:
		w.sectionOrSource()
	case FormSymCache:
		w.symCache()
	}
	if len(w.list) > maxPlaces {
		w.list = w.list[:maxPlaces]
	}
	return w.list
}
