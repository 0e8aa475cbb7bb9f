package intake

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// wantNoState expects that no file of an upload is left.
func (s *server) wantNoState(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if list := filesOf(s.h.service, pattern); len(list) > 0 {
			t.Errorf("files are left: %q, want none", list)
		}
	}
}

// sendChunks uploads chunks of sentry-cli.
func (s *server) sendChunks(t *testing.T, chunks ...[]byte) {
	t.Helper()
	body, kind := chunkForm(t, "gzip", chunks...)
	s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
}

// TestSentryRestart restarts the server between the requests of one run: the run goes
// on, and its transaction has all its files, also those that were known when
// it began.
func TestSentryRestart(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			files := sentryFiles{"hello.pdb": data(t, "pdb/hello-x64.pdb"), "hello.exe": data(t, "pdb/hello-x64.exe"), "tiny.pdb": data(t, "ppdb/tiny.pdb"), "wrong.txt": []byte("no symbols")}
			state := func(out map[string]assembled, name string) assembled { return out[sha1Hex(files[name])] }
			for c := pieces(files["hello.exe"]); len(c) > 0; c = c[min(len(c), 60):] {
				s.sendChunks(t, c[:min(len(c), 60)]...)
			}
			if a := state(s.assemble(t, files.request(t, "hello.exe")), "hello.exe"); a.State != "ok" {
				t.Fatalf("hello.exe: %+v; want ok", a)
			}
			out := s.assemble(t, files.request(t, "hello.exe", "hello.pdb", "tiny.pdb", "wrong.txt"))
			if a := state(out, "hello.exe"); a.State != "ok" {
				t.Fatalf("hello.exe is known: %+v; want ok", a)
			}
			s.restart(t, killed)
			s.sendChunks(t, append(pieces(files["tiny.pdb"]), files["wrong.txt"])...)
			pdb := pieces(files["hello.pdb"])
			s.sendChunks(t, pdb[:2]...)
			s.restart(t, killed)
			out = s.assemble(t, files.request(t, "hello.pdb", "tiny.pdb", "wrong.txt"))
			if a, b := state(out, "tiny.pdb"), state(out, "wrong.txt"); a.State != "ok" || b.State != "error" {
				t.Errorf("tiny.pdb: %+v, wrong.txt: %+v; want ok and error", a, b)
			}
			if a := state(out, "hello.pdb"); a.State != "not_found" || len(a.Missing) == 0 || strings.Contains(strings.Join(a.Missing, " "), sha1Hex(pdb[0])) {
				t.Errorf("hello.pdb: %+v; want not_found without its first chunk", a)
			}
			s.restart(t, killed)
			for c := pdb[2:]; len(c) > 0; c = c[min(len(c), 60):] {
				s.sendChunks(t, c[:min(len(c), 60)]...)
			}
			// A poll names no chunks.
			poll := fmt.Sprintf(`{"%s":{"name":"hello.pdb"}}`, sha1Hex(files["hello.pdb"]))
			if a := state(s.assemble(t, poll), "hello.pdb"); a.State != "ok" {
				t.Errorf("hello.pdb: %+v; want ok", a)
			}
			s.wantTransactions(t, "Game: hello.exe", "Game: hello.exe, hello.pdb, tiny.pdb")
			if n := s.open(); n != 0 {
				t.Errorf("%d stages are open, want none", n)
			}
			s.wantNoState(t, runPattern)
			if n := s.h.spooled.Load(); n != 0 {
				t.Errorf("%d bytes are left, want none", n)
			}
		})
	}
}

