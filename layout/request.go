package layout

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// ErrNoPath is wrapped by every Parse error: the path is not a symbol request.
var ErrNoPath = errors.New("not a symbol path")

// Form is the form in which an answer is wanted.
type Form uint8

// The forms.
const (
	FormFile     Form = iota // the file itself
	FormCabinet              // its cabinet: foo.pd_
	FormPointer              // file.ptr: where the file is
	FormSymCache             // transcoded for Windows Performance Analyzer
	FormSection              // one ELF section
	FormSource               // one source file that the debug information names
	FormAdmin                // one of a symbol store's own files: see RouteAdmin
	FormGSYM                 // the functions of a module in LLVM's GSYM format
)

// Request is what one path asks for.
type Request struct {
	Form Form
	// Lookups are tried in order; the first that finds an object answers.
	Lookups []symfile.Lookup
	// Name is the requested file name; empty where the path has none.
	Name string
	// Age allows a PDB of equal GUID and higher age if no lookup finds a file, as
	// Microsoft's servers do. It is nil for other requests.
	Age *PDBAge
	// Part is the name of the requested section, the path of the source file, or
	// the path of the symbol store's own file. It is empty in other forms.
	Part string
	// SymCache is the parsed SymCache request.
	SymCache symcache.Request
	// Prefix is what Route stripped from the front, with a leading slash
	// and without a final one; a redirect must put it back.
	Prefix string
	// Layout is the layout of the path.
	Layout Layout
}

// PDBAge holds the parts of a PDB key.
type PDBAge struct {
	GUID debugid.GUID
	Age  uint32
}

// AcceptMSFZ lets an object in an MSFZ container answer a request for the
// plain file; the client must have said that it takes one.
func (r *Request) AcceptMSFZ() {
	if r.Form != FormFile {
		return
	}
	for i, l := range r.Lookups {
		if l.Role&symfile.Debug != 0 {
			r.Lookups[i].Role |= symfile.Compressed
		}
	}
}

// plain are the roles that answer name/id/name.
const plain = symfile.Executable | symfile.Debug | symfile.Other

// cleanName returns the usable base name of a decoded path segment. Some
// clients send the whole path of a Windows build machine.
func cleanName(s string) (string, bool) {
	s = symfile.BaseName(s)
	return s, symfile.ValidName(s)
}

// parseSymstore reads name/id/leaf and name/id/msfzN/leaf.
func parseSymstore(s []string) (Request, bool) {
	switch len(s) {
	case 3:
		return nameIDLeaf(s[0], s[1], s[2])
	case 4:
		if v, ok := msfzVersion(s[2]); ok {
			r, ok := nameIDLeaf(s[0], s[1], s[3])
			if !ok || r.Form == FormPointer || r.Layout == BreakpadTree {
				return Request{}, false
			}
			_ = v // the container's own version answers; there is only one
			for i := range r.Lookups {
				r.Lookups[i].Role = symfile.Compressed
			}
			return r, true
		}
	}
	return Request{}, false
}

func msfzVersion(s string) (int, bool) {
	if len(s) < 5 || len(s) > 7 || !strings.EqualFold(s[:4], "msfz") {
		return 0, false
	}
	v, err := strconv.ParseUint(s[4:], 10, 16)
	return int(v), err == nil
}

// parseIndex2 reads a bucket and then a single-tier path.
func parseIndex2(s []string) (Request, bool) {
	if len(s) < 4 || !isBucket(s[0], s[1]) {
		return Request{}, false
	}
	return parseSymstore(s[1:])
}

// isBucket reports whether b is the two-tier directory of name: its first one
// or two characters in any case. POSIX tools leave the dot that Windows drops.
func isBucket(b, name string) bool {
	b, name = symfile.Fold(b), symfile.Fold(name)
	if n := len([]rune(b)); n < 1 || n > 2 {
		return false
	}
	return strings.HasPrefix(name, b)
}

