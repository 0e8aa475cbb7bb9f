package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/objfile"
)

// txFlags are what a transaction says of itself.
type txFlags struct {
	Product string `help:"Product of the transaction; rights and retention go by it." short:"p"`
	Version string `help:"Version of the product." short:"v"`
	Comment string `help:"Any text." short:"c"`
}

type addCmd struct {
	txFlags
	As     string   `help:"Take the files for a kind that cannot be recognised: sha1, jsmap, il2cpp or proguard." enum:",sha1,jsmap,il2cpp,proguard" default:"" placeholder:"KIND"`
	ID     string   `help:"The debug id that an il2cpp mapping belongs to." placeholder:"ID"`
	DryRun bool     `help:"Only say what would be added." short:"n"`
	JSON   bool     `help:"Print one JSON object per file and a last one with the sums."`
	Paths  []string `arg:"" name:"path" help:"Files, folders and archives (zip, nupkg, snupkg, whl, apk, tar.*, deb, rpm)."`
}

// Help is the long help text.
func (addCmd) Help() string {
	return `All files become visible at once, as one numbered transaction, or none does. Bytes that the depot
has already are not stored again. What is no symbol file is skipped and counted.

  symdepot add --product Game --version 1.2.3 build/
  symdepot add app.nupkg app.snupkg debug-symbols_1.0_amd64.deb
  symdepot add --dry-run --json build/

Exit codes: 0 added, 1 nothing there to add, 2 wrong command line, 3 failed (nothing was added),
4 depot damaged or newer, 130 interrupted (nothing was added).`
}

// Run adds the paths.
func (c addCmd) Run(a *app) error {
	d, err := a.open(depot.Options{MustExist: c.DryRun})
	switch {
	case err == nil:
		defer d.Close()
	case c.DryRun && errors.Is(err, depot.ErrNoDepot):
		d = nil // looking makes no depot
	default:
		return err
	}
	ad := newAdder(a, d)
	ad.as, ad.id = c.As, c.ID
	if c.JSON {
		ad.json = term.NewJSONLines(a.stdout)
	}
	ad.jsonOn, ad.dryRun = c.JSON, c.DryRun
	n, err := ad.add(c.info(), c.Paths)
	if err != nil && !errors.Is(err, depot.ErrEmpty) {
		return err
	}
	if perr := ad.summary(n, c.txFlags); perr != nil {
		return perr
	}
	return err
}

// info completes the transaction's description with who adds it, and where.
func (f txFlags) info() depot.TxInfo {
	info := depot.TxInfo{Product: f.Product, Version: f.Version, Comment: f.Comment}
	if u, err := user.Current(); err == nil {
		info.Who = u.Username
	}
	info.Host, _ = os.Hostname()
	return info
}

// adder walks paths into a transaction with a few workers, and keeps count.
type adder struct {
	a      *app
	d      *depot.Depot
	as, id string // see objfile.Options
	jsonOn bool
	dryRun bool
	json   term.JSONLines
	bytes  atomic.Int64

	mu      sync.Mutex // guards what follows, and json
	added   tally
	known   tally
	skipped int64
	reasons map[string]int64
	notable []string // skipped files that a person should hear of
	moreOf  int64    // further ones
}

type tally struct {
	Files int64 `json:"objects"`
	Bytes int64 `json:"bytes"`
}

func newAdder(a *app, d *depot.Depot) *adder {
	return &adder{a: a, d: d, reasons: map[string]int64{}}
}

// add puts every symbol file below paths into one transaction.
func (ad *adder) add(info depot.TxInfo, paths []string) (int64, error) {
	for _, p := range paths {
		if _, err := os.Lstat(p); err != nil {
			return 0, err // a mistyped path must not become an empty transaction
		}
	}
	if ad.dryRun {
		take := func(ctx context.Context, src depot.Source) ([]depot.Added, error) { return depot.Try(ctx, ad.d, src) }
		if err := ad.walk(take, paths); err != nil {
			return 0, err
		}
		if ad.added.Files+ad.known.Files == 0 {
			return 0, depot.ErrEmpty
		}
		return 0, nil
	}
	tx, err := ad.d.Begin(ad.a.ctx, info)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if err := ad.walk(tx.Add, paths); err != nil {
		return 0, err
	}
	return tx.Commit(ad.a.ctx)
}

