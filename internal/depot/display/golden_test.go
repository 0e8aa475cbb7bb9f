package display

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// golden compares texts with a file of testdata; each has a title.
type golden struct {
	t *testing.T
	b strings.Builder
}

// add adds a text, and a value as indented JSON; nil: none.
func (g *golden) add(title, text string, value any) {
	g.t.Helper()
	fmt.Fprintf(&g.b, "== %s\n%s", title, text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		g.b.WriteByte('\n')
	}
	if value == nil {
		return
	}
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		g.t.Fatal(err)
	}
	fmt.Fprintf(&g.b, "-- JSON\n%s\n", b)
}

// check compares all texts with the file.
func (g *golden) check(name string) {
	g.t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(g.b.String()), 0o644); err != nil {
			g.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		g.t.Fatal(err)
	}
	have := strings.SplitAfter(g.b.String(), "\n")
	title := ""
	for n, line := range strings.SplitAfter(strings.ReplaceAll(string(want), "\r\n", "\n"), "\n") {
		if strings.HasPrefix(line, "== ") {
			title = strings.TrimSpace(line)
		}
		if n >= len(have) || have[n] != line {
			g.t.Fatalf("%s:%d, %s: have %q, want %q", name, n+1, title, strings.Join(have[min(n, len(have)):min(n+1, len(have))], ""), line)
		}
	}
}
