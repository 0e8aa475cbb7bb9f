package packaging

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/version"
)

// published calls check with each file, other than tests, that users of a release get
// or that makes one.
func published(t *testing.T, check func(name, text string)) {
	t.Helper()
	for _, top := range []string{".", "../ci", "../docs", "../README.md", "../SECURITY.md"} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") || filepath.Ext(name) == ".png" {
				return err
			}
			b, err := os.ReadFile(name)
			check(filepath.ToSlash(name), string(b))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneVersion: no file has a version of its own. Releases write the version into
// packages, names and manifests; pages that name the coming one name version.Number.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?:\bsymdepot[-_:@ ]v?|\bVersion |"?version"?: "?)(\d+\.\d+\.\d+)`)
	found := 0
	published(t, func(name, text string) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			found++
			if m[1] != version.Number {
				t.Errorf("%s has %q, want %s, the version in internal/run/version, or VERSION", name, m[0], version.Number)
			}
		}
	})
	if found == 0 {
		t.Error("no page names the version, not even README.md: the pattern of this test is wrong")
	}
}

// TestAddresses: the homepage is that of the module everywhere, and an example that is
// ready to paste says which addresses the reader has to replace.
func TestAddresses(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	home := "https://" + regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(string(module))[1]
	homepage := regexp.MustCompile(`(?i)\b(?:homepage|PackageUrl|repository|ARPURLINFOABOUT)\b` +
		`"? ?(?:[:=]|Value=)? ?"?(https?://[^\s"]*|@BASE@)`)
	example := regexp.MustCompile(`[a-z0-9.-]+\.example\.(?:com|org)\b|@BASE@`)
	homes := 0
	published(t, func(name, text string) {
		for _, m := range homepage.FindAllStringSubmatch(text, -1) {
			homes++
			if m[1] != home {
				t.Errorf("%s has the homepage %s, want %s", name, m[1], home)
			}
		}
		if strings.HasPrefix(name, "../docs") || strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") {
			return
		}
		for _, address := range example.FindAllString(text, -1) {
			if !strings.Contains(text, "eplace "+address) {
				t.Errorf("%s has %s, and does not say: Replace %[2]s …", name, address)
			}
		}
		if strings.Contains(text, "@example.") {
			t.Errorf("%s has a mail address @example.", name)
		}
	})
	if homes < 6 { // Homebrew, Scoop, winget, the Linux packages, the installer, packaging/release
		t.Errorf("%d files have a homepage, want at least 6", homes)
	}
}