// nameIDLeaf reads the three parts that Microsoft's, Breakpad's and the
// PlayStation's layouts share. The leaf must derive from the name.
func nameIDLeaf(rawName, id, rawLeaf string) (Request, bool) {
	name, ok := cleanName(rawName)
	if !ok {
		return Request{}, false
	}
	fn := symfile.Fold(name)
	fl := fn
	if rawLeaf != rawName { // mostly they are equal
		leaf, ok := cleanName(rawLeaf)
		if !ok {
			return Request{}, false
		}
		fl = symfile.Fold(leaf)
	}
	key, ok := parseKey(id)
	if !ok {
		return Request{}, false
	}
	r := Request{Name: name}
	switch {
	case fl == fn:
		r.Form, r.Layout = FormFile, SymStore
	case fl == "file.ptr":
		r.Form, r.Layout = FormPointer, SymStore
	case strings.HasSuffix(fl, "_") && fl == CabinetName(fn):
		r.Form, r.Layout = FormCabinet, SymStore
	case fl == "symbols" || fl == "symbol_":
		r.Layout = SlashSymbols
		if fl == "symbol_" {
			r.Form = FormCabinet
		}
		r.Lookups = key.symbols(fn)
		return r, true
	case strings.HasSuffix(fl, ".src.zip") && isStem(fn, strings.TrimSuffix(fl, ".src.zip")):
		r.Layout = Native
		r.Lookups = key.special(fn, symfile.Sources)
		return r, len(r.Lookups) > 0
	case strings.HasSuffix(fl, ".sym") && isStem(fn, strings.TrimSuffix(fl, ".sym")):
		r.Layout = BreakpadTree
		r.Lookups = append(key.special(fn, symfile.Symbols), key.codeInfo(fn)...)
		return r, len(r.Lookups) > 0
	case strings.HasSuffix(fl, ".gsym") && isStem(fn, strings.TrimSuffix(fl, ".gsym")):
		r.Form, r.Layout = FormGSYM, BreakpadTree
		r.Lookups = key.special(fn, symfile.Executable|symfile.Debug)
		return r, len(r.Lookups) > 0
	default:
		return Request{}, false
	}
	r.Lookups = key.plain(fn)
	r.Age = key.age
	return r, true
}

// CabinetName returns the name of the cabinet that holds a file compressed: the
// last character of the file's name becomes an underscore.
func CabinetName(name string) string {
	_, n := utf8.DecodeLastRuneInString(name)
	return name[:len(name)-n] + "_"
}

// isStem reports whether stem is what some tool leaves of name before it
// appends .sym or .src.zip. Both are folded. Breakpad cuts .pdb, Sentry's
// documentation .exe and .dll too, Sentry's code ".pdb.dll", Sentry's bundles
// whatever follows the last dot; others cut nothing.
func isStem(name, stem string) bool {
	if stem == name || stem == Stem(name) || stem == cutExt(name) {
		return true
	}
	return stem == strings.TrimSuffix(name, ".pdb.dll")
}

// key is the middle part of name/id/leaf.
type key struct {
	id    string         // folded
	role  symfile.Role   // what the word in front of the id says; 0: none stood there
	kind  symfile.IDKind // what that word says of the id
	any   bool           // the name does not matter (_.debug, _.dwarf)
	wide  bool           // wide enough to stand without the name
	extra string         // a second spelling to try
	age   *PDBAge
}

// parseKey reads the id part with the words that SSQP puts in front.
func parseKey(s string) (key, bool) {
	f := symfile.Fold(s)
	for _, p := range []struct {
		word string
		kind symfile.IDKind
		role symfile.Role
		any  bool
	}{
		{elfSymWord, symfile.BuildIDs, symfile.Debug, true},
		{elfWord, symfile.BuildIDs, symfile.Executable, false},
		{machSymWord, symfile.MachIDs, symfile.Debug, true},
		{machWord, symfile.MachIDs, symfile.Executable, false},
	} {
		rest, ok := strings.CutPrefix(f, p.word)
		if !ok {
			continue
		}
		if c, ok := strings.CutPrefix(rest, "coreclr-"); ok && p.role == symfile.Executable {
			return key{id: "coreclr-" + c, role: symfile.Executable}, debugid.IsHex(c)
		}
		if !debugid.IsHex(rest) || len(rest) > 2*debugid.MaxBuildID {
			return key{}, false
		}
		return key{id: rest, kind: p.kind, role: p.role, any: p.any, wide: len(rest) >= 16}, true
	}
	if strings.HasPrefix(f, "sha1-") && len(f) == 45 && debugid.IsHex(f[5:]) {
		return key{id: f, role: symfile.Other, wide: true}, true
	}
	if strings.HasPrefix(f, "r2rmap-v") && len(f) < 64 {
		_, sig, ok := strings.Cut(f[8:], "-")
		return key{id: f, role: symfile.Other, wide: true}, ok && debugid.IsHex(sig)
	}
	if !debugid.IsHex(f) || len(f) < 2 || len(f) > 2*debugid.MaxBuildID {
		return key{}, false
	}
	k := key{id: f, wide: len(f) >= 32}
	if len(f) > 9 && len(f) <= 16 && f[8] == '0' {
		// An image size padded with zeros.
		if size := strings.TrimLeft(f[8:], "0"); size != "" {
			k.extra = f[:8] + size
		}
	}
	if len(f) > 32 && len(f) <= 40 {
		if id, err := debugid.ParseBreakpad(f); err == nil {
			k.age = &PDBAge{id.GUID, id.Age}
		}
	}
	return k, true
}

