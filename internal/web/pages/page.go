package pages

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/web"

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
	*printer
	routes []pageRoute
	home   homePages
	origin *web.Origin
	events *web.Events
	gate   chan struct{} // a semaphore: pages that are made at the same time
	log    *slog.Logger
}

// New returns the pages of what New returned.
func New(a *web.Acts) *Pages {
	p := &printer{version: a.Version, signsIn: a.SignIns != nil, takesForms: a.Forms != nil, accounts: a.Accounts}
	plots := usagePlots{a.Retention, a.Now}
	home := homePages{p, a.Depot, a.Catalog, a.Upstreams, a.Log}
	all := slices.Concat(
		catalogPages{p, a.Catalog, a.InPlace, a.SourceLists, a.Tracing, a.Makes, a.Now}.routes(),
		txPages{p, a.Transactions, a.Depot, a.Retention, a.Catalog, a.Computing, a.Now}.routes(),
		productPages{p, a.Catalog, a.Depot, a.Retention, plots, a.Forms, a.Computing}.routes(),
		serverPages{p, a.Missing, a.Files, a.Jobs, a.JobActs, a.Upstreams, a.UpstreamActs, a.Now}.routes(),
		usagePages{p, plots, a.InPlace}.routes(),
		retentionPages{p, a.Retention, a.Computing, a.Log}.routes(),
		identifyPages{p, a.Examiner}.routes(),
		tracePages{p, a.Traces}.routes(),
		publishPages{p, a.Stages, a.Forms, a.Catalog, a.Retention}.routes(),
		home.routes(),
		accountPages{p, a.Accounts, a.SignIns, a.BaseURL, a.Now, a.Log}.routes(),
		aboutPages{p, a.Facts}.routes(),
	)
	p.navigation = all
	return &Pages{p, all, home, a.Origin, a.Events, make(chan struct{}, maxPages), a.Log}
}

// pageRoute is one method of one page.
type pageRoute struct {
	method string
	path   []string // below /-; "*" is any segment
	need   web.Need
	nav    string // the label in the navigation; "" is none
	answer func(*reply, *web.Request, []string) error
	long   bool // the body is long: answer limits how many are read at the same time
}

func page(method, path string, need web.Need, nav string, answer func(*reply, *web.Request, []string) error) pageRoute {
	return pageRoute{method: method, path: strings.Split(path, "/"), need: need, nav: nav, answer: answer}
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
	secret bool   // the page shows a secret: it is not compressed
	made   func() // called when the page is made, before it is sent; may be nil
}

// IsAsset reports whether a claimed path is a style sheet, a script or an image, for
// which everybody may ask.
func IsAsset(segs []string) bool { return web.Claims(segs) && len(segs) > 1 && segs[1] == "assets" }

// Serve answers a request for a page. The error is for the log.
func (p *Pages) Serve(w http.ResponseWriter, r *web.Request) error {
	r.NoteEnd()
	if IsAsset(r.Segments) {
		return p.asset(w, r)
	}
	err := p.serve(w, r)
	if err == nil {
		return nil
	}
	return p.Refuse(w, r, err)
}

// Home answers a browser that asks for the root. The error is for the log.
func (p *Pages) Home(w http.ResponseWriter, r *web.Request, h Home) error {
	err := p.limited(w, r, func(w *reply) error { return p.home.root(w, r, h) })
	if err == nil {
		return nil
	}
	return p.Refuse(w, r, err)
}

// SignsIn reports whether browsers can sign in.
func (p *Pages) SignsIn() bool { return p.signsIn }

func (p *Pages) serve(w http.ResponseWriter, r *web.Request) error {
	if err := p.origin.Check(r.Request); err != nil {
		return err
	}
	if len(r.Segments) == 1 {
		return seeOther(w, r, r.Base+"/")
	}
	if r.Segments[1] == "events" {
		if r.Method != http.MethodGet {
			return &web.Problem{Word: "method", Allow: http.MethodGet}
		}
		return p.events.Serve(w, r)
	}
	rt, args, allow := p.find(r.Method, r.Segments[1:])
	switch {
	case rt == nil && len(allow) == 0:
		return &web.Problem{Word: "not-found"}
	case rt == nil:
		return &web.Problem{Word: "method", Allow: strings.Join(allow, ", ")}
	}
	if err := r.MayOpen(rt.need); err != nil {
		return err
	}
	answer := func(w *reply) error { return rt.answer(w, r, args) }
	if rt.long {
		return answer(&reply{ResponseWriter: w})
	}
	if err := r.ReceiveForm(); err != nil {
		return err
	}
	return p.limited(w, r, answer)
}

