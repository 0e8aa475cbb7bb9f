package sympath

import (
	"context"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

func kinds(list []Element) (s []string) {
	for _, e := range list {
		s = append(s, e.Kind)
	}
	return s
}

func urls(list []upstream.Spec) (s []string) {
	for _, e := range list {
		s = append(s, e.URL)
	}
	return s
}

func TestSymbolPath(t *testing.T) {
	self := []string{"http://127.0.0.1:8080", "symbols.corp.example:443"}
	folder := "" // a path of Windows is a folder there only
	if runtime.GOOS == "windows" {
		folder = `c:\a `
	}
	for _, c := range []struct {
		path    string
		kinds   string
		sources string
		warning string // of the first element that has any
	}{
		{"", "empty", "", ""},
		{`srv*c:\localcache*\\interim\store*https://msdl.microsoft.com/download/symbols`, "chain", "https://msdl.microsoft.com/download/symbols", ""},
		{"srv*https://sym.example/x", "chain", "https://sym.example/x", "no cache is named"},
		{`cache*c:\c;SRV*https://sym.example/x`, "cache chain", "https://sym.example/x", ""},
		{"srv**https://sym.example/x", "chain", "https://sym.example/x", ""},
		{`symsrv*symsrv.dll*c:\c*https://sym.example`, "chain", "https://sym.example", ""},
		{`symsrv*other.dll*c:\c*https://sym.example`, "unknown", "", "only debuggers with that DLL"},
		{"symsrv*symsrv.dll", "unknown", "", "no store follows"},
		{"srv*", "chain", "", "no server is named"},
		{`srv*https://a.example*c:\c`, "chain", "https://a.example", "must be the last store"},
		{`srv*c:\c*https://a.example*`, "chain", "https://a.example", "must be the last store"},
		{"cache*", "cache", "", "no folder is named"},
		{"https://sym.example/x", "server", "https://sym.example/x", "need srv* in front"},
		{"http://sym.example/x", "server", "http://sym.example/x", "need srv* in front"},
		{"srv*c*http://sym.example/x", "chain", "http://sym.example/x", "plain http"},
		{"srv*c*http://localhost:8080/download/symbols", "chain", "", "this server itself"},
		{"srv*c*http://[::1]:8080", "chain", "", "this server itself"},
		{"srv*c*http://127.0.0.1:8081", "chain", "http://127.0.0.1:8081", ""},
		{"srv*c*https://Symbols.Corp.example/x", "chain", "", "this server itself"},
		{"DebugInfoD*https://debuginfod.elfutils.org", "debuginfod", "https://debuginfod.elfutils.org", ""},
		{"http*x", "unknown", "", "the known kinds are srv*"},
		{";;", "empty empty empty", "", ""},
		{"SRV*[cache*]https://sym.example", "chain", "", "brackets"},
		{`"srv*c:\a;srv*b*https://sym.example"`, "unknown chain chain", folder + "https://sym.example", "the quotes are part"},
		{`srv*"c:\a;b"*https://sym.example`, "chain", "https://sym.example", "do not remove quotes"},
		{" srv*c*https://sym.example ", "chain", "https://sym.example", "blanks"},
		{`%USERPROFILE%\sym`, "folder", "", "%VARIABLE%"},
		{"srv*c*https://user:geheim@sym.example/x", "chain", "https://user:geheim@sym.example/x", "the secret in the path"},
		{"srv*" + strings.Repeat("c*", 10) + "https://sym.example", "chain", "https://sym.example", "11 stores"},
		{"relative/dir", "folder", "", "relative path"},
	} {
		list := ParseSymbolPath(c.path, self)
		var specs []upstream.Spec
		first := ""
		for _, e := range list {
			specs = append(specs, e.Sources...)
			if len(e.Warnings) > 0 && first == "" {
				first = strings.Join(e.Warnings, "; ")
			}
			if e.Means == "" || e.Rule == "" {
				t.Errorf("%s: no explanation: %+v", c.path, e)
			}
			if strings.Contains(e.Text+e.Means+strings.Join(e.Warnings, ""), "geheim") {
				t.Errorf("%s: prints a secret: %+v", c.path, e)
			}
			for _, s := range e.Sources {
				if err := s.Check(); err != nil || strings.Contains(s.Name, "geheim") {
					t.Errorf(`%s, %v: Check: error %v, want one without "geheim"`, c.path, s.Name, err)
				}
			}
		}
		if got := strings.Join(kinds(list), " "); got != c.kinds {
			t.Errorf("%s: kinds %q, want %q", c.path, got, c.kinds)
		}
		if got := strings.Join(urls(specs), " "); got != c.sources {
			t.Errorf("%s: upstreams %q, want %q", c.path, got, c.sources)
		}
		if c.warning == "" && first != "" || !strings.Contains(first, c.warning) {
			if runtime.GOOS != "windows" && strings.Contains(first, "a path of Windows") {
				continue
			}
			t.Errorf("%s: warnings %q, wanted %q", c.path, first, c.warning)
		}
	}
	dir := t.TempDir()
	list := ParseSymbolPath(dir+";srv*"+filepath.Join(dir, "none"), nil)
	if len(list[0].Sources) != 1 || list[0].Sources[0].Type != upstream.TypeFolder || len(list[0].Warnings) != 0 || len(list[1].Warnings) == 0 {
		t.Errorf("ParseSymbolPath: %+v, want list[0].Sources of length 1, list[0].Sources[0].Type %v, list[0].Warnings of length 0, list[1].Warnings of length not 0", list, upstream.TypeFolder)
	}
}

func TestDebuginfodURLs(t *testing.T) {
	list := ParseDebuginfodURLs(" ima:enforcing https://debuginfod.example/  sym.example:8002 https://debuginfod.example file:///srv/x http://127.0.0.1:8080\nhttps://q.example/buildid ima:maybe", []string{"http://localhost:8080"})
	var got []string
	for _, e := range list {
		got = append(got, e.Kind+":"+strings.Join(urls(e.Sources), ""))
		if e.Means == "" {
			t.Errorf(`got %+v, want Means not ""`, e)
		}
		for _, s := range e.Sources {
			if s.Layout != "debuginfod" {
				t.Errorf(`got %+v, want Layout "debuginfod"`, s)
			}
		}
	}
	want := []string{"policy:", "debuginfod:https://debuginfod.example/", "debuginfod:http://sym.example:8002", "debuginfod:",
		"debuginfod:" + filepath.FromSlash("/srv/x"), "debuginfod:", "debuginfod:https://q.example", "policy:"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %v", got, want)
	}
}

func TestFromEnv(t *testing.T) {
	env := map[string]string{
		"_NT_ALT_SYMBOL_PATH":     `srv*c:\c*https://first.example`,
		"_NT_SYMBOL_PATH":         `srv*c:\c*https://msdl.microsoft.com/download/symbols/;srv*c:\c*https://FIRST.example/;srv*c:\c*https://last.example`,
		"DEBUGINFOD_URLS":         "https://d1.example https://d2.example http://127.0.0.1:9",
		"DEBUGINFOD_HEADERS_FILE": "/etc/headers",
		"DEBUGINFOD_MAXSIZE":      "1000",
	}
	specs, elements := FromEnv(func(k string) string { return env[k] }, []string{"127.0.0.1:9"})
	var got []string
	for _, s := range specs {
		got = append(got, s.Name)
	}
	if want := []string{"first.example", "microsoft", "last.example", "d1.example", "d2.example"}; !slices.Equal(got, want) || len(elements) != 7 {
		t.Fatalf("%q, %d elements; want %q in 7 elements", got, len(elements), want)
	}
	if specs[0].Guard.Rank != 0 || specs[1].Guard.Rank != 1 || specs[2].Guard.Rank != 3 || specs[3].Guard.Rank != 0 || specs[4].Guard.Rank != 0 {
		t.Errorf("ranks: %+v, want 0, 1, 3, 0, 0", specs)
	}
	if specs[3].Credentials.HeadersFile != "/etc/headers" || specs[3].Guard.MaxBytes != 1000 || specs[1].Credentials.HeadersFile != "" {
		t.Errorf(`got %+v, %q; want Credentials.HeadersFile "/etc/headers", Guard.MaxBytes 1000, ""`, specs[3], specs[1].Credentials.HeadersFile)
	}
	if specs, _ := FromEnv(func(string) string { return "" }, nil); len(specs) != 0 {
		t.Errorf("FromEnv: %+v, want none", specs)
	}
}

func TestLooksLikeURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://debuginfod.elfutils.org": true, "https://a.example https://b.example": true, "ima:enforcing": true,
		"https://sym.example": false, "srv*https://debuginfod.elfutils.org": false, `c:\sym`: false, "/srv/symbols": false, "": false,
		"https://a.example;https://b.example": false,
	} {
		if got := LooksLikeURLs(text); got != want {
			t.Errorf("LooksLikeURLs(%q) = %v, want %v", text, got, want)
		}
	}
}