// taker is Tx.Add, or what stands for it in a dry run.
type taker func(context.Context, depot.Source) ([]depot.Added, error)

func (ad *adder) walk(take taker, paths []string) error {
	g, ctx := errgroup.WithContext(ad.a.ctx)
	files := make(chan *scan.File)
	for range max(2, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			for f := range files {
				err := ad.file(ctx, take, f)
				f.Discard()
				if err != nil {
					for f := range files {
						f.Discard() // what was read ahead lets go of its memory
					}
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(files)
		bar := term.NewProgress(ad.a.stderr, "adding", -1)
		defer bar.Done()
		for f, err := range scan.Walk(ctx, paths, ad.scanOptions()) {
			if err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				var skip *scan.Skip
				if !errors.As(err, &skip) {
					return err
				}
				ad.skip(skip.Path, skipText(skip), notable(skip))
				continue
			}
			select {
			case files <- f:
			case <-ctx.Done():
				f.Discard()
				return ctx.Err()
			}
			bar.Set(ad.bytes.Load())
		}
		return nil
	})
	return g.Wait()
}

// file adds one file. Only an error that ends the transaction is returned.
func (ad *adder) file(ctx context.Context, take taker, f *scan.File) error {
	for try := 0; ; try++ {
		got, err := ad.once(ctx, take, f)
		switch {
		case err == nil:
			for _, g := range got {
				ad.took(f.Path, g)
			}
			return nil
		case errors.Is(err, depot.ErrChanged) && try == 0 && f.Archive == "":
			continue // a build may still be writing it; a second look decides
		case errors.Is(err, objfile.ErrNotSymbolFile):
			ad.skip(f.Path, strings.TrimPrefix(err.Error(), objfile.ErrNotSymbolFile.Error()+": "), false)
			return nil
		case errors.Is(err, objfile.ErrBroken), errors.Is(err, depot.ErrNoID), errors.Is(err, depot.ErrChanged), isReadError(err):
			ad.skip(f.Path, err.Error(), true)
			return nil
		default:
			return err
		}
	}
}

// scanOptions keep the walk from unpacking what Identify would refuse.
func (ad *adder) scanOptions() scan.Options {
	if ad.as != "" {
		return scan.Options{}
	}
	return scan.Options{Want: objfile.Detect}
}

// readError is a failure to read a source file: the file's own, not the depot's.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

func isReadError(err error) bool {
	var r readError
	return errors.As(err, &r)
}

func (ad *adder) once(ctx context.Context, take taker, f *scan.File) ([]depot.Added, error) {
	c, err := f.Open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, readError{err}
	}
	defer c.Close()
	path, archive := absolute(f)
	return take(ctx, depot.Source{Path: path, Name: f.Name, Archive: archive, ModTime: f.ModTime, As: ad.as, ID: ad.id, Script: scriptBeside(f.Path),
		Content: sourceContent{c}})
}

// absolute returns the path and the archive of a file with the path on disk made
// absolute, so that what is recorded means the same everywhere.
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

// sourceContent marks errors of reading the source, so that they are not
// mistaken for the depot's.
type sourceContent struct{ *scan.Content }

func (s sourceContent) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Content.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		err = readError{err}
	}
	return n, err
}

// Reader reads the content once, with what checks its container offers.
func (s sourceContent) Reader() io.Reader { return sourceReader{s.Content.Reader()} }

type sourceReader struct{ r io.Reader }

func (s sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = readError{err}
	}
	return n, err
}

// notable reports whether a person should hear of what was skipped by name:
// what could not be read, rather than what is not meant for a depot.
func notable(s *scan.Skip) bool {
	switch s.Reason {
	case scan.ReasonSymlink, scan.ReasonLoop, scan.ReasonIrregular, scan.ReasonUnwanted:
		return false
	}
	return true
}

