package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// symbolsWorld is a depot without a .sym, and a server that makes symbol files.
type symbolsWorld struct {
	d              *depot.Depot
	url            string
	server         *Server
	pdb, exe       held
	program, debug held
}

// newSymbolsWorld starts a server over HTTP. With work, jobs are done.
func newSymbolsWorld(t *testing.T, opt depot.SymbolsOptions, cfg SymbolsConfig, work bool) *symbolsWorld {
	t.Helper()
	w := &symbolsWorld{d: openDepot(t, depot.Options{Symbols: opt})}
	w.pdb, w.exe = addFile(t, w.d, "pdb/hello-x64.pdb"), addFile(t, w.d, "pdb/hello-x64.exe")
	w.program, w.debug = addFile(t, w.d, "elf/prog-sha1.stripped"), addFile(t, w.d, "elf/prog-sha1.debug")
	w.serve(t, cfg, work)
	return w
}

// serve starts the server.
func (w *symbolsWorld) serve(t *testing.T, cfg SymbolsConfig, work bool) {
	t.Helper()
	s := newServer(t, Config{Depot: w.d, Symbols: cfg, Origins: []string{"https://profiler.firefox.com"}})
	if work {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.d.Work(ctx) }()
		t.Cleanup(func() { stop(); <-done })
	}
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	w.url, w.server = ts.URL, s
}

// send sends a request over HTTP. Redirects are not followed.
func (w *symbolsWorld) send(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(b)}
}

// symPath is the path of a module's .sym.
func (h held) symPath(t *testing.T) string {
	t.Helper()
	name := h.obj.Name
	if h.obj.DebugID.IsZero() {
		t.Fatalf("%s has no debug id", name)
	}
	return "/" + name + "/" + h.obj.DebugID.Breakpad() + "/" + strings.TrimSuffix(name, ".pdb") + ".sym"
}

// TestMadeSym: a depot without a .sym answers requests for it.
func TestMadeSym(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	path := w.pdb.symPath(t)
	t.Run("made of a PDB and its program", func(t *testing.T) {
		got := w.send(t, "GET", path, "")
		if got.status != 200 || !strings.HasPrefix(got.body, "MODULE windows x86_64 "+w.pdb.obj.DebugID.Breakpad()+" hello-x64.pdb\n") {
			t.Fatalf("GET %s: status %d, body %.200q; want 200 and a symbol file", path, got.status, got.body)
		}
		for _, want := range []string{"\nFUNC ", "hello.c", "\nINFO CODE_ID ", " hello-x64.exe\n"} {
			if !strings.Contains(got.body, want) {
				t.Errorf("GET %s: the body lacks %q:\n%s", path, want, got.body)
			}
		}
		if cc := got.header.Get("Cache-Control"); cc != "public, max-age=300" {
			t.Errorf("GET %s: Cache-Control %q, want a short one: a better file may come", path, cc)
		}
		again := w.send(t, "GET", "/try"+strings.ToLower(path)+"?code_file=hello-x64.exe&code_id=00", "")
		if again.status != 200 || again.body != got.body || again.header.Get("Etag") != got.header.Get("Etag") {
			t.Errorf("the second GET: status %d with %d bytes, want 200 with the same %d", again.status, len(again.body), len(got.body))
		}
		if head := w.send(t, "HEAD", path, ""); head.status != 200 || head.header.Get("Content-Length") != itoa(int64(len(got.body))) {
			t.Errorf("HEAD: status %d, Content-Length %q, want 200 and %d", head.status, head.header.Get("Content-Length"), len(got.body))
		}
		list, err := w.d.Jobs().List(t.Context(), jobs.Filter{})
		if err != nil || len(list) != 1 {
			t.Errorf("%d jobs, error %v, want one: the file is made once", len(list), err)
		}
	})
	t.Run("by code id", func(t *testing.T) {
		code := "/hello-x64.exe/" + w.exe.obj.CodeID + "/hello-x64.sym"
		got := w.send(t, "GET", code, "")
		if loc := got.header.Get("Location"); got.status != 302 || !strings.HasPrefix(loc, path) {
			t.Errorf("GET %s: status %d to %q, want 302 to %s", code, got.status, loc, path)
		}
	})
	t.Run("made of an ELF debug file and its program", func(t *testing.T) {
		path := w.program.symPath(t)
		got := w.send(t, "GET", path, "")
		for _, want := range []string{"MODULE Linux x86_64 ", "FUNC 1139 ", " crash_here\n", "INLINE 0 6 ", "\nSTACK CFI INIT "} {
			if got.status != 200 || !strings.Contains(got.body, want) {
				t.Fatalf("GET %s: status %d, want 200 with %q:\n%s", path, got.status, want, got.body)
			}
		}
		unified := "/" + w.program.path(t, layout.Unified)[1:]
		unified = unified[:strings.LastIndex(unified, "/")] + "/breakpad"
		if u := w.send(t, "GET", unified, ""); u.status != 200 || u.body != got.body {
			t.Errorf("GET %s: status %d with %d bytes, want 200 with the same %d", unified, u.status, len(u.body), len(got.body))
		}
	})
	t.Run("in GSYM format", func(t *testing.T) {
		for _, p := range []string{strings.TrimSuffix(path, ".sym") + ".gsym", "/buildid/" + string(w.program.obj.BuildID) + "/gsym"} {
			if got := w.send(t, "GET", p, ""); got.status != 200 || !strings.HasPrefix(got.body, "MYSG\x01\x00") {
				t.Errorf("GET %s: status %d, body %.40q; want 200 and a GSYM file of version 1", p, got.status, got.body)
			}
		}
	})
	t.Run("unknown modules are not found", func(t *testing.T) {
		for _, p := range []string{"/none.pdb/" + smallID + "/none.sym", "/hello-x64.exe/5B1D7C3A9000/hello-x64.sym"} {
			if got := w.send(t, "GET", p, ""); got.status != 404 || got.header.Get("Retry-After") != "" || got.body != "not found\n" {
				t.Errorf("GET %s: status %d, Retry-After %q, body %q; want 404 as ever", p, got.status, got.header.Get("Retry-After"), got.body)
			}
		}
	})
	t.Run("a real file comes first", func(t *testing.T) {
		real := sym(w.pdb.obj.DebugID.Breakpad(), "hello-x64.pdb", "INFO GENERATOR other\n", 900)
		add(t, w.d, depot.Source{Path: "hello-x64.sym"}, real)
		if got := w.send(t, "GET", path, ""); got.status != 200 || got.body != string(real) {
			t.Errorf("GET %s: status %d with %d bytes, want 200 with the added file", path, got.status, len(got.body))
		}
	})
}

