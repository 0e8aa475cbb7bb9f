package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
)

// outcome is what became of one want.
type outcome struct {
	want
	Result string `json:"result"` // had, fetched, missing or failed
	Source string `json:"source,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
}

// The results of a want.
const (
	wantHad     = "had"
	wantFetched = "fetched"
	wantMissing = "missing"
	wantFailed  = "failed"
)

// openWant opens a file from the depot or fetches it.
func openWant(ctx context.Context, d *depot.Depot, w want) (f *depot.File, had bool, err error) {
	req, err := w.request()
	if err != nil {
		return nil, false, err
	}
	q := depot.Question{Request: req, Client: "symdepot", Local: true}
	f, err = d.Get(ctx, q)
	if err == nil && f.Redirect != "" {
		_ = f.Close()
		return openWant(ctx, d, want{path: f.Redirect})
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err == nil, err
	}
	q.Local = false
	f, err = d.Get(ctx, q)
	return f, false, err
}

// fileReader reads a file of the depot from its beginning, also one that is
// still arriving.
type fileReader struct {
	f   *depot.File
	off int64
}

func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.f.ReadAt(p, r.off)
	r.off += int64(n)
	return n, err
}

// fetchAll sees to it that the depot has what is wanted, with some at a time,
// and calls done for each, one after the other. It ends early only with ctx.
func fetchAll(a *app, d *depot.Depot, wants []want, jobs int, done func(outcome)) error {
	var bytes atomic.Int64
	p := term.NewProgress(a.stderr, "fetching", -1)
	defer p.Done()
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(a.ctx)
	g.SetLimit(max(1, jobs))
	for _, w := range wants {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			o := fetchOne(ctx, d, w, func(n int64) {
				sum := bytes.Add(n)
				mu.Lock()
				defer mu.Unlock()
				p.Set(sum)
			})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			done(o)
			return nil
		})
	}
	return errors.Join(g.Wait(), a.ctx.Err())
}

func fetchOne(ctx context.Context, d *depot.Depot, w want, arrived func(int64)) outcome {
	o := outcome{want: w}
	f, had, err := openWant(ctx, d, w)
	if err == nil {
		if !had {
			_, err = io.Copy(counter(arrived), &fileReader{f: f})
		}
		o.Size = f.Size
		err = errors.Join(err, f.Close())
	}
	switch {
	case err == nil && had:
		o.Result = wantHad
	case err == nil:
		o.Result = wantFetched
	case errors.Is(err, fs.ErrNotExist):
		o.Result, o.Error = wantMissing, whyMissing(err)
	default:
		o.Result, o.Error = wantFailed, err.Error()
	}
	return o
}

// whyMissing is what the sources said, if more than that they have no such file.
func whyMissing(err error) string {
	if err == fs.ErrNotExist {
		return ""
	}
	return err.Error()
}

// counter counts what is written to it.
type counter func(int64)

func (c counter) Write(p []byte) (int, error) {
	c(int64(len(p)))
	return len(p), nil
}

// fetchReport counts outcomes and lists what exists nowhere.
type fetchReport struct {
	counts  map[string]int64
	bytes   int64
	missing []outcome
}

func (r *fetchReport) add(o outcome) {
	if r.counts == nil {
		r.counts = map[string]int64{}
	}
	r.counts[o.Result]++
	switch o.Result {
	case wantFetched:
		r.bytes += max(0, o.Size)
	case wantMissing, wantFailed:
		r.missing = append(r.missing, o)
	}
}

// print says what came of it all.
func (r *fetchReport) print(a *app, bad []string) {
	for _, b := range bad {
		fmt.Fprintln(a.stderr, "symdepot: left out:", term.Printable(b))
	}
	for _, m := range r.missing {
		why := ""
		if m.Error != "" {
			why = ": " + term.Printable(m.Error)
		}
		fmt.Fprintf(a.stderr, "symdepot: %s: %s %s%s\n", m.Result, term.Printable(m.Name), m.ID, why)
	}
	fmt.Fprintf(a.stdout, "%d fetched (%s), %d were here, %d exist nowhere, %d failed\n",
		r.counts[wantFetched], term.Size(r.bytes), r.counts[wantHad], r.counts[wantMissing], r.counts[wantFailed])
}
