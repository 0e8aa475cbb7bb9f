package server

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/index/record"
)

// appReport is a crash report of the program whose dSYM is in testdata/macho.
const appReport = `Incident Identifier: 7A1D3C02-4F55-4E0B-9A57-0F6B1D2C3E4F
Hardware Model:      Mac14,2
Process:             app-arm64 [4711]
Code Type:           ARM-64 (Native)
Date/Time:           2026-03-01 12:30:45 +0000
OS Version:          macOS 14.4 (23E214)

Exception Type:  EXC_BAD_ACCESS (SIGSEGV)
Exception Codes: KERN_INVALID_ADDRESS at 0x10
Crashed Thread:  0

Thread 0 Crashed:
0   app-arm64                     	       0x104ab0390 0x104ab0000 + 912
1   app-arm64                     	       0x104ab03b0 0x104ab0000 + 944

Binary Images:
       0x104ab0000 -        0x104ab3fff app-arm64 arm64  <4c4c441f-5555-3144-a169-abafe82da5e5> /usr/local/bin/app-arm64
`

// postForm sends a form with one file.
func (w *symbolsWorld) postForm(t *testing.T, path, field, content string) reply {
	t.Helper()
	const boundary = "--a boundary--"
	body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"sources\"\r\n\r\n[]\r\n" +
		"--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + field + "\"; filename=\"f\"\r\n\r\n" + content + "\r\n--" + boundary + "--\r\n"
	return w.send(t, "POST", path, body, `Content-Type: multipart/form-data; boundary="`+boundary+`"`)
}

