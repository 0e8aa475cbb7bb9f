package pages

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/symfile"
)

// serverPages are the pages about what the server does.
type serverPages struct {
	missing      *catalog.Missing
	finder       depot.Finder
	queued       *jobs.Queue
	jobs         *web.JobActs
	remote       *depot.Remote
	upstreamActs *web.UpstreamActs
	now          func() time.Time
}

func (p serverPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "missing", web.SeesAll, "Files/Missing", p.misses).explainedIn("why"),
		page(http.MethodGet, "jobs", web.SeesAll, "Operate/Jobs", p.queue).explainedIn("monitoring"),
		page(http.MethodGet, "jobs/*", web.SeesAll, "", p.job),
		page(http.MethodPost, "jobs/*/*", web.IsAdmin, "", p.actJob),
		page(http.MethodGet, "upstreams", web.SeesAll, "Operate/Upstreams", p.upstreams).explainedIn("proxy"),
		page(http.MethodPost, "upstreams", web.IsAdmin, "", p.actUpstream),
	}
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
	Plot               plot   // lookups by hour
	Found              string // what it shows, in words; "": there was none
}

// missPeriods are the choices of the time of the last request, in days.
var missPeriods = []option{{"1", "last day"}, {"7", "last 7 days"}, {"30", "last 30 days"}, {"", "any time"}}

