package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// File is an answer. It must be closed.
type File struct {
	io.ReaderAt
	Size    int64
	ModTime time.Time // of the file on disk: of the package, for a member
	Name    string
	// Path is the path on disk, or in the package Archive, which is a path on disk.
	Path, Archive string
	Object        symfile.Object
	Features      objfile.Features // zero for a file that is no symbol file
	// Signature is the IMA signature of the whole file in hex, from its package, or empty.
	Signature string
	ETag      string // without quotes: changes with the path, the size and the times

	h     handle
	grown *grown // set if the member is being unpacked
	close func() error
}

// Changed reports whether the file on disk is another one now than when it was indexed.
// Then the bytes that were read may be wrong.
func (f *File) Changed() bool { return f.h != nil && f.h.changed() }

// Growing reports whether the bytes are still being unpacked: ReadAt waits for them.
func (f *File) Growing() bool { return f.grown != nil && f.grown.growing() }

// complete waits until all bytes are unpacked. The error is that of unpacking, or of ctx.
func (f *File) complete(ctx context.Context) error {
	if f.grown == nil {
		return nil
	}
	_, err := f.grown.r.Wait(ctx)
	return err
}

// Arrived waits until there are bytes at off and returns how many can be read from there
// without waiting; io.EOF if off is the end.
func (f *File) Arrived(off int64) (int64, error) {
	if f.grown != nil {
		return f.grown.arrived(off)
	}
	if off >= f.Size {
		return 0, io.EOF
	}
	return f.Size - off, nil
}

// Close releases the file.
func (f *File) Close() error { return f.close() }

// hit is an object of the index.
type hit struct {
	watched.Hit
	object objfile.Object
	role   symfile.Role // of the alias that matched
}

// rowName returns the base name of the file that an object is in.
func rowName(h *watched.Hit) string {
	if h.Member == "" {
		return h.File.Name
	}
	return baseName(h.Member)
}

