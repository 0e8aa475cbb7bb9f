package packaging

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// metricLabels returns the labels of the program's metrics, from the reference that is made
// from the code, and of those that Prometheus and its library add.
func metricLabels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string][]string{"up": nil, "process_resident_memory_bytes": nil}
	for _, m := range regexp.MustCompile("(?m)^\\| `(symdepot_[a-z_]+)` \\| ([a-z, ]*) \\|").FindAllStringSubmatch(string(text), -1) {
		list[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(list) < 40 {
		t.Fatalf("%d metrics, want at least 40", len(list))
	}
	return list
}

var (
	metricName = regexp.MustCompile(`\b(?:symdepot|process|go)_[a-z_]+\b|\bup\b`)
	selectors  = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	oneLabel   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping   = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	scalarOn   = regexp.MustCompile(`[0-9.]+\s*[-+*/%<>=!]+\s*(?:on|ignoring)\b`)
	shownLabel = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// checkQuery checks the names of metrics and labels of a query, and the labels of its texts.
func checkQuery(metrics map[string][]string, query string, texts ...string) (faults []string) {
	fail := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)+" in "+query) }
	base := func(name string) string {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if short := strings.TrimSuffix(name, suffix); short != name && metrics[short] != nil {
				return short
			}
		}
		return name
	}
	known := []string{"instance", "job", "le"} // of Prometheus
	plain := selectors.ReplaceAllString(query, "$1")
	for _, name := range metricName.FindAllString(plain, -1) {
		labels, ok := metrics[base(name)]
		if !ok {
			fail("no metric %s", name)
		}
		known = append(known, labels...)
	}
	for _, m := range selectors.FindAllStringSubmatch(query, -1) {
		for _, l := range oneLabel.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(append([]string{"instance", "job", "le"}, metrics[base(m[1])]...), l[1]) {
				fail("%s has no label %s", m[1], l[1])
			}
		}
	}
	if m := scalarOn.FindString(query); m != "" { // Prometheus refuses the whole file
		fail("%q: a number has no labels to match", m)
	}
	for _, m := range grouping.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(known, l) {
				fail("no label %s", l)
			}
		}
	}
	for _, text := range texts {
		for _, l := range shownLabel.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, l[1]) {
				fail("the text %q has an unknown label", text)
			}
		}
	}
	return faults
}

// TestAlerts: each rule uses metrics and labels that exist, and says what to do.
func TestAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := metricLabels(t)
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			for _, f := range checkQuery(metrics, r.Expr, r.Annotations["summary"], r.Annotations["action"]) {
				t.Errorf("%s: %s", r.Alert, f)
			}
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s says not what happened, what to do and how urgent it is", r.Alert)
			}
			if !strings.Contains(string(doc), "`"+r.Alert+"`") {
				t.Errorf("docs/monitoring.md does not explain %s", r.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d rules, want at least 10", n)
	}
}

// TestDashboard: each panel uses metrics and labels that exist.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	metrics := metricLabels(t)
	for _, v := range d.Templating.List {
		if name, _, ok := strings.Cut(strings.TrimPrefix(v.Query, "label_values("), ","); ok {
			if _, exists := metrics[name]; !exists {
				t.Errorf("the variable %s uses %s, which does not exist", v.Name, name)
			}
		}
	}
	if len(d.Panels) < 10 {
		t.Errorf("%d panels, want at least 10", len(d.Panels))
	}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			for _, f := range checkQuery(metrics, q.Expr, q.LegendFormat) {
				t.Errorf("panel %q: %s", p.Title, f)
			}
		}
	}
}

// TestCheckQuery: the check finds what does not exist.
func TestCheckQuery(t *testing.T) {
	t.Parallel()
	metrics := metricLabels(t)
	for query, want := range map[string]bool{
		`rate(symdepot_lookups_total{result="hit"}[5m])`:              true,
		`sum by (le) (symdepot_http_request_duration_seconds_bucket)`: true,
		`symdepot_lookups_total > 0.9 * symdepot_lookups_total`:       true,
		`symdepot_lookups`: false,
		`symdepot_lookups_total > 0.9 * on (result) symdepot_lookups_total`: false,
		`symdepot_lookups_total{upstream="x"}`:                              false,
		`sum by (folder) (symdepot_lookups_total)`:                          false,
	} {
		if faults := checkQuery(metrics, query); (len(faults) == 0) != want {
			t.Errorf("%s: faults %v, want it right: %v", query, faults, want)
		}
	}
}
