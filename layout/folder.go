package layout

import (
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

func (c *places) native() {
	c.microsoft()
	c.gdb()
	c.lldb()
}

func (c *places) slash() {
	name := c.l.Name
	if name == "" && c.req.Layout == SlashSymbols {
		name = symfile.Fold(c.req.Name)
	}
	if name != "" && c.l.Role&plain != 0 && c.req.Form == FormFile {
		c.add(name, c.l.ID, "symbols")
	}
}

// KeyFolder is a folder whose entries are keys of one PDB: an entry that begins
// with the folded Prefix is the part behind Before of a folded id.
type KeyFolder struct {
	Dir    []string // empty: the folder has no keys, and the places are Places
	Prefix string
	Before string
	// Own: the folder has the PDB's other ids too, not only those of other ages.
	Own bool
	// Places returns where the file of an id of the folder may be.
	Places func(id string) []Place
}

func namedKeys(req *Request, lk symfile.Lookup) []KeyFolder {
	if lk.Name == "" {
		return nil
	}
	var list []KeyFolder
	for _, dir := range nameFolders(lk.Name) {
		list = append(list, KeyFolder{Dir: dir, Prefix: req.Age.GUID.Lower(), Own: true, Places: func(id string) []Place {
			c := &places{req: req, l: lk}
			c.file(lk.Name, id)
			return c.list
		}})
	}
	return list
}

func unifiedKeys(req *Request, lk symfile.Lookup) []KeyFolder {
	guid := req.Age.GUID.Lower()
	return []KeyFolder{{Dir: []string{guid[:2]}, Prefix: guid[2:], Before: guid[:2], Places: func(id string) []Place {
		lk.ID = id
		c := &places{req: req, l: lk}
		c.unified()
		return c.list
	}}}
}

func flatKeys(req *Request, lk symfile.Lookup) []KeyFolder {
	return []KeyFolder{{Places: func(string) []Place {
		c := &places{req: req, l: lk}
		c.flat()
		return c.list
	}}}
}

// places collects candidates.
type places struct {
	req  *Request
	l    symfile.Lookup
	list []Place
}

func (c *places) add(parts ...string) { c.list = append(c.list, Place{Parts: parts}) }

// key adds a leaf of name/key in both tiers.
func (c *places) key(name, key string, add Place, leaf ...string) {
	for _, dir := range nameFolders(name) {
		add.Parts = append(append(dir, key), leaf...)
		c.list = append(c.list, add)
	}
}

// nameFolders lists where the folder of a name may be in a symbol store, in both
// tiers.
func nameFolders(name string) [][]string {
	bucket := Bucket(name)
	list := [][]string{{name}, {bucket, name}}
	// Tools on other systems leave the dot that Windows drops.
	if r := []rune(name); len(r) > 1 && string(r[:2]) != bucket {
		list = append(list, []string{string(r[:2]), name})
	}
	return list
}

func (c *places) microsoft() {
	id, role, name := c.l.ID, c.l.Role, c.l.Name
	if name == "" {
		if role&symfile.Debug != 0 && c.req.Name == "" && c.req.Form == FormFile || strings.HasPrefix(symfile.Fold(c.req.Name), "_.d") {
			for _, id := range elfSpellings(id) {
				c.key(elfSymName, elfSymWord+id, Place{}, elfSymName)
			}
			if len(id) == 32 {
				c.key(machSymName, machSymWord+id, Place{}, machSymName)
			}
		}
		return
	}
	if role&(plain|symfile.Compressed) != 0 {
		keys := []string{id}
		if role&symfile.Executable != 0 {
			for _, id := range elfSpellings(id) {
				keys = append(keys, elfWord+id)
			}
			if len(id) == 32 {
				keys = append(keys, machWord+id)
			}
		}
		for _, k := range keys {
			c.file(name, k)
		}
	}
	if role&symfile.Symbols != 0 {
		for _, stem := range stems(name) {
			c.key(name, id, Place{}, stem+".sym")
		}
	}
	if role&symfile.Sources != 0 {
		for _, stem := range stems(name) {
			c.key(name, id, Place{}, stem+".src.zip")
		}
	}
}

// file adds name/key/name in all its forms.
func (c *places) file(name, key string) {
	packed := CabinetName(name)
	if c.req.Form == FormCabinet {
		c.key(name, key, Place{Packed: true}, packed)
		return
	}
	if c.l.Role&plain != 0 {
		c.key(name, key, Place{}, name)
		c.key(name, key, Place{Packed: true}, packed)
	}
	if c.l.Role&symfile.Compressed != 0 {
		c.key(name, key, Place{MSFZ: true}, "msfz0", name)
		if c.l.Role&plain == 0 {
			// Records of a store have no words for that place.
			c.key(name, key, Place{MSFZ: true}, name)
			c.key(name, key, Place{MSFZ: true, Packed: true}, packed)
		}
	}
	if c.l.Role&plain != 0 {
		c.key(name, key, Place{Pointer: true}, "file.ptr")
	}
}

func (c *places) unified() {
	id := c.l.ID
	if len(id) < 3 || !debugid.IsHex(id) {
		return
	}
	leaf := func(role symfile.Role, name string, add Place) {
		if c.l.Role&role == 0 {
			return
		}
		if c.req.Form == FormCabinet {
			name, add.Packed = CabinetName(name), true
		}
		add.Parts = []string{id[:2], id[2:], name}
		c.list = append(c.list, add)
	}
	// An image has the same path as its PDB: for a request that may mean
	// either, the content decides.
	either := Place{Verify: c.l.Role&symfile.Executable != 0 && c.l.Role&symfile.Debug != 0}
	leaf(symfile.Debug|symfile.Companion, "debuginfo", either)
	leaf(symfile.Executable, "executable", either)
	leaf(symfile.Debug, "executable", Place{Verify: true}) // unstripped
	leaf(symfile.Symbols, "breakpad", Place{})
	leaf(symfile.Symbols, "debuginfo", Place{Text: true}) // symsorter's place for it
	leaf(symfile.Sources, "sourcebundle", Place{})
	leaf(symfile.UUIDs, "uuidmap", Place{})
	leaf(symfile.BCSymbols, "bcsymbolmap", Place{})
	leaf(symfile.IL2CPPMap, "il2cpp", Place{})
	leaf(symfile.Mapping, "proguard", Place{})
}

func (c *places) gdb() {
	id := c.l.ID
	if _, err := debugid.ParseBuildID(id); err != nil || len(id) < 4 || c.req.Form != FormFile {
		return
	}
	above := [][]string{{".build-id"}, nil}
	at := func(suffix string, verify bool) {
		for _, a := range above {
			c.list = append(c.list, Place{Parts: append(a[:len(a):len(a)], id[:2], id[2:]+suffix), Verify: verify})
		}
	}
	if c.l.Role&symfile.Debug != 0 {
		at(".debug", false)
	}
	if c.l.Role&symfile.Executable != 0 {
		at("", false)
	} else if c.l.Role&symfile.Debug != 0 {
		at("", true) // unstripped
	}
	if c.l.Role&symfile.Sources != 0 {
		at(".src.zip", false)
	}
}

func (c *places) lldb() {
	if c.req.Form != FormFile {
		return
	}
	for _, parts := range lldbParts(c.l) {
		c.add(parts...)
	}
}

func (c *places) debuginfod() {
	if _, err := debugid.ParseBuildID(c.l.ID); err != nil || c.req.Form != FormFile {
		return
	}
	at := func(leaf string, verify bool) {
		c.list = append(c.list,
			Place{Parts: []string{"buildid", c.l.ID, leaf}, Verify: verify},
			Place{Parts: []string{c.l.ID, leaf}, Verify: verify})
	}
	if c.l.Role&symfile.Debug != 0 {
		at("debuginfo", false)
	}
	if c.l.Role&symfile.Executable != 0 {
		at("executable", false)
	} else if c.l.Role&symfile.Debug != 0 {
		at("executable", true) // unstripped
	}
}

// flat adds where debuggers look in a folder without keys.
func (c *places) flat() {
	name := c.req.Name
	if name == "" || c.req.Form != FormFile && c.req.Form != FormCabinet {
		return
	}
	names := []string{name}
	if c.l.Role&symfile.Symbols != 0 {
		names = nil
		for _, s := range stems(name) {
			names = append(names, s+".sym")
		}
	}
	ext := ""
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		ext = name[i+1:]
	}
	for _, above := range [][]string{nil, {"symbols", ext}, {ext}} {
		if len(above) > 0 && ext == "" {
			continue
		}
		for _, n := range names {
			if c.req.Form == FormFile {
				c.list = append(c.list, Place{Parts: append(above[:len(above):len(above)], n), Verify: true})
			}
			c.list = append(c.list, Place{Parts: append(above[:len(above):len(above)], CabinetName(n)), Packed: true, Verify: true})
		}
	}
}
