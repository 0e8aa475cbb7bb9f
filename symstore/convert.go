package symstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// convertFile describes an unfinished conversion. The next writer completes it.
const convertFile = adminDir + "/symdepot.convert"

// ConvertOptions are the options of Convert.
type ConvertOptions struct {
	// Move moves folders instead of linking files, for disks without hard
	// links. Until the conversion is complete, other readers do not find the
	// moved files; Stores of this package do.
	Move bool
	// Progress, if set, is called with the number of converted keys, in each of
	// the two passes.
	Progress func(keys int)
}

// conversion is the content of convertFile.
type conversion struct {
	To   Tiers `json:"to"`
	Move bool  `json:"move,omitempty"`
	// Drop means that the new folders are complete and in use. The old ones are
	// being removed.
	Drop bool `json:"drop,omitempty"`
}

// Convert changes a store to one or two tiers, in place. It makes the new folders
// beside the old ones with hard links to the same files, makes or removes
// index2.txt, and removes the old folders. Readers find every file all the time.
// Other writers wait, or fail with ErrLocked. The next writer completes an
// interrupted conversion.
//
// The error wraps errors.ErrUnsupported if the disk has no hard links.
func (s *Store) Convert(ctx context.Context, to Tiers, opt ConvertOptions) error {
	if s.flat || to != One && to != Two {
		return fmt.Errorf("%w: a %s folder cannot become %s", ErrNotStore, s.Tiers(), to)
	}
	l, err := s.journal.lock(ctx)
	if err != nil {
		return err
	}
	defer l.unlock()
	if s.Tiers() == to {
		return nil
	}
	c := conversion{To: to, Move: opt.Move}
	if err := s.writeConversion(c); err != nil {
		return err
	}
	return s.convert(ctx, l, c, opt.Progress)
}

func (d *disk) writeConversion(c conversion) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := d.checkpoint("conversion"); err != nil {
		return err
	}
	return wrapError(d.writeDurably(convertFile, data))
}

// readConversion reads convertFile. ok is false if there is none.
func (d *disk) readConversion() (c conversion, ok bool, err error) {
	data, err := d.readText(convertFile)
	if data == nil || err != nil {
		return conversion{}, false, err
	}
	if err := json.Unmarshal(bytes.TrimSpace(data), &c); err != nil || c.To != One && c.To != Two {
		return conversion{}, false, fmt.Errorf("%w: %s is unreadable", ErrDamaged, convertFile)
	}
	return c, true, nil
}

// Converting returns the tiers that an interrupted conversion leads to. The next
// writer completes it. ok is false if there is no such conversion.
func (s *Store) Converting() (to Tiers, ok bool, err error) {
	c, ok, err := s.readConversion()
	return c.To, ok, err
}

// resumeConversion completes a conversion that was interrupted.
func (s *Store) resumeConversion(ctx context.Context, l *lock) error {
	c, ok, err := s.readConversion()
	if !ok || err != nil {
		return err
	}
	return s.convert(ctx, l, c, nil)
}

func (s *Store) convert(ctx context.Context, l *lock, c conversion, progress func(int)) error {
	if !c.Drop {
		if err := s.createDirs(ctx, l, c, progress); err != nil {
			return err
		}
		if err := s.switchTiers(c.To); err != nil {
			return err
		}
		c.Drop = true
		if err := s.writeConversion(c); err != nil {
			return err
		}
	}
	from := One
	if c.To == One {
		from = Two
	}
	n := 0
	err := eachKeyDir(&s.disk, from, func(name, key, dir string) error {
		if err := s.checkStep(ctx, l, "drop "+dir); err != nil {
			return err
		}
		if _, _, ok := s.locateIn(c.To, name, key); !ok {
			return fmt.Errorf("%w: %s was not converted", ErrDamaged, dir)
		}
		if err := s.root.RemoveAll(dir); err != nil {
			return wrapError(err)
		}
		s.removeEmpty(path.Dir(dir))
		if n++; progress != nil {
			progress(n)
		}
		return nil
	})
	if err == nil {
		err = s.checkpoint("converted")
	}
	if err != nil {
		return err
	}
	return wrapError(s.tree.Remove(convertFile))
}

