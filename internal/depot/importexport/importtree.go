package importexport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of one part of an import: files without a transaction are committed in
// parts, so that an interruption loses one part only.
const (
	looseFiles = 5000
	looseBytes = 4 << 30

	maxSideFile = 64 << 20 // bytes of a bundle's list
	maxUnpacked = 64 << 30 // bytes that one compressed file may hold
)

// openContent is a file on disk.
type openContent struct {
	*os.File
	info fs.FileInfo
}

func (c openContent) Size() int64 { return c.info.Size() }

func (c openContent) Changed() bool {
	now, err := c.Stat()
	return err != nil || now.Size() != c.info.Size() || !now.ModTime().Equal(c.info.ModTime())
}

func (c openContent) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = scan.ReadError{Err: err}
	}
	return n, err
}

// unpacked returns the content of a compressed file in a temporary file.
func unpacked(ctx context.Context, f *os.File, size int64) (depot.Content, func(), error) {
	temp, err := os.CreateTemp("", "symdepot-*")
	if err != nil {
		return nil, nil, err
	}
	drop := func() {
		_ = temp.Close()
		_ = os.Remove(temp.Name())
	}
	if _, err = unpack.File(ctx, temp, f, size, maxUnpacked); err != nil {
		drop()
		return nil, nil, err
	}
	info, err := temp.Stat()
	if err != nil {
		drop()
		return nil, nil, err
	}
	return openContent{temp, info}, drop, nil
}

// each calls do for 0 to n-1 where want returns true, several at the same time.
// want runs in the caller's goroutine.
func (im *importer) each(n int, do func(context.Context, int) error, want func(int) bool) error {
	g, ctx := errgroup.WithContext(im.ctx)
	g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		if want(i) {
			g.Go(func() error { return do(ctx, i) })
		}
	}
	return g.Wait()
}

// importLoose imports all files of the tree without a transaction.
func (im *importer) importLoose() error {
	have, err := im.importedFiles()
	if err != nil {
		return err
	}
	return im.walkLoose(have)
}

// walkLoose is importLoose without the files that earlier imports added.
func (im *importer) walkLoose(have map[string]bool) error {
	opt := scan.Options{Want: objfile.Detect}
	var batch []looseFile
	var size int64
	flush := func() error {
		err := im.looseBatch(batch)
		batch, size = nil, 0
		return err
	}
	for f, err := range scan.Walk(im.ctx, []string{im.dir}, opt) {
		l, ok, err := im.filter(f, err, have)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		batch = append(batch, l)
		size += max(0, l.size)
		if len(batch) >= looseFiles || size >= looseBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		im.progress()
	}
	return flush()
}

// filter decides whether a file of the walk is imported. An error ends the import.
func (im *importer) filter(f *scan.File, err error, have map[string]bool) (looseFile, bool, error) {
	var none looseFile
	if err == nil {
		rel, ok := im.rel(f.Path)
		if ok && f.Archive == "" && im.isPointer(rel) {
			f.Discard()
			l, ok := im.pointed(rel, have)
			return l, ok, nil
		}
		l, ok := im.wanted(f, have)
		l.size = f.Size
		f.Discard() // it is opened again when it is imported
		return l, ok, nil
	}
	if im.ctx.Err() != nil {
		return none, false, im.ctx.Err()
	}
	var skip *scan.Skip
	if !errors.As(err, &skip) {
		return none, false, err
	}
	rel, ok := im.rel(skip.Path)
	switch {
	case !ok:
	case skip.Reason == scan.ReasonUnwanted && im.isPointer(rel):
		l, ok := im.pointed(rel, have)
		return l, ok, nil
	case !im.layout.IsRecord(rel):
		im.countSkipped(im.store+"/"+rel, SkipText(skip), skip.Reason.Notable())
	}
	return none, false, nil
}

// looseFile is a file without a transaction.
type looseFile struct {
	rel  string // in the tree
	src  depot.Source
	size int64
	// pointer: rel is a file.ptr, and the file is its target.
	pointer bool
}

// rel returns a path of the walk as one in the tree, with slashes.
func (im *importer) rel(p string) (string, bool) {
	rel, ok := strings.CutPrefix(p, im.dir)
	return strings.TrimLeft(filepath.ToSlash(rel), "/"), ok
}

