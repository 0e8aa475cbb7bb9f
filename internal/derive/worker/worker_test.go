package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// fakeServer is a job API that records the paths of its requests; do can answer
// in its place.
type fakeServer struct {
	mu    sync.Mutex
	asked []string
	jobs  []Job
	do    func(w http.ResponseWriter, r *http.Request, verb string, n int) bool // returns true if it has answered
	seen  map[string]int
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path)
	f.seen[verb]++
	n := f.seen[verb]
	f.mu.Unlock()
	if f.do != nil && f.do(w, r, verb, n) {
		return
	}
	switch verb {
	case "lease":
		f.mu.Lock()
		jobs := f.jobs
		f.jobs = nil
		f.mu.Unlock()
		if len(jobs) == 0 {
			_, _ = io.Copy(io.Discard, r.Body) // until then, net/http does not see that the client is gone
			<-r.Context().Done()
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"jobs": jobs})
	case "input":
		_, _ = io.WriteString(w, "the PDB")
	default:
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func (f *fakeServer) count(verb string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[verb]
}

func job(id int64) Job {
	return Job{ID: id, Token: "lease", Kind: "k", Key: "app.pdb", Variant: 3, Input: json.RawMessage(`"for the kind"`), Seconds: 1}
}

// doFunc runs a job of a test.
type doFunc func(ctx context.Context, j Job, input func(context.Context, *os.File) error) (Result, error)

// testKind is a kind of job that a test decides.
type testKind struct {
	name string
	do   doFunc
}

func (k testKind) Name() string { return k.name }

func (k testKind) Abilities(context.Context) []wire.Ability {
	return []wire.Ability{{Kind: k.name, Variant: 3, Version: "3.1.0"}}
}

func (k testKind) Do(ctx context.Context, j Job, input func(context.Context, *os.File) error) (Result, error) {
	return k.do(ctx, j, input)
}

// working runs a worker until the test ends or stop is called.
func working(t *testing.T, f *fakeServer, do doFunc) (log *symtest.Output, stop, hurry func()) {
	t.Helper()
	return workingOn(t, f, "k", do)
}

// workingOn is working for a kind of job.
func workingOn(t *testing.T, f *fakeServer, kind string, do doFunc) (log *symtest.Output, stop, hurry func()) {
	t.Helper()
	f.seen = map[string]int{}
	ts := httptest.NewServer(f)
	log = &symtest.Output{}
	l := slog.New(slog.NewTextHandler(log, nil))
	w := &Worker{
		Server: &Server{HTTP: ts.Client(), URL: ts.URL + "/", Worker: "w", Token: func() (string, error) { return "secret", nil }, Backoff: time.Millisecond, Log: l},
		Kinds:  []Kind{testKind{kind, do}}, Log: l, Poll: time.Second,
	}
	ctx, cancel := context.WithCancel(context.Background())
	hctx, hcancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx, hctx) }()
	t.Cleanup(func() {
		cancel()
		hcancel()
		<-done
		ts.Close()
		if strings.Contains(log.String(), "secret") {
			t.Error("the token is in the log")
		}
	})
	return log, func() { cancel(); <-done }, hcancel
}

// makeFile returns a function that downloads the PDB and returns it as result.
func makeFile(t *testing.T) doFunc {
	dir := t.TempDir()
	return func(ctx context.Context, j Job, pdb func(context.Context, *os.File) error) (Result, error) {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(j.ID)))
		if err != nil {
			return Result{}, err
		}
		defer f.Close()
		if err := pdb(ctx, f); err != nil {
			return Result{}, err
		}
		b, err := os.ReadFile(f.Name())
		if err != nil || string(b) != "the PDB" {
			return Result{}, fmt.Errorf("%q, %w", b, err)
		}
		return Result{Path: f.Name(), Version: "3.1.0", Detail: "made\nby a test"}, nil
	}
}

