package api

import (
	"net/http"
	"strconv"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// identifyAPI answers requests about files that clients have.
type identifyAPI struct{ *web.Examiner }

func (a identifyAPI) routes() []route {
	return []route{on(http.MethodPost, "v1/identify", a.identify), on(http.MethodPost, "v1/match", a.matchFiles)}
}

// identify answers POST identify.
func (a identifyAPI) identify(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	if err := web.OnlyParameters(r, "name", "missing", "only"); err != nil {
		return err
	}
	missing := r.URL.Query().Get("missing")
	if missing != "" && missing != web.MissingCSV && missing != web.MissingManifest {
		return web.BadParameter("missing", web.MissingCSV+" or "+web.MissingManifest+" is expected")
	}
	onlyNeed, err := asksForNeed(r)
	if err != nil {
		return err
	}
	f, err := a.Receive(r)
	if err != nil {
		return err
	}
	defer f.Whole.Close()
	f.Unread = onlyNeed
	x, err := a.Examine(r, f)
	if problem := web.AsProblem(err); onlyNeed && problem != nil && problem.Word == "not-symbol" {
		err = nil // no more is needed to say so
	}
	switch {
	case err != nil:
		return err
	case x.Need != nil:
		return web.WriteJSON(w, http.StatusAccepted, sparse.Need{Need: x.Need})
	case onlyNeed:
		return web.WriteJSON(w, http.StatusOK, sparse.Need{Need: []sparse.Range{}})
	case missing != "" && x.Answer.Dump == nil:
		return web.BadMember("the parameter missing is for dumps", "missing", "the file is not a dump")
	case missing != "":
		return web.WriteMissing(w, missing, x.Answer.Dump.Modules)
	}
	return web.WriteJSON(w, http.StatusOK, x.Answer)
}

// onlyWhatIsNeeded is the value of the parameter only: the answer says which parts of the
// file are needed, and nothing of the file.
const onlyWhatIsNeeded = "need"

// asksForNeed reports whether a request has this value.
func asksForNeed(r *web.Request) (bool, error) {
	q := r.URL.Query()
	if q.Has("only") && q.Get("only") != onlyWhatIsNeeded {
		return false, web.BadParameter("only", onlyWhatIsNeeded+" is expected")
	}
	return q.Has("only"), nil
}

// matchFiles answers POST match: what the depot has of files that are given by name and id.
func (a identifyAPI) matchFiles(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	var q wire.Match
	if err := web.ReadJSON(r, web.MaxMatchBody, &q); err != nil {
		return err
	}
	if len(q.Files) == 0 || len(q.Files) > web.MaxMatch {
		return web.BadMember("the list of files is not valid", "files", "1 to "+strconv.Itoa(web.MaxMatch)+" are expected")
	}
	out, err := a.Match(r, q.Files)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}
