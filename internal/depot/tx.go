package depot

import (
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// TxInfo describes a transaction.
type TxInfo struct {
	Product, Version, Comment string
	// Branch is what the build was made from. Class is the class of the retention
	// policy; empty: the policy chooses it. Begin refuses a class that the policy does
	// not have.
	Branch, Class string
	Who, Host     string
	// Time is the time of the transaction; zero means the time of its commit.
	Time time.Time
	// Origin is the transaction of another store that is imported; nil for a new
	// transaction. With an Origin, a file that is added twice is recorded once,
	// because stores keep some files under two keys.
	Origin *Origin
}

// Origin identifies the transaction of another store that was imported.
type Origin = record.Origin

// ErrImported is wrapped by Commit's error if the transaction of that origin has
// been imported already and has not been removed.
var ErrImported = contents.ErrImported

// Content is an opened candidate file.
type Content interface {
	io.ReaderAt
	Size() int64
	// Changed reports whether the file was written to since it was opened.
	Changed() bool
	// Optional: Reader() io.Reader reads the whole content once and verifies
	// checksums that need a whole read, such as those of a zip archive.
}

// Source is one candidate file for Tx.Add.
type Source struct {
	Path string // for users; absolute on this machine, with the path of an archive member after "!/"
	Name string // base name to identify it by, if it differs from that of Path; or empty
	// Label names the file in the list of all files of the transaction; see scan.Labels.
	// Empty: the file has none, and the transaction equals no other.
	Label   string
	Archive string // the outermost archive that contains it, or empty
	ModTime time.Time
	// Signature is the IMA signature of the file in hex, or empty.
	Signature string
	Content   Content
	As, ID    string // the kind and id of a file without recognizable format: see objfile.Options
	// Script opens the script to which a source map belongs; only for As "jsmap".
	Script func() (io.ReadCloser, error)
}

// origin returns the path and the archive that lookups report for a file. The
// path of an archive member is the one in the innermost archive, with a leading
// slash, as if the package were installed. The archive is the outermost one,
// followed by the nested archives that contain the file.
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

// signatureOf returns the signature that belongs to an object: none for a part of the
// file.
func (s Source) signatureOf(o objfile.Object) string {
	if !wholeOf(s.Content, o) {
		return ""
	}
	return s.Signature
}

// memberSeparator precedes the path of an archive member in paths of package
// scan.
const memberSeparator = "!/"

// identity returns the path by which the file is identified: that of a compressed
// file without the suffix of the compression.
func (s Source) identity() string {
	if s.Name == "" {
		return s.Path
	}
	return strings.TrimSuffix(s.Path, symfile.BaseName(s.Path)) + s.Name
}

// Tx collects objects; nothing is visible before Commit. Add may be called by
// many goroutines.
type Tx struct {
	commits *commits
	links   *srclink.Rules
	info    TxInfo
	batch   blob.Batch

	mu      sync.Mutex // guards what follows
	entries []record.Entry
	refs    map[blob.Ref]bool // contents whose bytes were taken
	given   map[blob.Ref]bool // contents of the entries
	once    map[entryKey]bool // nil: entries may repeat
	// files are the contents of the files by their labels; nil: a file has no label, or
	// there is an Origin, and the transaction equals no other.
	files map[stage.Entry]bool
	again bool
	done  bool
}

// entryKey is equal for entries of one object with one content.
type entryKey struct {
	ref    blob.Ref
	object symfile.Object
}

// Begin opens a transaction. Its number is given at Commit.
func (d *Depot) Begin(ctx context.Context, info TxInfo) (*Tx, error) {
	if info.Class != "" {
		if err := d.Retention.CheckClass(ctx, info.Class); err != nil {
			return nil, err
		}
	}
	b, err := d.blobs.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("depot %s: %w", d.home.Name, err)
	}
	tx := &Tx{commits: d.commits, links: &d.links, info: info, batch: b, refs: map[blob.Ref]bool{}, given: map[blob.Ref]bool{}}
	if info.Origin != nil {
		tx.once = map[entryKey]bool{}
	} else {
		tx.files = map[stage.Entry]bool{}
	}
	return tx, nil
}

// Added is one object that Tx.Add added.
type Added struct {
	Object objfile.Object
	Ref    blob.Ref
	Known  bool // the depot had these bytes already
	// Restored: the depot listed the content, but its stored bytes were damaged or
	// missing. Commit replaces them.
	Restored bool
	Again    bool // the transaction had the same object already; see TxInfo.Origin
	// Flags say what the rules for links to source files note about the object.
	Flags []string
}

