package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial int64

// issue makes a certificate; without an authority it signs itself.
func (a *authority) issue(t *testing.T, c x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	c.SerialNumber = big.NewInt(serial)
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(24 * time.Hour)
	}
	c.BasicConstraintsValid = true
	parent, sign := &c, key
	if a != nil {
		parent, sign = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, parent, &key.PublicKey, sign)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	cert, key := (*authority)(nil).issue(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, KeyUsage: x509.KeyUsageCertSign})
	return &authority{cert, key}
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serverPair writes a certificate for localhost into dir.
func serverPair(t *testing.T, a *authority, dir string) (cert, key string, leaf *x509.Certificate) {
	t.Helper()
	c, k := a.issue(t, x509.Certificate{DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", c.Raw), writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", der), c
}

// serveTLS serves what g says.
func serveTLS(t *testing.T, tc *tls.Config, g *Gate) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _, ch := g.Authenticate(r, "")
		if ch != nil {
			http.Error(w, ch.Text, ch.Status)
			return
		}
		fmt.Fprintf(w, "%s %s", r.Proto, id.Name)
	})}
	srv.TLSConfig = tc
	go func() { _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { srv.Close() })
	return "https://" + l.Addr().String()
}

// query makes one request on a connection of its own.
func ask(t *testing.T, target string, a *authority, client *tls.Certificate) (status int, body string, leaf *x509.Certificate, err error) {
	t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.cert)
	if client != nil {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return client, nil }
	}
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(target)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.TLS.PeerCertificates[0], err
}

func TestTLSFiles(t *testing.T) {
	a := newAuthority(t, "one")
	dir := t.TempDir()
	// As containers do it: a link to a folder that is exchanged.
	for _, d := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, _, first := serverPair(t, a, filepath.Join(dir, "v1"))
	_, _, second := serverPair(t, a, filepath.Join(dir, "v2"))
	link := filepath.Join(dir, "now")
	symtest.Symlink(t, "v1", link)
	c := newClock()
	var logged bytes.Buffer
	g := newGate(t, Config{}, nil)
	tl, err := NewTLS(TLSConfig{Cert: filepath.Join(link, "cert.pem"), Key: filepath.Join(link, "key.pem"), Now: c.now}, g, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	target := serveTLS(t, tl.Config(), g)
	served := func() *x509.Certificate {
		t.Helper()
		status, body, leaf, err := ask(t, target, a, nil)
		if err != nil || status != 200 || body != "HTTP/2.0 " {
			t.Fatalf(`ask: %d, %q, error %v; want 200, "HTTP/2.0 "`, status, body, err)
		}
		return leaf
	}
	if !served().Equal(first) {
		t.Fatal("the server has a different certificate, want the first one")
	}
	// A certificate that does not fit its key changes nothing, and is told once.
	half := filepath.Join(dir, "v1", "cert.pem")
	good, err := os.ReadFile(half)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, half, "CERTIFICATE", second.Raw)
	for range 3 {
		tl.Reload()
	}
	if !served().Equal(first) || strings.Count(logged.String(), "level=ERROR") != 1 || !strings.Contains(logged.String(), "cert.pem") {
		t.Errorf("after a bad file the log is %q; want the first certificate still served, and one error that names cert.pem", logged.String())
	}
	if err := os.WriteFile(half, good, 0o600); err != nil {
		t.Fatal(err)
	}
	// A change is seen at the next handshake, a second later.
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if !served().Equal(first) {
		t.Error("missing files end what was there")
	}
	symtest.Symlink(t, "v2", link)
	c.add(2 * time.Second)
	if !served().Equal(second) {
		t.Error("the new certificate is not served")
	}
}

