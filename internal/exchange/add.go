// Package exchange moves symbol files between trees of files and a depot: it adds
// build trees and archives, imports the trees of other tools with their
// transactions, and exports a depot as a tree of any layout.
//
// The functions print nothing. They report each file to a callback and return the
// sums.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/sources"
	"github.com/symdepot/symdepot/objfile"
)

// EventKind says what happened to a file or a transaction.
type EventKind string

// The kinds of events. Their texts are part of the commands' JSON output.
const (
	EventAdded      EventKind = "added"        // an object with new content
	EventKnown      EventKind = "known"        // an object whose content was stored before
	EventSkipped    EventKind = "skipped"      // a file that was not added
	EventMisplaced  EventKind = "misplaced"    // a file under a path that its ids do not belong to
	EventImported   EventKind = "imported"     // a transaction
	EventEmpty      EventKind = "empty"        // a transaction without symbol files
	EventBefore     EventKind = "here already" // a transaction that was imported earlier
	EventWritten    EventKind = "written"      // a file of an export
	EventReplaced   EventKind = "replaced"     // a file of an export that had different content
	EventLeftOut    EventKind = "left out"     // an object that an export has no path for
	EventShadowed   EventKind = "shadowed"     // an object whose path a better object has
	EventCollision  EventKind = "collision"    // a path that differs from a different path in case only
	EventFailedFile EventKind = "failed"       // a file that could not be written
)

// Event is reported for each file and each transaction.
type Event struct {
	Kind   EventKind
	Path   string          // of the file
	Object *objfile.Object // for EventAdded and EventKnown
	// Restored: the stored bytes of the object were damaged or missing, and the
	// transaction replaces them.
	Restored bool
	// Detail is the reason, for the kinds that have one.
	Detail string
	// Own are the paths that a misplaced file belongs to.
	Own []string
	// Origin is the number of the foreign transaction, Number that in the
	// depot, for events of transactions; so are Product and Version.
	Origin           string
	Number           int64
	Product, Version string
	// Notable: the file is named in summaries.
	Notable bool
	// Unreadable: the file could not be read.
	Unreadable bool
	// noID: the file is intact and has no id, as object files of a build have none.
	noID bool
}

// Progress is called with the bytes done so far and their sum, -1 if unknown.
type Progress func(done, total int64)

// Tally counts objects or files and their bytes.
type Tally struct {
	Files int64 `json:"objects"`
	Bytes int64 `json:"bytes"`
}

// Counts sum up the files that were offered to the depot.
type Counts struct {
	Added, Known Tally
	// Restored counts the known objects whose stored bytes were damaged or missing.
	Restored int64
	// Tally is what became of the names of source files in debug information.
	sources.Tally
	// Flags say what the rules for links to source files note about added objects.
	Flags []string
	// Skipped counts the files that were not added: NotSymbols are no symbol
	// files, the others should have been added, but are unreadable, damaged
	// or have no id.
	Skipped, NotSymbols int64
	// Unreadable counts the skipped files and folders that could not be read.
	Unreadable int64
	// Reasons count the files that are no symbol files by reason.
	Reasons map[string]int64
	// Notable are the first of the other skipped files, with the reason; More
	// counts the rest.
	Notable []string
	More    int64
}

// maxNotable bounds lists of files in results.
const maxNotable = 20

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

// AddResult is the result of Add.
type AddResult struct {
	Counts
	Transaction int64 // its number; 0 in a dry run
}

// ErrUnreadable is wrapped by the error of Add for files that cannot be read.
var ErrUnreadable = errors.New("part of the input cannot be read")

// ErrLeftOut is wrapped by the error of Add for files that AddOptions.Strict forbids to
// leave out.
var ErrLeftOut = errors.New("files would be left out")

// Add adds every symbol file below paths as one transaction. d may be nil in a dry
// run. If there are no symbol files the error is depot.ErrEmpty; the result counts
// then, too.
func Add(ctx context.Context, d *depot.Depot, paths []string, opt AddOptions) (AddResult, error) {
	for _, p := range paths {
		_, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			err = &scan.Skip{Path: p, Reason: scan.ReasonVanished, Err: err}
		}
		if err != nil {
			return AddResult{}, err // a mistyped path must not become an empty transaction
		}
	}
	ad := newAdder(d, opt)
	n, err := ad.add(ctx, paths)
	return AddResult{ad.counts, n}, err
}

// adder offers files to a depot with a few workers, and counts them.
type adder struct {
	d      *depot.Depot
	opt    AddOptions
	bytes  atomic.Int64
	wanted *sources.Collector

	mu     sync.Mutex // guards the fields below, and calls of opt.Event
	counts Counts
	unread []string // the first files that could not be read
	faulty []string // the first files that Strict does not leave out
	faults int64    // their number
}

func newAdder(d *depot.Depot, opt AddOptions) *adder {
	return &adder{d: d, opt: opt, wanted: &sources.Collector{Roots: opt.Sources}, counts: Counts{Reasons: map[string]int64{}}}
}

func (ad *adder) add(ctx context.Context, paths []string) (int64, error) {
	if ad.opt.DryRun {
		take := func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
			return depot.DryRun(ctx, ad.d, src)
		}
		if err := ad.walk(ctx, take, paths); err != nil {
			return 0, err
		}
		if ad.counts.Added.Files+ad.counts.Known.Files == 0 {
			return 0, depot.ErrEmpty
		}
		return 0, nil
	}
	tx, err := ad.d.Begin(ctx, ad.opt.Info)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if err := ad.walk(ctx, tx.Add, paths); err != nil {
		return 0, err
	}
	return tx.Commit(ctx)
}

