package clientsetup

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// The forms of files that have an access token.
const (
	formHeaders = "headers"
	formNetrc   = "netrc"
)

// headersText returns the header fields that debuginfod clients send: those that the file has,
// with the token in place of an older one.
func headersText(before []byte, token string) []byte {
	own := "Authorization: Bearer " + token + "\n"
	var out strings.Builder
	found := false
	for line := range strings.Lines(string(before)) {
		name, _, _ := strings.Cut(line, ":")
		switch {
		case !strings.EqualFold(strings.TrimSpace(name), "Authorization"):
			out.WriteString(line)
		case !found:
			out.WriteString(own)
			found = true
		}
	}
	if !found {
		return []byte(own + out.String())
	}
	return []byte(out.String())
}

// headersFile is where the header fields for debuginfod clients are.
func (m *Machine) headersFile() string { return filepath.Join(m.Own, "debuginfod-headers") }

// debuginfodClients are programs that read DEBUGINFOD_URLS and DEBUGINFOD_HEADERS_FILE.
var debuginfodClients = []string{"debuginfod-find", "gdb", "perf", "eu-addr2line", "valgrind", "drgn", "lldb", "llvm-debuginfod-find"}

// foreign returns why debuginfod clients cannot be set up; empty if they can. The reason is
// another server: the headers file goes to every server that DEBUGINFOD_URLS names, so it may
// hold a token only where that list has our server alone.
func (s *Setup) foreign() string {
	proxy := "; the token would go to that server too. Run symdepot proxy " + s.Server + ", and add " + s.Proxy + " to that list instead"
	if s.Taken != "" && s.Taken != s.Server {
		return "it is set up for " + s.Taken + ": first run symdepot login " + s.Taken + " --configure --undo, or run symdepot proxy " +
			s.Server + " and add " + s.Proxy + " to DEBUGINFOD_URLS"
	}
	for _, u := range strings.Fields(s.Machine.Getenv("DEBUGINFOD_URLS")) {
		if strings.TrimRight(u, "/") != s.Server {
			return "DEBUGINFOD_URLS names " + maskUser(u) + proxy
		}
	}
	for _, pattern := range s.Machine.ServerLists {
		files, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				continue // then no program of the user reads it either
			}
			for _, u := range strings.Fields(string(text)) {
				if strings.TrimRight(u, "/") != s.Server {
					return name + " names " + maskUser(u) + " for all users" + proxy
				}
			}
		}
	}
	if f := s.Machine.Getenv("DEBUGINFOD_HEADERS_FILE"); f != "" && f != s.Machine.headersFile() {
		return "DEBUGINFOD_HEADERS_FILE is set to " + f + " already: add the line Authorization: Bearer there yourself, " +
			"or run symdepot proxy " + s.Server
	}
	return ""
}

// maskUser hides the user and the password of an address.
func maskUser(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		return u
	}
	host, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		return scheme + "://" + host[i+1:] + "/" + path
	}
	return u
}

// debuginfod sets the environment of debuginfod clients, and what keeps the token fresh.
func debuginfod(_ context.Context, s *Setup) (f Finding, err error) {
	m := &s.Machine
	if m.System == "windows" {
		f.Reason = "debuginfod clients of Windows take the settings of the shell that starts them; run symdepot proxy " + s.Server
		return f, nil
	}
	client := ""
	for _, name := range append(debuginfodClients, lldbNames...) {
		if _, err := m.Look(name); err == nil {
			client = name
			break
		}
	}
	if client == "" {
		f.Reason = "none of these programs is installed: " + strings.Join(debuginfodClients, ", ")
		return f, nil
	}
	if f.Reason = s.foreign(); f.Reason != "" {
		return f, nil
	}
	headers, err := edit(m.headersFile(), func(before []byte) ([]byte, error) { return headersText(before, s.Token), nil })
	if err != nil {
		return f, err
	}
	headers.whole, headers.private, headers.form = true, true, formHeaders
	f.Edits = append(f.Edits, headers)
	if m.hasSystemd() {
		e, err := wholeFile(filepath.Join(m.Config, "environment.d", "symdepot.conf"), "# Written by symdepot login --configure.\n"+
			"DEBUGINFOD_URLS="+s.Server+"\nDEBUGINFOD_HEADERS_FILE="+strings.ReplaceAll(m.headersFile(), " ", `\ `)+"\n")
		if err != nil {
			return f, err
		}
		f.Edits = append(f.Edits, e)
	}
	e, err := s.shellEdit()
	if err != nil {
		return f, err
	}
	f.Edits = append(f.Edits, e)
	service, then, err := s.service()
	if err != nil {
		return f, err
	}
	f.Edits, f.Then = append(f.Edits, service...), then
	f.Notes = append(f.Notes, s.unrefreshed(service)...)
	f.Notes = append(f.Notes, "new sessions have the settings; run `. "+term.ShellWord(e.Path)+"` for this one")
	return f, nil
}

