package commandtest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Sends sends a request with a bearer token and expects a status and words.
func Sends(t *testing.T, method, url, token, ctype string, body []byte, status int, words string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if ctype != "" {
		r.Header.Set("Content-Type", ctype)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || !strings.Contains(string(answer), words) {
		t.Fatalf("%s %s: status %d, %s, %v; want %d with %q", method, strings.ReplaceAll(url, token, "TOKEN"), resp.StatusCode, answer, err, status, words)
	}
}
