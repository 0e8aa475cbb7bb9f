package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.End()
	os.Exit(code)
}

// silent is a server that accepts connections and never says anything.
func silent(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
		}
	}()
	return l.Addr().String()
}

// before is a store in front of a real one. It refuses requests of a method, and its
// clock goes ahead.
func before(t *testing.T, p *buckettest.Peer, refused string, ahead time.Duration) string {
	t.Helper()
	target, err := url.Parse(p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: buckettest.Transport(nil),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is part of the signature
		},
		ModifyResponse: func(r *http.Response) error {
			if at, err := http.ParseTime(r.Header.Get("Last-Modified")); err == nil {
				r.Header.Set("Last-Modified", at.Add(ahead).UTC().Format(http.TimeFormat))
			}
			return nil
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == refused {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code></Error>"))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// made is a depot in PostgreSQL and a bucket, and the folder of this machine for it.
type made struct {
	pg                     *pgtest.Server
	s3                     *buckettest.Peer
	database, blobs, local string
}

func newMade(t *testing.T) made {
	t.Helper()
	m := made{pg: pgtest.Shared(t), s3: buckettest.S3(t), local: filepath.Join(t.TempDir(), "local")}
	m.database, m.blobs = m.pg.Database(t), "s3://"+m.s3.Bucket+"/depot"
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: m.s3.Bucket, Prefix: "depot", Endpoint: m.s3.Endpoint, Region: "us-east-1", AccessKey: m.s3.User, SecretKey: m.s3.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	d, err := depot.Open(t.Context(), m.database, depot.Options{Bucket: b, Local: m.local})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return m
}

// with returns the URL of the database, changed.
func (m made) with(t *testing.T, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(m.database)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// examine examines the depot. Empty texts stand for the right ones.
func (m made) examine(t *testing.T, database, store, blobs, secret, password string) []Finding {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // without files of Amazon's and PostgreSQL's tools
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ENDPOINT_URL", cmp.Or(store, m.s3.Endpoint))
	t.Setenv("AWS_ACCESS_KEY_ID", m.s3.User)
	t.Setenv("AWS_SECRET_ACCESS_KEY", cmp.Or(secret, m.s3.Secret))
	t.Setenv("PGPASSWORD", password)
	return examine(t, fmt.Sprintf("%sdepot: {dir: '%s', blobs: '%s', local: '%s'}", nobody, cmp.Or(database, m.database), cmp.Or(blobs, m.blobs), m.local))
}

// TestDatabaseAndStore: a depot in PostgreSQL and a bucket has no fault.
func TestDatabaseAndStore(t *testing.T) {
	m := newMade(t)
	list := m.examine(t, "", "", "", "", "")
	if Worst(list) != OK {
		t.Errorf("findings of a good depot: %+v, want all ok", list)
	}
	expect(t, list, "database", OK, "PostgreSQL")
	expect(t, list, "object store", OK, "written, read, listed and deleted")
	expect(t, list, "clock", OK, "agrees with that of the database")
}

// TestBrokenDatabaseAndStore breaks one part of a depot after the other: the page has one
// line about it, which says what to do, after a few seconds at most.
func TestBrokenDatabaseAndStore(t *testing.T) {
	m := newMade(t)
	m.pg.User(t, "guarded", "right")
	guarded := m.with(t, func(u *url.URL) { u.User = url.User("guarded") })
	at := func(host string) string { return m.with(t, func(u *url.URL) { u.Host = host }) }
	for name, c := range map[string]struct {
		database, store, blobs, secret, password string
		state                                    State
		area, text, do                           string
	}{
		"nobody there":      {database: at("127.0.0.1:9"), state: Fault, area: "database", text: "connection refused", do: "check the host"},
		"silent":            {database: at(silent(t)), state: Fault, area: "database", text: "no PostgreSQL server answers there", do: "check the host"},
		"no such host":      {database: at("nowhere.invalid"), state: Fault, area: "database", text: "no such host", do: "check the host"},
		"wrong password":    {database: guarded, password: "wrong-secret", state: Fault, area: "database", text: "refuses user \"guarded\"", do: "set PGPASSWORD"},
		"no database":       {database: m.pg.URL("nowhere"), state: Fault, area: "database", text: "does not exist", do: "create it with createdb"},
		"no tables":         {database: m.pg.Database(t), state: Warning, area: "depot", text: "has no tables yet", do: "that is fine before the first"},
		"store: nobody":     {store: "http://127.0.0.1:9", state: Fault, area: "object store", text: "connection refused", do: "check that the store runs"},
		"store: no writes":  {store: before(t, m.s3, http.MethodPut, 0), state: Fault, area: "object store", text: "nothing can be added", do: "the right to put"},
		"store: no deletes": {store: before(t, m.s3, http.MethodDelete, 0), state: Fault, area: "object store", text: "AccessDenied", do: "the right to put"},
		"store: its clock":  {store: before(t, m.s3, "", time.Hour), state: Fault, area: "object store", text: "differs from the store's", do: "synchronize the clocks"},
		"store: its secret": {secret: "wrong-secret", state: Fault, area: "object store", text: "SignatureDoesNotMatch", do: "check the credentials"},
		"store: no bucket":  {blobs: "s3://nowhere/depot", state: Fault, area: "object store", text: "no such bucket", do: "create the bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			list := m.examine(t, c.database, c.store, c.blobs, c.secret, c.password)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s, want a few seconds", took)
			}
			if Worst(list) != c.state {
				t.Errorf("the worst of %+v is %s, want %s", list, Worst(list), c.state)
			}
			bad := slices.DeleteFunc(slices.Clone(list), func(f Finding) bool {
				slow := f.State == Warning && strings.Contains(f.Text, "every lookup takes at least that long") // a busy machine
				return f.State == OK || slow
			})
			if len(bad) != 1 || bad[0].Area != c.area || !strings.Contains(bad[0].Text, c.text) || !strings.Contains(bad[0].Do, c.do) {
				t.Errorf("findings %+v, want one of %s with %q, and to do: %q", bad, c.area, c.text, c.do)
			}
			var page bytes.Buffer
			if err := Print(&page, list); err != nil || strings.Contains(page.String(), "wrong-secret") || strings.Contains(page.String(), m.s3.Secret) {
				t.Errorf("%v; the page has a secret:\n%s", err, page.String())
			}
		})
	}
}

// TestSilentStore: a store that accepts connections and says nothing is a fault soon.
func TestSilentStore(t *testing.T) {
	t.Parallel()
	began := time.Now()
	list := examine(t, nobody+"depot: {dir: '"+newDepot(t)+"', blobs: 's3://symbols/depot?auth=anonymous&endpoint=http://"+silent(t)+"'}")
	expect(t, list, "object store", Fault, "has not answered within 10s")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s, want little more than 10 s", took)
	}
}

