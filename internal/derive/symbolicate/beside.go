package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// systemDebug is the folder in which distributions install debug files.
const systemDebug = "/usr/lib/debug"

// complete opens the files to which those of the modules refer and which are where
// gdb and LLVM look for them: beside the file, in its folder .debug, below
// /usr/lib/debug, and split units where the compiler wrote them. A file that does not
// fit is not used, and Warnings says so.
func (f *Files) complete(ctx context.Context) error {
	for i := range f.Modules {
		for _, step := range []func(context.Context, []Part) ([]Part, error){f.findDebug, f.findAlternate, f.findSplits} {
			more, err := step(ctx, f.Modules[i])
			if err != nil {
				return err
			}
			if len(more) == 0 {
				continue
			}
			f.Modules[i] = append(f.Modules[i], more...)
			if err := link(ctx, f.Modules[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Files) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// openPart opens a file that may be a part of a module. The result is nil if there is
// no such symbol file.
func (f *Files) openPart(path string) (*Part, error) {
	if strings.HasPrefix(path, `\\`) || strings.HasPrefix(path, "//") {
		return nil, nil // a file must not make this machine contact another one
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr // not there, or not for us
	}
	parts, err := f.openFile(path)
	if errors.Is(err, os.ErrPermission) || isBadSource(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &parts[0], nil
}

// findDebug finds the file of .gnu_debuglink for a program without debug
// information.
func (f *Files) findDebug(ctx context.Context, g []Part) ([]Part, error) {
	if slices.ContainsFunc(g, func(p Part) bool { return p.Kind != symfile.ELF && p.Kind != symfile.PE || hasDWARF(p) }) {
		return nil, nil
	}
	p := g[0]
	name, crc := "", uint32(0)
	if p.links != nil {
		name, crc = p.links.Debug, p.links.CRC
	} else if p.Kind == symfile.PE {
		var err error
		if name, crc, err = objtab.PELink(objtab.File{Reader: p, Size: p.Input.Size}); err != nil {
			return nil, err
		}
	}
	if name == "" {
		return nil, nil
	}
	for _, path := range append(beside(p.path, symfile.BaseName(name)), systemFile(p.BuildID)...) {
		o, err := f.openPart(path)
		if err != nil {
			return nil, err
		}
		if o == nil || o.Kind != p.Kind || path == p.path {
			continue
		}
		why, err := misfit(ctx, p, *o, crc)
		if err != nil {
			return nil, err
		}
		if why == "" {
			return []Part{*o}, nil
		}
		f.warn("%s is not the debug file of %s: %s", path, p.path, why)
	}
	return nil, nil
}

// hasDWARF reports whether a part has debug information in DWARF, so that no other
// file is needed.
func hasDWARF(p Part) bool {
	if p.links != nil {
		return p.links.DWARF
	}
	return p.Features.Debug
}

// misfit says why a debug file does not belong to a program: it has another id, or,
// without ids, another checksum than .gnu_debuglink has.
func misfit(ctx context.Context, p, debug Part, crc uint32) (string, error) {
	if !p.DebugID.IsZero() && !debug.DebugID.IsZero() && (p.BuildID != "") == (debug.BuildID != "") {
		if p.DebugID == debug.DebugID && p.BuildID == debug.BuildID {
			return "", nil
		}
		return fmt.Sprintf("it has the id %s, but %s is needed", idOf(debug), idOf(p)), nil
	}
	have, err := checksum(ctx, debug, debug.Input.Size)
	if err != nil {
		return "", err
	}
	if have != crc {
		return fmt.Sprintf("it has the CRC-32 %08x, but %08x is needed", have, crc), nil
	}
	return "", nil
}

// idOf returns the id of a part for people.
func idOf(p Part) string {
	switch {
	case p.BuildID != "":
		return string(p.BuildID)
	case !p.DebugID.IsZero():
		return p.DebugID.Breakpad()
	}
	return "(none)"
}

// findAlternate finds the supplementary file of dwz.
func (f *Files) findAlternate(_ context.Context, g []Part) ([]Part, error) {
	p := withDWARF(g)
	if p == nil || p.links.AlternateID == "" || slices.ContainsFunc(g, func(o Part) bool { return o.addition && !o.isSplit() }) {
		return nil, nil
	}
	name := filepath.FromSlash(p.links.Alternate)
	paths := beside(p.path, symfile.BaseName(name))
	if filepath.IsAbs(name) {
		paths = append([]string{name}, paths...)
	} else {
		paths = append([]string{filepath.Join(filepath.Dir(p.path), name)}, paths...)
	}
	paths = append(paths, filepath.Join(systemDebug, ".dwz", symfile.BaseName(name)))
	for i, path := range append(paths, systemFile(p.links.AlternateID)...) {
		if slices.Contains(paths[:min(i, len(paths))], path) {
			continue
		}
		o, err := f.openPart(path)
		if err != nil {
			return nil, err
		}
		switch {
		case o == nil:
		case o.BuildID == p.links.AlternateID:
			return []Part{*o}, nil
		default:
			f.warn("%s is not the supplementary file of %s: it has the id %s, but %s is needed", path, p.path, idOf(*o), p.links.AlternateID)
		}
	}
	return nil, nil
}

// withDWARF returns the part that has the debug information of a module, or nil.
func withDWARF(g []Part) *Part {
	for i := range g {
		if p := &g[i]; !p.addition && p.links != nil && p.links.DWARF {
			return p
		}
	}
	return nil
}

// findSplits finds the package of the split units, or else their .dwo files.
func (f *Files) findSplits(_ context.Context, g []Part) ([]Part, error) {
	p := withDWARF(g)
	if p == nil || len(p.links.Splits) == 0 || slices.ContainsFunc(g, Part.isSplit) {
		return nil, nil
	}
	for _, o := range g {
		if o.path == "" || o.addition {
			continue
		}
		for _, path := range slices.Compact([]string{o.path + ".dwp", strings.TrimSuffix(o.path, ".debug") + ".dwp"}) {
			pkg, err := f.openPart(path)
			if err != nil {
				return nil, err
			}
			if pkg == nil {
				continue
			}
			if pkg.isSplit() && (p.refersTo(*pkg) || len(p.links.Splits) == objtab.MaxSplits) {
				return []Part{*pkg}, nil
			}
			f.warn("%s is not the package of %s: it has none of its split units", path, p.path)
		}
	}
	var list []Part
	for i, s := range p.links.Splits {
		if i == maxSplit {
			f.warn("only %d of the %d .dwo files of %s are read; make a package of them with llvm-dwp", maxSplit, len(p.links.Splits), p.path)
			break
		}
		name := filepath.FromSlash(s.Name)
		paths := []string{filepath.Join(filepath.Dir(p.path), filepath.Base(name))}
		if filepath.IsAbs(name) {
			paths = append(paths, name)
		} else {
			paths = append(paths, filepath.Join(filepath.FromSlash(s.Dir), name), filepath.Join(filepath.Dir(p.path), name))
		}
		for _, path := range paths {
			o, err := f.openPart(path)
			if err != nil {
				return nil, err
			}
			if o != nil && o.isSplit() && o.Hash == symfile.SplitID(s.ID) {
				list = append(list, *o)
				break
			}
		}
	}
	return list, nil
}

// beside returns where a debug file of this name may be.
func beside(path, name string) []string {
	dir := filepath.Dir(path)
	list := []string{filepath.Join(dir, name), filepath.Join(dir, ".debug", name)}
	if abs, err := filepath.Abs(dir); err == nil && filepath.VolumeName(abs) == "" {
		list = append(list, filepath.Join(systemDebug, abs, name))
	}
	return list
}

// systemFile returns where distributions install the debug file with a build-id.
func systemFile(id debugid.BuildID) []string {
	if len(id) < 4 {
		return nil
	}
	return []string{filepath.Join(systemDebug, ".build-id", string(id[:2]), string(id[2:])+".debug")}
}

// Files are open local files and the modules that they make up.
type Files struct {
	Modules [][]Part
	// Warnings are about files that were found and not used.
	Warnings []string
	open     []*os.File
}

// openFile opens a file and identifies its objects.
func (f *Files) openFile(path string) ([]Part, error) {
	file, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	list, err := Identify(Input{file, info.Size(), filepath.Base(path)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	f.open = append(f.open, file)
	for i := range list {
		list[i].path = path
	}
	return list, nil
}

// Close closes the files.
func (f *Files) Close() error {
	var errs []error
	for _, o := range f.open {
		errs = append(errs, o.Close())
	}
	return errors.Join(errs...)
}