// TestMadeSymLater: a file that is not made in time is 404 with Retry-After, a full
// queue 503, and nothing is made for HEAD or for callers who may not see the module.
func TestMadeSymLater(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{Queued: 1}, SymbolsConfig{Wait: 10 * time.Millisecond}, false)
	path := w.pdb.symPath(t)
	for _, method := range []string{"GET", "HEAD"} {
		got := w.send(t, method, path, "")
		if got.status != 404 || got.header.Get("Retry-After") == "" || got.header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s %s: status %d, Retry-After %q; want 404 and a time", method, path, got.status, got.header.Get("Retry-After"))
		}
	}
	full := w.send(t, "GET", w.program.symPath(t), "")
	if full.status != 503 || full.header.Get("Retry-After") == "" {
		t.Errorf("with a full queue: status %d, Retry-After %q; want 503 and a time", full.status, full.header.Get("Retry-After"))
	}
	format, module, _ := symbolicate.FormatOf(mustRoute(t, path))
	_, err := w.d.Symbols.Make(t.Context(), depot.SymbolsAsk{Products: []string{"other"}, Format: format, Module: module})
	if status, _ := classify(err); status != 404 {
		t.Errorf("for a caller who does not see the product: error %v, want not found", err)
	}
}

// TestMadeSymWaits: the first client waits for the configured time and gets 404; the job
// goes on, and the next request is answered.
func TestMadeSymWaits(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: 50 * time.Millisecond}, false)
	path := w.pdb.symPath(t)
	start := time.Now()
	if got := w.send(t, "GET", path, ""); got.status != 404 || got.header.Get("Retry-After") == "" || time.Since(start) < 50*time.Millisecond {
		t.Errorf("GET %s: status %d, Retry-After %q after %v; want 404 and a time after 50 ms", path, got.status, got.header.Get("Retry-After"), time.Since(start))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.d.Work(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	list, err := w.d.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d jobs, error %v; want one", len(list), err)
	}
	if st, err := w.d.Jobs().Wait(t.Context(), list[0].ID, jobs.Queued); err != nil || st != jobs.Done {
		t.Fatalf("the job: %v, error %v; want done", st, err)
	}
	if got := w.send(t, "GET", path, ""); got.status != 200 || !strings.HasPrefix(got.body, "MODULE ") {
		t.Errorf("the next GET: status %d, body %.100q; want 200 and the file", got.status, got.body)
	}
	list, err = w.d.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d jobs, error %v; want the one of the first request", len(list), err)
	}
}

