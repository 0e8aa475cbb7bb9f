package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestUpstreamAsksForCredentials: a server whose upstream answers 401 says how to sign in
// there, in the log and in traces, and asks again at once for what it did not get.
func TestUpstreamAsksForCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	symdepot := func(depot string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "symdepot", args...)
		cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+filepath.Join(dir, depot))
		out, err := cmd.Output()
		return string(out), err
	}
	must := func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	start := func(depot string, args ...string) *commandtest.Serving {
		t.Helper()
		env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir, "TMPDIR": t.TempDir(), "SYMDEPOT_DEPOT": filepath.Join(dir, depot)}
		s, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	pdb := "../../testdata/pdb/hello-x64.pdb"
	must(symdepot("far", "add", "--product", "app", pdb))
	token := strings.TrimSpace(must(symdepot("far", "token", "new", "--name", "near")))
	far := start("far", "--auth")
	commandtest.Write(t, filepath.Join(dir, "headers"), "X-Team: tools\n")
	commandtest.Write(t, filepath.Join(dir, "near.yaml"), "upstreams:\n  - {name: far, url: \""+far.URL+"/symbols\", headers_file: headers}\n")
	near := start("near", "--config", filepath.Join(dir, "near.yaml"))

	path := "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	get := func() (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, near.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	for range 3 {
		if status, body := get(); status != 404 {
			t.Errorf("GET %s without credentials of the upstream: status %d, want 404: %s", path, status, body)
		}
	}
	how := "sign in with: symdepot login " + far.URL + ", or give the upstream a token with token_file"
	if out, _ := symdepot("none", "why", path, "--server", near.URL); !strings.Contains(out, "far") || !strings.Contains(out, how) {
		t.Errorf("symdepot why prints %s, want %q", out, how)
	}
	if out := must(symdepot("near", "cache", "stats", "--json")); !strings.Contains(out, `"misses":[]`) {
		t.Errorf("symdepot cache stats prints %s, want no remembered miss", out)
	}
	commandtest.Write(t, filepath.Join(dir, "headers"), "Authorization: Bearer "+token+"\n")
	want, err := os.ReadFile(pdb)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(); status != 200 || !bytes.Equal(body, want) {
		t.Errorf("GET %s with a token for the upstream: status %d and %d bytes, want 200 and the file", path, status, len(body))
	}
	for name, s := range map[string]*commandtest.Serving{"near": near, "far": far} {
		if err := s.Stop(); err != nil {
			t.Errorf("%s: stop: error %v, want no error", name, err)
		}
	}
	if log := near.Log.String(); !strings.Contains(log, how) || strings.Contains(log, token[3:20]) {
		t.Errorf("the log has no %q, or the token:\n%s", how, log)
	}
	if log := far.Log.String(); strings.Count(log, `"status":401`) < 3 {
		t.Errorf("the upstream was not asked each time:\n%s", log)
	}
}
