package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

func TestPut(t *testing.T) {
	t.Parallel()
	pdb := data(t, "pdb/hello-x64.pdb")
	id := object(t, pdb, "hello.pdb").DebugID.Breakpad()
	symPath := "/hello.pdb/" + id + "/hello.pdb"
	elf := data(t, "elf/prog-sha1.debug")
	build := string(object(t, elf, "prog").BuildID)
	sum := sha256.Sum256(pdb)
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	for _, test := range []struct {
		what, path string
		b          []byte
		header     []string
		status     int
		text       string
		tx         []string
	}{
		{"symstore", symPath, pdb, nil, 201, `"paths":["hello.pdb/` + id, []string{": hello.pdb/" + id + "/hello.pdb"}},
		{"with prefix", "/symbols" + symPath, pdb, nil, 201, "", []string{": symbols/hello.pdb/" + id + "/hello.pdb"}},
		{"lower case", strings.ToLower(symPath), pdb, nil, 201, "", []string{": hello.pdb/" + strings.ToLower(id) + "/hello.pdb"}},
		{"product", "/in/Game" + symPath, pdb, nil, 201, "", []string{"Game: hello.pdb/" + id + "/hello.pdb"}},
		{"product and version", "/in/Game/1.2" + symPath, pdb, nil, 201, "", []string{"Game 1.2: hello.pdb/" + id + "/hello.pdb"}},
		{"name only", "/hello.pdb", pdb, nil, 201, "", []string{": hello.pdb"}},
		{"name below a product", "/in/Game/hello.pdb", pdb, nil, 201, "", []string{"Game: hello.pdb"}},
		{"name below a version", "/in/Game/12/hello.pdb", pdb, nil, 201, "", []string{"Game 12: hello.pdb"}},
		{"query", "/hello.pdb?product=P&version=2&class=nightly&branch=b", pdb, nil, 201, "", []string{"P 2 nightly: hello.pdb"}},
		{"gzip", symPath, gzipped(t, pdb), nil, 201, "", []string{": hello.pdb/" + id + "/hello.pdb"}},
		{"gz name", "/hello.pdb.gz", gzipped(t, pdb), nil, 201, "", []string{": hello.pdb"}},
		{"Content-Encoding", symPath, gzipped(t, pdb), []string{"Content-Encoding", "gzip"}, 201, "", []string{": hello.pdb/" + id + "/hello.pdb"}},
		{"unknown coding", symPath, pdb, []string{"Content-Encoding", "br"}, 415, "Content-Encoding", nil},
		{"digest", symPath, pdb, []string{"Content-Digest", digest}, 201, "", []string{": hello.pdb/" + id + "/hello.pdb"}},
		{"wrong digest", symPath, pdb[:len(pdb)-1], []string{"Repr-Digest", digest}, 422, "SHA-256", nil},
		{"bad digest", symPath, pdb, []string{"X-Checksum-Sha256", "zz"}, 422, "SHA-256", nil},
		{"other digest", symPath, pdb, []string{"Content-Digest", "md5=:AAAA:"}, 201, "", []string{": hello.pdb/" + id + "/hello.pdb"}},
		{"build-id", "/.build-id/" + build[:2] + "/" + build[2:] + ".debug", elf, nil, 201, "buildid/" + build, []string{": .build-id/" + build[:2] + "/" + build[2:] + ".debug"}},
		{"wrong id", "/hello.pdb/000102030405060708090A0B0C0D0E0F1/hello.pdb", pdb, nil, 422, `"paths":["hello.pdb/` + id, nil},
		{"wrong name", "/other.pdb/" + id + "/other.pdb", pdb, nil, 201, "", []string{": other.pdb/" + id + "/other.pdb"}}, // a PDB has the name of its path
		{"wrong name of a .sym", "/other/" + symID + "/other.sym", []byte(symText), nil, 422, "its id is " + symID, nil},
		{"a .sym that was cut off", "/prog/" + symID + "/prog.sym", []byte(symText + "FUNC 2000 10"), nil, 422, "cut off", nil},
		{"no slash after the version", "/in/Game/9.9", []byte(symText), nil, 422, "/in/Game/9.9/", nil},
		{"no slash after a version that is a word", "/in/Game/nightly", []byte(symText), nil, 422, "/in/Game/nightly/", nil},
		{"and what to do if it is a name", "/in/Game/nightly", []byte(symText), nil, 422, "/in/Game/VERSION/nightly", nil},
		{"a name without an extension", "/in/Game/7z?version=", []byte(symText), nil, 201, "", []string{"Game: 7z"}},
		{"a name without an extension, below a version", "/in/Game/26.00/7z", []byte(symText), nil, 201, "", []string{"Game 26.00: 7z"}},
		{"and with its version elsewhere", "/in/Game/7z?version=26", []byte(symText), nil, 201, "", []string{"Game 26: 7z"}},
		{"no symbol file", symPath, []byte("text"), nil, 422, "not a symbol file", nil},
		{"empty", symPath, nil, nil, 422, "empty", nil},
		{"no symbol path", "/some/where/else", pdb, nil, 422, "/in/PRODUCT/VERSION/", nil},
		{"pointer", "/hello.pdb/" + id + "/file.ptr", []byte("PATH:\\\\x"), nil, 422, "names no file that is kept", nil},
		{"section", "/buildid/" + build + "/section/.text", elf, nil, 422, "names no file that is kept", nil},
		{"000Admin", "/000Admin/0000000001", []byte("x"), nil, 200, "ignored", nil},
		{"pingme", "/pingme.txt", []byte("x"), nil, 200, "ignored", nil},
		{"refs.ptr", "/hello.pdb/" + id + "/refs.ptr", []byte("x"), nil, 200, "ignored", nil},
		{"no right", symPath, pdb, []string{"Authorization", "Bearer reader"}, 403, `{"error":`, nil},
		{"other product", "/in/Other" + symPath, pdb, []string{"Authorization", "Bearer game"}, 403, `{"error":`, nil},
		{"default labels", symPath, pdb, []string{"Authorization", "Bearer game"}, 201, "", []string{"Game nightly: hello.pdb/" + id + "/hello.pdb"}},
		{"control characters", "/a.pdb?product=%07", pdb, nil, 400, "the product contains", nil},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.expect(t, http.MethodPut, test.path, struct{ io.Reader }{bytes.NewReader(test.b)}, test.status, test.text, test.header...)
			s.wantTransactions(t, test.tx...)
		})
	}
}

func TestPutAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	pdb := data(t, "pdb/hello-x64.pdb")
	path := "/in/Game/hello.pdb/" + object(t, pdb, "hello.pdb").DebugID.Breakpad() + "/hello.pdb"
	other := append(bytes.Clone(pdb), make([]byte, 4096)...)
	status, _, h := s.do(t, http.MethodPut, path, bytes.NewReader(pdb))
	if want := strings.TrimPrefix(path, "/in/Game"); status != 201 || h.Get("Location") != want {
		t.Errorf("status %d, Location %q; want 201, %q", status, h.Get("Location"), want)
	}
	s.expect(t, http.MethodPut, path, bytes.NewReader(pdb), 204, "")
	s.expect(t, http.MethodPut, path, bytes.NewReader(other), 409, "other bytes")
	s.expect(t, http.MethodPut, path+"?replace", bytes.NewReader(other), 201, "")
	// In another product they are new.
	s.expect(t, http.MethodPut, strings.Replace(path, "Game", "Other", 1), bytes.NewReader(other), 201, "")
	s.expect(t, "MKCOL", "/in/Game/1.2/", nil, 201, "")
	s.expect(t, "MKCOL", "/in/Game/1.2/", nil, 403, "", "Authorization", "Bearer reader")
	s.expect(t, http.MethodDelete, path, nil, http.StatusTeapot, "") // not ours
}

