// Package clientsetup sets the debuggers of this machine up to use a server that the user is
// signed in to, and puts back what stood before.
//
// A Target is what is set up: a debugger, or what several debuggers read. It finds out what is
// installed, and says which files it would change. Records does the changes, and keeps what
// stood before. What a file of somebody else gets stands between two marked lines, so that it
// can be taken out of a file that was changed since.
package clientsetup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Machine is where the programs and the files of a user are. All fields but the last two are
// required.
type Machine struct {
	System string // as runtime.GOOS
	Home   string // the home folder of the user
	// Config is the folder of the configuration of programs: ~/.config, or what the system has
	// for it. Own is the folder of this program in it.
	Config, Own string
	Work        string // the folder in which the command runs
	Program     string // the path of this program
	Getenv      func(name string) string
	// Look returns the path of a program, as exec.LookPath does.
	Look func(program string) (string, error)
	// Run runs a program for a short time and returns what it prints.
	Run func(ctx context.Context, program string, args ...string) (string, error)
	// ServerLists are patterns of files that name debuginfod servers for all users.
	ServerLists []string
	// Kits are the folders of the Windows Kits besides the usual ones.
	Kits []string
}

// programTime limits a program that is asked what it can.
const programTime = 10 * time.Second

// ThisMachine returns the machine and the user of this process. own is the folder of the
// configuration of this program.
func ThisMachine(system, own string) (Machine, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Machine{}, err
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return Machine{}, err
	}
	work, err := os.Getwd()
	if err != nil {
		return Machine{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		System: system, Home: home, Config: config, Own: own, Work: work, Program: program, Getenv: os.Getenv, Look: exec.LookPath,
		ServerLists: []string{"/etc/debuginfod/*.urls"}, Kits: registeredKits(),
		Run: func(ctx context.Context, program string, args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, programTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			return string(out), err
		},
	}
	if system != "windows" && system != "darwin" {
		return m, nil
	}
	// Programs of Unix keep their files in ~/.config on macOS too.
	if m.Config = os.Getenv("XDG_CONFIG_HOME"); m.Config == "" {
		m.Config = filepath.Join(home, ".config")
	}
	return m, nil
}

// Setup is a server that debuggers are to use.
type Setup struct {
	Machine Machine
	Server  string // the base URL, without a final slash
	Token   string // an access token of the server
	// Proxy is the address at which `symdepot proxy SERVER` of this user listens.
	Proxy string
	// Taken is the server for which debuginfod clients of this user are set up; empty: none.
	Taken string
}

// Finding is what a target found on the machine.
type Finding struct {
	Target string
	// Reason says why there is nothing to set up; empty if there is.
	Reason string
	Edits  []Edit
	// Then are the commands to run after the changes.
	Then []Command
	// Notes tell the user what else matters.
	Notes []string
}

// Command is a command of the system that makes changes effective.
type Command struct {
	Program string
	Args    []string
}

func (c Command) String() string { return strings.Join(append([]string{c.Program}, c.Args...), " ") }

// Target is something that can be set up.
type Target struct {
	Name string
	// What says what is set up.
	What string
	// OnlyNamed is why the target is set up only if it is named; empty: it always is.
	OnlyNamed string
	plan      func(ctx context.Context, s *Setup) (Finding, error)
}

// Targets are all targets, in the order in which they are set up.
func Targets() []Target {
	return []Target{
		{Name: "windows-debuggers", What: "WinDbg, cdb and kd: a credential provider", plan: windowsDebuggers},
		{Name: "debuginfod", What: "debuginfod-find, perf, gdb, lldb, eu-*, drgn: the environment", plan: debuginfod},
		{Name: "gdb", What: "gdb: the start file", plan: gdb},
		{Name: "lldb", What: "LLDB: the start file", plan: lldb},
		{Name: "vscode", What: "Visual Studio Code: launch.json of this folder, through the local proxy", plan: vscode},
		{Name: "git", What: "git: the credential helper for the server", plan: gitHelper},
		{Name: "netrc", What: "curl and other programs that read .netrc", plan: netrc,
			OnlyNamed: "every program that reads the file sends the token to that host, at any port, and over plain HTTP too"},
	}
}