// wanted reports whether a file is imported, and under which name.
func (im *importer) wanted(f *scan.File, have map[string]bool) (looseFile, bool) {
	rel, ok := im.rel(f.Path)
	if !ok || im.layout.IsRecord(rel) {
		return looseFile{}, false
	}
	onDisk := rel
	if f.Archive != "" {
		onDisk, _ = im.rel(f.Archive)
	}
	if im.covered[symfile.Fold(keyOf(onDisk))] || im.covered[onDisk] {
		return looseFile{}, false
	}
	l := looseFile{rel: onDisk, src: depot.Source{Path: im.store + "/" + rel, Name: im.nameOf(onDisk, f.Name), ModTime: f.ModTime}}
	if f.Archive != "" {
		l.src.Archive = im.store + "/" + onDisk
	}
	if info, err := im.root.Stat(onDisk); err == nil {
		l.src.ModTime = info.ModTime()
	}
	if have[fileKey(l.src.Path, l.src.ModTime)] {
		im.before++
		return looseFile{}, false
	}
	return l, true
}

// keyOf returns the name/key part of a path in a symbol store.
func keyOf(rel string) string {
	parts := strings.Split(rel, "/")
	switch n := len(parts); {
	case n >= 4 && symfile.Fold(parts[n-2]) != "" && strings.HasPrefix(symfile.Fold(parts[n-2]), "msfz"):
		return parts[n-4] + "/" + parts[n-3]
	case n >= 3:
		return parts[n-3] + "/" + parts[n-2]
	}
	return rel
}

func fileKey(path string, at time.Time) string {
	if at.IsZero() {
		return path
	}
	return path + "\x00" + strconv.FormatInt(at.UnixMilli(), 10)
}

// nameOf returns the name of a file by its path in the tree, else own.
func (im *importer) nameOf(rel, own string) string {
	if im.layout.Records() == layout.SymsorterRecords {
		if n := im.metaName(rel); n != "" {
			return n
		}
	}
	if n := im.layout.FileName(rel); n != "" {
		return n
	}
	return own
}

// meta is the side file that symsorter writes beside each file.
type meta struct {
	Name   string `json:"name"`
	Arch   string `json:"arch"`
	Format string `json:"file_format"`
}

// metaName returns the name in the .meta beside a file, or "".
func (im *importer) metaName(rel string) string {
	var m meta
	if err := im.readJSON(rel+".meta", 64<<10, &m); err != nil {
		return ""
	}
	if name := symfile.BaseName(m.Name); symfile.ValidName(name) {
		return name
	}
	return ""
}

func (im *importer) readJSON(name string, limit int64, v any) error {
	info, err := im.root.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return fmt.Errorf("%s is not a regular file of at most %d bytes", name, limit)
	}
	f, err := im.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewDecoder(io.LimitReader(f, limit)).Decode(v)
}

