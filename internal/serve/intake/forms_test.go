package intake

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/truncate"
)

type zipFile struct {
	name string
	b    []byte
}

func zipOf(t testing.TB, files ...zipFile) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		p, err := w.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(f.b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fileForm is a form with fields, and then a file.
func fileForm(t testing.TB, fields []string, field, name string, b []byte) (body *bytes.Buffer, kind string) {
	t.Helper()
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	p, err := w.CreateFormFile(field, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return body, w.FormDataContentType()
}

const symText = "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 prog\nFUNC 1000 10 0 main\n"

const symID = "000102030405060708090A0B0C0D0E0F0"

func TestTecken(t *testing.T) {
	t.Parallel()
	pdb := data(t, "pdb/hello-x64.pdb")
	id := object(t, pdb, "hello.pdb").DebugID.Breakpad()
	elf := data(t, "elf/prog-sha1.debug")
	build := string(object(t, elf, "prog.dbg").BuildID)
	sym := zipFile{"prog/" + symID + "/prog.sym", []byte(symText)}
	for _, test := range []struct {
		what   string
		field  string
		fields []string
		files  []zipFile
		status int
		text   string
		tx     []string
	}{
		{
			"a zip of several kinds", "symbols.zip", nil,
			[]zipFile{{"hello.pdb/" + id + "/hello.pdb", pdb}, sym, {"prog/" + strings.ToUpper(build) + "/prog.dbg.gz", gzipped(t, elf)}, {"crash-symbols.txt", []byte("x")}, {"prog/.DS_Store", []byte("x")}},
			201, `"skipped_keys":[]`,
			[]string{": symbols.zip!/hello.pdb/" + id + "/hello.pdb, symbols.zip!/prog/" + symID + "/prog.sym, symbols.zip!/prog/" + strings.ToUpper(build) + "/prog.dbg"},
		},
		{"try", "symbols.ZIP", []string{"try", "1"}, []zipFile{sym}, 201, `"try_symbols":true`, []string{"try: symbols.ZIP!/" + sym.name}},
		{"not a zip by name", "symbols.tar", nil, []zipFile{sym}, 400, "must end in .zip", nil},
		{"a stray member", "a.zip", nil, []zipFile{sym, {"readme/notes.md", []byte("x")}}, 400, `unrecognized file pattern: \"readme/notes.md\"`, nil},
		{"a member that is no symbol file", "a.zip", nil, []zipFile{sym, {"prog/AB12/prog.txt", []byte("text")}}, 400, `\"prog/AB12/prog.txt\" is not a symbol file`, nil},
		{"a wrong id", "a.zip", nil, []zipFile{{"hello.pdb/AB12/hello.pdb", pdb}}, 400, "its id is " + id, nil},
		{"a wrong module", "a.zip", nil, []zipFile{{"other/" + symID + "/other.sym", []byte(symText)}}, 400, "is of the module prog", nil},
		{"dots", "a.zip", nil, []zipFile{{"../" + symID + "/prog.sym", []byte(symText)}}, 400, "unrecognized file pattern", nil},
		{"twice", "a.zip", nil, []zipFile{sym, {sym.name, []byte(symText + "\n")}}, 400, "two different files", nil},
		{"empty", "a.zip", nil, nil, 400, "no symbol file", nil},
		{"by URL", "a.zip", []string{"url", "https://x/a.zip"}, []zipFile{sym}, 201, "", []string{": a.zip!/" + sym.name}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			body, kind := fileForm(t, test.fields, test.field, test.field, zipOf(t, test.files...))
			s.expect(t, http.MethodPost, "/upload/", body, test.status, test.text, "Content-Type", kind, "Authorization", "-", "Auth-Token", "good")
			s.wantTransactions(t, test.tx...)
			if n := s.open(); n != 0 {
				t.Errorf("%d stages are open, want none", n)
			}
		})
	}
}

func TestTeckenRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	kindOf := func() (io.Reader, string) {
		return fileForm(t, nil, "a.zip", "a.zip", zipOf(t, zipFile{"prog/" + symID + "/prog.sym", []byte(symText)}))
	}
	for _, test := range []struct {
		what, token, path string
		status            int
		text              string
	}{
		{"no token", "-", "/upload/", 403, `{"error":`},
		{"bad token", "Bearer bad", "/upload/", 403, `{"error":`},
		{"no right", "Bearer reader", "/upload/", 403, `{"error":`},
		{"other product", "Bearer game", "/in/Other/upload/", 403, `{"error":`},
		{"own product", "Bearer game", "/in/Game/1.2/upload", 201, `"bucket":"Game"`},
		{"again", "Bearer game", "/in/Game/1.2/upload", 201, `"skipped_keys":["prog/` + symID + `/prog.sym"]`},
		{"auth_info", "Bearer good", "/upload/auth_info/", 200, `"upload_api_version":1`},
	} {
		b, kind := kindOf()
		s.expect(t, http.MethodPost, test.path, b, test.status, test.text, "Content-Type", kind, "Authorization", test.token)
	}
	s.wantTransactions(t, "Game 1.2 nightly: a.zip!/prog/"+symID+"/prog.sym")
	s.expect(t, http.MethodPost, "/upload/", strings.NewReader("url=https://x/a.zip"), 400, "by URL is not supported", "Content-Type", "application/x-www-form-urlencoded")
	b, kind := fileForm(t, nil, "a.zip", "a.zip", []byte("not a zip"))
	s.expect(t, http.MethodPost, "/upload/", b, 400, "not a zip", "Content-Type", kind)
}

