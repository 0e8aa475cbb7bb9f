package pages

import (
	"net/http"
	"testing"

	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// TestSlowClientsKeepNoPlace: clients that do not read their pages, and those that do not
// send their forms, keep no others from theirs.
func TestSlowClientsKeepNoPlace(t *testing.T) {
	t.Parallel()
	p := New(webtest.ActsOf(webtest.FilesDepot(t, "pdb/hello-x64.pdb")))
	webtest.KeepNoPlace(t, func(w http.ResponseWriter, r *web.Request) { _ = p.Serve(w, r) },
		webtest.Slow{Name: "pages that are not read", Method: "GET", Path: "/-/search?q=*", Places: maxPages},
		webtest.Slow{Name: "forms that do not come", Method: "POST", Path: "/-/prefs", Waits: true, Other: "/-/prefs", Places: maxPages},
		webtest.Slow{Name: "logs that do not come", Method: "POST", Path: "/-/trace", Waits: true, Other: "/-/prefs", Places: maxPages},
	)
}
