package intake

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/stage"
)

// chunkForm is a body of chunks as sentry-cli sends it: each a part of its own
// with its SHA-1 as file name.
func chunkForm(t testing.TB, coding string, chunks ...[]byte) (body *bytes.Buffer, contentType string) {
	t.Helper()
	body = new(bytes.Buffer)
	w := multipart.NewWriter(body)
	for _, c := range chunks {
		field := "file"
		sum := sha1Hex(c)
		if coding == "gzip" {
			field = "file_gzip"
			c = gzipped(t, c)
		}
		p, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="%s"; filename="%s"`, field, sum)},
			"Content-Type":        {"application/octet-stream"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return body, w.FormDataContentType()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sentryFiles is what a test uploads, by name. A file is cut into pieces of at
// most 4 KiB, which the server must accept: it checks only the largest size.
type sentryFiles map[string][]byte

func pieces(b []byte) [][]byte {
	var list [][]byte
	for len(b) > 4096 {
		list, b = append(list, b[:4096]), b[4096:]
	}
	return append(list, b)
}

func (f sentryFiles) request(t testing.TB, names ...string) string {
	t.Helper()
	q := map[string]assembleFile{}
	for _, n := range names {
		a := assembleFile{Name: n}
		for _, p := range pieces(f[n]) {
			a.Chunks = append(a.Chunks, sha1Hex(p))
		}
		if n != "wrong.txt" {
			a.DebugID = object(t, f[n], n).DebugID.String()
		}
		q[sha1Hex(f[n])] = a
	}
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const (
	optionsPath  = "/api/0/organizations/acme/chunk-upload/"
	assemblePath = "/api/0/projects/acme/Game/files/difs/assemble/"
)

// assemble sends an assemble request and returns the states by SHA-1.
func (s *server) assemble(t *testing.T, body string, header ...string) map[string]assembled {
	t.Helper()
	status, text, _ := s.do(t, http.MethodPost, assemblePath, strings.NewReader(body), header...)
	var out map[string]assembled
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK {
		t.Fatalf("assemble: status %d, %s (%v); want 200", status, text, err)
	}
	return out
}

func TestSentryRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := sentryFiles{"hello.pdb": data(t, "pdb/hello-x64.pdb"), "hello.exe": data(t, "pdb/hello-x64.exe")}
	var options map[string]any
	if err := json.Unmarshal([]byte(s.expect(t, http.MethodGet, optionsPath, nil, http.StatusOK, `"sha1"`)), &options); err != nil {
		t.Fatal(err)
	}
	if options["url"] != s.URL+optionsPath || options["maxFileSize"] != float64(s.limit.Load()) || options["chunkSize"] != float64(8<<20) {
		t.Errorf("options: %v; want this server's URL, its limit and chunks of 8 MiB", options)
	}
	ask := files.request(t, slices.Sorted(maps.Keys(files))...)
	out := s.assemble(t, ask)
	for name, b := range files {
		a := out[sha1Hex(b)]
		if a.State != "not_found" || len(a.Missing) == 0 || len(a.Missing) > len(pieces(b)) {
			t.Errorf("first answer for %s: %+v; want not_found and its chunks", name, a)
		}
	}
	if got := s.open(); got != 1 {
		t.Errorf("%d open stages, want 1", got)
	}
	for i, name := range []string{"hello.pdb", "hello.exe"} {
		for part := range slices.Chunk(pieces(files[name]), 60) {
			body, kind := chunkForm(t, []string{"gzip", ""}[i], part...)
			s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
		}
	}
	out = s.assemble(t, ask)
	for name, b := range files {
		a := out[sha1Hex(b)]
		if a.State != "ok" || a.Missing == nil || a.DIF == nil || a.DIF.Name != name || a.DIF.CPU == "" || a.DIF.DebugID == "" {
			t.Errorf("second answer for %s: %+v; want ok", name, a)
		}
	}
	s.wantTransactions(t, "Game: hello.exe, hello.pdb")
	if n := s.h.spooled.Load(); n != 0 {
		t.Errorf("%d bytes of chunks are left, want none", n)
	}
	if n := len(s.h.sentry.runs); n != 0 {
		t.Errorf("%d runs are left, want none", n)
	}
	// A rerun sends nothing and makes no second transaction.
	puts := s.puts
	out = s.assemble(t, ask)
	for name, b := range files {
		if a := out[sha1Hex(b)]; a.State != "ok" || a.DIF == nil {
			t.Errorf("rerun, %s: %+v; want ok", name, a)
		}
	}
	if s.puts != puts {
		t.Errorf("the rerun stored %d files, want none", s.puts-puts)
	}
	s.wantTransactions(t, "Game: hello.exe, hello.pdb")
	// A run with one more file has all of them in its transaction, also those
	// that were there.
	files["tiny.pdb"] = data(t, "ppdb/tiny.pdb")
	ask = files.request(t, slices.Sorted(maps.Keys(files))...)
	out = s.assemble(t, ask)
	if a := out[sha1Hex(files["hello.pdb"])]; a.State != "ok" {
		t.Errorf("hello.pdb: %+v; want ok", a)
	}
	body, kind := chunkForm(t, "gzip", pieces(files["tiny.pdb"])...)
	s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	if a := s.assemble(t, files.request(t, "tiny.pdb"))[sha1Hex(files["tiny.pdb"])]; a.State != "ok" {
		t.Errorf("tiny.pdb: %+v; want ok", a)
	}
	s.wantTransactions(t, "Game: hello.exe, hello.pdb", "Game: hello.exe, hello.pdb, tiny.pdb")
}

// TestSentryWrong uploads files that are refused beside one that is kept.
func TestSentryWrong(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	files := sentryFiles{"hello.pdb": data(t, "pdb/hello-x64.pdb"), "wrong.txt": []byte("no symbols in here"), "liar.pdb": data(t, "pdb/hello-x86.pdb")}
	ask := strings.Replace(files.request(t, "hello.pdb", "wrong.txt", "liar.pdb"), object(t, files["liar.pdb"], "liar.pdb").DebugID.String(), "00000000-1111-2222-3333-444444444444-1", 1)
	s.assemble(t, ask)
	for _, b := range files {
		body, kind := chunkForm(t, "gzip", pieces(b)...)
		s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	}
	out := s.assemble(t, ask)
	for name, want := range map[string]string{"wrong.txt": "not a symbol file", "liar.pdb": "does not have the id 00000000-1111-2222-3333-444444444444-1; its id is "} {
		if a := out[sha1Hex(files[name])]; a.State != "error" || a.Detail == nil || !strings.Contains(*a.Detail, want) {
			t.Errorf("%s: %+v; want an error with %q", name, a, want)
		}
	}
	if a := out[sha1Hex(files["hello.pdb"])]; a.State != "ok" {
		t.Errorf("hello.pdb: %+v; want ok", a)
	}
	s.wantTransactions(t, "Game: hello.pdb")

	// Chunks of another file under the SHA-1 of this one.
	exe, lie := data(t, "pdb/hello-x86.exe"), data(t, "pdb/hello-arm64.exe")
	q := map[string]assembleFile{sha1Hex(exe): {Name: "x.exe"}}
	for _, p := range pieces(lie) {
		e := q[sha1Hex(exe)]
		e.Chunks = append(e.Chunks, sha1Hex(p))
		q[sha1Hex(exe)] = e
	}
	b, _ := json.Marshal(q)
	s.assemble(t, string(b))
	body, kind := chunkForm(t, "", pieces(lie)...)
	s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	if a := s.assemble(t, string(b))[sha1Hex(exe)]; a.State != "error" || a.Detail == nil || !strings.Contains(*a.Detail, "SHA-1") {
		t.Errorf("a file of other chunks: %+v; want an error about its SHA-1", a)
	}
	// A commit that fails keeps nothing, and no file is ok.
	s.fail = &stage.Refusal{Kind: stage.Quota, Text: "the quota of Game is used up"}
	ask = sentryFiles{"x.exe": exe}.request(t, "x.exe")
	s.assemble(t, ask)
	body, kind = chunkForm(t, "", pieces(exe)...)
	s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	if a := s.assemble(t, ask)[sha1Hex(exe)]; a.State != "error" || a.Detail == nil || !strings.Contains(*a.Detail, "quota of Game is used up") {
		t.Errorf("a commit above the quota: %+v; want an error", a)
	}
	s.wantTransactions(t, "Game: hello.pdb")
}

// TestSentryAge: sentry-cli gives a PDB the age of the program beside it. The file is stored, and
// the answer has the file's own id. Another GUID stays wrong.
func TestSentryAge(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pdb := data(t, "pdb/hello-x64.pdb")
	id := object(t, pdb, "hello.pdb").DebugID
	claimed := id
	claimed.Age = 26
	files := sentryFiles{"hello.pdb": pdb}
	ask := strings.Replace(files.request(t, "hello.pdb"), id.String(), claimed.String(), 1)
	if !strings.Contains(ask, claimed.String()) {
		t.Fatalf("%s: want the id %s in it", ask, claimed)
	}
	for part := range slices.Chunk(pieces(pdb), 60) {
		body, kind := chunkForm(t, "gzip", part...)
		s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	}
	for _, run := range []string{"first run", "rerun"} {
		if a := s.assemble(t, ask)[sha1Hex(pdb)]; a.State != "ok" || a.DIF == nil || a.DIF.DebugID != id.String() {
			t.Errorf("%s: %+v; want ok with the id %s", run, a, id)
		}
	}
	s.wantTransactions(t, "Game: hello.pdb")
}

// TestSentryShelves: a chunk of one principal is not there for another.
func TestSentryShelves(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := data(t, "ppdb/tiny.pdb")
	files := sentryFiles{"tiny.pdb": b}
	body, kind := chunkForm(t, "", pieces(b)...)
	s.expect(t, http.MethodPost, optionsPath, body, http.StatusOK, "", "Content-Type", kind)
	if a := s.assemble(t, files.request(t, "tiny.pdb"), "Authorization", "Bearer game")[sha1Hex(b)]; a.State != "not_found" {
		t.Errorf("for another principal: %+v; want not_found", a)
	}
	// All chunks are there: ok at the first call.
	if a := s.assemble(t, files.request(t, "tiny.pdb"))[sha1Hex(b)]; a.State != "ok" {
		t.Errorf("with all chunks: %+v; want ok", a)
	}
}

func TestSentryRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tiny := data(t, "ppdb/tiny.pdb")
	form := func(coding string, change func(string) string) (string, string) {
		body, kind := chunkForm(t, coding, tiny)
		return change(body.String()), kind
	}
	same := func(s string) string { return s }
	plain, plainKind := form("", func(s string) string { return strings.Replace(s, sha1Hex(tiny), sha1Hex([]byte("x")), 1) })
	name, nameKind := form("", func(s string) string { return strings.Replace(s, `name="file"`, `name="other"`, 1) })
	bad, badKind := form("", func(s string) string { return strings.Replace(s, sha1Hex(tiny), "../../etc/passwd", 1) })
	cut, cutKind := form("", func(s string) string { return s[:len(s)-40] })
	coded, codedKind := form("", func(s string) string { return strings.Replace(s, `name="file"`, `name="file_gzip"`, 1) })
	ok, okKind := form("", same)
	bomb, bombKind := chunkForm(t, "gzip", make([]byte, chunkSize+1))
	many, manyKind := chunkForm(t, "", slices.Repeat([][]byte{tiny}, 65)...)
	sum := strings.Repeat("a", 40)
	for _, test := range []struct {
		what, method, path, body, token, kind string
		status                                int
		text                                  string
	}{
		{"no token", "GET", optionsPath, "", "-", "", 401, `{"detail":`},
		{"bad token", "GET", optionsPath, "", "Bearer bad", "", 401, `{"detail":`},
		{"no right", "GET", optionsPath, "", "Bearer reader", "", 403, `{"detail":`},
		{"other product", "POST", strings.Replace(assemblePath, "Game", "Other", 1), `{"` + sum + `":{}}`, "Bearer game", "", 200, `"not_found"`},
		{"info", "GET", "/api/0/", "", "Bearer good", "", 200, `"project:write"`},
		{"regions", "GET", "/api/0/users/me/regions/", "", "Bearer good", "", 404, `{"detail":`},
		{"source maps", "POST", "/api/0/organizations/acme/artifactbundle/assemble/", "{}", "Bearer good", "", 400, "source maps are not kept here"},
		{"releases", "POST", "/api/0/organizations/acme/releases/", "{}", "Bearer good", "", 404, "not part of this server"},
		{"empty assemble", "POST", assemblePath, "{}", "Bearer good", "", 200, "{}"},
		{"no JSON", "POST", assemblePath, "{", "Bearer good", "", 400, "malformed JSON"},
		{"null", "POST", assemblePath, `{"` + sum + `":null}`, "Bearer good", "", 400, "not the SHA-1 of a file"},
		{"upper case", "POST", assemblePath, `{"` + strings.ToUpper(sum) + `":{}}`, "Bearer good", "", 400, "not the SHA-1 of a file"},
		{"bad chunk", "POST", assemblePath, `{"` + sum + `":{"chunks":["../x"]}}`, "Bearer good", "", 400, "not the SHA-1 of a chunk"},
		{"poll of an unknown file", "POST", assemblePath, `{"` + sum + `":{"name":"a"}}`, "Bearer good", "", 200, `"not_found"`},
		{"huge JSON", "POST", assemblePath, strings.Repeat(" ", maxAssemble+1), "Bearer good", "", 413, "larger than"},
		{"chunk", "POST", optionsPath, ok, "Bearer good", okKind, 200, ""},
		{"empty form", "POST", optionsPath, "--x--\r\n", "Bearer good", "multipart/form-data; boundary=x", 200, ""},
		{"wrong SHA-1", "POST", optionsPath, plain, "Bearer good", plainKind, 400, `{"error":`},
		{"other part", "POST", optionsPath, name, "Bearer good", nameKind, 400, "neither file nor file_gzip"},
		{"path as SHA-1", "POST", optionsPath, bad, "Bearer good", badKind, 400, "not a SHA-1"},
		{"cut form", "POST", optionsPath, cut, "Bearer good", cutKind, 400, "damaged"},
		{"not gzip", "POST", optionsPath, coded, "Bearer good", codedKind, 400, "Content-Encoding"},
		{"bomb", "POST", optionsPath, bomb.String(), "Bearer good", bombKind, 400, "Chunk size too large"},
		{"too many", "POST", optionsPath, many.String(), "Bearer good", manyKind, 400, "Too many chunks"},
		{"no form", "POST", optionsPath, "x", "Bearer good", "text/plain", 400, "multipart/form-data"},
		{"zip checksums", "GET", "/api/0/projects/acme/Game/files/dsyms/unknown/?checksums=" + sum, "", "Bearer good", "", 200, `{"missing":["` + sum + `"]}`},
		{"bad checksum", "GET", "/api/0/projects/acme/Game/files/dsyms/unknown/?checksums=x", "", "Bearer good", "", 400, "not a SHA-1"},
	} {
		status, text, h := s.do(t, test.method, test.path, strings.NewReader(test.body), "Authorization", test.token, "Content-Type", test.kind)
		if status != test.status || !strings.Contains(text, test.text) {
			t.Errorf("%s: status %d, %q; want %d with %q", test.what, status, text, test.status, test.text)
		}
		if status == 401 && h.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: 401 without WWW-Authenticate", test.what)
		}
	}
	s.wantTransactions(t)
}

// TestSentryZip is the upload of clients without chunks: they ask for the unknown
// files, and send a zip archive.
func TestSentryZip(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tiny, hello := data(t, "ppdb/tiny.pdb"), data(t, "pdb/hello-x64.pdb")
	body, kind := fileForm(t, nil, "file", "archive.zip", zipOf(t, zipFile{"DebugSymbols/1/tiny.pdb", tiny}, zipFile{"DebugSymbols/2/notes.txt", []byte("x")}))
	text := s.expect(t, http.MethodPost, "/api/0/projects/acme/Game/files/dsyms/", body, http.StatusCreated, sha1Hex(tiny), "Content-Type", kind)
	var list []dif
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 || list[0].Name != "tiny.pdb" {
		t.Errorf("the answer is %s (%v); want one file", text, err)
	}
	s.wantTransactions(t, "Game: archive.zip!/DebugSymbols/1/tiny.pdb")
	// What is there already enters the caller's transaction.
	s.expect(t, http.MethodGet, "/api/0/projects/acme/Other/files/dsyms/unknown/?checksums="+sha1Hex(tiny)+"&checksums="+sha1Hex(hello), nil, http.StatusOK, `{"missing":["`+sha1Hex(hello)+`"]}`)
	s.wantTransactions(t, "Game: archive.zip!/DebugSymbols/1/tiny.pdb", "Other: tiny.pdb")
	body, kind = fileForm(t, nil, "file", "archive.zip", zipOf(t, zipFile{"notes.txt", []byte("x")}))
	s.expect(t, http.MethodPost, "/api/0/projects/acme/Game/files/dsyms/", body, http.StatusBadRequest, "no symbol file", "Content-Type", kind)
}
