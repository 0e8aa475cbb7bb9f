package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// startProxy runs `symdepot proxy` with an environment of its own and returns
// its base URL and what it said before.
func startProxy(t *testing.T, env []string, args ...string) (url, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, "symdepot", append([]string{"--depot", filepath.Join(t.TempDir(), "depot"), "proxy", "--listen", "127.0.0.1:0"}, args...)...)
	commandtest.PrepareInterrupt(cmd)
	cmd.Cancel = func() error { return stopCommand(cmd) }
	cmd.Dir = t.TempDir()
	for _, k := range []string{"PATH", "TESTSCRIPT_COMMAND", "TMPDIR"} {
		cmd.Env = append(cmd.Env, k+"="+os.Getenv(k))
	}
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(errs.String())
		}
	})
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if i := strings.Index(sc.Text(), "http://127.0.0.1:"); i >= 0 && !strings.HasPrefix(sc.Text(), "Upstream: ") {
			url = strings.TrimRight(strings.Fields(sc.Text()[i:])[0], "/.,")
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return url, said
		}
		said += sc.Text() + "\n"
	}
	t.Fatalf("proxy did not say its base URL: %s%s", said, errs.String())
	return "", ""
}

// TestProxy needs no configuration: the variables of debuggers name the servers,
// and credentials come from the environment and go to the private server alone.
func TestProxy(t *testing.T) {
	t.Parallel()
	sym := breakpadText("44E4EC8C2F41492B9369D6B9A059577C2", 100<<10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials went to another host")
		}
		_, _ = w.Write(sym)
	}))
	defer elsewhere.Close()
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pat, _ := r.BasicAuth(); pat != "the-pat" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "app.sym") {
			_, _ = w.Write(sym)
			return
		}
		http.NotFound(w, r)
	}))
	defer private.Close()
	c := &http.Client{Timeout: 10 * time.Second}
	t.Run("environment", func(t *testing.T) {
		url, said := startProxy(t, []string{"_NT_SYMBOL_PATH=srv*" + filepath.Join(t.TempDir(), "cache") + "*" + elsewhere.URL})
		if !strings.Contains(said, "Upstream: ") || strings.Contains(said, "microsoft") {
			t.Errorf("said %q, want %q in it and no %q in it", said, "Upstream: ", "microsoft")
		}
		if status, n, _, err := commandtest.FetchURL(t.Context(), c, url+farSym); err != nil || status != 200 || n != int64(len(sym)) {
			t.Errorf("GET %s: status %d, %d bytes, %v; want 200 and %d bytes", farSym, status, n, err, len(sym))
		}
	})
	t.Run("nothing named", func(t *testing.T) {
		url, said := startProxy(t, nil, "--no-egress")
		if !strings.Contains(said, "using microsoft") {
			t.Errorf("said %q, want %q in it", said, "using microsoft")
		}
		if status, _, _, err := commandtest.FetchURL(t.Context(), c, url+farPDB); err != nil || status != 404 {
			t.Errorf("fetchURL: %d, error %v; want 404", status, err)
		}
	})
	t.Run("private", func(t *testing.T) {
		url, _ := startProxy(t, []string{"SYMDEPOT_PAT=the-pat"}, "--upstream", private.URL+",layout=breakpad")
		if status, n, _, err := commandtest.FetchURL(t.Context(), c, url+farSym); err != nil || status != 200 || n != int64(len(sym)) {
			t.Errorf("GET %s: status %d, %d bytes, %v; want 200 and %d bytes", farSym, status, n, err, len(sym))
		}
	})
	t.Run("two private servers", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), "symdepot", "--depot", t.TempDir(), "proxy", "--upstream", private.URL, "--upstream", elsewhere.URL)
		cmd.Env = append(os.Environ(), "SYMDEPOT_BEARER=x")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "set the credentials of each in a configuration file") {
			t.Errorf(`CombinedOutput: error %v, %s; want an error, one with "set the credentials of each in a configuration file"`, err, out)
		}
	})
}
