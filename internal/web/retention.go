package web

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/retention"
	"github.com/symdepot/symdepot/internal/stage"
	"github.com/symdepot/symdepot/internal/wire"
)

// Retention is the part of the retention of a depot that the API uses.
type Retention interface {
	Policy(ctx context.Context) (depot.PolicyInForce, error)
	SetPolicy(ctx context.Context, file string, text []byte, who string, before int64) (depot.PolicyInForce, error)
	Preview(ctx context.Context, who string) (*depot.Preview, error)
	Planned(ctx context.Context, number string) (*depot.Preview, error)
	Apply(ctx context.Context, number string, yesRemove int, who string) (depot.Applied, error)
	Runs(ctx context.Context, before int64, limit int) ([]depot.RetentionRun, error)
	KindOfPlan(ctx context.Context, number string) (depot.PlanKind, error)
	PlanCollection(ctx context.Context, opt depot.CollectOptions, who string) (depot.CollectionPlan, error)
	PlannedCollection(ctx context.Context, number string) (depot.CollectionPlan, error)
	ApplyCollection(ctx context.Context, number string) (depot.Collected, error)
	Snapshot(ctx context.Context) (*retention.State, int64, error)
	Usage(ctx context.Context) (*depot.Usage, error)
	UsageOverTime(ctx context.Context, f depot.UsageFilter) ([]depot.UsageDay, error)

	Hold(ctx context.Context, h depot.Hold) error
	Unhold(ctx context.Context, number int64, name string) ([]depot.Hold, error)
	Holds(ctx context.Context, number int64) ([]depot.Hold, error)
	Promote(ctx context.Context, number int64, class, who string) (depot.Promotion, error)
	Promotions(ctx context.Context, number int64) ([]depot.Promotion, error)
	Needs(ctx context.Context, number int64) ([]int64, error)
	PushKey(ctx context.Context, number int64) (string, error)
	SetComment(ctx context.Context, number int64, comment string) (depot.Transaction, error)
	Remove(ctx context.Context, number int64, who string) (depot.Transaction, error)
	Purge(ctx context.Context, number int64, who, detail string) (depot.Purged, error)
	Undo(ctx context.Context, number int64, who string) (depot.Transaction, error)
	Why(ctx context.Context, number int64) (depot.Removal, error)
}

// Transactions are the transactions of a depot.
type Transactions interface {
	List(ctx context.Context, scope depot.Scope, f depot.ListFilter) ([]depot.Transaction, error)
	Transaction(ctx context.Context, number int64) (depot.Transaction, error)
}

var (
	_ Retention    = (*depot.Retention)(nil)
	_ Transactions = (*depot.Depot)(nil)
)

const (
	// maxComputing is how many plans and sums are computed at the same time: each
	// reads the facts about all transactions into memory.
	maxComputing = 2
	// computeWait is how long a request waits for that.
	computeWait = time.Minute
)

// computing waits until few plans are computed. The caller calls done.
func (a *API) computing(r *Request) (done func(), err error) {
	return r.turn(a.compute, commitTime, "other plans are being computed")
}

// turn waits for a place in a semaphore, for work of a given time; why says what the
// others do that have all places. The caller calls done, before it answers: the client may
// read slowly. Later calls of done do nothing.
func (r *Request) turn(gate chan struct{}, work time.Duration, why string) (done func(), err error) {
	r.Allow(computeWait + work)
	t := time.NewTimer(computeWait)
	defer t.Stop()
	select {
	case gate <- struct{}{}:
		return sync.OnceFunc(func() {
			<-gate
			r.Allow(0)
		}), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-t.C:
		return nil, &Problem{Word: "busy", Detail: why}
	}
}

// needs returns the right that a request needs.
type needs uint8

const (
	readAll   needs = iota // reading all products
	changeAny              // changing something: the handler asks for the product
	administer
)

// may returns a problem if the client lacks a right, or if the server has no
// retention.
func (a *API) may(r *Request, need needs) error {
	ok, text := r.Rights.Admin, "this needs a token with the scope admin"
	switch need {
	case readAll:
		ok, text = r.Rights.All, "this needs the right to read all products"
	case changeAny:
		ok, text = r.Rights.Write, "this needs a token with the scope write"
		if r.Identity.Exchanged {
			ok, text = false, "the token of a CI job adds files, and changes nothing else"
		}
	}
	switch {
	case ok && a.cfg.Retention == nil:
		return &Problem{Word: "not-found"}
	case ok:
		return nil
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials", Detail: text}
	case r.Anonymous:
		return &Problem{Word: "forbidden", Detail: "this server accepts no changes, because no credentials are configured"}
	}
	return &Problem{Word: "forbidden", Detail: text}
}

