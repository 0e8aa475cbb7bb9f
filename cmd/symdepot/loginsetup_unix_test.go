//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// signedIn is a user who is signed in to a server that has a private program, and nothing else
// to read it with than what symdepot login --configure sets up.
type signedIn struct {
	t             *testing.T
	home, work    string
	url, id       string
	program       []byte // with debug information
	stripped      string // the path of the program without it
	depot, server string // the folders of the user's depot and of the server's
}

func newSignedIn(t *testing.T) *signedIn {
	t.Helper()
	needTools(t, "gcc", "strip", "readelf")
	s := &signedIn{t: t, work: t.TempDir(), server: filepath.Join(t.TempDir(), "server")}
	s.home, s.depot = filepath.Join(s.work, "home"), filepath.Join(s.work, "depot")
	s.write(filepath.Join(s.work, "main.c"), elfutilsSource)
	s.id = strings.Repeat("c7", 20)
	program := filepath.Join(s.work, "program")
	runTool(t, nil, s.work, "gcc", "-g", "-O1", "-o", program, "main.c", "-Wl,--build-id=0x"+s.id)
	s.stripped = filepath.Join(s.work, "stripped")
	runTool(t, nil, s.work, "strip", "-o", s.stripped, program)
	runTool(t, nil, s.work, "symdepot", "add", "--depot", s.server, program)
	var err error
	if s.program, err = os.ReadFile(program); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(program); err != nil { // gdb and perf look beside the stripped one
		t.Fatal(err)
	}
	token := filepath.Join(s.work, "token")
	out, err := exec.CommandContext(t.Context(), "symdepot", "token", "new", "--depot", s.server, "--name", "me").Output()
	if err != nil {
		t.Fatal(err)
	}
	s.write(token, string(out))
	s.url = commandtest.ServeDepot(t, s.server, "--auth").URL
	if err := os.MkdirAll(s.home, 0o755); err != nil {
		t.Fatal(err)
	}
	s.login(0, "--token-file", token)
	return s
}

func (s *signedIn) write(path, text string) {
	s.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}

// env is the environment of the user, with what the session sets.
func (s *signedIn) env(more ...string) []string {
	env := []string{"HOME=" + s.home, "SYMDEPOT_DEPOT=" + s.depot, "SHELL=/bin/sh", "DEBUGINFOD_CACHE_PATH=" + s.t.TempDir()}
	for _, k := range []string{"PATH", "TESTSCRIPT_COMMAND", "TMPDIR"} {
		env = append(env, k+"="+os.Getenv(k))
	}
	return append(env, more...)
}

// run runs a program of the user in a new session, which reads .profile, and returns what it prints.
func (s *signedIn) run(code int, env []string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "sh", append([]string{"-c", `[ ! -e "$HOME/.profile" ] || . "$HOME/.profile"; exec "$@"`, "sh"}, args...)...)
	cmd.Env, cmd.Dir = env, s.work
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("%q: exit %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// login runs symdepot login for the server.
func (s *signedIn) login(code int, args ...string) string {
	s.t.Helper()
	return s.run(code, s.env(), append([]string{"symdepot", "login", s.url}, args...)...)
}

// says fails unless a text has all of some parts.
func says(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s: %q is not in\n%s", what, p, text)
		}
	}
}

