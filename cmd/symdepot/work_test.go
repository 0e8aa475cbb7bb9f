package main

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
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/symtest"
	"github.com/symdepot/symdepot/internal/transcode/transcodetest"
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
	dir := t.TempDir()
	waiting := make(chan string, 1000)
	opt.Hooks.Waiting = func(worker string) {
		select {
		case waiting <- worker:
		default:
		}
	}
	d, err := depot.Open(t.Context(), filepath.Join(dir, "depot"), depot.Options{Jobs: opt})
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
		t.Fatal(got)
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
		t.Errorf("%d jobs for %d keys, %v", len(list), len(keys), err)
	}
	again, runs := 0, w.runs(t)
	for _, j := range list {
		name, _, _ := strings.Cut(j.Key, "/")
		if j.State != jobs.Done || runs[name] < 1 || runs[name] > j.Attempts {
			t.Errorf("%s: %v, %d attempts, %d runs, %s", name, j.State, j.Attempts, runs[name], j.Detail)
		}
		again += j.Attempts - 1
	}
	if again > 2 { // what the killed one had
		t.Errorf("%d attempts more than keys", again)
	}
}

// TestWorkerDrains: the first request to stop lets jobs finish, the second
// gives them back.
func TestWorkerDrains(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals")
	}
	w := newWorkshop(t, depot.JobOptions{})
	keys := w.add(t, 2)
	p := w.worker(t, "-mode", "app0.pdb=,app1.pdb=hang", "-delay", "300ms")
	w.workers(t, 1)
	for i, k := range keys {
		if st, err := w.SymCache().RequestSymCache(t.Context(), k, v310); err != nil || st != jobs.Queued {
			t.Fatal(i, st, err)
		}
	}
	symtest.Await(t, 40*time.Second, "a run of the transcoder for each of app0.pdb and app1.pdb", func() bool {
		n := w.runs(t)
		return n["app0.pdb"] == 1 && n["app1.pdb"] == 1
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if st, err := w.SymCache().WaitSymCache(t.Context(), keys[0], v310); err != nil || st != jobs.Done {
		t.Error(st, err)
	}
	p.stderr.Await(t, "interrupt again")
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
	list, err := w.Jobs().List(t.Context(), jobs.Filter{States: []jobs.State{jobs.Queued}})
	if err != nil || len(list) != 1 || list[0].Attempts != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if len(w.Jobs().Workers()) != 0 {
		t.Error(w.Jobs().Workers())
	}

	// The commands see the same.
	dir := w.Dir()
	if code, out, _ := symdepot(t, dir, "jobs"); code != 0 || !strings.Contains(out, "done") || !strings.Contains(out, "app1.pdb/") || !strings.Contains(out, "3.1.0 by test in") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, _ := symdepot(t, dir, "jobs", "--state", "queued", "--json"); code != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"state":"queued"`) {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out, _ := symdepot(t, dir, "jobs", "stats"); code != 0 || !strings.Contains(out, "symcache: 1 queued") {
		t.Errorf("%d\n%s", code, out)
	}
	id := fmt.Sprint(list[0].ID)
	for _, c := range []struct{ verb, want string }{{"cancel", "job " + id + " cancelled"}, {"cancel", "had ended"}, {"retry", "is tried again as job"}} {
		if code, out, errs := symdepot(t, dir, "jobs", c.verb, id); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d %s%s", c.verb, code, out, errs)
		}
	}
	if code, out, _ := symdepot(t, dir, "jobs", "cancel", "999"); code != 1 || !strings.Contains(out, "job 999 does not exist") {
		t.Errorf("jobs cancel 999: exit code %d, output %q; want 1 and that job 999 does not exist", code, out)
	}
	if code, _, errs := symdepot(t, dir, "jobs", "--state", "lazy"); code != exitUsage || !strings.Contains(errs, "is not a job state") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestWorkerWaits: a token that is wrong and becomes right, and a server that
// was not there.
func TestWorkerWaits(t *testing.T) {
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
		t.Error(st, err)
	}
}

func TestWorkUsage(t *testing.T) {
	tok := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--server", "nowhere"}, exitUsage, "is no URL"},
		{[]string{"--server", "http://127.0.0.1:1", "--min-free", "much"}, exitUsage, "a size is expected"},
		{[]string{"--server", "http://127.0.0.1:1", "--transcoder", "x"}, exitUsage, "NAME[,OPTION"},
		{[]string{"--server", "http://127.0.0.1:1", "--transcoder", "x=/nowhere/tool.exe -pdb {pdb}"}, exitFailed, "/nowhere/tool.exe -pdb {pdb} cannot be run"},
	} {
		args := append([]string{"work", "--token-file", tok, "--scratch", t.TempDir()}, c.args...)
		if len(c.args) < 4 || c.args[2] != "--transcoder" {
			args = append(args, "--transcoder", "x=/nowhere {pdb}")
		}
		if code, _, errs := symdepot(t, t.TempDir(), args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %s", c.args, code, errs)
		}
	}
}
