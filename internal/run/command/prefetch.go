package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/needed"
)

type prefetchCmd struct {
	upstreamFlags
	wantFlags
	JSON bool `help:"Print one JSON object per file and a last one with the sums."`
}

// Run downloads.
func (c prefetchCmd) Run(a *session) error {
	if c.empty() {
		return term.UsageError("select the files with --manifest, --folder or --dump")
	}
	l, err := c.wants(a.Console)
	if err != nil {
		return err
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	var report needed.Report
	lines := term.NewJSONLines(a.Stdout)
	bar := term.NewProgress(a.Stderr, "downloading", -1)
	defer bar.Done()
	if err := needed.Fetch(a.Ctx, d, l.Wants, c.Jobs, bar.Set, func(o needed.Outcome) {
		report.Add(o)
		if c.JSON {
			_ = lines.Write(o)
		}
	}); err != nil {
		return err
	}
	bar.Done()
	if c.JSON {
		err = lines.Write(map[string]any{"wanted": len(l.Wants), "fetched": report.Counts[needed.Fetched], "had": report.Counts[needed.InDepot],
			"missing": report.Counts[needed.Missing], "failed": report.Counts[needed.Failed], "bytes": report.Bytes, "bad_lines": l.Bad})
		if err != nil {
			return err
		}
	} else {
		printMissing(a.Console, &report, l.Bad)
		printFetched(a.Console, &report)
	}
	switch {
	case report.Counts[needed.Failed] > 0 || len(l.Bad) > 0:
		return fmt.Errorf("%s failed, %s could not be read",
			term.Count(report.Counts[needed.Failed], "file"), term.Count(int64(len(l.Bad)), "line"))
	case report.Counts[needed.Missing] > 0:
		return term.ErrNegative
	}
	return nil
}
