package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/run/console"
)

// txFlags describe a transaction.
type txFlags struct {
	Product string `help:"Product of the build; rights and retention go by it." short:"p" placeholder:"NAME"`
	Version string `help:"Version of the product." short:"v" placeholder:"VERSION"`
	Comment string `help:"Any text." short:"c" placeholder:"TEXT" more:""`
}

type addCmd struct {
	txFlags
	classFlags
	As string `help:"text:add_as" enum:",sha1,jsmap,il2cpp,proguard" default:"" placeholder:"KIND"`
	ID string `help:"The debug id that an il2cpp mapping belongs to." placeholder:"ID"`
	sourceFlags
	readFlags
	DryRun bool     `help:"Print what would be added, and store nothing." short:"n"`
	JSON   bool     `help:"Print one JSON object per file, with the reason for each that is not added, and a last one with the sums."`
	Paths  []string `arg:"" name:"path" help:"Files, folders and archives (zip, nupkg, snupkg, whl, apk, tar.*, deb, rpm)."`
}

// Run adds the paths.
func (c addCmd) Run(a *session) error {
	d, err := a.openFor(c.DryRun)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
	}
	roots, err := c.roots()
	if err != nil {
		return err
	}
	opt := importexport.AddOptions{
		Info: c.info(), As: c.As, ID: c.ID, DryRun: c.DryRun, SkipUnreadable: c.SkipUnreadable, Strict: c.Strict, Sources: roots,
	}
	opt.Info.Branch, opt.Info.Class = c.Branch, c.Class
	return runAdd(a.Console, d, c.Paths, opt, c.JSON)
}

// runAdd adds paths to a depot and prints the result.
func runAdd(a *console.Console, d *depot.Depot, paths []string, opt importexport.AddOptions, asJSON bool) error {
	lines := term.NewJSONLines(a.Stdout)
	if asJSON {
		opt.Event = func(e importexport.Event) { _ = lines.Write(fileEvent(e)) }
	}
	bar := term.NewProgress(a.Stderr, "adding", -1)
	defer bar.Done()
	opt.Progress = func(done, _ int64) { bar.Set(done) }
	r, err := importexport.Add(a.Ctx, d, paths, opt)
	bar.Done()
	if err != nil && !errors.Is(err, depot.ErrEmpty) {
		return err
	}
	a.Warn(r.SourceWarnings)
	if asJSON {
		return errors.Join(err, lines.Write(struct {
			Event       string             `json:"event"`
			Transaction int64              `json:"build,omitempty"`
			Again       bool               `json:"again,omitempty"` // it existed before
			DryRun      bool               `json:"dry_run,omitempty"`
			Added       importexport.Tally `json:"added"`
			Known       importexport.Tally `json:"known"`
			Restored    int64              `json:"restored,omitempty"`
			sources.Tally
			Skipped int64 `json:"skipped"`
		}{"done", r.Transaction, r.Again, opt.DryRun, r.Added, r.Known, r.Restored, r.Tally, r.Skipped}))
	}
	switch {
	case r.Transaction > 0:
		what := ""
		if opt.Info.Product != "" || opt.Info.Version != "" {
			what = fmt.Sprintf(" (%s)", strings.TrimSpace(opt.Info.Product+" "+opt.Info.Version))
		}
		fmt.Fprintf(a.Stdout, "build %d%s in %s%s\n", r.Transaction, term.Printable(what), d.Name(), r.Already())
	case opt.DryRun:
		fmt.Fprintln(a.Stdout, "dry run: nothing was added")
	default:
		fmt.Fprintln(a.Stdout, "nothing to add; the depot is unchanged")
	}
	r.Print(a.Stdout)
	return err
}

// info completes the transaction's description with the user and the machine.
func (f txFlags) info() depot.TxInfo {
	info := depot.TxInfo{Product: f.Product, Version: f.Version, Comment: f.Comment, Who: console.LocalUser()}
	info.Host, _ = os.Hostname()
	return info
}

// fileEvent is the line of JSON output for an event of a file or a transaction.
func fileEvent(e importexport.Event) any {
	switch e.Kind {
	case importexport.EventAdded, importexport.EventKnown:
		return struct {
			Event    importexport.EventKind `json:"event"`
			Restored bool                   `json:"restored,omitempty"`
			display.Identified
		}{e.Kind, e.Restored, display.NewIdentified(e.Path, *e.Object)}
	case importexport.EventSkipped:
		return struct {
			Event      importexport.EventKind `json:"event"`
			Path       string                 `json:"path"`
			Reason     string                 `json:"reason"`
			Unreadable bool                   `json:"unreadable,omitempty"`
			NotSymbols bool                   `json:"not_symbols,omitempty"`
		}{e.Kind, e.Path, e.Detail, e.Unreadable, !e.Notable}
	case importexport.EventMisplaced:
		return struct {
			Event importexport.EventKind `json:"event"`
			Path  string                 `json:"path"`
			Own   []string               `json:"own"`
		}{e.Kind, e.Path, e.Own}
	case importexport.EventImported, importexport.EventEmpty, importexport.EventBefore:
		return struct {
			Event       importexport.EventKind `json:"event"`
			Origin      string                 `json:"origin"`
			Transaction int64                  `json:"build,omitempty"`
			Product     string                 `json:"product,omitempty"`
			Version     string                 `json:"version,omitempty"`
		}{e.Kind, e.Origin, e.Number, e.Product, e.Version}
	}
	return struct {
		Event  importexport.EventKind `json:"event"`
		Path   string                 `json:"path"`
		Detail string                 `json:"detail,omitempty"`
	}{e.Kind, e.Path, e.Detail}
}
