// Package scan walks build trees and the archives in them, and yields the
// files one after the other. Archives are read where they stand: nothing is
// unpacked to disk, and what a file is, the caller decides.
//
// Read as archives, by their first bytes and never by their name, are zip (and
// with it nupkg, snupkg, wheel, apk, jar, msix), tar, Debian packages, RPM
// packages, cabinets (and so .pd_ and .dl_ files) and cpio in the "newc" form,
// each also inside another. A single
// file in gzip, zlib, zstd, xz or bzip2 is opened and yielded plain; if it
// holds an archive, that is walked. Zlib has no magic worth the name: a file
// counts as zlib if it is called .zz or .zlib, or if its inflated beginning
// is accepted by Options.Want.
//
// The path of an archive's member is the archive's path, "!/", and the
// member's name as the archive gives it, without a leading "./":
// "drop/app.zip!/lib.nupkg!/lib/net8.0/lib.pdb". Such names are data: they
// are shown and recorded, and never used as a path on disk.
package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

// Separator stands between an archive's path and its member's name.
const Separator = "!/"

// HeadSize is how many bytes of a file Options.Want is shown at most.
const HeadSize = 4096

// Options of a walk. The zero value is a good one: zero limits mean the
// defaults given at each field.
type Options struct {
	// FollowSymlinks walks through symbolic links inside trees. Each folder
	// is then walked once, under the first name met. A root that is itself a
	// link is always followed.
	FollowSymlinks bool
	// Want is asked, before any buffering, whether a file may be of interest;
	// head is its beginning, at most HeadSize bytes, and name its base name.
	// An error says no, and why: the file is reported as a Skip of
	// ReasonUnwanted that wraps it. Archives are not asked about, but their
	// members are. Nil wants everything. It runs in the walking goroutine.
	Want func(head []byte, name string) error
	// Progress, if set, is told in the walking goroutine how far the walk has
	// come in a file on disk: once with 0 when it is begun and, if it is an
	// archive, at each member with about the offset being read.
	Progress func(path string, bytes int64)
	// TempDir is where members that are too big for memory are spooled, into
	// files unlinked at once. Empty: the system's folder.
	TempDir string
	// MemberMemory is how many bytes of one member are held in memory before
	// it is spooled to TempDir: 64 MiB.
	MemberMemory int64
	// TotalMemory bounds the memory of all members held at one time: 256 MiB.
	// What goes beyond is spooled; nothing waits.
	TotalMemory int64
	// MaxWindow bounds the window (dictionary) of a zstd or xz stream, which
	// is memory taken for as long as the stream is read: 64 MiB.
	MaxWindow int64
	// MaxDepth is how deep archives may be nested: 3. A Debian package counts
	// as two, its data.tar being one; compression does not count.
	MaxDepth int
	// MaxEntries bounds the entries of one file on disk, all nested archives
	// together: 1,000,000.
	MaxEntries int64
	// MaxMember bounds one unpacked member: 64 GiB.
	MaxMember int64
	// MaxTotal and MaxRatio bound what is unpacked out of one file on disk:
	// the larger of MaxTotal, 1 GiB, and MaxRatio, 200, times its size.
	MaxTotal, MaxRatio int64
}

func (o *Options) setDefaults() {
	set := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&o.MemberMemory, 64<<20)
	set(&o.TotalMemory, 256<<20)
	set(&o.MaxWindow, 64<<20)
	set(&o.MaxEntries, 1_000_000)
	set(&o.MaxMember, 64<<30)
	set(&o.MaxTotal, 1<<30)
	set(&o.MaxRatio, 200)
	if o.MaxDepth <= 0 {
		o.MaxDepth = 3
	}
}

// unpackLimit is how much may be unpacked out of a file of this size.
func (o *Options) unpackLimit(size int64) int64 {
	const most = 1 << 61 // sums of two stay in an int64
	limit := int64(most)
	if size < most/o.MaxRatio {
		limit = size * o.MaxRatio
	}
	return max(limit, min(o.MaxTotal, most))
}

// File is one file found. It may be handed to another goroutine, but is used
// by one at a time. Whoever has it calls Discard in the end, opened or not.
type File struct {
	// Path is what people are shown: see the package comment.
	Path string
	// Name is the base name to identify the file by: that of a member comes
	// after the last slash of either kind, and a compressed file has lost the
	// suffix that says so ("foo.pdb.gz" is "foo.pdb").
	Name string
	// Archive is the path of the outermost archive, a file on disk, and
	// Member the rest of Path. Both are empty for files that stand on disk,
	// compressed ones too.
	Archive, Member string
	// Size in bytes, or -1 where it is only known once the file is open. For
	// a file on disk it is what the walk saw: Content knows better.
	Size int64
	// ModTime is the file's own, or zero where an archive has none.
	ModTime time.Time

	open func(context.Context) (*Content, error)
	hold *store // what must live until Discard; nil for files on disk
}

