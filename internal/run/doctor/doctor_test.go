package doctor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/home"
)

// examine examines an installation with a configuration.
func examine(t *testing.T, config string) []Finding {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	list, _ := Examine(t.Context(), Case{ConfigFile: file, Getenv: func(string) string { return "" }, Version: "v1"})
	return list
}

// expect checks that a finding of an area has a state and a text.
func expect(t *testing.T, list []Finding, area string, s State, text string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(f Finding) bool { return f.Area == area && f.State == s && strings.Contains(f.Text, text) }) {
		t.Errorf("no %s of %q with %q among %+v", s, area, text, list)
	}
}

func newDepot(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// state describes all files of a folder, but for the two without contents of their own
// that readers of SQLite leave.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		left := strings.HasSuffix(path, "-shm") || strings.HasSuffix(path, "-wal") && info.Size() == 0
		if err == nil && !e.IsDir() && !left {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const nobody = "listen: 127.0.0.1:9\n" // nothing listens there

// TestAsOwner: the advice names the user who owns the folder, where there is one.
func TestAsOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := "or share the depot with a group"
	if owner, ok := account.OwnerOf(dir); ok {
		want = "(sudo -u " + account.Quote(owner.User()) + " "
	}
	for where, want := range map[string]string{dir: want, "postgres://db/depot": "run the command as the user who owns the depot, or share"} {
		if got := asOwner(where); !strings.Contains(got, want) || strings.Contains(got, "OWNER") {
			t.Errorf("what to do about %s: %q, want %q", where, got, want)
		}
	}
}

// TestSetAside: damaged files that were moved aside are a warning that names their folder.
func TestSetAside(t *testing.T) {
	dir := newDepot(t)
	aside := filepath.Join(dir, "blobs", "damaged")
	if err := os.Mkdir(aside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(aside, "x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, nobody+"depot: "+dir), "stored files", Warning, "1 file in "+aside)
}

// TestHealthy: a new depot has no faults, and looking at it changes no file.
func TestHealthy(t *testing.T) {
	dir := newDepot(t)
	before := state(t, dir)
	list := examine(t, nobody+"depot: "+dir)
	if Worst(list) == Fault {
		t.Errorf("findings of a new depot: %+v, want no fault", list)
	}
	expect(t, list, "configuration", OK, "is valid")
	expect(t, list, "depot", OK, "0 builds")
	expect(t, list, "database", OK, "SQLite")
	expect(t, list, "stored files", OK, "0 of 0 checked")
	expect(t, list, "server", OK, "none runs at http://127.0.0.1:9")
	if after := state(t, dir); after != before {
		t.Errorf("the depot was changed:\n%s\nwant\n%s", after, before)
	}
	var b bytes.Buffer
	if err := Print(&b, list); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n > 40 {
		t.Errorf("%d lines, want one page", n)
	}
}

// TestFaults: each fault is found, named and answered with what to do.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		config     string
		area, text string
		state      State
	}{
		"unknown key": {"liste: x", "configuration", "liste", Fault},
		"two faults":  {"listen: x\nfile_path: y", "configuration", "file_path", Fault},
		"no depot":    {nobody + "depot: /nowhere/at/all", "depot", "no depot", Warning},
		"no store":    {nobody + "depot: /nowhere/at/all\nstores: [/nowhere/store]", "configuration", "/nowhere/store is not a folder", Fault},
		"no watched":  {nobody + "depot: /nowhere/at/all\nwatch: [/nowhere/builds]", "watched folder", "/nowhere/builds is not there", Warning},
		"no upstream": {nobody + "depot: /nowhere/at/all\nupstreams: ['http://127.0.0.1:9/x']", "upstream", "does not answer", Warning},
		"no egress":   {nobody + "depot: /nowhere/at/all\nno_egress: true\nupstreams: ['http://127.0.0.1:9/x']", "upstream", "not asked, because of no_egress", OK},
		"no key":      {nobody + "depot: /nowhere/at/all\ntls: {cert: /nowhere/c, key: /nowhere/k}", "certificate", "/nowhere/c", Fault},
	} {
		t.Run(name, func(t *testing.T) { expect(t, examine(t, c.config), c.area, c.state, c.text) })
	}
}

// TestDamagedDepot: a depot that cannot be read is a fault, one without rights too.
func TestDamagedDepot(t *testing.T) {
	dir := newDepot(t)
	if err := os.WriteFile(filepath.Join(dir, "depot.json"), []byte(`{"format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, nobody+"depot: "+dir), "depot", Fault, "newer")
	dir = newDepot(t)
	if err := os.WriteFile(filepath.Join(dir, "index.db"), bytes.Repeat([]byte("no index "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, nobody+"depot: "+dir), "depot", Fault, dir)
}

// TestServerAndUpstream: a running server of another version and an upstream with
// another clock that refuses the credentials are found.
func TestServerAndUpstream(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/-/api/v1/about":
			fmt.Fprint(w, `{"version":"v2"}`)
		case "/-/api/v1/upstreams":
			fmt.Fprint(w, `{"items":[{"name":"far","open":true,"why":"5 failures"}]}`)
		}
	}))
	defer s.Close()
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer far.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := examine(t, "listen: "+s.Listener.Addr().String()+"\ndepot: /nowhere/at/all\nupstreams: [{name: far, url: '"+far.URL+"', token_file: '"+token+"'}]")
	expect(t, list, "server", Warning, "is version v2; this program is version v1")
	expect(t, list, "upstream", Warning, "5 failures")
	expect(t, list, "upstream", Warning, "answers 403")
	expect(t, list, "clock", Fault, "differs by 1h0m0s")
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	expect(t, examine(t, "listen: "+s.Listener.Addr().String()+"\ndepot: /nowhere/at/all"), "server", Fault, "503")
}

// TestOtherDepot: a server at the address of this installation that has another depot, that
// does not name its depot, or that is no symdepot, is not taken for the server of this depot.
func TestOtherDepot(t *testing.T) {
	dir := newDepot(t)
	seen, err := home.Inspect(t.Context(), dir, home.Options{})
	if err != nil || seen.Fingerprint == "" {
		t.Fatalf("home.Inspect(%s): fingerprint %q, %v, want one", dir, seen.Fingerprint, err)
	}
	other, err := home.Inspect(t.Context(), newDepot(t), home.Options{})
	if err != nil || other.Fingerprint == seen.Fingerprint {
		t.Fatalf("two depots have the fingerprint %s (%v), want different ones", other.Fingerprint, err)
	}
	const about = `{"version":"v1","api":1}`
	for name, c := range map[string]struct {
		depot, about string
		status       int
		state        State
		text         string
	}{
		"this depot":          {seen.Fingerprint, about, 200, OK, "is ready, version v1"},
		"this depot, secret":  {seen.Fingerprint, "", 200, Warning, "is ready, and does not say more: it answers 404"},
		"this depot, stops":   {seen.Fingerprint, about, 503, Fault, "not ready"},
		"another depot":       {other.Fingerprint, about, 200, Warning, "has another depot than " + dir},
		"another depot stops": {other.Fingerprint, about, 503, Warning, "has another depot than " + dir},
		"an older symdepot":   {"", `{"version":"v0"}`, 200, Warning, "is version v0; this program is version v1; whether it has this depot is not known"},
		"another program":     {"", "", 200, Warning, "a program that does not say that it is symdepot"},
		"a page for all":      {"", "<html>", 200, Warning, "a program that does not say that it is symdepot"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.depot != "" {
					w.Header().Set(wire.DepotHeader, c.depot)
				}
				switch {
				case r.URL.Path == "/readyz":
					w.WriteHeader(c.status)
				case c.about == "":
					http.NotFound(w, r)
				default:
					fmt.Fprint(w, c.about)
				}
			}))
			defer s.Close()
			list := examine(t, "listen: "+s.Listener.Addr().String()+"\ndepot: "+dir)
			expect(t, list, "server", c.state, c.text)
			if n := len(slices.DeleteFunc(list, func(f Finding) bool { return f.Area != "server" })); n != 1 {
				t.Errorf("%d findings of the server, want 1: %+v", n, list)
			}
		})
	}
}

// selfSigned makes a certificate for a.example.com that is valid for some days more, and
// its key, both in PEM.
func selfSigned(t *testing.T, days int) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"a.example.com"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Duration(days) * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: packed})
}

// TestCertificates: the end, the names and the rights of the key count.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	make := func(days int) {
		cert, key := selfSigned(t, days)
		for name, b := range map[string][]byte{"cert": cert, "key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	conf := nobody + "depot: /nowhere/at/all\nhosts: [a.example.com, b.example.com]\ntls: {cert: " + dir + "/cert, key: " + dir + "/key}"
	make(100)
	list := examine(t, conf)
	expect(t, list, "certificate", OK, "valid until")
	expect(t, list, "certificate", Warning, "not for the host b.example.com")
	if os.PathSeparator == '/' {
		expect(t, list, "certificate", Warning, "every user of this machine may read the key")
	}
	make(3)
	expect(t, examine(t, conf), "certificate", Warning, "valid until")
	make(-1)
	expect(t, examine(t, conf), "certificate", Fault, "expired on")
}

// TestRules: the limits of disks, clocks and stored files.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		f    Finding
		want State
	}{
		{Disk(1000, 500, nil), OK}, {Disk(1000, 49, nil), Warning}, {Disk(1000, 0, nil), Fault}, {Disk(0, 0, fs.ErrPermission), Warning},
		{Stored(check.ScrubState{LastDamaged: 1, Finished: time.Now()}, check.Coverage{Read: 2, Stored: 2}, nil), Fault},
		{Stored(check.ScrubState{Started: time.Now(), Damaged: 1}, check.Coverage{Read: 1, Stored: 2}, nil), Fault},
		{Stored(check.ScrubState{}, check.Coverage{}, nil), OK}, {Stored(check.ScrubState{}, check.Coverage{Stored: 1}, nil), Unknown},
		{Stored(check.ScrubState{Finished: time.Now()}, check.Coverage{Read: 4, Stored: 5}, nil), Unknown},
		{Stored(check.ScrubState{Finished: time.Now()}, check.Coverage{Read: 5, Stored: 5}, nil), OK},
		{Stored(check.ScrubState{}, check.Coverage{}, fs.ErrPermission), Warning},
		{clock("x", -29*time.Second), OK}, {clock("x", -31*time.Second), Warning}, {clock("x", 301*time.Second), Fault},
	} {
		if c.f.State != c.want {
			t.Errorf("%+v: %s, want %s", c.f, c.f.State, c.want)
		}
		if c.f.State != OK && c.f.Do == "" {
			t.Errorf("%+v does not say what to do", c.f)
		}
	}
}
