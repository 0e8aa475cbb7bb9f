package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// TestSlowClientsKeepNoPlace: clients that do not read their answers keep no others from
// theirs.
func TestSlowClientsKeepNoPlace(t *testing.T) {
	t.Parallel()
	a := New(webtest.ActsOf(webtest.FilesDepot(t, "pdb/hello-x64.pdb")))
	match := `{"files":[{"name":"hello-x64.pdb","id":"F9EFE0B6AE7500394C4C44205044422E1"}]}`
	webtest.KeepNoPlace(t, func(w http.ResponseWriter, r *web.Request) { _ = a.Serve(w, r) },
		webtest.Slow{Name: "lists that are not read", Method: "POST", Path: "/-/api/v1/match", Body: match, Places: web.MaxExamining},
		webtest.Slow{Name: "usage that is not read", Method: "GET", Path: "/-/api/v1/disk", Places: web.MaxComputing},
	)
}

// TestComparesAtOnce: few versions are compared at the same time, because all of their
// differences are in memory.
func TestComparesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acts := web.New(web.Config{})
		a := New(acts)
		compare := func() (status int, body string) {
			w := httptest.NewRecorder()
			_ = a.Serve(w, webtest.RequestOf(t, http.MethodGet, "/-/api/v1/versions/diff?product=a&here=1&there=2", http.NoBody))
			return w.Code, w.Body.String()
		}
		for range web.MaxComputing {
			done, err := acts.Computing.Enter(webtest.RequestOf(t, http.MethodGet, "/", http.NoBody))
			if err != nil {
				t.Fatal(err)
			}
			defer done()
		}
		// There is no catalog: a comparison that did not wait would end the test.
		begin := time.Now()
		status, body := compare()
		if waited := time.Since(begin); status != http.StatusServiceUnavailable || !strings.Contains(body, "other plans are being computed") || waited != web.ComputeWait {
			t.Errorf("one comparison more than %d answers %d, %s after %s; want 503 after %s", web.MaxComputing, status, body, waited, web.ComputeWait)
		}
	})
}