// names are the spellings of one folded name: some clients write blanks as +.
func names(name string) []string {
	if strings.Contains(name, "+") {
		return []string{name, strings.ReplaceAll(name, "+", " ")}
	}
	return []string{name}
}

// plain lists the lookups of name/id/name.
func (k key) plain(name string) []symfile.Lookup {
	role, alone := k.role, k.role
	if role == 0 {
		// The word-less id of a GUID's width names debug information; an
		// image of the same id must not answer under another name.
		role, alone = plain, plain
		if k.age != nil {
			alone = symfile.Debug | symfile.Other
		}
	}
	if k.any {
		return []symfile.Lookup{{ID: k.id, Role: role, IDKind: k.kind}}
	}
	ls := make([]symfile.Lookup, 0, 4)
	for _, n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: role, IDKind: k.kind})
		if k.extra != "" {
			ls = append(ls, symfile.Lookup{Name: n, ID: k.extra, Role: role})
		}
	}
	if k.wide {
		ls = append(ls, symfile.Lookup{ID: k.id, Role: alone, IDKind: k.kind, Unique: true})
	}
	return ls
}

// symbols lists the lookups of name/id/symbols, which names a module and wants
// its symbols: debug information before the module itself. An id that is wide
// enough counts without regard to the name: tools send names that differ from
// the file's own.
func (k key) symbols(name string) []symfile.Lookup {
	named := k.plain(name)
	if len(k.id) < 16 {
		debug := slices.Clone(named)
		for i := range debug {
			debug[i].Role &= symfile.Debug
		}
		return append(debug, named...)
	}
	ls := []symfile.Lookup{{ID: k.id, Role: symfile.Debug, IDKind: k.kind}}
	for _, l := range named {
		if !l.Unique {
			ls = append(ls, l)
		}
	}
	return append(ls, symfile.Lookup{ID: k.id, Role: plain, IDKind: k.kind})
}

// special lists the lookups of a Breakpad file or a source bundle.
func (k key) special(name string, role symfile.Role) []symfile.Lookup {
	if k.role != 0 {
		return nil
	}
	var ls []symfile.Lookup
	for _, n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: role})
	}
	if k.wide {
		ls = append(ls, symfile.Lookup{ID: k.id, Role: role, Unique: true})
	}
	return ls
}

// codeInfo lists the lookups by which a client that has only a module's code
// file and code id learns the debug id, from the redirect it gets.
func (k key) codeInfo(name string) []symfile.Lookup {
	if k.role != 0 {
		return nil
	}
	var ls []symfile.Lookup
	for _, n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: symfile.CodeInfo})
		if k.extra != "" {
			ls = append(ls, symfile.Lookup{Name: n, ID: k.extra, Role: symfile.CodeInfo})
		}
	}
	return ls
}

// parseBreakpad reads DEBUGFILE/ID/STEM.sym and .src.zip; in front of them
// some clients send the folders of the build machine.
func parseBreakpad(s []string) (Request, bool) {
	if len(s) < 3 || len(s) > 32 {
		return Request{}, false
	}
	r, ok := nameIDLeaf(s[len(s)-3], s[len(s)-2], s[len(s)-1])
	if !ok || r.Form != FormFile || r.Layout != BreakpadTree && r.Layout != Native {
		return Request{}, false
	}
	return r, true
}

