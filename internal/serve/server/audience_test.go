package server

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	elfpkg "debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	watched "github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// outsideFile is a file of the tests with public forms.
type outsideFile struct {
	held
	product string
	hasForm bool
	paths   []string          // of the file itself, in all layouts
	whole   map[string]string // what those who may read all get there
}

// outsideWorld is a depot of two products with files of all kinds, which are made and served
// over HTTP.
type outsideWorld struct {
	d      *depot.Depot
	store  *tokenStore
	files  map[string]*outsideFile // by name
	folder *watched.Folder         // with the watchedFiles
	dir    string                  // where that is
}

// outsideFiles are the files of the products, and whether they have a public form.
var outsideFiles = []struct {
	product, name string
	hasForm       bool
}{
	{"engine", "pdb/hello-x64.pdb", true},
	{"engine", "pdb/hello-x64.exe", true}, // it ships, and is its own form
	{"engine", "pe/mingw.exe", true},      // with DWARF
	{"engine", "pe/link64.dbg", true},
	{"engine", "elf/prog-sha1.debug", true},
	{"engine", "elf/e-arm64", true},
	{"engine", "elf/prog-zstd", true},
	{"engine", "macho/app-arm64", true},
	{"engine", "macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64", true},
	{"engine", "ppdb/lines.pdb", false}, // nothing of it is public
	{"game", "pdb/hello-x86.pdb", true},
	{"game", "elf/e-x86", true},
}

// watchedFiles are files of a watched folder with a product of its own, as outsideFiles. Those in
// a package have its name before a colon.
var watchedFiles = []struct {
	name    string
	hasForm bool
}{
	{"pdb/hello-arm64.pdb", true},
	{"pdb/hello-arm64.exe", true},
	{"elf/e-riscv64", true},
	{"builds.tar.gz:elf/prog-b24", true},
	{"builds.tar.gz:macho/app-fat", true},
	{"builds.tar.gz:ppdb/tiny.pdb", false},
}