// homeTree prints the home folder but the folder of symdepot itself.
func (s *signedIn) homeTree() string {
	s.t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(s.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(s.home, path)
		if rel == filepath.Join(".config", "symdepot") {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		fmt.Fprintf(&out, "%s %s %q\n", info.Mode(), rel, text)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.String()
}

// TestLoginConfigure: after symdepot login --configure, the clients of this machine get a private
// file; after --undo every file is as it was.
func TestLoginConfigure(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]map[string]string{
		"nothing there": nil,
		"files there": {".profile": "export MINE=1", ".gdbinit": "set print pretty on\n", ".lldbinit": "settings set auto-confirm true\n",
			".gitconfig": "[user]\n\tname = me\n", ".netrc": "machine other.example login a password b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSignedIn(t)
			for file, text := range before {
				s.write(filepath.Join(s.home, file), text)
			}
			stood := s.homeTree()
			if before != nil { // a dry run, since nobody can be asked
				says(t, "dry run", s.login(1, "--configure"), "+    export DEBUGINFOD_URLS='"+s.url+"'", "nothing was changed", "--yes")
				if now := s.homeTree(); now != stood {
					t.Errorf("a dry run changed\n%sto\n%s", stood, now)
				}
			}
			says(t, "--configure", s.login(0, "--configure", "--yes"), "DEBUGINFOD_HEADERS_FILE", "--undo puts back", "netrc: left out")
			says(t, "--only netrc", s.login(0, "--configure", "--yes", "--only", "netrc"), "1 file changed")
			done := s.homeTree()
			says(t, "twice", s.login(0, "--configure", "--yes"), "debuginfod: set up already", "Nothing was changed.")
			if now := s.homeTree(); now != done {
				t.Errorf("twice is not once:\n%s\n%s", done, now)
			}
			s.clients()
			says(t, "--undo", s.login(0, "--configure", "--undo"), ".profile", "debuginfod-headers: removed")
			if now := s.homeTree(); strings.ReplaceAll(now, "drwxr-xr-x .config \"\"\n", "") != strings.ReplaceAll(stood, "drwxr-xr-x .config \"\"\n", "") {
				t.Errorf("after --undo:\n%sbefore:\n%s", now, stood)
			}
			says(t, "--undo twice", s.login(1, "--configure", "--undo"), "nothing is set up")
		})
	}
}

// clients lets the real clients read the private file, each as its user would.
func (s *signedIn) clients() {
	s.t.Run("debuginfod-find", func(t *testing.T) {
		symtest.Tool(t, "debuginfod-find")
		path := strings.TrimSpace(s.run(0, s.env(), "debuginfod-find", "debuginfo", s.id))
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, s.program) {
			t.Errorf("%s: %d bytes, %v; want the program", path, len(got), err)
		}
	})
	s.t.Run("eu-addr2line", func(t *testing.T) {
		symtest.Tool(t, "eu-addr2line")
		says(t, "eu-addr2line", s.run(0, s.env(), "eu-addr2line", "-e", s.stripped, "main"), "main.c:4")
	})
	s.t.Run("gdb", func(t *testing.T) {
		symtest.Tool(t, "gdb")
		says(t, "gdb", s.run(0, s.env(), "gdb", "-batch", "-ex", "info line crash_here", s.stripped), `of "main.c"`)
	})
	s.t.Run("lldb", func(t *testing.T) {
		lldb := symtest.Tool(t, "lldb-19")
		if !strings.Contains(s.homeTree(), "server-urls") {
			t.Error("--configure has not set LLDB up, want its server-urls in .lldbinit")
		}
		says(t, lldb, s.run(0, s.env(), lldb, "-b", "-o", "image lookup -v -n crash_here", s.stripped), "main.c:3")
	})
	s.t.Run("curl", func(t *testing.T) {
		symtest.Tool(t, "curl")
		at := s.url + "/buildid/" + s.id + "/debuginfo"
		if got := s.run(0, s.env(), "curl", "-sS", "--netrc", at); got != string(s.program) {
			t.Errorf("curl with .netrc: %d bytes, want the program", len(got))
		}
		s.run(22, s.env(), "curl", "-sSf", at)
	})
	s.t.Run("git", func(t *testing.T) {
		symtest.Tool(t, "git")
		says(t, "git", s.run(0, s.env(), "git", "config", "--get-urlmatch", "credential.helper", s.url+"/x"), "credential")
		s.run(1, s.env(), "git", "config", "--get-urlmatch", "credential.helper", strings.Replace(s.url, "http:", "https:", 1))
	})
}

