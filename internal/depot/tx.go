package depot

import (
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// TxInfo is what a transaction says of itself.
type TxInfo struct {
	Product, Version, Comment string
	Who, Host                 string
	// Time is when it was made; zero is the time of its commit.
	Time time.Time
	// Origin says which transaction of another store it repeats; nil for our
	// own. A file that comes twice in one that has it is entered once: stores
	// file some under two keys.
	Origin *Origin
}

// Origin is the transaction of another store that one of ours repeats.
type Origin = index.Origin

// ErrTaken is wrapped by Commit's error when the transaction of that origin was
// taken over already and stands.
var ErrTaken = index.ErrImported

// Content is an opened candidate file.
type Content interface {
	io.ReaderAt
	Size() int64
	// Changed reports whether the file was written to since it was opened.
	Changed() bool
	// Optional: Reader() io.Reader reads the whole content once and checks
	// what only a whole read can, as the sums in a zip archive.
}

// Source is one candidate file for Tx.Add.
type Source struct {
	Path    string // as people know it, absolute if it is on this machine; archive members included, after "!/"
	Name    string // base name to identify it by, where that of Path is another; or empty
	Archive string // the outermost archive that it came from, or empty
	ModTime time.Time
	Content Content
	As, ID  string // a kind that cannot be recognised, and its id: see objfile.Options
	// Script opens the script that a source map belongs to; only for As "jsmap".
	Script func() (io.ReadCloser, error)
}

// origin returns where a file came from, as lookups report it. A file of an
// archive has its path in the innermost one, with a leading slash, as it has
// where the package is installed; the archive is kept apart, with the archives
// in it that lead to the file.
func (s Source) origin() (path, archive string) {
	if s.Archive == "" {
		return s.Path, ""
	}
	path, archive = s.Path, s.Archive
	if i := strings.LastIndex(path, memberSeparator); i >= 0 {
		archive, path = path[:i], path[i+len(memberSeparator):]
	}
	return "/" + strings.TrimLeft(path, "/"), archive
}

// memberSeparator precedes the path of an archive's member, as package scan
// writes it.
const memberSeparator = "!/"

// identity is the path to identify the file by: a compressed file has lost a
// suffix of its name.
func (s Source) identity() string {
	if s.Name == "" {
		return s.Path
	}
	return strings.TrimSuffix(s.Path, symfile.BaseName(s.Path)) + s.Name
}

// Tx collects objects; nothing is visible before Commit. Add may be called by
// many goroutines.
type Tx struct {
	d     *Depot
	info  TxInfo
	batch blob.Batch

	mu      sync.Mutex // guards what follows
	entries []index.Entry
	refs    map[blob.Ref]bool // contents taken so far
	once    map[entryKey]bool // nil: entries may repeat
	done    bool
}

// entryKey is what makes two entries the same.
type entryKey struct {
	ref    blob.Ref
	object symfile.Object
}

// Begin opens a transaction. Its number is given at Commit.
func (d *Depot) Begin(ctx context.Context, info TxInfo) (*Tx, error) {
	b, err := d.blobs.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("depot %s: %w", d.dir, err)
	}
	tx := &Tx{d: d, info: info, batch: b, refs: map[blob.Ref]bool{}}
	if info.Origin != nil {
		tx.once = map[entryKey]bool{}
	}
	return tx, nil
}

// Added is one object that Tx.Add took.
type Added struct {
	Object objfile.Object
	Ref    blob.Ref
	Known  bool // the depot had these bytes already
	// Restored: the depot listed the content, but its stored bytes were damaged or
	// missing. Commit replaces them.
	Restored bool
	Again    bool // the transaction had the same object already; see TxInfo.Origin
}

// ErrNoID is wrapped by Add's error for a symbol file that no debugger could
// ask for: it carries no id.
var ErrNoID = errors.New("it has no id that a debugger could ask for")

// ErrChanged is wrapped by Add's error for a file that was written to while it
// was read.
var ErrChanged = errors.New("it changed while it was read")

