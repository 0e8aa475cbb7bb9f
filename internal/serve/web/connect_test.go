package web

import (
	"strings"
	"testing"
)

// Where access is restricted, the settings have a place for a token.
func TestClientsWithToken(t *testing.T) {
	text := StartText("http://localhost:1/symbols", true)
	for _, want := range []string{
		"symdepot serves symbols at http://localhost:1/symbols\n", "A browser at this address ", "srv*C:\\symbols*http://localhost:1/symbols\n",
		"other debuginfod clients\n    gdb -iex", "--symbols-url http://localhost:1/t/TOKEN/symbols",
		"Visual Studio\n    http://localhost:1/t/TOKEN/symbols\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q: got %s, want one with %q", want, text, want)
		}
	}
	if begin := "\nSign in once on your machine, and set its debuggers up\n    symdepot login http://localhost:1 --configure\n"; !strings.Contains(text[:400], begin) {
		t.Errorf("the text does not begin with the sign-in, want %q before the tools\n%s", begin, text)
	}
	if want := "sign in with: symdepot login http://localhost:1"; SignInText("http://localhost:1") != want || SignInText("http://localhost:1/download/symbols") != want {
		t.Errorf("SignInText: %q and %q, want %q", SignInText("http://localhost:1"), SignInText("http://localhost:1/download/symbols"), want)
	}
	if note := Connection(&Request{BaseURL: "http://localhost:1", Challenges: []string{"Basic"}}).Note; !strings.HasPrefix(note, "Sign in once on your machine, and set its debuggers up: symdepot login http://localhost:1 --configure\n") {
		t.Errorf("the page Connect does not begin with the sign-in: %q", note)
	}
	if note := Connection(&Request{BaseURL: "http://localhost:1", Challenges: []string{"Basic"}, Open: true}).Note; note != "" {
		t.Errorf("the page Connect of an open server has the note %q, want none", note)
	}
	if open := StartText("http://localhost:1", false); strings.Contains(open, "TOKEN") || strings.Contains(open, "login") || !strings.Contains(open, "set debuginfod enabled on") {
		t.Errorf("an open server's text, want no %q in it and %q in it\n%s", "TOKEN", "set debuginfod enabled on", open)
	}
	if s := AccessText("http://localhost:1"); !strings.Contains(s, "symdepot token new") {
		t.Errorf("no way to a token: %s, want %q in it", s, "symdepot token new")
	}
}
