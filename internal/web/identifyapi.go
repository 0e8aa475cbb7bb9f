package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/symdepot/symdepot/internal/body"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/sparse"
	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/internal/wire"
)

const (
	// maxMatch is how many names and ids a request of match has at most.
	maxMatch     = 1000
	maxMatchBody = 1 << 20
	// maxFileName is the length of the longest name of a file.
	maxFileName = 1024
)

// mayAsk returns a problem if a client may read nothing, but might with credentials.
func (a *API) mayAsk(r *Request) error {
	switch {
	case a.cfg.Files == nil:
		return &Problem{Word: "not-found"}
	case r.Anonymous && len(r.Challenges) > 0 && !r.Rights.All && len(r.Rights.Products) == 0:
		return &Problem{Word: "credentials"}
	}
	return nil
}

// identify answers POST identify.
func (a *API) identify(w http.ResponseWriter, r *Request, _ []string) error {
	if err := a.mayAsk(r); err != nil {
		return err
	}
	if err := only(r, "name", "missing", "only"); err != nil {
		return err
	}
	wrong := func(field, why string) error {
		return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{field: why}}
	}
	q := r.URL.Query()
	missing, onlyNeed := q.Get("missing"), q.Get("only") == onlyWhatIsNeeded
	switch {
	case missing != "" && missing != missingCSV && missing != missingManifest:
		return wrong("missing", missingCSV+" or "+missingManifest+" is expected")
	case q.Has("only") && !onlyNeed:
		return wrong("only", onlyWhatIsNeeded+" is expected")
	}
	f, err := a.receive(r)
	if err != nil {
		return err
	}
	defer f.whole.Close()
	f.unread = onlyNeed
	x, err := a.examine(r, f)
	if problem := asProblem(err); onlyNeed && problem != nil && problem.Word == "not-symbol" {
		err = nil // no more is needed to say so
	}
	switch {
	case err != nil:
		return err
	case x.need != nil:
		return writeJSON(w, http.StatusAccepted, sparse.Need{Need: x.need})
	case onlyNeed:
		return writeJSON(w, http.StatusOK, sparse.Need{Need: []sparse.Range{}})
	case missing != "" && x.answer.Dump == nil:
		return &Problem{Word: "query", Detail: "the parameter missing is for dumps", Fields: map[string]string{"missing": "the file is not a dump"}}
	case missing != "":
		return writeMissing(w, missing, x.answer.Dump.Modules)
	}
	return writeJSON(w, http.StatusOK, x.answer)
}

// receive reads the file in the body of a request.
func (a *API) receive(r *Request) (*sentFile, error) {
	done, err := r.turn(a.arriving, 0, "other files are arriving")
	if err != nil {
		return nil, err
	}
	defer done()
	u, err := a.newUpload(r, false)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	f := &sentFile{name: r.URL.Query().Get("name")}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == sparse.MediaType {
		err = f.readParts(r.Memory.Counted(r.Context(), u))
	} else if r.ContentLength > maxWhole {
		err = tooLargeWhole()
	} else {
		f.whole, err = readWhole(u, a.cfg.Scratch)
	}
	if failed := u.failure(); failed != nil && !errors.Is(failed, io.ErrClosedPipe) && !body.Lacks(err) {
		err = failed
	}
	switch {
	case errors.Is(err, sparse.ErrMessage):
		return nil, &Problem{Word: "query", Detail: err.Error()}
	case err != nil:
		return nil, unreadable(err)
	case f.name == "" || len(f.name) > maxFileName:
		f.whole.Close()
		return nil, &Problem{Word: "query", Detail: "the name of the file is expected", Fields: map[string]string{"name": "is empty or longer than " + strconv.Itoa(maxFileName) + " bytes"}}
	}
	return f, nil
}

// onlyWhatIsNeeded is the value of the parameter only: the answer says which parts of the
// file are needed, and nothing of the file.
const onlyWhatIsNeeded = "need"

// The forms of a list of missing files.
const (
	missingCSV      = "csv"
	missingManifest = "manifest"
)

// writeMissing answers with the files that a debugger misses.
func writeMissing(w http.ResponseWriter, form string, modules []want.Module) error {
	var b bytes.Buffer
	kind, name := "text/csv; charset=utf-8; header=present", "missing.csv"
	err := report.WriteMissing(&b, modules)
	if form == missingManifest {
		b.Reset()
		kind, name = "text/plain; charset=utf-8", "manifest.txt"
		err = want.WriteManifest(&b, modules)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(b.Bytes())
	return writeError{err}.orNil()
}

// match answers POST match: what the depot has of files that are given by name and id.
func (a *API) match(w http.ResponseWriter, r *Request, _ []string) error {
	if err := a.mayAsk(r); err != nil {
		return err
	}
	if err := only(r); err != nil {
		return err
	}
	var q wire.Match
	if err := readJSON(r, maxMatchBody, &q); err != nil {
		return err
	}
	if len(q.Files) == 0 || len(q.Files) > maxMatch {
		return &Problem{Word: "query", Detail: "the list of files is not valid", Fields: map[string]string{"files": "1 to " + strconv.Itoa(maxMatch) + " are expected"}}
	}
	done, err := r.turn(a.examining, examineTime, "other files are being examined")
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), examineTime)
	defer cancel()
	out := report.MatchAnswer{Items: make([]report.Matched, 0, len(q.Files)), Totals: map[want.Verdict]int{}}
	for _, f := range q.Files {
		item := report.Matched{Module: want.Module{Name: clip(f.Name), ID: clip(f.ID), Verdict: want.VerdictNoID, Files: []want.FileState{}}}
		if wanted, err := want.Of(f.Name, f.ID, ""); err != nil {
			item.Error = err.Error()
		} else if item.Module, err = want.JudgeWant(ctx, a.cfg.Files, r.scope(), wanted); err != nil {
			return r.tookLonger(err)
		}
		out.Totals[item.Verdict]++
		out.Items = append(out.Items, item)
	}
	done()
	return writeJSON(w, http.StatusOK, out)
}
