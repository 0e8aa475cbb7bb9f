package command

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/run/console"
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
		if code := Run(t.Context(), args, strings.NewReader(""), &out, io.Discard, console.Options{}); code != 0 || !strings.Contains(out.String(), "Exit codes: ") {
			t.Errorf("symdepot %s: exit %d\n%s\nwant 0 and the exit codes of the group", strings.Join(args, " "), code, out.String())
		}
	}
}

// TestGroups: the list of all commands is groups of at most ten commands, one line for each.
func TestGroups(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for _, n := range parser.Model.Children {
		switch {
		case n.Hidden:
			continue
		case n.Group == nil:
			t.Errorf("%s is in no group", n.Name)
			continue
		}
		if sizes[n.Group.Title]++; sizes[n.Group.Title] > 10 {
			t.Errorf("%s is the eleventh command or more of the group %s", n.Name, n.Group.Title)
		}
		if most := 60; utf8.RuneCountInString(n.Help) > most { // what a terminal of 80 columns has beside the names
			t.Errorf("%s: the summary %q is longer than %d letters", n.Name, n.Help, most)
		}
	}
	if len(sizes) < 6 {
		t.Errorf("the groups %v, want six or more", sizes)
	}
}

// TestShortHelp: the help of a command with many flags has those of the first day, and names the
// command that prints them all.
func TestShortHelp(t *testing.T) {
	t.Parallel()
	help := func(args ...string) string {
		var out strings.Builder
		if code := Run(t.Context(), args, strings.NewReader(""), &out, io.Discard, console.Options{}); code != ExitOK {
			t.Errorf("symdepot %s: exit %d, want %d", strings.Join(args, " "), code, ExitOK)
		}
		return out.String()
	}
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range parser.Model.Leaves(true) {
		if len(n.Flags) <= mostFlags || n.Name == "symstore" {
			continue
		}
		path := strings.Fields(n.FullPath())[1:]
		short, long := help(append(path, "--help")...), help(append([]string{"help"}, append(path, "--help-all")...)...)
		if count := strings.Count(short, "\n  -") + strings.Count(short, "\n      --"); count > 19 {
			t.Errorf("%s: the short help has %d flags, want 19 or less, with the four of every command", n.FullPath(), count)
		}
		if !strings.Contains(short, "more flags: "+n.FullPath()+" --help-all\n") || strings.Contains(long, "more flags: ") {
			t.Errorf("%s: the short help does not name the long one, or the long one itself:\n%s", n.FullPath(), short)
		}
		for _, f := range n.Flags {
			if !f.Hidden && !strings.Contains(long, "--"+f.Name) {
				t.Errorf("%s: the long help lacks --%s", n.FullPath(), f.Name)
			}
		}
	}
	if all := help("help", "all"); !strings.Contains(all, "\n  cab extract ") || strings.Contains(help("--help"), "\n  cab extract ") {
		t.Errorf("symdepot help all:\n%s\nwant the commands below others, which --help has not", all)
	}
}

// TestFirstScreen: symdepot alone prints first steps and every command, where no script takes them
// for an answer.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	if code := Run(t.Context(), nil, strings.NewReader(""), &out, &errs, console.Options{}); code != ExitUsage || out.Len() > 0 {
		t.Errorf("symdepot: exit %d, output %q; want %d and nothing", code, out.String(), ExitUsage)
	}
	for _, want := range []string{"symdepot serve --add build/", "\nLook:\n  identify, find, list, ", "symdepot --help\n"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("symdepot prints\n%s\nwant %q in it", errs.String(), want)
		}
	}
	if lines := strings.Count(errs.String(), "\n"); lines > 30 {
		t.Errorf("symdepot prints %d lines, want 30 at most", lines)
	}
	if strings.Contains(errs.String(), " man") {
		t.Errorf("symdepot prints\n%s\nwant no hidden command", errs.String())
	}
}
