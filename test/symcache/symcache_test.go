package symcache

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/server"
	"github.com/symdepot/symdepot/symcache"
)

const symG1 = "0e7712be-af06-4421-884b-496f833c8ec1"

// symGUID is the GUID of number n; rows that change something have their own.
func symGUID(row, n int) string {
	if n == 1 {
		return symG1
	}
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", row, n)
}

// symPath puts the GUIDs into a path: {G1}…{GC}, {N3} without hyphens.
func symPath(row int, path string) string {
	for n := 1; n <= 12; n++ {
		digit := fmt.Sprintf("%X", n)
		path = strings.ReplaceAll(path, "{G"+digit+"}", symGUID(row, n))
		path = strings.ReplaceAll(path, "{N"+digit+"}", strings.ToUpper(strings.ReplaceAll(symGUID(row, n), "-", "")))
	}
	return path
}

// symPDB is the PDB of testdata with another GUID.
func symPDB(t *testing.T, guid string) []byte {
	t.Helper()
	plain, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	old, err := debugid.ParseBreakpad("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	g, err := debugid.ParseGUID(guid)
	if err != nil {
		t.Fatal(err)
	}
	from, to := old.GUID.Microsoft(), g.Microsoft()
	return bytes.ReplaceAll(plain, from[:], to[:])
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// symHeld are the files that the tables say are held.
func symHeld() map[string]string {
	held := map[string]string{}
	put := func(row int, name, key, version, body string) {
		held[symPath(row, name+"/"+key+"/"+name+"-v"+version+".symcache")] = body
	}
	put(0, "app.pdb", "{N1}1", "3.1.0", "A310")
	put(0, "app.pdb", "{N2}21", "3.1.0", "B310")
	for _, v := range []string{"3.0.2", "3.1.0", "3.2.0", "4.0.0"} {
		put(0, "multi.pdb", "{N3}1", v, strings.ReplaceAll(v, ".", ""))
	}
	put(0, "four.pdb", "{N3}1", "4.0.0", "400")
	for row := range symRows {
		put(row, "old.pdb", "{N4}1", "3.0.0", "300")
		put(row, "up.pdb", "{N5}1", "3.0.0", "300")
	}
	return held
}

// symRows is how many rows may change something.
const symRows = 48

// symPDBs writes the PDBs that can be obtained.
func symPDBs(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{"0/app.pdb": string(symPDB(t, symG1))}
	for row := range symRows {
		for name, n := range map[string]int{"up.pdb": 5, "new.pdb": 6, "slow.pdb": 7, "bad.pdb": 9} {
			files[fmt.Sprintf("%d/%s", row, name)] = string(symPDB(t, symGUID(row, n)))
		}
	}
	writeTree(t, dir, files)
}

// symServer is a server of the table, with what it works with.
type symServer struct {
	*commandtest.Serving
	t    *testing.T
	runs string // of the transcoders
	far  *symFar
}

// symFar is where PDBs come from that are not held.
type symFar struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int    // guarded by mu; by name
	has   map[string][]byte // guarded by mu; by path
	down  map[string]bool   // guarded by mu; names that cannot be answered
}

func newSymFar(t *testing.T) *symFar {
	f := &symFar{asked: map[string]int{}, has: map[string][]byte{}, down: map[string]bool{"flaky.pdb": true}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked[name]++
		body, ok := f.has[r.URL.Path]
		switch {
		case f.down[name]:
			http.Error(w, "not now", http.StatusServiceUnavailable)
		case !ok:
			http.NotFound(w, r)
		default:
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// put lets it have a PDB.
func (f *symFar) put(t *testing.T, name, guid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has["/"+name+"/"+strings.ToUpper(strings.ReplaceAll(guid, "-", ""))+"1/"+name] = symPDB(t, guid)
}

func (f *symFar) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[name]
}

// symTranscoder is a value of --transcoder for the tests' own one.
func symTranscoder(name, runs string, flags ...string) string {
	words := transcodetest.Command(append([]string{"-log", runs, "-mode", "slow.pdb=slow,bad.pdb=fail"}, flags...)...)
	return name + "=" + strings.Join(words, " ")
}

// newSymServer starts the real binary. made are the versions that it can make.
func newSymServer(t *testing.T, dir string, made []string, args ...string) *symServer {
	t.Helper()
	s := &symServer{t: t, runs: filepath.Join(dir, "runs"), far: newSymFar(t)}
	if err := os.WriteFile(s.runs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range made {
		args = append(args, "--transcoder", symTranscoder("t"+v, s.runs, "-version", v, "-delay", "200ms"))
	}
	if !slices.Contains(args, "--config") {
		conf := filepath.Join(dir, "jobs.yaml")
		if err := os.WriteFile(conf, []byte("transcoding: {jobs: 8}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", conf)
	}
	args = append(args, "--prefix", "sym", "--upstream", s.far.URL+",layout=symstore,name=far")
	s.Serving = commandtest.ServeDepot(t, filepath.Join(dir, "depot"), args...)
	return s
}

// ran counts the runs of all transcoders for a PDB.
func (s *symServer) ran(name string) int {
	b, err := os.ReadFile(s.runs)
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if line == name+"\n" {
			n++
		}
	}
	return n
}

// symAnswer is an answer as it came.
type symAnswer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
}

// words sums an answer up as the tables do, and finds what is wrong in any.
func (a symAnswer) words(t *testing.T) string {
	t.Helper()
	var w []string
	w = append(w, strconv.Itoa(a.status))
	h := a.header
	switch a.status {
	case 200, 206, 302:
		v, ok := strings.CutPrefix(h.Get("Content-Type"), "application/vnd.ms-symcache; version=")
		if !ok {
			t.Errorf("Content-Type %q, want the one of SymCache files", h.Get("Content-Type"))
		}
		w = append(w, v)
		if a.status != 302 && h.Get("ETag") == "" {
			t.Errorf("status %d without an ETag, want one", a.status)
		}
	case 404:
		if ra := h.Get("Retry-After"); ra != "" {
			if n, err := strconv.Atoi(ra); err != nil || n < 1 || n > 10 {
				t.Errorf("Retry-After %q, want 1 to 10", ra)
			}
			w = append(w, "RA")
			if cc := h.Get("Cache-Control"); cc != "no-store" {
				t.Errorf("Cache-Control %q, want %q", cc, "no-store")
			}
		}
	case 304:
		if h.Get("Cache-Control") != "no-store" || a.body != "" || h.Get("Content-Type") != "" {
			t.Errorf("304 with headers %v and body %q; want no-store, no type and no body", h, a.body)
		}
	case 400:
		if !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || a.body == "" {
			t.Errorf("400 with headers %v and body %q; want a text", h, a.body)
		}
	case 405:
		w = append(w, h.Get("Allow"))
	}
	if a.status != 304 && a.status != 405 && h.Get("Vary") == "" && strings.Contains(h.Get("Content-Type"), "symcache") {
		t.Errorf("status %d without Vary, want it", a.status)
	}
	if a.status == 200 || a.status == 206 {
		b := a.body
		if strings.HasPrefix(b, "made by") {
			b = "made"
		}
		w = append(w, b)
	}
	return strings.Join(w, " ")
}

// ask sends exactly one request line and header, and reads the answer. Headers
// are "Name: value".
func (s *symServer) ask(t *testing.T, method, path string, header ...string) symAnswer {
	t.Helper()
	a, err := rawRequest(t.Context(), s.URL, method, path, header...)
	if err != nil {
		t.Errorf("rawRequest: %s, %s, error %v; want no error", method, path, err)
	}
	return a
}

func rawRequest(ctx context.Context, base, method, path string, header ...string) (a symAnswer, err error) {
	host := strings.TrimPrefix(base, "http://")
	start := time.Now()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return a, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.SetDeadline(start.Add(time.Minute)); err != nil {
		return a, err
	}
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: " + host, "Connection: close"}, header...)
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return a, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return symAnswer{resp.StatusCode, resp.Header, string(b), time.Since(start)}, err
}

const (
	allowRetry  = "Allow-Retry-After: true"
	acceptRetry = "Accept-Retry-After: true"
)

// polls asks until the answer is another than "come again", and returns it. No
// poll may take long.
func (s *symServer) polls(t *testing.T, path string, header ...string) symAnswer {
	t.Helper()
	var a symAnswer
	symtest.Await(t, 30*time.Second, "another answer for "+path+" than to come again", func() bool {
		a = s.ask(t, "GET", path, header...)
		again := a.words(t) == "404 RA"
		if again && a.took > 2*time.Second {
			t.Errorf("GET %s: to come again was said after %v, want at once", path, a.took)
		}
		return !again
	})
	return a
}

// symCase is a row with one request, or with several that have one answer.
type symCase struct {
	id, method, paths string // paths have blanks between them
	header            []string
	want              string
	set               string // which servers: "T0", "TA", "TB"; "": all that can make nothing for it
}

// symCases are the rows that change nothing.
var symCases = []symCase{
	{"P01", "", "/v3.1.0/app.pdb/{G1}/1", nil, "200 3.1.0 A310", ""},
	{"P02", "", "/v3.1.0/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"P03", "", "/v3.1.0/app.pdb/{G1}/", nil, "200 3.1.0 A310", ""},
	{"P04", "", "/v3.1.0/app.pdb/{N1} /v3.1.0/app.pdb/0e7712beaf064421884b496f833c8ec1 /v3.1.0/app.pdb/%7B{G1}%7D /v3.1.0/app.pdb/({G1}) /v3.1.0/app.pdb/{{G1}}", nil, "200 3.1.0 A310", ""},
	{"P05", "", "/V3.1.0/APP.PDB/{G1}/01", nil, "200 3.1.0 A310", ""},
	{"P06", "", "/v03.01.00/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"P07", "", "/v3.1.0/app.pdb/{G2}/33", nil, "200 3.1.0 B310", ""},
	{"P08", "", "/v3.1.0/app.pdb/{G2}/21", nil, "404", ""},
	{"P09", "", "/v3.1.0/app.pdb/{G2}/21 /v3.1.0/app.pdb/{G2}/33", nil, "200 3.1.0 B310", "auto"},
	{"P10", "", "/v3.1.0/app.pdb/{G2}", nil, "404", ""},
	{"P11", "", "/sym/v3.1.0/app.pdb/{G1} /sym//v3.1.0/app.pdb/{G1} //v3.1.0/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"P12", "", "/v3.1.0/app.pdb/{G1}?x=1", nil, "200 3.1.0 A310", ""},
	{"C01", "", "/v3.2.0/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"C02", "", "/v3.0.5/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"C03", "", "/v3.0.0/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"C04", "", "/v4.1.0/app.pdb/{G1}", nil, "200 3.1.0 A310", ""},
	{"C05", "", "/v2.9.9/app.pdb/{G1} /v0.0.0/app.pdb/{G1} /v1.0.0/app.pdb/{G1}", nil, "404", ""},
	{"C06", "", "/v3.1.0/multi.pdb/{G3}", nil, "200 3.1.0 310", ""},
	{"C07", "", "/v3.0.0/multi.pdb/{G3}", nil, "200 3.2.0 320", ""},
	{"C08", "", "/v3.5.0/multi.pdb/{G3}", nil, "200 3.2.0 320", ""},
	{"C09", "", "/v4.0.0/multi.pdb/{G3}", nil, "200 4.0.0 400", ""},
	{"C10", "", "/v4.9.0/multi.pdb/{G3} /v5.0.0/multi.pdb/{G3}", nil, "200 4.0.0 400", ""},
	{"C11", "", "/v3.9.9/four.pdb/{G3} /v3.1.0/four.pdb/{G3}", nil, "404", "T0"},
	{"I01", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.1.0"}, "304", ""},
	{"I02", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.9"}, "200 3.1.0 A310", ""},
	{"I03", "", "/v3.1.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.1.0"}, "304", ""},
	{"I04 abc", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: abc"}, "400", ""},
	{"I04 3.0", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0"}, "400", ""},
	{"I04 0.9.0", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 0.9.0"}, "400", ""},
	{"I04 3.0.0.1", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.0.1"}, "400", ""},
	{"I04 list", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.0, 3.0.1"}, "400", ""},
	{"I04 3.0.300", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.300"}, "400", ""},
	{"I04 lines", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.0", "If-Version-Exceeds: 3.0.1"}, "400", ""},
	{"I04 empty", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds:"}, "400", ""},
	{"I05", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds:  v3.0.0 "}, "200 3.1.0 A310", ""},
	{"I06", "", "/v3.5.0/multi.pdb/{G3}", []string{"If-Version-Exceeds: 3.2.0"}, "304", "TA"},
	{"I07", "", "/v4.9.0/multi.pdb/{G3}", []string{"If-Version-Exceeds: 3.2.0"}, "200 4.0.0 400", ""},
	{"I08", "", "/v4.1.0/new.pdb/{G6}", []string{"If-Version-Exceeds: 3.1.0"}, "304", "TA"},
	{"Z01", "", "/v3.1.0/app.pdb/{G1}", nil, "200 3.1.0 A310", "T0"},
	{"Z02", "", "/v3.1.0/new.pdb/{G6} /v3.2.0/new.pdb/{G6}", nil, "404", "T0"},
	{"Z03", "", "/v3.2.0/app.pdb/{G1}", []string{"If-Version-Exceeds: 3.1.0"}, "304", "T0"},
	{"Z04", "", "/v3.1.0/new.pdb/{G6} /v3.2.0/new.pdb/{G6} /v4.0.0/nobody.pdb/{G1}", []string{"If-Version-Exceeds: 3.0.0"}, "304", "T0"},
	{"Z05", "", "/v3.1.0/new.pdb/{G6} /v3.0.0/new.pdb/{G6}", []string{"If-Version-Exceeds: 4.0.0"}, "304", ""},
	{"M01", "", "/v3.1/app.pdb/{G1} /v3.1.0.0/app.pdb/{G1} /v3.1.0-beta/app.pdb/{G1} /v3.300.0/app.pdb/{G1} /v70000.0.0/app.pdb/{G1} /v-3.1.0/app.pdb/{G1} /3.1.0/app.pdb/{G1} /v3.1.0x/app.pdb/{G1} /v+3.1.0/app.pdb/{G1}", nil, "404", ""},
	{"M02", "", "/v3.1.0/app.pdb/0e7712beaf064421884b496f833c8ec /v3.1.0/app.pdb/0e7712beaf064421884b496f833c8ec11 /v3.1.0/app.pdb/0e7712beaf064421884b496f833c8ecg /v3.1.0/app.pdb/%7B{G1} /v3.1.0/app.pdb/{G1}) /v3.1.0/app.pdb/%7B{G1})", nil, "404", ""},
	{"M03", "", "/v3.1.0/app.pdb/{G1}/-1 /v3.1.0/app.pdb/{G1}/4294967296 /v3.1.0/app.pdb/{G1}/x /v3.1.0/app.pdb/{G1}/1.0 /v3.1.0/app.pdb/{G1}/0x1 /v3.1.0/app.pdb/{G1}/+1 /v3.1.0/app.pdb/{G1}/%201", nil, "404", ""},
	{"M04", "", "/v3.1.0/app.pdb/{G1}/1/2 /v3.1.0/app.pdb /v3.1.0", nil, "404", ""},
	{"M05", "", "/v3.1.0/../{G1} /v3.1.0/%2e%2e/{G1} /v3.1.0/..%5C..%5Cx/{G1} /v3.1.0/a%2Fb.pdb/{G1} /v3.1.0/a%5Cb.pdb/{G1} /v3.1.0/a%3Ab.pdb/{G1} /v3.1.0/%00/{G1} /v3.1.0/.temp/{G1} /v3.1.0/x./{G1}", nil, "404", ""},
	{"H01", "HEAD", "/v3.1.0/app.pdb/{G1}/1", nil, "200 3.1.0 ", ""},
	{"H03 POST", "POST", "/v3.1.0/app.pdb/{G1}/1", nil, "405 GET, HEAD", ""},
	{"H03 PUT", "PUT", "/v3.1.0/app.pdb/{G1}/1", []string{"Content-Length: 0"}, "405 GET, HEAD", ""},
	{"H03 DELETE", "DELETE", "/v3.1.0/app.pdb/{G1}/1", nil, "405 GET, HEAD", ""},
	{"H04", "", "/v3.1.0/app.pdb/{G1}/1", []string{"Range: bytes=0-1"}, "206 3.1.0 A3", ""},
	{"H04 end", "", "/v3.1.0/app.pdb/{G1}/1", []string{"Range: bytes=-2"}, "206 3.1.0 10", ""},
	{"H04 outside", "", "/v3.1.0/app.pdb/{G1}/1", []string{"Range: bytes=9-"}, "416", ""},
	{"dates", "", "/v3.1.0/app.pdb/{G1}", []string{"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"}, "200 3.1.0 A310", ""},
}

// TestSymCacheTable asks the real binary, with what is held in the depot and in a
// folder, by itself and with transcoders, and each request twice: the first
// answer must not stick.
func TestSymCacheTable(t *testing.T) {
	for _, held := range []string{"depot", "folder"} {
		for set, made := range map[string][]string{"T0": nil, "TA": {"3.1.0"}, "TB": {"3.2.0", "4.1.0"}, "auto": nil} {
			if set == "TB" && held == "depot" {
				continue
			}
			t.Run(held+" "+set, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				folder := filepath.Join(dir, "SymCache")
				writeTree(t, folder, symHeld())
				args := []string{"--symcache-dir", folder}
				if held == "depot" {
					args = []string{"--add", folder}
				}
				if set == "auto" {
					args = append(args, "--symcache-age", "auto")
				}
				s := newSymServer(t, dir, made, args...)
				for _, c := range symCases {
					// With TB files are upgraded, which needs PDBs that are not there.
					if c.set != "" && c.set != set || set == "auto" && c.id == "P08" || set == "TB" && strings.Contains(c.id, "I0") {
						continue
					}
					s.check(t, c)
				}
				before := s.far.count("new.pdb")
				if set == "T0" && before != 0 {
					t.Errorf("%d requests upstream, want none", before)
				}
			})
		}
	}
}

// traced wants the trace of a path to have the status of its answer.
func (s *symServer) traced(t *testing.T, path string, status int) {
	t.Helper()
	a := s.ask(t, http.MethodGet, "/-/api/v1/trace?path="+url.QueryEscape(path))
	var l display.Trace
	if err := json.Unmarshal([]byte(a.body), &l); err != nil || l.Status != status {
		t.Errorf("the trace of %s says %d (%s), the answer is %d (%v)", path, l.Status, l.Says, status, err)
	}
}

func (s *symServer) check(t *testing.T, c symCase) {
	t.Helper()
	method := c.method
	if method == "" {
		method = "GET"
	}
	for _, p := range strings.Fields(symPath(0, c.paths)) {
		for range 2 {
			a := s.ask(t, method, p, c.header...)
			if got := a.words(t); got != c.want {
				t.Errorf("%s: %s %s %q: %s, want %s", c.id, method, p, c.header, got, c.want)
			}
			if a.status == 200 && a.header.Get("Content-Length") != "4" && strings.HasPrefix(c.id, "P") {
				t.Errorf("%s: Content-Length %q, want 4", c.id, a.header.Get("Content-Length"))
			}
			if method == http.MethodGet && len(c.header) == 0 {
				s.traced(t, p, a.status)
			}
			if a.took > 5*time.Second {
				t.Errorf("%s: took %v, want at most 5 s", c.id, a.took)
			}
		}
	}
}

// TestSymCacheRows are the rows of the table that change something, each with
// PDBs of its own.
func TestSymCacheRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, pdbs := filepath.Join(dir, "SymCache"), filepath.Join(dir, "pdbs")
	writeTree(t, folder, symHeld())
	symPDBs(t, pdbs)
	store := filepath.Join(dir, "store")
	ta := newSymServer(t, dir, []string{"3.1.0"}, "--add", pdbs, "--symcache-dir", folder, "--symcache-store", store)
	dirB := t.TempDir()
	tb := newSymServer(t, dirB, []string{"3.2.0", "4.1.0"}, "--add", pdbs, "--symcache-dir", folder)
	row := 0
	run := func(id string, s *symServer, f func(t *testing.T, p func(string) string)) {
		row++
		n := row
		if n >= symRows {
			t.Fatal("too many rows")
		}
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			f(t, func(path string) string { return symPath(n, path) })
		})
	}
	// held runs the request and wants it to be held.
	wants := func(t *testing.T, a symAnswer, want string, held bool) {
		t.Helper()
		if got := a.words(t); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if !held && a.took > 2*time.Second || held && a.took < 150*time.Millisecond {
			t.Errorf("answered after %v, held: %v; want 150 ms or more if held, 2 s or less if not", a.took, held)
		}
	}
	const made31 = "200 3.1.0 made"
	run("I09", ta, func(t *testing.T, p func(string) string) {
		if got := ta.ask(t, "GET", p("/v3.1.0/old.pdb/{G4}"), "If-Version-Exceeds: 3.0.0").words(t); got != "304" {
			t.Errorf(`words: %q, want "304"`, got)
		}
	})
	run("I10", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.ask(t, "GET", p("/v3.1.0/up.pdb/{G5}"), "If-Version-Exceeds: 3.0.0"), made31, true)
	})
	run("I11", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.ask(t, "GET", p("/v3.1.0/up.pdb/{G5}"), "If-Version-Exceeds: 3.0.0", allowRetry), "404 RA", false)
		wants(t, ta.polls(t, p("/v3.1.0/up.pdb/{G5}"), "If-Version-Exceeds: 3.0.0", allowRetry), made31, false)
	})
	run("I12 for good", ta, func(t *testing.T, p func(string) string) {
		path := p("/v3.2.0/bad.pdb/{G9}")
		wants(t, ta.polls(t, path), "404", false)
		wants(t, ta.ask(t, "GET", path, "If-Version-Exceeds: 3.0.0"), "304", false)
	})
	run("I12", ta, func(t *testing.T, p func(string) string) {
		if got := ta.ask(t, "GET", p("/v3.1.0/none.pdb/{G8}"), "If-Version-Exceeds: 3.0.0").words(t); got != "304" {
			t.Errorf(`words: %q, want "304"`, got)
		}
	})
	for id, version := range map[string]string{"S01": "v3.1.0", "S03": "v3.0.0"} {
		run(id, ta, func(t *testing.T, p func(string) string) {
			wants(t, ta.ask(t, "GET", p("/"+version+"/new.pdb/{G6}")), made31, true)
			kept, err := filepath.Glob(filepath.Join(store, "new.pdb", p("{N6}1"), "*"))
			if err != nil || len(kept) != 1 || filepath.Base(kept[0]) != "new.pdb-v3.1.0.symcache" {
				t.Errorf("in the store: %v, %v; want new.pdb-v3.1.0.symcache alone", kept, err)
			}
			// S02
			wants(t, ta.ask(t, "GET", p("/"+version+"/new.pdb/{G6}")), made31, false)
		})
	}
	run("S04", ta, func(t *testing.T, p func(string) string) {
		if got := ta.ask(t, "GET", p("/v3.1.0/none.pdb/{G8}")).words(t); got != "404" {
			t.Errorf(`words: %q, want "404"`, got)
		}
		ta.far.put(t, "none.pdb", p("{G8}"))
		wants(t, ta.ask(t, "GET", p("/v3.1.0/none.pdb/{G8}")), "404", false) // it is remembered
	})
	run("S06", ta, func(t *testing.T, p func(string) string) {
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { wants(t, ta.ask(t, "GET", p("/v3.1.0/slow.pdb/{G7}")), made31, true) })
		}
		all.Wait()
	})
	run("S07", ta, func(t *testing.T, p func(string) string) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if a, err := rawRequest(ctx, ta.URL, "GET", p("/v3.1.0/slow.pdb/{G7}")); err == nil {
			t.Errorf(`rawRequest("GET"): %v, want an error`, a.words(t))
		}
		wants(t, ta.ask(t, "GET", p("/v3.1.0/slow.pdb/{G7}")), made31, true) // the same run
		wants(t, ta.ask(t, "GET", p("/v3.1.0/slow.pdb/{G7}")), made31, false)
	})
	for id, h := range map[string]string{"A01": allowRetry, "A02": acceptRetry, "A03": "Allow-Retry-After: TRUE"} {
		run(id, ta, func(t *testing.T, p func(string) string) {
			wants(t, ta.ask(t, "GET", p("/v3.1.0/new.pdb/{G6}"), h), "404 RA", false)
			wants(t, ta.polls(t, p("/v3.1.0/new.pdb/{G6}"), h), made31, false)
		})
	}
	for _, v := range []string{"false", "1", ""} {
		run("A04 "+v, ta, func(t *testing.T, p func(string) string) {
			wants(t, ta.ask(t, "GET", p("/v3.1.0/new.pdb/{G6}"), "Allow-Retry-After: "+v), made31, true)
		})
	}
	for id, version := range map[string]string{"A05": "v3.1.1", "A06": "v4.0.0"} {
		run(id, ta, func(t *testing.T, p func(string) string) {
			wants(t, ta.ask(t, "GET", p("/"+version+"/new.pdb/{G6}")), "404 RA", false)
			wants(t, ta.polls(t, p("/"+version+"/new.pdb/{G6}")), made31, false)
		})
	}
	run("A07", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.polls(t, p("/v3.2.0/none.pdb/{G8}")), "404", false)
	})
	run("A09", ta, func(t *testing.T, p func(string) string) {
		for range 20 {
			wants(t, ta.ask(t, "GET", p("/v3.2.0/slow.pdb/{G7}")), "404 RA", false)
		}
		wants(t, ta.polls(t, p("/v3.2.0/slow.pdb/{G7}")), made31, false)
	})
	run("A10", tb, func(t *testing.T, p func(string) string) {
		wants(t, tb.ask(t, "GET", p("/v4.1.0/new.pdb/{G6}")), "404 RA", false)
		wants(t, tb.polls(t, p("/v4.1.0/new.pdb/{G6}")), "200 4.1.0 made", false)
	})
	run("A11", tb, func(t *testing.T, p func(string) string) {
		wants(t, tb.ask(t, "GET", p("/v3.9.0/new.pdb/{G6}")), "404 RA", false)
		wants(t, tb.polls(t, p("/v3.9.0/new.pdb/{G6}")), "200 3.2.0 made", false)
	})
	run("A12", tb, func(t *testing.T, p func(string) string) {
		path := symPath(0, "/v4.9.0/multi.pdb/{G3}")
		wants(t, tb.ask(t, "GET", path, "If-Version-Exceeds: 4.0.0"), "404 RA", false)
		wants(t, tb.polls(t, path, "If-Version-Exceeds: 4.0.0"), "304", false)
	})
	run("N01", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.polls(t, p("/v3.1.0/neg.pdb/{GA}"), allowRetry), "404", false)
		ta.far.put(t, "neg.pdb", p("{GA}"))
		asked := ta.far.count("neg.pdb")
		wants(t, ta.ask(t, "GET", p("/v3.1.0/neg.pdb/{GA}")), "404", false)
		if n := ta.far.count("neg.pdb"); n != asked {
			t.Errorf("%d requests upstream, want none", n-asked)
		}
	})
	run("N04", ta, func(t *testing.T, p func(string) string) {
		if got := ta.ask(t, "GET", p("/v3.1.0/none.pdb/{G8}")).words(t); got != "404" {
			t.Errorf(`words: %q, want "404"`, got)
		}
		pdb := filepath.Join(t.TempDir(), "none.pdb")
		if err := os.WriteFile(pdb, symPDB(t, p("{G8}")), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "symdepot", "--depot", filepath.Join(dir, "depot"), "add", pdb).CombinedOutput(); err != nil {
			t.Fatalf("CombinedOutput: %s, error %v; want no error", out, err)
		}
		wants(t, ta.ask(t, "GET", p("/v3.1.0/none.pdb/{G8}")), made31, true)
	})
	run("U01", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.ask(t, "GET", p("/v3.1.0/up.pdb/{G5}")), "200 3.0.0 300", false)
		symtest.Await(t, 20*time.Second, "the answer "+made31+" for up.pdb", func() bool {
			got := ta.ask(t, "GET", p("/v3.1.0/up.pdb/{G5}")).words(t)
			if got != made31 && got != "200 3.0.0 300" {
				t.Fatalf("GET up.pdb in 3.1.0: %q, want the version that is held or the one that was made", got)
			}
			return got == made31
		})
	})
	run("H02", ta, func(t *testing.T, p func(string) string) {
		wants(t, ta.ask(t, "HEAD", p("/v3.1.0/new.pdb/{G6}")), "404 RA", false)
	})
	t.Cleanup(func() { // all rows have ended
		if n := ta.ran("slow.pdb"); n != 3 {
			t.Errorf("slow.pdb was transcoded %d times in S06, S07 and A09; want 3", n)
		}
	})
}

