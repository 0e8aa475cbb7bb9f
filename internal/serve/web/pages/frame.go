package pages

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// pageRoute is one method of one page.
type pageRoute struct {
	method string
	path   []string // below /-; "*" is any segment
	need   web.Need
	nav    string // its group in the navigation and its label there, such as Tools/Trace; "" is none
	answer func(*reply, *web.Request, []string) error
	long   bool   // the body is long: answer limits how many are read at the same time
	docs   string // the page of the documentation that explains it; "": the first one
}

func page(method, path string, need web.Need, nav string, answer func(*reply, *web.Request, []string) error) pageRoute {
	return pageRoute{method: method, path: strings.Split(path, "/"), need: need, nav: nav, answer: answer}
}

// explainedIn names the page of the documentation that explains the page, and those whose
// addresses begin with the same word.
func (rt pageRoute) explainedIn(name string) pageRoute {
	rt.docs = name
	return rt
}

// longPage is page for one that takes a long body.
func longPage(method, path string, need web.Need, answer func(*reply, *web.Request, []string) error) pageRoute {
	rt := page(method, path, need, "", answer)
	rt.long = true
	return rt
}

// reply is the answer to a request for a page.
type reply struct {
	http.ResponseWriter
	around *frames
	secret bool   // the page shows a secret: it is not compressed
	formTo string // where the form of the page may lead besides this server, as a source of the policy
	made   func() // called when the page is made, before it is sent; may be nil
}

// frame is what every page shows around its content.
type frame struct {
	Base, Title string
	Nav         []navGroup // the pages that the client may open
	Account     navGroup   // the pages about the client
	Search      string     // the text in the search box
	Who         string     // the name of the client; "" is anonymous
	SignedIn    bool       // the client has the cookie of a sign-in
	Known       bool       // the client may have tokens
	TokenSignIn bool       // browsers can sign in with the token in the address
	Version     string
	Theme       string // "light", "dark", or "" as the system has it
	Dense       bool   // rows of 32 instead of 44 pixels
	Keys        bool   // the key "/" leads to the search
	Notice      string // what the last act did
	Help        helpLink
	Live        string // the topic of the events that keep the page current, or ""
	Below       string // what stayBelow has set, or ""
	D           any    // the content

	path  string
	query url.Values
}

// navGroups are the groups of the navigation, in their order; the last one is about the
// client. The routes say which pages are in a group.
var navGroups = []string{"Files", "Builds", "Tools", "Operate", accountGroup}

const accountGroup = "Account"

// navGroup is a menu of the navigation: a few pages that the client may open.
type navGroup struct {
	Label string
	Items []navItem
	Here  bool   // the present page belongs to one of them
	Out   string // where the end of the sign-in is posted, or ""
}

type navItem struct {
	Label, Link string
	Here        bool
}

// frames makes what stands around the content of pages: that depends on the client alone.
type frames struct {
	version    string
	signsIn    bool // browsers can sign in
	takesForms bool // the server takes files from forms
	accounts   *web.Accounts
	navigation []pageRoute
}

// of returns what stands around the content of a page for the client of a request.
func (fs *frames) of(r *web.Request, title string, data any) *frame {
	f := &frame{
		Base: r.Base, Title: plainName(title), Who: r.Name, Version: fs.version, Dense: true, D: data,
		path: r.URL.EscapedPath(), query: r.URL.Query(),
	}
	if r.PathToken != "" { // no page shows its own address then
		f.path, f.query = r.Base+"/", nil
	}
	f.Theme, f.Dense, f.Keys = prefsOf(r)
	f.TokenSignIn = r.PathToken != "" && fs.signsIn && r.Transport != web.Insecure
	f.SignedIn, f.Known = r.Identity.SignIn != "", fs.accounts.MayHaveTokens(r) == nil
	f.Help = fs.help(r)
	for _, group := range navGroups {
		switch g := fs.group(r, f, group); {
		case group == accountGroup:
			if f.Account = g; f.Who != "" {
				f.Account.Label = f.Who
			}
			if f.SignedIn {
				f.Account.Out = f.To("logout")
			}
		case len(g.Items) > 0:
			f.Nav = append(f.Nav, g)
		}
	}
	return f
}

// help returns the link to the page of the documentation that explains the present page.
func (fs *frames) help(r *web.Request) helpLink {
	for i := range fs.navigation {
		if rt := &fs.navigation[i]; rt.docs != "" && len(r.Segments) > 1 && r.Segments[1] == rt.path[0] {
			return docsHelp(r.Base, rt.docs)
		}
	}
	return helpLink{"Help", docsLink(r.Base, "")}
}

// group returns a group of the navigation, with the pages that the client may open.
func (fs *frames) group(r *web.Request, f *frame, label string) navGroup {
	g := navGroup{Label: label}
	for i := range fs.navigation {
		rt := &fs.navigation[i]
		group, label, _ := strings.Cut(rt.nav, "/")
		if group != g.Label || !fs.offers(r, f, rt) {
			continue
		}
		item := navItem{label, f.To(rt.path[0]), len(r.Segments) > 1 && navPage(r.Segments[1]) == rt.path[0]}
		switch rt.path[0] {
		case "login":
			item.Link = f.Ask("login", "next", r.Next())
		case "prefs":
			item.Link = f.Ask("prefs", "next", f.Back())
		}
		g.Items, g.Here = append(g.Items, item), g.Here || item.Here
	}
	return g
}

