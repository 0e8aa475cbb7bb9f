package needed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// Outcome is the result for one want.
type Outcome struct {
	Want
	Result string `json:"result"` // InDepot, Fetched, Missing or Failed
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Error  string `json:"error,omitempty"`
	// Upstreams are those that were asked, now or earlier, and do not have the
	// file; Until is when they are asked again, zero if at once.
	Upstreams []string  `json:"upstreams,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	// Refusals are the answers of Upstreams that say more than not found.
	Refusals []string `json:"refusals,omitempty"`
	// Denied and Unanswered: one of Upstreams refused the credentials, or did not answer.
	Denied     bool `json:"-"`
	Unanswered bool `json:"-"`
}

// The results of a want.
const (
	InDepot = "had"     // the depot had it
	Fetched = "fetched" // it was downloaded from an upstream
	Missing = "missing" // neither the depot nor an upstream has it
	Failed  = "failed"
)

// Open opens the wanted file from the depot, else downloads it. had is true for the depot.
// It does not wait for files that have to be made: Fetch does.
func Open(ctx context.Context, d *depot.Depot, w Want) (f *answer.File, had bool, err error) {
	return open(ctx, d, w, nil)
}

func open(
	ctx context.Context, d *depot.Depot, w Want, hold func(context.Context, func(context.Context) error) (bool, error),
) (f *answer.File, had bool, err error) {
	req, err := w.Request()
	if err != nil {
		return nil, false, err
	}
	f, err = d.Get(ctx, answer.Question{Request: req, Hold: hold})
	if err != nil {
		return nil, false, err
	}
	if f.Redirect != "" {
		_ = f.Close()
		return open(ctx, d, Want{Path: f.Redirect}, hold)
	}
	return f, !f.Downloaded, nil
}

// makes does the jobs of a depot until end is called, if a want is for a file that may have
// to be made: nobody else may be there to do them.
func makes(ctx context.Context, d *depot.Depot, wants []Want) (end func()) {
	if !slices.ContainsFunc(wants, func(w Want) bool {
		req, err := w.Request()
		return err == nil && depot.AsksForSymbols(&req)
	}) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { d.Jobs().Run(ctx) })
	return func() {
		cancel()
		all.Wait()
	}
}

// wait holds a request for as long as its file is being made.
func wait(ctx context.Context, made func(context.Context) error) (gaveUp bool, err error) {
	return false, made(ctx)
}

// Reader returns a reader of a file of the depot from its beginning. It waits for
// the rest of a file that is still being downloaded.
func Reader(f *answer.File) io.Reader { return &reader{f: f} }

type reader struct {
	f   *answer.File
	off int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.f.ReadAt(p, r.off)
	r.off += int64(n)
	return n, err
}

// Fetch makes the depot download or make the wants that it does not have, at most jobs at
// once. It calls done for each want, and progress with the number of bytes
// downloaded so far; calls do not overlap. progress may be nil. The error is that
// of the context: failures of single wants are outcomes.
func Fetch(ctx context.Context, d *depot.Depot, wants []Want, jobs int, progress func(int64), done func(Outcome)) error {
	defer makes(ctx, d, wants)()
	var mu sync.Mutex // guards sum and the calls
	var sum int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, jobs))
	for _, w := range wants {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			o := fetchOne(gctx, d, w, func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				sum += n
				if progress != nil {
					progress(sum)
				}
			})
			if gctx.Err() != nil {
				return gctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			done(o)
			return nil
		})
	}
	return errors.Join(g.Wait(), ctx.Err())
}

func fetchOne(ctx context.Context, d *depot.Depot, w Want, arrived func(int64)) Outcome {
	o := Outcome{Want: w}
	f, had, err := open(ctx, d, w, wait)
	if err == nil {
		if !had {
			_, err = io.Copy(counter(arrived), Reader(f))
		}
		o.Size = f.Size
		err = errors.Join(err, f.Close())
	}
	switch {
	case err == nil && had:
		o.Result = InDepot
	case err == nil:
		o.Result = Fetched
	case errors.Is(err, fs.ErrNotExist):
		o.Result, o.Error = Missing, upstreamReasons(err)
		o.Denied = slices.Contains(fetch.Classes(err), fetch.ClassUnauthorized) // which is not remembered
		o.remembered(ctx, d)
	default:
		o.Result, o.Error = Failed, err.Error()
	}
	return o
}

// remembered fills in which upstreams do not have the file, and for how long that
// is remembered.
func (o *Outcome) remembered(ctx context.Context, d *depot.Depot) {
	req, err := o.Request()
	if err != nil {
		return
	}
	misses, err := d.Remembered(ctx, answer.Question{Request: req})
	if err != nil {
		return // a detail of a message
	}
	for name, m := range misses {
		o.Upstreams = append(o.Upstreams, name)
		if m.Class != fetch.ClassNotFound && m.Class != fetch.ClassSkipped && m.Detail != "" {
			o.Refusals = append(o.Refusals, m.Detail)
		}
		o.Denied = o.Denied || m.Class == fetch.ClassForbidden
		o.Unanswered = o.Unanswered || m.Class == fetch.ClassTimeout || m.Class == fetch.ClassBusy
		if o.Until.IsZero() || m.Until.Before(o.Until) {
			o.Until = m.Until
		}
	}
	slices.Sort(o.Upstreams)
	slices.Sort(o.Refusals)
}

// upstreamReasons returns the answers of the upstreams, unless all are not found.
func upstreamReasons(err error) string {
	if err == fs.ErrNotExist {
		return ""
	}
	return err.Error()
}

// counter counts the bytes written to it.
type counter func(int64)

func (c counter) Write(p []byte) (int, error) {
	c(int64(len(p)))
	return len(p), nil
}

// Report sums up outcomes. The zero value is empty.
type Report struct {
	// Denied and Unanswered: those of an outcome.
	Denied, Unanswered bool
	Counts             map[string]int64 // by result
	Bytes              int64            // downloaded
	// Missing are the outcomes that are missing or failed.
	Missing []Outcome
}

// Add adds an outcome.
func (r *Report) Add(o Outcome) {
	r.Denied, r.Unanswered = r.Denied || o.Denied, r.Unanswered || o.Unanswered
	if r.Counts == nil {
		r.Counts = map[string]int64{}
	}
	r.Counts[o.Result]++
	switch o.Result {
	case Fetched:
		r.Bytes += max(0, o.Size)
	case Missing, Failed:
		r.Missing = append(r.Missing, o)
	}
}

// MissingLines describes missing and failed files in one line for each name, id
// and cause, which names the parts that are missing (program, debug information).
// now is the time from which the remaining time of remembered misses counts.
func (r *Report) MissingLines(now time.Time) []string {
	type group struct{ result, name, id, why string }
	var order []group
	parts := map[group][]string{}
	for _, o := range r.Missing {
		g := group{o.Result, term.Printable(o.Name), o.ID, term.Printable(o.reason(now))}
		if _, ok := parts[g]; !ok {
			order = append(order, g)
			parts[g] = nil
		}
		if what := o.What(); what != "" && !slices.Contains(parts[g], what) {
			parts[g] = append(parts[g], what)
		}
	}
	var lines []string
	for _, g := range order {
		line := g.result + ": " + g.name
		if g.id != "" {
			line += " " + g.id
		}
		if p := parts[g]; len(p) > 0 {
			slices.Sort(p)
			slices.Reverse(p) // the program first
			line += " (" + strings.Join(p, ", ") + ")"
		}
		if g.why != "" {
			line += ": " + g.why
		}
		lines = append(lines, line)
	}
	return lines
}

// reason describes why a file is missing.
func (o *Outcome) reason(now time.Time) string {
	if o.Result != Missing {
		return o.Error
	}
	if len(o.Upstreams) == 0 {
		if o.Error != "" {
			return o.Error
		}
		return "not in the depot"
	}
	text := "not on " + strings.Join(o.Upstreams, ", ")
	if len(o.Refusals) > 0 {
		text += " (" + strings.Join(o.Refusals, "; ") + ")"
	}
	if left := o.Until.Sub(now); left > time.Second {
		text += fmt.Sprintf("; remembered for %s, see symdepot cache forget", roundTime(left))
	}
	return text
}

// roundTime prints a duration with its largest unit.
func roundTime(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", (d+12*time.Hour)/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", (d+30*time.Minute)/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", (d+30*time.Second)/time.Minute)
	}
	return fmt.Sprintf("%d s", (d+time.Second/2)/time.Second)
}