// TestUploadRetries checks that the result is uploaded in spite of errors of the server
// and the network.
func TestUploadRetries(t *testing.T) {
	cut := func(w http.ResponseWriter) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	for what, c := range map[string]struct {
		do   func(w http.ResponseWriter, r *http.Request, verb string, n int) bool
		want string // in the log
	}{
		"none": {},
		"wrong token, wrong clock": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if verb == "lease" && n < 4 {
				w.Header().Set("Date", time.Now().Add(3*time.Hour).UTC().Format(http.TimeFormat))
				http.Error(w, "no", http.StatusUnauthorized)
			}
			return verb == "lease" && n < 4
		}, "the token is wrong, expired or revoked; the server's clock is "},
		"not allowed": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if n < 3 {
				http.Error(w, "no", http.StatusForbidden)
			}
			return n < 3
		}, "the token does not allow this"},
		"no such API": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if n < 3 {
				http.NotFound(w, nil)
			}
			return n < 3
		}, "the server accepts no workers"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request, verb string, n int) bool {
			if n < 2 {
				http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
			}
			return n < 2
		}, "redirect to https://elsewhere.example/"},
		"server errors": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if n < 4 {
				w.WriteHeader(http.StatusBadGateway)
			}
			return n < 4
		}, "the server answers 502"},
		"a network that is lost": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if n < 3 {
				cut(w)
			}
			return n < 3
		}, "request to the server failed"},
		"half a PDB": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if verb != "input" || n > 2 {
				return false
			}
			w.Header().Set("Content-Length", "7")
			_, _ = io.WriteString(w, "the ")
			_ = http.NewResponseController(w).Flush()
			cut(w)
			return true
		}, "download the input of a job"},
		"half an upload": {func(w http.ResponseWriter, r *http.Request, verb string, n int) bool {
			if verb != "complete" || n > 2 {
				return false
			}
			_, _ = r.Body.Read(make([]byte, 2))
			cut(w)
			return true
		}, "upload a result"},
		"an answer that is none": {func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
			if verb != "lease" || n > 4 {
				return false
			}
			switch n {
			case 1:
				_, _ = io.WriteString(w, "<html>sign in first</html>")
			case 2:
				_, _ = io.WriteString(w, `{"jobs":[{"id":1},{"id":2},{"id":3}]}`)
			case 3:
				_, _ = io.WriteString(w, `{"jobs":[{"id":-5,"token":"x","lease_seconds":30}]}`)
			case 4:
				_, _ = io.WriteString(w, strings.Repeat(" ", 2<<20))
			}
			return true
		}, "request to the server failed"},
	} {
		t.Run(what, func(t *testing.T) {
			f := &fakeServer{jobs: []Job{job(1)}, do: c.do}
			log, stop, _ := working(t, f, makeFile(t))
			log.Await(t, `msg="job done"`)
			stop()
			if f.count("fail") > 0 || f.count("release") > 0 || f.count("bye") != 1 {
				t.Errorf("requests %q; want one bye and no fail or release", f.asked)
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("the log has no %q:\n%s", c.want, log)
			}
		})
	}
}

// TestJobOutcomes checks the outcomes of a job other than a result.
func TestJobOutcomes(t *testing.T) {
	status := func(at string, code int) func(http.ResponseWriter, *http.Request, string, int) bool {
		return func(w http.ResponseWriter, _ *http.Request, verb string, _ int) bool {
			if verb == at {
				http.Error(w, "so", code)
			}
			return verb == at
		}
	}
	for what, c := range map[string]struct {
		do   func(http.ResponseWriter, *http.Request, string, int) bool
		err  error
		log  string
		fail int
	}{
		"failure":       {nil, Failure{Class: "exit", Version: "3.1.0", Detail: "bad"}, "class=exit", 1},
		"our own fault": {nil, errors.New("disk"), "class=infra", 1},
		"lost":          {status("complete", 409), nil, "the lease was lost", 0},
		"gone":          {status("input", 410), nil, "the server ended the job", 0},
		"refused":       {status("complete", 422), nil, "class=infra", 1},
	} {
		t.Run(what, func(t *testing.T) {
			f := &fakeServer{jobs: []Job{job(1)}, do: c.do}
			ok := makeFile(t)
			log, stop, _ := working(t, f, func(ctx context.Context, j Job, pdb func(context.Context, *os.File) error) (Result, error) {
				if c.err != nil {
					return Result{}, c.err
				}
				return ok(ctx, j, pdb)
			})
			log.Await(t, c.log)
			stop()
			if n := f.count("fail"); n != c.fail {
				t.Errorf("%d reports of a failure, want %d; requests %q", n, c.fail, f.asked)
			}
		})
	}
}

// TestLostLeaseCancels checks that a heartbeat answered with a lost lease cancels the job.
func TestLostLeaseCancels(t *testing.T) {
	f := &fakeServer{jobs: []Job{job(1)}}
	f.do = func(w http.ResponseWriter, _ *http.Request, verb string, n int) bool {
		if verb != "heartbeat" {
			return false
		}
		w.WriteHeader(map[bool]int{true: 503, false: 409}[n == 1])
		return true
	}
	ended := make(chan error, 1)
	log, _, _ := working(t, f, func(ctx context.Context, _ Job, _ func(context.Context, *os.File) error) (Result, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return Result{}, ctx.Err()
	})
	if err := <-ended; !errors.Is(err, ErrLeaseLost) || f.count("heartbeat") != 2 {
		t.Error(err, f.asked)
	}
	log.Await(t, "the lease was lost")
}