// TestClaims holds the list of paths that are uploads, and that no path of a
// symbol file is among those of GET and HEAD.
func TestClaims(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/api/0/", true},
		{"GET", "/api/0/organizations/acme/chunk-upload/", true},
		{"HEAD", "/api/0/organizations/acme/chunk-upload/", true},
		{"GET", "/api/0/folder/prog/" + symID + "/prog.sym", false},
		{"GET", "/api/v1/symbols", false},
		{"GET", "/api", false},
		{"GET", "/upload/" + symID + "/upload", false},
		{"GET", "/upload", false},
		{"POST", "/upload/", true},
		{"POST", "/uploads/", false},
		{"GET", "/v1/symbols/prog/" + symID + ":checkStatus", true},
		{"GET", "/v1/symbols/prog/" + symID + "/prog.sym", false},
		{"GET", "/v1/" + symID + "/v1", false},
		{"GET", "/nuget/v3/index.json", true},
		{"GET", "/nuget/" + symID + "/nuget", false},
		{"GET", "/nuget/v2/package", false},
		{"PUT", "/nuget/v2/package/", true},
		{"PUT", "/api/v2/package/", true},
		{"GET", "/in/Game/nuget/v3/index.json", true},
		{"GET", "/in/Game/1.2/nuget/v3/index.json", true},
		{"GET", "/in/" + symID + "/in", false},
		{"GET", "/in/Game/api/0/organizations/acme/chunk-upload", false},
		{"POST", "/in/Game", true},
		{"POST", "/in/Game/1.2", true},
		{"POST", "/in/Game/1.2/3", false},
		{"POST", "/in", false},
		{"PUT", "/anything", true},
		{"PUT", "/", false},
		{"PUT", "/-/api/v1/push/stages/1/contents/ab", false},
		{"POST", "/-/worker/lease", false},
		{"PUT", "/-/worker/lease", false},
		{"POST", "/debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload", true},
		{"GET", "/debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload", false},
		{"POST", "/hello.pdb/" + symID + "/hello.pdb", false},
		{"DELETE", "/hello.pdb/" + symID + "/hello.pdb", false},
		{"DELETE", "/nuget/v2/package/A/1", true},
		{"PROPFIND", "/in/Game/", false},
	} {
		segs, err := layout.Segments(test.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := Claims(test.method, segs); got != test.want {
			t.Errorf("Claims(%s %s) = %v, want %v", test.method, test.path, got, test.want)
		}
	}
	// Paths of our words and of ids, at random.
	words := []string{
		"api", "0", "organizations", "o", "chunk-upload", "users", "me", "regions", "projects", "files", "dsyms", "unknown", "v1", "v2", "v3", "symbols", "nuget", "index.json",
		"package", "in", "Game", "upload", symID, "ab", "prog", "prog.sym", "prog.pdb", symID + ":checkStatus", "debuginfo.v1alpha1.DebuginfoService", "executable", "debuginfo", "buildid", ".build-id",
		symID[2:] + ".debug", "try", "-", "symbols", "src.zip", "file.ptr",
	}
	claimed := 0
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		segs := make([]string, 1+rng.IntN(7))
		for i := range segs {
			segs[i] = words[rng.IntN(len(words))]
		}
		if rng.IntN(2) == 0 {
			segs[0] = words[rng.IntN(2)*(len(words)-1)%len(words)]
		}
		if !Claims(http.MethodGet, segs) {
			continue
		}
		claimed++
		if r, err := layout.Route(segs); err == nil {
			t.Fatalf("GET /%s is the path of a symbol file, want it free, because uploads claim it: %+v", strings.Join(segs, "/"), r)
		}
	}
	if claimed == 0 {
		t.Error("no random path was claimed")
	}
}

