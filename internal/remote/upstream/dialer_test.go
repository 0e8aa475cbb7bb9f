package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// TestPublic: every spelling of an address outside the public internet is
// recognized.
func TestPublic(t *testing.T) {
	for _, a := range strings.Fields(`0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.9.9.9 169.254.169.254 169.254.0.1
		172.16.0.1 172.31.255.255 192.0.0.8 192.0.0.200 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9 224.0.0.1
		239.1.1.1 240.0.0.1 255.255.255.255 168.63.129.16
		:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::8.8.8.8
		100::1 2001::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0
		febf::1 fec0::1 ff02::1 4000::1`) {
		if Public(netip.MustParseAddr(a)) {
			t.Errorf("%s passes for public, want not", a)
		}
	}
	for _, a := range strings.Fields(`8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1 223.255.255.255 ::ffff:8.8.8.8
		64:ff9b::8.8.8.8 2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 2400:cb00::1`) {
		if !Public(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is none")
	}
}

// TestRedirects: redirects that are followed, and redirects that are not.
func TestRedirects(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("a request reached %s, want none", r.URL)
		_, _ = w.Write(content)
	}))
	t.Cleanup(inside.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(inside.URL, "http://"), ":")
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		}
	}
	d := DialerOptions{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "inner.example":
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, fmt.Errorf("looked up %s", host)
	}}
	for _, target := range []string{
		"http://127.0.0.1:" + port + "/", "http://[::1]:" + port + "/", "http://[::ffff:127.0.0.1]:" + port + "/", "http://[::ffff:7f00:1]:" + port + "/",
		"http://0.0.0.0:" + port + "/", "http://[::]:" + port + "/", "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/",
		"http://[64:ff9b::7f00:1]:" + port + "/", "http://[2002:7f00:1::]:" + port + "/", "http://10.1.2.3/", "http://100.64.1.1/", "http://168.63.129.16/",
		"//127.0.0.1:" + port + "/", "http://inner.example:" + port + "/",
	} {
		s := serve(t, map[string]http.HandlerFunc{fooPath: to(target)})
		_, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, d), wish(t, askFoo))
		if fetch.ClassOf(err) != fetch.ClassBroken || !errors.Is(err, ErrAddress) {
			t.Errorf("%s: load: error %v, want fetch.ClassOf(err) %v, ErrAddress", target, err, fetch.ClassBroken)
		}
	}
	for _, target := range []string{"", "gopher://127.0.0.1/", "file:///etc/passwd", "http://", "http://127.1:" + port + "/", "http://2130706433:" + port + "/", "http://0x7f.1:" + port + "/", "http://localhost:" + port + "/"} {
		s := serve(t, map[string]http.HandlerFunc{fooPath: to(target)})
		if _, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo)); err == nil || fetch.ClassOf(err) == fetch.ClassNotFound {
			t.Errorf("%s: load: error %v, want an error, fetch.ClassOf(err) not %v", target, err, fetch.ClassNotFound)
		}
	}
}

// TestRedirectChains: back to the operator's host, five at most, no circles.
func TestRedirectChains(t *testing.T) {
	chain := func(n int) map[string]http.HandlerFunc {
		paths := map[string]http.HandlerFunc{}
		at := fooPath
		for i := range n {
			next := fmt.Sprintf("/hop%d", i)
			paths[at] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, next, 301+i%2*6) }
			at = next
		}
		paths[at] = symtest.Give(content)
		return paths
	}
	for n, class := range map[int]fetch.Class{0: fetch.ClassNone, 1: fetch.ClassNone, 5: fetch.ClassNone, 6: fetch.ClassBroken} {
		s := serve(t, chain(n))
		_, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo))
		if fetch.ClassOf(err) != class || err == nil && !bytes.Equal(b, content) {
			t.Errorf("%d redirects: %d bytes, error %v; want class %v and the content if there is no error", n, len(b), err, class)
		}
	}
	s := serve(t, map[string]http.HandlerFunc{
		fooPath: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b", http.StatusFound) },
		"/b":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, fooPath, http.StatusFound) },
	})
	if _, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo)); fetch.ClassOf(err) != fetch.ClassBroken || len(s.asks()) != 2 {
		t.Errorf("load: %v, error %v; want fetch.ClassOf(err) %v, length 2", s.asks(), err, fetch.ClassBroken)
	}
}

// elsewhere is a dialer that reaches every name on this machine as if it were
// public.
func elsewhere() DialerOptions {
	return DialerOptions{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	}
}

