package pages

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// usagePages are the pages about disk space.
type usagePages struct {
	plots   usagePlots
	inPlace *inplace.Places
}

func (p usagePages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "disk", web.Anyone, "Operate/Disk", p.showUsage).explainedIn("depot"),
	}
}

// usageView is what the page about disk space shows.
type usageView struct {
	Days    int
	Periods []period
	Plot    plot
	Found   string     // what the plot shows, in words
	Rows    []usageRow // the numbers of the plot, the newest first
	Total   *display.Usage
	By      []shareRow // products
	Wanted  bool       // the client sees what takes the space now
	Note    string     // why there is no plot
}

type period struct {
	Label, Link string
	Here        bool
}

// usageRow is a day of the plot.
type usageRow struct {
	Day    time.Time
	Values []int64
	Sum    int64
}

type shareRow struct {
	display.Share
	Name    string
	Sum     int64 // own and shared
	Percent int   // of what live builds take
}

// usagePeriods are the times that the plot can show, in days.
var usagePeriods = []struct {
	label string
	days  int
}{{"30 d", 30}, {"1 y", 366}, {"all", web.MaxUsageDays}}

// showUsage answers GET disk.
func (p usagePages) showUsage(w *reply, r *web.Request, _ []string) error {
	f := w.frame(r, "Disk", nil)
	v := usageView{Days: usagePeriods[0].days}
	for _, x := range usagePeriods {
		here := r.URL.Query().Get("days") == fmt.Sprint(x.days)
		if here {
			v.Days = x.days
		}
		v.Periods = append(v.Periods, period{x.label, f.Here("days", fmt.Sprint(x.days)), here})
	}
	if v.Days == usagePeriods[0].days {
		v.Periods[0].Here = true
	}
	if r.Anonymous && !r.Rights.All && len(r.Rights.Products) == 0 && len(r.Challenges) > 0 {
		return &web.Problem{Word: "credentials"}
	}
	if err := p.plots.read(r, &v); err != nil {
		return err
	}
	if r.Rights.All && r.Usage != nil {
		v.Wanted = true
		if u, quotas := r.Usage(r.Context()); u != nil {
			total := display.NewUsage(u, quotas, web.WatchedFolders(r.Context(), p.inPlace.Watched()))
			v.Total = &total
			for _, s := range total.Products {
				name := ""
				if s.Product != nil {
					name = *s.Product
				}
				sum := s.Own + s.Shared
				v.By = append(v.By, shareRow{s, name, sum, percent(sum, total.Live)})
			}
		}
	}
	f.D = v
	return w.print(r, http.StatusOK, "disk", f)
}

// percent is a part of a whole, rounded; 0 of nothing.
func percent(part, whole int64) int {
	if whole <= 0 {
		return 0
	}
	return int(math.Round(100 * float64(part) / float64(whole)))
}

// usagePlots reads the recorded usage.
type usagePlots struct {
	space web.SpaceUsage
	now   func() time.Time
}

