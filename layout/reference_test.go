package layout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestPathDocs: docs/reference/http.md has the forms of symbol paths, in the order in which
// they are tried.
func TestPathDocs(t *testing.T) {
	table := "| Form | Looks like |\n|---|---|\n"
	for _, s := range shapes {
		table += fmt.Sprintf("| `%s` | `/%s` |\n", s.name, s.looks)
	}
	symtest.Generated(t, "docs/reference/http.md", "paths", table+"\nA prefix is removed from the front of a path: `/"+strings.Join(Prefixes, "`, `/")+"`, and those of `serve --prefix`.\n")
}
