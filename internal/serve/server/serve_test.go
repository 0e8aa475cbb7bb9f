package server

import (
	"context"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// same fails unless two answers are equal, but for what net/http adds.
func same(t *testing.T, what string, got, want reply) {
	t.Helper()
	if got.status != want.status || got.body != want.body {
		t.Errorf("%s: status %d with %d bytes, want %d with %d", what, got.status, len(got.body), want.status, len(want.body))
	}
	for _, k := range slices.Collect(maps.Keys(want.header)) {
		if !slices.Equal(got.header[k], want.header[k]) {
			t.Errorf("%s: %s is %q, want %q", what, k, got.header[k], want.header[k])
		}
	}
	for k := range got.header {
		if _, ok := want.header[k]; !ok {
			t.Errorf("%s: %s: %q is too much", what, k, got.header[k])
		}
	}
}

// TestProtocols asks for files in every protocol, over a connection whose
// answers come from net/http, from the handler through memory, and again from
// memory: all are the same, and HEAD has the headers of GET.
func TestProtocols(t *testing.T) {
	w := newWorld(t, Config{})
	c := dial(t, listen(t, w.s))
	buildID := string(w.elf.obj.BuildID)
	octets, text := "application/octet-stream", "text/plain; charset=utf-8"
	pdb := w.pdb.path(t, layout.SymStore)
	for _, tt := range []struct {
		path   string
		status int
		ctype  string
		body   []byte
	}{
		{pdb, 200, octets, w.pdb.body},
		{strings.ToUpper(pdb), 200, octets, w.pdb.body},
		{strings.ToLower(pdb), 200, octets, w.pdb.body},
		{"/download/symbols" + pdb, 200, octets, w.pdb.body},
		{"//download//symbols/" + pdb + "/", 200, octets, w.pdb.body},
		{pdb + "?code_file=x&code_id=y", 200, octets, w.pdb.body},
		{w.pdb.path(t, layout.Index2), 200, octets, w.pdb.body},
		{w.pdb.path(t, layout.SSQP), 200, octets, w.pdb.body},
		{w.pdb.path(t, layout.Unified), 200, octets, w.pdb.body},
		{"/" + strings.ReplaceAll(pdb[1:], "/", "%2F"), 200, octets, w.pdb.body},
		{w.exe.path(t, layout.SymStore), 200, octets, w.exe.body},
		{w.small.path(t, layout.BreakpadTree), 200, text, w.small.body},
		{"/try" + w.small.path(t, layout.BreakpadTree), 200, text, w.small.body},
		{"/a%20b%2Bc.pdb/00000000000000000000000000000ABC0/a%20b%2Bc.sym", 200, text, w.space.body},
		{"/a%20b+c.pdb/00000000000000000000000000000ABC0/a%20b+c.sym", 200, text, w.space.body},
		{w.big.path(t, layout.BreakpadTree), 200, text, w.big.body},
		{"/buildid/" + buildID + "/executable", 200, octets, w.elf.body},
		{"/buildid/" + strings.ToUpper(buildID) + "/debuginfo", 200, octets, w.debug.body},
		{"/unified/" + buildID[:2] + "/" + buildID[2:] + "/debuginfo", 200, octets, w.debug.body},
		{"/.build-id/" + buildID[:2] + "/" + buildID[2:] + ".debug", 200, octets, w.debug.body},
		{"/buildid/" + buildID + "/section/.nope", 404, text, nil},
		{"/buildid/" + buildID + "/source/main.c", 404, text, nil},
		{"/buildid/" + buildID + "/sauce", 404, text, nil},
		{"/buildid/xyz/debuginfo", 404, text, nil},
		{"/buildid//debuginfo", 404, text, nil},
		{"/buildid/" + buildID, 404, text, nil},
		{pdb[:len(pdb)-1] + "_", 404, text, nil},
		{pdb[:strings.LastIndex(pdb, "/")] + "/file.ptr", 404, text, nil},
		{"/nothing.pdb/000000000000000000000000000000001/nothing.pdb", 404, text, nil},
		{"/v3.1.0/hello.pdb/00000000000000000000000000000001/1", 404, text, nil},
		{"/000Admin/lastid.txt", 404, text, nil},
		{"/a/b/c/d/e/f/g", 404, text, nil},
		{"/a/b", 404, text, nil},
	} {
		want := ask(w.s, "GET", tt.path)
		if want.status != tt.status || want.header.Get("Content-Type") != tt.ctype {
			t.Errorf("%s: status %d, type %q, want %d, %q", tt.path, want.status, want.header.Get("Content-Type"), tt.status, tt.ctype)
		}
		if tt.body != nil && want.body != string(tt.body) || tt.status == 404 && want.body != "not found\n" {
			t.Errorf("%s: wrong body of %d bytes", tt.path, len(want.body))
		}
		if tt.status == 200 {
			for k, v := range map[string]string{"Content-Length": itoa(int64(len(tt.body))), "Cache-Control": "public, max-age=31536000, immutable",
				"X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes", "Access-Control-Allow-Origin": ""} {
				if got := want.header.Get(k); got != v {
					t.Errorf("%s: %s is %q, want %q", tt.path, k, got, v)
				}
			}
			if tag := want.header.Get("ETag"); len(tag) < 10 || tag[0] != '"' {
				t.Errorf("%s: ETag %q, want a strong one", tt.path, tag)
			}
		} else if cc := want.header.Get("Cache-Control"); cc != "no-cache" && (cc != "no-store" || !strings.HasPrefix(tt.path, "/v3.1.0/")) {
			t.Errorf("%s: Cache-Control %q, want no-cache, or no-store for SymCache files", tt.path, cc)
		}
		for i := range 4 {
			same(t, tt.path+" over a connection, time "+itoa(int64(i)), c.do("GET", tt.path), want)
		}
		head := want
		head.body = ""
		same(t, "HEAD "+tt.path, c.do("HEAD", tt.path), head)
	}
}

func TestSection(t *testing.T) {
	w := newWorld(t, Config{})
	r := ask(w.s, "GET", "/buildid/"+string(w.elf.obj.BuildID)+"/section/.text")
	if r.status != 200 || len(r.body) == 0 || !strings.Contains(string(w.elf.body), r.body) {
		t.Fatalf("status %d, %d bytes; want 200 and a part of the file", r.status, len(r.body))
	}
	if got := r.header.Get("X-DEBUGINFOD-SIZE"); got != itoa(int64(len(r.body))) || got != r.header.Get("Content-Length") {
		t.Errorf("X-DEBUGINFOD-SIZE %q, want the %d of the body", got, len(r.body))
	}
	whole := ask(w.s, "GET", "/buildid/"+string(w.elf.obj.BuildID)+"/executable")
	if r.header.Get("ETag") == whole.header.Get("ETag") {
		t.Error("a section has the tag of its file")
	}
	part := ask(w.s, "GET", "/buildid/"+string(w.elf.obj.BuildID)+"/section/.text", "Range: bytes=1-3")
	if part.status != 206 || part.body != r.body[1:4] {
		t.Errorf("range of a section: %d %q; want 206 and 3 bytes", part.status, part.body)
	}
}

func TestRanges(t *testing.T) {
	w := newWorld(t, Config{})
	c := dial(t, listen(t, w.s))
	for _, file := range []held{w.small, w.big} {
		path, size := file.path(t, layout.BreakpadTree), len(file.body)
		tag := ask(w.s, "HEAD", path).header.Get("ETag")
		mod := ask(w.s, "HEAD", path).header.Get("Last-Modified")
		n := func(i int) string { return itoa(int64(i)) }
		for _, tt := range []struct {
			headers    string
			status     int
			start, end int
		}{
			{"Range: bytes=0-0", 206, 0, 1},
			{"Range: bytes=0-", 206, 0, size},
			{"Range: bytes=0-134217727", 206, 0, size},
			{"Range: bytes=10-19", 206, 10, 20},
			{"Range: BYTES=10-19", 206, 10, 20},
			{"Range: bytes=" + n(size-1) + "-", 206, size - 1, size},
			{"Range: bytes=-5", 206, size - 5, size},
			{"Range: bytes=-99999999999999999999", 206, 0, size},
			{"Range: bytes=5-99999999999999999999", 206, 5, size},
			{"Range: bytes=" + n(size) + "-", 416, 0, 0},
			{"Range: bytes=99999999999999999999-", 416, 0, 0},
			{"Range: bytes=-0", 416, 0, 0},
			{"Range: bytes=5-4", 200, 0, size},
			{"Range: bytes=-", 200, 0, size},
			{"Range: bytes=+1-2", 200, 0, size},
			{"Range: bytes=1-2,4-5", 200, 0, size},
			{"Range: lines=1-2", 200, 0, size},
			{"Range: nonsense", 200, 0, size},
			{"Range: bytes=1-2|If-Range: " + tag, 206, 1, 3},
			{"Range: bytes=1-2|If-Range: " + mod, 206, 1, 3},
			{"Range: bytes=1-2|If-Range: W/" + tag, 200, 0, size},
			{"Range: bytes=1-2|If-Range: \"x\"", 200, 0, size},
			{"Range: bytes=1-2|If-Range: Mon, 02 Jan 2006 15:04:05 GMT", 200, 0, size},
			{"Range: bytes=1-2|If-None-Match: " + tag, 304, 0, 0},
			{"Range: bytes=1-2|Accept-Encoding: zstd, gzip", 206, 1, 3},
		} {
			headers := strings.Split(tt.headers, "|")
			for _, method := range []string{"GET", "HEAD"} {
				r := c.do(method, path, headers...)
				if r.status != tt.status {
					t.Errorf("%s %s: status %d, want %d", method, tt.headers, r.status, tt.status)
					continue
				}
				want := map[string]string{"Content-Range": ""}
				switch tt.status {
				case 206:
					want["Content-Range"] = "bytes " + n(tt.start) + "-" + n(tt.end-1) + "/" + n(size)
					fallthrough
				case 200:
					want["Content-Length"] = n(tt.end - tt.start)
					if method == "GET" && r.body != string(file.body[tt.start:tt.end]) {
						t.Errorf("%s: wrong bytes", tt.headers)
					}
				case 416:
					want["Content-Range"] = "bytes */" + n(size)
					want["Cache-Control"] = "no-cache"
				}
				for k, v := range want {
					if got := r.header.Get(k); got != v {
						t.Errorf("%s %s: %s is %q, want %q", method, tt.headers, k, got, v)
					}
				}
			}
		}
	}
}

func TestParseRangeOfNothing(t *testing.T) {
	for v, want := range map[string]rangeKind{"bytes=0-": rangeNone, "bytes=-5": rangeAll, "bytes=-0": rangeNone, "bytes=0-0": rangeNone} {
		if _, _, got := parseRange(v, 0); got != want {
			t.Errorf("%s of an empty file: %v, want %v", v, got, want)
		}
	}
}

func TestConditional(t *testing.T) {
	w := newWorld(t, Config{})
	path := w.pdb.path(t, layout.SymStore)
	full := ask(w.s, "GET", path)
	tag, mod := full.header.Get("ETag"), full.header.Get("Last-Modified")
	at, err := http.ParseTime(mod)
	if err != nil {
		t.Fatal(err)
	}
	before, after := at.Add(-time.Second).Format(http.TimeFormat), at.Add(time.Second).Format(http.TimeFormat)
	for _, tt := range []struct {
		headers string
		status  int
	}{
		{"If-None-Match: " + tag, 304},
		{"If-None-Match: W/" + tag, 304},
		{"If-None-Match: \"a\", " + tag + " , \"b\"", 304},
		{"If-None-Match: *", 304},
		{"If-None-Match: \"other\"", 200},
		{"If-None-Match: \"other\"|If-Modified-Since: " + mod, 200},
		{"If-Modified-Since: " + mod, 304},
		{"If-Modified-Since: " + after, 304},
		{"If-Modified-Since: " + before, 200},
		{"If-Modified-Since: yesterday", 200},
		{"If-Match: " + tag, 200},
		{"If-Match: *", 200},
		{"If-Match: W/" + tag, 412},
		{"If-Match: \"other\"", 412},
		{"If-Unmodified-Since: " + mod, 200},
		{"If-Unmodified-Since: " + before, 412},
		{"If-Match: " + tag + "|If-Unmodified-Since: " + before, 200},
	} {
		r := ask(w.s, "GET", path, strings.Split(tt.headers, "|")...)
		if r.status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.headers, r.status, tt.status)
		}
		if r.status == 304 && (r.body != "" || r.header.Get("ETag") != tag || r.header.Get("Cache-Control") == "") {
			t.Errorf("%s: 304 with %d bytes and headers %v; want no body, the same ETag and a Cache-Control", tt.headers, len(r.body), r.header)
		}
		if r.status == 412 && r.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: status 412 with headers %v, want Cache-Control: no-cache", tt.headers, r.header)
		}
	}
}

