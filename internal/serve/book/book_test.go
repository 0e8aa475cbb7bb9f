package book

import (
	"html/template"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/symdepot/symdepot/docs"
)

// plainly shows pages at addresses that are their names.
var plainly = Around{
	Page:  func(name string) string { return "/docs/" + name },
	Image: func(name string) string { return "/images/" + name },
	Code: func(label, code string) (template.HTML, error) {
		return template.HTML("<pre aria-label=\"" + label + "\">" + template.HTMLEscapeString(code) + "</pre>"), nil //nolint:gosec // escaped
	},
}

func (p *Page) html(t *testing.T, a Around) string {
	t.Helper()
	h, err := p.HTML(a)
	if err != nil {
		t.Fatalf("docs/%s: %v", p.file, err)
	}
	return string(h)
}

var (
	idOf   = regexp.MustCompile(` id="([^"]*)"`)
	hrefOf = regexp.MustCompile(` href="([^"]*)"`)
	srcOf  = regexp.MustCompile(` src="([^"]*)"`)
)

// TestEveryPage: each page of docs is shown, the first page leads to it, and each link and
// each image on it leads to something, with its anchor.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	b := Open()
	if len(b.pages) < 40 {
		t.Fatalf("%d pages, want those of docs", len(b.pages))
	}
	anchors, shown := map[string]bool{}, map[string]string{}
	for name, p := range b.pages {
		shown[name] = p.html(t, plainly)
		anchors["/docs/"+name] = true
		for _, m := range idOf.FindAllStringSubmatch(shown[name], -1) {
			if anchors["/docs/"+name+"#"+m[1]] {
				t.Errorf("docs/%s: two headings have the anchor %s", p.file, m[1])
			}
			anchors["/docs/"+name+"#"+m[1]] = true
		}
	}
	images := map[string]bool{}
	for name, text := range shown {
		p := b.pages[name]
		for _, m := range hrefOf.FindAllStringSubmatch(text, -1) {
			to := m[1]
			if strings.HasPrefix(to, "#") {
				to = "/docs/" + name + to
			}
			if !anchors[to] && !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "http://") {
				t.Errorf("docs/%s: the link %s leads nowhere", p.file, m[1])
			}
		}
		for _, m := range srcOf.FindAllStringSubmatch(text, -1) {
			images[strings.TrimPrefix(m[1], "/images/")] = true
		}
		for _, no := range []string{"<!--", " style=", " align=", "<script", "raw HTML"} {
			if strings.Contains(text, no) {
				t.Errorf("docs/%s: the page has %q, want it nowhere", p.file, no)
			}
		}
		if !slices.Contains(b.order, p) {
			t.Errorf("docs/%s: docs/README.md has no link to it", p.file)
		}
	}
	if want := slices.Sorted(maps.Keys(b.images)); !slices.Equal(want, slices.Sorted(maps.Keys(images))) {
		t.Errorf("images %v are kept, %v are shown", want, images)
	}
	if len(b.groups) < 4 || b.groups[0].Pages[0].Name != "start/windbg" {
		t.Errorf("groups %+v, want those of docs/README.md, and WinDbg first", b.groups)
	}
}

// TestNothingLost: HTML in the pages is comments only, because other HTML is not shown.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	for _, p := range Open().pages {
		fence := false
		for line := range strings.Lines(string(p.source)) {
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fence = !fence
			case !fence && strings.HasPrefix(line, "<") && !strings.HasPrefix(line, "<!--"):
				t.Errorf("docs/%s: %sis HTML, which the pages of a server do not show", p.file, line)
			}
		}
	}
}

