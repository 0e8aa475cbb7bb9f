package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// transactionAPI answers requests about transactions.
type transactionAPI struct {
	acts    *web.Transactions
	depot   web.Depot
	history web.History
}

func (a transactionAPI) routes() []route {
	return []route{
		on(http.MethodGet, "v1/builds", a.listTransactions),
		bare(on(http.MethodGet, "v1/builds/*", a.showTransaction)),
		bare(on(http.MethodPatch, "v1/builds/*", a.changeTransaction)),
		on(http.MethodDelete, "v1/builds/*", a.removeTransaction),
		bare(on(http.MethodPost, "v1/builds/*/undo", a.undoRemoval)),
	}
}

// listTransactions answers GET builds.
func (a transactionAPI) listTransactions(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "product", "version", "who", "since", "removed", "limit", "cursor"); err != nil {
		return err
	}
	if err := r.MayRead(); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, after, err := web.ReadPage(q, "builds")
	if err != nil {
		return err
	}
	f := depot.ListFilter{Version: q.Get("version"), Who: q.Get("who"), Limit: limit + 1}
	if q.Has("product") {
		product := q.Get("product")
		f.Product = &product
	}
	if f.Since, err = web.TimeOf(q, "since"); err != nil {
		return err
	}
	if text := q.Get("removed"); text != "" {
		if f.Removed, err = strconv.ParseBool(text); err != nil {
			return web.BadParameter("removed", "true or false is expected")
		}
	}
	if after != "" {
		if f.Before, err = strconv.ParseInt(after, 10, 64); err != nil || f.Before <= 0 {
			return &web.Problem{Word: "cursor"}
		}
	}
	list, err := a.depot.List(r.Context(), r.Scope(), f)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		next = strconv.FormatInt(list[limit-1].Number, 10)
		list = list[:limit]
	}
	return web.WriteList(w, r, "builds", web.Describe(list, display.NewTransaction), next)
}

// showTransaction answers GET builds/N.
func (a transactionAPI) showTransaction(w http.ResponseWriter, r *web.Request, args []string) error {
	t, err := a.acts.Find(r, args[0])
	if err != nil {
		return err
	}
	ctx := r.Context()
	holds, err := a.history.Holds(ctx, t.Number)
	if err != nil {
		return err
	}
	promotions, err := a.history.Promotions(ctx, t.Number)
	if err != nil {
		return err
	}
	var removal *lifecycle.Removal
	if !t.Removed.IsZero() {
		switch x, err := a.history.Why(ctx, t.Number); {
		case err == nil:
			removal = &x
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	needs, err := a.history.Needs(ctx, t.Number)
	if err != nil {
		return err
	}
	s := display.NewState(t, holds, promotions, removal)
	s.Needs = a.acts.Visible(r, needs)
	if r.Rights.MayWrite(t.Product) {
		if s.Key, err = a.history.PushKey(ctx, t.Number); err != nil {
			return err
		}
	}
	return web.WriteJSON(w, http.StatusOK, s)
}

// changeTransaction answers PATCH builds/N.
func (a transactionAPI) changeTransaction(w http.ResponseWriter, r *web.Request, args []string) error {
	t, err := a.acts.Writable(r, args[0])
	if err != nil {
		return err
	}
	var q wire.TransactionChange
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	out, err := a.acts.Change(r, t, &q)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// removeTransaction answers DELETE builds/N. With purge, the bytes are freed
// at once.
func (a transactionAPI) removeTransaction(w http.ResponseWriter, r *web.Request, args []string) error {
	t, err := a.acts.Writable(r, args[0])
	if err != nil {
		return err
	}
	if err := web.OnlyParameters(r, "plan", "purge", "reason"); err != nil {
		return err
	}
	q := r.URL.Query()
	purge := false
	if text := q.Get("purge"); text != "" {
		if purge, err = strconv.ParseBool(text); err != nil {
			return web.BadParameter("purge", "true or false is expected")
		}
	}
	if reason := q.Get("reason"); len(reason) > web.MaxReason || reason != "" && !purge {
		return web.BadParameter("reason", fmt.Sprintf("belongs to a purge and has at most %d bytes", web.MaxReason))
	}
	if purge && !r.Rights.Admin {
		return &web.Problem{Word: "forbidden", Detail: "only a token with the scope admin purges"}
	}
	if !t.Removed.IsZero() && !purge {
		return &web.Problem{
			Word:   "conflict",
			Detail: fmt.Sprintf("build %d was removed already, on %s", t.Number, t.Removed.UTC().Format(time.RFC3339)),
		}
	}
	if !purge {
		if t, err = a.acts.Remove(r, t, q.Get("plan")); err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, display.NewTransaction(t))
	}
	p, err := a.acts.Purge(r, t, q.Get("plan"), q.Get("reason"))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, display.NewPurged(p))
}

// undoRemoval answers POST builds/N/undo.
func (a transactionAPI) undoRemoval(w http.ResponseWriter, r *web.Request, args []string) error {
	t, err := a.acts.Writable(r, args[0])
	if err != nil {
		return err
	}
	if t, err = a.acts.Undo(r, t); err != nil {
		return web.RetentionProblem(err)
	}
	return web.WriteJSON(w, http.StatusOK, display.NewTransaction(t))
}
