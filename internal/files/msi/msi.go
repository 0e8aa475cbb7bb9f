// Package msi reads the tables of Windows Installer packages (.msi) that say which files a package installs,
// and gives access to the cabinets in it.
//
// The compound file around the tables is that of [MS-CFB]. The tables are stored by columns, with strings as
// numbers; the tables File, Component, Directory and Media are those of the documentation of Windows
// Installer.
package msi

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Magic begins every compound file, also those that are no packages.
const Magic = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// Errors of Open.
var (
	// ErrOther means that a file is not an installer package.
	ErrOther = errors.New("msi: not an installer package")
	// ErrPatch means that a file is a patch of installed packages (.msp).
	ErrPatch = errors.New("msi: a patch of installed packages")
	// ErrFormat means that the package is damaged.
	ErrFormat = errors.New("msi: damaged")
	// ErrLimit means that the package is larger than what is read.
	ErrLimit = errors.New("msi: over the limit")
)

// The classes of packages, {000C1084-0000-0000-C000-000000000046}, and patches, {000C1086-…}, as they are stored.
const (
	class      = "\x84" + classes
	patchClass = "\x86" + classes
	classes    = "\x10\x0c\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x46"
)

// moduleCabinet is the cabinet of a merge module (.msm), which has no table Media.
const moduleCabinet = "MergeModule.CABinet"

// Package is an open installer package.
type Package struct {
	// Cabinets are the cabinets with the files, in the order of the files.
	Cabinets []Cabinet
	// Loose are the paths of the files that lie beside the package, in no cabinet.
	Loose []string
	// Programs are streams with programs that run while the package is installed: custom actions.
	Programs []Stream
}

// Cabinet is a cabinet of a package.
type Cabinet struct {
	// Name is that of the stream in the package or of the file beside it.
	Name string
	// Stream has the cabinet; nil: it is a file beside the package.
	Stream *Stream
	// Paths are the paths that files of the cabinet are installed to, with slashes, below the folder of the
	// package, by their names in the cabinet. They differ from one another.
	Paths map[string]string
}

// Stream is a part of a package. Several goroutines may read it.
type Stream struct {
	io.ReaderAt
	Name string
	Size int64
}

// Open reads the tables of a package of size bytes: at most 32 MiB, and nothing of the cabinets. Errors are
// ErrOther, ErrPatch,
// ErrFormat, ErrLimit or those of src.
func Open(src io.ReaderAt, size int64) (*Package, error) {
	c, err := openCompound(src, size)
	if err != nil {
		return nil, err
	}
	p := &Package{}
	d := &database{}
	tables, streams := map[string]*entry{}, map[string]*entry{}
	if err := c.each(func(e *entry) error {
		name, table := decodeName(e.name)
		if table {
			tables[name] = e
		} else {
			streams[name] = e
		}
		return nil
	}); err != nil {
		return nil, err
	}
	d.open = func(name string) ([]byte, error) {
		e := tables[name]
		if e == nil {
			return nil, nil
		}
		if d.read += e.size; d.read > maxTables {
			return nil, fmt.Errorf("%w: tables of more than %d bytes", ErrLimit, maxTables)
		}
		s, err := c.open(e)
		if err != nil {
			return nil, err
		}
		b := make([]byte, e.size)
		return b, readAt(s, b, 0)
	}
	stream := func(name string) (*Stream, error) {
		e := streams[name]
		if e == nil {
			return nil, nil
		}
		s, err := c.open(e)
		return &Stream{s, name, e.size}, err
	}
	if err := d.strings(); err != nil {
		return nil, err
	}
	if err := p.files(d, stream); err != nil {
		return nil, err
	}
	for name := range streams {
		if !strings.HasPrefix(name, "Binary.") {
			continue
		}
		s, err := stream(name)
		if err != nil {
			return nil, err
		}
		p.Programs = append(p.Programs, *s)
	}
	sorting.By(p.Programs, func(a, b Stream) int { return cmp.Compare(a.Name, b.Name) })
	return p, nil
}

// Attributes of files: the documentation of the table File.
const (
	notCompressed = 0x2000
	compressed    = 0x4000
)

// media is a row of the table Media.
type media struct {
	last    int64 // the highest sequence number of a file on it
	cabinet string
	index   int // of the cabinet
}

