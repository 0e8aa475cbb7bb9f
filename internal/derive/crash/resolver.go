package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/stackwalk"
	"github.com/symdepot/symdepot/symfile"
)

// Source opens modules with the rights of one caller.
type Source = symbolicate.UnwindSource

// resolver answers a walk from the files of the modules. It implements Resolver.
type resolver struct {
	src     Source
	dump    []dump.Module
	native  []symbolicate.NativeModule
	modules []module
}

// module is a module that a walk asks for.
type module struct {
	once   sync.Once
	names  *symbolicate.Module // nil: not there
	rules  *symbolicate.Unwind // nil: not there
	known  stackwalk.Modules   // rules, as the only element
	asked  bool
	nerr   error // why there are no names
	uerr   error // why there are no rules
	unwind string
}

// Modules implements Resolver.
func (r *resolver) Modules(p *dump.Process) error {
	r.dump = p.Modules
	r.native = make([]symbolicate.NativeModule, len(p.Modules))
	r.modules = make([]module, len(p.Modules))
	for i := range p.Modules {
		r.native[i] = nativeModule(&p.Modules[i], &p.Dump)
	}
	return nil
}

// nativeModule describes a module of a dump in Symbolicator's words.
func nativeModule(m *dump.Module, d *dump.Dump) symbolicate.NativeModule {
	n := symbolicate.NativeModule{
		Type: typeOf(m, d.OS), CodeFile: m.Path, DebugFile: m.Path, ImageAddr: symbolicate.Hex(m.Base), ImageSize: m.Size,
	}
	var id debugid.ID
	switch {
	case m.BuildID != "":
		n.CodeID, id = string(m.BuildID), m.BuildID.DebugID(!d.BigEndian)
	case !m.UUID.IsZero():
		n.CodeID, id = m.UUID.Lower(), debugid.ID{GUID: m.UUID}
	case !m.Code.IsZero():
		n.CodeID = m.Code.String()
	}
	for i, debug := range m.Debug {
		if i == 0 || !debug.Portable {
			n.DebugFile, id = debug.Path, debug.ID
		}
	}
	if !id.IsZero() {
		n.DebugID = id.String()
	}
	return n
}

// typeOf is Symbolicator's word for the kind of a module.
func typeOf(m *dump.Module, os string) string {
	switch {
	case m.BuildID != "":
		return "elf"
	case !m.UUID.IsZero():
		return "macho"
	case !m.Code.IsZero():
		return "pe"
	}
	switch os {
	case "windows":
		return "pe"
	case "macos", "ios":
		return "macho"
	}
	return "elf"
}

// Ask implements Resolver.
func (r *resolver) Ask(ctx context.Context, module int, rva uint64) (Answer, error) {
	m := &r.modules[module]
	m.once.Do(func() { m.open(ctx, r.src, r.native[module].Query()) })
	if err := ctx.Err(); err != nil {
		return Answer{}, context.Cause(ctx)
	}
	a := Answer{}
	a.Rules, a.Known = m.known.Rules(ctx, 0, rva)
	a.Code = m.code(ctx, rva)
	return a, nil
}

// open opens what there is of a module.
func (m *module) open(ctx context.Context, src Source, q symbolicate.ModuleQuery) {
	m.asked = true
	m.known = stackwalk.Modules{{}}
	if q.DebugID == "" && q.CodeID == "" {
		m.unwind = symbolicate.StateOf(nil)
		return
	}
	m.names, m.nerr = src.Module(ctx, q)
	if m.rules, m.uerr = src.Unwind(ctx, q); m.uerr == nil {
		m.known[0] = stackwalk.Known{Table: m.rules.Table, Finder: m.rules}
		m.unwind = "found"
		return
	}
	m.unwind = symbolicate.StateOf(m.uerr)
}

// code reports whether there can be code at an address.
func (m *module) code(ctx context.Context, rva uint64) bool {
	known := false
	if m.names != nil && !m.names.IL {
		if _, ok := m.names.Lookup(rva); ok {
			return true
		}
		known = true
	}
	if m.rules == nil {
		return !known
	}
	if m.rules.Table != nil && m.rules.Table.Known(rva) {
		return true
	}
	_, found, err := m.rules.Find(ctx, rva)
	return found || err != nil
}

// close ends the use of the modules.
func (r *resolver) close() {
	for i := range r.modules {
		m := &r.modules[i]
		if m.names != nil {
			m.names.Done()
		}
		if m.rules != nil {
			m.rules.Done()
		}
	}
}

// isAppleSystem reports whether a program or library belongs to Apple's systems, which have no dSYMs.
func isAppleSystem(path string) bool {
	return strings.HasPrefix(path, "/usr/lib/") || strings.HasPrefix(path, "/System/")
}

// help says what would make the stacks of a module better; empty: nothing.
func (m *module) help(n *symbolicate.NativeModule, debug string) string {
	name, file := symfile.BaseName(n.CodeFile), symfile.BaseName(n.DebugFile)
	if file == "" {
		file = name
	}
	if n.DebugID == "" && n.CodeID == "" {
		return "the dump has no id of it, so that no file can be looked up"
	}
	id := n.DebugID
	if q := n.Query(); q.DebugID != "" {
		id = q.DebugID
	}
	debugFile := fmt.Sprintf("%s with the id %s", file, id)
	switch {
	case n.Type == "elf" && n.CodeID != "":
		debugFile = fmt.Sprintf("the debug information of %s, build-id %s", name, n.CodeID)
	case n.Type == "macho" && isAppleSystem(n.CodeFile):
		debugFile = fmt.Sprintf("%s of this system, UUID %s, for instance from the folder of Xcode for symbols of devices", name, n.DebugID)
	case n.Type == "macho":
		debugFile = fmt.Sprintf("the dSYM of %s, UUID %s", name, n.DebugID)
	case id == "":
		debugFile = fmt.Sprintf("the PDB of %s", name)
	}
	switch {
	case debug == "timeout" || m.unwind == "timeout":
		return "it is being prepared: ask again"
	case debug == "malformed":
		return "its symbol file cannot be read: add " + debugFile + " again"
	case debug == "missing":
		return "add " + debugFile
	case errors.Is(m.uerr, symbolicate.ErrNoRules):
		return "" // nothing helps
	case m.unwind == "missing":
		program := name
		if n.CodeID != "" {
			program += " with the id " + n.CodeID
		}
		return "add the program for its unwind rules: " + program
	case m.unwind == "malformed":
		return "the unwind rules of its program cannot be read"
	}
	return ""
}
