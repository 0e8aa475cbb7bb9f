package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

func TestMain(m *testing.M) {
	if crash.IsChild(os.Args) {
		os.Exit(crash.RunChild(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// dumpOf is a minidump of a thread for x64 that crashed in the function sum of a module, which the
// function entry had called. The module is hello-x64.exe with these ids.
func dumpOf(code debugid.PE, id debugid.ID) []byte {
	le := binary.LittleEndian
	const base, sp = 0x140000000, 0x10000
	b := make([]byte, 32+4*12)
	le.PutUint32(b, 0x504d444d)
	le.PutUint32(b[4:], 0xa793)
	le.PutUint32(b[8:], 4)
	le.PutUint32(b[12:], 32)
	at := func(content []byte) uint32 {
		b = append(b, content...)
		return uint32(len(b) - len(content))
	}
	stream := func(i int, kind uint32, content []byte) {
		rva := at(content)
		for k, v := range []uint32{kind, uint32(len(content)), rva} {
			le.PutUint32(b[32+12*i+4*k:], v)
		}
	}
	registers := make([]byte, 1232)
	le.PutUint32(registers[0x30:], 0x10000b)
	le.PutUint64(registers[0x98:], sp)
	le.PutUint64(registers[0xf8:], base+0x1004)
	registersAt := at(registers)
	stack := le.AppendUint64(nil, base+0x1015)
	stack = append(stack, make([]byte, 256)...)
	stackAt := at(stack)
	name := le.AppendUint32(nil, 2*13)
	for _, c := range "hello-x64.exe" {
		name = le.AppendUint16(name, uint16(c))
	}
	nameAt := at(append(name, 0, 0))
	guid := id.GUID.Microsoft()
	record := le.AppendUint32(append([]byte("RSDS"), guid[:]...), id.Age)
	record = append(record, "hello-x64.pdb\x00"...)
	recordAt := at(record)
	system := make([]byte, 56)
	le.PutUint16(system, 9)
	le.PutUint32(system[20:], 2)
	stream(0, 7, system)
	thread := make([]byte, 4+48)
	le.PutUint32(thread, 1)
	le.PutUint32(thread[4:], 7)
	le.PutUint64(thread[28:], sp)
	le.PutUint32(thread[36:], uint32(len(stack)))
	le.PutUint32(thread[40:], stackAt)
	le.PutUint32(thread[44:], uint32(len(registers)))
	le.PutUint32(thread[48:], registersAt)
	stream(1, 3, thread)
	module := make([]byte, 4+108)
	le.PutUint32(module, 1)
	le.PutUint64(module[4:], base)
	le.PutUint32(module[12:], code.SizeOfImage)
	le.PutUint32(module[20:], code.TimeDateStamp)
	le.PutUint32(module[24:], nameAt)
	le.PutUint32(module[4+76:], uint32(len(record)))
	le.PutUint32(module[4+80:], recordAt)
	stream(2, 4, module)
	exception := make([]byte, 168)
	le.PutUint32(exception, 7)
	le.PutUint32(exception[8:], 0xc0000005)
	le.PutUint64(exception[24:], base+0x1004)
	le.PutUint32(exception[160:], uint32(len(registers)))
	le.PutUint32(exception[164:], registersAt)
	stream(3, 6, exception)
	return b
}

// formOf is the body of POST /minidump and its type.
func formOf(t *testing.T, fields ...string) (string, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return body.String(), "Content-Type: " + form.FormDataContentType()
}

// working does the jobs of a depot until the test ends.
func working(t *testing.T, g *guarded) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.d.Work(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// TestMinidumpRights: the stack of a dump, with the PDB and the program, which has no unwind rules for leaf functions,
// for a caller who may read them. For another caller all is as if the files did not exist.
func TestMinidumpRights(t *testing.T) {
	g := newGuarded(t, demand, Config{Symbols: SymbolsConfig{Wait: time.Minute}})
	working(t, g)
	code, err := debugid.ParsePE(g.oursExe.obj.CodeID)
	if err != nil {
		t.Fatal(err)
	}
	ours := g.oursPDB.obj.DebugID
	other := ours
	other.GUID[0]++ // the ids of files that do not exist
	otherCode := code
	otherCode.TimeDateStamp++
	send := func(token string, b []byte) string {
		t.Helper()
		body, kind := formOf(t, "upload_file_minidump", string(b))
		r := askBody(g.s, "POST", "/minidump", body, kind, bearer(token))
		if r.status != 200 {
			t.Fatalf("status %d, want 200: %s", r.status, r.body)
		}
		return r.body
	}
	var found symbolicate.NativeAnswer
	if err := json.Unmarshal([]byte(send(g.ours, dumpOf(code, ours))), &found); err != nil {
		t.Fatal(err)
	}
	if found.Status != "completed" || len(found.Stacktraces) != 1 || len(found.Stacktraces[0].Frames) < 2 || len(found.Modules) != 1 {
		t.Fatalf("%+v, want a stack of two frames, and a module", found)
	}
	f, m := found.Stacktraces[0].Frames, found.Modules[0]
	if f[0].Function != "sum(Pair*)" || f[0].Trust != "context" || f[1].Function != "entry()" || f[1].Trust != "scan" || f[0].Lineno == 0 ||
		m.DebugStatus != "found" || m.UnwindStatus != "missing" || found.CrashReason != "EXCEPTION_ACCESS_VIOLATION / 0x140001004" {
		t.Errorf("frames %+v, module %+v, reason %q; want sum and entry, and no unwind rules", f, m, found.CrashReason)
	}
	hidden := send(g.theirs, dumpOf(code, ours))
	none := send(g.theirs, dumpOf(otherCode, other))
	for was, is := range map[string]string{
		other.String(): ours.String(), other.Breakpad(): ours.Breakpad(), otherCode.String(): code.String(),
		strings.ToLower(otherCode.String()): strings.ToLower(code.String()),
	} {
		none = strings.ReplaceAll(none, was, is)
	}
	if hidden != none || !strings.Contains(hidden, `"debug_status":"missing","unwind_status":"missing"`) || strings.Contains(hidden, "sum(") {
		t.Errorf("hidden files:\n%s\nfiles that do not exist:\n%s\nwant the same, both missing", hidden, none)
	}
}

// TestMinidumpForms: forms that are not as they should be, polling, and dumps that cannot be read.
func TestMinidumpForms(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	working(t, g)
	scratch := g.d.Symbols.Scratch
	dump, err := os.ReadFile("../../../testdata/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	good, kind := formOf(t, "sources", `[{"id":"x"}]`, "upload_file_minidump", string(dump), "rewrite_first_module", "[]")
	for what, c := range map[string]struct {
		method, path, body, kind string
		status                   int
		want                     string
	}{
		"a dump":       {"POST", "/minidump", good, kind, 200, `"status":"completed"`},
		"a scope":      {"POST", "/minidump?scope=1&timeout=60", good, kind, 200, `"status":"completed"`},
		"no form":      {"POST", "/minidump", string(dump), "Content-Type: application/octet-stream", 400, "not a multipart form"},
		"no end":       {"POST", "/minidump", good[:len(good)/2], kind, 400, `"title"`},
		"GET":          {"GET", "/minidump", "", "", 405, "use POST"},
		"bad time":     {"POST", "/minidump?timeout=x", good, kind, 400, "timeout takes a number"},
		"no request":   {"GET", "/requests/0123456789abcdef0123456789abcdef", "", "", 404, "no such request"},
		"POST request": {"POST", "/requests/0123456789abcdef0123456789abcdef", "x", "", 405, "use GET"},
	} {
		headers := []string{bearer(g.all)}
		if c.kind != "" {
			headers = append(headers, c.kind)
		}
		if r := askBody(g.s, c.method, c.path, c.body, headers...); r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: status %d, %.300s; want %d, %s", what, r.status, r.body, c.status, c.want)
		}
	}
	for what, b := range map[string]string{"text": "no dump at all", "cut off": string(dump[:100]), "nothing": ""} {
		body, kind := formOf(t, "upload_file_minidump", b)
		if r := askBody(g.s, "POST", "/minidump", body, kind, bearer(g.all)); r.status != 200 || !strings.Contains(r.body, `{"status":"failed","message":"`) {
			t.Errorf("%s: status %d, %.300s; want 200, failed", what, r.status, r.body)
		}
	}
	if r := askBody(g.s, "POST", "/minidump", good, kind); r.status != 401 {
		t.Errorf("without credentials: status %d, want 401", r.status)
	}
	large, largeKind := formOf(t, "upload_file_minidump", string(slices.Concat(dump, make([]byte, 9<<20))))
	if r := askBody(g.s, "POST", "/minidump", large, largeKind, bearer(g.all)); r.status != 200 || !strings.Contains(r.body, `"status":"completed"`) {
		t.Errorf("a large dump: status %d, %.300s; want 200, completed", r.status, r.body)
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "symdepot-identify-*")); scratch != "" && len(left) > 0 {
		t.Errorf("%q are left of dumps, want nothing", left)
	}
}

// TestMinidumpPending: a client that does not wait asks again, and nobody else gets its answer, which is
// given once.
func TestMinidumpPending(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	working(t, g)
	ts := httptest.NewServer(g.s)
	defer ts.Close()
	dump, err := os.ReadFile("../../../testdata/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	body, kind := formOf(t, "upload_file_minidump", string(dump))
	send := func(method, path, body, token string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", strings.TrimPrefix(kind, "Content-Type: "))
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b.String()
	}
	var pending pendingDump
	for pending.Status != "pending" { // the dump may be walked before the server looks
		status, text := send("POST", "/minidump?timeout=0", body, g.all)
		if err := json.Unmarshal([]byte(text), &pending); status != 200 || err != nil {
			t.Fatalf("status %d, %s; want 200", status, text)
		}
	}
	if status, text := send("GET", "/requests/"+pending.RequestID, "", g.theirs); status != 404 {
		t.Errorf("another client: status %d, %s; want 404", status, text)
	}
	if status, text := send("GET", "/requests/"+pending.RequestID+"?timeout=60", "", g.all); status != 200 || !strings.Contains(text, `"status":"completed"`) {
		t.Errorf("the client: status %d, %.300s; want 200, completed", status, text)
	}
	if status, text := send("GET", "/requests/"+pending.RequestID, "", g.all); status != 404 {
		t.Errorf("again: status %d, %s; want 404", status, text)
	}
}

// TestStoredAnswers: the answers that wait for their clients take a limited number of bytes. The oldest go first, those of the client
// that has too much before those of others.
func TestStoredAnswers(t *testing.T) {
	t.Parallel()
	m := &minidumps{results: map[string]*dumpResult{}, bytesOf: map[string]int64{}}
	began := time.Now()
	n := 0
	put := func(client string, bytes int) *dumpResult {
		t.Helper()
		n++
		res := &dumpResult{id: fmt.Sprint(n), client: client, began: began.Add(time.Duration(n)), answer: strings.Repeat("x", bytes-2)} // and the quotes
		m.results[res.id] = res
		if err := m.store(res); err != nil {
			t.Fatal(err)
		}
		return res
	}
	check := func(what string, stored int64, kept ...*dumpResult) {
		t.Helper()
		var sum int64
		for _, n := range m.bytesOf {
			sum += n
		}
		if m.stored != stored || sum != stored || len(m.results) != len(kept) {
			t.Errorf("%s: %d bytes are stored, %d of the clients, in %d answers; want %d in %d", what, m.stored, sum, len(m.results), stored, len(kept))
		}
		for _, res := range kept {
			if !m.kept(res) {
				t.Errorf("%s: answer %s is gone", what, res.id)
			}
		}
	}
	const mib = 1 << 20
	walking := &dumpResult{id: "walking", client: "a", began: began} // has no answer yet
	m.results[walking.id] = walking
	other := put("b", mib)
	first, second := put("a", 10*mib), put("a", 6*mib)
	check("within the share", 17*mib, walking, other, first, second)
	third := put("a", mib)
	check("more than the share", 8*mib, walking, other, second, third)
	if text, err := third.answer.(storedAnswer).AppendJSON(nil); err != nil || len(text) != mib || text[0] != '"' {
		t.Errorf("the answer has %d bytes, %v; want 1 MiB of JSON", len(text), err)
	}
	huge := put("a", 40*mib)
	check("one that is larger than a share", 41*mib, walking, other, huge)
	c, d := put("c", 14*mib), put("d", 9*mib)
	check("all", 64*mib, walking, other, huge, c, d)
	e := put("e", mib)
	check("more than all", 64*mib, walking, huge, c, d, e)
	if m.kept(other) {
		t.Error("the oldest is kept")
	}
	if long := put("f", 65*mib); !strings.Contains(string(long.answer.(storedAnswer)), `"status":"failed"`) {
		t.Errorf("an answer of 65 MiB is %.100s, want that it is too long", long.answer)
	}
	for _, res := range m.results {
		m.forget(res)
		m.forget(res)
	}
	check("all forgotten", 0)
}

// TestMinidumpWaits: if the client asks for the answer later, the server waits for files that a request could not wait for, and walks the
// dump again.
func TestMinidumpWaits(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, demand, Config{Symbols: SymbolsConfig{Wait: time.Millisecond}})
	code, err := debugid.ParsePE(g.oursExe.obj.CodeID)
	if err != nil {
		t.Fatal(err)
	}
	body, kind := formOf(t, "upload_file_minidump", string(dumpOf(code, g.oursPDB.obj.DebugID)))
	// Nobody makes the files: without a second request, that is the answer.
	now := askBody(g.s, "POST", "/minidump", body, kind, bearer(g.ours))
	if now.status != 200 || !strings.Contains(now.body, `"debug_status":"timeout"`) {
		t.Fatalf("status %d, %s; want that the PDB is not there in time", now.status, now.body)
	}
	var pending pendingDump
	r := askBody(g.s, "POST", "/minidump?timeout=0", body, kind, bearer(g.ours))
	if err := json.Unmarshal([]byte(r.body), &pending); err != nil || pending.Status != "pending" {
		t.Fatalf("status %d, %s; want that it is pending", r.status, r.body)
	}
	working(t, g) // now somebody makes them
	var a symbolicate.NativeAnswer
	for a.Status != "completed" {
		r := askBody(g.s, "GET", "/requests/"+pending.RequestID+"?timeout=60", "", bearer(g.ours))
		if err := json.Unmarshal([]byte(r.body), &a); err != nil || r.status != 200 {
			t.Fatalf("status %d, %s; want the answer", r.status, r.body)
		}
	}
	if f := a.Stacktraces[0].Frames; len(f) < 2 || f[0].Function != "sum(Pair*)" || a.Modules[0].DebugStatus != "found" {
		t.Errorf("frames %+v, module %+v; want the functions", f, a.Modules[0])
	}
}
