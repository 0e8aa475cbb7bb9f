package intake

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/stage"
)

// TestRunOfEndedCredentials: what is left to do for a client whose credentials have ended
// meanwhile is not done, by this process and by the next.
func TestRunOfEndedCredentials(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		var clock atomic.Int64
		clock.Store(time.Now().UnixNano())
		var ended atomic.Bool
		s := newServer(t, func(c *Config) {
			c.Now = func() time.Time { return time.Unix(0, clock.Load()) }
			c.Still = func(_ context.Context, credential, product string) error {
				if credential != "good" || product != "Game" {
					t.Errorf("asked about %q and the product %q, want good and Game", credential, product)
				}
				if ended.Load() {
					return &stage.Refusal{Kind: stage.Forbidden, Text: "not valid any more"}
				}
				return nil
			}
		})
		files := sentryFiles{"tiny.pdb": data(t, "ppdb/tiny.pdb")}
		ask := files.request(t, "tiny.pdb")
		s.assemble(t, ask)
		s.sendChunks(t, pieces(files["tiny.pdb"])...)
		var q map[string]*assembleFile
		if err := json.Unmarshal([]byte(ask), &q); err != nil {
			t.Fatal(err)
		}
		ended.Store(true)
		if r := s.h.sentry.runs[0]; restarted { // the process ends when it has begun to assemble
			r.mu.Lock()
			r.record(s.h.sentry, runEvent{File: sha1Hex(files["tiny.pdb"]), State: stateAssembling})
			r.mu.Unlock()
			s.restart(t, true)
			clock.Add(int64(runAsleep) + int64(time.Minute))
			s.h.Expire()
		} else { // the request to assemble was the last with valid credentials
			r.begin(s.h.sentry, q)
		}
		s.h.sentry.settle(t)
		s.wantTransactions(t)
		if n := s.open(); n != 0 {
			t.Errorf("%d stages are open, want none", n)
		}
		if a := s.assemble(t, ask)[sha1Hex(files["tiny.pdb"])]; a.State != stateError || a.Detail == nil || !strings.Contains(*a.Detail, "not valid any more") {
			t.Errorf("restarted %v: the file is %+v, want an error that says why", restarted, a)
		}
	}
}

// TestRunOfEarlierVersion: a run that an earlier version began, which kept only a name, is
// ended: what its client was told to be stored is committed, and no credential goes on
// with it.
func TestRunOfEarlierVersion(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	s := newServer(t, func(c *Config) { c.Now = func() time.Time { return time.Unix(0, clock.Load()) } })
	files := sentryFiles{"tiny.pdb": data(t, "ppdb/tiny.pdb"), "hello.pdb": data(t, "pdb/hello-x64.pdb")}
	s.sendChunks(t, pieces(files["tiny.pdb"])...)
	if a := s.assemble(t, files.request(t, "tiny.pdb", "hello.pdb"))[sha1Hex(files["tiny.pdb"])]; a.State != stateOK {
		t.Fatalf("tiny.pdb is %+v, want ok", a)
	}
	path := s.h.sentry.runs[0].path
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Replace(bytes.Replace(b, []byte(`"ID":"test:good",`), nil, 1), []byte(`,"Credential":"good"`), nil, 1)
	if len(old) == len(b) || bytes.Contains(old, []byte("test:good\"")) || os.WriteFile(path, old, 0o600) != nil {
		t.Fatalf("the run cannot be changed to one of an earlier version: %s", b)
	}
	for _, f := range s.stages {
		f.caller = "name:good"
	}
	s.restart(t, true)
	clock.Add(int64(runAsleep) + int64(time.Minute))
	s.h.Expire()
	s.wantTransactions(t, "Game: tiny.pdb")
	s.wantNoState(t, runPattern)
	if n := len(s.h.sentry.runs); n != 0 {
		t.Errorf("%d runs, want none", n)
	}
}

// TestUploadsOfEarlierVersion: open uploads of an earlier version, which kept only a name,
// are not found.
func TestUploadsOfEarlierVersion(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	key := strings.Repeat("0a", keyBytes)
	for path, text := range map[string]string{
		teckenPath(s.h.service, key):                               `{"Name":"good","Product":"Game","Stage":"stage0","Limit":100,"Files":[{"Key":"a/0/a","Size":1,"MD5":""}]}` + "\n",
		newBreakpadUpload(s.h.service, key, breakpadFacts{}).facts: `{"Name":"good","Labels":{"Product":"Game"},"Limit":100}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/upload/v2/" + key + "/0", "/v1/uploads/" + key} {
		s.expect(t, http.MethodPut, path, strings.NewReader("x"), http.StatusNotFound, "no such upload")
	}
}
