package web

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
)

// scope returns the scope of a client.
func (r *Request) scope() depot.Scope {
	if r.Rights.All {
		return depot.Scope{}
	}
	return depot.Scope{Products: append([]string{}, r.Rights.Products...)} // nil would stand for all
}

// transaction returns the transaction that an address names, if the client may see
// it.
func (a *API) transaction(r *Request, number string) (t depot.Transaction, err error) {
	if a.cfg.Retention == nil || a.cfg.Transactions == nil {
		return t, &Problem{Word: "not-found"}
	}
	missing := &Problem{Word: "not-found", Detail: "there is no transaction " + clip(number)}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != number {
		return t, missing
	}
	t, err = a.cfg.Transactions.Transaction(r.Context(), n)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.Rights.MayRead(t.Product) {
		return t, missing
	}
	return t, err
}

// writable is transaction for a client that changes it.
func (a *API) writable(r *Request, number string) (t depot.Transaction, err error) {
	if err := a.may(r, changeAny); err != nil {
		return t, err
	}
	if t, err = a.transaction(r, number); err != nil {
		return t, err
	}
	if !r.Rights.MayWrite(t.Product) {
		return t, &Problem{Word: "forbidden", Detail: "they have no right to change the product " + strconv.Quote(clip(t.Product))}
	}
	if c := r.Identity.Uploads.Class; c != "" && c != t.Class {
		return t, &Problem{Word: "forbidden", Detail: "the token is for the class " + strconv.Quote(c) + " only"}
	}
	return t, nil
}

// listTransactions answers GET transactions.
func (a retentionAPI) listTransactions(w http.ResponseWriter, r *Request, _ []string) error {
	if a.cfg.Transactions == nil {
		return &Problem{Word: "not-found"}
	}
	if err := only(r, "product", "version", "who", "since", "removed", "limit", "cursor"); err != nil {
		return err
	}
	if err := r.mayRead(); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, after, err := readPage(q, "transactions")
	if err != nil {
		return err
	}
	f := depot.ListFilter{Version: q.Get("version"), Who: q.Get("who"), Limit: limit + 1}
	if q.Has("product") {
		product := q.Get("product")
		f.Product = &product
	}
	if f.Since, err = timeOf(q, "since"); err != nil {
		return err
	}
	if text := q.Get("removed"); text != "" {
		if f.Removed, err = strconv.ParseBool(text); err != nil {
			return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"removed": "true or false is expected"}}
		}
	}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before <= 0 {
			return &Problem{Word: "cursor"}
		}
	}
	list, err := a.cfg.Transactions.List(r.Context(), r.scope(), f)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		next = strconv.FormatInt(list[limit-1].Number, 10)
		list = list[:limit]
	}
	return writeList(w, r, "transactions", each(list, report.NewTransaction), next)
}

