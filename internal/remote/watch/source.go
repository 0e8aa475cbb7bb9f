package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of looking for a source file.
const (
	sourceObjects  = 4  // objects of one id whose names are read
	sourcePackages = 16 // packages that are opened
	sourceGuesses  = 64 // source packages whose names are compared
)

// Source opens a source file that the debug information of an object names, by an id of
// the object and the path. It comes from the object itself, from the watched folder if
// that lies where the object was built, from a package that has exactly this path, or from
// a Debian source package. A miss is fs.ErrNotExist.
func (f *Folder) Source(ctx context.Context, req layout.Request) (*File, error) {
	keys := sources.Keys(req.Part)
	if len(keys) == 0 {
		return nil, fs.ErrNotExist
	}
	for _, l := range req.Lookups {
		l.Role |= symfile.Debug
		hits, err := f.lookup(ctx, l)
		if err != nil {
			return nil, err
		}
		for i := range hits[:min(len(hits), sourceObjects)] {
			h := &hits[i]
			list, err := f.namesOf(ctx, h)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				n, ok := list.value[key]
				if !ok {
					continue
				}
				a, err := (&seeker{f, h, key, n}).find(ctx)
				if !errors.Is(err, fs.ErrNotExist) {
					return a, err
				}
			}
		}
	}
	return nil, fs.ErrNotExist
}

// named is what debug information says of one source file.
type named struct {
	alg      string
	sum      []byte
	embedded bool
}

// nameList has the names of one object, by canonical path.
type nameList = kept[map[string]named]

