package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/web"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
)

// maxGrace limits the grace period of a garbage collection, in seconds: a year.
const maxGrace = 366 * 24 * 60 * 60

// makeCollectionPlan answers POST plans of the kind gc.
func (a retentionAPI) makeCollectionPlan(w http.ResponseWriter, r *web.Request, q wire.PlanSpec) error {
	opt := depot.CollectOptions{Grace: depot.DefaultGrace, EmptyTrash: q.EmptyTrash}
	if q.Grace != nil {
		if *q.Grace < 0 || *q.Grace > maxGrace {
			return &web.Problem{Word: "query", Detail: "the grace period is not valid", Fields: map[string]string{"grace": "a number of seconds from 0 to " + strconv.Itoa(maxGrace) + " is expected"}}
		}
		opt.Grace = time.Duration(*q.Grace) * time.Second
	}
	p, err := a.retention.PlanCollection(r.Context(), opt, r.Name)
	if err == nil {
		err = p.Unstored
	}
	if err != nil {
		return web.RetentionProblem(err)
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+p.Number)
	return web.WriteJSON(w, http.StatusCreated, report.NewCollectionPlan(p))
}

// applyCollection answers POST plans/ID/apply of the kind gc.
func (a retentionAPI) applyCollection(w http.ResponseWriter, r *web.Request, number string, q wire.PlanApply) error {
	if q.YesRemove != 0 {
		return &web.Problem{Word: "query", Detail: "the number is not valid", Fields: map[string]string{"yes_remove": "belongs to a plan of the retention policy"}}
	}
	c, err := a.retention.ApplyCollection(r.Context(), number)
	if err != nil {
		return web.RetentionProblem(err)
	}
	a.log.Info("garbage was collected", "request", r.ID, "by", r.Name, "plan", number, "frees", c.Frees)
	return web.WriteJSON(w, http.StatusOK, report.NewCollected(c, false))
}
