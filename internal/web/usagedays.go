package web

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/wire"
)

const (
	// usageDays is how many days a request without from gets.
	usageDays = 30
	// maxUsageDays limits the days of a request for the whole depot or one product,
	// maxProductDays those of a request for all products.
	maxUsageDays, maxProductDays = 3 * 366, 31
)

// usageFilter reads the parameters of a request for the usage of days.
func (a *API) usageFilter(q url.Values) (f depot.UsageFilter, err error) {
	wrong := func(field, why string) error {
		return &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{field: why}}
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
	if f.To, err = day("to", a.cfg.Now().UTC().Truncate(24*time.Hour)); err != nil {
		return f, err
	}
	if f.From, err = day("from", f.To.AddDate(0, 0, 1-usageDays)); err != nil {
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
	most := maxUsageDays
	if !f.All && f.Product == nil {
		most = maxProductDays
	}
	if days := int(f.To.Sub(f.From)/(24*time.Hour)) + 1; days < 1 || days > most {
		return f, wrong("from", fmt.Sprintf("at most %d days are answered, from the earlier to the later day", most))
	}
	return f, nil
}

// usageDays answers GET usage with parameters.
func (a *API) usageDays(w http.ResponseWriter, r *Request) error {
	f, err := a.usageFilter(r.URL.Query())
	if err != nil {
		return err
	}
	list, err := a.cfg.Retention.UsageOverTime(r.Context(), f)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Items []report.UsageDay `json:"items"`
	}{report.NewUsageDays(list)})
}