// only refuses query parameters with other names: a misspelled one would be ignored
// otherwise.
func only(r *Request, names ...string) error {
next:
	for name := range r.URL.Query() {
		for _, n := range names {
			if n == name {
				continue next
			}
		}
		return &Problem{Word: "query", Detail: "the query has an unknown parameter", Fields: map[string]string{clip(name): "is unknown"}}
	}
	return nil
}

// kept returns the problem that an error of retention is.
func kept(err error) error {
	if err == nil || asProblem(err) != nil {
		return err
	}
	var word string
	detail := err.Error()
	hold, held := errors.AsType[*depot.ErrHeld](err)
	trash, outside := errors.AsType[*depot.NotInTrashError](err)
	_, fault := errors.AsType[*retention.Fault](err)
	switch {
	case errors.Is(err, depot.ErrNoPolicy):
		word = wire.ProblemNoPolicy
	case errors.Is(err, depot.ErrNoPlan):
		word = wire.ProblemNotFound
	case errors.Is(err, retention.ErrStale):
		word = wire.ProblemPlanChanged
	case errors.Is(err, retention.ErrBrake):
		word = wire.ProblemBrake
	case errors.Is(err, depot.ErrPolicyChanged):
		return &Problem{Word: wire.ProblemChanged, Detail: "the policy was changed meanwhile; read it again"}
	case held: // without the path of the index
		word, detail = wire.ProblemHeld, hold.Error()
	case outside:
		word, detail = wire.ProblemNotInTrash, trash.Error()
	case fault:
		word = "query"
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Word: wire.ProblemNotFound}
	default:
		return err
	}
	return &Problem{Word: word, Detail: detail}
}

// etag is the entity tag of a policy: its number.
func etag(p depot.PolicyInForce) string { return `"` + strconv.FormatInt(p.Number, 10) + `"` }

// showRules answers GET retention/rules.
func (a retentionAPI) showRules(w http.ResponseWriter, r *Request, _ []string) error {
	if err := a.may(r, readAll); err != nil {
		return err
	}
	p, err := a.cfg.Retention.Policy(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Etag", etag(p))
	return writeJSON(w, http.StatusOK, report.NewPolicy(p))
}

// setRules answers PUT retention/rules.
func (a retentionAPI) setRules(w http.ResponseWriter, r *Request, _ []string) error {
	if err := a.may(r, administer); err != nil {
		return err
	}
	before, err := ifMatch(r.Header.Values("If-Match"))
	if err != nil {
		return err
	}
	if c := r.Header.Get("Content-Encoding"); c != "" && c != identity {
		return &Problem{Word: "coding", Detail: "a policy is accepted only without a content coding"}
	}
	const most = retention.MaxPolicyBytes + 1 // what is too long is refused with the other faults
	text, err := r.Memory.Read(r.Context(), io.LimitReader(r.Body, most), most)
	if err != nil {
		return err
	}
	r.Allow(answerTime)
	p, err := a.cfg.Retention.SetPolicy(r.Context(), "policy", text, r.Name, before)
	if err != nil {
		return kept(err)
	}
	a.cfg.Log.Info("the retention policy was set", "request", r.ID, "by", r.Name, "number", p.Number, "hash", p.Policy.Hash())
	w.Header().Set("Etag", etag(p))
	return writeJSON(w, http.StatusOK, report.NewPolicy(p))
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
		return 0, &Problem{Word: "query", Detail: "the header field If-Match is missing or not valid: send the entity tag of the policy that is replaced, or * for any"}
	}
	return n, nil
}

// listRuns answers GET retention/runs.
func (a retentionAPI) listRuns(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(a.may(r, readAll), only(r, "limit", "cursor")); err != nil {
		return err
	}
	limit, after, err := readPage(r.URL.Query(), "runs")
	if err != nil {
		return err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil || before <= 0 {
			return &Problem{Word: "cursor"}
		}
	}
	list, err := a.cfg.Retention.Runs(r.Context(), before, limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = strconv.FormatInt(list[limit-1].No, 10)
	}
	return writeList(w, r, "runs", list, next)
}

