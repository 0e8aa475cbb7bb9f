package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxPages is how many pages are made at the same time, so that people cannot slow
	// debuggers down.
	maxPages = 16
	// pageTime is how long making a page may take.
	pageTime = 5 * time.Second
	// minCompressed is the length from which on a page is compressed.
	minCompressed = 1400
)

// Pages answers requests for the pages below /-/ and for the root. Its methods may be
// called by many goroutines.
type Pages struct {
	api  *API
	gate chan struct{} // a semaphore: pages that are made at the same time
}

// need says who may open a page.
type need uint8

const (
	anyone    need = iota
	seesAll        // who reads all products
	mayChange      // who may change a product
	mayPush        // who may add files to a product, also the token of a CI job
	isAdmin
)

// pageRoute is one method of one page.
type pageRoute struct {
	method string
	path   []string // below /-; "*" is any segment
	need   need
	nav    string // the label in the navigation; "" is none
	answer func(*Pages, *reply, *Request, []string) error
	long   bool // the body is long: answer limits how many are read at the same time
}

// pageRoutes lists the pages, in the order of the navigation.
var pageRoutes []pageRoute

func init() {
	// Filled here, because the navigation of each page refers to it.
	pageRoutes = slices.Concat(
		catalogPages,
		productPages,
		serverPages,
		usagePages,
		retentionPages,
		identifyPages,
		tracePages,
		publishPages,
		otherPages,
		signInPages,
		aboutPages,
	)
}

func page(method, path string, need need, nav string, answer func(*Pages, *reply, *Request, []string) error) pageRoute {
	return pageRoute{method: method, path: strings.Split(path, "/"), need: need, nav: nav, answer: answer}
}

// longPage is page for one that takes a long body.
func longPage(method, path string, need need, answer func(*Pages, *reply, *Request, []string) error) pageRoute {
	rt := page(method, path, need, "", answer)
	rt.long = true
	return rt
}

// reply is the answer to a request for a page.
type reply struct {
	http.ResponseWriter
	secret bool   // the page shows a secret: it is not compressed
	made   func() // called when the page is made, before it is sent; may be nil
}

// IsAsset reports whether a claimed path is a style sheet, a script or an image, for
// which everybody may ask.
func IsAsset(segs []string) bool { return Claims(segs) && len(segs) > 1 && segs[1] == "assets" }

// Serve answers a request for a page. The error is for the log.
func (p *Pages) Serve(w http.ResponseWriter, r *Request) error {
	body := &endReader{from: r.Body}
	r.Body, r.body = body, body
	if IsAsset(r.Segments) {
		return p.asset(w, r)
	}
	err := p.serve(w, r)
	if err == nil {
		return nil
	}
	return p.Refuse(w, r, err)
}

// Exist reports whether there are pages: a depot is needed for them.
func (p *Pages) Exist() bool {
	return p.api.cfg.Catalog != nil && p.api.cfg.Transactions != nil && p.api.cfg.Retention != nil
}

func (p *Pages) serve(w http.ResponseWriter, r *Request) error {
	if !p.Exist() {
		return &Problem{Word: "not-found"}
	}
	if err := p.api.CheckOrigin(r.Request); err != nil {
		return err
	}
	if len(r.Segments) == 1 {
		return seeOther(w, r, r.Base+"/")
	}
	if r.Segments[1] == "events" {
		if r.Method != http.MethodGet {
			return &Problem{Word: "method", Allow: http.MethodGet}
		}
		return p.api.events(w, r)
	}
	rt, args, allow := findPage(r.Method, r.Segments[1:])
	switch {
	case rt == nil && len(allow) == 0:
		return &Problem{Word: "not-found"}
	case rt == nil:
		return &Problem{Word: "method", Allow: strings.Join(allow, ", ")}
	}
	if err := r.mayOpen(rt.need); err != nil {
		return err
	}
	answer := func(w *reply) error { return rt.answer(p, w, r, args) }
	if rt.long {
		return answer(&reply{ResponseWriter: w})
	}
	if err := r.receiveForm(); err != nil {
		return err
	}
	return p.limited(w, r, answer)
}

