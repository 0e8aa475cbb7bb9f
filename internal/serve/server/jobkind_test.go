package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/worker"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// shout is a kind of job that only this test knows: its worker turns a text into
// capitals.
type shout struct {
	jobs.Kind // nil: this machine makes nothing
	mu        sync.Mutex
	made      map[string]string // guarded by mu; by key
}

func (*shout) Name() string              { return "shout" }
func (*shout) Abilities() []jobs.Ability { return nil }
func (*shout) CanStart() bool            { return false }

func (*shout) Input(context.Context, jobs.Job) (jobs.Input, error) {
	return jobs.Input{Message: json.RawMessage(`{"mark":"!"}`)}, nil
}

func (*shout) Existing(context.Context, jobs.Job) (*jobs.Outcome, error) { return nil, nil }

func (*shout) Open(_ context.Context, j jobs.Job) (jobs.File, error) {
	return quiet{strings.NewReader(j.Key)}, nil
}

func (k *shout) Keep(_ context.Context, j jobs.Job, r jobs.Result, body io.Reader) (jobs.Outcome, error) {
	b, err := io.ReadAll(body)
	if sum := blob.Sum(b); err == nil && sum != r.SHA256 {
		err = fmt.Errorf("%w: SHA-256 %s", jobs.ErrBadResult, sum)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made[j.Key] = string(b)
	return jobs.Outcome{Class: "ok", Detail: r.Detail, Result: &r.SHA256}, err
}

func (*shout) CheckAbility(a jobs.Ability) (jobs.Ability, error) {
	if a.Version != "loud" {
		return a, fmt.Errorf("%w: version %q", jobs.ErrBadWorker, a.Version)
	}
	return a, nil
}

func (*shout) CheckFailure(f jobs.Failure) (jobs.Failure, error) {
	if f.Class != "hoarse" {
		return f, fmt.Errorf("%w: class %q", jobs.ErrBadWorker, f.Class)
	}
	return f, nil
}

func (*shout) Rule(string) jobs.Rule { return jobs.Rule{} }

// quiet is an input file that is not in the depot.
type quiet struct{ *strings.Reader }

func (quiet) Close() error { return nil }

func (q quiet) Content() (string, blob.Ref, int64) { return "text", blob.Ref{}, q.Size() }

// shouter is the worker's side of shout.
type shouter struct{ dir string }

func (shouter) Name() string { return "shout" }

func (shouter) Abilities(context.Context) []wire.Ability {
	return []wire.Ability{{Kind: "shout", Variant: 1, Version: "loud"}}
}

func (s shouter) Do(ctx context.Context, j wire.Job, input func(context.Context, *os.File) error) (worker.Result, error) {
	var m struct{ Mark string }
	if err := json.Unmarshal(j.Input, &m); err != nil {
		return worker.Result{}, err
	}
	f, err := os.Create(filepath.Join(s.dir, fmt.Sprint(j.ID)))
	if err != nil {
		return worker.Result{}, err
	}
	defer f.Close()
	if err := input(ctx, f); err != nil {
		return worker.Result{}, err
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return worker.Result{}, err
	}
	if bytes.Contains(b, []byte("cannot")) {
		return worker.Result{}, worker.Failure{Class: "hoarse", Version: "loud", Detail: "no voice"}
	}
	res := worker.Result{Path: f.Name() + ".out", Version: "loud", Detail: "by a test"}
	return res, os.WriteFile(res.Path, append(bytes.ToUpper(b), m.Mark...), 0o600)
}

// TestSecondKind: a kind of job that no package knows is queued, leased over HTTP,
// done by a worker and stored. Only the kind's own code knows what it is about.
func TestSecondKind(t *testing.T) {
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	kind := &shout{made: map[string]string{}}
	d.Jobs().Register(kind, jobs.Limits{})
	s, err := New(Config{Depot: d, WorkerToken: workToken})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	w := worker.Worker{
		Server: &worker.Server{URL: ts.URL, Worker: "w", HTTP: ts.Client(), Token: func() (string, error) { return workToken, nil }},
		Kinds:  []worker.Kind{shouter{t.TempDir()}}, Poll: time.Second,
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx, ctx) }()
	defer func() { stop(); <-ended }()
	for _, c := range []struct {
		key, made, class string
		want             jobs.State
	}{
		{key: "hello", made: "HELLO!", class: "ok", want: jobs.Done},
		{key: "who cannot speak", class: "hoarse", want: jobs.Failed},
	} {
		t.Run(c.key, func(t *testing.T) {
			j, st, err := d.Jobs().Enqueue(t.Context(), jobs.Entry{Job: jobs.Job{Kind: "shout", Key: c.key, Variant: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if st, err = d.Jobs().Wait(t.Context(), j.ID, st); err != nil || st != c.want {
				t.Fatalf("the job is %v, error %v; want %v", st, err, c.want)
			}
			list, err := d.Jobs().List(t.Context(), jobs.Filter{Key: c.key})
			if err != nil || len(list) != 1 || list[0].Outcome != c.class {
				t.Errorf("jobs %+v, error %v; want one with outcome %s", list, err, c.class)
			}
			kind.mu.Lock()
			defer kind.mu.Unlock()
			if got := kind.made[c.key]; got != c.made {
				t.Errorf("the server got %q from the worker, want %q", got, c.made)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"worker":"w2","abilities":[{"kind":"shout","variant":1,"version":"soft"}],"slots":1}`: "not an ability",
			`{"worker":"w2","abilities":[{"kind":"later","variant":1,"version":"1"}],"slots":1}`:    "jobs of the kind shout, symbols, symcache",
		} {
			if code, got := send(t, http.MethodPost, ts.URL+wire.JobsPath+"lease", body); code != http.StatusBadRequest || !strings.Contains(got, want) {
				t.Errorf("POST lease %s: status %d, %q; want 400 with %q", body, code, got, want)
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		_, text := send(t, http.MethodGet, ts.URL+"/metrics", "")
		if want := `symdepot_jobs_ended{class="hoarse",kind="shout",state="failed"} 1`; !strings.Contains(text, want) {
			t.Errorf("GET /metrics has no %s", want)
		}
	})
}
