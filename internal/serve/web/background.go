package web

import (
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// JobActs finds and ends background jobs, as far as the sender of a request may.
type JobActs struct {
	queue *jobs.Queue
	log   *slog.Logger
}

// UpstreamActs carries out acts on upstreams.
type UpstreamActs struct {
	remote *depot.Remote
	log    *slog.Logger
}

// Page reads a page of the list of jobs. next is the sort key of its last job if
// there are more.
func (a *JobActs) Page(r *Request) (items []jobs.Job, next string, err error) {
	q := r.URL.Query()
	limit, after, err := ReadPage(q, "jobs")
	if err != nil {
		return nil, "", err
	}
	f := jobs.Filter{Kind: q.Get("kind"), Limit: limit + 1}
	for _, word := range q["state"] {
		if word == "" {
			continue // of a form
		}
		s, err := jobs.ParseState(word)
		if err != nil {
			return nil, "", BadParameter("state", err.Error())
		}
		f.States = append(f.States, s)
	}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before <= 0 {
			return nil, "", &Problem{Word: "cursor"}
		}
	}
	if items, err = a.queue.List(r.Context(), f); err != nil {
		return nil, "", err
	}
	if len(items) > limit {
		items = items[:limit]
		next = strconv.FormatInt(items[limit-1].ID, 10)
	}
	if items == nil {
		items = []jobs.Job{}
	}
	return items, next, nil
}

// Find returns a job.
func (a *JobActs) Find(r *Request, number string) (jobs.Job, error) {
	missing := &Problem{Word: "not-found", Detail: "there is no job " + Clip(number)}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id <= 0 || a.queue == nil || strconv.FormatInt(id, 10) != number {
		return jobs.Job{}, missing
	}
	items, err := a.queue.List(r.Context(), jobs.Filter{Before: id + 1, Limit: 1})
	if err == nil && (len(items) == 0 || items[0].ID != id) {
		err = missing
	}
	if err != nil {
		return jobs.Job{}, err
	}
	return items[0], nil
}

// End cancels a job for an administrator.
func (a *JobActs) End(r *Request, number string) (jobs.Job, error) {
	if err := r.MayAdminister(); err != nil {
		return jobs.Job{}, err
	}
	j, err := a.Find(r, number)
	if err != nil {
		return j, err
	}
	was, err := a.queue.Cancel(r.Context(), j.ID)
	if err == nil && !was {
		err = &Problem{Word: "conflict", Detail: "the job has ended already"}
	}
	if err != nil {
		return j, err
	}
	a.log.Info("a job was cancelled", "request", r.ID, "by", r.Name, "job", j.ID)
	return a.Find(r, number)
}

// Again runs a job that has ended once more, for an administrator.
func (a *JobActs) Again(r *Request, number string) (jobs.Job, error) {
	if err := r.MayAdminister(); err != nil {
		return jobs.Job{}, err
	}
	j, err := a.Find(r, number)
	if err != nil {
		return j, err
	}
	if j.State == jobs.Queued || j.State == jobs.Running {
		return j, &Problem{Word: "conflict", Detail: "the job has not ended yet"}
	}
	id, err := a.queue.Retry(r.Context(), j.ID)
	if err != nil {
		return j, err
	}
	a.log.Info("a job is tried again", "request", r.ID, "by", r.Name, "job", j.ID, "as", id)
	return a.Find(r, strconv.FormatInt(id, 10))
}

// Act carries out an act of an administrator on an upstream.
func (a *UpstreamActs) Act(r *Request, name, act string) error {
	if err := r.MayAdminister(); err != nil {
		return err
	}
	missing := &Problem{Word: "not-found", Detail: "there is no such upstream"}
	var err error
	switch act {
	case "reset":
		err = a.remote.ResetUpstream(name)
	case "forget":
		_, err = a.remote.FlushMisses(r.Context(), depot.MissFilter{Source: name})
	default:
		r.Allow(CommitTime)
		err = a.remote.ProbeUpstream(r.Context(), name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err == nil {
		a.log.Info("an upstream was "+act, "request", r.ID, "by", r.Name, "upstream", name)
	}
	return err
}

// UpstreamRow is an upstream in a table.
type UpstreamRow struct {
	depot.UpstreamStatus
	State, Mark string
	Share       int    // of the requests that found a file, in percent
	P50, P95    string // how long the first byte took, or ""
}

// NewUpstreamRow describes an upstream by its counters.
func NewUpstreamRow(u depot.UpstreamStatus) UpstreamRow {
	row := UpstreamRow{UpstreamStatus: u, State: "answers", Mark: "ok"}
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
