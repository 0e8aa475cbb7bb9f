package client

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// pushServer is a server with one stage at a time, in memory.
type pushServer struct {
	mu       sync.Mutex
	limits   wire.PushLimits
	opened   []wire.PushSpec
	entries  map[string]wire.PushEntry
	have     map[string]bool
	parts    map[string]map[int][]byte
	tx       []string // manifests of the transactions
	requests map[string]int
	encoded  int    // bodies in zstd
	busy     int    // so many requests are answered with 503
	cut      int    // so many connections are cut
	refuse   string // a path that is refused
	lose     int    // so many commits lose a content
	status   int    // of all answers, if not 0
	word     string
	base     []byte // proposed for each file
	gone     bool   // there are no blocks of base
	changed  bool   // recipes are read from other bytes than base
	recipes  int    // bodies that are recipes
	damage   int    // so many bodies arrive damaged
	digests  int    // parts with a digest
	// Of bodies with several contents: so many contents are spoiled; contents with this text are
	// refused; so many lists are damaged; so many are not answered; none is known.
	spoil, damageList, cutPut int
	refuseIn                  string
	old                       bool
}

func newPushServer() *pushServer {
	return &pushServer{
		limits:  wire.PushLimits{Version: 1, CheckBatch: 3, Part: 1000, WholeBelow: 5000, Encodings: []string{"zstd"}},
		entries: map[string]wire.PushEntry{}, have: map[string]bool{}, parts: map[string]map[int][]byte{}, requests: map[string]int{},
	}
}

func problem(w http.ResponseWriter, status int, word string, missing ...string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(wire.Problem{Type: wire.ProblemType + word, Title: word, Status: status, Detail: "because", Missing: missing})
}

func (s *pushServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, wire.PushPath)
	if !ok || r.Header.Get("Authorization") != "Bearer secret" {
		problem(w, 401, "credentials")
		return
	}
	seg := strings.Split(strings.Trim(path, "/"), "/")
	s.requests[r.Method+" "+seg[len(seg)-1]]++
	switch {
	case s.cut > 0:
		s.cut--
		panic(http.ErrAbortHandler)
	case s.busy > 0:
		s.busy--
		problem(w, 503, "busy")
		return
	case s.status != 0:
		problem(w, s.status, s.word)
		return
	}
	if r.Method == http.MethodPut && seg[len(seg)-1] == "contents" {
		switch {
		case s.old:
			problem(w, 404, "not-found")
			return
		case s.damageList > 0:
			s.damageList--
			body[64] = 'x'
		case s.cutPut > 0:
			s.cutPut--
			panic(http.ErrAbortHandler)
		}
	}
	if s.damage > 0 && r.Method == http.MethodPut {
		s.damage--
		body[len(body)/2] ^= 1
	}
	if d := r.Header.Get("Content-Digest"); d != "" {
		s.digests++
		if d != digest(blob.Sum(body)) {
			problem(w, 422, "digest")
			return
		}
	}
	if r.Header.Get("Content-Encoding") == "zstd" {
		s.encoded++
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderMaxWindow(window))
		if err == nil {
			body, err = io.ReadAll(z)
			z.Close()
		}
		if err != nil {
			problem(w, 400, "query")
			return
		}
	}
	body, ok = s.decode(r.Header.Get(wire.UploadBase), body)
	if !ok {
		problem(w, 404, "not-found")
		return
	}
	answer := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	switch {
	case path == "":
		answer(200, s.limits)
	case path == "/stages":
		var spec wire.PushSpec
		_ = json.Unmarshal(body, &spec)
		s.opened = append(s.opened, spec)
		answer(201, wire.PushState{ID: "S", State: wire.StageOpen})
	case seg[len(seg)-1] == "check":
		var list []wire.PushEntry
		_ = json.Unmarshal(body, &list)
		var out []wire.PushVerdict
		for _, e := range list {
			s.entries[e.Path] = e
			switch {
			case e.Path == s.refuse:
				out = append(out, wire.PushVerdict{Answer: wire.PushRefuse, Reason: "no"})
			case s.have[e.SHA256]:
				out = append(out, wire.PushVerdict{Answer: wire.PushHave})
			default:
				v := wire.PushVerdict{Answer: wire.PushSend}
				if s.base != nil {
					v.Base = blob.Sum(s.base).String()
				}
				out = append(out, v)
			}
		}
		answer(200, out)
	case r.Method == http.MethodGet && seg[2] == "blocks" && !s.gone:
		list, _ := blocks.List(bytes.NewReader(s.base))
		_, _ = w.Write(list)
	case r.Method == http.MethodGet && seg[len(seg)-1] == "parts":
		var got []string
		for n := range s.parts[seg[3]] {
			got = append(got, strconv.Itoa(n))
		}
		answer(200, wire.PushParts{Part: s.limits.Part, Got: strings.Join(got, ",")})
	case r.Method == http.MethodPut && len(seg) == 3:
		s.several(w, body, answer)
	case r.Method == http.MethodPut && len(seg) == 6:
		n, _ := strconv.Atoi(seg[5])
		if s.parts[seg[3]] == nil {
			s.parts[seg[3]] = map[int][]byte{}
		}
		s.parts[seg[3]][n] = body
		total, _ := strconv.ParseInt(r.Header.Get(wire.UploadLength), 10, 64)
		var all []byte
		for i := range len(s.parts[seg[3]]) {
			all = append(all, s.parts[seg[3]][i]...)
		}
		s.have[seg[3]] = int64(len(all)) == total && blob.Sum(all).String() == seg[3]
		switch {
		case !s.limits.BareParts && r.Header.Get("Content-Digest") == "":
			problem(w, 400, "query")
		case int64(len(all)) == total && !s.have[seg[3]]:
			delete(s.parts, seg[3])
			problem(w, 422, "digest")
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	case r.Method == http.MethodPut:
		if blob.Sum(body).String() != seg[3] {
			problem(w, 422, "digest")
			return
		}
		s.have[seg[3]] = true
		answer(201, struct{}{})
	case seg[len(seg)-1] == "commit":
		s.commit(w, body, answer)
	case r.Method == http.MethodDelete:
		clear(s.entries)
		w.WriteHeader(http.StatusNoContent)
	default:
		problem(w, 404, "not-found")
	}
}