// hasSystemd reports whether the systemd of this machine manages the sessions of users.
func (m *Machine) hasSystemd() bool {
	if m.System != "linux" {
		return false
	}
	_, err := m.Look("systemctl")
	return err == nil
}

const everyServer = "The headers file goes to every server of DEBUGINFOD_URLS: it is not set where another server is named."

// shellEdit returns the change of the file that the login shell of the user reads. The lines
// set nothing where another server is named: the token would go there too.
func (s *Setup) shellEdit() (Edit, error) {
	m := &s.Machine
	shell := filepath.Base(m.Getenv("SHELL"))
	if shell == "fish" {
		return wholeFile(filepath.Join(m.Config, "fish", "conf.d", "symdepot.fish"), "# Written by symdepot login --configure.\n"+
			"# "+everyServer+"\n"+
			"if test -z \"$DEBUGINFOD_URLS\"; or test \"$DEBUGINFOD_URLS\" = '"+s.Server+"'\n"+
			"    set -gx DEBUGINFOD_URLS '"+s.Server+"'\n    set -gx DEBUGINFOD_HEADERS_FILE '"+m.headersFile()+"'\n"+
			"else if test \"$DEBUGINFOD_HEADERS_FILE\" = '"+m.headersFile()+"'\n    set -e DEBUGINFOD_HEADERS_FILE\nend\n")
	}
	return s.blockEdit(m.loginFile(shell), block{comment: "#", lines: []string{
		"# " + everyServer,
		`if [ -z "${DEBUGINFOD_URLS:-}" ] || [ "$DEBUGINFOD_URLS" = '` + s.Server + `' ]; then`,
		"    export DEBUGINFOD_URLS='" + s.Server + "' DEBUGINFOD_HEADERS_FILE='" + m.headersFile() + "'",
		`elif [ "${DEBUGINFOD_HEADERS_FILE:-}" = '` + m.headersFile() + `' ]; then`,
		"    unset DEBUGINFOD_HEADERS_FILE",
		"fi",
	}})
}

// loginFile is the file that a login shell reads: of zsh its own; of bash the first of three
// that is there; of any other shell .profile.
func (m *Machine) loginFile(shell string) string {
	var names []string
	switch shell {
	case "zsh":
		dir := m.Getenv("ZDOTDIR")
		if dir == "" {
			dir = m.Home
		}
		return filepath.Join(dir, ".zprofile")
	case "bash":
		names = []string{".bash_profile", ".bash_login"}
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(m.Home, name)); err == nil {
			return filepath.Join(m.Home, name)
		}
	}
	return filepath.Join(m.Home, ".profile")
}

// servicePause is how often the user service refreshes what ends soon, in minutes: half the
// life of an access token.
const servicePause = 30

// service returns the changes that let the system run `symdepot login --refresh` for the user.
func (s *Setup) service() (edits []Edit, then []Command, err error) {
	m := &s.Machine
	add := func(path, text string) {
		e, failed := wholeFile(path, text)
		if err == nil {
			err = failed
		}
		edits = append(edits, e)
	}
	switch {
	case m.hasSystemd():
		dir := filepath.Join(m.Config, "systemd", "user")
		program := strings.NewReplacer("%", "%%", `\`, `\\`).Replace(m.Program)
		add(filepath.Join(dir, "symdepot-login.service"), "# Written by symdepot login --configure.\n[Unit]\n"+
			"Description=Refresh the access tokens of symdepot\n\n[Service]\nType=oneshot\nExecStart=\""+program+"\" login --refresh\n")
		add(filepath.Join(dir, "symdepot-login.timer"), fmt.Sprintf("# Written by symdepot login --configure.\n[Unit]\n"+
			"Description=Refresh the access tokens of symdepot before they end\n\n[Timer]\nOnStartupSec=0\nOnUnitActiveSec=%dmin\n\n"+
			"[Install]\nWantedBy=timers.target\n", servicePause))
		then = []Command{{"systemctl", []string{"--user", "enable", "--now", "symdepot-login.timer"}}}
	case m.System == "darwin":
		path := m.agentFile()
		var program strings.Builder
		_ = xml.EscapeText(&program, []byte(m.Program)) // a builder never fails
		add(path, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key><string>%s</string>
	<key>ProgramArguments</key><array><string>%s</string><string>login</string><string>--refresh</string></array>
	<key>RunAtLoad</key><true/>
	<key>StartInterval</key><integer>%d</integer>
</dict>
</plist>
`, agentLabel, program.String(), servicePause*60))
		then = []Command{{"launchctl", []string{"load", "-w", path}}}
	}
	return edits, then, err
}

