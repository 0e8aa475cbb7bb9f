package server

import (
	"os"
	"strings"
	"testing"
)

// TestOwnPathDocs: docs/reference/http.md names each path of the server's own.
func TestOwnPathDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range builtIn {
		if !strings.Contains(string(page), "| `/"+name) {
			t.Errorf("docs/reference/http.md has no row for /%s", name)
		}
	}
}
