package depot

import (
	"context"
	"io/fs"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/watch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Records of the index.
type (
	// Transaction is one numbered add.
	Transaction = index.Transaction
	// TxFile is one file of a transaction.
	TxFile = index.TxFile
	// Found is one object with the transactions that hold it.
	Found = index.Found
	// ListFilter selects transactions.
	ListFilter = index.ListFilter
	// Stats are the totals of the depot.
	Stats = index.Stats
)

// Find looks for objects by name (with * and ?), by any spelling of an id, or
// by the SHA-256 of the content. Those in watched folders come last.
func (d *Depot) Find(ctx context.Context, scope Scope, query string, limit int) ([]Found, error) {
	q := spellings(query)
	list, err := d.db.Find(ctx, scope.index(), q, limit)
	if err != nil || limit > 0 && len(list) >= limit {
		return list, err
	}
	rest := 0
	if limit > 0 {
		rest = limit - len(list)
	}
	more, err := d.Watched.Find(ctx, scope, watch.Query{Name: q.Name, IDs: q.IDs, Prefix: q.Prefix}, rest)
	return append(list, more...), err
}

// shortRef is from how many of its first hex digits on a content is found by its SHA-256:
// lists print the base of a cold file so.
const shortRef = 12

// spellings returns the spellings that a user's query may have in the index.
func spellings(q string) index.Query {
	q = strings.TrimSpace(q)
	iq := index.Query{Name: symfile.Fold(q)}
	if strings.Contains(q, ",") {
		if id, err := debugid.Parse(q); err == nil { // as dumpbin prints it
			q = id.Breakpad()
		}
	}
	f := symfile.Fold(q)
	if r, err := layout.Route(strings.FieldsFunc(q, func(r rune) bool { return r == '/' })); err == nil && strings.Contains(q, "/") {
		for _, l := range r.Lookups {
			iq.IDs = append(iq.IDs, l.ID)
		}
		return iq
	}
	for _, p := range []string{"0x", "elf-buildid-sym-", "elf-buildid-", "mach-uuid-sym-", "mach-uuid-", "{"} {
		f = strings.TrimPrefix(f, p)
	}
	f = strings.TrimSuffix(f, "}")
	bare := strings.ReplaceAll(f, "-", "")
	if debugid.IsHex(bare) && len(bare) >= 8 {
		iq.IDs = append(iq.IDs, bare)
		if id, err := debugid.Parse(f); err == nil {
			iq.IDs = append(iq.IDs, symfile.Fold(id.Breakpad()))
		}
		if ref, err := blob.ParseRef(bare); err == nil {
			iq.Ref = &ref
		}
		if len(bare) == 32 {
			iq.Prefix = bare // a GUID without its age
		}
		if len(bare) >= shortRef && len(bare) < 32 { // longer ones are other ids, or all of it
			iq.RefPrefix = bare
		}
	} else if strings.HasPrefix(f, "sha1-") || strings.HasPrefix(f, "r2rmap-") {
		iq.IDs = append(iq.IDs, f)
	}
	return iq
}

// Same is an object of a local file, with the objects of the depot that have its
// ids or its content.
type Same struct {
	Object objfile.Object
	Ref    blob.Ref // of the local object's bytes
	Found  []Found
}

// ObjectsOf returns the objects of a local file, with the hashes of their bytes.
func ObjectsOf(ctx context.Context, c Content, name string) ([]Same, error) {
	objs, err := objfile.Identify(c, c.Size(), name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	list := make([]Same, len(objs))
	for i, o := range objs {
		list[i].Object = o
		if list[i].Ref, _, err = blob.Hash(ctx, objectReader(c, o)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Same searches for the objects of a local file, by their ids and by their
// content.
func (d *Depot) Same(ctx context.Context, scope Scope, c Content, name string) ([]Same, error) {
	objs, err := ObjectsOf(ctx, c, name)
	if err != nil {
		return nil, err
	}
	var same []Same
	for _, s := range objs {
		if s.Found, err = FinderIn(d).Alike(ctx, scope, s.Object, &s.Ref); err != nil {
			return nil, err
		}
		same = append(same, s)
	}
	return same, nil
}

// List returns transactions, newest first.
func (d *Depot) List(ctx context.Context, scope Scope, f ListFilter) ([]Transaction, error) {
	return d.db.List(ctx, scope.index(), f)
}

// Transaction returns one transaction, removed or not. An unknown number is
// fs.ErrNotExist.
func (d *Depot) Transaction(ctx context.Context, number int64) (Transaction, error) {
	return d.db.Show(ctx, number, nil)
}

// Files calls each for the files of a transaction, in the order in which they
// were added. A removed transaction has no files.
func (d *Depot) Files(ctx context.Context, number int64, each func(TxFile) error) error {
	_, err := d.db.Show(ctx, number, each)
	return err
}

// Content opens a content in any scope and verifies its hash first. A missing or
// damaged content is fs.ErrNotExist.
func (d *Depot) Content(ctx context.Context, ref blob.Ref) (*File, error) {
	b, err := d.contents.openHashed(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &File{Ref: ref, Size: b.Size(), ModTime: b.ModTime(), ETag: ref.String()[:32], r: b, plain: blob.OSFile(b), closer: b}, nil
}

// Ranked is a file that may answer a request, with the time of its transaction.
type Ranked struct {
	TxFile
	Added time.Time
	Try   bool // of a try build, and of no other
}

// RankedIn returns a file of a transaction.
func RankedIn(tx Transaction, f TxFile) Ranked {
	return Ranked{TxFile: f, Added: tx.Time, Try: tx.Class == index.ClassTry}
}

// Better reports whether the depot prefers a to b as the answer to a request for
// the roles.
func Better(a, b Ranked, role symfile.Role) bool {
	hit := func(r Ranked) index.Hit {
		return index.Hit{Role: r.Object.Role, Stored: index.Stored{Object: r.Object, Features: r.Features, DebugSize: r.DebugSize, Ref: r.Ref, Size: r.Size, Added: r.Added, Try: r.Try}}
	}
	hits := []index.Hit{hit(b), hit(a)}
	rank(hits, role)
	return hits[0].Ref != b.Ref
}

// Origins returns the transactions that were imported from a store and not
// removed: their numbers in this depot by their numbers in the store.
func (d *Depot) Origins(ctx context.Context, store string) (map[string]int64, error) {
	return d.db.Origins(ctx, store)
}

// Stats returns the totals of the depot.
func (d *Depot) Stats(ctx context.Context) (Stats, error) { return d.db.Stats(ctx) }

// Metadata is one answer to a debuginfod metadata search.
type Metadata struct {
	Type    string // "executable" or "debuginfo"
	BuildID string
	File    string // path as it was added
	Archive string // the archive that contained it, or empty
}

// Metadata searches ELF objects by exact path ("file"), by a path pattern in
// which * does not match a slash ("glob"), or by build-id ("buildid"). complete
// is false if limit cut the list. Any other key is fs.ErrInvalid.
func (d *Depot) Metadata(ctx context.Context, scope Scope, key, value string, limit int) (list []Metadata, complete bool, err error) {
	var q index.PathQuery
	switch key {
	case "file":
		q.Path = value
	case "glob":
		q.Glob = value
	case "buildid":
		id, _ := debugid.ParseBuildID(value)
		if id == "" {
			return nil, true, nil // not a build-id
		}
		q.BuildID = string(id)
	default:
		return nil, false, fs.ErrInvalid
	}
	files, complete, err := d.db.ELFPaths(ctx, scope.index(), q, limit)
	if err != nil {
		return nil, false, err
	}
	for _, f := range files {
		for _, t := range []struct {
			role symfile.Role
			word string
		}{{symfile.Executable, "executable"}, {symfile.Debug, "debuginfo"}} {
			if f.Role&t.role != 0 {
				list = append(list, Metadata{Type: t.word, BuildID: f.BuildID, File: f.Path, Archive: f.Archive})
			}
		}
	}
	more, all, err := d.Watched.metadata(ctx, scope, key, value, limit)
	return append(list, more...), complete && all, err
}