// showTransaction answers GET transactions/N.
func (a retentionAPI) showTransaction(w http.ResponseWriter, r *Request, args []string) error {
	t, err := a.transaction(r, args[0])
	if err != nil {
		return err
	}
	ctx := r.Context()
	holds, err := a.cfg.Retention.Holds(ctx, t.Number)
	if err != nil {
		return err
	}
	promotions, err := a.cfg.Retention.Promotions(ctx, t.Number)
	if err != nil {
		return err
	}
	var removal *depot.Removal
	if !t.Removed.IsZero() {
		switch x, err := a.cfg.Retention.Why(ctx, t.Number); {
		case err == nil:
			removal = &x
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	needs, err := a.cfg.Retention.Needs(ctx, t.Number)
	if err != nil {
		return err
	}
	s := report.NewState(t, holds, promotions, removal)
	s.Needs = visible(a.API, r, needs)
	if r.Rights.MayWrite(t.Product) {
		if s.Key, err = a.cfg.Retention.PushKey(ctx, t.Number); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, s)
}

// Limits of texts, in bytes.
const (
	maxReason  = 1000
	maxClass   = 200
	maxComment = 4096
)

// isControl reports whether a comment must not contain a character; a push permits
// the same ones.
func isControl(r rune) bool { return r < 0x20 && r != '\n' && r != '\t' || r == 0x7f }

// checkChange returns a problem if a change is not valid, and otherwise the end of
// its hold.
func (a *API) checkChange(r *Request, q *wire.TransactionChange) (until time.Time, err error) {
	wrong := func(field, why string) error {
		return &Problem{Word: "query", Detail: "the change is not valid", Fields: map[string]string{field: why}}
	}
	if q.Class == "" && q.Hold == nil && q.Unhold == nil && q.Comment == nil {
		return until, &Problem{Word: "query", Detail: "the body changes nothing; expected are class, hold, unhold or comment"}
	}
	if c := q.Comment; c != nil && (len(*c) > maxComment || strings.ContainsFunc(*c, isControl)) {
		return until, wrong("comment", fmt.Sprintf("has a control character, or is longer than %d bytes", maxComment))
	}
	if len(q.Class) > maxClass || !utf8.ValidString(q.Class) {
		return until, wrong("class", fmt.Sprintf("is longer than %d bytes", maxClass))
	}
	if h := q.Hold; h != nil {
		if h.Reason == "" || len(h.Reason) > maxReason {
			return until, wrong("hold.reason", fmt.Sprintf("is empty or longer than %d bytes", maxReason))
		}
		if h.Until != "" {
			if until, err = time.Parse(time.DateOnly, h.Until); err != nil {
				return until, wrong("hold.until", "a day is expected, such as 2026-12-31")
			}
		}
	}
	if q.Class != "" {
		p, err := a.cfg.Retention.Policy(r.Context())
		if err != nil {
			return until, err
		}
		if p.Number > 0 {
			if err := p.Policy.CheckClass(q.Class); err != nil {
				return until, wrong("class", err.Error())
			}
		}
	}
	return until, nil
}

// changeTransaction answers PATCH transactions/N.
func (a retentionAPI) changeTransaction(w http.ResponseWriter, r *Request, args []string) error {
	t, err := a.writable(r, args[0])
	if err != nil {
		return err
	}
	var q wire.TransactionChange
	if err := readJSON(r, maxSpecBody, &q); err != nil {
		return err
	}
	out, err := a.change(r, t, &q)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

// change changes a transaction that the client may change.
func (a *API) change(r *Request, t depot.Transaction, q *wire.TransactionChange) (out report.Changed, err error) {
	until, err := a.checkChange(r, q)
	if err != nil {
		return out, err
	}
	if q.Unhold != nil && !r.Rights.Admin {
		return out, &Problem{Word: "forbidden", Detail: "only a token with the scope admin releases holds"}
	}
	if c := r.Identity.Uploads.Class; q.Class != "" && c != "" && q.Class != c {
		return out, &Problem{Word: "forbidden", Detail: "the token is for the class " + strconv.Quote(c) + " only", Fields: map[string]string{"class": "must be " + strconv.Quote(c)}}
	}
	ctx, k := r.Context(), a.cfg.Retention
	// The hold comes first: if the rest fails, the transaction is kept.
	if q.Hold != nil {
		h := depot.Hold{Number: t.Number, Name: q.Hold.Reason, Who: r.Name, Reason: q.Hold.Reason, Until: until, Placed: a.cfg.Now().UTC().Truncate(time.Millisecond)}
		if err := k.Hold(ctx, h); err != nil {
			return out, kept(err)
		}
		l := report.NewHeld(h)
		out.Held = &l
		a.cfg.Log.Info("a hold was placed", "request", r.ID, "by", r.Name, "transaction", t.Number, "reason", h.Reason)
	}
	if q.Class != "" {
		p, err := k.Promote(ctx, t.Number, q.Class, r.Name)
		if err != nil {
			return out, kept(err)
		}
		l := report.NewPromoted(p)
		out.Promoted = &l
		a.cfg.Log.Info("a transaction was promoted", "request", r.ID, "by", r.Name, "transaction", t.Number, "from", p.From, "to", p.To)
	}
	if q.Comment != nil {
		changed, err := k.SetComment(ctx, t.Number, *q.Comment)
		if err != nil {
			return out, kept(err)
		}
		l := report.NewTransaction(changed)
		out.Transaction = &l
		a.cfg.Log.Info("the comment of a transaction was changed", "request", r.ID, "by", r.Name, "transaction", t.Number, "before", clip(t.Comment))
	}
	if q.Unhold != nil {
		list, err := k.Unhold(ctx, t.Number, *q.Unhold)
		if err != nil {
			return out, kept(err)
		}
		out.Released = report.NewHolds(list)
		a.cfg.Log.Info("holds were released", "request", r.ID, "by", r.Name, "transaction", t.Number, "count", len(list))
	}
	return out, nil
}

// removeTransaction answers DELETE transactions/N. With purge, the bytes are freed
// at once.
func (a retentionAPI) removeTransaction(w http.ResponseWriter, r *Request, args []string) error {
	t, err := a.writable(r, args[0])
	if err != nil {
		return err
	}
	if err := only(r, "plan", "purge", "reason"); err != nil {
		return err
	}
	q := r.URL.Query()
	purge := false
	if text := q.Get("purge"); text != "" {
		if purge, err = strconv.ParseBool(text); err != nil {
			return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"purge": "true or false is expected"}}
		}
	}
	if reason := q.Get("reason"); len(reason) > maxReason || reason != "" && !purge {
		return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{"reason": fmt.Sprintf("belongs to a purge and has at most %d bytes", maxReason)}}
	}
	if purge && !r.Rights.Admin {
		return &Problem{Word: "forbidden", Detail: "only a token with the scope admin purges"}
	}
	if !t.Removed.IsZero() && !purge {
		return &Problem{Word: "conflict", Detail: fmt.Sprintf("transaction %d was removed already, on %s", t.Number, t.Removed.UTC().Format(time.RFC3339))}
	}
	if !purge {
		if t, err = a.remove(r, t, q.Get("plan")); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, report.NewTransaction(t))
	}
	p, err := a.purge(r, t, q.Get("plan"), q.Get("reason"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, report.NewPurged(p))
}

