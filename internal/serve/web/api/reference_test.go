package api

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestHTTPDocs: docs/reference/http.md has the addresses of the API.
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
}
