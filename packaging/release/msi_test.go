package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestInstaller makes the installer of a small program twice, at different times,
// and reads it with msitools.
func TestInstaller(t *testing.T) {
	t.Chdir("../..")
	for _, name := range []string{"wixl", "msibuild", "msiinfo", "msiextract"} {
		symtest.Tool(t, name)
	}
	p := platform{"windows", "amd64"}
	v, err := tagVersion("v1.2.3-rc1", "")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	var pages []entry
	for range 2 {
		r := &release{ctx: t.Context(), out: t.TempDir(), temp: t.TempDir(), version: v, at: time.Unix(1600000000, 0).UTC()}
		if err := os.Mkdir(r.staged(p), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"symdepot.exe", "THIRD-PARTY-LICENSES.txt"} {
			if err := os.WriteFile(filepath.Join(r.staged(p), name), []byte("a small "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeBook(r.book()); err != nil {
			t.Fatal(err)
		}
		if pages, err = filesBelow(r.book(), ""); err != nil {
			t.Fatal(err)
		}
		if err := r.installer(p); err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(r.out, "symdepot-1.2.3-rc1-windows-amd64.msi"))
	}
	say := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	one, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one, two) {
		t.Errorf("two installers of one version have different bytes:\n%s\n%s", say("msiinfo", "suminfo", files[0]), say("msiinfo", "suminfo", files[1]))
	}
	got := strings.Split(strings.TrimSpace(say("msiextract", "--list", files[0])), "\n")
	slices.Sort(got)
	const top = "symdepot/"
	want := []string{top + "LICENSE", top + "THIRD-PARTY-LICENSES.txt", top + "symdepot.exe"}
	for _, e := range pages {
		want = append(want, top+e.name)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the installer has the files %q, want the program, its licenses and the documentation: %q", got, want)
	}
	for _, c := range []struct{ table, want string }{
		{"Property", "ProductVersion\t1.2.3"},
		{"Property", "ARPURLINFOABOUT\t" + repository},
		{"Property", "UpgradeCode\t{" + upgradeCode + "}"},
		{"Environment", "Path\t=-*PATH\t[~];[INSTALLDIR]\tProgram"},
		{"InstallExecuteSequence", "WriteEnvironmentStrings"},
		{"InstallExecuteSequence", "RemoveExistingProducts"},
	} {
		if out := say("msiinfo", "export", files[0], c.table); !strings.Contains(out, c.want) {
			t.Errorf("the table %s lacks %q:\n%s", c.table, c.want, out)
		}
	}
	if out := say("msiinfo", "suminfo", files[0]); !strings.Contains(out, "Template: x64;1033") || !strings.Contains(out, "2020") {
		t.Errorf("the summary lacks the processor x64 or the year 2020:\n%s", out)
	}
	dir := t.TempDir()
	say("msiextract", "--directory", dir, files[0])
	found, err := filepath.Glob(filepath.Join(dir, "*", "symdepot.exe"))
	if err != nil || len(found) != 1 {
		found, err = filepath.Glob(filepath.Join(dir, "*", "*", "symdepot.exe"))
	}
	if err != nil || len(found) != 1 {
		t.Fatalf("the unpacked program: %q, %v; want one file", found, err)
	}
	if b, err := os.ReadFile(found[0]); err != nil || string(b) != "a small symdepot.exe" {
		t.Errorf("the unpacked program: %q, %v; want what was packed", b, err)
	}
}
