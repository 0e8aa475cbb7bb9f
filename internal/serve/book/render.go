package book

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Around says how a page of the book stands on a page of the server.
type Around struct {
	// Page returns the address of a page, by its name.
	Page func(name string) string
	// Image returns the address of an image, by its name.
	Image func(name string) string
	// Code returns the element of a block of code. The label names the block.
	Code func(label, code string) (template.HTML, error)
}

// markdown returns the reader and writer of pages. HTML in pages is not written.
func markdown(options ...goldmark.Option) goldmark.Markdown {
	return goldmark.New(append(options, goldmark.WithExtensions(extension.Table, extension.Linkify))...)
}

// HTML returns the page as HTML without a script and without a style.
func (p *Page) HTML(a Around) (template.HTML, error) {
	doc, _ := p.tree()
	p.resolve(doc, a)
	own := renderer.WithNodeRenderers(util.Prioritized(&elements{code: a.Code}, 1))
	var b bytes.Buffer
	err := markdown(goldmark.WithRendererOptions(own)).Renderer().Render(&b, p.source, doc)
	return template.HTML(b.String()), err //nolint:gosec // the page is a part of the program, and HTML in it is not written
}

// tree parses the page. The headings have ids; HTML, such as the comments for the tests of
// the pages, is left out.
func (p *Page) tree() (doc ast.Node, headings []Heading) {
	doc = markdown().Parser().Parse(text.NewReader(p.source))
	var html []ast.Node
	taken := map[string]bool{}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.HTMLBlock, *ast.RawHTML:
			html = append(html, n)
		case *ast.Heading:
			h := Heading{Level: n.Level, Text: plain(n, p.source)}
			h.ID = anchor(h.Text, taken)
			n.SetAttributeString("id", h.ID)
			headings = append(headings, h)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range html {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	return doc, headings
}

// anchor returns the id that GitHub gives to a heading: of several with one text, the later
// ones have a number.
func anchor(heading string, taken map[string]bool) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	id := slug
	for n := 1; taken[id]; n++ {
		id = fmt.Sprintf("%s-%d", slug, n)
	}
	taken[id] = true
	return id
}

// plain returns the text of a node without its form, with single spaces.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case !entering && n.Type() == ast.TypeBlock:
			b.WriteByte(' ')
		case !entering:
		case n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock:
			b.Write(n.Lines().Value(source))
		default:
			writeInline(&b, n, source)
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// writeInline writes the text of an inline node without its children.
func writeInline(b *strings.Builder, n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Text:
		value := n.Value(source)
		if n.Parent().Kind() != ast.KindCodeSpan {
			value = util.ResolveEntityNames(util.UnescapePunctuations(value))
		}
		b.Write(value)
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.String:
		b.Write(n.Value)
	case *ast.AutoLink:
		b.Write(n.Label(source))
	}
}

// target is where a link of a page leads.
type target struct {
	away     bool   // to another server
	page     *Page  // nil: to no page
	file     string // the path below docs; "" within the page
	fragment string
}

// target reads a link of the page. A link that cannot be read leads nowhere.
func (p *Page) target(link string) target {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return target{file: ".."}
	case u.Scheme != "" || u.Host != "":
		return target{away: true}
	case u.Path == "":
		return target{page: p, fragment: u.Fragment}
	}
	t := target{file: path.Join(path.Dir(p.file), u.Path), fragment: u.Fragment}
	if t.file == "../"+firstFile { // the first page has the same quick starts
		return target{page: p.book.pages[""]}
	}
	if path.Ext(t.file) == ".md" && t.file != ".md" {
		t.page = p.book.pages[pageName(t.file)]
	}
	return t
}

// resolve puts the addresses of the server in place of the files to which the page links. A
// link to a file that the book does not have becomes its text.
func (p *Page) resolve(doc ast.Node, a Around) {
	var lost []ast.Node
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			t := p.target(string(n.Destination))
			switch {
			case t.away:
			case t.page == nil:
				lost = append(lost, n)
			case t.file == "" && t.page == p: // within the page
			default:
				n.Destination = []byte(a.Page(t.page.Name))
				if t.fragment != "" {
					n.Destination = append(n.Destination, '#')
					n.Destination = append(n.Destination, url.PathEscape(t.fragment)...)
				}
				if strings.HasSuffix(plain(n, p.source), ".md") { // readers of the server have no files
					n.RemoveChildren(n)
					label := ast.NewString([]byte(t.page.Label()))
					label.SetRaw(true)
					n.AppendChild(n, label)
				}
			}
		case *ast.Image:
			n.Destination = []byte(a.Image(strings.TrimPrefix(p.target(string(n.Destination)).file, "images/")))
		}
		return ast.WalkContinue, nil
	})
	for _, n := range lost {
		parent := n.Parent()
		for c := n.FirstChild(); c != nil; c = n.FirstChild() {
			parent.InsertBefore(parent, n, c)
		}
		parent.RemoveChild(parent, n)
	}
}

// elements writes what looks on the pages of a server other than goldmark writes it: blocks
// of code, and tables, which scroll within the page.
type elements struct {
	code   func(label, code string) (template.HTML, error)
	blocks int
	tables int
}

// RegisterFuncs implements renderer.NodeRenderer.
func (e *elements) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, e.block)
	reg.Register(ast.KindCodeBlock, e.block)
	reg.Register(table.KindTable, e.table)
	reg.Register(table.KindTableCell, e.cell)
}

func (e *elements) block(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	e.blocks++
	element, err := e.code(fmt.Sprintf("Code %d", e.blocks), strings.TrimSuffix(string(n.Lines().Value(source)), "\n"))
	_, _ = w.WriteString(string(element) + "\n")
	return ast.WalkSkipChildren, err
}

func (e *elements) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		e.tables++
		_, _ = fmt.Fprintf(w, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table %d\">\n<table>\n", e.tables)
	} else {
		_, _ = w.WriteString("</table>\n</div>\n")
	}
	return ast.WalkContinue, nil
}

// alignClass are the classes of cells that do not begin on the left.
var alignClass = map[table.Alignment]string{table.AlignRight: ` class="num"`, table.AlignCenter: ` class="mid"`}

func (e *elements) cell(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	tag, scope := "td", ""
	if n.Parent().Kind() == table.KindTableHeader && n.HasChildren() { // an empty cell is the head of nothing
		tag, scope = "th", ` scope="col"`
	}
	if entering {
		align := ""
		if c, ok := n.(*table.TableCell); ok {
			align = alignClass[c.Alignment]
		}
		_, _ = w.WriteString("<" + tag + scope + align + ">")
	} else {
		_, _ = w.WriteString("</" + tag + ">\n")
	}
	return ast.WalkContinue, nil
}
