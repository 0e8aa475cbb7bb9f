package api

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// serverAPI answers requests about the server.
type serverAPI struct {
	version   string
	now       func() time.Time
	queue     *jobs.Queue
	jobs      *web.JobActs
	remote    *depot.Remote
	upstreams *web.UpstreamActs
	events    *web.Events
	log       *slog.Logger
}

func (a serverAPI) routes() []route {
	return []route{
		on(http.MethodGet, "v1/openapi.json", describe),
		on(http.MethodGet, "v1/about", a.about),
		on(http.MethodGet, "v1/connect", a.connectTools),
		on(http.MethodGet, "v1/stats", a.stats),
		on(http.MethodGet, "v1/events", a.eventStream),
		on(http.MethodGet, "v1/workers", a.workers),
		on(http.MethodGet, "v1/jobs", a.listJobs),
		on(http.MethodGet, "v1/jobs/stats", a.jobStats),
		on(http.MethodGet, "v1/jobs/*", a.showJob),
		bare(on(http.MethodPost, "v1/jobs/*/cancel", a.cancelJob)),
		bare(on(http.MethodPost, "v1/jobs/*/retry", a.retryJob)),
		on(http.MethodGet, "v1/upstreams", a.listUpstreams),
		bare(on(http.MethodPost, "v1/upstreams/reset", a.resetUpstream)),
		bare(on(http.MethodPost, "v1/upstreams/probe", a.probeUpstream)),
		on(http.MethodDelete, "v1/memory", a.forgetMisses),
	}
}

// about answers GET about.
func (a serverAPI) about(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	out := wire.About{Version: a.version, API: 1, Time: a.now().UTC().Truncate(time.Second), URL: r.BaseURL + r.Base}
	return web.WriteJSON(w, http.StatusOK, out)
}

// connectTools answers GET connect: the settings of each tool.
func (a serverAPI) connectTools(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	v := web.Connection(r)
	out := wire.Connect{URL: v.URL, Note: v.Note, Tools: []wire.Tool{}}
	for _, c := range v.Clients {
		out.Tools = append(out.Tools, wire.Tool{Name: c.Name, Where: c.Note, Settings: c.Text})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// stats answers GET stats: the totals of the depot.
func (a serverAPI) stats(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r)); err != nil {
		return err
	}
	st, ok := r.Totals()
	if !ok {
		return &web.Problem{Word: "busy", Detail: "the totals of the depot are not known yet"}
	}
	return web.WriteJSON(w, http.StatusOK, st)
}

// eventStream answers GET events.
func (a serverAPI) eventStream(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "topics"); err != nil {
		return err
	}
	return a.events.Serve(w, r)
}

// workers answers GET workers.
func (a serverAPI) workers(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r)); err != nil {
		return err
	}
	var list []wire.WorkerInfo
	for _, x := range a.queue.Workers() {
		info := wire.WorkerInfo{Name: x.Name, Slots: x.Slots, Abilities: []wire.Ability{}}
		for _, b := range x.Abilities {
			info.Abilities = append(info.Abilities, wire.Ability(b))
		}
		list = append(list, info)
	}
	return web.WriteList(w, r, "workers", list, "")
}

// listJobs answers GET jobs.
func (a serverAPI) listJobs(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r, "kind", "state", "limit", "cursor")); err != nil {
		return err
	}
	items, next, err := a.jobs.Page(r)
	if err != nil {
		return err
	}
	shown := make([]jobs.Shown, len(items))
	for i := range items {
		shown[i] = jobs.Show(items[i])
	}
	return web.WriteList(w, r, "jobs", shown, next)
}

// jobStats answers GET jobs/stats.
func (a serverAPI) jobStats(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r)); err != nil {
		return err
	}
	items, err := a.queue.Stats(r.Context())
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "jobs", items, "")
}

// showJob answers GET jobs/N.
func (a serverAPI) showJob(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r)); err != nil {
		return err
	}
	j, err := a.jobs.Find(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, jobs.Show(j))
}

// cancelJob answers POST jobs/N/cancel.
func (a serverAPI) cancelJob(w http.ResponseWriter, r *web.Request, args []string) error {
	j, err := a.jobs.End(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, jobs.Show(j))
}

// retryJob answers POST jobs/N/retry: the answer is the job that runs again.
func (a serverAPI) retryJob(w http.ResponseWriter, r *web.Request, args []string) error {
	j, err := a.jobs.Again(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, jobs.Show(j))
}

// listUpstreams answers GET upstreams.
func (a serverAPI) listUpstreams(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayReadAll(), web.OnlyParameters(r)); err != nil {
		return err
	}
	list := a.remote.Upstreams()
	return web.WriteList(w, r, "upstreams", list, "")
}

// resetUpstream answers POST upstreams/reset: it closes the circuit breaker.
func (a serverAPI) resetUpstream(w http.ResponseWriter, r *web.Request, _ []string) error {
	return a.actUpstream(w, r, "reset")
}

// probeUpstream answers POST upstreams/probe: it sends one request.
func (a serverAPI) probeUpstream(w http.ResponseWriter, r *web.Request, _ []string) error {
	return a.actUpstream(w, r, "probe")
}

func (a serverAPI) actUpstream(w http.ResponseWriter, r *web.Request, act string) error {
	var q wire.UpstreamAct
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	err := a.upstreams.Act(r, q.Name, act)
	if web.AsProblem(err) != nil {
		return err
	}
	out := wire.UpstreamActed{Name: q.Name, OK: err == nil}
	if err != nil {
		out.Error = err.Error()
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// forgetMisses answers DELETE memory?source=: the negative cache of one upstream, or of all.
func (a serverAPI) forgetMisses(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayAdminister(), web.OnlyParameters(r, "source")); err != nil {
		return err
	}
	n, err := a.remote.FlushMisses(r.Context(), depot.MissFilter{Source: r.URL.Query().Get("source")})
	if err != nil {
		return err
	}
	a.log.Info("misses were forgotten", "request", r.ID, "by", r.Name, "count", n)
	return web.WriteJSON(w, http.StatusOK, wire.Forgotten{Misses: n})
}
