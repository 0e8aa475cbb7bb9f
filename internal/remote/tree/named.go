package tree

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Query says which files of a tree to list.
type Query struct {
	Name string   // a folded file name; * matches any text, ? one character
	IDs  []string // folded ids; none: any
	Kind symfile.Kind
}

// Listed is a file of a tree, as its path describes it: no byte of the file was read.
type Listed struct {
	Object  symfile.Object
	Path    string // below the folder, with slashes
	Size    int64  // of the file on disk, which may be a cabinet or a pointer
	ModTime time.Time
}

// maxLooked is how many names of files, of keys and of folders one search looks at.
const maxLooked = 20_000

// Lists reports whether the files of the tree can be listed by their names. Those of other
// trees are found by their ids only.
func (f *Folder) Lists(ctx context.Context) bool { return len(f.Layout(ctx).NameFolders("x")) > 0 }

// List lists the files of a name, at most limit, ordered by name: by the names of the folders,
// in both tiers. complete is false if limit, maxLooked or the end of ctx cut the list. A tree
// whose files cannot be listed has none.
func (f *Folder) List(ctx context.Context, q Query, limit int) (list []Listed, complete bool) {
	l := lister{ctx: ctx, folder: f, layout: f.Layout(ctx), query: q, left: maxLooked, limit: limit}
	if q.Name != "" && f.Lists(ctx) {
		l.names()
	}
	sorting.Stable(l.list, func(a, b Listed) int {
		return cmp.Compare(symfile.Fold(a.Object.Name), symfile.Fold(b.Object.Name))
	})
	if len(l.list) > limit {
		return l.list[:limit], false
	}
	return l.list, !l.cut
}

// lister lists files by the names of folders.
type lister struct {
	ctx    context.Context
	folder *Folder
	layout layout.Layout
	query  Query
	left   int // how many names it may still look at
	limit  int
	list   []Listed
	cut    bool // there may be more
}

// goes reports whether one more name may be looked at.
func (l *lister) goes() bool {
	l.left--
	l.cut = l.cut || l.left < 0 || len(l.list) >= l.limit || l.ctx.Err() != nil
	return !l.cut
}

// names lists the files of the names that match.
func (l *lister) names() {
	pattern, t := l.query.Name, &l.folder.tree
	wild := strings.IndexAny(pattern, "*?")
	if wild < 0 {
		for _, dir := range l.layout.NameFolders(pattern) {
			if at, ok := t.find(dir...); ok {
				l.keys(at)
			}
		}
		return
	}
	start := pattern[:wild]
	for _, top := range t.withPrefix(".", "") {
		bucket := len([]rune(top)) <= 2 && (strings.HasPrefix(start, top) || strings.HasPrefix(top, start))
		match := glob.Match(pattern, top)
		if !bucket && !match {
			continue
		}
		if !l.goes() {
			return
		}
		at, ok := t.find(top)
		if match && ok {
			l.keys(at)
		}
		if !bucket || !ok {
			continue
		}
		for _, name := range t.withPrefix(at, start) {
			if glob.Match(pattern, name) && l.goes() {
				if at, ok := t.find(top, name); ok {
					l.keys(at)
				}
			}
		}
	}
}

// keys lists the files of the keys of a name, whose folder is dir.
func (l *lister) keys(dir string) {
	t := &l.folder.tree
	for _, key := range t.withPrefix(dir, "") {
		if !l.goes() {
			return
		}
		keyDir := path.Join(dir, t.list(dir).names[key])
		have := map[symfile.Kind]layout.Form{}
		for _, leaf := range t.withPrefix(keyDir, "") {
			file := path.Join(keyDir, t.list(keyDir).names[leaf])
			req, err := l.layout.ParseFile(file)
			if err != nil || len(req.Lookups) == 0 {
				continue
			}
			o := objectOf(&req, path.Base(keyDir))
			if l.query.Kind != symfile.KindUnknown && o.Kind != l.query.Kind || !l.wants(&req) {
				continue
			}
			form, again := have[o.Kind] // a file, its cabinet and its pointer are one
			if again && form <= req.Form {
				continue
			}
			info, err := t.root.Stat(file)
			if err != nil || !info.Mode().IsRegular() {
				continue
			}
			have[o.Kind] = req.Form
			if again {
				l.list = slices.DeleteFunc(l.list, func(x Listed) bool { return path.Dir(x.Path) == keyDir && x.Object.Kind == o.Kind })
			}
			l.list = append(l.list, Listed{o, file, info.Size(), info.ModTime()})
		}
	}
}