func FuzzSymbolPath(f *testing.F) {
	f.Add(`srv*c:\c*\\x\y*https://sym.example/x?y=1;cache*;"a";DebugInfoD*http://u:p@x`)
	f.Add("symsrv*symsrv.dll**; ;%A%")
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsAny(s, `/\`) && !strings.Contains(s, "://") {
			s = strings.NewReplacer("/", "", `\`, "").Replace(s) // nothing of this machine
		}
		for _, e := range append(ParseSymbolPath(s, []string{"127.0.0.1:1"}), ParseDebuginfodURLs(s, nil)...) {
			if e.Kind == "" || e.Means == "" {
				t.Errorf(`%+v: got %q, want Kind not "", Means not ""`, e, s)
			}
		}
	})
}

func TestProbe(t *testing.T) {
	d := upstream.NewDialer(upstream.DialerOptions{})
	empty := func(header, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(header, value)
			if !strings.HasSuffix(r.URL.Path, "index2.txt") && r.URL.Path != "/" {
				w.WriteHeader(http.StatusNotFound)
			}
		}
	}
	for _, c := range []struct {
		layout string
		paths  map[string]http.HandlerFunc
		want   string
		two    string
		err    string
	}{
		{"symstore", map[string]http.HandlerFunc{"/index2.txt": empty("Server", "nginx/1.2")}, "nginx/1.2", "true", ""},
		{"symstore", map[string]http.HandlerFunc{"/": symtest.Give([]byte("<title>symdepot</title>"))}, "symdepot", "false", ""},
		{"symstore", map[string]http.HandlerFunc{"/index2.txt": symtest.Give([]byte("<html>hello"))}, "", "false", ""},
		{"symstore", map[string]http.HandlerFunc{"/index2.txt": symtest.Refuse(403, "X-Goog-Hash", "x")}, "Google Cloud Storage", "false", ""},
		{"symstore", map[string]http.HandlerFunc{"/index2.txt": symtest.Refuse(500)}, "", "", "the server answered 500"},
		{"debuginfod", map[string]http.HandlerFunc{"/": symtest.Give([]byte("Debuginfod/0.188 x"))}, "debuginfod", "", ""},
		{"debuginfod", map[string]http.HandlerFunc{"/buildid/" + noSuchID + "/debuginfo": symtest.Refuse(503)}, "", "", "the server answered 503"},
	} {
		srv := serve(t, c.paths)
		p := Probe(t.Context(), d, upstream.Spec{Name: "x", Type: upstream.TypeHTTP, URL: srv.URL + "/", Layout: c.layout})
		two := ""
		if p.TwoTier != nil {
			two = map[bool]string{true: "true", false: "false"}[*p.TwoTier]
		}
		if !p.Reachable || p.Server != c.want || two != c.two || !strings.Contains(p.Error, c.err) || (p.Error == "") != (c.err == "") {
			t.Errorf("%s, wanted %q %s: %+v", c.layout, c.want, c.two, p)
		}
	}
	stuck := make(chan struct{})
	defer close(stuck)
	srv := serve(t, map[string]http.HandlerFunc{"/index2.txt": func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stuck:
		case <-r.Context().Done():
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if p := Probe(ctx, d, upstream.Spec{Name: "x", Type: upstream.TypeHTTP, URL: srv.URL}); p.Reachable || p.Error != "no answer in time" {
		t.Errorf(`Probe: %+v, want Reachable false, Error "no answer in time"`, p)
	}
	if p := Probe(t.Context(), upstream.NewDialer(upstream.DialerOptions{NoEgress: true}), upstream.Spec{Type: upstream.TypeHTTP, URL: srv.URL}); p.Reachable || !strings.Contains(p.Error, "outbound connections are disabled") {
		t.Errorf(`Probe: %+v, want Reachable false, Error with "outbound connections are disabled"`, p)
	}
	if p := Probe(t.Context(), d, upstream.Spec{Type: upstream.TypeFolder, URL: t.TempDir()}); !p.Reachable || p.Server != "flat" {
		t.Errorf(`Probe: %+v, want Reachable true, Server "flat"`, p)
	}
	if p := Probe(t.Context(), d, upstream.Spec{Type: upstream.TypeFolder, URL: filepath.Join(t.TempDir(), "none")}); p.Reachable || p.Error == "" {
		t.Errorf(`Probe: %+v, want Reachable false, Error not ""`, p)
	}
	if p := Probe(t.Context(), d, upstream.Spec{Name: "x", Type: upstream.TypeBucket}); p.Reachable || p.Error == "" {
		t.Errorf(`Probe: %+v, want Reachable false, Error not ""`, p)
	}
}