func (s *pushServer) commit(w http.ResponseWriter, body []byte, answer func(int, any)) {
	var q wire.PushCommit
	_ = json.Unmarshal(body, &q)
	var lines, missing []string
	done := wire.PushCommitted{Transaction: int64(len(s.tx) + 1)}
	for p, e := range s.entries {
		lines = append(lines, fmt.Sprintf("%s %d %s\n", e.SHA256, e.Size, p))
		switch {
		case p == s.refuse:
			done.Refused = append(done.Refused, wire.PushRefused{Path: p, Reason: "no"})
		case s.lose > 0:
			s.lose--
			delete(s.have, e.SHA256)
			delete(s.parts, e.SHA256)
			missing = append(missing, e.SHA256)
		case !s.have[e.SHA256]:
			missing = append(missing, e.SHA256)
		default:
			done.Files++
		}
	}
	slices.Sort(lines)
	switch manifest := blob.Sum([]byte(strings.Join(lines, ""))).String(); {
	case q.Files != int64(len(lines)) || q.Manifest != manifest:
		problem(w, 409, "conflict")
	case len(missing) > 0:
		problem(w, 409, "conflict", missing...)
	case len(done.Refused) > 0 && !q.Partial:
		problem(w, 422, "not-symbol")
	default:
		s.tx = append(s.tx, manifest)
		answer(200, done)
	}
}

// sym is a Breakpad file of about size bytes that cannot be compressed well.
func sym(n, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE windows x86_64 %032X1 f%d.pdb\n", n+1, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for b.Len() < size {
		fmt.Fprintf(&b, "PUBLIC %x 0 f%d\n", rng.Uint32(), rng.Uint32())
	}
	return b.Bytes()
}

