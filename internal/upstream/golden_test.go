package upstream

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/layout"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(want, text) {
		return
	}
	g, w := strings.Split(string(text), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s:%d:\n got %s\nwant %s", file, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", file, len(g), len(w))
}

// requests are what the paths of the golden table of requests ask for, and the
// same for clients that take MSFZ containers.
func goldenRequests(t *testing.T, each func(path string, req layout.Request)) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "layout", "testdata", "golden", "asked.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.Lines(string(text)) {
		p = strings.TrimSuffix(p, "\n")
		segs, err := layout.Segments("/" + p)
		if err != nil {
			continue
		}
		req, err := layout.Route(segs)
		if err != nil {
			continue
		}
		each(p, req)
		if req.Name == "A.pdb" {
			req.AcceptMSFZ()
			each(p+" (MSFZ accepted)", req)
		}
	}
}

// TestGoldenPlaces freezes what is asked of servers, in which order and case.
func TestGoldenPlaces(t *testing.T) {
	type dialect struct {
		label string
		s     spelling
	}
	var dialects []dialect
	for _, name := range HTTPLayouts {
		dialects = append(dialects, dialect{name, spelling{arranged: name, casing: CasingDefault, packed: true, pointers: true}})
	}
	for _, d := range []dialect{
		{"symstore two-tier", spelling{arranged: "symstore", two: true, packed: true, pointers: true}},
		{"symstore plain only", spelling{arranged: "symstore"}},
		{"symstore upper", spelling{arranged: "symstore", casing: CasingUpper, packed: true, pointers: true}},
		{"symstore_index2 two-tier", spelling{arranged: "symstore_index2", two: true, packed: true, pointers: true}},
		{"ssqp lower", spelling{arranged: "ssqp", casing: CasingLower, packed: true}},
		{"native upper", spelling{arranged: "native", casing: CasingUpper}},
		{"unified upper", spelling{arranged: "unified", casing: CasingUpper}},
		{"gdb inside", spelling{arranged: "gdb", inside: true}},
		{"debuginfod inside", spelling{arranged: "debuginfod", inside: true}},
	} {
		dialects = append(dialects, d)
	}
	var b bytes.Buffer
	blocks := map[string]string{}
	goldenRequests(t, func(path string, req layout.Request) {
		start := b.Len()
		for _, d := range dialects {
			list := d.s.places(&req)
			if len(list) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\t%s", d.label)
			for _, p := range list {
				fmt.Fprintf(&b, "\t%s", p.key())
				for _, f := range []struct {
					is   bool
					word string
				}{{p.packed, "packed"}, {p.pointer, "pointer"}, {p.exact, "exact"}} {
					if f.is {
						b.WriteString(" (" + f.word + ")")
					}
				}
			}
			b.WriteByte('\n')
		}
		block(&b, start, path, blocks)
	})
	golden(t, "places.txt", b.Bytes())
}

// TestGoldenCandidates freezes where files are looked for in folders, and in
// which order.
func TestGoldenCandidates(t *testing.T) {
	var b bytes.Buffer
	blocks := map[string]string{}
	goldenRequests(t, func(path string, req layout.Request) {
		start := b.Len()
		seen := map[string]string{}
		for _, name := range Layouts {
			text := candidateLines(name, &req)
			if same := seen[text]; text != "" && same != "" {
				text = "\tlike " + same + "\n"
			} else {
				seen[text] = name
			}
			if text != "" {
				b.WriteString("\t" + name + text)
			}
		}
		block(&b, start, path, blocks)
	})
	golden(t, "candidates.txt", b.Bytes())
}

// block puts a path above what was printed since start. What stands below
// another path already is not repeated.
func block(b *bytes.Buffer, start int, path string, blocks map[string]string) {
	text := string(b.Bytes()[start:])
	b.Truncate(start)
	if same := blocks[text]; same != "" && text != "" {
		fmt.Fprintf(b, "%s: like %s\n", path, same)
		return
	}
	blocks[text] = path
	fmt.Fprintf(b, "%s\n%s", path, text)
}

// candidateLines prints the candidates of each lookup of a request, the lookups
// apart.
func candidateLines(name string, req *layout.Request) string {
	var b strings.Builder
	for i, l := range req.Lookups {
		list := candidates(name, req, l)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, " %d", i)
		for _, c := range list {
			fmt.Fprintf(&b, "\t%s", strings.Join(c.parts, "/"))
			for _, f := range []struct {
				is   bool
				word string
			}{{c.packed, "packed"}, {c.pointer, "pointer"}, {c.text, "text"}, {c.msfz, "msfz"}, {c.verify, "verify"}, {c.older, "older"}} {
				if f.is {
					b.WriteString(" (" + f.word + ")")
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