func TestCleanPath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a.pdb": "a.pdb", `C:\b\a.pdb`: "C:/b/a.pdb", "/proguard/x.txt": "proguard/x.txt", "./a//b": "a/b",
		"../a": "", "a/../b": "", "..": "", "": "", "a\x00b": "", "a\nb": "", strings.Repeat("a", 1025): "", "\xff": "",
	} {
		got, err := cleanPath(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("cleanPath(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestRecent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var dropped []string
	r := newRecent(2, time.Minute, func() time.Time { return now }, func(s string) { dropped = append(dropped, s) })
	r.put("a", "A")
	now = now.Add(time.Second)
	r.put("b", "B")
	now = now.Add(time.Second)
	if v, ok := r.get("a"); v != "A" || !ok {
		t.Errorf("get a = %q, %v; want A", v, ok)
	}
	now = now.Add(time.Second)
	r.put("c", "C") // b was used least recently
	if _, ok := r.get("b"); ok || len(dropped) != 1 || dropped[0] != "B" {
		t.Errorf("b is still there, or %q was dropped instead", dropped)
	}
	now = now.Add(61 * time.Second)
	if _, ok := r.get("a"); ok {
		t.Error("a has not expired")
	}
	r.expire()
	if len(r.m) != 0 || len(dropped) != 3 {
		t.Errorf("%d values are left, dropped %q; want none left and three dropped", len(r.m), dropped)
	}
}

// TestLeftovers: bodies of an earlier process go, chunks stay until they expire.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newServer(t, func(c *Config) { c.Now = func() time.Time { return now } })
	tiny := data(t, "ppdb/tiny.pdb")
	body, kind := chunkForm(t, "", tiny)
	s.expect(t, http.MethodPost, optionsPath, body, 200, "", "Content-Type", kind)
	if err := os.WriteFile(s.dir+"/body-left", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := now.Add(-25 * time.Hour)
	if err := os.Chtimes(s.dir+"/body-left", old, old); err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Stages: s.fakeStages, Dir: s.dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := os.Stat(s.dir + "/body-left"); err == nil {
		t.Error("the body of an earlier process is left, want it removed")
	}
	if n := h.spooled.Load(); n != int64(len(tiny)) {
		t.Errorf("%d bytes of chunks, want %d", n, len(tiny))
	}
	now = now.Add(25 * time.Hour)
	h.Expire()
	if n := h.spooled.Load(); n != 0 {
		t.Errorf("%d bytes of chunks after a day, want 0", n)
	}
}

// TestSpoolLimit: waiting bodies have a limit together.
func TestSpoolLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *Config) { c.MaxSpool = 1000 })
	status, _, h := s.do(t, http.MethodPut, "/hello.pdb", bytes.NewReader(data(t, "pdb/hello-x64.pdb")))
	if status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q; want 503", status, h.Get("Retry-After"))
	}
	if n := s.h.spooled.Load(); n != 0 {
		t.Errorf("%d bytes are left, want none", n)
	}
}

func FuzzForm(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"symbol_file\"; filename=\"a.sym\"\r\n\r\n"+symText+"\r\n--x--\r\n"), "/upload/breakpad")
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"a.zip\"; filename=\"a.zip\"\r\n\r\nPK\r\n--x--\r\n"), "/upload/")
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"file_gzip\"; filename=\""+strings.Repeat("a", 40)+"\"\r\n\r\n\x1f\x8b\r\n--x--\r\n"), optionsPath)
	fuzzBodies(f, http.MethodPost, "multipart/form-data; boundary=x")
}

func FuzzPackage(f *testing.F) {
	f.Add(nupkg(f, "A", "1", zipFile{"lib/a.pdb", data(f, "ppdb/tiny.pdb")}), "/nuget/v2/package")
	f.Add([]byte("PK\x05\x06"), "/in/Game/1")
	f.Add(displaced(f, "\x18\x1b[2lib/a.pdb"), "/nuget/v2/package")
	f.Fuzz(func(t *testing.T, b []byte, path string) {
		if len(b) > 1<<16 {
			return
		}
		s := newServer(t)
		body, kind := fileForm(t, nil, "package", "package.nupkg", b)
		status, text, _ := s.do(t, http.MethodPut, "/nuget/v2/package", body, "Content-Type", kind)
		if status == 500 || status < 400 && len(s.transactions()) == 0 {
			t.Errorf("status %d, %q without a build", status, text)
		}
	})
}

func FuzzAssemble(f *testing.F) {
	f.Add([]byte(`{"`+strings.Repeat("a", 40)+`":{"name":"a","debug_id":"x","chunks":[]}}`), assemblePath)
	f.Add([]byte(`{"files":[{"key":"a/AB/b","size":1,"md5_hash":"`+strings.Repeat("a", 32)+`"}]}`), "/upload/v2/")
	f.Add([]byte(`{"file":{"gnuBuildId":"ab"}}`), "/"+pyroscopeService+"/ShouldInitiateUpload")
	fuzzBodies(f, http.MethodPost, "application/json")
}