// TestCredentialsStay: after a redirect, a different host gets no credentials.
func TestCredentialsStay(t *testing.T) {
	other := serve(t, map[string]http.HandlerFunc{"/blob": symtest.Give(content)})
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	s := serve(t, map[string]http.HandlerFunc{
		fooPath: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://blobs.example:"+port+"/blob?sig=abc", http.StatusTemporaryRedirect)
		},
	})
	h := source(t, HTTPConfig{URL: s.URL, Header: http.Header{"Auth-Token": {"x"}, "Cookie": {"a=b"}}, Credentials: Credentials{Token: "t0ken"}, ServerID: "us"}, elsewhere())
	ask := wish(t, askFoo)
	ask.Checksum = "SHA256:00"
	r, b, err := load(t, h, ask)
	if err != nil || !bytes.Equal(b, content) || r.Path != s.URL+fooPath {
		t.Fatalf("load: %+v, error %v, %q; want %q, Path %v", r, err, b, content, s.URL+fooPath)
	}
	if got := s.requests()[0].Header; got.Get("Authorization") != "Bearer t0ken" || got.Get("Auth-Token") != "x" {
		t.Errorf(`got %v, want Get("Authorization") "Bearer t0ken", Get("Auth-Token") "x"`, got)
	}
	got := other.requests()[0].Header
	for k := range got {
		switch k {
		case "User-Agent", "Accept", "Accept-Encoding", "Via", HopHeader:
		default:
			t.Errorf("header %s was sent to the other server, want it removed", k)
		}
	}
	// The same of the client that other rooms use.
	client := NewDialer(elsewhere()).Client(strings.TrimPrefix(s.URL, "http://"))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+fooPath, nil)
	req.Header.Set("Authorization", "Bearer t0ken")
	req.Header.Set("X-Amz-Security-Token", "x")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	client.CloseIdleConnections()
	if got := other.requests()[1].Header; got.Get("Authorization")+got.Get("X-Amz-Security-Token") != "" {
		t.Errorf(`got %v, want Get("Authorization") + got.Get("X-Amz-Security-Token") ""`, got)
	}
	// A page of another host is a login, not a missing file.
	other.paths["/blob"] = symtest.Give([]byte("<html>log in</html>"), "Content-Type", "text/html")
	if _, _, err := load(t, h, ask); fetch.ClassOf(err) != fetch.ClassBroken || strings.Contains(err.Error(), "sig=") {
		t.Error(err)
	}
}

// TestDowngrade: a request that began with https is never continued with http.
func TestDowngrade(t *testing.T) {
	for _, c := range []struct {
		went []string
		to   string
		ok   bool
	}{
		{[]string{"https://a/x"}, "http://a/y", false},
		{[]string{"https://a/x"}, "http://b/y", false},
		{[]string{"https://a/x", "https://b/x"}, "http://b/y", false},
		{[]string{"https://a/x"}, "https://b/y", true},
		{[]string{"http://a/x"}, "http://b/y", true},
		{[]string{"http://a/x"}, "https://a/x", true},
	} {
		var went []*url.URL
		for _, s := range c.went {
			u, _ := url.Parse(s)
			went = append(went, u)
		}
		to, _ := url.Parse(c.to)
		if err := hopAllowed(went, to); (err == nil) != c.ok {
			t.Errorf("redirect from %v to %s: error %v, want it allowed: %v", c.went, c.to, err, c.ok)
		}
	}
	for _, c := range []struct {
		named, to string
		same      bool
	}{
		{"http://a/", "http://a:80/x", true}, {"http://a/", "https://A/x", true}, {"https://a/", "http://a/x", false}, {"http://a/", "http://a:81/", false},
		{"https://a/", "https://a.b/", false}, {"https://a:8443/", "https://a/", false}, {"http://a:8080/", "https://a/", false}, {"https://a./", "https://a/", true},
	} {
		n, _ := url.Parse(c.named)
		to, _ := url.Parse(c.to)
		if sameServer(n, to) != c.same {
			t.Errorf("%s and %s: one server is %v, want %v", c.named, c.to, !c.same, c.same)
		}
	}
}

