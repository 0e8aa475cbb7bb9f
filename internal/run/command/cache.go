package command

import (
	"fmt"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/symfile"
)

type cacheCmd struct {
	Stats  cacheStatsCmd  `cmd:"" default:"withargs" help:"text:cache_stats"`
	List   cacheListCmd   `cmd:"" help:"List cached files, the longest unused first."`
	Drop   cacheDropCmd   `cmd:"" help:"Evict cached files."`
	Forget cacheForgetCmd `cmd:"" help:"Forget remembered misses, so that the upstreams are asked again."`
}

type cacheStatsCmd struct {
	JSON bool `help:"Print one JSON object."`
}

// missCount is how many misses of one class are remembered.
type missCount struct {
	Class   string `json:"class"`
	Misses  int64  `json:"misses"`
	Expired int64  `json:"expired"`
}

// Run prints the sums.
func (c cacheStatsCmd) Run(a *session) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	files, misses, err := d.Cache.Stats(a.Ctx)
	if err != nil {
		return err
	}
	counts := make([]missCount, 0, len(misses))
	for _, m := range misses {
		counts = append(counts, missCount{fetch.Class(m.Class).String(), m.Misses, m.Expired})
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(map[string]any{"upstreams": files, "misses": counts})
	}
	if len(files) == 0 && len(counts) == 0 {
		fmt.Fprintln(a.Stderr, "symdepot: the cache is empty, and no misses are remembered")
	}
	t := term.NewTable(a.Stdout, "UPSTREAM", "FILES", "SIZE", "LONGEST UNUSED SINCE")
	for _, s := range files {
		t.Row(term.Printable(s.Source), strconv.FormatInt(s.Files, 10), term.Size(s.Bytes), s.Oldest.Local().Format("2006-01-02 15:04"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range counts {
		fmt.Fprintf(a.Stdout, "misses remembered as %s: %d, of which %d have expired\n", m.Class, m.Misses, m.Expired)
	}
	return nil
}

type cacheListCmd struct {
	JSON     bool   `help:"Print one JSON object per file."`
	Upstream string `help:"Only files from this upstream." placeholder:"NAME"`
	Limit    int    `help:"Maximum number; 0: all." default:"100"`
	Name     string `arg:"" optional:"" help:"Only this file name (with * and ?)."`
}

// cachedLine is one line of JSON output.
type cachedLine struct {
	Upstream string    `json:"upstream"`
	Name     string    `json:"name"`
	URL      string    `json:"url"`
	SHA256   string    `json:"sha256"`
	Size     int64     `json:"size"`
	Fetched  time.Time `json:"fetched"`
	Used     time.Time `json:"used"`
}

// Run lists cached files.
func (c cacheListCmd) Run(a *session) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	n, lines, t := 0, term.NewJSONLines(a.Stdout), term.NewTable(a.Stdout, "FETCHED", "USED", "SIZE", "UPSTREAM", "NAME", "URL")
	for f, err := range d.Cache.Files(a.Ctx, cache.Filter{Source: c.Upstream, Name: symfile.Fold(c.Name)}) {
		if err != nil {
			return err
		}
		n++
		if c.JSON {
			if err := lines.Write(cachedLine{f.Source, f.Name, f.URL, f.Ref.String(), f.Size, f.Fetched, f.Used}); err != nil {
				return err
			}
		} else {
			fetched, used := f.Fetched.Local().Format("2006-01-02 15:04"), f.Used.Local().Format("2006-01-02 15:04")
			t.Row(fetched, used, term.Size(f.Size), term.Printable(f.Source), term.Printable(f.Name), term.Printable(f.URL))
		}
		if c.Limit > 0 && n == c.Limit {
			break
		}
	}
	if n == 0 {
		return a.Nothing("no cached file matches")
	}
	if c.JSON {
		return nil
	}
	return t.Flush()
}

type cacheDropCmd struct {
	Upstream string        `help:"Only files from this upstream." placeholder:"NAME"`
	Unused   term.Duration `help:"Only files unused for this long, such as 30d." placeholder:"TIME"`
	Name     string        `help:"Only this file name (with * and ?)." placeholder:"GLOB"`
	ID       string        `help:"Only files with this id." placeholder:"ID"`
	All      bool          `help:"All cached files."`
	JSON     bool          `help:"Print one JSON object."`
}

// Run lets go of fetched files.
func (c cacheDropCmd) Run(a *session) error {
	if !c.All && c.Upstream == "" && c.Unused == 0 && c.Name == "" && c.ID == "" {
		return term.UsageError("select the files with --upstream, --unused, --name, --id or --all")
	}
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	f := cache.Filter{Source: c.Upstream, Name: symfile.Fold(c.Name), ID: symfile.Fold(c.ID)}
	if c.Unused > 0 {
		f.UnusedSince = a.Now().Add(-time.Duration(c.Unused))
	}
	gone, err := d.Cache.Drop(a.Ctx, f)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(gone)
	}
	fmt.Fprintf(a.Stdout, "evicted %s, %s\n", term.Count(gone.Files, "file"), term.Size(gone.Bytes))
	if gone.Files == 0 {
		return term.ErrNegative
	}
	return nil
}

type cacheForgetCmd struct {
	Upstream string `help:"Only misses of this upstream." placeholder:"NAME"`
	Class    string `help:"text:cache_forget_class" enum:",absent,forbidden,timeout,broken,too_large" default:"" placeholder:"CLASS"`
	JSON     bool   `help:"Print one JSON object."`
}

// Run forgets misses.
func (c cacheForgetCmd) Run(a *session) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	f := depot.MissFilter{Source: c.Upstream}
	for k := fetch.ClassNotFound; k <= fetch.ClassTooLarge; k++ {
		if k.String() == c.Class {
			f.Class = uint8(k)
		}
	}
	n, err := d.Remote.FlushMisses(a.Ctx, f)
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(map[string]int64{"misses": n})
	}
	fmt.Fprintf(a.Stdout, "misses forgotten: %d; a running server asks again within two seconds\n", n)
	if n == 0 {
		return term.ErrNegative
	}
	return nil
}
