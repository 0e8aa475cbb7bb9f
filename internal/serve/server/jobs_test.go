package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/symcache"
)

const workToken = "a token for these tests"

// jobServer is a server with the job API, and one PDB.
func jobServer(t *testing.T, token string) (d *depot.Depot, url string, key symcache.Key) {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	b, err := os.ReadFile("../../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := d.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), depot.Source{Path: "hello-x64.pdb", Content: jobContent{bytes.NewReader(b)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Depot: d, WorkerToken: token, Prefixes: []string{"corp/symbols"}})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	id, err := debugid.ParseBreakpad("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	return d, ts.URL, symcache.Key{Name: "hello-x64.pdb", ID: id}
}

type jobContent struct{ *bytes.Reader }

func (jobContent) Changed() bool { return false }

// send sends a request of the job API.
func send(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+workToken)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, text := symtest.Do(t, http.DefaultClient.Do, req)
	return resp.StatusCode, text
}

func TestJobAPI(t *testing.T) {
	d, url, key := jobServer(t, workToken)
	v := symcache.Version{Major: 3, Minor: 1}
	if _, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	// answers checks the status of the answer to a worker and returns the body.
	answers := func(t *testing.T, want int, method, url, body string, headers ...string) string {
		t.Helper()
		code, got := send(t, method, url, body, headers...)
		if code != want {
			t.Errorf("%s %s: status %d, want %d; body %.300q", method, url, code, want, got)
		}
		return got
	}
	code, body := send(t, "POST", url+"/corp/symbols/-/worker/lease", `{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":2,"wait_seconds":5}`)
	var got struct{ Jobs []wire.Job }
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || len(got.Jobs) != 1 {
		t.Fatalf("lease: status %d, error %v, body %q; want 200 and one job", code, err, body)
	}
	j := got.Jobs[0]
	if want := fmt.Sprintf(`{"name":%q,"guid":%q,"age":1}`, key.Name, key.ID.GUID.Upper()); string(j.Input) != want || j.Variant != 3 || j.Seconds != 30 || j.Kind != "symcache" {
		t.Errorf("leased job %+v with input %s, want the one for %v in version 3 with input %s", j, j.Input, key, want)
	}
	base := fmt.Sprintf("%s/-/worker/%d/", url, j.ID)
	mine := []string{wire.Worker, "w", wire.Lease, j.Token}
	t.Run("heartbeat", func(t *testing.T) {
		if body := answers(t, 200, "POST", base+"heartbeat", "{}", mine...); !strings.Contains(body, `"lease_seconds":30`) {
			t.Errorf("heartbeat: body %q, want a lease of 30 seconds", body)
		}
	})
	t.Run("input", func(t *testing.T) {
		want, err := os.ReadFile("../../../testdata/pdb/hello-x64.pdb")
		if err != nil {
			t.Fatal(err)
		}
		if body := answers(t, 200, "GET", base+"input", "", mine...); body != string(want) {
			t.Errorf("GET input: %d bytes, want the %d of the PDB", len(body), len(want))
		}
	})
	made := "what a transcoder made"
	sum := sha256.Sum256([]byte(made))
	result := slices.Concat(mine, []string{wire.Version, "3.1.0", wire.SHA256, hex.EncodeToString(sum[:]), wire.Detail, "by me"})
	// Whatever is not the job's result, or not the worker's job.
	for _, c := range []struct {
		what, verb, method, body string
		headers                  []string
		code                     int
	}{
		{"other bytes", "complete", "POST", "What a transcoder made", result, 422},
		{"nothing", "complete", "POST", "", result, 422},
		{"too short", "complete", "POST", made[1:], result, 422},
		{"a higher major", "complete", "POST", made, slices.Concat(result, []string{wire.Version, "4.0.0"}), 422},
		{"no version", "complete", "POST", made, slices.Concat(result, []string{wire.Version, ""}), 400},
		{"half a sum", "complete", "POST", made, slices.Concat(result, []string{wire.SHA256, "abcd"}), 400},
		{"another lease", "complete", "POST", made, slices.Concat(result, []string{wire.Lease, "x"}), 409},
		{"another worker", "complete", "POST", made, slices.Concat(result, []string{wire.Worker, "x"}), 409},
		{"another lease", "input", "GET", "", []string{wire.Worker, "w", wire.Lease, "x"}, 409},
		{"another lease", "fail", "POST", `{"class":"exit","detail":"x"}`, []string{wire.Worker, "w", wire.Lease, "x"}, 409},
		{"another lease", "release", "POST", `{}`, []string{wire.Worker, "w", wire.Lease, "x"}, 409},
		{"no lease", "heartbeat", "POST", `{}`, nil, 400},
		{"a class of ours", "fail", "POST", `{"class":"absent","detail":"x"}`, mine, 400},
		{"no JSON", "fail", "POST", `{`, mine, 400},
		{"a novel", "fail", "POST", `{"class":"exit","detail":"` + strings.Repeat("x", 70<<10) + `"}`, mine, 413},
		{"GET", "complete", "GET", "", mine, 405},
		{"POST", "input", "POST", "", mine, 405},
		{"POST", "input", "POST", "", mine, 405},
		{"a verb", "explode", "POST", "", mine, 404},
	} {
		t.Run(c.verb+", "+c.what, func(t *testing.T) {
			answers(t, c.code, c.method, base+c.verb, c.body, c.headers...)
		})
	}
	t.Run("complete", func(t *testing.T) {
		for range 2 { // the first answer may have been lost
			answers(t, 200, "POST", base+"complete", made, result...)
		}
		if st, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil || st != jobs.Done {
			t.Errorf("the job is %v, error %v; want done", st, err)
		}
	})
	t.Run("heartbeat after the end", func(t *testing.T) {
		if text := answers(t, 409, "POST", base+"heartbeat", "{}", mine...); strings.ContainsAny(text, "/\\") {
			t.Errorf("a lost lease: the body names files: %q", text)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		text := answers(t, 200, "GET", url+"/metrics", "")
		for _, want := range []string{`symdepot_jobs_ended{class="ok",kind="symcache",state="done"} 1`, "symdepot_workers 1", `symdepot_jobs_queued{kind="symcache"} 0`} {
			if !strings.Contains(text, want) {
				t.Errorf("GET /metrics has no %s", want)
			}
		}
	})
	t.Run("bye", func(t *testing.T) {
		answers(t, 200, "POST", url+"/-/worker/bye", "", wire.Worker, "w")
		if list := d.Jobs().Workers(); len(list) != 0 {
			t.Errorf("workers after bye: %+v, want none", list)
		}
	})
}

// TestLeaseKinds: a worker gets jobs of the kinds that it names, and those that the server
// does not have are ignored, unless it names no other.
func TestLeaseKinds(t *testing.T) {
	const symcacheAbility, later = `{"kind":"symcache","variant":3,"version":"3.1.0"}`, `{"kind":"later"}`
	for abilities, want := range map[string]int{"": 0, symcacheAbility: 1, later + "," + symcacheAbility: 1} {
		d, url, key := jobServer(t, workToken)
		if _, err := d.SymCache().RequestSymCache(t.Context(), key, symcache.Version{Major: 3, Minor: 1}); err != nil {
			t.Fatal(err)
		}
		wait := 5
		if want == 0 {
			wait = 0
		}
		code, body := send(t, "POST", url+"/-/worker/lease", fmt.Sprintf(`{"worker":"w","abilities":[%s],"slots":2,"wait_seconds":%d}`, abilities, wait))
		var got wire.LeaseAnswer
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || len(got.Jobs) != want {
			t.Errorf("lease with %s: status %d, %s, %v; want %d jobs", abilities, code, body, err, want)
		}
	}
	_, url, _ := jobServer(t, workToken)
	code, body := send(t, "POST", url+"/-/worker/lease", `{"worker":"w","abilities":[`+later+`],"slots":2,"wait_seconds":5}`)
	if code != 400 || !strings.Contains(body, "kind symbols, symcache") {
		t.Errorf("lease with an unknown kind only: status %d, %s; want 400 and the kinds that the server has", code, body)
	}
}

// TestJobAPIFails: a job whose PDB is nowhere is ended by the server; one that
// failed is remembered.
func TestJobAPIFails(t *testing.T) {
	d, url, key := jobServer(t, workToken)
	v := symcache.Version{Major: 3, Minor: 1}
	lease := func() (wire.Job, []string) {
		t.Helper()
		code, body := send(t, "POST", url+"/-/worker/lease", `{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1,"wait_seconds":5}`)
		var got struct{ Jobs []wire.Job }
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || len(got.Jobs) != 1 {
			t.Fatalf("json.Unmarshal: %v, %v, error %v, length %v; want 200, 1", code, body, err, len(got.Jobs))
		}
		return got.Jobs[0], []string{wire.Worker, "w", wire.Lease, got.Jobs[0].Token}
	}
	none := key
	none.ID.GUID[0]++
	if _, err := d.SymCache().RequestSymCache(t.Context(), none, v); err != nil {
		t.Fatal(err)
	}
	j, mine := lease()
	if code, body := send(t, "GET", fmt.Sprintf("%s/-/worker/%d/input", url, j.ID), "", mine...); code != 410 || !strings.Contains(body, `"class":"absent"`) {
		t.Errorf(`send("GET", ""): %v, %q; want 410, one with %q`, code, body, `"class":"absent"`)
	}
	if st, err := d.SymCache().RequestSymCache(t.Context(), none, v); err != nil || st != jobs.Failed {
		t.Errorf("RequestSymCache: %v, error %v; want %v", st, err, jobs.Failed)
	}
	if _, err := d.SymCache().RequestSymCache(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
	j, mine = lease()
	if code, body := send(t, "POST", fmt.Sprintf("%s/-/worker/%d/fail", url, j.ID), `{"class":"exit","version":"3.1.0","detail":"exit status 1"}`, mine...); code != 200 {
		t.Errorf("send(\"POST\", `{\"class\":\"exit\",\"version\":\"3.1.0\",\"detail\":\"exit status 1\"}`): %v, %v; want 200", code, body)
	}
	if f, err := d.SymCache().SymCacheFailure(t.Context(), key, v); err != nil || f.Class != "exit" {
		t.Errorf(`SymCacheFailure: %+v, error %v; want Class "exit"`, f, err)
	}
}

func TestJobAPIRefuses(t *testing.T) {
	_, url, _ := jobServer(t, workToken)
	lease := `{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1}`
	for _, auth := range []string{"", "Bearer", "Bearer wrong", "Basic " + workToken, "Bearer " + workToken + "x", workToken} {
		for _, path := range []string{"lease", "1/input", "1/complete", "x/y/z", ""} {
			if code, body := send(t, "POST", url+"/-/worker/"+path, lease, "Authorization", auth); code != 401 || strings.Contains(body, workToken) {
				t.Errorf(`%q, %s: send("POST", "Authorization"): %d, %s; want 401, one without %q`, auth, path, code, body, workToken)
			}
		}
		if code, _ := send(t, "GET", url+"/-/worker/1/input", "", "Authorization", auth); code != 401 {
			t.Errorf(`%q: send("GET", "", "Authorization"): %d, want 401`, auth, code)
		}
	}
	for body, want := range map[string]int{
		"":   400,
		"[]": 400,
		`{"worker":"","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1}`:                                 400,
		`{"worker":"local:me","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1}`:                         400,
		`{"worker":"w","abilities":["x"],"slots":1}`:                                                                              400,
		`{"worker":"w","abilities":[{"kind":"symcache","variant":2,"version":"2.0.0"}],"slots":1}`:                                400,
		`{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":-1}`:                               400,
		`{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":99999}`:                            400,
		`{"worker":"` + strings.Repeat("w", 200) + `","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1}`: 400,
		`{"worker":"w","abilities":[],"slots":1,"wait_seconds":-5}`:                                                               200,
		`{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":0}`:                                200,
		`{"worker":"w","abilities":[{"kind":"later"}],"slots":1}`:                                                                 400,
		`{"worker":"w","abilities":[{}` + strings.Repeat(`,{}`, wire.MaxAbilities) + `],"slots":1}`:                               400,
		strings.Repeat(" ", 70<<10): 413,
	} {
		if code, got := send(t, "POST", url+"/-/worker/lease", body); code != want {
			t.Errorf(`%.80s: send("POST"): %d, %s; want %v`, body, code, got, want)
		}
	}
	for _, path := range []string{"/-/worker", "/-/worker/", "/-/worker/0/input", "/-/worker/-1/heartbeat", "/-/worker/99999999999999999999/heartbeat", "/-/worker/1/input/x", "/-/other/lease"} {
		if code, _ := send(t, "POST", url+path, "", wire.Worker, "w", wire.Lease, "x"); code/100 != 4 {
			t.Errorf("POST %s: status %d, want 4xx", path, code)
		}
	}
	// Without a token there is no such API.
	_, url, _ = jobServer(t, "")
	for _, auth := range []string{"", "Bearer ", "Bearer x"} {
		if code, _ := send(t, "POST", url+"/-/worker/lease", lease, "Authorization", auth); code != 404 {
			t.Errorf(`%q: send("POST", "Authorization"): %d, want 404`, auth, code)
		}
	}
}

// TestJobAPIStops: waiting lease requests do not delay the shutdown of the
// server.
func TestJobAPIStops(t *testing.T) {
	waiting := make(chan string, 1)
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{
		Jobs: depot.JobOptions{Hooks: jobs.Hooks{Waiting: func(worker string) { waiting <- worker }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := New(Config{Depot: d, WorkerToken: workToken})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	answered := make(chan int, 1)
	go func() {
		code, _ := send(t, "POST", "http://"+ln.Addr().String()+"/-/worker/lease", `{"worker":"w","abilities":[{"kind":"symcache","variant":3,"version":"3.1.0"}],"slots":1,"wait_seconds":30}`)
		answered <- code
	}()
	<-waiting
	began := time.Now()
	stop()
	if code := <-answered; code != 200 {
		t.Errorf("POST lease of a server that stops: status %d, want 200", code)
	}
	if err := <-served; err != nil || time.Since(began) > 10*time.Second {
		t.Errorf("Serve ended after %v with error %v, want at once and without", time.Since(began), err)
	}
}
