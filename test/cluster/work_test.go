package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/serve/server"
	"github.com/symdepot/symdepot/symcache"
)

// workshop is a server with the job API.
type workshop struct {
	*depot.Depot
	url, tokenFile, log string
	waiting             chan string // names of workers that began to wait for jobs
}

func newWorkshop(t *testing.T, opt depot.JobOptions) *workshop {
	t.Helper()
	return newWorkshopOf(t, depot.Options{Jobs: opt})
}

func newWorkshopOf(t *testing.T, opt depot.Options) *workshop {
	t.Helper()
	dir := t.TempDir()
	waiting := make(chan string, 1000)
	opt.Jobs.Hooks.Waiting = func(worker string) {
		select {
		case waiting <- worker:
		default:
		}
	}
	d, err := depot.Open(t.Context(), filepath.Join(dir, "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{Depot: d, WorkerToken: "for tests only"})
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
	t.Cleanup(func() {
		stop()
		all.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &workshop{d, "http://" + ln.Addr().String(), filepath.Join(dir, "token"), filepath.Join(dir, "runs"), waiting}
	if err := os.WriteFile(w.tokenFile, []byte("for tests only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// workers waits until n workers have asked for jobs.
func (w *workshop) workers(t *testing.T, n int) {
	t.Helper()
	end := time.NewTimer(40 * time.Second)
	defer end.Stop()
	seen := map[string]bool{}
	for len(seen) < n {
		select {
		case name := <-w.waiting:
			seen[name] = true
		case <-end.C:
			t.Fatalf("%d workers have asked for jobs, want %d", len(seen), n)
		}
	}
	if got := len(w.Jobs().Workers()); got != n {
		t.Fatalf("the server knows %d workers, want %d", got, n)
	}
}

// add puts n PDBs of different ids into the depot and returns their keys.
func (w *workshop) add(t *testing.T, n int) (keys []symcache.Key) {
	t.Helper()
	plain, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	id, err := debugid.ParseBreakpad("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := w.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for i := range n {
		old := id.GUID.Microsoft()
		k := symcache.Key{Name: fmt.Sprintf("app%d.pdb", i), ID: id}
		k.ID.GUID[14], k.ID.GUID[15] = byte(i>>8), byte(i)
		ms := k.ID.GUID.Microsoft()
		body := bytes.ReplaceAll(plain, old[:], ms[:])
		if _, err := tx.Add(t.Context(), depot.Source{Path: k.Name, Content: inMemory{bytes.NewReader(body)}}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return keys
}

// inMemory is a file to add.
type inMemory struct{ *bytes.Reader }

func (inMemory) Changed() bool { return false }

// workerProcess is a running `symdepot work`.
type workerProcess struct {
	*exec.Cmd
	stderr *symtest.Output
}

// worker starts the real command.
func (w *workshop) worker(t *testing.T, flags ...string) *workerProcess {
	t.Helper()
	var quoted []string
	for _, word := range transcodetest.Command(append([]string{"-log", w.log}, flags...)...) {
		quoted = append(quoted, `"`+word+`"`)
	}
	cmd := exec.Command("symdepot", "work", "--server", w.url, "--token-file", w.tokenFile, "--transcoder", "test="+strings.Join(quoted, " "),
		"--scratch", t.TempDir(), "--min-free", "1MiB", "--jobs", "2")
	p := &workerProcess{cmd, &symtest.Output{}}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

func (w *workshop) runs(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(w.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, name := range strings.Fields(string(b)) {
		n[name]++
	}
	return n
}

var v310 = symcache.Version{Major: 3, Minor: 1}

// TestManyClientsLostWorker: two hundred clients ask for fifty keys, half of
// them waiting and half coming again and again; one of two workers is killed.
func TestManyClientsLostWorker(t *testing.T) {
	t.Parallel()
	keyCount, clients := 12, 48
	if torture() {
		keyCount, clients = 50, 200
	}
	w := newWorkshop(t, depot.JobOptions{Lease: time.Second})
	keys := w.add(t, keyCount)
	doomed := w.worker(t, "-delay", "150ms")
	w.worker(t, "-delay", "50ms")
	w.workers(t, 2)
	if got := fmt.Sprint(w.SymCache().Producible()); got != "[3.1.0]" {
		t.Fatalf(`got %q, want "[3.1.0]"`, got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		key := keys[i%len(keys)]
		ask := w.SymCache().WaitSymCache
		if i%2 == 1 {
			ask = w.SymCache().RequestSymCache
		}
		all.Go(func() {
			var st jobs.State
			var err error
			_ = symtest.Poll(ctx, func() bool {
				st, err = ask(ctx, key, v310)
				return err != nil || st == jobs.Failed || st == jobs.Done
			})
			if err != nil || st != jobs.Done {
				t.Errorf("client %d, %s: state %v, error %v; want done", i, key.Name, st, err)
			}
		})
	}
	symtest.Await(t, 40*time.Second, "runs of the transcoders for a quarter of the keys", func() bool { return len(w.runs(t)) > keyCount/4 })
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = doomed.Wait()
	all.Wait()
	list, err := w.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != len(keys) {
		t.Errorf("%d jobs, error %v; want one for each of %d keys", len(list), err, len(keys))
	}
	again, runs := 0, w.runs(t)
	for _, j := range list {
		name, _, _ := strings.Cut(j.Key, "/")
		if j.State != jobs.Done || runs[name] < 1 || runs[name] > j.Attempts {
			t.Errorf("%s: %v, %d attempts, %d runs, %s; want done, with as many runs as attempts at most", name, j.State, j.Attempts, runs[name], j.Detail)
		}
		again += j.Attempts - 1
	}
	if again > 2 { // what the killed one had
		t.Errorf("%d attempts were repeated, want those of the killed worker, 2 at most", again)
	}
}

// TestWorkerDrains: the first request to stop lets jobs finish, the second
// gives them back.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	w := newWorkshop(t, depot.JobOptions{})
	keys := w.add(t, 2)
	p := w.worker(t, "-mode", "app0.pdb=,app1.pdb=hang", "-delay", "300ms")
	w.workers(t, 1)
	for i, k := range keys {
		if st, err := w.SymCache().RequestSymCache(t.Context(), k, v310); err != nil || st != jobs.Queued {
			t.Fatalf("request for app%d.pdb: %v, error %v; want queued", i, st, err)
		}
	}
	symtest.Await(t, 40*time.Second, "a run of the transcoder for each of app0.pdb and app1.pdb", func() bool {
		n := w.runs(t)
		return n["app0.pdb"] == 1 && n["app1.pdb"] == 1
	})
	t.Run("first request to stop", func(t *testing.T) {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if st, err := w.SymCache().WaitSymCache(t.Context(), keys[0], v310); err != nil || st != jobs.Done {
			t.Errorf("the job that goes on: %v, error %v; want done", st, err)
		}
		p.stderr.Await(t, "interrupt again")
	})
	var queued []jobs.Job
	t.Run("second request to stop", func(t *testing.T) {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("the worker ended with %v, want exit code 0\n%s", err, p.stderr)
		}
		var err error
		if queued, err = w.Jobs().List(t.Context(), jobs.Filter{States: []jobs.State{jobs.Queued}}); err != nil || len(queued) != 1 || queued[0].Attempts != 0 {
			t.Fatalf("queued jobs %+v, error %v; want the released one, without an attempt", queued, err)
		}
		if list := w.Jobs().Workers(); len(list) != 0 {
			t.Errorf("workers %+v, want none", list)
		}
	})
	if t.Failed() {
		return
	}
	// The commands see the same.
	id := fmt.Sprint(queued[0].ID)
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		out   []string // parts of the output
		lines int      // of the output; 0: any number
		errs  string   // part of the errors
	}{
		{"list", []string{"jobs"}, 0, []string{"done", "app1.pdb/", "3.1.0 by test in"}, 0, ""},
		{"list as JSON", []string{"jobs", "--state", "queued", "--json"}, 0, []string{`"state":"queued"`}, 1, ""},
		{"stats", []string{"jobs", "stats"}, 0, []string{"symcache: 1 queued"}, 0, ""},
		{"cancel", []string{"jobs", "cancel", id}, 0, []string{"job " + id + " cancelled"}, 0, ""},
		{"cancel again", []string{"jobs", "cancel", id}, 0, []string{"had ended"}, 0, ""},
		{"retry", []string{"jobs", "retry", id}, 0, []string{"is tried again as job"}, 0, ""},
		{"cancel an unknown job", []string{"jobs", "cancel", "999"}, 1, []string{"job 999 does not exist"}, 0, ""},
		{"unknown state", []string{"jobs", "--state", "lazy"}, command.ExitUsage, nil, 0, "is not a job state"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := commandtest.Symdepot(t, w.Name(), c.args...)
			if code != c.code || !strings.Contains(errs, c.errs) || c.lines != 0 && strings.Count(out, "\n") != c.lines {
				t.Errorf("symdepot %q: exit code %d, want %d, and errors with %q\n%s%s", c.args, code, c.code, c.errs, out, errs)
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("symdepot %q prints no %q:\n%s", c.args, want, out)
				}
			}
		})
	}
}

// TestWorkerWaits: a token that is wrong and becomes right, and a server that
// was not there.
func TestWorkerWaits(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, depot.JobOptions{})
	key := w.add(t, 1)[0]
	if err := os.WriteFile(w.tokenFile, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.worker(t)
	p.stderr.Await(t, "the token is wrong, expired or revoked")
	if strings.Contains(p.stderr.String(), "for tests only") {
		t.Error("the token is in the log")
	}
	if err := os.WriteFile(w.tokenFile, []byte("for tests only"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.workers(t, 1)
	if st, err := w.SymCache().WaitSymCache(t.Context(), key, v310); err != nil || st != jobs.Done {
		t.Errorf("the job is %v, error %v; want done", st, err)
	}
}

func TestWorkUsage(t *testing.T) {
	tok := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--server", "nowhere"}, command.ExitUsage, "--server: \"nowhere\" is not a URL; expected https://"},
		{[]string{"--server", "http://127.0.0.1:1", "--min-free", "much"}, command.ExitUsage, "a size is expected"},
		{[]string{"--server", "http://127.0.0.1:1", "--transcoder", "x"}, command.ExitUsage, "NAME[,OPTION"},
		{[]string{"--server", "http://127.0.0.1:1", "--transcoder", "x=/nowhere/tool.exe -pdb {pdb}"}, command.ExitFailed, "/nowhere/tool.exe (with 2 arguments) cannot be run"},
	} {
		args := append([]string{"work", "--token-file", tok, "--scratch", t.TempDir()}, c.args...)
		if len(c.args) < 4 || c.args[2] != "--transcoder" {
			args = append(args, "--transcoder", "x=/nowhere {pdb}")
		}
		if code, _, errs := commandtest.Symdepot(t, t.TempDir(), args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("symdepot %q: exit code %d, want %d, and errors with %q\n%s", args, code, c.code, c.want, errs)
		}
	}
}
