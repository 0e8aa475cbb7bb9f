package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// fakeStages is one open stage, "S", that holds what is sent in memory.
type fakeStages struct {
	mu      sync.Mutex
	entries map[string]stage.Entry
	got     map[blob.Ref][]byte
	parts   map[int][]byte
	reads   int // bodies that were read
	err     error
}

const fakePart = 100

func newFakeStages() *fakeStages {
	return &fakeStages{entries: map[string]stage.Entry{}, got: map[blob.Ref][]byte{}, parts: map[int][]byte{}}
}

func refusal(k stage.Kind, text string) error { return &stage.Refusal{Kind: k, Text: text} }

func (f *fakeStages) known(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if id != "S" {
		return refusal(stage.NotFound, "there is no stage "+id)
	}
	return nil
}

func (f *fakeStages) Limits(context.Context, stage.Caller) (stage.Limits, error) {
	return stage.Limits{MaxFile: 1 << 20, MaxFiles: 10, MaxBytes: 1 << 30, CheckBatch: 3, Part: fakePart, WholeBelow: 200, Idle: time.Hour, Longest: 2 * time.Hour,
		Used: []stage.ProductQuota{{Product: "ours", Bytes: 100, Used: 7}}}, nil
}

func (f *fakeStages) Open(_ context.Context, _ stage.Caller, spec stage.Spec) (stage.State, bool, error) {
	return stage.State{ID: "S", Phase: stage.PhaseOpen, Labels: spec.Labels}, spec.Key == "again", f.err
}

func (f *fakeStages) State(_ context.Context, _ stage.Caller, id string) (stage.State, error) {
	return stage.State{ID: id, Phase: stage.PhaseOpen, Missing: []blob.Ref{blob.Sum([]byte("x"))}}, f.known(id)
}

func (f *fakeStages) Refused(_ context.Context, _ stage.Caller, id string) ([]stage.Refused, error) {
	return nil, f.known(id)
}

func (f *fakeStages) Abandon(_ context.Context, _ stage.Caller, id string) error { return f.known(id) }

func (f *fakeStages) Check(_ context.Context, _ stage.Caller, id string, list []stage.Entry) ([]stage.Verdict, error) {
	if err := f.known(id); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]stage.Verdict, len(list))
	for i, e := range list {
		f.entries[e.Path] = e
		out[i] = stage.Verdict{Answer: stage.Send}
		if e.Size == 0 {
			out[i] = stage.Verdict{Answer: stage.Refuse, Reason: "empty"}
		}
	}
	return out, nil
}

func (f *fakeStages) Blocks(_ context.Context, _ stage.Caller, id string, ref blob.Ref) ([]byte, error) {
	if err := f.known(id); err != nil {
		return nil, err
	}
	b, ok := f.got[ref]
	if !ok {
		return nil, refusal(stage.NotFound, "no such content")
	}
	return blocks.List(bytes.NewReader(b))
}

func (f *fakeStages) FromRecipe(_ context.Context, _ stage.Caller, id string, _, base blob.Ref, recipe io.Reader) (io.ReadCloser, error) {
	b, ok := f.got[base]
	if !ok {
		return nil, refusal(stage.NotFound, "no such content")
	}
	return io.NopCloser(blocks.NewReader(recipe, bytes.NewReader(b), int64(len(b)))), f.known(id)
}

func (f *fakeStages) read(body io.Reader) ([]byte, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return io.ReadAll(body)
}