// buildTree writes a build: eight symbol files, one of them twice, one in an
// archive and one large, and a text.
func buildTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	write := func(name string, b []byte) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		write(fmt.Sprintf("d%d/f%d.sym", i%2, i), sym(i, 500+i))
	}
	write("copy/f0.sym", sym(0, 500))
	write("large.sym", sym(20, 12345))
	write("readme.txt", []byte("no symbols"))
	var z bytes.Buffer
	zw := zip.NewWriter(&z)
	w, err := zw.Create("sub/../packed.sym")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(sym(30, 800))
	if err := errors.Join(err, zw.Close()); err != nil {
		t.Fatal(err)
	}
	write("drop.zip", z.Bytes())
	return dir
}

func newTestPusher(t *testing.T, s *pushServer) *Pusher {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return &Pusher{URL: srv.URL, HTTP: srv.Client(), Token: func() (string, error) { return "secret", nil }, Backoff: time.Millisecond, RetryFor: 20 * time.Second}
}

// TestPush: a push sends each content once, in parts if it is large, and a rerun
// sends nothing.
func TestPush(t *testing.T) {
	t.Parallel()
	s := newPushServer()
	p := newTestPusher(t, s)
	var events []PushEvent
	p.Event = func(e PushEvent) { events = append(events, e) }
	dir := buildTree(t)
	opt := PushOptions{PushSpec: wire.PushSpec{Product: "app", Key: "k"}, Paths: []string{dir}}
	r, err := p.Push(t.Context(), opt)
	if err != nil || r.Transaction != 1 || r.Files != 8 || r.SentFiles != 7 || r.Skipped == 0 {
		t.Fatalf("push: %+v, %v; want build 1 with 8 files and 7 contents", r, err)
	}
	for _, path := range []string{"out/d0/f0.sym", "out/copy/f0.sym", "out/large.sym", "out/drop.zip!/sub/packed.sym"} {
		if _, ok := s.entries[path]; !ok {
			t.Errorf("the server does not have the path %s; it has %v", path, s.entries)
		}
	}
	if n := len(s.parts[s.entries["out/large.sym"].SHA256]); n != 13 {
		t.Errorf("the large file came in %d parts, want 13", n)
	}
	if s.encoded == 0 || r.WireBytes >= r.SentBytes {
		t.Errorf("%d bodies were compressed, %d of %d bytes sent; want fewer", s.encoded, r.WireBytes, r.SentBytes)
	}
	if !slices.ContainsFunc(events, func(e PushEvent) bool { return e.Event == "skipped" && e.NotSymbols }) {
		t.Errorf("no event for the text: %+v", events)
	}
	again, err := p.Push(t.Context(), opt)
	if err != nil || again.SentBytes != 0 || again.WireBytes != 0 || s.tx[0] != s.tx[1] {
		t.Errorf("the rerun: %+v, %v; want the same manifest and nothing sent", again, err)
	}
}

// TestPushResumes: a push survives a busy server, cut connections and contents
// that the server loses before the commit, and sends only the parts that lack.
func TestPushResumes(t *testing.T) {
	t.Parallel()
	s := newPushServer()
	p := newTestPusher(t, s)
	dir := buildTree(t)
	large := sym(20, 12345)
	ref := blob.Sum(large).String()
	s.parts[ref] = map[int][]byte{0: large[:1000], 2: large[2000:3000]}
	s.busy, s.cut, s.lose = 3, 3, 1
	r, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}})
	if err != nil || r.Transaction != 1 || r.Files != 8 || len(s.tx) != 1 {
		t.Errorf("push: %+v, %v; want one build with 8 files", r, err)
	}
}

