// Package kdctest runs a real MIT Kerberos KDC for tests.
package kdctest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Realm is the realm of the KDC. It has the users alice and mallory and the
// service HTTP/localhost.
const Realm = "SYMDEPOT.TEST"

// password is the password of both users.
const password = "userpw"

// KDC is a running KDC as one of its clients sees it: the files of the KDC, and
// an environment that selects the ticket cache of a user.
type KDC struct {
	dir string
	env []string
}

// programs are the programs of a KDC and its clients.
var programs = []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit", "curl"}

// find returns the path of a program. Those of a KDC are often in folders that
// PATH does not list.
func find(name string) (string, error) {
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

// New starts a KDC on a free port of this machine, and stops it when the test
// ends. The error names a program that is not installed; every other failure
// ends the test.
func New(t *testing.T) (*KDC, error) {
	t.Helper()
	for _, name := range programs {
		if _, err := find(name); err != nil {
			return nil, err
		}
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k := &KDC{dir: dir, env: append(os.Environ(), "KRB5_CONFIG="+dir+"/krb5.conf", "KRB5_KDC_PROFILE="+dir+"/kdc.conf", "LC_ALL=C")}
	symtest.Put(t, dir, "krb5.conf", []byte(`[libdefaults]
 default_realm = `+Realm+`
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 `+Realm+` = {
  kdc = `+addr+`
 }
[domain_realm]
 localhost = `+Realm+`
[logging]
 kdc = STDERR
`))
	symtest.Put(t, dir, "kdc.conf", []byte(`[kdcdefaults]
 kdc_listen = `+addr+`
 kdc_tcp_listen = `+addr+`
[realms]
 `+Realm+` = {
  database_name = `+dir+`/principal
  key_stash_file = `+dir+`/stash
  acl_file = `+dir+`/kadm5.acl
  max_life = 1h
 }
`))
	k.run(t, "", "kdb5_util", "create", "-s", "-r", Realm, "-P", "masterpw")
	for _, query := range []string{
		"addprinc -pw " + password + " alice", "addprinc -pw " + password + " mallory", "addprinc -randkey HTTP/localhost",
		"ktadd -k " + k.Keytab() + " -norandkey HTTP/localhost",
	} {
		k.admin(t, query)
	}
	k.start(t)
	return k, nil
}

// Keytab returns the path of the keytab of HTTP/localhost.
func (k *KDC) Keytab() string { return k.dir + "/http.keytab" }

// ChangeKey gives HTTP/localhost a new key and appends it to the keytab.
func (k *KDC) ChangeKey(t *testing.T) {
	t.Helper()
	k.admin(t, "ktadd -k "+k.Keytab()+" HTTP/localhost")
}

// As returns the KDC as seen by a client with a new ticket of a user, or by a
// client without a ticket if user is empty.
func (k *KDC) As(t *testing.T, user string) *KDC {
	t.Helper()
	u := &KDC{dir: k.dir, env: append(k.env[:len(k.env):len(k.env)], "KRB5CCNAME=FILE:"+k.dir+"/cc-"+user)}
	if user != "" {
		u.run(t, password+"\n", "kinit", user+"@"+Realm)
	}
	return u
}

// Env returns the environment of the client's programs. Below root, which may be
// empty, they find the files of the KDC.
func (k *KDC) Env(root string) []string {
	env := slices.Clone(k.env)
	for i, v := range env {
		if name, path, ok := strings.Cut(v, "="); ok && (name == "KRB5_CONFIG" || name == "KRB5CCNAME") {
			kind, file, ok := strings.Cut(path, ":")
			if ok {
				kind += ":"
			} else {
				kind, file = "", kind
			}
			env[i] = name + "=" + kind + root + file
		}
	}
	return env
}

// Response is the result of Curl.
type Response struct {
	Status string   // status of the last response
	Body   string   // its body
	Offers []string // its WWW-Authenticate fields
	Sent   []string // the Negotiate credentials of all requests
}

// Curl runs curl with the client's ticket cache. Without --negotiate among args,
// curl sends no ticket.
func (k *KDC) Curl(t *testing.T, args ...string) Response {
	t.Helper()
	out := filepath.Join(t.TempDir(), "body")
	all := []string{"-sv", "--noproxy", "*", "-m", "30", "-w", "status %{http_code}\n"}
	for _, arg := range args {
		if strings.HasPrefix(arg, "http://") { // curl wants one -o for each URL
			all = append(all, "-o", out)
		}
	}
	text := k.run(t, "", "curl", append(all, args...)...)
	var resp Response
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "> Authorization: Negotiate "); ok {
			resp.Sent = append(resp.Sent, v)
		}
		if strings.HasPrefix(line, "< HTTP/") {
			resp.Offers = nil
		}
		if v, ok := strings.CutPrefix(line, "< Www-Authenticate: "); ok {
			resp.Offers = append(resp.Offers, v)
		}
		if v, ok := strings.CutPrefix(line, "status "); ok {
			resp.Status = v
		}
	}
	b, err := os.ReadFile(out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	resp.Body = string(b)
	return resp
}

// admin runs a query of kadmin.
func (k *KDC) admin(t *testing.T, query string) {
	t.Helper()
	k.run(t, "", "kadmin.local", "-r", Realm, "-q", query)
}

// run runs a program and returns its output.
func (k *KDC) run(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	p, err := find(name)
	if err != nil {
		t.Fatal(err)
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

// start starts the KDC and waits for its log line that it listens.
func (k *KDC) start(t *testing.T) {
	t.Helper()
	p, err := find("krb5kdc")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), p, "-n")
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
	log := ""
	r := bufio.NewReader(stderr)
	for {
		line, err := r.ReadString('\n')
		log += line
		if strings.Contains(line, "commencing operation") {
			break
		}
		if err != nil {
			t.Fatalf("the KDC ended before it listened:\n%s", log)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
}