// Open returns the file's bytes. A member that cannot be read in place is
// unpacked into memory or an unlinked temporary file first. A file may be
// opened several times, until it is discarded. The error is a *Skip, or the
// context's.
func (f *File) Open(ctx context.Context) (*Content, error) {
	if f.open == nil {
		return nil, &Skip{Path: f.Path, Reason: ReasonUnreadable, Err: fs.ErrClosed}
	}
	c, err := f.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Skip{Path: f.Path, Reason: reasonOf(err), Err: err}
	}
	return c, nil
}

// Discard frees what is kept for Open. Contents that are open stay readable
// until they are closed. More than one call does nothing more.
func (f *File) Discard() {
	f.open = nil
	if f.hold != nil {
		f.hold.drop()
		f.hold = nil
	}
}

// Reason says in fixed words why something was skipped; summaries count by it.
type Reason string

// The reasons.
const (
	ReasonSymlink     Reason = "a symbolic link; not followed"
	ReasonLoop        Reason = "a symbolic link to a folder walked under another name"
	ReasonIrregular   Reason = "neither file nor folder"
	ReasonVanished    Reason = "no such file or folder"
	ReasonUnreadable  Reason = "cannot be read"
	ReasonUnwanted    Reason = "not of interest"
	ReasonUnsupported Reason = "packed in a form that is not opened"
	ReasonEncrypted   Reason = "encrypted"
	ReasonDepth       Reason = "an archive nested too deep; not opened"
	ReasonLimit       Reason = "too big when unpacked"
	ReasonDamaged     Reason = "damaged or cut short"
	ReasonNoSpace     Reason = "could not be held in memory or in a temporary file"
)

// Skip says that a file, folder or the rest of an archive was passed over.
type Skip struct {
	Path   string
	Reason Reason
	Err    error // more about it, or nil
}

func (s *Skip) Error() string {
	if s.Err == nil {
		return fmt.Sprintf("%s: %s", s.Path, s.Reason)
	}
	return fmt.Sprintf("%s: %s: %v", s.Path, s.Reason, s.Err)
}

func (s *Skip) Unwrap() error { return s.Err }

var (
	// errLimit is wrapped by all errors about limits of Options.
	errLimit = errors.New("over the limit")
	// errSpool is wrapped by errors of temporary files.
	errSpool = errors.New("temporary file")
	// errUnsupported is wrapped by errors about unknown methods and formats.
	errUnsupported = errors.New("not supported")
)

func reasonOf(err error) Reason {
	var path *fs.PathError
	switch {
	case errors.Is(err, errLimit), errors.Is(err, xz.ErrMemlimit),
		errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return ReasonLimit
	case errors.Is(err, errSpool):
		return ReasonNoSpace
	case errors.Is(err, errUnsupported):
		return ReasonUnsupported
	case errors.Is(err, errIrregular):
		return ReasonIrregular
	case errors.Is(err, fs.ErrNotExist):
		return ReasonVanished
	case errors.As(err, &path), errors.Is(err, fs.ErrClosed):
		return ReasonUnreadable
	}
	return ReasonDamaged
}

// Walk yields the files at and below roots: roots in the order given, folders
// in the order of their names, members in their archive's order. What cannot
// be taken is yielded as a *Skip error with a nil File, and the walk goes on;
// members read before an archive turns out damaged stay valid. If ctx ends,
// its error is yielded last.
//
// Members of a streamed archive are read into memory or a temporary file
// before they are yielded; all others when they are opened. The caller bounds
// what is held by discarding Files.
func Walk(ctx context.Context, roots []string, opt Options) iter.Seq2[*File, error] {
	opt.setDefaults()
	return func(yield func(*File, error) bool) {
		w := &walk{ctx: ctx, opt: opt, yield: yield, pool: &pool{}}
		w.pool.left.Store(opt.TotalMemory)
		for _, root := range roots {
			if w.ended() {
				return
			}
			w.root(root)
		}
		w.ended()
	}
}

// walk is the state of one walk, owned by the goroutine that pulls. The pool
// is shared with whoever holds Contents.
type walk struct {
	ctx   context.Context
	opt   Options
	yield func(*File, error) bool
	done  bool // yield must not be called again
	pool  *pool
	seen  map[string]bool // real paths of folders walked, if links are followed
}

// ended reports whether the walk is over, and says why if the context ended it.
func (w *walk) ended() bool {
	if !w.done && w.ctx.Err() != nil {
		w.done = true
		w.yield(nil, w.ctx.Err())
	}
	return w.done
}

func (w *walk) file(f *File) {
	if w.ended() {
		f.Discard()
		return
	}
	w.done = !w.yield(f, nil)
}

func (w *walk) skip(path string, reason Reason, err error) {
	if w.ended() {
		return
	}
	w.done = !w.yield(nil, &Skip{Path: path, Reason: reason, Err: err})
}

// progress tells how far reading has come in the file on disk around in.
func (w *walk) progress(in *input) {
	if w.opt.Progress != nil && !w.done {
		d := in.base.disk
		w.opt.Progress(d.path, d.pos.Load())
	}
}

// memberBase is a member's base name, whichever slashes its archive uses.
func memberBase(name string) string {
	name = strings.TrimRight(name, `/\`)
	return name[strings.LastIndexAny(name, `/\`)+1:]
}
