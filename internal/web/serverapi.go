package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/internal/wire"
)

// Upstreams are the sources that a depot asks for files that it does not have.
type Upstreams interface {
	// Upstreams returns their states and counters.
	Upstreams() []depot.UpstreamStatus
	// ResetUpstream closes the circuit breaker of an upstream; an unknown one is
	// fs.ErrNotExist.
	ResetUpstream(name string) error
	// ProbeUpstream asks an upstream for a file that nobody has, and returns why that
	// failed.
	ProbeUpstream(ctx context.Context, name string) error
	// FlushMisses deletes entries of the negative cache.
	FlushMisses(ctx context.Context, f depot.MissFilter) (int64, error)
}

// serverRoutes are the addresses of the API about the server.
var serverRoutes = []route{
	onPart(http.MethodGet, "v1/openapi.json", serverAPI.describe),
	onPart(http.MethodGet, "v1/about", serverAPI.about),
	onPart(http.MethodGet, "v1/connect", serverAPI.connectTools),
	onPart(http.MethodGet, "v1/stats", serverAPI.stats),
	onPart(http.MethodGet, "v1/events", serverAPI.eventStream),
	onPart(http.MethodGet, "v1/workers", serverAPI.workers),
	onPart(http.MethodGet, "v1/jobs", serverAPI.listJobs),
	onPart(http.MethodGet, "v1/jobs/stats", serverAPI.jobStats),
	onPart(http.MethodGet, "v1/jobs/*", serverAPI.showJob),
	bare(onPart(http.MethodPost, "v1/jobs/*/cancel", serverAPI.cancelJob)),
	bare(onPart(http.MethodPost, "v1/jobs/*/retry", serverAPI.retryJob)),
	onPart(http.MethodGet, "v1/upstreams", serverAPI.listUpstreams),
	bare(onPart(http.MethodPost, "v1/upstreams/reset", serverAPI.resetUpstream)),
	bare(onPart(http.MethodPost, "v1/upstreams/probe", serverAPI.probeUpstream)),
	onPart(http.MethodDelete, "v1/memory", serverAPI.forgetMisses),
}

// reads returns a problem if the client may not read all products.
func (r *Request) reads() error { return r.mayOpen(seesAll) }

// about answers GET about.
func (a serverAPI) about(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r); err != nil {
		return err
	}
	out := wire.About{Version: a.cfg.Version, API: 1, Time: a.cfg.Now().UTC().Truncate(time.Second), URL: r.BaseURL + r.Base}
	return writeJSON(w, http.StatusOK, out)
}

// connectTools answers GET connect: the settings of each tool.
func (a serverAPI) connectTools(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r); err != nil {
		return err
	}
	v := connection(r)
	out := wire.Connect{URL: v.URL, Note: v.Note, Tools: []wire.Tool{}}
	for _, c := range v.Clients {
		out.Tools = append(out.Tools, wire.Tool{Name: c.Name, Where: c.Note, Settings: c.Text})
	}
	return writeJSON(w, http.StatusOK, out)
}

// stats answers GET stats: the totals of the depot.
func (a serverAPI) stats(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.reads(), only(r)); err != nil {
		return err
	}
	st, ok := r.holdings()
	if !ok {
		return &Problem{Word: "busy", Detail: "the totals of the depot are not known yet"}
	}
	return writeJSON(w, http.StatusOK, st)
}

// eventStream answers GET events.
func (a serverAPI) eventStream(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "topics"); err != nil {
		return err
	}
	return a.events(w, r)
}

// workers answers GET workers.
func (a serverAPI) workers(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.reads(), only(r), a.hasJobs()); err != nil {
		return err
	}
	var list []wire.WorkerInfo
	for _, x := range a.cfg.Jobs.Workers() {
		info := wire.WorkerInfo{Name: x.Name, Slots: x.Slots, Abilities: []wire.Ability{}}
		for _, b := range x.Abilities {
			info.Abilities = append(info.Abilities, wire.Ability(b))
		}
		list = append(list, info)
	}
	return writeList(w, r, "workers", list, "")
}

func (a *API) hasJobs() error {
	if a.cfg.Jobs == nil {
		return &Problem{Word: "not-found", Detail: "this server has no jobs"}
	}
	return nil
}

// listJobs answers GET jobs.
func (a serverAPI) listJobs(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.reads(), a.hasJobs(), only(r, "kind", "state", "limit", "cursor")); err != nil {
		return err
	}
	items, next, err := a.jobPage(r)
	if err != nil {
		return err
	}
	shown := make([]jobs.Shown, len(items))
	for i := range items {
		shown[i] = jobs.Show(items[i])
	}
	return writeList(w, r, "jobs", shown, next)
}

// jobPage reads a page of the list of jobs. next is the sort key of its last job if
// there are more.
func (a *API) jobPage(r *Request) (items []jobs.Job, next string, err error) {
	q := r.URL.Query()
	limit, after, err := readPage(q, "jobs")
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
			return nil, "", &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"state": err.Error()}}
		}
		f.States = append(f.States, s)
	}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before <= 0 {
			return nil, "", &Problem{Word: "cursor"}
		}
	}
	if items, err = a.cfg.Jobs.List(r.Context(), f); err != nil {
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

// findJob returns a job.
func (a *API) findJob(r *Request, number string) (jobs.Job, error) {
	missing := &Problem{Word: "not-found", Detail: "there is no job " + clip(number)}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id <= 0 || a.cfg.Jobs == nil || strconv.FormatInt(id, 10) != number {
		return jobs.Job{}, missing
	}
	items, err := a.cfg.Jobs.List(r.Context(), jobs.Filter{Before: id + 1, Limit: 1})
	if err == nil && (len(items) == 0 || items[0].ID != id) {
		err = missing
	}
	if err != nil {
		return jobs.Job{}, err
	}
	return items[0], nil
}

// jobStats answers GET jobs/stats.
func (a serverAPI) jobStats(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.reads(), a.hasJobs(), only(r)); err != nil {
		return err
	}
	items, err := a.cfg.Jobs.Stats(r.Context())
	if err != nil {
		return err
	}
	return writeList(w, r, "jobs", items, "")
}

