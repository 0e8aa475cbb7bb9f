package intake

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// client runs a real client and returns its output and exit status.
func client(t *testing.T, dir string, program string, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SENTRY_DISABLE_UPDATE_CHECK=true", "no_proxy=127.0.0.1", "SENTRY_HTTP_MAX_RETRIES=1"}
	b, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatalf("%s: %v, want a program that runs", program, err)
	}
	return string(b), c.ProcessState.ExitCode()
}

// TestSentryCLI runs sentry-cli of two generations.
func TestSentryCLI(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sentry-cli-3", "sentry-cli-2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := symtest.Tool(t, name)
			s := newServer(t)
			dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
			files := map[string][]byte{
				"hello-x64.pdb": data(t, "pdb/hello-x64.pdb"), "hello-x64.exe": data(t, "pdb/hello-x64.exe"), "prog-sha1.debug": data(t, "elf/prog-sha1.debug"),
				"libprog.so": data(t, "elf/libprog.so"), "app-arm64": data(t, "macho/app-arm64"), "notes.txt": []byte("not a symbol file"),
				"prog.sym": []byte(symText),
			}
			for n, b := range files {
				symtest.Put(t, out, n, b)
			}
			upload := func(token string, more ...string) (string, int) {
				return client(t, dir, program, append([]string{"--url", s.URL, "--auth-token", token, "debug-files", "upload", "-o", "acme", "-p", "Game", out}, more...)...)
			}
			text, status := upload("good")
			if status != 0 || !strings.Contains(text, "hello-x64.pdb") {
				t.Fatalf("exit status %d:\n%s\nwant 0 and hello-x64.pdb", status, text)
			}
			t.Log(text)
			delete(files, "notes.txt")
			delete(files, "hello-x64.exe") // has neither a symbol table nor unwind information
			s.wantTransactions(t, "Game: "+strings.Join(slices.Sorted(maps.Keys(files)), ", "))
			// A rerun sends nothing.
			puts := s.puts
			if text, status = upload("good", "--wait"); status != 0 || !strings.Contains(text, "Nothing to upload") {
				t.Errorf("rerun: exit status %d:\n%s\nwant 0 and nothing to upload", status, text)
			}
			if s.puts != puts || len(s.transactions()) != 1 {
				t.Errorf("the rerun stored %d files, want none; builds %q, want one", s.puts-puts, s.transactions())
			}
			// One file is refused: the run fails, and says why.
			for token, want := range map[string]string{"bad": "invalid credentials", "reader": "reader may not write"} {
				if text, status := upload(token); status != 1 || !strings.Contains(text, want) {
					t.Errorf("with the token %s: exit status %d, want 1 and %q:\n%s", token, status, want, text)
				}
			}
			s.limit.Store(1 << 10)
			if text, status := upload("good"); status != 1 {
				t.Errorf("above the limit for files: exit status %d, want 1:\n%s", status, text)
			}
			// A file of many chunks, with content that does not compress.
			s.limit.Store(64 << 20)
			big := append([]byte(symText), "FILE 0 x\n"...)
			for i := 0; len(big) < 20<<20; i++ {
				big = fmt.Appendf(big, "PUBLIC %x 0 f%d\n", i*16, i)
			}
			symtest.Put(t, out, "big.sym", big)
			if text, status := upload("good"); status != 0 {
				t.Errorf("a file of three chunks: exit status %d:\n%s\nwant 0", status, text)
			}
			if list := s.transactions(); len(list) != 2 || !strings.Contains(list[1], "big.sym") || !strings.Contains(list[1], "libprog.so") {
				t.Errorf("builds %q; want a second with all files", list)
			}
			symtest.Put(t, dir, "mapping.txt", []byte("com.example.A -> a:\n    1:1:void f():7:7 -> b\n"))
			if text, status := client(t, dir, program, "--url", s.URL, "--auth-token", "good", "upload-proguard", "-o", "acme", "-p", "Game", "mapping.txt"); status != 0 || len(s.transactions()) != 3 {
				t.Errorf("upload-proguard: exit status %d, builds %q; want 0 and a third:\n%s", status, s.transactions(), text)
			}
			if n := s.h.spooled.Load(); n != 0 {
				t.Errorf("%d bytes of chunks are left, want none", n)
			}
		})
	}
}

// TestCurl runs curl as the documentation of the protocols does.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl := symtest.Tool(t, "curl")
	s := newServer(t)
	dir := t.TempDir()
	pdb := data(t, "pdb/hello-x64.pdb")
	id := object(t, pdb, "hello.pdb").DebugID.Breakpad()
	symtest.Put(t, dir, "hello.pdb", pdb)
	symtest.Put(t, dir, "prog.sym", []byte(symText))
	symtest.Put(t, dir, "symbols.zip", zipOf(t, zipFile{"hello.pdb/" + id + "/hello.pdb", pdb}))
	symtest.Put(t, dir, "big.bin", bytes.Repeat([]byte("x"), 3<<20))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-T", "hello.pdb", "-H", "Authorization: Bearer good", s.URL + "/in/Game/1.2/"}, "201"},
		{[]string{"-T", "hello.pdb", "-H", "Authorization: Bearer good", s.URL + "/in/Game/1.2/hello.pdb/" + id + "/hello.pdb"}, "204"},
		{[]string{"-T", "-", "-H", "Authorization: Bearer good", s.URL + "/in/Game/1.3/hello.pdb"}, "204"},
		{[]string{"-F", "symbols.zip=@symbols.zip", "-H", "Auth-Token: good", s.URL + "/in/Game/1.4/upload/"}, "201"},
		{[]string{"-F", "try=1", "-F", "symbols.zip=@symbols.zip", "-H", "Auth-Token: good", s.URL + "/upload/"}, "201"},
		{[]string{"-F", "symbol_file=@prog.sym", s.URL + "/in/Game/1.2?key=good"}, "200"},
		{[]string{"-F", "symbols.zip=@big.bin", "-H", "Auth-Token: bad", s.URL + "/upload/"}, "403"},
		{[]string{"-F", "symbols.zip=@big.bin", "-H", "Auth-Token: good", s.URL + "/upload/"}, "400"},
		{[]string{"-T", "big.bin", "-H", "Authorization: Bearer reader", s.URL + "/in/Game/1.2/"}, "403"},
		{[]string{"-T", "big.bin", "-H", "Authorization: Bearer good", s.URL + "/in/Game/1.2/"}, "422"},
		{[]string{"-X", "MKCOL", "-H", "Authorization: Bearer good", s.URL + "/in/Game/1.2/"}, "201"},
	} {
		args := append([]string{"-sS", "-o", "answer", "-w", "%{http_code}"}, test.args...)
		var out string
		var status int
		if slices.Contains(test.args, "-") {
			out, status = client(t, dir, "sh", append([]string{"-c", `cat hello.pdb | "$0" "$@"`, curl}, args...)...)
		} else {
			out, status = client(t, dir, curl, args...)
		}
		if status != 0 || out != test.want {
			answer, _ := os.ReadFile(filepath.Join(dir, "answer"))
			t.Errorf("curl %s: exit status %d, %s, want %s: %s", strings.Join(test.args, " "), status, out, test.want, answer)
		}
	}
	s.wantTransactions(t, "Game 1.2: hello.pdb, hello.pdb/"+id+"/hello.pdb, prog.sym", "Game 1.3: hello.pdb", "Game 1.4: symbols.zip!/hello.pdb/"+id+"/hello.pdb", "try: symbols.zip!/hello.pdb/"+id+"/hello.pdb")
}
