// Package needed finds out which symbol files a dump, a manifest or a folder of
// programs needs, and makes a depot download those that it does not have.
package needed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Want is one symbol file that a debugger would ask for.
type Want struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// From names the thing that needs it: a file, a dump, a line of a manifest.
	From string `json:"from,omitempty"`
	// Path is the path of a request for it, relative to a server's base URL.
	Path string `json:"-"`
	// Object describes the file; zero if only a path is known.
	Object symfile.Object `json:"-"`
}

// Request returns the request for the file.
func (w Want) Request() (layout.Request, error) {
	return layout.Route(strings.Split(w.Path, "/"))
}

// The parts of a program.
const partProgram, partDebug = "program", "debug information"

// What describes which part of a program the file is.
func (w Want) What() string {
	switch {
	case w.Object.Role&symfile.Executable != 0:
		return partProgram
	case w.Object.Role&symfile.Debug != 0 || strings.HasSuffix(w.Path, "/debuginfo"):
		return partDebug
	case strings.HasSuffix(w.Path, "/executable"):
		return partProgram
	}
	return ""
}

// Of returns the want for a name and an id, in any spelling that a server
// accepts, or as dumpbin prints it. from is what needs the file.
func Of(name, id, from string) (Want, error) {
	name, id = symfile.BaseName(strings.Trim(name, `" `)), strings.Trim(id, `" `)
	if strings.Contains(id, ",") {
		if d, err := debugid.Parse(id); err == nil {
			id = d.Breakpad()
		}
	}
	if !symfile.ValidName(name) || !symfile.ValidName(id) {
		return Want{}, fmt.Errorf("%q and %q are not a file name and an id", term.Printable(name), term.Printable(id))
	}
	w := Want{Name: name, ID: id, From: from, Path: name + "/" + id + "/" + name}
	if strings.HasSuffix(symfile.Fold(name), ".sym") {
		w.Path = strings.TrimSuffix(name, name[len(name)-4:]) + "/" + id + "/" + name
	}
	if _, err := w.Request(); err != nil {
		return Want{}, fmt.Errorf("%q is not an id of %s", term.Printable(id), term.Printable(name))
	}
	return w, nil
}

// OfPath returns the want for the path of a request.
func OfPath(path string) (Want, error) {
	w := Want{Name: symfile.BaseName(path), Path: path}
	req, err := w.Request()
	if err != nil {
		return Want{}, err
	}
	if req.Name != "" && !depot.AsksForSymbols(&req) { // a symbol file has the name of its module there
		w.Name = req.Name
	}
	if len(req.Lookups) > 0 {
		w.ID = req.Lookups[0].ID
	}
	return w, nil
}

// ofObjects returns the files that a debugger asks for to debug the objects. It
// never returns the objects themselves.
func ofObjects(objs []objfile.Object, from string) []Want {
	var list []Want
	for _, o := range objs {
		switch o.Kind {
		case symfile.PE:
			for _, w := range o.PDBs {
				list = appendPath(list, layout.SymStore, w, from)
			}
		case symfile.ELF:
			if o.Role&symfile.Debug == 0 || !o.Features.Debug {
				list = appendPath(list, layout.Debuginfod,
					symfile.Object{Kind: symfile.ELF, Role: symfile.Debug, DebugCompanion: true, Name: o.Name, BuildID: o.BuildID, DebugID: o.DebugID},
					from)
			}
		case symfile.MachO:
			if o.Role&symfile.Debug == 0 {
				dsym := o.Object
				dsym.Role = symfile.Debug
				list = appendPath(list, layout.LLDB, dsym, from)
			}
		}
	}
	return list
}

// appendPath appends the want for an object, if the layout has a path for it.
func appendPath(list []Want, l layout.Layout, o symfile.Object, from string) []Want {
	paths := l.Paths(o)
	if len(paths) == 0 {
		return list
	}
	id := o.CodeID
	if o.DebugID != (debugid.ID{}) {
		id = o.DebugID.Breakpad()
	}
	if o.BuildID != "" {
		id = string(o.BuildID)
	}
	return append(list, Want{Name: o.Name, ID: id, From: from, Path: paths[0], Object: o})
}

// List collects wants, each path once. The zero value is empty.
type List struct {
	Wants []Want
	// Bad describes the input that was not understood, such as a line of a
	// manifest.
	Bad []string
	// SymbolFiles are the inputs that are symbol files themselves, such as a
	// PDB, and so need nothing.
	SymbolFiles []string

	seen map[string]bool
}