// TestDrain checks that a stopping worker finishes its jobs, or releases them in a
// hurry, and leases no more.
func TestDrain(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		f := &fakeServer{jobs: []Job{job(1)}}
		begun, finish := make(chan bool), make(chan bool)
		ok := makeFile(t)
		_, stop, hurry := working(t, f, func(ctx context.Context, j Job, pdb func(context.Context, *os.File) error) (Result, error) {
			close(begun)
			select {
			case <-finish:
				return ok(ctx, j, pdb)
			case <-ctx.Done():
				return Result{}, ctx.Err()
			}
		})
		<-begun
		stopped := make(chan bool)
		go func() { stop(); close(stopped) }()
		if hasty {
			hurry()
		} else {
			close(finish)
		}
		<-stopped
		want := map[bool]string{false: "/-/worker/1/complete", true: "/-/worker/1/release"}[hasty]
		if !slices.Contains(f.asked, want) || f.asked[len(f.asked)-1] != "/-/worker/bye" {
			t.Errorf("requests %q; want %s, and bye last", f.asked, want)
		}
	}
}

// TestBackPressure checks that a worker without disk space leases no jobs.
func TestBackPressure(t *testing.T) {
	f := &fakeServer{seen: map[string]int{}}
	ts := httptest.NewServer(f)
	defer ts.Close()
	log := &symtest.Output{}
	w := &Worker{
		Server: &Server{HTTP: ts.Client(), URL: ts.URL, Worker: "w", Token: func() (string, error) { return "secret", nil }},
		Kinds:  []Kind{testKind{"k", nil}}, Log: slog.New(slog.NewTextHandler(log, nil)),
		Room: func() error { return errors.New("the disk is full") },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx, t.Context()) }()
	log.Await(t, "the disk is full")
	cancel()
	<-done
	if f.count("lease") != 0 {
		t.Errorf("requests %q, want no lease", f.asked)
	}
}

// TestLocalFailure: a failure of this machine is not attributed to the server,
// and the request is not repeated.
func TestLocalFailure(t *testing.T) {
	var asked atomic.Int32
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "the PDB")
	}))
	defer ts.Close()
	s := &Server{HTTP: ts.Client(), URL: ts.URL, Worker: "w", Token: func() (string, error) { return "secret", nil }, Backoff: time.Millisecond}
	closed, err := os.Create(filepath.Join(t.TempDir(), "closed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	unwritable, err := os.Open(closed.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer unwritable.Close()
	for _, c := range []struct {
		name, want string
		requests   int32
		do         func() error
	}{
		{"closed file", "this machine cannot write the input of a job: ", 1, func() error { return s.Input(t.Context(), job(1), closed) }},
		{"file opened for reading", "this machine cannot write the input of a job: ", 1, func() error { return s.Input(t.Context(), job(1), unwritable) }},
		{"missing result", "this machine cannot read the result: ", 0, func() error {
			return s.Complete(t.Context(), job(1), "3.1.0", closed.Name()+".missing", "")
		}},
	} {
		asked.Store(0)
		if err := c.do(); err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, endpoint.ErrRefused) {
			t.Errorf("%s: error %v, want one that begins with %q", c.name, err, c.want)
		}
		if n := asked.Load(); n != c.requests {
			t.Errorf("%s: %d requests, want %d", c.name, n, c.requests)
		}
	}
}

// TestUnknownKind: a worker reports a job of a kind that it does not know.
func TestUnknownKind(t *testing.T) {
	j := job(1)
	j.Kind = "later"
	reported := make(chan string, 1)
	f := &fakeServer{jobs: []Job{j}, do: func(_ http.ResponseWriter, r *http.Request, verb string, _ int) bool {
		if verb == "fail" {
			b, _ := io.ReadAll(r.Body)
			reported <- string(b)
		}
		return false
	}}
	_, stop, _ := working(t, f, makeFile(t))
	if got := <-reported; !strings.Contains(got, `"class":"infra"`) || !strings.Contains(got, "does not know this kind of job") {
		t.Errorf("the worker reports %s, want class infra and that it does not know the kind", got)
	}
	stop()
}
