package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/symfile"
)

// Missing lists the files that clients requested and did not get, the most requested
// first.
type Missing interface {
	List(ctx context.Context, f depot.WantedFilter, each func(depot.Wanted) error) error
	Page(ctx context.Context, f depot.WantedFilter, after string) (list []depot.Wanted, next string, err error)
}

// Jobs are the background jobs of a depot.
type Jobs interface {
	List(ctx context.Context, f jobs.Filter) ([]jobs.Job, error)
	Stats(ctx context.Context) ([]jobs.Stats, error)
	Workers() []jobs.Worker
	Tools() []jobs.Tool
	Cancel(ctx context.Context, id int64) (bool, error)
	Retry(ctx context.Context, id int64) (int64, error)
}

var (
	_ Missing = (*depot.Missing)(nil)
	_ Jobs    = (*jobs.Queue)(nil)
)

// serverPages are the pages about what the server does.
var serverPages = []pageRoute{
	page(http.MethodGet, "misses", seesAll, "Misses", (*Pages).misses),
	page(http.MethodGet, "queue", seesAll, "Queue", (*Pages).queue),
	page(http.MethodGet, "queue/*", seesAll, "", (*Pages).job),
	page(http.MethodPost, "queue/*/*", isAdmin, "", (*Pages).actJob),
	page(http.MethodGet, "upstreams", seesAll, "Upstreams", (*Pages).upstreams),
	page(http.MethodPost, "upstreams", isAdmin, "", (*Pages).actUpstream),
}

// missRow is a file that clients requested and did not get.
type missRow struct {
	Name, ID, Kind, Clients string
	Count                   int64
	First, Last             time.Time
	Verdict                 string
	Class                   string // of the mark of the verdict
	Why                     string // the address of the trace
}

// missesView is what the page of missing files shows.
type missesView struct {
	Rows               []missRow
	Name, Client, Days string
	Others             bool // files of others are hidden
	Hidden             int
	Periods            filter
	CSV                string
	Head               []column
	Pages              pages
}

// missPeriods are the choices of the time of the last request, in days.
var missPeriods = []option{{"1", "last day"}, {"7", "last 7 days"}, {"30", "last 30 days"}, {"", "any time"}}

// misses answers GET misses.
func (p *Pages) misses(w *reply, r *Request, _ []string) error {
	if p.api.cfg.Missing == nil {
		return &Problem{Word: "not-found"}
	}
	q := r.URL.Query()
	v := missesView{Name: q.Get("name"), Client: q.Get("client"), Days: q.Get("days"), Others: q.Get("others") == "hide"}
	v.Periods = filter{"Last asked", "days", v.Days, missPeriods}
	f := depot.WantedFilter{Client: v.Client, Name: symfile.Fold(v.Name)}
	sort, err := sorted(r, "count", "last")
	if err != nil {
		return err
	}
	f.Latest = sort == "last"
	var after string
	if f.Limit, after, err = readPage(q, "misses"); err != nil {
		return err
	}
	csv := values("name", v.Name, "client", v.Client, "format", formCSV)
	if v.Days != "" {
		n, err := strconv.Atoi(v.Days)
		if err != nil || n < 1 || n > 366 {
			return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"days": "a number from 1 to 366 is expected"}}
		}
		f.Since = p.api.cfg.Now().AddDate(0, 0, -n)
		csv.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	v.CSV = link(r.Base, "api", []string{"v1", "misses"}, csv)
	list, next, err := p.api.cfg.Missing.Page(r.Context(), f, after)
	if err != nil {
		return badQuery(err)
	}
	fr := p.frame(r, "Missing files", nil)
	v.Pages = fr.pager("misses", next)
	v.Head = fr.columns(sort, "count last", "Asked|count|num", "Name", "Id", "Client", "Last|last", "First", "Verdict", "Trace")
	for _, m := range list {
		row, others, err := p.missRow(r, fr, m)
		if err != nil {
			return err
		}
		if others && v.Others {
			v.Hidden++
			continue
		}
		v.Rows = append(v.Rows, row)
	}
	fr.D = v
	return p.print(w, r, http.StatusOK, "misses", fr)
}

// missRow judges a file that was requested and not found. others: no transaction has
// files of this name.
func (p *Pages) missRow(r *Request, f *frame, m depot.Wanted) (row missRow, others bool, err error) {
	row = missRow{Name: m.Name, ID: m.ID, Kind: m.Kind, Clients: m.Client, Count: m.Count, First: m.First, Last: m.Last, Why: f.Ask("trace", "name", m.Name, "id", m.ID), Verdict: "no id", Class: "dim"}
	wanted, err := want.Of(m.Name, m.ID, "")
	if err != nil {
		return row, false, nil //nolint:nilerr // the row says so
	}
	judged, err := want.JudgeWant(r.Context(), p.api.cfg.Files, r.scope(), wanted)
	if err != nil {
		return row, false, err
	}
	switch row.Verdict = judged.Verdict.Text(); judged.Verdict {
	case want.VerdictHeld:
		row.Verdict, row.Class = "held now", "ok"
	case want.VerdictOtherBuild, want.VerdictStripped:
		row.Class = "warn"
	case want.VerdictOurs:
		row.Class = "bad"
	}
	return row, judged.Verdict == want.VerdictOthers, nil
}

// queueView is what the list of jobs shows.
type queueView struct {
	Stats   []jobs.Stats
	Workers []jobs.Worker
	Tools   []jobs.Tool
	Rows    []jobRow
	Filters []filter
	Pages   pages
}

type jobRow struct {
	jobs.Job
	Link string
	Age  time.Duration
	Mark string
}

var jobStates = []jobs.State{jobs.Queued, jobs.Running, jobs.Done, jobs.Failed, jobs.Cancelled}

