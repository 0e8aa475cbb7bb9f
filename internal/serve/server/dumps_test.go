package server

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// TestKeptDumps: dumps that are sent whole are kept, whichever way they come, for administrators: nobody else lists, reads or
// deletes one, and what they do is recorded. After its time a dump is gone, with its bytes.
func TestKeptDumps(t *testing.T) {
	begun := time.Now()
	var later atomic.Int64 // what the clock is ahead
	now := func() time.Time { return begun.Add(time.Duration(later.Load())) }
	d := openDepot(t, depot.Options{KeepDumps: time.Hour, Now: now})
	addAs(t, d, "ours", "hello-x64.pdb", readFile(t, "pdb/hello-x64.pdb"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Work(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	admin, reader := bearer(store.add(t, "admin", nil, "admin")), bearer(store.add(t, "reader", nil, "read"))
	gate, err := auth.New(auth.Config{Policy: demand, Now: now}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	var recorded []auth.Event
	a, p := webOf(d, web.Config{Record: func(e auth.Event) error { recorded = append(recorded, e); return nil }})
	s := newServer(t, Config{Depot: d, Gate: gate, API: a, Pages: p, Symbols: SymbolsConfig{Wait: time.Minute}})
	dump := string(readFile(t, "minidump/test_app.dmp"))
	form, kind := formOf(t, "upload_file_minidump", dump)
	if r := askBody(s, "POST", "/minidump", form, kind, reader); r.status != 200 || !strings.Contains(r.body, "completed") {
		t.Fatalf("POST /minidump: status %d: %.300s", r.status, r.body)
	}
	var stacks wire.Stacks
	r := askBody(s, "POST", "/-/api/v1/stack?name=b.dmp", dump, reader, "Content-Type: application/octet-stream")
	if err := json.Unmarshal([]byte(r.body), &stacks); err != nil || r.status != 200 || stacks.Kept == nil || stacks.Kept.Name != "b.dmp" || stacks.Kept.Who != "reader" ||
		!stacks.Kept.Until.Equal(stacks.Kept.Time.Add(time.Hour)) {
		t.Fatalf("POST stack: status %d, kept %+v, want b.dmp of reader for an hour: %.300s", r.status, stacks.Kept, r.body)
	}
	for _, none := range []string{"no dump", dump[:100]} { // what cannot be walked is not kept
		askBody(s, "POST", "/-/api/v1/stack?name=c.dmp", none, reader, "Content-Type: application/octet-stream")
	}
	var list struct{ Items []wire.KeptDump }
	listed := func() int {
		t.Helper()
		r := ask(s, "GET", "/-/api/v1/crashes", admin)
		list.Items = nil
		if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 {
			t.Fatalf("the list: status %d: %s", r.status, r.body)
		}
		return len(list.Items)
	}
	if n := listed(); n != 2 || list.Items[0] != *stacks.Kept || list.Items[1].Name != "upload_file_minidump" || list.Items[1].Key == "" ||
		list.Items[1].Reason != "EXCEPTION_ACCESS_VIOLATION_WRITE" || list.Items[1].Size != int64(len(dump)) {
		t.Errorf("%d dumps are listed: %+v; want both, the newest first", n, list.Items)
	}
	one := "/-/api/v1/crashes/" + stacks.Kept.ID
	for _, c := range []struct{ method, path string }{
		{"GET", "/-/api/v1/crashes"}, {"GET", one}, {"DELETE", one}, {"POST", one + "/stack"}, {"POST", "/-/crashes/" + stacks.Kept.ID}, {"POST", "/-/crashes/" + stacks.Kept.ID + "/delete"},
	} {
		if r := ask(s, c.method, c.path, reader); r.status != 403 || strings.Contains(r.body, "MDMP") {
			t.Errorf("%s %s of a reader: status %d: %.200s; want 403", c.method, c.path, r.status, r.body)
		}
		if r := ask(s, c.method, c.path); r.status != 401 {
			t.Errorf("%s %s of nobody: status %d, want 401", c.method, c.path, r.status)
		}
	}
	if len(recorded) != 0 {
		t.Errorf("recorded %+v before somebody did something", recorded)
	}
	if r := ask(s, "GET", one, admin); r.status != 200 || r.body != dump || r.header.Get("Content-Disposition") != "attachment; filename=b.dmp" {
		t.Errorf("the dump: status %d, %d bytes, %v; want the dump", r.status, len(r.body), r.header)
	}
	again := ask(s, "POST", one+"/stack", admin)
	var more wire.Stacks
	if err := json.Unmarshal([]byte(again.body), &more); err != nil || again.status != 200 || more.Key != stacks.Key || more.Kept == nil || more.Kept.ID != stacks.Kept.ID {
		t.Errorf("the stacks: status %d: %.300s; want those of the dump", again.status, again.body)
	}
	if r := ask(s, "GET", "/-/crashes", admin); r.status != 200 || !strings.Contains(r.body, "b.dmp") || !strings.Contains(r.body, `action="/-/crashes/`+stacks.Kept.ID+`/delete"`) {
		t.Errorf("the page: status %d, want the list\n%s", r.status, r.body)
	}
	if r := ask(s, "GET", "/-/crashes", reader); r.status != 200 || strings.Contains(r.body, "b.dmp") || !strings.Contains(r.body, "is kept for 1 h") {
		t.Errorf("the page of a reader: status %d, want no list, and for how long dumps are kept\n%s", r.status, r.body)
	}
	if r := ask(s, "DELETE", one, admin); r.status != 204 || listed() != 1 {
		t.Errorf("delete: status %d, %d dumps left; want 204 and one", r.status, len(list.Items))
	}
	if r := ask(s, "GET", one, admin); r.status != 404 {
		t.Errorf("the deleted dump: status %d, want 404", r.status)
	}
	var did []string
	for _, e := range recorded {
		if e.Who != "admin" || e.Action != auth.ActionDump || e.ID != stacks.Kept.ID || e.Name != "b.dmp" {
			t.Errorf("recorded %+v, want the dump and who", e)
		}
		did = append(did, e.Detail)
	}
	if got := strings.Join(did, " "); got != "read stack delete" {
		t.Errorf("recorded %s, want read stack delete", got)
	}
	// The bytes of the other one, which are the same, are still there; then its time is over.
	other := "/-/api/v1/crashes/" + list.Items[0].ID
	if r := ask(s, "GET", other, admin); r.body != dump {
		t.Errorf("the other dump: status %d, %d bytes; want it", r.status, len(r.body))
	}
	later.Store(int64(time.Hour))
	if r := ask(s, "GET", other, admin); r.status != 404 {
		t.Errorf("after its time: status %d, want 404", r.status)
	}
	if err := d.Dumps.Sweep(t.Context(), now()); err != nil || listed() != 0 {
		t.Errorf("after the sweep: %d dumps, error %v; want none", len(list.Items), err)
	}
	v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("the check finds %+v", f) }, func(int64) {})
	if err != nil || v.Strays > 0 {
		t.Errorf("the check: %+v, error %v; want no bytes that are left", v, err)
	}
}

// readFile reads a file of testdata.
func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
