package srclink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/files/sources"
)

// StreamOptions say what URLs a new stream has.
type StreamOptions struct {
	Base string // URL of the server
	// Roots are the folders with the source files. A file that is found there gets a
	// URL with the hash of its content.
	Roots []sources.Root
	// Product and Version give all other files a URL with these labels; without them
	// these files have none. If a root has a prefix, only names that begin with one
	// get such a URL.
	Product, Version string
}

// Made is a source file and its URL in the new stream.
type Made struct {
	Name   string `json:"name"`
	Path   string `json:"path,omitempty"`   // the file below a root
	SHA256 string `json:"sha256,omitempty"` // of its content
	URL    string `json:"url,omitempty"`    // empty if the stream has none
	// Verified reports that the content has the checksum that the compiler noted.
	Verified bool `json:"verified,omitempty"`
	// Reason says why a file that was found, or has a name for a URL, is left out.
	Reason string `json:"reason,omitempty"`
}

// Make makes a source server stream. made has all names of the PDB; the text is nil if
// none of them gets a URL.
func (x *Index) Make(ctx context.Context, opt StreamOptions) (text []byte, made []Made, err error) {
	if err := x.writable(); err != nil {
		return nil, nil, err
	}
	base, err := CheckBase(opt.Base)
	if err != nil {
		return nil, nil, err
	}
	byPath, err := x.find(ctx, opt.Roots)
	if err != nil {
		return nil, nil, err
	}
	var lines []Line
	for _, name := range x.Names {
		m := Made{Name: name}
		f, listed := byPath[sources.Canonical(name)]
		path := ""
		switch {
		case !listed:
			m.Reason = "not a source file"
		case !Fits(name):
			m.Reason = "the name has characters that a source server stream cannot hold"
		case f.path != "":
			m.Path, m.SHA256, m.Verified = f.path, fmt.Sprintf("%x", f.sum), f.verified
			path = HashPath(f.sum, name)
		case f.reason != "":
			m.Path, m.Reason = "", f.reason
		case opt.Product == "":
			m.Reason = "not found"
		case !below(name, opt.Roots):
			m.Reason = "not below a prefix"
		default:
			if path, err = LabelPath(opt.Product, opt.Version, sources.Canonical(name)); err != nil {
				m.Reason = err.Error()
			}
		}
		if path != "" {
			m.URL = base + "/-/src/" + path
			lines = append(lines, Line{Name: name, Path: path})
		}
		made = append(made, m)
	}
	if len(lines) == 0 {
		return nil, made, nil
	}
	var b bytes.Buffer
	if err := WriteScript(&b, base, lines); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), made, nil
}

// below reports whether a name begins with the prefix of a root; without prefixes all do.
func below(name string, roots []sources.Root) bool {
	any := false
	name = strings.ToLower(sources.Canonical(name))
	for _, r := range roots {
		if r.Prefix == "" {
			continue
		}
		any = true
		if rest, ok := strings.CutPrefix(name, strings.ToLower(sources.Canonical(r.Prefix))); ok && strings.HasPrefix(rest, "/") {
			return true
		}
	}
	return !any
}

// located is a name and the file that was found for it.
type located struct {
	path     string
	sum      [sha256.Size]byte
	verified bool
	reason   string
}

// find looks for the source files below the roots. The result has an entry for each
// name, by its canonical path.
func (x *Index) find(ctx context.Context, roots []sources.Root) (map[string]located, error) {
	all := map[string]located{}
	for _, n := range x.list {
		all[sources.Canonical(n.Name)] = located{}
	}
	for _, root := range roots {
		// The first root that has a file counts.
		var names []sources.Name
		for _, n := range x.list {
			if n.Embedded == nil && all[sources.Canonical(n.Name)].path == "" {
				names = append(names, n)
			}
		}
		if err := findBelow(ctx, root, names, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// findBelow looks for names below one root.
func findBelow(ctx context.Context, root sources.Root, names []sources.Name, all map[string]located) error {
	wants := sources.NewMatcher(names).Wants
	tree, err := root.Walk(ctx, wants)
	if err != nil {
		return err
	}
	m := sources.NewMatcher(names, tree.Rewrites...)
	dir, err := os.OpenRoot(tree.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	open := func(path string) (io.ReadCloser, error) {
		f, err := dir.Open(filepath.FromSlash(path))
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && info.Size() > sources.MaxFile {
			err = fmt.Errorf("%s has %d bytes: %w", path, info.Size(), sources.ErrTooLarge)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	found, refused, err := m.Resolve(ctx, slices.Values(tree.Paths), open)
	if err != nil {
		return err
	}
	for _, f := range found {
		l := located{path: tree.File(f.Path), verified: f.Verdict == sources.Verified}
		if l.sum, err = hash(f.Path, open); errors.Is(err, sources.ErrTooLarge) {
			l = located{reason: err.Error()}
		} else if err != nil {
			return err
		}
		all[sources.Canonical(names[f.Name].Name)] = l
	}
	for _, r := range refused {
		all[sources.Canonical(names[r.Name].Name)] = located{reason: strings.Join(r.Paths, ", ") + ": " + r.Reason}
	}
	return nil
}

// hash returns the SHA-256 of a file.
func hash(path string, open func(string) (io.ReadCloser, error)) (sum [sha256.Size]byte, err error) {
	f, err := open(path)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, sources.MaxFile+1))
	if err == nil && n > sources.MaxFile {
		err = fmt.Errorf("%s: %w", path, sources.ErrTooLarge)
	}
	return [sha256.Size]byte(h.Sum(nil)), err
}

// Counts says in words what became of the names: the number of URLs, and how many have
// none for which reason.
func Counts(made []Made) (urls int, reasons []string) {
	n := map[string]int{}
	for _, m := range made {
		if m.URL != "" {
			urls++
		} else {
			n[m.Reason]++
		}
	}
	for _, r := range slices.Sorted(maps.Keys(n)) {
		reasons = append(reasons, fmt.Sprintf("%d: %s", n[r], r))
	}
	return urls, reasons
}
