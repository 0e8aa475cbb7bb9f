package upstream

import (
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// candidate is a place where an answer may be.
type candidate struct {
	parts []string
	// packed: a cabinet, wanted as it is only if the request is for one.
	packed bool
	// pointer: a file.ptr, which says where the file is.
	pointer bool
	// text: only a Breakpad file is an answer; others may be called the same.
	text bool
	// msfz: only an MSFZ container is an answer.
	msfz bool
	// verify: only a file whose own ids fit is an answer.
	verify bool
	// older: likewise, or a PDB of equal GUID and higher age.
	older bool
}

// candidates lists the places of a lookup in a tree, best first.
func candidates(arranged string, req *layout.Request, l symfile.Lookup) []candidate {
	c := &places{req: req, l: l}
	switch arranged {
	case layout.SymStore.Name(), layout.SSQP.Name(), layout.BreakpadTree.Name(), layout.Index2.Name():
		// Stores are converted from one to the other, and POSIX tools mix them.
		c.microsoft()
	case layout.Unified.Name():
		c.unified()
	case layout.GDB.Name():
		c.gdb()
	case layout.LLDB.Name():
		c.lldb()
	case layout.Debuginfod.Name():
		c.debuginfod()
	case layout.SlashSymbols.Name():
		if c.l.Name != "" && c.l.Role&plainRoles != 0 && c.req.Form == layout.FormFile {
			c.add(c.l.Name, c.l.ID, "symbols")
		}
	case layout.Native.Name():
		c.microsoft()
		c.gdb()
		c.lldb()
	case Flat:
		c.flat()
	}
	return c.list
}

// places collects candidates.
type places struct {
	req  *layout.Request
	l    symfile.Lookup
	list []candidate
}

func (c *places) add(parts ...string) { c.list = append(c.list, candidate{parts: parts}) }

// key adds a leaf of name/key in both tiers.
func (c *places) key(name, key string, add candidate, leaf ...string) {
	for _, dir := range nameFolders(name) {
		add.parts = append(append(dir, key), leaf...)
		c.list = append(c.list, add)
	}
}

// nameFolders lists where the folder of a name may be, in both tiers.
func nameFolders(name string) [][]string {
	bucket := layout.Bucket(name)
	list := [][]string{{name}, {bucket, name}}
	// Tools on other systems leave the dot that Windows drops.
	if r := []rune(name); len(r) > 1 && string(r[:2]) != bucket {
		list = append(list, []string{string(r[:2]), name})
	}
	return list
}

// plainRoles are those of name/key/name.
const plainRoles = symfile.Executable | symfile.Debug | symfile.Other

func (c *places) microsoft() {
	id, role, name := c.l.ID, c.l.Role, c.l.Name
	if name == "" {
		if role&symfile.Debug != 0 && c.req.Name == "" && c.req.Form == layout.FormFile || strings.HasPrefix(symfile.Fold(c.req.Name), "_.d") {
			for _, id := range elfSpellings(id) {
				c.key("_.debug", "elf-buildid-sym-"+id, candidate{}, "_.debug")
			}
			if len(id) == 32 {
				c.key("_.dwarf", "mach-uuid-sym-"+id, candidate{}, "_.dwarf")
			}
		}
		return
	}
	if role&(plainRoles|symfile.Compressed) != 0 {
		keys := []string{id}
		if role&symfile.Executable != 0 {
			for _, id := range elfSpellings(id) {
				keys = append(keys, "elf-buildid-"+id)
			}
			if len(id) == 32 {
				keys = append(keys, "mach-uuid-"+id)
			}
		}
		for _, k := range keys {
			c.file(name, k)
		}
	}
	if role&symfile.Symbols != 0 {
		for _, stem := range stems(name) {
			c.key(name, id, candidate{}, stem+".sym")
		}
	}
	if role&symfile.Sources != 0 {
		for _, stem := range stems(name) {
			c.key(name, id, candidate{}, stem+".src.zip")
		}
	}
}

// file adds name/key/name in all its forms.
func (c *places) file(name, key string) {
	packed := packedName(name)
	if c.req.Form == layout.FormCabinet {
		c.key(name, key, candidate{packed: true}, packed)
		return
	}
	if c.l.Role&plainRoles != 0 {
		c.key(name, key, candidate{}, name)
		c.key(name, key, candidate{packed: true}, packed)
	}
	if c.l.Role&symfile.Compressed != 0 {
		c.key(name, key, candidate{msfz: true}, "msfz0", name)
		if c.l.Role&plainRoles == 0 {
			// Records of a store have no words for that place.
			c.key(name, key, candidate{msfz: true}, name)
			c.key(name, key, candidate{msfz: true, packed: true}, packed)
		}
	}
	if c.l.Role&plainRoles != 0 {
		c.key(name, key, candidate{pointer: true}, "file.ptr")
	}
}

// elfSpellings returns an id and the form of 20 bytes that SSQP gives it.
func elfSpellings(id string) []string {
	list := []string{id}
	if b, err := debugid.ParseBuildID(id); err == nil {
		if p := b.Padded(); p != "" && p != id {
			list = append(list, p)
		}
	}
	return list
}

// packedName replaces the last character, as the names of cabinets do.
func packedName(name string) string {
	r := []rune(name)
	return string(r[:len(r)-1]) + "_"
}

// stems are what tools leave of a name before .sym and .src.zip.
func stems(name string) []string {
	list := []string{layout.Stem(name)}
	cut := name
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		cut = name[:i]
	}
	for _, s := range []string{name, cut} {
		if s != list[0] && s != list[len(list)-1] {
			list = append(list, s)
		}
	}
	return list
}