// checkStep returns an error if a step must not be taken.
func (s *Store) checkStep(ctx context.Context, l *lock, what string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.checkpoint(what); err != nil {
		return err
	}
	return l.check()
}

// createDirs creates the new folders.
func (s *Store) createDirs(ctx context.Context, l *lock, c conversion, progress func(int)) error {
	from := One
	if c.To == One {
		from = Two
	}
	to := s.newTargets(nil)
	to.tiers = c.To
	to.names.frozen = false // the new folders are to be seen
	g := s.tree.NewGroup()
	defer g.Abort()
	n := 0
	err := eachKeyDir(&s.disk, from, func(name, key, dir string) error {
		if err := s.checkStep(ctx, l, "spread "+dir); err != nil {
			return err
		}
		target, _ := to.dir(name, key)
		if err := s.root.MkdirAll(path.Dir(target), 0o777); err != nil {
			return wrapError(err)
		}
		if c.Move {
			if err := retried(func() error { return s.root.Rename(dir, target) }); err != nil {
				return wrapError(err)
			}
			s.removeEmpty(path.Dir(dir))
		} else if err := linkDir(&s.disk, dir, target); err != nil {
			return err
		}
		for d := target; d != "."; d = path.Dir(d) {
			g.SyncDir(d)
		}
		if n++; progress != nil {
			progress(n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.SyncDir(".")
	return g.Commit()
}

// linkDir creates a folder with links to the files of another folder.
func linkDir(d *disk, from, to string) error {
	if err := d.root.MkdirAll(to, 0o777); err != nil {
		return wrapError(err)
	}
	entries, err := d.readDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		a, b := path.Join(from, e.Name()), path.Join(to, e.Name())
		if e.IsDir() {
			if err := linkDir(d, a, b); err != nil {
				return err
			}
			continue
		}
		err := d.root.Link(a, b)
		if errors.Is(err, fs.ErrExist) && !d.sameFile(a, b) {
			// A writer that takes no lock has replaced the old file since.
			if err = d.root.Remove(b); err == nil {
				err = d.root.Link(a, b)
			}
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		if err != nil && !durable.IsNoSpace(err) && !errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: hard links: %w", errors.ErrUnsupported, err)
		}
		if err != nil {
			return wrapError(err)
		}
	}
	return nil
}

// switchTiers makes readers use the folders of the new tiers.
func (d *disk) switchTiers(to Tiers) error {
	if err := d.checkpoint("switch"); err != nil {
		return err
	}
	if to == Two {
		return wrapError(d.writeDurably(index2File, nil))
	}
	return wrapError(ignoreNotExist(d.tree.Remove(index2File)))
}

// eachKeyDir visits the key folders of a store with these tiers. During a
// conversion folders of both kinds exist. ab/KEY is a key folder of one tier if it
// holds the file ab or its records.
func eachKeyDir(d *disk, tiers Tiers, visit func(name, key, dir string) error) error {
	tops, err := d.subdirs(".", 0)
	if err != nil {
		return err
	}
	for _, top := range tops {
		names := []string{top}
		if tiers == Two {
			if names, err = d.subdirs(top, 0); err != nil {
				return err
			}
		}
		for _, name := range names {
			dir := top
			if tiers == Two {
				dir = path.Join(top, name)
			}
			keys, err := d.subdirs(dir, 0)
			if err != nil {
				return err
			}
			for _, key := range keys {
				at := path.Join(dir, key)
				is, err := isKeyDir(d, at, name)
				if err != nil {
					return err
				}
				if is {
					if err := visit(name, key, at); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// isKeyDir reports whether a folder has a stored file of that name, or records.
func isKeyDir(d *disk, dir, name string) (bool, error) {
	entries, err := d.readDir(dir)
	for _, e := range entries {
		switch leaf := symfile.Fold(e.Name()); {
		case e.IsDir():
			if strings.HasPrefix(leaf, "msfz") && strings.Trim(leaf[4:], "0123456789") == "" {
				return true, nil
			}
		case leaf == symfile.Fold(name), leaf == symfile.Fold(layout.CabinetName(name)), leaf == refsLeaf, leaf == pointerLeaf:
			return true, nil
		}
	}
	return false, err
}
