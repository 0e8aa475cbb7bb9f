package main

import (
	"bufio"
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

// kdc is a real MIT KDC with a realm of its own, SYMDEPOT.TEST, the users alice
// and mallory, and the key of HTTP/localhost in http.keytab.
type kdc struct {
	dir string
	env []string
}

// kdcPrograms are what a KDC and its clients need.
var kdcPrograms = []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit", "curl"}

// systemProgram finds a program; those of a KDC are often not on people's PATH.
func systemProgram(name string) (string, error) {
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

// newKDC starts a KDC; the error says what it lacks.
func newKDC(t *testing.T) (*kdc, error) {
	t.Helper()
	for _, name := range kdcPrograms {
		if _, err := systemProgram(name); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	k := &kdc{dir: t.TempDir()}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.dir+"/krb5.conf", "KRB5_KDC_PROFILE="+k.dir+"/kdc.conf", "LC_ALL=C")
	write(t, k.dir+"/krb5.conf", `[libdefaults]
 default_realm = SYMDEPOT.TEST
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 SYMDEPOT.TEST = {
  kdc = `+addr+`
 }
[domain_realm]
 localhost = SYMDEPOT.TEST
[logging]
 kdc = STDERR
`)
	write(t, k.dir+"/kdc.conf", `[kdcdefaults]
 kdc_listen = `+addr+`
 kdc_tcp_listen = `+addr+`
[realms]
 SYMDEPOT.TEST = {
  database_name = `+k.dir+`/principal
  key_stash_file = `+k.dir+`/stash
  acl_file = `+k.dir+`/kadm5.acl
  max_life = 1h
 }
`)
	k.run(t, "", "kdb5_util", "create", "-s", "-r", "SYMDEPOT.TEST", "-P", "masterpw")
	for _, q := range []string{
		"addprinc -pw userpw alice", "addprinc -pw userpw mallory", "addprinc -randkey HTTP/localhost",
		"ktadd -k " + k.dir + "/http.keytab -norandkey HTTP/localhost",
	} {
		k.run(t, "", "kadmin.local", "-r", "SYMDEPOT.TEST", "-q", q)
	}
	k.start(t)
	return k, nil
}

func (k *kdc) run(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	p, err := systemProgram(name)
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

// start starts the KDC and waits until it says that it listens.
func (k *kdc) start(t *testing.T) {
	t.Helper()
	p, err := systemProgram("krb5kdc")
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
	said := ""
	sc := bufio.NewScanner(stderr)
	for sc.Scan() {
		said += sc.Text() + "\n"
		if strings.Contains(sc.Text(), "commencing operation") {
			go func() {
				for sc.Scan() {
				}
			}()
			return
		}
	}
	t.Fatalf("the KDC ends: %s", said)
}

// as is the same with a ticket of a user; without one if user is empty.
func (k *kdc) as(t *testing.T, user string) *kdc {
	t.Helper()
	u := &kdc{dir: k.dir, env: append(k.env[:len(k.env):len(k.env)], "KRB5CCNAME=FILE:"+k.dir+"/cc-"+user)}
	if user != "" {
		u.run(t, "userpw\n", "kinit", user+"@SYMDEPOT.TEST")
	}
	return u
}

// curl asks with the ticket, if there is one, and returns what the last answer
// was, and the credentials that were sent.
func (k *kdc) curl(t *testing.T, url string) (status, body string, sent []string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "body")
	text := k.run(t, "", "curl", "-sv", "--noproxy", "*", "-m", "30", "--negotiate", "-u", ":", "-o", out, "-w", "status %{http_code}\n", url)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "> Authorization: Negotiate "); ok {
			sent = append(sent, v)
		}
		if v, ok := strings.CutPrefix(line, "status "); ok {
			status = v
		}
	}
	b, err := os.ReadFile(out)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return status, string(b), sent
}