// read reads the recorded days: of these products, or without them of the whole
// depot, or of the products that the client sees.
func (p usagePlots) read(r *web.Request, v *usageView, products ...string) error {
	to := p.now().UTC().Truncate(24 * time.Hour)
	from := to.AddDate(0, 0, 1-v.Days)
	var lists [][]lifecycle.UsageDay
	filters := []lifecycle.UsageFilter{{From: from, To: to, All: true}}
	if !r.Rights.All && len(products) == 0 {
		products = r.Rights.Products[:min(maxSeries, len(r.Rights.Products))]
	}
	if len(products) > 0 || !r.Rights.All {
		filters = nil
		for _, name := range products {
			filters = append(filters, lifecycle.UsageFilter{From: from, To: to, Product: &name})
		}
	}
	for _, f := range filters {
		list, err := p.space.UsageOverTime(r.Context(), f)
		if err != nil {
			return err
		}
		lists = append(lists, list)
	}
	whole := len(filters) == 1 && filters[0].All
	if r.Rights.All && r.Usage != nil {
		now, _ := r.Usage(r.Context())
		for i, f := range filters {
			lists[i] = withNow(lists[i], f, now)
		}
	}
	v.Plot = plotOf(lists, whole)
	days := v.Plot.Days
	if len(days) == 0 {
		v.Note = "Nothing is recorded yet. A server records the disk space soon after its start, and then once a day."
		return nil
	}
	for i := len(days) - 1; i >= 0; i-- {
		row := usageRow{Day: days[i]}
		for _, s := range v.Plot.Series {
			row.Values = append(row.Values, s.Values[i])
			row.Sum += s.Values[i]
		}
		v.Rows = append(v.Rows, row)
	}
	first, last := v.Rows[len(v.Rows)-1].Sum, v.Rows[0].Sum
	change := "unchanged"
	switch {
	case last > first:
		change = term.Size(last-first) + " more"
	case last < first:
		change = term.Size(first-last) + " less"
	}
	v.Found = fmt.Sprintf("%s on %s, %s than on %s", term.Size(last), days[len(days)-1].Format(time.DateOnly), change,
		days[0].Format(time.DateOnly))
	if len(days) == 1 {
		v.Found = fmt.Sprintf("%s on %s, the only day that is recorded in this time", term.Size(last), days[0].Format(time.DateOnly))
	} else if change == "unchanged" {
		v.Found = fmt.Sprintf("%s, unchanged since %s", term.Size(last), days[0].Format(time.DateOnly))
	}
	v.Plot.Title = v.Found
	return nil
}

// withNow returns the recorded days of a product or of the whole depot, in which the day
// that a filter ends with has what takes the space now, if that is known.
func withNow(list []lifecycle.UsageDay, f lifecycle.UsageFilter, now *lifecycle.Usage) []lifecycle.UsageDay {
	if now == nil {
		return list
	}
	today := lifecycle.UsageDay{Day: f.To, All: f.All, Bytes: now.Live, Cached: now.Cached, Trash: now.Trash, Garbage: now.Garbage}
	if f.Product != nil {
		i := slices.IndexFunc(now.Products, func(s lifecycle.Share) bool { return s.Product == *f.Product })
		if i < 0 {
			return list
		}
		today = lifecycle.UsageDay{Day: f.To, Product: *f.Product, Bytes: now.Products[i].Own + now.Products[i].Shared}
	}
	return append(slices.DeleteFunc(list, func(u lifecycle.UsageDay) bool { return u.Day.Equal(f.To) }), today)
}

// plotOf makes a plot of recorded days. Of the whole depot, its uses are the series;
// otherwise the products are.
func plotOf(lists [][]lifecycle.UsageDay, whole bool) plot {
	var p plot
	for _, list := range lists {
		for _, u := range list {
			if !slices.ContainsFunc(p.Days, u.Day.Equal) {
				p.Days = append(p.Days, u.Day)
			}
		}
	}
	sorting.By(p.Days, time.Time.Compare)
	at := func(day time.Time) int {
		i, _ := slices.BinarySearchFunc(p.Days, day, time.Time.Compare)
		return i
	}
	add := func(name string, list []lifecycle.UsageDay, of func(lifecycle.UsageDay) int64) {
		s := series{Name: name, Values: make([]int64, len(p.Days))}
		for _, u := range list {
			s.Values[at(u.Day)] = of(u)
		}
		p.Series = append(p.Series, s)
	}
	for _, list := range lists {
		switch {
		case whole:
			add("builds", list, func(u lifecycle.UsageDay) int64 { return u.Bytes })
			add("cached files", list, func(u lifecycle.UsageDay) int64 { return u.Cached })
			add("trash", list, func(u lifecycle.UsageDay) int64 { return u.Trash })
			add("freed by gc", list, func(u lifecycle.UsageDay) int64 { return u.Garbage })
		case len(list) > 0:
			add(list[0].Product, list, func(u lifecycle.UsageDay) int64 { return u.Bytes })
		}
	}
	return p
}
