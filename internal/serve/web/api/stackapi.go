package api

import (
	"net/http"

	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// stackAPI answers requests about crash dumps.
type stackAPI struct {
	*web.Examiner
	*web.Symbolication
}

func (a stackAPI) routes() []route { return []route{on(http.MethodPost, "v1/stack", a.stack)} }

// stack answers POST stack: the stacks of a dump.
func (a stackAPI) stack(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	if err := web.OnlyParameters(r, "name", "only"); err != nil {
		return err
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
	if onlyNeed && f.Parts == nil { // nothing is needed
		return web.WriteJSON(w, http.StatusOK, sparse.Need{Need: []sparse.Range{}})
	}
	f.Unread = onlyNeed
	answer, need, err := a.Stacks(r, f)
	if problem := web.AsProblem(err); onlyNeed && problem != nil && problem.Word == "not-symbol" {
		err = nil // no more is needed to say so
	}
	switch {
	case err != nil:
		return err
	case need != nil:
		return web.WriteJSON(w, http.StatusAccepted, sparse.Need{Need: need})
	case onlyNeed:
		return web.WriteJSON(w, http.StatusOK, sparse.Need{Need: []sparse.Range{}})
	}
	return web.WriteJSON(w, http.StatusOK, answer)
}