// ErrNoID is wrapped by Add's error for a symbol file without an id, which no
// debugger can request.
var ErrNoID = errors.New("it has no id that a debugger could ask for")

// ErrLinks is wrapped by Add's error for a file that the rules for links to source
// files refuse.
var ErrLinks = errors.New("refused")

// ErrChanged is wrapped by Add's error for a file that was written to while it
// was read.
var ErrChanged = errors.New("it changed while it was read")

// Add identifies a file and adds its objects. An error that wraps
// objfile.ErrNotSymbolFile, objfile.ErrBroken, ErrNoID, ErrLinks or ErrChanged concerns
// this file alone; after any other the transaction cannot continue.
func (tx *Tx) Add(ctx context.Context, src Source) ([]Added, error) {
	objs, err := identify(src)
	if err != nil {
		return nil, err
	}
	flags, err := judgeLinks(tx.links, tx.info.Product, src, objs)
	if err != nil {
		return nil, err
	}
	path, archive := src.origin()
	var added []Added
	var entries []record.Entry
	for i, o := range objs {
		a, err := tx.take(ctx, src.Content, o)
		if err != nil {
			return nil, err
		}
		a.Flags = flags[i]
		added = append(added, a)
		entries = append(entries, record.Entry{
			Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, Ref: a.Ref, Size: o.Size,
			Aliases: o.Aliases(), Path: path, Archive: archive, ModTime: src.ModTime, Signature: src.signatureOf(o),
		})
	}
	if src.Content.Changed() {
		return nil, ErrChanged
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	if tx.done {
		return nil, errors.New("the build has ended")
	}
	for i, e := range entries {
		// Of files that are added at once, the first one here has brought the bytes, and it is not there again.
		added[i].Known = added[i].Known || tx.given[e.Ref]
		tx.given[e.Ref] = true
		k := entryKey{e.Ref, e.Object}
		if added[i].Again = tx.once[k]; added[i].Again {
			continue
		}
		if tx.once != nil {
			tx.once[k] = true
		}
		tx.entries = append(tx.entries, e)
	}
	tx.list(src, added)
	return added, nil
}

// list notes the contents of a file for the manifest: that of the file, or those of its
// parts if none of its objects is the whole file. mu is held.
func (tx *Tx) list(src Source, added []Added) {
	if src.Label == "" {
		tx.files = nil
	}
	if tx.files == nil {
		return
	}
	parts := added
	if i := slices.IndexFunc(added, func(a Added) bool { return wholeOf(src.Content, a.Object) }); i >= 0 {
		parts = added[i : i+1]
	}
	for _, a := range parts {
		tx.files[stage.Entry{Path: src.Label, Size: a.Object.Size, Ref: a.Ref}] = true
	}
}

// wholeOf reports whether an object is the whole file.
func wholeOf(c Content, o objfile.Object) bool {
	return o.Offset == 0 && o.Deflated == 0 && o.Size == c.Size()
}

// judgeLinks applies the rules for links to source files to the objects of a file. flags
// has an entry for each object. The error wraps ErrLinks if the product refuses one.
func judgeLinks(rules *srclink.Rules, product string, src Source, objs []objfile.Object) (flags [][]string, err error) {
	flags = make([][]string, len(objs))
	for i, o := range objs {
		v, err := judge(rules, product, src.Content, o)
		if err != nil {
			return nil, err
		}
		if v.Refused != "" {
			return nil, fmt.Errorf("%w: %s", ErrLinks, v.Refused)
		}
		flags[i] = v.Flags
	}
	return flags, nil
}

// identify returns the objects of a file that clients can request: at least one,
// or an error.
func identify(src Source) ([]objfile.Object, error) {
	forced, err := objfile.ParseForced(src.As)
	if err != nil {
		return nil, err
	}
	opt := objfile.Options{Kind: forced, ID: src.ID, Script: src.Script}
	objs, err := objfile.Identify(src.Content, src.Content.Size(), src.identity(), opt)
	if err != nil {
		return nil, err
	}
	var list []objfile.Object
	for _, o := range objs {
		if canBeRequested(o.Object) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil, noID(objs)
	}
	return list, nil
}

// canBeRequested reports whether a request can find an object. A .sym file for Windows
// without a debug id is known by its code id only: that leads to the debug id, which it lacks.
func canBeRequested(o symfile.Object) bool {
	found := slices.ContainsFunc(o.Aliases(), func(a symfile.Alias) bool { return o.Kind != symfile.Breakpad || a.Role != symfile.CodeInfo })
	return found && symfile.ValidName(o.Name)
}

// DryRun returns the objects that Tx.Add would add, without storing anything. d
// may be nil: then no object is known.
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
			return nil, fmt.Errorf("%w: its decompressed size differs from the recorded one", objfile.ErrBroken)
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
		case symfile.Breakpad:
			hint = ": its MODULE record has only zeros"
		case symfile.WASM:
			hint = ": link with -Wl,--build-id, or add the section build_id with Sentry's wasm-split"
		}
		if !symfile.ValidName(objs[0].Name) {
			hint = ": its name cannot be a path component"
		}
	}
	return fmt.Errorf("%w%s", ErrNoID, hint)
}

