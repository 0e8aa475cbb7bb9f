package mstools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symstore"
)

// onWindows means that this machine opens paths with drives and shares.
const onWindows = runtime.GOOS == "windows"

// pathMap maps paths on the command line and in records to folders of this
// machine: \\server\share=/mnt/share.
type pathMap []symstore.PointerRoot

// parsePathMap reads the values of --map.
func parsePathMap(values []string) (pathMap, error) {
	var m pathMap
	for _, v := range values {
		prefix, dir, ok := strings.Cut(v, "=")
		if !ok || prefix == "" || dir == "" {
			return nil, term.UsageError(fmt.Sprintf(`--map wants PREFIX=FOLDER, such as '\\server\share=/mnt/share', not %q`, v))
		}
		m = append(m, symstore.PointerRoot{Prefix: prefix, Dir: dir})
	}
	return m, nil
}

// mapped returns the local path of a path that the map covers.
func (m pathMap) mapped(p string) (string, bool) {
	slashed := strings.ReplaceAll(p, `\`, "/")
	for _, r := range m {
		prefix := strings.TrimRight(strings.ReplaceAll(r.Prefix, `\`, "/"), "/")
		if len(slashed) < len(prefix) || !strings.EqualFold(slashed[:len(prefix)], prefix) {
			continue
		}
		rest := slashed[len(prefix):]
		if rest == "" || rest[0] == '/' {
			return filepath.Join(r.Dir, filepath.FromSlash(rest)), true
		}
	}
	return "", false
}

// local returns the local path of a path on the command line. Outside Windows, a
// path with a drive or a share must be in the map. Backslashes in a relative path
// count as slashes.
func (m pathMap) local(p string) (string, error) {
	if dir, ok := m.mapped(p); ok {
		return dir, nil
	}
	if onWindows || !strings.Contains(p, `\`) && !hasDrive(p) {
		return p, nil
	}
	if _, err := os.Lstat(p); err == nil {
		return p, nil
	}
	if isWindowsPath(p) {
		return "", fmt.Errorf("%s is a Windows path, which this machine cannot open; mount the share and name the folder: --map '%s=/mnt/…': %w",
			p, windowsRoot(p), fs.ErrNotExist)
	}
	return strings.ReplaceAll(p, `\`, "/"), nil
}

func hasDrive(p string) bool {
	return len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/') && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
}

// isWindowsPath reports whether a path begins with a drive or a share.
func isWindowsPath(p string) bool { return hasDrive(p) || strings.HasPrefix(p, `\\`) }

// windowsRoot returns the drive or share of a path.
func windowsRoot(p string) string {
	if hasDrive(p) {
		return p[:2]
	}
	parts := strings.SplitN(strings.TrimLeft(p, `\`), `\`, 3)
	return `\\` + strings.Join(parts[:min(2, len(parts))], `\`)
}

// inputs finds the files that /f names.
type inputs struct {
	paths   pathMap
	recurse bool
	// skip is the folder of the store, which is not searched; it may be empty.
	skip string
	// absolute records every file by its absolute path.
	absolute bool
	// problem is called for folders that cannot be read, note for patterns
	// without a match.
	problem func(path string, err error)
	note    func(text string)

	skipInfo fs.FileInfo
	seen     map[string]bool
}

// all yields the files of all patterns, each once. It also yields a named file
// that does not exist; opening it gives the error.
func (in *inputs) all(patterns []string) iter.Seq2[symstore.File, error] {
	return func(yield func(symstore.File, error) bool) {
		in.seen = map[string]bool{}
		if in.skip != "" {
			in.skipInfo, _ = os.Stat(in.skip) // fails if the store is yet to be created
		}
		once := func(f symstore.File) bool {
			if in.seen[f.Path] {
				return true
			}
			in.seen[f.Path] = true
			return yield(f, nil)
		}
		for _, p := range patterns {
			if list, ok := strings.CutPrefix(p, "@"); ok && !exists(p) {
				lines, err := in.response(list)
				if err != nil {
					yield(symstore.File{}, err)
					return
				}
				for _, line := range lines {
					if !in.one(line, once) {
						return
					}
				}
				continue
			}
			if !in.one(p, once) {
				return
			}
		}
	}
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// response reads a file of patterns, one per line, with or without quotes.
func (in *inputs) response(name string) ([]string, error) {
	local, err := in.paths.local(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(local)
	if err != nil {
		return nil, fmt.Errorf("response file: %w", err)
	}
	defer f.Close()
	text, err := term.ReadText(f)
	if err != nil {
		return nil, fmt.Errorf("response file %s: %w", name, err)
	}
	var list []string
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<16)
	for lines.Scan() {
		line := strings.Trim(lines.Text(), " \t\r\x1a")
		if len(line) > 1 && line[0] == '"' && line[len(line)-1] == '"' {
			line = line[1 : len(line)-1]
		}
		if line != "" {
			list = append(list, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("response file %s: %w", name, err)
	}
	return list, nil
}

// one yields the files of one pattern: a file, the files of a folder, or those
// whose names match a pattern with * and ?. With recurse it searches the folders
// below, too.
func (in *inputs) one(pattern string, yield func(symstore.File) bool) bool {
	local, err := in.paths.local(pattern)
	if err != nil {
		in.problem(pattern, err)
		return true
	}
	record := func(p string) string { return "" }
	if _, ok := in.paths.mapped(pattern); ok {
		record = in.paths.recorded
	} else if in.absolute {
		record = absolute
	}
	file := func(p string) bool { return yield(symstore.File{Path: p, Source: record(p)}) }
	info, err := os.Stat(local)
	switch {
	case err == nil && info.IsDir():
		ok, _ := in.walk(filepath.Clean(local), "*", file)
		return ok
	case err == nil:
		return file(filepath.Clean(local))
	}
	dir, name := filepath.Split(local)
	dir = filepath.Clean(dir)
	if !hasWildcard(local) && !(in.recurse && isDir(dir)) {
		return file(filepath.Clean(local))
	}
	found := 0
	for _, d := range globDirs(dir) {
		ok, n := in.walk(d, name, file)
		if found += n; !ok {
			return false
		}
	}
	switch {
	case found > 0:
	case hasWildcard(local):
		in.note("no file matches " + pattern)
	default:
		return file(filepath.Clean(local))
	}
	return true
}

// recorded returns the form of a local path for the records: the path that the map
// maps to it, or the absolute path.
func (m pathMap) recorded(p string) string {
	for _, r := range m {
		rel, err := filepath.Rel(r.Dir, p)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			continue
		}
		rel = filepath.ToSlash(rel)
		sep := "/"
		if strings.Contains(r.Prefix, `\`) || hasDrive(r.Prefix+`\`) {
			sep = `\`
			rel = strings.ReplaceAll(rel, "/", sep)
		}
		if rel == "." {
			return r.Prefix
		}
		return strings.TrimRight(r.Prefix, `\/`) + sep + rel
	}
	return absolute(p)
}

func absolute(p string) string {
	if abs, err := filepath.Abs(p); err == nil {
		return abs
	}
	return p
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// walk yields the files in a folder whose names match and, with recurse, those in
// the folders below. It does not follow links to folders, which may form a loop.
func (in *inputs) walk(dir, pattern string, yield func(string) bool) (more bool, found int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		in.problem(dir, err)
		return true, 0
	}
	var below []string
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := os.Stat(p)
			if err != nil || info.IsDir() {
				continue
			}
			mode = info.Mode().Type()
		}
		switch {
		case mode.IsDir():
			below = append(below, p)
		case mode.IsRegular() && wildcardMatch(pattern, e.Name()):
			found++
			if !yield(p) {
				return false, found
			}
		}
	}
	if !in.recurse {
		return true, found
	}
	for _, p := range below {
		if info, err := os.Stat(p); err == nil && in.skipInfo != nil && os.SameFile(info, in.skipInfo) {
			continue
		}
		ok, n := in.walk(p, pattern, yield)
		if found += n; !ok {
			return false, found
		}
	}
	return true, found
}

// globDirs returns the folders that match a path with wildcards.
func globDirs(dir string) []string {
	if !hasWildcard(dir) || exists(dir) {
		return []string{dir}
	}
	parent, name := filepath.Split(dir)
	var list []string
	for _, p := range globDirs(filepath.Clean(parent)) {
		entries, err := os.ReadDir(p)
		if err != nil {
			continue // not a folder
		}
		for _, e := range entries {
			if sub := filepath.Join(p, e.Name()); wildcardMatch(name, e.Name()) && isDir(sub) {
				list = append(list, sub)
			}
		}
	}
	return list
}

func hasWildcard(s string) bool { return strings.ContainsAny(s, "*?") }

// wildcardMatch reports whether a name matches a pattern by the rules of Windows:
// letter case does not matter, and *.* matches any name.
func wildcardMatch(pattern, name string) bool {
	return pattern == "*.*" || glob.Match(strings.ToLower(pattern), strings.ToLower(name))
}

// goodLines filters the unusable lines of an index out. It calls bad for each.
func goodLines(files iter.Seq2[symstore.File, error], bad func(error)) iter.Seq2[symstore.File, error] {
	return func(yield func(symstore.File, error) bool) {
		for f, err := range files {
			var line *symstore.LineError
			if errors.As(err, &line) {
				bad(err)
			} else if !yield(f, err) {
				return
			}
		}
	}
}

// openIndexed yields the files of an index file (/y).
func (m pathMap) openIndexed(index, share string) (iter.Seq2[symstore.File, error], io.Closer, error) {
	local, err := m.local(index)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(local)
	if err != nil {
		return nil, nil, err
	}
	dir := share
	if d, ok := m.mapped(share); ok {
		dir = d
	} else if share != "" && (onWindows || !isWindowsPath(share)) {
		if dir, err = m.local(share); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		share = absolute(dir)
		dir = share
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, nil, errors.Join(fmt.Errorf("%s is a folder", index), f.Close())
	}
	return symstore.FromIndex(symstore.ReadIndex(f), share, dir), f, nil
}
