package api

import (
	"encoding/csv"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// signInAPI answers requests about who the client is, sign-ins and the audit log.
type signInAPI struct {
	*web.Accounts
	log *slog.Logger
}

func (s signInAPI) routes() []route {
	return []route{
		bare(on(http.MethodGet, "v1/me", s.me)),
		on(http.MethodGet, "v1/signins", s.listSignIns),          //nolint:misspell // a word of addresses
		bare(on(http.MethodDelete, "v1/signins/*", s.endSignIn)), //nolint:misspell // as above
		on(http.MethodGet, "v1/audit", s.listAudit),
	}
}

// me answers GET me.
func (s signInAPI) me(w http.ResponseWriter, r *web.Request, _ []string) error {
	return web.WriteJSON(w, http.StatusOK, web.Whoami(&r.Principal))
}

// listSignIns answers the GET request for the list of sign-ins.
func (s signInAPI) listSignIns(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "limit", "cursor"); err != nil {
		return err
	}
	list, next, err := web.PageOfTokens(w, r, "sign-ins", func() ([]auth.TokenRow, error) { return s.SignIns(r) })
	if err != nil {
		return err
	}
	out := wire.SignInList{Items: []wire.SignInInfo{}, Next: next}
	for i := range list {
		out.Items = append(out.Items, s.SignInOf(r, &list[i]))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// endSignIn answers the DELETE request for a sign-in.
func (s signInAPI) endSignIn(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := s.FinishSignIn(r, args[0]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// auditPart is the answer to GET audit.
type auditPart struct {
	Items []auth.Event `json:"items"`
	Next  string       `json:"next,omitempty"`
	// Read is how many bytes of the log the answer took, Damaged how many lines of them
	// are no records.
	Read    int64 `json:"read"`
	Damaged int   `json:"damaged,omitempty"`
}

// audit answers GET audit.
func (s signInAPI) listAudit(w http.ResponseWriter, r *web.Request, _ []string) error {
	filters := []string{"since", "until", "who", "product", "file", "id", "action", "remote", "node"}
	if err := web.OnlyParameters(r, append(filters, "order", "format", "limit", "cursor")...); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, after, err := web.ReadPage(q, "audit")
	if err != nil {
		return err
	}
	step := auth.AuditStep{After: after, Limit: limit}
	if step.Filter, err = s.AuditFilter(q); err != nil {
		return err
	}
	order, err := web.WordOf(q, "order", "newest", "oldest")
	if err != nil {
		return err
	}
	step.Oldest = order == "oldest"
	form, err := wholeForm(r)
	if err != nil {
		return err
	}
	if form != "" {
		if q.Has("limit") || after != "" {
			return web.WrongParameter("format", "this form has the whole list, and takes neither limit nor cursor")
		}
		return s.auditWhole(w, r, form, step)
	}
	page, err := s.AuditStep(r, step)
	if err != nil {
		return err
	}
	out := auditPart{Items: page.Events, Read: page.Read, Damaged: page.Damaged}
	if out.Items == nil {
		out.Items = []auth.Event{}
	}
	out.Next = web.LinkNext(w, r, "audit", page.Next)
	return web.WriteJSON(w, http.StatusOK, out)
}

// auditColumns are the columns of the audit log as CSV.
var auditColumns = []string{
	"time", "who", "method", "token", "address", "action", "protocol", "status", "bytes", "products", "name", "id",
	"server", "detail",
}

// auditWhole answers with all records, as comma-separated values or as lines of JSON.
func (s signInAPI) auditWhole(w http.ResponseWriter, r *web.Request, form string, step auth.AuditStep) error {
	step.Limit = web.MaxListRows
	page, err := s.AuditStep(r, step)
	if err != nil {
		return err
	}
	if wholeHead(w, r, form, "audit") {
		return nil
	}
	table, lines := csv.NewWriter(w), json.NewEncoder(w)
	if form == web.FormCSV {
		_ = table.Write(auditColumns) // Flush reports failures
	}
	for {
		for i := range page.Events {
			if form == web.FormCSV {
				_ = table.Write(auditCells(&page.Events[i])) // as above
			} else if err := lines.Encode(&page.Events[i]); err != nil {
				return web.ErrCut
			}
		}
		if table.Flush(); table.Error() != nil {
			return web.ErrCut
		}
		if step.After = page.Next; step.After == "" {
			break
		}
		if page, err = s.AuditStep(r, step); err != nil {
			s.log.Error("the audit log cannot be read on", "request", r.ID, "error", err)
			return web.ErrCut
		}
	}
	if form == web.FormNDJSON {
		if err := lines.Encode(map[string]bool{"end": true}); err != nil {
			return web.ErrCut
		}
	}
	return nil
}

// auditCells are the values of a record, in the order of auditColumns.
func auditCells(e *auth.Event) []string {
	return []string{
		e.Time.UTC().Format(time.RFC3339), display.Cell(e.Who), string(e.Method), e.TokenID, display.Cell(e.Remote),
		e.Action, e.Protocol, strconv.Itoa(e.Status),
		strconv.FormatInt(e.Bytes, 10), display.Cell(strings.Join(e.Products, ", ")), display.Cell(e.Name),
		display.Cell(e.ID), display.Cell(e.Node), display.Cell(e.Detail),
	}
}