// wants reports whether a file has one of the ids that are looked for.
func (l *lister) wants(req *layout.Request) bool {
	return len(l.query.IDs) == 0 || slices.ContainsFunc(req.Lookups, func(k symfile.Lookup) bool { return slices.Contains(l.query.IDs, k.ID) })
}

// objectOf describes the object that a path asks for. key is the folder of its id.
func objectOf(req *layout.Request, key string) symfile.Object {
	l := req.Lookups[0]
	o := symfile.Object{Name: req.Name, Role: l.Role}
	if id, err := debugid.ParseBreakpad(l.ID); err == nil && len(l.ID) > 32 {
		o.DebugID = id
	}
	switch {
	case l.Role == symfile.Symbols:
		o.Kind = symfile.Breakpad
	case l.Role == symfile.Sources:
		o.Kind = symfile.SourceBundle
	case l.IDKind == symfile.BuildIDs:
		o.Kind, o.DebugID, o.BuildID = symfile.ELF, debugid.ID{}, debugid.BuildID(l.ID)
	case l.IDKind == symfile.MachIDs:
		o.Kind, o.DebugID = symfile.MachO, debugid.ID{}
		o.DebugID.GUID, _ = debugid.ParseGUID(l.ID)
	case l.Role == symfile.Other:
		o.Kind, o.Hash = symfile.SHA1, strings.TrimPrefix(l.ID, "sha1-")
	case req.Age != nil && strings.EqualFold(key[32:], symfile.PortableAge):
		o.Kind, o.Role = symfile.PortablePDB, symfile.Debug
	case req.Age != nil || len(l.ID) > 32 && len(l.ID) < 40:
		o.Kind, o.Role = symfile.PDB, symfile.Debug
	case len(l.ID) > 16:
		o.Kind, o.BuildID = symfile.ELF, debugid.BuildID(l.ID)
	case strings.HasSuffix(symfile.Fold(req.Name), ".dbg"):
		o.Kind, o.Role, o.CodeID = symfile.DBG, symfile.Debug, key
	default:
		o.Kind, o.Role, o.CodeID = symfile.PE, symfile.Executable, key
	}
	return o
}

// Facts are what is cheaply known of a tree.
type Facts struct {
	// Transactions are the live ones in the records of a symbol store; 0 without records.
	Transactions int
	// Names are the names of the files of a tree that has them in its first folder; 0 if there are
	// records.
	Names int
}

// factsKept caches the Facts of a folder.
type factsKept struct {
	mu    sync.Mutex
	facts Facts     // guarded by mu
	at    time.Time // guarded by mu
}

// Facts returns what is known of the tree, at most a minute old.
func (f *Folder) Facts(ctx context.Context) Facts {
	k := &f.facts
	k.mu.Lock()
	defer k.mu.Unlock()
	now := f.opt.Now()
	if !k.at.IsZero() && now.Sub(k.at) < expiry {
		return k.facts
	}
	k.at, k.facts = now, Facts{}
	lay := f.Layout(ctx)
	if lay.Records() == layout.SymStoreRecords {
		for _, err := range f.store.Transactions(false) {
			if err == nil {
				k.facts.Transactions++
			}
		}
	}
	if k.facts.Transactions == 0 && f.Lists(ctx) && lay.Tiers() != layout.TiersTwo {
		for name := range f.tree.list(".").names {
			if !lay.IsRecord(name) {
				k.facts.Names++
			}
		}
	}
	return k.facts
}
