package browser

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestProxyStory: somebody starts `symdepot proxy` without a file, opens the address that it
// prints in a browser, and takes the settings from there. A second debugging session, also
// after a restart, asks the upstream for nothing, and the pages show what is held and what
// was missing. An interruption leaves no half files.
func TestProxyStory(t *testing.T) {
	t.Parallel()
	needChrome(t)
	curl := symtest.Tool(t, "curl")
	pdb, err := os.ReadFile(testdata + "/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	half := make(chan struct{}, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case strings.EqualFold(r.URL.Path, pdbPath):
			_, _ = w.Write(pdb)
		case strings.HasPrefix(r.URL.Path, "/hello-x86.pdb/"):
			w.Header().Set("Content-Length", fmt.Sprint(len(pdb)))
			_, _ = w.Write(pdb[:len(pdb)/2])
			_ = http.NewResponseController(w).Flush()
			half <- struct{}{}
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	}))
	defer up.Close()
	s := &site{t: t, dir: t.TempDir(), verb: "proxy", args: []string{"--upstream", up.URL}}
	s.serve()
	defer func() { s.stop() }()

	p := newTab(t)
	p.open(s.url)
	setting := `set _NT_SYMBOL_PATH=srv*C:\symbols*` + s.url
	if text := p.main(); !strings.Contains(s.said.String(), setting) || !strings.Contains(text, setting) {
		t.Errorf("the proxy printed %q, the page says %q; want both to say %s", s.said, text, setting)
	}
	session := func() (got []byte) {
		t.Helper()
		for _, path := range []string{pdbPath, "/ntdll.pdb/11112222333344445555666677778888A/ntdll.pdb"} {
			out := filepath.Join(t.TempDir(), "out")
			b, err := exec.Command(curl, "-sS", "-A", "Microsoft-Symbol-Server/10.0.10036.206", "-o", out, "-w", "%{http_code}", s.url+path).CombinedOutput()
			if want := map[bool]string{true: "200", false: "404"}[path == pdbPath]; err != nil || string(b) != want {
				t.Fatalf("%s: %v, %s; want the status %s", path, err, b, want)
			}
			if path == pdbPath {
				if got, err = os.ReadFile(out); err != nil {
					t.Fatal(err)
				}
			}
		}
		return got
	}
	if got := session(); !bytes.Equal(got, pdb) {
		t.Errorf("the first session gets %d bytes of the PDB, want %d", len(got), len(pdb))
	}
	first := asked.Load()
	if got := session(); !bytes.Equal(got, pdb) || first == 0 || asked.Load() != first {
		t.Errorf("the second session gets %d bytes with %d requests to the upstream, want all %d with none", len(got), asked.Load()-first, len(pdb))
	}
	s.stop()
	s.serve()
	if got := session(); !bytes.Equal(got, pdb) || asked.Load() != first {
		t.Errorf("a session after a restart gets %d bytes with %d requests to the upstream, want all %d with none", len(got), asked.Load()-first, len(pdb))
	}
	p.open(s.url)
	if text := p.main(); !strings.Contains(text, "1 upstream in order") || !strings.Contains(text, "1 file") {
		t.Errorf("home says %q, want one source and one object", text)
	}
	p.open(s.url + "/-/search?q=hello-x64.pdb")
	if text := p.main(); !strings.Contains(strings.ReplaceAll(text, "\u200b", ""), pdbID) {
		t.Errorf("the page of the file says %q, want its id", text)
	}
	p.open(s.url + "/-/missing")
	if text := p.main(); !strings.Contains(text, "ntdll.pdb") || strings.Contains(text, "hello-x64.pdb") {
		t.Errorf("the page of missing files says %q, want ntdll.pdb alone", text)
	}

	// Ctrl-C in the middle of a download, first at the client, then at the proxy.
	client := exec.Command(curl, "-sS", "-o", os.DevNull, s.url+"/hello-x86.pdb/"+strings.Repeat("AB", 16)+"1/hello-x86.pdb")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	if err := client.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = client.Wait()
	s.stop()
	err = filepath.WalkDir(filepath.Join(s.dir, "depot"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, s.dir)
		if info, err := d.Info(); err != nil || info.Size() == int64(len(pdb)/2) || strings.Contains(name, "tmp") || strings.Contains(name, "spool") {
			t.Errorf("after the interruption there is %s, %v; want no half file", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run("verify")
}

// packed is an archive with members.
func packed(t *testing.T, path string, members ...any) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i+1 < len(members); i += 2 {
		w, err := z.Create(members[i].(string))
		if err == nil {
			_, err = w.Write(members[i+1].([]byte))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// nupkg writes a package as NuGet's client takes it.
func nupkg(t *testing.T, path, id string, members ...any) {
	t.Helper()
	packed(t, path, append([]any{
		"[Content_Types].xml", []byte(`<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="nuspec" ContentType="application/octet"/><Default Extension="dll" ContentType="application/octet"/><Default Extension="pdb" ContentType="application/octet"/><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/></Types>`),
		"_rels/.rels", []byte(`<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/` + id + `.nuspec" Id="R1"/></Relationships>`),
		id + ".nuspec", []byte(`<?xml version="1.0"?><package xmlns="http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd"><metadata><id>` + id + `</id><version>1.0.0</version><authors>a</authors><description>d</description></metadata></package>`),
	}, members...)...)
}

// TestPackageStory: the author of a .NET package pushes it with NuGet's client, and its
// symbol package follows: a portable PDB, and a Windows PDB of another one. A browser at the
// base URL finds the setting of Visual Studio and the package. Both PDBs are served. A PDB
// that is not the one of its image is rejected.
func TestPackageStory(t *testing.T) {
	t.Parallel()
	needChrome(t)
	nuget := symtest.Tool(t, "nuget-mono")
	read := func(path string) []byte {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			symtest.Missing(t, "material", "the files of testdata/public.src are not there, which make setup loads: %v", err)
		}
		return b
	}
	portable := filepath.Join(os.Getenv("SYMDEPOT_MATERIAL"), "public/npm/fable")
	dll, ppdb := read(filepath.Join(portable, "Fable.Cli.dll")), read(filepath.Join(portable, "Fable.Cli.pdb"))
	exe, pdb := read(testdata+"/pdb/hello-x64.exe"), read(testdata+"/pdb/hello-x64.pdb")

	s := newSite(t, func(s *site) { s.run("add", testdata+"/cab") })
	key := s.token("author", "--scope", "write", "--scope", "read")
	dir := t.TempDir()
	push := func(id string, status int, says string, image, symbols []any) {
		t.Helper()
		at := filepath.Join(t.TempDir(), id+".1.0.0")
		nupkg(t, at+".nupkg", id, image...)
		nupkg(t, at+".snupkg", id, symbols...)
		var cmd *exec.Cmd
		var out []byte
		for range 3 { // Mono itself crashes at times when it ends; to push again changes nothing
			cmd = exec.Command(nuget, "push", at+".nupkg", key, "-Source", s.url+"/nuget/v3/index.json", "-NonInteractive")
			cmd.Env = append(os.Environ(), "HOME="+dir)
			if out, _ = cmd.CombinedOutput(); !bytes.Contains(out, []byte("Native Crash Reporting")) {
				break
			}
		}
		if code := cmd.ProcessState.ExitCode(); code != status || !strings.Contains(string(out), says) {
			t.Errorf("nuget push %s: exit code %d, want %d with %q\n%s", id, code, status, says, out)
		}
	}
	push("Lib", 0, "Lib.1.0.0.snupkg", []any{"lib/net8.0/Fable.Cli.dll", dll}, []any{"lib/net8.0/Fable.Cli.pdb", ppdb})
	push("Native", 0, "Native.1.0.0.snupkg", []any{"lib/net48/hello-x64.exe", exe}, []any{"lib/net48/hello-x64.pdb", pdb})
	wrong := bytes.Clone(ppdb)
	wrong[len(wrong)-1] ^= 1 // not in its id: only the checksum tells
	push("Wrong", 1, "400", []any{"lib/net8.0/Fable.Cli.dll", dll, "lib/net8.0/Fable.Cli.pdb", wrong}, []any{"lib/net8.0/Fable.Cli.pdb", wrong})

	p := newTab(t)
	p.open(s.url + "/-/connect")
	if text := eval[string](p, `[...document.querySelectorAll(".tools section")].find(d => d.querySelector("h2").textContent === "Visual Studio")?.innerText || ""`); !strings.Contains(text, "Tools > Options > Debugging > Symbols") || !strings.Contains(text, s.url) {
		t.Errorf("the page Connect says of Visual Studio: %q; want where its setting is, with %s", text, s.url)
	}
	p.open(s.url)
	list := eval[[]string](p, `[...document.querySelectorAll("tbody tr")].map(r => r.cells[1].innerText + " " + r.cells[2].innerText)`)
	if text := strings.Join(list, ", "); !strings.Contains(text, "Lib 1.0.0") || !strings.Contains(text, "Native 1.0.0") || strings.Contains(text, "Wrong") {
		t.Errorf("the base URL lists %q, want Lib and Native, and not what was rejected", text)
	}
	for name, want := range map[string][]byte{"Fable.Cli.pdb": ppdb, "hello-x64.pdb": pdb} {
		page := s.file(name)
		p.open(page)
		links := eval[[]string](p, `[...document.querySelectorAll("td.url a")].filter(a => a.closest("tr").innerText.includes("available")).map(a => a.href)`)
		sum := sha256.Sum256(want)
		if !strings.HasSuffix(page, hex.EncodeToString(sum[:])) || len(links) == 0 {
			t.Errorf("%s: the page is %s with the addresses %q; want that of the pushed bytes, with addresses", name, page, links)
		}
		for _, link := range links {
			if status, _, body := s.get(html.UnescapeString(link)); status != 200 || !bytes.Equal(body, want) {
				t.Errorf("%s: GET %s: status %d with %d bytes, want the %d pushed", name, link, status, len(body), len(want))
			}
		}
		if name == "Fable.Cli.pdb" && !regexp.MustCompile(`(?i)Fable\.Cli\.pdb/[0-9a-f]{32}ffffffff/`).MatchString(strings.Join(links, " ")) {
			t.Errorf("the addresses of the portable PDB are %q, want the one that Visual Studio asks for", links)
		}
	}
}
