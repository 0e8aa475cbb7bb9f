package watch

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/symfile"
)

// Entry is an object in the watched folder.
type Entry struct {
	// ID orders the entries. It is valid as long as the file is not indexed again.
	ID        int64
	Object    symfile.Object
	Arch      string
	Features  []string
	DebugSize int64
	Size      int64     // bytes of the object
	ModTime   time.Time // of the file on disk
	// Path is the path on disk, or in the package Archive, which is a path on disk.
	Path, Archive string
	// Away is set if the folder is away: nothing of it is served until it is back.
	Away bool
}

func (f *Folder) entry(h *hit) Entry {
	e := Entry{
		ID: h.ID, Object: h.object.Object, Arch: h.object.Arch, Features: h.object.Features.Words(), DebugSize: h.object.DebugSize,
		Size: h.object.Size, ModTime: time.Unix(0, h.File.MTime), Path: f.path(&h.File), Away: f.away(),
	}
	if h.Member != "" {
		e.Archive, e.Path = e.Path, "/"+trimSlash(memberName(h.Member))
	}
	return e
}

const page = 1000 // rows that are read at once

// Entries returns the objects after the one with an ID, in the order of their IDs, at most
// limit. A folder that is away has none.
func (f *Folder) Entries(ctx context.Context, after int64, limit int) ([]Entry, error) {
	if f.away() {
		return nil, nil
	}
	rows, err := f.db.Objects(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(rows))
	for _, row := range rows {
		h, err := decode(row)
		if err != nil {
			continue
		}
		list = append(list, f.entry(&h))
	}
	return list, nil
}

// Query says what to find: objects that match any of the criteria that are set.
type Query struct {
	Name   string   // a folded file name; * matches any text, ? one character
	IDs    []string // folded ids, in any spelling that finds an object
	Prefix string   // the 32 lower-case digits of a GUID, of PDBs of any age
	// Kind restricts the objects; symfile.KindUnknown is any.
	Kind symfile.Kind
}

