package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// arrivalsAPI answers requests for the files that crashes lacked and builds have brought since.
type arrivalsAPI struct{ arrivals *arrivals.Service }

func (a arrivalsAPI) routes() []route { return []route{on(http.MethodGet, "v1/arrivals", a.list)} }

// list answers GET arrivals: those after a number, oldest first. A crash pipeline asks again with the
// number of the last one that it knows.
func (a arrivalsAPI) list(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.MayRead(), web.OnlyParameters(r, "after", "limit")); err != nil {
		return err
	}
	limit, _, err := web.ReadPage(r.URL.Query(), "arrivals")
	if err != nil {
		return err
	}
	var after int64
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			return web.WrongParameter("after", "the number of an arrival is expected")
		}
	}
	list, err := a.arrivals.After(r.Context(), r.Scope().Index(), after, limit)
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "arrivals", arrivals.Items(list), "")
}
