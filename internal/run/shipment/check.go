package shipment

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// Depot answers questions about files that ship: *client.API.
type Depot interface {
	Coverage(ctx context.Context, q wire.CoverageAsk) ([]wire.Coverage, error)
}

// Limits of questions.
const (
	filesAtOnce = 500 // in one question
	asksAtOnce  = 4
	maxRounds   = 200 // questions about the same sources, of some seconds each
)

// AskOptions say what a depot is asked for.
type AskOptions struct {
	// Sources counts all sources, however long that takes.
	Sources bool
	// NotSources are patterns of sources that do not count.
	NotSources []string
	// Upstreams asks for a file as a debugger does, so that a server asks its upstreams; nil: these are not asked. A
	// path is relative to the base URL of the server.
	Upstreams func(ctx context.Context, path string) (bool, error)
}

// Ask asks a depot for files. The answers have the order of the files; equal files are asked for once.
func Ask(ctx context.Context, d Depot, files []File, opt AskOptions) ([]wire.Coverage, error) {
	a := &asker{depot: d, opt: opt, at: map[string]int{}}
	places := make([]int, len(files))
	for i := range files {
		b, err := json.Marshal(files[i].Ask)
		if err != nil {
			return nil, err
		}
		at, ok := a.at[string(b)]
		if !ok {
			at = len(a.asks)
			a.at[string(b)], a.asks = at, append(a.asks, files[i].Ask)
		}
		places[i] = at
	}
	a.answers = make([]wire.Coverage, len(a.asks))
	all := make([]int, len(a.asks))
	for i := range all {
		all[i] = i
	}
	if err := a.ask(ctx, all, wire.SourcesBriefly); err != nil {
		return nil, err
	}
	if err := a.upstreams(ctx); err != nil {
		return nil, err
	}
	for range maxRounds {
		pending := a.which(func(c *wire.Coverage) bool { return c.Sources != nil && c.Sources.Pending })
		if !opt.Sources || len(pending) == 0 {
			break
		}
		if err := a.ask(ctx, pending, wire.SourcesLong); err != nil {
			return nil, err
		}
	}
	list := make([]wire.Coverage, len(files))
	for i, at := range places {
		list[i] = a.answers[at]
	}
	return list, nil
}

// asker asks for different files.
type asker struct {
	depot   Depot
	opt     AskOptions
	at      map[string]int // by the question as JSON
	asks    []wire.CoverageFile
	answers []wire.Coverage
}

// which returns the numbers of the files whose answers fit.
func (a *asker) which(fits func(*wire.Coverage) bool) (list []int) {
	for i := range a.answers {
		if fits(&a.answers[i]) {
			list = append(list, i)
		}
	}
	return list
}

// ask asks for the files with these numbers, in questions of filesAtOnce.
func (a *asker) ask(ctx context.Context, numbers []int, sources string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asksAtOnce)
	for part := range slices.Chunk(numbers, filesAtOnce) {
		g.Go(func() error {
			q := wire.CoverageAsk{Sources: sources, NotSources: a.opt.NotSources}
			for _, i := range part {
				q.Files = append(q.Files, a.asks[i])
			}
			got, err := a.depot.Coverage(ctx, q)
			for n := range got {
				a.answers[part[n]] = got[n]
			}
			return err
		})
	}
	return g.Wait()
}

// upstreamsAtOnce is how many files a server is asked for at once that it may have to download.
const upstreamsAtOnce = 8

// upstreams lets the server look for missing debug information at its upstreams, and asks again for what has come.
func (a *asker) upstreams(ctx context.Context) error {
	if a.opt.Upstreams == nil {
		return nil
	}
	var mu sync.Mutex
	var came []int
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(upstreamsAtOnce)
	for _, i := range a.which(func(c *wire.Coverage) bool { return !c.Symbols.Here && c.Error == "" }) {
		path := pathOf(&a.asks[i])
		if path == "" {
			continue
		}
		g.Go(func() error {
			has, err := a.opt.Upstreams(gctx, path)
			if has {
				mu.Lock()
				defer mu.Unlock()
				came = append(came, i)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil || len(came) == 0 {
		return err
	}
	slices.Sort(came)
	return a.ask(ctx, came, wire.SourcesBriefly)
}

// pathOf is the path under which debuggers ask for the debug information of a file; empty: there is none.
func pathOf(f *wire.CoverageFile) string {
	switch {
	case len(f.PDBs) > 0:
		return f.PDBs[0].Name + "/" + f.PDBs[0].ID + "/" + f.PDBs[0].Name
	case f.Kind == "elf" && f.BuildID != "":
		return "buildid/" + f.BuildID + "/debuginfo"
	}
	return ""
}
