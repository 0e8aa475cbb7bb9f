package pages

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
)

// plot draws stacked areas over days as SVG. Its colours are classes of the style
// sheet, and each series is named, so that none is known by its colour alone.
type plot struct {
	Title  string
	Days   []time.Time
	Series []series
}

// series are the values of one name, one for each day.
type series struct {
	Name   string
	Values []int64
}

const (
	plotWidth, plotHeight = 960.0, 240.0
	plotLeft, plotBottom  = 80.0, 24.0
	plotTop               = 8.0
	maxPoints             = 400
	maxSeries             = 6
)

// thin returns a plot of at most maxPoints days: the first and the last day, and others between them.
func (p plot) thin() plot {
	n := len(p.Days)
	if n <= maxPoints {
		return p
	}
	t := plot{Title: p.Title}
	at := func(i int) int { return i * (n - 1) / (maxPoints - 1) }
	for i := range maxPoints {
		t.Days = append(t.Days, p.Days[at(i)])
	}
	for _, s := range p.Series {
		thin := series{Name: s.Name}
		for i := range maxPoints {
			thin.Values = append(thin.Values, s.Values[at(i)])
		}
		t.Series = append(t.Series, thin)
	}
	return t
}

// SVG draws the plot; nothing for less than two days.
func (p plot) SVG() template.HTML {
	if len(p.Days) < 2 || len(p.Series) == 0 {
		return ""
	}
	p = p.thin()
	top := p.highest()
	x := func(i int) float64 { return plotLeft + (plotWidth-plotLeft)*float64(i)/float64(len(p.Days)-1) }
	y := func(v float64) float64 { return plotTop + (plotHeight-plotTop-plotBottom)*(1-v/top) }
	var b strings.Builder
	title := template.HTMLEscapeString(p.Title)
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title>`, plotWidth, plotHeight, title, title)
	for i := range 5 {
		v := top * float64(i) / 4
		fmt.Fprintf(&b, `<path class="axis" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, y(v), plotWidth, plotLeft-6, y(v)+4, template.HTMLEscapeString(term.Size(int64(v))))
	}
	base := make([]float64, len(p.Days))
	for n, s := range p.Series {
		above := make([]float64, len(base))
		var d strings.Builder
		for i := range base {
			above[i] = base[i] + float64(s.Values[i])
			fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], x(i), y(above[i]))
		}
		for i := len(base) - 1; i >= 0; i-- {
			fmt.Fprintf(&d, "L%.1f %.1f", x(i), y(base[i]))
		}
		fmt.Fprintf(&b, `<path class="s%d" d="%sZ"><title>%s</title></path>`, n%maxSeries+1, d.String(), template.HTMLEscapeString(s.Name))
		base = above
	}
	for _, i := range []int{0, len(p.Days) / 2, len(p.Days) - 1} {
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case len(p.Days) - 1:
			anchor = "end"
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="%s">%s</text>`, x(i), plotHeight-6, anchor, p.Days[i].UTC().Format(time.DateOnly))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers, days, and escaped names
}

// highest is the value at the top of the axis: the largest sum of a day, rounded up to
// a value that is easy to read.
func (p plot) highest() float64 {
	most := int64(0)
	for i := range p.Days {
		sum := int64(0)
		for _, s := range p.Series {
			sum += s.Values[i]
		}
		most = max(most, sum)
	}
	if most <= 0 {
		return 1
	}
	unit := math.Pow(2, math.Floor(math.Log2(float64(most))/10)*10) // KiB, MiB, …
	step := math.Pow(10, math.Floor(math.Log10(float64(most)/unit)))
	return math.Ceil(float64(most)/unit/step) * step * unit
}
