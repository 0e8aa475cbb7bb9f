package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// Policy returns the policy in force.
func (a *API) Policy(ctx context.Context) (display.Policy, error) {
	return call[display.Policy](ctx, a, request{method: http.MethodGet, path: wire.RulesPath})
}

// SetPolicy sets a policy. file names it in errors, which are a *retention.Fault if the text
// is wrong. before is the number of the policy that must be in force; negative: any.
func (a *API) SetPolicy(ctx context.Context, file string, text []byte, before int64) (display.Policy, error) {
	if _, err := retention.Parse(file, text); err != nil {
		return display.Policy{}, err // with the name of the file
	}
	match := "*"
	if before >= 0 {
		match = strconv.Quote(strconv.FormatInt(before, 10))
	}
	header := http.Header{"Content-Type": {"application/yaml"}, "If-Match": {match}}
	return call[display.Policy](ctx, a, request{method: http.MethodPut, path: wire.RulesPath, header: header, body: append([]byte{}, text...)})
}

// plan makes a plan.
func plan[T any](ctx context.Context, a *API, q wire.PlanSpec) (T, error) {
	return send[T](ctx, a, http.MethodPost, wire.PlansPath, q, nil)
}

// apply applies a plan.
func apply[T any](ctx context.Context, a *API, number string, q wire.PlanApply) (T, error) {
	return send[T](ctx, a, http.MethodPost, wire.PlansPath+"/"+url.PathEscape(number)+"/apply", q, lifecycle.ErrNoPlan)
}

// Preview makes a plan of the policy in force.
func (a *API) Preview(ctx context.Context) (display.Plan, error) {
	return plan[display.Plan](ctx, a, wire.PlanSpec{Kind: wire.PlanRetention})
}

// Apply applies a plan of the policy. yesRemove is the number of transactions in a plan that
// the brake holds, or 0.
func (a *API) Apply(ctx context.Context, number string, yesRemove int) (display.Run, error) {
	return apply[display.Run](ctx, a, number, wire.PlanApply{Kind: wire.PlanRetention, YesRemove: yesRemove})
}

// PlanCollection computes the garbage that a collection would free, as a plan. The grace is
// rounded up to seconds.
func (a *API) PlanCollection(ctx context.Context, grace time.Duration, emptyTrash bool) (display.Collected, error) {
	seconds := int64((grace + time.Second - 1) / time.Second)
	return plan[display.Collected](ctx, a, wire.PlanSpec{Kind: wire.PlanGC, Grace: &seconds, EmptyTrash: emptyTrash})
}

// ApplyCollection applies a plan of a collection.
func (a *API) ApplyCollection(ctx context.Context, number string) (display.Collected, error) {
	return apply[display.Collected](ctx, a, number, wire.PlanApply{Kind: wire.PlanGC})
}

// collectTries is how often a collection is planned again because the depot has
// changed before it was applied.
const collectTries = 5

// Collect collects garbage without a plan that was shown.
func (a *API) Collect(ctx context.Context, grace time.Duration, emptyTrash bool) (c display.Collected, err error) {
	for range collectTries {
		if c, err = a.PlanCollection(ctx, grace, emptyTrash); err != nil {
			return c, err
		}
		if c, err = a.ApplyCollection(ctx, c.Plan); !errors.Is(err, retention.ErrStale) {
			break
		}
	}
	return c, err
}

// Usage returns what takes the space of the depot.
func (a *API) Usage(ctx context.Context) (display.Usage, error) {
	return call[display.Usage](ctx, a, request{method: http.MethodGet, path: wire.UsagePath})
}

// maxUsageDays is how many days one request is answered for.
const maxUsageDays = 3 * 366

// UsageDays returns what took the space day by day: the whole depot, or one product. Long
// times take several requests.
func (a *API) UsageDays(ctx context.Context, from, to time.Time, product *string) (days []display.UsageDay, err error) {
	for ; !from.After(to); from = from.AddDate(0, 0, maxUsageDays) {
		last := from.AddDate(0, 0, maxUsageDays-1)
		if last.After(to) {
			last = to
		}
		q := url.Values{"from": {from.UTC().Format(time.DateOnly)}, "to": {last.UTC().Format(time.DateOnly)}, "by": {wire.UsageByTotal}}
		if product != nil {
			q["by"], q["product"] = []string{wire.UsageByProduct}, []string{*product}
		}
		part, err := call[struct {
			Items []display.UsageDay `json:"items"`
		}](ctx, a, request{method: http.MethodGet, path: wire.UsagePath, query: q})
		if err != nil {
			return nil, err
		}
		days = append(days, part.Items...)
	}
	return days, nil
}
