package auth

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kdc is a real MIT KDC with a realm of its own.
type kdc struct {
	dir string
	env []string
}

// program finds a program; those of a KDC are often not on people's PATH.
func program(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s is not installed (Debian packages krb5-kdc, krb5-admin-server, krb5-user, curl)", name)
}

func (k *kdc) run(t *testing.T, stdin string, name string, args ...string) string {
	t.Helper()
	p, err := program(name)
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p, args...)
	cmd.Env, cmd.Stdin = k.env, strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// newKDC starts a KDC with the users alice and mallory and the keys of
// HTTP/localhost in http.keytab.
func newKDC(t *testing.T) *kdc {
	t.Helper()
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit", "curl"} {
		if _, err := program(name); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	k := &kdc{dir: dir, env: append(os.Environ(), "KRB5_CONFIG="+dir+"/krb5.conf", "KRB5_KDC_PROFILE="+dir+"/kdc.conf", "LC_ALL=C")}
	for name, text := range map[string]string{
		"krb5.conf": `[libdefaults]
 default_realm = SYMDEPOT.TEST
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 SYMDEPOT.TEST = {
  kdc = ` + addr + `
 }
[domain_realm]
 localhost = SYMDEPOT.TEST
[logging]
 kdc = STDERR
`,
		"kdc.conf": `[kdcdefaults]
 kdc_listen = ` + addr + `
 kdc_tcp_listen = ` + addr + `
[realms]
 SYMDEPOT.TEST = {
  database_name = ` + dir + `/principal
  key_stash_file = ` + dir + `/stash
  acl_file = ` + dir + `/kadm5.acl
  max_life = 1h
 }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.run(t, "", "kdb5_util", "create", "-s", "-r", "SYMDEPOT.TEST", "-P", "masterpw")
	for _, q := range []string{
		"addprinc -pw userpw alice", "addprinc -pw userpw mallory", "addprinc -randkey HTTP/localhost",
		"ktadd -k " + dir + "/http.keytab -norandkey HTTP/localhost",
	} {
		k.run(t, "", "kadmin.local", "-r", "SYMDEPOT.TEST", "-q", q)
	}
	k.start(t)
	return k
}

// start starts the KDC and waits until it says that it listens.
func (k *kdc) start(t *testing.T) {
	t.Helper()
	p, err := program("krb5kdc")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(p, "-n")
	cmd.Env = k.env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	guard := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	var said bytes.Buffer
	r := bufio.NewReader(stderr)
	for {
		line, err := r.ReadString('\n')
		said.WriteString(line)
		if strings.Contains(line, "commencing operation") {
			break
		}
		if err != nil {
			t.Fatalf("the KDC ends: %s", said.String())
		}
	}
	go func() { _, _ = r.WriteTo(&bytes.Buffer{}) }()
}

// as returns the environment of a user with a ticket.
func (k *kdc) as(t *testing.T, user string) *kdc {
	t.Helper()
	u := &kdc{dir: k.dir, env: append(k.env[:len(k.env):len(k.env)], "KRB5CCNAME=FILE:"+k.dir+"/cc-"+user)}
	if user != "nobody" {
		u.run(t, "userpw\n", "kinit", user+"@SYMDEPOT.TEST")
	}
	return u
}

// curl asks and returns status, body, and the WWW-Authenticate headers of the
// last answer.
func (k *kdc) curl(t *testing.T, args ...string) (status, body string, offers []string) {
	t.Helper()
	out := k.run(t, "", "curl", append([]string{"-s", "--noproxy", "*", "-D", "-", "-m", "30", "-w", "\n%{http_code}"}, args...)...)
	lines := strings.Split(strings.ReplaceAll(out, "\r", ""), "\n")
	status = lines[len(lines)-1]
	header := false
	for i, l := range lines {
		if strings.HasPrefix(l, "HTTP/") {
			offers, header = nil, true
		}
		if v, ok := strings.CutPrefix(l, "Www-Authenticate: "); ok {
			offers = append(offers, v)
		}
		if l == "" && header {
			header, body = false, lines[i+1]
		}
	}
	return status, body, offers
}

// TestKDC lets curl ask with tickets of a real KDC.
func TestKDC(t *testing.T) {
	k := newKDC(t)
	g := newGate(t, Config{
		Keytab: filepath.Join(k.dir, "http.keytab"), TicketGroups: true, PerConnection: true, Basic: true,
		Policy: PolicyConfig{Admit: []string{"alice@SYMDEPOT.TEST"}},
	}, nil)
	srv := listen(t, g)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	url := "http://localhost:" + port + "/"
	alice, mallory, nobody := k.as(t, "alice"), k.as(t, "mallory"), k.as(t, "nobody")

	status, _, offers := alice.curl(t, url)
	if status != "401" || len(offers) != 2 || offers[0] != "Negotiate" || !strings.HasPrefix(offers[1], "Basic ") {
		t.Errorf("without a ticket: %s %v", status, offers)
	}
	for range 3 {
		status, body, offers := alice.curl(t, "--negotiate", "-u", ":", url)
		if status != "200" || body != "hello alice@SYMDEPOT.TEST" || len(offers) != 1 || !strings.HasPrefix(offers[0], "Negotiate ") {
			t.Errorf("alice: %s %q %v", status, body, offers)
		}
	}
	if status, body, _ := alice.curl(t, "--negotiate", "-u", ":", url, url+"2"); status != "200" || body != "hello alice@SYMDEPOT.TEST" {
		t.Errorf("two requests on one connection: %s %q", status, body)
	}
	if status, _, _ := alice.curl(t, "--negotiate", "-u", ":", "-I", url); status != "200" {
		t.Errorf("HEAD: %s", status)
	}
	if status, _, _ := mallory.curl(t, "--negotiate", "-u", ":", url); status != "403" {
		t.Errorf("mallory: %s", status)
	}
	if status, _, _ := nobody.curl(t, "--negotiate", "-u", ":", url); status != "401" {
		t.Errorf("nobody: %s", status)
	}
	if status, _, _ := alice.curl(t, "--negotiate", "-u", ":", strings.Replace(url, "localhost", "127.0.0.1", 1)); status != "401" {
		t.Errorf("by address, for which there is no ticket: %s", status)
	}
	// A new key in the KDC: old tickets open with the old key, which is
	// still in the keytab, and new ones after it was read again.
	k.run(t, "", "kadmin.local", "-r", "SYMDEPOT.TEST", "-q", "ktadd -k "+k.dir+"/http.keytab HTTP/localhost")
	fresh := k.as(t, "alice")
	if status, _, _ := fresh.curl(t, "--negotiate", "-u", ":", url); status != "401" {
		t.Errorf("a key that the server does not have: %s", status)
	}
	g.tick()
	if status, _, _ := fresh.curl(t, "--negotiate", "-u", ":", url); status != "200" {
		t.Errorf("a key that was read again: %s", status)
	}
}