// TestPushRefused: what the server refuses decides about the error, and without
// Partial nothing is committed.
func TestPushRefused(t *testing.T) {
	t.Parallel()
	dir := buildTree(t)
	s := newPushServer()
	p := newTestPusher(t, s)
	s.refuse = "out/large.sym"
	if _, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}}); !errors.Is(err, endpoint.ErrRefused) || len(s.tx) != 0 || s.requests["DELETE S"] != 1 {
		t.Errorf("a refused file: %v, %d builds, %v; want ErrRefused, none, and the stage deleted", err, len(s.tx), s.requests)
	}
	r, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}, Partial: true})
	if !errors.Is(err, ErrPartial) || r.Transaction != 1 || r.Files != 7 {
		t.Errorf("a refused file with Partial: %+v, %v; want ErrPartial and 7 files", r, err)
	}
	for _, tt := range []struct {
		status int
		word   string
		want   error
	}{{403, "forbidden", ErrCredentials}, {413, "too-large", ErrTooLarge}, {507, "quota", ErrTooLarge}, {400, "query", endpoint.ErrRefused}, {404, "not-found", endpoint.ErrRefused}} {
		s.status, s.word = tt.status, tt.word
		if _, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}}); !errors.Is(err, tt.want) {
			t.Errorf("status %d: %v, want %v", tt.status, err, tt.want)
		}
	}
	s.status = 0
	p.Token = func() (string, error) { return "wrong", nil }
	if _, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}}); !errors.Is(err, ErrCredentials) {
		t.Errorf("a wrong token: %v, want ErrCredentials", err)
	}
	gone := &Pusher{URL: "http://127.0.0.1:1", HTTP: http.DefaultClient, Token: p.Token, Backoff: time.Millisecond, RetryFor: 20 * time.Millisecond}
	if _, err := gone.Push(t.Context(), PushOptions{Paths: []string{dir}}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no server: %v, want ErrUnreachable", err)
	}
}

// TestPushNothing: without symbol files no stage is opened.
func TestPushNothing(t *testing.T) {
	t.Parallel()
	s := newPushServer()
	p := newTestPusher(t, s)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Push(t.Context(), PushOptions{Paths: []string{dir}}); !errors.Is(err, ErrNothing) || len(s.opened) != 0 {
		t.Errorf("push of a text: %v, %d stages; want ErrNothing and none", err, len(s.opened))
	}
	if _, err := p.Push(t.Context(), PushOptions{Paths: []string{filepath.Join(dir, "missing")}}); err == nil || errors.Is(err, ErrNothing) {
		t.Errorf("push of a missing path: %v, want an error that names it", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Push(ctx, PushOptions{Paths: []string{buildTree(t)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a push that was interrupted: %v, want context.Canceled", err)
	}
}

func TestCI(t *testing.T) {
	env := map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7", "GITHUB_JOB": "build",
		"GITHUB_SHA": "abc", "GITHUB_RUN_ATTEMPT": "1", "GITHUB_OUTPUT": filepath.Join(t.TempDir(), "out")}
	getenv := func(k string) string { return env[k] }
	c := DetectCI(getenv)
	spec := wire.PushSpec{Product: "app"}
	key := c.Key(spec, []string{"out"})
	if !strings.HasPrefix(key, "github/o/r/build/7/") || c.URL != "https://github.com/o/r/actions/runs/7" || c.Commit != "abc" {
		t.Errorf("GitHub: key %q, %+v; want the URL and the commit of the run, and a key of its build", key, c.PushCIJob)
	}
	env["GITHUB_RUN_ATTEMPT"] = "2"
	if again := DetectCI(getenv).Key(spec, []string{"out"}); again != key {
		t.Errorf("the key of another attempt is %q, want %q", again, key)
	}
	if other := c.Key(wire.PushSpec{Product: "other"}, []string{"out"}); other == key {
		t.Error("two products have one key")
	}
	var log bytes.Buffer
	c.Failed(&log, errors.New("50% of\nit"))
	if log.String() != "::error::50%25 of it\n" {
		t.Errorf("the error line is %q, want it escaped", log.String())
	}
	envFile := filepath.Join(t.TempDir(), "env")
	if err := c.Done(&log, envFile, PushResult{PushCommitted: wire.PushCommitted{Transaction: 17}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{env["GITHUB_OUTPUT"]: "build=17\n", envFile: "SYMDEPOT_BUILD=17\n"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v; want %q", filepath.Base(name), b, err, want)
		}
	}
	if c := DetectCI(func(string) string { return "" }); c.CI != "" || c.Key(spec, nil) != "" {
		t.Errorf("outside of CI: %+v", c.PushCIJob)
	}
}

// TestPushResultOtherBytes: the text says how many files have an id that was there.
func TestPushResultOtherBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "", 1: "1 file has an id", 2: "2 files have an id"} {
		text := PushResult{PushCommitted: wire.PushCommitted{Transaction: 17, Files: 3, OtherBytes: n}}.Text()
		if !strings.Contains(text, want) || strings.Contains(text, "other bytes") != (n > 0) {
			t.Errorf("%d files with other bytes: %q, want %q", n, text, want)
		}
	}
}

// TestPushDamaged: parts come without a digest if the server does not need one. A file that arrives
// damaged is named and sent once more, with a digest of each part; one that is damaged again ends
// the push.
func TestPushDamaged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		change  func(s *pushServer, p *Pusher)
		digests int // parts with a digest
		told    bool
		fails   bool
	}{
		{"nothing damaged", func(*pushServer, *Pusher) {}, 0, false, false},
		{"an old server", func(s *pushServer, _ *Pusher) { s.limits.BareParts = false }, 13, false, false},
		{"a part", func(s *pushServer, _ *Pusher) { s.damage = 1 }, 13, true, false},
		{"a part in zstd", func(s *pushServer, p *Pusher) { s.damage, p.Plain = 1, false }, 13, true, false},
		{"two parts", func(s *pushServer, _ *Pusher) { s.damage = 2 }, 13, true, false},
		{"a part, for an old server", func(s *pushServer, _ *Pusher) { s.limits.BareParts, s.damage = false, 1 }, 14, true, false},
		{"a whole content", func(s *pushServer, _ *Pusher) { s.limits.WholeBelow, s.damage = 1<<20, 1 }, 0, true, false},
		{"all that comes", func(s *pushServer, _ *Pusher) { s.limits.WholeBelow, s.damage = 1<<20, 99 }, 0, true, true},
		{"all parts", func(s *pushServer, _ *Pusher) { s.damage = 99 }, -1, true, true},
	} {
		s := newPushServer()
		s.limits.BareParts = true
		p := newTestPusher(t, s)
		p.Plain, p.Parallel = true, 1
		var told []string
		p.Retrying = func(failed error, in time.Duration) {
			if in != 0 {
				t.Errorf("%s: a request is repeated: %v", c.what, failed)
			}
			told = append(told, failed.Error())
		}
		c.change(s, p)
		dir := t.TempDir()
		name := filepath.Join(dir, "f.sym")
		if err := os.WriteFile(name, sym(20, 12345), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{dir}})
		if (err != nil) != c.fails || !c.fails && r.Transaction != 1 {
			t.Errorf("%s: %+v, %v; want that it fails: %v", c.what, r, err, c.fails)
		}
		if c.fails && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error does not name the file: %v", c.what, err)
		}
		if (len(told) == 1) != c.told || c.told && !strings.Contains(told[0], name+" has arrived damaged") {
			t.Errorf("%s: told %q; want that the file is named: %v", c.what, told, c.told)
		}
		if c.digests >= 0 && s.digests != c.digests {
			t.Errorf("%s: %d parts with a digest, want %d", c.what, s.digests, c.digests)
		}
	}
}

