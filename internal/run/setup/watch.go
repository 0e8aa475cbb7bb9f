package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/run/config"
)

// forgetWatched is after what time the index of a folder that is not watched any more
// is deleted.
const forgetWatched = 24 * time.Hour

// OpenWatched opens the folders and bucket prefixes that are indexed in place. Their
// indexes are in dir. A folder of the configuration file may be missing: it is absent until
// it is there. done closes them; it is called after an error too.
func OpenWatched(ctx context.Context, c *config.Config, dir string, log *slog.Logger) (list []*watch.Folder, done func(), err error) {
	var buckets []io.Closer
	done = func() { closeWatched(list, buckets) }
	names := map[string]bool{}
	for _, w := range c.Watch {
		where, opt, b, err := watchOptions(c, w, dir)
		fail := func(err error) ([]*watch.Folder, func(), error) {
			return list, done, fmt.Errorf("%s cannot be watched: %w", where, err)
		}
		if err != nil {
			return fail(err)
		}
		if b != nil {
			buckets = append(buckets, b)
		}
		opt.Log = log
		name := filepath.Base(opt.Index)
		if names[name] {
			return fail(errors.New("the folder is named twice"))
		}
		names[name] = true
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return list, done, err
		}
		f, err := watch.Open(ctx, where, opt)
		if err != nil {
			return fail(err)
		}
		list = append(list, f)
	}
	return list, done, forget(dir, names)
}

func closeWatched(list []*watch.Folder, buckets []io.Closer) {
	for _, f := range list {
		_ = f.Close()
	}
	for _, b := range buckets {
		_ = b.Close()
	}
}

// watchOptions returns where a folder or prefix of a bucket is, and how it is opened with
// an index in dir. The bucket is nil for a folder; the caller closes it.
func watchOptions(c *config.Config, w config.Watch, dir string) (where string, opt watch.Options, b io.Closer, err error) {
	where = w.Dir
	opt = watch.Options{Product: w.Product, Version: w.Version, Rescan: time.Duration(c.Rescan), TempDir: dir}
	opt.Scanned = func(s watch.ScanStats) {
		if s.Read > 0 { // what a scan has unpacked is not needed again
			_ = Release()
		}
	}
	if address.IsBucket(where) {
		open, err := OpenBucket(c, where)
		if err != nil {
			return where, opt, nil, err
		}
		opt.Bucket, b = open, open
	} else if where, err = folderOf(where); err != nil && (w.Typed || errors.Is(err, errNoFolder)) {
		return where, opt, nil, err
	}
	opt.Index, err = watch.IndexFile(dir, where)
	return where, opt, b, err
}

// OpenWatch opens one folder or prefix of a bucket to index it, with the index opt.Index;
// if that is empty, with a file in dir.
func OpenWatch(ctx context.Context, c *config.Config, where, dir string, opt watch.Options) (f *watch.Folder, done func(), err error) {
	where, o, b, err := watchOptions(c, config.Watch{Dir: where, Typed: true}, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be watched: %w", where, err)
	}
	opt.Bucket, opt.Index = o.Bucket, cmp.Or(opt.Index, o.Index)
	var buckets []io.Closer
	if b != nil {
		buckets = append(buckets, b)
	}
	if f, err = watch.Open(ctx, where, opt); err != nil {
		closeWatched(nil, buckets)
		return nil, nil, err
	}
	return f, func() { closeWatched([]*watch.Folder{f}, buckets) }, nil
}

// ScanFolders indexes folders for the time of a command, with indexes in dir. done closes them; it is called
// after an error too.
func ScanFolders(ctx context.Context, folders []string, dir string) (list []*watch.Folder, done func(), err error) {
	done = func() { closeWatched(list, nil) }
	for _, folder := range folders {
		f, _, err := OpenWatch(ctx, &config.Config{}, folder, dir, watch.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return list, done, err
		}
		list = append(list, f)
		if _, err := f.Scan(ctx); err != nil {
			return list, done, err
		}
	}
	return list, done, nil
}

// ReadWatched opens the watched folders by the indexes in dir that a server keeps, to
// read them only. notes says which folders cannot be searched, and which others have an
// index.
func ReadWatched(ctx context.Context, c *config.Config, dir string) (list []*watch.Folder, notes []string, done func()) {
	var buckets []io.Closer
	known := map[string]bool{}
	for _, w := range c.Watch {
		w.Typed = false // its index may be there, also if the folder is away
		where, opt, b, err := watchOptions(c, w, dir)
		if b != nil {
			buckets = append(buckets, b)
		}
		opt.TempDir = "" // the folder may belong to another account
		var f *watch.Folder
		if err == nil {
			known[filepath.Base(opt.Index)] = true
			f, err = watch.OpenIndexed(ctx, where, opt)
		}
		switch {
		case err == nil:
			list = append(list, f)
		case errors.Is(err, fs.ErrNotExist) && known[filepath.Base(opt.Index)]:
			notes = append(notes,
				fmt.Sprintf("the watched folder %s was not searched: it has no index here; its server knows it: --server URL", where))
		default:
			notes = append(notes, fmt.Sprintf("the watched folder %s was not searched: %v", where, err))
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.db"))
	for _, file := range files {
		if where, err := watch.IndexedFolder(ctx, file); err == nil && where != "" && !known[filepath.Base(file)] {
			notes = append(notes, fmt.Sprintf("the folder %s was not searched: "+
				"it is indexed in place, but the configuration does not name it; --watch does, or --server URL asks its server", where))
		}
	}
	return list, notes, func() { closeWatched(list, buckets) }
}

// errNoFolder means that something else than a folder has the path.
var errNoFolder = errors.New("it is not a folder")

// folderOf returns the absolute path of an existing folder.
func folderOf(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return abs, errors.New("there is no such folder; make or mount it first")
	case err == nil && !info.IsDir():
		return abs, errNoFolder
	}
	return abs, err
}

// forget deletes the indexes of folders that have not been watched for a day. Each scan of
// a folder sets the time of its index.
func forget(dir string, names map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || names[e.Name()] || filepath.Ext(e.Name()) != ".db" || time.Since(info.ModTime()) < forgetWatched {
			continue
		}
		err = errors.Join(err, watch.RemoveIndex(filepath.Join(dir, e.Name())))
	}
	return err
}
