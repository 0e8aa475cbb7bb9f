package want

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Layouts are the arguments of Places: how downloaded files are arranged in a
// folder.
var Layouts = []string{"flat", "gdb", "symstore"}

// Places returns a function that returns the path of a wanted file in a folder,
// with the separators of this system.
//
// In the layout flat all files are in the folder itself; files of equal names get
// their ids appended. In gdb, ELF files are below .build-id, where GDB looks with
// "set debug-file-directory"; in symstore, files are at NAME/KEY/NAME. Files that a
// layout has no path for are placed as in flat.
//
// Names from dumps, manifests and folders are not trusted: the function returns an
// error for names that a shell, a debugger or this program could mistake for
// something else.
func Places(wants []Want, how string) func(Want) (string, error) {
	flat := flatNames(wants)
	return func(w Want) (string, error) {
		if w.From != "" {
			if err := safeName(w.Name); err != nil {
				return "", fmt.Errorf("%s: %w; to write it, name a file: symdepot get NAME ID --output FILE", w.From, err)
			}
		}
		path := ""
		switch how {
		case "gdb":
			path = gdbPath(w)
		case "symstore":
			path = storePath(w)
		}
		if path == "" {
			return flat(w), nil
		}
		return filepath.Localize(path)
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

// gdbPath is the path below .build-id, or "".
func gdbPath(w Want) string {
	id := string(w.Object.BuildID)
	if id == "" {
		if parts := strings.Split(w.Path, "/"); len(parts) == 3 && parts[0] == "buildid" {
			id = parts[1]
		}
	}
	if len(id) < 3 {
		return ""
	}
	path := ".build-id/" + id[:2] + "/" + id[2:]
	if w.Object.Role&symfile.Debug != 0 || strings.HasSuffix(w.Path, "/debuginfo") {
		path += ".debug"
	}
	return path
}

// storePath is the path in a symbol store, or "".
func storePath(w Want) string {
	for _, l := range []layout.Layout{layout.SymStore, layout.SSQP} {
		if p := l.Paths(w.Object); len(p) > 0 {
			return p[0]
		}
	}
	if parts := strings.Split(w.Path, "/"); len(parts) == 3 && parts[0] == parts[2] {
		return w.Path
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

// Debugger returns the command that makes a debugger use the files that were
// written to dir, or "" if there is none. dump is the dump that the files are for,
// if any; program is the path of its first program.
func Debugger(wants []Want, how, dir, dump, program string) string {
	var elf, windows, mac bool
	for _, w := range wants {
		switch w.Object.Kind {
		case symfile.ELF:
			elf = true
		case symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.DBG:
			windows = true
		case symfile.MachO:
			mac = true
		}
	}
	switch {
	case windows && how == "symstore":
		return "WinDbg: .sympath srv*" + dir
	case windows:
		return "WinDbg: .sympath " + dir
	case elf && how == "gdb":
		return strings.TrimSpace("gdb -iex 'set debug-file-directory " + dir + "' " + program + " " + dump)
	case elf && program != "" && how == "flat":
		return strings.TrimSpace("gdb " + program + " " + dump)
	case elf:
		return "gdb: add-symbol-file, or use symdepot get --layout gdb"
	case mac:
		return "lldb: settings append target.debug-file-search-paths " + dir
	}
	return ""
}
