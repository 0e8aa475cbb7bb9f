package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
)

// maxGrace limits the grace period of a garbage collection, in seconds: a year.
const maxGrace = 366 * 24 * 60 * 60

// makeCollectionPlan answers POST plans of the kind gc.
func (a *API) makeCollectionPlan(w http.ResponseWriter, r *Request, q wire.PlanSpec) error {
	opt := depot.CollectOptions{Grace: depot.DefaultGrace, EmptyTrash: q.EmptyTrash}
	if q.Grace != nil {
		if *q.Grace < 0 || *q.Grace > maxGrace {
			return &Problem{Word: "query", Detail: "the grace period is not valid", Fields: map[string]string{"grace": "a number of seconds from 0 to " + strconv.Itoa(maxGrace) + " is expected"}}
		}
		opt.Grace = time.Duration(*q.Grace) * time.Second
	}
	p, err := a.cfg.Retention.PlanCollection(r.Context(), opt, r.Name)
	if err == nil {
		err = p.Unstored
	}
	if err != nil {
		return kept(err)
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+p.Number)
	return writeJSON(w, http.StatusCreated, report.NewCollectionPlan(p))
}

// applyCollection answers POST plans/ID/apply of the kind gc.
func (a *API) applyCollection(w http.ResponseWriter, r *Request, number string, q wire.PlanApply) error {
	if q.YesRemove != 0 {
		return &Problem{Word: "query", Detail: "the number is not valid", Fields: map[string]string{"yes_remove": "belongs to a plan of the retention policy"}}
	}
	c, err := a.cfg.Retention.ApplyCollection(r.Context(), number)
	if err != nil {
		return kept(err)
	}
	a.cfg.Log.Info("garbage was collected", "request", r.ID, "by", r.Name, "plan", number, "frees", c.Frees)
	return writeJSON(w, http.StatusOK, report.NewCollected(c, false))
}
