package web

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/symtest"
)

// TestHTTPDocs: docs/reference/http.md has the addresses of the API and of the pages.
func TestHTTPDocs(t *testing.T) {
	t.Parallel()
	var api struct {
		Tags  []struct{ Name, Description string }
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(openAPI, &api); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	rows := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			var op struct {
				Tags    []string
				Summary string
			}
			if n, ok := api.Paths[path][method]; !ok {
				continue
			} else if err := n.Decode(&op); err != nil || len(op.Tags) == 0 || op.Summary == "" {
				t.Fatalf("%s %s: error %v, tags %v, summary %q; want all of them", method, path, err, op.Tags, op.Summary)
			}
			rows[op.Tags[0]] = append(rows[op.Tags[0]], fmt.Sprintf("| `%s %s` | %s |\n", strings.ToUpper(method), path, op.Summary))
		}
	}
	for _, tag := range api.Tags {
		fmt.Fprintf(&b, "| %s | |\n|---|---|\n%s\n", strings.TrimSuffix(tag.Description, "."), strings.Join(rows[tag.Name], ""))
	}
	symtest.Generated(t, "docs/reference/http.md", "api", b.String())

	b.Reset()
	b.WriteString("| Page | For |\n|---|---|\n")
	who := map[need]string{anyone: "everybody", seesAll: "who may read everything", mayPush: "who may add files", mayChange: "who may change something", isAdmin: "administrators"}
	var pages []string
	for _, rt := range pageRoutes {
		if who[rt.need] == "" {
			t.Errorf("the page %v is for people of whom this test has no word", rt.path)
		}
		pages = append(pages, fmt.Sprintf("| `%s /-/%s` | %s |\n", rt.method, strings.Join(rt.path, "/"), who[rt.need]))
	}
	slices.SortFunc(pages, func(a, b string) int {
		return strings.Compare(a[strings.Index(a, "/-/"):], b[strings.Index(b, "/-/"):])
	})
	b.WriteString(strings.Join(pages, ""))
	symtest.Generated(t, "docs/reference/http.md", "pages", b.String())
}