// TestSymCacheFails: the rows of the table for permanent failures, with the
// number of transcoder runs, and with a different transcoder after a restart.
func TestSymCacheFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pdbs := filepath.Join(dir, "pdbs")
	symPDBs(t, pdbs)
	t.Run("TA", func(t *testing.T) {
		ta := newSymServer(t, dir, []string{"3.1.0"}, "--add", pdbs)
		t.Run("S05", func(t *testing.T) {
			for range 2 {
				if got := ta.ask(t, "GET", symPath(1, "/v3.1.0/bad.pdb/{G9}")).words(t); got != "404" {
					t.Errorf("bad.pdb in 3.1.0: %q, want 404", got)
				}
			}
		})
		t.Run("A08", func(t *testing.T) {
			for range 2 {
				if got := ta.polls(t, symPath(2, "/v3.2.0/bad.pdb/{G9}")).words(t); got != "404" {
					t.Errorf("bad.pdb in 3.2.0: %q, want 404", got)
				}
			}
		})
		if n := ta.ran("bad.pdb"); n != 2 {
			t.Errorf("bad.pdb was transcoded %d times, want once for each of two PDBs", n)
		}
	})
	t.Run("N03", func(t *testing.T) { // another transcoder may succeed
		tb := newSymServer(t, dir, []string{"3.2.0", "4.1.0"})
		if got := tb.polls(t, symPath(1, "/v3.2.0/bad.pdb/{G9}")).words(t); got != "404" || tb.ran("bad.pdb") != 1 {
			t.Errorf("bad.pdb with another transcoder: %q after %d runs, want 404 after one", got, tb.ran("bad.pdb"))
		}
	})
}

