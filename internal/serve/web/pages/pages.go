// Package pages is the pages for people: views of data, printed by templates, and the acts of
// forms.
package pages

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/serve/web"
)

const (
	// maxPages is how many pages are made at the same time, so that people cannot slow
	// debuggers down.
	maxPages = 16
	// pageTime is how long making a page may take.
	pageTime = 5 * time.Second
)

// Pages answers requests for the pages below /-/ and for the root. Its methods may be
// called by many goroutines.
type Pages struct {
	around *frames
	table  []pageRoute
	home   homePages
	origin *web.Origin
	events *web.Events
	gate   chan struct{} // a semaphore: pages that are made at the same time
	log    *slog.Logger
}

// New returns the pages of what New returned.
func New(a *web.Acts) *Pages {
	around := &frames{version: a.Version, signsIn: a.SignIns != nil, takesForms: a.Forms != nil, accounts: a.Accounts}
	plots := usagePlots{a.Retention, a.Now}
	home := homePages{a.Depot, a.Catalog, a.InPlace, a.Upstreams, a.Log}
	logins := loginPages{a.SignIns, a.BaseURL, a.Now, a.Log}
	all := slices.Concat(
		catalogPages{a.Catalog, a.InPlace, a.Upstreams}.routes(),
		txPages{a.Transactions, a.Depot, a.Retention, a.Retention, a.Catalog, a.Computing, a.Now}.routes(),
		objectPages{a.Catalog, a.SourceLists, a.Symbolication, a.Tracing, a.Makes, a.Now}.routes(),
		productPages{a.Catalog, a.Depot, a.Retention, a.Retention, plots, a.Forms, a.Computing, a.Coverage}.routes(),
		serverPages{a.Missing, a.Files, a.Jobs, a.JobActs, a.Upstreams, a.UpstreamActs, a.Now}.routes(),
		usagePages{plots, a.InPlace}.routes(),
		retentionPages{a.Retention, a.Computing, a.Log}.routes(),
		identifyPages{a.Examiner}.routes(),
		crashPages{a.Examiner, a.Symbolication, a.Crashes}.routes(),
		tracePages{a.Traces}.routes(),
		symbolicationPages{a.Catalog, a.Symbolication}.routes(),
		publishPages{a.Stages, a.Forms, a.Catalog, a.Retention}.routes(),
		home.routes(),
		accountPages{a.Accounts, a.Now}.routes(),
		prefPages{}.routes(),
		logins.routes(),
		programPages{logins}.routes(),
		aboutPages{a.Version, a.Facts}.routes(),
		docPages{}.routes(),
	)
	around.navigation = all
	return &Pages{around, all, home, a.Origin, a.Events, make(chan struct{}, maxPages), a.Log}
}

// IsAsset reports whether a claimed path is a style sheet, a script or an image, for
// which everybody may ask.
func IsAsset(segs []string) bool { return web.Claims(segs) && len(segs) > 1 && segs[1] == "assets" }

// IsDocs reports whether a claimed path is one of the documentation, which everybody may
// read.
func IsDocs(segs []string) bool { return web.Claims(segs) && len(segs) > 1 && segs[1] == docsWord }

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
func (p *Pages) SignsIn() bool { return p.around.signsIn }

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
		return answer(&reply{ResponseWriter: w, around: p.around})
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
	err := make(&reply{ResponseWriter: w, around: p.around, made: made})
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
	for i := range p.table {
		a, ok := web.MatchPath(p.table[i].path, segs)
		if !ok {
			continue
		}
		if p.table[i].method == method {
			return &p.table[i], a, nil
		}
		if allow = append(allow, p.table[i].method); p.table[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return nil, nil, allow
}

// Missing answers a browser that asks for an address that names nothing. below is what
// relative links begin with if the address contains a token, or "". The error is for the log.
func (p *Pages) Missing(w http.ResponseWriter, r *web.Request, below string) error {
	return p.refuse(w, r, below, &web.Problem{
		Word: "not-found", Detail: "this address names neither a page of this server nor a symbol file",
		Next: "The address of a symbol file is such as /app.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/app.pdb, " +
			"or /buildid/adac45aa231bba3143d7af433767c61f31021c16/debuginfo.",
	})
}

// Refuse answers with a page that says what is wrong. It returns an error for the log,
// or nil if the client can do something about the problem.
func (p *Pages) Refuse(w http.ResponseWriter, r *web.Request, err error) error {
	return p.refuse(w, r, "", err)
}

func (p *Pages) refuse(w http.ResponseWriter, r *web.Request, below string, err error) error {
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
		v.Whose = "The server could not do this."
		v.Rest = "Debuggers are answered independently of the pages. The server's log has the cause under the number of the request."
	case problem.Word == "credentials":
		v.Whose = "You are not signed in."
		v.Rest = "The server takes a token as the password of any user name; symdepot token new --name NAME makes one."
		v.SignIn = p.signIn(r)
	case problem.Word == "forbidden":
		v.Whose, v.Rest = whoIs(r)
		v.SignIn = p.signIn(r)
	default:
		v.Whose = "The request cannot be carried out as it is."
	}
	if problem.Next != "" {
		v.Rest = problem.Next
	}
	status := problem.Status()
	if status == http.StatusUnauthorized && p.around.signsIn {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return errors.Join(logged, seeOther(w, r, link(r.Base, "login", nil, values("next", r.Next()))))
		}
	} else if status == http.StatusUnauthorized {
		w.Header()["Www-Authenticate"] = r.Challenges
	}
	page := &reply{ResponseWriter: w, around: p.around}
	f := page.frame(r, problem.Title(), v)
	f.stayBelow(r, below)
	return errors.Join(logged, page.print(r, status, "error", f))
}

// signIn is the address of the page for signing in, which leads back to a page that can be
// read again; "" if nobody can sign in.
func (p *Pages) signIn(r *web.Request) string {
	switch {
	case !p.around.signsIn || len(r.Challenges) == 0 || r.PathToken != "":
		return ""
	case r.Method == http.MethodPost:
		return link(r.Base, "login", nil, nil)
	}
	return link(r.Base, "login", nil, values("next", r.Next()))
}

// whoIs says who the client of a refused request is, and where other credentials go.
func whoIs(r *web.Request) (who, next string) {
	switch {
	case !r.Anonymous:
		return "You are signed in as " + plainName(r.Name) + ".", "Use credentials that have the right, or ask an administrator for it."
	case len(r.Challenges) > 0:
		return "You are not signed in.", "Tools send a token as a bearer token, or as the password of any user name."
	}
	return "This server has no credentials configured.",
		"Run the symdepot command on the machine with the depot, or start the server with --auth."
}

// errorView is what the page of an error shows.
type errorView struct {
	Title, Detail string
	Whose         string // whose fault it is
	Rest          string // what still works, or what to do next
	Fields        map[string]string
	Status        int
	Request       string
	SignIn        string // the address where other credentials go, or ""
}