// namesOf returns the names that the debug information of an object has. An object
// without any has an empty list. One that cannot be read now is fs.ErrNotExist.
func (f *Folder) namesOf(ctx context.Context, h *hit) (*nameList, error) {
	key := etag(f.path(&h.File), h.Member, stampOf(h.File)) + string(h.Data)
	have, err := f.lists.get(ctx, key)
	if have != nil || err != nil {
		return have, err
	}
	var made *nameList
	defer func() { f.lists.put(key, made) }()
	list := &nameList{key: key, value: map[string]named{}}
	err = f.listed(ctx, h, func(l *sources.Listed) error {
		for _, n := range l.Names {
			name := sources.Canonical(n.Name)
			list.value[name] = named{n.Alg, n.Sum, n.Embedded != nil}
			list.bytes += len(name) + len(n.Sum) + 100
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil, errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errGone):
		made = list
		return made, nil
	}
	// What could not be read now may be readable later: an empty list must not be remembered.
	f.opt.Log.Info("the names of source files cannot be read", "folder", f.where,
		"path", within(h.File.Dir, h.File.Name), "member", h.Member, "error", err)
	return nil, fs.ErrNotExist
}

// errGone means that the file of an object cannot be read now.
var errGone = errors.New("the file of the object has changed or gone")

// listsAtOnce is the number of objects whose names are read at the same time.
const listsAtOnce = 2

// listed opens an object and calls use with the source files that it names, while it is
// open. The error wraps fs.ErrNotExist if it names none.
func (f *Folder) listed(ctx context.Context, h *hit, use func(*sources.Listed) error) error {
	a, err := f.openFirst(ctx, []hit{*h})
	if err != nil {
		return errors.Join(errGone, err)
	}
	defer a.Close()
	if err := a.complete(ctx); err != nil {
		return errors.Join(errGone, err)
	}
	var opt sources.Options
	if alt := f.alternate(ctx, a); alt != nil {
		defer alt.Close()
		if err := alt.complete(ctx); err != nil {
			return errors.Join(errGone, err)
		}
		opt.Others = objtab.ELFFiles{Alternate: objtab.File{Reader: alt, Size: alt.Size}}
	}
	// The compressed sections of an object are in memory while its names are read.
	select {
	case f.listing <- struct{}{}:
		defer func() { <-f.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	list, err := sources.List(ctx, a, a.Size, a.Object, opt)
	if err == nil {
		err = use(list)
	}
	if a.Changed() {
		return errors.Join(errGone, err)
	}
	return err
}

// alternate opens the supplementary file that dwz made for an ELF file; nil if it has none,
// or if it is not here.
func (f *Folder) alternate(ctx context.Context, a *File) *File {
	if a.Object.Kind != symfile.ELF {
		return nil
	}
	elf, err := objfile.OpenELF(a, a.Size)
	if err != nil {
		return nil
	}
	_, id, err := elf.AltLink()
	if err != nil {
		return nil
	}
	hits, err := f.lookup(ctx, symfile.Lookup{ID: symfile.Fold(string(id)), Role: symfile.Debug, IDKind: symfile.BuildIDs})
	if err != nil {
		return nil
	}
	alt, err := f.openFirst(ctx, hits)
	if err != nil {
		return nil
	}
	return alt
}

// seeker looks for one source file.
type seeker struct {
	f    *Folder
	h    *hit
	name string // canonical
	named
}

func (s *seeker) find(ctx context.Context) (*File, error) {
	if s.embedded {
		a, err := s.inside(ctx)
		if !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
	}
	for _, try := range []func(context.Context) (*File, error){s.onDisk, s.inPackages, s.inSourcePackages} {
		a, err := try(ctx)
		if !errors.Is(err, fs.ErrNotExist) {
			return a, err
		}
	}
	return nil, fs.ErrNotExist
}

// inside returns the text that the object itself has.
func (s *seeker) inside(ctx context.Context) (*File, error) {
	var text []byte
	err := s.f.listed(ctx, s.h, func(l *sources.Listed) error {
		for _, n := range l.Names {
			if n.Embedded == nil || sources.Canonical(n.Name) != s.name {
				continue
			}
			r, err := n.Embedded()
			if err != nil {
				return err
			}
			text, err = io.ReadAll(r)
			return errors.Join(err, r.Close())
		}
		return fs.ErrNotExist
	})
	if err != nil {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	disk := s.f.path(&s.h.File)
	a := &File{
		ReaderAt: &memory{text}, Size: int64(len(text)), ModTime: time.Unix(0, s.h.File.MTime), Path: s.name, Archive: disk,
		close: func() error { return nil },
	}
	a.ETag = etag(disk, s.name, stampOf(s.h.File))
	return s.label(a), nil
}

// label sets the names of an answer.
func (s *seeker) label(a *File) *File {
	a.Name = symfile.BaseName(s.name)
	a.Object = symfile.Object{Kind: symfile.SHA1, Role: symfile.Other, Name: a.Name}
	return a
}

// fits reports whether a file may be the one that was compiled. sum reports whether it
// certainly is.
func (s *seeker) fits(ctx context.Context, a *File) (fits, sum bool, err error) {
	if s.alg == "" {
		return true, false, nil
	}
	if a.Size > sources.MaxFile {
		return false, false, nil
	}
	c := sources.Name{Alg: s.alg, Sum: s.sum}.Check()
	if _, err := io.Copy(c, io.NewSectionReader(a, 0, a.Size)); err != nil {
		return false, false, err
	}
	v := c.Verdict()
	return v != sources.Contradicted, v == sources.Verified, ctx.Err()
}

// onDisk opens the file at the path itself, if that leads into the watched folder and to
// nothing hidden. It must have the sum that the debug information says; if that says none, it
// must not be newer than the object, and be a text with the suffix of a programming language.
func (s *seeker) onDisk(ctx context.Context) (*File, error) {
	if strings.Contains(s.f.where, "://") || !filepath.IsAbs(filepath.FromSlash(s.name)) {
		return nil, fs.ErrNotExist
	}
	root, err := filepath.EvalSymlinks(s.f.where)
	if err != nil {
		return nil, fs.ErrNotExist
	}
	real, err := filepath.EvalSymlinks(filepath.FromSlash(s.name))
	if err != nil {
		return nil, fs.ErrNotExist
	}
	rel, err := filepath.Rel(root, real)
	if err != nil || !filepath.IsLocal(rel) || isHidden(filepath.ToSlash(rel)) {
		return nil, fs.ErrNotExist
	}
	h, err := s.f.src.open(ctx, filepath.ToSlash(rel))
	if err != nil {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	st := h.stamp()
	a := &File{ReaderAt: h, Size: st.size, ModTime: time.Unix(0, st.mtime), Path: filepath.Join(s.f.where, rel), h: h, close: h.Close}
	a.ETag = etag(a.Path, "", st)
	ok, sum, err := s.fits(ctx, a)
	if err == nil && ok && !sum {
		if ok = max(st.mtime, st.ctime) <= s.h.File.Seen && sourceSuffixes[strings.ToLower(filepath.Ext(rel))]; ok {
			ok, err = isText(ctx, a)
		}
	}
	if err != nil || !ok {
		return nil, errors.Join(fs.ErrNotExist, err, a.Close())
	}
	return s.label(a), nil
}

// isHidden reports whether a file, by its path below the watched folder, or a folder on the
// way to it is hidden: .env, .git, .ssh. Whoever gets a program into the folder chooses the
// names in its debug information.
func isHidden(rel string) bool { return strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.") }

// isText reports whether a file may be the text of a program: it is no larger than one, and
// has no zero bytes unless it begins as UTF-16 does.
func isText(ctx context.Context, a *File) (bool, error) {
	if a.Size > sources.MaxFile {
		return false, nil
	}
	buf := make([]byte, 32<<10)
	for at := int64(0); at < a.Size; {
		n, err := a.ReadAt(buf[:min(int64(len(buf)), a.Size-at)], at)
		if at == 0 && (bytes.HasPrefix(buf[:n], []byte("\xff\xfe")) || bytes.HasPrefix(buf[:n], []byte("\xfe\xff"))) {
			return true, nil
		}
		if bytes.IndexByte(buf[:n], 0) >= 0 {
			return false, nil
		}
		if at += int64(n); n == 0 {
			return false, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
	}
	return true, nil
}

// alike returns the number of bytes that the name of a package shares with that of the
// package that holds the object.
func (s *seeker) alike(row *watched.File) int {
	n, own := 0, s.h.File.Name
	for n < min(len(row.Name), len(own)) && row.Name[n] == own[n] {
		n++
	}
	return n
}

// nearest sorts packages: first those whose name is most like that of the package that
// holds the object, because that has the version, then newer ones.
func (s *seeker) nearest(rows []watched.File) {
	sorting.Stable(rows, func(a, b watched.File) int {
		if c := s.alike(&b) - s.alike(&a); c != 0 {
			return c
		}
		if a.MTime != b.MTime {
			if a.MTime > b.MTime {
				return -1
			}
			return 1
		}
		return strings.Compare(within(a.Dir, a.Name), within(b.Dir, b.Name))
	})
}

// inPackages opens the member that has exactly the path.
func (s *seeker) inPackages(ctx context.Context) (*File, error) {
	path := "/" + strings.TrimPrefix(s.name, "/")
	rows, err := s.f.db.BySource(ctx, hash(byPath, path))
	if err != nil {
		return nil, err
	}
	s.nearest(rows)
	for i := range rows[:min(len(rows), sourcePackages)] {
		files, err := s.f.sourceFiles(ctx, &rows[i], symfile.BaseName(s.name))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if canonical(file.name) != path {
				continue
			}
			a, _, err := s.member(ctx, &rows[i], file)
			if !errors.Is(err, fs.ErrNotExist) {
				return a, err
			}
		}
	}
	return nil, fs.ErrNotExist
}

// sourceFiles returns the source files of a package that have a base name.
func (f *Folder) sourceFiles(ctx context.Context, row *watched.File, base string) ([]sourceFile, error) {
	list, err := f.packageNames(ctx, row)
	if errors.Is(err, errRow) {
		f.opt.Log.Warn("the index of a watched folder is damaged", "folder", f.where, "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.value.named(base), nil
}

// packageNames returns the list of the source files of a package.
func (f *Folder) packageNames(ctx context.Context, row *watched.File) (*kept[*packageNames], error) {
	key := etag(f.path(row), "", stampOf(*row))
	have, err := f.packages.get(ctx, key)
	if have != nil || err != nil {
		return have, err
	}
	var made *kept[*packageNames]
	defer func() { f.packages.put(key, made) }()
	packed, err := f.db.Names(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	list, err := unpackNames(packed)
	if err != nil {
		return nil, err
	}
	made = &kept[*packageNames]{key: key, bytes: list.bytes(), value: list}
	return made, nil
}

// member opens a source file in a package. sum reports that it has the sum that the debug
// information says; one with another sum is fs.ErrNotExist.
func (s *seeker) member(ctx context.Context, row *watched.File, file sourceFile) (a *File, sum bool, err error) {
	if file.size > sources.MaxFile {
		return nil, false, fs.ErrNotExist
	}
	a, err = s.f.openSource(ctx, row, file)
	if err != nil {
		if ctx.Err() != nil {
			return nil, false, ctx.Err()
		}
		s.f.opt.Log.Info("a source file in a watched folder cannot be served", "folder", s.f.where,
			"path", within(row.Dir, row.Name), "member", file.name, "error", err)
		return nil, false, errors.Join(fs.ErrNotExist, err)
	}
	ok, sum, err := s.fits(ctx, a)
	if err != nil || !ok {
		return nil, false, errors.Join(fs.ErrNotExist, err, a.Close())
	}
	return s.label(a), sum, nil
}

// smallSource is the size up to which a source file is read into memory.
const smallSource = 1 << 20

// openSource opens a member of a package. What the package has a checksum of is compared
// with it: of small ones at their place, of others by reading the package.
func (f *Folder) openSource(ctx context.Context, row *watched.File, file sourceFile) (*File, error) {
	if file.sum != nil && file.size >= 0 && file.size <= smallSource {
		return f.openSmall(ctx, row, file)
	}
	hit := watched.Hit{File: *row, Object: watched.Object{Member: file.name, Size: file.size}}
	if file.sum == nil {
		hit.Place = encodePlace(file.place)
	}
	return f.openMember(ctx, &hit)
}

// openSmall reads a member at its place.
func (f *Folder) openSmall(ctx context.Context, row *watched.File, file sourceFile) (*File, error) {
	h, err := f.openFile(ctx, row)
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, file.size+bytes.MinRead))
	r, err := scan.OpenPlace(ctx, h, row.Size, file.place, f.opt.scanOptions())
	if err == nil {
		_, err = text.ReadFrom(scan.CheckSum(r, file.size, *file.sum))
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", errLies, file.name, err), h.Close())
	}
	disk := f.path(row)
	a := &File{
		ReaderAt: &memory{text.Bytes()}, Size: file.size, ModTime: time.Unix(0, row.MTime),
		Path: "/" + trimSlash(memberName(file.name)), Archive: disk, h: h, close: h.Close,
	}
	a.ETag = etag(disk, file.name, stampOf(*row))
	return a, nil
}

// guess is a file of a source package that may be the one that was compiled.
type guess struct {
	row  *watched.File
	file sourceFile
	tail int // common path components at the end
}

// inSourcePackages opens the file of a Debian source package that has the most path
// components at the end in common with the path. Several equally good ones are none,
// unless a sum decides.
func (s *seeker) inSourcePackages(ctx context.Context) (*File, error) {
	rows, err := s.f.db.BySource(ctx, hash(byBase, symfile.BaseName(s.name)))
	if err != nil {
		return nil, err
	}
	s.nearest(rows)
	var best []guess
	for i := range rows[:min(len(rows), sourceGuesses)] {
		files, err := s.f.sourceFiles(ctx, &rows[i], symfile.BaseName(s.name))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if symfile.BaseName(file.name) != symfile.BaseName(s.name) {
				continue
			}
			tail, own := s.tail(rows[i].Name, file.name)
			if !own {
				continue
			}
			if len(best) > 0 && tail > best[0].tail {
				best = nil
			}
			if len(best) == 0 || tail == best[0].tail {
				best = append(best, guess{&rows[i], file, tail})
			}
		}
	}
	for _, g := range best[:min(len(best), sourcePackages)] {
		a, sum, err := s.member(ctx, g.row, g.file)
		switch {
		case err == nil && (sum || len(best) == 1):
			return a, nil
		case err == nil:
			_ = a.Close()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return nil, fs.ErrNotExist
}

// tail returns the number of path components that a member of a source package has in
// common with the path, counted from the end. own reports whether the package may belong
// to the object: the member's whole path is in common, or all but its top folder, and the
// name of the package is that of the object's package or of the folder in its place.
func (s *seeker) tail(pkg, member string) (n int, own bool) {
	want := strings.Split(strings.Trim(s.name, "/"), "/")
	have := strings.Split(strings.Trim(strings.TrimPrefix(member, "./"), "/"), "/")
	for n < min(len(want), len(have)) && want[len(want)-1-n] == have[len(have)-1-n] {
		n++
	}
	switch {
	case n < 2:
		return n, false
	case n == len(have):
		return n, true
	case n < len(have)-1:
		return n, false
	}
	source, _, _ := strings.Cut(pkg, "_")
	if rest, ok := strings.CutPrefix(s.h.File.Name, source); ok && (rest == "" || strings.Contains("-_.", rest[:1])) {
		return n, true
	}
	return n, n < len(want) && strings.HasPrefix(want[len(want)-1-n], source)
}
