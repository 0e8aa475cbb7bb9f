// Package scan walks build trees and the archives in them, and yields their files
// in order. It reads archives in place, without unpacking them into a folder. The
// caller identifies the files.
//
// It reads zip archives (and so nupkg, snupkg, wheel, apk, jar and msix), tar
// archives, Debian packages, RPM packages, cabinets (and so .pd_ and .dl_ files),
// packages of Windows Installer, disk images of macOS with HFS+ volumes,
// and cpio archives of the "newc" format, nested ones included. It yields a file
// that is compressed with gzip, zlib, zstd, xz or bzip2 decompressed, and walks an
// archive in it. The first bytes of a file decide about its format, not its name.
// Only zlib, whose magic is weak, needs more: the suffix .zz or .zlib, or
// decompressed bytes that are a tar archive or that Options.Want accepts. A disk
// image needs the suffix .dmg.
//
// The path of a member is the path of the archive, "!/", and the name of the
// member in the archive without a leading "./":
// "drop/app.zip!/lib.nupkg!/lib/net8.0/lib.pdb". Such names are shown and
// recorded. They are never used as a path on disk.
package scan

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/base/xz"
	"github.com/symdepot/symdepot/internal/base/zstdpoint"
)

// Separator is between the path of an archive and the name of its member.
const Separator = "!/"

// HeadSize is the largest number of bytes that Options.Want receives.
const HeadSize = 4096

