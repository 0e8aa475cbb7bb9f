package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/symfile"
)

// Forms of a whole list.
const (
	formCSV    = "csv"
	formNDJSON = "ndjson"
)

// wholeForm returns the form of a list that the client asks for, by the parameter format or
// by Accept; "" is a page in JSON.
func wholeForm(r *Request) (string, error) {
	q := r.URL.Query()
	if q.Has("format") {
		form, err := wordOf(q, "format", "json", formCSV, formNDJSON)
		if form == "json" {
			form = ""
		}
		return form, err
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(kind) {
		case "text/csv":
			return formCSV, nil
		case "application/x-ndjson":
			return formNDJSON, nil
		case "application/json":
			return "", nil
		}
	}
	return "", nil
}

// listMisses answers GET misses: files that clients requested and did not get, page by
// page in JSON, or all of them in another form.
func listMisses(a *API, w http.ResponseWriter, r *Request, _ []string) error {
	if err := errors.Join(a.may(r, readAll), only(r, "name", "client", "since", "sort", "format", "limit", "cursor")); err != nil {
		return err
	}
	if a.cfg.Missing == nil {
		return &Problem{Word: "not-found"}
	}
	q := r.URL.Query()
	limit, after, err := readPage(q, "misses")
	if err != nil {
		return err
	}
	sort, err := wordOf(q, "sort", "count", "last")
	if err != nil {
		return err
	}
	f := depot.WantedFilter{Name: symfile.Fold(q.Get("name")), Client: q.Get("client"), Latest: sort == "last"}
	if f.Since, err = timeOf(q, "since"); err != nil {
		return err
	}
	form, err := wholeForm(r)
	if err != nil {
		return err
	}
	if form != "" {
		if q.Has("limit") || after != "" {
			return wrong("format", "this form has the whole list, and takes neither limit nor cursor")
		}
		return writeMisses(a, w, r, form, f)
	}
	f.Limit = limit
	list, next, err := a.cfg.Missing.Page(r.Context(), f, after)
	if err != nil {
		return listed(err, after)
	}
	return writeList(w, r, "misses", list, next)
}

// streamed is how many rows are written before the time of the answer begins anew.
const streamed = 1000

// wholeHead writes the header of a whole list as CSV or lines of JSON. It reports whether
// the client wants nothing else.
func wholeHead(w http.ResponseWriter, r *Request, form, name string) (done bool) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/x-ndjson")
	if form == formCSV {
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	}
	if r.Method != http.MethodHead {
		return false
	}
	w.WriteHeader(http.StatusOK)
	return true
}

// writeMisses writes a whole list.
func writeMisses(a *API, w http.ResponseWriter, r *Request, form string, f depot.WantedFilter) error {
	if wholeHead(w, r, form, "missing") {
		return nil
	}
	out := json.NewEncoder(w)
	row, end := func(m depot.Wanted) error { return out.Encode(m) }, func() error {
		_, err := io.WriteString(w, "{\"end\":true}\n")
		return err
	}
	if form == formCSV {
		m, err := report.NewMissingCSV(w)
		if err != nil {
			return ErrCut
		}
		row, end = m.Write, m.Flush
	}
	n := 0
	err := a.cfg.Missing.List(r.Context(), f, func(m depot.Wanted) error {
		if n%streamed == 0 {
			r.Allow(answerTime)
		}
		n++
		return row(m)
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		a.cfg.Log.Warn("a list of missing files is cut", "request", r.ID, "error", err)
		return ErrCut
	}
	return nil
}