func (c *places) unified() {
	id := c.l.ID
	if len(id) < 3 || !debugid.IsHex(id) {
		return
	}
	leaf := func(role symfile.Role, name string, add candidate) {
		if c.l.Role&role == 0 {
			return
		}
		if c.req.Form == layout.FormCabinet {
			name, add.packed = packedName(name), true
		}
		add.parts = []string{id[:2], id[2:], name}
		c.list = append(c.list, add)
	}
	// An image stands under the same id as its PDB: a request that may mean
	// either must see what it gets.
	either := candidate{verify: c.l.Role&symfile.Executable != 0 && c.l.Role&symfile.Debug != 0}
	leaf(symfile.Debug|symfile.Companion, "debuginfo", either)
	leaf(symfile.Executable, "executable", either)
	leaf(symfile.Debug, "executable", candidate{verify: true}) // unstripped
	leaf(symfile.Symbols, "breakpad", candidate{})
	leaf(symfile.Symbols, "debuginfo", candidate{text: true}) // symsorter's place for it
	leaf(symfile.Sources, "sourcebundle", candidate{})
	leaf(symfile.UUIDs, "uuidmap", candidate{})
	leaf(symfile.BCSymbols, "bcsymbolmap", candidate{})
	leaf(symfile.IL2CPPMap, "il2cpp", candidate{})
	leaf(symfile.Mapping, "proguard", candidate{})
}

func (c *places) gdb() {
	id := c.l.ID
	if _, err := debugid.ParseBuildID(id); err != nil || len(id) < 4 || c.req.Form != layout.FormFile {
		return
	}
	above := [][]string{{".build-id"}, nil}
	at := func(suffix string, verify bool) {
		for _, a := range above {
			c.list = append(c.list, candidate{parts: append(a[:len(a):len(a)], id[:2], id[2:]+suffix), verify: verify})
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
	g, err := debugid.ParseGUID(c.l.ID)
	if err != nil || c.req.Form != layout.FormFile {
		return
	}
	at := func(suffix string) { c.add(strings.Split(g.LLDB()+suffix, "/")...) }
	if c.l.Role&symfile.Debug != 0 {
		at("")
	}
	if c.l.Role&symfile.Executable != 0 {
		at(".app")
	}
	if c.l.Role&symfile.Sources != 0 {
		at(".src.zip")
	}
}

func (c *places) debuginfod() {
	if _, err := debugid.ParseBuildID(c.l.ID); err != nil || c.req.Form != layout.FormFile {
		return
	}
	at := func(leaf string, verify bool) {
		c.list = append(c.list, candidate{parts: []string{"buildid", c.l.ID, leaf}, verify: verify}, candidate{parts: []string{c.l.ID, leaf}, verify: verify})
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
	if name == "" || c.req.Form != layout.FormFile && c.req.Form != layout.FormCabinet {
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
			if c.req.Form == layout.FormFile {
				c.list = append(c.list, candidate{parts: append(above[:len(above):len(above)], n), verify: true})
			}
			c.list = append(c.list, candidate{parts: append(above[:len(above):len(above)], packedName(n)), packed: true, verify: true})
		}
	}
}