// Options of a walk. A limit of zero means the default named at its field.
type Options struct {
	// FollowSymlinks follows symbolic links inside trees. Each folder is then
	// walked once, under the first name met. A root that is a link is always
	// followed.
	FollowSymlinks bool
	// Beside lets an installer package on disk have its cabinets beside it, as it says. A file of an unknown
	// sender must not name others.
	Beside bool
	// Want decides, before a file is buffered, whether it may be of interest.
	// head has the first bytes of the file, at most HeadSize, and name is its
	// base name. An error means that the file is not wanted: a Skip of
	// ReasonUnwanted wraps it. Want is called for the members of archives, not
	// for archives. Nil wants all files. It runs in the goroutine of the walk.
	Want func(head []byte, name string) error
	// Progress, if set, reports how far the walk has come in a file on disk:
	// with 0 at its start and, in an archive, with the approximate offset at
	// each member. It runs in the goroutine of the walk.
	Progress func(path string, bytes int64)
	// TempDir is the folder for members that exceed the memory limits. They go
	// to files that are unlinked at once. Empty: the system's folder.
	TempDir string
	// MemberMemory is the number of bytes of one member that are held in memory
	// before it goes to TempDir: 64 MiB.
	MemberMemory int64
	// TotalMemory limits the memory for all members together: 256 MiB. Members
	// beyond it go to TempDir; the walk does not wait.
	TotalMemory int64
	// MaxWindow limits the window (dictionary) of a zstd or xz stream, which
	// takes that much memory while the stream is read: 64 MiB.
	MaxWindow int64
	// Spare has an element for each processor that a visit may use besides its own. A
	// visit takes one to read ahead, and gives it back. It may be nil.
	Spare chan struct{}
	// NotePoints, if not nil, returns how points are noted of a zstd stream of packed bytes
	// at an offset of the file on disk. Streams that have parts which can be read alone have none.
	NotePoints func(base, packed int64) zstdpoint.Options
	// PointBefore, if not nil, returns the last point of the zstd stream at base that was noted at
	// or in front of an offset of the decompressed bytes. OpenPlace begins there.
	PointBefore func(base, offset int64) (p zstdpoint.Point, ok bool)
	// MaxDepth limits the nesting of archives: 3. A Debian package counts as
	// two, because its data.tar is an archive. Compression does not count.
	MaxDepth int
	// MaxEntries limits the entries of one file on disk, nested archives
	// included: 1,000,000.
	MaxEntries int64
	// MaxMember limits the size in bytes of one unpacked member: 64 GiB.
	MaxMember int64
	// MaxTotal and MaxRatio limit the bytes that are unpacked out of one file
	// on disk: to the larger of MaxTotal, 1 GiB, and MaxRatio, 200, times its
	// size.
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

// unpackLimit returns the number of bytes that may be unpacked out of a file of
// this size.
func (o *Options) unpackLimit(size int64) int64 {
	const most = 1 << 61 // the sum of two fits into an int64
	limit := int64(most)
	if size < most/o.MaxRatio {
		limit = size * o.MaxRatio
	}
	return max(limit, min(o.MaxTotal, most))
}

// File is one file that the walk has found. It may be passed to another
// goroutine, but is used by one at a time. The last user calls Discard, whether
// the file was opened or not.
type File struct {
	// Path is the path for messages: see the package comment.
	Path string
	// Name is the base name for identifying the file. That of a member follows
	// the last slash of either kind. That of a compressed file lacks the suffix
	// of the compression ("foo.pdb.gz" is "foo.pdb").
	Name string
	// Archive is the path of the outermost archive, a file on disk, and Member
	// the rest of Path. Both are empty for files on disk, also for compressed
	// ones.
	Archive, Member string
	// Size in bytes, or -1 if only opening the file shows it. The size of a
	// file on disk is as the walk saw it; Content has the current one.
	Size int64
	// ModTime is the modification time, or zero if an archive has none.
	ModTime time.Time
	// Signature is the IMA signature of the bytes in lower-case hex, from the RPM package
	// that the file is a member of; empty if it has none. Nothing has checked it.
	Signature string

	open func(context.Context) (*Content, error)
	hold *store // released by Discard; nil for files on disk
}

// OnDisk returns a file on disk as it is: neither an archive nor a compressed file is
// unpacked.
func OnDisk(path string, info fs.FileInfo) *File {
	return &File{Path: path, Name: info.Name(), Size: info.Size(), ModTime: info.ModTime(), open: openPlain(path)}
}

// Open returns the content of the file. It unpacks a member that has no random
// access into memory or an unlinked temporary file. A file may be opened
// several times before it is discarded. The error is a *Skip, or that of the
// context.
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

// Share returns another File with the same content, which is used and discarded on its
// own.
func (f *File) Share() *File {
	g := *f
	if g.hold != nil {
		g.hold = g.hold.take()
	}
	return &g
}

// Discard releases the file. Open Contents stay readable until they are closed.
// Further calls do nothing.
func (f *File) Discard() {
	f.open = nil
	if f.hold != nil {
		f.hold.drop()
		f.hold = nil
	}
}

// Reason is the reason for skipping a file, in fixed words. Summaries count by
// it.
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

// Notable reports whether a skipped file may have held symbols, so that summaries name
// it. Links are not notable: what they lead to is walked under its own name or lies
// outside.
func (r Reason) Notable() bool {
	switch r {
	case ReasonSymlink, ReasonLoop, ReasonIrregular, ReasonUnwanted:
		return false
	}
	return true
}

// Unreadable reports whether a file or folder could not be read on this machine, in
// contrast to one that is damaged.
func (r Reason) Unreadable() bool { return r == ReasonUnreadable || r == ReasonNoSpace }

// Skip reports that the walk skipped a file, a folder or the rest of an
// archive.
type Skip struct {
	Path   string
	Reason Reason
	Err    error // details; may be nil
}

func (s *Skip) Error() string {
	if s.Err == nil || s.Reason == ReasonVanished { // the details of ReasonVanished repeat it
		return fmt.Sprintf("%s: %s", truncate.Name(s.Path), s.Reason)
	}
	return fmt.Sprintf("%s: %s: %v", truncate.Name(s.Path), s.Reason, s.Err)
}

func (s *Skip) Unwrap() error { return s.Err }

var (
	// errLimit is wrapped by errors about the limits in Options.
	errLimit = errors.New("over the limit")
	// errSpool is wrapped by errors of temporary files.
	errSpool = errors.New("temporary file")
	// errUnsupported is wrapped by errors about unsupported methods and
	// formats.
	errUnsupported = errors.New("not supported")
)

func reasonOf(err error) Reason {
	var path *fs.PathError
	switch {
	case errors.Is(err, errLimit), errors.Is(err, xz.ErrDictionary),
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

// walk is the state of one walk. The goroutine of the walk owns it. Contents
// share the pool.
type walk struct {
	ctx   context.Context
	opt   Options
	yield func(*File, error) bool
	done  bool // yield must not be called again
	pool  *pool
	seen  map[string]bool // real paths of walked folders, if links are followed
	parts map[string]bool // paths of files that were read as parts of others

	visitor Visitor // receives the files in place of yield; nil: see Visit
	failed  error   // why the visitor ended the walk
}

// ended reports whether the walk is over. If the context has ended, it yields
// the context's error first.
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

// progress reports how far the walk has come in the file on disk around in.
func (w *walk) progress(in *input) {
	if w.opt.Progress != nil && !w.done {
		d := in.base.disk
		w.opt.Progress(d.path, d.pos.Load())
	}
}

// memberBase returns the base name of a member. Archives use slashes of both
// kinds.
func memberBase(name string) string {
	name = strings.TrimRight(name, `/\`)
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// errIrregular means that a path does not lead to a regular file.
var errIrregular = errors.New("not a regular file")