// TestSentryLeft: what a client has handed over completely is committed after the end
// of the process, although the client does not ask again; a run whose client has left before
// expires with its stage.
func TestSentryLeft(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	s := newServer(t, func(c *Config) { c.Now = func() time.Time { return time.Unix(0, clock.Load()) } })
	files := sentryFiles{"tiny.pdb": data(t, "ppdb/tiny.pdb"), "hello.pdb": data(t, "pdb/hello-x64.pdb")}
	s.assemble(t, files.request(t, "hello.pdb"))
	ask := files.request(t, "tiny.pdb")
	s.assemble(t, ask)
	s.sendChunks(t, pieces(files["tiny.pdb"])...)
	// The process ends when it has begun to assemble.
	var q map[string]*assembleFile
	if err := json.Unmarshal([]byte(ask), &q); err != nil {
		t.Fatal(err)
	}
	r := s.h.sentry.runs[1]
	r.mu.Lock()
	r.record(s.h.sentry, runEvent{File: sha1Hex(files["tiny.pdb"]), State: stateAssembling})
	r.mu.Unlock()
	if b, err := os.ReadFile(r.path); err != nil || os.WriteFile(r.path, append(b, `{"file":"`...), 0o600) != nil { // torn
		t.Fatal(err)
	}
	s.restart(t, true)
	s.h.Expire()
	s.wantTransactions(t) // another process may work on it
	clock.Add(int64(runAsleep) + int64(time.Minute))
	s.h.Expire()
	s.h.sentry.settle(t)
	s.wantTransactions(t, "Game: tiny.pdb")
	if a := s.assemble(t, ask)[sha1Hex(files["tiny.pdb"])]; a.State != "ok" {
		t.Errorf("after the restart: %+v; want ok", a)
	}
	s.wantTransactions(t, "Game: tiny.pdb")
	if n := s.open(); n != 1 {
		t.Errorf("%d stages are open, want 1", n)
	}
	s.restart(t, false)
	clock.Add(int64(runIdle) + int64(10*time.Minute))
	s.h.Expire()
	if n := s.open(); n != 0 {
		t.Errorf("%d stages are open after their time, want none", n)
	}
	s.wantNoState(t, runPattern)
}

// settle waits until no run works.
func (s *sentryState) settle(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	list := append([]*sentryRun{}, s.runs...)
	s.mu.Unlock()
	for _, r := range list {
		for {
			r.mu.Lock()
			working, stirred := r.working, r.stirred
			r.mu.Unlock()
			if !working {
				break
			}
			select {
			case <-stirred:
			case <-time.After(time.Minute):
				t.Fatal("a run works for a minute")
			}
		}
	}
}

// TestSentryRecheck: a run that an earlier version began has no receipts, and may have
// lost a file that it called ok: that is asked for again.
func TestSentryRecheck(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := sentryFiles{"hello.pdb": data(t, "pdb/hello-x64.pdb"), "tiny.pdb": data(t, "ppdb/tiny.pdb"), "later.exe": data(t, "pdb/hello-x64.exe")}
	s.assemble(t, files.request(t, "hello.pdb", "tiny.pdb", "later.exe"))
	for _, name := range []string{"hello.pdb", "tiny.pdb"} {
		for c := pieces(files[name]); len(c) > 0; c = c[min(len(c), 60):] {
			s.sendChunks(t, c[:min(len(c), 60)]...)
		}
	}
	out := s.assemble(t, files.request(t, "hello.pdb", "tiny.pdb", "later.exe"))
	for _, name := range []string{"hello.pdb", "tiny.pdb"} {
		if a := out[sha1Hex(files[name])]; a.State != "ok" {
			t.Fatalf("%s: %+v; want ok", name, a)
		}
	}
	runs, err := filepath.Glob(filepath.Join(s.dir, runPattern))
	if err != nil || len(runs) != 1 {
		t.Fatalf("files of runs: %q, %v; want one", runs, err)
	}
	text, err := os.ReadFile(runs[0])
	if err != nil {
		t.Fatal(err)
	}
	without := regexp.MustCompile(`,"receipt":\{[^}]*\}`).ReplaceAll(text, nil)
	if bytes.Equal(text, without) {
		t.Fatalf("the file of the run has no receipts: %s", text)
	}
	if err := os.WriteFile(runs[0], without, 0o600); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	for _, f := range s.stages {
		for path, ref := range f.files {
			if s.contents[ref].SHA1 == sha1Hex(files["tiny.pdb"]) {
				delete(f.files, path)
			}
		}
	}
	s.mu.Unlock()
	s.restart(t, true)
	for c := pieces(files["later.exe"]); len(c) > 0; c = c[min(len(c), 60):] {
		s.sendChunks(t, c[:min(len(c), 60)]...)
	}
	s.assemble(t, files.request(t, "later.exe"))
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, tx := range s.txs {
		for path := range tx.files {
			names = append(names, strings.Fields(path)[0])
		}
	}
	slices.Sort(names)
	if want := []string{"hello.pdb", "later.exe", "tiny.pdb"}; !slices.Equal(names, want) {
		t.Errorf("builds with %q, want %q: the lost file is made again of its chunks", names, want)
	}
}