// Find returns the objects that match, at most limit (0: all), ordered by name. An object
// that several files have is found several times.
func (f *Folder) Find(ctx context.Context, q Query, limit int) ([]Entry, error) {
	var found []Entry
	have := map[int64]bool{}
	add := func(rows []watched.Hit, match func(o symfile.Object) bool) {
		for _, row := range rows {
			h, err := decode(row)
			if err != nil || have[h.ID] || q.Kind != symfile.KindUnknown && h.object.Kind != q.Kind ||
				!match(h.object.Object) || limit > 0 && len(found) >= limit {
				continue
			}
			have[h.ID] = true
			found = append(found, f.entry(&h))
		}
	}
	for _, id := range q.IDs {
		rows, err := f.db.ByKey(ctx, hash(byID, id))
		if err != nil {
			return nil, err
		}
		add(rows, func(o symfile.Object) bool {
			return slices.ContainsFunc(o.Aliases(), func(a symfile.Alias) bool { return a.ID == id })
		})
	}
	if q.Prefix != "" {
		rows, err := f.db.ByKey(ctx, hash(byAge, q.Prefix))
		if err != nil {
			return nil, err
		}
		add(rows, func(o symfile.Object) bool { return o.DebugID.GUID.Lower() == q.Prefix })
	}
	named := func(o symfile.Object) bool { return glob.Match(q.Name, symfile.Fold(o.Name)) }
	switch {
	case q.Name == "":
	case !strings.ContainsAny(q.Name, "*?"):
		rows, err := f.db.ByKey(ctx, hash(byName, q.Name))
		if err != nil {
			return nil, err
		}
		add(rows, named)
	default:
		err := f.all(ctx, func(rows []watched.Hit) bool {
			add(rows, named)
			return limit == 0 || len(found) < limit
		})
		if err != nil {
			return nil, err
		}
	}
	sorting.Stable(found, func(a, b Entry) int {
		return cmp.Or(strings.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name)),
			strings.Compare(a.Archive, b.Archive), strings.Compare(a.Path, b.Path), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// all calls use with all objects, page by page, until it returns false.
func (f *Folder) all(ctx context.Context, use func(rows []watched.Hit) bool) error {
	for after := int64(0); ; {
		rows, err := f.db.Objects(ctx, after, page)
		if err != nil || len(rows) == 0 || !use(rows) {
			return err
		}
		after = rows[len(rows)-1].ID
	}
}

// Metadata is one answer to a debuginfod metadata search.
type Metadata struct {
	Type    string // "executable" or "debuginfo"
	BuildID string
	File    string // the path on disk, or in Archive
	Archive string
}

// Metadata searches ELF objects by exact path ("file"), by a path pattern in which * does
// not match a slash ("glob"), or by build-id ("buildid"). complete is false if limit (0:
// none) or the end of ctx cut the list. Any other key is fs.ErrInvalid.
func (f *Folder) Metadata(ctx context.Context, key, value string, limit int) (list []Metadata, complete bool, err error) {
	var match func(e *Entry) bool
	hashed := int64(0)
	switch key {
	case "file":
		match, hashed = func(e *Entry) bool { return e.Path == value }, hash(byName, symfile.Fold(symfile.BaseName(value)))
	case "glob":
		pattern := strings.ReplaceAll(value, "[!", "[^")
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, true, nil //nolint:nilerr // an invalid pattern matches nothing
		}
		match = func(e *Entry) bool { ok, _ := path.Match(pattern, filepath.ToSlash(e.Path)); return ok }
	case "buildid":
		id, _ := debugid.ParseBuildID(value)
		if id == "" {
			return nil, true, nil // not a build-id
		}
		match, hashed = func(e *Entry) bool { return e.Object.BuildID == id }, hash(byID, string(id))
	default:
		return nil, false, fs.ErrInvalid
	}
	complete = true
	if f.away() {
		return nil, true, nil
	}
	use := func(rows []watched.Hit) bool {
		for _, row := range rows {
			h, err := decode(row)
			if err != nil || h.object.Kind != symfile.ELF || h.object.BuildID == "" {
				continue
			}
			if e := f.entry(&h); match(&e) {
				if limit > 0 && len(list) >= limit {
					complete = false
					return false
				}
				list = append(list, metadataOf(&e)...)
			}
		}
		return true
	}
	if hashed != 0 {
		var rows []watched.Hit
		if rows, err = f.db.ByKey(ctx, hashed); err == nil {
			use(rows)
		}
	} else {
		err = f.all(ctx, use)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return list, false, nil
	}
	return list, complete, err
}

func metadataOf(e *Entry) (list []Metadata) {
	for _, t := range []struct {
		role symfile.Role
		word string
	}{{symfile.Executable, "executable"}, {symfile.Debug, "debuginfo"}} {
		if e.Object.Role&t.role != 0 {
			list = append(list, Metadata{Type: t.word, BuildID: string(e.Object.BuildID), File: e.Path, Archive: e.Archive})
		}
	}
	return list
}

// Status says what is known of a watched folder.
type Status struct {
	Where    string    `json:"where"`
	Product  string    `json:"product,omitempty"`
	Version  string    `json:"version,omitempty"`
	Files    int64     `json:"files"`    // with objects or source files, packages included
	Packages int64     `json:"packages"` // of them
	Objects  int64     `json:"objects"`
	Bytes    int64     `json:"bytes"`    // of the files
	Problems int64     `json:"problems"` // files that are left out
	Index    int64     `json:"index"`    // bytes of the index
	Cache    int64     `json:"cache"`    // bytes of unpacked members
	Scanning bool      `json:"scanning"`
	Notified bool      `json:"notified"`       // the system reports changes
	Last     ScanStats `json:"last"`           // the last complete scan; zero before the first of this process
	Away     bool      `json:"away,omitempty"` // see ErrAway; the counts are of what was indexed
	Failed   string    `json:"failed,omitempty"`
}

// Status returns the status.
func (f *Folder) Status(ctx context.Context) (Status, error) {
	t, err := f.db.Totals(ctx, kindPackage)
	if err != nil {
		return Status{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{
		Where: f.where, Product: f.opt.Product, Version: f.opt.Version, Files: t.Files, Packages: t.Packages, Objects: t.Objects, Bytes: t.Bytes,
		Problems: t.Problems, Index: f.db.Size(), Cache: f.shelf.Held(), Scanning: len(f.scanning) > 0, Notified: f.notifier != nil, Last: f.last,
	}
	if f.failed != nil {
		s.Away, s.Failed = errors.Is(f.failed, ErrAway), f.failed.Error()
	}
	return s, nil
}

// Problem is a file that is left out.
type Problem struct {
	ID     int64  `json:"-"` // orders the problems
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Problems returns the files that are left out, after the one with an ID, at most limit.
func (f *Folder) Problems(ctx context.Context, after int64, limit int) ([]Problem, error) {
	rows, err := f.db.Problems(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]Problem, len(rows))
	for i := range rows {
		list[i] = Problem{rows[i].ID, f.path(&rows[i]), rows[i].Problem}
	}
	return list, nil
}
