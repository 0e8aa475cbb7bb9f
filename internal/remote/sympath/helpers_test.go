package sympath

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// serve starts a server that answers the paths; all others are 404.
func serve(t *testing.T, paths map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := paths[r.URL.Path]; f != nil {
			f(w, r)
			return
		}
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(s.Close)
	return s
}
