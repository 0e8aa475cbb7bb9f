package symtest

import (
	"io"
	"net/http"
	"testing"
)

// Do sends a request by do, such as the method Do of a client or RoundTrip of a
// transport, and reads the whole answer.
func Do(tb testing.TB, do func(*http.Request) (*http.Response, error), req *http.Request) (*http.Response, string) {
	tb.Helper()
	resp, err := do(req)
	if err != nil {
		tb.Fatalf("%s %s: %v, want an answer", req.Method, req.URL, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatalf("%s %s: the body: %v, want the whole body", req.Method, req.URL, err)
	}
	return resp, string(b)
}
