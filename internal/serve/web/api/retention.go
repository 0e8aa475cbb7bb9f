package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// retentionAPI answers requests about the policy, and about plans.
type retentionAPI struct {
	policies    web.Policies
	collections web.Collections
	acts        *web.Transactions
	computing   *web.Gate
	log         *slog.Logger
}

func (a retentionAPI) routes() []route {
	return []route{
		bare(on(http.MethodGet, "v1/retention/rules", a.showRules)),
		bare(on(http.MethodPut, "v1/retention/rules", a.setRules)),
		on(http.MethodGet, "v1/retention/runs", a.listRuns),
		bare(on(http.MethodPost, "v1/plans", a.makePlan)),
		bare(on(http.MethodGet, "v1/plans/*", a.showPlan)),
		bare(on(http.MethodPost, "v1/plans/*/apply", a.applyPlan)),
	}
}

// etag is the entity tag of a policy: its number.
func etag(p lifecycle.PolicyInForce) string { return `"` + strconv.FormatInt(p.Number, 10) + `"` }

// showRules answers GET retention/rules.
func (a retentionAPI) showRules(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.May(web.ReadAll); err != nil {
		return err
	}
	p, err := a.policies.Policy(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Etag", etag(p))
	return web.WriteJSON(w, http.StatusOK, display.NewPolicy(p))
}

// setRules answers PUT retention/rules.
func (a retentionAPI) setRules(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.May(web.Administer); err != nil {
		return err
	}
	before, err := ifMatch(r.Header.Values("If-Match"))
	if err != nil {
		return err
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && c != web.Identity {
		return &web.Problem{Word: "coding", Detail: "a policy is accepted only without a content coding"}
	}
	const most = retention.MaxPolicyBytes + 1 // what is too long is refused with the other faults
	text, err := r.Memory.Read(r.Context(), io.LimitReader(r.Body, most), most)
	if err != nil {
		return err
	}
	r.Allow(web.AnswerTime)
	p, err := web.SetPolicy(r, a.policies, a.log, text, before)
	if err != nil {
		return err
	}
	w.Header().Set("Etag", etag(p))
	return web.WriteJSON(w, http.StatusOK, display.NewPolicy(p))
}

// ifMatch returns the number of the policy that must be in force, -1 for any.
func ifMatch(values []string) (int64, error) {
	text := strings.TrimSpace(strings.Join(values, ","))
	if text == "*" {
		return -1, nil
	}
	number, quoted := strings.CutPrefix(text, `"`)
	number, closed := strings.CutSuffix(number, `"`)
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || !quoted || !closed {
		return 0, &web.Problem{
			Word:   "query",
			Detail: "the header field If-Match is missing or not valid: send the entity tag of the policy that is replaced, or * for any",
		}
	}
	return n, nil
}

// listRuns answers GET retention/runs.
func (a retentionAPI) listRuns(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.May(web.ReadAll), web.OnlyParameters(r, "limit", "cursor")); err != nil {
		return err
	}
	limit, after, err := web.ReadPage(r.URL.Query(), "runs")
	if err != nil {
		return err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
			return &web.Problem{Word: "cursor"}
		}
	}
	list, err := a.policies.Runs(r.Context(), before, limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = strconv.FormatInt(list[limit-1].No, 10)
	}
	return web.WriteList(w, r, "runs", list, next)
}

// makePlan answers POST plans.
func (a retentionAPI) makePlan(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.May(web.ChangeAny); err != nil {
		return err
	}
	var q wire.PlanSpec
	if err := web.ReadSpec(r, &q); err != nil {
		return err
	}
	gc := q.Kind == wire.PlanGC
	switch {
	case !gc && (q.Grace != nil || q.EmptyTrash):
		return &web.Problem{Word: "query", Detail: "grace and empty_trash belong to a plan of the kind gc"}
	case q.Kind == wire.PlanRemove:
		return a.makeRemovePlan(w, r, q.Transaction)
	case q.Kind != "" && q.Kind != wire.PlanRetention && !gc || q.Transaction != 0:
		return web.BadMember("the kind of plan is not valid", "kind", "retention, gc, or remove with a build, is expected")
	}
	if err := r.May(web.ReadAll); err != nil {
		return err
	}
	done, err := a.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	if gc {
		return a.makeCollectionPlan(w, r, q)
	}
	p, err := a.policies.Preview(r.Context(), r.Name)
	if err != nil {
		return web.RetentionProblem(err)
	}
	done()
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+p.Ticket.Number)
	return web.WriteJSON(w, http.StatusCreated, display.NewPlan(p))
}

