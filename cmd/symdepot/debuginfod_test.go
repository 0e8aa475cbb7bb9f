//go:build unix

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestDebuginfodChecklist: what docs/debuginfod.md promises, over real HTTP, with
// programs that gcc compiles here.
func TestDebuginfodChecklist(t *testing.T) {
	t.Parallel()
	needTools(t, "gcc", "strip", "objcopy", "debuginfod-find")
	c := newChecklist(t)
	t.Run("ids of 4 to 64 bytes", c.ids)
	t.Run("headers", c.headers)
	t.Run("misses", c.misses)
	t.Run("sections", c.sections)
	t.Run("paths of sources", c.sourcePaths)
	t.Run("unclean paths", c.uncleanPaths)
	t.Run("conditional requests and ranges", c.conditional)
	t.Run("metrics", c.metrics)
	t.Run("trees for other servers and client caches", c.trees)
	t.Run("supplementary files", c.supplementary)
}

// checklist is a server with programs and their sources.
type checklist struct {
	dir, depot, url string
	program         []byte // with debug information, id checklistID
	id              string
}

const checklistSource = `#include "a+b$c.h"
int main(void) { return value(); }
`

func newChecklist(t *testing.T) *checklist {
	t.Helper()
	c := &checklist{dir: t.TempDir(), depot: filepath.Join(t.TempDir(), "depot"), id: strings.Repeat("ab", 20)}
	src := filepath.Join(c.dir, "src")
	for name, text := range map[string]string{
		"main.c": checklistSource, "sub dir/a+b$c.h": "static int value(void) { return 0; }\n", "unused.h": "int unused;\n",
	} {
		p := filepath.Join(src, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(c.dir, "out")
	if err := os.MkdirAll(filepath.Join(c.dir, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	compile := func(id, to string) {
		runTool(t, nil, filepath.Join(c.dir, "build"), "gcc", "-g", "-O0", "-I", "../src/sub dir", "-o", to, "../src/main.c", "-Wl,--build-id=0x"+id)
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	compile(c.id, filepath.Join(out, "program"))
	for _, n := range idLengths {
		compile(strings.Repeat("5a", n), filepath.Join(out, fmt.Sprint("id", n)))
	}
	var err error
	if c.program, err = os.ReadFile(filepath.Join(out, "program")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"dwz", "shared.debug", "dwz5", "shared5.debug"} {
		runTool(t, nil, ".", "cp", "../../testdata/join/"+f, out)
	}
	runTool(t, nil, c.dir, "symdepot", "add", "--depot", c.depot, "--sources", src, out)
	c.url = commandtest.ServeDepot(t, c.depot).URL
	return c
}

var idLengths = []int{4, 8, 16, 20, 32, 63, 64}

// get requests a path exactly as it is written, and follows no redirect.
func (c *checklist) get(t *testing.T, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	base, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, req.URL.RawQuery, _ = strings.Cut(path, "?")
	req.URL.Opaque = "//" + base.Host + path
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header[k] = []string{v}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func (c *checklist) ids(t *testing.T) {
	for _, n := range idLengths {
		id := strings.Repeat("5a", n)
		for _, spelled := range []string{id, strings.ToUpper(id)} {
			if r, body := c.get(t, "GET", "/buildid/"+spelled+"/debuginfo"); r.StatusCode != http.StatusOK || !strings.HasPrefix(body, "\x7fELF") {
				t.Errorf("an id of %d bytes, %.8s…: status %d, want the program", n, spelled, r.StatusCode)
			}
		}
		runTool(t, []string{"DEBUGINFOD_URLS=" + c.url, "DEBUGINFOD_CACHE_PATH=" + t.TempDir()}, c.dir, "debuginfod-find", "executable", id)
	}
}

func (c *checklist) headers(t *testing.T) {
	r, body := c.get(t, "GET", "/buildid/"+c.id+"/debuginfo")
	if r.StatusCode != http.StatusOK || body != string(c.program) {
		t.Fatalf("status %d, %d bytes; want 200 and the program", r.StatusCode, len(body))
	}
	for k, want := range map[string]string{
		"X-Debuginfod-Size": fmt.Sprint(len(c.program)), "Content-Length": fmt.Sprint(len(c.program)), "X-Debuginfod-File": "program",
		"Content-Type": "application/octet-stream",
	} {
		if got := r.Header.Get(k); got != want {
			t.Errorf("%s is %q, want %q", k, got, want)
		}
	}
	if r.Header.Get("Last-Modified") == "" || !strings.Contains(r.Header.Get("Cache-Control"), "public") {
		t.Errorf("headers %v, want a time and public caching", r.Header)
	}
	// The size is that of the file, also where the transfer is compressed.
	for range 4 {
		r, _ := c.get(t, "GET", "/buildid/"+c.id+"/debuginfo", "Accept-Encoding: gzip")
		if got := r.Header.Get("X-Debuginfod-Size"); got != fmt.Sprint(len(c.program)) {
			t.Errorf("with the coding %q: X-DEBUGINFOD-SIZE %q, want %d", r.Header.Get("Content-Encoding"), got, len(c.program))
		}
	}
	for limit, status := range map[int]int{100: 406, len(c.program) - 1: 406, len(c.program): 200} {
		if r, _ := c.get(t, "GET", "/buildid/"+c.id+"/debuginfo", fmt.Sprint("X-DEBUGINFOD-MAXSIZE: ", limit)); r.StatusCode != status {
			t.Errorf("at most %d bytes: status %d, want %d", limit, r.StatusCode, status)
		}
	}
}

func (c *checklist) misses(t *testing.T) {
	for _, path := range []string{
		"/buildid/" + strings.Repeat("00", 20) + "/debuginfo", "/buildid/xyz/debuginfo", "/buildid/abc/debuginfo", "/buildid//debuginfo",
		"/buildid/" + c.id + "/nonsense", "/buildid/" + c.id, "/buildid/" + c.id + "/source/", "/buildid/" + c.id + "/section/", "/buildid",
	} {
		if r, _ := c.get(t, "GET", path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, r.StatusCode)
		}
	}
}

func (c *checklist) sections(t *testing.T) {
	for name, status := range map[string]int{
		".text": 200, ".debug_info": 200, ".note.gnu.build-id": 200, "%2edebug_line": 200,
		"text": 404, ".bss": 404, ".none": 404, ".gdb_index": 404,
	} {
		r, body := c.get(t, "GET", "/buildid/"+c.id+"/section/"+name)
		if r.StatusCode != status {
			t.Errorf("section %s: status %d, want %d", name, r.StatusCode, status)
			continue
		}
		if status == 200 && (body == "" || !strings.Contains(string(c.program), body) || r.Header.Get("X-Debuginfod-Size") != fmt.Sprint(len(body))) {
			t.Errorf("section %s: %d bytes, X-DEBUGINFOD-SIZE %s; want bytes of the program, and their number", name, len(body), r.Header.Get("X-Debuginfod-Size"))
		}
	}
}

func (c *checklist) sourcePaths(t *testing.T) {
	src, build := c.dir+"/src", c.dir+"/build"
	escaped := strings.ReplaceAll(c.dir, "/", "%2F")
	for path, status := range map[string]int{
		src + "/main.c":                       200,
		build + "/../src/main.c":              200,
		"/" + build + "/.//..//src/./main.c":  200,
		build + "/%2e%2e/src/main.c":          200,
		src + "/sub%20dir/a%2Bb%24c.h":        200,
		src + "/sub%20dir/a+b$c.h":            200,
		build + "/../src/sub%20dir/a%2Bb$c.h": 200,
		src + "/sub+dir/a+b$c.h":              404, // a plus is a plus
		src + "/Main.c":                       404,
		src + "/unused.h":                     404, // no line table has it
		"/etc/passwd":                         404,
		src + "/../../../../../../etc/passwd": 404,
		escaped + "%2Fsrc%2Fmain.c":           200,
	} {
		r, body := c.get(t, "GET", "/buildid/"+c.id+"/source"+path)
		if r.StatusCode != status {
			t.Errorf("source%s: status %d, want %d", path, r.StatusCode, status)
		} else if status == 200 && strings.HasSuffix(path, "main.c") && body != checklistSource {
			t.Errorf("source%s: %q, want the source", path, body)
		}
	}
}

func (c *checklist) uncleanPaths(t *testing.T) {
	for _, path := range []string{"//buildid/" + c.id + "/debuginfo", "/buildid//" + c.id + "///debuginfo", "/buildid/" + c.id + "/debuginfo?x=y"} {
		if r, _ := c.get(t, "GET", path); r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d %s, want 200 and no redirect", path, r.StatusCode, r.Header.Get("Location"))
		}
	}
}

func (c *checklist) conditional(t *testing.T) {
	path := "/buildid/" + c.id + "/debuginfo"
	whole, _ := c.get(t, "GET", path, "Accept-Encoding: identity")
	head, body := c.get(t, "HEAD", path, "Accept-Encoding: identity")
	for _, k := range []string{"Content-Length", "ETag", "Last-Modified", "X-Debuginfod-Size", "X-Debuginfod-File", "Content-Type"} {
		if got, want := head.Header.Get(k), whole.Header.Get(k); got != want || want == "" {
			t.Errorf("HEAD: %s is %q, want %q as with GET", k, got, want)
		}
	}
	if head.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: status %d, %d bytes; want 200 and none", head.StatusCode, len(body))
	}
	if r, _ := c.get(t, "GET", path, "Accept-Encoding: identity", "If-None-Match: "+whole.Header.Get("ETag")); r.StatusCode != http.StatusNotModified {
		t.Errorf("If-None-Match: status %d, want 304", r.StatusCode)
	}
	if r, body := c.get(t, "GET", path, "Range: bytes=1-3"); r.StatusCode != http.StatusPartialContent || body != "ELF" {
		t.Errorf("a range: status %d, %q; want 206 and ELF", r.StatusCode, body)
	}
}

func (c *checklist) metrics(t *testing.T) {
	r, body := c.get(t, "GET", "/metrics")
	if r.StatusCode != http.StatusOK || !strings.Contains(body, "# HELP ") || !strings.Contains(body, "# TYPE ") {
		t.Errorf("status %d, %.200q; want 200, HELP and TYPE", r.StatusCode, body)
	}
	if r, body := c.get(t, "GET", "/metadata?key=buildid&value="+c.id); r.StatusCode != http.StatusOK || !strings.Contains(body, `"type":"debuginfo"`) || !strings.Contains(body, `"complete":true`) {
		t.Errorf("/metadata: status %d, %s; want the program", r.StatusCode, body)
	}
}

// trees: the exported tree serves elfutils' clients as file:// or as their cache, and a
// client's cache can be added.
func (c *checklist) trees(t *testing.T) {
	tree, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	runTool(t, nil, c.dir, "symdepot", "export", "--depot", c.depot, "--layout", "debuginfod", tree)
	find := func(env ...string) string {
		path := strings.TrimSpace(runTool(t, env, c.dir, "debuginfod-find", "debuginfo", c.id))
		b, err := os.ReadFile(path)
		if err != nil || string(b) != string(c.program) {
			t.Errorf("%v: %d bytes, %v; want the program", env, len(b), err)
		}
		return path
	}
	find("DEBUGINFOD_URLS=file://"+tree, "DEBUGINFOD_CACHE_PATH="+cache)
	find("DEBUGINFOD_URLS=http://127.0.0.1:1", "DEBUGINFOD_CACHE_PATH="+filepath.Join(tree, "buildid"))
	if err := os.WriteFile(filepath.Join(cache, c.id, "executable"), nil, 0o400); err != nil { // a remembered miss
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "depot")
	runTool(t, nil, c.dir, "symdepot", "add", "--depot", other, cache)
	s := commandtest.ServeDepot(t, other)
	if status, body := answerOf(t, s.URL+"/buildid/"+c.id+"/debuginfo"); status != http.StatusOK || string(body) != string(c.program) {
		t.Errorf("after adding a client's cache: status %d, %d bytes; want the program", status, len(body))
	}
}

// supplementary: files of dwz are found by the build-id or the checksum by which
// programs name them.
func (c *checklist) supplementary(t *testing.T) {
	for program, file := range map[string]string{"dwz": "shared.debug", "dwz5": "shared5.debug"} {
		want, err := os.ReadFile("../../testdata/join/" + file)
		if err != nil {
			t.Fatal(err)
		}
		alone := t.TempDir()
		runTool(t, nil, ".", "cp", "../../testdata/join/"+program, alone)
		out := runTool(t, nil, alone, "symdepot", "dump-syms", program)
		_, rest, _ := strings.Cut(out, "supplementary file "+file+" with the build-id ")
		id, _, ok := strings.Cut(rest, " is missing")
		if !ok {
			t.Fatalf("%s: %.300s; want a warning that names the missing file", program, out)
		}
		if status, body := answerOf(t, c.url+"/buildid/"+id+"/debuginfo"); status != http.StatusOK || string(body) != string(want) {
			t.Errorf("%s: status %d, %d bytes; want %s", id, status, len(body), file)
		}
	}
}
