package symstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// PointerRoot is a folder on this machine that contains allowed targets of
// pointers.
type PointerRoot struct {
	// Prefix is the folder as pointers spell it, such as \\server\share. Empty:
	// the same as Dir.
	Prefix string
	Dir    string
}

// Found is what a store has under a key. Paths are relative to the root of the
// store, with slashes. Paths of files that do not exist are empty.
type Found struct {
	Name       string  // in the spelling of the store
	Dir        string  // of the key; of the file in a flat folder
	Plain      string  // the uncompressed file
	Compressed string  // the cabinet
	Pointer    string  // the file.ptr
	Target     Pointer // the content of file.ptr
	Refs       []Ref   // the lines of refs.ptr
}

// Best returns the path that a reader uses: the first that exists of the plain
// file, the cabinet and the pointer, as Microsoft's client looks them up.
func (f *Found) Best() string {
	for _, p := range []string{f.Plain, f.Compressed, f.Pointer} {
		if p != "" {
			return p
		}
	}
	return ""
}

// validRequest reports whether a name and a key can exist in a store.
func validRequest(name, key string) bool {
	return validEntryName(name) && validEntryName(key) && !strings.EqualFold(name, adminDir)
}

// Find looks up a key, in any letter case. It opens paths directly and reads
// folders only if the case differs from the stored one. The error is
// fs.ErrNotExist if there is neither a file nor a pointer. A flat folder has no
// keys; see Query.
func (s *Store) Find(name, key string) (*Found, error) {
	absent := &fs.PathError{Op: "find", Path: truncate.Text(name + "/" + key), Err: fs.ErrNotExist}
	if s.flat || !validRequest(name, key) {
		return nil, absent
	}
	dir, spelled, ok := s.locate(name, key)
	if !ok {
		return nil, absent
	}
	kd, err := s.readKeyDir(dir, spelled)
	if err != nil {
		return nil, err
	}
	f := &Found{
		Name: spelled, Dir: dir, Plain: kd.leaf(spelled),
		Compressed: kd.leaf(layout.CabinetName(spelled)), Pointer: kd.leaf(pointerLeaf), Refs: kd.refs,
	}
	if f.Plain == f.Compressed {
		f.Compressed = "" // the name ends in an underscore
	}
	if f.Pointer != "" {
		data, err := s.readText(f.Pointer)
		if err != nil {
			return nil, err
		}
		f.Target = parsePointer(data)
	}
	if f.Best() == "" {
		return nil, absent
	}
	return f, nil
}

// Open opens a file of a key by its leaf, in any letter case: the name itself,
// the name of its cabinet (layout.CabinetName), file.ptr, refs.ptr, or
// msfzN/name. The error is fs.ErrNotExist for any other leaf and for a file that
// does not exist. Open does not follow pointers; see Follow.
func (s *Store) Open(name, key, leaf string) (*os.File, error) {
	absent := &fs.PathError{Op: "open", Path: truncate.Text(name + "/" + key + "/" + leaf), Err: fs.ErrNotExist}
	if s.flat || !validRequest(name, key) {
		return nil, absent
	}
	sub, base := "", leaf
	if i := strings.IndexByte(leaf, '/'); i >= 0 {
		sub, base = leaf[:i], leaf[i+1:]
		if len(sub) < 5 || symfile.Fold(sub[:4]) != "msfz" || strings.Trim(sub[4:], "0123456789") != "" {
			return nil, absent
		}
	}
	switch symfile.Fold(base) {
	case symfile.Fold(name), symfile.Fold(layout.CabinetName(name)), pointerLeaf, refsLeaf:
	default:
		return nil, absent
	}
	dir, _, ok := s.locate(name, key)
	if !ok {
		return nil, absent
	}
	if sub != "" {
		if sub = s.names.find(s.root, dir, sub); sub == "" {
			return nil, absent
		}
		dir = path.Join(dir, sub)
	}
	found := s.names.find(s.root, dir, base)
	if found == "" {
		return nil, absent
	}
	f, err := s.openRegular(path.Join(dir, found))
	if errors.Is(err, ErrExists) {
		return nil, absent
	}
	return f, err
}

