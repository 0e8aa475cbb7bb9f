package main

import (
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/want"
)

// wantFlags name what needs symbol files.
type wantFlags struct {
	Manifest []string `help:"List of name,key lines, as symchk /om writes it; repeatable." placeholder:"FILE" sep:"none"`
	Folder   []string `help:"Folder with programs and libraries that need symbol files; repeatable." placeholder:"DIR" sep:"none"`
	Dump     []string `help:"Minidump or core file that needs symbol files; repeatable." placeholder:"FILE" sep:"none"`
	Jobs     int      `help:"How many files to download at once." default:"8" short:"j"`
}

// wants reads manifests, folders and dumps.
func (f wantFlags) wants(a *console) (*want.List, error) {
	l := &want.List{}
	for _, m := range f.Manifest {
		if err := readManifest(l, m); err != nil {
			return nil, err
		}
	}
	for _, dir := range f.Folder {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
	}
	if len(f.Folder) > 0 {
		if err := l.Files(a.ctx, f.Folder); err != nil {
			return nil, err
		}
	}
	for _, dmp := range f.Dump {
		if err := l.Local(a.ctx, dmp); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func readManifest(l *want.List, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := term.ReadText(f)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	return l.Manifest(name, text)
}

func (f wantFlags) empty() bool { return len(f.Manifest)+len(f.Folder)+len(f.Dump) == 0 }

type prefetchCmd struct {
	upstreamFlags
	wantFlags
	JSON bool `help:"Print one JSON object per file and a last one with the sums."`
}

// Help is the long help text.
func (prefetchCmd) Help() string {
	return `Downloads symbol files from the upstreams before a debugger asks for them. Files that the depot has are left out, so
an interrupted run can be repeated. Files that were not found are listed at the end.

Examples:

  symdepot prefetch --manifest needed.txt --upstream microsoft --jobs 32
  symdepot prefetch --folder 'C:\Program Files\Game' --upstream microsoft --upstream nvidia
  symdepot prefetch --dump crash.dmp --from-env

Exit codes: 0 the depot has all files, 1 a file was not found, 2 wrong command line, 3 something failed,
4 depot damaged, 130 interrupted.`
}

// Run downloads.
func (c prefetchCmd) Run(a *app) error {
	if c.empty() {
		return term.UsageError("select the files with --manifest, --folder or --dump")
	}
	l, err := c.wants(a.console)
	if err != nil {
		return err
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	var report want.Report
	lines := term.NewJSONLines(a.stdout)
	bar := term.NewProgress(a.stderr, "downloading", -1)
	defer bar.Done()
	if err := want.Fetch(a.ctx, d, l.Wants, c.Jobs, bar.Set, func(o want.Outcome) {
		report.Add(o)
		if c.JSON {
			_ = lines.Write(o)
		}
	}); err != nil {
		return err
	}
	bar.Done()
	if c.JSON {
		err = lines.Write(map[string]any{"wanted": len(l.Wants), "fetched": report.Counts[want.Fetched], "had": report.Counts[want.InDepot],
			"missing": report.Counts[want.Missing], "failed": report.Counts[want.Failed], "bytes": report.Bytes, "bad_lines": l.Bad})
		if err != nil {
			return err
		}
	} else {
		printMissing(a.console, &report, l.Bad)
		printFetched(a.console, &report)
	}
	switch {
	case report.Counts[want.Failed] > 0 || len(l.Bad) > 0:
		return fmt.Errorf("%s failed, %s could not be read", term.Count(report.Counts[want.Failed], "file"), term.Count(int64(len(l.Bad)), "line"))
	case report.Counts[want.Missing] > 0:
		return term.ErrNegative
	}
	return nil
}

// printFetched prints the sums of downloads.
func printFetched(a *console, r *want.Report) {
	fmt.Fprintf(a.stdout, "%d downloaded (%s), %d already in the depot, %d not found, %d failed\n",
		r.Counts[want.Fetched], term.Size(r.Bytes), r.Counts[want.InDepot], r.Counts[want.Missing], r.Counts[want.Failed])
}