// TestTeckenRestart restarts the server between the requests of one upload.
func TestTeckenRestart(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			t.Parallel()
			var clock atomic.Int64
			clock.Store(time.Now().UnixNano())
			s := newServer(t, func(c *Config) { c.Now = func() time.Time { return time.Unix(0, clock.Load()) } })
			exe := data(t, "pdb/hello-x64.exe")
			code := object(t, exe, "hello.exe").CodeID
			sum := func(b []byte) string { m := md5.Sum(b); return hex.EncodeToString(m[:]) }
			ask := fmt.Sprintf(`{"files":[{"key":"prog/%s/prog.sym","size":%d,"md5_hash":"%s"},{"key":"hello.exe/%s/hello.exe","size":%d,"md5_hash":"%s"}]}`,
				symID, len(symText), sum([]byte(symText)), code, len(exe), sum(exe))
			var out struct {
				Files []struct{ Action struct{ URL string } }
			}
			if err := json.Unmarshal([]byte(s.expect(t, http.MethodPost, "/upload/v2/", strings.NewReader(ask), 201, "")), &out); err != nil || len(out.Files) != 2 {
				t.Fatal(err, out)
			}
			put := func(n int, b []byte, status int, text string) {
				t.Helper()
				s.expect(t, http.MethodPut, out.Files[n].Action.URL, bytes.NewReader(b), status, text, "Authorization", "-")
			}
			s.restart(t, killed)
			put(0, []byte(symText), 200, "")
			s.wantTransactions(t, ": prog/"+symID+"/prog.sym")
			s.restart(t, killed)
			put(1, append(slices.Clone(exe), 0), 400, "bytes, not")
			put(1, exe, 200, "")
			want := ": hello.exe/" + code + "/hello.exe, prog/" + symID + "/prog.sym"
			s.wantTransactions(t, want)
			s.restart(t, killed)
			put(0, []byte(symText), 200, "") // a repeated request
			put(0, exe, 400, "bytes, not")
			s.wantTransactions(t, want)
			// An upload expires, used or not. What has come stays.
			s.expect(t, http.MethodPost, "/upload/v2/", strings.NewReader(strings.Replace(ask, symID, strings.Repeat("A", 33), 1)), 201, "")
			clock.Add(int64(teckenIdle) + int64(time.Hour))
			s.h.Expire()
			put(0, []byte(symText), 404, "no such upload")
			s.wantTransactions(t, want)
			s.wantNoState(t, teckenPattern)
		})
	}
}

// TestBreakpadRestart restarts the server between the requests of one upload.
func TestBreakpadRestart(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			created := s.expect(t, http.MethodPost, "/in/Game/1/v1/uploads:create?key=good", nil, 200, "", "Authorization", "-")
			url, key := after(t, created, `"uploadUrl": "`), after(t, created, `"uploadKey": "`)
			complete := "/in/Game/1/v1/uploads/" + key + ":complete?key=good"
			ask := `{"symbol_id":{"debug_file":"prog","debug_id":"` + symID + `"}}`
			s.restart(t, killed)
			s.expect(t, http.MethodPost, complete, strings.NewReader(ask), 400, "no file was sent", "Authorization", "-")
			s.expect(t, http.MethodPut, url, strings.NewReader(strings.Replace(symText, "prog", "next", 1)), 200, "", "Authorization", "-")
			s.expect(t, http.MethodPut, url, strings.NewReader(symText), 200, "", "Authorization", "-") // replaces it
			s.restart(t, killed)
			s.expect(t, http.MethodPost, complete, strings.NewReader(ask), 200, `"result": "OK"`, "Authorization", "-")
			s.wantTransactions(t, "Game 1: prog")
			s.expect(t, http.MethodPost, complete, strings.NewReader(ask), 404, "no such upload", "Authorization", "-")
			if !killed { // Windows keeps files that the other server has open
				s.wantNoState(t, factsPattern, spoolPattern)
			}
		})
	}
}
