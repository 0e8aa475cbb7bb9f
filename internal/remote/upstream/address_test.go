package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestCheckHost: which hosts a redirect may lead to.
func TestCheckHost(t *testing.T) {
	t.Parallel()
	known := map[string][]string{
		"blobs.example": {"93.184.216.34", "2606:4700::1111"}, "mixed.example": {"93.184.216.34", "10.0.0.1"}, "none.example": {},
		"intranet": {"10.0.0.5"}, "localhost": {"127.0.0.1"}, "127.0.0.1.nip.io": {"127.0.0.1"}, "metadata.google.internal": {"169.254.169.254"},
		"allowed.corp": {"10.20.0.1"},
	}
	var looked []string
	d := NewDialer(DialerOptions{
		AllowHosts: []string{"Listed.corp.", "*.cdn.corp"},
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")},
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			looked = append(looked, host)
			list, ok := known[host]
			if !ok {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			var addrs []netip.Addr
			for _, a := range list {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		},
	})
	for _, c := range []struct {
		host          string
		direct, proxy bool // is allowed
		looks         bool // through a proxy, the name is looked up
	}{
		{"93.184.216.34", true, true, false},
		{"93.184.216.34.", true, true, false},
		{"2606:4700::1111", true, true, false},
		{"10.20.3.4", true, true, false},
		{"127.0.0.1", false, false, false},
		{"10.0.0.1.", false, false, false},
		{"::ffff:127.0.0.1", false, false, false},
		{"fe80::1%eth0", false, false, false},
		{"0x7f.1", false, false, false},
		{"2130706433", false, false, false},
		{"017700000001", false, false, false},
		{"127.1", false, false, false},
		{"127.0.0.01", false, false, false},
		{"1.2.3.4.5", false, false, false},
		{"0x7f000001", false, false, false},
		{"0X7F000001.", false, false, false},
		{"foo.0x", false, false, false},
		{"foo.09", false, false, false},
		{"*.cdn.corp.1", false, false, false},
		{"", false, false, false},
		{".", false, false, false},
		{"a..example", false, false, false},
		{"blobs.example..", false, false, false},
		// Without a proxy the connection's address decides later.
		{"blobs.example", true, true, true},
		{"BLOBS.example.", true, true, true},
		{"intranet", true, false, true},
		{"localhost", true, false, true},
		{"localhost.", true, false, true},
		{"127.0.0.1.nip.io", true, false, true},
		{"metadata.google.internal", true, false, true},
		{"mixed.example", true, false, true},
		{"none.example", true, false, true},
		{"unknown.example", true, false, true},
		{"allowed.corp", true, true, true},
		{"listed.corp", true, true, false},
		{"LISTED.corp.", true, true, false},
		{"sub.listed.corp", true, false, true},
		{"a.b.cdn.corp", true, true, false},
		{"cdn.corp", true, false, true},
		{"0xfeed.example", true, false, true},
		// The proxy's resolver may map it to digits.
		{"１２７.０.０.１", true, false, false},
	} {
		looked = nil
		if err := d.checkHost(t.Context(), c.host, false); (err == nil) != c.direct || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%q without a proxy: %v, want allowed: %v", c.host, err, c.direct)
		}
		if len(looked) > 0 {
			t.Errorf("%q without a proxy: looked up %q", c.host, looked)
		}
		if err := d.checkHost(t.Context(), c.host, true); (err == nil) != c.proxy || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%q through a proxy: %v, want allowed: %v", c.host, err, c.proxy)
		}
		if (len(looked) > 0) != c.looks {
			t.Errorf("%q through a proxy: looked up %q, want a lookup: %v", c.host, looked, c.looks)
		}
	}
}

// TestGuardBehindProxy: redirects and pointers of an upstream do not reach inner
// hosts through an HTTP proxy, however their addresses are written.
func TestGuardBehindProxy(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var reached []string // hosts other than the upstream that the proxy was asked for
	var target string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Host != "symbols.test":
			reached = append(reached, r.Host)
			_, _ = w.Write(content)
		case r.URL.Path == fooPath:
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusFound)
		case r.URL.Path == strings.Replace(fooPtr, "foo.pdb", "bar.pdb", 1):
			_, _ = w.Write([]byte("PATH:" + target))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := source(t, HTTPConfig{URL: "http://symbols.test/"}, DialerOptions{
		AllowHosts: []string{"blobs.corp"},
		Proxy:      func(*http.Request) (*url.URL, error) { return at, nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			switch host {
			case "intranet", "localhost", "127.0.0.1.nip.io":
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			case "metadata.google.internal":
				return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
			case "public.example":
				return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	})
	for _, c := range []struct {
		target  string
		reaches bool
	}{
		{"http://metadata.google.internal/latest", false},
		{"http://intranet/admin", false},
		{"http://127.0.0.1.nip.io/", false},
		{"http://0x7f.1:8080/", false},
		{"http://2130706433/", false},
		{"http://017700000001/", false},
		{"http://10.0.0.1.:80/", false},
		{"http://localhost.:8080/", false},
		{"http://127.0.0.1/", false},
		{"http://[::ffff:127.0.0.1]/", false},
		{"http://169.254.169.254/", false},
		{proxy.URL + "/", false},
		{"http://unknown.example/", false},
		{"http://public.example/x", true},
		{"http://blobs.corp/x", true},
	} {
		for _, p := range []string{askFoo, strings.ReplaceAll(askFoo, "foo.pdb", "bar.pdb")} {
			mu.Lock()
			reached, target = nil, c.target
			mu.Unlock()
			_, _, err := load(t, h, wish(t, p))
			mu.Lock()
			got := slices.Clone(reached)
			mu.Unlock()
			if (len(got) > 0) != c.reaches || (err == nil) != c.reaches {
				t.Errorf("%s to %s: the proxy was asked for %q, error %v; want reached: %v", p, c.target, got, err, c.reaches)
			}
			if err != nil && !errors.Is(err, ErrAddress) {
				t.Errorf("%s to %s: %v, want an address error", p, c.target, err)
			}
		}
	}
}

// TestNoEgressLooksNothingUp: without a way out, not even names are looked up.
func TestNoEgressLooksNothingUp(t *testing.T) {
	t.Parallel()
	at := &url.URL{Scheme: "http", Host: "proxy.example:3128"}
	d := NewDialer(DialerOptions{
		NoEgress: true,
		Proxy:    func(*http.Request) (*url.URL, error) { return at, nil },
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			t.Errorf("looked up %s, want no lookup", host)
			return nil, errors.New("no")
		},
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.Client().Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, ErrNoEgress) {
		t.Errorf("a request without egress: %v, want %v", err, ErrNoEgress)
	}
}

// FuzzCheckHost: no spelling of an address passes for a name.
func FuzzCheckHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1", "0x7f.1", "2130706433", "localhost.", "a..b", "[::1]", "1.2.3.4.", "foo.0x", "１", "fe80::1%25a"} {
		f.Add(s)
	}
	d := NewDialer(DialerOptions{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	f.Fuzz(func(t *testing.T, host string) {
		err := d.checkHost(t.Context(), host, true)
		if a, perr := netip.ParseAddr(strings.TrimSuffix(host, ".")); err == nil && (perr != nil || !Public(a)) {
			t.Errorf("%q is allowed, want only public addresses allowed", host)
		}
	})
}
