package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// site is a server with credentials, and what its clients need.
type site struct {
	t     *testing.T
	depot string
	url   string
	token string // reads and writes everything
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, depot: filepath.Join(t.TempDir(), "depot")}
	if code, _, errs := commandtest.Symdepot(t, s.depot, "add", "--product", "other", "../../testdata/pe"); code != 0 {
		t.Fatalf("add: exit %d, want 0: %s", code, errs)
	}
	s.token = s.newToken("--name", "ci", "--scope", "read", "--scope", "write")
	s.url = commandtest.ServeDepot(t, s.depot, "--auth").URL
	return s
}

func (s *site) newToken(args ...string) string {
	s.t.Helper()
	code, out, errs := commandtest.Symdepot(s.t, s.depot, append([]string{"token", "new"}, args...)...)
	if code != 0 {
		s.t.Fatalf("token new: exit %d, want 0: %s", code, errs)
	}
	return strings.TrimSpace(out)
}

// run runs a client and expects an exit code and words in its output.
func (s *site) run(t *testing.T, code int, words string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	home := t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "SENTRY_DISABLE_UPDATE_CHECK=true", "SENTRY_HTTP_MAX_RETRIES=1", "no_proxy=127.0.0.1"}, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v, want a program that runs", program, err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), words) {
		t.Errorf("%s %s: exit code %d, want %d with %q:\n%s", filepath.Base(program), strings.ReplaceAll(strings.Join(args, " "), s.token, "TOKEN"), got, code, words, out)
	}
	return string(out)
}

// transactions returns "VERSION CLASS OBJECTS" of the transactions of a product.
func (s *site) transactions(t *testing.T, product string) (list []string) {
	t.Helper()
	_, out, _ := commandtest.Symdepot(t, s.depot, "list", "--json", "--product", product)
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var tx struct {
			Version, Class string
			Objects        int `json:"files"`
		}
		if err := dec.Decode(&tx); err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.Join(strings.Fields(fmt.Sprintf("%s %s %d", tx.Version, tx.Class, tx.Objects)), " "))
	}
	slices.Sort(list)
	return list
}

func (s *site) want(t *testing.T, product string, want ...string) {
	t.Helper()
	if got := s.transactions(t, product); !slices.Equal(got, want) {
		t.Errorf("the builds of %s (version, class, objects): %q, want %q", product, got, want)
	}
}

// comesBack asks with a token for a file under every path that identify prints, and
// compares the bytes.
func (s *site) comesBack(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, out, errs := commandtest.Symdepot(t, s.depot, "identify", "--json", file)
		var o struct{ Paths map[string][]string }
		if err := json.NewDecoder(strings.NewReader(out)).Decode(&o); err != nil || len(o.Paths) == 0 {
			t.Fatalf("identify %s: %v, %s%s; want at least one path", file, err, out, errs)
		}
		for _, p := range slices.Concat(slices.Collect(maps.Values(o.Paths))...) {
			r, err := http.Get(s.url + "/t/" + s.token + "/" + p)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			_, err = b.ReadFrom(r.Body)
			_ = r.Body.Close()
			if r.StatusCode != http.StatusOK || err != nil || !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s: GET %s: status %d, %d bytes, %v; want the %d bytes of the file", filepath.Base(file), p, r.StatusCode, b.Len(), err, len(want))
			}
		}
	}
}