// limited makes a page when few others are being made, within pageTime. A page counts
// until it is made: clients may read it slowly.
func (p *Pages) limited(w http.ResponseWriter, r *web.Request, make func(*reply) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	select {
	case p.gate <- struct{}{}:
	case <-ctx.Done():
		return &web.Problem{Word: "busy", Detail: "too many pages are being made"}
	}
	made := sync.OnceFunc(func() { <-p.gate })
	defer made()
	whole := r.Request
	r.Request = r.WithContext(ctx)
	err := make(&reply{ResponseWriter: w, made: made})
	r.Request = whole // its context ends with the connection
	if errors.Is(err, context.DeadlineExceeded) && whole.Context().Err() == nil {
		return &web.Problem{Word: "busy", Detail: "the page took longer than " + pageTime.String()}
	}
	return err
}

// find returns the route of a request for a page.
func (p *Pages) find(method string, segs []string) (rt *pageRoute, args []string, allow []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range p.routes {
		a, ok := web.MatchPath(p.routes[i].path, segs)
		if !ok {
			continue
		}
		if p.routes[i].method == method {
			return &p.routes[i], a, nil
		}
		if allow = append(allow, p.routes[i].method); p.routes[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return nil, nil, allow
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

type navItem struct {
	Label, Link string
	Here        bool
}

// printer prints pages: what stands around their content depends on the client alone.
type printer struct {
	version    string
	signsIn    bool // browsers can sign in
	takesForms bool // the server takes files from forms
	accounts   *web.Accounts
	navigation []pageRoute
}

func (p *printer) frame(r *web.Request, title string, data any) *frame {
	f := &frame{Base: r.Base, Title: plainName(title), Who: r.Name, Version: p.version, Dense: true, D: data, path: r.URL.EscapedPath(), query: r.URL.Query()}
	if r.PathToken != "" { // no page shows its own address then
		f.path, f.query = r.Base+"/", nil
	}
	f.Theme, f.Dense, f.Keys = prefsOf(r)
	if r.Anonymous && len(r.Challenges) > 0 && p.signsIn {
		f.SignIn = link(r.Base, "login", nil, values("next", r.Next()))
	}
	f.TokenSignIn = r.PathToken != "" && p.signsIn && r.Transport != web.Insecure
	f.SignedIn, f.Known = r.Identity.SignIn != "", p.accounts.MayHaveTokens(r) == nil
	for i := range p.navigation {
		if rt := &p.navigation[i]; rt.nav != "" && r.MayOpen(rt.need) == nil && (rt.need != web.MayPush || p.takesForms) {
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
func (p *printer) show(w *reply, r *web.Request, status int, name, title string, data any) error {
	return p.print(w, r, status, name, p.frame(r, title, data))
}

func (p *printer) print(w *reply, r *web.Request, status int, name string, f *frame) error {
	var b bytes.Buffer
	if err := templates()[name].Execute(&b, f); err != nil {
		return err
	}
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
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

// Refuse answers with a page that says what is wrong. It returns an error for the log,
// or nil if the client can do something about the problem.
func (p *Pages) Refuse(w http.ResponseWriter, r *web.Request, err error) error {
	problem, logged, gone := r.Judge(err, p.log)
	if gone {
		return context.Canceled
	}
	if problem.Word == "method" {
		w.Header().Set("Allow", problem.Allow)
	}
	if problem.Status() == http.StatusServiceUnavailable || problem.Status() == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "5")
	}
	v := errorView{Title: problem.Title(), Detail: problem.Detail, Fields: problem.Fields, Status: problem.Status(), Request: r.ID}
	if v.Detail == v.Title {
		v.Detail = ""
	}
	switch {
	case problem.Word == "not-found":
		v.Whose, v.Rest = "The address names nothing that you may see.", "The search finds symbol files by name or id."
	case problem.Status() >= http.StatusInternalServerError:
		v.Whose, v.Rest = "The server could not do this.", "Debuggers are answered independently of the pages. The server's log has the cause under the number of the request."
	case problem.Word == "credentials":
		v.Whose = "You are not signed in."
	default:
		v.Whose = "The request cannot be carried out as it is."
	}
	if problem.Next != "" {
		v.Rest = problem.Next
	}
	status := problem.Status()
	if status == http.StatusUnauthorized && p.signsIn {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return errors.Join(logged, seeOther(w, r, link(r.Base, "login", nil, values("next", r.Next()))))
		}
	} else if status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = r.Challenges
	}
	return errors.Join(logged, p.show(&reply{ResponseWriter: w}, r, status, "error", problem.Title(), v))
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
