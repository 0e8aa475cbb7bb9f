// Package packaging tests what is published: archives, packages, the container
// image, and the files of this folder.
package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// testVersion is the version of the release that the tests build.
const testVersion = "1.2.3-rc1"

// epoch is the time of that release, in seconds.
const epoch = "1600000000"

// made is what one run of packaging/release has written.
type made struct {
	dir  string // with the results
	said string // what it printed
	err  error
}

func (m *made) file(t *testing.T, end string) string {
	t.Helper()
	name := filepath.Join(m.dir, "symdepot-"+testVersion+end)
	if _, err := os.Stat(name); err != nil {
		t.Fatal(err)
	}
	return name
}

// temp is where releases are built; all tests share them.
var temp string

func TestMain(m *testing.M) {
	var err error
	if temp, err = os.MkdirTemp("", "symdepot-packaging-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(temp)
	os.Exit(code)
}

// platforms are those whose release is built: Linux on the processor of this
// machine, or all.
func platforms() string {
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		return "all"
	}
	return "linux/" + runtime.GOARCH
}

// here is the release that is built in the folder of this repository.
var here = sync.OnceValue(func() *made { return build("..", "here") })

// elsewhere is the release that is built in a copy of the repository.
var elsewhere = sync.OnceValue(func() *made {
	dir := filepath.Join(temp, "a folder with another name")
	if err := copyRepository(dir); err != nil {
		return &made{err: err}
	}
	return build(dir, "elsewhere")
})

// build builds a release of the sources in a folder.
func build(from, name string) *made {
	m := &made{dir: filepath.Join(temp, "out", name)}
	own := filepath.Join(temp, "temp", name) // where the program has its temporary files
	if m.err = os.MkdirAll(own, 0o755); m.err != nil {
		return m
	}
	args := []string{"run", "./packaging/release", "-out", m.dir, "-version", testVersion, "-platforms", platforms()}
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		args = append(args, "-level", "1", "-pgo", "off") // most of the time is compression, and compiling all packages anew
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "CGO_ENABLED=0", "TMPDIR="+own)
	if out, err := cmd.CombinedOutput(); err != nil {
		m.err = fmt.Errorf("packaging/release in %s: %w\n%s", from, err, out)
	} else {
		m.said = string(out)
	}
	return m
}

// copyRepository copies the files of the repository as they are, but for those of
// tests, and without its history.
func copyRepository(to string) error {
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		if strings.HasPrefix(name, "testdata/") && name != "testdata/README.md" || strings.HasPrefix(name, "test/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join("..", name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// released returns the release of this folder.
func released(t *testing.T) *made {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("releases are built on other systems")
	}
	m := here()
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m
}

// sums returns the hashes of the files of a folder.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			maps.Copy(m, sums(t, filepath.Join(dir, e.Name())))
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		m[e.Name()] = hex.EncodeToString(sum[:])
	}
	return m
}

// TestProgress: a release says what it has made, step by step, with the times.
func TestProgress(t *testing.T) {
	t.Parallel()
	m := released(t)
	here := "linux/" + runtime.GOARCH
	if !strings.Contains(m.said, "\n"+here+": begun\n") {
		t.Errorf("make release does not say that it begins with %s:\n%s", here, m.said)
	}
	for _, step := range []string{
		"manual", here + ": finished", here + " program", here + " archive", here + " sbom", here + " packages", "image", "manifests",
	} {
		if !regexp.MustCompile(`(?m)^` + step + `: [0-9.]+ s$`).MatchString(m.said) {
			t.Errorf("make release prints no line %q with a time:\n%s", step, m.said)
		}
	}
}

// TestSameBytes builds a release in two folders, whose files have other times and
// modes: every file has the same bytes.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	one := released(t)
	two := elsewhere()
	if two.err != nil {
		t.Fatal(two.err)
	}
	a, b := sums(t, one.dir), sums(t, two.dir)
	if len(a) < 7 {
		t.Errorf("%d files are published, want at least 7: %v", len(a), slices.Sorted(maps.Keys(a)))
	}
	for name, sum := range a {
		if b[name] != sum {
			t.Errorf("%s has other bytes when it is built in another folder", name)
		}
		delete(b, name)
	}
	for name := range b {
		t.Errorf("%s is made in another folder only", name)
	}
}