func (f *fakeStages) Put(_ context.Context, _ stage.Caller, id string, ref blob.Ref, body io.Reader) (bool, error) {
	if err := f.known(id); err != nil {
		return false, err
	}
	f.mu.Lock()
	_, had := f.got[ref]
	f.mu.Unlock()
	if had {
		return true, nil
	}
	b, err := f.read(body)
	if err != nil {
		return false, fmt.Errorf("receive: %w", err)
	}
	if blob.Sum(b) != ref {
		return false, refusal(stage.WrongHash, "another hash")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got[ref] = b
	return false, nil
}

func (f *fakeStages) PutSeveral(_ context.Context, _ stage.Caller, id string, list []stage.Entry, body io.Reader) ([]stage.Verdict, error) {
	if err := f.known(id); err != nil {
		return nil, err
	}
	b, err := f.read(body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var verdicts []stage.Verdict
	for _, e := range list {
		if int64(len(b)) < e.Size {
			return nil, refusal(stage.WrongHash, "too short")
		}
		v := stage.Verdict{Answer: stage.Have}
		if one := b[:e.Size]; blob.Sum(one) == e.Ref {
			f.got[e.Ref] = one
		} else {
			v = stage.Verdict{Answer: stage.Send, Reason: "another hash"}
		}
		verdicts, b = append(verdicts, v), b[e.Size:]
	}
	return verdicts, nil
}

func (f *fakeStages) PutPart(_ context.Context, _ stage.Caller, id string, ref blob.Ref, total int64, n int, body io.Reader) error {
	if err := f.known(id); err != nil {
		return err
	}
	b, err := f.read(body)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(n) > total/fakePart {
		return refusal(stage.Invalid, "no such part")
	}
	f.parts[n] = b
	return nil
}

func (f *fakeStages) Parts(_ context.Context, _ stage.Caller, id string, _ blob.Ref) (stage.Parts, error) {
	f.mu.Lock()
	p := stage.Parts{Part: fakePart, Length: 1000}
	if len(f.parts) > 0 {
		p.Got = "0-3"
	}
	f.mu.Unlock()
	return p, f.known(id)
}

func (f *fakeStages) Commit(_ context.Context, _ stage.Caller, id string, ask stage.Commit) (stage.Committed, error) {
	if err := f.known(id); err != nil {
		return stage.Committed{}, err
	}
	if ask.Files == 2 {
		return stage.Committed{}, &stage.Refusal{Kind: stage.Conflict, Text: "contents are missing", Missing: []blob.Ref{blob.Sum([]byte("x"))}}
	}
	return stage.Committed{Transaction: 17, Files: ask.Files, Refused: []stage.Refused{{Path: "a", Reason: "empty"}}}, nil
}

// principals of the tests.
var (
	writer    = web.Principal{Name: "ci", WritesAny: true, Write: func(p string) bool { return p == "ours" }, Read: func(string) bool { return true }}
	reader    = web.Principal{Name: "reader", Write: func(string) bool { return false }, Read: func(string) bool { return true }}
	anonymous = web.Principal{Anonymous: true, Write: func(string) bool { return false }, Read: func(string) bool { return false }}
)

// serveAPI serves the API over HTTP to one principal.
func serveAPI(t *testing.T, s *fakeStages, who *web.Principal) *httptest.Server {
	t.Helper()
	a := New(web.New(web.Config{Stages: s, Bases: s}))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
		_ = a.Serve(w, &web.Request{Request: r, Segments: segs, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {}, ID: "r1", Challenges: []string{"Bearer"}})
	}))
	t.Cleanup(srv.Close)
	return srv
}

// call sends a request and returns the status, the header and the body.
func call(t *testing.T, srv *httptest.Server, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+wire.PushPath+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return symtest.Do(t, watched(t, srv.Client()).Do, req)
}

