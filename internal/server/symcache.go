package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// symCaches is what the SymCache protocol asks of the depot.
type symCaches interface {
	SymCache(ctx context.Context, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error)
	Secret(name string) ([]byte, error)
}

// SymCacheConfig says how requests of the SymCache protocol are answered. The
// zero value is good.
type SymCacheConfig struct {
	// Wait is how long a request of a client that does not come again may be
	// held while its file is made; zero is 2 minutes.
	Wait time.Duration
	// HexAge looks for the age of a request read as hex too, if nothing is
	// held of the PDB whose age it is in decimal.
	HexAge bool
	// Redirect answers with 302 to an address of this server that is good for
	// this file and for some minutes only, instead of with the file.
	Redirect bool
}

const (
	defaultSymCacheWait = 2 * time.Minute
	// signedLife is how long such an address is good.
	signedLife = 5 * time.Minute
	// symCacheSecret is the key that they are signed with.
	symCacheSecret = "symcache-url"
	// heldShare is which part of the requests under way may be held.
	heldShare = 4
)

// Header values of the protocol's answers.
var (
	noStore      = []string{"no-store"}
	privateHour  = []string{"private, max-age=3600"}
	symCacheVary = []string{"Authorization, " + symcache.HeaderExceeds + ", " + symcache.HeaderAllowRetry + ", " + symcache.HeaderAcceptRetry}
	zeroLength   = []string{"0"}
)

// symCacheState is the server's part of the protocol.
type symCacheState struct {
	cfg    SymCacheConfig
	depot  symCaches // nil: nothing is held
	held   gate      // requests that wait for a file
	secret []byte    // for signed addresses; nil without Redirect
}

func newSymCacheState(cfg Config) (s symCacheState, err error) {
	s = symCacheState{cfg: cfg.SymCache, held: newGate(max(1, cfg.MaxConns/heldShare))}
	setInt(&s.cfg.Wait, defaultSymCacheWait)
	s.depot, _ = cfg.Depot.(symCaches)
	if s.cfg.Redirect && s.depot != nil {
		s.secret, err = s.depot.Secret(symCacheSecret)
	}
	return s, err
}

// symCache answers a request of the SymCache protocol.
func (s *Server) symCache(x *exchange, r *http.Request, req *layout.Request) {
	h := x.Header()
	// What is held changes, and work ends: nobody may remember an absence.
	h["Cache-Control"] = noStore
	h["Vary"] = symCacheVary
	if s.symcache.depot == nil {
		x.result = resultMiss
		s.symCacheMiss(x)
		return
	}
	ask := depot.SymCacheAsk{
		Scope: x.who.scope, Request: req.SymCache, Head: r.Method == http.MethodHead, HexAge: s.symcache.cfg.HexAge,
		AllowsRetry: symcache.AllowsRetry(append(r.Header.Values(symcache.HeaderAllowRetry), r.Header.Values(symcache.HeaderAcceptRetry)...)...),
	}
	v := req.SymCache.Version
	if only, ok := s.signed(r, req.SymCache); ok {
		ask.Only = only
	} else if v.Compare(symcache.First) >= 0 {
		var err error
		if ask.Exceeds, err = symcache.ParseExceeds(r.Header.Values(symcache.HeaderExceeds), v); err != nil {
			x.result = resultError
			s.text(x, http.StatusBadRequest, err.Error()+"\n")
			return
		}
	}
	var loop bool
	ask.Client, _, _ = net.SplitHostPort(r.RemoteAddr)
	ask.Via, loop = s.via(r)
	ask.HeldOnly = loop
	a, err := s.askSymCache(x, r, ask)
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
		if s.symcache.secret != nil && ask.Only.IsZero() {
			h["Location"] = []string{s.signedURL(r, req.SymCache, a.Version)}
			h["Content-Length"] = zeroLength
			x.WriteHeader(http.StatusFound)
			return
		}
		s.symCacheFile(x, r, a.File, ask)
	case symcache.NotModified:
		x.result = resultHit
		x.WriteHeader(http.StatusNotModified)
	case symcache.ComeAgain:
		h["Retry-After"] = []string{symcache.RetryAfter(a.Retry)}
		s.symCacheMiss(x)
	default:
		s.symCacheMiss(x)
	}
}