// TestPushChangedMeanwhile: a file that has changed since it was hashed is not sent again.
func TestPushChangedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newPushServer()
	s.limits.BareParts = true
	p := newTestPusher(t, s)
	p.Plain = true
	name := filepath.Join(t.TempDir(), "f.sym")
	if err := os.WriteFile(name, sym(20, 12345), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Event = func(PushEvent) { // it was checked, and is sent next
		if err := os.WriteFile(name, sym(21, 12345)[:12345], 0o644); err != nil {
			t.Error(err)
		}
	}
	_, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{name}})
	if err == nil || !strings.Contains(err.Error(), name) || s.requests["PUT 0"] > 1 {
		t.Errorf("push: %v, part 0 sent %d times; want an error that names the file, and once", err, s.requests["PUT 0"])
	}
}

// TestFileRange: a range of a file ends where it should, read or copied.
func TestFileRange(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "f")
	content := sym(1, 100_000)
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int64{{0, 10}, {7, 70_000}, {70_000, int64(len(content))}, {5, 5}} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(c[0], io.SeekStart); err != nil {
			t.Fatal(err)
		}
		r := &fileRange{f, c[1]}
		var b bytes.Buffer
		if _, err := io.Copy(&b, r); err != nil || !bytes.Equal(b.Bytes(), content[c[0]:c[1]]) {
			t.Errorf("from %d to %d: %d bytes, %v; want those of the range", c[0], c[1], b.Len(), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