func baseName(member string) string {
	member = strings.TrimRight(member, `/\`)
	return member[strings.LastIndexAny(member, `/\`)+1:]
}

// decode adds the object to a row.
func decode(row watched.Hit) (hit, error) {
	object, err := decodeObject(row.Data, rowName(&row), row.Size)
	return hit{Hit: row, object: object}, err
}

// lookup returns the objects that answer a lookup, ranked.
func (f *Folder) lookup(ctx context.Context, l symfile.Lookup) ([]hit, error) {
	if l.ID == "" {
		return nil, nil
	}
	rows, err := f.db.ByKey(ctx, hash(byID, l.ID))
	if err != nil {
		return nil, err
	}
	kinds := l.IDKind.Kinds()
	var hits []hit
	for _, row := range rows {
		h, err := decode(row)
		if err != nil || kinds != nil && !slices.Contains(kinds, h.object.Kind) {
			continue
		}
		for _, a := range h.object.Aliases() {
			if l.Matches(a) {
				h.role |= a.Role
			}
		}
		if h.role != 0 {
			hits = append(hits, h)
		}
	}
	rank(hits, l.Role)
	return hits, nil
}

// higherAge returns the PDBs with the GUID and a higher age, the lowest first.
func (f *Folder) higherAge(ctx context.Context, req *layout.Request) ([]hit, error) {
	rows, err := f.db.ByKey(ctx, hash(byAge, req.Age.GUID.Lower()))
	if err != nil {
		return nil, err
	}
	name := symfile.Fold(req.Name)
	var hits []hit
	for _, row := range rows {
		h, err := decode(row)
		o := &h.object
		if err != nil || o.DebugID.GUID != req.Age.GUID || o.DebugID.Age <= req.Age.Age || name != "" && symfile.Fold(o.Name) != name ||
			o.Kind != symfile.PDB && (o.Kind != symfile.MSFZ || !wants(req, symfile.Compressed)) {
			continue
		}
		h.role = o.Role
		hits = append(hits, h)
	}
	rank(hits, symfile.Debug)
	sorting.Stable(hits, func(a, b hit) int { return cmp.Compare(a.object.DebugID.Age, b.object.DebugID.Age) })
	return hits, nil
}

func wants(req *layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

// rank sorts objects by preference, deterministically: the smallest file that has what is
// asked for. Debug information comes from a file that has some, and then from one that
// holds nothing else.
func rank(hits []hit, role symfile.Role) {
	yes := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	sorting.Stable(hits, func(a, b hit) int {
		// A static program answers as debug information, and a relocatable object as an
		// executable, only if there is nothing better.
		if role&symfile.Companion != 0 {
			if c := cmp.Compare(yes(a.role&role&symfile.Debug != 0), yes(b.role&role&symfile.Debug != 0)); c != 0 {
				return c
			}
		}
		if role&symfile.Relocatable != 0 {
			if c := cmp.Compare(yes(a.role&role&symfile.Executable != 0), yes(b.role&role&symfile.Executable != 0)); c != 0 {
				return c
			}
		}
		if role&symfile.Debug != 0 {
			if c := cmp.Or(cmp.Compare(yes(a.object.DebugSize > 0), yes(b.object.DebugSize > 0)),
				cmp.Compare(a.object.Role&symfile.Executable, b.object.Role&symfile.Executable)); c != 0 {
				return c
			}
		}
		return cmp.Or(
			cmp.Compare(yes(!a.object.Features.NoSections), yes(!b.object.Features.NoSections)),
			cmp.Compare(a.object.Size, b.object.Size),
			cmp.Compare(b.File.MTime, a.File.MTime),
			strings.Compare(a.File.Dir, b.File.Dir), strings.Compare(a.File.Name, b.File.Name), strings.Compare(a.Member, b.Member),
			cmp.Compare(a.object.Offset, b.object.Offset))
	})
}

// oneContent reports whether all hits may have the same bytes: the index has no hashes,
// so equal size, kind and name must do.
func oneContent(hits []hit) bool {
	for _, h := range hits[1:] {
		a, b := &h.object, &hits[0].object
		if a.Size != b.Size || a.Kind != b.Kind || symfile.Fold(a.Name) != symfile.Fold(b.Name) {
			return false
		}
	}
	return true
}

// Open opens the file for req: a whole file or a section. A miss is fs.ErrNotExist. So
// is a file that has changed since it was indexed; it is indexed again. unpackcache.ErrFull
// means that the file cannot be unpacked now.
func (f *Folder) Open(ctx context.Context, req layout.Request) (*File, error) {
	switch req.Form {
	case layout.FormFile:
	case layout.FormSection:
		return f.openSection(ctx, &req)
	case layout.FormSource:
		return f.Source(ctx, req)
	default:
		return nil, fs.ErrNotExist
	}
	for _, l := range req.Lookups {
		hits, err := f.lookup(ctx, l)
		if err != nil {
			return nil, err
		}
		if len(hits) == 0 || l.Unique && !oneContent(hits) {
			continue
		}
		a, err := f.openFirst(ctx, hits)
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, unpackcache.ErrFull) {
			return a, err
		}
	}
	if req.Age == nil || !wants(&req, symfile.Debug) {
		return nil, fs.ErrNotExist
	}
	hits, err := f.higherAge(ctx, &req)
	if err != nil {
		return nil, err
	}
	return f.openFirst(ctx, hits)
}

// openFirst opens the first object that can be. If there is none because too many
// unpacked files are in use, the error is unpackcache.ErrFull.
func (f *Folder) openFirst(ctx context.Context, hits []hit) (*File, error) {
	absent := fs.ErrNotExist
	for i := range hits {
		a, err := f.openHit(ctx, &hits[i])
		switch {
		case err == nil:
			return a, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, unpackcache.ErrFull):
			absent = err
		case !errors.Is(err, fs.ErrNotExist):
			f.opt.Log.Warn("a file in a watched folder cannot be served", "folder", f.where,
				"path", within(hits[i].File.Dir, hits[i].File.Name), "member", hits[i].Member, "error", err)
		}
	}
	return nil, absent
}

// openSection answers with the bytes of one section: of the first file that has them.
func (f *Folder) openSection(ctx context.Context, req *layout.Request) (*File, error) {
	for _, l := range req.Lookups {
		hits, err := f.lookup(ctx, l)
		if err != nil {
			return nil, err
		}
		for i := range hits {
			if hits[i].object.Kind != symfile.ELF {
				continue
			}
			a, err := f.openFirst(ctx, hits[i:i+1])
			if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unpackcache.ErrFull) {
				continue
			}
			if err != nil {
				return nil, err
			}
			off, n, err := objfile.ELFSection(a, a.Size, req.Part)
			if err == nil && a.Changed() {
				err = fs.ErrNotExist
			}
			if err != nil {
				_ = a.Close()
				continue
			}
			a.ReaderAt, a.Size = io.NewSectionReader(a.ReaderAt, off, n), n
			if a.grown != nil {
				a.grown = a.grown.part(off, n)
			}
			a.Signature = ""
			a.ETag += "-" + hex.EncodeToString([]byte(req.Part))
			return a, nil
		}
	}
	return nil, fs.ErrNotExist
}

// openHit opens the bytes of an object.
func (f *Folder) openHit(ctx context.Context, h *hit) (*File, error) {
	a, err := f.openMember(ctx, &h.Hit)
	if err != nil {
		return nil, err
	}
	a.Object, a.Features, a.Name = h.object.Object, h.object.Features, h.object.Name
	o := &h.object
	if o.Offset == 0 && o.Deflated == 0 && o.Size == a.Size {
		a.Signature = h.Signature
		return a, nil
	}
	return f.cut(ctx, a, o)
}

// openFile opens a file of the index, if it has not changed since it was indexed.
func (f *Folder) openFile(ctx context.Context, row *watched.File) (handle, error) {
	h, err := f.src.open(ctx, within(row.Dir, row.Name))
	if err == nil && h.stamp() != stampOf(*row) {
		err = errors.Join(fs.ErrNotExist, h.Close())
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			f.dirty.touch(row.Dir)
		}
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return nil, err
	}
	return h, nil
}

// openMember opens the whole file that an object is in: a file on disk, or a member of a
// package.
func (f *Folder) openMember(ctx context.Context, row *watched.Hit) (*File, error) {
	h, err := f.openFile(ctx, &row.File)
	if err != nil {
		return nil, err
	}
	disk := f.path(&row.File)
	var once sync.Once
	a := &File{ReaderAt: h, Size: row.Size, ModTime: time.Unix(0, row.File.MTime), Name: row.File.Name, Path: disk, h: h}
	a.close = func() (err error) { once.Do(func() { err = h.Close() }); return err }
	a.ETag = etag(disk, row.Member, stampOf(row.File))
	place := decodePlace(row.Place)
	if row.Member != "" {
		a.Archive, a.Path, a.Name = disk, "/"+strings.TrimPrefix(memberName(row.Member), "/"), baseName(row.Member)
	}
	if place.Method == scan.Stored {
		a.ReaderAt = io.NewSectionReader(h, place.Base, row.Size)
		return a, nil
	}
	if err := f.unpack(ctx, a, row, place); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// path returns the path of a file for people: an absolute one, or a URL.
func (f *Folder) path(row *watched.File) string {
	if strings.Contains(f.where, "://") {
		return strings.TrimSuffix(f.where, "/") + "/" + within(row.Dir, row.Name)
	}
	return filepath.Join(f.where, filepath.FromSlash(path.Join(row.Dir, row.Name)))
}

func etag(path, member string, s stamp) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%v", path, member, s))
	return "w-" + hex.EncodeToString(sum[:15])
}
