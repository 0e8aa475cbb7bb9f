package pages

import (
	"encoding/xml"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// TestPlot: a plot is whole XML without styles, has at most 400 points, and its series
// are named. One day is enough.
func TestPlot(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, days := range []int{0, 1, 2, 30, 1098} {
		var list []lifecycle.UsageDay
		for i := range days {
			list = append(list, lifecycle.UsageDay{Day: day.AddDate(0, 0, i), All: true, Bytes: int64(i) << 30, Cached: 5 << 30, Trash: 1, Garbage: 0})
		}
		p := plotOf([][]lifecycle.UsageDay{list}, true)
		p.Title = `<script>"&`
		svg := string(p.SVG())
		if days == 0 {
			if svg != "" {
				t.Errorf("%d days: %s, want nothing", days, svg)
			}
			continue
		}
		points := 0
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%d days: %v in %s, want whole XML", days, err, svg)
			}
			if e, ok := tok.(xml.StartElement); ok {
				for _, a := range e.Attr {
					if a.Name.Local == "d" {
						points = max(points, strings.Count(a.Value, "L"))
					}
					if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
						t.Errorf("%d days: the attribute %s, want none", days, a.Name.Local)
					}
				}
			}
		}
		if points > 2*maxPoints || points < 2 {
			t.Errorf("%d days: a path of %d points, want 2 to %d", days, points, 2*maxPoints)
		}
		for _, want := range []string{"<title>cached files</title>", `role="img"`, "2026-01-01"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%d days: the plot lacks %q", days, want)
			}
		}
	}
	for most, want := range map[int64]float64{0: 1, 700: 700, 701: 800, 3 << 30: 3 << 30, 3<<30 + 1: 4 << 30} {
		p := plot{Days: []time.Time{day}, Series: []series{{Values: []int64{most}}}}
		if got := p.highest(); got != want {
			t.Errorf("the top of the axis for %d is %g, want %g", most, got, want)
		}
	}
}

// TestBars: up to a month is drawn as bars, which stay between the axis and the right edge.
func TestBars(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	for _, n := range []int{1, 2, 6, 7, maxBars, maxBars + 1, 168} {
		p := plot{Hourly: true, Series: []series{{Name: "found"}, {Name: "not found"}}}
		for i := range n {
			p.Days = append(p.Days, begin.Add(time.Duration(i)*time.Hour))
			p.Series[0].Values, p.Series[1].Values = append(p.Series[0].Values, int64(i+1)), append(p.Series[1].Values, 1)
		}
		p.Series = append(p.Series, series{Name: "nothing", Values: make([]int64, n)})
		svg := string(p.SVG())
		outlines := 2 * n // nothing is no bar
		if n > maxBars {
			outlines = len(p.Series)
		}
		if got := strings.Count(svg, "Z"); got != outlines {
			t.Errorf("%d hours: %d outlines, want %d", n, got, outlines)
		}
		for _, m := range regexp.MustCompile(`[ML]([0-9.]+) ([0-9.]+)`).FindAllStringSubmatch(svg, -1) {
			x, errX := strconv.ParseFloat(m[1], 64)
			y, errY := strconv.ParseFloat(m[2], 64)
			if errX != nil || errY != nil || x < plotLeft || x > plotWidth || y < plotTop-.1 || y > plotHeight-plotBottom+.1 {
				t.Errorf("%d hours: the point %s is outside of the axes", n, m[0])
			}
		}
		if !strings.Contains(svg, ">11-28 21:00<") {
			t.Errorf("%d hours: the first one is not named", n)
		}
	}
}

// TestLookupPlot: what the server counted is told in words, with the part that was missing.
func TestLookupPlot(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	p, shows := lookupPlot(func(call func(time.Time, int64, int64)) {
		call(begin, 1000, 2)
		call(begin.Add(2*time.Hour), 495, 3)
	})
	if want := "Since 2026-11-28 21:00: 1,495 found, 5 not found (0.3 %)"; shows != want || len(p.Days) != 2 {
		t.Errorf("%q with %d hours, want %q with 2", shows, len(p.Days), want)
	}
	if _, shows := lookupPlot(func(func(time.Time, int64, int64)) {}); shows != "" {
		t.Errorf("without a lookup: %q, want nothing", shows)
	}
}

// TestWithNow: what takes the space now replaces what was recorded today, and no other day.
func TestWithNow(t *testing.T) {
	t.Parallel()
	today := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	before := lifecycle.UsageDay{Day: today.AddDate(0, 0, -1), Bytes: 1}
	now := &lifecycle.Usage{Live: 70, Cached: 5, Products: []lifecycle.Share{{Product: "A", Own: 20, Shared: 10}}}
	game, other := "A", "B"
	for _, c := range []struct {
		what   string
		filter lifecycle.UsageFilter
		now    *lifecycle.Usage
		want   []int64
	}{
		{"the depot", lifecycle.UsageFilter{To: today, All: true}, now, []int64{1, 70}},
		{"a product", lifecycle.UsageFilter{To: today, Product: &game}, now, []int64{1, 30}},
		{"a product without builds", lifecycle.UsageFilter{To: today, Product: &other}, now, []int64{1, 3}},
		{"nothing known", lifecycle.UsageFilter{To: today, All: true}, nil, []int64{1, 3}},
	} {
		var got []int64
		for _, u := range withNow([]lifecycle.UsageDay{before, {Day: today, Bytes: 3}}, c.filter, c.now) {
			got = append(got, u.Bytes)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