// symCacheMiss answers that there is nothing, for now or for good.
func (s *Server) symCacheMiss(x *exchange) { s.text(x, http.StatusNotFound, "not found\n") }

// askSymCache asks the depot and holds the request while it is told to wait. A
// request that is held keeps nobody from looking something up.
func (s *Server) askSymCache(x *exchange, r *http.Request, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error) {
	ctx, limit := r.Context(), s.symcache.cfg.Wait
	holds := false
	defer func() {
		if holds {
			s.symcache.held.leave()
		}
	}()
	for {
		a, err := s.symCacheOnce(x, r, ask)
		if err != nil || a.Action != symcache.Wait {
			return a, err
		}
		if !holds {
			// An honest absence is better than a server that is full of
			// requests that wait.
			if holds = s.symcache.held.try(); !holds {
				ask.GaveUp = true
				continue
			}
			_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(limit + s.cfg.WriteTimeout))
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
			defer context.AfterFunc(s.waits, cancel)() // the server stops
		}
		if err := a.Wait(ctx); err != nil && ctx.Err() == nil {
			return a, err
		}
		if r.Context().Err() != nil {
			return a, context.Cause(r.Context())
		}
		ask.GaveUp = ctx.Err() != nil
	}
}

func (s *Server) symCacheOnce(x *exchange, r *http.Request, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error) {
	// The time that it was held does not count.
	if err := s.lookups.enter(r.Context(), time.Now().Add(s.cfg.Wait)); err != nil {
		return depot.SymCacheAnswer{}, err
	}
	defer s.lookups.leave()
	a, err := s.symcache.depot.SymCache(r.Context(), ask)
	if err != nil && r.Context().Err() != nil {
		err = context.Cause(r.Context())
	}
	return a, err
}

// symCacheFile sends a file, or the part of it that was asked for. There is no
// Last-Modified: a 304 for it could be taken for the protocol's own.
func (s *Server) symCacheFile(x *exchange, r *http.Request, f *depot.File, ask depot.SymCacheAsk) {
	h := x.Header()
	body, size := f, f.Size
	ranges := r.Header["Range"]
	if r.Header["Accept-Encoding"] != nil && ranges == nil && size >= encodeMin {
		enc, _, err := s.encoded(r, f)
		if err != nil {
			s.cfg.Log.Warn("no compressed variant could be read", "content", f.Ref.String(), "error", err)
		}
		if enc != nil {
			defer func() { _ = enc.Close() }()
			body, size = enc, enc.Size
			h["Content-Encoding"] = []string{enc.Encoding}
		}
	}
	tag := `"` + body.ETag + `"`
	h["Etag"] = []string{tag}
	h["Accept-Ranges"] = bytesUnit
	h["Cache-Control"] = privateHour // the address may give a newer file later
	h["Vary"] = []string{symCacheVary[0] + ", Accept-Encoding"}
	if ask.Exceeds.IsZero() {
		switch status := precondition(r.Header, tag, time.Time{}); status {
		case http.StatusNotModified:
			delete(h, "Content-Type")
			delete(h, "Content-Encoding")
			x.WriteHeader(status)
			return
		case http.StatusPreconditionFailed:
			s.symCacheRefuse(x, status, "precondition failed")
			return
		}
	}
	off, n, status := int64(0), size, http.StatusOK
	if len(ranges) == 1 && ifRange(r.Header, tag, time.Time{}) {
		switch first, count, kind := parseRange(ranges[0], size); kind {
		case rangeOne:
			off, n, status = first, count, http.StatusPartialContent
			h["Content-Range"] = []string{"bytes " + itoa(off) + "-" + itoa(off+n-1) + "/" + itoa(size)}
		case rangeNone:
			h["Content-Range"] = []string{"bytes */" + itoa(size)}
			s.symCacheRefuse(x, http.StatusRequestedRangeNotSatisfiable, "the file has "+itoa(size)+" bytes")
			return
		}
	}
	h["Content-Length"] = []string{itoa(n)}
	s.allow(http.NewResponseController(x.w), 0) // it may have been held for long
	x.WriteHeader(status)
	if r.Method != http.MethodHead {
		x.err = s.copyBody(x, body, off, n)
		key := ask.Request.Key
		s.audit(x, r, &layout.Request{Name: key.Name, Lookups: []symfile.Lookup{{ID: key.ID.Breakpad()}}}, f)
	}
}

