package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/filestamp"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

const tempDir = "tmp"

// Disk is a store in a directory. The blob abcdef… is the file ab/cdef….
// Temporary files are in tmp; [Disk.Sweep] removes leftover ones. Nothing
// outside the directory is changed.
//
// Content is flushed before its file gets its name, and the name is flushed
// before success is reported. This holds for an existing blob too, because
// another process may have written it and not have flushed it yet. A refreshed
// ModTime need not survive a power loss, because what it protects does not
// survive either.
type Disk struct {
	// Now returns the time of new blobs; nil means time.Now. It is set before
	// the first use.
	Now func() time.Time

	dir    string
	tree   *durable.Tree
	checks checks
	// Modes of new directories and files.
	dirPerm, filePerm fs.FileMode

	shards [256]atomic.Bool    // by the first byte of refs: their directory is durable
	denied atomic.Pointer[Ref] // a blob that this process might not read lately; nil: none
}

func (d *Disk) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// OpenDisk opens the store in the directory dir. It creates a missing directory
// with mode 0700. New files and directories in the store get the permissions of
// dir: exactly these if dir has the setgid bit, otherwise reduced by the umask.
func OpenDisk(dir string) (*Disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	tree, err := durable.OpenTree(dir)
	if err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	group := info.Mode() & fs.ModeSetgid
	tree.Exact = group != 0
	d := &Disk{dir: dir, tree: tree, dirPerm: info.Mode().Perm() | 0o700 | group, filePerm: info.Mode().Perm()&0o666 | 0o600}
	d.checks.now = d.now
	if err := tree.MkdirAll(tempDir, d.dirPerm); err != nil {
		return nil, errors.Join(fmt.Errorf("blob store: %w", err), tree.Close())
	}
	return d, nil
}

// Close closes the directory. Open files stay usable.
func (d *Disk) Close() error { return d.tree.Close() }

// Path returns the absolute name of a blob's file, which need not exist. The
// file must not be written to.
func (d *Disk) Path(ref Ref) string {
	return filepath.Join(d.dir, filepath.FromSlash(blobName(ref)))
}

// Ready implements [Backend]. It looks at every folder of blobs, and at the blob that could not
// be read lately.
func (d *Disk) Ready(ctx context.Context) error {
	list, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrPermission) {
		return d.refused("the stored files", "")
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() && !account.Reads(d.dir, e.Name()) {
			return d.refused("the stored files", e.Name())
		}
	}
	if ref := d.denied.Load(); ref != nil {
		f, err := d.open(*ref, -1)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err == nil {
			_ = f.Close() // opened for reading
		}
		d.denied.CompareAndSwap(ref, nil)
	}
	return ctx.Err()
}

// refused returns the error for a path below the store that this process may not use.
func (d *Disk) refused(what, name string) error {
	return &deniedError{what, account.Denied(d.dir, filepath.Join(d.dir, filepath.FromSlash(name)))}
}

// refuse is refused for a blob, and remembers the blob for Ready.
func (d *Disk) refuse(ref Ref) error {
	d.denied.Store(&ref)
	return d.refused("blob "+ref.String(), blobName(ref))
}

// Sweep implements [Backend].
func (d *Disk) Sweep(ctx context.Context, olderThan time.Duration) (int, error) {
	return d.tree.Sweep(ctx, tempDir, d.now().Add(-olderThan))
}

// blobName returns the name of a blob's file in the tree.
func blobName(ref Ref) string {
	s := ref.String()
	return s[:2] + "/" + s[2:]
}

// shardName returns the name of a blob's directory in the tree.
func shardName(ref Ref) string { return ref.String()[:2] }

// parseBlobName is the inverse of blobName for a shard and a file name in it. It
// rejects other spellings.
func parseBlobName(shard, name string) (Ref, bool) {
	ref, err := ParseRef(shard + name)
	return ref, err == nil && blobName(ref) == shard+"/"+name
}

// damaged reports whether a file visibly cannot be the blob, without reading it.
// A size of -1 means unknown.
func damaged(info fs.FileInfo, ref Ref, size int64) bool {
	return !info.Mode().IsRegular() ||
		size >= 0 && info.Size() != size ||
		info.Size() == 0 && ref != emptyRef
}