func newOutsideWorld(t *testing.T) *outsideWorld {
	t.Helper()
	w := &outsideWorld{
		d: openDepot(t, depot.Options{MakeCabinets: true}), store: &tokenStore{rows: map[[32]byte]auth.TokenRow{}}, files: map[string]*outsideFile{},
	}
	for _, f := range outsideFiles {
		body, err := os.ReadFile(filepath.Join("../../../testdata", f.name))
		if err != nil {
			t.Fatal(err)
		}
		w.add(t, f.product, f.name, body, f.hasForm)
	}
	w.watch(t)
	w.add(t, "engine", "given.sym", []byte("MODULE windows x86_64 "+smallID+" small.pdb\nINFO CODE_ID 5B1D7C3A9000 small.dll\n"+
		"FILE 0 /home/secret/private-source.cpp\nFUNC 1000 10 0 visible_function\n1000 10 42 0\nPUBLIC 2000 0 exported_symbol\n"), true)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.d.Work(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func (w *outsideWorld) add(t *testing.T, product, name string, body []byte, hasForm bool) {
	t.Helper()
	w.expect(t, name, &outsideFile{held: addAs(t, w.d, product, "/home/secret/"+name, body), product: product, hasForm: hasForm})
}

// watch has the depot watch a folder with the watchedFiles, of the product films.
func (w *outsideWorld) watch(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	packages := map[string]map[string][]byte{}
	for _, f := range watchedFiles {
		pack, name, inside := strings.Cut(f.name, ":")
		if !inside {
			name = pack
		}
		body, err := os.ReadFile(filepath.Join("../../../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		// tiny.pdb has the id of lines.pdb, and gets one of its own.
		body = bytes.ReplaceAll(body, []byte("\xba\x63\xe9\x86\xd3\x70\x51\x8f"), []byte("\xba\x63\xe9\x86\xd3\x70\x51\x90"))
		if inside {
			if packages[pack] == nil {
				packages[pack] = map[string][]byte{}
			}
			packages[pack]["home/hidden/"+name] = body
		} else {
			symtest.Put(t, filepath.Join(dir, "home", "hidden"), name, body)
		}
		objects, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), filepath.Base(name), objfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.expect(t, name, &outsideFile{held: held{body, objects[0].Object}, product: "films", hasForm: f.hasForm})
	}
	for name, members := range packages {
		symtest.Put(t, dir, name, tarGz(t, members))
	}
	folder, err := watched.Open(t.Context(), dir, watched.Options{
		Index: filepath.Join(t.TempDir(), "watched.db"), TempDir: t.TempDir(), Product: "films",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	if sum, err := folder.Scan(t.Context()); err != nil {
		t.Fatalf("scan: %+v, %v", sum, err)
	}
	w.d.Watched.Use([]*watched.Folder{folder})
	w.folder, w.dir = folder, dir
}

// tarGz returns a package of some files.
func tarGz(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := tar.NewWriter(z)
	for name, body := range members {
		if err := a.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// expect notes a file and its paths.
func (w *outsideWorld) expect(t *testing.T, name string, f *outsideFile) {
	t.Helper()
	body := f.body
	objects, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), filepath.Base(name), objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) > 1 { // a fat file: its slices are stored
		o := objects[0]
		f.obj, f.body = o.Object, body[o.Offset:o.Offset+o.Size]
	}
	for _, l := range layout.All() {
		for _, p := range l.Paths(f.obj) {
			f.paths = append(f.paths, "/"+p)
		}
	}
	slices.Sort(f.paths)
	f.paths = slices.Compact(f.paths)
	w.files[name] = f
}

// refer asks a server that is open to all for each path: several files have one id, and one of
// them answers.
func (w *outsideWorld) refer(t *testing.T) {
	t.Helper()
	url := w.serve(t, auth.PolicyConfig{}, Config{})
	for name, f := range w.files {
		f.whole = map[string]string{}
		for _, path := range f.paths {
			r := sendTo(t, "GET", url+path)
			if r.status != 200 {
				t.Fatalf("%s at %s: status %d for a caller who may read all", name, path, r.status)
			}
			f.whole[path] = r.body
		}
	}
}

// serve returns the URL of a server of the depot for callers without credentials who have some
// rights.
func (w *outsideWorld) serve(t *testing.T, policy auth.PolicyConfig, cfg Config) string {
	t.Helper()
	ts := httptest.NewServer(w.server(t, policy, cfg))
	t.Cleanup(ts.Close)
	return ts.URL
}

// server returns the server of serve.
func (w *outsideWorld) server(t *testing.T, policy auth.PolicyConfig, cfg Config) *Server {
	t.Helper()
	gate, err := auth.New(auth.Config{Policy: policy}, w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	cfg.Gate, cfg.Symbols.Wait = gate, time.Minute
	return newServer(t, withWeb(w.d, cfg))
}

// sendTo sends a request over HTTP. Redirects are not followed, and nothing is decoded.
func sendTo(t *testing.T, method, url string, header ...string) reply {
	t.Helper()
	return (&symbolsWorld{url: url}).send(t, method, "", "", append([]string{"Accept-Encoding: identity"}, header...)...)
}

// The levels of rights in these tests.
const (
	none = iota
	publicForms
	wholeFiles
)

// TestAudience: for each combination of rights to two products, each path of each file has the
// whole file, its public form or nothing. No answer to a caller of public forms has a text of
// eight characters of the file that is not a kept name; ranges, content codings, conditions and
// HEAD are those of the public form.
func TestAudience(t *testing.T) {
	w := newOutsideWorld(t)
	w.refer(t)
	for engine := none; engine <= wholeFiles; engine++ {
		for game := none; game <= wholeFiles; game++ {
			policy := auth.PolicyConfig{Anonymous: []string{}}
			films := (engine + game) % 3 // each level with each of the other two
			levels := map[string]int{"engine": engine, "game": game, "films": films}
			for product, level := range levels {
				switch level {
				case publicForms:
					policy.Public = append(policy.Public, product)
				case wholeFiles:
					policy.Anonymous = append(policy.Anonymous, product)
				}
			}
			t.Run(fmt.Sprintf("engine %d game %d films %d", engine, game, films), func(t *testing.T) {
				url := w.serve(t, policy, Config{})
				for name, f := range w.files {
					for _, path := range f.paths {
						w.checkPath(t, url, name+" at "+path, path, f, levels[f.product])
					}
				}
				w.checkMade(t, url, levels)
				w.checkElsewhere(t, url, levels)
			})
		}
	}
}

// checkPath checks all requests for a path of a file.
func (w *outsideWorld) checkPath(t *testing.T, url, what, path string, f *outsideFile, level int) {
	t.Helper()
	got := sendTo(t, "GET", url+path)
	switch {
	case level == none || level == publicForms && !f.hasForm:
		if h := got.header; got.status != 404 || h.Get("ETag") != "" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: status %d, header %v; want 404 that nobody keeps", what, got.status, h)
		}
		if again := sendTo(t, "HEAD", url+path); again.status != 404 {
			t.Errorf("%s: HEAD has status %d, want 404", what, again.status)
		}
		return
	case got.status != 200:
		t.Errorf("%s: status %d %.80q, want 200", what, got.status, got.body)
		return
	case level == wholeFiles:
		if got.body != f.whole[path] {
			t.Errorf("%s: %d bytes, want the whole file of %d", what, len(got.body), len(f.whole[path]))
		}
		return
	}
	whole := []byte(f.whole[path])
	checkPublic(t, what, whole, got.body)
	checkVariants(t, what, url+path, got, `"`+sha256Hex(whole)[:32]+`"`, got.body == string(whole))
	if ships := f.obj.Kind == symfile.PE && !bytes.Contains(whole, []byte("/4\x00")); (got.body == string(whole)) && !ships {
		t.Errorf("%s: the public form is the file itself", what)
	}
	if h := got.header; h.Get("Cache-Control") != "private, no-cache" || strings.Contains(fmt.Sprint(h), "secret") ||
		strings.Contains(fmt.Sprint(h), "hidden") {
		t.Errorf("%s: header %v; want that clients ask again, without the path of the file", what, h)
	}
}

// checkPublic checks that a body is a public form of a file.
func checkPublic(t *testing.T, what string, private []byte, body string) {
	t.Helper()
	form := strings.NewReader(body)
	texts, err := public.PrivateTexts(bytes.NewReader(private), int64(len(private)), form, form.Size(), public.Options{})
	if err != nil || len(texts) > 0 {
		t.Errorf("%s: private texts %.5q, %v in a body of %d bytes; want none", what, texts, err, len(body))
	}
	for _, word := range []string{"hello.c", "private-source.cpp", "/home/secret"} {
		if bytes.Contains(private, []byte(word)) && strings.Contains(body, word) && !bytes.HasPrefix(private, []byte("MZ")) {
			t.Errorf("%s: %q is in the public form", what, word)
		}
	}
	if strings.HasSuffix(what, ".gsym") {
		return // it has a build-id, or none
	}
	was, err := objfile.Identify(bytes.NewReader(private), int64(len(private)), "", objfile.Options{})
	is, err2 := objfile.Identify(strings.NewReader(body), form.Size(), "", objfile.Options{})
	if err != nil || err2 != nil || was[0].DebugID != is[0].DebugID || was[0].BuildID != is[0].BuildID {
		t.Errorf("%s: the public form has other ids: %v, %v", what, err, err2)
	}
}

// checkVariants checks the other requests for a file of which GET has the public form. tag is that
// of the whole file.
func checkVariants(t *testing.T, what, url string, form reply, tag string, same bool) {
	t.Helper()
	own := form.header.Get("ETag")
	if (own == tag) != same {
		t.Errorf("%s: ETag %s, that of the whole file is %s", what, own, tag)
	}
	head := sendTo(t, "HEAD", url)
	if head.status != 200 || head.header.Get("Content-Length") != itoa(int64(len(form.body))) || head.header.Get("ETag") != own {
		t.Errorf("%s: HEAD: %d %v; want what GET has", what, head.status, head.header)
	}
	if r := sendTo(t, "GET", url, "If-None-Match: "+own); r.status != 304 {
		t.Errorf("%s: with its own ETag: status %d, want 304", what, r.status)
	}
	if r := sendTo(t, "GET", url, "If-None-Match: "+tag); !same && (r.status != 200 || r.body != form.body) {
		t.Errorf("%s: with the ETag of the whole file: status %d, want 200 with the public form", what, r.status)
	}
	half := len(form.body) / 2
	part := sendTo(t, "GET", url, fmt.Sprintf("Range: bytes=%d-", half))
	if part.status != 206 || part.body != form.body[half:] {
		t.Errorf("%s: a range: status %d with %d bytes, want 206 with %d of the public form", what, part.status, len(part.body), len(form.body)-half)
	}
	if r := sendTo(t, "GET", url, "Range: bytes=0-9", "If-Range: "+tag); !same && (r.status != 200 || r.body != form.body) {
		t.Errorf("%s: a range of the whole file: status %d, want 200 with the public form", what, r.status)
	}
	if r := sendTo(t, "GET", url, fmt.Sprintf("Range: bytes=%d-", len(form.body))); r.status != 416 {
		t.Errorf("%s: a range behind the end: status %d, want 416", what, r.status)
	}
	for coding, decode := range decoders {
		for range 4 {
			r := sendTo(t, "GET", url, "Accept-Encoding: "+coding)
			body := []byte(r.body)
			if r.header.Get("Content-Encoding") != "" {
				body = decode(t, body)
			}
			if r.status != 200 || string(body) != form.body {
				t.Errorf("%s: in %s: status %d with %d bytes, want the public form", what, coding, r.status, len(body))
			}
		}
	}
	if r := sendTo(t, "GET", url+"?format=msfz&audience=all", "Accept: application/msfz0"); r.status != 200 || r.body != form.body {
		t.Errorf("%s: asked for another form: status %d with %d bytes, want the public form", what, r.status, len(r.body))
	}
}

var decoders = map[string]func(*testing.T, []byte) []byte{
	"gzip": func(t *testing.T, b []byte) []byte {
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return out
	},
	"zstd": func(t *testing.T, b []byte) []byte {
		d, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		out, err := d.DecodeAll(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	},
}

// checkMade checks symbol files that are made, and the sections of ELF files.
func (w *outsideWorld) checkMade(t *testing.T, url string, levels map[string]int) {
	t.Helper()
	for _, name := range []string{"pdb/hello-x64.pdb", "pdb/hello-x86.pdb", "pdb/hello-arm64.pdb"} {
		f := w.files[name]
		level := levels[f.product]
		sym := f.symPath(t)
		for _, path := range []string{sym, strings.TrimSuffix(sym, ".sym") + ".gsym"} {
			r := sendTo(t, "GET", url+path)
			if want := map[bool]int{true: 404, false: 200}[level == none]; r.status != want {
				t.Errorf("%s: status %d, want %d", path, r.status, want)
				continue
			}
			if level != publicForms {
				continue
			}
			checkPublic(t, path, f.body, r.body)
			checkVariants(t, path, url+path, r, `"none"`, false)
			if !strings.HasSuffix(path, ".sym") {
				continue
			}
			for line := range strings.Lines(r.body) {
				record := breakpad.ParseRecord([]byte(strings.TrimSuffix(line, "\n")))
				switch record.Kind {
				case breakpad.FuncRecord, breakpad.PublicRecord, breakpad.ModuleRecord, breakpad.CodeIDRecord, breakpad.StackRecord:
				default:
					t.Errorf("%s: the line %q is in the public form", path, line)
				}
			}
			if strings.Contains(r.body, "Pair") { // a type that parameters have
				t.Errorf("%s: the body has the name of a type:\n%s", path, r.body)
			}
			if !strings.Contains(r.body, " entry") || f.product == "engine" && !strings.Contains(r.body, "INFO CODE_ID ") {
				t.Errorf("%s: the function or the program is missing:\n%s", path, r.body)
			}
		}
	}
	for _, name := range []string{"elf/prog-sha1.debug", "elf/e-arm64", "elf/prog-zstd", "elf/e-x86", "elf/e-riscv64", "elf/prog-b24"} {
		f := w.files[name]
		id := string(f.obj.BuildID)
		for _, section := range []string{".debug_info", ".debug_line", ".debug_str", ".debug_abbrev"} {
			r := sendTo(t, "GET", url+"/buildid/"+id+"/section/"+section)
			if level := levels[f.product]; level < wholeFiles && r.status != 404 || level == wholeFiles && r.status != 200 {
				t.Errorf("%s: section %s: status %d for the level %d", name, section, r.status, level)
			}
		}
		r := sendTo(t, "GET", url+"/buildid/"+id+"/section/.symtab")
		switch level := levels[f.product]; {
		case level == none && r.status != 404, level != none && r.status != 200:
			t.Errorf("%s: .symtab: status %d for the level %d", name, r.status, level)
		case level == publicForms:
			form := sendTo(t, "GET", url+"/buildid/"+id+"/debuginfo")
			if form.status != 200 || !strings.Contains(form.body, r.body) || r.header.Get("ETag") == form.header.Get("ETag") {
				t.Errorf("%s: .symtab is no part of the public form", name)
			}
		}
	}
}

// checkElsewhere checks what has no public form: sources, metadata, SymCache files, symbolication,
// pages and API.
func (w *outsideWorld) checkElsewhere(t *testing.T, url string, levels map[string]int) {
	t.Helper()
	w.checkElsewhereOf(t, url, levels, w.files["pdb/hello-x64.pdb"], w.files["elf/prog-sha1.debug"])
	w.checkElsewhereOf(t, url, levels, w.files["pdb/hello-arm64.pdb"], w.files["elf/prog-b24"])
}

// checkElsewhereOf is checkElsewhere for two files of one product.
func (w *outsideWorld) checkElsewhereOf(t *testing.T, url string, levels map[string]int, f, elf *outsideFile) {
	t.Helper()
	if levels[f.product] == wholeFiles {
		return
	}
	folder := map[string]string{"engine": "secret", "films": "hidden"}[f.product] // in which the product was built
	id := string(elf.obj.BuildID)
	pdb := f.path(t, layout.SymStore)
	for _, path := range []string{
		"/buildid/" + id + "/source/home/secret/hello.c", "/buildid/" + id + "/source//src/prog.c",
		"/v3.1.0/" + f.obj.Name + "/" + f.obj.DebugID.Breakpad()[:32] + "/1",
		pdb[:strings.LastIndex(pdb, "/")] + "/file.ptr", pdb[:strings.LastIndex(pdb, "/")] + "/refs.ptr",
		"/-/file/" + sha256Hex(f.body), "/-/api/v1/files/" + sha256Hex(f.body), "/-/api/v1/files/" + sha256Hex(f.body) + "/sources",
		"/-/api/v1/trace?path=" + pdb[1:], "/-/api/v1/files?q=hello*", "/-/api/v1/transactions", "/metadata?key=buildid&value=" + id, "/metrics",
	} {
		r := sendTo(t, "GET", url+path)
		if strings.Contains(r.body, folder) || strings.Contains(r.body, "hello.c") || r.status == 200 && strings.Contains(r.body, sha256Hex(f.body)) {
			t.Errorf("%s: status %d, body %.300q; want nothing of the file", path, r.status, r.body)
		}
	}
	body := fmt.Sprintf(`{"jobs":[{"memoryMap":[[%q,%q]],"stacks":[[[0,4112]]]}]}`, f.obj.Name, f.obj.DebugID.Breakpad())
	r, err := http.Post(url+"/symbolicate/v5", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || bytes.Contains(text, []byte("hello.c")) || bytes.Contains(text, []byte(`"line"`)) ||
		bytes.Contains(text, []byte(`"function":`)) != (levels[f.product] == publicForms) {
		t.Errorf("symbolication: %s, %v; want the function for a caller of public forms, and never a line", text, err)
	}
}

// TestAudiencePage: the page of a file offers its public form, and says what was taken away.
func TestAudiencePage(t *testing.T) {
	w := newOutsideWorld(t)
	url := w.serve(t, auth.PolicyConfig{}, Config{})
	f := w.files["pdb/hello-x64.pdb"]
	form := sendTo(t, "GET", url+f.path(t, layout.SymStore)+"?audience=public")
	page := sendTo(t, "GET", url+"/-/file/"+sha256Hex(f.body), browser)
	for _, want := range []string{"?audience=public", ">public</th>", ": without types (", "line numbers ("} {
		if form.status != 200 || page.status != 200 || !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q: status %d\n%s", want, page.status, page.body)
		}
	}
	var file display.Entry
	got := sendTo(t, "GET", url+"/-/api/v1/files/"+sha256Hex(f.body))
	if err := json.Unmarshal([]byte(got.body), &file); err != nil {
		t.Fatalf("the file in JSON: status %d, %v", got.status, err)
	}
	i := slices.IndexFunc(file.Forms, func(f display.EntryForm) bool { return f.Name == "public" })
	if i < 0 || file.Forms[i].SHA256 != sha256Hex([]byte(form.body)) {
		t.Fatalf("the forms are %+v, want the public one among them", file.Forms)
	}
	report, err := public.Write(io.Discard, bytes.NewReader(f.body), int64(len(f.body)), public.Options{})
	if err != nil || len(report.Removed) == 0 {
		t.Fatalf("the report is %+v, %v", report, err)
	}
	var want []display.Removed
	for _, x := range report.Removed {
		want = append(want, display.Removed{Kind: string(x.Kind), Count: x.Count, Bytes: x.Bytes})
	}
	if !slices.Equal(file.Forms[i].Removed, want) {
		t.Errorf("JSON says that %+v was taken away, want %+v", file.Forms[i].Removed, want)
	}
	exe := w.files["pdb/hello-x64.exe"]
	sendTo(t, "GET", url+exe.path(t, layout.SymStore)+"?audience=public")
	if page := sendTo(t, "GET", url+"/-/file/"+sha256Hex(exe.body), browser); !strings.Contains(page.body, ": the file as it is") {
		t.Errorf("the page does not say that the program is its own public form:\n%s", page.body)
	}
}

// TestAudienceCabinet: the cabinet that a caller of public forms gets is that of the public form.
func TestAudienceCabinet(t *testing.T) {
	w := newOutsideWorld(t)
	f := w.files["pdb/hello-x64.pdb"]
	outside, inside := w.serve(t, auth.PolicyConfig{Public: []string{"engine"}}, Config{}), w.serve(t, auth.PolicyConfig{}, Config{})
	path := f.path(t, layout.SymStore)
	form := sendTo(t, "GET", outside+path)
	if form.status != 200 {
		t.Fatalf("GET %s: status %d", path, form.status)
	}
	for url, want := range map[string]string{inside: string(f.body), outside: form.body} {
		var r reply
		symtest.Await(t, time.Minute, "the cabinet", func() bool {
			r = sendTo(t, "GET", url+path[:len(path)-1]+"_")
			return r.status == 200
		})
		file, err := cab.OpenSingle(strings.NewReader(r.body), int64(len(r.body)), cab.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := file.Extract(&b); err != nil || b.String() != want {
			t.Errorf("the cabinet has %d bytes, %v; want %d", b.Len(), err, len(want))
		}
	}
}

// TestAudienceTokens: tokens, in headers and in the path, give what their scope says. Who may read
// a file gets its public form on request.
func TestAudienceTokens(t *testing.T) {
	w := newOutsideWorld(t)
	url := w.serve(t, demand, Config{})
	f := w.files["pdb/hello-x64.pdb"]
	path := f.path(t, layout.SymStore)
	all := w.store.add(t, "all", nil, auth.ScopeRead)
	partner := w.store.add(t, "partner", []string{"engine"}, auth.ScopeReadPublic)
	other := w.store.add(t, "other", []string{"game"}, auth.ScopeReadPublic)
	both := w.store.add(t, "both", []string{"engine"}, auth.ScopeRead, auth.ScopeReadPublic)
	form := sendTo(t, "GET", url+path, bearer(partner))
	if form.status != 200 || form.body == string(f.body) {
		t.Fatalf("read:public: status %d with %d bytes, want the public form", form.status, len(form.body))
	}
	checkPublic(t, "read:public", f.body, form.body)
	for _, c := range []struct {
		what, path, token string
		status            int
		body              string
	}{
		{"nobody", path, "", 401, ""},
		{"all", path, all, 200, string(f.body)},
		{"all again, from memory", path, all, 200, string(f.body)},
		{"all, on request", path + "?audience=public", all, 200, form.body},
		{"all, after that", path, all, 200, string(f.body)},
		{"the public form again", path, partner, 200, form.body},
		{"in the path", "/t/" + partner + path, "", 200, form.body},
		{"of another product", path, other, 404, ""},
		{"of another product, on request", path + "?audience=public", other, 404, ""},
		{"both scopes", path, both, 200, string(f.body)},
		{"a trace", "/-/api/v1/trace?path=" + path[1:], partner, 200, ""},
		{"a page's download", "/-/file/get?path=" + path + "&audience=public", all, 200, form.body},
	} {
		var header []string
		if c.token != "" {
			header = append(header, bearer(c.token))
		}
		if r := sendTo(t, "GET", url+c.path, header...); r.status != c.status || c.body != "" && r.body != c.body {
			t.Errorf("%s: status %d with %d bytes, want %d with %d", c.what, r.status, len(r.body), c.status, len(c.body))
		} else if c.what == "a trace" && !strings.Contains(r.body, "public forms are not traced: ask for the file itself") {
			t.Errorf("%s of a caller of public forms does not say that it knows none: %s", c.what, r.body)
		}
	}
}

// TestOnlyPublic: a server for people outside gives whole files to nobody.
func TestOnlyPublic(t *testing.T) {
	w := newOutsideWorld(t)
	admin := w.store.add(t, "admin", nil, auth.ScopeAdmin)
	f := w.files["pdb/hello-x64.pdb"]
	path := f.path(t, layout.SymStore)
	for what, policy := range map[string]auth.PolicyConfig{"open": {}, "guarded": demand} {
		url := w.serve(t, policy, Config{OnlyPublic: true, WorkerToken: "worker"})
		for range 3 { // also if it was kept in memory
			r := sendTo(t, "GET", url+path, bearer(admin))
			if r.status != 200 || r.body == string(f.body) {
				t.Fatalf("%s: status %d with %d bytes, want the public form", what, r.status, len(r.body))
			}
			checkPublic(t, what, f.body, r.body)
		}
		for _, path := range []string{
			"/metrics", "/-/api/v1/files/" + sha256Hex(f.body), "/-/api/v1/jobs", "/-/api/v1/tokens", "/-/device",
			"/-/oauth/.well-known/oauth-authorization-server", "/v1/symbols/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1:checkStatus?key=" + admin,
		} {
			if r := sendTo(t, "GET", url+path, bearer(admin)); r.status == 200 {
				t.Errorf("%s: %s: status 200, want a refusal", what, auth.Redact(path))
			}
		}
		if r := sendTo(t, "POST", url+"/v1/uploads:create?key="+admin); r.status/100 == 2 {
			t.Errorf("%s: an upload with a token in the query: status %d, want a refusal", what, r.status)
		}
	}
	// Without a gate, too.
	ts := httptest.NewServer(newServer(t, withWeb(w.d, Config{OnlyPublic: true, Symbols: SymbolsConfig{Wait: time.Minute}})))
	defer ts.Close()
	for range 3 {
		if r := sendTo(t, "GET", ts.URL+path); r.status != 200 || r.body == string(f.body) {
			t.Errorf("without a gate: status %d with %d bytes, want the public form", r.status, len(r.body))
		}
	}
}

// TestAudienceFailures: a file without a public form is tried once, and a caller who cannot wait is
// told when to ask again.
func TestAudienceFailures(t *testing.T) {
	w := newOutsideWorld(t)
	url := w.serve(t, auth.PolicyConfig{Public: []string{auth.AllProducts}}, Config{})
	portable := w.files["ppdb/lines.pdb"]
	count := func() (n int) {
		list, err := w.d.Jobs().List(t.Context(), jobs.Filter{Kind: publicform.Kind})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for range 3 {
		for _, path := range portable.paths {
			if r := sendTo(t, "GET", url+path); r.status != 404 || r.header.Get("Retry-After") != "" {
				t.Errorf("%s: status %d, Retry-After %q; want 404", path, r.status, r.header.Get("Retry-After"))
			}
		}
	}
	if n := count(); n != 1 {
		t.Errorf("%d jobs for a file without a public form, want one", n)
	}
	// The ids of damaged files can be read: of a PDB whose public symbols are too long, and of an
	// ELF file whose symbols refer to no table of names.
	pdb := slices.Clone(w.files["pdb/hello-x86.pdb"].body)
	const publicSymbol = "\x0e\x11"
	for at := 0; ; at += len(publicSymbol) {
		next := bytes.Index(pdb[at:], []byte(publicSymbol))
		if next < 0 {
			break
		}
		at += next
		copy(pdb[at-2:], "\xff\xff")
	}
	elf := slices.Clone(w.files["elf/prog-sha1.debug"].body)
	sections, err := elfpkg.NewFile(bytes.NewReader(elf))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sections.Sections {
		if s.Type == elfpkg.SHT_SYMTAB {
			binary.LittleEndian.PutUint32(elf[int(binary.LittleEndian.Uint64(elf[0x28:]))+64*i+40:], 0xffff)
		}
	}
	for name, body := range map[string][]byte{"damaged.pdb": pdb, "damaged.debug": elf} {
		w.add(t, name, name, body, false)
		url := w.serve(t, auth.PolicyConfig{Public: []string{name}}, Config{})
		if len(w.files[name].paths) == 0 {
			t.Fatalf("%s has no path", name)
		}
		for _, path := range w.files[name].paths {
			if r := sendTo(t, "GET", url+path); r.status != 404 || len(r.body) > 20 {
				t.Errorf("%s at %s: status %d with %d bytes, want 404", name, path, r.status, len(r.body))
			}
		}
	}
}

// TestAudienceChange: the rights to a product change for the next request.
func TestAudienceChange(t *testing.T) {
	w := newOutsideWorld(t)
	f := w.files["elf/e-arm64"]
	path := f.path(t, layout.Debuginfod)
	whole, part := w.serve(t, auth.PolicyConfig{}, Config{}), w.serve(t, auth.PolicyConfig{Public: []string{"engine"}}, Config{})
	for range 4 { // both answer from memory by now, if they may
		if r := sendTo(t, "GET", whole+path); r.body != string(f.body) {
			t.Errorf("inside: status %d with %d bytes, want the whole file", r.status, len(r.body))
		}
		if r := sendTo(t, "GET", part+path); r.status != 200 || r.body == string(f.body) {
			t.Errorf("outside: status %d with %d bytes, want the public form", r.status, len(r.body))
		}
	}
}

// TestAudienceWatchedChange: a file of a watched folder that changes is never answered with the form
// of its old contents: not before the folder is scanned again, and not after that.
func TestAudienceWatchedChange(t *testing.T) {
	w := newOutsideWorld(t)
	url := w.serve(t, auth.PolicyConfig{Public: []string{"films"}}, Config{})
	sym := func(function string) []byte {
		return []byte("MODULE windows x86_64 " + smallID + " reel.pdb\nFILE 0 /home/hidden/reel.cpp\nFUNC 1000 10 0 " + function + "\n1000 10 1 0\n")
	}
	path := "/reel.pdb/" + smallID + "/reel.sym"
	file := filepath.Join(w.dir, "reel.sym")
	scan := func() {
		t.Helper()
		if _, err := w.folder.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, status int, function string) {
		t.Helper()
		r := sendTo(t, "GET", url+path)
		if r.status != status || status == 200 && (!strings.Contains(r.body, function) || strings.Contains(r.body, "reel.cpp")) {
			t.Errorf("%s: status %d, %q; want %d with the function %s alone", what, r.status, r.body, status, function)
		}
	}
	symtest.Put(t, w.dir, "reel.sym", sym("first_cut"))
	scan()
	check("a new file", 200, "first_cut")
	// Changed in place: as long as before, and a nanosecond younger.
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, w.dir, "reel.sym", sym("final_cut"))
	if err := os.Chtimes(file, time.Time{}, was.ModTime().Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	check("changed, before the scan", 404, "")
	scan()
	check("changed", 200, "final_cut")
	// Touched: the form is recorded for the new state, and has the same bytes.
	if err := os.Chtimes(file, time.Time{}, was.ModTime().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	scan()
	check("touched", 200, "final_cut")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("removed, before the scan", 404, "")
	scan()
	check("removed", 404, "")
}

// TestAudienceAudit: the audit log says that the public form was sent.
func TestAudienceAudit(t *testing.T) {
	w := newOutsideWorld(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	audit, err := auth.OpenAudit(auth.AuditConfig{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := w.server(t, demand, Config{Audit: audit})
	partner := w.store.add(t, "partner", nil, auth.ScopeReadPublic)
	watched := w.files["pdb/hello-arm64.pdb"]
	of := []struct{ path, product string }{
		{w.files["pdb/hello-x64.pdb"].path(t, layout.SymStore), "engine"},
		{watched.path(t, layout.SymStore), "films"},
		{watched.symPath(t), "films"},
	}
	var sent []string
	for _, f := range of {
		r := ask(s, "GET", f.path, bearer(partner)) // returns after the record
		sent = append(sent, sha256Hex([]byte(r.body)))
	}
	if err := audit.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(bytes.NewReader(b))
	for i, f := range of {
		var e auth.Event
		if err := lines.Decode(&e); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		if e.Who != "partner" || e.Audience != web.AudiencePublic || e.Content != sent[i] || !slices.Equal(e.Products, []string{f.product}) {
			t.Errorf("the record is %+v; want the public form of the file at %s, of the product %s", e, f.path, f.product)
		}
	}
}
