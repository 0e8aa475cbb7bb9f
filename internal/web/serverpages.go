package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	Limited            bool
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
	f := depot.WantedFilter{Client: v.Client, Name: symfile.Fold(v.Name), Limit: listRows + 1}
	csv := values("name", v.Name, "client", v.Client)
	if v.Days != "" {
		n, err := strconv.Atoi(v.Days)
		if err != nil || n < 1 || n > 366 {
			return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"days": "a number from 1 to 366 is expected"}}
		}
		f.Since = p.api.cfg.Now().AddDate(0, 0, -n)
		csv.Set("since", strconv.Itoa(n*24)+"h")
	}
	v.CSV = r.Base + "/missing.csv"
	if e := csv.Encode(); e != "" {
		v.CSV += "?" + e
	}
	var list []depot.Wanted
	err := p.api.cfg.Missing.List(r.Context(), f, func(m depot.Wanted) error {
		list = append(list, m)
		return nil
	})
	if err != nil {
		return err
	}
	if v.Limited = len(list) > listRows; v.Limited {
		list = list[:listRows]
	}
	fr := p.frame(r, "Missing files", nil)
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
	Rows    []jobRow
	Filters []filter
	Pages   pages
	Now     time.Time
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
	jb := p.api.cfg.Jobs
	if jb == nil {
		return &Problem{Word: "not-found"}
	}
	q := r.URL.Query()
	limit, after, err := readPage(q, "jobs")
	if err != nil {
		return err
	}
	jf := jobs.Filter{Kind: q.Get("kind"), Limit: limit + 1}
	var words []string
	for _, s := range jobStates {
		words = append(words, s.String())
		if q.Get("state") == s.String() {
			jf.States = []jobs.State{s}
		}
	}
	if q.Get("state") != "" && jf.States == nil {
		return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"state": "expected is one of " + strings.Join(words, ", ")}}
	}
	if after != "" {
		if jf.Before, err = strconv.ParseInt(after, 10, 64); err != nil || jf.Before <= 0 {
			return &Problem{Word: "cursor"}
		}
	}
	list, err := jb.List(r.Context(), jf)
	if err != nil {
		return err
	}
	f := p.frame(r, "Background jobs", nil)
	v := queueView{Workers: jb.Workers(), Now: p.api.cfg.Now()}
	if v.Stats, err = jb.Stats(r.Context()); err != nil {
		return err
	}
	var kindList []string
	for _, s := range v.Stats {
		kindList = append(kindList, s.Kind)
	}
	v.Filters = []filter{choices("Kind", "kind", jf.Kind, kindList...), choices("State", "state", q.Get("state"), words...)}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = strconv.FormatInt(list[limit-1].ID, 10)
	}
	for _, j := range list {
		v.Rows = append(v.Rows, p.jobRow(f, j))
	}
	v.Pages = f.pager("jobs", next)
	f.D, f.Live = v, "queue"
	return p.print(w, r, http.StatusOK, "queue", f)
}

// findJob returns a job.
func (p *Pages) findJob(r *Request, number string) (jobs.Job, error) {
	missing := &Problem{Word: "not-found", Detail: "there is no job " + clip(number)}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id <= 0 || p.api.cfg.Jobs == nil {
		return jobs.Job{}, missing
	}
	list, err := p.api.cfg.Jobs.List(r.Context(), jobs.Filter{Before: id + 1, Limit: 1})
	if err == nil && (len(list) == 0 || list[0].ID != id) {
		err = missing
	}
	if err != nil {
		return jobs.Job{}, err
	}
	return list[0], nil
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
	j, err := p.findJob(r, args[0])
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
func (p *Pages) actJob(w *reply, r *Request, args []string) error {
	j, err := p.findJob(r, args[0])
	if err != nil {
		return err
	}
	to := j.ID
	var done string
	switch args[1] {
	case "cancel":
		was, err := p.api.cfg.Jobs.Cancel(r.Context(), j.ID)
		if err != nil {
			return err
		}
		if !was {
			return &Problem{Word: "conflict", Detail: "the job has ended already"}
		}
		done = "cancelled"
	case "retry":
		if to, err = p.api.cfg.Jobs.Retry(r.Context(), j.ID); err != nil {
			return err
		}
		done = "retried"
	default:
		return &Problem{Word: "not-found"}
	}
	p.api.cfg.Log.Info("a job was changed on its page", "request", r.ID, "by", r.Name, "job", j.ID, "act", args[1])
	return seeOther(w, r, link(r.Base, "queue", []string{strconv.FormatInt(to, 10)}, values("done", done)))
}

// upstreamRow is an upstream in a table.
type upstreamRow struct {
	depot.UpstreamStatus
	State, Mark string
	Share       int // of the requests that found a file, in percent
}

// upstreamsView is what the page of upstreams shows.
type upstreamsView struct {
	Rows []upstreamRow
}

// upstreams answers GET upstreams.
func (p *Pages) upstreams(w *reply, r *Request, _ []string) error {
	var v upstreamsView
	if s := p.api.cfg.Sources; s != nil {
		for _, u := range s() {
			v.Rows = append(v.Rows, newUpstreamRow(u))
		}
	}
	slices.SortStableFunc(v.Rows, func(a, b upstreamRow) int { return a.Rank - b.Rank })
	f := p.frame(r, "Upstreams", v)
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
	}
	if n := u.Hits + u.Misses; n > 0 {
		row.Share = int(u.Hits * 100 / n)
	}
	return row
}