// symCacheRefuse answers with an error in the place of a file.
func (s *Server) symCacheRefuse(x *exchange, status int, text string) {
	h := x.Header()
	for _, k := range [...]string{"Etag", "Content-Encoding"} {
		delete(h, k)
	}
	h["Cache-Control"] = noStore
	s.text(x, status, text+"\n")
}

// Names of what a signed address has in its query.
const (
	signedVersion = "file"
	signedUntil   = "until"
	signedBy      = "sign"
)

// signature signs one version of the file of a request, until a time.
func (s *Server) signature(q symcache.Request, v symcache.Version, until int64) string {
	mac := hmac.New(sha256.New, s.symcache.secret)
	// No part can hold a line break.
	for _, part := range []string{
		q.Version.String(), symfile.Fold(q.Key.Name), q.Key.ID.Breakpad(), symfile.Fold(q.Hex.Name), q.Hex.ID.Breakpad(), v.String(), strconv.FormatInt(until, 10),
	} {
		mac.Write([]byte(part + "\n"))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signedURL is the address of one version of the file of a request: the one that
// was asked for, with a query that says which version, until when, and that we
// say so.
func (s *Server) signedURL(r *http.Request, req symcache.Request, v symcache.Version) string {
	until := time.Now().Add(signedLife).Unix()
	q := url.Values{
		signedVersion: {v.String()}, signedUntil: {strconv.FormatInt(until, 10)}, signedBy: {s.signature(req, v, until)},
	}
	// Two slashes in front would begin a host.
	return "/" + strings.TrimLeft(target(r), "/") + "?" + q.Encode()
}

// errSigned says that an address is not signed, or no more.
var errSigned = errors.New("not a signed address")

// signed returns the version of the file that a signed address is for. Any other
// query is none of ours.
func (s *Server) signed(r *http.Request, req symcache.Request) (symcache.Version, bool) {
	if s.symcache.secret == nil || r.URL.RawQuery == "" {
		return symcache.Version{}, false
	}
	v, err := s.readSigned(r.URL.Query(), req)
	return v, err == nil
}

func (s *Server) readSigned(q url.Values, req symcache.Request) (symcache.Version, error) {
	v, err := symcache.ParseVersion(q.Get(signedVersion))
	if err != nil {
		return v, err
	}
	until, err := strconv.ParseInt(q.Get(signedUntil), 10, 64)
	if err != nil {
		return v, err
	}
	if !hmac.Equal([]byte(s.signature(req, v, until)), []byte(q.Get(signedBy))) || time.Now().Unix() > until {
		return v, errSigned
	}
	return v, nil
}

// methods are those that a path is answered for, as the Allow header lists them.
func (s *Server) methods(r *http.Request) string {
	_, path := s.path(r)
	if segs, err := layout.Segments(path); err == nil {
		if req, err := layout.Route(segs, s.cfg.Prefixes...); err == nil && req.Form == layout.FormSymCache {
			return "GET, HEAD"
		}
	}
	return allowed
}