// CheckNames returns an error, which names the targets, if there is none of a name.
func CheckNames(names []string) error {
	var known []string
	for _, t := range Targets() {
		known = append(known, t.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no target %q; the targets are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Plan asks targets what they would change: the named ones, or all that need not be named.
func (s *Setup) Plan(ctx context.Context, only []string) ([]Finding, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := CheckNames(only); err != nil {
		return nil, err
	}
	var out []Finding
	for _, t := range Targets() {
		if len(only) > 0 && !slices.Contains(only, t.Name) {
			continue
		}
		if len(only) == 0 && t.OnlyNamed != "" {
			out = append(out, Finding{Target: t.Name, Reason: "left out: " + t.OnlyNamed + "; --only " + t.Name + " sets it up"})
			continue
		}
		f, err := t.plan(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		f.Target = t.Name
		f.Edits = slices.DeleteFunc(f.Edits, func(e Edit) bool { return e.Existed && bytes.Equal(e.Before, e.After) })
		for i := range f.Edits {
			f.Edits[i].Target, f.Edits[i].server = t.Name, s.Server
		}
		out = append(out, f)
	}
	return out, nil
}

// check refuses what cannot stand in the files: they have no common way to quote a control
// character, and the server and the token are written into them as they are.
func (s *Setup) check() error {
	u, err := url.Parse(s.Server)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(s.Server, " \t\"'`\\$<>{}") || hasControl(s.Server) {
		return errors.New("the address of the server cannot be written into configuration files")
	}
	if s.Token == "" || strings.ContainsAny(s.Token, " \t\"'\\") || hasControl(s.Token) {
		return errors.New("the access token cannot be written into configuration files")
	}
	for _, path := range []string{s.Machine.Program, s.Machine.Own} {
		if strings.ContainsAny(path, "\"'`$") || hasControl(path) {
			return fmt.Errorf("%q cannot be written into configuration files: a path without quotes and $ is needed", path)
		}
	}
	return nil
}

func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Edit is the change of one file.
type Edit struct {
	Target  string
	Path    string // of the file itself, if the user names it through a symbolic link
	Existed bool
	Before  []byte
	After   []byte
	// whole is set if all of the file is of this program.
	whole bool
	// private gives a new file mode 0600.
	private bool
	// form is how the file is written again for a new token; empty: it has none.
	form   string
	server string
}

// TokenOnly reports whether nothing but an access token changes.
func (e Edit) TokenOnly() bool {
	return e.Existed && e.form != "" && bytes.Equal(masked(e.Before), masked(e.After))
}

// maxFile is the largest file that is changed, in bytes.
const maxFile = 4 << 20

// edit returns the change of a file; change gets what the file has now, nil if there is none.
func edit(path string, change func(before []byte) ([]byte, error)) (Edit, error) {
	e := Edit{Path: path}
	to, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil {
			return e, fmt.Errorf("%s is a symbolic link to a file that does not exist", path)
		}
	case err != nil:
		return e, err
	default:
		e.Path = to
		info, err := os.Stat(to)
		switch {
		case err != nil:
			return e, err
		case !info.Mode().IsRegular():
			return e, fmt.Errorf("%s is not a file", path)
		case info.Size() > maxFile:
			return e, fmt.Errorf("%s has %d bytes, more than a configuration file has", path, info.Size())
		}
		if e.Before, err = os.ReadFile(to); err != nil {
			return e, err
		}
		e.Existed = true
	}
	e.After, err = change(e.Before)
	if err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// wholeFile returns the change of a file that is this program's alone.
func wholeFile(path, text string) (Edit, error) {
	e, err := edit(path, func([]byte) ([]byte, error) { return []byte(text), nil })
	e.whole = true
	return e, err
}

// blockEdit returns the change that gives a file a marked block.
func (s *Setup) blockEdit(path string, b block) (Edit, error) {
	return edit(path, func(before []byte) ([]byte, error) { return b.in(before, s.Server) })
}
