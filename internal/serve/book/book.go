// Package book is the documentation for readers of a server: its pages in HTML, their order,
// and a search in them.
package book

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"

	"github.com/symdepot/symdepot/docs"
)

// Book is the documentation. Its methods may be called by many goroutines.
type Book struct {
	pages  map[string]*Page // by name
	order  []*Page
	groups []Group
	images map[string][]byte // those that a page shows, by their name below images/
	index  func() []section
}

// Page is a page of the documentation.
type Page struct {
	// Name is the path of the page's file below docs without ".md", such as "start/windbg".
	// The first page, docs/README.md, has the name "".
	Name string
	// Title is the first heading.
	Title string
	// Headings are the other headings, in the order of the page.
	Headings []Heading

	file   string // the path of the file below docs
	source []byte
	book   *Book
}

// Heading is a heading of a page.
type Heading struct {
	Level int    // 1 is the title
	ID    string // the anchor, as GitHub names it
	Text  string
}

// Group is the pages to which the first page links below one of its headings.
type Group struct {
	Title string
	Pages []*Page
}

// firstFile is the file of the first page.
const firstFile = "README.md"

// Open returns the documentation of this version of the program.
var Open = sync.OnceValue(func() *Book {
	b, err := read(docs.Files)
	if err != nil {
		panic(err)
	}
	return b
})

// read reads the documentation from the files of docs.
func read(files fs.FS) (*Book, error) {
	b := &Book{pages: map[string]*Page{}, images: map[string][]byte{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		p := &Page{Name: pageName(name), file: name, source: source, book: b}
		_, all := p.tree()
		if len(all) == 0 || all[0].Level != 1 {
			return fmt.Errorf("docs/%s: the page does not begin with a title", name)
		}
		p.Title, p.Headings = all[0].Text, all[1:]
		b.pages[p.Name] = p
		return nil
	})
	if err != nil {
		return nil, err
	}
	if b.pages[""] == nil {
		return nil, errors.New("docs/README.md is missing")
	}
	b.arrange()
	b.index = sync.OnceValue(b.sections)
	return b, b.readImages(files)
}

// pageName returns the name of the page of a file.
func pageName(file string) string {
	if file == firstFile {
		return ""
	}
	return strings.TrimSuffix(file, ".md")
}

// arrange puts the pages into the order in which the first page links to them.
func (b *Book) arrange() {
	first := b.pages[""]
	b.order = []*Page{first}
	doc, _ := first.tree()
	title := ""
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			title = plain(n, first.source)
		case *ast.Link:
			p := first.target(string(n.Destination)).page
			if p == nil || slices.Contains(b.order, p) {
				break
			}
			if last := len(b.groups) - 1; last < 0 || b.groups[last].Title != title {
				b.groups = append(b.groups, Group{Title: title})
			}
			g := &b.groups[len(b.groups)-1]
			g.Pages = append(g.Pages, p)
			b.order = append(b.order, p)
		}
		return ast.WalkContinue, nil
	})
}

// readImages reads the images that pages show.
func (b *Book) readImages(files fs.FS) error {
	for _, p := range b.pages {
		doc, _ := p.tree()
		err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			img, ok := n.(*ast.Image)
			if !ok || !entering {
				return ast.WalkContinue, nil
			}
			name, ok := strings.CutPrefix(p.target(string(img.Destination)).file, "images/")
			if !ok {
				return ast.WalkStop, fmt.Errorf("docs/%s: the image %s is not in docs/images", p.file, img.Destination)
			}
			bytes, err := fs.ReadFile(files, "images/"+name)
			b.images[name] = bytes
			return ast.WalkContinue, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Page returns the page with a name; nil if there is none.
func (b *Book) Page(name string) *Page { return b.pages[name] }

// Image returns the bytes of the image docs/images/NAME, if a page shows it.
func (b *Book) Image(name string) ([]byte, bool) {
	bytes, ok := b.images[name]
	return bytes, ok
}

// Pages returns all pages to which the first page leads, in the order of its links. The
// first page comes first.
func (b *Book) Pages() []*Page { return b.order }

// Groups returns the pages but the first one, as the first page groups them.
func (b *Book) Groups() []Group { return b.groups }

// Beside returns the pages before and after a page; nil where there is none.
func (b *Book) Beside(p *Page) (before, after *Page) {
	i := slices.Index(b.order, p)
	if i > 0 {
		before = b.order[i-1]
	}
	if i >= 0 && i+1 < len(b.order) {
		after = b.order[i+1]
	}
	return before, after
}

// Label returns the title up to a colon, for links.
func (p *Page) Label() string {
	label, _, _ := strings.Cut(p.Title, ":")
	return label
}