// showPlan answers GET plans/ID.
func (a retentionAPI) showPlan(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := r.May(web.ReadAll); err != nil {
		return err
	}
	done, err := a.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	kind, err := a.collections.KindOfPlan(r.Context(), args[0])
	if err != nil {
		return web.RetentionProblem(err)
	}
	if kind == lifecycle.PlanOfCollection {
		p, err := a.collections.PlannedCollection(r.Context(), args[0])
		if err != nil {
			return web.RetentionProblem(err)
		}
		done()
		return web.WriteJSON(w, http.StatusOK, display.NewCollectionPlan(p))
	}
	p, err := a.policies.Planned(r.Context(), args[0])
	if err != nil {
		return web.RetentionProblem(err)
	}
	done()
	return web.WriteJSON(w, http.StatusOK, display.NewPlan(p))
}

// applyPlan answers POST plans/ID/apply.
func (a retentionAPI) applyPlan(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := r.May(web.Administer); err != nil {
		return err
	}
	var q wire.PlanApply
	if err := web.ReadSpec(r, &q); err != nil {
		return err
	}
	if q.YesRemove < 0 {
		return web.BadMember("the number is not valid", "yes_remove", "is below 0")
	}
	if q.Kind != "" && q.Kind != wire.PlanRetention && q.Kind != wire.PlanGC {
		return web.BadMember("the kind of plan is not valid", "kind", "retention or gc is expected")
	}
	done, err := a.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	if q.Kind == "" {
		kind, err := a.collections.KindOfPlan(r.Context(), args[0])
		if err == nil && kind == lifecycle.PlanOfCollection {
			q.Kind = wire.PlanGC
		}
	}
	if q.Kind == wire.PlanGC {
		return a.applyCollection(w, r, args[0], q)
	}
	applied, err := a.policies.Apply(r.Context(), args[0], q.YesRemove, r.Name)
	if err != nil {
		return web.RetentionProblem(err)
	}
	a.log.Info("a retention plan was applied", "request", r.ID, "by", r.Name, "plan", applied.Run.Plan, "removed", applied.Run.Removed)
	return web.WriteJSON(w, http.StatusOK, display.NewRun(applied))
}

// makeRemovePlan answers POST plans of the kind remove.
func (a retentionAPI) makeRemovePlan(w http.ResponseWriter, r *web.Request, number int64) error {
	t, err := a.acts.Writable(r, strconv.FormatInt(number, 10))
	if err != nil {
		return err
	}
	done, err := a.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	l, err := a.acts.RemovePlan(r, t)
	done()
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, l)
}

// maxGrace limits the grace period of a garbage collection, in seconds: a year.
const maxGrace = 366 * 24 * 60 * 60

// makeCollectionPlan answers POST plans of the kind gc.
func (a retentionAPI) makeCollectionPlan(w http.ResponseWriter, r *web.Request, q wire.PlanSpec) error {
	opt := lifecycle.CollectOptions{Grace: lifecycle.DefaultGrace, EmptyTrash: q.EmptyTrash}
	if q.Grace != nil {
		if *q.Grace < 0 || *q.Grace > maxGrace {
			return web.BadMember("the grace period is not valid", "grace", "a number of seconds from 0 to "+strconv.Itoa(maxGrace)+" is expected")
		}
		opt.Grace = time.Duration(*q.Grace) * time.Second
	}
	p, err := a.collections.PlanCollection(r.Context(), opt, r.Name)
	if err == nil {
		err = p.Unstored
	}
	if err != nil {
		return web.RetentionProblem(err)
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+p.Number)
	return web.WriteJSON(w, http.StatusCreated, display.NewCollectionPlan(p))
}

// applyCollection answers POST plans/ID/apply of the kind gc.
func (a retentionAPI) applyCollection(w http.ResponseWriter, r *web.Request, number string, q wire.PlanApply) error {
	if q.YesRemove != 0 {
		return web.BadMember("the number is not valid", "yes_remove", "belongs to a plan of the retention policy")
	}
	c, err := a.collections.ApplyCollection(r.Context(), number)
	if err != nil {
		return web.RetentionProblem(err)
	}
	a.log.Info("garbage was collected", "request", r.ID, "by", r.Name, "plan", number, "frees", c.Frees)
	return web.WriteJSON(w, http.StatusOK, display.NewCollected(c, false))
}