// TestRefusedBeforeBody: what can be refused is refused before the client sends
// the body, and 100-continue is never sent.
func TestRefusedBeforeBody(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, test := range []struct {
		method, path, token string
		length              int64
		status              int
	}{
		{"POST", "/upload/", "Bearer bad", 5 << 20, 403},
		{"POST", "/in/Other/upload/", "Bearer game", 5 << 20, 403},
		{"PUT", "/in/Other/1/a.pdb", "Bearer game", 5 << 20, 403},
		{"PUT", "/a.pdb", "-", 5 << 20, 401},
		{"PUT", "/a.pdb", "Bearer good", 65 << 20, 413},
		{"PUT", "/nuget/v2/package/", "-", 5 << 20, 401},
		{"POST", "/breakpad-symbol", "Bearer good", 65 << 20, 413},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, s.URL+test.path, failingReader{t})
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = test.length
		r.Header.Set("Expect", "100-continue")
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if test.token != "-" {
			r.Header.Set("Authorization", test.token)
		}
		tr := &http.Transport{ExpectContinueTimeout: 1 << 40}
		res, err := tr.RoundTrip(r)
		if err != nil {
			t.Errorf("%s %s: %v", test.method, test.path, err)
			continue
		}
		res.Body.Close()
		tr.CloseIdleConnections()
		if res.StatusCode != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.path, res.StatusCode, test.status)
		}
	}
}

// failingReader fails the test if a body is read.
type failingReader struct{ t *testing.T }

func (f failingReader) Read([]byte) (int, error) {
	f.t.Error("the client was asked for the body")
	return 0, io.EOF
}

func TestTeckenV2(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	exe := data(t, "pdb/hello-x64.exe")
	code := object(t, exe, "hello.exe").CodeID
	sum := func(b []byte) string { m := md5.Sum(b); return hex.EncodeToString(m[:]) }
	ask := fmt.Sprintf(`{"files":[{"key":"prog/%s/prog.sym","size":%d,"md5_hash":"%s"},{"key":"hello.exe/%s/hello.exe","size":%d,"md5_hash":"%s"},{"key":"bad","size":1,"md5_hash":"%s"},{"key":"a/AB/a","size":1,"md5_hash":"x"}]}`,
		symID, len(symText), sum([]byte(symText)), code, len(exe), sum(exe), sum(nil))
	var out struct {
		Files []struct {
			Key    string
			Action struct{ Type, URL, Msg string }
		}
	}
	text := s.expect(t, http.MethodPost, "/upload/v2/", strings.NewReader(ask), http.StatusCreated, `"content_encoding":"gzip"`)
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out.Files) != 4 {
		t.Fatalf("%s: %v; want 4 files", text, err)
	}
	if out.Files[2].Action.Msg != "invalid key" || out.Files[3].Action.Msg != "invalid MD5 hex digest" {
		t.Errorf("the refused files are %+v", out.Files[2:])
	}
	// The URL is the credential.
	put := func(n int, b []byte, status int, text string, header ...string) {
		t.Helper()
		s.expect(t, http.MethodPut, out.Files[n].Action.URL, bytes.NewReader(b), status, text, append(header, "Authorization", "-")...)
	}
	s.expect(t, http.MethodPost, out.Files[0].Action.URL, nil, http.StatusCreated, "", "Authorization", "-", "X-Goog-Resumable", "start")
	put(0, gzipped(t, []byte(symText+"\n")), 400, "bytes, not", "Content-Encoding", "gzip")
	put(0, gzipped(t, []byte(strings.Replace(symText, "1000", "2000", 1))), 400, "MD5", "Content-Encoding", "gzip")
	put(0, gzipped(t, []byte(symText)), 200, "", "Content-Encoding", "gzip")
	s.wantTransactions(t, ": prog/"+symID+"/prog.sym") // whatever becomes of the other file
	put(1, append(slices.Clone(exe), 0), 400, "bytes, not")
	s.wantTransactions(t, ": prog/"+symID+"/prog.sym")
	put(1, exe, 200, "")
	s.wantTransactions(t, ": hello.exe/"+code+"/hello.exe, prog/"+symID+"/prog.sym")
	put(1, exe, 200, "") // a repeated request
	s.expect(t, http.MethodPut, s.URL+"/upload/v2/unknown/0", nil, 404, "no such upload", "Authorization", "-")
	s.expect(t, http.MethodPost, "/upload/v2/", strings.NewReader(`{"files":[`+strings.Repeat(`{},`, 1024)+`{}]}`), 400, "too many files")
	s.expect(t, http.MethodPost, "/upload/v2/", strings.NewReader(`{`), 400, "malformed JSON request body")
}