// unrefreshed returns what the person must know where the system cannot run the service.
func (s *Setup) unrefreshed(service []Edit) []string {
	if len(service) > 0 {
		return nil
	}
	return []string{fmt.Sprintf("nothing on this machine keeps the token fresh: "+
		"run `symdepot login --refresh` every %d minutes, for example with cron", servicePause)}
}

const agentLabel = "symdepot.login"

func (m *Machine) agentFile() string {
	return filepath.Join(m.Home, "Library", "LaunchAgents", agentLabel+".plist")
}

// Stop is the command that ends the user service, to be run before its file is taken away.
// ok is false where there is none.
func (m *Machine) Stop(undone []Undone) (c Command, ok bool) {
	for _, u := range undone {
		switch {
		case u.Done != doneRemoved:
		case filepath.Base(u.Path) == "symdepot-login.timer":
			return Command{"systemctl", []string{"--user", "disable", "--now", "symdepot-login.timer"}}, true
		case u.Path == m.agentFile():
			return Command{"launchctl", []string{"unload", "-w", u.Path}}, true
		}
	}
	return Command{}, false
}

// gdb sets up gdb's start file: without "enabled on", gdb asks at each start, and a gdb without a
// terminal takes that for no. With the address there, the token goes to no other server.
func gdb(ctx context.Context, s *Setup) (f Finding, err error) {
	m := &s.Machine
	program, err := m.Look("gdb")
	if err != nil {
		f.Reason = "gdb is not installed"
		return f, nil //nolint:nilerr // Reason says it
	}
	if f.Reason = s.foreign(); f.Reason != "" || m.System == "windows" {
		if f.Reason == "" {
			f.Reason = "run symdepot proxy " + s.Server + ", and set DEBUGINFOD_URLS to " + s.Proxy
		}
		return f, nil
	}
	// An older gdb would stop at the unknown command, and not read the rest of the file.
	if out, err := m.Run(ctx, program, "-nx", "-batch", "-ex", "show debuginfod urls"); err != nil || !strings.Contains(out, "Debuginfod") {
		f.Reason = "this gdb has no debuginfod commands (gdb 12 and later have them, if they are built with debuginfod)"
		return f, nil //nolint:nilerr // Reason says it
	}
	path := filepath.Join(m.Config, "gdb", "gdbinit")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(m.Home, ".gdbinit")
	}
	e, err := s.blockEdit(path, block{comment: "#", lines: []string{"set debuginfod enabled on", "set debuginfod urls " + s.Server}})
	f.Edits = []Edit{e}
	f.Notes = []string{"gdb takes the token from DEBUGINFOD_HEADERS_FILE of the environment"}
	return f, err
}

// lldbNames are the names under which LLDB is installed.
var lldbNames = []string{"lldb", "lldb-22", "lldb-21", "lldb-20", "lldb-19", "lldb-18", "lldb-17"}

const lldbSetting = "plugin.symbol-locator.debuginfod.server-urls"

// lldb sets up LLDB's start file. LLDB would take the address from the environment as well; with
// the address there, the token goes to no other server.
func lldb(ctx context.Context, s *Setup) (f Finding, err error) {
	m := &s.Machine
	program := ""
	for _, name := range lldbNames {
		if p, err := m.Look(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		f.Reason = "lldb is not installed"
		return f, nil
	}
	if f.Reason = s.foreign(); f.Reason != "" || m.System == "windows" {
		if f.Reason == "" {
			f.Reason = "run symdepot proxy " + s.Server + ", and set DEBUGINFOD_URLS to " + s.Proxy
		}
		return f, nil
	}
	// A setting that LLDB does not know is an error at each start.
	out, err := m.Run(ctx, program, "-x", "-b", "-o", "settings show "+lldbSetting)
	if err != nil || !strings.Contains(out, lldbSetting+" (") {
		f.Reason = "this LLDB has no setting " + lldbSetting + " (LLDB 18 and later have it)"
		return f, nil //nolint:nilerr // Reason says it
	}
	lines := []string{"settings set " + lldbSetting + " " + s.Server}
	e, err := s.blockEdit(filepath.Join(m.Home, ".lldbinit"), block{comment: "#", lines: lines})
	f.Edits = []Edit{e}
	return f, err
}
