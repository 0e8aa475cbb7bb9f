package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/config"
)

// filled reads a manifest and fills its places as a release does.
func filled(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("@VERSION@", "1.2.3", "@BASE@", "https://example.com/symdepot").Replace(string(b))
	text = regexp.MustCompile(`@SHA256 -(linux|darwin|windows)-(amd64|arm64)\.(zip|tar\.gz)@`).ReplaceAllString(text, strings.Repeat("0", 64))
	if strings.Contains(text, "@") {
		t.Errorf("%s has a place that no release fills: %s", name, text)
	}
	return []byte(text)
}

// TestWinget: the manifests have the keys that their schema (1.6.0) requires. The
// schema itself is not at hand.
func TestWinget(t *testing.T) {
	t.Parallel()
	for end, want := range map[string][]string{
		"":              {"PackageIdentifier", "PackageVersion", "DefaultLocale", "ManifestType", "ManifestVersion"},
		".installer":    {"PackageIdentifier", "PackageVersion", "Installers", "ManifestType", "ManifestVersion"},
		".locale.en-US": {"PackageIdentifier", "PackageVersion", "PackageLocale", "Publisher", "PackageName", "License", "ShortDescription", "ManifestType", "ManifestVersion"},
	} {
		name := "manifests/winget/symdepot.symdepot" + end + ".yaml"
		var m map[string]any
		if err := yaml.Unmarshal(filled(t, name), &m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, key := range want {
			if m[key] == nil {
				t.Errorf("%s lacks %s", name, key)
			}
		}
		if m["PackageIdentifier"] != "symdepot.symdepot" || m["PackageVersion"] != "1.2.3" {
			t.Errorf("%s is for %v %v, want symdepot.symdepot 1.2.3", name, m["PackageIdentifier"], m["PackageVersion"])
		}
		if len(m["ManifestVersion"].(string)) == 0 {
			t.Errorf("%s: ManifestVersion is %v, want a text", name, m["ManifestVersion"])
		}
		list, _ := m["Installers"].([]any)
		for _, one := range list {
			installer, _ := one.(map[string]any)
			for _, key := range []string{"Architecture", "InstallerUrl", "InstallerSha256", "NestedInstallerFiles"} {
				if installer[key] == nil {
					t.Errorf("%s: an installer lacks %s", name, key)
				}
			}
		}
		if end == ".installer" && len(list) != 2 {
			t.Errorf("%s has %d installers, want 2", name, len(list))
		}
	}
}

// TestScoop: the manifest can be read, and has what Scoop requires.
func TestScoop(t *testing.T) {
	t.Parallel()
	var m struct {
		Version, Description, Homepage, License, Bin string
		Architecture                                 map[string]struct{ URL, Hash, Extract_dir string }
	}
	if err := json.Unmarshal(filled(t, "manifests/scoop.json"), &m); err != nil {
		t.Fatal(err)
	}
	if m.Version != "1.2.3" || m.Homepage == "" || m.License == "" || m.Description == "" || m.Bin != "symdepot.exe" || len(m.Architecture) != 2 {
		t.Errorf("the manifest is %+v, want version, homepage, license, description, program and two processors", m)
	}
	for arch, a := range m.Architecture {
		if (arch != "64bit" && arch != "arm64") || len(a.Hash) != 64 || !strings.HasSuffix(a.URL, a.Extract_dir+".zip") {
			t.Errorf("%s: %+v, want a hash, and the archive's folder", arch, a)
		}
	}
}

// TestHomebrew: the formula names all archives, and Ruby can read it if it is there.
func TestHomebrew(t *testing.T) {
	t.Parallel()
	text := string(filled(t, "manifests/homebrew.rb"))
	for _, want := range []string{"class Symdepot < Formula", "def install", "test do", "darwin-arm64.tar.gz", "darwin-amd64.tar.gz", "linux-arm64.tar.gz", "linux-amd64.tar.gz"} {
		if !strings.Contains(text, want) {
			t.Errorf("the formula lacks %q", want)
		}
	}
	begins := regexp.MustCompile(`(?m)\bdo$|^class |^\s*def `).FindAllString(text, -1)
	ends := regexp.MustCompile(`(?m)^\s*end$`).FindAllString(text, -1)
	if len(begins) != len(ends) {
		t.Errorf("the formula has %d blocks and %d ends", len(begins), len(ends))
	}
	if ruby := symtest.Judge(t, "ruby"); ruby != "" {
		if out, err := exec.Command(ruby, "-c", "manifests/homebrew.rb").CombinedOutput(); err != nil {
			t.Errorf("ruby: %v\n%s", err, out)
		}
	}
}

// TestCompose: the example of several servers can be read, and every variable for
// symdepot in it sets a key that exists to a value that the program accepts. Nothing
// runs it here.
func TestCompose(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type service struct {
		Image       string
		Command     []string
		Environment map[string]string
		DependsOn   any `yaml:"depends_on"`
		Volumes     []string
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, s := range file.Services {
		if s.Image == "" {
			t.Errorf("%s has no image", name)
		}
		for _, v := range s.Volumes {
			if volume, _, _ := strings.Cut(v, ":"); file.Volumes != nil {
				if _, ok := file.Volumes[volume]; !ok {
					t.Errorf("%s uses the volume %s, which does not exist", name, volume)
				}
			}
		}
		var before []string
		switch d := s.DependsOn.(type) {
		case []any:
			for _, one := range d {
				before = append(before, one.(string))
			}
		case map[string]any:
			for one := range d {
				before = append(before, one)
			}
		}
		for _, other := range before {
			if _, ok := file.Services[other]; !ok {
				t.Errorf("%s depends on %s, which does not exist", name, other)
			}
		}
		if !strings.HasPrefix(s.Image, "localhost/symdepot:") {
			continue
		}
		ours++
		if len(s.Command) != 1 || s.Command[0] != "serve" {
			t.Errorf("%s runs symdepot %q, want serve", name, s.Command)
		}
		used := map[string]bool{}
		c, err := config.Load("", func(variable string) string {
			used[variable] = true
			return s.Environment[variable]
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for variable := range s.Environment {
			if strings.HasPrefix(variable, "SYMDEPOT_") && !used[variable] {
				t.Errorf("%s sets %s, which the program does not read", name, variable)
			}
		}
		if c.Depot.Dir == "" || c.Depot.Blobs == "" || c.Depot.PeerAddress != name+":8081" {
			t.Errorf("%s: depot %q, contents %q, address %q; want a database, a bucket, and its own name", name, c.Depot.Dir, c.Depot.Blobs, c.Depot.PeerAddress)
		}
	}
	if ours != 2 {
		t.Errorf("%d services run symdepot, want 2", ours)
	}
}

// TestDevelopmentContainer: its file is JSON that names an image, and the Go of the
// module.
func TestDevelopmentContainer(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("..", ".devcontainer", "devcontainer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Image, PostCreateCommand string }
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))
	if version == nil || !strings.Contains(c.Image, ":"+version[1]+"-") || c.PostCreateCommand != "make setup" {
		t.Errorf("the container is %+v, want an image of Go %v, and make setup", c, version)
	}
}
