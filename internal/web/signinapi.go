package web

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/wire"
)

// whoami says who a client is and what it may do.
func whoami(p *Principal) wire.Me {
	id, rights := &p.Identity, &p.Rights
	me := wire.Me{
		Name: id.Name, Anonymous: id.Anonymous(), Method: string(id.Method), Carrier: id.Carrier, TokenID: id.TokenID, SignIn: id.SignIn,
		Rights: wire.Rights{Admin: rights.Admin, Read: products(rights.All, rights.Products), Write: products(rights.WriteAll, rights.WriteProducts)},
	}
	if !id.Until.IsZero() {
		me.Until = id.Until.UTC()
	}
	me.Words = rightsInWords(&me.Rights)
	return me
}

// products returns nil for all products, and otherwise a list that is not nil.
func products(all bool, list []string) []string {
	if all {
		return nil
	}
	return append([]string{}, list...)
}

// rightsInWords says in sentences what rights are.
func rightsInWords(r *wire.Rights) []string {
	if r.Admin {
		return []string{"You are an administrator and may do everything."}
	}
	say := func(what string, list []string) string {
		names := make([]string, len(list))
		for i, p := range list {
			if names[i] = strconv.Quote(p); p == "" {
				names[i] = "without a name"
			}
		}
		switch n := len(names); {
		case list == nil:
			return "You may " + what + " all products."
		case n == 0:
			return "You may not " + what + " any product."
		case n == 1:
			return "You may " + what + " the product " + names[0] + "."
		default:
			return "You may " + what + " the products " + strings.Join(names[:n-1], ", ") + " and " + names[n-1] + "."
		}
	}
	return []string{say("read", r.Read), say("add files to", r.Write)}
}

// me answers GET me.
func (s accounts) me(w http.ResponseWriter, r *Request, _ []string) error {
	return writeJSON(w, http.StatusOK, whoami(&r.Principal))
}

// signIns returns the sign-ins that the client may see and that have not ended, oldest
// first.
func (s accounts) signIns(r *Request) ([]auth.TokenRow, error) {
	if err := s.known(r); err != nil {
		return nil, err
	}
	list, err := s.api.cfg.Tokens.SignIns(r.Context())
	now := s.api.cfg.Now()
	list = slices.DeleteFunc(list, func(row auth.TokenRow) bool { _, ok := auth.DescribeSignIn(&row, now); return !ok })
	return managed(r, list), err
}

// signInOf describes a sign-in.
func (s accounts) signInOf(r *Request, row *auth.TokenRow) wire.SignInInfo {
	i, _ := auth.DescribeSignIn(row, s.api.cfg.Now())
	return wire.SignInInfo{
		ID: i.ID, Name: i.Name, Method: string(i.Method), TokenID: i.TokenID, Address: i.Remote, Browser: i.Agent,
		Created: i.Created.UTC(), LastUsed: i.LastUsed.UTC(), Expires: i.Expires.UTC(), Current: i.ID == r.Identity.SignIn,
	}
}

// listSignIns answers the GET request for the list of sign-ins.
func (s accounts) listSignIns(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "limit", "cursor"); err != nil {
		return err
	}
	list, next, err := pageOf(w, r, "sign-ins", func() ([]auth.TokenRow, error) { return s.signIns(r) })
	if err != nil {
		return err
	}
	out := wire.SignInList{Items: []wire.SignInInfo{}, Next: next}
	for i := range list {
		out.Items = append(out.Items, s.signInOf(r, &list[i]))
	}
	return writeJSON(w, http.StatusOK, out)
}

