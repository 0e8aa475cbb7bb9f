package importexport

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
)

// AddOptions are the options of Add.
type AddOptions struct {
	Info depot.TxInfo
	// As and ID force a kind; see objfile.Options.
	As, ID string
	// DryRun adds nothing and only reports what would be added.
	DryRun bool
	// SkipUnreadable skips files and folders that cannot be read. Otherwise
	// one of them makes Add fail, and nothing is added.
	SkipUnreadable bool
	// Strict makes Add fail, and add nothing, if a file is left out because it is
	// damaged, encrypted, too large, refused, or not the one of the build.
	Strict bool
	// Sources are folders with the sources of the added objects.
	Sources  []sources.Root
	Event    func(Event)
	Progress Progress
}

// adder offers files to a depot with a few workers, and counts them.
type adder struct {
	d      *depot.Depot
	opt    AddOptions
	bytes  atomic.Int64
	wanted *sources.Collector
	labels scan.Labels

	mu     sync.Mutex // guards the fields below, and calls of opt.Event
	counts Counts
	unread []string // the first files that could not be read
	faulty []string // the first files that Strict does not leave out
	faults int64    // their number
}

func newAdder(d *depot.Depot, opt AddOptions) *adder {
	return &adder{d: d, opt: opt, wanted: &sources.Collector{Roots: opt.Sources}, counts: Counts{Reasons: map[string]int64{}}}
}

// taker is Tx.Add, or its replacement in a dry run.
type taker func(context.Context, depot.Source) ([]depot.Added, error)

// FromDisk reports whether the operating system refused to read a file, in
// contrast to an archive that is damaged.
func FromDisk(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// absolute returns the path and the archive of a file with the path on disk made
// absolute, so that recorded paths do not depend on the current folder.
func absolute(f *scan.File) (path, archive string) {
	if f.Archive == "" {
		if abs, err := filepath.Abs(f.Path); err == nil {
			return abs, ""
		}
		return f.Path, ""
	}
	abs, err := filepath.Abs(f.Archive)
	if err != nil {
		return f.Path, f.Archive
	}
	return abs + strings.TrimPrefix(f.Path, f.Archive), abs
}

// absoluteAll makes paths of the command line absolute, so that labels do not depend on how
// somebody spells a path.
func absoluteAll(paths []string) []string {
	list := make([]string, len(paths))
	for i, p := range paths {
		list[i] = p
		if abs, err := filepath.Abs(p); err == nil {
			list[i] = abs
		}
	}
	return list
}

// countAdded counts an object that the depot has added.
func (ad *adder) countAdded(path string, g depot.Added) {
	ad.bytes.Add(g.Object.Size)
	ad.mu.Lock()
	defer ad.mu.Unlock()
	t, kind := &ad.counts.Added, EventAdded
	if g.Known {
		t, kind = &ad.counts.Known, EventKnown
	}
	t.Files++
	t.Bytes += g.Object.Size
	if g.Restored {
		ad.counts.Restored++
	}
	for _, flag := range g.Flags {
		if len(ad.counts.Flags) < maxNotable {
			ad.counts.Flags = append(ad.counts.Flags, path+": "+flag)
		}
	}
	ad.event(Event{Kind: kind, Path: path, Object: &g.Object, Restored: g.Restored})
}

// event reports an event; mu is held.
func (ad *adder) event(e Event) {
	if ad.opt.Event != nil {
		ad.opt.Event(e)
	}
}

// skip counts a file that is not added.
func (ad *adder) skip(e Event) {
	e.Kind = EventSkipped
	ad.mu.Lock()
	defer ad.mu.Unlock()
	c := &ad.counts
	c.Skipped++
	ad.event(e)
	if !e.Notable {
		c.NotSymbols++
		c.Reasons[e.Detail]++
		return
	}
	text := e.Path + ": " + e.Detail
	if !e.noID {
		if ad.faults++; len(ad.faulty) < 3 {
			ad.faulty = append(ad.faulty, text)
		}
	}
	if e.Unreadable {
		c.Unreadable++
		if len(ad.unread) < 3 {
			ad.unread = append(ad.unread, text)
		}
	}
	if len(c.Notable) < maxNotable {
		c.Notable = append(c.Notable, text)
	} else {
		c.More++
	}
}

func (ad *adder) progress() {
	if ad.opt.Progress != nil {
		ad.opt.Progress(ad.bytes.Load(), -1)
	}
}