// TestMadeSymRefused: a client that has used its time gets 503 with Retry-After, never
// 404; a module that needs a worker is not found, and the answer says why.
func TestMadeSymRefused(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{PerClient: time.Nanosecond, PerClientEvery: time.Hour}, SymbolsConfig{Wait: time.Minute}, true)
	if got := w.send(t, "GET", w.pdb.symPath(t), ""); got.status != 200 {
		t.Fatalf("the first module: status %d, want 200", got.status)
	}
	if got := w.send(t, "GET", w.program.symPath(t), ""); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("the second module: status %d, Retry-After %q; want 503 and a time", got.status, got.header.Get("Retry-After"))
	}
	body := `{"memoryMap":[["prog","` + w.program.obj.DebugID.Breakpad() + `"]],"stacks":[[[0,4409]]]}`
	if got := w.send(t, "POST", "/symbolicate/v5", body); got.status != 200 || !strings.Contains(got.body, `"name":"Busy"`) {
		t.Errorf("POST for the second module: status %d, body %s; want 200 with the module Busy", got.status, got.body)
	}
	w = newSymbolsWorld(t, depot.SymbolsOptions{InProcess: 1 << 10}, SymbolsConfig{Wait: time.Minute}, true)
	if got := w.send(t, "GET", w.pdb.symPath(t), ""); got.status != 404 || !strings.Contains(got.body, "symbols.in_process") {
		t.Errorf("a module that needs a worker: status %d, body %q; want 404 that names symbols.in_process", got.status, got.body)
	}
}

// TestDamagedMadeSym: of a made file that is damaged on the disk nothing partial is
// taken for the whole, and it is made again.
func TestDamagedMadeSym(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	w := &symbolsWorld{d: d, pdb: addFile(t, d, "pdb/hello-x64.pdb")}
	w.serve(t, SymbolsConfig{Wait: time.Minute}, true)
	path := w.pdb.symPath(t)
	whole := w.send(t, "GET", path, "")
	if whole.status != 200 {
		t.Fatalf("GET %s: status %d, want 200", path, whole.status)
	}
	sum := blob.Sum([]byte(whole.body)).String()
	var found string
	if err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if strings.HasSuffix(p, sum[len(sum)-20:]) {
			found = p
		}
		return err
	}); err != nil || found == "" {
		t.Fatalf("the stored file of %s was not found: %v", sum, err)
	}
	if err := errors.Join(os.Chmod(found, 0o600), os.Truncate(found, int64(len(whole.body)/2))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		resp, err := http.Get(w.url + path)
		if err != nil {
			continue // the connection was reset
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err == nil && resp.StatusCode == http.StatusOK && string(b) != whole.body:
			t.Errorf("a damaged file: status 200 with %d of %d bytes, and no error", len(b), len(whole.body))
		case err == nil && resp.StatusCode == http.StatusOK:
			return
		}
	}
	t.Errorf("the file was not made again")
}

// TestSymbolicateWaits: requests that wait for files to be made hold nobody up.
func TestSymbolicateWaits(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, false)
	ctx, stop := context.WithCancel(t.Context())
	cold := `{"memoryMap":[["hello-x64.pdb","` + w.pdb.obj.DebugID.Breakpad() + `"]],"stacks":[[[0,4096]]]}`
	var all sync.WaitGroup
	for range 2 * maxSymbolications {
		all.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/symbolicate/v5", strings.NewReader(cold))
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	api := w.server.routes.symbolicate.handler.(*symbolication)
	symtest.Await(t, time.Minute, "requests that wait for a file", func() bool { return len(api.making) == 2*maxSymbolications && len(api.works) == 0 })
	got := w.send(t, "POST", "/symbolicate/v5", `{"memoryMap":[],"stacks":[[[-1,1]]]}`)
	if got.status != 200 {
		t.Errorf("a request that needs no file: status %d, body %s; want 200 at once", got.status, got.body)
	}
	stop()
	all.Wait()
	symtest.Await(t, time.Minute, "the end of the requests", func() bool {
		return len(api.making) == 0 && len(api.works) == 0 && api.bodies.Used() == 0
	})
}

