package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// A page of the documentation is a script for TestBook:
//
//   - A block of code with the word run (```sh run) is run by bash. What it exports is
//     there for the later blocks.
//   - A block with the word serve is one command that starts a server, also in the form
//     that a clone has (go run ./cmd/symdepot). It listens on a free port, which takes the
//     place of the page's addresses in all blocks.
//   - A block of text directly behind one of these blocks has lines that its output must have,
//     in their order. "…" stands for any text.
//   - The comment <!-- old server: COMMAND --> starts a server in the place of the one that
//     the reader leaves, at http://old.example.com.
//   - The comment <!-- needs A B --> skips the page where a program is missing, and
//     <!-- setup … --> is a script that makes what the reader is assumed to have.
//
// All other blocks are not run.
type bookStep struct {
	line   int
	kind   string // setup, run, serve, old or text
	script string
}

// pagesToRun are the pages that TestBook runs. Every page below docs/start and docs/migrate
// must be one.
var pagesToRun = []string{"README.md", "docs/start/*.md", "docs/migrate/*.md", "docs/check.md", "docs/ci.md", "docs/troubleshooting.md", "docs/lookups.md"}

// serverAddress are the addresses at which the server of a page is.
var serverAddress = regexp.MustCompile(`https?://(127\.0\.0\.1:8080|symbols\.example\.com(:80\d\d)?)\b`)

func readBook(t *testing.T, text string) (needs []string, steps []bookStep) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	block := func(i int, end string) (string, int) {
		for n := i + 1; n < len(lines); n++ {
			if lines[n] == end {
				return strings.Join(lines[i+1:n], "\n"), n
			}
		}
		t.Fatalf("line %d: the block has no end", i+1)
		return "", 0
	}
	end := 0 // the last line of the last step
	for i := 0; i < len(lines); i++ {
		if list, ok := strings.CutPrefix(lines[i], "<!-- needs "); ok {
			needs = strings.Fields(strings.TrimSuffix(list, "-->"))
			continue
		}
		at := i + 1
		var kind, script string
		if command, ok := strings.CutPrefix(lines[i], "<!-- old server: "); ok {
			steps = append(steps, bookStep{at, "old", strings.TrimSuffix(command, " -->")})
			continue
		}
		switch info, fence := strings.CutPrefix(lines[i], "```"); {
		case lines[i] == "<!-- setup":
			kind = "setup"
			script, i = block(i, "-->")
		case fence:
			script, i = block(i, "```")
			switch info {
			case "sh run":
				kind = "run"
			case "sh serve":
				kind = "serve"
			case "text":
				if len(steps) > 0 && followsOutput(steps[len(steps)-1].kind) && strings.TrimSpace(strings.Join(lines[end+1:at-1], "")) == "" {
					kind = "text"
				}
			}
		}
		if kind != "" {
			steps = append(steps, bookStep{at, kind, script})
			end = i
		}
	}
	return needs, steps
}

// followsOutput reports whether a block of text behind a step of this kind is the output of it.
func followsOutput(kind string) bool { return kind == "run" || kind == "serve" }

// awaitLines waits until a server has printed the last line of a page's text.
func awaitLines(t *testing.T, srv *commandtest.Serving, text string) string {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { l = strings.TrimSpace(l); return l == "" || strings.Contains(l, "…") })
	if len(lines) > 0 {
		srv.Out.Await(t, strings.TrimSpace(lines[len(lines)-1]))
	}
	return srv.Out.String()
}

// TestBook runs the commands of the pages with the real program.
func TestBook(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range pagesToRun {
		list, err := filepath.Glob("../../" + pattern)
		if err != nil || len(list) == 0 {
			t.Errorf("%s: %v, want at least one page", pattern, err)
		}
		pages = append(pages, list...)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			runPage(t, page)
		})
	}
}