// unifiedLeaves are the last parts of Sentry's unified layout.
var unifiedLeaves = []leaf{
	{symfile.Executable | symfile.Relocatable, "executable"},
	{symfile.Debug | symfile.Companion, "debuginfo"},
	{symfile.Symbols, "breakpad"}, {symfile.Sources, "sourcebundle"},
	{symfile.UUIDs, "uuidmap"}, {symfile.BCSymbols, "bcsymbolmap"}, {symfile.IL2CPPMap, "il2cpp"}, {symfile.Mapping, "proguard"},
}

// debuginfodLeaves are the artifacts of the debuginfod protocol that are whole
// files.
var debuginfodLeaves = []leaf{{symfile.Debug, "debuginfo"}, {symfile.Executable, "executable"}}

// gdbLeaves and lldbLeaves are suffixes.
var (
	gdbLeaves  = []leaf{{symfile.Debug, ".debug"}, {symfile.Executable, ""}, {symfile.Sources, ".src.zip"}}
	lldbLeaves = []leaf{{symfile.Debug, ""}, {symfile.Executable, ".app"}, {symfile.Sources, ".src.zip"}}
)

// leafOf returns the leaf of a role.
func leafOf(leaves []leaf, role symfile.Role) string {
	for _, l := range leaves {
		if l.role&role != 0 {
			return l.name
		}
	}
	return ""
}

// cutLeaf removes the suffix of a folded name and returns the role that it
// stands for. A name with none of the suffixes has the role of the empty one.
func cutLeaf(leaves []leaf, name string) (rest string, role symfile.Role) {
	rest = name
	for _, l := range leaves {
		if l.name == "" {
			role = l.role
		} else if t, ok := strings.CutSuffix(name, l.name); ok {
			return t, l.role
		}
	}
	return rest, role
}

func parseUnified(s []string) (Request, bool) {
	if len(s) == 2 {
		s = []string{s[0], "", s[1]} // a one-byte id leaves nothing for the middle
	}
	if len(s) != 3 || len(s[0]) != 2 || !debugid.IsHex(s[0]+s[1]) || len(s[1]) > 2*debugid.MaxBuildID {
		return Request{}, false
	}
	last := symfile.Fold(s[2])
	r := Request{Layout: Unified}
	var role symfile.Role
	for _, l := range unifiedLeaves {
		switch {
		case last == l.name:
			role = l.role
		case last == CabinetName(l.name) && l.role&(symfile.Executable|symfile.Debug) != 0:
			role, r.Form = l.role&^(symfile.Companion|symfile.Relocatable), FormCabinet
		}
	}
	if role == 0 {
		return Request{}, false
	}
	r.Lookups = []symfile.Lookup{{ID: symfile.Fold(s[0] + s[1]), Role: role}}
	return r, true
}

func parseDebuginfod(s []string) (Request, bool) {
	if len(s) == 2 {
		return buildIDArtifact(s[0], s[1:])
	}
	if len(s) < 3 || !strings.EqualFold(s[0], "buildid") {
		return Request{}, false
	}
	return buildIDArtifact(s[1], s[2:])
}

// buildIDArtifact reads what follows an id in the debuginfod protocol. Ids of
// either case are taken, and so are the words.
func buildIDArtifact(id string, rest []string) (Request, bool) {
	r := Request{Layout: Debuginfod}
	if word, part, ok := strings.Cut(rest[0], "/"); ok { // the slash behind it was escaped, too
		rest = append([]string{word, part}, rest[1:]...)
	}
	artifact := symfile.Fold(rest[0])
	if artifact == "source" && len(id) > 1 && len(id) <= 2*debugid.MaxBuildID && debugid.IsHex(id) {
		// Sources are also found by the ids of PDBs and Mach-O files.
		r.Form, r.Part = FormSource, strings.Join(rest[1:], "/")
		r.Lookups = []symfile.Lookup{{ID: symfile.Fold(id), Role: symfile.Debug | symfile.Executable}}
		return r, r.Part != ""
	}
	b, err := debugid.ParseBuildID(id)
	if err != nil {
		return Request{}, false
	}
	for _, l := range debuginfodLeaves {
		if artifact == l.name {
			r.Lookups = []symfile.Lookup{{ID: string(b), Role: l.role, IDKind: symfile.BuildIDs}}
			return r, len(rest) == 1
		}
	}
	switch artifact {
	case "gsym":
		r.Form = FormGSYM
		r.Lookups = []symfile.Lookup{{ID: string(b), Role: symfile.Executable | symfile.Debug, IDKind: symfile.BuildIDs}}
		return r, len(rest) == 1
	case "section":
		r.Form, r.Part = FormSection, strings.Join(rest[1:], "/")
		r.Lookups = []symfile.Lookup{{ID: string(b), Role: symfile.Debug, IDKind: symfile.BuildIDs},
			{ID: string(b), Role: symfile.Executable, IDKind: symfile.BuildIDs}}
		return r, r.Part != ""
	}
	return Request{}, false
}