func sha256Field(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func zstded(t *testing.T, b []byte, opt ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, opt...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPushRequests: each request of a push, and what is wrong with it.
func TestPushRequests(t *testing.T) {
	who := writer
	srv := serveAPI(t, newFakeStages(), &who)
	ref := blob.Sum([]byte("content")).String()
	manifest := strings.Repeat("a", 64)
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // part of the answer
	}{
		{"GET", "", "", 200, `"check_batch":3,"part":100,"whole_below":200,"encodings":["zstd","gzip"],"blocks":"gear-4-20-64","bare_parts":true,"several":64,"several_bytes":16777216,"idle":3600,"longest":7200,"quotas":[{"product":"ours","bytes":100,"used":7}]`},
		{"POST", "/stages", `{"product":"ours","version":"1"}`, 201, `"id":"S","state":"open","product":"ours","version":"1"`},
		{"POST", "/stages", `{"product":"ours","key":"again","ci_job":{"ci":"github"}}`, 200, `"id":"S"`},
		{"POST", "/stages", `{"product":"theirs"}`, 403, "problem:forbidden"},
		{"POST", "/stages", `{"product":"ours","versionn":"1"}`, 400, `unknown field \"versionn\"`},
		{"POST", "/stages", `{"product":1}`, 400, `"fields":{"product":"is a number"}`},
		{"POST", "/stages", `{"product":"ours"`, 400, "problem:query"},
		{"POST", "/stages", `{"product":"ours"} {}`, 400, "more than one"},
		{"POST", "/stages", `{"product":"ours"}]`, 400, "more than one"},
		{"POST", "/stages", ``, 400, "problem:query"},
		{"POST", "/stages", `{"product":"` + strings.Repeat("x", web.MaxSpecBody) + `"}`, 413, "problem:too-large"},
		{"GET", "/stages/S", "", 200, `"missing":["2d711642`},
		{"HEAD", "/stages/S", "", 200, ""},
		{"GET", "/stages/T", "", 404, "problem:not-found"},
		{"POST", "/stages/S/check", `[{"path":"a","size":7,"sha256":"` + ref + `","mtime":"2026-11-22T10:00:00Z"},{"path":"b","size":0,"sha256":"` + ref + `"}]`, 200, `[{"answer":"send"},{"answer":"refuse","reason":"empty"}]`},
		{"POST", "/stages/S/check", `[{"path":"a","size":-1,"sha256":"` + ref + `"}]`, 400, `"fields":{"0":"\"a\""}`},
		{"POST", "/stages/S/check", `[{"path":"a","size":7,"sha256":"` + strings.ToUpper(ref) + `"}]`, 400, "problem:query"},
		{"POST", "/stages/T/check", `[]`, 404, "problem:not-found"},
		{"POST", "/stages/S/commit", `{"files":1,"manifest":"` + manifest + `"}`, 200, `{"build":17,"files":1,"known_bytes":0,"new_bytes":0,"refused":[{"path":"a","reason":"empty"}]}`},
		{"POST", "/stages/S/commit", `{"files":1,"manifest":"abc"}`, 400, `"fields":{"manifest"`},
		{"POST", "/stages/S/commit", `{"files":2}`, 409, `"missing":["2d711642`},
		{"DELETE", "/stages/S", "", 204, ""},
		{"DELETE", "/stages/T", "", 404, "problem:not-found"},
		{"PUT", "/stages/S", "", 405, "problem:method"},
		{"PATCH", "", "", 405, "problem:method"},
		{"GET", "/stages/S/nothing", "", 404, "problem:not-found"},
		{"GET", "/stages/S/contents/" + ref + "/parts", "", 200, `{"part":100,"length":1000,"got":""}`},
		{"GET", "/stages/S/contents/abc/parts", "", 400, "problem:query"},
		{"GET", "/stages/S/blocks/" + ref, "", 404, "problem:not-found"},
		{"GET", "/stages/S/blocks/abc", "", 400, "problem:query"},
	} {
		resp, body := call(t, srv, tt.method, tt.path, strings.NewReader(tt.body))
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s %.100s: status %d, %s; want %d and %s", tt.method, tt.path, tt.body, resp.StatusCode, body, tt.status, tt.want)
		}
		if tt.status >= 400 && resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: type %q, want a problem", tt.method, tt.path, resp.Header.Get("Content-Type"))
		}
		if tt.status == 405 && resp.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow field, want one", tt.method, tt.path)
		}
	}
}