func runPage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	needs, steps := readBook(t, string(text))
	if len(steps) < 2 {
		t.Fatalf("%s has %d blocks to run, want at least two", page, len(steps))
	}
	for _, tool := range append(needs, "bash") {
		symtest.Tool(t, tool)
	}
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir, "TESTDATA": testdata, "TMPDIR": os.TempDir()}
	if home, err := os.UserHomeDir(); err == nil && os.Getenv("RUSTUP_HOME") == "" {
		env["RUSTUP_HOME"] = filepath.Join(home, ".rustup") // where a rustc of rustup looks for its compiler
	} else {
		env["RUSTUP_HOME"] = os.Getenv("RUSTUP_HOME")
	}
	url, old, output := "", "", ""
	var server *commandtest.Serving // of the last step, if that was a server
	var exports []string
	for _, s := range steps {
		script := s.script
		if url != "" {
			script = serverAddress.ReplaceAllString(script, url)
		}
		if old != "" {
			script = strings.ReplaceAll(script, "http://old.example.com", old)
		}
		switch s.kind {
		case "serve", "old":
			script = strings.Replace(script, "go run ./cmd/symdepot ", "symdepot ", 1)
			args := strings.Fields(regexp.MustCompile(`--listen \S+|--public\b`).ReplaceAllString(script, ""))
			if len(args) < 2 || args[0] != "symdepot" || strings.Contains(script, "\n") {
				t.Fatalf("%s:%d: %q is not one command that starts a server", page, s.line, script)
			}
			srv, err := commandtest.StartServer(func(k string) string { return env[k] }, dir, args[1:]...)
			if err != nil {
				t.Fatalf("%s:%d: %v", page, s.line, err)
			}
			t.Cleanup(func() {
				if err := srv.Stop(); err != nil {
					t.Errorf("%s:%d: %v\n%s", page, s.line, err, srv.Log.String())
				}
			})
			if s.kind == "old" {
				old = srv.URL
			} else {
				url, server = srv.URL, srv
			}
		case "run", "setup":
			cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-euo", "pipefail", "-c", strings.Join(append(slices.Clone(exports), script), "\n"))
			cmd.Dir = dir
			for k, v := range env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s:%d: %v\n%s\n%s", page, s.line, err, script, out.String())
			}
			output, server = out.String(), nil
			for line := range strings.Lines(script) {
				if strings.HasPrefix(line, "export ") {
					exports = append(exports, line)
				}
			}
		case "text":
			if server != nil {
				output = awaitLines(t, server, script)
			}
			if missing := lacksLine(output, script); missing != "" {
				t.Errorf("%s:%d: the output has no line %q:\n%s", page, s.line, missing, output)
			}
		}
	}
}

// lacksLine returns the first line of want that the output does not have behind those
// before it.
func lacksLine(output, want string) string {
	lines := strings.Split(output, "\n")
	for w := range strings.SplitSeq(want, "\n") {
		if w = strings.TrimSpace(w); w == "" || w == "…" {
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*") + "$")
		at := slices.IndexFunc(lines, func(l string) bool { return pattern.MatchString(strings.TrimSpace(l)) })
		if at < 0 {
			return w
		}
		lines = lines[at+1:]
	}
	return ""
}

// TestReadBook: which blocks of a page are run, and which texts are compared with what.
func TestReadBook(t *testing.T) {
	t.Parallel()
	needs, steps := readBook(t, "<!-- needs gdb curl -->\n<!-- setup\nmkdir x\n-->\n```text\nno output\n```\n```sh\nnot run\n```\n<!-- old server: symdepot serve -->\n```sh run\nls\n```\n\n```text\nx\n```\nwords\n```text\nno output\n```\n```sh serve\nsymdepot serve\n```\n```text\nat …\n```\n")
	if want := []string{"gdb", "curl"}; !slices.Equal(needs, want) {
		t.Errorf("needs %q, want %q", needs, want)
	}
	want := []bookStep{{2, "setup", "mkdir x"}, {11, "old", "symdepot serve"}, {12, "run", "ls"}, {16, "text", "x"}, {23, "serve", "symdepot serve"}, {26, "text", "at …"}}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	for output, want := range map[string]string{"a\nb1\nc": "", "b1\na\nc": "b…", "a\nc": "b…"} {
		if missing := lacksLine(output, "a\n…\nb…\n"); missing != want {
			t.Errorf("%q lacks %q, want %q", output, missing, want)
		}
	}
}