func (p *Pages) jobRow(f *frame, j jobs.Job) jobRow {
	row := jobRow{j, f.To("queue", j.ID), p.api.cfg.Now().Sub(j.Created), "dim"}
	switch j.State {
	case jobs.Done:
		row.Mark = "ok"
	case jobs.Failed:
		row.Mark = "bad"
	case jobs.Running:
		row.Mark = "warn"
	}
	return row
}

// queue answers GET queue.
func (p *Pages) queue(w *reply, r *Request, _ []string) error {
	if err := p.api.hasJobs(); err != nil {
		return err
	}
	list, next, err := p.api.jobPage(r)
	if err != nil {
		return err
	}
	f := p.frame(r, "Background jobs", nil)
	v := queueView{Workers: p.api.cfg.Jobs.Workers(), Tools: p.api.cfg.Jobs.Tools(), Pages: f.pager("jobs", next)}
	if v.Stats, err = p.api.cfg.Jobs.Stats(r.Context()); err != nil {
		return err
	}
	var kindList, words []string
	for _, s := range v.Stats {
		kindList = append(kindList, s.Kind)
	}
	for _, s := range jobStates {
		words = append(words, s.String())
	}
	q := r.URL.Query()
	v.Filters = []filter{choices("Kind", "kind", q.Get("kind"), kindList...), choices("State", "state", q.Get("state"), words...)}
	for _, j := range list {
		v.Rows = append(v.Rows, p.jobRow(f, j))
	}
	f.D, f.Live = v, "queue"
	return p.print(w, r, http.StatusOK, "queue", f)
}

// jobView is what the page of a job shows.
type jobView struct {
	jobRow
	MayAct bool
	Source string // the address of the object that it reads, or ""
	Result string
}

// job answers GET queue/N.
func (p *Pages) job(w *reply, r *Request, args []string) error {
	j, err := p.api.findJob(r, args[0])
	if err != nil {
		return err
	}
	f := p.frame(r, "Job "+args[0], nil)
	v := jobView{jobRow: p.jobRow(f, j), MayAct: r.Rights.Admin, Source: f.Ask("search", "q", j.Key)}
	if j.Result != nil {
		v.Result = j.Result.String()
	}
	f.Notice = notices[r.URL.Query().Get("done")]
	f.D, f.Live = v, "queue"
	return p.print(w, r, http.StatusOK, "job", f)
}

// actJob answers POST queue/N/cancel and queue/N/retry.
func (p *Pages) actJob(w *reply, r *Request, args []string) (err error) {
	var j jobs.Job
	var done string
	switch args[1] {
	case "cancel":
		done = "cancelled"
		j, err = p.api.endJob(r, args[0])
	case "retry":
		done = "retried"
		j, err = p.api.againJob(r, args[0])
	default:
		err = &Problem{Word: "not-found"}
	}
	if err != nil {
		return err
	}
	return seeOther(w, r, link(r.Base, "queue", []string{strconv.FormatInt(j.ID, 10)}, values("done", done)))
}

// upstreamRow is an upstream in a table.
type upstreamRow struct {
	depot.UpstreamStatus
	State, Mark string
	Share       int    // of the requests that found a file, in percent
	P50, P95    string // how long the first byte took, or ""
}

// upstreamsView is what the page of upstreams shows.
type upstreamsView struct {
	Rows   []upstreamRow
	MayAct bool
}

// upstreams answers GET upstreams.
func (p *Pages) upstreams(w *reply, r *Request, _ []string) error {
	v := upstreamsView{MayAct: r.Rights.Admin}
	if s := p.api.cfg.Upstreams; s != nil {
		for _, u := range s.Upstreams() {
			v.Rows = append(v.Rows, newUpstreamRow(u))
		}
	}
	slices.SortStableFunc(v.Rows, func(a, b upstreamRow) int { return a.Rank - b.Rank })
	f := p.frame(r, "Upstreams", v)
	f.Notice = notices[r.URL.Query().Get("done")]
	f.Live = "upstreams"
	return p.print(w, r, http.StatusOK, "upstreams", f)
}

func newUpstreamRow(u depot.UpstreamStatus) upstreamRow {
	row := upstreamRow{UpstreamStatus: u, State: "answers", Mark: "ok"}
	switch {
	case u.Open:
		row.State, row.Mark = "not asked: circuit breaker is open", "bad"
	case u.Failures > 0:
		row.State, row.Mark = term.Count(int64(u.Failures), "failure")+" in a row", "warn"
	case u.Requests == 0:
		row.State, row.Mark = "not asked yet", "dim"
	case u.Hits+u.Misses+u.Wrong == 0:
		row.State, row.Mark = "no answer yet", "dim"
	}
	if n := u.Hits + u.Misses; n > 0 {
		row.Share = int(u.Hits * 100 / n)
	}
	if u.P95 > 0 {
		row.P50, row.P95 = shortTime(u.P50), shortTime(u.P95)
	}
	return row
}

// shortTime prints a duration with two digits or so.
func shortTime(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// actUpstream answers POST upstreams: it closes the circuit breaker of an upstream, or
// probes it.
func (p *Pages) actUpstream(w *reply, r *Request, _ []string) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	act := form.Get("act")
	if act != "reset" && act != "probe" && act != "forget" {
		return &Problem{Word: "query", Detail: "the act is not valid", Fields: map[string]string{"act": "reset, probe or forget is expected"}}
	}
	if err := p.api.upstreamAct(r, form.Get("name"), act); err != nil {
		if asProblem(err) != nil {
			return err
		}
		act = "failed" // the table says why
	}
	return seeOther(w, r, link(r.Base, "upstreams", nil, values("done", act)))
}