// taker is Tx.Add, or its replacement in a dry run.
type taker func(context.Context, depot.Source) ([]depot.Added, error)

func (ad *adder) walk(ctx context.Context, take taker, paths []string) error {
	g, walking := errgroup.WithContext(ctx)
	files := make(chan *scan.File)
	for range max(2, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			for f := range files {
				err := ad.file(walking, take, f)
				f.Discard()
				if err != nil {
					for f := range files {
						f.Discard() // releases files that were read ahead
					}
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(files)
		return scan.Send(walking, paths, ad.scanOptions(), files, func(s *scan.Skip) { ad.skipped(s.Path, s) }, ad.progress)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ad.addSources(ctx, take); err != nil {
		return err
	}
	if n := ad.counts.Unreadable; n > 0 && !ad.opt.SkipUnreadable {
		return fmt.Errorf("%w: %s; nothing was added (--skip-unreadable adds the rest)", ErrUnreadable, firstOf(ad.unread, n))
	}
	if ad.faults > 0 && ad.opt.Strict {
		return fmt.Errorf("%w: %s; nothing was added (without --strict the rest is)", ErrLeftOut, firstOf(ad.faulty, ad.faults))
	}
	return nil
}

// firstOf names the first of n files.
func firstOf(files []string, n int64) string {
	text := strings.Join(files, "; ")
	if n -= int64(len(files)); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

func (ad *adder) progress() {
	if ad.opt.Progress != nil {
		ad.opt.Progress(ad.bytes.Load(), -1)
	}
}

// file adds one file. It returns only errors that end the transaction.
func (ad *adder) file(ctx context.Context, take taker, f *scan.File) error {
	for try := 0; ; try++ {
		got, err := ad.once(ctx, take, f)
		switch {
		case err == nil:
			for _, g := range got {
				ad.countAdded(f.Path, g)
			}
			return nil
		case errors.Is(err, depot.ErrChanged) && try == 0 && f.Archive == "":
			continue // a build may still be writing the file; a second try decides
		case errors.Is(err, objfile.ErrNotSymbolFile):
			ad.wanted.Member(f.Path)
			ad.skip(Event{Path: f.Path, Detail: notSymbolText(err)})
			return nil
		case scan.IsReadError(err):
			ad.skip(Event{Path: f.Path, Detail: strings.TrimPrefix(err.Error(), f.Path+": "), Notable: true, Unreadable: FromDisk(err)})
			return nil
		case errors.Is(err, objfile.ErrBroken), errors.Is(err, depot.ErrNoID), errors.Is(err, depot.ErrLinks), errors.Is(err, depot.ErrChanged):
			ad.skip(Event{Path: f.Path, Detail: err.Error(), Notable: true, noID: errors.Is(err, depot.ErrNoID)})
			return nil
		default:
			return err
		}
	}
}

// FromDisk reports whether the operating system refused to read a file, in
// contrast to an archive that is damaged.
func FromDisk(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// notSymbolText is why a file is no symbol file.
func notSymbolText(err error) string {
	return strings.TrimPrefix(err.Error(), objfile.ErrNotSymbolFile.Error()+": ")
}

// scanOptions keep the walk from unpacking files that Identify would refuse.
func (ad *adder) scanOptions() scan.Options {
	if ad.opt.As != "" {
		return scan.Options{}
	}
	return scan.Options{Want: objfile.Detect}
}

func (ad *adder) once(ctx context.Context, take taker, f *scan.File) ([]depot.Added, error) {
	c, err := f.Open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, scan.ReadError{Err: err}
	}
	defer c.Close()
	path, archive := absolute(f)
	got, err := take(ctx, depot.Source{
		Path: path, Name: f.Name, Archive: archive, ModTime: f.ModTime, Signature: f.Signature, As: ad.opt.As, ID: ad.opt.ID, Script: f.Script(),
		Content: sourceContent{c},
	})
	if err != nil || ad.opt.As != "" {
		return got, err
	}
	for _, g := range got {
		if err := ad.wanted.Object(ctx, f, c, g.Object); err != nil {
			return nil, err
		}
	}
	return got, nil
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

// sourceContent marks errors in reading the source, which are not the depot's.
type sourceContent struct{ *scan.Content }

func (s sourceContent) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Content.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		err = scan.ReadError{Err: err}
	}
	return n, err
}

// Reader reads the content once, with the checks that its archive offers.
func (s sourceContent) Reader() io.Reader { return sourceReader{s.Content.Reader()} }

type sourceReader struct{ r io.Reader }

func (s sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = scan.ReadError{Err: err}
	}
	return n, err
}

// SkipText returns the reason why the walk skipped a file.
func SkipText(s *scan.Skip) string {
	if s.Reason == scan.ReasonUnwanted && s.Err != nil {
		return notSymbolText(s.Err)
	}
	if s.Err == nil || !s.Reason.Notable() || s.Reason == scan.ReasonVanished {
		return string(s.Reason)
	}
	return fmt.Sprintf("%s: %v", s.Reason, s.Err)
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

// skipped counts a file that the walk skipped.
func (ad *adder) skipped(path string, s *scan.Skip) {
	if s.Reason == scan.ReasonUnwanted {
		ad.wanted.Member(path)
	}
	ad.skip(Event{Path: path, Detail: SkipText(s), Notable: s.Reason.Notable(), Unreadable: s.Reason.Unreadable()})
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