// TestSymCacheConfigured: the rows of the table that need a different
// configuration.
func TestSymCacheConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, pdbs := filepath.Join(dir, "SymCache"), filepath.Join(dir, "pdbs")
	writeTree(t, folder, symHeld())
	symPDBs(t, pdbs)
	conf := filepath.Join(dir, "symdepot.yaml")
	writeTree(t, dir, map[string]string{"symdepot.yaml": "transcoding: {upgrades: false, jobs: 2}\nsymcache:\n  wait: 1s\n  folders: ['" + folder + "']\n"})
	s := newSymServer(t, dir, []string{"3.1.0"}, "--config", conf, "--symcache-redirect", "--add", pdbs)
	follow := func(path, first, then string) {
		t.Helper()
		a := s.ask(t, "GET", path)
		if got := a.words(t); got != first {
			t.Errorf("%s: %s, want %s", path, got, first)
		}
		loc := a.header.Get("Location")
		if !strings.HasPrefix(loc, "/") || strings.HasPrefix(loc, "//") {
			t.Fatalf("Location %q, want a path of this server", loc)
		}
		if got := s.ask(t, "GET", loc).words(t); got != then {
			t.Errorf("%s: %s, want %s", loc, got, then)
		}
		// Without the right signature it is like any request.
		if got := s.ask(t, "GET", loc+"x").words(t); got != first {
			t.Errorf("another signature: %s, want %v", got, first)
		}
		u, err := url.Parse(loc)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		for _, change := range []func(url.Values){
			func(q url.Values) { q.Set("until", "99999999999") }, func(q url.Values) { q.Set("file", "4.0.0") }, func(q url.Values) { q.Del("sign") },
		} {
			u2, q2 := *u, url.Values{}
			for k := range q {
				q2.Set(k, q.Get(k))
			}
			change(q2)
			u2.RawQuery = q2.Encode()
			if got := s.ask(t, "GET", u2.String()).words(t); got != first {
				t.Errorf("words: %s, %s; want %v", u2.String(), got, first)
			}
		}
		if got := s.ask(t, "GET", strings.Replace(loc, symG1, symGUID(0, 3), 1)).words(t); got == then && strings.Contains(loc, symG1) {
			t.Error("the signature is good for another file")
		}
	}
	// R01
	follow(symPath(0, "/v3.1.0/app.pdb/{G1}"), "302 3.1.0", "200 3.1.0 A310")
	follow(symPath(0, "//sym//v4.0.0/app.pdb/{G1}/"), "302 3.1.0", "200 3.1.0 A310")
	follow(symPath(0, "/v3.0.0/multi.pdb/{G3}"), "302 3.2.0", "200 3.2.0 320")
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(filepath.Join(dir, "depot", "symcache-url.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("os.Stat: %v, error %v; want Mode().Perm() 0o600", info, err)
		}
	}
	// U02
	for range 3 {
		if got := s.ask(t, "GET", symPath(3, "/v3.1.0/up.pdb/{G5}")).words(t); got != "302 3.0.0" {
			t.Errorf(`words: %q, want "302 3.0.0"`, got)
		}
	}
	// S08
	slow := symPath(3, "/v3.1.0/slow.pdb/{G7}")
	if a := s.ask(t, "GET", slow); a.words(t) != "404" || a.took < 900*time.Millisecond || a.took > 2*time.Second || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s after %v, %v; want 404 after about a second, and no-store", a.words(t), a.took, a.header)
	}
	if got := s.polls(t, slow, allowRetry).words(t); got != "302 3.1.0" || s.ran("slow.pdb") != 1 || s.ran("up.pdb") != 0 {
		t.Errorf("%s; runs %d, %d; want %q, 1 and 0", got, s.ran("slow.pdb"), s.ran("up.pdb"), "302 3.1.0")
	}
}

