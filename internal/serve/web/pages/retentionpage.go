package pages

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// retentionPages are the pages about what is kept.
type retentionPages struct {
	policies  web.Policies
	computing *web.Gate
	log       *slog.Logger
}

func (p retentionPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "retention", web.SeesAll, "Operate/Retention", p.showRetention).explainedIn("retention"),
		page(http.MethodPost, "retention/preview", web.MayChange, "", p.previewRetention),
		page(http.MethodGet, "retention/*", web.SeesAll, "", p.showPlanned),
		page(http.MethodPost, "retention/*/apply", web.IsAdmin, "", p.applyPlanned),
	}
}

// retentionView is what the page about the policy shows.
type retentionView struct {
	Policy     display.Policy
	Set        bool
	Runs       []lifecycle.RetentionRun
	MayPreview bool
}

// shownRuns is how many runs the page names.
const shownRuns = 20

// showRetention answers GET retention.
func (p retentionPages) showRetention(w *reply, r *web.Request, _ []string) error {
	policy, err := p.policies.Policy(r.Context())
	if err != nil {
		return err
	}
	v := retentionView{Policy: display.NewPolicy(policy), Set: policy.Number > 0, MayPreview: r.MayOpen(web.MayChange) == nil}
	if v.Runs, err = p.policies.Runs(r.Context(), 0, shownRuns); err != nil {
		return err
	}
	f := w.frame(r, "Retention", v)
	f.Notice = notices[r.URL.Query().Get("done")]
	return w.print(r, http.StatusOK, "retention", f)
}

// previewRetention answers POST retention/preview: it makes a plan, and leads to its
// page.
func (p retentionPages) previewRetention(w *reply, r *web.Request, _ []string) error {
	if err := r.MayOpen(web.SeesAll); err != nil {
		return err
	}
	done, err := p.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	plan, err := p.policies.Preview(r.Context(), r.Name)
	if err != nil {
		return web.RetentionProblem(err)
	}
	return seeOther(w, r, link(r.Base, "retention", []string{plan.Ticket.Number}, nil))
}

// planView is what the page of a plan shows.
type planView struct {
	display.Plan
	Rows     []planRow
	More     int
	Held     bool // the brake holds it
	MayApply bool
	Trash    time.Duration
}

type planRow struct {
	display.Removes
	Link string
	Age  time.Duration
}

// shownRemoves is how many removals the page of a plan lists.
const shownRemoves = 500

// showPlanned answers GET retention/PLAN.
func (p retentionPages) showPlanned(w *reply, r *web.Request, args []string) error {
	done, err := p.computing.Enter(r)
	if err != nil {
		return err
	}
	plan, err := p.policies.Planned(r.Context(), args[0])
	done()
	if err != nil {
		return web.RetentionProblem(err)
	}
	f := w.frame(r, "Plan "+plan.Ticket.Number, nil)
	v := planView{Plan: display.NewPlan(plan), MayApply: r.Rights.Admin}
	v.Trash, v.Held = time.Duration(v.Plan.Trash)*time.Second, len(v.Brake) > 0
	for i, x := range v.Removes {
		if i == shownRemoves {
			v.More = len(v.Removes) - i
			break
		}
		v.Rows = append(v.Rows, planRow{x, f.To("builds", x.Transaction), v.Now.Sub(x.Time)})
	}
	f.D = v
	return w.print(r, http.StatusOK, "plan", f)
}

// applyPlanned answers POST retention/PLAN/apply: it removes what the page of the plan
// showed, or nothing if the plan would be another one by now.
func (p retentionPages) applyPlanned(w *reply, r *web.Request, args []string) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	if form.Get("plan") != args[0] {
		return web.BadMember("type the number of the plan to apply it", "plan", "is not "+web.Clip(args[0]))
	}
	yes := 0
	if text := form.Get("yes"); text != "" {
		if yes, err = strconv.Atoi(text); err != nil || yes < 0 {
			return web.BadMember("the number of builds is not valid", "yes", "a number is expected")
		}
	}
	done, err := p.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	applied, err := p.policies.Apply(r.Context(), args[0], yes, r.Name)
	if err != nil {
		return web.RetentionProblem(err)
	}
	p.log.Info("a plan was applied on its page", "request", r.ID, "by", r.Name, "plan", args[0], "removed", applied.Run.Removed)
	return seeOther(w, r, link(r.Base, "retention", nil, values("done", "applied")))
}
