package sympath

import (
	"io"
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

func give(body []byte, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		_, _ = w.Write(body)
	}
}

func refuse(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "status of a test")
	}
}
