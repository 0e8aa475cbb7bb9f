package pages

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/book"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// docPages are the pages of the documentation. They show nothing of the depot.
type docPages struct{}

// docsWord is the first word of their addresses.
const docsWord = "docs"

func (p docPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, docsWord, web.Anyone, "", p.show),
		page(http.MethodGet, docsWord+"/images/*", web.Anyone, "", p.showImage),
		page(http.MethodGet, docsWord+"/*", web.Anyone, "", p.show),
		page(http.MethodGet, docsWord+"/*/*", web.Anyone, "", p.show),
	}
}

// docsLink is the address of a page of the documentation, by its name in the book.
func docsLink(base, name string) string {
	if name == "" {
		return link(base, docsWord, nil, nil)
	}
	return link(base, docsWord, strings.Split(name, "/"), nil)
}

// helpLink is the link of a page to the documentation.
type helpLink struct{ Label, Link string }

// docsHelp returns the link to a page of the documentation that exists.
func docsHelp(base, name string) helpLink {
	return helpLink{"Docs: " + book.Open().Page(name).Label(), docsLink(base, name)}
}

// docsView is what a page of the documentation shows.
type docsView struct {
	Query         string
	Hits          []book.Hit
	More          bool       // there are more hits
	Page          *book.Page // nil: the page shows hits
	Body          template.HTML
	Groups        []book.Group
	Before, After *book.Page
	MaxQuery      int
}

// DocsTo is the address of a page of the documentation, or of a heading of it.
func (f *frame) DocsTo(p *book.Page, anchor string) string {
	to := docsLink(f.Base, p.Name)
	if anchor != "" {
		to += "#" + anchor
	}
	return to
}

// show answers GET docs and GET docs/NAME.
func (p docPages) show(w *reply, r *web.Request, args []string) error {
	all := book.Open()
	v := docsView{Groups: all.Groups(), MaxQuery: book.MaxQuery}
	title := "Documentation"
	if v.Query = strings.TrimSpace(r.URL.Query().Get("q")); v.Query != "" && len(args) == 0 {
		if len(v.Query) > book.MaxQuery {
			return web.BadParameter("q", fmt.Sprintf("at most %d bytes are expected", book.MaxQuery))
		}
		v.Hits, v.More = all.Search(v.Query)
	} else {
		v.Page = all.Page(strings.Join(args, "/"))
		if v.Page == nil {
			const next = "The link Help leads to the list of its pages."
			return &web.Problem{Word: "not-found", Detail: "the documentation has no such page", Next: next}
		}
		title, v.Query = v.Page.Title, ""
		v.Before, v.After = all.Beside(v.Page)
		var err error
		v.Body, err = v.Page.HTML(book.Around{
			Page:  func(name string) string { return docsLink(r.Base, name) },
			Image: func(name string) string { return link(r.Base, docsWord, []string{"images", name}, nil) },
			Code:  codeHTML,
		})
		if err != nil {
			return err
		}
	}
	f := w.frame(r, title, v)
	f.Help = helpLink{} // this is the page
	return w.print(r, http.StatusOK, docsWord, f)
}

// codeHTML returns the element of a block of code, with its button.
func codeHTML(label, code string) (template.HTML, error) {
	var b bytes.Buffer
	err := templates()[docsWord].ExecuteTemplate(&b, "code", map[string]string{"Label": label, "Text": code})
	return template.HTML(b.String()), err //nolint:gosec // a template made it
}

// showImage answers GET docs/images/NAME.
func (p docPages) showImage(w *reply, r *web.Request, args []string) error {
	b, ok := book.Open().Image(args[0])
	if !ok {
		return &web.Problem{Word: "not-found", Detail: "the documentation has no such image"}
	}
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", assetType[path.Ext(args[0])])
	h.Set("Cache-Control", "public, max-age=86400")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return send(w, r.Request, http.StatusOK, b, false)
}