// Add identifies a file and takes its objects. An error that wraps
// objfile.ErrNotSymbolFile, objfile.ErrBroken, ErrNoID or ErrChanged speaks of
// this file alone; any other means that the transaction cannot go on.
func (tx *Tx) Add(ctx context.Context, src Source) ([]Added, error) {
	objs, err := identify(src)
	if err != nil {
		return nil, err
	}
	path, archive := src.origin()
	var added []Added
	var entries []index.Entry
	for _, o := range objs {
		a, err := tx.take(ctx, src.Content, o)
		if err != nil {
			return nil, err
		}
		added = append(added, a)
		entries = append(entries, index.Entry{
			Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: a.Ref, Size: o.Size,
			Aliases: o.Aliases(), Path: path, Archive: archive, ModTime: src.ModTime,
		})
	}
	if src.Content.Changed() {
		return nil, ErrChanged
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, errors.New("the transaction has ended")
	}
	for i, e := range entries {
		k := entryKey{e.Ref, e.Object}
		if added[i].Again = tx.once[k]; added[i].Again {
			continue
		}
		if tx.once != nil {
			tx.once[k] = true
		}
		tx.entries = append(tx.entries, e)
	}
	return added, nil
}

// identify identifies a file and returns its objects that something could ask
// for; there is at least one, or an error.
func identify(src Source) ([]objfile.Object, error) {
	forced, err := objfile.ParseForced(src.As)
	if err != nil {
		return nil, err
	}
	objs, err := objfile.Identify(src.Content, src.Content.Size(), src.identity(), objfile.Options{Kind: forced, ID: src.ID, Script: src.Script})
	if err != nil {
		return nil, err
	}
	var ask []objfile.Object
	for _, o := range objs {
		if len(o.Aliases()) > 0 && symfile.ValidName(o.Name) {
			ask = append(ask, o)
		}
	}
	if len(ask) == 0 {
		return nil, noID(objs)
	}
	return ask, nil
}

// DryRun finds out what Tx.Add would take, and keeps nothing. d may be nil: then
// nothing is known yet.
func DryRun(ctx context.Context, d *Depot, src Source) ([]Added, error) {
	objs, err := identify(src)
	if err != nil {
		return nil, err
	}
	var list []Added
	for _, o := range objs {
		ref, n, err := blob.Hash(ctx, objectReader(src.Content, o))
		if err != nil {
			return nil, err
		}
		if n != o.Size {
			return nil, fmt.Errorf("%w: it inflates to another size than it says", objfile.ErrBroken)
		}
		a := Added{Object: o, Ref: ref}
		if d != nil {
			if a.Known, err = d.db.HasContent(ctx, ref); err != nil {
				return nil, err
			}
		}
		list = append(list, a)
	}
	return list, nil
}

func noID(objs []objfile.Object) error {
	hint := ""
	if len(objs) > 0 {
		switch o := objs[0]; o.Kind {
		case symfile.ELF:
			switch o.Role {
			case symfile.Debug:
				hint = ": split DWARF is found through the program that it belongs to; --as sha1 keeps it by its hash"
			case 0:
				hint = ": it is an object file"
			default:
				hint = ": link with --build-id"
			}
		case symfile.WASM:
			hint = ": link with --build-id, or add the section with a tool"
		}
		if !symfile.ValidName(objs[0].Name) {
			hint = ": its name cannot be a path component"
		}
	}
	return fmt.Errorf("%w%s", ErrNoID, hint)
}

// objectReader reads an object's bytes: a part of the file, or what it inflates
// to. It gives one byte more than the size claims if there are more.
func objectReader(c Content, o objfile.Object) io.Reader {
	if whole, ok := c.(interface{ Reader() io.Reader }); ok && o.Deflated == 0 && o.Offset == 0 && o.Size == c.Size() {
		return whole.Reader()
	}
	if o.Deflated == 0 {
		return io.NewSectionReader(c, o.Offset, o.Size)
	}
	return io.LimitReader(flate.NewReader(io.NewSectionReader(c, o.Offset, o.Deflated)), o.Size+1)
}