// TestSymbolicateSlowReaders: clients that do not take their answers hold nobody up.
func TestSymbolicateSlowReaders(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{}, false)
	api := w.server.routes.symbolicate.handler.(*symbolication)
	api.sends = limit.NewSenders(50*time.Millisecond, body.Part)
	// The name of the module is in every frame of the answer, which no connection can hold.
	text := `{"memoryMap":[["` + strings.Repeat("n", 1000) + `",""]],"stacks":[[` + strings.Repeat("[0,1],", 12_000) + `[0,1]]]}`
	for range maxSymbolications {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST /symbolicate/v5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil {
			t.Fatal(err)
		}
	}
	symtest.Await(t, time.Minute, "answers that nobody reads", func() bool { return len(api.works) == maxSymbolications })
	got := w.send(t, "POST", "/symbolicate/v5", `{"memoryMap":[],"stacks":[[[-1,1]]]}`)
	if got.status != 200 {
		t.Errorf("a request after clients that do not read: status %d, body %s; want 200", got.status, got.body)
	}
	if n := len(api.works); n != maxSymbolications-1 {
		t.Errorf("%d answers are still being sent, want all but one of %d", n, maxSymbolications)
	}
}

// countedBody is a body that reports when all of it is read, and ends when the test
// lets it.
type countedBody struct {
	left    int
	whole   chan<- struct{} // receives when all of a body is read
	release <-chan struct{}
}

func (c *countedBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		c.whole <- struct{}{}
		<-c.release
		return 0, io.EOF
	}
	n := min(len(p), c.left)
	for i := range n {
		p[i] = ' '
	}
	c.left -= n
	return n, nil
}

func (c *countedBody) Close() error { return nil }

// TestSymbolicateBodies: the bodies of requests that are in memory are limited in all;
// further requests are answered 503 with Retry-After.
func TestSymbolicateBodies(t *testing.T) {
	d := openDepot(t, depot.Options{})
	s := newServer(t, Config{Depot: d, Wait: 10 * time.Millisecond})
	api := s.routes.symbolicate.handler.(*symbolication)
	const parts = 6
	api.bodies = body.NewMemory(body.Limits{Total: parts * body.Part, Client: parts * body.Part, Slow: time.Hour, Wait: 10 * time.Millisecond})
	whole, release := make(chan struct{}, 1), make(chan struct{})
	type answer struct{ status, retry int }
	answers := make(chan answer, 1)
	const clients = 8
	const size = 2*body.Part - 1
	for i := range clients {
		go func() {
			r := httptest.NewRequest(http.MethodPost, "/symbolicate/v5", &countedBody{left: size, whole: whole, release: release})
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i+1)
			r.ContentLength = size
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			retry, _ := strconv.Atoi(rec.Header().Get("Retry-After"))
			answers <- answer{rec.Code, retry}
		}()
	}
	read, refused := 0, 0
	for read+refused < clients {
		select {
		case <-whole:
			read++
		case a := <-answers:
			refused++
			if a.status != 503 || a.retry == 0 {
				t.Errorf("a request too many: status %d, Retry-After %d; want 503 and a time", a.status, a.retry)
			}
		}
	}
	if read > parts/2 || refused < clients-parts/2 {
		t.Errorf("%d bodies were read and %d requests refused, want %d read at most", read, refused, parts/2)
	}
	close(release)
	for range read {
		if a := <-answers; a.status != 400 {
			t.Errorf("a request of blanks: status %d, want 400", a.status)
		}
	}
	if n := api.bodies.Used(); n != 0 {
		t.Errorf("%d bytes of bodies are counted after all, want 0", n)
	}
}

// TestMakeNothing: without the making of files everything is as before.
func TestMakeNothing(t *testing.T) {
	d := openDepot(t, depot.Options{Symbols: depot.SymbolsOptions{Make: symbolicate.MakeNothing}})
	pdb, s := addFile(t, d, "pdb/hello-x64.pdb"), newServer(t, withWeb(d, Config{}))
	for _, p := range []string{pdb.symPath(t), "/symbolicate/v5", "/minidump"} {
		if got := ask(s, "GET", p); got.status != 404 || got.body != "not found\n" {
			t.Errorf("GET %s: status %d, body %q; want 404", p, got.status, got.body)
		}
	}
}

func mustRoute(t *testing.T, path string) *layout.Request {
	t.Helper()
	segs, err := layout.Segments(path)
	if err != nil {
		t.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		t.Fatal(err)
	}
	return &req
}