// stayBelow makes the links of a page relative, if its address contains a token: they begin
// with below, because the other pages do not know the token.
func (f *frame) stayBelow(r *web.Request, below string) {
	if below != "" {
		f.path, f.Nav, f.Account, f.Help, f.Below = r.Base+"/", nil, navGroup{}, helpLink{}, below
	}
}

// offers reports whether the navigation has a page for the client.
func (fs *frames) offers(r *web.Request, f *frame, rt *pageRoute) bool {
	if !r.Rights.Admitted && rt.path[0] != "login" && rt.path[0] != "prefs" {
		return false // there are the sign-in and the documentation only
	}
	switch rt.path[0] {
	case "login":
		return r.Anonymous && len(r.Challenges) > 0 && fs.signsIn && !web.IsSignIn(r.Segments)
	case "signins": //nolint:misspell // a word of addresses
		return f.Who != ""
	case "tokens":
		return f.Known
	case "publish":
		return fs.takesForms && r.MayOpen(rt.need) == nil
	}
	return r.MayOpen(rt.need) == nil
}

// navPage returns the page of the navigation to which a page belongs.
func navPage(page string) string {
	switch page {
	case "product", "version":
		return "products"
	case "file":
		return "search"
	}
	return page
}

//go:embed page
var pageFiles embed.FS

// templates returns the pages by the name of their file, each with the layout around
// it. They take 3 MB, so that only a program that prints a page reads them.
var templates = sync.OnceValue(func() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(pageFuncs).ParseFS(pageFiles, "page/layout.html", "page/parts.html"))
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, e := range entries {
		if name := e.Name(); name != "layout.html" && name != "parts.html" {
			all[strings.TrimSuffix(name, ".html")] = template.Must(template.Must(layout.Clone()).ParseFS(pageFiles, "page/"+name))
		}
	}
	return all
})

// pagePolicy allows scripts, styles, images and requests of this server only, and no
// text that becomes HTML.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	formSelf + "; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// formSelf lets forms lead to this server only.
const formSelf = "form-action 'self'"

// frame returns what stands around the content of a page.
func (w *reply) frame(r *web.Request, title string, data any) *frame {
	return w.around.of(r, title, data)
}

// show answers with a page.
func (w *reply) show(r *web.Request, status int, name, title string, data any) error {
	return w.print(r, status, name, w.frame(r, title, data))
}

// print answers with a page of which more than the content was set.
func (w *reply) print(r *web.Request, status int, name string, f *frame) error {
	var b bytes.Buffer
	if err := templates()[name].Execute(&b, f); err != nil {
		return err
	}
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", strings.Replace(pagePolicy, formSelf, strings.TrimSpace(formSelf+" "+w.formTo), 1))
	if r.Transport != web.Insecure { // browsers complain of it over plain HTTP
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Cache-Control", "no-store")
	return send(w, r.Request, status, b.Bytes(), !w.secret)
}

// send answers with bytes, compressed if the client permits.
func send(w http.ResponseWriter, r *http.Request, status int, b []byte, compress bool) error {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if compress && len(b) >= minCompressed && strings.Contains(r.Header.Get("Accept-Encoding"), web.GzipCoded) {
		var z bytes.Buffer
		g, err := gzip.NewWriterLevel(&z, gzip.DefaultCompression)
		if err != nil {
			return err
		}
		_, err = g.Write(b)
		if err = errors.Join(err, g.Close()); err != nil {
			return err
		}
		b = z.Bytes()
		h.Set("Content-Encoding", web.GzipCoded)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if page, ok := w.(*reply); ok && page.made != nil {
		page.made()
	}
	w.WriteHeader(status)
	_, err := w.Write(b)
	return web.NotSent(err)
}

// seeOther leads the browser to another page after a form.
func seeOther(w http.ResponseWriter, r *web.Request, to string) error {
	web.Finish(w, r)
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// readForm reads the fields of a form.
func readForm(r *web.Request) (url.Values, error) { return readLongForm(r, web.FormLimit) }

// readLongForm reads the fields of a form of at most limit bytes.
func readLongForm(r *web.Request, limit int64) (url.Values, error) {
	b, err := r.ReadAll(limit, "form")
	if err != nil {
		return nil, err
	}
	r.Allow(web.AnswerTime)
	v, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, &web.Problem{Word: "query", Detail: "the form is not valid"}
	}
	return v, nil
}

// hidden says that an error means that the client may not see what it asks for.
func hidden(err error, what string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &web.Problem{Word: "not-found", Detail: "there is no " + what}
	}
	return err
}

// Back is the address of this page, for a form that leads back to it. It is a page's
// own address only if the page can be read again.
func (f *frame) Back() string {
	if e := f.query.Encode(); e != "" {
		return f.path + "?" + e
	}
	return f.path
}

// minCompressed is the length from which on a page is compressed.
const minCompressed = 1400