// TestEncodings asks until the background work has made a variant.
func TestEncodings(t *testing.T) {
	w := newWorld(t, Config{})
	stop := make(chan struct{})
	ctx := t.Context()
	go func() { _ = w.d.Work(ctx); close(stop) }()
	c := dial(t, listen(t, w.s))
	path := w.big.path(t, layout.BreakpadTree)
	plain := c.do("GET", path)
	var r reply
	for end := time.Now().Add(30 * time.Second); r.header.Get("Content-Encoding") == ""; {
		if time.Now().After(end) {
			t.Fatal("no variant was made")
		}
		r = c.do("GET", path, "Accept-Encoding: gzip;q=0.5, zstd")
		if r.status != 200 || r.header.Get("Vary") != "Accept-Encoding" {
			t.Fatalf("status %d, Vary %q; want 200 and %q", r.status, r.header.Get("Vary"), "Accept-Encoding")
		}
	}
	if r.header.Get("Content-Encoding") != "zstd" || r.header.Get("Content-Length") != itoa(int64(len(r.body))) || len(r.body) >= len(plain.body) {
		t.Errorf("coding %q, length %q, %d bytes; want zstd, smaller than the %d plain bytes", r.header.Get("Content-Encoding"), r.header.Get("Content-Length"), len(r.body), len(plain.body))
	}
	if r.header.Get("ETag") == plain.header.Get("ETag") {
		t.Error("the variant has the tag of the plain bytes")
	}
	dec, err := zstd.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	if b, err := io.ReadAll(dec); err != nil || string(b) != plain.body {
		t.Errorf("it decodes to %d bytes, %v, want the plain bytes", len(b), err)
	}
	head := r
	head.body = ""
	same(t, "HEAD", c.do("HEAD", path, "Accept-Encoding: gzip;q=0.5, zstd"), head)
	for _, accept := range []string{"Accept-Encoding: identity", "Accept-Encoding: br, deflate", "Accept-Encoding: zstd;q=0", "Accept-Encoding: ",
		"Accept-Encoding: zstd;q=0.1, identity;q=0.9", "X-None: x", "Accept-Encoding: zstd|Range: bytes=0-2"} {
		r := c.do("GET", path, strings.Split(accept, "|")...)
		if r.header.Get("Content-Encoding") != "" || r.header.Get("ETag") != plain.header.Get("ETag") || r.status == 200 && r.body != plain.body {
			t.Errorf("%s: got coding %q, want the plain file", accept, r.header.Get("Content-Encoding"))
		}
	}
	if r := c.do("GET", path, "Accept-Encoding: zstd", "If-None-Match: "+r.header.Get("ETag")); r.status != 304 {
		t.Errorf("revalidation of the variant: %d, want 304", r.status)
	}
}

