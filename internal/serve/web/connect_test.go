package web

import (
	"strings"
	"testing"
)

// Where access is restricted, the settings have a place for a token.
func TestClientsWithToken(t *testing.T) {
	text := StartText("http://localhost:1/symbols", true)
	for _, want := range []string{
		"symdepot serves symbols at http://localhost:1/symbols\n", "A browser at this address ", `srv*C:\symbols*http://localhost:1/t/TOKEN/symbols`, "export DEBUGINFOD_URLS=http://localhost:1/symbols\n",
		"echo 'Authorization: Bearer TOKEN'", "--symbols-url http://localhost:1/t/TOKEN/symbols",
		"Visual Studio\n    http://localhost:1/t/TOKEN/symbols\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q: got %s, want one with %q", want, text, want)
		}
	}
	if open := StartText("http://localhost:1", false); strings.Contains(open, "TOKEN") || !strings.Contains(open, "set debuginfod enabled on") {
		t.Errorf("an open server's text, want no %q in it and %q in it\n%s", "TOKEN", "set debuginfod enabled on", open)
	}
	if s := AccessText("http://localhost:1"); !strings.Contains(s, "symdepot token new") {
		t.Errorf("no way to a token: %s, want %q in it", s, "symdepot token new")
	}
}
