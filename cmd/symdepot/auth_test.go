package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/auth/kdctest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// authority makes certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	_, key, cert := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.key, a.cert = key, cert
	return a
}

func (a *authority) issue(t testing.TB, c *x509.Certificate) (certPEM string, key *ecdsa.PrivateKey, cert *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.next++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(a.next), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), key, cert
}

// pair writes a certificate and its key.
func (a *authority) pair(t testing.TB, stem string, c *x509.Certificate) tls.Certificate {
	t.Helper()
	certPEM, key, _ := a.issue(t, c)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	commandtest.Write(t, stem+".crt", certPEM)
	commandtest.Write(t, stem+".key", keyPEM)
	pair, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// guardedRun is a depot of two products with two servers for it, plain and TLS,
// and everything that was secret in it.
type guardedRun struct {
	t       *testing.T
	dir     string
	env     map[string]string
	kdc     *kdctest.KDC // nil: none is installed
	roots   *x509.CertPool
	plain   *commandtest.Serving
	secure  *commandtest.Serving
	secrets []string
	pages   strings.Builder // all that was answered and is no file
}

func (g *guardedRun) path(name string) string { return filepath.Join(g.dir, name) }

// symdepot runs a command and returns what it prints.
func (g *guardedRun) symdepot(args ...string) string {
	g.t.Helper()
	exe, err := exec.LookPath("symdepot")
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.CommandContext(g.t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+g.path("depot"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		g.t.Fatalf("symdepot %v: %v\n%s%s", args, err, out, stderr.String())
	}
	g.pages.Write(stderr.Bytes())
	return string(out)
}

func (g *guardedRun) token(args ...string) string {
	g.t.Helper()
	s := strings.TrimSpace(g.symdepot(append([]string{"token", "new"}, args...)...))
	if !auth.IsToken(s) {
		g.t.Fatalf("token new prints %q, want a token", s)
	}
	g.secrets = append(g.secrets, s)
	return s
}

const guardedPolicy = `
hosts: [localhost]
tls: {CERT}
auth:
  users_file: DIR/users
  basic: true
  negotiate: {KEYTAB}
  groups:
    readers: ["alice@SYMDEPOT.TEST"]
  grants:
    - who: ["group:readers"]
      read: ["*"]
    - who: ["basic:bob"]
      read: [theirs]
    - who: ["cert:build-*"]
      read: [ours]
  certificates:
    - match: cn:build-*
  audit: {file: DIR/AUDIT}
`

func newGuardedRun(t *testing.T) *guardedRun {
	t.Helper()
	g := &guardedRun{t: t, dir: t.TempDir(), roots: x509.NewCertPool()}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if g.kdc, err = kdctest.New(t); err != nil {
		t.Log("no tickets are tried:", err)
	}
	g.env = map[string]string{"REPO": repo, "PATH": os.Getenv("PATH"), "HOME": g.dir, "SYMDEPOT_DEPOT": g.path("depot"), "TMPDIR": t.TempDir()}
	users := ""
	for user, password := range map[string]string{"bob": "bob's secret of 2026", "carol": "carol's secret of 2026"} {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		users += user + ":" + string(hash) + "\n"
		g.secrets = append(g.secrets, password, string(hash), base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	commandtest.Write(t, g.path("users"), users)
	keytab := ""
	if g.kdc != nil {
		keytab = "keytab: " + g.kdc.Keytab()
	}
	ca := newAuthority(t)
	g.roots.AddCert(ca.cert)
	commandtest.Write(t, g.path("ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})))
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}}
	ca.pair(t, g.path("server"), server)
	for _, name := range []string{"build-7", "other"} {
		ca.pair(t, g.path(name), &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	}
	start := func(name, cert, audit string) *commandtest.Serving {
		text := strings.NewReplacer("DIR", g.dir, "{KEYTAB}", "{"+keytab+"}", "{CERT}", "{"+cert+"}", "AUDIT", audit).Replace(guardedPolicy)
		commandtest.Write(t, g.path(name), text)
		s, err := commandtest.StartServe(func(k string) string { return g.env[k] }, g.dir, "--config", g.path(name), "--two-tier")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g.plain = start("plain.yaml", "", "audit.jsonl")
	g.secure = start("secure.yaml", "cert: "+g.path("server.crt")+", key: "+g.path("server.key")+", client_ca: "+g.path("ca.crt"), "audit-tls.jsonl")
	return g
}

// question is a request, and what those get who may see its product.
type question struct {
	what    string
	path    string
	product string // "": any
	accept  string
	has     string // of the body
	file    []byte // the body
}

// probes adds files of two products and returns a request for each of them in
// every protocol.
func (g *guardedRun) probes() []question {
	t := g.t
	t.Helper()
	var list []question
	layouts := []layout.Layout{layout.SymStore, layout.SSQP, layout.BreakpadTree, layout.Unified, layout.Native, layout.LLDB, layout.GDB, layout.Debuginfod}
	for product, names := range map[string][]string{
		"ours": {"pdb/hello-x64.pdb", "pdb/hello-x64.exe", "elf/prog-sha1.debug"}, "theirs": {"pdb/hello-x86.pdb", "pdb/hello-x86.exe", "elf/e-arm64"},
	} {
		args := []string{"add", "--product", product}
		for _, n := range names {
			name := filepath.Join("../../testdata", n)
			body, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, name)
			objs, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), filepath.Base(n), objfile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := objs[0].Object
			for _, l := range layouts {
				for i, p := range l.Paths(o) {
					if i < 2 {
						list = append(list, question{what: l.Name(), path: "/" + p, product: product, file: body})
					}
				}
			}
			if o.Kind != symfile.ELF {
				p := layout.SymStore.Paths(o)[0]
				list = append(list, question{what: "two tiers", path: "/" + o.Name[:2] + "/" + p, product: product, file: body},
					question{what: "dotnet", path: "/" + strings.ReplaceAll(p, "/", "%2F"), product: product, file: body})
			} else {
				list = append(list, question{what: "section", path: "/buildid/" + string(o.BuildID) + "/section/.shstrtab", product: product, has: ".shstrtab"},
					question{what: "metadata", path: "/metadata?key=buildid&value=" + string(o.BuildID), has: map[string]string{"ours": "OURS", "theirs": "THEIRS"}[product] + string(o.BuildID)})
			}
			if o.Kind == symfile.PDB {
				made := "made of " + o.Name
				commandtest.Write(t, filepath.Join(g.dir, "cache-"+product, o.Name, o.DebugID.Breakpad(), o.Name+"-v3.1.0.symcache"), made)
				list = append(list, question{what: "SymCache", path: "/v3.1.0/" + o.Name + "/" + o.DebugID.GUID.Upper() + "/1", product: product, file: []byte(made)},
					question{what: "search", path: "/?q=" + o.Name, accept: "text/html", has: map[string]string{"ours": "OURS", "theirs": "THEIRS"}[product] + o.DebugID.Breakpad()})
			}
		}
		sym := "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF" + map[string]string{"ours": "1", "theirs": "2"}[product] + " " + product + "\nINFO CODE_ID 1234ABCD9000\nPUBLIC 1000 0 f\n"
		commandtest.Write(t, g.path(product+".sym"), sym)
		list = append(list, question{what: "Breakpad", path: "/" + product + "/" + strings.Fields(sym)[3] + "/" + product + ".sym", product: product, file: []byte(sym)})
		g.symdepot(append(args, g.path(product+".sym"), filepath.Join(g.dir, "cache-"+product))...)
	}
	return append(list, question{what: "start text", path: "/", has: "symdepot serves symbols at "}, question{what: "index2.txt", path: "/index2.txt"})
}

// asker is a kind of credential, and what it opens.
type asker struct {
	name   string
	header map[string]string
	prefix string
	client string // name of a client certificate: TLS
	ticket string // user of a ticket
	refuse int    // status of the root page if it is not let in at all; see refuses
	reads  []string
}

// refuses is the status of a request of somebody who is not let in. Debuggers stop asking a
// server that answers 403, so that only the root page does.
func (a *asker) refuses(p *question) int {
	if path, _, _ := strings.Cut(p.path, "?"); a.refuse == 403 && path != "/" {
		return 404
	}
	return a.refuse
}

func (g *guardedRun) askers() []asker {
	t := g.t
	basic := func(user, password string) map[string]string {
		v := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		g.secrets = append(g.secrets, v)
		return map[string]string{"Authorization": "Basic " + v}
	}
	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	all, ours, theirs := g.token("--name", "all"), g.token("--name", "ours", "--product", "ours", "--expires", "90d"), g.token("--name", "theirs", "--product", "theirs")
	revoked, writes := g.token("--name", "revoked"), g.token("--name", "writes", "--scope", "write")
	g.symdepot("token", "revoke", revoked)
	unknown := auth.NewToken()
	g.secrets = append(g.secrets, unknown)
	both := []string{"ours", "theirs"}
	list := []asker{
		{name: "nothing", refuse: 401},
		{name: "nothing, over TLS", refuse: 401, client: "-"},
		{name: "Basic, token", header: basic("anybody", ours), reads: []string{"ours"}},
		{name: "Basic, token as the user", header: basic(theirs, ""), reads: []string{"theirs"}},
		{name: "Basic, user", header: basic("bob", "bob's secret of 2026"), reads: []string{"theirs"}},
		{name: "Basic, wrong password", header: basic("bob", "bob's secret of 2025"), refuse: 401},
		{name: "Basic, unknown user", header: basic("dave", "bob's secret of 2026"), refuse: 401},
		{name: "Basic, user not admitted", header: basic("carol", "carol's secret of 2026"), refuse: 403},
		{name: "Basic, revoked token", header: basic("anybody", revoked), refuse: 401},
		{name: "bearer", header: bearer(all), reads: both},
		{name: "bearer, one product", header: bearer(theirs), reads: []string{"theirs"}},
		{name: "bearer, unknown", header: bearer(unknown), refuse: 401},
		{name: "bearer, no right to read", header: bearer(writes)},
		{name: "bearer, over TLS", header: bearer(ours), reads: []string{"ours"}, client: "-"},
		{name: "header", header: map[string]string{"X-Symdepot-Token": ours}, reads: []string{"ours"}},
		{name: "uploader's header", header: map[string]string{"Auth-Token": ours}, reads: []string{"ours"}},
		{name: "path", prefix: "/t/" + ours, reads: []string{"ours"}},
		{name: "path, all", prefix: "/t/" + all, reads: both},
		{name: "path, unknown", prefix: "/t/" + unknown, refuse: 401},
		{name: "path, revoked", prefix: "/t/" + revoked, refuse: 401},
		{name: "path, mistyped", prefix: "/t/" + ours[:45], refuse: 401},
		{name: "garbage", header: map[string]string{"Authorization": "Negotiate " + base64.StdEncoding.EncodeToString([]byte("no ticket"))}, refuse: 401},
		{name: "NTLM", header: map[string]string{"Authorization": "Negotiate TlRMTVNTUAABAAAAB4IIogAAAAAAAAAAAAAAAAAAAAAKAGFKAAAADw=="}, refuse: 401},
		{name: "client certificate", client: "build-7", reads: []string{"ours"}},
		{name: "client certificate without a rule", client: "other", refuse: 401},
	}
	if g.kdc == nil {
		t.Log("tickets are not tried")
		return list
	}
	return append(list, asker{name: "ticket", ticket: "alice", reads: both}, asker{name: "ticket, not admitted", ticket: "mallory", refuse: 403})
}

// gotBack is what came back.
type gotBack struct {
	status int
	body   []byte
	header http.Header
	at     string // the path to which redirects led
}

func (g *guardedRun) do(c *http.Client, a *asker, p *question) gotBack {
	t := g.t
	t.Helper()
	base := g.plain.URL
	if a.client != "" {
		base = strings.Replace(g.secure.URL, "127.0.0.1", "localhost", 1)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+a.prefix+p.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range a.header {
		req.Header.Set(k, v)
	}
	if p.accept != "" {
		req.Header.Set("Accept", p.accept)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if g.kdc != nil && resp.ProtoMajor != 1 {
		t.Errorf("HTTP/%d on a listener that takes tickets, want HTTP/1.1", resp.ProtoMajor)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return gotBack{resp.StatusCode, body, resp.Header, resp.Request.URL.Path}
}

// client returns a client that shows a certificate, if one is named.
func (g *guardedRun) client(a *asker) *http.Client {
	g.t.Helper()
	cfg := &tls.Config{RootCAs: g.roots}
	if a.client != "" && a.client != "-" {
		pair, err := tls.LoadX509KeyPair(g.path(a.client+".crt"), g.path(a.client+".key"))
		if err != nil {
			g.t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true, DisableCompression: true}
	g.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// TestWhoMayReadWhat is every protocol with every kind of credential, at the real
// binary: the right ones in, the wrong ones out, and no secret to be seen.
func TestWhoMayReadWhat(t *testing.T) {
	t.Parallel()
	g := newGuardedRun(t)
	probes, askers := g.probes(), g.askers()
	for _, a := range askers {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			c := g.client(&a)
			if a.ticket != "" {
				g.tickets(t, &a, probes)
				return
			}
			for _, p := range probes {
				got := g.do(c, &a, &p)
				g.judge(t, &a, &p, got)
			}
			if got := g.do(c, &a, &question{path: "/healthz"}); a.prefix == "" && got.status != 200 {
				t.Errorf("GET /healthz: status %d, want 200", got.status)
			}
		})
	}
	g.afterwards(askers)
}

// judge compares an answer with what it ought to be.
func (g *guardedRun) judge(t *testing.T, a *asker, p *question, got gotBack) {
	t.Helper()
	if p.file == nil {
		g.pages.Write(got.body)
	}
	for k, v := range got.header {
		if k != "Location" {
			g.pages.WriteString(strings.Join(v, "\n"))
		}
	}
	want, has := 200, p.has
	switch {
	case a.refuse != 0:
		want = a.refuses(p)
	case p.product != "" && !slices.Contains(a.reads, p.product):
		want = 404
	}
	if p.accept != "" {
		got.body = bytes.ReplaceAll(got.body, []byte("<wbr>"), nil) // ids can be wrapped
		if want == 401 && a.prefix == "" {
			// A browser is led to the page for signing in, without a box of its own.
			id := strings.TrimPrefix(strings.TrimPrefix(has, "OURS"), "THEIRS")
			if got.status != 200 || got.at != "/-/login" || got.header.Get("Www-Authenticate") != "" || bytes.Contains(got.body, []byte(id)) {
				t.Errorf("%s %s: %d at %s, want the page for signing in: %.200s", p.what, p.path, got.status, got.at, got.body)
			}
			return
		}
	}
	if got.status != want {
		t.Errorf("%s %s: %d, want %d: %.200s", p.what, p.path, got.status, want, got.body)
		return
	}
	if want != 200 {
		if asks := got.header.Get("Www-Authenticate") != ""; asks != (want == 401) {
			t.Errorf("%s %s: status %d asks for credentials: %v, want %v", p.what, p.path, want, asks, !asks)
		}
		if first := got.header.Get("Www-Authenticate"); want == 401 && g.kdc != nil && !strings.HasPrefix(first, "Negotiate") {
			t.Errorf("%s %s: %q is asked for first, want Negotiate", p.what, p.path, first)
		}
		return
	}
	if p.file != nil && !bytes.Equal(got.body, p.file) {
		t.Errorf("%s %s: %d bytes of another file, want the %d of the one that was added", p.what, p.path, len(got.body), len(p.file))
	}
	for _, product := range []string{"ours", "theirs"} {
		text, ok := strings.CutPrefix(has, strings.ToUpper(product))
		if !ok {
			continue
		}
		has = ""
		if sees := slices.Contains(a.reads, product); bytes.Contains(got.body, []byte(text)) != sees {
			t.Errorf("%s %s: shows what is %s: %v, want %v", p.what, p.path, product, !sees, sees)
		}
	}
	if !bytes.Contains(got.body, []byte(has)) {
		t.Errorf("%s %s: the answer has no %q: %.200s", p.what, p.path, has, got.body)
	}
}

// tickets asks with curl, for one request of each kind.
func (g *guardedRun) tickets(t *testing.T, a *asker, probes []question) {
	t.Helper()
	user := g.kdc.As(t, a.ticket)
	base := strings.Replace(g.plain.URL, "127.0.0.1", "localhost", 1)
	done := map[string]bool{}
	for _, p := range probes {
		if done[p.what+p.product] || p.accept != "" {
			continue
		}
		done[p.what+p.product] = true
		got := user.Curl(t, "--negotiate", "-u", ":", base+p.path)
		if len(got.Sent) == 0 {
			t.Fatalf("%s: curl sent no ticket", p.path)
		}
		for _, s := range got.Sent {
			g.secrets = append(g.secrets, s[:60], s[len(s)-60:])
		}
		want := "200"
		if a.refuse != 0 {
			want = strconv.Itoa(a.refuses(&p))
		}
		if got.Status != want || want == "200" && p.file != nil && got.Body != string(p.file) {
			t.Errorf("%s %s: %s, want %s", p.what, p.path, got.Status, want)
		}
	}
	if got := g.kdc.As(t, "").Curl(t, "--negotiate", "-u", ":", base+probes[0].path); got.Status != "401" {
		t.Errorf("without a ticket: status %s, want 401", got.Status)
	}
}

// afterwards stops the servers and looks for secrets in all that they said.
func (g *guardedRun) afterwards(askers []asker) {
	t := g.t
	t.Helper()
	for _, a := range askers {
		if a.name == "bearer" {
			got := g.do(g.client(&a), &a, &question{path: "/metrics"})
			if got.status != 200 || !bytes.Contains(got.body, []byte("symdepot_http_requests_total")) {
				t.Errorf("GET /metrics: status %d, want 200 and the count of requests", got.status)
			}
			g.pages.Write(got.body)
		}
	}
	texts := map[string]string{"pages, metrics and commands": g.pages.String(), "list of tokens": g.symdepot("token", "list") + g.symdepot("token", "list", "--json")}
	for name, s := range map[string]*commandtest.Serving{"plain server's log": g.plain, "secure server's log": g.secure} {
		if err := s.Stop(); err != nil {
			t.Errorf("%s: stop: error %v, want no error", name, err)
		}
		texts[name] = s.Log.String()
	}
	for _, name := range []string{"audit.jsonl", "audit-tls.jsonl"} {
		b, err := os.ReadFile(g.path(name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(b)
	}
	for where, text := range texts {
		if len(text) < 100 {
			t.Errorf("the %s is only %q, want what the test has caused", where, text)
		}
		for _, s := range g.secrets {
			for _, s := range []string{s, strings.TrimPrefix(s, "sd_")} {
				if len(s) > 40 {
					s = s[:40]
				}
				if strings.Contains(text, s) {
					t.Errorf("the %s shows a secret", where)
				}
			}
		}
	}
	g.records(texts["audit.jsonl"])
}

// records looks at what was written down of the plain server.
func (g *guardedRun) records(text string) {
	t := g.t
	t.Helper()
	reads := map[string]map[string]bool{} // who read of which product
	for line := range strings.Lines(text) {
		var e auth.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: json.Unmarshal: error %v, want no error", line, err)
		}
		if e.Who == "" || e.Remote == "" || e.Name == "" || e.ID == "" || len(e.Products) != 1 || e.Status != 200 || e.Bytes == 0 || e.Time.IsZero() {
			t.Errorf("an incomplete record: %s, want every field set, one product and status 200", line)
			continue
		}
		if reads[e.Who] == nil {
			reads[e.Who] = map[string]bool{}
		}
		reads[e.Who][e.Products[0]] = true
	}
	want := map[string]string{"ours": "ours", "theirs": "theirs", "bob": "theirs", "all": "ours theirs"}
	if g.kdc != nil {
		want["alice@SYMDEPOT.TEST"] = "ours theirs"
	}
	for who, products := range want {
		var got []string
		for _, p := range []string{"ours", "theirs"} {
			if reads[who][p] {
				got = append(got, p)
			}
		}
		if strings.Join(got, " ") != products {
			t.Errorf("%s is said to have read %q, want %q", who, got, products)
		}
		delete(reads, who)
	}
	for who := range reads {
		t.Errorf("%s has read something, want no access", who)
	}
	out := g.symdepot("audit", "--file", g.path("audit.jsonl"), "--who", "bob", "--product", "theirs", "--since", "1h")
	if n := strings.Count(out, "bob"); n == 0 || strings.Contains(out, "hello-x64.pdb") {
		t.Errorf("audit lists\n%s\nwant records of bob and none of hello-x64.pdb", out)
	}
}

// TestCertificateIsReadAgain: a new certificate needs no restart, and there is
// HTTP/2 where no tickets are taken.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	cert := x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}}
	stem := filepath.Join(dir, "server")
	first := cert
	ca.pair(t, stem, &first)
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"REPO": repo, "PATH": os.Getenv("PATH"), "HOME": dir, "SYMDEPOT_DEPOT": filepath.Join(dir, "depot"), "TMPDIR": dir}
	s, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, "--tls-cert", stem+".crt", "--tls-key", stem+".key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	url := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	ask := func() (serial int64, major int) {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
		defer tr.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Contains(b, []byte("https://localhost:")) {
			t.Errorf(`got error %v, %s; want one with []byte("https://localhost:")`, err, b)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), resp.ProtoMajor
	}
	if serial, major := ask(); serial != 2 || major != 2 {
		t.Errorf("certificate %d over HTTP/%d, want 2 and 2", serial, major)
	}
	second := cert
	ca.pair(t, stem, &second)
	for deadline := time.Now().Add(20 * time.Second); ; {
		serial, _ := ask()
		if serial == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not used")
		}
	}
}

// TestGDBWithHeaders: gdb and debuginfod-find carry a token in a file of headers,
// or in the address.
func TestGDBWithHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gcc", "objcopy", "strip", "gdb", "debuginfod-find"} {
		symtest.Tool(t, name)
	}
	g := &guardedRun{t: t, dir: t.TempDir()}
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, g.path("app.c"), "int secret_step(int q)\n{\n  return q + 1;\n}\nint main(int argc, char **argv)\n{\n  return secret_step(argc) - 2;\n}\n")
	sh := func(line string, env ...string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = g.dir, append(os.Environ(), env...)
		out, _ := cmd.CombinedOutput() // what it prints is looked at
		return string(out)
	}
	if out := sh("gcc -g -O0 -o app app.c -Wl,--build-id=sha1 && objcopy --only-keep-debug app app.debug && strip -o stripped app"); out != "" {
		t.Fatalf(`sh("gcc -g -O0 -o app app.c -Wl,--build-id=sha1 && objcopy --only-keep-debug app app.debug && strip -o stripped app"): %q, want ""`, out)
	}
	g.symdepot("add", "--product", "secret", g.path("app.debug"))
	env := map[string]string{"REPO": repo, "PATH": os.Getenv("PATH"), "HOME": g.dir, "SYMDEPOT_DEPOT": g.path("depot"), "TMPDIR": t.TempDir()}
	s, err := commandtest.StartServe(func(k string) string { return env[k] }, g.dir, "--auth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(s.Log.String(), g.secrets[0][3:]) {
			t.Error("the log shows a token")
		}
	})
	good, other := g.token("--name", "good", "--product", "secret"), g.token("--name", "other", "--product", "public")
	id := regexp.MustCompile(`Build ID: ([0-9a-f]+)`).FindStringSubmatch(sh("readelf -n stripped"))
	if id == nil {
		t.Fatal("the program has no build-id, want one")
	}
	for i, c := range []struct {
		name, header, prefix string
		works                bool
	}{
		{"bearer", "Authorization: Bearer " + good, "", true},
		{"Basic", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("gdb:"+good)), "", true},
		{"path", "", "/t/" + good, true},
		{"another product", "Authorization: Bearer " + other, "", false},
		{"nothing", "", "", false},
		{"another product's path", "", "/t/" + other, false},
	} {
		headers := g.path("headers" + string(rune('0'+i)))
		commandtest.Write(t, headers, c.header+"\n")
		env := []string{"DEBUGINFOD_URLS=" + s.URL + c.prefix, "DEBUGINFOD_HEADERS_FILE=" + headers, "DEBUGINFOD_CACHE_PATH=" + t.TempDir()}
		out := sh("debuginfod-find debuginfo "+id[1], env...)
		if found := strings.Contains(out, "debuginfo"); found != c.works {
			t.Errorf("%s: debuginfod-find: %s; want the file found: %v", c.name, out, c.works)
		}
		env[2] = "DEBUGINFOD_CACHE_PATH=" + t.TempDir()
		out = sh("gdb -nx -batch -iex 'set debuginfod enabled on' -ex 'info line secret_step' ./stripped", env...)
		if found := strings.Contains(out, `Line 2 of "app.c"`); found != c.works {
			t.Errorf("%s: gdb: %s; want the source line found: %v", c.name, out, c.works)
		}
	}
}