// files reads the tables of files, and assigns each file to its cabinet.
func (p *Package) files(d *database, stream func(name string) (*Stream, error)) error {
	var all []media
	if err := d.each("Media", func(r *row) error {
		all = append(all, media{last: r.number("LastSequence"), cabinet: r.text("Cabinet")})
		return nil
	}); err != nil {
		return err
	}
	if s, err := stream(moduleCabinet); err != nil || s != nil && len(all) == 0 {
		all = []media{{last: math.MaxInt64, cabinet: "#" + moduleCabinet}}
	}
	sorting.Stable(all, func(a, b media) int { return cmp.Compare(a.last, b.last) })
	if err := p.cabinets(all, stream); err != nil {
		return err
	}
	folders, err := d.folders()
	if err != nil {
		return err
	}
	left, used := maxPaths, map[string]bool{}
	err = d.each("File", func(r *row) error {
		folder, name := folders.path(r.text("Component_")), longName(r.text("FileName"))
		path := folder + name
		if used[path] { // files for different conditions
			path = folder + r.text("File") + "/" + name
		}
		if used[path] {
			return damaged("two files have the path %q", path)
		}
		used[path] = true
		if left -= len(path) + 64; left < 0 {
			return fmt.Errorf("%w: paths of more than %d bytes", ErrLimit, maxPaths)
		}
		i, _ := slices.BinarySearchFunc(all, r.number("Sequence"), func(m media, n int64) int { return cmp.Compare(m.last, n) })
		if i == len(all) || all[i].cabinet == "" || r.number("Attributes")&(notCompressed|compressed) == notCompressed {
			p.Loose = append(p.Loose, path)
			return nil
		}
		p.Cabinets[all[i].index].Paths[r.text("File")] = path
		return nil
	})
	p.Cabinets = slices.DeleteFunc(p.Cabinets, func(c Cabinet) bool { return len(c.Paths) == 0 })
	return err
}

// cabinets opens the cabinets of media.
func (p *Package) cabinets(all []media, stream func(name string) (*Stream, error)) error {
	known := map[string]int{}
	for i := range all {
		m := &all[i]
		var again bool
		if m.index, again = known[m.cabinet]; again {
			continue
		}
		m.index = len(p.Cabinets)
		known[m.cabinet] = m.index
		c := Cabinet{Name: m.cabinet, Paths: map[string]string{}}
		if name, inside := strings.CutPrefix(m.cabinet, "#"); inside {
			s, err := stream(name)
			if err != nil {
				return err
			}
			if s == nil {
				return damaged("the cabinet %q is missing", name)
			}
			c.Name, c.Stream = name, s
		}
		p.Cabinets = append(p.Cabinets, c)
	}
	return nil
}

// longName returns the long form of a name: "SHORT|Long" or only one.
func longName(name string) string {
	if _, long, ok := strings.Cut(name, "|"); ok {
		return long
	}
	return name
}

// folders are the folders of a package.
type folders struct {
	components map[string]string // folder of each component
	parents    map[string]string
	names      map[string]string
	paths      map[string]string // those that were asked for
}

func (d *database) folders() (*folders, error) {
	f := &folders{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
	if err := d.each("Component", func(r *row) error {
		f.components[r.text("Component")] = r.text("Directory_")
		return nil
	}); err != nil {
		return nil, err
	}
	return f, d.each("Directory", func(r *row) error {
		target, _, _ := strings.Cut(r.text("DefaultDir"), ":")
		name := r.text("Directory")
		f.parents[name], f.names[name] = r.text("Directory_Parent"), longName(target)
		return nil
	})
}

// path returns the folder of a component with a slash behind it; empty: that of the package. Names of folders are
// short, so that a cycle ends at maxDepth.
func (f *folders) path(component string) string {
	const maxDepth, maxPath = 64, 4096
	first := f.components[component]
	if path, ok := f.paths[first]; ok {
		return path
	}
	path, folder := "", first
	for range maxDepth {
		parent := f.parents[folder]
		if parent == "" || parent == folder || len(path) > maxPath {
			break
		}
		if name := f.names[folder]; name != "" && name != "." {
			path = name + "/" + path
		}
		folder = parent
	}
	f.paths[first] = path
	return path
}
