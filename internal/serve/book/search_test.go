package book

import (
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

// TestSearchFinds: the pages where people would look come first, or among the first three.
func TestSearchFinds(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"retention": "retention#", "keep_last": "retention#classes", "windbg": "start/windbg#", "Docker": "install#", "exit codes": "reference/exit-codes#",
		"what is kept?": "kept#", "CIRCUIT breaker": "config#filters-and-the-circuit-breaker", "sign in browser": "auth#sign-in-in-the-browser", "gdb": "start/linux#",
	} {
		hits, _ := Open().Search(query)
		var got []string
		for _, h := range hits {
			got = append(got, h.Page.Name+"#"+h.Heading.ID)
		}
		if !strings.Contains(strings.Join(got[:min(3, len(got))], " "), want) {
			t.Errorf("%q finds %q, want %s among the first three", query, got, want)
		}
	}
}

// TestSearchOrder: each word must occur; headings come before text; a page that has the
// words in different parts is a hit as a whole.
func TestSearchOrder(t *testing.T) {
	t.Parallel()
	b, err := read(fstest.MapFS{
		"README.md": {Data: []byte("# Start\n\n[a](a.md) [b](b.md)\n")},
		"a.md":      {Data: []byte("# One\n\nabout a zebra\n\n## Lions\n\nand others\n\n```sh\nfeed --now\n```\n")},
		"b.md":      {Data: []byte("# Two\n\n## Zebra\n\n| x | y |\n|---|---|\n| stripes | two |\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"zebra": "b#zebra a#", "ZEBRA stripes": "b#zebra", "zebra lions": "a#", "zebra unicorn": "", "--now": "a#lions", "others": "a#lions", "Two": "b# b#zebra",
	} {
		hits, more := b.Search(query)
		var got []string
		for _, h := range hits {
			got = append(got, h.Page.Name+"#"+h.Heading.ID)
		}
		if strings.Join(got, " ") != want || more {
			t.Errorf("%q finds %q, more %v; want %q", query, got, more, want)
		}
	}
}

// TestSnippet: the words are marked in the text as it stands.
func TestSnippet(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("before ", 40) + "Übermut İstanbul KEEP_last keep" + strings.Repeat(" after", 60)
	s := section{text: text, foldedText: fold(text)}
	var shown, marked []string
	for _, p := range s.snippet([]string{"keep", "keep_last", "übermut"}) {
		shown = append(shown, p.Text)
		if p.Marked {
			marked = append(marked, p.Text)
		}
	}
	if got := strings.Join(marked, "|"); got != "Übermut|KEEP_last|keep" {
		t.Errorf("marked %q, want the words as they stand", got)
	}
	if got := strings.Join(shown, ""); len(got) > snippetBytes+20 || !strings.HasPrefix(got, "… before") || !strings.HasSuffix(got, "after …") {
		t.Errorf("the snippet is %q, want whole words and at most %d bytes", got, snippetBytes)
	}
}

// FuzzSearch: no query makes the search fail, hits are few, and snippets are text.
func FuzzSearch(f *testing.F) {
	for _, q := range []string{"", " ", "a", "?!", "\x00", "\xff\xfe", "<script>", "' OR 1=1", "../../etc/passwd", "%s%n", "(((((", "İİİ", "e e e e", strings.Repeat("a ", 100), strings.Repeat("x", 10000)} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		hits, _ := Open().Search(query)
		if len(hits) > maxHits || len(query) > MaxQuery && len(hits) > 0 {
			t.Errorf("%.100q has %d hits, want at most %d, and none for a long query", query, len(hits), maxHits)
		}
		for _, h := range hits {
			n := 0
			for _, p := range h.Snippet {
				if n += len(p.Text); !utf8.ValidString(p.Text) {
					t.Errorf("%q: the snippet has %q, want whole letters", query, p.Text)
				}
			}
			if n > snippetBytes+20 {
				t.Errorf("%q: a snippet of %d bytes, want %d", query, n, snippetBytes)
			}
		}
	})
}
