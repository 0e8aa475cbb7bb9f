package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// symbolicator is a checkout of Symbolicator, whose tests have stored what it answers.
type symbolicator struct {
	dir            string
	fixtures, none string // URLs of servers with the symbols of its tests, and without any
}

const (
	nativeTests   = "crates/symbolicator-native/tests/integration/"
	endpointTests = "crates/symbolicator/src/endpoints/"
)

func (s *symbolicator) read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve starts a server with the files of a folder; "": without files.
func (s *symbolicator) serve(t *testing.T, from string) string {
	t.Helper()
	depot := filepath.Join(t.TempDir(), "depot")
	if from != "" {
		if code, _, errs := commandtest.Symdepot(t, depot, "add", "--product", "fixtures", from); code != 0 {
			t.Fatalf("add: exit code %d, want 0: %s", code, errs)
		}
	}
	return commandtest.ServeDepot(t, depot).URL
}

// symbols copies the symbol files of the tests, without the ".original" files, which Symbolicator never asks for and which have the
// same ids as others.
func (s *symbolicator) symbols(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	root := os.DirFS(filepath.Join(s.dir, "tests", "fixtures", "symbols"))
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(name, ".original") || strings.HasSuffix(name, ".md") {
			return err
		}
		b, err := fs.ReadFile(root, name)
		if err == nil {
			symtest.Put(t, to, name, b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// requests returns the JSON texts in a test function of a Rust file.
func (s *symbolicator) requests(t *testing.T, file, function string) (texts []string) {
	t.Helper()
	_, body, _ := strings.Cut(string(s.read(t, file)), "fn "+function+"(")
	body, _, _ = strings.Cut(body, "\n}\n")
	for _, m := range regexp.MustCompile(`(?s)r#"(.*?)"#`).FindAllStringSubmatch(body, -1) {
		texts = append(texts, m[1])
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no function %s with a request", file, function)
	}
	return texts
}

// symbolicateRequest is the request that the tests make of lists of modules and stack traces.
func symbolicateRequest(modules, stacktraces string) string {
	return `{"modules":` + modules + `,"stacktraces":` + stacktraces + `,"sources":[],"options":{"apply_source_context":true,"dif_candidates":true}}`
}

// ask sends a request and returns the answer. field is that of a file, "" for JSON.
func (s *symbolicator) ask(t *testing.T, url, field string, content []byte) any {
	t.Helper()
	kind, body := "application/json", bytes.NewBuffer(content)
	if field != "" {
		body = &bytes.Buffer{}
		form := multipart.NewWriter(body)
		kind = form.FormDataContentType()
		w, err := form.CreateFormFile(field, "file")
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = form.WriteField("sources", "[]")
		}
		if err != nil || form.Close() != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, text := symtest.Do(t, http.DefaultClient.Do, r)
	var answer any
	if err := json.Unmarshal([]byte(text), &answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: status %d, error %v: %.500s", url, resp.StatusCode, err, text)
	}
	return answer
}

// stored returns a stored answer.
func (s *symbolicator) stored(t *testing.T, name string) (answer any) {
	t.Helper()
	_, text, ok := strings.Cut(strings.TrimPrefix(string(s.read(t, name)), "---\n"), "\n---\n")
	if !ok {
		t.Fatalf("%s has no head", name)
	}
	if err := yaml.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return answer
}

// flatten lists the values of an answer by their places. What an answer may leave out is left out:
// empty texts, line 0, what a file cannot do, and the files that were tried, which are those of a source.
func flatten(to map[string]string, at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if k != "candidates" {
				flatten(to, at+"."+k, e)
			}
		}
	case []any:
		for i, e := range v {
			flatten(to, fmt.Sprintf("%s[%d]", at, i), e)
		}
	case float64:
		flatten(to, at, int64(v))
	default:
		text := fmt.Sprint(v)
		if n, err := strconv.ParseUint(text, 0, 64); err == nil { // with or without zeros in front
			text = fmt.Sprintf("%#x", n)
		}
		if v != nil && text != "" && text != "false" && !(text == "0x0" && strings.HasSuffix(at, ".lineno")) {
			to[at] = text
		}
	}
}

// answerCase is a stored answer, and how to get ours.
type answerCase struct {
	stored string
	ask    func(t *testing.T) any
}

// apart are the values that may differ, by the name of the stored answer and their place; and why. Each must
// occur: docs/symbols-compared.md lists them.
var apart = []struct {
	at, got, want, why string
}{
	{`minidump.*registers\.(eflags|cpsr)$`, `.`, `^$`, "the flags are registers too"},
	{`\.lang$`, `^$`, `.`, "the language is not said"},
	{`apple.*\.image_size$`, `.`, `.`, "a report has the last address of an image, not the one behind it"},
	{`apple.*\.trust$`, `^(context|prewalked)$`, `^$`, "frames of reports have a trust"},
	{`(symbolicate__|srcsrv|dotnet_windows).*has_unwind_info$`, `^$`, `true`, "unwind rules are looked for when there is a stack to walk"},
	{`srcsrv_vcs$`, `^$`, `.`, "the system of a source server is not said"},
	{`dotnet_windows_pdb.*(debug_status|has_debug_info|has_symbols)$`, `^(missing|)$`, `.`, "a PDB of native code is no file of an IL module"},
	{`minidump_macos.*debug_file$`, `/`, `^[^/]+$`, "debug files of Mach-O images are named by their paths"},
	{`source_candidates.*type$`, `elf`, `wasm`, "the test calls an ELF file WASM"},
	{`dotnet.*debug_id$`, `.`, `.`, "an id is given back as it was sent"},
	{`source_links.*(_context|context_line|source_link|has_sources)`, `^$`, `.`, "sources are not fetched from the web"},
	{`macos_broken_cfi\.snap\.frames\[[3-9]\]`, ``, ``, "no code is in the header of a Mach-O file, where two words of the stack point"},
}

// crashedThread returns the crashed thread of an answer.
func crashedThread(t *testing.T, answer any) any {
	t.Helper()
	for _, s := range answer.(map[string]any)["stacktraces"].([]any) {
		if s.(map[string]any)["is_requesting"] == true {
			return s
		}
	}
	t.Fatal("no crashed thread")
	return nil
}

func (s *symbolicator) cases() []answerCase {
	dump := func(server, name string) func(*testing.T) any {
		return func(t *testing.T) any {
			return s.ask(t, server+"/minidump", "upload_file_minidump", s.read(t, "tests/fixtures/"+name))
		}
	}
	report := func(server string) func(*testing.T) any {
		return func(t *testing.T) any {
			return s.ask(t, server+"/applecrashreport", "apple_crash_report", s.read(t, "tests/fixtures/apple_crash_report.txt"))
		}
	}
	native := func(server, file, function, pdb string) func(*testing.T) any {
		return func(t *testing.T) any {
			texts := s.requests(t, file, function)
			modules := strings.Replace(texts[0], `"wasm"`, `"elf"`, 1) // which the file is
			if pdb != "" {                                             // the text is a format of Rust
				modules = strings.NewReplacer("{{", "{", "}}", "}", "{}", pdb).Replace(modules)
			}
			return s.ask(t, server+"/symbolicate", "", []byte(symbolicateRequest(modules, texts[1])))
		}
	}
	body := func(server, file, function string) func(*testing.T) any {
		return func(t *testing.T) any {
			return s.ask(t, server+"/symbolicate", "", []byte(s.requests(t, endpointTests+file, function)[0]))
		}
	}
	snap := func(name string) string { return nativeTests + "snapshots/integration__" + name + ".snap" }
	endpoint := func(name string) string {
		return endpointTests + "snapshots/symbolicator__endpoints__" + name + ".snap"
	}
	symbolication, srcsrv := nativeTests+"symbolication.rs", nativeTests+"srcsrv.rs"
	example := func(server string) func(*testing.T) any {
		return native(server, nativeTests+"utils.rs", "example_request", "")
	}
	cases := []answerCase{
		{stored: snap("process_minidump__minidump_windows"), ask: dump(s.fixtures, "windows.dmp")},
		{stored: snap("process_minidump__minidump_attachment_download"), ask: dump(s.fixtures, "windows.dmp")},
		{stored: snap("process_minidump__minidump_macos"), ask: dump(s.fixtures, "macos.dmp")},
		{stored: snap("process_minidump__minidump_linux"), ask: dump(s.fixtures, "linux.dmp")},
		{stored: snap("process_minidump__minidump_macos_broken_cfi"), ask: func(t *testing.T) any {
			return crashedThread(t, dump(s.fixtures, "macos-no-fp.dmp")(t))
		}},
		{stored: endpoint("minidump__tests__basic"), ask: dump(s.none, "windows.dmp")},
		{stored: snap("e2e__minidump_symstore_index"), ask: func(t *testing.T) any {
			return slices.DeleteFunc(dump(s.fixtures, "windows.dmp")(t).(map[string]any)["modules"].([]any), func(m any) bool {
				return m.(map[string]any)["debug_status"] == "unused"
			})
		}},
		{stored: snap("process_apple__attachment_download"), ask: report(s.fixtures)},
		{stored: snap("symbolication__apple_crash_report"), ask: report(s.fixtures)},
		{stored: endpoint("applecrashreport__tests__basic"), ask: report(s.none)},
		{stored: snap("symbolication__add_bucket"), ask: example(s.none)},
		{stored: snap("symbolication__add_bucket-2"), ask: example(s.fixtures)},
		{stored: snap("symbolication__remove_bucket"), ask: example(s.fixtures)},
		{stored: snap("symbolication__remove_bucket-2"), ask: example(s.none)},
		{stored: snap("srcsrv__pdb_with_srcsrv"), ask: native(s.fixtures, srcsrv, "symbolicate_with_pdb", "crash_with_srcsrv.pdb")},
		{stored: snap("srcsrv__pdb_without_srcsrv"), ask: native(s.fixtures, srcsrv, "symbolicate_with_pdb", "crash.pdb")},
		{stored: endpoint("symbolicate__tests__no_dif_candidates"), ask: body(s.fixtures, "symbolicate.rs", "test_no_dif_candidates")},
		{stored: endpoint("symbolicate__tests__unknown_source_config"), ask: body(s.fixtures, "symbolicate.rs", "test_unknown_source_config")},
	}
	for _, name := range []string{
		"source_candidates", "dotnet_integration", "dotnet_windows_pdb", "dotnet_embedded_sources", "dotnet_source_links",
		"dotnet_only_source_links",
	} {
		cases = append(cases, answerCase{stored: snap("symbolication__" + name), ask: native(s.fixtures, symbolication, "test_"+name, "")})
	}
	return cases
}

// TestSymbolicator compares our answers with those that Symbolicator's own tests have stored. Not asked are those that need the
// symbol server of Microsoft, and one of a WASM module, whose functions are not read.
func TestSymbolicator(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SYMDEPOT_SYMBOLICATOR")
	if dir == "" {
		t.Skip("needs SYMDEPOT_SYMBOLICATOR (a checkout of github.com/getsentry/symbolicator)")
	}
	s := &symbolicator{dir: dir}
	s.fixtures, s.none = s.serve(t, s.symbols(t)), s.serve(t, "")
	equal, all, seen := 0, 0, make([]int, len(apart))
	explained := func(at, got, want string) bool {
		for i, a := range apart {
			if matched(a.at, at) && matched(a.got, got) && matched(a.want, want) {
				seen[i]++
				return true
			}
		}
		return false
	}
	for _, c := range s.cases() {
		want, got := map[string]string{}, map[string]string{}
		flatten(want, "", s.stored(t, c.stored))
		flatten(got, "", c.ask(t))
		if got[".status"] == "completed" && want[".status"] == "" { // the answer of a function, not of the server
			delete(got, ".status")
		}
		places := maps.Clone(want)
		maps.Copy(places, got)
		for _, at := range slices.Sorted(maps.Keys(places)) {
			all++
			if want[at] == got[at] {
				equal++
				continue
			}
			if place := filepath.Base(c.stored) + at; !explained(place, got[at], want[at]) {
				t.Errorf("%s is %q, want %q", place, got[at], want[at])
			}
		}
	}
	t.Logf("%d answers: %d of %d values are equal", len(s.cases()), equal, all)
	for i, a := range apart {
		t.Logf("%d differ: %s", seen[i], a.why)
		if seen[i] == 0 {
			t.Errorf("no value differs because %s: drop the exception", a.why)
		}
	}
}

func matched(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
