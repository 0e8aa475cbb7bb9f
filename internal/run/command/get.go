package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/layout"
)

type getCmd struct {
	upstreamFlags
	serverFlags
	Output string   `help:"File to write to; with several files, the folder. Default: the current folder." short:"o" placeholder:"PATH"`
	Layout string   `help:"text:get_layout" enum:"${get_layouts}" default:"flat" placeholder:"LAYOUT"`
	Force  bool     `help:"Replace existing files that differ."`
	Jobs   int      `help:"How many files to download at once." default:"8" short:"j"`
	JSON   bool     `help:"Print one JSON object per file."`
	What   []string `arg:"" name:"what" help:"text:get_what"`
}

// Run gets the files.
func (c getCmd) Run(a *session) error {
	l := &needed.List{}
	file, err := l.Named(a.Ctx, c.What)
	if err != nil {
		return err
	}
	if len(l.Wants) == 0 {
		for _, f := range l.SymbolFiles {
			fmt.Fprintf(a.Stderr, "symdepot: %s is itself a symbol file and needs no others\n", term.Printable(f))
		}
		if len(l.SymbolFiles) == 0 {
			fmt.Fprintln(a.Stderr, "symdepot: found no program, library or dump that names symbol files")
		}
		return term.ErrNegative
	}
	open := c.open
	if c.Server != "" {
		if c.Config != "" || len(c.Upstream) > 0 || c.FromEnv || c.NoEgress {
			return term.UsageError("--server does not go with --config, --upstream, --from-env and --no-egress")
		}
		open = c.emptyDepot
	}
	d, done, err := open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	lay, _ := layout.FolderByName(c.Layout) // the flag's enum has no other
	target, err := needed.NewTarget(l.Wants, c.Output, lay, c.Force)
	if err != nil {
		return err
	}
	lines := term.NewJSONLines(a.Stdout)
	bar := term.NewProgress(a.Stderr, "downloading", -1)
	defer bar.Done()
	// The depot of --server goes with the command.
	report, err := needed.Get(a.Ctx, d, target, c.Jobs, c.Server != "", bar.Set, func(o needed.Outcome, path string) {
		switch {
		case c.JSON:
			_ = lines.Write(struct {
				needed.Outcome
				Path string `json:"path,omitempty"`
			}{o, path})
		case path != "":
			fmt.Fprintln(a.Stdout, path)
		}
	})
	bar.Done()
	if err != nil {
		return err
	}
	if !c.JSON {
		printMissing(a.Console, report, l.Bad)
		if hint := target.Hint(file); hint != "" {
			fmt.Fprintln(a.Stderr, "now:", hint)
		}
	}
	return c.result(report)
}

// result is the error of what was not written.
func (c getCmd) result(r *needed.Report) error {
	switch {
	case c.Server != "" && r.Denied:
		return client.ErrCredentials
	case c.Server != "" && r.Unanswered:
		return client.ErrUnreachable
	case r.Counts[needed.Failed] > 0:
		return fmt.Errorf("%s failed", term.Count(r.Counts[needed.Failed], "file"))
	case r.Counts[needed.Missing] > 0:
		return term.ErrNegative
	}
	return nil
}