// Open implements [Store]. The File of a blob that is known to be intact also
// has the methods File() *os.File and SyscallConn.
func (d *Disk) Open(ctx context.Context, ref Ref) (File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.open(ref, -1)
	if err != nil {
		return nil, err
	}
	return d.checks.openChecked(ctx, ref, f)
}

// open opens a blob that is not visibly damaged. A size of -1 means unknown.
func (d *Disk) open(ref Ref, size int64) (*diskFile, error) {
	f, err := d.tree.Root().Open(blobName(ref))
	if err == nil && account.Reading() && !account.Reads(d.dir, blobName(ref)) {
		_ = f.Close() // opened for reading
		return nil, d.refuse(ref)
	}
	if err != nil {
		return nil, d.openError(ref, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // opened for reading
		return nil, fmt.Errorf("blob %s: %w", ref, err)
	}
	file := &diskFile{file: f, ref: ref, checks: &d.checks, size: info.Size(), modTime: info.ModTime()}
	if damaged(info, ref, size) {
		err := file.Reject(differs(info, size))
		_ = f.Close() // opened for reading
		return nil, err
	}
	return file, nil
}

// openError returns the error for a blob that cannot be opened.
func (d *Disk) openError(ref Ref, err error) error {
	info, lerr := d.tree.Root().Lstat(blobName(ref))
	switch {
	case lerr == nil && !info.Mode().IsRegular():
		return d.checks.failed(ref, stamp{}, differs(info, -1))
	case errors.Is(err, fs.ErrPermission):
		return d.refuse(ref)
	case unreadable(err):
		return d.checks.failed(ref, stamp{}, "cannot open it: "+err.Error())
	}
	return notExist(ref, err)
}

// differs describes the damage of a visibly damaged blob.
func differs(info fs.FileInfo, size int64) string {
	switch {
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case info.Size() == 0:
		return "it is empty"
	}
	return fmt.Sprintf("it has %d bytes instead of %d", info.Size(), size)
}

// Verify implements [Store].
func (d *Disk) Verify(ctx context.Context, ref Ref, size int64, pace func(n int) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := d.open(ref, size)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // opened for reading
	return d.checks.verify(ctx, ref, f, pace)
}

// Suspect implements [Store].
func (d *Disk) Suspect(ref Ref) bool {
	if !d.checks.suspect(ref) {
		return false
	}
	f, err := d.open(ref, -1)
	if err != nil {
		return true
	}
	defer func() { _ = f.Close() }() // opened for reading
	return d.checks.isRejected(ref, f)
}

// Missing implements [Store].
func (d *Disk) Missing(ref Ref) error { return d.checks.failed(ref, stamp{}, missing) }

// missing describes the damage of a blob that the index lists but the store
// lacks.
const missing = "it is missing"

// OpenWhole implements [Backend].
func (d *Disk) OpenWhole(ctx context.Context, ref Ref) (File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.open(ref, -1)
	if err != nil {
		return nil, err
	}
	if err := d.checks.known(ctx, ref, f); err != nil {
		_ = f.Close() // opened for reading
		return nil, err
	}
	return f, nil
}

// intact reports whether an existing blob is intact, and hashes it if that is
// unknown.
func (d *Disk) intact(ctx context.Context, ref Ref, size int64) (bool, error) {
	f, err := d.open(ref, size)
	if err == nil {
		defer func() { _ = f.Close() }() // opened for reading
		err = d.checks.known(ctx, ref, f)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// AsideDir is the folder of a store that holds the blobs that SetAside moved there.
const AsideDir = "damaged"

// SetAside implements [Backend]: the file is moved to a folder beside the shards.
func (d *Disk) SetAside(ref Ref) (path string, err error) {
	if !d.Suspect(ref) {
		return "", fmt.Errorf("set blob %s aside: it is not damaged any more: %w", ref, fs.ErrNotExist)
	}
	to, err := d.moveTo(ref)
	if err != nil {
		return "", fmt.Errorf("set blob %s aside: %w", ref, err)
	}
	return filepath.Join(d.dir, filepath.FromSlash(to)), nil
}

// moveTo moves whatever has the name of a blob to AsideDir and returns its new
// name in the tree.
func (d *Disk) moveTo(ref Ref) (to string, err error) {
	if err := d.tree.MkdirAll(AsideDir, d.dirPerm); err != nil {
		return "", err
	}
	to = AsideDir + "/" + ref.String()
	// Keep an earlier damaged file of the same content.
	for n := 1; n < 100; n++ {
		if _, err := d.tree.Root().Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s/%s-%d", AsideDir, ref, n)
	}
	if err := d.tree.Root().Rename(blobName(ref), to); err != nil {
		return "", err
	}
	return to, errors.Join(d.tree.SyncDir(AsideDir), d.tree.SyncDir(shardName(ref)))
}

// moveAside moves a directory that has the name of a blob out of the store.
func (d *Disk) moveAside(ref Ref) error {
	_, err := d.moveTo(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have moved it
		return fmt.Errorf("%s is a directory and must be removed: moving it aside failed: %w", d.Path(ref), err)
	}
	return nil
}

// Stat implements [Store].
func (d *Disk) Stat(ctx context.Context, ref Ref) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	info, err := d.tree.Root().Lstat(blobName(ref))
	if errors.Is(err, fs.ErrPermission) {
		return Info{}, d.refuse(ref)
	}
	if err != nil {
		return Info{}, notExist(ref, err)
	}
	if damaged(info, ref, -1) {
		return Info{}, &DamageError{ref, differs(info, -1)}
	}
	return Info{ref, info.Size(), info.ModTime()}, nil
}

func notExist(ref Ref, err error) error { return fmt.Errorf("blob %s: %w", ref, err) }

// Delete implements [Store]. It does not flush: its caller holds a lock that
// others wait for, and a blob that reappears after a power loss is garbage
// again. The error is [ErrInUse] for a blob that another program holds open, which
// is possible on Windows and on shares of Windows machines.
func (d *Disk) Delete(ctx context.Context, ref Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	root := d.tree.Root()
	err := durable.BusyError(root, blobName(ref), root.Remove(blobName(ref)))
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case durable.IsBusy(err):
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return fmt.Errorf("delete blob %s: %w", ref, err)
}

// Put implements [Store].
func (d *Disk) Put(ctx context.Context, ref Ref, size int64, r io.Reader) error {
	if err := d.put(ctx, ref, size, r); err != nil {
		return fmt.Errorf("put blob %s: %w", ref, err)
	}
	return nil
}

func (d *Disk) put(ctx context.Context, ref Ref, size int64, r io.Reader) error {
	if size < 0 {
		return fmt.Errorf("negative size: %w", ErrMismatch)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	there, err := d.has(ctx, ref, size)
	if err != nil {
		return err
	}
	if there {
		if err := d.ensureShard(ref); err != nil {
			return err
		}
		return d.tree.SyncDir(shardName(ref))
	}
	sink := &diskSink{disk: d, want: func(got Ref, _ int64) (bool, error) { return true, checkRef(got, ref) }}
	if _, _, _, err := receive(ctx, size, r, sink); err != nil {
		sink.abort()
		return err
	}
	if err := d.ensureShard(ref); err != nil {
		sink.abort()
		return err
	}
	if err := sink.file.Commit(blobName(ref)); err != nil {
		return err
	}
	d.shards[ref[0]].Store(true)
	return nil
}

func checkRef(got, want Ref) error {
	if got != want {
		return fmt.Errorf("hash is %s: %w", got, ErrMismatch)
	}
	return nil
}

// has refreshes a blob's time and reports whether the store has it, intact and
// with the given size; -1 means any size.
func (d *Disk) has(ctx context.Context, ref Ref, size int64) (bool, error) {
	there, err := d.refresh(ref, size)
	if err != nil || !there {
		return false, err
	}
	return d.intact(ctx, ref, size)
}

// refresh refreshes a blob's time and reports whether it exists with the given
// size; -1 means any size. Its order is part of the contract with the collector:
// first set the time, then check that the blob exists.
func (d *Disk) refresh(ref Ref, size int64) (bool, error) {
	root, name, now := d.tree.Root(), blobName(ref), d.now()
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return false, d.refuse(ref)
	}
	if err == nil && info.IsDir() {
		// A file cannot replace a directory.
		return false, d.moveAside(ref)
	}
	if err != nil || damaged(info, ref, size) {
		return false, err
	}
	if now.Sub(info.ModTime()) < ModTimeSlack {
		return true, nil // the time is fresh enough, and the blob exists
	}
	err = root.Chtimes(name, time.Time{}, now)
	if errors.Is(err, fs.ErrPermission) {
		// The file has a different owner. Writing it again refreshes the time; one that this
		// process may not read is left as it is.
		if !account.Reads(d.dir, blobName(ref)) {
			return false, d.refuse(ref)
		}
		return false, nil
	}
	if err == nil {
		_, err = root.Lstat(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ensureShard creates the blob's directory durably, once per process.
func (d *Disk) ensureShard(ref Ref) error {
	if d.shards[ref[0]].Load() {
		return nil
	}
	if err := d.tree.Mkdir(shardName(ref), d.dirPerm); err != nil {
		return err
	}
	// Flush in any case: another process may have made it without flushing it
	// yet.
	return d.tree.SyncDir(".")
}

// List implements [Store].
func (d *Disk) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for i := range d.shards {
			shard := fmt.Sprintf("%02x", i)
			infos, err := d.listShard(ctx, shard)
			if errors.Is(err, fs.ErrPermission) {
				err = d.refused("the stored files", shard)
			}
			if err != nil {
				yield(Info{}, fmt.Errorf("list blobs: %w", err))
				return
			}
			for _, info := range infos {
				if !yield(info, nil) {
					return
				}
			}
		}
	}
}

// listShard lists one directory. A missing one is empty.
func (d *Disk) listShard(ctx context.Context, shard string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := d.tree.Root().Open(shard)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // opened for reading
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, entry := range entries {
		ref, ok := parseBlobName(shard, entry.Name())
		if !ok {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, Info{ref, info.Size(), info.ModTime()})
	}
	sorting.By(infos, func(a, b Info) int { return slices.Compare(a.Ref[:], b.Ref[:]) })
	return infos, nil
}

// diskSink writes a content to a temporary file. It creates the file with the
// first chunk, so that a small known content costs no file.
type diskSink struct {
	disk *Disk
	want func(ref Ref, size int64) (bool, error)
	file *durable.File // nil before the first chunk
}

func (s *diskSink) wanted(ref Ref, size int64) (bool, error) {
	keep, err := s.want(ref, size)
	if err == nil && keep && size == 0 {
		err = s.create() // the empty content has no chunk
	}
	return keep, err
}

func (s *diskSink) create() (err error) {
	s.file, err = s.disk.tree.Create(tempDir, s.disk.filePerm)
	return err
}

func (s *diskSink) Write(p []byte) (int, error) {
	if s.file == nil {
		if err := s.create(); err != nil {
			return 0, err
		}
	}
	return s.file.Write(p)
}

func (s *diskSink) abort() {
	if s.file != nil {
		s.file.Abort()
	}
}

// diskFile is an open blob. It exposes only the methods for reading.
type diskFile struct {
	file    *os.File
	ref     Ref
	checks  *checks
	size    int64
	modTime time.Time
}

func (f *diskFile) stamp() (stamp, error) { return filestamp.Of(f.file) }

// Reject implements [File].
func (f *diskFile) Reject(what string) error { return f.checks.reject(f.ref, f, what) }

func (f *diskFile) Read(p []byte) (int, error)                { return f.file.Read(p) }
func (f *diskFile) ReadAt(p []byte, off int64) (int, error)   { return f.file.ReadAt(p, off) }
func (f *diskFile) Seek(off int64, whence int) (int64, error) { return f.file.Seek(off, whence) }
func (f *diskFile) Close() error                              { return f.file.Close() }
func (f *diskFile) Size() int64                               { return f.size }
func (f *diskFile) ModTime() time.Time                        { return f.modTime }
func (f *diskFile) File() *os.File                            { return f.file }
func (f *diskFile) SyscallConn() (syscall.RawConn, error)     { return f.file.SyscallConn() }
