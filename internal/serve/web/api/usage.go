package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// usageAPI answers requests for what takes the space.
type usageAPI struct {
	space     web.SpaceUsage
	stages    web.Stages
	inPlace   *inplace.Places
	computing *web.Gate
	now       func() time.Time
}

func (a usageAPI) routes() []route { return []route{on(http.MethodGet, "v1/disk", a.usage)} }

// usage answers GET disk.
func (a usageAPI) usage(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(r.May(web.ReadAll), web.OnlyParameters(r, "from", "to", "by", "product")); err != nil {
		return err
	}
	if r.URL.RawQuery != "" {
		return a.usageDays(w, r)
	}
	done, err := a.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	u, err := a.space.Usage(r.Context())
	if err != nil {
		return err
	}
	quotas, err := web.Quotas(r.Context(), a.stages)
	if err != nil {
		return err
	}
	done()
	return web.WriteJSON(w, http.StatusOK, display.NewUsage(u, quotas, web.WatchedFolders(r.Context(), a.inPlace.Watched())))
}

// usageFilter reads the parameters of a request for the usage of days.
func (a usageAPI) usageFilter(q url.Values) (f lifecycle.UsageFilter, err error) {
	wrong := func(field, why string) error {
		return web.BadParameter(field, why)
	}
	day := func(field string, otherwise time.Time) (time.Time, error) {
		text := q.Get(field)
		if text == "" {
			return otherwise, nil
		}
		t, err := time.Parse(time.DateOnly, text)
		if err != nil || t.Unix() < 0 {
			return t, wrong(field, "a day is expected, such as 2026-12-31")
		}
		return t, nil
	}
	if f.To, err = day("to", a.now().UTC().Truncate(24*time.Hour)); err != nil {
		return f, err
	}
	if f.From, err = day("from", f.To.AddDate(0, 0, 1-web.UsageDays)); err != nil {
		return f, err
	}
	if q.Has("product") {
		product := q.Get("product")
		f.Product = &product
	}
	switch by := q.Get("by"); {
	case by == wire.UsageByTotal && f.Product != nil, by != "" && by != wire.UsageByTotal && by != wire.UsageByProduct:
		return f, wrong("by", "total, or product, is expected; total excludes a product")
	default:
		f.All = by != wire.UsageByProduct && f.Product == nil
	}
	most := web.MaxUsageDays
	if !f.All && f.Product == nil {
		most = web.MaxProductDays
	}
	if days := int(f.To.Sub(f.From)/(24*time.Hour)) + 1; days < 1 || days > most {
		return f, wrong("from", fmt.Sprintf("at most %d days are answered, from the earlier to the later day", most))
	}
	return f, nil
}

// usageDays answers GET disk with parameters.
func (a usageAPI) usageDays(w http.ResponseWriter, r *web.Request) error {
	f, err := a.usageFilter(r.URL.Query())
	if err != nil {
		return err
	}
	list, err := a.space.UsageOverTime(r.Context(), f)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Items []display.UsageDay `json:"items"`
	}{display.NewUsageDays(list)})
}
