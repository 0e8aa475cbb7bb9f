package symcachework

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// folder is a SymCache folder on disk: NAME.pdb/GUIDAGE/NAME.pdb-vN.N.N.symcache.
// Other programs may fill it at any time, and spell names in any case.
type folder struct {
	dir   string
	tree  *durable.Tree
	now   func() time.Time
	owned bool // this program writes to it

	writing sync.Mutex // held while files are created and removed

	mu    sync.Mutex
	lists map[string]folderList // guarded by mu; by folder below dir
}

// folderList is the content of a folder. It is valid as long as the folder has the
// same time of change.
type folderList struct {
	changed, listed time.Time
	names           map[string][]string // spellings by folded name
}

const (
	// listRacy is how old a change must be when a folder is listed: a second change
	// shortly after the first one may not change the modification time.
	listRacy = 3 * time.Second
	// listAgain is how often a folder that keeps changing is listed. New files are
	// found in the usual spellings meanwhile.
	listAgain = time.Second
	// maxLists is how many folders are remembered.
	maxLists = 4096
	// tempFolder is where files of an owned folder are written.
	tempFolder = ".symdepot-tmp"
	// touchAfter is how old the recorded last use of a file may be.
	touchAfter = time.Hour
)

// openFolder opens an existing folder, or creates an owned one.
func openFolder(ctx context.Context, dir string, owned bool, now func() time.Time) (*folder, error) {
	if owned {
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("SymCache store: %w", err)
		}
	}
	tree, err := durable.OpenTree(dir)
	if err != nil {
		return nil, fmt.Errorf("SymCache folder: %w", err)
	}
	f := &folder{dir: dir, tree: tree, now: now, owned: owned, lists: map[string]folderList{}}
	if owned {
		err := tree.Mkdir(tempFolder, 0o755)
		if err == nil {
			_, err = tree.Sweep(ctx, tempFolder, now())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("SymCache store %s: %w", dir, err), tree.Close())
		}
	}
	return f, nil
}

// folderFile is a file in a SymCache folder.
type folderFile struct {
	folder  *folder
	path    string // below the folder
	version symcache.Version
	size    int64
	changed time.Time
}

// held returns the files of a key that can be read.
func (f *folder) held(key symcache.Key) (list []folderFile) {
	for _, name := range f.spellings("", key.Name) {
		for _, folder := range f.spellings(name, key.Folder()) {
			dir := name + "/" + folder
			for _, base := range f.read(dir) {
				e, err := symcache.ParsePath(dir + "/" + base)
				if err != nil || e.Kind != symcache.File || e.Key.ID != key.ID {
					continue
				}
				info, err := f.tree.Root().Stat(dir + "/" + base)
				if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
					continue
				}
				list = append(list, folderFile{f, dir + "/" + base, e.Version, info.Size(), info.ModTime()})
			}
		}
	}
	return list
}