func TestBreakpadV1(t *testing.T) {
	t.Parallel()
	// The fields and their order are those that sym_upload on Linux sends.
	fields := []string{"code_file", "prog", "cpu", "x86_64", "debug_file", "prog", "debug_identifier", symID, "os", "Linux", "version", "1.2"}
	pdb := data(t, "pdb/hello-x64.pdb")
	for _, test := range []struct {
		what, path  string
		fields      []string
		field, name string
		b           []byte
		status      int
		text        string
		tx          []string
	}{
		{"a .sym", "/upload/breakpad", fields, "symbol_file", "prog.sym", []byte(symText), 200, "OK", []string{"1.2: prog"}},
		{"with product", "/in/Game/", fields, "symbol_file", "prog.sym", []byte(symText), 200, "OK", []string{"Game 1.2: prog"}},
		{"with product and version", "/in/Game/1.3", fields, "symbol_file", "prog.sym", []byte(symText), 200, "OK", []string{"Game 1.3: prog"}},
		{"field product", "/upload/breakpad", append([]string{"product", "Game"}, fields...), "symbol_file", "prog.sym", []byte(symText), 200, "OK", []string{"Game 1.2: prog"}},
		{"a wrong id", "/upload/breakpad", []string{"debug_identifier", "AB0"}, "symbol_file", "prog.sym", []byte(symText), 400, "its id is " + symID, nil},
		{"no symbols", "/upload/breakpad", nil, "symbol_file", "prog.sym", []byte("text"), 400, "not a symbol file", nil},
		{"another part", "/upload/breakpad", nil, "picture", "a.png", []byte("text"), 400, `unknown part "picture"`, nil},
		{"BugSnag dsym", "/dsym", nil, "dsym", "a.zip", zipOf(t, zipFile{"a.dSYM/hello.pdb", pdb}), 200, "OK", []string{": a.zip!/a.dSYM/hello.pdb"}},
		{"BugSnag soFile", "/ndk-symbol?product=App", nil, "soFile", "libprog.so", data(t, "elf/libprog.so"), 200, "OK", []string{"App: libprog.so"}},
		{"BugSnag breakpad", "/breakpad-symbol?api_key=good", nil, "symbol_file", "prog.sym", []byte(symText), 200, "OK", []string{": prog.sym"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			body, kind := fileForm(t, test.fields, test.field, test.name, test.b)
			s.expect(t, http.MethodPost, test.path, body, test.status, test.text, "Content-Type", kind)
			s.wantTransactions(t, test.tx...)
		})
	}
	t.Run("keys", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		for _, test := range []struct {
			path   string
			fields []string
			status int
		}{
			{"/upload/breakpad", nil, 401},
			{"/upload/breakpad?key=bad", nil, 401},
			{"/upload/breakpad?key=good", nil, 200},
			{"/dsym", []string{"apiKey", "good"}, 401}, // bugsnag-cli sends it behind the file, and /t/TOKEN counts
			{"/breakpad-symbol?api_key=bad", nil, 401},
			{"/breakpad-symbol?api_key=reader", nil, 403},
			{"/breakpad-symbol?api_key=good", nil, 200},
			{"/in/Other?key=game", nil, 403},
		} {
			body, kind := fileForm(t, test.fields, "file", "prog.sym", []byte(symText))
			s.expect(t, http.MethodPost, test.path, body, test.status, "", "Content-Type", kind, "Authorization", "-")
		}
	})
	t.Run("raw", func(t *testing.T) {
		t.Parallel()
		s := newServer(t)
		s.expect(t, http.MethodPost, "/upload/backtrace", strings.NewReader(symText), http.StatusTeapot, "not an upload")
		s.expect(t, http.MethodPost, "/in/Game/1", strings.NewReader(symText), 400, "multipart")
		s.wantTransactions(t)
	})
}