// importedFiles returns the files without a transaction that earlier imports of the
// tree added.
func (im *importer) importedFiles() (map[string]bool, error) {
	have := map[string]bool{}
	im.earlier = newEarlierObjects()
	if im.d == nil {
		return have, nil
	}
	// Entries of transactions are recorded under the path on the machine that
	// built them.
	prefix := im.store + "/"
	for _, n := range im.taken {
		err := im.d.Files(im.ctx, n, func(f depot.TxFile) error {
			path := f.Path
			if f.Archive != "" {
				path = f.Archive + "!" + f.Path
			}
			if strings.HasPrefix(path, prefix) {
				have[fileKey(path, f.ModTime)] = true
				im.earlier.add(f)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return have, nil
}

// looseBatch imports some files as one transaction.
func (im *importer) looseBatch(files []looseFile) error {
	if len(files) == 0 {
		return nil
	}
	info := im.iopt.Info
	n := 1
	for im.taken[partName(n)] != 0 {
		n++
	}
	info.Origin = &depot.Origin{Store: im.store, Number: partName(n)}
	return im.transaction(info, func(take taker) error {
		return im.each(len(files), func(ctx context.Context, i int) error {
			return im.one(ctx, im.newOnly(take, im.earlier), files[i])
		}, func(int) bool { return true })
	})
}

func partName(n int) string { return "part " + strconv.Itoa(n) }

// one imports a file with all that is in it.
func (im *importer) one(ctx context.Context, take taker, l looseFile) error {
	if l.pointer {
		return im.onePointed(ctx, take, l)
	}
	if l.src.Archive == "" || keyOf(l.rel) != l.rel && strings.HasSuffix(l.rel, "_") {
		f, err := im.openRel(l.rel)
		if err != nil {
			return im.judgeOpen(ctx, l.src.Path, err)
		}
		defer f.Close()
		return im.opened(ctx, take, f, l.src, l.rel)
	}
	// A member of an archive.
	for f, err := range scan.Walk(ctx, []string{filepath.Join(im.dir, filepath.FromSlash(l.rel))}, scan.Options{Want: objfile.Detect}) {
		if err != nil {
			continue // the first walk reported it
		}
		if rel, _ := im.rel(f.Path); im.store+"/"+rel != l.src.Path {
			f.Discard()
			continue
		}
		c, err := f.Open(ctx)
		if err != nil {
			f.Discard()
			return im.judgeOpen(ctx, l.src.Path, err)
		}
		l.src.Content = sourceContent{c}
		got, err := take(ctx, l.src)
		_ = c.Close()
		f.Discard()
		if err != nil {
			return im.judge(ctx, l.src.Path, err)
		}
		im.accept(l.src.Path, l.rel, got)
		return nil
	}
	return ctx.Err()
}

// openRel opens a regular file of the tree.
func (im *importer) openRel(rel string) (*os.File, error) {
	info, err := im.root.Stat(rel)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return im.root.Open(rel)
}

// judgeOpen skips a file that was deleted meanwhile; others must be readable.
func (im *importer) judgeOpen(ctx context.Context, path string, err error) error {
	var skip *scan.Skip
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.As(err, &skip):
		im.countSkipped(path, err.Error(), true)
		return nil
	}
	return scan.ReadError{Err: err}
}

// bundleFile is the list that symsorter writes of one run.
type bundleFile struct {
	Name      string    `json:"name"`
	Timestamp time.Time `json:"timestamp"`
	DebugIDs  []string  `json:"debug_ids"`
}

// bundle is one run of symsorter: the ids of its list, and those of the markers
// beside the files, which remain when a list is overwritten.
type bundle struct {
	id   string
	time time.Time
	ids  []string // unified ids
}

// bundles imports those of a unified tree, oldest first.
func (im *importer) bundles() error {
	list, err := im.readBundles()
	if err != nil {
		return err
	}
	for _, b := range list {
		if im.isImported(b.id) {
			continue // files that were added to it since are found by loose
		}
		var files []looseFile
		for _, id := range b.ids {
			files = append(files, im.filesOf(id)...)
		}
		info := im.iopt.Info
		info.Time = b.time
		if info.Comment == "" {
			info.Comment = b.id
		}
		info.Origin = &depot.Origin{Store: im.store, Number: b.id, Time: b.time}
		err := im.transaction(info, func(take taker) error {
			return im.each(len(files), func(ctx context.Context, i int) error {
				return im.one(ctx, take, files[i])
			}, func(i int) bool {
				im.covered[files[i].rel] = true
				return true
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// filesOf lists the files under a unified id.
func (im *importer) filesOf(id string) []looseFile {
	var files []looseFile
	dir := path.Join(id[:2], id[2:])
	for _, leaf := range im.entries(dir) {
		rel := path.Join(dir, leaf)
		if req, err := im.layout.Parse(rel); err != nil || req.Form != layout.FormFile || im.layout.IsRecord(rel) {
			continue
		}
		info, err := im.root.Lstat(rel)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		files = append(files,
			looseFile{rel: rel, src: depot.Source{Path: im.store + "/" + rel, Name: im.nameOf(rel, leaf), ModTime: info.ModTime()}})
	}
	return files
}

// readBundles reads the lists and the markers.
func (im *importer) readBundles() ([]*bundle, error) {
	byID := map[string]*bundle{}
	seen := map[string]bool{}
	add := func(name, id string) {
		id = symfile.Fold(id)
		if !symfile.ValidName(name) || len(id) < 3 || !debugid.IsHex(id) || seen[name+"/"+id] {
			return
		}
		seen[name+"/"+id] = true
		if byID[name] == nil {
			byID[name] = &bundle{id: name}
		}
		byID[name].ids = append(byID[name].ids, id)
	}
	for _, e := range im.entries("bundles") {
		var b bundleFile
		if err := im.readJSON("bundles/"+e, maxSideFile, &b); err != nil {
			im.countSkipped(im.store+"/bundles/"+e, "not a list of a bundle: "+err.Error(), true)
			continue
		}
		for _, id := range b.DebugIDs {
			add(e, id)
		}
		if byID[e] != nil {
			byID[e].time = b.Timestamp
		}
	}
	for _, two := range im.entries(".") {
		if len(two) != 2 || !debugid.IsHex(two) {
			continue
		}
		for _, rest := range im.entries(two) {
			if err := im.ctx.Err(); err != nil {
				return nil, err
			}
			for _, name := range im.entries(two + "/" + rest + "/refs") {
				add(name, two+rest)
			}
		}
	}
	var list []*bundle
	for _, b := range byID {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *bundle) int {
		switch c := a.time.Compare(b.time); {
		case c == 0:
		case a.time.IsZero() || b.time.IsZero():
			return -c // without a date, the list was lost
		default:
			return c
		}
		return strings.Compare(a.id, b.id)
	})
	return list, nil
}

// entries lists the names in a folder of the tree; none if it cannot be read.
func (im *importer) entries(dir string) []string {
	d, err := im.root.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}