// receiveForm reads the body of a form before the page is made, so that a slow client
// does not keep others from their pages.
func (r *Request) receiveForm() error {
	if r.Method != http.MethodPost {
		return nil
	}
	b, err := r.Memory.Read(r.Context(), io.LimitReader(r.Body, formLimit+1), formLimit+1)
	if err != nil {
		return err
	}
	r.Body = io.MultiReader(bytes.NewReader(b), r.Body)
	r.Allow(answerTime)
	return nil
}

// limited makes a page when few others are being made, within pageTime. A page counts
// until it is made: clients may read it slowly.
func (p *Pages) limited(w http.ResponseWriter, r *Request, make func(*reply) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	select {
	case p.gate <- struct{}{}:
	case <-ctx.Done():
		return &Problem{Word: "busy", Detail: "too many pages are being made"}
	}
	made := sync.OnceFunc(func() { <-p.gate })
	defer made()
	whole := r.Request
	r.Request = r.WithContext(ctx)
	err := make(&reply{ResponseWriter: w, made: made})
	r.Request = whole // its context ends with the connection
	if errors.Is(err, context.DeadlineExceeded) && whole.Context().Err() == nil {
		return &Problem{Word: "busy", Detail: "the page took longer than " + pageTime.String()}
	}
	return err
}