// misses answers GET missing.
func (p serverPages) misses(w *reply, r *web.Request, _ []string) error {
	q := r.URL.Query()
	v := missesView{Name: q.Get("name"), Client: q.Get("client"), Days: q.Get("days"), Others: q.Get("others") == "hide"}
	v.Periods = filter{"Last asked", "days", v.Days, missPeriods}
	f := catalog.WantedFilter{Client: v.Client, Name: symfile.Fold(v.Name)}
	sort, err := sorted(r, "count", "last")
	if err != nil {
		return err
	}
	f.Latest = sort == "last"
	var after string
	if f.Limit, after, err = web.ReadPage(q, "missing"); err != nil {
		return err
	}
	csv := values("name", v.Name, "client", v.Client, "format", web.FormCSV)
	if v.Days != "" {
		n, err := strconv.Atoi(v.Days)
		if err != nil || n < 1 || n > 366 {
			return web.BadParameter("days", "a number from 1 to 366 is expected")
		}
		f.Since = p.now().AddDate(0, 0, -n)
		csv.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	v.CSV = link(r.Base, "api", []string{"v1", "missing"}, csv)
	list, next, err := p.missing.Page(r.Context(), f, after)
	if err != nil {
		return badQuery(err)
	}
	fr := w.frame(r, "Missing files", nil)
	v.Plot, v.Found = lookupPlot(r.Lookups)
	v.Pages = fr.pager("missing", next)
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
	return w.print(r, http.StatusOK, "missing", fr)
}

// lookupPlot draws the lookups of each hour since the start of the server, and says what it
// shows; "" if there was none.
func lookupPlot(each func(func(begin time.Time, found, missing int64))) (p plot, shows string) {
	if each == nil {
		return p, ""
	}
	hits, lost := series{Name: "found"}, series{Name: "not found"}
	var found, missing int64
	each(func(begin time.Time, n, m int64) {
		p.Days, hits.Values, lost.Values = append(p.Days, begin), append(hits.Values, n), append(lost.Values, m)
		found, missing = found+n, missing+m
	})
	if len(p.Days) == 0 {
		return p, ""
	}
	p.Hourly, p.Series = true, []series{hits, lost}
	p.Title = fmt.Sprintf("Since %s: %s found, %s not found (%.1f %%)", p.Days[0].Format(minuteLayout),
		web.Number(found), web.Number(missing), 100*float64(missing)/float64(max(1, found+missing)))
	return p, p.Title
}

// missRow judges a file that was requested and not found. others: no transaction has
// files of this name.
func (p serverPages) missRow(r *web.Request, f *frame, m catalog.Wanted) (row missRow, others bool, err error) {
	row = missRow{
		Name: m.Name, ID: m.ID, Kind: m.Kind, Clients: m.Client, Count: m.Count, First: m.First, Last: m.Last,
		Why: f.Ask("trace", "name", m.Name, "id", m.ID), Verdict: "not checked", Class: "dim",
	}
	wanted, err := needed.Of(m.Name, m.ID, "")
	if err != nil {
		return row, false, nil //nolint:nilerr // the row says so
	}
	judged, err := needed.JudgeWant(r.Context(), p.finder, r.Scope(), wanted)
	if err != nil {
		return row, false, err
	}
	switch row.Verdict = judged.Verdict.Text(); judged.Verdict {
	case needed.VerdictHere:
		row.Verdict, row.Class = "in the depot now", "ok"
	case needed.VerdictOtherBuild, needed.VerdictStripped:
		row.Class = "warn"
	case needed.VerdictOurs:
		row.Class = "bad"
	}
	return row, judged.Verdict == needed.VerdictOthers, nil
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

func (p serverPages) jobRow(f *frame, j jobs.Job) jobRow {
	row := jobRow{j, f.To("jobs", j.ID), p.now().Sub(j.Created), "dim"}
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

// queue answers GET jobs.
func (p serverPages) queue(w *reply, r *web.Request, _ []string) error {
	list, next, err := p.jobs.Page(r)
	if err != nil {
		return err
	}
	f := w.frame(r, "Jobs", nil)
	v := queueView{Workers: p.queued.Workers(), Tools: p.queued.Tools(), Pages: f.pager("jobs", next)}
	if v.Stats, err = p.queued.Stats(r.Context()); err != nil {
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
	f.D, f.Live = v, "jobs"
	return w.print(r, http.StatusOK, "jobs", f)
}

// jobView is what the page of a job shows.
type jobView struct {
	jobRow
	MayAct bool
	Result string
}

// job answers GET jobs/N.
func (p serverPages) job(w *reply, r *web.Request, args []string) error {
	j, err := p.jobs.Find(r, args[0])
	if err != nil {
		return err
	}
	f := w.frame(r, "Job "+args[0], nil)
	v := jobView{jobRow: p.jobRow(f, j), MayAct: r.Rights.Admin}
	if j.Result != nil {
		v.Result = j.Result.String()
	}
	f.Notice = notices[r.URL.Query().Get("done")]
	f.D, f.Live = v, "jobs"
	return w.print(r, http.StatusOK, "job", f)
}

// actJob answers POST jobs/N/cancel and queue/N/retry.
func (p serverPages) actJob(w *reply, r *web.Request, args []string) (err error) {
	var j jobs.Job
	var done string
	switch args[1] {
	case "cancel":
		done = "cancelled"
		j, err = p.jobs.End(r, args[0])
	case "retry":
		done = "retried"
		j, err = p.jobs.Again(r, args[0])
	default:
		err = &web.Problem{Word: "not-found"}
	}
	if err != nil {
		return err
	}
	return seeOther(w, r, link(r.Base, "jobs", []string{strconv.FormatInt(j.ID, 10)}, values("done", done)))
}

// upstreamsView is what the page of upstreams shows.
type upstreamsView struct {
	Rows   []web.UpstreamRow
	MayAct bool
}

// upstreams answers GET upstreams.
func (p serverPages) upstreams(w *reply, r *web.Request, _ []string) error {
	v := upstreamsView{MayAct: r.Rights.Admin}
	for _, u := range p.remote.Upstreams() {
		v.Rows = append(v.Rows, web.NewUpstreamRow(u))
	}
	sorting.Stable(v.Rows, func(a, b web.UpstreamRow) int { return a.Rank - b.Rank })
	f := w.frame(r, "Upstreams", v)
	f.Notice = notices[r.URL.Query().Get("done")]
	f.Live = "upstreams"
	return w.print(r, http.StatusOK, "upstreams", f)
}

// actUpstream answers POST upstreams: it closes the circuit breaker of an upstream, or
// probes it.
func (p serverPages) actUpstream(w *reply, r *web.Request, _ []string) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	act := form.Get("act")
	if act != "reset" && act != "probe" && act != "forget" {
		return web.BadMember("the act is not valid", "act", "reset, probe or forget is expected")
	}
	if err := p.upstreamActs.Act(r, form.Get("name"), act); err != nil {
		if web.AsProblem(err) != nil {
			return err
		}
		act = "failed" // the table says why
	}
	return seeOther(w, r, link(r.Base, "upstreams", nil, values("done", act)))
}
