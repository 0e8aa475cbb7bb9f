package pages

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// TestPlot: a plot is whole XML without styles, has at most 400 points, and its series
// are named.
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
		if days < 2 {
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
