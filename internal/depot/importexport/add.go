// Package importexport moves symbol files between trees of files and a depot: it adds
// build trees and archives, imports the trees of other tools with their
// transactions, and exports a depot as a tree of any layout.
//
// The functions print nothing. They report each file to a callback and return the
// sums.
package importexport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/objfile"
)

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

// AddResult is the result of Add.
type AddResult struct {
	Counts
	Transaction int64 // its number; 0 in a dry run
	// Again means that the transaction existed before: it has the same product, version,
	// branch, class and files.
	Again bool
}

// Already is the end of the sentence that names the transaction, if it existed before.
func (r AddResult) Already() string {
	if r.Again {
		return " has these files already"
	}
	return ""
}

// ErrUnreadable is wrapped by the error of Add for files that cannot be read.
var ErrUnreadable = errors.New("part of the input cannot be read")

// ErrLeftOut is wrapped by the error of Add for files that AddOptions.Strict forbids to
// leave out.
var ErrLeftOut = errors.New("files would be left out")

// vanished returns the error of a path that was given, and says it plainly if there is no such
// file or folder.
func vanished(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &scan.Skip{Path: path, Reason: scan.ReasonVanished, Err: err}
	}
	return err
}

// Add adds every symbol file below paths as one transaction. d may be nil in a dry
// run. If there are no symbol files the error is depot.ErrEmpty; the result counts
// then, too.
func Add(ctx context.Context, d *depot.Depot, paths []string, opt AddOptions) (AddResult, error) {
	for _, p := range paths {
		if _, err := os.Lstat(p); err != nil {
			return AddResult{}, vanished(p, err) // a mistyped path must not become an empty transaction
		}
	}
	ad := newAdder(d, opt)
	r, err := ad.add(ctx, paths)
	r.Counts = ad.counts
	return r, err
}

func (ad *adder) add(ctx context.Context, paths []string) (r AddResult, err error) {
	ad.labels = scan.NewLabels(absoluteAll(paths))
	if ad.opt.DryRun {
		take := func(ctx context.Context, src depot.Source) ([]depot.Added, error) {
			return depot.DryRun(ctx, ad.d, src)
		}
		if err := ad.walk(ctx, take, paths); err != nil {
			return r, err
		}
		if ad.counts.Added.Files+ad.counts.Known.Files == 0 {
			return r, depot.ErrEmpty
		}
		return r, nil
	}
	tx, err := ad.d.Begin(ctx, ad.opt.Info)
	if err != nil {
		return r, err
	}
	defer tx.Rollback()
	if err := ad.walk(ctx, tx.Add, paths); err != nil {
		return r, err
	}
	r.Transaction, err = tx.Commit(ctx)
	r.Again = tx.Again()
	return r, err
}

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

// notSymbolText is why a file is no symbol file.
func notSymbolText(err error) string {
	return strings.TrimPrefix(err.Error(), objfile.ErrNotSymbolFile.Error()+": ")
}

// scanOptions keep the walk from unpacking files that Identify would refuse.
func (ad *adder) scanOptions() scan.Options {
	if ad.opt.As != "" {
		return scan.Options{}
	}
	return scan.Options{Want: objfile.Detect, Beside: true}
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
		Path: path, Name: f.Name, Label: ad.labels.Of(path, f.Name), Archive: archive, ModTime: f.ModTime, Signature: f.Signature,
		As: ad.opt.As, ID: ad.opt.ID, Script: f.Script(), Content: sourceContent{c},
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

// skipped counts a file that the walk skipped.
func (ad *adder) skipped(path string, s *scan.Skip) {
	if s.Reason == scan.ReasonUnwanted {
		ad.wanted.Member(path)
	}
	ad.skip(Event{Path: path, Detail: SkipText(s), Notable: s.Reason.Notable(), Unreadable: s.Reason.Unreadable()})
}
