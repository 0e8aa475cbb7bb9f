package api

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/symfile"
)

// wholeForm returns the form of a list that the client asks for, by the parameter format or
// by Accept; "" is a page in JSON.
func wholeForm(r *web.Request) (string, error) {
	q := r.URL.Query()
	if q.Has("format") {
		form, err := web.WordOf(q, "format", "json", web.FormCSV, web.FormNDJSON)
		if form == "json" {
			form = ""
		}
		return form, err
	}
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(kind) {
		case "text/csv":
			return web.FormCSV, nil
		case "application/x-ndjson":
			return web.FormNDJSON, nil
		case "application/json":
			return "", nil
		}
	}
	return "", nil
}

// missesAPI answers requests for the files that clients did not get.
type missesAPI struct {
	missing *catalog.Missing
	log     *slog.Logger
}

func (a missesAPI) routes() []route { return []route{on(http.MethodGet, "v1/missing", a.listMisses)} }

// listMisses answers GET missing: files that clients requested and did not get, page by
// page in JSON, or all of them in another form.
func (a missesAPI) listMisses(w http.ResponseWriter, r *web.Request, _ []string) error {
	known := web.OnlyParameters(r, "name", "client", "since", "sort", "format", "limit", "cursor")
	if err := errors.Join(r.May(web.ReadAll), known); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, after, err := web.ReadPage(q, "missing")
	if err != nil {
		return err
	}
	sort, err := web.WordOf(q, "sort", "count", "last")
	if err != nil {
		return err
	}
	f := catalog.WantedFilter{Name: symfile.Fold(q.Get("name")), Client: q.Get("client"), Latest: sort == "last"}
	if f.Since, err = web.TimeOf(q, "since"); err != nil {
		return err
	}
	form, err := wholeForm(r)
	if err != nil {
		return err
	}
	if form != "" {
		if q.Has("limit") || after != "" {
			return web.WrongParameter("format", "this form has the whole list, and takes neither limit nor cursor")
		}
		return a.writeMisses(w, r, form, f)
	}
	f.Limit = limit
	list, next, err := a.missing.Page(r.Context(), f, after)
	if err != nil {
		return web.ListProblem(err, after)
	}
	return web.WriteList(w, r, "missing", list, next)
}

// streamed is how many rows are written before the time of the answer begins anew.
const streamed = 1000

// wholeHead writes the header of a whole list as CSV or lines of JSON. It reports whether
// the client wants nothing else.
func wholeHead(w http.ResponseWriter, r *web.Request, form, name string) (done bool) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/x-ndjson")
	if form == web.FormCSV {
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
func (a missesAPI) writeMisses(w http.ResponseWriter, r *web.Request, form string, f catalog.WantedFilter) error {
	if wholeHead(w, r, form, "missing") {
		return nil
	}
	out := json.NewEncoder(w)
	row, end := func(m catalog.Wanted) error { return out.Encode(m) }, func() error {
		_, err := io.WriteString(w, "{\"end\":true}\n")
		return err
	}
	if form == web.FormCSV {
		m, err := display.NewMissingCSV(w)
		if err != nil {
			return web.ErrCut
		}
		row, end = m.Write, m.Flush
	}
	n := 0
	err := a.missing.List(r.Context(), f, func(m catalog.Wanted) error {
		if n%streamed == 0 {
			r.Allow(web.AnswerTime)
		}
		n++
		return row(m)
	})
	if err == nil {
		err = end()
	}
	if err != nil {
		a.log.Warn("a list of missing files is cut", "request", r.ID, "error", err)
		return web.ErrCut
	}
	return nil
}
