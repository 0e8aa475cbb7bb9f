package cluster

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

const (
	workedModule = "hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64"
	workedSym    = "MODULE windows x86_64 F9EFE0B6AE7500394C4C44205044422E1 hello-x64.pdb\n"
)

// symbolsWorker starts `symdepot work --symbols`.
func symbolsWorker(t *testing.T, server, tokenFile string) *workerProcess {
	t.Helper()
	cmd := exec.Command("symdepot", "work", "--server", server, "--token-file", tokenFile, "--symbols", "--scratch", t.TempDir(), "--min-free", "1MiB")
	p := &workerProcess{cmd, &symtest.Output{}}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

// getWith requests a URL with a bearer token.
func getWith(t *testing.T, url, token string) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// TestWorkSymbols: symbol files of modules that are larger than symbols.in_process are
// not found without a worker, and made by one.
func TestWorkSymbols(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	where := filepath.Join(dir, "depot")
	if code, _, errs := commandtest.Symdepot(t, where, "add", "../../testdata/pdb/hello-x64.pdb", "../../testdata/pdb/hello-x64.exe"); code != 0 {
		t.Fatalf("add: exit %d, want 0: %s", code, errs)
	}
	_, secret, _ := commandtest.Symdepot(t, where, "token", "new", "--name", "worker", "--scope", "write", "--scope", "read")
	secret = strings.TrimSpace(secret)
	token, config := commandtest.PutFile(t, dir, "token", []byte(secret)), commandtest.PutFile(t, dir, "symdepot.yaml", []byte("symbols: {in_process: 1KiB, wait: 1m}\n"))
	env := map[string]string{"SYMDEPOT_DEPOT": where, "PATH": os.Getenv("PATH"), "HOME": dir}
	srv, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, "--auth", "--config", config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	}()
	path := srv.URL + "/" + workedModule + ".sym"
	if status, h, body := getWith(t, path, secret); status != 404 || h.Get("Retry-After") != "" || !strings.Contains(body, "symdepot work --symbols") {
		t.Errorf("without a worker: status %d, Retry-After %q, body %q; want 404 that names the worker", status, h.Get("Retry-After"), body)
	}
	p := symbolsWorker(t, srv.URL, token)
	var status int
	var body string
	symtest.Await(t, time.Minute, "the symbol file", func() bool {
		status, _, body = getWith(t, path, secret)
		return status == 200
	})
	if !strings.HasPrefix(body, workedSym) || !strings.Contains(body, "\nFUNC ") || !strings.Contains(body, " hello-x64.exe\n") {
		t.Errorf("with a worker: %s\nwant the symbol file of the PDB and its program", body)
	}
	if status, _, body := getWith(t, srv.URL+"/"+workedModule+".gsym", secret); status != 200 || !strings.HasPrefix(body, "MYSG") {
		t.Errorf("the GSYM file: status %d, %.40q; want 200 and a GSYM file", status, body)
	}
	p.stderr.Await(t, "job done")
}

// stallingBody is a body of which the first bytes are passed on; then it stalls until its
// client is gone, and breaks off. A proxy of net/http notices only later that a client
// is gone whose body it has not read.
type stallingBody struct {
	io.ReadCloser
	gone    <-chan struct{}
	left    int
	stalled func()
}

func (p *stallingBody) Read(b []byte) (int, error) {
	if p.left == 0 {
		p.stalled()
		<-p.gone
		return 0, io.ErrUnexpectedEOF
	}
	n, err := p.ReadCloser.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// TestWorkSymbolsKilled: a worker is killed in the middle of the upload of a result. The
// job goes to the next worker, and nothing partial is kept.
func TestWorkSymbolsKilled(t *testing.T) {
	t.Parallel()
	w := newWorkshopOf(t, depot.Options{Jobs: depot.JobOptions{Lease: time.Second}, Symbols: depot.SymbolsOptions{InProcess: 1 << 10}})
	tx, err := w.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), depot.Source{Path: "hello-x64.pdb", Content: inMemory{bytes.NewReader(commandtest.Testdata(t, "pdb/hello-x64.pdb"))}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	stalled, gone := make(chan struct{}), make(chan struct{})
	leave := sync.OnceFunc(func() { close(gone) })
	var once sync.Once
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		if strings.HasSuffix(r.In.URL.Path, "/complete") {
			r.Out.Body = &stallingBody{r.Out.Body, gone, 100, func() { once.Do(func() { close(stalled) }) }}
		}
	}})
	t.Cleanup(func() { leave(); proxy.Close() })
	doomed := symbolsWorker(t, proxy.URL, w.tokenFile)
	w.workers(t, 1)
	got := make(chan error, 1)
	var body []byte
	go func() {
		ask := depot.SymbolsAsk{
			Format: symbolicate.Breakpad, Module: symbolicate.ModuleQuery{DebugFile: "hello-x64.pdb", DebugID: "F9EFE0B6AE7500394C4C44205044422E1"},
			Hold: func(ctx context.Context, wait func(context.Context) error) (bool, error) {
				return ctx.Err() != nil, wait(ctx)
			},
		}
		f, err := w.Symbols.Make(t.Context(), ask)
		if err == nil {
			body, err = io.ReadAll(io.NewSectionReader(f, 0, f.Size))
			_ = f.Close()
		}
		got <- err
	}()
	select {
	case <-stalled:
	case <-time.After(time.Minute):
		t.Fatalf("the worker did not begin to upload its result:\n%s", doomed.stderr.String())
	}
	if err := doomed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	leave()
	if s, err := w.Stats(t.Context()); err != nil || s.Contents != 1 {
		t.Errorf("after half an upload: %d contents, error %v; want the PDB only", s.Contents, err)
	}
	next := symbolsWorker(t, w.url, w.tokenFile)
	if err := <-got; err != nil || !strings.HasPrefix(string(body), workedSym) {
		t.Errorf("%.100q, error %v; want the symbol file of the next worker\n%s", body, err, next.stderr.String())
	}
	list, err := w.Jobs().List(t.Context(), jobs.Filter{})
	if err != nil || len(list) != 1 || list[0].State != jobs.Done || list[0].Attempts != 2 {
		t.Errorf("jobs %+v, error %v; want one, done in its second attempt", list, err)
	}
	c, err := w.Collect(t.Context(), 0, true)
	if err != nil || c.Strays != 0 {
		t.Errorf("%d blobs without a row, error %v; want none", c.Strays, err)
	}
}