func TestBreakpadV2(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	base := s.URL + "/in/Game/1.2"
	other := false // whether the product has other bytes with the id of what is uploaded next
	upload := func(key string, b []byte, complete string, status int, text string) {
		t.Helper()
		created := s.expect(t, http.MethodPost, base+"/v1/uploads:create?key="+key, nil, 200, `"uploadUrl": "`, "Authorization", "-")
		// The clients look for the name, a colon, one space and the value.
		url := after(t, created, `"uploadUrl": "`)
		upKey := after(t, created, `"uploadKey": "`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, struct{ io.Reader }{bytes.NewReader(b)}) // chunked
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			if status != res.StatusCode {
				t.Errorf("PUT: status %d, want %d", res.StatusCode, status)
			}
		}
		gotStatus, got, h := s.do(t, http.MethodPost, base+"/v1/uploads/"+upKey+":complete?key="+key, strings.NewReader(complete), "Authorization", "-", "Content-Type", "application/son")
		if gotStatus != status || !strings.Contains(got, text) {
			t.Errorf("complete: status %d, %q; want %d with %q", gotStatus, got, status, text)
		}
		if warned := strings.HasPrefix(h.Get("Warning"), `299 - "the product had other bytes with the same id`); warned != other {
			t.Errorf("complete: Warning %q, want one about other bytes: %v", h.Get("Warning"), other)
		}
		if status != 200 && strings.Contains(got, `"result"`) {
			t.Errorf("a refusal has the member result: %s, want none", got)
		}
	}
	check := func(path, want string) {
		t.Helper()
		s.expect(t, http.MethodGet, base+path+"?key=good", nil, 200, want, "Authorization", "-")
	}
	loose := `{ symbol_id: {debug_file: "prog", debug_id: "` + symID + `" }, symbol_upload_type: "BREAKPAD" }`
	check("/v1/symbols/prog/"+symID+":checkStatus", `"status": "MISSING"`)
	upload("good", []byte(symText), loose, 200, `"result": "OK"`)
	upload("good", []byte(symText), loose, 200, `"result": "DUPLICATE_DATA"`)
	other = true
	upload("good", []byte(symText+"PUBLIC 9000 0 another\n"), loose, 200, `"result": "OK"`) // no duplicate: both are kept
	other = false
	upload("good", []byte(symText), strings.Replace(loose, symID, "AB120", 1), 400, "its id is "+symID)
	upload("good", []byte(symText), strings.Replace(loose, `"prog"`, `"other"`, 1), 400, "is of the module prog")
	upload("good", []byte("text"), loose, 400, "")
	upload("game", data(t, "pdb/hello-x64.pdb"), `{"symbol_id":{"debug_file":"C:\\build\\hello.pdb","debug_id":"`+object(t, data(t, "pdb/hello-x64.pdb"), "hello.pdb").DebugID.Breakpad()+`"}}`, 200, `"result": "OK"`)
	// The client may have the file with debug information, which is not there.
	check("/v1/symbols/prog/"+symID+":checkStatus", `"status": "MISSING"`)
	s.wantTransactions(t, "Game 1.2: prog, prog", "Game 1.2 nightly: hello.pdb")
	s.expect(t, http.MethodPost, base+"/v1/uploads:create", nil, 401, "", "Authorization", "-")
	s.expect(t, http.MethodPost, s.URL+"/in/Other/v1/uploads:create?key=game", nil, 403, "", "Authorization", "-")
	s.expect(t, http.MethodPost, base+"/v1/uploads/nokey:complete?key=good", nil, 404, "no such upload", "Authorization", "-")
}

func after(t *testing.T, text, mark string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, mark)
	v, _, ok2 := strings.Cut(rest, `"`)
	if !ok || !ok2 {
		t.Fatalf("%q lacks %q", text, mark)
	}
	return v
}

// TestBreakpadFound: FOUND is answered only if nothing that the client may have
// is missing, and what is found enters the caller's transaction.
func TestBreakpadFound(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pdb := data(t, "pdb/hello-x64.pdb")
	id := object(t, pdb, "hello.pdb").DebugID
	sym := "MODULE windows x86_64 " + id.Breakpad() + " hello.pdb\nFUNC 1000 10 0 main\n"
	for _, f := range []zipFile{{"hello.pdb", pdb}, {"hello.sym", []byte(sym)}} {
		body, kind := fileForm(t, nil, "symbol_file", f.name, f.b)
		s.expect(t, http.MethodPost, "/in/Game/1", body, 200, "OK", "Content-Type", kind)
	}
	s.expect(t, http.MethodGet, "/in/Game/2/v1/symbols/hello.pdb/"+id.Breakpad()+":checkStatus", nil, 200, `"status": "FOUND"`)
	s.wantTransactions(t, "Game 1: hello.pdb, hello.sym", "Game 2: hello.pdb, hello.pdb.sym")
}

func nupkg(t testing.TB, id, version string, files ...zipFile) []byte {
	spec := `<?xml version="1.0" encoding="utf-8"?><package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd"><metadata><id>` + id + `</id><version>` + version + `</version></metadata></package>`
	return zipOf(t, append([]zipFile{{"[Content_Types].xml", []byte("<Types/>")}, {id + ".nuspec", []byte(spec)}, {"_rels/.rels", []byte("<r/>")}}, files...)...)
}

