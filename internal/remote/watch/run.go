package watch

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// notifier reports folders in which something happens. It calls Folder.touched, and
// Folder.touchedAll when it has lost count.
type notifier interface {
	// add watches a folder. The error is errTooMany if no more can be watched.
	add(dir string) error
	// has reports whether a folder is watched.
	has(dir string) bool
	close() error
}

// errTooMany means that the system watches no more folders.
var errTooMany = errors.New("the system watches no more folders")

// burst is how long changes are collected before the folders are scanned.
const burst = 250 * time.Millisecond

// Run scans the folder, and then what changes in it, until ctx ends. What the system does
// not report is found by a scan every Options.Rescan. A scan that fails is logged and
// repeated. The error is that of ctx.
func (f *Folder) Run(ctx context.Context) error {
	n, err := f.src.notify(f.dirty)
	if err != nil {
		f.opt.Log.Info("changes in a watched folder are found by rescans only", "folder", f.where, "every", f.opt.Rescan, "reason", err)
	}
	if n != nil {
		f.setNotifier(n)
		defer f.dropNotifier()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			timer.Reset(f.scanSome(ctx, nil))
		case <-f.dirty.wake:
			if ctxio.Pause(ctx, burst) != nil {
				continue
			}
			dirs, all := f.dirty.take()
			if all {
				dirs = nil
			} else if len(dirs) == 0 {
				continue
			}
			if next := f.scanSome(ctx, dirs); all || next < f.opt.Rescan {
				timer.Reset(next)
			}
		}
	}
}

// scanSome scans the given folders; nil: all. It returns after what time all are to be
// scanned.
func (f *Folder) scanSome(ctx context.Context, dirs []string) time.Duration {
	s, err := f.scan(ctx, dirs)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrAway):
		if f.noteReadable("", false) {
			f.opt.Log.Warn("a watched folder is away; its files are absent until it is back", "folder", f.where, "error", err)
		}
		return min(f.opt.Rescan, awayPoll)
	case err != nil:
		if f.noteReadable("", false) {
			f.opt.Log.Error("a watched folder cannot be scanned; its files are absent until it can", "folder", f.where, "error", err)
		}
	case dirs == nil && (s.Read > 0 || s.Gone > 0):
		f.opt.Log.Info("scanned a watched folder", "folder", f.where, "files", s.Files, "read", s.Read, "gone", s.Gone,
			"problems", s.Problems, "took", s.Took)
	}
	return f.opt.Rescan
}

func (f *Folder) setNotifier(n notifier) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notifier = n
}

func (f *Folder) dropNotifier() {
	f.mu.Lock()
	n := f.notifier
	f.notifier = nil
	f.mu.Unlock()
	if n != nil {
		_ = n.close()
	}
}

// watchFolder asks the system to report changes in a folder. It is called before the
// folder is listed.
func (f *Folder) watchFolder(dir string) {
	f.mu.Lock()
	n := f.notifier
	f.mu.Unlock()
	if n == nil || n.has(dir) {
		return
	}
	if err := n.add(dir); errors.Is(err, errTooMany) {
		f.opt.Log.Warn("a watched folder has more folders than the system watches; changes are found by rescans",
			"folder", f.where, "every", f.opt.Rescan, "error", err)
		f.dropNotifier()
	}
}

// some scans a few folders, and those below them that are not watched yet.
func (p *pass) some(list []string) error {
	todo := slices.Clone(list)
	slices.Reverse(todo)
	for len(todo) > 0 && p.ctx.Err() == nil {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if p.seen[dir] {
			continue
		}
		dirs, err := p.folder(dir)
		switch {
		case errors.Is(err, ErrAway):
			return err
		case errors.Is(err, fs.ErrNotExist) && dir != "":
			if err := p.forget(dir); err != nil {
				return err
			}
			continue
		case err != nil:
			p.unlisted(dir, err)
		}
		for _, d := range dirs {
			if d = within(dir, d); p.f.unwatched(d) {
				todo = append(todo, d)
			}
		}
	}
	return nil
}

// unwatched reports whether a folder should be watched and is not.
func (f *Folder) unwatched(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notifier != nil && !f.notifier.has(dir)
}

// forget drops the rows of a folder that is no longer there.
func (p *pass) forget(dir string) error {
	if err := p.f.Present(p.ctx); err != nil {
		return err
	}
	_, rows, _, err := p.f.db.Dir(p.ctx, dir)
	if err != nil {
		return err
	}
	c := watched.Change{Gone: []string{dir}}
	for _, r := range rows {
		c.Drop = append(c.Drop, r.ID)
		p.stats.Gone++
	}
	p.send(result{c, 1 + len(rows)})
	return nil
}
