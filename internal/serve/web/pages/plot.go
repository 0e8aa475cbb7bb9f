package pages

import (
	"fmt"
	"html/template"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// plot draws stacked values over days or hours as SVG: bars, or areas if there are many.
// Its colours are classes of the style sheet, and each series is named, so that none is
// known by its colour alone.
type plot struct {
	Title  string
	Days   []time.Time // or hours, if Hourly is set
	Series []series
	Hourly bool // the values are numbers in hours; otherwise sizes on days
}

// series are the values of one name, one for each day or hour.
type series struct {
	Name   string
	Values []int64
}

const (
	plotWidth, plotHeight = 960.0, 240.0
	plotLeft, plotBottom  = 120.0, 24.0
	plotTop               = 16.0
	maxPoints             = 400
	maxBars               = 31
	maxBarWidth           = 96.0
	maxSeries             = 6
)

// thin returns a plot of at most maxPoints days: the first and the last day, and others between them.
func (p plot) thin() plot {
	n := len(p.Days)
	if n <= maxPoints {
		return p
	}
	t := plot{Title: p.Title, Hourly: p.Hourly}
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

// text prints a value of the axis.
func (p plot) text(v float64) string {
	if p.Hourly {
		return web.Number(int64(v))
	}
	return term.Size(int64(v))
}

// label prints a day or an hour below the axis.
func (p plot) label(i int) string {
	if p.Hourly {
		return p.Days[i].UTC().Format("01-02 15:04")
	}
	return p.Days[i].UTC().Format(time.DateOnly)
}

// scale says where the values of a plot are drawn.
type scale struct {
	days int
	top  float64 // the value at the top of the axis
}

func (s scale) y(v float64) float64 { return plotTop + (plotHeight-plotTop-plotBottom)*(1-v/s.top) }

// bars reports whether each value is a bar.
func (s scale) bars() bool { return s.days <= maxBars }

// x is the middle of a bar, or the point of an area.
func (s scale) x(i int) float64 {
	if s.bars() {
		return plotLeft + (plotWidth-plotLeft)*(float64(i)+.5)/float64(s.days)
	}
	return plotLeft + (plotWidth-plotLeft)*float64(i)/float64(s.days-1)
}

// shape is the outline of a series between the values below and above it.
func (s scale) shape(below, above []float64) string {
	var d strings.Builder
	if s.bars() {
		half := min(.4*(plotWidth-plotLeft)/float64(s.days), maxBarWidth/2)
		for i := range below {
			if below[i] == above[i] {
				continue
			}
			left, right, low, high := s.x(i)-half, s.x(i)+half, s.y(below[i]), s.y(above[i])
			fmt.Fprintf(&d, "M%.1f %.1fL%.1f %.1fL%.1f %.1fL%.1f %.1fZ", left, low, left, high, right, high, right, low)
		}
		return d.String()
	}
	for i := range above {
		fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(i, 1)], s.x(i), s.y(above[i]))
	}
	for i := len(below) - 1; i >= 0; i-- {
		fmt.Fprintf(&d, "L%.1f %.1f", s.x(i), s.y(below[i]))
	}
	return d.String() + "Z"
}

// SVG draws the plot; nothing if there is no day.
func (p plot) SVG() template.HTML {
	if len(p.Days) == 0 || len(p.Series) == 0 {
		return ""
	}
	p = p.thin()
	at := scale{len(p.Days), p.highest()}
	var b strings.Builder
	title := template.HTMLEscapeString(p.Title)
	fmt.Fprintf(&b, `<svg class="plot" viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title>`, plotWidth, plotHeight, title, title)
	for i := range 5 {
		v := at.top * float64(i) / 4
		if p.Hourly && v != math.Trunc(v) {
			continue // there is no half of a lookup
		}
		fmt.Fprintf(&b, `<path class="axis" d="M%g %.1fH%g"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, at.y(v), plotWidth, plotLeft-6, at.y(v)+4, template.HTMLEscapeString(p.text(v)))
	}
	base := make([]float64, len(p.Days))
	for n, s := range p.Series {
		above := make([]float64, len(base))
		for i := range base {
			above[i] = base[i] + float64(s.Values[i])
		}
		fmt.Fprintf(&b, `<path class="s%d" d="%s"><title>%s</title></path>`, n%maxSeries, at.shape(base, above),
			template.HTMLEscapeString(plainName(s.Name)))
		base = above
	}
	for i, anchor := range labelled(len(p.Days)) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%g" text-anchor="%s">%s</text>`, at.x(i), plotHeight-6, anchor, p.label(i))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // numbers, days, and escaped names
}

// labelled yields which of n days have a label, and where the text is anchored: all of a
// few, or the first, the last and the one between them.
func labelled(n int) iter.Seq2[int, string] {
	const few = 6
	return func(yield func(int, string) bool) {
		for i := range n {
			anchor := "middle"
			switch {
			case n > few && i == 0:
				anchor = "start"
			case n > few && i == n-1:
				anchor = "end"
			case n > few && i != n/2:
				continue
			}
			if !yield(i, anchor) {
				return
			}
		}
	}
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
	unit := 1.0
	if !p.Hourly {
		unit = math.Pow(2, math.Floor(math.Log2(float64(most))/10)*10) // KiB, MiB, …
	}
	step := math.Pow(10, math.Floor(math.Log10(float64(most)/unit)))
	return math.Ceil(float64(most)/unit/step) * step * unit
}