// turned is a clock that a test turns on.
type turned struct{ ahead atomic.Int64 }

func (c *turned) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// TestSymCacheTime are the rows that take long: an expired memory, and a source
// that is down for minutes. The clock is the test's; the rest is the real thing.
func TestSymCacheTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := &turned{}
	far := newSymFar(t)
	room, err := transcode.OpenWorkspace(filepath.Join(dir, "sd"))
	if err != nil {
		t.Fatal(err)
	}
	defer room.Close()
	runs := filepath.Join(dir, "runs")
	ts := transcode.NewTranscoders(room, nil, transcode.Program{Name: "test", Command: transcodetest.Command("-log", runs)})
	if err := ts.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: far.URL, Layout: "symstore"}, upstream.NewDialer(upstream.DialerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	d, err := depot.Open(t.Context(), filepath.Join(dir, "depot"), depot.Options{
		Now: clock.now, Transcode: depot.TranscodeOptions{Transcoders: ts}, Upstreams: []depot.Upstream{{Source: src}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{Depot: d})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.Serve(ctx, ln) })
	all.Go(func() { _ = d.Work(ctx) })
	defer func() {
		stop()
		all.Wait()
		if err := errors.Join(d.Close(), src.Close()); err != nil {
			t.Error(err)
		}
	}()
	s := &symServer{Serving: &commandtest.Serving{URL: "http://" + ln.Addr().String()}, t: t, runs: runs, far: far}
	t.Run("N02", func(t *testing.T) { // the memory of a miss expires
		negx := symPath(0, "/v3.1.0/negx.pdb/{GB}")
		if got := s.ask(t, "GET", negx).words(t); got != "404" {
			t.Errorf("negx.pdb, which no server has: %q, want 404", got)
		}
		far.put(t, "negx.pdb", symPath(0, "{GB}"))
		clock.ahead.Add(int64(time.Hour + time.Second))
		if got := s.ask(t, "GET", negx).words(t); got != "200 3.1.0 made" {
			t.Errorf("negx.pdb after an hour: %q, want what was made", got)
		}
	})
	flaky := symPath(0, "/v3.2.0/flaky.pdb/{GC}")
	t.Run("N05", func(t *testing.T) { // the job is tried again for two minutes
		polls := 0
		symtest.Await(t, time.Minute, "the end of the attempts for flaky.pdb", func() bool {
			got := s.ask(t, "GET", flaky).words(t)
			if got == "404 RA" {
				polls++
				clock.ahead.Add(int64(5 * time.Second))
			} else if got != "404" {
				t.Fatalf("GET %s: %q, want to come again, or 404 after the last attempt", flaky, got)
			}
			return got == "404"
		})
		if polls < 3 {
			t.Errorf("given up after %d polls, want at least 3", polls)
		}
		g, err := debugid.ParseGUID(symPath(0, "{GC}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.SymCache().SymCacheFailure(t.Context(), symcache.Key{Name: "flaky.pdb", ID: debugid.ID{GUID: g, Age: 1}}, symcache.Version{Major: 3, Minor: 1}); err == nil {
			t.Error("the passing failure of flaky.pdb is remembered, want it forgotten")
		}
	})
	t.Run("N06", func(t *testing.T) { // the upstream is back
		far.mu.Lock()
		far.down = map[string]bool{}
		far.mu.Unlock()
		far.put(t, "flaky.pdb", symPath(0, "{GC}"))
		clock.ahead.Add(int64(time.Hour))
		if got := s.ask(t, "GET", flaky).words(t); got != "404 RA" {
			t.Errorf("flaky.pdb at first: %q, want to come again", got)
		}
		if got := s.polls(t, flaky).words(t); got != "200 3.1.0 made" {
			t.Errorf("flaky.pdb in the end: %q, want what was made", got)
		}
	})
}

// TestSymCacheKeepPDB: with symcache.keep_pdb: false, a PDB that was downloaded to be
// transcoded is dropped when its SymCache file is made, and an added one never is.
func TestSymCacheKeepPDB(t *testing.T) {
	t.Parallel()
	for keeps, conf := range map[bool]string{true: "", false: "symcache: {keep_pdb: false}\n"} {
		t.Run(fmt.Sprintf("%v", keeps), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			added := symGUID(2, 6)
			writeTree(t, dir, map[string]string{"symdepot.yaml": conf + "transcoding: {jobs: 2}\n", "pdbs/new.pdb": string(symPDB(t, added))})
			s := newSymServer(t, dir, []string{"3.1.0"}, "--config", filepath.Join(dir, "symdepot.yaml"), "--add", filepath.Join(dir, "pdbs"))
			far := symGUID(1, 6)
			s.far.put(t, "far.pdb", far)
			s.far.put(t, "new.pdb", added)
			for name, guid := range map[string]string{"far.pdb": far, "new.pdb": added} {
				if got := s.ask(t, "GET", "/v3.1.0/"+name+"/"+guid).words(t); got != "200 3.1.0 made" {
					t.Fatalf("%s: %q, want the SymCache file", name, got)
				}
			}
			asked := func(name, guid string) bool {
				before := s.far.count(name)
				if a := s.ask(t, "GET", "/"+name+"/"+strings.ToUpper(strings.ReplaceAll(guid, "-", ""))+"1/"+name); a.status != 200 {
					t.Errorf("%s: status %d, want 200", name, a.status)
				}
				return s.far.count(name) > before
			}
			if !keeps {
				s.Log.Await(t, "dropped a downloaded PDB") // after the answer with the SymCache file
			}
			if got := asked("far.pdb", far); got == keeps {
				t.Errorf("the upstream was asked for the PDB again: %v, want %v", got, !keeps)
			}
			if asked("new.pdb", added) {
				t.Error("the upstream was asked for a PDB that was added, want it from the depot")
			}
			if got := s.ask(t, "GET", "/v3.1.0/far.pdb/"+far).words(t); got != "200 3.1.0 made" || s.ran("far.pdb") != 1 {
				t.Errorf("the SymCache file: %q after %d runs, want it after one run", got, s.ran("far.pdb"))
			}
		})
	}
}