func parseGDB(s []string) (Request, bool) {
	if len(s) == 3 && s[0] == ".build-id" {
		s = s[1:]
	}
	if len(s) == 1 {
		s = []string{s[0], ""} // a one-byte id leaves nothing behind the slash
	}
	if len(s) != 2 || len(s[0]) != 2 {
		return Request{}, false
	}
	rest, role := cutLeaf(gdbLeaves, symfile.Fold(s[1]))
	id, err := debugid.ParseBuildID(s[0] + rest)
	if err != nil {
		return Request{}, false
	}
	return Request{Layout: GDB, Lookups: []symfile.Lookup{{ID: string(id), Role: role, IDKind: symfile.BuildIDs}}}, true
}

func parseLLDB(s []string) (Request, bool) {
	if len(s) != 6 {
		return Request{}, false
	}
	last, role := cutLeaf(lldbLeaves, symfile.Fold(s[5]))
	if len(last) != 12 {
		return Request{}, false
	}
	for _, p := range s[:5] {
		if len(p) != 4 {
			return Request{}, false
		}
	}
	id := symfile.Fold(strings.Join(s[:5], "")) + last
	if !debugid.IsHex(id) {
		return Request{}, false
	}
	return Request{Layout: LLDB, Lookups: []symfile.Lookup{{ID: id, Role: role, IDKind: symfile.MachIDs}}}, true
}

func parseNative(s []string) (Request, bool) {
	for _, f := range []func([]string) (Request, bool){parseLLDB, parseGDB, parseSymstore, parseBreakpad} {
		if r, ok := f(s); ok {
			return r, true
		}
	}
	return Request{}, false
}

func parseSlash(s []string) (Request, bool) {
	r, ok := parseSymstore(s)
	return r, ok && r.Layout == SlashSymbols
}

// parseSymCache reads vN.N.N/name.pdb/GUID[/age], the paths of the SymCache
// protocol. An age that is not a decimal number finds nothing, unless the server
// reads ages as hex too.
func parseSymCache(s []string) (Request, bool) {
	if len(s) == 0 || !strings.HasPrefix(s[0], "v") && !strings.HasPrefix(s[0], "V") {
		return Request{}, false // saves the making of an error
	}
	r, err := symcache.ParseRequest(s)
	if err != nil {
		return Request{}, false
	}
	q := Request{Layout: SymCache, Form: FormSymCache, Name: s[1], SymCache: r}
	if !r.HexOnly {
		q.Lookups = []symfile.Lookup{{Name: symfile.Fold(r.Key.Name), ID: symfile.Fold(r.Key.ID.Breakpad()), Role: symfile.SymCacheFile}}
	}
	return q, true
}

// Prefixes are the path prefixes under which every layout is answered too,
// because clients and their users append them to a base URL; longest first.
var Prefixes = []string{"download/symbols", "symbols", "proxy", "try", "unified", "symcache"}

// Segments splits an escaped URL path: empty segments fall away, each segment
// is decoded on its own, and %2F splits again only where fewer than three
// segments stand, because dotnet clients escape the slashes of a whole key.
func Segments(escaped string) ([]string, error) {
	if len(escaped) > 8192 {
		return nil, fmt.Errorf("a path of %d bytes: %w", len(escaped), ErrNoPath)
	}
	segs := splitNonEmpty(escaped)
	for i, s := range segs {
		d, err := url.PathUnescape(s)
		if err != nil {
			return nil, fmt.Errorf("path segment %q: %w", clip.Text(s), ErrNoPath)
		}
		segs[i] = d
	}
	if len(segs) < 3 && strings.Contains(strings.Join(segs, ""), "/") {
		segs = splitNonEmpty(strings.Join(segs, "/"))
	}
	return segs, nil
}

