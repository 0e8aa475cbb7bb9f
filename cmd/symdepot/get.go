package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/layout"
)

type getCmd struct {
	upstreamFlags
	serverFlags
	Output string   `help:"File to write to; with several files, the folder. Default: the current folder." short:"o" placeholder:"PATH"`
	Layout string   `help:"${get_layout}" enum:"${get_layouts}" default:"flat" placeholder:"LAYOUT"`
	Force  bool     `help:"Replace existing files that differ."`
	Jobs   int      `help:"How many files to download at once." default:"8" short:"j"`
	JSON   bool     `help:"Print one JSON object per file."`
	What   []string `arg:"" name:"what" help:"${get_what}"`
}

// Help is the long help text.
func (getCmd) Help() string {
	return `Writes symbol files from the depot to disk. Files that the depot does not have are downloaded from the upstreams.
Existing files with the same content count as done, so the command can be repeated.

Examples:

  symdepot get ntdll.pdb 3BD8C3C3B1544CE9AB8D71A9F3E9A4D31 --upstream microsoft
  symdepot get ./app.exe                    the PDB of a program
  symdepot get ./app --upstream debuginfod  the debug information of a program
  symdepot get crash.dmp -o symbols/        all files that a minidump or core file needs; then .sympath symbols
  symdepot get core -o outs/                then: gdb outs/app core
  symdepot get core -o outs/ --layout gdb   then: gdb -iex 'set debug-file-directory outs' app core
  symdepot get buildid/16e7b8e1/debuginfo
  symdepot get --server https://symbols.example.com crash.dmp -o symbols/    from that server only; nothing is kept in a depot

Exit codes: 0 wrote everything, 1 a file was not found, 2 wrong command line, 3 failed, 4 depot damaged, 5 credentials refused, 7 server not reachable, 130 interrupted.`
}

// Run gets the files.
func (c getCmd) Run(a *app) error {
	l, dump, err := c.wants(a.console)
	if err != nil {
		return err
	}
	if len(l.Wants) == 0 {
		for _, f := range l.SymbolFiles {
			fmt.Fprintf(a.stderr, "symdepot: %s is itself a symbol file and needs no others\n", term.Printable(f))
		}
		if len(l.SymbolFiles) == 0 {
			fmt.Fprintln(a.stderr, "symdepot: found no program, library or dump that names symbol files")
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
	single := c.oneFile(l.Wants, lay)
	place, err := c.place(l.Wants, lay)
	if err != nil {
		return err
	}
	var report want.Report
	var wrote []want.Want
	program := map[string]string{} // paths of programs by their request
	lines := term.NewJSONLines(a.stdout)
	bar := term.NewProgress(a.stderr, "downloading", -1)
	defer bar.Done()
	err = want.Fetch(a.ctx, d, l.Wants, c.Jobs, bar.Set, func(o want.Outcome) {
		path := ""
		if o.Result == want.InDepot || o.Result == want.Fetched {
			if path, err = c.write(a.console, d, o.Want, place); err != nil {
				o.Result, o.Error = want.Failed, err.Error()
			} else {
				wrote, program[o.Path] = append(wrote, o.Want), path
			}
		}
		if c.Server != "" {
			o.Until = time.Time{} // the depot that remembers it goes with the command
		}
		report.Add(o)
		switch {
		case c.JSON:
			_ = lines.Write(struct {
				want.Outcome
				Path string `json:"path,omitempty"`
			}{o, path})
		case path != "":
			fmt.Fprintln(a.stdout, path)
		}
	})
	bar.Done()
	if err != nil {
		return err
	}
	if !c.JSON {
		printMissing(a.console, &report, l.Bad)
		if hint := c.hint(wrote, lay, single, dump, firstProgram(l.Wants, program)); hint != "" {
			fmt.Fprintln(a.stderr, "now:", hint)
		}
	}
	switch {
	case c.Server != "" && report.Denied:
		return client.ErrCredentials
	case c.Server != "" && report.Unanswered:
		return client.ErrUnreachable
	case report.Counts[want.Failed] > 0:
		return fmt.Errorf("%s failed", term.Count(report.Counts[want.Failed], "file"))
	case report.Counts[want.Missing] > 0:
		return term.ErrNegative
	}
	return nil
}

// firstProgram is where the first program of a dump was written, or "".
func firstProgram(wants []want.Want, paths map[string]string) string {
	for _, w := range wants {
		if p := paths[w.Path]; p != "" && w.What() == "program" {
			return p
		}
	}
	return ""
}

// printMissing reports what was not found and the input that was not understood.
func printMissing(a *console, r *want.Report, bad []string) {
	for _, b := range bad {
		fmt.Fprintln(a.stderr, "symdepot: left out:", term.Printable(b))
	}
	for _, line := range r.MissingLines(time.Now()) {
		fmt.Fprintln(a.stderr, "symdepot:", line)
	}
}

// wants reads the command line. dump is the first dump, or program, in it.
func (c getCmd) wants(a *console) (l *want.List, dump string, err error) {
	l = &want.List{}
	if len(c.What) == 2 && !isFile(c.What[1]) {
		w, err := want.Of(c.What[0], c.What[1], "")
		if err != nil {
			return nil, "", term.UsageError(err.Error())
		}
		l.Add(w)
		return l, "", nil
	}
	for _, what := range c.What {
		if isFile(what) {
			if err := l.Local(a.ctx, what); err != nil {
				return nil, "", err
			}
			if dump == "" {
				dump = what
			}
			continue
		}
		w, err := want.OfPath(filepath.ToSlash(what))
		if err != nil {
			return nil, "", term.UsageError(fmt.Sprintf("%s is neither a file here nor the path of a debugger's request; give a name and an id, such as: symdepot get ntdll.pdb 3BD8C3C3B1544CE9AB8D71A9F3E9A4D31", term.Printable(what)))
		}
		l.Add(w)
	}
	return l, dump, nil
}

// write writes a file, unless the same content is there.
func (c getCmd) write(a *console, d *depot.Depot, w want.Want, place func(want.Want) (string, error)) (string, error) {
	path, err := place(w)
	if err == nil {
		err = want.Save(a.ctx, d, w, path, c.Force)
	}
	if errors.Is(err, want.ErrDiffers) {
		err = fmt.Errorf("%w; --force replaces it, --output names another place", err)
	}
	if err != nil {
		return "", err
	}
	return path, nil
}

// isFile reports whether a path is that of a regular file.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}
