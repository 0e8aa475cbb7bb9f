package server

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// readyTimeout limits the readiness check of the depot.
const readyTimeout = 2 * time.Second

//go:embed page/favicon.svg
var favicon string

// ownPaths answers the server's own paths: the page, the health checks, the
// metrics and /metadata.
type ownPaths struct {
	*access
	metadata *metadataSearch
	wanted   missingList
	ready    func(context.Context) error // returns nil if the depot can answer lookups
}

// admit authorizes a request; health checks need no credentials.
func (s *ownPaths) admit(x *exchange, r *http.Request, p *place) bool {
	if p.name == "" && p.token == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		x.protocol = protocolOwn
		x.request = web.NewRequestID()
		return (&webAPI{access: s.access}).admitBrowser(x, r, p)
	}
	return p.token == "" && isHealthCheck(p.name) || s.access.admit(x, r, p)
}

func (s *ownPaths) serve(x *exchange, r *http.Request, p *place) {
	name := p.name
	x.protocol = protocolOwn
	h := x.Header()
	h["Cache-Control"] = noCache
	switch name {
	case "":
		s.root(x, r, p)
	case "healthz":
		h[wire.DepotHeader] = []string{s.depot.Fingerprint()}
		s.text(x, http.StatusOK, "ok\n")
	case "readyz":
		h[wire.DepotHeader] = []string{s.depot.Fingerprint()}
		s.readiness(x, s.answers(r.Context()))
	case "metrics":
		if s.seesAll(x) {
			s.metrics.ServeHTTP(x, r)
		}
	case "metadata":
		s.metadata.serve(x, r)
	case missingPath:
		s.missingFiles(x, r)
	case "index2.txt":
		if !s.cfg.TwoTier {
			s.fail(x, missError{notFoundText})
			return
		}
		s.text(x, http.StatusOK, "")
	case "pingme.txt":
		s.text(x, http.StatusOK, "")
	case "robots.txt":
		s.text(x, http.StatusOK, "User-agent: *\nDisallow: /\n")
	case "favicon.ico":
		h["Content-Type"] = []string{"image/svg+xml"}
		h["Content-Length"] = []string{itoa(int64(len(favicon)))}
		h["Cache-Control"] = []string{"public, max-age=86400"}
		x.WriteHeader(http.StatusOK)
		_, x.err = x.Write([]byte(favicon))
	default:
		x.protocol = protocolNone
		s.missing(x, r, p, missError{notFoundText})
	}
}

// readiness answers whether the server can answer lookups: err is that of answers.
func (s *ownPaths) readiness(x *exchange, err error) {
	denied, isDenied := errors.AsType[*account.DeniedError](err)
	switch {
	case err == nil:
		s.text(x, http.StatusOK, "ready\n")
	case isDenied:
		s.cfg.Log.Warn("not ready", "error", err, "cure", denied.Cure)
		x.Header().Set("Retry-After", "5")
		s.text(x, http.StatusServiceUnavailable, "not ready: "+denied.Inside()+"; symdepot doctor says what to do\n")
	case errors.Is(err, content.ErrUnavailable):
		// All servers lose the store at the same moment. A balancer that stopped
		// asking them would take the cached files away too.
		s.text(x, http.StatusOK, "ready; the object store does not answer, so only files of the local cache are served\n")
	default:
		if !errors.Is(err, home.ErrNoDatabase) { // that is logged once
			s.cfg.Log.Warn("not ready", "error", err)
		}
		s.fail(x, errStopped)
	}
}

// answers returns nil if the server can answer lookups.
func (s *ownPaths) answers(ctx context.Context) error {
	if s.waits.Err() != nil {
		return errStopped
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.ready(ctx)
}

// root answers the base URL: with a page for browsers, with a text for others, and
// a search (q=) with JSON for programs that accept JSON.
func (s *ownPaths) root(x *exchange, r *http.Request, p *place) {
	base := p.base
	h := x.Header()
	h["Vary"] = []string{"Accept"}
	url, html := baseURL(r), wantsHTML(r) && s.cfg.Pages != nil
	if x.caller.token != "" {
		url += "/t/TOKEN"
	}
	url += base
	switch {
	case html && x.caller.token != "" && !strings.HasSuffix(rawPath(r), "/"):
		// The page's links are relative to a path with a final slash.
		s.redirect(x, r, p.below()+base+"/")
	case html && x.caller.token != "":
		s.page(x, r, p, url, ".")
	case html:
		s.page(x, r, p, url, "")
	case accepts(r, "application/json") && r.URL.Query().Get("q") != "":
		s.search(x, r)
	default:
		text := web.StartText(url, s.restricted() && x.caller.token == "")
		if note := s.note(x, web.AccessText(baseURL(r))); note != "" {
			text += "\n" + note + "\n"
		}
		s.text(x, http.StatusOK, text)
	}
}

// note returns a text about credentials, or nothing if the server needs none.
func (s *ownPaths) note(x *exchange, text string) string {
	switch {
	case !s.restricted():
		return ""
	case x.caller.token != "":
		return "Replace TOKEN by your token."
	}
	return text
}