// Follow opens the file that a pointer leads to. The file must lie inside the
// store or one of Options.PointerRoots, after all links are followed. Otherwise
// the error wraps ErrPointer; it also wraps fs.ErrNotExist if the path is allowed
// but the file does not exist.
func (s *Store) Follow(f *Found) (*os.File, error) {
	target := f.Target.Target
	switch {
	case f.Pointer == "" || target == "":
		return nil, fmt.Errorf("%w: %s has no path (%s): %w", ErrPointer, f.Dir, truncate.Text(f.Target.Message), fs.ErrNotExist)
	case strings.Contains(target, "://"):
		return nil, fmt.Errorf("%w: %q is a URL, not a file path", ErrPointer, truncate.Text(target))
	}
	slashed := strings.ReplaceAll(target, `\`, "/")
	if isAbsolute(slashed) {
		return s.openTarget(target, slashed)
	}
	// The base of a relative path is not documented. One client uses the root
	// of the store.
	var first error
	for _, base := range []string{s.dir, filepath.Join(s.dir, filepath.FromSlash(f.Dir))} {
		file, err := s.openTarget(target, filepath.ToSlash(filepath.Join(base, filepath.FromSlash(slashed))))
		if err == nil {
			return file, nil
		}
		if first == nil || errors.Is(err, fs.ErrNotExist) && !errors.Is(first, fs.ErrNotExist) {
			first = err
		}
	}
	return nil, first
}

// isAbsolute reports whether a path with slashes begins at a root of any system.
func isAbsolute(p string) bool {
	return strings.HasPrefix(p, "/") || len(p) > 1 && p[1] == ':'
}

// quoted returns the target of a pointer for a message. Unlike those of %q, its backslashes
// are single.
func quoted(target string) string {
	return strings.ReplaceAll(strconv.Quote(truncate.Text(target)), `\\`, `\`)
}

// openTarget opens an absolute path inside the allowed folders.
func (s *Store) openTarget(target, slashed string) (*os.File, error) {
	roots := append([]PointerRoot{{Dir: s.dir}}, s.opt.PointerRoots...)
	refused := fmt.Errorf("%w: %s lies outside the allowed folders", ErrPointer, quoted(target))
	for _, r := range roots {
		prefix := r.Prefix
		if prefix == "" {
			prefix = r.Dir
		}
		rest, ok := below(slashed, strings.TrimRight(strings.ReplaceAll(prefix, `\`, "/"), "/"))
		if !ok {
			continue
		}
		f, err := openBelow(r.Dir, rest)
		if err == nil {
			return f, nil
		}
		refused = fmt.Errorf("%w: %s: %w", ErrPointer, quoted(target), err)
	}
	return nil, refused
}

// below returns the part of a path below a folder, in any letter case.
func below(p, dir string) (string, bool) {
	if len(p) <= len(dir) || !strings.EqualFold(p[:len(dir)], dir) || p[len(dir)] != '/' {
		return "", false
	}
	return strings.TrimLeft(p[len(dir):], "/"), true
}

// openBelow opens a regular file below a folder. The letter case of the path may
// differ from the disk.
func openBelow(dir, rest string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rest = path.Clean(rest)
	info, err := root.Stat(rest)
	if errors.Is(err, fs.ErrNotExist) {
		names := listings{frozen: true}
		spelled := "."
		for part := range strings.SplitSeq(rest, "/") {
			found := names.find(root, spelled, part)
			if found == "" {
				return nil, err
			}
			spelled = path.Join(spelled, found)
		}
		rest = spelled
		info, err = root.Stat(rest)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errInTheWay(rest)
	}
	return root.Open(rest)
}

// Answer is the answer of Query for one key of a file.
type Answer struct {
	Key   Key
	Found *Found // nil if the store has nothing under the key
}

// Query reports whether the store has a file: under each of its keys or, in a flat
// folder, as a file with the same name and key. name is a local file; Query reads
// its keys as Identify does, which also describes all. The error is a failure to
// read these keys or the store.
func (s *Store) Query(name string, all bool) ([]Answer, error) {
	keys, err := IdentifyFile(name, all)
	if err != nil {
		return nil, err
	}
	var list []Answer
	for _, k := range keys {
		a := Answer{Key: k}
		if s.flat {
			a.Found = findFlat(s, k, all)
		} else if a.Found, err = s.Find(k.Name, k.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return list, err
		}
		list = append(list, a)
	}
	return list, nil
}

// IdentifyFile is Identify for the local file called name.
func IdentifyFile(name string, all bool) ([]Key, error) {
	f, err := durable.OpenShared(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return Identify(f, info.Size(), name, all)
}

// findFlat looks for a key in the folders that the debugger searches.
func findFlat(s *Store, k Key, all bool) *Found {
	ext := strings.TrimPrefix(path.Ext(k.Name), ".")
	for _, dir := range []string{path.Join("symbols", ext), path.Join(".", ext), "."} {
		found := s.names.find(s.root, dir, k.Name)
		if found == "" {
			continue
		}
		p := path.Join(dir, found)
		keys, err := IdentifyFile(filepath.Join(s.dir, filepath.FromSlash(p)), all)
		if err != nil {
			continue // a different file with the same name
		}
		for _, have := range keys {
			if strings.EqualFold(have.Key, k.Key) {
				return &Found{Name: found, Dir: dir, Plain: p}
			}
		}
	}
	return nil
}
