package pages

import (
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// link builds the address of a page. Names that people gave stand in the query, never in
// the path, so segs are numbers, hex digits or words of this package.
func link(base, word string, segs []string, query url.Values) string {
	var b strings.Builder
	b.WriteString(base)
	b.WriteString("/-/")
	b.WriteString(word)
	for _, s := range segs {
		b.WriteByte('/')
		b.WriteString(s)
	}
	if e := query.Encode(); e != "" {
		b.WriteByte('?')
		b.WriteString(e)
	}
	return b.String()
}

// values pairs the names and values of a query. Pairs with an empty value are left
// out, unless the name ends with "=": "p=" is the product without a name.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, keep := strings.CutSuffix(pairs[i], "=")
		if pairs[i+1] != "" || keep {
			v.Set(name, pairs[i+1])
		}
	}
	return v
}

// To is the address of a page with nothing in the query.
func (f *frame) To(word string, segs ...any) string {
	list := make([]string, len(segs))
	for i, s := range segs {
		switch s := s.(type) {
		case int64:
			list[i] = strconv.FormatInt(s, 10)
		case string:
			list[i] = s
		}
	}
	return link(f.Base, word, list, nil)
}

// Ask is the address of a page with a query of names and values.
func (f *frame) Ask(word string, pairs ...string) string {
	return link(f.Base, word, nil, values(pairs...))
}

// noun prints the name of a thing as a link to its page. There are no such links where the
// address of this page contains a token, which other pages do not know.
func (f *frame) noun(to string, text template.HTML) template.HTML {
	if f.Below != "" {
		return text
	}
	return `<a href="` + template.HTML(template.HTMLEscapeString(to)) + `">` + text + `</a>` //nolint:gosec // escaped, and our own element
}

// ProductLink prints a product as a link to its page.
func (f *frame) ProductLink(name string) template.HTML {
	return f.noun(f.Ask("product", "p=", name), productHTML(name))
}

func productHTML(name string) template.HTML {
	if name == "" {
		return "no product"
	}
	return nameHTML(name)
}

// VersionLink prints a version of a product as a link to its page.
func (f *frame) VersionLink(product, version string) template.HTML {
	return f.noun(f.Ask("version", "p=", product, "v=", version), versionHTML(version))
}

func versionHTML(version string) template.HTML {
	if version == "" {
		return "no version"
	}
	return nameHTML(version)
}

// BuildsLink prints a product as a link to its builds: for a product that perhaps has none,
// and so no page.
func (f *frame) BuildsLink(product string) template.HTML {
	if product == "" { // the list has no such filter
		return productHTML(product)
	}
	return f.noun(f.Ask("builds", "product", product), productHTML(product))
}

// PersonLink prints who did something as a link to the builds of that person; "" if nobody is
// named.
func (f *frame) PersonLink(name string) template.HTML {
	if name == "" {
		return ""
	}
	return f.noun(f.Ask("builds", "who", name), nameHTML(name))
}

// FileLink prints the name of a file as a link to what has this name and id, both of which may
// be empty.
func (f *frame) FileLink(name, id string) template.HTML {
	text := name
	if name != "" && id != "" {
		text += "/"
	}
	if text += id; text == "" {
		return ""
	}
	if name == "" {
		return f.noun(f.Ask("search", "q", text), idHTML(id))
	}
	return f.noun(f.Ask("search", "q", text), nameHTML(name))
}

// Here is the address of this page with other values in the query; an empty value
// removes the name.
func (f *frame) Here(pairs ...string) string {
	if e := web.WithValues(f.query, pairs...).Encode(); e != "" {
		return f.path + "?" + e
	}
	return f.path
}

// holdsToken reports whether an address, u when it is read, may contain a token. The random parameters of a program
// that asks for a login are none, although they may look like one.
func holdsToken(next string, u *url.URL) bool {
	if strings.HasSuffix(u.Path, wire.LoginPath+"/authorize") {
		next = u.EscapedPath()
	}
	return auth.Redact(next) != next
}

// local returns an address of this server that a client gave, or home: what a sign-in
// or a form leads back to. It contains no token.
func local(next, home string) string {
	u, err := url.Parse(next)
	if err != nil || holdsToken(next, u) || u.IsAbs() || u.Host != "" || u.User != nil ||
		!strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\t\r\n") {
		return home
	}
	return next
}
