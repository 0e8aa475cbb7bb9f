package endpoint

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRedirectsAreNotFollowed: a server, or what answers in its place, sends no worker and
// no push to another address: neither the token nor a body nor a request gets there.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	inside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another address got %s %s with %v, want nothing", r.Method, r.URL, r.Header)
	}))
	defer inside.Close()
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		for _, to := range []string{inside.URL + "/", "//" + strings.TrimPrefix(inside.URL, "http://") + "/"} {
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			}))
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
				q := Endpoint{HTTP: front.Client(), URL: front.URL, Token: func() (string, error) { return "planted-token", nil }}
				resp, err := q.Send(t.Context(), method, "/-/api/v1/jobs/lease", nil, strings.NewReader("planted body"), 12)
				if err != nil {
					t.Fatalf("%s, %d: %v, want the redirect as the answer", method, status, err)
				}
				_ = resp.Body.Close()
				if text := Redirected(resp); resp.StatusCode != status || !strings.Contains(text, to) {
					t.Errorf("%s, %d: status %d, %q; want the redirect and its address", method, status, resp.StatusCode, text)
				}
			}
			front.Close()
		}
	}
}
