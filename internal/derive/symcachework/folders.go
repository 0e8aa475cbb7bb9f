package symcachework

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symcache"
)

// openFolders opens the folders.
func (svc *Service) openFolders(ctx context.Context, opt FolderOptions) error {
	s := &svc.folders
	s.limits, s.touched = opt, map[string]time.Time{}
	if opt.Store != "" {
		f, err := openFolder(ctx, opt.Store, true, svc.now)
		if err != nil {
			return err
		}
		s.store, s.list = f, append(s.list, f)
	}
	for _, dir := range opt.Folders {
		f, err := openFolder(ctx, dir, false, svc.now)
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.list = append(s.list, f)
	}
	return nil
}

func (s *folders) close() error {
	var errs []error
	for _, f := range s.list {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// CountFolders counts the content of each folder.
func (svc *Service) CountFolders(ctx context.Context) (counts []FolderCount, err error) {
	for _, f := range svc.folders.list {
		c, err := f.walk(ctx, func(folderFile, symcache.Key) {})
		if err != nil {
			return nil, err
		}
		counts = append(counts, c)
	}
	return counts, nil
}

// Rescan forgets the contents of the folders. The next requests list them again.
func (svc *Service) Rescan() {
	for _, f := range svc.folders.list {
		f.mu.Lock()
		clear(f.lists)
		f.mu.Unlock()
	}
}

// writeStore writes a file to the store, if there is one. An error is only logged:
// the depot has the file.
func (svc *Service) writeStore(ctx context.Context, key symcache.Key, v symcache.Version, c record.Content) {
	store := svc.folders.store
	if store == nil {
		return
	}
	b, err := svc.blobs.Open(ctx, c.Ref)
	if err == nil {
		var r io.Reader = io.NewSectionReader(b, 0, c.Size)
		if f := blob.OSFile(b); f != nil {
			r = &io.LimitedReader{R: f, N: c.Size} // the kernel copies
		}
		err = errors.Join(store.put(key, v, c.Size, r), b.Close())
	}
	if err != nil {
		svc.log.Error("cannot write a SymCache file to the store", "store", store.dir, "file", key.Path(v), "error", err)
	}
}

// maxTouched is of how many files of the store the recorded last use is known.
const maxTouched = 100_000

// touchStore records the last use of a file on its copy in the store.
func (svc *Service) touchStore(key symcache.Key, h heldFile) {
	s := &svc.folders
	if s.store == nil || h.hit == nil && h.file.folder != s.store {
		return
	}
	now, name := svc.now(), key.Fold().Path(h.version)
	s.mu.Lock()
	last, ok := s.touched[name]
	due := !ok || now.Sub(last).Abs() >= touchAfter
	if due {
		if len(s.touched) >= maxTouched {
			clear(s.touched)
		}
		s.touched[name] = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	files := []folderFile{h.file}
	if h.hit != nil {
		files = s.store.held(key)
	}
	for _, f := range files {
		if f.version != h.version {
			continue
		}
		if err := f.touch(now); err != nil {
			svc.log.Debug("cannot record the last use of a SymCache file", "file", f.path, "error", err)
		}
	}
}

// keepFolders logs the content of the folders once, and keeps the store within its
// limits until ctx ends.
func (svc *Service) keepFolders(ctx context.Context) {
	for _, f := range svc.folders.list {
		c, err := f.walk(ctx, func(folderFile, symcache.Key) {})
		if err != nil {
			return
		}
		svc.log.Info("serving a SymCache folder", "folder", f.dir, "files", c.Files, "bytes", c.Bytes,
			"of version 1 or 2", c.Old, "unfinished", c.Unfinished, "notes", c.Negative, "other", c.Other)
	}
	l := svc.folders.limits
	if svc.folders.store == nil || l.StoreBytes <= 0 && l.StoreUnused <= 0 {
		return
	}
	for ended := ctx.Err(); ended == nil; ended = ctxio.Pause(ctx, trimEvery) {
		if e, err := svc.TrimSymCacheStore(ctx); err != nil && ctx.Err() == nil {
			svc.log.Warn("cannot trim the SymCache store", "error", err)
		} else if e.Files > 0 {
			svc.log.Info("the SymCache store was trimmed", "files", e.Files, "bytes", e.Bytes)
		}
	}
}

// trimEvery is how often the store is checked.
const trimEvery = 10 * time.Minute

// TrimSymCacheStore deletes files from the store until it keeps its limits.
func (svc *Service) TrimSymCacheStore(ctx context.Context) (Trimmed, error) {
	s := &svc.folders
	if s.store == nil {
		return Trimmed{}, nil
	}
	var oldest time.Time
	if s.limits.StoreUnused > 0 {
		oldest = svc.now().Add(-s.limits.StoreUnused)
	}
	return s.store.trim(ctx, s.limits.StoreBytes, oldest, func(key symcache.Key, v symcache.Version) bool {
		if _, err := svc.FindPDB(ctx, key); err == nil {
			return true
		}
		list, err := svc.indexed(ctx, nil, key)
		return err == nil && slices.Contains(versionsOf(list), v)
	})
}
