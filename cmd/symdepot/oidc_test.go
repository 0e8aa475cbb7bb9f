package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/oidc/oidctest"
)

// TestPushOIDC: jobs of GitHub Actions and GitLab push with nothing but their id
// token, to a server that trusts a local issuer. A pull request from a fork has no
// id token, another repository has no rule, and an id token counts once.
func TestPushOIDC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	issuer := oidctest.New(t, "/_services/token")
	var to atomic.Pointer[url.URL]
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to.Load()) }}) // its URL is known before the server's
	defer front.Close()
	repository := "74"
	runner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer runner-secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"value": issuer.Sign(issuer.GitHub(r.URL.Query().Get("audience"), time.Now(), map[string]any{"repository_id": repository}))})
	}))
	defer runner.Close()
	config := filepath.Join(dir, "symdepot.yaml")
	text := fmt.Sprintf(`
auth:
  demand: true
  oidc:
    - issuer: %s
      audience: %s
      match: {repository_id: 74, ref: refs/heads/*}
      write: [Game]
      product: Game
      class: nightly
    - issuer: %[1]s
      audience: %[2]s
      match: {sub: "project_path:group/sub/tool:ref_type:branch:ref:*", ref_protected: true}
      write: [tool]
      read: true
    - issuer: %[1]s
      audience: partners
      match: {repository_id: 80}
      public: [Game]
push:
  max_file: 1MiB
  quotas: {tool: 1GiB}
`, issuer.URL, front.URL)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SYMDEPOT_DEPOT=" + filepath.Join(dir, "depot"), "TESTSCRIPT_COMMAND=" + os.Getenv("TESTSCRIPT_COMMAND")}
	run := func(env []string, args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), "symdepot", args...)
		cmd.Env = append(base, env...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(nil, "add", "--product", "other", "../../testdata/pe"); code != 0 {
		t.Fatalf("add --product other: exit code %d, want 0\n%s", code, out)
	}
	srv, err := commandtest.StartServe(func(k string) string {
		for _, kv := range base {
			if v, ok := strings.CutPrefix(kv, k+"="); ok {
				return v
			}
		}
		return os.Getenv(k)
	}, dir, "--config", config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Stop(); err != nil || strings.Contains(srv.Log.String(), "sd_") && !strings.Contains(srv.Log.String(), "sd_***") {
			t.Errorf("serve: %v\n%s\nwant a clean end and no token in the log", err, srv.Log.String())
		}
	}()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	to.Store(u)
	github := []string{"GITHUB_ACTIONS=true", "GITHUB_RUN_ID=4711", "GITHUB_JOB=build", "GITHUB_REPOSITORY=octo/game", "GITHUB_SHA=forged",
		"ACTIONS_ID_TOKEN_REQUEST_URL=" + runner.URL + "/?api-version=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=runner-secret"}
	fork := github[:5:5]
	gitlab := func() []string {
		return []string{"GITLAB_CI=true", "SYMDEPOT_ID_TOKEN=" + issuer.Sign(issuer.GitLab(front.URL, time.Now(), nil))}
	}
	push := func(env []string, args ...string) (string, int) {
		return run(env, append([]string{"push", "--server", front.URL, "--retry", "10ms"}, args...)...)
	}
	if out, code := push(github, "--version", "1", "../../testdata/pdb/hello-x64.pdb"); code != 0 || !strings.Contains(out, "build 2") {
		t.Fatalf("GitHub: exit code %d, want 0 and %q in the output\n%s", code, "build 2", out)
	}
	once := gitlab()
	if out, code := push(once, "--product", "tool", "--version", "1", "../../testdata/pdb/hello-x86.pdb"); code != 0 || !strings.Contains(out, "build 3") {
		t.Fatalf("GitLab: exit code %d, want 0 and %q in the output\n%s", code, "build 3", out)
	}
	list, _ := run(nil, "list", "--json")
	for _, want := range []string{`"who":"oidc:github:octo/game@refs/heads/main"`, `"class":"nightly"`, `"commit":"2f1c0ffee"`, `"verified":true`, `"who":"oidc:gitlab:group/sub/tool@main"`} {
		if !strings.Contains(list, want) {
			t.Errorf("the list has no %s:\n%s", want, list)
		}
	}
	if strings.Contains(list, "forged") {
		t.Errorf("the list believes the job's environment, want no %q in the list\n%s", "forged", list)
	}
	exchange := func(env []string) (string, int) { return run(env, "token", "exchange", "--server", front.URL) }
	refused := func(what string, code, want int, out, words string) {
		t.Helper()
		if code != want || !strings.Contains(out, words) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", what, code, want, words, out)
		}
	}
	out, code := push(once, "--product", "tool", "--version", "2", "../../testdata/pdb/hello-x86.pdb")
	refused("the id token of GitLab again", code, 5, out, "once")
	out, code = push(fork, "--version", "1", "../../testdata/pdb/hello-x64.pdb")
	refused("a fork without an id token", code, 5, out, "forks have none")
	out, code = push(github, "--product", "tool", "--version", "1", "../../testdata/pdb/hello-x64.pdb")
	refused("another product", code, 5, out, "tool")
	out, code = push(github, "--version", "1", "--class", "release", "../../testdata/pdb/hello-x64.pdb")
	refused("another class", code, 5, out, "nightly")
	big := filepath.Join(dir, "big.sym")
	if err := os.WriteFile(big, append([]byte("MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 big\n"), strings.Repeat("FILE 0 x\n", 1<<17)...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code = push(gitlab(), "--product", "tool", "--version", "3", big)
	refused("a file beyond push.max_file", code, 6, out, "1048576")
	repository = "75"
	out, code = push(github, "--version", "1", "../../testdata/pdb/hello-x64.pdb")
	refused("another repository", code, 5, out, "no rule")
	// Jobs with several commands exchange their id token once.
	out, code = exchange(gitlab())
	refused("token exchange", code, 0, out, "sd_")
	out, code = push([]string{"SYMDEPOT_TOKEN=" + strings.TrimSpace(out)}, "--product", "tool", "--version", "4", "../../testdata/pdb/hello-x64.pdb")
	refused("a push with the exchanged token", code, 0, out, "build")
	// The job of a partner reads public forms, and adds nothing.
	partner := []string{"GITLAB_CI=true", "SYMDEPOT_ID_TOKEN=" + issuer.Sign(issuer.GitHub("partners", time.Now(), map[string]any{"repository_id": "80"}))}
	out, code = exchange(partner)
	refused("token exchange of a partner", code, 0, out, "sd_")
	secret := strings.TrimSpace(out)
	private, err := os.Stat("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	at := srv.URL + "/t/" + secret + "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	status, n, _, err := commandtest.FetchURL(t.Context(), http.DefaultClient, at)
	if err != nil || status != 200 || n == 0 || n >= private.Size() {
		t.Errorf("a file with the token of a partner's job: status %d with %d bytes, %v; want its public form", status, n, err)
	}
	out, code = push([]string{"SYMDEPOT_TOKEN=" + secret}, "--product", "Game", "--version", "5", "../../testdata/pdb/hello-x64.pdb")
	refused("a push with the token of a partner's job", code, 5, out, "")
	out, code = exchange(nil)
	refused("token exchange without an id token", code, 5, out, "id-token: write")
	if out, code = run(nil, "token", "list"); code != 0 || !strings.Contains(out, "oidc:gitlab:group/sub/tool@main") {
		t.Errorf("token list: exit code %d, want 0 and %q in the output\n%s", code, "oidc:gitlab:group/sub/tool@main", out)
	}
}