// TestSymbolicateV5 asks for addresses over HTTP, as the Firefox Profiler does.
func TestSymbolicateV5(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	const origin = "Origin: https://profiler.firefox.com"
	body := `{"memoryMap":[["prog","` + w.program.obj.DebugID.Breakpad() + `"],["hello-x64.pdb","` + w.pdb.obj.DebugID.Breakpad() + `"],["none","` + smallID + `"]],"stacks":[[[0,4415],[0,4409],[1,4096],[2,1]]]}`
	got := w.send(t, "POST", "/symbolicate/v5", body, origin, "Sec-Fetch-Site: cross-site")
	if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "https://profiler.firefox.com" {
		t.Fatalf("POST: status %d, allowed origin %q, body %s; want 200 for the origin", got.status, got.header.Get("Access-Control-Allow-Origin"), got.body)
	}
	var a symbolicate.V5Answer
	if err := json.Unmarshal([]byte(got.body), &a); err != nil || len(a.Results) != 1 || len(a.Results[0].Stacks) != 1 || len(a.Results[0].Stacks[0]) != 4 {
		t.Fatalf("POST: answer %s, error %v; want one stack of four frames", got.body, err)
	}
	frames := a.Results[0].Stacks[0]
	main, crash, hello := frames[0], frames[1], frames[2]
	if main.Function != "main" || main.Line != 6 || len(main.Inlines) != 1 || main.Inlines[0].Function != "add" || main.Inlines[0].Line != 4 || !strings.HasSuffix(main.Inlines[0].File, "/prog.c") {
		t.Errorf("frame 0 is %+v, want main line 6 with add inlined at line 4", main)
	}
	if crash.Function != "crash_here" || crash.Line != 5 || crash.FunctionOffset != "0x0" {
		t.Errorf("frame 1 is %+v, want crash_here line 5", crash)
	}
	if hello.Function == "" || !strings.HasSuffix(hello.File, "hello.c") || hello.Module != "hello-x64.exe" {
		t.Errorf("frame 2 is %+v, want a function of hello.c in hello-x64.exe", hello)
	}
	if f := frames[3]; f.Function != "" || f.ModuleOffset != "0x1" {
		t.Errorf("frame 3 is %+v, want no function", f)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/symbolicate/v5", "{", 400, `{"title":"Payload is not valid JSON"}`},
		{"GET", "/symbolicate/v5", "", 405, `{"title":"use POST with a JSON body"}`},
		{"POST", "/symbolicate/v4", body, 200, `"symbolicatedStacks":[["main (in `},
		{"POST", "/symbolicate", `{"modules":[{"type":"elf","debug_id":"` + w.program.obj.DebugID.String() + `","image_addr":"0x1000"}],"stacktraces":[{"frames":[{"instruction_addr":"0x2139"}]}]}`, 200, `"function":"crash_here"`},
		{"POST", "/minidump", "x", 400, "not a multipart form"},
		{"POST", "/applecrashreport", "x", 400, "not a multipart form"},
		{"GET", "/requests/5", "", 404, "no such request"},
	} {
		got := w.send(t, tt.method, tt.path, tt.body)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: status %d, type %q, body %s; want %d and %s", tt.method, tt.path, got.status, got.header.Get("Content-Type"), got.body, tt.status, tt.want)
		}
	}
	pre := w.send(t, "OPTIONS", "/symbolicate/v5", "", origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
	if pre.status != 204 || pre.header.Get("Access-Control-Allow-Methods") != "POST" || pre.header.Get("Access-Control-Allow-Headers") != "*" {
		t.Errorf("OPTIONS: status %d, methods %q, headers %q; want 204, POST and *", pre.status, pre.header.Get("Access-Control-Allow-Methods"), pre.header.Get("Access-Control-Allow-Headers"))
	}
	other := w.send(t, "POST", "/symbolicate/v5", body, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site")
	if other.status != 403 {
		t.Errorf("POST for a page of another origin: status %d, want 403", other.status)
	}
}

// TestSymbolicateJoined: debug information in several files of the depot is joined,
// and answers name what is missing until it is added.
func TestSymbolicateJoined(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	split, dwz := addFile(t, w.d, "join/split"), addFile(t, w.d, "join/dwz")
	request := func() (r symbolicate.V5Result) {
		t.Helper()
		body := `{"memoryMap":[["split","` + split.obj.DebugID.Breakpad() + `"],["dwz","` + dwz.obj.DebugID.Breakpad() + `"]],"stacks":[[[0,4112],[1,4112]]]}`
		got := w.send(t, "POST", "/symbolicate/v5", body)
		var a struct{ Results []json.RawMessage }
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || len(a.Results) != 1 || json.Unmarshal(a.Results[0], &r) != nil || len(r.Stacks) != 1 || len(r.Stacks[0]) != 2 {
			t.Fatalf("POST: status %d, answer %s, error %v; want one stack of two frames", got.status, got.body, err)
		}
		return r
	}
	note := func(r symbolicate.V5Result, h held) string {
		return strings.Join(r.ModuleNotes[h.obj.Name+"/"+h.obj.DebugID.Breakpad()], "\n")
	}
	before := request()
	if n := note(before, split); !strings.Contains(n, "first.dwo, second.dwo") {
		t.Errorf("without split units: notes %q, want their names", n)
	}
	if n := note(before, dwz); !strings.Contains(n, "cd7a07dac867804683d246311969b81dd2235d6a") {
		t.Errorf("without the supplementary file: notes %q, want its build-id", n)
	}
	if f := before.Stacks[0][0]; f.Line != 0 || len(f.Inlines) > 0 {
		t.Errorf("without split units: %+v, want no line", f)
	}
	if got := w.send(t, "GET", dwz.symPath(t), ""); got.status != 200 || !strings.Contains(got.body, "INFO WARNING ") || !strings.Contains(got.body, "shared.debug") {
		t.Errorf("GET %s: status %d, want 200 with a warning about shared.debug:\n%s", dwz.symPath(t), got.status, got.body)
	}
	addFile(t, w.d, "join/first.dwo")
	addFile(t, w.d, "join/second.dwo")
	addFile(t, w.d, "join/shared.debug")
	check := func(what string) {
		t.Helper()
		r := request()
		if len(r.ModuleNotes) > 0 {
			t.Errorf("%s: notes %q, want none", what, r.ModuleNotes)
		}
		for _, f := range r.Stacks[0] {
			if f.Function != "first" || f.Line != 3 || len(f.Inlines) != 2 || f.Inlines[0].Function != "area_of_the_shape" || f.Inlines[1].Line != 7 {
				t.Errorf("%s: %+v, want first line 3 with two inlined calls", what, f)
			}
		}
	}
	check("with .dwo files")
	addFile(t, w.d, "join/split.dwp")
	check("with the package")
	if r := request(); !strings.Contains(r.ModuleSources["split/"+split.obj.DebugID.Breakpad()], "split.dwp") {
		t.Errorf("with the package: sources %q, want split.dwp", r.ModuleSources)
	}
	for _, h := range []held{split, dwz} {
		got := w.send(t, "GET", h.symPath(t), "")
		if got.status != 200 || strings.Contains(got.body, "INFO WARNING") || !strings.Contains(got.body, " area_of_the_shape\n") {
			t.Errorf("GET %s: status %d, want 200 with area_of_the_shape and no warning:\n%s", h.symPath(t), got.status, got.body)
		}
	}
}

// TestSymbolicateMinGW: the DWARF of an image is read, also from the debug file that
// has its debug id.
func TestSymbolicateMinGW(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	exe := addFile(t, w.d, "pe/mingw-stripped.exe")
	addFile(t, w.d, "pe/mingw.debug")
	got := w.send(t, "GET", exe.symPath(t), "")
	if got.status != 200 || !strings.Contains(got.body, "\nFUNC 1000 ") || !strings.Contains(got.body, ".c\n") {
		t.Errorf("GET %s: status %d, want 200 with lines of a C file:\n%s", exe.symPath(t), got.status, got.body)
	}
}

// TestSymbolicateDebugLink: the debug file of a program without debug id is found by the
// name and the checksum in .gnu_debuglink, and no other file of that name is.
func TestSymbolicateDebugLink(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	for _, name := range []string{"link64", "link32"} {
		exe := addFile(t, w.d, "pe/"+name+".exe")
		path := "/" + exe.obj.Name + "/" + exe.obj.CodeID + "/" + name + ".sym"
		check := func(what string, lines bool) {
			t.Helper()
			got := w.send(t, "GET", path, "")
			if got.status != 200 || !strings.HasPrefix(got.body, "MODULE windows ") || !strings.Contains(got.body, "STACK CFI INIT 1000 ") || strings.Contains(got.body, "/src/link.c\n") != lines {
				t.Errorf("%s: GET %s: status %d; want 200, unwind rules at 0x1000, lines of link.c: %v\n%s", what, path, got.status, lines, got.body)
			}
			if warned := strings.Contains(got.body, "INFO WARNING DWARF: the debug file "+name+".dbg "); warned == lines {
				t.Errorf("%s: GET %s: a warning of the missing file: %v, want %v", what, path, warned, !lines)
			}
			ask := `{"modules":[{"type":"pe","code_id":"` + exe.obj.CodeID + `","code_file":"` + exe.obj.Name + `","image_addr":"0x400000"}],"stacktraces":[{"frames":[{"instruction_addr":"0x401000"}]}],"options":{"dif_candidates":true}}`
			var a symbolicate.NativeAnswer
			if got = w.send(t, "POST", "/symbolicate", ask); json.Unmarshal([]byte(got.body), &a) != nil || len(a.Stacktraces) != 1 || len(a.Stacktraces[0].Frames) == 0 {
				t.Fatalf("%s: status %d, answer %s; want a frame", what, got.status, got.body)
			}
			if f := a.Stacktraces[0].Frames[0]; (f.Filename == "link.c" && f.Lineno > 0) != lines {
				t.Errorf("%s: %+v; want a line of link.c: %v", what, f, lines)
			}
			if named := strings.Contains(got.body, "the debug file "+name+".dbg with the CRC-32 "); named == lines {
				t.Errorf("%s: the missing file is named: %v, want %v: %s", what, named, !lines, got.body)
			}
		}
		check("without the debug file", false)
		b, err := os.ReadFile("../../../testdata/pe/" + name + ".dbg")
		if err != nil {
			t.Fatal(err)
		}
		add(t, w.d, depot.Source{Path: "/build/" + name + ".dbg"}, append(b[:len(b):len(b)], 0))
		check("with that of another build", false)
		addFile(t, w.d, "pe/"+name+".dbg")
		check("with the debug file", true)
	}
}

// TestSymbolicateSignal: the processor of a module is known, so that the address of a
// thread that crashed is adjusted by its registers.
func TestSymbolicateSignal(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	for _, tt := range []struct{ name, signal, registers, function string }{
		{"another instruction pointer", "11", `{"rip":"0x1"}`, "crash_here"},
		{"the address itself", "11", `{"rip":"0x213c"}`, "main"},
		{"another signal", "6", `{"rip":"0x1"}`, "main"},
	} {
		// main begins at 0x113c, and crash_here ends there.
		body := `{"signal":` + tt.signal + `,"modules":[{"type":"elf","debug_id":"` + w.program.obj.DebugID.String() + `","image_addr":"0x1000"}],` +
			`"stacktraces":[{"registers":` + tt.registers + `,"frames":[{"instruction_addr":"0x213c"}]}]}`
		got := w.send(t, "POST", "/symbolicate", body)
		var a symbolicate.NativeAnswer
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || len(a.Modules) != 1 || len(a.Stacktraces) != 1 || len(a.Stacktraces[0].Frames) == 0 {
			t.Fatalf("%s: status %d, answer %s, error %v; want a frame", tt.name, got.status, got.body, err)
		}
		frames := a.Stacktraces[0].Frames
		if f := frames[len(frames)-1]; a.Modules[0].Arch != "x86_64" || f.Function != tt.function {
			t.Errorf("%s: processor %q, function %q; want x86_64, %s", tt.name, a.Modules[0].Arch, f.Function, tt.function)
		}
	}
	pdb := w.send(t, "POST", "/symbolicate", `{"modules":[{"type":"pe","debug_file":"hello-x64.pdb","debug_id":"`+w.pdb.obj.DebugID.String()+`","image_addr":"0x1000"}],"stacktraces":[{"frames":[{"instruction_addr":"0x2000"}]}]}`)
	if !strings.Contains(pdb.body, `"arch":"x86_64"`) {
		t.Errorf("a PDB: answer %s, want the processor x86_64", pdb.body)
	}
}

// TestSymbolicateManaged: frames with IL are looked up in portable PDBs, by the row or the
// token of the method and the offset.
func TestSymbolicateManaged(t *testing.T) {
	w := &symbolsWorld{d: openDepot(t, depot.Options{})}
	portable := addFile(t, w.d, "ppdb/lines.pdb")
	w.pdb = addFile(t, w.d, "pdb/hello-x64.pdb")
	w.serve(t, SymbolsConfig{Wait: time.Minute}, false)
	guid := portable.obj.DebugID.GUID.Lower()
	ask := func(id string, frames ...string) symbolicate.NativeAnswer {
		t.Helper()
		got := w.send(t, "POST", "/symbolicate", `{"platform":"csharp","modules":[{"type":"pe_dotnet","debug_id":"`+id+`","debug_file":"C:\\b\\lines.pdb","code_file":"lines.dll"}],`+
			`"stacktraces":[{"frames":[`+strings.Join(frames, ",")+`]}]}`)
		var a symbolicate.NativeAnswer
		if err := json.Unmarshal([]byte(got.body), &a); err != nil || got.status != 200 || len(a.Modules) != 1 || len(a.Stacktraces) != 1 || len(a.Stacktraces[0].Frames) != len(frames) {
			t.Fatalf("module %s: status %d, answer %s, error %v; want %d frames", id, got.status, got.body, err, len(frames))
		}
		return a
	}
	frames := []struct {
		frame, status, file string
		line                uint32
	}{
		{`{"instruction_addr":"0x0","addr_mode":"rel:0","function_id":"0x1","function":"Main"}`, "symbolicated", "/src/a.cs", 10},
		{`{"instruction_addr":"0xc8","addr_mode":"rel:0","function_id":"0x06000001"}`, "symbolicated", "b.cs", 3},
		{`{"instruction_addr":300,"addr_mode":"rel:0","function_id":3}`, "symbolicated", "b.cs", 4000},
		{`{"instruction_addr":"0x0","addr_mode":"rel:0","function_id":"0x2"}`, "missing_symbol", "", 0},
		{`{"instruction_addr":"0x0","addr_mode":"rel:0","function_id":"0x0a000001"}`, "missing_symbol", "", 0},
		{`{"instruction_addr":"0x0","addr_mode":"rel:0"}`, "missing_symbol", "", 0},
		{`{"instruction_addr":"0x10"}`, "unknown_image", "", 0},
	}
	var list []string
	for _, f := range frames {
		list = append(list, f.frame)
	}
	// Clients spell the id with the stamp of the PDB, with age 1, or with neither.
	for _, id := range []string{portable.obj.DebugID.String(), guid + "-1", guid + "FFFFFFFF"} {
		a := ask(id, list...)
		if m := a.Modules[0]; m.DebugStatus != "found" {
			t.Errorf("module %s is %s, want it found", id, m.DebugStatus)
		}
		for i, got := range a.Stacktraces[0].Frames {
			if want := frames[i]; got.Status != want.status || got.AbsPath != want.file || got.Lineno != want.line {
				t.Errorf("module %s, frame %s: %s %s:%d; want %s %s:%d", id, want.frame, got.Status, got.AbsPath, got.Lineno, want.status, want.file, want.line)
			}
		}
		if got := a.Stacktraces[0].Frames[0].Function; got != "Main" {
			t.Errorf("module %s: function %q, want the client's", id, got)
		}
	}
	for _, id := range []string{w.pdb.obj.DebugID.String(), "00000000000000000000000000000eee-1", "x", ""} {
		a := ask(id, list[0])
		if m := a.Modules[0]; m.DebugStatus != "missing" || a.Stacktraces[0].Frames[0].Status != "missing" {
			t.Errorf("module %q is %s, its frame %s; want missing: it has no portable PDB", id, m.DebugStatus, a.Stacktraces[0].Frames[0].Status)
		}
	}
}

// TestSymbolicateUnits: a large ELF file answers before its GSYM file is made, and has
// that made.
func TestSymbolicateUnits(t *testing.T) {
	w := &symbolsWorld{d: openDepot(t, depot.Options{})}
	large := append(symtest.Testdata(t, "elf/prog-sha1"), make([]byte, 32<<20)...)
	w.program = add(t, w.d, depot.Source{Path: "/home/someone/build/prog"}, large)
	w.serve(t, SymbolsConfig{Wait: time.Minute}, false)
	module := `[["prog","` + w.program.obj.DebugID.Breakpad() + `"]]`
	for range 2 { // the second time, the job is there
		got := w.send(t, "POST", "/symbolicate/v5", `{"memoryMap":`+module+`,"stacks":[[[0,4415]]]}`)
		if got.status != 200 || !strings.Contains(got.body, `"function":"main"`) || !strings.Contains(got.body, `"function":"add"`) {
			t.Fatalf("no job is done: status %d, body %s; want 200, add and main", got.status, got.body)
		}
	}
	list, err := w.d.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 || list[0].State != jobs.Queued {
		t.Errorf("jobs %+v, %v; want one that waits", list, err)
	}
}