func skipText(s *scan.Skip) string {
	if s.Reason == scan.ReasonUnwanted && s.Err != nil {
		return strings.TrimPrefix(s.Err.Error(), objfile.ErrNotSymbolFile.Error()+": ")
	}
	if s.Err == nil || !notable(s) {
		return string(s.Reason)
	}
	return fmt.Sprintf("%s: %v", s.Reason, s.Err)
}

func (ad *adder) took(path string, g depot.Added) {
	ad.bytes.Add(g.Object.Size)
	ad.mu.Lock()
	defer ad.mu.Unlock()
	t, word := &ad.added, "added"
	if g.Known {
		t, word = &ad.known, "known"
	}
	t.Files++
	t.Bytes += g.Object.Size
	if ad.jsonOn {
		_ = ad.json.Write(struct {
			Event string `json:"event"`
			identified
		}{word, newIdentified(path, g.Object)})
	}
}

func (ad *adder) skip(path, reason string, notable bool) {
	ad.mu.Lock()
	defer ad.mu.Unlock()
	ad.skipped++
	if ad.jsonOn {
		_ = ad.json.Write(struct {
			Event  string `json:"event"`
			Path   string `json:"path"`
			Reason string `json:"reason"`
		}{"skipped", path, reason})
	}
	if !notable {
		ad.reasons[reason]++
		return
	}
	if len(ad.notable) < 20 {
		ad.notable = append(ad.notable, path+": "+reason)
	} else {
		ad.moreOf++
	}
}

// summary says what was done with how many files.
func (ad *adder) summary(n int64, f txFlags) error {
	if ad.jsonOn {
		return ad.json.Write(struct {
			Event       string `json:"event"`
			Transaction int64  `json:"transaction,omitempty"`
			DryRun      bool   `json:"dry_run,omitempty"`
			Added       tally  `json:"added"`
			Known       tally  `json:"known"`
			Skipped     int64  `json:"skipped"`
		}{"done", n, ad.dryRun, ad.added, ad.known, ad.skipped})
	}
	w := ad.a.stdout
	switch {
	case n > 0:
		what := ""
		if f.Product != "" || f.Version != "" {
			what = fmt.Sprintf(" (%s)", strings.TrimSpace(f.Product+" "+f.Version))
		}
		fmt.Fprintf(w, "transaction %d%s in %s\n", n, term.Printable(what), ad.d.Dir())
	case ad.dryRun:
		fmt.Fprintln(w, "dry run: nothing was added")
	default:
		fmt.Fprintln(w, "nothing there to add; the depot is as it was")
	}
	ad.tallies(w)
	return nil
}

// tallies says how many files were added, known and skipped, and why.
func (ad *adder) tallies(w io.Writer) {
	fmt.Fprintf(w, "  added          %s, %s\n", term.Count(ad.added.Files, "object"), term.Size(ad.added.Bytes))
	fmt.Fprintf(w, "  already known  %s, %s\n", term.Count(ad.known.Files, "object"), term.Size(ad.known.Bytes))
	fmt.Fprintf(w, "  skipped        %s\n", term.Count(ad.skipped, "file"))
	for _, line := range ad.notable {
		fmt.Fprintf(w, "    %s\n", term.Printable(line))
	}
	if ad.moreOf > 0 {
		fmt.Fprintf(w, "    and %d more like these; --json names all\n", ad.moreOf)
	}
	reasons := make([]string, 0, len(ad.reasons))
	for r := range ad.reasons {
		reasons = append(reasons, r)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if d := ad.reasons[b] - ad.reasons[a]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	for i, r := range reasons {
		if i == 10 {
			fmt.Fprintf(w, "    and for %d more reasons; --json names all\n", len(reasons)-i)
			break
		}
		fmt.Fprintf(w, "    %d × %s\n", ad.reasons[r], term.Printable(r))
	}
}
