package symbolicate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// OpenFiles opens local files. Files with one debug id make up one module, with the
// files to which their debug information refers. The caller closes the Files.
func OpenFiles(ctx context.Context, paths []string) (*Files, error) {
	files := &Files{}
	var parts []Part
	for _, path := range paths {
		list, err := files.openFile(path)
		if err != nil {
			return nil, errors.Join(err, files.Close())
		}
		parts = append(parts, list...)
	}
	var err error
	if files.Modules, err = Group(ctx, parts); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return files, nil
}

// Companions returns path, and the file beside it that belongs to the same module:
// app.pdb beside app.exe or app.dll and the reverse, and app.debug beside app.
func Companions(ctx context.Context, path string) []string {
	list := []string{path}
	own, err := openAndGroup(ctx, list)
	if err != nil {
		return list
	}
	stem := strings.TrimSuffix(path, filepath.Ext(path))
	for _, c := range []string{stem + ".pdb", stem + ".exe", stem + ".dll", path + ".debug", strings.TrimSuffix(path, ".debug")} {
		if c == path || c == "" || durable.IsSame(c, path) {
			continue
		}
		if both, err := openAndGroup(ctx, []string{path, c}); err == nil && both == own {
			return []string{path, c}
		}
	}
	return list
}

// openAndGroup returns the number of modules of files.
func openAndGroup(ctx context.Context, paths []string) (int, error) {
	f, err := OpenFiles(ctx, paths)
	if err != nil {
		return 0, err
	}
	return len(f.Modules), f.Close()
}

// Dump reads the modules of local files and writes a symbol file of each: to w, or
// below the folder store in Breakpad's layout. done, if not nil, is called with each
// file that was written, and warn with each part that is missing in it.
func Dump(
	ctx context.Context, paths []string, format Format, w io.Writer, store string, done func(path string), warn func(text string),
) error {
	files, err := OpenFiles(ctx, paths)
	if err != nil {
		return err
	}
	defer files.Close()
	if len(files.Modules) > 1 && store == "" {
		return fmt.Errorf("the files belong to %d modules; write them with --store DIR, or give the files of one module: %s",
			len(files.Modules), files.ids())
	}
	if err := files.complete(ctx); err != nil {
		return err
	}
	for _, text := range files.Warnings {
		warn(text)
	}
	for _, m := range files.Modules {
		table, err := readParts(ctx, "", m, format)
		if err != nil {
			return err
		}
		for _, text := range table.Warnings() {
			warn(m[0].Name + ": " + text)
		}
		if store == "" {
			b := bufio.NewWriterSize(w, 64<<10)
			if err := Write(ctx, b, format, table); err != nil {
				return err
			}
			return b.Flush()
		}
		path, err := storePath(table.Module(), format)
		if err != nil {
			return err
		}
		path = filepath.Join(store, path)
		if err := writeDurable(ctx, path, format, table); err != nil {
			return err
		}
		done(path)
	}
	return nil
}

// ids names the modules with their ids.
func (f *Files) ids() string {
	var list []string
	for i, g := range f.Modules {
		if i == mostNamed {
			list = append(list, "…")
			break
		}
		list = append(list, g[0].Name+" has the id "+idOf(g[0]))
	}
	return strings.Join(list, ", ")
}

// storePath is the path of a module's symbol file in Breakpad's layout, as this
// system spells it.
func storePath(m functab.Module, format Format) (string, error) {
	o := symfile.Object{Kind: symfile.Breakpad, Role: symfile.Symbols, Name: m.Name, DebugID: m.ID}
	paths := layout.BreakpadTree.Paths(o)
	if m.ID.IsZero() || len(paths) == 0 {
		return "", fmt.Errorf("%s has no debug id, so it has no path in Breakpad's layout; write it without --store", m.Name)
	}
	path := filepath.FromSlash(strings.TrimSuffix(paths[0], Breakpad.Ext()) + format.Ext())
	if !filepath.IsLocal(path) { // on Windows, a device or a stream of a file
		return "", fmt.Errorf("%s cannot be the name of a file on this system; write the module without --store", path)
	}
	return path, nil
}