// objectReader returns a reader of an object's bytes: a part of the file, possibly
// decompressed. If there are more bytes than the recorded size, it returns one of
// them, so that the caller notices.
func objectReader(c Content, o objfile.Object) io.Reader {
	if whole, ok := c.(interface{ Reader() io.Reader }); ok && wholeOf(c, o) {
		return whole.Reader()
	}
	if o.Deflated == 0 {
		return io.NewSectionReader(c, o.Offset, o.Size)
	}
	return io.LimitReader(flate.NewReader(io.NewSectionReader(c, o.Offset, o.Deflated)), o.Size+1)
}

// take puts the bytes of one object into the batch.
func (tx *Tx) take(ctx context.Context, c Content, o objfile.Object) (Added, error) {
	// Most files of a rebuilt tree are stored already: a file that the index seems
	// to have is hashed instead of written again.
	if known, err := tx.commits.db.HasObject(ctx, o.Object, o.Size); err == nil && known {
		ref, n, err := blob.Hash(ctx, objectReader(c, o))
		if err == nil && n == o.Size {
			held, err := tx.commits.contents.Held(ctx, tx.batch, record.Content{Ref: ref, Size: n})
			if err == nil && held {
				return Added{Object: o, Ref: ref, Known: true}, nil
			}
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
	known, err := tx.commits.db.HasContent(ctx, ref)
	if err != nil {
		return Added{}, err
	}
	a := Added{Object: o, Ref: ref, Known: known}
	if known && !tx.has(ref) {
		// Nearly always the stored bytes are damaged: intact ones were found above.
		what, err := tx.commits.contents.Hash(ctx, record.Content{Ref: ref, Size: o.Size}, nil)
		a.Restored = what != "" || err != nil && ctx.Err() == nil
	}
	tx.mu.Lock()
	defer tx.mu.Unlock()
	tx.refs[ref] = true
	return a, nil
}

// has reports whether the transaction already contains a content.
func (tx *Tx) has(ref blob.Ref) bool {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	return tx.refs[ref]
}

// Commit makes all contents durable, then makes all objects visible at once, and
// returns the transaction's number. After an error nothing is visible. If there is a
// transaction with the same labels and files, none is made: the number is that of the
// other one, and Again reports it. Damaged and missing contents are replaced nevertheless.
func (tx *Tx) Commit(ctx context.Context) (int64, error) {
	tx.mu.Lock()
	if tx.done {
		tx.mu.Unlock()
		return 0, errors.New("the build has ended")
	}
	tx.done = true
	entries := tx.entries
	tx.mu.Unlock()
	if len(entries) == 0 {
		tx.batch.Abort()
		return 0, ErrEmpty
	}
	kind := "add"
	if tx.info.Origin != nil {
		kind = "import"
	}
	row := record.Tx{
		Kind: kind, Product: tx.info.Product, Version: tx.info.Version, Comment: tx.info.Comment,
		Branch: tx.info.Branch, Class: tx.info.Class, Who: tx.info.Who, Host: tx.info.Host, Time: tx.info.Time,
		Origin: tx.info.Origin, Entries: entries,
	}
	if tx.files != nil {
		row.Manifest, row.Again = stage.Manifest(slices.Collect(maps.Keys(tx.files))), &tx.again
	}
	n, err := tx.commits.commit(ctx, row, tx.batch)
	if _, missing := errors.AsType[*stage.MissingError](err); missing {
		err = fmt.Errorf("garbage collection freed a file while it was being added; add it again: %w", err)
	}
	if err != nil {
		return n, fmt.Errorf("depot %s: %w", tx.commits.depot, err)
	}
	return n, nil
}

// Again reports whether Commit has found a transaction with the same product, version,
// branch, class and files, and made none.
func (tx *Tx) Again() bool { return tx.again }

// ErrEmpty is returned by Commit for a transaction without objects. No number is
// assigned.
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