func TestNuGet(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dll, pdb := data(t, "pdb/hello-x64.exe"), data(t, "pdb/hello-x64.pdb")
	push := func(path, name string, b []byte, status int, text string, header ...string) {
		t.Helper()
		body, kind := fileForm(t, nil, "package", name, b)
		got, answer, h := s.do(t, http.MethodPut, path, struct{ io.Reader }{body}, append([]string{"Content-Type", kind, "Authorization", "-", "X-NuGet-ApiKey", "good"}, header...)...)
		if got != status || !strings.Contains(answer, text) {
			t.Errorf("PUT %s: status %d, %q; want %d with %q", path, got, answer, status, text)
		}
		if status >= 400 && h.Get("Warning") == "" {
			t.Errorf("PUT %s: %d without Warning", path, got)
		}
	}
	index := s.expect(t, http.MethodGet, "/in/Lib/nuget/v3/index.json", nil, 200, "", "Authorization", "-")
	for _, want := range []string{`"version":"3.0.0"`, `{"@id":"` + s.URL + `/in/Lib/nuget/v2/package","@type":"PackagePublish/2.0.0"}`, `{"@id":"` + s.URL + `/in/Lib/nuget/v2/symbolpackage","@type":"SymbolPackagePublish/4.9.0"}`} {
		if !strings.Contains(index, want) {
			t.Errorf("the index %s lacks %s", index, want)
		}
	}
	push("/nuget/v2/package/", "package.nupkg", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.dll", dll}), 201, "")
	// The same package again, then its symbols.
	push("/nuget/v2/package", "package.nupkg", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.dll", dll}), 201, "")
	push("/nuget/v2/symbolpackage/", "package.nupkg", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.pdb", pdb}), 201, "")
	s.wantTransactions(t, "Hello 1.0.0: Hello.1.0.0.nupkg!/lib/net8.0/hello-x64.dll", "Hello 1.0.0: Hello.1.0.0.snupkg!/lib/net8.0/hello-x64.pdb")
	push("/nuget/v2/symbolpackage/", "p", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.pdb", pdb}), 201, "")
	s.wantTransactions(t, "Hello 1.0.0: Hello.1.0.0.nupkg!/lib/net8.0/hello-x64.dll", "Hello 1.0.0: Hello.1.0.0.snupkg!/lib/net8.0/hello-x64.pdb")
	s.mu.Lock()
	for _, tx := range s.txs {
		if tx.Comment != "NuGet package Hello 1.0.0" {
			t.Errorf("the comment of a pushed package is %q, want its id and version", tx.Comment)
		}
	}
	s.mu.Unlock()
	// Symbols of another build.
	push("/nuget/v2/symbolpackage/", "p", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.pdb", data(t, "pdb/hello-x86.pdb")}), 400, "was built with the PDB "+object(t, pdb, "hello.pdb").DebugID.Breakpad())
	// Other bytes of the same PDB.
	other := append(bytes.Clone(pdb), make([]byte, 4096)...)
	push("/api/v2/package/", "p", nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.pdb", other}), 409, "other bytes")
	for _, test := range []struct {
		what   string
		b      []byte
		status int
		text   string
	}{
		{"no zip", []byte("x"), 400, "not a zip"},
		{"no nuspec", zipOf(t, zipFile{"lib/a.pdb", pdb}), 400, "no .nuspec"},
		{"no symbols", nupkg(t, "Empty", "1.0.0", zipFile{"content/a.txt", []byte("x")}), 400, "no symbol file"},
		{"no id", nupkg(t, "", "1.0.0", zipFile{"lib/a.pdb", pdb}), 400, "id in the .nuspec"},
		{"dots", nupkg(t, "..", "1.0.0", zipFile{"lib/a.pdb", pdb}), 400, "id in the .nuspec"},
		{"path out", nupkg(t, "A", "1.0.0", zipFile{"lib/../../a.pdb", pdb}), 400, "not safe as a path"},
		{"a damaged archive inside", nupkg(t, "B", "1.0.0", zipFile{"tools/x.zip", []byte("PK\x03\x04 not")}, zipFile{"lib/b.pdb", pdb}), 201, ""},
	} {
		t.Log(test.what)
		push("/nuget/v2/package/", "p", test.b, test.status, test.text)
	}
	good := nupkg(t, "Hello", "1.0.0", zipFile{"lib/net8.0/hello-x64.dll", dll})
	push("/nuget/v2/package/", "p", good, 401, "", "X-NuGet-ApiKey", "-")
	push("/nuget/v2/package/", "p", good, 403, "", "X-NuGet-ApiKey", "bad")
	push("/nuget/v2/package/", "p", good, 403, "", "X-NuGet-ApiKey", "reader")
	push("/in/Other/nuget/v2/package/", "p", good, 403, "", "X-NuGet-ApiKey", "game")
	push("/nuget/v2/package/Hello/1.0.0", "p", nil, 404, "")
	s.expect(t, http.MethodDelete, "/nuget/v2/package/Hello/1.0.0", nil, 403, "")
	s.expect(t, http.MethodPost, "/nuget/v2/package/Hello/1.0.0", nil, 404, "")
}

// TestNuGetOfMono sends what NuGet 2.8.7 sends under Mono, byte for byte: the line end in
// front of the closing boundary is that of the system, and nothing follows.
func TestNuGetOfMono(t *testing.T) {
	t.Parallel()
	const boundary = "---------------------------8df49e0d9ca5da0"
	pdb := data(t, "pdb/hello-x64.pdb")
	body := func(pkg []byte, end string) []byte {
		return slices.Concat([]byte("--"+boundary+"\r\nContent-Disposition: form-data; name=\"package\"; filename=\"package\"\r\nContent-Type: application/octet-stream\r\n\r\n"), pkg, []byte(end))
	}
	pkg := nupkg(t, "Old", "1.0.0", zipFile{"lib/net40/hello-x64.pdb", pdb})
	for _, test := range []struct {
		what, end string
		status    int
	}{
		{"of Mono", "\n--" + boundary + "--", 201},
		{"of Mono, with a line end", "\n--" + boundary + "--\n", 201},
		{"of Windows", "\r\n--" + boundary + "--\r\n", 201},
		{"cut short", "\n--" + boundary, 400},
		{"more behind it", "\n--" + boundary + "--more", 400},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.HalfReader, iotest.DataErrReader} {
				s.expect(t, http.MethodPut, "/nuget/v2/package/", pieces(bytes.NewReader(body(pkg, test.end))), test.status, "",
					"Content-Type", "multipart/form-data; boundary="+boundary, "Authorization", "-", "X-NuGet-ApiKey", "good")
			}
			var want []string
			if test.status == 201 {
				want = []string{"Old 1.0.0: Old.1.0.0.nupkg!/lib/net40/hello-x64.pdb"}
			}
			s.wantTransactions(t, want...)
		})
	}
}

// TestFormEnd: a body keeps its bytes but for the missing carriage return, in whatever
// pieces it comes.
func TestFormEnd(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"--B\r\n\r\nx\n--B--":                   "--B\r\n\r\nx\r\n--B--",
		"--B\r\n\r\nx\n--B--\n":                 "--B\r\n\r\nx\r\n--B--",
		"--B\r\n\r\nx\r\n--B--\r\n":             "",
		"--B\r\n\r\nx\n--B--\n\r\n--B--":        "", // of the content
		"--B\r\n\r\nx\n--B-- end of it":         "",
		"\n--B--":                               "",
		"":                                      "",
		strings.Repeat("x", 40<<10) + "\n--B--": strings.Repeat("x", 40<<10) + "\r\n--B--",
	} {
		for _, pieces := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			got, err := io.ReadAll(iotest.OneByteReader(newFormEnd(pieces(strings.NewReader(in)), "B")))
			if want := cmp.Or(want, in); err != nil || string(got) != want {
				t.Errorf("%.40q: %.60q, %v; want %.60q", in, got, err, want)
			}
		}
	}
	cut := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("ab")))
	if got, err := io.ReadAll(newFormEnd(cut, "B")); string(got) != "a" || !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a body that is cut: %q, %v; want what has come, and the error", got, err)
	}
}