// TestRebinding: a name that is public when it is looked at and private when it
// is connected to.
func TestRebinding(t *testing.T) {
	inner := serve(t, map[string]http.HandlerFunc{"/x": symtest.Give(content)})
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	s := serve(t, map[string]http.HandlerFunc{fooPath: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://rebind.example:"+port+"/x", http.StatusFound)
	}})
	var n atomic.Int32
	h := source(t, HTTPConfig{URL: s.URL}, DialerOptions{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		n.Add(1)
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	for range 3 {
		if _, _, err := load(t, h, wish(t, askFoo)); !errors.Is(err, ErrAddress) {
			t.Error(err)
		}
	}
	if n.Load() != 3 || len(inner.asks()) != 0 {
		t.Errorf("%d lookups, %v; want 3, length 0", n.Load(), inner.asks())
	}
	// Of two addresses the private one is not the way round either.
	d := NewDialer(DialerOptions{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}, nil
	}})
	client := d.Client()
	if _, err := client.Get("http://two.example:" + port + "/x"); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
}

// TestProxy: a proxy that the operator named is used, and is no way inside.
func TestProxy(t *testing.T) {
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		through.Add(1)
		switch r.URL.Path {
		case fooPath:
			_, _ = w.Write(content)
		case "/bar.pdb" + fooPath[len("/foo.pdb"):len(fooPath)-len("foo.pdb")] + "bar.pdb":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		default:
			http.Redirect(w, r, "http://"+r.Header.Get("X-Me")+"/", http.StatusFound)
		}
	}))
	t.Cleanup(proxy.Close)
	at, _ := url.Parse(proxy.URL)
	h := source(t, HTTPConfig{URL: "http://symbols.example/", Header: http.Header{"X-Me": {at.Host}}}, DialerOptions{
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Host == at.Host {
				return nil, nil
			}
			return at, nil
		},
	})
	if _, b, err := load(t, h, wish(t, askFoo)); err != nil || !bytes.Equal(b, content) {
		t.Fatal(err)
	}
	for i, p := range []string{"bar.pdb", "baz.pdb"} {
		_, _, err := load(t, h, wish(t, p+"/"+guid1+"1/"+p))
		if !errors.Is(err, ErrAddress) || through.Load() != int32(i+2) {
			t.Errorf("%s: %v, %d requests; want ErrAddress and %d", p, err, through.Load(), i+2)
		}
	}
}

// TestCodeInfo: a Breakpad server redirects a client that knows the code file
// only to the debug file.
func TestCodeInfo(t *testing.T) {
	sym := []byte("MODULE windows x86_64 " + strings.ToUpper(guid1) + "1 xul.pdb\n")
	key := strings.ToUpper(guid1) + "1"
	s := serve(t, nil)
	s.paths = map[string]http.HandlerFunc{
		"/xul.dll/5AB38077900A/xul.sym": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/xul.pdb/"+key+"/xul.sym", http.StatusFound)
		},
		"/xul.pdb/" + key + "/xul.sym": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/xul.pdb/"+key+"/xul.sym", http.StatusFound)
		},
		"/v1/xul.pdb/" + key + "/xul.sym": symtest.Give(gz(sym), "Content-Encoding", "gzip", "Content-Type", "text/plain"),
	}
	h := source(t, HTTPConfig{URL: s.URL, Layout: layout.BreakpadTree.Name()}, DialerOptions{})
	r, b, err := load(t, h, wish(t, "xul.dll/5ab38077900a/xul.sym"))
	if err != nil || !bytes.Equal(b, sym) || r.Name != "xul.pdb" || !strings.HasSuffix(r.Path, "/xul.pdb/"+key+"/xul.sym") {
		t.Errorf(`load: %+v, error %v, %q; want %q, Name "xul.pdb", Path that ends with %q`, r, err, b, sym, "/xul.pdb/"+key+"/xul.sym")
	}
	if r, _, err := load(t, h, wish(t, "xul.pdb/"+key+"/xul.sym")); err != nil || r.Name != "xul.sym" {
		t.Errorf(`load: %+v, error %v; want Name "xul.sym"`, r, err)
	}
}

// TestTransportHosts: a host without a port covers ports 80 and 443.
func TestTransportHosts(t *testing.T) {
	d := NewDialer(DialerOptions{})
	for _, addr := range []string{"[::1]:80", "127.0.0.1:443", "127.0.0.1:9"} {
		tr := d.Transport("::1", "127.0.0.1", "127.0.0.1:9")
		if c, err := tr.DialContext(t.Context(), "tcp", addr); errors.Is(err, ErrAddress) {
			t.Errorf(`%s: DialContext("tcp"): error %v, want not ErrAddress`, addr, err)
		} else if err == nil {
			_ = c.Close()
		}
	}
	if _, err := d.Transport("127.0.0.1").DialContext(t.Context(), "tcp", "127.0.0.1:9"); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
}
