package sources

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// maxMembers limits the members of archives that are remembered as possible sources.
const maxMembers = 1_000_000

// Collector finds the source files that the symbol files of a walk name. During the
// walk it is told of symbol files (Object) and of other members of archives (Member);
// then Files yields the sources. Object and Member may be called by many goroutines.
type Collector struct {
	Roots  []Root // folders with sources
	wanted Wanted
	result Tally // set by Files

	mu      sync.Mutex
	members []string // guarded by mu; paths of package scan
}

// Object adds the names of a symbol file of the walk. Without Roots, only files of
// archives count: their sources may be members too.
func (c *Collector) Object(ctx context.Context, f *scan.File, r io.ReaderAt, o objfile.Object) error {
	if len(c.Roots) == 0 && f.Archive == "" || o.Deflated != 0 {
		return nil
	}
	return c.wanted.Add(ctx, io.NewSectionReader(r, o.Offset, o.Size), o.Size, o.Object)
}

// Member notes a file that is no symbol file, by its path in package scan.
func (c *Collector) Member(path string) {
	if !strings.Contains(path, scan.Separator) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.members) < maxMembers {
		c.members = append(c.members, path)
	}
}

// Tally says what became of the names, after Files. Sources counts the names that Files has
// yielded a file for.
func (c *Collector) Tally() Tally { return c.result }

// errLong is the reason why a file is not taken as a source.
var errLong = errors.New("it is longer than 10 MiB, and source files are not")

// errOther is the reason why a file is not the source that its path says.
var errOther = errors.New("its checksum is not the one in the debug information: it was changed after the build")

// Text is a source file that was found.
type Text struct {
	File *scan.File
	// Names are what the debug information calls it; at least one.
	Names []Name
	Bytes []byte
	// Err is why the file is left out; Bytes is empty then.
	Err error
}

// Files yields the sources: those of the folders, then those in the archives of the
// walk, which are walked once more. Each name gets one file: the first that has its
// checksum. Files that are empty are not yielded; those of the folders that have another
// checksum are yielded at the end, with Err, if their names have got no file. yield must
// not keep Text.File without discarding it later. The error is that of yield, of ctx or
// of reading a folder.
func (c *Collector) Files(ctx context.Context, yield func(Text) error) error {
	if c.wanted.Len() == 0 {
		return nil
	}
	done := map[string]bool{} // names that have a file
	defer func() { c.tally(done) }()
	var other []Text // that are not what their names mean
	for _, root := range c.Roots {
		found, err := c.wanted.Find(ctx, root)
		if err != nil {
			return err
		}
		for group := range groups(found) {
			info, err := os.Lstat(group[0].Path)
			if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
				continue // it has gone since the folder was read
			}
			if err != nil {
				return err
			}
			f := scan.OnDisk(group[0].Path, info)
			bad, err := offer(ctx, f, group, done, yield)
			if err != nil {
				return err
			}
			if len(bad) > 0 {
				other = append(other, Text{File: f, Names: bad, Err: errOther})
			}
		}
	}
	if err := c.inArchives(ctx, done, yield); err != nil {
		return err
	}
	for _, t := range other {
		t.Names = slices.DeleteFunc(t.Names, func(n Name) bool { return done[n.Name] })
		if len(t.Names) == 0 {
			continue
		}
		if err := yield(t); err != nil {
			return err
		}
	}
	return nil
}

// groups yields the names of each file.
func groups(found []Candidate) iter.Seq[[]Candidate] {
	sorting.Stable(found, func(a, b Candidate) int { return strings.Compare(a.Path, b.Path) })
	return func(yield func([]Candidate) bool) {
		for len(found) > 0 {
			n := 1
			for n < len(found) && found[n].Path == found[0].Path {
				n++
			}
			if !yield(found[:n]) {
				return
			}
			found = found[n:]
		}
	}
}

// offer yields a file under those of its names that fit it and have no file yet. If none
// fits, it returns those that mean the file by its path and have another checksum.
func offer(ctx context.Context, f *scan.File, found []Candidate, done map[string]bool, yield func(Text) error) (other []Name, err error) {
	found = slices.DeleteFunc(slices.Clone(found), func(n Candidate) bool { return done[n.Name.Name] })
	if len(found) == 0 {
		f.Discard()
		return nil, nil
	}
	t := Text{File: f}
	t.Bytes, t.Err = read(ctx, f)
	if t.Err != nil {
		if ctx.Err() != nil {
			f.Discard()
			return nil, ctx.Err()
		}
		t.Names = append(t.Names, found[0].Name)
		return nil, yield(t)
	}
	if len(t.Bytes) == 0 {
		f.Discard()
		return nil, nil
	}
	for _, n := range found {
		switch {
		case done[n.Name.Name]:
		case n.fits(t.Bytes):
			done[n.Name.Name] = true
			t.Names = append(t.Names, n.Name)
		case !n.Prove:
			other = append(other, n.Name)
		}
	}
	if len(t.Names) == 0 {
		f.Discard()
		return other, nil
	}
	return nil, yield(t)
}

// fits reports whether a text can be the file.
func (c Candidate) fits(text []byte) bool {
	check := c.Name.Check()
	_, _ = check.Write(text) // a hash never fails
	v := check.Verdict()
	return v == Verified || v == Unverified && !c.Prove
}

func read(ctx context.Context, f *scan.File) ([]byte, error) {
	c, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Size() > MaxFile {
		return nil, errLong
	}
	text := make([]byte, c.Size())
	if n, err := c.ReadAt(text, 0); n < len(text) {
		return nil, err
	}
	return text, nil
}

// inArchives yields the members of archives that are sources.
func (c *Collector) inArchives(ctx context.Context, done map[string]bool, yield func(Text) error) error {
	inner := make([]string, len(c.members))
	outer := map[string][]string{} // by path in the innermost archive
	for i, m := range c.members {
		inner[i] = "/" + strings.TrimLeft(m[strings.LastIndex(m, scan.Separator)+len(scan.Separator):], "/")
		outer[inner[i]] = append(outer[inner[i]], m)
	}
	wanted := map[string][]Candidate{} // by path of package scan
	bases, archives := map[string]bool{}, map[string]bool{}
	for _, f := range c.wanted.Match(slices.Compact(slices.Sorted(slices.Values(inner)))) {
		for _, m := range outer[f.Path] {
			wanted[m] = append(wanted[m], f)
			archive, _, _ := strings.Cut(m, scan.Separator)
			archives[archive], bases[symfile.BaseName(m)] = true, true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	var list []string
	for a := range archives {
		list = append(list, a)
	}
	slices.Sort(list)
	opt := scan.Options{Want: func(_ []byte, name string) error {
		if !bases[name] {
			return objfile.ErrNotSymbolFile
		}
		return nil
	}}
	for f, err := range scan.Walk(ctx, list, opt) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, skipped := errors.AsType[*scan.Skip](err); skipped || errors.Is(err, fs.ErrNotExist) {
			continue // the first walk has reported it
		}
		if err == nil {
			_, err = offer(ctx, f, wanted[f.Path], done, yield)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