// findPage returns the route of a request for a page; see find.
func findPage(method string, segs []string) (rt *pageRoute, args []string, allow []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range pageRoutes {
		a, ok := (&route{path: pageRoutes[i].path}).match(segs)
		if !ok {
			continue
		}
		if pageRoutes[i].method == method {
			return &pageRoutes[i], a, nil
		}
		if allow = append(allow, pageRoutes[i].method); pageRoutes[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return nil, nil, allow
}

// mayOpen returns a problem if the client may not open a page.
func (r *Request) mayOpen(n need) error {
	ok, text := true, ""
	switch n {
	case seesAll:
		ok, text = r.Rights.All, "this needs the right to read all products"
	case mayChange:
		ok, text = r.Rights.Write && !r.Identity.Exchanged, "this page is for those who may change a product"
	case mayPush:
		ok, text = r.WritesAny, "this page is for those who may add files to a product"
	case isAdmin:
		ok, text = r.Rights.Admin, "this page is for administrators"
	}
	switch {
	case ok:
		return nil
	case r.Anonymous && len(r.Challenges) > 0:
		return &Problem{Word: "credentials", Detail: text}
	}
	return &Problem{Word: "forbidden", Detail: text}
}

// frame is what every page shows around its content.
type frame struct {
	Base, Title string
	Nav         []navItem
	Search      string // the text in the search box
	Who         string // the name of the client; "" is anonymous
	SignIn      string // the address of the sign-in page, or ""
	SignedIn    bool   // the client has the cookie of a sign-in
	Known       bool   // the client may have tokens
	TokenSignIn bool   // browsers can sign in with the token in the address
	Version     string
	Theme       string // "light", "dark", or "" as the system has it
	Dense       bool   // rows of 32 instead of 44 pixels
	Keys        bool   // the key "/" leads to the search
	Notice      string // what the last act did
	Live        string // the topic of the events that keep the page current, or ""
	// Below is set on the root page of an address that contains a token: its links
	// begin with that, because the other pages do not know the token.
	Below string
	D     any // the content

	path  string
	query url.Values
}

// next is the address to which a sign-in leads back; "" if it has a token.
func (r *Request) next() string {
	if r.PathToken != "" {
		return ""
	}
	return r.URL.RequestURI()
}

type navItem struct {
	Label, Link string
	Here        bool
}

func (p *Pages) frame(r *Request, title string, data any) *frame {
	f := &frame{Base: r.Base, Title: plainName(title), Who: r.Name, Version: p.api.cfg.Version, Dense: true, D: data, path: r.URL.EscapedPath(), query: r.URL.Query()}
	if r.PathToken != "" { // no page shows its own address then
		f.path, f.query = r.Base+"/", nil
	}
	f.Theme, f.Dense, f.Keys = prefsOf(r)
	if r.Anonymous && len(r.Challenges) > 0 && p.api.cfg.SignIns != nil {
		f.SignIn = link(r.Base, "login", nil, values("next", r.next()))
	}
	f.TokenSignIn = r.PathToken != "" && p.api.cfg.SignIns != nil && r.Transport != Insecure
	f.SignedIn, f.Known = r.Identity.SignIn != "", accounts{p.api}.known(r) == nil
	for i := range pageRoutes {
		if rt := &pageRoutes[i]; rt.nav != "" && r.mayOpen(rt.need) == nil && (rt.need != mayPush || p.api.cfg.Forms != nil) {
			f.Nav = append(f.Nav, navItem{rt.nav, link(r.Base, rt.path[0], rt.path[1:], nil), len(r.Segments) > 1 && navPage(r.Segments[1]) == rt.path[0]})
		}
	}
	return f
}

// navPage returns the page of the navigation to which a page belongs.
func navPage(page string) string {
	switch page {
	case "product", "version":
		return "products"
	case "object":
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
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// show answers with a page.
func (p *Pages) show(w *reply, r *Request, status int, name, title string, data any) error {
	return p.print(w, r, status, name, p.frame(r, title, data))
}

func (p *Pages) print(w *reply, r *Request, status int, name string, f *frame) error {
	var b bytes.Buffer
	if err := templates()[name].Execute(&b, f); err != nil {
		return err
	}
	finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	if r.Transport != Insecure { // browsers complain of it over plain HTTP
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
	if compress && len(b) >= minCompressed && strings.Contains(r.Header.Get("Accept-Encoding"), gzipCoded) {
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
		h.Set("Content-Encoding", gzipCoded)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if page, ok := w.(*reply); ok && page.made != nil {
		page.made()
	}
	w.WriteHeader(status)
	_, err := w.Write(b)
	return writeError{err}.orNil()
}

// seeOther leads the browser to another page after a form.
func seeOther(w http.ResponseWriter, r *Request, to string) error {
	finish(w, r)
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// Refuse answers with a page that says what is wrong. It returns an error for the log,
// or nil if the client can do something about the problem.
func (p *Pages) Refuse(w http.ResponseWriter, r *Request, err error) error {
	problem, logged, gone := p.api.judge(r, err)
	if gone {
		return context.Canceled
	}
	kind := kinds[problem.Word]
	if problem.Word == "method" {
		w.Header().Set("Allow", problem.Allow)
	}
	if kind.status == http.StatusServiceUnavailable || kind.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	v := errorView{Title: kind.title, Detail: problem.Detail, Fields: problem.Fields, Status: kind.status, Request: r.ID}
	if v.Detail == v.Title {
		v.Detail = ""
	}
	switch {
	case problem.Word == "not-found":
		v.Whose, v.Rest = "The address names nothing that you may see.", "The search finds symbol files by name or id."
	case kind.status >= http.StatusInternalServerError:
		v.Whose, v.Rest = "The server could not do this.", "Debuggers are answered independently of the pages. The server's log has the cause under the number of the request."
	case problem.Word == "credentials":
		v.Whose = "You are not signed in."
	default:
		v.Whose = "The request cannot be carried out as it is."
	}
	if problem.Next != "" {
		v.Rest = problem.Next
	}
	status := kind.status
	if status == http.StatusUnauthorized && p.api.cfg.SignIns != nil {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return errors.Join(logged, seeOther(w, r, link(r.Base, "login", nil, values("next", r.next()))))
		}
	} else if status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = r.Challenges
	}
	return errors.Join(logged, p.show(&reply{ResponseWriter: w}, r, status, "error", kind.title, v))
}

// errorView is what the page of an error shows.
type errorView struct {
	Title, Detail string
	Whose         string // whose fault it is
	Rest          string // what still works, or what to do next
	Fields        map[string]string
	Status        int
	Request       string
}

// formLimit is the longest body of a form.
const formLimit = 64 << 10

// readForm reads the fields of a form.
func readForm(r *Request) (url.Values, error) { return readLongForm(r, formLimit) }

// readLongForm reads the fields of a form of at most limit bytes.
func readLongForm(r *Request, limit int64) (url.Values, error) {
	b, err := r.readAll(limit, "form")
	if err != nil {
		return nil, err
	}
	r.Allow(answerTime)
	v, err := url.ParseQuery(string(b))
	if err != nil {
		return nil, &Problem{Word: "query", Detail: "the form is not valid"}
	}
	return v, nil
}

// hidden says that an error means that the client may not see what it asks for.
func hidden(err error, what string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &Problem{Word: "not-found", Detail: "there is no " + what}
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
