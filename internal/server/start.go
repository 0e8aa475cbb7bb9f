package server

import (
	"net"
	"strings"
)

// client is a tool and what its user types to make it ask this server.
type client struct {
	Name string
	Note string // where the lines go; may be empty
	Text string
}

// clients lists the tools, with the lines for one base URL.
func clients(url string) []client {
	return []client{
		{"WinDbg, Visual Studio and other Windows debuggers", "in a command prompt, or as the symbol path in the settings",
			`set _NT_SYMBOL_PATH=srv*C:\symbols*` + url},
		{"Windows Performance Analyzer", "in a command prompt",
			`set _NT_SYMCACHE_PATH=C:\SymCache*` + url},
		{"gdb, lldb, perf, elfutils and other debuginfod clients", "in a shell",
			"export DEBUGINFOD_URLS=" + url},
		{"dotnet-symbol", "",
			"dotnet-symbol --server-path " + url + " PATH"},
		{"minidump-stackwalk", "",
			"minidump-stackwalk --symbols-url " + url + " CRASH.dmp"},
		{"Sentry, Symbolicator", "as a custom symbol source",
			`{"id": "symdepot", "name": "symdepot", "type": "http", "url": "` + url + `", "layout": {"type": "unified"}}`},
	}
}

// StartText is what serve prints, and what a client that is no browser gets at
// the base URL: the URL, and what to paste into each tool. url has no slash at
// its end.
func StartText(url string) string {
	var b strings.Builder
	b.WriteString("symdepot serves symbols at " + url + "\n")
	for _, c := range clients(url) {
		b.WriteString("\n" + c.Name + "\n    " + c.Text + "\n")
	}
	return b.String()
}

// AccessText says how tools carry credentials to a server that asks for them.
func AccessText(url string) string {
	return "Where credentials are needed: a token is the password of any user name, a bearer token, a line " +
		"\"Authorization: Bearer TOKEN\" in the file that DEBUGINFOD_HEADERS_FILE names, or, for tools that know only addresses, " +
		"a part of the address: " + url + "/t/TOKEN"
}

// BaseURL is the URL of a listener's address, as a program on this machine
// would ask it.
func BaseURL(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return "http://" + a.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}
