package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// want is one file that a debugger would ask for.
type want struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	// From is what needs it: a file, a dump, a line of a manifest.
	From string `json:"from,omitempty"`
	path string // to ask for, relative to a server's base URL
}

func (w want) request() (layout.Request, error) {
	return layout.Route(strings.Split(w.path, "/"))
}

// wantOf turns a name and an id, in any spelling that a server takes, into a
// want.
func wantOf(name, id, from string) (want, error) {
	name, id = symfile.BaseName(strings.Trim(name, `" `)), strings.Trim(id, `" `)
	if !symfile.ValidName(name) || !symfile.ValidName(id) {
		return want{}, fmt.Errorf("%q and %q are not a file name and an id", term.Printable(name), term.Printable(id))
	}
	w := want{Name: name, ID: id, From: from, path: name + "/" + id + "/" + name}
	if strings.HasSuffix(symfile.Fold(name), ".sym") {
		w.path = strings.TrimSuffix(name, name[len(name)-4:]) + "/" + id + "/" + name
	}
	if _, err := w.request(); err != nil {
		return want{}, fmt.Errorf("%s: %w", w.path, err)
	}
	return w, nil
}

// wantsOf are the files that a debugger would ask for to debug what an object
// is: never the object itself.
func wantsOf(objs []objfile.Object, from string) []want {
	var list []want
	for _, o := range objs {
		switch o.Kind {
		case symfile.PE:
			for _, w := range o.PDBs {
				list = appendPath(list, layout.SymStore, w, from)
			}
		case symfile.ELF:
			if o.Role&symfile.Debug == 0 || !o.Features.Debug {
				list = appendPath(list, layout.Debuginfod, symfile.Object{Kind: symfile.ELF, Role: symfile.Debug, Name: o.Name, BuildID: o.BuildID, DebugID: o.DebugID}, from)
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

func appendPath(list []want, l layout.Layout, o symfile.Object, from string) []want {
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
	return append(list, want{Name: o.Name, ID: id, From: from, path: paths[0]})
}

// wantList collects wants, each once.
type wantList struct {
	list []want
	seen map[string]bool
	bad  []string // what could not be understood, in words
}

func (l *wantList) add(wants ...want) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	for _, w := range wants {
		if k := symfile.Fold(w.path); !l.seen[k] {
			l.seen[k] = true
			l.list = append(l.list, w)
		}
	}
}

// manifest reads lines of a name, a key and, if there is one, a number, with
// commas between them, as symchk writes them. Bad lines are told by number.
func (l *wantList) manifest(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := term.ReadText(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("manifest %s: %w", path, err)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == ';' || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s, line %d", path, n)
		parts := strings.Split(line, ",")
		if len(parts) < 2 || len(parts) > 3 {
			l.bad = append(l.bad, where+": not name,key or name,key,number")
			continue
		}
		w, err := wantOf(parts[0], parts[1], where)
		if err != nil {
			l.bad = append(l.bad, where+": "+err.Error())
			continue
		}
		l.add(w)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("manifest %s, line %d: %w", path, n+1, err)
	}
	return nil
}

// files adds what the files at and below paths want: their PDBs, debug
// information and dSYMs.
func (l *wantList) files(a *app, paths []string) error {
	for f, err := range scan.Walk(a.ctx, paths, scan.Options{Want: func(head []byte, name string) error { return objfile.Detect(head, name) }}) {
		var skip *scan.Skip
		switch {
		case errors.As(err, &skip):
			continue
		case err != nil:
			return err
		}
		objs, err := identifyFile(a, f, objfile.Options{})
		if err != nil {
			if a.ctx.Err() != nil {
				return a.ctx.Err()
			}
			continue // no symbol file, or none that can be read
		}
		l.add(wantsOf(objs, f.Path)...)
	}
	return nil
}

// isFile reports whether a path names a file of this machine.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}

// openSized opens a file with its size.
func openSized(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// local adds what a program, library, core file or minidump needs.
func (l *wantList) local(a *app, path string) error {
	f, size, err := openSized(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [dump.SniffLen]byte
	n, _ := f.ReadAt(head[:], 0)
	if dump.Detect(head[:n]) == "" {
		return l.files(a, []string{path})
	}
	d, err := dump.Read(f, size)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range d.Problems {
		l.bad = append(l.bad, path+": "+p)
	}
	for i := range d.Modules {
		l.add(wantsOfModule(&d.Modules[i], path)...)
	}
	return nil
}

// wantsOfModule are the files that a debugger asks for to look into a module of
// a dump: the image itself and its debug information.
func wantsOfModule(m *dump.Module, from string) []want {
	var list []want
	if m.Code != (debugid.PE{}) {
		list = appendPath(list, layout.SymStore, symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: m.Name, CodeID: m.Code.String()}, from)
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
			list = appendPath(list, layout.Debuginfod, symfile.Object{Kind: symfile.ELF, Role: role, Name: m.Name, BuildID: m.BuildID}, from)
		}
	}
	if m.UUID != (debugid.GUID{}) {
		list = appendPath(list, layout.LLDB, symfile.Object{Kind: symfile.MachO, Role: symfile.Debug, Name: m.Name, DebugID: debugid.ID{GUID: m.UUID}}, from)
	}
	return list
}
