package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/auth/kdctest"
)

// TestWindowsTicket runs the program for Windows, which SYMDEPOT_WINDOWS_PROGRAM
// names, under Wine as a user with a Kerberos ticket of a real KDC. It logs in to a
// server that demands tickets: with get, as a proxy and as a worker.
func TestWindowsTicket(t *testing.T) {
	program := os.Getenv("SYMDEPOT_WINDOWS_PROGRAM")
	if program == "" {
		t.Skip("SYMDEPOT_WINDOWS_PROGRAM is not set: scripts/windows sets it to the program that it built")
	}
	k, err := kdctest.New(t)
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := symdepot(t, filepath.Join(dir, "depot"), "add", filepath.Join(repo, "testdata/pdb/hello-x64.pdb")); code != 0 {
		t.Fatalf("add: exit code %d, %s", code, errs)
	}
	conf := filepath.Join(dir, "server.yaml")
	write(t, conf, fmt.Sprintf("hosts: [localhost]\nauth:\n  negotiate: {keytab: %s}\n  admit: [alice@%s]\n  audit: {file: %s}\n", k.Keytab(), kdctest.Realm, filepath.Join(dir, "audit.jsonl")))
	env := map[string]string{"REPO": repo, "PATH": os.Getenv("PATH"), "HOME": dir, "SYMDEPOT_DEPOT": filepath.Join(dir, "depot"), "TMPDIR": t.TempDir()}
	s, err := startServe(func(name string) string { return env[name] }, dir, "--config", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	run := cmp.Or(os.Getenv("SYMDEPOT_WINDOWS_RUN"), filepath.Join(repo, "scripts/windows-run"))
	url := strings.Replace(s.url, "127.0.0.1", "localhost", 1)
	const path = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	if resp, err := http.Get(url + path); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a ticket: %+v, %v; want the status 401", resp, err)
	}
	client := filepath.Join(dir, "client.yaml")
	write(t, client, fmt.Sprintf("upstreams:\n  - {name: corp, url: %q, negotiate: true}\n", url))

	t.Cleanup(func() {
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
			t.Logf("the server's log:\n%s\naudit:\n%s", s.log.String(), b)
		}
	})
	for _, c := range []struct {
		user, text string
		ok         bool
	}{
		{"alice", "", true},
		{"mallory", "403", false},
		{"", "SEC_E_NO_CREDENTIALS", false},
	} {
		out := filepath.Join(dir, "out-"+c.user)
		cmd := exec.CommandContext(t.Context(), run, program,
			"--depot", windowsPath(filepath.Join(dir, "client-"+c.user)), "get", "--config", windowsPath(client), "hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1", "-o", windowsPath(out))
		cmd.Env = k.As(t, c.user).Env("/host")
		text, err := cmd.CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(text), c.text) {
			t.Errorf("get as %q: %v, want success %v with %q in\n%s", c.user, err, c.ok, c.text, text)
		}
		got, _ := os.ReadFile(out)
		want, err := os.ReadFile(filepath.Join(repo, "testdata/pdb/hello-x64.pdb"))
		if err != nil || c.ok && string(got) != string(want) || !c.ok && got != nil {
			t.Errorf("get as %q: %d bytes, want success %v; %v", c.user, len(got), c.ok, err)
		}
	}
}

// windowsPath is the name that a path of this machine has under Wine.
func windowsPath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }
