package command

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The help of each command: text before the first example, since an example
// that comes first loses its indentation, and its exit codes.
func TestHelpTexts(t *testing.T) {
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(false) {
		parent := n.Parent
		detail := n.Detail
		if detail == "" && parent != nil && parent.Type == kong.CommandNode {
			detail = parent.Detail // a group of commands has one text
		}
		switch n.Name {
		case "symstore", "help", "version":
			continue
		}
		if strings.HasPrefix(n.Detail, " ") {
			t.Errorf("%s: the help begins with an example, want a sentence first", n.FullPath())
		}
		if !strings.Contains(detail, "Exit codes: ") {
			t.Errorf("%s: the help names no exit codes", n.FullPath())
		}
		if n.Help == "" || !strings.HasSuffix(n.Help, ".") {
			t.Errorf("%s: the summary %q is no sentence", n.FullPath(), n.Help)
		}
		for _, f := range n.Flags {
			if f.Help == "" && f.Name != "help" {
				t.Errorf("%s --%s has no help", n.FullPath(), f.Name)
			}
		}
	}
}

// A command of a group without a text of its own prints that of the group.
func TestHelpOfGroup(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "policy", "set"}, {"token", "new", "--help"}} {
		var out strings.Builder
		if code := Run(t.Context(), args, strings.NewReader(""), &out, io.Discard, Options{}); code != 0 || !strings.Contains(out.String(), "Exit codes: ") {
			t.Errorf("symdepot %s: exit %d\n%s\nwant 0 and the exit codes of the group", strings.Join(args, " "), code, out.String())
		}
	}
}