// TestChecksums: SHA256SUMS has the hashes of all files.
func TestChecksums(t *testing.T) {
	t.Parallel()
	m := released(t)
	b, err := os.ReadFile(filepath.Join(m.dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && e.Name() != "SHA256SUMS" && !strings.Contains(string(b), "  "+e.Name()+"\n") {
			t.Errorf("SHA256SUMS lacks %s", e.Name())
		}
	}
	symtest.Tool(t, "sha256sum")
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
}

// untar unpacks a tar file, compressed or not, into a folder and returns the names.
// Owners are set if the test may do so.
func untar(t *testing.T, r io.Reader, dir string) []string {
	t.Helper()
	var names []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else {
			b, err := io.ReadAll(tr)
			if err != nil {
				t.Fatal(err)
			}
			symtest.Put(t, dir, h.Name, b)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(path, h.Uid, h.Gid); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// untarGz is untar for a file that is compressed with gzip.
func untarGz(t *testing.T, name, dir string) []string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return untar(t, z, dir)
}

// TestArchive unpacks the archive for this machine and runs its program.
func TestArchive(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the archive that is built is one for Linux")
	}
	m := released(t)
	dir := t.TempDir()
	top := "symdepot-" + testVersion + "-linux-" + runtime.GOARCH
	names := untarGz(t, m.file(t, "-linux-"+runtime.GOARCH+".tar.gz"), dir)
	for _, want := range []string{
		"symdepot", "LICENSE", "README.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES.txt", "man/symdepot.1", "man/symdepot-serve.1", "man/symdepot-health.1",
		"completions/symdepot.bash", "completions/_symdepot", "completions/symdepot.fish", "completions/symdepot.ps1",
		"service/symdepot.service", "service/symdepot.socket", "service/symdepot.yaml",
	} {
		if !slices.Contains(names, top+"/"+want) {
			t.Errorf("the archive lacks %s; it has %d files", want, len(names))
		}
	}
	checkBook(t, filepath.Join(dir, top))
	exe := filepath.Join(dir, top, "symdepot")
	out, err := exec.Command(exe, "version").Output()
	if want := "symdepot " + testVersion + " "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("symdepot version: %q, %v; want it to begin with %q", out, err, want)
	}
	licenses, err := os.ReadFile(filepath.Join(dir, top, "THIRD-PARTY-LICENSES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	bom, err := os.ReadFile(m.file(t, "-linux-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var components struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(bom, &components); err != nil || components.Format != "CycloneDX" {
		t.Fatalf("the list of components: format %q, %v; want CycloneDX", components.Format, err)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	want, profile := "", ""
	if os.Getenv("SYMDEPOT_TORTURE") != "" { // else it was built without; see build
		want = "release.pgo"
	}
	if i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-pgo" }); i >= 0 {
		profile = info.Settings[i].Value
	}
	if profile != want {
		t.Errorf("the program was optimized for the profile %q, want %q", profile, want)
	}
	if len(info.Deps) < 20 {
		t.Fatalf("the program names %d modules, want at least 20", len(info.Deps))
	}
	for _, dep := range info.Deps {
		if !strings.Contains(string(licenses), "\n"+dep.Path+" "+dep.Version+"\n") {
			t.Errorf("THIRD-PARTY-LICENSES.txt lacks %s %s", dep.Path, dep.Version)
		}
		if !slices.ContainsFunc(components.Components, func(c struct{ Name, Version string }) bool { return c.Name == dep.Path && c.Version == dep.Version }) {
			t.Errorf("the list of components lacks %s %s", dep.Path, dep.Version)
		}
	}
}

// TestProfile: the profile of releases has what scripts/bench profile measures, and is no large
// file.
func TestProfile(t *testing.T) {
	t.Parallel()
	const file = "release/release.pgo"
	info, err := os.Stat(file)
	if err != nil || info.Size() > 1<<20 {
		t.Fatalf("%s: %v, %v; want at most 1 MiB", file, info, err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-raw", file).Output()
	if err != nil {
		t.Fatalf("go tool pprof: %v", err)
	}
	for _, of := range []string{"server.(*Server).ServeHTTP", "server.(*symbols).serve", "internal/derive/symbolicate.", "internal/depot/stage.", "layout.Route"} {
		if !bytes.Contains(out, []byte(of)) {
			t.Errorf("%s has no samples of %s; make it anew with scripts/bench profile", file, of)
		}
	}
}

// pageLink is a link to another file in a Markdown file.
var pageLink = regexp.MustCompile(`\]\(([^()\s#:]+)(?:#[^()\s]*)?\)`)

// checkBook follows all links between the pages below a folder, counts the pages, and
// finds what only those who change the program need.
func checkBook(t *testing.T, dir string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil || !strings.Contains(string(readme), "/blob/main/CONTRIBUTING.md") {
		t.Errorf("README.md has no link to CONTRIBUTING.md in the repository (%v)", err)
	}
	pages := 0
	err = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if d != nil && (d.Name() == "CONTRIBUTING.md" || d.Name() == "nfpm.yaml" || filepath.Ext(name) == ".sh") {
			t.Errorf("%s is published; it is for those who change the program", strings.TrimPrefix(name, dir))
		}
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		pages++
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s has a link to %s, which is not published with it", filepath.Base(name), m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 50 {
		t.Errorf("%s has %d pages, want all of the documentation", dir, pages)
	}
}

// TestScriptsOfPackages: a shell can read the scripts.
func TestScriptsOfPackages(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "sh")
	scripts, err := filepath.Glob("linux/*.sh")
	if err != nil || len(scripts) != 3 {
		t.Fatalf("scripts: %v, %v; want three", scripts, err)
	}
	for _, name := range append(scripts, "linux/symdepot.openrc") {
		if out, err := exec.Command("sh", "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestApk: the apk package says what it is, and has its files. No program here
// installs it.
func TestApk(t *testing.T) {
	t.Parallel()
	m := released(t)
	dir := t.TempDir()
	names := untarGz(t, m.file(t, "-"+runtime.GOARCH+".apk"), dir)
	for _, want := range []string{".PKGINFO", ".post-install", ".post-upgrade", ".pre-deinstall", "usr/bin/symdepot", "etc/init.d/symdepot", "etc/symdepot/symdepot.yaml", "etc/logrotate.d/symdepot"} {
		if !slices.Contains(names, want) {
			t.Errorf("the apk lacks %s; it has %q", want, names)
		}
	}
	checkBook(t, filepath.Join(dir, "usr/share/doc/symdepot"))
	info, err := os.ReadFile(filepath.Join(dir, ".PKGINFO"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, " = ") {
			t.Errorf(".PKGINFO has the line %q, want NAME = VALUE", line)
		}
	}
	for _, want := range []string{
		"pkgver = 1.2.3_rc1\n", "pkgdesc = symbol server that keeps debug symbols of all platforms\n",
		"url = https://github.com/symdepot/symdepot\n", "maintainer = The symdepot authors\n",
	} {
		if !strings.Contains(string(info), want) {
			t.Errorf(".PKGINFO has no %q:\n%s", want, info)
		}
	}
}
