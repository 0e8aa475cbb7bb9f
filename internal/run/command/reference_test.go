package command

import (
	"io"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/manual"
)

// TestCommandDocs: docs/reference has the commands and the exit codes that the program has.
func TestCommandDocs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the reference has the commands of all systems; docs/install.md describes symdepot service")
	}
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	root := describeNode(parser.Model.Node)
	symtest.Generated(t, "docs/reference/commands.md", "commands", manual.Markdown(&root))
	symtest.Generated(t, "docs/reference/exit-codes.md", "commands", manual.ExitCodes(&root))

	var out strings.Builder
	if code := Run(t.Context(), []string{"--help"}, strings.NewReader(""), &out, &out, console.Options{}); code != ExitOK {
		t.Fatalf("symdepot --help: exit code %d, want 0", code)
	}
	_, codes, _ := strings.Cut(out.String(), "Exit codes: ")
	codes, _, ok := strings.Cut(codes, ".\n\n")
	if !ok {
		t.Fatalf("symdepot --help: %s; want a paragraph with the exit codes", out.String())
	}
	codes = regexp.MustCompile(`, (\d)`).ReplaceAllString(strings.Join(strings.Fields(codes), " "), "\n$1")
	rows := "| Code | Meaning |\n|---|---|\n"
	for row := range strings.SplitSeq(codes, "\n") {
		code, meaning, _ := strings.Cut(row, " ")
		rows += "| " + code + " | " + meaning + " |\n"
	}
	symtest.Generated(t, "docs/reference/exit-codes.md", "codes", rows)
}
