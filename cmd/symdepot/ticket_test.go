package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/binding"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/auth/kdctest"
)

// windowsPrograms are the programs for Windows that scripts/windows built: symdepot,
// and the tests of cmd/symdepot and internal/base/sspi.
type windowsPrograms struct{ symdepot, tests, sspi string }

func windowsBuilt(t *testing.T) windowsPrograms {
	t.Helper()
	dir := os.Getenv("SYMDEPOT_WINDOWS_PROGRAMS")
	if dir == "" {
		t.Skip("SYMDEPOT_WINDOWS_PROGRAMS is not set: scripts/windows sets it to the folder of the programs that it built")
	}
	return windowsPrograms{filepath.Join(dir, "symdepot.exe"), filepath.Join(dir, "symdepot.test.exe"), filepath.Join(dir, "sspi.test.exe")}
}

// ticketServer is a server that demands tickets of a real KDC.
type ticketServer struct {
	*commandtest.Serving
	kdc  *kdctest.KDC
	dir  string
	repo string
}

// newTicketServer starts a server with further configuration. The user alice may
// do everything.
func newTicketServer(t *testing.T, negotiate, more string) *ticketServer {
	t.Helper()
	k, err := kdctest.New(t)
	if err != nil {
		symtest.Missing(t, "kerberos", "%v", err)
	}
	s := &ticketServer{kdc: k, dir: t.TempDir()}
	if s.repo, err = filepath.Abs("../.."); err != nil {
		t.Fatal(err)
	}
	depot := filepath.Join(s.dir, "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", filepath.Join(s.repo, "testdata/pdb/hello-x64.pdb")); code != 0 {
		t.Fatalf("add: exit code %d, %s; want 0", code, errs)
	}
	conf, audit := filepath.Join(s.dir, "server.yaml"), filepath.Join(s.dir, "audit.jsonl")
	commandtest.Write(t, conf, fmt.Sprintf("hosts: [localhost]\n%sauth:\n  negotiate: {keytab: %s%s}\n  grants:\n    - {who: [alice@%s], read: ['*'], write: ['*']}\n  audit: {file: %s}\n",
		more, k.Keytab(), negotiate, kdctest.Realm, audit))
	env := map[string]string{"REPO": s.repo, "PATH": os.Getenv("PATH"), "HOME": s.dir, "SYMDEPOT_DEPOT": depot, "TMPDIR": t.TempDir()}
	if s.Serving, err = commandtest.StartServe(func(name string) string { return env[name] }, s.dir, "--config", conf); err != nil {
		t.Fatal(err)
	}
	s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	t.Cleanup(func() {
		_ = s.Cmd.Process.Kill()
		_ = s.Cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(audit)
			t.Logf("the server's log:\n%s\naudit:\n%s", s.Log.String(), b)
		}
	})
	return s
}

// wine returns the command that runs a program for Windows with the ticket of a
// user.
func (s *ticketServer) wine(t *testing.T, user, program string, args ...string) *exec.Cmd {
	t.Helper()
	run := cmp.Or(os.Getenv("SYMDEPOT_WINDOWS_RUN"), filepath.Join(s.repo, "scripts/windows-run"))
	cmd := exec.CommandContext(t.Context(), run, append([]string{program}, args...)...)
	cmd.Env = s.kdc.As(t, user).Env("/host")
	return cmd
}

// hello is the PDB of these tests.
const (
	helloID  = "F9EFE0B6AE7500394C4C44205044422E1"
	helloPDB = "/hello-x64.pdb/" + helloID + "/hello-x64.pdb"
)

// TestWindowsTicket runs get for Windows under Wine as a user with a Kerberos
// ticket of a real KDC. It logs in to a server that demands tickets.
func TestWindowsTicket(t *testing.T) {
	built := windowsBuilt(t)
	s := newTicketServer(t, "", "")
	if resp, err := http.Get(s.URL + helloPDB); err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a ticket: %+v, %v; want the status 401", resp, err)
	}
	client := filepath.Join(s.dir, "client.yaml")
	commandtest.Write(t, client, fmt.Sprintf("upstreams:\n  - {name: corp, url: %q, negotiate: true}\n", s.URL))
	for _, c := range []struct {
		user, text string
		ok         bool
	}{
		{"alice", "", true},
		{"mallory", "403", false},
		{"", "SEC_E_NO_CREDENTIALS", false},
	} {
		out := filepath.Join(s.dir, "out-"+c.user)
		text, err := s.wine(t, c.user, built.symdepot, "--depot", windowsPath(filepath.Join(s.dir, "client-"+c.user)),
			"get", "--config", windowsPath(client), "hello-x64.pdb", helloID, "-o", windowsPath(out)).CombinedOutput()
		if (err == nil) != c.ok || !strings.Contains(string(text), c.text) {
			t.Errorf("get as %q: %v, want success %v with %q in\n%s", c.user, err, c.ok, c.text, text)
		}
		got, _ := os.ReadFile(out)
		want, err := os.ReadFile(filepath.Join(s.repo, "testdata/pdb/hello-x64.pdb"))
		if err != nil || c.ok && string(got) != string(want) || !c.ok && got != nil {
			t.Errorf("get as %q: %d bytes, want success %v; %v", c.user, len(got), c.ok, err)
		}
	}
}

