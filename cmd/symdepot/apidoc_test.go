package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// example is a command of docs/api.md, and the answer that stands below it.
type example struct {
	line     int
	command  string
	language string // of the answer: json, csv or text; empty: there is none
	answer   string
}

// apiExamples returns the commands of docs/api.md.
func apiExamples(t *testing.T) (list []example) {
	t.Helper()
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		language, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			continue
		}
		from := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		block := strings.Join(lines[from:i], "\n")
		switch {
		case language == "sh":
			list = append(list, example{line: from, command: block})
		case len(list) == 0 || list[len(list)-1].language != "":
			t.Fatalf("docs/api.md:%d: an answer without a command", from)
		default:
			list[len(list)-1].language, list[len(list)-1].answer = language, block
		}
	}
	return list
}

// TestAPIExamples runs the commands of docs/api.md against the real server, and compares
// the answers: the real one has all that the document shows.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "jq", "openssl", "sh"} {
		symtest.Tool(t, tool)
	}
	dir := t.TempDir()
	srv, token := serveExamples(t, dir)
	list := apiExamples(t)
	if len(list) < 20 || !strings.Contains(list[0].command, "api() {") {
		t.Fatalf("%d commands in docs/api.md, the first is %q; want at least 20, and the definition of api", len(list), list[0].command)
	}
	define := list[0].command + "\nURL=" + srv.URL + " TOKEN=" + token + "\n"
	was := map[string]string{} // what the server says in place of what the document says
	for _, e := range list[1:] {
		command := e.command
		for document, real := range was {
			command = strings.ReplaceAll(command, document, real)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", define+command)
		cmd.Dir = dir
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if refused := strings.Contains(e.answer, "urn:symdepot:problem:"); refused == (err == nil) {
			t.Errorf("docs/api.md:%d: %v, %s%s; want an error: %v", e.line, err, out.String(), errs.String(), refused)
			continue
		}
		if e.language == "" && out.Len() > 0 {
			t.Errorf("docs/api.md:%d: the document shows no answer, but there is one: %s", e.line, out.String())
		}
		if why := compareAnswer(e, out.String(), was); why != "" {
			t.Errorf("docs/api.md:%d: %s\n%s", e.line, why, out.String())
		}
	}
}

// serveExamples serves a depot with what docs/api.md tells of.
func serveExamples(t *testing.T, dir string) (*commandtest.Serving, string) {
	t.Helper()
	env := map[string]string{"SYMDEPOT_DEPOT": filepath.Join(dir, "depot"), "PATH": os.Getenv("PATH"), "HOME": dir}
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := commandtest.Symdepot(t, env["SYMDEPOT_DEPOT"], args...)
		if code != 0 {
			t.Fatalf("symdepot %s: exit %d, want 0: %s", args[0], code, errs)
		}
		return out
	}
	run("add", "-p", "Game", "-v", "1.0", "../../testdata/pdb/hello-x64.exe", "../../testdata/pdb/hello-x64.pdb")
	run("add", "-p", "Game", "-v", "1.1", "../../testdata/pdb/hello-x86.exe", "../../testdata/pdb/hello-x64.pdb")
	token := strings.TrimSpace(run("token", "new", "--name", "boss", "--scope", "admin"))
	for name, text := range map[string]string{
		"app.sym":    "MODULE Linux x86_64 000000000000000000000000000000A10 app\nPUBLIC 1000 0 main\n",
		"app.dmp":    string(symtest.Testdata(t, "minidump/test_app.dmp")),
		"policy.yml": "retention:\n  classes:\n    - {name: release}\n    - {name: nightly, keep_last: 1}\n  default: nightly\n  min_age: 0d\n  trash: 7d\n",
		"windbg.log": "SYMSRV:  HTTPGET: /hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E2/hello-x64.pdb\nSYMSRV:  HttpQueryInfo: 404 - HTTP_STATUS_NOT_FOUND\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func() *commandtest.Serving {
		t.Helper()
		srv, err := commandtest.StartServe(func(k string) string { return env[k] }, dir, "--auth")
		if err != nil {
			t.Fatal(err)
		}
		return srv
	}
	// A server that stops stores what clients did not get.
	srv := start()
	for range 2 {
		commandtest.Sends(t, "GET", srv.URL+"/missing.pdb/0123456789ABCDEF0123456789ABCDEF1/missing.pdb", token, "", nil, 404, "")
	}
	if err := srv.Stop(); err != nil {
		t.Fatalf("serve: %v\n%s", err, srv.Log.String())
	}
	srv = start()
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, srv.Log.String())
		}
	})
	return srv, token
}

// varies are the members whose texts and numbers are other ones in each depot and on each
// machine.
var varies = map[string]bool{
	"request": true, "who": true, "by": true, "created_by": true, "host": true, "path": true, "hash": true, "policy": true, "day": true,
	"frees": true, "frees_now": true, "own": true, "shared": true, "alone": true, "live": true, "bytes": true, "url": true,
}

// compareAnswer says what of the answer in the document the real one does not have. It
// records in was what replaces members that vary.
func compareAnswer(e example, real string, was map[string]string) string {
	switch e.language {
	case "json":
		var want, have any
		if err := json.Unmarshal([]byte(e.answer), &want); err != nil {
			return "the answer in the document is not JSON: " + err.Error()
		}
		if err := json.Unmarshal([]byte(real), &have); err != nil {
			return "the real answer is not JSON: " + err.Error()
		}
		return lacks("", "", want, have, was)
	case "":
		return ""
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	if times.ReplaceAllString(strings.TrimSpace(e.answer), "TIME") != times.ReplaceAllString(strings.TrimSpace(strings.ReplaceAll(real, "\r", "")), "TIME") {
		return "the answer is another one than\n" + e.answer
	}
	return ""
}

// lacks says which part of want is not in have; "" if all of it is. at is the place, name
// the name of the member.
func lacks(at, name string, want, have any, was map[string]string) string {
	switch want := want.(type) {
	case map[string]any:
		h, _ := have.(map[string]any)
		for k, v := range want {
			x, ok := h[k]
			if !ok {
				return fmt.Sprintf("%s.%s is missing", at, k)
			}
			if why := lacks(at+"."+k, k, v, x, was); why != "" {
				return why
			}
		}
		return ""
	case []any:
		h, _ := have.([]any)
		for i, v := range want { // in their order; others may stand between them
			why := fmt.Sprintf("%s[%d] is missing", at, i)
			for len(h) > 0 && why != "" {
				why = lacks(fmt.Sprintf("%s[%d]", at, i), name, v, h[0], was)
				h = h[1:]
			}
			if why != "" {
				return why
			}
		}
		return ""
	case string:
		h, ok := have.(string)
		_, isTime := time.Parse(time.RFC3339, want)
		_, haveTime := time.Parse(time.RFC3339, h)
		switch {
		case ok && want == h, isTime == nil && haveTime == nil:
			return ""
		case ok && (name == "plan" || name == "token" || name == "id" && len(want) == len(h)) && h != "":
			was[want] = h
			return ""
		case ok && varies[name] && h != "":
			return ""
		}
	case float64:
		if h, ok := have.(float64); ok && (want == h || varies[name] && want != 0) {
			return ""
		}
	default:
		if want == have {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, not %v", at, have, want)
}
