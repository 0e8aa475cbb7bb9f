package clientsetup

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// windowsMachine is a machine with made-up Windows Kits. Its program is where only administrators
// can write.
func windowsMachine(t *testing.T) (m Machine, programFiles string) {
	t.Helper()
	programFiles = t.TempDir()
	m = machine(t, "windows").with("ProgramFiles", programFiles)
	m.Program = filepath.Join(programFiles, "symdepot", "symdepot.exe")
	return m, programFiles
}

// kit makes a folder of debuggers; config is the text of DbgCredentialProvider.config.xml,
// "none" for a debugger without credential providers.
func kit(t *testing.T, programFiles, arch, config string) string {
	t.Helper()
	dir := filepath.Join(programFiles, "Windows Kits", "10", "Debuggers", arch)
	err := os.MkdirAll(dir, 0o755)
	if config != "none" {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, providerDLL), nil, 0o644))
	}
	if config != "none" && config != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, providerConfig), []byte(config), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestWindowsKits: each folder of debuggers gets a provider where it reads providers: an XML file
// that names a wrapper, relative to itself.
func TestWindowsKits(t *testing.T) {
	m, files := windowsMachine(t)
	x64 := kit(t, files, "x64", `<Settings><Folders><Folder> CredentialProviders </Folder></Folders></Settings>`)
	arm := kit(t, files, "arm64", "")
	old := kit(t, files, "x86", "none")
	f := plan(t, m.setup(), "windows-debuggers")
	got := f.files(files)
	for _, dir := range []string{x64, arm} {
		rel, err := filepath.Rel(files, filepath.Join(dir, "CredentialProviders"))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			XMLName  xml.Name
			Provider []struct {
				Version string `xml:"ApiVersion,attr"`
				Path    string `xml:",chardata"`
			} `xml:"CredentialProvider"`
		}
		text := got[filepath.ToSlash(rel)+"/symdepot.xml"]
		if err := xml.Unmarshal([]byte(text), &list); err != nil || list.XMLName.Local != "CredentialProviders" || len(list.Provider) != 1 ||
			list.Provider[0].Version != "2.0.0" {
			t.Fatalf("%q: %+v, %v", text, list, err)
		}
		wrapper := got[filepath.ToSlash(rel)+"/"+strings.ReplaceAll(list.Provider[0].Path, `\`, "/")]
		if want := `@"` + m.Program + "\" credential %1\r\n"; wrapper != want {
			t.Errorf("the wrapper is %q, want %q", wrapper, want)
		}
	}
	if len(f.Edits) != 4 || len(f.Notes) != 1 || !strings.HasPrefix(f.Notes[0], old) {
		t.Errorf("%d changes, notes %q; want four, and a note of the old debugger", len(f.Edits), f.Notes)
	}
	before := tree(t, files)
	r := RecordsIn(m.Own)
	if err := r.Apply(t.Context(), f.Edits); err != nil {
		t.Fatal(err)
	}
	if again := plan(t, m.setup(), "windows-debuggers"); slices.ContainsFunc(again.Edits, func(Edit) bool { return true }) {
		t.Errorf("a second time: %+v", again.Edits)
	}
	if _, err := r.Undo(t.Context(), here, false); err != nil {
		t.Fatal(err)
	}
	if after := tree(t, files); after != before {
		t.Errorf("after\n%sbefore\n%s", after, before)
	}
}

// TestWindowsFolders: of the folders that a debugger reads, one of the user alone is taken first.
// A folder of all users takes only a program that other users cannot replace.
func TestWindowsFolders(t *testing.T) {
	const settings = `<?xml version="1.0"?><Settings><Folders>%s</Folders></Settings>`
	m, files := windowsMachine(t)
	own := filepath.Join(m.Home, "providers")
	dir := kit(t, files, "x64", fmt.Sprintf(settings, "<Folder>CredentialProviders</Folder><Folder>%USERPROFILE%\\x</Folder><Folder>"+own+"</Folder>"))
	mine := m
	mine.Program = filepath.Join(m.Home, "bin", "symdepot.exe")
	for name, m := range map[string]Machine{"a program of all": m, "a program of the user": mine} {
		if got := plan(t, m.setup(), "windows-debuggers").files(own); got["symdepot.xml"] == "" {
			t.Errorf("%s: %v, want the folder of the user", name, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, providerConfig), []byte(fmt.Sprintf(settings, `<Folder>a\b</Folder>`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := plan(t, m.setup(), "windows-debuggers").files(dir); got["a/b/symdepot.xml"] == "" {
		t.Errorf("a folder of all: %v", got)
	}
	for name, c := range map[string]struct {
		m    Machine
		says string
	}{
		"a program of the user": {mine, "install symdepot below Program Files"},
	} {
		if f := plan(t, c.m.setup(), "windows-debuggers"); len(f.Edits) > 0 || f.Reason == "" || !strings.Contains(strings.Join(f.Notes, "\n"), c.says) {
			t.Errorf("%s: %+v, want a note that says %q", name, f, c.says)
		}
	}
	for _, text := range []string{"<Settings", fmt.Sprintf(settings, `<Folder>%APPDATA%\x</Folder>`)} {
		if err := os.WriteFile(filepath.Join(dir, providerConfig), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if f := plan(t, m.setup(), "windows-debuggers"); len(f.Edits) > 0 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], providerConfig) {
			t.Errorf("%s: %+v, want a note", text, f)
		}
	}
}

// TestWindowsRights: where the user may not write, a line says which folder, and how. No user, not
// even root, can make a file in /proc.
func TestWindowsRights(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs a folder in which nobody can make a file")
	}
	m, files := windowsMachine(t)
	kit(t, files, "x64", "<Settings><Folders><Folder>/proc/symdepot/providers</Folder></Folders></Settings>")
	f := plan(t, m.setup(), "windows-debuggers")
	if len(f.Edits) > 0 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "/proc/symdepot/providers: run this command as administrator") {
		t.Errorf("%+v, want a note", f)
	}
}

// TestStoreWinDbg: WinDbg of the Store is found, and nothing is changed.
func TestStoreWinDbg(t *testing.T) {
	m, _ := windowsMachine(t)
	m = m.with("LOCALAPPDATA", m.Home)
	alias := filepath.Join(m.Home, "Microsoft", "WindowsApps")
	if err := errors.Join(os.MkdirAll(alias, 0o755), os.WriteFile(filepath.Join(alias, storeName), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if f := plan(t, m.setup(), "windows-debuggers"); len(f.Edits) > 0 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "symdepot proxy "+here) {
		t.Errorf("%+v, want a note that names the proxy", f)
	}
}