// TestWindowsTicketProxy runs proxy --negotiate for Windows under Wine: clients
// without a ticket get the files that its user may read.
func TestWindowsTicketProxy(t *testing.T) {
	built := windowsBuilt(t)
	s := newTicketServer(t, "", "")
	for user, status := range map[string]int{"alice": http.StatusOK, "mallory": http.StatusNotFound} {
		cmd := s.wine(t, user, built.symdepot, "--depot", windowsPath(filepath.Join(s.dir, "proxy-"+user)), "proxy", "--negotiate", "--upstream", s.URL, "--listen", "127.0.0.1:0")
		out := &symtest.Output{}
		cmd.Stdout, cmd.Stderr = out, out
		stop := startWine(t, cmd)
		out.Await(t, "://127.0.0.1:")
		_, at, _ := strings.Cut(out.String(), "://127.0.0.1:")
		resp, err := http.Get("http://127.0.0.1:" + strings.TrimRight(strings.Fields(at)[0], "/.,") + helloPDB)
		if err != nil {
			t.Fatalf("proxy of %s: %v\n%s", user, err, out)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		want, readErr := os.ReadFile(filepath.Join(s.repo, "testdata/pdb/hello-x64.pdb"))
		if err != nil || readErr != nil || resp.StatusCode != status || status == http.StatusOK && string(b) != string(want) {
			t.Errorf("proxy of %s: status %d, %d bytes, %v, %v; want %d and the PDB if it is 200\n%s", user, resp.StatusCode, len(b), err, readErr, status, out)
		}
		stop()
	}
}

// TestWindowsTicketWorker runs work --negotiate for Windows under Wine: it takes a
// job from the server and sends the result.
func TestWindowsTicketWorker(t *testing.T) {
	built := windowsBuilt(t)
	s := newTicketServer(t, "", "")
	cmd := s.wine(t, "alice", built.symdepot, "work", "--negotiate", "--server", s.URL, "--min-free", "1MiB",
		"--scratch", windowsPath(t.TempDir()), "--transcoder", fmt.Sprintf(`test="%s" "%s" "-pdb" "{pdb}"`, windowsPath(built.tests), transcodetest.Word))
	out := &symtest.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	defer startWine(t, cmd)()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the worker's output:\n%s", out)
		}
	})
	alice := s.kdc.As(t, "alice")
	var got kdctest.Response
	symtest.Await(t, 3*time.Minute, "the SymCache file of the worker", func() bool {
		got = alice.Curl(t, "--negotiate", "-u", ":", s.URL+"/v3.1.0/hello-x64.pdb/"+helloID[:32]+"/1")
		return got.Status == "200"
	})
	if !strings.Contains(got.Body, "hello-x64.pdb") || !strings.Contains(got.Body, "3.1.0") {
		t.Errorf("the result is %q, want what the transcoder makes", got.Body)
	}
}

// TestWindowsTicketBound lets Wine make a ticket that is bound to the server's
// certificate, and presents it over TLS.
func TestWindowsTicketBound(t *testing.T) {
	built := windowsBuilt(t)
	ca, dir := newAuthority(t), t.TempDir()
	pair := ca.pair(t, filepath.Join(dir, "tls"), &x509.Certificate{DNSNames: []string{"localhost"}})
	other := ca.pair(t, filepath.Join(dir, "other"), &x509.Certificate{DNSNames: []string{"localhost"}})
	s := newTicketServer(t, ", channel_binding: true", fmt.Sprintf("tls: {cert: %[1]s/tls.crt, key: %[1]s/tls.key}\n", dir))
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	ask := func(binding []byte) (status int, reason string) {
		t.Helper()
		cmd := s.wine(t, "alice", built.sspi)
		cmd.Env = append(cmd.Env, fmt.Sprintf("SYMDEPOT_SSPI_TOKEN=localhost,%x", binding))
		token, err := cmd.Output()
		if err != nil {
			t.Fatalf("the token: %v, %s", err, token)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+helloPDB, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Negotiate "+strings.TrimSpace(string(token)))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	bound := func(c tls.Certificate) []byte {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return binding.EndPoint(leaf)
	}
	if status, reason := ask(nil); status != http.StatusUnauthorized {
		t.Errorf("a ticket that is not bound: status %d, %s; want 401", status, reason)
	}
	if status, reason := ask(bound(other)); status != http.StatusUnauthorized {
		t.Errorf("a ticket for a different certificate: status %d, %s; want 401", status, reason)
	}
	status, reason := ask(bound(pair))
	if status == http.StatusUnauthorized {
		t.Skip("Wine 10.0: its Kerberos drops SECBUFFER_CHANNEL_BINDINGS, so tickets are not bound")
	}
	if status != http.StatusOK {
		t.Errorf("a ticket for the server's certificate: status %d, %s; want 200", status, reason)
	}
}

// startWine starts a program under Wine. stop ends it with its descendants.
func startWine(t *testing.T, cmd *exec.Cmd) (stop func()) {
	t.Helper()
	endTogether(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// windowsPath is the name that a path of this machine has under Wine.
func windowsPath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }
