package metrics

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
)

// TestMetricsDocs: docs/reference/metrics.md has the metrics that the code of this package
// describes, whether a depot has them or not.
func TestMetricsDocs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if m, help := metricOf(call); strings.HasPrefix(m, "symdepot_") {
					rows[m] = fmt.Sprintf("| `%s` | %s | %s |\n", m, strings.Join(labelsOf(call), ", "), strings.ReplaceAll(help, "|", `\|`))
				}
			}
			return true
		})
	}
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	shown := regexp.MustCompile(`^Desc\{fqName: ("[^"]*"), help: ("(?:[^"\\]|\\.)*"), unit: "", constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		for _, c := range states(d, newHoldings(d), newUsages(Usage{})) {
			c.Describe(descs)
		}
	}()
	for desc := range descs {
		m := shown.FindStringSubmatch(desc.String())
		if m == nil {
			t.Fatalf("%s is not understood", desc)
		}
		name, _ := strconv.Unquote(m[1])
		help, _ := strconv.Unquote(m[2])
		rows[name] = fmt.Sprintf("| `%s` | %s | %s |\n", name, strings.ReplaceAll(m[3], ",", ", "), strings.ReplaceAll(help, "|", `\|`))
	}
	if len(rows) < 50 {
		t.Fatalf("%d metrics found in the code, want at least 50", len(rows))
	}
	table := "| Metric | Labels | Meaning |\n|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table += rows[name]
	}
	symtest.Generated(t, "docs/reference/metrics.md", "metrics", table)
}

// metricOf returns the name and the help of a metric that a call makes:
// prometheus.NewDesc(name, help, …) or prometheus.NewX(prometheus.XOpts{Name, Help}, …).
func metricOf(call *ast.CallExpr) (name, help string) {
	made, ok := call.Fun.(*ast.SelectorExpr)
	if from, ok2 := made, ok; !ok2 || len(call.Args) == 0 {
		return "", ""
	} else if pkg, ok := from.X.(*ast.Ident); !ok || pkg.Name != "prometheus" {
		return "", ""
	}
	if made.Sel.Name == "NewDesc" && len(call.Args) >= 2 {
		return text(call.Args[0]), text(call.Args[1])
	}
	if opts, ok := call.Args[0].(*ast.CompositeLit); ok {
		for _, e := range opts.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				switch fmt.Sprint(kv.Key) {
				case "Name":
					name = text(kv.Value)
				case "Help":
					help = text(kv.Value)
				}
			}
		}
	}
	return name, help
}

// labelsOf returns the names of the labels: the list of texts among the arguments.
func labelsOf(call *ast.CallExpr) (labels []string) {
	for _, a := range call.Args {
		if list, ok := a.(*ast.CompositeLit); ok {
			if _, isList := list.Type.(*ast.ArrayType); isList {
				for _, e := range list.Elts {
					labels = append(labels, text(e))
				}
			}
		}
	}
	return labels
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}
