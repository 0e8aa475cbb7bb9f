package server

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
)

// TestUploads sends files in the protocols of other uploaders to a server with a
// real depot, and reads them back: visible at once, below configured prefixes and
// tokens, and only with the right to write.
func TestUploads(t *testing.T) {
	var up *intake.Handler
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	d, err := depot.Open(t.Context(), t.TempDir(), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if up, err = intake.New(intake.Config{Stages: d.Stages(), Dir: d.Stages().UploadDir()}); err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	tokens := map[string]string{"reads": store.add(t, "reads", []string{"Game"}, "read"), "writes": store.add(t, "writes", []string{"Game"}, "read", "write")}
	gate, err := auth.New(auth.Config{}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	s, err := New(Config{Depot: d, Gate: gate, Uploads: up, Prefixes: []string{"corp"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	send := func(method, path, token string, body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if method == "POST" {
			r.Header.Set("Content-Type", formType)
		}
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	const id = "F9EFE0B6AE7500394C4C44205044422E1"
	path := "/hello.pdb/" + id + "/hello.pdb"
	for _, test := range []struct {
		method, path, token string
		body                []byte
		status              int
	}{
		{"PUT", path, "", pdb, 401},
		{"PUT", path, tokens["reads"], pdb, 403},
		{"PUT", "/in/Other" + path, tokens["writes"], pdb, 403},
		{"PUT", "/t/" + auth.NewToken() + path, "", pdb, 401},
		{"GET", path, "", nil, 404},
		{"PUT", "/corp" + path, tokens["writes"], pdb, 201},
		{"GET", path, "", nil, 200},
		{"PUT", "/t/" + tokens["writes"] + path, "", pdb, 204},
		{"POST", "/in/Game?key=" + tokens["writes"], "", []byte(symbolForm), 200},
		{"GET", "/prog/000102030405060708090A0B0C0D0E0F0/prog.sym", "", nil, 200},
		{"POST", path, tokens["writes"], pdb, 405},
	} {
		status, text := send(test.method, test.path, test.token, test.body)
		if status != test.status {
			t.Errorf("%s %s: status %d, want %d: %s", test.method, auth.Redact(test.path), status, test.status, text)
		}
		if test.method == "GET" && status == 200 && strings.HasSuffix(test.path, ".pdb") && text != string(pdb) {
			t.Errorf("GET %s: %d bytes, want the %d that were sent", test.path, len(text), len(pdb))
		}
	}
}

// TestUploadsAreLogged: the access log says that credentials are missing only where they
// are, also for those that stand in the query.
func TestUploadsAreLogged(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	up, err := intake.New(intake.Config{Stages: d.Stages(), Dir: d.Stages().UploadDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	token := store.add(t, "writes", []string{"Game"}, "read", "write")
	gate, err := auth.New(auth.Config{Policy: auth.PolicyConfig{Demand: true}}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var log bytes.Buffer
	s := newServer(t, Config{Depot: d, Gate: gate, Uploads: up, AccessLog: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct {
		key     string
		status  int
		refused string // in the log
	}{
		{"", 401, "has no credentials"}, {"?key=" + auth.NewToken(), 401, "refused="}, {"?key=" + token, 200, ""},
	} {
		log.Reset()
		r := httptest.NewRequest(http.MethodPost, "/in/Game"+c.key, strings.NewReader(symbolForm))
		r.Header.Set("Content-Type", formType)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		line := log.String()
		if w.Code != c.status || !strings.Contains(line, c.refused) || c.refused == "" && strings.Contains(line, "refused=") {
			t.Errorf("an upload with %s: status %d, log %s; want %d and %q", auth.Redact(c.key), w.Code, line, c.status, c.refused)
		}
	}
}

// symbolForm is an upload of a Breakpad file as a form, of the type formType.
const (
	formType   = "multipart/form-data; boundary=b"
	symbolForm = "--b\r\nContent-Disposition: form-data; name=\"symbol_file\"; filename=\"prog.sym\"\r\n\r\n" +
		"MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 prog\n\r\n--b--\r\n"
)