func TestAcceptedCodings(t *testing.T) {
	for accept, want := range map[string]string{
		"gzip": "gzip", "zstd": "zstd", "gzip, zstd": "zstd gzip", "deflate, gzip, br, zstd": "zstd gzip", "GZIP;Q=1": "gzip", "x-gzip": "gzip",
		"zstd;q=0.5, gzip": "gzip zstd", "zstd;q=0.5,gzip;q=0.9": "gzip zstd", "*": "zstd gzip", "*;q=0": "", "zstd;q=0, *": "gzip", "br": "",
		"identity": "", "": "", "gzip;q=nan": "", "gzip;q=2": "", "gzip;q=-1": "", "gzip;q=": "", "identity;q=0, gzip;q=0.1": "gzip",
		"identity, gzip;q=0.5": "", ";;;,,,=": "", "gzip;foo=bar;q=0.3": "gzip",
	} {
		if got := strings.Join(acceptedCodings([]string{accept}), " "); got != want {
			t.Errorf("%q: %q, want %q", accept, got, want)
		}
	}
}

// TestRedirect: a client that knows only the code id is redirected to the debug
// id.
func TestRedirect(t *testing.T) {
	w := newWorld(t, Config{Prefixes: []string{"corp/sym"}})
	c := dial(t, listen(t, w.s))
	for from, to := range map[string]string{
		"/small.dll/5B1D7C3A9000/small.sym":              "/small.pdb/" + smallID + "/small.sym",
		"/small.dll/5b1d7c3a9000/small.dll.sym":          "/small.pdb/" + smallID + "/small.sym",
		"/try/small.dll/5B1D7C3A9000/small.sym?a=1&b=%2": "/try/small.pdb/" + smallID + "/small.sym?a=1&b=%2",
		"/corp/sym/small.dll/5B1D7C3A9000/small.sym":     "/corp/sym/small.pdb/" + smallID + "/small.sym",
	} {
		for _, method := range []string{"GET", "GET", "GET", "HEAD"} {
			if r := c.do(method, from); r.status != 302 || r.header.Get("Location") != to {
				t.Errorf("%s %s: %d to %q, want %q", method, from, r.status, r.header.Get("Location"), to)
			}
		}
	}
	if got := layout.Escape("/a b+c#%?ü\r\n/x:y"); got != "/a%20b%2Bc%23%25%3F%C3%BC%0D%0A/x%3Ay" {
		t.Errorf("layout.Escape(%q): %q, want %q", "/a b+c#%?ü\r\n/x:y", got, "/a%20b%2Bc%23%25%3F%C3%BC%0D%0A/x%3Ay")
	}
}