func TestTLSMistakes(t *testing.T) {
	a := newAuthority(t, "one")
	cert, key, _ := serverPair(t, a, t.TempDir())
	other, _, _ := serverPair(t, a, t.TempDir())
	rules := newGate(t, Config{Certificates: []CertRule{{CN: "*"}}}, nil)
	for _, test := range []struct {
		c    TLSConfig
		g    *Gate
		want string
	}{
		{TLSConfig{}, nil, "needs a certificate"},
		{TLSConfig{Cert: cert, Key: "/does/not/exist"}, nil, "/does/not/exist"},
		{TLSConfig{Cert: other, Key: key}, nil, other},
		{TLSConfig{Cert: cert, Key: key, ClientCA: key}, nil, "contains no certificate"},
		{TLSConfig{Cert: cert, Key: key, RequireClientCert: true}, nil, "needs client_ca"},
		{TLSConfig{Cert: cert, Key: key}, rules, "certificate rule 1"},
		{TLSConfig{Cert: cert, Key: key, ACME: &ACMEConfig{}}, nil, "exclude each other"},
		{TLSConfig{ACME: &ACMEConfig{}}, nil, "needs domains"},
		{TLSConfig{ACME: &ACMEConfig{Domains: []string{"a.test"}, Dir: "x"}}, nil, "consent"},
		{TLSConfig{ACME: &ACMEConfig{Domains: []string{"localhost"}, Dir: "x", AcceptTerms: true}}, nil, "dot"},
		{TLSConfig{ACME: &ACMEConfig{Domains: []string{"a.test"}, Dir: cert, AcceptTerms: true}}, nil, "cannot write"},
	} {
		if tl, err := NewTLS(test.c, test.g, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.c, err, test.want)
			if err == nil {
				tl.Close()
			}
		}
	}
	for _, r := range []CertRule{{}, {CN: "a", DNS: "b"}, {SHA256: "00"}, {SHA256: strings.Repeat("00", 32)}, {CN: "a", Name: "x\ny"}} {
		if _, err := New(Config{Certificates: []CertRule{r}}, nil, nil); err == nil {
			t.Errorf("%+v is taken, want an error", r)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	a, stranger := newAuthority(t, "one"), newAuthority(t, "two")
	dir := t.TempDir()
	cert, key, _ := serverPair(t, a, dir)
	ca := writePEM(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", a.cert.Raw)
	client := func(by *authority, c x509.Certificate) *tls.Certificate {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		leaf, k := by.issue(t, c)
		return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: k, Leaf: leaf}
	}
	uri, _ := url.Parse("spiffe://corp/ci")
	pinned := client(nil, x509.Certificate{Subject: pkix.Name{CommonName: "self"}})
	sum := sha256.Sum256(pinned.Certificate[0])
	rules := []CertRule{
		{CN: "build-*"}, {DNS: "*.corp.example", Name: "machine"}, {Email: "alice@corp.example"}, {URI: "spiffe://corp/*", Name: "ci"},
		{CN: "intruder"},
	}
	pins := []CertRule{{SHA256: strings.ToUpper(hex.EncodeToString(sum[:])), Name: "pinned"}}
	policy := PolicyConfig{Grants: []Grant{{Who: []string{"build-*", "machine", "alice@corp.example", "cert:ci", "pinned"}, Read: []string{"*"}}}}
	g := newGate(t, Config{Certificates: rules, Policy: policy}, nil)
	gp := newGate(t, Config{Certificates: pins, Policy: policy}, nil)
	start := func(c TLSConfig, g *Gate) (*TLS, string) {
		c.Cert, c.Key = cert, key
		tl, err := NewTLS(c, g, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tl.Close() })
		return tl, serveTLS(t, tl.Config(), g)
	}
	c := newClock()
	tl, byCA := start(TLSConfig{ClientCA: ca, Now: c.now}, g)
	_, byPin := start(TLSConfig{}, gp)
	_, required := start(TLSConfig{ClientCA: ca, RequireClientCert: true}, g)
	for _, test := range []struct {
		name   string
		url    string
		cert   *tls.Certificate
		status int // 0: no handshake
		who    string
	}{
		{"none", byCA, nil, 401, ""},
		{"none where one is required", required, nil, 0, ""},
		{"common name", byCA, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "build-7"}}), 200, "build-7"},
		{"common name where one is required", required, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "build-7"}}), 200, "build-7"},
		{"DNS", byCA, client(a, x509.Certificate{DNSNames: []string{"x.test", "PC7.corp.example"}}), 200, "machine"},
		{"mail", byCA, client(a, x509.Certificate{EmailAddresses: []string{"alice@corp.example"}}), 200, "alice@corp.example"},
		{"URI", byCA, client(a, x509.Certificate{URIs: []*url.URL{uri}}), 200, "ci"},
		{"no rule", byCA, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "other"}}), 401, ""},
		{"not admitted", byCA, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "intruder"}}), 403, ""},
		{"name with a line end", byCA, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "build-\n"}}), 401, ""},
		{"another authority's", byCA, client(stranger, x509.Certificate{Subject: pkix.Name{CommonName: "build-7"}}), 0, ""},
		{"expired", byCA, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "build-7"}, NotAfter: time.Now().Add(-time.Minute)}), 0, ""},
		{"fingerprint", byPin, pinned, 200, "pinned"},
		{"another fingerprint", byPin, client(nil, x509.Certificate{Subject: pkix.Name{CommonName: "self"}}), 401, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, body, _, err := ask(t, test.url, a, test.cert)
			if status != test.status || (status == 0) != (err != nil) {
				t.Fatalf("status %d, body %q, error %v; want status %d (0: an error)", status, body, err, test.status)
			}
			if status == 200 && body != "HTTP/2.0 "+test.who {
				t.Errorf("body %q, want the name %q over HTTP/2", body, test.who)
			}
		})
	}
	// Another list of authorities.
	writePEM(t, ca, "CERTIFICATE", stranger.cert.Raw)
	tl.Reload()
	if status, _, _, err := ask(t, byCA, a, client(stranger, x509.Certificate{Subject: pkix.Name{CommonName: "build-8"}})); status != 200 {
		t.Errorf("the new authority: %d %v, want 200", status, err)
	}
	if _, _, _, err := ask(t, byCA, a, client(a, x509.Certificate{Subject: pkix.Name{CommonName: "build-8"}})); err == nil {
		t.Error("the old authority still counts")
	}
	// A connection may outlive the certificate.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	short := client(nil, x509.Certificate{})
	short.Leaf.NotAfter = time.Now().Add(-time.Second)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{short.Leaf}, VerifiedChains: [][]*x509.Certificate{{short.Leaf}}}
	if _, _, ch := g.Authenticate(r, ""); ch == nil || ch.Status != 401 {
		t.Errorf(`Authenticate(""): %+v, want not nil, Status 401`, ch)
	}
}

