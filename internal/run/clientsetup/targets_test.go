package clientsetup

import (
	"context"
	"encoding/xml"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// machine returns a machine whose files are in a temporary folder, and that has some programs.
func machine(t *testing.T, system string, programs ...string) Machine {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{}
	return Machine{
		System: system, Home: home, Config: filepath.Join(home, ".config"), Own: filepath.Join(home, ".config", "symdepot"),
		Work: filepath.Join(home, "work"), Program: "/usr/bin/symdepot",
		Getenv: func(name string) string { return env[name] },
		Look: func(name string) (string, error) {
			if slices.Contains(programs, name) {
				return "/usr/bin/" + name, nil
			}
			return "", exec.ErrNotFound
		},
		Run: func(_ context.Context, program string, _ ...string) (string, error) {
			switch filepath.Base(program) {
			case "gdb":
				return "Debuginfod URLs have not been set.\n", nil
			case "lldb-19":
				return lldbSetting + " (array of strings) =\n", nil
			}
			return "", errors.New("no such program")
		},
	}
}

// with returns the machine with a variable of the environment.
func (m Machine) with(name, value string) Machine {
	before := m.Getenv
	m.Getenv = func(n string) string {
		if n == name {
			return value
		}
		return before(n)
	}
	return m
}

func (m Machine) setup() *Setup {
	return &Setup{Machine: m, Server: here, Token: "sd_" + strings.Repeat("x", 43), Proxy: proxyHere}
}

// plan plans a target.
func plan(t *testing.T, s *Setup, target string) Finding {
	t.Helper()
	list, err := s.Plan(t.Context(), []string{target})
	if err != nil || len(list) != 1 {
		t.Fatalf("%s: %v, %v; want one finding", target, list, err)
	}
	return list[0]
}

// files are the changed files by their path below the home folder.
func (f Finding) files(home string) map[string]string {
	out := map[string]string{}
	for _, e := range f.Edits {
		rel, err := filepath.Rel(home, e.Path)
		if err != nil {
			rel = e.Path
		}
		out[filepath.ToSlash(rel)] = string(e.After)
	}
	return out
}

// TestForeignServers: the headers file goes to every server of DEBUGINFOD_URLS, so nothing is set
// up where another server is named, and the proxy is recommended.
func TestForeignServers(t *testing.T) {
	m := machine(t, "linux", "gdb", "lldb-19", "debuginfod-find")
	list := filepath.Join(t.TempDir(), "distribution.urls")
	if err := os.WriteFile(list, []byte("https://debuginfod.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lists := m
	lists.ServerLists = []string{filepath.Join(filepath.Dir(list), "*.urls")}
	taken := m.setup()
	taken.Taken = there
	for name, c := range map[string]struct {
		s    *Setup
		says string // empty: it is set up
	}{
		"nothing named":       {m.setup(), ""},
		"our server":          {m.with("DEBUGINFOD_URLS", here+"/").setup(), ""},
		"our headers file":    {m.with("DEBUGINFOD_HEADERS_FILE", m.headersFile()).setup(), ""},
		"another server":      {m.with("DEBUGINFOD_URLS", here+" https://u:p@debuginfod.example/x").setup(), "names https://debuginfod.example/x; the token"},
		"a longer name":       {m.with("DEBUGINFOD_URLS", here+".evil").setup(), proxyHere},
		"a list of all users": {lists.setup(), list},
		"a headers file":      {m.with("DEBUGINFOD_HEADERS_FILE", "/etc/h").setup(), "set to /etc/h already"},
		"set up for another":  {taken, there},
	} {
		for _, target := range []string{"debuginfod", "gdb", "lldb"} {
			f := plan(t, c.s, target)
			if (f.Reason == "") != (c.says == "") || !strings.Contains(f.Reason, c.says) || (len(f.Edits) > 0) != (c.says == "") {
				t.Errorf("%s, %s: %q and %d changes; want %q", name, target, f.Reason, len(f.Edits), c.says)
			}
			if c.says != "" && !strings.Contains(f.Reason, "symdepot proxy "+here) || strings.Contains(f.Reason, "u:p") {
				t.Errorf("%s, %s: %q, want the proxy and no secret in it", name, target, f.Reason)
			}
		}
	}
}

// TestShells: the environment goes into the file that the login shell reads.
func TestShells(t *testing.T) {
	for name, c := range map[string]struct{ shell, there, want string }{
		"none":         {"", "", ".profile"},
		"bash":         {"/bin/bash", "", ".profile"},
		"bash, own":    {"/bin/bash", ".bash_profile", ".bash_profile"},
		"bash, second": {"/bin/bash", ".bash_login", ".bash_login"},
		"zsh":          {"/usr/bin/zsh", "", ".zprofile"},
		"fish":         {"/usr/bin/fish", "", ".config/fish/conf.d/symdepot.fish"},
	} {
		m := machine(t, "freebsd", "debuginfod-find").with("SHELL", c.shell)
		if c.there != "" {
			if err := os.WriteFile(filepath.Join(m.Home, c.there), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := plan(t, m.setup(), "debuginfod").files(m.Home)
		want := []string{".config/symdepot/debuginfod-headers", c.want}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %v, want %v", name, names, want)
		}
		if !strings.Contains(got[c.want], "'"+here+"'") {
			t.Errorf("%s: %q", name, got[c.want])
		}
	}
	zdot := machine(t, "darwin", "gdb").with("SHELL", "zsh").with("ZDOTDIR", "/zdot")
	if got := plan(t, zdot.setup(), "debuginfod").files("/zdot"); got[".zprofile"] == "" {
		t.Errorf("with ZDOTDIR: %v", got)
	}
}

// TestShellsRun: what the shells are given sets both variables, or none where another server is
// named, and takes an earlier headers file back there.
func TestShellsRun(t *testing.T) {
	for _, shell := range []string{"sh", "bash", "zsh", "fish"} {
		program := symtest.Judge(t, shell)
		if program == "" {
			continue
		}
		m := machine(t, "freebsd", "gdb").with("SHELL", shell)
		s := m.setup()
		f := plan(t, s, "debuginfod")
		if err := RecordsIn(m.Own).Apply(t.Context(), f.Edits); err != nil {
			t.Fatal(err)
		}
		file := f.Edits[1].Path
		for urls, want := range map[string]string{
			"": here + " " + m.headersFile(), here: here + " " + m.headersFile(),
			"https://debuginfod.example": "https://debuginfod.example unset", here + " https://debuginfod.example": here + " https://debuginfod.example unset",
		} {
			script := `. "` + file + `"; echo "$DEBUGINFOD_URLS ${DEBUGINFOD_HEADERS_FILE:-unset}"`
			if shell == "fish" {
				script = `source "` + file + `"; set -q DEBUGINFOD_HEADERS_FILE; or set DEBUGINFOD_HEADERS_FILE unset; echo "$DEBUGINFOD_URLS $DEBUGINFOD_HEADERS_FILE"`
			}
			cmd := exec.CommandContext(t.Context(), program, "-c", script)
			cmd.Env = []string{"HOME=" + m.Home, "DEBUGINFOD_URLS=" + urls, "DEBUGINFOD_HEADERS_FILE=" + m.headersFile()}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s with DEBUGINFOD_URLS=%q: %q, %v; want %q", shell, urls, got, err, want)
			}
		}
	}
}

// TestServices: the files of the services are what their managers read.
func TestServices(t *testing.T) {
	m := machine(t, "linux", "gdb", "systemctl")
	m.Program = "/opt/a b/100%/symdepot"
	f := plan(t, m.setup(), "debuginfod")
	got := f.files(m.Home)
	if unit := got[".config/systemd/user/symdepot-login.service"]; !strings.Contains(unit, `ExecStart="/opt/a b/100%%/symdepot" login --refresh`) {
		t.Errorf("the unit is %q", unit)
	}
	if got[".config/environment.d/symdepot.conf"] == "" || len(f.Then) != 1 ||
		f.Then[0].String() != "systemctl --user enable --now symdepot-login.timer" {
		t.Errorf("%v, then %v", slices.Sorted(maps.Keys(got)), f.Then)
	}
	stop, ok := m.Stop([]Undone{{Path: "/x/symdepot-login.timer", Done: doneRemoved}})
	if !ok || stop.String() != "systemctl --user disable --now symdepot-login.timer" {
		t.Errorf("to stop it: %v, %v", stop, ok)
	}
	if _, ok := m.Stop([]Undone{{Path: "/x/symdepot-login.timer", Done: doneLeft}}); ok {
		t.Error("a timer that stays is stopped")
	}
	t.Run("systemd", func(t *testing.T) {
		program := symtest.Tool(t, "systemd-analyze")
		real := m
		var err error
		if real.Program, err = os.Executable(); err != nil { // systemd looks whether it is there
			t.Fatal(err)
		}
		for _, e := range plan(t, real.setup(), "debuginfod").Edits {
			if strings.Contains(e.Path, "systemd") {
				if err := errors.Join(os.MkdirAll(filepath.Dir(e.Path), 0o755), os.WriteFile(e.Path, e.After, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		}
		dir := filepath.Join(m.Config, "systemd", "user")
		cmd := exec.CommandContext(t.Context(), program, "--user", "verify", filepath.Join(dir, "symdepot-login.timer"))
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "symdepot-login") {
			t.Errorf("systemd says %s, %v", out, err)
		}
	})
	mac := machine(t, "darwin", "gdb")
	mac.Program = "/Applications/a & b/symdepot"
	f = plan(t, mac.setup(), "debuginfod")
	text := f.files(mac.Home)["Library/LaunchAgents/symdepot.login.plist"]
	var list struct {
		Keys    []string `xml:"dict>key"`
		Program []string `xml:"dict>array>string"`
		Pause   int      `xml:"dict>integer"`
	}
	if err := xml.Unmarshal([]byte(text), &list); err != nil || !slices.Equal(list.Program, []string{mac.Program, "login", "--refresh"}) ||
		list.Pause != 1800 || !slices.Equal(list.Keys, []string{"Label", "ProgramArguments", "RunAtLoad", "StartInterval"}) {
		t.Errorf("%v: %+v of %s", err, list, text)
	}
}

// TestStartFiles: gdb and LLDB get lines in the file that they read, if they know the commands.
func TestStartFiles(t *testing.T) {
	m := machine(t, "linux", "gdb", "lldb-19", "git")
	for target, want := range map[string]string{
		"gdb": ".gdbinit", "lldb": ".lldbinit", "git": ".gitconfig",
	} {
		if got := plan(t, m.setup(), target).files(m.Home)[want]; !strings.Contains(got, here) {
			t.Errorf("%s: %q", target, got)
		}
	}
	for _, name := range []string{"gdb/gdbinit", "git/config"} {
		path := filepath.Join(m.Config, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got := plan(t, m.setup(), "gdb").files(m.Config); got["gdb/gdbinit"] == "" {
		t.Errorf("gdb: %v, want its file that is there", got)
	}
	if got := plan(t, m.setup(), "git").files(m.Config); got["git/config"] == "" {
		t.Errorf("git: %v, want its file that is there", got)
	}
	older := m
	older.Run = func(context.Context, string, ...string) (string, error) { return "Undefined command", nil }
	for _, target := range []string{"gdb", "lldb"} {
		if f := plan(t, older.setup(), target); f.Reason == "" || len(f.Edits) > 0 {
			t.Errorf("an old %s: %+v", target, f)
		}
	}
	none := machine(t, "linux")
	for _, target := range []string{"gdb", "lldb", "git", "debuginfod", "vscode", "windows-debuggers"} {
		if f := plan(t, none.setup(), target); f.Reason == "" || len(f.Edits) > 0 {
			t.Errorf("no %s: %+v", target, f)
		}
	}
}

// TestNetrc: the file is changed only by name, only if nobody else can read it, and only if it
// has nothing for the host.
func TestNetrc(t *testing.T) {
	m := machine(t, "")
	m.System = netrcMachine("").System
	s := m.setup()
	list, err := s.Plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if f.Target == "netrc" && (len(f.Edits) > 0 || !strings.Contains(f.Reason, "--only netrc")) {
			t.Errorf("not named: %+v", f)
		}
	}
	if f := plan(t, s, "netrc"); len(f.Edits) != 1 || !f.Edits[0].private || f.Edits[0].form != formNetrc ||
		!strings.Contains(string(f.Edits[0].After), "\nmachine symbols.example login symdepot password "+s.Token+"\n") {
		t.Errorf("named: %+v", f)
	}
	path := filepath.Join(m.Home, netrcName())
	for name, c := range map[string]struct {
		text string
		mode fs.FileMode
		says string
	}{
		"an entry":        {"machine other login a password b\nmachine\n SYMBOLS.example login a password b\n", 0o600, "has an entry for symbols.example already"},
		"others can read": {"", 0o640, "chmod 600"},
		"another host":    {"machine symbols.example.org login a password b\n", 0o600, ""},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(c.text), c.mode), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		if c.mode != 0o600 && runtime.GOOS == "windows" {
			continue // there the folder of the user keeps others out
		}
		if f := plan(t, s, "netrc"); (f.Reason == "") != (c.says == "") || !strings.Contains(f.Reason, c.says) {
			t.Errorf("%s: %q, want %q", name, f.Reason, c.says)
		}
	}
}

// TestHostileValues: nothing that would be read as something else gets into a file.
func TestHostileValues(t *testing.T) {
	for name, change := range map[string]func(s *Setup){
		"a quote in the address": func(s *Setup) { s.Server = "https://a'b" },
		"a line in the address":  func(s *Setup) { s.Server = "https://a\nb" },
		"a command":              func(s *Setup) { s.Server = "https://a/$(x)" },
		"a password":             func(s *Setup) { s.Server = "https://u:p@a" },
		"a line in the token":    func(s *Setup) { s.Token = "a\nX-Other: b" },
		"a quote in the program": func(s *Setup) { s.Machine.Program = "/a'b" },
		"a quote in the folder":  func(s *Setup) { s.Machine.Own = "/a'b" },
	} {
		s := machine(t, "linux", "gdb").setup()
		change(s)
		if list, err := s.Plan(t.Context(), nil); err == nil {
			t.Errorf("%s: %v, want an error", name, list)
		}
	}
	if _, err := machine(t, "linux").setup().Plan(t.Context(), []string{"nothing"}); err == nil || !strings.Contains(err.Error(), "netrc") {
		t.Errorf("an unknown target: %v, want the names", err)
	}
	dangling := machine(t, "linux", "gdb")
	if link(t, "nowhere", filepath.Join(dangling.Home, ".gdbinit")) {
		if _, err := dangling.setup().Plan(t.Context(), []string{"gdb"}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a dangling link: %v", err)
		}
	}
}