// TestMSFZ: a client that accepts MSFZ containers is recognized by its request.
func TestMSFZ(t *testing.T) {
	var got symfile.Role
	s := newFakeServer(t, Config{Depot: newDepot(t)}, func(_ context.Context, r layout.Request) (*answer.File, error) {
		got = r.Lookups[0].Role & symfile.Compressed
		return nil, fs.ErrNotExist
	})
	for accept, want := range map[string]bool{"application/msfz0": true, "*/*, Application/MSFZ0;q=1": true, "application/msfz0;q=0": false, "*/*": false} {
		ask(s, "GET", "/a.pdb/000000000000000000000000000000001/a.pdb", "Accept: "+accept)
		if (got != 0) != want {
			t.Errorf("Accept: %s: %v, want accepted: %v", accept, got, want)
		}
	}
	w := newWorld(t, Config{})
	if v := ask(w.s, "GET", w.pdb.path(t, layout.SymStore)).header.Get("Vary"); v != "Accept-Encoding, Accept" {
		t.Errorf("Vary of a PDB: %q, want %q", v, "Accept-Encoding, Accept")
	}
}

// TestHigherAge: a PDB that is not found is replaced by the one with equal GUID
// and the next higher age, or found under another of its keys.
func TestHigherAge(t *testing.T) {
	d := newDepot(t)
	pdb := addFile(t, d, "pdb/hello-x64.pdb")
	s := newServer(t, Config{Depot: d})
	o := pdb.obj
	if o.DebugID.Age == 0 {
		t.Fatal("the test needs a PDB with an age")
	}
	path := "/" + o.Name + "/" + o.DebugID.GUID.Upper() + "0/" + o.Name
	r := ask(s, "GET", path)
	if r.status != 200 || r.header.Get("Cache-Control") != "public, max-age=300" {
		t.Errorf("status %d, %q; want 200 and %q", r.status, r.header.Get("Cache-Control"), "public, max-age=300")
	}
}

// kernelWriter notes what it is given to copy.
type kernelWriter struct {
	*httptest.ResponseRecorder
	files int
}

func (k *kernelWriter) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if _, ok := l.R.(*os.File); ok {
			k.files++
		}
	}
	return io.Copy(k.ResponseRecorder, r)
}

// TestKernelCopies: whole files and ranges reach the connection as files,
// whatever wraps the writer.
func TestKernelCopies(t *testing.T) {
	w := newWorld(t, Config{})
	for _, headers := range [][]string{nil, {"Range", "bytes=5-2000000"}} {
		k := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, w.big.path(t, layout.BreakpadTree), nil)
		if headers != nil {
			r.Header.Set(headers[0], headers[1])
		}
		w.s.ServeHTTP(k, r)
		if k.files == 0 || itoa(int64(k.Body.Len())) != k.Header().Get("Content-Length") {
			t.Errorf("%v: %d files, %d bytes; want one sendfile and all bytes", headers, k.files, k.Body.Len())
		}
	}
}
