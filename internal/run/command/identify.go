package command

import (
	"context"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/objfile"
)

type identifyCmd struct {
	Server    string   `help:"Base URL of a server that says what its depot has of the files." placeholder:"URL"`
	TokenFile string   `help:"With --server: file with the token. Default: SYMDEPOT_TOKEN, or the login of symdepot login." placeholder:"FILE"`
	JSON      bool     `help:"Print one JSON object per line and per contained object."`
	Sources   bool     `help:"List the source files that the debug information names."`
	As        string   `help:"text:identify_as" enum:",sha1,jsmap,il2cpp,proguard" default:"" placeholder:"KIND"`
	ID        string   `help:"Debug id of an il2cpp mapping." placeholder:"ID"`
	Paths     []string `arg:"" name:"path" help:"Files, folders and archives."`
}

// Run identifies every file below the paths.
func (c identifyCmd) Run(a *session) error {
	p := &display.IdentifiedPrinter{JSON: c.JSON, Sources: c.Sources, Named: c.Paths}
	files := &display.Files{Paths: c.Paths, Left: p.Left}
	if err := c.examiner(a.Console, p, files); err != nil {
		return err
	}
	p.Begin(a.Stdout, c.Server != "")
	unreadable, err := files.Each(a.Ctx)
	if err != nil {
		return err
	}
	if err := p.End(); err != nil {
		return err
	}
	if p.Found > 0 || unreadable != nil {
		return unreadable
	}
	switch {
	case c.JSON:
		return term.ErrNegative
	case c.Sources:
		return a.Nothing("no symbol file here names source files")
	}
	fmt.Fprintln(a.Stderr, "symdepot: there is no symbol file")
	for _, path := range needed.Dumps(c.Paths) {
		fmt.Fprintf(a.Stderr, "symdepot: %s is a dump; symdepot why %[1]s says which files of its modules are here\n", term.Printable(path))
	}
	return term.ErrNegative
}

// examiner sets what examines the files: this machine, or the server.
func (c identifyCmd) examiner(a *console.Console, p *display.IdentifiedPrinter, files *display.Files) error {
	forced, err := objfile.ParseForced(c.As)
	if err != nil {
		return err
	}
	opt := objfile.Options{Kind: forced, ID: c.ID}
	switch {
	case c.Sources && c.Server != "":
		return term.UsageError("--sources does not go with --server")
	case c.As != "" && c.Server != "":
		return term.UsageError("--as does not go with --server")
	case c.Sources:
		files.Examine = func(ctx context.Context, f *scan.File) error {
			return display.IdentifySources(ctx, f, opt, func(text string) { a.Warn([]string{term.Printable(text)}) }, p.Source)
		}
	case c.Server != "":
		server, err := pusher(a, c.Server, c.TokenFile)
		if err != nil {
			return err
		}
		server.RetryAndTell(time.Minute, a.Stderr)
		files.Scan.Want = client.MayIdentify
		files.Examine = func(ctx context.Context, f *scan.File) error {
			answer, err := server.Identify(ctx, f)
			if err != nil {
				return err
			}
			return p.Answer(f.Path, answer)
		}
	default:
		files.Examine = func(ctx context.Context, f *scan.File) error {
			list, err := display.Identify(ctx, f, opt)
			if err != nil {
				return err
			}
			return p.Objects(list)
		}
	}
	return nil
}