// TestAppleCrashReport: a report without symbols makes a wish; when a build brings the dSYM, the wish
// becomes an arrival, and the report has functions.
func TestAppleCrashReport(t *testing.T) {
	w := newSymbolsWorld(t, depot.SymbolsOptions{}, SymbolsConfig{Wait: time.Minute}, true)
	type answer struct {
		Status      string
		CrashReason string `json:"crash_reason"`
		Details     string `json:"crash_details"`
		Stacktraces []struct {
			Requesting bool `json:"is_requesting"`
			Frames     []struct{ Status, Function, Trust string }
		}
	}
	ask := func() (a answer) {
		t.Helper()
		got := w.postForm(t, "/applecrashreport", "apple_crash_report", appReport)
		if got.status != 200 {
			t.Fatalf("status %d: %s; want 200", got.status, got.body)
		}
		if err := json.Unmarshal([]byte(got.body), &a); err != nil {
			t.Fatal(err)
		}
		if a.Status != "completed" || a.CrashReason != "EXC_BAD_ACCESS (SIGSEGV)" || a.Details != "KERN_INVALID_ADDRESS at 0x10" ||
			len(a.Stacktraces) != 1 || !a.Stacktraces[0].Requesting || len(a.Stacktraces[0].Frames) != 2 {
			t.Fatalf("%s; want one crashed thread with two frames", got.body)
		}
		return a
	}
	for i, f := range ask().Stacktraces[0].Frames {
		if f.Status != "missing" || f.Function != "" {
			t.Errorf("frame %d without symbols is %+v, want missing", i, f)
		}
	}
	arrivals := func() string {
		t.Helper()
		list, err := w.d.Arrivals.After(t.Context(), record.Scope{All: true}, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return strings.Join(ids, " ")
	}
	if got := arrivals(); got != "" {
		t.Errorf("arrivals %s before the dSYM, want none", got)
	}
	addFile(t, w.d, "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64")
	for deadline := time.Now().Add(time.Minute); arrivals() == ""; {
		if time.Now().After(deadline) {
			t.Fatal("the dSYM is no arrival after a minute")
		}
	}
	if got := arrivals(); got != "4c4c441f55553144a169abafe82da5e50" {
		t.Errorf("arrivals %q, want that of the dSYM", got)
	}
	frames := ask().Stacktraces[0].Frames
	if frames[0].Function != "work" || frames[0].Trust != "context" || frames[1].Function != "main" || frames[1].Trust != "prewalked" {
		t.Errorf("the frames with symbols are %+v, want work and main", frames)
	}
	if got := w.postForm(t, "/applecrashreport", "apple_crash_report", "no report"); got.status != 200 || !strings.Contains(got.body, `"status":"failed"`) {
		t.Errorf("no report: status %d: %s; want a failure", got.status, got.body)
	}
	if got := w.postForm(t, "/applecrashreport", "upload_file_minidump", appReport); got.status != 400 || !strings.Contains(got.body, "apple_crash_report") {
		t.Errorf("another field: status %d: %s; want 400", got.status, got.body)
	}
}

// TestStackInParts: a client that sends parts of a dump, as the script of the page does, is told what is needed, and then gets the answer
// for the whole dump.
func TestStackInParts(t *testing.T) {
	w := newLookupWorld(t)
	dump, err := os.ReadFile("../../../testdata/minidump/test_app.dmp")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/-/api/v1/stack"
	whole := askBody(w.server, "POST", path+"?name=a.dmp", string(dump), w.reader, "Content-Type: application/octet-stream")
	if whole.status != 200 || !strings.Contains(whole.body, `"meaning":"The program wrote`) {
		t.Fatalf("the whole dump: status %d: %.300s; want 200 and the meaning of the reason", whole.status, whole.body)
	}
	h := sparse.Header{Name: "a.dmp", Size: int64(len(dump)), Slices: []sparse.Range{{At: 0, Len: 512}}}
	send := func(query string) reply {
		t.Helper()
		open, _, err := sparse.Message(h, bytes.NewReader(dump))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(open())
		if err != nil {
			t.Fatal(err)
		}
		return askBody(w.server, "POST", path+query, string(text), w.reader, "Content-Type: "+sparse.MediaType)
	}
	rounds := 0
	for ; rounds <= sparse.MaxRounds; rounds++ {
		got := send("?only=need")
		var need sparse.Need
		if err := json.Unmarshal([]byte(got.body), &need); err != nil || need.Need == nil {
			t.Fatalf("round %d: status %d: %.300s; want what is needed", rounds, got.status, got.body)
		}
		if got.status == 200 && len(need.Need) == 0 {
			break
		}
		if got.status != 202 {
			t.Fatalf("round %d: status %d: %.300s; want 202", rounds, got.status, got.body)
		}
		h.Slices = append(h.Slices, need.Need...)
	}
	if got := send(""); rounds == 0 || got.status != 200 || got.body != whole.body {
		t.Errorf("after %d rounds: status %d: %.300s\nwant the answer for the whole dump: %.300s", rounds, got.status, got.body, whole.body)
	}
	for query, want := range map[string]int{"?only=all": 400, "?name=a.txt&only=need": 200, "?name=a.txt": 422} {
		if got := askBody(w.server, "POST", path+query, "no dump", w.reader, "Content-Type: application/octet-stream"); got.status != want {
			t.Errorf("%s of a text: status %d: %s; want %d", query, got.status, got.body, want)
		}
	}
}

// TestCrashPageRights: the page of a dump has the functions of files that the caller may read, and for another caller it
// is as if they did not exist.
func TestCrashPageRights(t *testing.T) {
	w := newLookupWorld(t)
	id := w.pdb.obj.DebugID
	dump := string(dumpOf(debugid.PE{TimeDateStamp: 1, SizeOfImage: 1 << 16}, id))
	form, kind := formOf(t, "x", "y")
	file := "Content-Disposition: form-data; name=\"file\"; filename=\"a.dmp\"\r\n\r\n" + dump + "\r\n"
	boundary, _, _ := strings.Cut(form, "\r\n")
	form = boundary + "\r\n" + file + form
	send := func(who string) reply {
		t.Helper()
		return askBody(w.server, "POST", "/-/crashes", form, kind, who)
	}
	if got := send(w.reader); got.status != 200 || !strings.Contains(got.body, "sum(Pair*)") || !strings.Contains(got.body, w.pdb.page()) {
		t.Errorf("the reader: status %d; want 200, the function and a link to its file:\n%s", got.status, got.body)
	}
	if got := send(w.other); got.status != 200 || strings.Contains(got.body, "sum(Pair*)") || strings.Contains(got.body, w.pdb.page()) ||
		!strings.Contains(got.body, "add hello-x64.pdb with the id "+id.Breakpad()) {
		t.Errorf("another reader: status %d; want 200, the file missing:\n%s", got.status, got.body)
	}
	if got := send("Accept: text/html"); got.status != 401 {
		t.Errorf("nobody: status %d, want 401", got.status)
	}
}
