package api

import (
	"errors"
	"net/http"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// coverageAPI answers requests about files that ship.
type coverageAPI struct{ *web.Coverage }

func (a coverageAPI) routes() []route {
	return []route{
		bare(on(http.MethodPost, "v1/coverage", a.look)),
		on(http.MethodGet, "v1/coverage", a.trend),
		bare(on(http.MethodPut, "v1/builds/*/coverage", a.keep)),
	}
}

// look answers POST coverage.
func (a coverageAPI) look(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	var q wire.CoverageAsk
	if err := web.ReadJSON(r, web.MaxCoverageBody, &q); err != nil {
		return err
	}
	out, err := a.Look(r, &q)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// trend answers GET coverage: the checked builds among the newest of a product.
func (a coverageAPI) trend(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(web.OnlyParameters(r, "product"), r.MayRead()); err != nil {
		return err
	}
	product, err := web.NeedProduct(r.URL.Query())
	if err != nil {
		return err
	}
	list, err := a.Trend(r, product)
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "coverage", list, "")
}

// keep answers PUT builds/N/coverage.
func (a coverageAPI) keep(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	var q wire.BuildCoverage
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	out, err := a.Keep(r, args[0], q)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, out)
}
