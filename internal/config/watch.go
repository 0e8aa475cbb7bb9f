package config

import (
	"context"
	"errors"
	"fmt"
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

// OpenWatched opens the folders that are indexed in place. Their indexes are in dir. The
// caller closes them, even after an error.
func (c *Config) OpenWatched(ctx context.Context, dir string, log *slog.Logger) ([]*watch.Folder, error) {
	names := map[string]bool{}
	var list []*watch.Folder
	for _, w := range c.Watch {
		where := w.Dir
		if !strings.Contains(where, "://") {
			abs, err := filepath.Abs(where)
			if err != nil {
				return list, err
			}
			if info, err := os.Stat(abs); err == nil && !info.IsDir() {
				return list, fmt.Errorf("--watch %s: not a folder", w.Dir)
			} else if err != nil {
				return list, fmt.Errorf("--watch %s: %w", w.Dir, err)
			}
			where = abs
		}
		index, err := watch.IndexFile(dir, where)
		if err != nil {
			return list, err
		}
		name := filepath.Base(index)
		if names[name] {
			return list, fmt.Errorf("--watch %s: the folder is named twice", w.Dir)
		}
		names[name] = true
		if err := durable.MkdirAll(dir, 0o700); err != nil {
			return list, err
		}
		f, err := watch.Open(ctx, where, watch.Options{
			Index: index, Product: w.Product, Version: w.Version, Rescan: time.Duration(c.Rescan), TempDir: dir, Log: log,
		})
		if err != nil {
			return list, fmt.Errorf("--watch %s: %w", w.Dir, err)
		}
		list = append(list, f)
	}
	return list, forget(dir, names)
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