// Escape escapes the bytes of a path that a URL must not contain. Slashes stay, and
// Segments returns the segments of the path again.
func Escape(path string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/$&,;=@!'()*", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func splitNonEmpty(path string) []string {
	segs := make([]string, 0, min(strings.Count(path, "/")+1, 8))
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			segs = append(segs, s)
		}
	}
	return segs
}

// Route finds out what a decoded path of two or more segments asks for, in
// any layout, with or without one of the prefixes. extra are more prefixes
// ("corp/symbols"), tried before the known ones.
func Route(segs []string, extra ...string) (Request, error) { return route(match, segs, extra) }

// AskPortable asks for the PDB as a portable one: under its SSQP key too, and there
// first. Windows debuggers ask for portable PDBs with the age 1.
func (r *Request) AskPortable() {
	var own []symfile.Lookup
	for _, l := range r.Lookups {
		if strings.HasSuffix(l.Name, ".pdb") && l.Role&symfile.Debug != 0 && len(l.ID) > 32 && debugid.IsHex(l.ID) {
			l.ID = l.ID[:32] + symfile.Fold(symfile.PortableAge)
			own = append(own, l)
			break
		}
	}
	r.Lookups = append(own, r.Lookups...)
}

// RouteAdmin is Route for what no layout has: the own files of a symbol store,
// 000Admin/FILE and the refs.ptr of a key. Request.Part is the path.
func RouteAdmin(segs []string, extra ...string) (Request, error) {
	return route(matchAdmin, segs, extra)
}

func matchAdmin(s []string) (Request, bool) {
	for _, p := range s {
		if !symfile.ValidName(p) {
			return Request{}, false
		}
	}
	r := Request{Form: FormAdmin, Layout: SymStore, Part: strings.Join(s, "/")}
	if len(s) == 4 && isBucket(s[0], s[1]) {
		s = s[1:]
		r.Part = strings.Join(s, "/")
	}
	if len(s) == 3 && strings.EqualFold(s[2], "refs.ptr") {
		_, ok := parseKey(s[1])
		return r, ok
	}
	return r, len(s) == 2 && strings.EqualFold(s[0], "000Admin")
}

func route(match func([]string) (Request, bool), segs, extra []string) (Request, error) {
	if len(segs) < 2 {
		return Request{}, fmt.Errorf("%q: %w", clip.Text(strings.Join(segs, "/")), ErrNoPath)
	}
	if n := prefixLen(segs, extra); n > 0 {
		// One prefix at most, and none if the rest is not a symbol path: a
		// module may be called like one.
		if r, ok := match(segs[n:]); ok {
			r.Prefix = "/" + strings.Join(segs[:n], "/")
			return r, nil
		}
	}
	if r, ok := match(segs); ok {
		return r, nil
	}
	return Request{}, fmt.Errorf("%q: %w", clip.Text(strings.Join(segs, "/")), ErrNoPath)
}

// prefixLen returns how many segments the first prefix takes that segs begin
// with, leaving at least one; 0 if none does.
func prefixLen(segs, extra []string) int {
	for _, list := range [2][]string{extra, Prefixes} {
		for _, p := range list {
			n, is := 0, true
			for part := range strings.SplitSeq(p, "/") {
				if part == "" {
					continue
				}
				if is = n < len(segs) && strings.EqualFold(segs[n], part); !is {
					break
				}
				n++
			}
			if is && n > 0 && n < len(segs) {
				return n
			}
		}
	}
	return 0
}

// match tries the shapes in their fixed order; the first that fits wins.
func match(s []string) (Request, bool) { return matchShapes(s, nil) }

// matchShapes is match. tried, if not nil, is called for each shape with whether
// it fits.
func matchShapes(s []string, tried func(sh *shape, fits bool)) (Request, bool) {
	for i := range shapes {
		r, ok := shapes[i].parse(s)
		if tried != nil {
			tried(&shapes[i], ok)
		}
		if ok {
			return r, true
		}
	}
	return Request{}, false
}
