package srclink

import (
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestWriteScript writes a stream and resolves it.
func TestWriteScript(t *testing.T) {
	sum := sha256.Sum256([]byte("text"))
	label, err := LabelPath("Game", "1.0-beta+3", `src\sub dir\util.h`)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteScript(&b, "https://symbols.example.com:8443/base/",
		[]Line{{`c:\build\a b#c%.cpp`, HashPath(sum, `c:\build\a b#c%.cpp`)}, {`C:\src\ütil.h`, label}}); err != nil {
		t.Fatal(err)
	}
	s := readScript(t, b.String())
	all := entries(t, s)
	for i, want := range []Resolution{
		{Class: HTTP, Target: fmt.Sprintf("https://symbols.example.com:8443/base/-/src/sha256/%x/a_b_c_.cpp", sum)},
		{Class: HTTP, Target: "https://symbols.example.com:8443/base/-/src/Game/1.0-beta+3/src/sub dir/util.h"},
	} {
		if got := s.Resolve(all[i]); got.Class != want.Class || got.Target != want.Target {
			t.Errorf("%s: %+v, want %+v", all[i].Name, got, want)
		}
	}
	if all[1].Name != `C:\src\ütil.h` || len(all) != 2 {
		t.Errorf("entries %+v", all)
	}
	if !strings.HasPrefix(b.String(), "SRCSRV: ini ------------------------------------------------\r\nVERSION=2\r\n") {
		t.Errorf("the stream begins with\n%.200s", b.String())
	}
	if n := strings.Count(b.String(), "\n"); n != strings.Count(b.String(), "\r\n") {
		t.Error("lines end with LF alone")
	}
}

func TestWriteRefused(t *testing.T) {
	for _, base := range []string{
		"", "symbols.example.com", "ftp://x/", "https://", "https://user:secret@x/", "https://x/t/sdt_123/",
		"https://x/symbols/t/sdt_123", "https://x/?a=b", "https://x/#a", "https://x/%20", "https://x/*",
	} {
		err := WriteScript(io.Discard, base, nil)
		if err == nil {
			t.Errorf("base %q was taken", base)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sdt_") {
			t.Errorf("the error has the credentials: %v", err)
		}
	}
	for _, l := range []Line{{"", "x"}, {"a*b", "x"}, {"a\nb", "x"}, {"a", "x*y"}, {strings.Repeat("x", maxResult), "x"}} {
		if err := WriteScript(io.Discard, "https://x", []Line{l}); err == nil {
			t.Errorf("%.40q was written", l)
		}
	}
	for _, c := range [][3]string{
		{"", "1", "a"}, {"a b", "1", "a"}, {"a", "1/2", "a"}, {"a", "..", "a"}, {"a", "1", ""}, {"a", "1", "C#/a"},
		{"a", "1", "%x%"}, {"ä", "1", "a"},
	} {
		if p, err := LabelPath(c[0], c[1], c[2]); err == nil {
			t.Errorf("LabelPath(%q) = %q, want an error", c, p)
		}
	}
	for name, want := range map[string]string{"": "source", "..": "source", "a/b": "b", `a\b c`: "b_c", "/": "source"} {
		if got := HashPath([32]byte{}, name); got[len(got)-len(want)-1:] != "/"+want {
			t.Errorf("HashPath(%q) = %s, want the name %s", name, got, want)
		}
	}
}

func TestRebase(t *testing.T) {
	text := script("HTTP_ALIAS=https://old.example.com/-/src\r\nOTHER=https://old.example.community/x\r\nX=see "+
		"https://old.example.com\r\nSRCSRVTRG=%var2%\r\nY=https://old.example.com",
		"https://old.example.com/a*https://old.example.com/b*https://old.example.com", strings.Repeat("x", 3*maxLine)+"*https://old.example.com")
	var b strings.Builder
	n, err := readScript(t, text).Rebase(&b, "https://old.example.com/", "https://new.net/sub/")
	if err != nil || n != 4 {
		t.Fatalf("%d values, error %v; want 4", n, err)
	}
	want := strings.NewReplacer("ALIAS=https://old.example.com", "ALIAS=https://new.net/sub",
		"Y=https://old.example.com", "Y=https://new.net/sub",
		"*https://old.example.com/b*https://old.example.com\r\n", "*https://new.net/sub/b*https://new.net/sub\r\n").Replace(text)
	if b.String() != want {
		t.Errorf("got\n%.900s\nwant\n%.900s", b.String(), want)
	}
}

func TestRebaseMap(t *testing.T) {
	text := "\xEF\xBB\xBF{ \"documents\": {\n \"C:\\\\src\\\\*\" : \"https://old/x/*\", \"b\": \"https:\\/\\/old\", \"c\": " +
		"\"https://older/\" }, \"n\": [1.50, \"https://old\"] }\n"
	got, n, err := RebaseMap([]byte(text), "https://old", "https://new/y")
	want := strings.NewReplacer(`"https://old/x/*"`, `"https://new/y/x/*"`, `"https:\/\/old"`, `"https://new/y"`,
		`"https://old"]`, `"https://new/y"]`).Replace(text)
	if err != nil || n != 3 || string(got) != want {
		t.Errorf("%d, error %v, got\n%s\nwant\n%s", n, err, got, want)
	}
	if _, _, err := RebaseMap([]byte(`{"a": `), "https://old", "x"); err == nil {
		t.Error("a text that is cut was rebased")
	}
}