// proxy runs the proxy of the login until stop is called, and waits until it has said a text. It
// returns its base URL and all that it says.
func (s *signedIn) proxy(until string, args ...string) (url string, said func() string, stop func()) {
	s.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), "symdepot", append([]string{"proxy", s.url}, args...)...)
	var out, log symtest.Output
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.env(), s.work, &out, &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	said = func() string { return out.String() + log.String() }
	stop = sync.OnceFunc(func() {
		if err := errors.Join(commandtest.Interrupt(cmd), cmd.Wait()); err != nil {
			s.t.Errorf("proxy: %v\n%s", err, log.String())
		}
	})
	s.t.Cleanup(stop)
	out.Await(s.t, until)
	if _, at, ok := strings.Cut(out.String(), "its symbols at "); ok {
		url = strings.Fields(at)[0]
	}
	return url, said, stop
}

// TestLoginProxy: the proxy of a login serves private files without a token in its address, stays
// at its port, and refuses another user of the machine.
func TestLoginProxy(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "curl")
	s := newSignedIn(t)
	path := "/buildid/" + s.id + "/debuginfo"
	first, said, stop := s.proxy("answers this user only")
	if got := s.run(0, s.env(), "curl", "-sS", first+path); got != string(s.program) {
		t.Errorf("the proxy: %d bytes, want the program", len(got))
	}
	if os.Getuid() == 0 {
		cmd := exec.CommandContext(t.Context(), "curl", "-sS", "-w", "%{http_code}", first+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "403") || !strings.Contains(string(out), "login of another user") {
			t.Errorf("another user: %s, %v; want 403 and a text", out, err)
		}
	}
	stop()
	if text := said(); secretShape.MatchString(text) || !strings.Contains(text, s.url) {
		t.Errorf("want the server, and no token, in\n%s", text)
	}
	// A proxy whose login cannot be used says why, and stores no miss.
	s.depot = filepath.Join(s.work, "another depot") // which has nothing of before
	again, said, stop := s.proxy("answers this user only")
	if again != first {
		t.Errorf("the second time at %s, the first at %s", again, first)
	}
	token := filepath.Join(s.work, "token")
	kept := strings.TrimSpace(s.run(0, s.env(), "cat", token))
	s.write(token, "sd_"+strings.Repeat("0", 43))
	if got := s.run(0, s.env(), "curl", "-sS", "-w", "%{http_code}", again+path); !strings.HasSuffix(got, "404") {
		t.Errorf("with a token that nobody has: %q, want status 404", got)
	}
	stop()
	s.write(token, kept)
	_, _, stop = s.proxy("answers this user only")
	if got := s.run(0, s.env(), "curl", "-sS", again+path); got != string(s.program) {
		t.Errorf("with a token again: %d bytes, want the program", len(got))
	}
	stop()
	says(t, "the log", said(), "the login cannot be used: ", "put a new one there")
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--bearer-file", "x"}, {"--socket", "x", "--listen", "127.0.0.1:0"}} {
		s.run(2, s.env(), append([]string{"symdepot", "proxy", s.url}, args...)...)
	}
	says(t, "no login", s.run(3, s.env(), "symdepot", "proxy", "https://other.example"), "symdepot login https://other.example")
}

// TestLoginProxySocket: a socket that only its user can open.
func TestLoginProxySocket(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "curl")
	s := newSignedIn(t)
	socket := filepath.Join(s.work, "s")
	_, _, stop := s.proxy("curl --unix-socket", "--socket", socket)
	defer stop()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info, err)
	}
	if got := s.run(0, s.env(), "curl", "-sS", "--unix-socket", socket, "http://localhost/buildid/"+s.id+"/debuginfo"); got != string(s.program) {
		t.Errorf("through the socket: %d bytes, want the program", len(got))
	}
}
