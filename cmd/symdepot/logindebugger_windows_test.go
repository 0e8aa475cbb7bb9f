package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/windows/registry"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/run/credential/debuggertest"
)

// registerKits enters a folder as that of the Windows Kits, as their setup does, for the length of
// the test.
func registerKits(t *testing.T, dir string) {
	t.Helper()
	const root, name = `SOFTWARE\Microsoft\Windows Kits\Installed Roots`, "KitsRoot10"
	k, was, err := registry.CreateKey(registry.LOCAL_MACHINE, root, registry.QUERY_VALUE|registry.SET_VALUE)
	if err != nil {
		t.Skipf("needs the right to write to the registry of the machine: %v", err)
	}
	if _, _, err := k.GetStringValue(name); err == nil {
		_ = k.Close()
		t.Skip("this machine has Windows Kits")
	}
	t.Cleanup(func() {
		_ = k.DeleteValue(name)
		_ = k.Close()
		if !was {
			_ = registry.DeleteKey(registry.LOCAL_MACHINE, root)
		}
	})
	if err := k.SetStringValue(name, dir); err != nil {
		t.Fatal(err)
	}
}

// TestLoginDebugger: in made-up Windows Kits, login --configure writes what a debugger reads that
// follows Microsoft's page: it gets a private file, without a prompt, as long as there is a login;
// --undo takes the provider away.
func TestLoginDebugger(t *testing.T) {
	dir := t.TempDir()
	server, kits, providers := filepath.Join(dir, "server"), filepath.Join(dir, "Windows Kits", "10"), filepath.Join(dir, "my providers")
	kit, program := filepath.Join(kits, "Debuggers", "x64"), filepath.Join(dir, "symdepot 100%", "symdepot.exe")
	registerKits(t, kits)
	own := exec.CommandContext(t.Context(), "symdepot")
	text, err := os.ReadFile(own.Path)
	if err := errors.Join(err, os.MkdirAll(kit, 0o755), os.MkdirAll(filepath.Dir(program), 0o755), os.WriteFile(program, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	commandtest.Write(t, filepath.Join(kit, "DbgCredentialProvider.dll"), "")
	commandtest.Write(t, filepath.Join(kit, debuggertest.ConfigName), `<Settings><Folders><Folder>`+providers+`</Folder></Folders></Settings>`)
	if code, _, errs := commandtest.Symdepot(t, server, "add", "../../testdata/pdb/hello-x64.pdb"); code != 0 {
		t.Fatalf("add: exit code %d, %s", code, errs)
	}
	code, out, errs := commandtest.Symdepot(t, server, "token", "new", "--name", "me")
	if code != 0 {
		t.Fatalf("token new: exit code %d, %s", code, errs)
	}
	token := filepath.Join(dir, "token")
	commandtest.Write(t, token, out)
	s := commandtest.ServeDepot(t, server, "--auth")
	for k, v := range map[string]string{
		"APPDATA": filepath.Join(dir, "roaming"), "LOCALAPPDATA": filepath.Join(dir, "local"),
		"USERPROFILE": dir, "SYMDEPOT_KEYRING": "file", "SYMDEPOT_DEPOT": filepath.Join(dir, "depot"),
	} {
		t.Setenv(k, v)
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("login", s.URL, "--token-file", token)
	shown := run("login", s.URL, "--configure", "--yes", "--only", "windows-debuggers")
	if secretShape.MatchString(shown) {
		t.Errorf("--configure prints a token:\n%s", shown)
	}
	var log symtest.Output
	for _, d := range []debuggertest.Debugger{{}, {Silent: true, IsSilent: true}, {Operation: "get", Window: 4711, Silent: true}} {
		d.Dir, d.HTTP, d.Log = kit, http.DefaultClient, &log
		got, err := d.Get(t.Context(), s.URL+helloPDB)
		if want := symtest.Testdata(t, "pdb/hello-x64.pdb"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes, %v; want the PDB\n%s\n%s", d, len(got), err, shown, log.String())
		}
	}
	d := debuggertest.Debugger{Dir: kit, HTTP: http.DefaultClient, Log: &log, Silent: true}
	commandtest.Write(t, token, "sd_"+strings.Repeat("0", 43))
	if _, err := d.Get(t.Context(), s.URL+helloPDB); !errors.Is(err, debuggertest.ErrDenied) || !strings.Contains(err.Error(), "put a new one there") {
		t.Errorf("with a token that nobody has: %v, want %v and the next step", err, debuggertest.ErrDenied)
	}
	commandtest.Write(t, token, out)
	run("login", s.URL, "--configure", "--undo")
	if _, err := os.Stat(providers); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after --undo, %s: %v; want no such folder", providers, err)
	}
}