// planned returns a problem if the removal of a transaction is not the plan that the client
// has seen; "" is any plan.
func (a *API) planned(r *Request, t depot.Transaction, plan string) error {
	if plan == "" {
		return nil
	}
	now, err := a.removePlan(r, t)
	if err == nil && now.Plan != plan {
		err = &Problem{Word: "plan-changed", Detail: fmt.Sprintf("the removal of transaction %d is plan %s now", t.Number, now.Plan)}
	}
	return err
}

// remove removes a transaction that the client may change, if plan is still what its
// removal would do.
func (a *API) remove(r *Request, t depot.Transaction, plan string) (depot.Transaction, error) {
	done, err := a.computing(r)
	if err != nil {
		return t, err
	}
	defer done()
	if err := a.planned(r, t, plan); err != nil {
		return t, err
	}
	if t, err = a.cfg.Retention.Remove(r.Context(), t.Number, r.Name); err != nil {
		return t, kept(err)
	}
	a.cfg.Log.Info("a transaction was removed", "request", r.ID, "by", r.Name, "transaction", t.Number)
	return t, nil
}

// purge frees the bytes of a transaction at once, and records that.
func (a *API) purge(r *Request, t depot.Transaction, plan, reason string) (depot.Purged, error) {
	done, err := a.computing(r)
	if err != nil {
		return depot.Purged{}, err
	}
	defer done()
	if err := a.planned(r, t, plan); err != nil {
		return depot.Purged{}, err
	}
	p, err := a.cfg.Retention.Purge(r.Context(), t.Number, r.Name, reason)
	if p.Transaction.Number > 0 { // also if bytes could not be freed
		e := auth.PurgeEvent(t.Number, t.Product, reason, report.NewPurged(p).Frees)
		e.By(&r.Identity)
		e.Remote, e.Agent = r.RemoteAddr, r.UserAgent()
		if record := a.cfg.Purged(e); record != nil {
			return p, errors.Join(err, record)
		}
	}
	return p, kept(err)
}

// removePlan computes the space that the removal of a transaction frees.
func (a *API) removePlan(r *Request, t depot.Transaction) (report.RemovePlan, error) {
	s, _, err := a.cfg.Retention.Snapshot(r.Context())
	if err != nil {
		return report.RemovePlan{}, err
	}
	removal, err := s.Removal(t.Number)
	if err != nil {
		return report.RemovePlan{}, &Problem{Word: wire.ProblemNotInTrash, Detail: fmt.Sprintf("transaction %d was removed already", t.Number)}
	}
	l, err := report.NewRemovePlan(t.Number, removal)
	// Holders of products that the client may not see are not named.
	l.Holders = visible(a, r, l.Holders)
	return l, err
}

// visible returns the numbers of the transactions that a client may see.
func visible(a *API, r *Request, numbers []int64) []int64 {
	out := []int64{}
	for _, n := range numbers {
		if t, err := a.cfg.Transactions.Transaction(r.Context(), n); err == nil && r.Rights.MayRead(t.Product) {
			out = append(out, n)
		}
	}
	return out
}

// makeRemovePlan answers POST plans of the kind remove.
func (a *API) makeRemovePlan(w http.ResponseWriter, r *Request, number int64) error {
	t, err := a.writable(r, strconv.FormatInt(number, 10))
	if err != nil {
		return err
	}
	done, err := a.computing(r)
	if err != nil {
		return err
	}
	defer done()
	l, err := a.removePlan(r, t)
	done()
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusCreated, l)
}

// undoRemoval answers POST transactions/N/undo.
func (a retentionAPI) undoRemoval(w http.ResponseWriter, r *Request, args []string) error {
	t, err := a.writable(r, args[0])
	if err != nil {
		return err
	}
	if t, err = a.cfg.Retention.Undo(r.Context(), t.Number, r.Name); err != nil {
		return kept(err)
	}
	return writeJSON(w, http.StatusOK, report.NewTransaction(t))
}
