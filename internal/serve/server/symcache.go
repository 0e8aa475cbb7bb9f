package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

const symCacheVary = "Authorization, " + symcache.HeaderExceeds + ", " + symcache.HeaderAllowRetry + ", " + symcache.HeaderAcceptRetry

// symCaches answers requests of the SymCache protocol.
type symCaches struct {
	*access
	conf   SymCacheConfig
	answer func(context.Context, depot.SymCacheAsk) (depot.SymCacheAnswer, error) // see depot.Depot.AnswerSymCache
	held   limit.Semaphore                                                        // requests that wait for a file
	limits *metrics.Refusals
	secret []byte // for signed URLs; nil without Redirect
	now    func() time.Time
}

func newSymCaches(a *access, held limit.Semaphore, refused *metrics.Refusals) (s *symCaches, err error) {
	s = &symCaches{access: a, conf: a.cfg.SymCache, answer: a.depot.AnswerSymCache, held: held, limits: refused}
	s.now = depot.ClockOf(a.depot) // the servers of a depot accept each other's signatures
	if s.conf.Redirect {
		s.secret, err = a.depot.Secret(symCacheSecret)
	}
	return s, err
}

// serve answers a request of the SymCache protocol.
func (s *symCaches) serve(x *exchange, r *http.Request, p *place) {
	req := &p.req
	x.protocol = req.Layout.Name()
	h := x.Header()
	s.allowOrigin(h, r)
	// Files are made at any time, so a 404 must not be cached.
	h["Cache-Control"] = noStore
	addVary(h, symCacheVary)
	ask := depot.SymCacheAsk{
		Products: x.caller.scope.Products, Request: req.SymCache, Head: r.Method == http.MethodHead, HexAge: s.conf.HexAge,
		AllowsRetry: symcache.AllowsRetry(append(r.Header.Values(symcache.HeaderAllowRetry), r.Header.Values(symcache.HeaderAcceptRetry)...)...),
	}
	if only, ok := s.signed(r, req.SymCache); ok {
		ask.Only = only
	} else if req.SymCache.Version.Compare(symcache.MinVersion) >= 0 {
		var err error
		if ask.Exceeds, err = symcache.ParseExceeds(r.Header.Values(symcache.HeaderExceeds)); err != nil {
			x.result = resultError
			s.text(x, http.StatusBadRequest, err.Error()+"\n")
			return
		}
	}
	var loop bool
	ask.Client = s.limitKey(r)
	ask.Via, loop = s.via(r)
	ask.HeldOnly = loop
	a, err := s.ask(x, r, ask)
	if err != nil {
		x.result = resultError
		s.fail(x, err)
		return
	}
	if a.File != nil {
		defer func() { _ = a.File.Close() }()
	}
	x.result = resultMiss
	switch a.Action {
	case symcache.Send:
		x.result = resultHit
		h["Content-Type"] = []string{symcache.ContentType(a.Version)}
		if s.secret != nil && ask.Only.IsZero() {
			h["Location"] = []string{s.signedURL(r, req.SymCache, a.Version)}
			h["Content-Length"] = zeroLength
			x.WriteHeader(http.StatusFound)
			return
		}
		s.send(x, r, a.File, a.Version, ask)
	case symcache.NotModified:
		if !a.Version.IsZero() {
			x.result = resultHit
		}
		x.WriteHeader(http.StatusNotModified)
	case symcache.ComeAgain:
		h["Retry-After"] = []string{symcache.RetryAfter(a.Retry)}
		s.miss(x)
	default:
		s.miss(x)
	}
}

// miss answers that there is no file, for now or for good.
func (s *symCaches) miss(x *exchange) { s.text(x, http.StatusNotFound, notFoundLine) }

