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

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// symCacheFolder is a SymCache folder on disk: NAME.pdb/GUIDAGE/NAME.pdb-vN.N.N.symcache.
// Other programs may fill it at any time, and spell names in any case.
type symCacheFolder struct {
	dir   string
	tree  *durable.Tree
	owned bool // it is ours to write to

	writing sync.Mutex // held while files come and go

	mu    sync.Mutex
	lists map[string]folderList // guarded by mu; by folder below dir
}

// folderList is what a folder holds, as far as its time of change tells that it
// still does.
type folderList struct {
	changed, listed time.Time
	names           map[string][]string // spellings by folded name
}

const (
	// A folder that changed so shortly before it was listed may have changed
	// again without another time.
	listRacy = 3 * time.Second
	// listAgain is how often a folder that keeps changing is listed; what was
	// put there meanwhile is still found in the usual spellings.
	listAgain = time.Second
	// maxLists is how many folders are remembered.
	maxLists = 4096
	// tempFolder is where files of an owned folder are written.
	tempFolder = ".symdepot-tmp"
	// touchAfter is how old the note of the last use may be.
	touchAfter = time.Hour
)

// openSymCacheFolder opens a folder that is there, or makes an owned one.
func openSymCacheFolder(ctx context.Context, dir string, owned bool) (*symCacheFolder, error) {
	if owned {
		if err := durable.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("SymCache store: %w", err)
		}
	}
	tree, err := durable.OpenTree(dir)
	if err != nil {
		return nil, fmt.Errorf("SymCache folder: %w", err)
	}
	f := &symCacheFolder{dir: dir, tree: tree, owned: owned, lists: map[string]folderList{}}
	if owned {
		err := tree.Mkdir(tempFolder, 0o755)
		if err == nil {
			_, err = tree.Sweep(ctx, tempFolder, time.Now())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("SymCache store %s: %w", dir, err), tree.Close())
		}
	}
	return f, nil
}

// folderFile is a file in a SymCache folder.
type folderFile struct {
	folder  *symCacheFolder
	path    string // below the folder
	version symcache.Version
	size    int64
	changed time.Time
}

// held returns the files of a key. What cannot be read is not there.
func (f *symCacheFolder) held(key symcache.Key) (list []folderFile) {
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

// spellings returns what there is below a folder that is called name in any case.
func (f *symCacheFolder) spellings(dir, name string) []string {
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

// list returns the names in a folder by their folded form. Those of key folders
// are brought into one form: the age may have zeros in front.
func (f *symCacheFolder) list(dir string) map[string][]string {
	info, err := f.tree.Root().Stat(cmp.Or(dir, "."))
	if err != nil {
		return nil
	}
	now := time.Now()
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
func (f *symCacheFolder) read(dir string) []string {
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

// open opens a file for an answer. What proves to be no SymCache file is
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
		changed = time.Time{} // it tells when the file was used
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

// OSFile is the file itself.
func (f *FolderFile) OSFile() *os.File { return f.File }

// Content returns the name and the size of the file; nobody has hashed it.
func (f *FolderFile) Content() (name string, ref blob.Ref, size int64) {
	return f.Path, blob.Ref{}, f.Size
}

// Trimmed says what was deleted from the store.
type Trimmed struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// put writes a file to an owned folder, unless it is there. Whoever reads the
// folder sees it whole or not at all.
func (f *symCacheFolder) put(key symcache.Key, v symcache.Version, size int64, r io.Reader) error {
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
		return nil // Windows, and somebody reads it
	}
	return err
}

// touch notes that a file was used, once in a while.
func (h folderFile) touch(now time.Time) error {
	if !h.folder.owned || now.Sub(h.changed).Abs() < touchAfter {
		return nil
	}
	return h.folder.tree.Root().Chtimes(h.path, time.Time{}, now)
}

// FolderCount is what there is in a SymCache folder.
type FolderCount struct {
	Files, Bytes int64 // that can be asked for
	Old          int64 // of the first two generations, which cannot
	Unfinished   int64
	Negative     int64 // notes of another server
	Other        int64
}

// walk goes over the files that can be asked for and counts the others.
func (f *symCacheFolder) walk(ctx context.Context, visit func(folderFile, symcache.Key)) (FolderCount, error) {
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
				continue // gone meanwhile
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

// CountFolders counts what is in each of the folders.
func (svc *Service) CountFolders(ctx context.Context) (counts []FolderCount, err error) {
	for _, f := range svc.symcaches.folders {
		c, err := f.walk(ctx, func(folderFile, symcache.Key) {})
		if err != nil {
			return nil, err
		}
		counts = append(counts, c)
	}
	return counts, nil
}

// Rescan forgets what the folders held: the next requests list them again.
func (svc *Service) Rescan() {
	for _, f := range svc.symcaches.folders {
		f.mu.Lock()
		clear(f.lists)
		f.mu.Unlock()
	}
}

// trim deletes what was not used for longest from an owned folder until it
// keeps the limits; only what can be had again.
func (f *symCacheFolder) trim(ctx context.Context, most int64, oldest time.Time, again func(symcache.Key, symcache.Version) bool) (Trimmed, error) {
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
	slices.SortFunc(all, func(a, b file) int { return a.changed.Compare(b.changed) })
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
			continue // Windows, and somebody reads it
		}
		sum.Files++
		sum.Bytes += h.size
		count.Bytes -= h.size
	}
	return sum, nil
}

// remove deletes a file, and its two folders if nothing is left in them.
func (f *symCacheFolder) remove(file string) bool {
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

// Close lets go of the folder.
func (f *symCacheFolder) Close() error { return f.tree.Close() }