// made is a small book with everything that is treated in a special way.
func made(t *testing.T) *Book {
	t.Helper()
	b, err := read(fstest.MapFS{
		"README.md": {Data: []byte("# Start\n\n## First\n\n[a](a.md), [twice](a.md#x), [out](../ci/x.yml)\n\n## Second\n\n[sub/b.md](sub/b.md)\n")},
		"a.md": {Data: []byte("# A: all of it\n\n<!-- setup -->\n\nText <b>bold</b> <script>alert(1)</script>.\n\n## Same `x`, [y](sub/b.md)!\n\n## Same x, y\n\n" +
			"| L | R | C | |\n|---|--:|:-:|---|\n| 1 | `a\\|b` | 3 | 4 |\n\n![A picture](images/one.png)\n\n" +
			"```sh run\necho \"<a>\" && true\n```\n\nhttps://example.com/x [s](sub/b.md#deep) [r](../README.md) [j](javascript:alert(1)) [here](#same-x-y) [e](%zz) [up](../../x.md)\n")},
		"sub/b.md":       {Data: []byte("# B\n\n### Deep\n\nto [../a.md](../a.md#same-x-y-1), [README](../README.md), [top](../../README.md)\n\n- item\n\n      code\n")},
		"images/one.png": {Data: []byte("one")},
		"images/two.png": {Data: []byte("two")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHTML: what becomes of links, images, HTML, tables and code.
func TestHTML(t *testing.T) {
	t.Parallel()
	b := made(t)
	a := b.Page("a").html(t, plainly)
	for _, want := range []string{
		`<h1 id="a-all-of-it">A: all of it</h1>`, `<h2 id="same-x-y">`, `<h2 id="same-x-y-1">Same x, y</h2>`,
		`<th scope="col">L</th>`, `<th scope="col" class="num">R</th>`, `<td class="num"><code>a|b</code></td>`, `<td class="mid">3</td>`,
		`<div class="scroll" tabindex="0" role="region" aria-label="Table 1">`, `<img src="/images/one.png" alt="A picture">`,
		`<pre aria-label="Code 1">echo &#34;&lt;a&gt;&#34; &amp;&amp; true</pre>`, `<a href="https://example.com/x">https://example.com/x</a>`,
		`<a href="/docs/sub/b#deep">s</a>`, `<a href="/docs/">r</a>`, `<a href="#same-x-y">here</a>`, ` e up</p>`,
	} {
		if !strings.Contains(a, want) {
			t.Errorf("the page lacks %q:\n%s", want, a)
		}
	}
	for _, no := range []string{"<!--", "setup", "<b>", "<script", "javascript:", "<th scope=\"col\"></th>"} {
		if strings.Contains(a, no) {
			t.Errorf("the page has %q, want it nowhere:\n%s", no, a)
		}
	}
	sub := b.Page("sub/b").html(t, plainly)
	for _, want := range []string{`<a href="/docs/a#same-x-y-1">A</a>, <a href="/docs/">README</a>, <a href="/docs/">top</a>`, `<pre aria-label="Code 1">code</pre>`} {
		if !strings.Contains(sub, want) {
			t.Errorf("the page lacks %q:\n%s", want, sub)
		}
	}
	if first := b.Page("").html(t, plainly); !strings.Contains(first, `<a href="/docs/sub/b">B</a>`) || !strings.Contains(first, ", out</p>") {
		t.Errorf("the first page does not name the page by its title, or keeps a link out of docs:\n%s", first)
	}
}

// TestArrange: the pages stand in the order of the first page, in the groups of its headings.
func TestArrange(t *testing.T) {
	t.Parallel()
	b := made(t)
	var got []string
	for _, g := range b.Groups() {
		for _, p := range g.Pages {
			got = append(got, g.Title+" "+p.Label())
		}
	}
	if want := []string{"First A", "Second B"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	before, after := b.Beside(b.Page("a"))
	if before != b.Page("") || after != b.Page("sub/b") {
		t.Errorf("beside a: %v and %v, want the first page and b", before, after)
	}
	if before, _ := b.Beside(b.Page("")); before != nil {
		t.Errorf("before the first page: %v, want nothing", before.Name)
	}
	if _, after := b.Beside(b.Page("sub/b")); after != nil {
		t.Errorf("after the last page: %v, want nothing", after.Name)
	}
}

// TestNames: a page and an image have one name each, and nothing else is found.
func TestNames(t *testing.T) {
	t.Parallel()
	b := made(t)
	for _, name := range []string{"README", "a.md", "/a", "A", "sub", "sub/", "sub/../a", "..", "../go.mod", "images/one.png", "docs.go", "sub\\b", "a\x00"} {
		if b.Page(name) != nil {
			t.Errorf("there is a page %q, want none", name)
		}
	}
	if bytes, ok := b.Image("one.png"); !ok || string(bytes) != "one" {
		t.Errorf("one.png: %q, %v, want the image that a page shows", bytes, ok)
	}
	for _, name := range []string{"two.png", "", "../a.md", "./one.png"} {
		if _, ok := b.Image(name); ok {
			t.Errorf("there is an image %q, want none", name)
		}
	}
}

// TestReadFaults: a book that is not whole is not opened.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]fstest.MapFS{
		"docs/README.md is missing":  {"a.md": {Data: []byte("# A\n")}},
		"does not begin with a":      {"README.md": {Data: []byte("text\n")}},
		"is not in docs/images":      {"README.md": {Data: []byte("# A\n\n![x](../x.png)\n")}},
		"open images/x.png: file do": {"README.md": {Data: []byte("# A\n\n![x](images/x.png)\n")}},
	} {
		if _, err := read(files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestFiles: the program carries the pages and the images, and no other file of docs.
func TestFiles(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) != ".md" && path.Dir(name) != "images" {
			t.Errorf("the program carries docs/%s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