// TestObtained: the end of certificates that were obtained by ACME counts, and one that
// was not renewed says where to look.
func TestObtained(t *testing.T) {
	dir := t.TempDir()
	conf := nobody + "depot: /nowhere/at/all\ntls: {acme: {domains: [a.example.com], dir: '" + dir + "', accept_terms: true}}"
	expect(t, examine(t, conf), "certificate", Warning, "none was obtained for a.example.com")
	for days, want := range map[int]struct {
		state State
		text  string
	}{60: {OK, "a.example.com: valid until"}, 3: {Warning, "was not renewed"}, -1: {Fault, "a.example.com: expired on"}} {
		cert, key := selfSigned(t, days)
		if err := os.WriteFile(filepath.Join(dir, "a.example.com"), append(key, cert...), 0o600); err != nil {
			t.Fatal(err)
		}
		expect(t, examine(t, conf), "certificate", want.state, want.text)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.example.com"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, conf), "certificate", Fault, "a.example.com")
}

// TestUpstreamCertificate: an upstream whose certificate nobody vouches for says so.
func TestUpstreamCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	list := examine(t, nobody+"depot: /nowhere/at/all\nupstreams: ['"+s.URL+"']")
	expect(t, list, "upstream", Warning, "certificate")
	if !slices.ContainsFunc(list, func(f Finding) bool { return f.Area == "upstream" && strings.Contains(f.Do, "trust its authority") }) {
		t.Errorf("findings %+v, want to do: trust its authority", list)
	}
}
