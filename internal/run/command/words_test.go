package command

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/manual"
)

// TestWordsOfPeers: a word of another program, or a misspelled one, leads to what is meant.
func TestWordsOfPeers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"search x":         "unknown command search; did you mean: symdepot find NAME\n",
		"upload x":         "unknown command upload; did you mean: symdepot push --server URL PATH, or: symdepot add PATH\n",
		"query x":          "unknown command query; did you mean: symdepot find NAME, or: symdepot list\n",
		"lisst":            "unknown command lisst; did you mean: symdepot list\n",
		"xyzzy":            "unknown command xyzzy\n",
		"token create x":   "unknown command create; did you mean: symdepot token new --name NAME\n",
		"cab ls x":         "unknown command ls; did you mean: symdepot cab list FILE\n",
		"serve build/":     "serve takes no argument build/; did you mean: --add=PATH\n",
		"list x":           "list takes no argument x\n",
		"serve --port 1":   "unknown flag --port; did you mean: --listen=ADDR:PORT\n",
		"add --tag 1 x":    "unknown flag --tag; did you mean: --version=VERSION\n",
		"add --dir d x":    "unknown flag --dir; did you mean: --depot=DIR\n",
		"cab list --dir d": "unknown flag --dir\n",
		"get --dir d x":    "unknown flag --dir; did you mean: --depot=DIR, or: --output=PATH\n",
		"serve --comfig x": "unknown flag --comfig; did you mean: --config=FILE\n",
		"serve -p 9000":    "there is no --add; the port is set with --listen 127.0.0.1:PORT\n",
		"--depot d":        "a command is missing\n",
		"config":           "a command is missing behind config: check, print, from-symcache-sample\n",
	} {
		var out, errs strings.Builder
		code := Run(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &errs, console.Options{})
		if code != ExitUsage || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("symdepot %s: exit %d, %q, %q; want %d and %q", line, code, out.String(), errs.String(), ExitUsage, want)
		}
	}
}

// TestPeerTables: no word stands twice or is itself a command, and what a word means is there.
func TestPeerTables(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	root := parser.Model.Node
	find := func(line string) *kong.Node {
		n := root
		for word := range strings.FieldsSeq(line) {
			i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == word })
			if i < 0 {
				break
			}
			n = n.Children[i]
		}
		return n
	}
	var words, names []string
	for _, row := range manual.PeerCommands {
		words = append(words, strings.Fields(row[0])...)
		for line := range strings.SplitSeq(row[1], "|") {
			if n := find(line); n == root || len(n.Children) > 0 && n.DefaultCmd == nil {
				t.Errorf("%s: there is no command %q", row[0], line)
			}
		}
	}
	for i, w := range words {
		if n := find(w); slices.Contains(words[:i], w) || n != root && !n.Hidden {
			t.Errorf("the word %s stands twice, or is a command", w)
		}
	}
	for _, n := range append(root.Leaves(false), root) {
		for _, f := range n.Flags {
			names = append(names, f.Name)
		}
	}
	words = nil
	for _, row := range manual.PeerFlags {
		for w := range strings.FieldsSeq(row[0]) {
			if slices.Contains(words, w) {
				t.Errorf("the flag %s stands twice", w)
			}
			words = append(words, w)
		}
		for name := range strings.FieldsSeq(row[1]) {
			if !slices.Contains(names, name) {
				t.Errorf("%s: there is no flag %q", row[0], name)
			}
		}
	}
}
