package symdepot_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// page is a Markdown file: its headings as anchors, and its links with their lines.
type page struct {
	anchors map[string]bool
	links   map[string]int
}

var (
	linkSyntax = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?[^()\s]*)\)`)
	bareLink   = regexp.MustCompile(`(?:^|[\s(])(https?://[^\s|)>` + "`" + `]+)`)
	docsFile   = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/-]+\.md(?:#[a-z0-9-]+)?`)
	inCode     = regexp.MustCompile("`[^`]*`")
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// readPage reads a Markdown file. Code is no text: links in it are examples.
func readPage(text string) page {
	p := page{anchors: map[string]bool{}, links: map[string]int{}}
	fence, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
			continue
		case strings.HasPrefix(trimmed, "```"):
			fence = "```"
			continue
		case strings.HasPrefix(line, "    "):
			continue
		}
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			p.addAnchor(title)
		}
		line = inCode.ReplaceAllString(line, "``")
		for _, m := range linkSyntax.FindAllStringSubmatch(line, -1) {
			p.links[m[1]] = n
		}
		for _, m := range bareLink.FindAllStringSubmatch(line, -1) {
			p.links[strings.TrimRight(m[1], ".,;:")] = n
		}
	}
	return p
}

// addAnchor adds the anchor that GitHub makes of a heading.
func (p page) addAnchor(title string) {
	slug := linkText.ReplaceAllString(strings.TrimSpace(title), "$1")
	slug = strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(slug), ""), " ", "-")
	for n, name := 1, slug; ; n++ {
		if !p.anchors[name] {
			p.anchors[name] = true
			return
		}
		name = fmt.Sprintf("%s-%d", slug, n)
	}
}

// TestLinks: links between the Markdown files of the repository, and to its other files,
// lead to a file and a heading. So do the names of pages that the program prints.
// docs/reference/links.md lists the links that lead elsewhere; nobody follows them here.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages, outside := map[string]page{}, map[string][]string{}
	var sources []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == ".cache" || name == "dist" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case path.Ext(name) == ".md":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			pages[name] = readPage(string(text))
			sources = append(sources, name)
		case path.Ext(name) == ".go" || path.Ext(name) == ".html" || path.Ext(name) == ".yaml":
			sources = append(sources, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 30 {
		t.Fatalf("%d Markdown files, want all of the repository", len(pages))
	}
	for from, p := range pages {
		for link, line := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s:%d: %s: %v", from, line, link, err)
				continue
			}
			if u.Scheme != "" {
				if from != "docs/reference/links.md" {
					outside[link] = append(outside[link], from)
				}
				continue
			}
			to := from
			if u.Path != "" {
				to = path.Join(path.Dir(from), u.Path)
			}
			checkLink(t, pages, fmt.Sprintf("%s:%d: %s", from, line, link), to, u.Fragment)
		}
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if path.Ext(name) == ".go" {
			text = stringsOf(text)
		}
		for _, link := range docsFile.FindAllString(string(text), -1) {
			to, anchor, _ := strings.Cut(link, "#")
			checkLink(t, pages, name+": "+link, to, anchor)
		}
	}
	list := "| Link | In |\n|---|---|\n"
	for _, link := range slices.Sorted(maps.Keys(outside)) {
		slices.Sort(outside[link])
		list += fmt.Sprintf("| %s | %s |\n", link, strings.Join(outside[link], ", "))
	}
	symtest.Generated(t, "docs/reference/links.md", "links", list)
}

// stringsOf returns the texts in Go code: what the program prints.
func stringsOf(code []byte) (list []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(code)), code, nil, 0)
	for {
		switch _, tok, lit := s.Scan(); tok {
		case token.EOF:
			return list
		case token.STRING:
			list = append(append(list, lit...), '\n')
		}
	}
}

// checkLink reports a link to a file or a heading that does not exist.
func checkLink(t *testing.T, pages map[string]page, what, to, anchor string) {
	t.Helper()
	if _, err := os.Stat(filepath.FromSlash(to)); err != nil || strings.HasPrefix(to, "..") {
		t.Errorf("%s: there is no file %s", what, to)
		return
	}
	if anchor == "" {
		return
	}
	if p, ok := pages[to]; !ok || !p.anchors[anchor] {
		t.Errorf("%s: %s has no heading with the anchor %s", what, to, anchor)
	}
}

// TestReadPage: what counts as a heading and as a link, and what does not.
func TestReadPage(t *testing.T) {
	t.Parallel()
	p := readPage("# One `two`, [three](x.md)!\n## Same\n## Same\ntext [a](b.md#c) and `[code](no.md)` https://example.com/x.\n\n    [example](no.md)\n\n```sh\n# no heading\n[x](no.md)\n```\n")
	if want := map[string]bool{"one-two-three": true, "same": true, "same-1": true}; !maps.Equal(p.anchors, want) {
		t.Errorf("anchors %v, want %v", p.anchors, want)
	}
	if want := map[string]int{"x.md": 1, "b.md#c": 4, "https://example.com/x": 4}; !maps.Equal(p.links, want) {
		t.Errorf("links %v, want %v", p.links, want)
	}
}