// ask asks the depot, and holds the request while its file is made. A request that
// is held when the server stops gets an error: 404 would say that there is no file.
func (s *symCaches) ask(x *exchange, r *http.Request, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error) {
	turn := s.turn(x, r, s.held, s.conf.Wait)
	turn.Stopped = errStopped
	defer turn.End()
	ask.Hold = turn.Hold
	if err := turn.Enter(); err != nil {
		return depot.SymCacheAnswer{}, err
	}
	a, err := s.answer(r.Context(), ask)
	if err != nil && r.Context().Err() != nil {
		err = context.Cause(r.Context())
	}
	if err == nil && a.Action == symcache.NotFound {
		s.limits.Count(limitName(turn, a.Limit))
	}
	return a, err
}

// limitName returns the limit that refused a request, or depotLimit, that of the depot.
func limitName(t *limit.Turn, depotLimit string) string {
	switch {
	case t.Full():
		return metrics.LimitHeld
	case t.Over():
		return metrics.LimitWait
	}
	return depotLimit
}

// send sends a SymCache file. There is no Last-Modified: a 304 for it
// could be taken for the protocol's own.
func (s *symCaches) send(x *exchange, r *http.Request, f *answer.File, v symcache.Version, ask depot.SymCacheAsk) {
	s.allow(http.NewResponseController(x.w), 0) // the request may have been held for long
	s.deliver(x, r, &delivery{
		file: f, encode: true, unconditional: !ask.Exceeds.IsZero(), refusal: noStore,
		header: func(h http.Header, _ *answer.File) {
			h["Content-Type"] = []string{symcache.ContentType(v)}
			h["Cache-Control"] = privateHour // there may be a newer version later
			addVary(h, "Accept-Encoding")
		},
		sent: func() {
			key := ask.Request.Key
			s.audit(x, r, &layout.Request{Name: key.Name, Lookups: []symfile.Lookup{{ID: key.ID.Breakpad()}}}, f, false)
		},
	})
}

// Names of the query parameters of a signed URL.
const (
	signedVersion = "file"
	signedUntil   = "until"
	signedBy      = "sign"
)

// signature signs one version of the file of a request, valid until a time.
func (s *symCaches) signature(q symcache.Request, v symcache.Version, until int64) string {
	mac := hmac.New(sha256.New, s.secret)
	// No part can hold a line break.
	for _, part := range []string{
		q.Version.String(), symfile.Fold(q.Key.Name), q.Key.ID.Breakpad(), symfile.Fold(q.Hex.Name), q.Hex.ID.Breakpad(),
		v.String(), strconv.FormatInt(until, 10),
	} {
		mac.Write([]byte(part + "\n"))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signedURL returns a URL for one version of the file of a request: the
// request's own path with a signed query.
func (s *symCaches) signedURL(r *http.Request, req symcache.Request, v symcache.Version) string {
	until := s.now().Add(signedLife).Unix()
	q := url.Values{
		signedVersion: {v.String()}, signedUntil: {strconv.FormatInt(until, 10)}, signedBy: {s.signature(req, v, until)},
	}
	// Two slashes in front would begin a host.
	return "/" + strings.TrimLeft(rawPath(r), "/") + "?" + q.Encode()
}

// errSigned says that a URL is not signed, or that the signature has expired.
var errSigned = errors.New("not a signed URL")

// signed returns the version of the file that a signed URL names. ok is false
// for any other query.
func (s *symCaches) signed(r *http.Request, req symcache.Request) (v symcache.Version, ok bool) {
	if s.secret == nil || r.URL.RawQuery == "" {
		return symcache.Version{}, false
	}
	v, err := s.readSigned(r.URL.Query(), req)
	return v, err == nil
}

func (s *symCaches) readSigned(q url.Values, req symcache.Request) (symcache.Version, error) {
	v, err := symcache.ParseVersion(q.Get(signedVersion))
	if err != nil {
		return v, err
	}
	until, err := strconv.ParseInt(q.Get(signedUntil), 10, 64)
	if err != nil {
		return v, err
	}
	if !hmac.Equal([]byte(s.signature(req, v, until)), []byte(q.Get(signedBy))) || s.now().Unix() > until {
		return v, errSigned
	}
	return v, nil
}
