package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/console"
)

// TestAgent: a server sees in its log which command asks, and a refusal says where a token goes.
func TestAgent(t *testing.T) {
	var agent string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	for _, name := range []string{"SYMDEPOT_TOKEN", "SYMDEPOT_SERVER", "GITHUB_ACTIONS", "SYMDEPOT_ID_TOKEN"} {
		t.Setenv(name, "")
	}
	file := filepath.Join("..", "..", "..", "testdata", "elf", "prog-sha1")
	for want, args := range map[string][]string{
		"symdepot find":       {"find", "x.pdb"},
		"symdepot why":        {"why", "/a.pdb/AB1/a.pdb"},
		"symdepot token list": {"token", "list"},
		"symdepot push":       {"push", file},
		"symdepot identify":   {"identify", file},
	} {
		agent = ""
		var errors bytes.Buffer
		code := Run(t.Context(), append(args, "--server", s.URL), strings.NewReader(""), &bytes.Buffer{}, &errors, console.Options{})
		if agent != want {
			t.Errorf("%q sends the agent %q, want %q", args, agent, want)
		}
		if code != ExitCredentials || !strings.Contains(errors.String(), "--token-file") || !strings.Contains(errors.String(), "SYMDEPOT_TOKEN") {
			t.Errorf("%q without a token: exit code %d, %q; want %d, and where a token goes", args, code, errors.String(), ExitCredentials)
		}
	}
	var errors bytes.Buffer
	if code := Run(t.Context(), []string{"push", file}, strings.NewReader(""), &bytes.Buffer{}, &errors, console.Options{}); code != ExitUsage ||
		!strings.Contains(errors.String(), "give --server URL, or set SYMDEPOT_SERVER") {
		t.Errorf("push without a server: exit code %d, %q; want %d, and SYMDEPOT_SERVER", code, errors.String(), ExitUsage)
	}
}
