package needed

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Places returns a function that returns the path of a wanted file in a folder of
// a layout, with the separators of this system.
//
// In the layout Flat all files are in the folder itself; files of equal names get
// their ids appended. In other layouts each file has the path under which the
// debuggers of that layout look for it. Files that a layout has no path for are
// placed as in Flat.
//
// Names from dumps, manifests and folders are not trusted: the function returns an
// error for names that a shell, a debugger or this program could mistake for
// something else.
func Places(wants []Want, l layout.Layout) func(Want) (string, error) {
	flat := flatNames(wants)
	return func(w Want) (string, error) {
		if w.From != "" {
			if err := safeName(w.Name); err != nil {
				return "", fmt.Errorf("%s: %w; to write it, name a file: symdepot get NAME ID --output FILE", w.From, err)
			}
		}
		if p := placeIn(l, w); p != "" {
			return filepath.Localize(p)
		}
		return flat(w), nil
	}
}

// safeName refuses file names that are hidden, look like an option, or name a
// stream of an NTFS file.
func safeName(name string) error {
	if name == "" || name[0] == '.' || name[0] == '-' || strings.Contains(name, ":") {
		return fmt.Errorf("unsafe file name %q", name)
	}
	return nil
}

// placeIn returns the path of a file in a tree of a layout, with slashes; "" if the
// layout has none.
func placeIn(l layout.Layout, w Want) string {
	if p := l.Paths(w.Object); len(p) > 0 {
		return path.Join(l.Root(), p[0])
	}
	req, err := w.Request()
	if err != nil {
		return ""
	}
	server := layout.Dialect{Layout: l, TwoTier: l.Tiers() == layout.TiersTwo}
	if p := server.Places(&req); len(p) > 0 {
		return p[0].Key()
	}
	return ""
}

// flatNames returns the names of wanted files beside each other. A dump needs
// programs and their debug information under one name and id, and sometimes
// several programs of one name.
func flatNames(wants []Want) func(Want) string {
	label := func(w Want) string {
		name, err := filepath.Localize(w.Name)
		if err != nil || name == "." {
			name = "symbols-" + w.ID
		}
		if len(wants) > 1 && strings.HasSuffix(w.Path, "/debuginfo") {
			name += ".debug"
		}
		return name
	}
	names := map[string]int{}
	for _, w := range wants {
		names[symfile.Fold(label(w))]++
	}
	return func(w Want) string {
		name := label(w)
		if names[symfile.Fold(name)] > 1 {
			name += "-" + w.ID
		}
		return name
	}
}

// DebuggerFile returns the command that makes a debugger use a wanted file that was
// written as file, or "" if there is none. dump is what the file is for, if anything.
func DebuggerFile(w Want, file, dump string) string {
	name := filepath.Base(file)
	switch w.Object.Kind {
	case symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.DBG:
		if !strings.EqualFold(name, w.Name) {
			return "WinDbg: name it " + w.Name + ", then .sympath " + filepath.Dir(file)
		}
		return "WinDbg: .sympath " + filepath.Dir(file)
	case symfile.ELF:
		if w.What() == partProgram {
			return strings.TrimSpace("gdb " + file + " " + dump)
		}
		return strings.TrimSpace("gdb -s " + file + " -e " + cmp.Or(dump, "PROGRAM"))
	case symfile.MachO:
		return "lldb: target symbols add " + file
	}
	return ""
}

// Debugger returns the command that makes a debugger use the files that were
// written to dir in a layout, or "" if there is none. dump is the dump that the
// files are for, if any; program is the path of its first program.
func Debugger(wants []Want, l layout.Layout, dir, dump, program string) string {
	var elf, windows, mac, placed bool
	for _, w := range wants {
		switch w.Object.Kind {
		case symfile.ELF:
			elf = true
		case symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.DBG:
			windows = true
		case symfile.MachO:
			mac = true
		}
		placed = placed || placeIn(l, w) != ""
	}
	switch {
	case windows && !placed:
		return "WinDbg: .sympath " + dir
	case windows && l.ForSymsrv():
		return "WinDbg: .sympath srv*" + dir
	case elf && l.Root() != "":
		return strings.TrimSpace("gdb -iex 'set debug-file-directory " + dir + "' " + program + " " + dump)
	case elf && program != "" && !placed:
		return strings.TrimSpace("gdb " + program + " " + dump)
	case elf:
		return "gdb: add-symbol-file, or use symdepot get --layout gdb"
	case mac && !placed:
		return "lldb: settings append target.debug-file-search-paths " + dir
	}
	return ""
}