// TestNuGetChecksum: a portable PDB must be the very one that its image names, not
// only one with its id.
func TestNuGetChecksum(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(symtest.Material(t), "public/npm/fable")
	files := map[string][]byte{}
	for _, n := range []string{"Fable.Cli.dll", "Fable.Cli.pdb"} {
		b, err := os.ReadFile(filepath.Join(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		files[n] = b
	}
	s := newServer(t)
	push := func(path string, b []byte, status int, text string) {
		t.Helper()
		body, kind := fileForm(t, nil, "package", "package.nupkg", b)
		s.expect(t, http.MethodPut, path, body, status, text, "Content-Type", kind, "Authorization", "-", "X-NuGet-ApiKey", "good")
	}
	changed := bytes.Clone(files["Fable.Cli.pdb"])
	changed[len(changed)-1] ^= 1 // not in the id
	dll, pdb := zipFile{"lib/Fable.Cli.dll", files["Fable.Cli.dll"]}, zipFile{"lib/Fable.Cli.pdb", files["Fable.Cli.pdb"]}
	push("/nuget/v2/package/", nupkg(t, "Both", "1.0.0", dll, zipFile{"lib/Fable.Cli.pdb", changed}), 400, "has the checksum SHA256:")
	s.wantTransactions(t)
	push("/nuget/v2/package/", nupkg(t, "Apart", "1.0.0", dll), 201, "")
	push("/nuget/v2/symbolpackage/", nupkg(t, "Apart", "1.0.0", zipFile{"lib/Fable.Cli.pdb", changed}), 400, "was built with a PDB of SHA256:")
	push("/nuget/v2/symbolpackage/", nupkg(t, "Apart", "1.0.0", pdb), 201, "")
	push("/nuget/v2/package/", nupkg(t, "Both", "1.0.0", dll, pdb), 201, "")
}

func TestPyroscope(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	elf := data(t, "elf/prog-sha1.debug")
	id := string(object(t, elf, "prog").BuildID)
	base := "/" + pyroscopeService
	js := []string{"Content-Type", "application/json", "X-Scope-OrgID", "Game"}
	ask := `{"file":{"gnuBuildId":"` + id + `","name":"/usr/bin/prog.debug","type":1}}`
	s.expect(t, http.MethodPost, base+"/Upload/"+id, bytes.NewReader(elf), 412, `"failed_precondition"`, js...)
	s.expect(t, http.MethodPost, base+"/UploadFinished", strings.NewReader(`{"gnuBuildId":"`+id+`"}`), 412, `"failed_precondition"`, js...)
	s.expect(t, http.MethodPost, base+"/ShouldInitiateUpload", strings.NewReader(ask), 200, `"shouldInitiateUpload":true`, js...)
	s.expect(t, http.MethodPost, base+"/Upload/"+id, bytes.NewReader(data(t, "elf/e-arm")), 400, `"invalid_argument"`, js...)
	s.expect(t, http.MethodPost, base+"/Upload/"+id, bytes.NewReader(elf), 200, "{}", js...)
	s.expect(t, http.MethodPost, base+"/UploadFinished", strings.NewReader(`{"gnuBuildId":"`+id+`"}`), 200, "{}", js...)
	// Another client was told to send it before the first had sent it.
	s.expect(t, http.MethodPost, base+"/Upload/"+id, bytes.NewReader(elf), 200, "{}", js...)
	s.expect(t, http.MethodPost, base+"/UploadFinished", strings.NewReader(`{"gnuBuildId":"`+id+`"}`), 200, "{}", js...)
	s.wantTransactions(t, "Game: prog.debug")
	s.expect(t, http.MethodPost, base+"/ShouldInitiateUpload", strings.NewReader(strings.Replace(ask, "gnuBuildId", "gnu_build_id", 1)), 200, `"shouldInitiateUpload":false`, "Content-Type", "application/json", "X-Scope-OrgID", "Other")
	s.wantTransactions(t, "Game: prog.debug", "Other: prog.debug")
	for _, test := range []struct {
		path, body string
		status     int
		text       string
		header     []string
	}{
		{"/ShouldInitiateUpload", `{"file":{}}`, 200, `"shouldInitiateUpload":false`, js},
		{"/ShouldInitiateUpload", `{"file":{"gnuBuildId":"zz"}}`, 400, `"invalid_argument"`, js},
		{"/ShouldInitiateUpload", `{`, 400, `"invalid_argument"`, js},
		{"/ShouldInitiateUpload", ask, 400, "malformed", []string{"Content-Type", "application/proto"}},
		{"/ShouldInitiateUpload", "\x0a\x02\x0a\x09", 400, "no message", []string{"Content-Type", "application/proto"}},
		{"/ShouldInitiateUpload", ask, 415, "gRPC is not supported", []string{"Content-Type", "application/grpc"}},
		{"/ShouldInitiateUpload", ask, 401, `"unauthenticated"`, []string{"Authorization", "-"}},
		{"/ShouldInitiateUpload", ask, 403, `"permission_denied"`, []string{"Authorization", "Bearer reader"}},
		{"/ListDebuginfo", `{}`, 501, `"unimplemented"`, js},
		{"/Upload/..", ``, 400, `"invalid_argument"`, js},
	} {
		s.expect(t, http.MethodPost, base+test.path, strings.NewReader(test.body), test.status, test.text, test.header...)
	}
}

// TestPyroscopeBinary sends what Pyroscope's generated client sends by itself, byte for
// byte: field numbers and lengths in front of texts.
func TestPyroscopeBinary(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	elf := data(t, "elf/prog-sha1.debug")
	id := string(object(t, elf, "prog").BuildID)
	base := "/" + pyroscopeService
	header := []string{"Content-Type", "application/proto", "X-Scope-OrgID", "Game"}
	ask := "\x0a\x37\x0a\x28" + id + "\x22\x09prog.next\x28\x02"
	s.expect(t, http.MethodPost, base+"/UploadFinished", strings.NewReader("\x0a\x28"+id), 412, `"failed_precondition"`, header...)
	if got, want := s.expect(t, http.MethodPost, base+"/ShouldInitiateUpload", strings.NewReader(ask), 200, "", header...), "\x08\x01\x12\x2fthe build-id has no file with debug information"; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	s.expect(t, http.MethodPost, base+"/Upload/"+id, bytes.NewReader(elf), 200, "{}", "X-Scope-OrgID", "Game")
	if got := s.expect(t, http.MethodPost, base+"/UploadFinished", strings.NewReader("\x0a\x28"+id), 200, "", header...); got != "" {
		t.Errorf("the answer is %q, want an empty message", got)
	}
	if got := s.expect(t, http.MethodPost, base+"/ShouldInitiateUpload", strings.NewReader(ask), 200, "", header...); !strings.HasPrefix(got, "\x08\x00\x12") {
		t.Errorf("the answer is %q, want no, and why", got)
	}
	s.wantTransactions(t, "Game: prog.next")
	s.expect(t, http.MethodPost, base+"/ShouldInitiateUpload", strings.NewReader(""), 200, "\x08\x00\x12", header...) // a file without an id
}

func TestLooseMember(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{ symbol_id: {debug_file: "prog", debug_id: "AB0" }, x: "y" }`: "prog",
		`{"symbol_id":{"debug_file":"a\\b.pdb"}}`:                       `a\b.pdb`,
		`{"other_debug_file":"no"}`:                                     "",
		`debug_file: "x`:                                                "",
		``:                                                              "",
	} {
		if got := looseMember([]byte(in), "debug_file"); got != want {
			t.Errorf("looseMember(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestHostileZip: archives that lie or expand are refused with a sentence, in
// bounded memory.
func TestHostileZip(t *testing.T) {
	t.Parallel()
	var many bytes.Buffer
	w := zip.NewWriter(&many)
	for i := range 100_000 {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("m/%06x/f", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good := zipOf(t, zipFile{"prog/" + symID + "/prog.sym", []byte(symText)})
	lie := bytes.Clone(good)
	// The size in the central directory is a lie.
	i := bytes.LastIndex(lie, []byte("PK\x01\x02"))
	copy(lie[i+24:], []byte{0xff, 0xff, 0xff, 0x7f})
	crc := bytes.Clone(good)
	crc[i+16] ^= 1
	for _, test := range []struct {
		what string
		b    []byte
		text string
	}{
		{"100,000 empty members", many.Bytes(), "symbol file"},
		{"a lie about the size", lie, "too big when unpacked"},
		{"a wrong checksum", crc, "prog.sym"},
		{"a bomb", zipOf(t, zipFile{"prog/" + symID + "/prog.sym", append([]byte(symText), make([]byte, 2<<20)...)}), "prog.sym"},
		{"cut", good[:len(good)-10], "cut short"},
	} {
		s := newServer(t)
		if test.what == "a bomb" {
			s.limit.Store(1 << 20)
		}
		body, kind := fileForm(t, nil, "a.zip", "a.zip", test.b)
		s.expect(t, http.MethodPost, "/upload/", body, 400, test.text, "Content-Type", kind)
		s.wantTransactions(t)
		if n := s.h.spooled.Load(); n != 0 {
			t.Errorf("%s: %d bytes are left", test.what, n)
		}
	}
}

// displaced returns a package whose directory says a wrong place of the member name.
func displaced(t testing.TB, name string) []byte {
	t.Helper()
	b := nupkg(t, "A", "1.0.0", zipFile{name, data(t, "ppdb/tiny.pdb")})
	at := bytes.LastIndex(b, []byte(name)) - 46 // its entry in the directory (APPNOTE section 4.3.12)
	if at < 0 || string(b[at:at+4]) != "PK\x01\x02" {
		t.Fatalf("the package has no entry of %q in its directory", name)
	}
	b[at+42]++
	return b
}

// TestNuGetNames: a name in a package moves no cursor of whoever reads the answer, and
// leaves the header Warning valid (Go's client drops an answer with control characters
// in a header).
func TestNuGetNames(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, name := range []string{"\x18\x1b[2lib/a.pdb", "lib/\xff\x7f.pdb", "lib/\u202egnp.pdb", "lib/gr\u00f6\u00dfe.pdb", "a\r\nSet-Cookie: x=y/a.pdb"} {
		body, kind := fileForm(t, nil, "package", "a.nupkg", displaced(t, name))
		status, text, h := s.do(t, http.MethodPut, "/nuget/v2/package", body, "Content-Type", kind)
		if status != 400 || !strings.Contains(text, "no member where the directory says") || !truncate.Printable(strings.TrimSuffix(text, "\n")) {
			t.Errorf("%q: status %d, %q; want 400 and a reason that is printable", name, status, text)
		}
		w := h.Get("Warning")
		if !strings.Contains(w, "no member where the directory says") || strings.ContainsFunc(w, func(r rune) bool { return r < 0x20 || r > 0x7e }) || strings.Count(w, `"`) != 2 {
			t.Errorf("%q: Warning %q; want the reason, with 0x20 to 0x7e only, in one pair of quotes", name, w)
		}
		if len(h["Set-Cookie"]) > 0 {
			t.Errorf("%q: the answer has a header of the package: %q", name, h)
		}
	}
}