// TestPushRights: a push needs the right to write, which is judged before the
// body is read.
func TestPushRights(t *testing.T) {
	who := anonymous
	f := newFakeStages()
	srv := serveAPI(t, f, &who)
	ref := blob.Sum(nil).String()
	for _, p := range []struct {
		who    web.Principal
		status int
	}{{anonymous, 401}, {reader, 403}} {
		who = p.who
		for _, path := range []string{"GET ", "POST /stages", "GET /stages/S", "DELETE /stages/S", "POST /stages/S/check", "POST /stages/S/commit",
			"PUT /stages/S/contents", "PUT /stages/S/contents/" + ref, "GET /stages/S/contents/" + ref + "/parts", "PUT /stages/S/contents/" + ref + "/parts/0",
			"GET /stages/S/blocks/" + ref} {
			method, path, _ := strings.Cut(path, " ")
			resp, body := call(t, srv, method, path, strings.NewReader(""))
			if resp.StatusCode != p.status || (resp.Header.Get("Www-Authenticate") != "") != (p.status == 401) {
				t.Errorf("%s %s as %q: status %d, WWW-Authenticate %q, %s; want %d", method, path, p.who.Name, resp.StatusCode, resp.Header.Get("Www-Authenticate"), body, p.status)
			}
		}
	}
	if f.reads != 0 {
		t.Errorf("%d bodies of refused requests were read, want none", f.reads)
	}
}

