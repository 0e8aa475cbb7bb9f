package main

import (
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
)

// wantFlags say what is wanted, for commands that take many.
type wantFlags struct {
	Manifest []string `help:"A list of name,key lines, as symchk /om writes it; repeatable." placeholder:"FILE" sep:"none"`
	Folder   []string `help:"What the programs and libraries in this folder need; repeatable." placeholder:"DIR" sep:"none"`
	Dump     []string `help:"What this minidump or core file needs; repeatable." placeholder:"FILE" sep:"none"`
	Jobs     int      `help:"How many to fetch at once." default:"8" short:"j"`
}

func (f wantFlags) wants(a *app) (*wantList, error) {
	l := &wantList{}
	for _, m := range f.Manifest {
		if err := l.manifest(m); err != nil {
			return nil, err
		}
	}
	for _, dir := range f.Folder {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
	}
	if len(f.Folder) > 0 {
		if err := l.files(a, f.Folder); err != nil {
			return nil, err
		}
	}
	for _, dmp := range f.Dump {
		if err := l.local(a, dmp); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (f wantFlags) empty() bool { return len(f.Manifest)+len(f.Folder)+len(f.Dump) == 0 }

type prefetchCmd struct {
	upstreamFlags
	wantFlags
	JSON bool `help:"Print one JSON object per file and a last one with the sums."`
}

// Help is the long help text.
func (prefetchCmd) Help() string {
	return `Fetches what will be asked for before anybody asks. What the depot has already is passed over, so an
interrupted run goes on where it was. Files that exist nowhere are listed at the end.

  symdepot prefetch --manifest needed.txt --upstream microsoft --jobs 32
  symdepot prefetch --folder 'C:\Program Files\Game' --upstream microsoft --upstream nvidia
  symdepot prefetch --dump crash.dmp --from-env

Exit codes: 0 everything is here, 1 something exists nowhere, 2 wrong command line, 3 something failed,
4 depot damaged, 130 interrupted.`
}

// Run fetches.
func (c prefetchCmd) Run(a *app) error {
	if c.empty() {
		return term.UsageError("say what to fetch: --manifest, --folder or --dump")
	}
	l, err := c.wants(a)
	if err != nil {
		return err
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	var report fetchReport
	lines := term.NewJSONLines(a.stdout)
	if err := fetchAll(a, d, l.list, c.Jobs, func(o outcome) {
		report.add(o)
		if c.JSON {
			_ = lines.Write(o)
		}
	}); err != nil {
		return err
	}
	if c.JSON {
		err = lines.Write(map[string]any{"wanted": len(l.list), "fetched": report.counts[wantFetched], "had": report.counts[wantHad],
			"missing": report.counts[wantMissing], "failed": report.counts[wantFailed], "bytes": report.bytes, "bad_lines": l.bad})
		if err != nil {
			return err
		}
	} else {
		report.print(a, l.bad)
	}
	switch {
	case report.counts[wantFailed] > 0 || len(l.bad) > 0:
		return fmt.Errorf("%s failed, %s could not be read", term.Count(report.counts[wantFailed], "file"), term.Count(int64(len(l.bad)), "line"))
	case report.counts[wantMissing] > 0:
		return term.ErrNo
	}
	return nil
}
