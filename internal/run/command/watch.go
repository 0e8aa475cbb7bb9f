package command

import (
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
)

type watchCmd struct {
	Once   bool          `help:"Scan once and end, for cron."`
	Rescan time.Duration `help:"Interval between scans; changes that the system reports are read at once." default:"5m" placeholder:"DURATION"`
	Index  string        `help:"File of the index. Default: in the folder watch of the depot." placeholder:"FILE"`
	JSON   bool          `help:"Print one JSON object a scan."`
	Dir    string        `arg:"" help:"The folder of builds and packages, or a prefix of a bucket: s3://BUCKET/PREFIX, gs:// or az://."`
}

// Run scans the folder.
func (c watchCmd) Run(a *session) error {
	conf, err := a.config("")
	if err != nil {
		return err // it says where buckets are
	}
	dir := ""
	if c.Index == "" {
		where, err := a.dir()
		if err != nil {
			return err
		}
		if strings.Contains(where, "://") {
			return term.UsageError("the depot is not a folder; name the index with --index")
		}
		dir = filepath.Join(where, "watch")
	}
	opt := watch.Options{Index: c.Index, Rescan: c.Rescan, Log: slog.New(slog.NewTextHandler(a.Stderr, nil))}
	a.site.LogActs(opt.Log)
	bar := term.NewProgress(a.Stderr, "reading", -1)
	opt.Progress = func(p watch.Progress) { bar.Set(p.Bytes) }
	opt.Scanned = func(s watch.ScanStats) {
		bar.Done()
		if err := c.report(a.Console, s); err != nil {
			opt.Log.Error("the report cannot be printed", "error", err)
		}
	}
	f, done, err := setup.OpenWatch(a.Ctx, conf, c.Dir, dir, opt)
	if err != nil {
		return err
	}
	defer done()
	if !c.Once {
		return f.Run(a.Ctx)
	}
	s, err := f.Scan(a.Ctx)
	if err != nil {
		return err
	}
	all, err := f.Status(a.Ctx)
	if err != nil {
		return err
	}
	if all.Problems > s.Problems { // found by an earlier scan, and not read again
		list, err := f.Problems(a.Ctx, 0, 20)
		if err != nil {
			return err
		}
		for _, p := range list {
			opt.Log.Warn("a file is still left out", "path", p.Path, "error", p.Reason)
		}
	}
	if s.LeftOut+s.Unlisted > 0 {
		return term.ErrNegative
	}
	return nil
}

// report prints what a scan has done.
func (c watchCmd) report(a *console.Console, s watch.ScanStats) error {
	return a.Print(c.JSON, s, "%s in %s: %s read (%s), %s, %d gone, %d left out, %s\n",
		term.Count(s.Files, "file"), term.Count(s.Folders, "folder"), term.Count(s.Read, "file"), term.Size(s.Bytes),
		term.Count(s.Objects, "object"), s.Gone, s.LeftOut+s.Unlisted, s.Took.Round(time.Millisecond))
}