// endSignIn answers the DELETE request for a sign-in.
func (s accounts) endSignIn(w http.ResponseWriter, r *Request, args []string) error {
	if err := s.finishSignIn(r, args[0]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// finishSignIn ends a sign-in that the client may see. Other servers notice within
// seconds.
func (s accounts) finishSignIn(r *Request, id string) error {
	list, err := s.signIns(r)
	if err != nil {
		return err
	}
	none := &Problem{Word: "not-found", Detail: "there is no such sign-in"}
	if !slices.ContainsFunc(list, func(row auth.TokenRow) bool { return row.ID == id }) {
		return none
	}
	switch err := s.api.cfg.Tokens.EndSignIn(r.Context(), id); {
	case errors.Is(err, fs.ErrNotExist):
		return none
	case err != nil:
		return err
	}
	s.api.cfg.Log.Info("a sign-in was ended", "request", r.ID, "signin_id", id, "by", r.Identity.Maker())
	return nil
}

// auditFilter reads the filters of a request for the audit log.
func (s accounts) auditFilter(q url.Values) (f auth.AuditFilter, err error) {
	f = auth.AuditFilter{Who: q.Get("who"), Node: q.Get("node"), Remote: q.Get("remote"), Action: q.Get("action"), Product: q.Get("product"), Name: q.Get("file"), ID: q.Get("id")}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if *to, err = term.ParseMoment(q.Get(name), s.api.cfg.Now().UTC()); err != nil {
			return f, wrong(name, err.Error())
		}
	}
	return f, nil
}

// auditStep reads a part of the audit log for administrators. It reads a limited part of
// the files, so that an answer comes soon; next is where the next part begins.
func (s accounts) auditStep(r *Request, step auth.AuditStep) (auth.AuditPage, error) {
	if !r.Rights.Admin {
		if r.Anonymous && len(r.Challenges) > 0 {
			return auth.AuditPage{}, &Problem{Word: "credentials"}
		}
		return auth.AuditPage{}, &Problem{Word: "forbidden", Detail: "the audit log needs the right admin"}
	}
	if s.api.cfg.Audit == nil {
		return auth.AuditPage{}, &Problem{Word: "not-found", Detail: "this server has no audit log (auth.audit.file)"}
	}
	select {
	case s.api.audits <- struct{}{}:
		defer func() { <-s.api.audits }()
	case <-r.Context().Done():
		return auth.AuditPage{}, r.Context().Err()
	}
	r.Allow(answerTime)
	page, err := s.api.cfg.Audit.Step(step)
	if errors.Is(err, auth.ErrAuditCursor) {
		err = &Problem{Word: "cursor"}
	}
	return page, err
}

// maxAudits limits the parts of the audit log that are read at the same time.
const maxAudits = 2

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
func (s accounts) audit(w http.ResponseWriter, r *Request, _ []string) error {
	if err := only(r, "since", "until", "who", "product", "file", "id", "action", "remote", "node", "order", "format", "limit", "cursor"); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, after, err := readPage(q, "audit")
	if err != nil {
		return err
	}
	step := auth.AuditStep{After: after, Limit: limit}
	if step.Filter, err = s.auditFilter(q); err != nil {
		return err
	}
	order, err := wordOf(q, "order", "newest", "oldest")
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
			return wrong("format", "this form has the whole list, and takes neither limit nor cursor")
		}
		return s.auditWhole(w, r, form, step)
	}
	page, err := s.auditStep(r, step)
	if err != nil {
		return err
	}
	out := auditPart{Items: page.Events, Read: page.Read, Damaged: page.Damaged}
	if out.Items == nil {
		out.Items = []auth.Event{}
	}
	out.Next = linkNext(w, r, "audit", page.Next)
	return writeJSON(w, http.StatusOK, out)
}

// auditColumns are the columns of the audit log as CSV.
var auditColumns = []string{"time", "who", "method", "token", "address", "action", "protocol", "status", "bytes", "products", "name", "id", "server", "detail"}

// auditWhole answers with all records, as comma-separated values or as lines of JSON.
func (s accounts) auditWhole(w http.ResponseWriter, r *Request, form string, step auth.AuditStep) error {
	step.Limit = maxListRows
	page, err := s.auditStep(r, step)
	if err != nil {
		return err
	}
	if wholeHead(w, r, form, "audit") {
		return nil
	}
	table, lines := csv.NewWriter(w), json.NewEncoder(w)
	if form == formCSV {
		_ = table.Write(auditColumns) // Flush reports failures
	}
	for {
		for i := range page.Events {
			if form == formCSV {
				_ = table.Write(auditCells(&page.Events[i])) // as above
			} else if err := lines.Encode(&page.Events[i]); err != nil {
				return ErrCut
			}
		}
		if table.Flush(); table.Error() != nil {
			return ErrCut
		}
		if step.After = page.Next; step.After == "" {
			break
		}
		if page, err = s.auditStep(r, step); err != nil {
			s.api.cfg.Log.Error("the audit log cannot be read on", "request", r.ID, "error", err)
			return ErrCut
		}
	}
	if form == formNDJSON {
		if err := lines.Encode(map[string]bool{"end": true}); err != nil {
			return ErrCut
		}
	}
	return nil
}

// auditCells are the values of a record, in the order of auditColumns.
func auditCells(e *auth.Event) []string {
	return []string{
		e.Time.UTC().Format(time.RFC3339), report.Cell(e.Who), string(e.Method), e.TokenID, report.Cell(e.Remote), e.Action, e.Protocol, strconv.Itoa(e.Status),
		strconv.FormatInt(e.Bytes, 10), report.Cell(strings.Join(e.Products, ", ")), report.Cell(e.Name), report.Cell(e.ID), report.Cell(e.Node), report.Cell(e.Detail),
	}
}
