package sources

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/symfile"
)

// Limits of a Wanted.
const (
	maxWantedNames = 2_000_000 // different names
	maxTreeFiles   = 5_000_000 // files of a folder that are looked at
)

// Root is a folder with sources.
type Root struct {
	Dir string
	// Prefix is how the names of its files begin in debug information; empty if that
	// is not known.
	Prefix string
}

// ParseRoot reads a folder as it is given on a command line: DIR or DIR=PREFIX.
func ParseRoot(s string) (Root, error) {
	dir, prefix, _ := strings.Cut(s, "=")
	info, err := os.Stat(dir)
	if err != nil {
		return Root{}, err
	}
	if !info.IsDir() {
		return Root{}, &fs.PathError{Op: "read sources in", Path: dir, Err: errors.New("not a folder")}
	}
	return Root{dir, prefix}, nil
}

// ParseRoots is ParseRoot for each text of a list.
func ParseRoots(texts []string) (list []Root, err error) {
	for _, text := range texts {
		r, err := ParseRoot(text)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Tree is what a folder has, for a Matcher.
type Tree struct {
	Dir      string // absolute, without links
	Paths    []string
	Rewrites []Rewrite
}

// Walk lists the files below the folder whose base names are wanted. The folder may be a
// link; links below it are not followed. Files that vanish meanwhile are left out.
func (r Root) Walk(ctx context.Context, wants func(base string) bool) (*Tree, error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	t := &Tree{Dir: real}
	if r.Prefix != "" {
		t.Rewrites = append(t.Rewrites, Rewrite{Old: r.Prefix})
	}
	// A build on this machine names the files where they are.
	t.Rewrites = append(t.Rewrites, Rewrite{Old: dir}, Rewrite{Old: real})
	err = filepath.WalkDir(real, func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && path != real:
			return nil
		case err != nil:
			return err
		case !e.Type().IsRegular() || !wants(e.Name()):
			return nil
		case len(t.Paths) == maxTreeFiles:
			return fs.SkipAll
		}
		rel, err := filepath.Rel(real, path)
		if err == nil {
			t.Paths = append(t.Paths, filepath.ToSlash(rel))
		}
		return err
	})
	return t, err
}

// File returns the file of a path of the tree.
func (t *Tree) File(path string) string { return filepath.Join(t.Dir, filepath.FromSlash(path)) }

// Wanted collects the names of the source files of many objects, and finds the files.
// Its methods may be called by many goroutines.
type Wanted struct {
	mu    sync.Mutex
	names map[string]Name // guarded by mu; by name and checksum
	bases map[string]bool // guarded by mu; folded last parts of the names
}

// Add adds the names of an object. A file without source names, or with damaged ones,
// adds nothing. The error is that of ctx.
func (w *Wanted) Add(ctx context.Context, r io.ReaderAt, size int64, o symfile.Object) error {
	if o.Role&(symfile.Debug|symfile.Executable) == 0 {
		return nil
	}
	list, err := List(ctx, r, size, o, Options{})
	if err != nil {
		return ctx.Err() // a damaged file has no names
	}
	w.take(list.Names)
	return nil
}

// take adds the names that are not embedded.
func (w *Wanted) take(names []Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names, w.bases = map[string]Name{}, map[string]bool{}
	}
	for _, n := range names {
		key := n.Name + "\x00" + string(n.Sum)
		if _, ok := w.names[key]; ok || n.Embedded != nil {
			continue
		}
		if len(w.names) >= maxWantedNames {
			break
		}
		w.names[key] = n
		w.bases[baseOf(n.Name)] = true
	}
}

func baseOf(name string) string { return symfile.Fold(symfile.BaseName(Canonical(name))) }

// Len returns the number of different names.
func (w *Wanted) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.names)
}

// Candidate is a file that may be the one that a name means.
type Candidate struct {
	Name Name
	// Path is the file: on disk, or a path that Match was given.
	Path string
	// Prove is set if several files match equally well: only one with the right sum
	// is the file.
	Prove bool
}

// Match returns the files that names mean among paths; see Matcher.Match.
func (w *Wanted) Match(paths []string, rewrites ...Rewrite) (list []Candidate) {
	names := w.list()
	found, refused := NewMatcher(names, rewrites...).Match(slices.Values(paths))
	for _, f := range found {
		list = append(list, Candidate{Name: names[f.Name], Path: f.Path})
	}
	for _, r := range refused {
		if names[r.Name].Alg == "" {
			continue
		}
		for _, p := range r.Paths {
			list = append(list, Candidate{names[r.Name], p, true})
		}
	}
	return list
}

// list returns the names in their order.
func (w *Wanted) list() []Name {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]Name, 0, len(w.names))
	for _, key := range slices.Sorted(maps.Keys(w.names)) {
		names = append(names, w.names[key])
	}
	return names
}

// Find looks for the wanted files below a folder. Links are not followed.
func (w *Wanted) Find(ctx context.Context, root Root) ([]Candidate, error) {
	tree, err := root.Walk(ctx, w.wants)
	if err != nil {
		return nil, err
	}
	list := w.Match(tree.Paths, tree.Rewrites...)
	for i := range list {
		list[i].Path = tree.File(list[i].Path)
	}
	return list, nil
}

func (w *Wanted) wants(base string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bases[symfile.Fold(base)]
}
