package web

import (
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/layout"
)

// Client is a tool with the settings that make it use this server.
type Client struct {
	Name string
	Note string // where the settings go; may be empty
	Text string
}

// Clients lists the tools with their settings for a base URL. If access is restricted, those
// that a login sets up come first, and the settings of the others have a place for a token.
func Clients(url string, restricted bool) []Client {
	windbg := Client{"WinDbg, cdb and other Windows debuggers", "in a command prompt, or as the symbol path in the settings",
		`set _NT_SYMBOL_PATH=srv*C:\symbols*` + url}
	debuginfod := Client{"gdb, lldb, perf, elfutils and other debuginfod clients",
		"in a shell; gdb asks before its first download, and in scripts it needs the second command",
		"export DEBUGINFOD_URLS=" + url + "\n" + gdbLine}
	if restricted {
		windbg.Name += " (of 2024 or later)"
		debuginfod.Note, debuginfod.Text = "the login has set their variables", gdbLine
		url = withToken(url)
	}
	list := tools(url)
	if restricted {
		return append([]Client{windbg, debuginfod}, list...)
	}
	return slices.Insert(append([]Client{windbg}, list...), 3, debuginfod)
}

// gdbLine lets gdb ask debuginfod servers without a question.
const gdbLine = "gdb -iex 'set debuginfod enabled on' PROGRAM"

// tools lists the tools that know only an address.
func tools(tool string) []Client {
	return []Client{
		{"Visual Studio", "Tools > Options > Debugging > Symbols: add this as a new symbol server location. " +
			"To step into packages, switch off Just My Code under Debugging > General",
			tool},
		{"Windows Performance Analyzer", "in a command prompt",
			`set _NT_SYMCACHE_PATH=C:\SymCache*` + tool},
		{"dotnet-symbol", "",
			"dotnet-symbol --server-path " + tool + " PATH"},
		{"minidump-stackwalk", "",
			"minidump-stackwalk --symbols-url " + tool + " CRASH.dmp"},
		{"Sentry, Symbolicator", "as a custom symbol source",
			`{"id": "symdepot", "name": "symdepot", "type": "http", "url": "` + tool + `", "layout": {"type": "unified"}}`},
	}
}

// AskingPrefix precedes the paths of a server below which it asks every caller for
// credentials, also where anonymous callers may read some products. A debugger that can
// sign in does so there, and sees all that its user may read.
const AskingPrefix = "/-/private"

// Audience is the parameter with which a client that may read a file asks for the form of
// it that others get: AudiencePublic.
const (
	Audience       = "audience"
	AudiencePublic = "public"
)

// withToken inserts /t/TOKEN behind the host of a URL.
func withToken(url string) string {
	if i := strings.Index(url, "://"); i >= 0 {
		if j := strings.IndexByte(url[i+3:], '/'); j >= 0 {
			return url[:i+3+j] + "/t/TOKEN" + url[i+3+j:]
		}
	}
	return url + "/t/TOKEN"
}

// StartText is what serve prints, and what a client that is not a browser gets
// at the base URL: the URL, and the settings of each tool. url has no slash at
// its end. If access is restricted, the settings have a place for a token.
func StartText(url string, restricted bool) string {
	var b strings.Builder
	b.WriteString("symdepot serves symbols at " + url +
		"\nA browser at this address searches, and says why a debugger does not find a file.\n")
	if restricted {
		b.WriteString("\nSign in once on your machine, and set its debuggers up\n    " + login(url) + " --configure\n")
	}
	for _, c := range Clients(url, restricted) {
		b.WriteString("\n" + c.Name + "\n    " + strings.ReplaceAll(c.Text, "\n", "\n    ") + "\n")
	}
	return b.String()
}

// SignInText is the first line of an answer to a request without valid credentials: the
// command that signs a person in.
func SignInText(url string) string { return wire.SignIn + signInURL(url) }

// login is the command that signs a person in at a server with the given base URL.
func login(url string) string { return "symdepot login " + signInURL(url) }

// signInURL is the base URL of the pages of a server, which are not below the prefixes that
// every server answers.
func signInURL(url string) string {
	for _, p := range layout.Prefixes {
		if server, ok := strings.CutSuffix(url, "/"+p); ok {
			return server
		}
	}
	return url
}

// ConnectNote precedes the settings of tools on a page of a server that asks for
// credentials.
func ConnectNote(url string) string {
	return "Sign in once on your machine, and set its debuggers up: " + login(url) + " --configure\n" + AccessText(url)
}

// AccessText describes how tools send credentials to a server that asks for
// them. It follows settings that have a place for a token.
func AccessText(url string) string {
	return "For a tool that takes only an address, run: symdepot proxy " + signInURL(url) + "\n" +
		"Where no person can sign in, put a token in place of TOKEN; make one with: symdepot token new --name NAME\n" + TokenText(url)
}

// TokenText describes how tools send a token.
func TokenText(url string) string {
	return "A token is also the password of any user name, or a bearer token. " +
		"Tools that know only addresses take it as a part of the address: " + withToken(url) + "\n" +
		"symdepot itself reads it from the file that --token-file names, or from the variable SYMDEPOT_TOKEN."
}

// connectView is what the page about tools shows.
type connectView struct {
	URL, Note string
	Clients   []Client
}

// Connection describes how tools connect to the server.
func Connection(r *Request) connectView {
	v := connectView{URL: r.BaseURL + r.Base}
	restricted := len(r.Challenges) > 0 && !r.Open
	if restricted {
		v.Note = ConnectNote(v.URL)
	}
	v.Clients = Clients(v.URL, restricted)
	return v
}
