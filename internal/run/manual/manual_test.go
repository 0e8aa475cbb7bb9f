package manual

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func sample() *Command {
	flags := []Arg{{Name: "--json", Help: "Print JSON."}, {Name: "--form", Short: "-f", Value: "FORM", Values: []string{"a", "b"}, Help: "It's a form."}}
	return &Command{Name: "prog", Path: "prog", Usage: "prog <command>", Help: "Does things.", Detail: ".dot first\n\n  prog cab list x\\y", Flags: flags[:1], Subs: []Command{
		{Name: "cab", Path: "prog cab", Usage: "prog cab <command>", Help: "Cabinets.", Subs: []Command{
			{Name: "list", Path: "prog cab list", Usage: "prog cab list [flags]", Help: "List a cabinet.", Flags: flags, Args: []Arg{{Name: "FILE", Help: "The file."}}},
		}},
		{Name: "add", Path: "prog add", Usage: "prog add", Help: "Add."},
	}}
}

func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if err := WritePages(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"prog.1":          {".TH PROG 1", `\&.dot first`, ".nf\n", `x\ey`, ".fi\n", ".BR prog\\-cab (1)\nCabinets."},
		"prog-cab.1":      {"prog\\-cab \\- Cabinets"},
		"prog-cab-list.1": {`\fB\-f, \-\-form=FORM\fR`, `It\(aqs a form.`, ".SH ARGUMENTS"},
		"prog-add.1":      {".B prog add"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s does not contain %q:\n%s", name, w, text)
			}
		}
		if groff := symtest.Judge(t, "groff"); groff != "" {
			if out, err := exec.Command(groff, "-man", "-Tascii", "-ww", "-z", filepath.Join(dir, name)).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("groff %s: %v %s, want no message", name, err, out)
			}
		}
	}
}

// complete asks a bash completion script for the words at the end of a line.
func complete(t *testing.T, script, line string) []string {
	t.Helper()
	shell := symtest.Tool(t, "bash")
	words := strings.Split(line, " ")
	quoted := "'" + strings.Join(words, "' '") + "'"
	out, err := exec.Command(shell, "--norc", "-c", script+"\nCOMP_WORDS=("+quoted+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _prog; echo \"${COMPREPLY[@]}\"").CombinedOutput()
	if err != nil {
		t.Fatalf("CombinedOutput: %s, error %v, %s; want no error", line, err, out)
	}
	return strings.Fields(string(out))
}

func TestBash(t *testing.T) {
	script := Completion("bash", sample())
	for line, want := range map[string][]string{
		"prog ":              {"cab", "add", "--json"},
		"prog a":             {"add"},
		"prog cab ":          {"list"},
		"prog cab list --":   {"--json", "--form"},
		"prog cab list x --": {"--json", "--form"},
		"prog add ":          nil,
	} {
		if got := complete(t, script, line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// The other shells are seldom installed; their scripts are checked where they
// are, and for the words they must contain.
func TestOtherShells(t *testing.T) {
	for shell, want := range map[string]string{"zsh": `" cab list") list="--json --form"`, "fish": `-l form -s f -x -a 'a b' -d 'It\'s a form.'`, "powershell": `' cab list' = @('--json', '--form')`} {
		script := Completion(shell, sample())
		if !strings.Contains(script, want) {
			t.Errorf("%s, %q: Completion: %s, want one with %q", shell, want, script, want)
		}
		if exe := symtest.Judge(t, shell); exe != "" {
			if out, err := exec.Command(exe, "-n", "-c", script).CombinedOutput(); err != nil {
				t.Errorf("%s: CombinedOutput: error %v, %s; want no error", shell, err, out)
			}
		}
	}
	if s := Completion("tcsh", sample()); s != "" {
		t.Errorf("tcsh: %q, want nothing", s)
	}
}

func TestMarkdown(t *testing.T) {
	root := sample()
	root.Subs[0].Detail = "Two_words.\n\n  prog cab list a_b\n  prog cab\n\nThe output:\n\n  $ prog cab\n  NAME\n\n" +
		"Examples:\n  prog cab list c\n\nExit codes: 0 done, 3 failed\nor not."
	text := Markdown(root)
	for _, want := range []string{
		"Flags of every command: `--json`\n",
		"## prog cab\n\nCabinets.\n\n    prog cab <command>\n\n    prog cab list a_b\n    prog cab\n    prog cab list c\n\n",
		"## prog cab list\n\nList a cabinet.\n\n    prog cab list [flags]\n\n\nFlags: `--form` (`-f`)\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	for _, not := range []string{"words", "NAME", "Exit codes", "It's a form."} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q, which is for the help:\n%s", not, text)
		}
	}
	if n := strings.Count(text, "`--json`"); n != 1 {
		t.Errorf("a flag of all commands stands %d times, want once", n)
	}
	if have, want := ExitCodes(root), "| `prog cab` | 3 failed or not |\n"; !strings.Contains(have, want) {
		t.Errorf("exit codes: %q, want %q", have, want)
	}
}