// take puts the bytes of one object into the batch.
func (tx *Tx) take(ctx context.Context, c Content, o objfile.Object) (Added, error) {
	// A rebuilt tree mostly brings files that are here already: hash those
	// that the index seems to know instead of writing them once more.
	if known, err := tx.d.db.HasObject(ctx, o.Object, o.Size); err == nil && known {
		ref, n, err := blob.Hash(ctx, objectReader(c, o))
		if err == nil && n == o.Size && tx.batch.Known(ctx, ref) {
			return Added{Object: o, Ref: ref, Known: true}, nil
		}
	}
	ref, _, err := tx.batch.Put(ctx, o.Size, objectReader(c, o))
	if err != nil {
		if errors.Is(err, blob.ErrMismatch) {
			if c.Changed() {
				return Added{}, ErrChanged
			}
			return Added{}, fmt.Errorf("%w: %w", objfile.ErrBroken, err)
		}
		return Added{}, err
	}
	known, err := tx.d.db.HasContent(ctx, ref)
	if err != nil {
		return Added{}, err
	}
	a := Added{Object: o, Ref: ref, Known: known}
	if known && !tx.has(ref) {
		// Nearly always the stored bytes are damaged: intact ones were found above.
		what, err := tx.d.contents.hash(ctx, index.Content{Ref: ref, Size: o.Size}, nil)
		a.Restored = what != "" || err != nil && ctx.Err() == nil
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	a.Known = a.Known || tx.refs[ref]
	tx.refs[ref] = true
	return a, nil
}

// has reports whether the transaction has taken a content before.
func (tx *Tx) has(ref blob.Ref) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.refs[ref]
}

// Commit makes everything durable and then visible at once, and returns the
// transaction's number. On error nothing is visible.
func (tx *Tx) Commit(ctx context.Context) (int64, error) {
	tx.mu.Lock()
	if tx.done {
		tx.mu.Unlock()
		return 0, errors.New("the transaction has ended")
	}
	tx.done = true
	entries := tx.entries
	tx.mu.Unlock()
	if len(entries) == 0 {
		tx.batch.Abort()
		return 0, ErrEmpty
	}
	if err := tx.batch.Commit(ctx); err != nil {
		return 0, fmt.Errorf("depot %s: %w", tx.d.dir, err)
	}
	linkRuntimes(entries)
	kind, at := "add", tx.info.Time
	if tx.info.Origin != nil {
		kind = "import"
	}
	if at.IsZero() {
		at = tx.d.now()
	}
	n, err := tx.d.db.Commit(ctx, index.Tx{
		Kind: kind, Product: tx.info.Product, Version: tx.info.Version, Comment: tx.info.Comment,
		Who: tx.info.Who, Host: tx.info.Host, Time: at, Origin: tx.info.Origin, Entries: entries,
	}, func(ctx context.Context, refs []blob.Ref) error {
		// The collector waits for this same lock: what is there now stays.
		for _, r := range refs {
			if _, err := tx.d.blobs.Stat(ctx, r); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("a file was collected while it was being added; add again: %w", err)
				}
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("depot %s: %w", tx.d.dir, err)
	}
	return n, nil
}

// ErrEmpty is returned by Commit for a transaction without objects; it uses
// up no number.
var ErrEmpty = errors.New("nothing to add")

// Rollback drops the transaction. After Commit it does nothing.
func (tx *Tx) Rollback() {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if !tx.done {
		tx.done = true
		tx.batch.Abort()
	}
}

// linkRuntimes gives the debugger helpers of a .NET runtime the aliases that
// carry the runtime's id, when both were added from one folder.
func linkRuntimes(entries []index.Entry) {
	folder := func(p string) string { return path.Dir(strings.ReplaceAll(p, `\`, "/")) }
	runtimes := map[string][]symfile.Object{}
	for _, e := range entries {
		switch symfile.Fold(e.Object.Name) {
		case "coreclr.dll", "clr.dll", "libcoreclr.so", "libcoreclr.dylib":
			f := folder(e.Path)
			runtimes[f] = append(runtimes[f], e.Object)
		}
	}
	if len(runtimes) == 0 {
		return
	}
	for i := range entries {
		for _, rt := range runtimes[folder(entries[i].Path)] {
			entries[i].Aliases = append(entries[i].Aliases, symfile.RuntimeHelpers(rt, entries[i].Object)...)
		}
	}
}