// zipped returns a zip archive with these members.
func zipped(t *testing.T, members ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		w, err := z.Create(members[i].(string))
		if err == nil {
			_, err = w.Write(members[i+1].([]byte))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// symOf returns a Breakpad file whose id ends in a number.
func symOf(module string, n int) []byte {
	return fmt.Appendf(nil, "MODULE Linux x86_64 %030X0%02X %s\nFILE 0 main.c\nFUNC 1000 10 0 main\n1000 10 7 0\nPUBLIC 2000 0 g%d\n", n+1, 0, module, n)
}

// withOtherAge returns a PDB of age 1, whose GUID is one byte again and again, and a program with
// this GUID and the age 26.
func withOtherAge(t *testing.T, digit byte) (pdb, program []byte) {
	t.Helper()
	pdb, program = commandtest.Testdata(t, "pdb/hello-x86.pdb"), commandtest.Testdata(t, "pdb/hello-x86.exe")
	i := bytes.Index(program, []byte("RSDS")) + 4
	old, guid := bytes.Clone(program[i:i+16]), bytes.Repeat([]byte{digit}, 16)
	if !bytes.Contains(pdb, old) || program[i+16] != 1 {
		t.Fatal("the program does not name the PDB with the age 1")
	}
	pdb, program = bytes.ReplaceAll(pdb, old, guid), bytes.ReplaceAll(program, old, guid)
	program[i+16] = 26
	return pdb, program
}

// TestUploaders runs the uploaders that people have against the real server, and asks
// for what they sent.
func TestUploaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bearer := "Authorization: Bearer " + s.token
	files := func(t *testing.T, names ...string) (dir string, paths []string) {
		dir = t.TempDir()
		for _, n := range names {
			paths = append(paths, commandtest.PutFile(t, dir, filepath.Base(n), commandtest.Testdata(t, n)))
		}
		return dir, paths
	}
	for _, name := range []string{"sentry-cli-3", "sentry-cli-2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cli := symtest.Tool(t, name)
			product := name
			dir, paths := files(t, "pdb/hello-x64.pdb", "elf/prog-sha1.debug", "elf/libprog.so")
			paths = append(paths, commandtest.PutFile(t, dir, "prog.sym", symOf("prog", 1)))
			commandtest.PutFile(t, dir, "notes.txt", []byte("not a symbol file"))
			upload := func(code int, words, token string, more ...string) string {
				return s.run(t, code, words, nil, cli, append([]string{"--url", s.url, "--auth-token", token, "debug-files", "upload", "-o", "acme", "-p", product, dir}, more...)...)
			}
			upload(0, "", s.token)
			s.want(t, product, "4")
			s.comesBack(t, paths...)
			upload(0, "Nothing to upload", s.token, "--wait")
			s.want(t, product, "4") // the same files are the same transaction
			upload(1, "401", "sd_"+strings.Repeat("a", 43))
			upload(1, "403", s.newToken("--name", "reader"))
			upload(1, "403", s.newToken("--name", "elsewhere", "--scope", "write", "--product", "none", "--product", "nothing"))
			s.run(t, 1, "not on URL root", nil, cli, "--url", s.url+"/corp", "--auth-token", s.token, "debug-files", "upload", "-o", "acme", "-p", product, dir)
			// The client gives a PDB the age of the program beside it. The PDB is found under its own.
			aged := t.TempDir()
			digit := name[len(name)-1]
			pdb, program := withOtherAge(t, digit)
			commandtest.PutFile(t, aged, "hello-x86.exe", program)
			mine := commandtest.PutFile(t, aged, "hello-x86.pdb", pdb)
			guid := strings.Repeat(fmt.Sprintf("%02x", digit), 16)
			told := fmt.Sprintf("%s-%s-%s-%s-%s-1 ", guid[:8], guid[:4], guid[:4], guid[:4], guid[:12])
			s.run(t, 0, told, nil, cli, "--url", s.url, "--auth-token", s.token, "debug-files", "upload", "-o", "acme", "-p", product+"-ages", "--wait", aged)
			s.want(t, product+"-ages", "1")
			s.comesBack(t, mine)
			r, err := http.Get(s.url + "/t/" + s.token + "/hello-x86.pdb/" + guid + "1A/hello-x86.pdb")
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode != http.StatusNotFound {
				t.Errorf("the age that the client has claimed: status %d, want 404", r.StatusCode)
			}
			mapping := commandtest.PutFile(t, t.TempDir(), "mapping.txt", []byte("com.example.A -> a:\n    1:1:void f():7:7 -> b\n"))
			s.run(t, 0, "", nil, cli, "--url", s.url, "--auth-token", s.token, "upload-proguard", "-o", "acme", "-p", product, mapping)
			s.want(t, product, "1", "4")
		})
	}
	t.Run("tecken", func(t *testing.T) {
		t.Parallel()
		curl := symtest.Tool(t, "curl")
		dir := t.TempDir()
		sym := commandtest.PutFile(t, dir, "xul.sym", symOf("libxul.so", 2))
		pdb := commandtest.Testdata(t, "pdb/hello-x86.pdb")
		// A zip archive as Mozilla's scripts send it: module/ID/file, and a list of them.
		archive := commandtest.PutFile(t, dir, "symbols.zip", zipped(t, "libxul.so/"+fmt.Sprintf("%030X000", 3)+"/libxul.so.sym", symOf("libxul.so", 2),
			"hello-x86.pdb/"+breakpadID(t, s, "pdb/hello-x86.pdb")+"/hello-x86.pdb", pdb, "firefox-140.0-symbols.txt", []byte("libxul.so\n")))
		send := func(words string, args ...string) {
			t.Helper()
			s.run(t, 0, words, nil, curl, append([]string{"-sS", "-w", " %{http_code}"}, args...)...)
		}
		send(" 201", "-H", "Auth-Token: "+s.token, "--form", "symbols.zip=@"+archive, s.url+"/in/Firefox/140.0/upload/")
		s.comesBack(t, sym, "../../testdata/pdb/hello-x86.pdb")
		send(`"skipped_keys":["`, "-H", "auth-token: "+s.token+"-uploadtry-2026", "--form", "try=1", "--form", "symbols.zip=@"+archive, s.url+"/in/Firefox/140.0/upload/")
		s.want(t, "Firefox", "140.0 2", "140.0 try 2")
		send(" 403", "-H", "Auth-Token: "+strings.Repeat("0", 32), "--form", "symbols.zip=@"+archive, s.url+"/upload/")
		send("unrecognized file pattern", "-H", "Auth-Token: "+s.token, "--form", "a.zip=@"+commandtest.PutFile(t, dir, "a.zip", zipped(t, "readme.txt", []byte("x"))), s.url+"/upload/")
		send(" 400", "-H", "Auth-Token: "+s.token, "--form", "a.zip=@"+commandtest.PutFile(t, dir, "b.zip", []byte("PK no archive")), s.url+"/upload/")
		send(" 400", "-H", "Auth-Token: "+s.token, "--data", "url=https://example.com/a.zip", s.url+"/upload/")
		s.want(t, "Firefox", "140.0 2", "140.0 try 2")
	})
	t.Run("breakpad", func(t *testing.T) {
		t.Parallel()
		up := symtest.Tool(t, "sym_upload")
		dir := t.TempDir()
		one, two := commandtest.PutFile(t, dir, "one.sym", symOf("one", 10)), commandtest.PutFile(t, dir, "two.sym", symOf("two", 11))
		s.run(t, 0, "Successfully sent", nil, up, "-v", "1.2", one, s.url+"/in/Crashy/1.2?key="+s.token)
		s.run(t, 0, "Successfully sent", nil, up, "-p", "sym-upload-v2", "-k", s.token, two, s.url+"/in/Crashy/1.2")
		s.want(t, "Crashy", "1.2 2") // one transaction collects both
		s.comesBack(t, one, two)
		elf := "../../testdata/elf/prog-sha1.debug"
		id := breakpadID(t, s, "elf/prog-sha1.debug")
		s.run(t, 0, "", nil, up, "-p", "sym-upload-v2", "-k", s.token, "-t", "elf", "-c", "prog", "-i", id, elf, s.url+"/in/Crashy/1.2")
		s.want(t, "Crashy", "1.2 3")
		s.run(t, 1, "401", nil, up, one, s.url+"/in/Crashy/1.2?key=bad")
		s.run(t, 1, "", nil, up, "-p", "sym-upload-v2", "-k", "bad", one, s.url+"/in/Crashy/1.3")
		s.want(t, "Crashy", "1.2 3")
	})
	t.Run("nuget", func(t *testing.T) {
		t.Parallel()
		nuget := symtest.Tool(t, "nuget-mono")
		dir := t.TempDir()
		pkg := func(name, version string, members ...any) string {
			spec := fmt.Sprintf(`<?xml version="1.0"?><package xmlns="http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd"><metadata><id>%s</id><version>%s</version><authors>a</authors><description>d</description></metadata></package>`, name, version)
			return commandtest.PutFile(t, dir, name+"."+version+".nupkg", zipped(t, append([]any{"[Content_Types].xml", []byte(`<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="nuspec" ContentType="application/octet"/><Default Extension="dll" ContentType="application/octet"/><Default Extension="pdb" ContentType="application/octet"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>`),
				"_rels/.rels", []byte(`<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/` + name + `.nuspec" Id="R1"/></Relationships>`),
				name + ".nuspec", []byte(spec)}, members...)...))
		}
		lib := pkg("Lib", "1.0.0", "lib/net48/hello-x64.exe", commandtest.Testdata(t, "pdb/hello-x64.exe"), "lib/net48/hello-x64.pdb", commandtest.Testdata(t, "pdb/hello-x64.pdb"))
		s.run(t, 0, "was pushed", nil, nuget, "push", lib, s.token, "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
		s.want(t, "Lib", "1.0.0 2")
		s.comesBack(t, "../../testdata/pdb/hello-x64.pdb")
		s.run(t, 0, "was pushed", nil, nuget, "push", lib, s.token, "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
		s.want(t, "Lib", "1.0.0 2")
		// A7: the symbol package beside a package follows by itself.
		symbols := pkg("Two", "1.0.0", "lib/net48/hello-arm64.pdb", commandtest.Testdata(t, "pdb/hello-arm64.pdb"))
		if err := os.Rename(symbols, strings.TrimSuffix(symbols, ".nupkg")+".snupkg"); err != nil {
			t.Fatal(err)
		}
		two := pkg("Two", "1.0.0", "lib/net48/hello-arm64.exe", commandtest.Testdata(t, "pdb/hello-arm64.exe"))
		s.run(t, 0, "Two.1.0.0.snupkg", nil, nuget, "push", two, s.token, "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
		s.want(t, "Two", "1.0.0 1", "1.0.0 1")
		s.comesBack(t, "../../testdata/pdb/hello-arm64.pdb")
		// The PDB of another build beside the image.
		wrong := pkg("Lib", "1.0.1", "lib/net48/hello-x64.exe", commandtest.Testdata(t, "pdb/hello-x64.exe"), "lib/net48/hello-x64.pdb", commandtest.Testdata(t, "pdb/hello-x86.pdb"))
		s.run(t, 1, "400", nil, nuget, "push", wrong, s.token, "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
		s.run(t, 1, "403", nil, nuget, "push", lib, "bad", "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
		s.want(t, "Lib", "1.0.0 2")
	})
	t.Run("put", func(t *testing.T) {
		t.Parallel()
		curl := symtest.Tool(t, "curl")
		_, paths := files(t, "pdb/hello-arm64.pdb", "elf/e-arm64", "macho/app-arm64")
		for _, p := range paths {
			s.run(t, 0, " 201", nil, curl, "-sS", "-w", " %{http_code}", "-H", bearer, "-T", p, s.url+"/in/Put/7/")
		}
		s.run(t, 0, " 204", nil, curl, "-sS", "-w", " %{http_code}", "-H", bearer, "-T", paths[0], s.url+"/in/Put/7/")
		s.want(t, "Put", "7 3")
		s.comesBack(t, paths...)
	})
	t.Run("pyroscope", func(t *testing.T) {
		t.Parallel()
		curl := symtest.Tool(t, "curl")
		_, paths := files(t, "elf/prog-split.dwp", "elf/e-ppc64-be")
		id := buildIDOf(t, s, paths[1])
		call := func(words, method string, args ...string) {
			t.Helper()
			s.run(t, 0, words, nil, curl, append([]string{"-sS", "-H", bearer, "-H", "X-Scope-OrgID: Profiles", s.url + "/debuginfo.v1alpha1.DebuginfoService/" + method}, args...)...)
		}
		ask := []string{"-H", "Content-Type: application/json", "-d", `{"file":{"gnuBuildId":"` + id + `","name":"e-ppc64-be","type":1}}`}
		end := []string{"-H", "Content-Type: application/json", "-d", `{"gnuBuildId":"` + id + `"}`}
		call("failed_precondition", "UploadFinished", end...)
		call(`"shouldInitiateUpload":true`, "ShouldInitiateUpload", ask...)
		call("{}", "Upload/"+id, "--data-binary", "@"+paths[1])
		call("{}", "UploadFinished", end...)
		s.want(t, "Profiles", "1")
		s.comesBack(t, paths[1])
		if find := symtest.Judge(t, "debuginfod-find"); find != "" {
			headers := commandtest.PutFile(t, t.TempDir(), "headers", []byte(bearer+"\n"))
			s.run(t, 0, "", []string{"DEBUGINFOD_URLS=" + s.url, "DEBUGINFOD_HEADERS_FILE=" + headers, "DEBUGINFOD_CACHE_PATH=" + t.TempDir()}, find, "executable", id)
		}
	})
}

// breakpadID returns the id of a file in testdata as Breakpad writes it.
func breakpadID(t *testing.T, s *site, name string) string {
	t.Helper()
	return idField(t, s, filepath.Join("../../testdata", name), "debug_id")
}

func buildIDOf(t *testing.T, s *site, path string) string {
	t.Helper()
	return idField(t, s, path, "build_id")
}

func idField(t *testing.T, s *site, path, field string) string {
	t.Helper()
	_, out, errs := commandtest.Symdepot(t, s.depot, "identify", "--json", path)
	var o map[string]any
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&o); err != nil {
		t.Fatalf("identify %s: %v %s%s", path, err, out, errs)
	}
	id, _ := o[field].(string)
	if id == "" {
		t.Fatalf("identify %s: no %s in %s", path, field, out)
	}
	return id
}

// TestSymUploadOtherBytes: Breakpad's sym_upload sends other bytes of an id with both
// versions of its protocol: they are kept beside the first, and the log of the server tells
// so, once for each. What is sent again is not told of.
func TestSymUploadOtherBytes(t *testing.T) {
	t.Parallel()
	up := symtest.Tool(t, "sym_upload")
	s := newSite(t)
	env := map[string]string{"SYMDEPOT_DEPOT": s.depot, "PATH": os.Getenv("PATH"), "HOME": t.TempDir()}
	server, err := commandtest.StartServe(func(k string) string { return env[k] }, ".", "--auth")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Cmd.Process.Kill() }) // it has ended, unless the test fails
	for i, version := range [][]string{{"-p", "sym-upload-v2", "-k", s.token}, nil} {
		product := fmt.Sprintf("Product%d", i)
		url := server.URL + "/in/" + product + "/1"
		if version == nil {
			url += "?key=" + s.token
		}
		first := commandtest.PutFile(t, t.TempDir(), "two.sym", symOf("two", 11))
		other := commandtest.PutFile(t, t.TempDir(), "two.sym", append(symOf("two", 11), "PUBLIC 3000 0 more\n"...))
		for _, file := range []string{first, first, other} {
			s.run(t, 0, "", nil, up, append(slices.Clone(version), file, url)...)
		}
		s.want(t, product, "1 2")
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if text := server.Log.String(); strings.Count(text, "the product had other bytes with the same id") != 2 {
		t.Errorf("the log of the server tells %d times of other bytes, want twice:\n%s", strings.Count(text, "the product had other bytes"), text)
	}
}
