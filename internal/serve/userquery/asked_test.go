package userquery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/layout"
)

const (
	guid    = "4FD6D1A0C4E94B2E8B0A5D0C7F1E2233"
	dashed  = "4FD6D1A0-C4E9-4B2E-8B0A-5D0C7F1E2233"
	buildid = "16e7b8e1b0c54e6fa1f0f7a6d0c1b2a3d4e5f607"
)

// TestParse: every way in which people write one request.
func TestParse(t *testing.T) {
	t.Parallel()
	token := auth.NewToken()
	path := "app.pdb/" + guid + "1/app.pdb"
	for _, tt := range []struct {
		text, path string
		read       Read
		host       string
		token      bool
	}{
		{text: "/" + path, path: "/" + path, read: ReadPath},
		{text: path, path: "/" + path, read: ReadPath},
		{text: "  \"/" + path + "\"\n", path: "/" + path, read: ReadPath},
		{text: "https://symbols.corp/" + path, path: "/" + path, read: ReadURL, host: "symbols.corp"},
		{text: "HTTP://anna:secret@symbols.corp:8080/symbols/" + path + "?code_id=1#x", path: "/symbols/" + path, read: ReadURL, host: "symbols.corp:8080"},
		{text: "https://symbols.corp/t/" + token + "/" + path, path: "/" + path, read: ReadURL, host: "symbols.corp", token: true},
		{text: "/t/" + token + "/" + path, path: "/" + path, read: ReadPath, token: true},
		{text: "app.pdb " + guid + "1", path: "/" + path, read: ReadPair},
		{text: "a b.pdb " + guid + "1", path: "/a%20b.pdb/" + guid + "1/a%20b.pdb", read: ReadPair},
		{text: guid + "1 app.pdb", path: "/" + path, read: ReadPair},
		{text: "app.pdb {" + dashed + "}1", path: "/" + path, read: ReadPair},
		{text: "app.pdb " + dashed + "-1", path: "/" + path, read: ReadPair},
		{text: "app.pdb {" + dashed + "}, 1", path: "/" + path, read: ReadPair}, // as dumpbin prints it
		{text: "{" + dashed + "}, 1 app.pdb", path: "/" + path, read: ReadPair},
		{text: "app.pdb " + strings.ToLower(dashed) + ",1", path: "/" + path, read: ReadPair},
		{text: "app.pdb {" + dashed + "}, 26", path: "/app.pdb/" + guid + "1a/app.pdb", read: ReadPair},
		{text: `Format: RSDS, {` + dashed + `}, 1, C:\build, old\app.pdb`, path: "/" + path, read: ReadPair},
		{text: "app.pdb/" + guid + "1", path: "/" + path, read: ReadPair},
		{text: `C:\symbols\app.pdb\` + guid + `1\app.pdb`, path: "/" + path, read: ReadDisk},
		{text: `\\server\share\ap\app.pdb\` + guid + `1\app.pdb`, path: "/" + path, read: ReadDisk},
		{text: "libfoo.so.1 " + buildid, path: "/libfoo.so.1/" + buildid + "/libfoo.so.1", read: ReadPair},
		{text: buildid, path: "/buildid/" + buildid + "/debuginfo", read: ReadID},
		{text: "0x" + buildid, path: "/buildid/" + buildid + "/debuginfo", read: ReadID},
		{text: "/buildid/" + buildid, path: "/buildid/" + buildid, read: ReadPath},
		{text: "/buildid/" + buildid + "/source/usr%20src/a.c", path: "/buildid/" + buildid + "/source/usr%20src/a.c", read: ReadPath},
		{text: "app.exe 5B1D7C3A9000", path: "/app.exe/5B1D7C3A9000/app.exe", read: ReadPair},
		{text: "/healthz", path: "/healthz", read: ReadPath},
	} {
		a, err := Parse(tt.text)
		if err != nil || a.Path() != tt.path || a.Read != tt.read || a.Host != tt.host || a.Token != tt.token {
			t.Errorf("Parse(%q): %q as %s, host %q, token %v, %v; want %q as %s, host %q, token %v", tt.text, a.Path(), a.Read, a.Host, a.Token, err, tt.path, tt.read, tt.host, tt.token)
		}
		if a.Secret != (strings.Contains(tt.text, token) || strings.Contains(tt.text, "secret")) {
			t.Errorf("Parse(%q): secret %v", tt.text, a.Secret)
		}
		if strings.Contains(a.Text, token) || strings.Contains(a.Text, "secret") {
			t.Errorf("Parse(%q): the text %q shows a secret", tt.text, a.Text)
		}
	}
	for text, want := range map[string]error{"": ErrEmpty, "  \"\" ": ErrEmpty, strings.Repeat("x", MaxText+1): ErrLong, "/%zz/a": ErrCoded} {
		if _, err := Parse(text); !errors.Is(err, want) {
			t.Errorf("Parse(%.20q): error %v, want %v", text, err, want)
		}
	}
}

// TestParseLog: the logs of testdata, each with the requests that are in it.
func TestParseLog(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"noisy.log": `5 /ntdll.pdb/180BF1B90AA75697D0EFEA5E5630AC4B1/ntdll.pdb 6 missing
11 /game.pdb/4FD6D1A0C4E94B2E8B0A5D0C7F1E22332/game.pdb 3 missing
16 /kernel32.pdb/1A2B3C4D5E6F708192A3B4C5D6E7F8091/kernel32.pdb 1 found
`,
		"symchk.log": `9 /notepad.pdb/E8AA5B3AD0E14B468E7FAF7B1F4E8CDB2/notepad.pdb 2 missing
12 /notepad.exe/41107CC311600/notepad.exe 1 missing
`,
		"gdb.log": `1 /buildid/16e7b8e1b0c54e6fa1f0f7a6d0c1b2a3d4e5f607/debuginfo 2 missing
6 /buildid/adac45aa231bba3143d7af433767c61f31021c16/executable 2 found
10 /buildid/00112233445566778899aabbccddeeff00112233/debuginfo 1 
`,
		"lldb.log": `1 /App/3A1C9E7D5B2F4C8E9D0A1B2C3D4E5F60/App 1 
2 /libswiftCore.dylib/A1B2C3D4E5F60718293A4B5C6D7E8F90/libswiftCore.dylib 1 missing
`,
		"dumpbin.log": `1 /app.pdb/4FD6D1A0C4E94B2E8B0A5D0C7F1E22331/app.pdb 1 
4 /UnityPlayer.pdb/A5FDEB65872C48419463B9C98EB6A1F51/UnityPlayer.pdb 1 
`,
		"access.log": `1 /app.pdb/4FD6D1A0C4E94B2E8B0A5D0C7F1E22331/app.pdb 1 missing
2 /buildid/16e7b8e1b0c54e6fa1f0f7a6d0c1b2a3d4e5f607/debuginfo 1 found
3 /app.pdb/4FD6D1A0C4E94B2E8B0A5D0C7F1E22331/app.sym 1 missing
`,
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		list, complete := ParseLog(string(text))
		var got strings.Builder
		for _, a := range list {
			fmt.Fprintf(&got, "%d %s %d %s\n", a.Line, a.Path(), a.Times, a.Outcome)
		}
		if got.String() != want || !complete {
			t.Errorf("%s: complete %v\n%swant\n%s", name, complete, got.String(), want)
		}
		// Windows writes other line ends.
		if again, _ := ParseLog(strings.ReplaceAll(string(text), "\n", "\r\n")); len(again) != len(list) {
			t.Errorf("%s with CR LF: %d requests, want %d", name, len(again), len(list))
		}
	}
}

// TestParseLogLimits: the log and the list are bounded.
func TestParseLogLimits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range MaxAsks + 1 {
		fmt.Fprintf(&b, "app.pdb %032X1\n", i)
	}
	if list, complete := ParseLog(b.String()); len(list) != MaxAsks || complete {
		t.Errorf("%d requests, complete %v; want %d, and that the list was cut", len(list), complete, MaxAsks)
	}
	if list, complete := ParseLog("app.pdb " + guid + "1\n" + strings.Repeat("x", MaxLog)); len(list) != 1 || complete {
		t.Errorf("a long log: %d requests, complete %v; want 1, and that the log was cut", len(list), complete)
	}
}

// TestFile: what a debugger asks for of a program: its debug information, and itself.
func TestFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"pdb/hello-x64.exe":      "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb /hello-x64.exe/C10891754000/hello-x64.exe",
		"pdb/hello-x64.pdb":      "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb",
		"elf/prog-sha1.stripped": "/buildid/adac45aa231bba3143d7af433767c61f31021c16/debuginfo /buildid/adac45aa231bba3143d7af433767c61f31021c16/executable",
		"pdb/README.md":          "",
	} {
		list, err := File(t.Context(), filepath.Join("../../../testdata", name))
		var got []string
		for _, a := range list {
			got = append(got, a.Path())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// FuzzParseLog: no log makes the parser fail, the limits hold, and each request is one
// that Route understands.
func FuzzParseLog(f *testing.F) {
	files, err := filepath.Glob("testdata/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := ParseLog(text)
		if len(list) > MaxAsks {
			t.Fatalf("%d requests, want at most %d", len(list), MaxAsks)
		}
		for _, a := range list {
			if _, err := layout.Route(a.Segments); err != nil || a.Line < 1 || a.Times < 1 {
				t.Fatalf("%+v: %v, want a path of a symbol file, and where it is", a, err)
			}
			again, err := Parse(a.Path())
			if err != nil || utf8.ValidString(text) && strings.Join(again.Segments, "/") != strings.Join(a.Segments, "/") && !again.Token {
				t.Fatalf("%q is read as %q, %v; want %q", a.Path(), again.Segments, err, a.Segments)
			}
		}
		if a, err := Parse(text); err == nil && len(a.Text) > 1000 {
			t.Fatalf("the text has %d bytes, want a short one", len(a.Text))
		}
	})
}