// TestPushContents: whole contents and parts, plain and encoded, with right and
// wrong digests.
func TestPushContents(t *testing.T) {
	who := writer
	plain := bytes.Repeat([]byte("symbols "), 5000)
	stored := blob.Sum(plain[:10_000])
	recipe := binary.AppendUvarint(binary.AppendUvarint(nil, 10_000<<1|1), 0)
	recipe = append(binary.AppendUvarint(recipe, 30_000<<1), plain[10_000:]...)
	other := []byte("other bytes")
	ref := blob.Sum(plain).String()
	whole, part := "/stages/S/contents/"+ref, "/stages/S/contents/"+ref+"/parts/"
	z, g := zstded(t, plain), gzipped(t, plain)
	wide := zstded(t, bytes.Repeat([]byte{1}, 40<<20), zstd.WithWindowSize(32<<20))
	for _, tt := range []struct {
		name, path string
		body       []byte
		header     []string
		status     int
		word       string
	}{
		{"plain", whole, plain, nil, 201, ""},
		{"identity", whole, plain, []string{"Content-Encoding", "identity"}, 201, ""},
		{"zstd", whole, z, []string{"Content-Encoding", "zstd", "Content-Digest", sha256Field(z), "Repr-Digest", sha256Field(plain)}, 201, ""},
		{"gzip", whole, g, []string{"Content-Encoding", "GZIP"}, 201, ""},
		{"an unknown coding", whole, plain, []string{"Content-Encoding", "br"}, 415, "coding"},
		{"two codings", whole, plain, []string{"Content-Encoding", "zstd, gzip"}, 415, "coding"},
		{"zstd that is none", whole, plain, []string{"Content-Encoding", "zstd"}, 400, "query"},
		{"zstd that is truncated", whole, z[:len(z)-5], []string{"Content-Encoding", "zstd"}, 400, "query"},
		{"zstd with a window of 32 MiB", whole, wide, []string{"Content-Encoding", "zstd"}, 400, "query"},
		{"gzip that is none", whole, plain, []string{"Content-Encoding", "gzip"}, 400, "query"},
		{"gzip that is truncated", whole, g[:len(g)-5], []string{"Content-Encoding", "gzip"}, 400, "query"},
		{"other bytes", whole, other, nil, 422, "digest"},
		{"a wrong Content-Digest", whole, plain, []string{"Content-Digest", sha256Field(other)}, 422, "digest"},
		{"a wrong Repr-Digest", whole, plain, []string{"Repr-Digest", sha256Field(other)}, 422, "digest"},
		{"a digest of another algorithm", whole, plain, []string{"Content-Digest", "sha-512=:AAAA:"}, 201, ""},
		{"a malformed digest", whole, plain, []string{"Content-Digest", "sha-256=abc"}, 400, "query"},
		{"an unknown stage", "/stages/T/contents/" + ref, plain, nil, 404, "not-found"},
		{"no SHA-256", "/stages/S/contents/abc", plain, nil, 400, "query"},
		{"a recipe", whole, recipe, []string{"Upload-Base", stored.String(), "Content-Digest", sha256Field(recipe)}, 201, ""},
		{"a recipe in zstd", whole, zstded(t, recipe), []string{"Upload-Base", stored.String(), "Content-Encoding", "zstd"}, 201, ""},
		{"a recipe of other bytes", whole, append(bytes.Clone(recipe[:len(recipe)-8]), "SYMBOLS "...), []string{"Upload-Base", stored.String()}, 422, "digest"},
		{"a recipe from nothing", whole, recipe, []string{"Upload-Base", ref}, 404, "not-found"},
		{"a recipe from no SHA-256", whole, recipe, []string{"Upload-Base", "abc"}, 400, "query"},
		{"a part from a recipe", part + "0", recipe, []string{"Upload-Base", ref, "Upload-Length", "1000", "Content-Digest", sha256Field(recipe)}, 404, "not-found"},
		{"a part", part + "0", other, []string{"Upload-Length", "1000", "Content-Digest", sha256Field(other)}, 204, ""},
		{"a part in zstd", part + "3", zstded(t, other), []string{"Upload-Length", "1000", "Content-Encoding", "zstd", "Content-Digest", sha256Field(zstded(t, other))}, 204, ""},
		{"a part without a digest", part + "3", other, []string{"Upload-Length", "1000"}, 204, ""},
		{"a part in zstd without a digest", part + "0", zstded(t, other), []string{"Upload-Length", "1000", "Content-Encoding", "zstd"}, 204, ""},
		{"a part in truncated zstd without a digest", part + "0", z[:len(z)-5], []string{"Upload-Length", "1000", "Content-Encoding", "zstd"}, 400, "query"},
		{"a part without a digest and a length", part + "1", other, nil, 400, "query"},
		{"a part with a malformed digest", part + "1", other, []string{"Upload-Length", "1000", "Content-Digest", "sha-256=abc"}, 400, "query"},
		{"a part with a wrong digest", part + "1", other, []string{"Upload-Length", "1000", "Content-Digest", sha256Field(plain)}, 422, "digest"},
		{"a part without a length", part + "1", other, []string{"Content-Digest", sha256Field(other)}, 400, "query"},
		{"a part of a negative length", part + "1", other, []string{"Upload-Length", "-1", "Content-Digest", sha256Field(other)}, 400, "query"},
		{"a part out of range", part + "99", other, []string{"Upload-Length", "1000", "Content-Digest", sha256Field(other)}, 400, "query"},
		{"a part with a huge number", part + "99999999999999999999", other, []string{"Upload-Length", "1000", "Content-Digest", sha256Field(other)}, 400, "query"},
		{"a part with a padded number", part + "01", other, []string{"Upload-Length", "1000", "Content-Digest", sha256Field(other)}, 400, "query"},
	} {
		for _, chunked := range []bool{false, true} {
			f := newFakeStages()
			f.got[stored] = plain[:10_000]
			srv := serveAPI(t, f, &who)
			var body io.Reader = bytes.NewReader(tt.body)
			if chunked {
				body = struct{ io.Reader }{body} // hides the length
			}
			resp, answer := call(t, srv, "PUT", tt.path, body, tt.header...)
			if resp.StatusCode != tt.status || !strings.Contains(answer, tt.word) {
				t.Errorf("%s, chunked %v: status %d, %s; want %d %s", tt.name, chunked, resp.StatusCode, answer, tt.status, tt.word)
			}
			if got := f.got[blob.Sum(plain)]; tt.status == 201 != bytes.Equal(got, plain) || tt.status >= 400 && len(f.parts) > 0 {
				t.Errorf("%s, chunked %v: %d bytes and %d parts arrived; want them all only with a status 2xx", tt.name, chunked, len(got), len(f.parts))
			}
			if got := string(f.parts[0]) + string(f.parts[3]); tt.status == 204 && got != string(other) {
				t.Errorf("%s: the part has %q, want %q", tt.name, got, other)
			}
		}
	}
	f := newFakeStages()
	srv := serveAPI(t, f, &who)
	for i, want := range []int{201, 200} {
		if resp, _ := call(t, srv, "PUT", whole, bytes.NewReader(plain)); resp.StatusCode != want {
			t.Errorf("PUT of the same content, time %d: status %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// TestPushSeveral: several contents in one request, plain and encoded, and what is wrong with a body.
func TestPushSeveral(t *testing.T) {
	who := writer
	one, two := []byte("one content"), bytes.Repeat([]byte("another "), 10_000)
	announce := func(list ...[]byte) (b []byte) {
		var contents []wire.PushContent
		for _, c := range list {
			contents = append(contents, wire.PushContent{SHA256: blob.Sum(c).String(), Size: int64(len(c))})
		}
		return wire.AppendContents(nil, contents)
	}
	head := announce(one, two)
	body := slices.Concat(head, one, two)
	damaged := bytes.Clone(body)
	damaged[len(head)] ^= 1
	const path, both = "/stages/S/contents", `[{"answer":"have"},{"answer":"have"}]`
	for _, tt := range []struct {
		name, path string
		body       []byte
		header     []string
		status     int
		want       string // part of the answer
	}{
		{"plain", path, body, nil, 200, both},
		{"with a digest", path, body, []string{"Content-Digest", sha256Field(body)}, 200, both},
		{"a wrong digest", path, body, []string{"Content-Digest", sha256Field(one)}, 422, "digest"},
		{"zstd", path, zstded(t, body), []string{"Content-Encoding", "zstd"}, 200, both},
		{"gzip", path, gzipped(t, body), []string{"Content-Encoding", "gzip"}, 200, both},
		{"zstd that is truncated", path, zstded(t, body)[:40], []string{"Content-Encoding", "zstd"}, 400, "query"},
		{"a damaged content", path, damaged, nil, 200, `[{"answer":"send","reason":"another hash"},{"answer":"have"}]`},
		{"an early end", path, body[:len(body)-1], nil, 422, "digest"},
		{"an unknown stage", "/stages/T/contents", body, nil, 404, "not-found"},
		{"nothing", path, nil, nil, 400, "lines of SHA256 SIZE"},
		{"no list", path, two, nil, 400, "lines of SHA256 SIZE"},
		{"too many", path, announce(slices.Repeat([][]byte{one}, stage.MaxSeveral+1)...), nil, 400, "more than 64"},
		{"no SHA-256", path, []byte("abc 7\n\nabcdefg"), nil, 400, "64 lower-case hex digits"},
	} {
		for _, chunked := range []bool{false, true} {
			f := newFakeStages()
			srv := serveAPI(t, f, &who)
			var body io.Reader = bytes.NewReader(tt.body)
			if chunked {
				body = struct{ io.Reader }{body} // hides the length
			}
			resp, answer := call(t, srv, "PUT", tt.path, body, tt.header...)
			if resp.StatusCode != tt.status || !strings.Contains(answer, tt.want) {
				t.Errorf("%s, chunked %v: status %d, %s; want %d %s", tt.name, chunked, resp.StatusCode, answer, tt.status, tt.want)
			}
			if tt.want == both && (!bytes.Equal(f.got[blob.Sum(one)], one) || !bytes.Equal(f.got[blob.Sum(two)], two)) {
				t.Errorf("%s, chunked %v: the contents have not arrived", tt.name, chunked)
			}
		}
	}
}

// TestPushExpect: a body is not asked for if the request is refused.
func TestPushExpect(t *testing.T) {
	who := writer
	f := newFakeStages()
	srv := serveAPI(t, f, &who)
	tr := srv.Client().Transport.(*http.Transport).Clone()
	tr.ExpectContinueTimeout = time.Hour
	c := &http.Client{Transport: tr}
	defer tr.CloseIdleConnections()
	plain := bytes.Repeat([]byte{7}, 3<<20)
	for _, tt := range []struct {
		id     string
		status int
	}{{"T", 404}, {"S", 201}, {"S", 200}} {
		body := &countingReader{r: bytes.NewReader(plain)}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL+wire.PushPath+"/stages/"+tt.id+"/contents/"+blob.Sum(plain).String(), body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(plain))
		req.Header.Set("Expect", "100-continue")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status || (body.n.Load() > 0) != (tt.status == 201) {
			t.Errorf("PUT to the stage %s: status %d, %d bytes sent; want %d, and the body only with 201", tt.id, resp.StatusCode, body.n.Load(), tt.status)
		}
	}
}

// TestPushConnection: the connection of an upload stays usable, also if the client
// asked whether to send the body.
func TestPushConnection(t *testing.T) {
	who := writer
	f := newFakeStages()
	srv := serveAPI(t, f, &who)
	for n, chunked := range []bool{false, true, false} {
		plain := bytes.Repeat([]byte{byte(n)}, 3<<20)
		for _, coding := range []string{"", "zstd", "gzip"} {
			sent := plain
			switch coding {
			case "zstd":
				sent = zstded(t, plain)
			case "gzip":
				sent = gzipped(t, plain)
			}
			f.got = map[blob.Ref][]byte{}
			var body io.Reader = bytes.NewReader(sent)
			if chunked {
				body = struct{ io.Reader }{body} // hides the length
			}
			header := []string{"Expect", "100-continue"}
			if coding != "" {
				header = append(header, "Content-Encoding", coding)
			}
			resp, answer := call(t, srv, "PUT", "/stages/S/contents/"+blob.Sum(plain).String(), body, header...)
			if resp.StatusCode != http.StatusCreated || resp.Close {
				t.Errorf("PUT of %d bytes, chunked %v, coding %q: status %d, closed %v, %s; want 201 and an open connection", len(sent), chunked, coding, resp.StatusCode, resp.Close, answer)
			}
		}
	}
}

// TestRefusals: every kind of refusal is a problem of its own.
func TestRefusals(t *testing.T) {
	who := writer
	f := newFakeStages()
	srv := serveAPI(t, f, &who)
	for kind, want := range map[stage.Kind]int{
		stage.NotFound: 404, stage.Invalid: 400, stage.TooLarge: 413, stage.Quota: 507, stage.TooMany: 429, stage.Busy: 503,
		stage.NoSpace: 507, stage.Conflict: 409, stage.WrongHash: 422, stage.Forbidden: 403, stage.NotSymbol: 422,
	} {
		f.err = refusal(kind, "because")
		resp, body := call(t, srv, "GET", "/stages/S", nil)
		var p wire.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || resp.StatusCode != want || p.Status != want || p.Detail != "because" || p.Request != "r1" {
			t.Errorf("kind %d: status %d, %s, %v; want %d", kind, resp.StatusCode, body, err, want)
		}
		if got := resp.Header.Get("Retry-After"); (got != "") != (want == 429 || want == 503) {
			t.Errorf("status %d with Retry-After %q, want one exactly with 429 and 503", want, got)
		}
	}
	f.err = errors.New("/srv/depot/secret: disk")
	if resp, body := call(t, srv, "GET", "/stages/S", nil); resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "secret") {
		t.Errorf("an internal error: status %d, %s; want 500 without the reason", resp.StatusCode, body)
	}
}

// FuzzDigest: any value of a digest field is read or refused.
func FuzzDigest(f *testing.F) {
	for _, s := range []string{sha256Field(nil), "sha-256=:x:", "sha-512=:AA==:, " + sha256Field([]byte("x")) + ";p=1", ",,=", "sha-256", "sha-256=::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, ok, err := web.DigestOf(http.Header{"Content-Digest": {s}}, "Content-Digest")
		if ok && err != nil {
			t.Errorf("%q is both valid and %v", s, err)
		}
	})
}

// FuzzUpload: a body of any bytes in any coding is read or refused, within the
// bytes that it may have.
func FuzzUpload(f *testing.F) {
	f.Add([]byte("plain"), "")
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd}, "zstd")
	f.Add([]byte{0x1f, 0x8b}, "gzip")
	a := web.NewUploads()
	f.Fuzz(func(t *testing.T, body []byte, coding string) {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header.Set("Content-Encoding", coding)
		u, err := a.Open(&web.Request{Request: r, Body: bytes.NewReader(body), Allow: func(time.Duration) {}})
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(u, 1<<20))
		u.Close()
		if len(a.Unpack) != 0 {
			t.Errorf("%d semaphores are held after Close, want 0", len(a.Unpack))
		}
	})
}

// countingReader counts the bytes that are read.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