// Add adds wants that are not in the list yet.
func (l *List) Add(wants ...Want) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	for _, w := range wants {
		if k := symfile.Fold(w.Path); !l.seen[k] {
			l.seen[k] = true
			l.Wants = append(l.Wants, w)
		}
	}
}

// Manifest adds the lines of a manifest as symchk /om writes it: a name, a key
// and optionally a number, separated by commas. Bad receives invalid lines. name
// is that of the manifest, for messages.
func (l *List) Manifest(name, text string) error {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s, line %d", name, n)
		parts := strings.Split(line, ",")
		if len(parts) < 2 || len(parts) > 3 {
			l.Bad = append(l.Bad, where+": not name,key or name,key,number")
			continue
		}
		w, err := Of(parts[0], parts[1], where)
		if err != nil {
			l.Bad = append(l.Bad, where+": "+err.Error())
			continue
		}
		l.Add(w)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("manifest %s, line %d: %w", name, n+1, err)
	}
	return nil
}

// Files adds the files that the files at and below paths need: their PDBs, debug
// information and dSYMs.
func (l *List) Files(ctx context.Context, paths []string) error {
	for f, err := range scan.Walk(ctx, paths, scan.Options{Want: objfile.Detect}) {
		var skip *scan.Skip
		switch {
		case errors.As(err, &skip):
			continue
		case err != nil:
			return err
		}
		objs, err := f.Identify(ctx, objfile.Options{})
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue // not a symbol file, or not readable
		}
		wants := ofObjects(objs, f.Path)
		if len(objs) > 0 && len(wants) == 0 {
			l.SymbolFiles = append(l.SymbolFiles, f.Path)
		}
		l.Add(wants...)
	}
	return nil
}

// Local adds the files that a program, library, core file or minidump needs.
func (l *List) Local(ctx context.Context, path string) error {
	f, err := durable.OpenShared(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !isDump(f) {
		return l.Files(ctx, []string{path})
	}
	d, err := dump.Read(f, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range d.Problems {
		l.Bad = append(l.Bad, path+": "+p)
	}
	for i := range d.Modules {
		if isVDSO(d.Modules[i].Name) {
			continue
		}
		l.Add(ofModule(&d.Modules[i], path)...)
	}
	return nil
}

// ofModule returns the files that a debugger asks for to show a module of a dump:
// the image itself and its debug information.
func ofModule(m *dump.Module, from string) []Want {
	var list []Want
	if m.Code != (debugid.PE{}) {
		list = appendPath(list, layout.SymStore,
			symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: m.Name, CodeID: m.Code.String()}, from)
	}
	for _, d := range m.Debug {
		o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: d.Name, DebugID: d.ID}
		if d.Portable {
			o.Kind = symfile.PortablePDB
		}
		list = appendPath(list, layout.SymStore, o, from)
	}
	if m.BuildID != "" {
		for _, role := range []symfile.Role{symfile.Debug, symfile.Executable} {
			list = appendPath(list, layout.Debuginfod,
				symfile.Object{Kind: symfile.ELF, Role: role, DebugCompanion: role == symfile.Debug, Name: m.Name, BuildID: m.BuildID},
				from)
		}
	}
	if m.UUID != (debugid.GUID{}) {
		list = appendPath(list, layout.LLDB,
			symfile.Object{Kind: symfile.MachO, Role: symfile.Debug, Name: m.Name, DebugID: debugid.ID{GUID: m.UUID}}, from)
	}
	return list
}

// isVDSO reports whether a module is the one that the Linux kernel itself maps into every
// process. No file of it exists.
func isVDSO(name string) bool {
	return strings.HasPrefix(name, "linux-gate.so") || strings.HasPrefix(name, "linux-vdso")
}

// Dumps returns those paths that are minidumps or core files.
func Dumps(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
			return true
		}
		f, err := durable.OpenShared(path)
		if err != nil {
			return true
		}
		defer f.Close()
		return !isDump(f)
	})
}

// isDump reports whether r is a minidump or a core file.
func isDump(r io.ReaderAt) bool {
	var head [dump.SniffLen]byte
	n, _ := r.ReadAt(head[:], 0)
	return dump.Detect(head[:n]) != ""
}