// makePlan answers POST plans.
func (a retentionAPI) makePlan(w http.ResponseWriter, r *Request, _ []string) error {
	if err := a.may(r, changeAny); err != nil {
		return err
	}
	var q wire.PlanSpec
	if err := readSpec(r, &q); err != nil {
		return err
	}
	gc := q.Kind == wire.PlanGC
	switch {
	case !gc && (q.Grace != nil || q.EmptyTrash):
		return &Problem{Word: "query", Detail: "grace and empty_trash belong to a plan of the kind gc"}
	case q.Kind == wire.PlanRemove:
		return a.makeRemovePlan(w, r, q.Transaction)
	case q.Kind != "" && q.Kind != wire.PlanRetention && !gc || q.Transaction != 0:
		return &Problem{Word: "query", Detail: "the kind of plan is not valid", Fields: map[string]string{"kind": "retention, gc, or remove with a transaction, is expected"}}
	}
	if err := a.may(r, readAll); err != nil {
		return err
	}
	done, err := a.computing(r)
	if err != nil {
		return err
	}
	defer done()
	if gc {
		return a.makeCollectionPlan(w, r, q)
	}
	p, err := a.cfg.Retention.Preview(r.Context(), r.Name)
	if err != nil {
		return kept(err)
	}
	done()
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+p.Ticket.Number)
	return writeJSON(w, http.StatusCreated, report.NewPlan(p))
}

// showPlan answers GET plans/ID.
func (a retentionAPI) showPlan(w http.ResponseWriter, r *Request, args []string) error {
	if err := a.may(r, readAll); err != nil {
		return err
	}
	done, err := a.computing(r)
	if err != nil {
		return err
	}
	defer done()
	kind, err := a.cfg.Retention.KindOfPlan(r.Context(), args[0])
	if err != nil {
		return kept(err)
	}
	if kind == depot.PlanOfCollection {
		p, err := a.cfg.Retention.PlannedCollection(r.Context(), args[0])
		if err != nil {
			return kept(err)
		}
		done()
		return writeJSON(w, http.StatusOK, report.NewCollectionPlan(p))
	}
	p, err := a.cfg.Retention.Planned(r.Context(), args[0])
	if err != nil {
		return kept(err)
	}
	done()
	return writeJSON(w, http.StatusOK, report.NewPlan(p))
}

// applyPlan answers POST plans/ID/apply.
func (a retentionAPI) applyPlan(w http.ResponseWriter, r *Request, args []string) error {
	if err := a.may(r, administer); err != nil {
		return err
	}
	var q wire.PlanApply
	if err := readSpec(r, &q); err != nil {
		return err
	}
	if q.YesRemove < 0 {
		return &Problem{Word: "query", Detail: "the number is not valid", Fields: map[string]string{"yes_remove": "is below 0"}}
	}
	if q.Kind != "" && q.Kind != wire.PlanRetention && q.Kind != wire.PlanGC {
		return &Problem{Word: "query", Detail: "the kind of plan is not valid", Fields: map[string]string{"kind": "retention or gc is expected"}}
	}
	done, err := a.computing(r)
	if err != nil {
		return err
	}
	defer done()
	if q.Kind == "" {
		kind, err := a.cfg.Retention.KindOfPlan(r.Context(), args[0])
		if err == nil && kind == depot.PlanOfCollection {
			q.Kind = wire.PlanGC
		}
	}
	if q.Kind == wire.PlanGC {
		return a.applyCollection(w, r, args[0], q)
	}
	applied, err := a.cfg.Retention.Apply(r.Context(), args[0], q.YesRemove, r.Name)
	if err != nil {
		return kept(err)
	}
	a.cfg.Log.Info("a retention plan was applied", "request", r.ID, "by", r.Name, "plan", applied.Run.Plan, "removed", applied.Run.Removed)
	return writeJSON(w, http.StatusOK, report.NewRun(applied))
}

// usage answers GET usage.
func (a retentionAPI) usage(w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(a.may(r, readAll), only(r, "from", "to", "by", "product")); err != nil {
		return err
	}
	if r.URL.RawQuery != "" {
		return a.usageDays(w, r)
	}
	done, err := a.computing(r)
	if err != nil {
		return err
	}
	defer done()
	u, err := a.cfg.Retention.Usage(r.Context())
	if err != nil {
		return err
	}
	quotas, err := Quotas(r.Context(), a.cfg.Stages)
	if err != nil {
		return err
	}
	done()
	return writeJSON(w, http.StatusOK, report.NewUsage(u, quotas, a.watchedFolders(r.Context())))
}

// Quotas returns the quotas of all products, in bytes.
func Quotas(ctx context.Context, s Stages) (map[string]int64, error) {
	if s == nil {
		return nil, nil
	}
	all := func(string) bool { return true }
	l, err := s.Limits(ctx, stage.Caller{Read: all, Write: all})
	if err != nil {
		return nil, refused(err)
	}
	quotas := map[string]int64{}
	for _, q := range l.Used {
		quotas[q.Product] = q.Bytes
	}
	return quotas, nil
}
