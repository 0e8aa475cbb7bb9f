package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
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
		page(http.MethodPost, "retention", web.IsAdmin, "", p.editPolicy),
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
	Editor     *policyEditor // nil: the client may not change the policy
	NoSignIn   bool          // no credentials are configured: nobody is an administrator
}

// policyEditor is a text that may become the policy.
type policyEditor struct {
	Text   string
	Before int64  // the number of the policy that the text replaces
	Hash   string // of a text that was previewed, without faults; or ""
	Plan   *planView
	Faults []display.PolicyFault
	Said   string          // why nothing was saved
	Theirs *display.Policy // the policy that somebody else has set meanwhile
	Starts []startingPoint
}

// startingPoint is a policy to begin with.
type startingPoint struct{ Word, Label, Text string }

// startingPoints are offered as long as no policy is set.
var startingPoints = []startingPoint{
	{"nightly", "Releases and nightly builds", `# Builds of the branches release/… are kept forever. A build of the branch main is kept if
# it is one of the 20 newest of its product, at most 14 days old, or was read in the last 30 days.
retention:
  classes:
    - {name: release, match: {branch: "release/*"}}
    - {name: nightly, match: {branch: main}, keep_last: 20, keep_within: 14d, keep_used: 30d}
  default: forever
  trash: 7d
`},
	{"forever", "Keep everything", `# Every build is kept. What somebody removes can be restored for 30 days.
retention:
  default: forever
  trash: 30d
`},
	{"cap", "A limit for the disk", `# All builds together take at most 500 GiB. Above that, the least recently read builds are
# removed. Releases and the newest build of each product are kept.
retention:
  classes:
    - {name: release, match: {branch: "release/*"}}
    - {name: other, keep_within: 3650d}
  default: other
  cap: 500GiB
  floor: 1
  trash: 1d
`},
}

// shownRuns is how many runs the page names.
const shownRuns = 20

// showRetention answers GET retention.
func (p retentionPages) showRetention(w *reply, r *web.Request, _ []string) error {
	policy, err := p.policies.Policy(r.Context())
	if err != nil {
		return err
	}
	f := w.frame(r, "Retention", nil)
	f.Notice = notices[r.URL.Query().Get("done")]
	var e *policyEditor
	if r.Rights.Admin {
		e = &policyEditor{Text: policy.Text, Before: policy.Number}
		for _, s := range startingPoints {
			if s.Word == r.URL.Query().Get("start") && policy.Number == 0 {
				e.Text = s.Text
			}
		}
	}
	return p.print(w, r, http.StatusOK, f, policy, e)
}

// print answers with the page about a policy.
func (p retentionPages) print(
	w *reply, r *web.Request, status int, f *frame, policy lifecycle.PolicyInForce, e *policyEditor,
) (err error) {
	v := retentionView{
		Policy: display.NewPolicy(policy), Set: policy.Number > 0, MayPreview: r.MayOpen(web.MayChange) == nil, Editor: e,
		NoSignIn: len(r.Challenges) == 0,
	}
	if e != nil && !v.Set {
		e.Starts = startingPoints
	}
	if v.Runs, err = p.policies.Runs(r.Context(), 0, shownRuns); err != nil {
		return err
	}
	f.D = v
	return w.print(r, status, "retention", f)
}

// editPolicy answers POST retention: it shows what the policy in the form would remove, or
// saves the policy if that was shown.
func (p retentionPages) editPolicy(w *reply, r *web.Request, _ []string) error {
	form, err := readLongForm(r, web.PolicyFormLimit)
	if err != nil {
		return err
	}
	e := &policyEditor{Text: strings.ReplaceAll(form.Get("text"), "\r\n", "\n")}
	if e.Before, err = strconv.ParseInt(form.Get("before"), 10, 64); err != nil || e.Before < 0 {
		return web.BadMember("the number of the policy is not valid", "before", "a number of 0 or more is expected")
	}
	policy, err := p.policies.Policy(r.Context())
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(e.Text))
	hash := hex.EncodeToString(sum[:])
	changed := policy.Number != e.Before
	if form.Get("act") == "save" && !changed {
		if form.Get("hash") == hash {
			switch _, err := web.SetPolicy(r, p.policies, p.log, []byte(e.Text), e.Before); {
			case err == nil:
				return seeOther(w, r, link(r.Base, "retention", nil, values("done", "policy")))
			case web.AsProblem(err) == nil || web.AsProblem(err).Word != wire.ProblemChanged:
				return err
			}
			changed = true
			if policy, err = p.policies.Policy(r.Context()); err != nil {
				return err
			}
		} else {
			e.Said = "Nothing was saved: the text was changed after its preview. This is the preview of the text as it is now."
		}
	}
	f, status := w.frame(r, "Retention", nil), http.StatusOK
	if changed {
		theirs := display.NewPolicy(policy)
		e.Theirs, e.Before, status = &theirs, policy.Number, http.StatusConflict
	} else if err := p.try(r, f, e); err != nil {
		return err
	} else if e.Hash = hash; len(e.Faults) > 0 {
		e.Hash, e.Said, status = "", "", http.StatusUnprocessableEntity
	}
	return p.print(w, r, status, f, policy, e)
}

// try checks the text of an editor, and computes what the policy would remove.
func (p retentionPages) try(r *web.Request, f *frame, e *policyEditor) error {
	done, err := p.computing.Enter(r)
	if err != nil {
		return err
	}
	plan, err := p.policies.Try(r.Context(), "policy", []byte(e.Text))
	done()
	if problem := web.AsProblem(web.RetentionProblem(err)); problem != nil && problem.Word == "query" {
		e.Faults = display.NewPolicyCheck("policy", nil, err).Faults
		return nil
	}
	if err != nil {
		return web.RetentionProblem(err)
	}
	e.Plan = f.planned(plan)
	return nil
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
	v := f.planned(plan)
	v.MayApply, f.D = r.Rights.Admin, v
	return w.print(r, http.StatusOK, "plan", f)
}

// planned describes a plan.
func (f *frame) planned(plan *lifecycle.Preview) *planView {
	v := &planView{Plan: display.NewPlan(plan)}
	v.Trash = time.Duration(v.Plan.Trash) * time.Second
	for i, x := range v.Removes {
		if i == shownRemoves {
			v.More = len(v.Removes) - i
			break
		}
		v.Rows = append(v.Rows, planRow{x, f.To("builds", x.Transaction), v.Now.Sub(x.Time)})
	}
	return v
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
