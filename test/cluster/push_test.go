package cluster

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestPushKilled: a client that is killed at any of its requests leaves nothing
// visible, and a rerun finishes.
func TestPushKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := append(os.Environ(), "SYMDEPOT_DEPOT="+filepath.Join(dir, "depot"), "HOME="+dir)
	symdepot := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "symdepot", args...)
		cmd.Env = env
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := symdepot(args...)
		if err != nil {
			t.Fatalf("symdepot %s: %v\n%s", args[0], err, out)
		}
		return out
	}
	must("add", "--product", "other", "../../testdata/pe")
	token, _, _ := strings.Cut(must("token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	env = append(env, "SYMDEPOT_TOKEN="+token)
	getenv := func(k string) string {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, k+"="); ok && k == "SYMDEPOT_DEPOT" {
				return v
			}
		}
		return os.Getenv(k)
	}
	srv, err := commandtest.StartServe(getenv, dir, "--auth")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	}()
	to, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.ErrorLog = log.New(io.Discard, "", 0) // of the killed clients
	var left atomic.Int64
	victims := make(chan *os.Process, 1)
	address := commandtest.Front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) == 0 {
			_ = (<-victims).Kill()
		}
		pass.ServeHTTP(w, r)
	}))
	push := []string{"push", "--server", address, "--product", "app", "--version", "1", "--key", "build-1", "--parallel", "2", "../../testdata/pdb", "../../testdata/elf"}
	for at := int64(1); ; at++ {
		left.Store(at)
		cmd := exec.CommandContext(t.Context(), "symdepot", push...)
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		victims <- cmd.Process
		err := cmd.Wait()
		list := must("list")
		if left.Load() > 0 {
			<-victims
			if err != nil || strings.Count(list, "app") != 1 {
				t.Errorf("the last push: %v, the list:\n%s\nwant one build of app", err, list)
			}
			break
		}
		// The server may have committed before the client was killed.
		if n := strings.Count(list, "app"); n > 1 {
			t.Fatalf("killed at request %d: %d builds of app, want at most one:\n%s", at, n, list)
		}
		if at > 100 {
			t.Fatal("the push has more than 100 requests")
		}
	}
	left.Store(0)
	if out := must("push", "--server", address, "--product", "app", "--version", "1", "--json", "../../testdata/pdb", "../../testdata/elf"); !strings.Contains(out, `"again":true`) || !strings.Contains(out, `"sent_bytes":0`) {
		t.Errorf("the rerun: %s\nwant nothing sent, and the same build", out)
	}
	must("verify")
}