// showJob answers GET jobs/N.
func (a serverAPI) showJob(w http.ResponseWriter, r *Request, args []string) error {
	if err := errors.Join(r.reads(), only(r)); err != nil {
		return err
	}
	j, err := a.findJob(r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jobs.Show(j))
}

// administers returns a problem if the client is no administrator.
func (r *Request) administers() error { return r.mayOpen(isAdmin) }

// cancelJob answers POST jobs/N/cancel.
func (a serverAPI) cancelJob(w http.ResponseWriter, r *Request, args []string) error {
	j, err := a.endJob(r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jobs.Show(j))
}

// endJob cancels a job for an administrator.
func (a *API) endJob(r *Request, number string) (jobs.Job, error) {
	if err := r.administers(); err != nil {
		return jobs.Job{}, err
	}
	j, err := a.findJob(r, number)
	if err != nil {
		return j, err
	}
	was, err := a.cfg.Jobs.Cancel(r.Context(), j.ID)
	if err == nil && !was {
		err = &Problem{Word: "conflict", Detail: "the job has ended already"}
	}
	if err != nil {
		return j, err
	}
	a.cfg.Log.Info("a job was cancelled", "request", r.ID, "by", r.Name, "job", j.ID)
	return a.findJob(r, number)
}

// retryJob answers POST jobs/N/retry: the answer is the job that runs again.
func (a serverAPI) retryJob(w http.ResponseWriter, r *Request, args []string) error {
	j, err := a.againJob(r, args[0])
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jobs.Show(j))
}

// againJob runs a job that has ended once more, for an administrator.
func (a *API) againJob(r *Request, number string) (jobs.Job, error) {
	if err := r.administers(); err != nil {
		return jobs.Job{}, err
	}
	j, err := a.findJob(r, number)
	if err != nil {
		return j, err
	}
	if j.State == jobs.Queued || j.State == jobs.Running {
		return j, &Problem{Word: "conflict", Detail: "the job has not ended yet"}
	}
	id, err := a.cfg.Jobs.Retry(r.Context(), j.ID)
	if err != nil {
		return j, err
	}
	a.cfg.Log.Info("a job is tried again", "request", r.ID, "by", r.Name, "job", j.ID, "as", id)
	return a.findJob(r, strconv.FormatInt(id, 10))
}

// listUpstreams answers GET upstreams.
func (a serverAPI) listUpstreams(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.reads(), only(r)); err != nil {
		return err
	}
	var list []depot.UpstreamStatus
	if a.cfg.Upstreams != nil {
		list = a.cfg.Upstreams.Upstreams()
	}
	return writeList(w, r, "upstreams", list, "")
}

// upstreamAct carries out an act of an administrator on an upstream.
func (a *API) upstreamAct(r *Request, name, act string) error {
	if err := r.administers(); err != nil {
		return err
	}
	missing := &Problem{Word: "not-found", Detail: "there is no such upstream"}
	if a.cfg.Upstreams == nil {
		return missing
	}
	var err error
	switch act {
	case "reset":
		err = a.cfg.Upstreams.ResetUpstream(name)
	case "forget":
		_, err = a.cfg.Upstreams.FlushMisses(r.Context(), depot.MissFilter{Source: name})
	default:
		r.Allow(commitTime)
		err = a.cfg.Upstreams.ProbeUpstream(r.Context(), name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err == nil {
		a.cfg.Log.Info("an upstream was "+act, "request", r.ID, "by", r.Name, "upstream", name)
	}
	return err
}

// resetUpstream answers POST upstreams/reset: it closes the circuit breaker.
func (a serverAPI) resetUpstream(w http.ResponseWriter, r *Request, _ []string) error {
	return a.actUpstream(w, r, "reset")
}

// probeUpstream answers POST upstreams/probe: it sends one request.
func (a serverAPI) probeUpstream(w http.ResponseWriter, r *Request, _ []string) error {
	return a.actUpstream(w, r, "probe")
}

func (a *API) actUpstream(w http.ResponseWriter, r *Request, act string) error {
	var q wire.UpstreamAct
	if err := readJSON(r, maxSpecBody, &q); err != nil {
		return err
	}
	err := a.upstreamAct(r, q.Name, act)
	if asProblem(err) != nil {
		return err
	}
	out := wire.UpstreamActed{Name: q.Name, OK: err == nil}
	if err != nil {
		out.Error = err.Error()
	}
	return writeJSON(w, http.StatusOK, out)
}

// forgetMisses answers DELETE memory?source=: the negative cache of one upstream, or of all.
func (a serverAPI) forgetMisses(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(r.administers(), only(r, "source")); err != nil {
		return err
	}
	if a.cfg.Upstreams == nil {
		return &Problem{Word: "not-found", Detail: "this server asks no upstream"}
	}
	n, err := a.cfg.Upstreams.FlushMisses(r.Context(), depot.MissFilter{Source: r.URL.Query().Get("source")})
	if err != nil {
		return err
	}
	a.cfg.Log.Info("misses were forgotten", "request", r.ID, "by", r.Name, "count", n)
	return writeJSON(w, http.StatusOK, wire.Forgotten{Misses: n})
}