// writeDurable replaces a file atomically.
func writeDurable(ctx context.Context, path string, format Format, table *functab.Table) error {
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteTo(path, 0o644, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 64<<10)
		if err := Write(ctx, b, format, table); err != nil {
			return err
		}
		return b.Flush()
	})
}

// OpenLocal opens a module of local files for lookups. arch selects the slice of a
// fat file; empty: the first. base is the difference between the addresses that the
// linker assigned and RVAs. Missing has the warnings of reading.
func OpenLocal(ctx context.Context, path, arch string) (m *Module, base uint64, err error) {
	if m, err := openPortable(path); !errors.Is(err, fs.ErrNotExist) {
		return m, 0, err
	}
	files, err := OpenFiles(ctx, Companions(ctx, path))
	if err != nil {
		return nil, 0, err
	}
	if err := files.complete(ctx); err != nil {
		return nil, 0, errors.Join(err, files.Close())
	}
	for _, g := range files.Modules {
		if arch != "" && g[0].Arch != arch {
			continue
		}
		if m, base := files.units(ctx, g); m != nil {
			return m, base, nil
		}
		m := &Module{Missing: files.Warnings, Done: func() {}}
		base, err := m.read(ctx, g)
		return m, base, errors.Join(err, files.Close())
	}
	return nil, 0, errors.Join(fmt.Errorf("%s: %w for the processor %s", path, fs.ErrNotExist, arch), files.Close())
}

// read reads all of the functions of a module of its parts.
func (m *Module) read(ctx context.Context, parts []Part) (base uint64, err error) {
	table, err := ReadParts(ctx, "", parts)
	if err != nil {
		return 0, err
	}
	d := table.Module()
	m.Looker, m.Name, m.CodeFile, m.Arch = table, d.Name, d.CodeFile, d.Arch
	m.Missing = append(m.Missing, table.Warnings()...)
	return d.Base, nil
}

// units opens a large ELF module, which is not read as a whole unless it must be. It is
// nil for other modules. Done closes the files.
func (f *Files) units(ctx context.Context, parts []Part) (*Module, uint64) {
	size := int64(0)
	for _, p := range parts {
		size += p.Input.Size
	}
	if !byUnits(parts[0].Kind, size) {
		return nil, 0
	}
	t, err := openUnits(ctx, "", parts)
	if err != nil {
		return nil, 0 // reading all of it tells why
	}
	d := t.Module()
	m := &Module{Name: d.Name, CodeFile: d.CodeFile, Arch: d.Arch, Missing: f.Warnings}
	m.Looker = &unitLooker{ctx: ctx, units: t, open: func(ctx context.Context) (Looker, func(), error) {
		whole := &Module{}
		_, err := whole.read(ctx, parts)
		m.Missing = append(m.Missing, whole.Missing...)
		return whole.Looker, nil, err
	}}
	m.Done = func() { _ = errors.Join(t.Close(), f.Close()) } // opened for reading
	return m, d.Base
}

// ParseAddress reads an address: hex with or without 0x.
func ParseAddress(text string) (uint64, error) {
	t := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	n, err := strconv.ParseUint(t, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not an address; want hex digits, such as 0x1139", text)
	}
	return n, nil
}

// ParsePlace reads MODULE/DEBUGID+OFFSET.
func ParsePlace(text string) (q ModuleQuery, offset uint64, err error) {
	where, off, ok := cutLast(text, "+")
	name, id, slash := cutLast(where, "/")
	if !ok || !slash || name == "" || id == "" {
		return q, 0, fmt.Errorf("%q is not an address; want MODULE/DEBUGID+OFFSET, such as app.pdb/0123456789ABCDEF0123456789ABCDEF1+0x1040",
			text)
	}
	offset, err = ParseAddress(off)
	return ModuleQuery{DebugFile: name, DebugID: id}, offset, err
}

// cutLast splits a text at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
