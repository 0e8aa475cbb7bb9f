package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestCrashPipeline is the story of a crash pipeline: symbols arrive as a zip archive
// in the protocol of Mozilla's Tecken and, for another module, as PDBs alone; Sentry
// and stack walkers find both; requests for files that nobody has are answered 404
// however many they are, and are listed in missing.csv.
func TestCrashPipeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot := filepath.Join(dir, "depot")
	env := map[string]string{"SYMDEPOT_DEPOT": depot, "PATH": os.Getenv("PATH"), "HOME": dir}
	if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "other", "../../testdata/pe"); code != 0 {
		t.Fatalf("add: exit %d, want 0: %s", code, errs)
	}
	secret := func(args ...string) string {
		_, out, _ := commandtest.Symdepot(t, depot, append([]string{"token", "new"}, args...)...)
		return strings.TrimSpace(out)
	}
	ci, sentry, narrow := secret("--name", "ci", "--scope", "write", "--product", "app", "--version", "3.1"), secret("--name", "sentry"), secret("--name", "narrow", "--product", "app")
	start := func() *commandtest.Serving {
		t.Helper()
		s, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, "--auth")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	srv := start()
	get := func(path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, body := symtest.Do(t, http.DefaultClient.Do, r)
		return resp.StatusCode, body
	}
	// dump_syms --store writes module/ID/module.sym; the token says the product and the version.
	body := symOf("crashy", 40)
	id := fmt.Sprintf("%030X0%02X", 41, 0)
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	w, err := m.CreateFormFile("f.zip", "f.zip")
	if err == nil {
		_, err = w.Write(zipped(t, "crashy/"+id+"/crashy.sym", body))
	}
	if err != nil || m.Close() != nil {
		t.Fatal(err)
	}
	commandtest.Sends(t, "POST", srv.URL+"/upload/", ci, m.FormDataContentType(), form.Bytes(), 201, "")
	token := commandtest.PutFile(t, dir, "token", []byte(ci))
	if code, out, errs := commandtest.Symdepot(t, depot, "push", "--server", srv.URL, "--token-file", token, "../../testdata/pdb/hello-x64.pdb"); code != 0 {
		t.Fatalf("push: exit code %d: %s%s, want 0", code, out, errs)
	}
	_, list, _ := commandtest.Symdepot(t, depot, "list", "--product", "app")
	if strings.Count(list, "3.1") != 2 {
		t.Errorf("the builds of app:\n%s\nwant two of version 3.1", list)
	}
	pdb := commandtest.Testdata(t, "pdb/hello-x64.pdb")
	const pdbID = "F9EFE0B6AE7500394C4C44205044422E1"
	for path, want := range map[string][]byte{
		"/crashy/" + id + "/crashy.sym": body, "/hello-x64.pdb/" + pdbID + "/hello-x64.pdb": pdb,
		"/unified/" + strings.ToLower(pdbID[:2]+"/"+pdbID[2:]) + "/debuginfo": pdb,
	} {
		if status, got := get(path, sentry); status != 200 || got != string(want) {
			t.Errorf("GET %s: status %d with %d bytes, want 200 with %d", path, status, len(got), len(want))
		}
	}
	// The stack walker gets the symbols of the second module from the PDB alone.
	if status, got := get("/hello-x64.pdb/"+pdbID+"/hello-x64.sym", sentry); status != 200 || !strings.HasPrefix(got, "MODULE windows x86_64 "+pdbID+" hello-x64.pdb\n") || !strings.Contains(got, "\nFUNC ") {
		t.Errorf("the made symbol file: status %d, %.200q; want 200 and functions", status, got)
	}
	// A source that answers anything but 404 is blocked by Sentry.
	const absent, clients = 10_000, 8
	var wrong atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range absent / clients {
				if status, _ := get(fmt.Sprintf("/unified/%02x/%030x0/debuginfo", i%256, c*absent+i), sentry); status != 404 {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d requests for files that nobody has were not answered 404", n, absent)
	}
	if status, _ := get("/gone.pdb/0123456789ABCDEF0123456789ABCDEF1/gone.pdb", sentry); status != 404 {
		t.Errorf("gone.pdb: status %d, want 404", status)
	}
	if symtest.Wine() != "" { // the server is killed there: its regular work stores the counts
		symtest.Await(t, time.Minute, "the stored counts", func() bool {
			_, text := get("/missing.csv?name=gone*", sentry)
			return strings.Contains(text, "gone.pdb")
		})
	}
	if err := srv.Stop(); err != nil { // the counts are stored
		t.Errorf("serve: %v\n%s", err, srv.Log.String())
	}
	srv = start()
	defer func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	}()
	if status, _ := get("/missing.csv", narrow); status != 404 {
		t.Errorf("missing.csv for a token of one product: status %d, want 404", status)
	}
	status, text := get("/missing.csv?name=gone*", sentry)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if status != 200 || err != nil || len(rows) != 2 || !slices.Equal(rows[1][:3], []string{"1", "gone.pdb", "0123456789abcdef0123456789abcdef1"}) {
		t.Errorf("missing.csv: status %d, %q, %v; want gone.pdb once", status, rows, err)
	}
	if _, text = get("/missing.csv", sentry); strings.Contains(text, "crashy") || strings.Count(text, "\n") < absent/2 {
		t.Errorf("missing.csv has %d lines; want those of the %d missing files, and none that is there", strings.Count(text, "\n"), absent)
	}
}