// spellings returns the entries of a folder whose name is name in any case.
func (f *folder) spellings(dir, name string) []string {
	if list := f.list(dir)[symfile.Fold(name)]; len(list) > 0 {
		return list
	}
	// The list may be a little old.
	for _, s := range [...]string{name, symfile.Fold(name)} {
		if info, err := f.tree.Root().Stat(join(dir, s)); err == nil && info.IsDir() {
			return []string{s}
		}
	}
	return nil
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// list returns the names in a folder by their folded form. Names of key folders are
// normalized: the age may have leading zeros.
func (f *folder) list(dir string) map[string][]string {
	info, err := f.tree.Root().Stat(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	now := f.now()
	f.mu.Lock()
	l, ok := f.lists[dir]
	f.mu.Unlock()
	if ok && (now.Sub(l.listed).Abs() < listAgain || l.changed.Equal(info.ModTime()) && l.listed.Sub(l.changed) > listRacy) {
		return l.names
	}
	l = folderList{info.ModTime(), now, map[string][]string{}}
	for _, n := range f.read(dir) {
		fold := symfile.Fold(n)
		if dir != "" {
			id, err := symcache.ParseFolder(n)
			if err != nil {
				continue
			}
			fold = symfile.Fold(symcache.Key{ID: id}.Folder())
		}
		l.names[fold] = append(l.names[fold], n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lists) >= maxLists {
		clear(f.lists)
	}
	f.lists[dir] = l
	return l.names
}

// read returns the names in a folder that are not hidden, sorted.
func (f *folder) read(dir string) []string {
	d, err := f.tree.Root().Open(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil && len(names) == 0 {
		return nil
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n[0] == '.' })
	slices.Sort(names)
	return names
}

// open opens a file for an answer. A file that is not a SymCache file is
// fs.ErrNotExist.
func (h folderFile) open() (File, error) {
	in, err := h.folder.tree.Root().Open(h.path)
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	var head [symcache.SniffLen]byte
	if err == nil {
		var n int
		if n, err = in.ReadAt(head[:], 0); n > 0 || errors.Is(err, io.EOF) {
			err = symcache.Detect(head[:n])
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", h.path, err), fs.ErrNotExist, in.Close())
	}
	changed := info.ModTime()
	if h.folder.owned {
		changed = time.Time{} // it is the time of the last use
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%d", symfile.Fold(h.path), h.version, info.Size(), changed.UnixNano()))
	return &FolderFile{
		File: in, Path: h.path, Size: info.Size(), ModTime: info.ModTime(), ETag: "f-" + hex.EncodeToString(sum[:15]),
	}, nil
}

// FolderFile is an open file of a SymCache folder.
type FolderFile struct {
	*os.File
	Path    string // below the folder
	Size    int64
	ModTime time.Time
	ETag    string
}

// OSFile implements File.
func (f *FolderFile) OSFile() *os.File { return f.File }

// Content implements File. The SHA-256 is unknown.
func (f *FolderFile) Content() (name string, ref blob.Ref, size int64) {
	return f.Path, blob.Ref{}, f.Size
}

// Trimmed counts the files deleted from the store.
type Trimmed struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// put writes a file to an owned folder, unless it exists. Readers of the folder see
// the whole file or none.
func (f *folder) put(key symcache.Key, v symcache.Version, size int64, r io.Reader) error {
	for _, h := range f.held(key) {
		if h.version == v && h.size == size {
			return nil
		}
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	// One folder for all spellings, as it would be on Windows.
	dir := key.Name
	if s := f.spellings("", key.Name); len(s) > 0 {
		dir = s[0]
	}
	folder := key.Folder()
	if s := f.spellings(dir, folder); len(s) > 0 {
		folder = s[0]
	}
	key.Name = dir
	dir += "/" + folder
	if err := f.tree.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := f.tree.Create(tempFolder, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		out.Abort()
		return err
	}
	err = out.Commit(dir + "/" + key.FileName(v))
	if errors.Is(err, fs.ErrExist) {
		return nil // on Windows, while a reader has it open
	}
	return err
}

// touch records the last use of a file, at most every touchAfter.
func (h folderFile) touch(now time.Time) error {
	if !h.folder.owned || now.Sub(h.changed).Abs() < touchAfter {
		return nil
	}
	return h.folder.tree.Root().Chtimes(h.path, time.Time{}, now)
}

// FolderCount counts the content of a SymCache folder.
type FolderCount struct {
	Files, Bytes int64 // SymCache files that can be requested
	Old          int64 // files of versions 1 and 2, which cannot
	Unfinished   int64
	Negative     int64 // remembered misses of another server
	Other        int64
}

// walk visits the files that can be requested, and counts all files.
func (f *folder) walk(ctx context.Context, visit func(folderFile, symcache.Key)) (FolderCount, error) {
	var c FolderCount
	var see func(dir string, depth int)
	see = func(dir string, depth int) {
		for _, base := range f.read(dir) {
			p := join(dir, base)
			info, err := f.tree.Root().Stat(p)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				continue // removed meanwhile
			case info.IsDir():
				if depth < 2 {
					see(p, depth+1)
				}
				continue
			}
			e, err := symcache.ParsePath(p)
			switch {
			case err == nil && e.Kind == symcache.Old:
				c.Old++
			case err == nil && e.Kind == symcache.Negative:
				c.Negative++
			case err == nil && e.Kind == symcache.Unfinished:
				c.Unfinished++
			case err != nil || depth != 2 || info.Size() == 0 || !info.Mode().IsRegular():
				c.Other++
			default:
				c.Files++
				c.Bytes += info.Size()
				visit(folderFile{f, p, e.Version, info.Size(), info.ModTime()}, e.Key)
			}
		}
	}
	see("", 0)
	return c, ctx.Err()
}

// trim deletes the least recently used files of an owned folder until it keeps the
// limits. again reports whether a file can be made or downloaded again; others
// stay.
func (f *folder) trim(ctx context.Context, most int64, oldest time.Time, again func(symcache.Key, symcache.Version) bool) (Trimmed, error) {
	type file struct {
		folderFile
		key symcache.Key
	}
	var sum Trimmed
	var all []file
	count, err := f.walk(ctx, func(h folderFile, k symcache.Key) { all = append(all, file{h, k}) })
	if err != nil {
		return sum, err
	}
	sorting.By(all, func(a, b file) int { return a.changed.Compare(b.changed) })
	for _, h := range all {
		if ctx.Err() != nil {
			return sum, ctx.Err()
		}
		if tooMuch := most > 0 && count.Bytes > most; !tooMuch && !h.changed.Before(oldest) {
			break
		}
		if !again(h.key, h.version) {
			continue
		}
		if !f.remove(h.path) {
			continue // on Windows, while a reader has it open
		}
		sum.Files++
		sum.Bytes += h.size
		count.Bytes -= h.size
	}
	return sum, nil
}

// remove deletes a file, and its two folders if they are empty then.
func (f *folder) remove(file string) bool {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := f.tree.Root().Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if f.tree.Root().Remove(dir) != nil { // not empty
			break
		}
	}
	return true
}

// Close closes the folder.
func (f *folder) Close() error { return f.tree.Close() }