// fuzzBodies sends bodies to the paths of the seeds: no answer is 500, and no
// success of an upload leaves an open stage behind unless the protocol goes on.
func fuzzBodies(f *testing.F, method, kind string) {
	f.Fuzz(func(t *testing.T, b []byte, path string) {
		switch path {
		case "/upload/breakpad", "/upload/", optionsPath, assemblePath, "/upload/v2/", "/" + pyroscopeService + "/ShouldInitiateUpload":
		default:
			path = "/in/Game"
		}
		s := newServer(t)
		status, text, _ := s.do(t, method, path, bytes.NewReader(b), "Content-Type", kind)
		if status == 500 {
			t.Errorf("%s: %d %s, want another status than 500", path, status, text)
		}
	})
}

func FuzzProtoFields(f *testing.F) {
	f.Add([]byte("\x0a\x04\x0a\x02ab\x28\x02"))
	f.Add([]byte("\x0b\x0a\x01a\x0c"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := protoFields(b)
		for n, v := range fields {
			if err != nil || n < 1 || len(v) >= len(b) {
				t.Errorf("%q: field %d has %d bytes, %v; want less than the message, and no error", b, n, len(v), err)
			}
		}
	})
}

func FuzzClaim(f *testing.F) {
	f.Add("hello.pdb/AB12/hello.pdb", `{ debug_file: "prog" }`, "0b63363b-765c-2bba-70d3-662b71584e28-1")
	pdb := data(f, "pdb/hello-x64.pdb")
	objects := []symfile.Object{object(f, pdb, "hello.pdb")}
	f.Fuzz(func(t *testing.T, key, body, id string) {
		if k, ok := parseTeckenKey(key); ok {
			if _, err := cleanPath(k.module + "/" + k.id + "/" + k.file); err != nil {
				t.Errorf("the key %q is taken, but no path: %v", key, err)
			}
		}
		_ = looseMember([]byte(body), "debug_file")
		_ = oneHasID(objects, id)
		if p, err := cleanPath(key); err == nil {
			if again, err := cleanPath(p); err != nil || again != p {
				t.Errorf("cleanPath(%q) = %q, and of that %q, %v; want the same", key, p, again, err)
			}
		}
		_, _ = digestOf("Content-Digest", key)
		_, _ = parseNuspec(strings.NewReader(body))
		_ = fmt.Sprint(Claims(http.MethodPut, strings.Split(key, "/")))
	})
}

// TestContentsOf: a fat file that is put again has the contents that the product has, and
// those are its slices.
func TestContentsOf(t *testing.T) {
	t.Parallel()
	slice := data(t, "macho/app-arm64")
	const offset = 1 << 14
	solo := make([]byte, offset)
	for i, v := range []uint32{0xcafebabe, 1, 0x0100000c, 0, offset, uint32(len(slice)), 14} { // FAT_MAGIC, one fat_arch of arm64
		binary.BigEndian.PutUint32(solo[4*i:], v)
	}
	solo = append(solo, slice...)
	for name, test := range map[string]struct {
		body   []byte
		slices int
	}{"plain": {slice, 0}, "one slice": {solo, 1}, "fat": {data(t, "macho/app-fat"), 2}} {
		list, err := objfile.Identify(bytes.NewReader(test.body), int64(len(test.body)), "app", objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{blob.Sum(test.body).String(): true}
		for _, o := range list {
			want[blob.Sum(test.body[o.Offset:o.Offset+o.Size]).String()] = true
		}
		a := stage.Arrived{}
		a.Ref, a.Size = blob.Sum(test.body), int64(len(test.body))
		if got, err := contentsOf(a, bytes.NewReader(test.body)); err != nil || !maps.Equal(got, want) || len(got) != 1+test.slices {
			t.Errorf("%s: %v, %v; want the file and %d slices: %v", name, got, err, test.slices, want)
		}
	}
}
