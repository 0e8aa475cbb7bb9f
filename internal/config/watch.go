package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/watch"
)

// forgetWatched is after what time the index of a folder that is not watched any more
// is deleted.
const forgetWatched = 24 * time.Hour

// OpenWatched opens the folders and bucket prefixes that are indexed in place. Their
// indexes are in dir. done closes them; it is called after an error too.
func (c *Config) OpenWatched(ctx context.Context, dir string, log *slog.Logger) (list []*watch.Folder, done func(), err error) {
	var buckets []io.Closer
	done = func() {
		for _, f := range list {
			_ = f.Close()
		}
		for _, b := range buckets {
			_ = b.Close()
		}
	}
	names := map[string]bool{}
	for _, w := range c.Watch {
		fail := func(err error) ([]*watch.Folder, func(), error) {
			return list, done, fmt.Errorf("--watch %s: %w", w.Dir, err)
		}
		opt := watch.Options{Product: w.Product, Version: w.Version, Rescan: time.Duration(c.Rescan), TempDir: dir, Log: log}
		where := w.Dir
		if isBucket(where) {
			b, err := c.openBucket(where)
			if err != nil {
				return fail(err)
			}
			opt.Bucket = b
			buckets = append(buckets, b)
		} else if where, err = folderOf(where); err != nil {
			return fail(err)
		}
		if opt.Index, err = watch.IndexFile(dir, where); err != nil {
			return fail(err)
		}
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

// isBucket reports whether a watched folder is a prefix of a bucket.
func isBucket(where string) bool { return strings.Contains(where, "://") }

// folderOf returns the absolute path of an existing folder.
func folderOf(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	return abs, err
}

// forget deletes the indexes of folders that have not been watched for a day.
func forget(dir string, names map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		base, _, _ := strings.Cut(e.Name(), ".db")
		info, ierr := e.Info()
		if ierr != nil || names[base+".db"] || !strings.Contains(e.Name(), ".db") || time.Since(info.ModTime()) < forgetWatched {
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}
	return err
}
