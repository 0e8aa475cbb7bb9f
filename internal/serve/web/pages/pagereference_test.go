package pages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// TestPageDocs: docs/reference/http.md has the addresses of the pages.
func TestPageDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| Page | For |\n|---|---|\n")
	who := map[web.Need]string{web.Anyone: "everybody", web.SeesAll: "who may read everything", web.MayPush: "who may add files", web.MayChange: "who may change something", web.IsAdmin: "administrators"}
	var pages []string
	for _, rt := range New(web.New(web.Config{})).table {
		if who[rt.need] == "" {
			t.Errorf("the page %v is for people of whom this test has no word", rt.path)
		}
		pages = append(pages, fmt.Sprintf("| `%s /-/%s` | %s |\n", rt.method, strings.Join(rt.path, "/"), who[rt.need]))
	}
	slices.SortStableFunc(pages, func(a, b string) int {
		return strings.Compare(a[strings.Index(a, "/-/"):], b[strings.Index(b, "/-/"):])
	})
	b.WriteString(strings.Join(pages, ""))
	symtest.Generated(t, "docs/reference/http.md", "pages", b.String())
}