// nameServer answers every name with 127.0.0.1, over TCP.
func nameServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					q := make([]byte, 2)
					if _, err := io.ReadFull(c, q); err != nil {
						return
					}
					q = make([]byte, int(q[0])<<8|int(q[1]))
					if _, err := io.ReadFull(c, q); err != nil {
						return
					}
					q = nameAnswer(q)
					_, _ = c.Write(append([]byte{byte(len(q) >> 8), byte(len(q))}, q...))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func nameAnswer(q []byte) []byte {
	end := 12
	for end < len(q) && q[end] != 0 {
		end += 1 + int(q[end])
	}
	end += 5
	if end > len(q) {
		return nil
	}
	q = q[:end:end]
	q[2], q[3] = 0x81, 0x80 // an answer, without errors
	copy(q[6:12], make([]byte, 6))
	if q[end-3] == 1 { // A
		q[7] = 1
		q = append(q, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1)
	}
	return q
}

// TestACME gets a certificate from pebble, the test server of Let's Encrypt.
func TestACME(t *testing.T) {
	pebble := symtest.Tool(t, "pebble")
	dir := t.TempDir()
	a := newAuthority(t, "pebble's own")
	cert, key, _ := serverPair(t, a, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	wfe := free.Addr().String()
	free.Close()
	config := map[string]any{"pebble": map[string]any{
		"listenAddress": wfe, "certificate": cert, "privateKey": key, "httpPort": 1, "tlsPort": l.Addr().(*net.TCPAddr).Port,
		"profiles": map[string]any{"default": map[string]any{"description": "six days", "validityPeriod": 6 * 24 * 3600}},
	}}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(conf, b, 0o600); err != nil {
		t.Fatal(err)
	}
	startPebble(t, pebble, conf, nameServer(t), wfe)

	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	outbound := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	g := newGate(t, Config{}, nil)
	tl, err := NewTLS(TLSConfig{
		ACME: &ACMEConfig{
			Domains: []string{"sym.corp.test"}, Dir: filepath.Join(dir, "acme"), Email: "ops@corp.test",
			Directory: "https://" + wfe + "/dir", AcceptTerms: true, Client: outbound,
		},
	}, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tl.Close()
	srv := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.Serve(tls.NewListener(l, tl.Config())) }()
	t.Cleanup(func() { srv.Close() })

	leaf := func(name string) (*x509.Certificate, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}}
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
	}
	first, err := leaf("sym.corp.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.VerifyHostname("sym.corp.test"); err != nil || !strings.Contains(first.Issuer.CommonName, "Pebble") || first.NotAfter.Sub(first.NotBefore) > 7*24*time.Hour {
		t.Errorf("certificate for %v from %v, %v to %v: %v; want sym.corp.test from Pebble, for at most a week", first.DNSNames, first.Issuer, first.NotBefore, first.NotAfter, err)
	}
	if again, err := leaf("sym.corp.test"); err != nil || !again.Equal(first) {
		t.Errorf("another certificate for the second client: %v", err)
	}
	if _, err := leaf("else.corp.test"); err == nil {
		t.Error("a certificate for a name that is not ours")
	}
}

// startPebble starts pebble and waits until it listens, a moment after it said
// so.
func startPebble(t *testing.T, pebble, conf, dns, addr string) {
	t.Helper()
	cmd := exec.Command(pebble, "-config", conf, "-dnsserver", dns, "-strict=false")
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait(); w.Close() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	buf := make([]byte, 4096)
	var said strings.Builder
	for !strings.Contains(said.String(), "Listening on") {
		n, err := r.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("pebble ends: %s", said.String())
		}
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	symtest.Await(t, 30*time.Second, "pebble listens on "+addr, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}
