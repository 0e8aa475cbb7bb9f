package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// The values of HTTPConfig.TwoTier; the empty string is TwoTierAuto.
const (
	TwoTierAuto = "auto" // index2.txt is asked for
	TwoTierYes  = "yes"
	TwoTierNo   = "no"
)

// HopHeader names the servers of our kind that a request has passed through,
// like Via, which proxies on the way may drop.
//
// In an answer it is the id of the server that gave it.
const HopHeader = "X-Symdepot-Hop"

// Timeouts of a source. What is 0 has its default.
type Timeouts struct {
	Connect time.Duration // TCP, and TLS again; 5 s. A Transport that is given has its own
	Header  time.Duration // from the connection to the first bytes of the file; 10 s
	Idle    time.Duration // between two pieces of a body; 30 s
}

// Credentials are sent to the server that the operator named and to no other.
type Credentials struct {
	User, Password string // Basic; a token may stand in Password with User empty
	Token          string // Bearer
	// HeadersFile holds one "Name: value" per line and is read again when it
	// changes.
	HeadersFile string
}

// HTTPConfig describes a server. Name and URL are needed.
type HTTPConfig struct {
	Name        string
	URL         string // its query is kept on every request
	Layout      string // a name of layout.Servers; empty: auto
	Casing      string // "default", "uppercase" or "lowercase"; empty: as the layout spells names
	TwoTier     string
	Header      http.Header // sent to this server only
	Credentials Credentials
	UserAgent   string // empty: what servers of that kind expect
	// Forbidden403 makes a 403 mean that there is no such file: so say buckets
	// that may be read and not listed.
	Forbidden403 bool
	NoCompressed bool  // foo.pd_ is not asked for
	NoPointers   bool  // file.ptr is not asked for
	MaxBytes     int64 // of a plain file; 0: 16 GiB
	Timeouts     Timeouts
	// ServerID is what we are called in Via where a request names nobody.
	ServerID string
	// TempDir takes cabinets while they are opened. Empty: the system's folder.
	TempDir string
	// Transport must come from a Dialer. Nil: one for this server's host.
	Transport *http.Transport
}

const (
	defaultMax = 16 << 30
	// MicrosoftAgent is the User-Agent of Microsoft's own clients, which some
	// servers expect.
	MicrosoftAgent = "Microsoft-Symbol-Server/10.1710.0.0 symdepot"
	plainAgent     = "symdepot"
	maxText        = 64 << 10 // of file.ptr and of answers that say why not
	drainTime      = 500 * time.Millisecond
	tierLife       = 24 * time.Hour   // index2.txt was there, or was not
	tierRetry      = 10 * time.Minute // the answer said neither
	longestRetry   = 24 * time.Hour
)

// HTTP is a symbol server of any kind.
type HTTP struct {
	cfg     HTTPConfig
	base    *url.URL // without user and final slash
	shown   string   // base as it may be shown
	dialect layout.Dialect
	agent   string
	basic   string // the Authorization header, or empty
	headers headersFile
	tier    tier
	peer    atomic.Pointer[string] // what the server calls itself in Via, if it is one of ours
	now     func() time.Time
}

// NewHTTP returns a source that asks the server. No connection is made.
func NewHTTP(cfg HTTPConfig, d *Dialer) (*HTTP, error) {
	h := &HTTP{cfg: cfg, now: time.Now}
	c := &h.cfg
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("source %s: not an http or https address", cfg.Name)
	}
	if u.User != nil {
		if c.Credentials.User == "" && c.Credentials.Password == "" && c.Credentials.Token == "" {
			c.Credentials.User = u.User.Username()
			c.Credentials.Password, _ = u.User.Password()
		}
		u.User = nil
	}
	u.Fragment, u.RawFragment = "", ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	h.base, h.shown = u, u.Scheme+"://"+u.Host+maskPath(u.EscapedPath())
	if err := h.options(); err != nil {
		return nil, fmt.Errorf("source %s: %w", cfg.Name, err)
	}
	if c.Transport == nil {
		c.Transport = d.transportWithin(c.Timeouts.Connect, HostPort(u))
	}
	h.headers.path = c.Credentials.HeadersFile
	if _, err := h.headers.get(); err != nil {
		return nil, fmt.Errorf("source %s: %w", cfg.Name, err)
	}
	return h, nil
}

// options checks and completes what is not the address.
func (h *HTTP) options() error {
	c := &h.cfg
	for _, o := range []struct {
		value   *string
		what    string
		allowed []string // the first is the default
	}{
		{&c.Layout, "layout", layout.Names(layout.Servers())},
		{&c.Casing, "casing", []string{string(layout.CasingDefault), string(layout.CasingUpper), string(layout.CasingLower)}},
		{&c.TwoTier, "two_tier", []string{TwoTierAuto, TwoTierYes, TwoTierNo}},
	} {
		if *o.value == "" {
			*o.value = o.allowed[0]
		}
		known := false
		for _, a := range o.allowed {
			known = known || a == *o.value
		}
		if !known {
			return fmt.Errorf("no %s %q; known are %s", o.what, *o.value, strings.Join(o.allowed, ", "))
		}
	}
	for _, t := range []struct {
		value *time.Duration
		def   time.Duration
	}{{&c.Timeouts.Connect, connectTime}, {&c.Timeouts.Header, 10 * time.Second}, {&c.Timeouts.Idle, 30 * time.Second}} {
		if *t.value <= 0 {
			*t.value = t.def
		}
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMax
	}
	lay, _ := layout.ServerByName(c.Layout)
	h.agent = c.UserAgent
	last := symfile.Fold(h.base.Path[strings.LastIndexByte(h.base.Path, '/')+1:])
	h.dialect = layout.Dialect{Layout: lay, Casing: layout.Casing(c.Casing), Cabinets: !c.NoCompressed, Pointers: !c.NoPointers, Inside: last == "buildid" || last == ".build-id"}
	tiers := lay.Tiers()
	h.tier.needed = tiers == layout.TiersProbed && c.TwoTier == TwoTierAuto
	h.dialect.TwoTier = tiers != layout.TiersNone && c.TwoTier == TwoTierYes || tiers == layout.TiersTwo && c.TwoTier != TwoTierNo
	if h.agent == "" {
		h.agent = plainAgent
		if lay.ForSymsrv() {
			h.agent = MicrosoftAgent
		}
	}
	switch k := c.Credentials; {
	case k.Token != "":
		h.basic = "Bearer " + k.Token
	case k.User != "" || k.Password != "":
		h.basic = "Basic " + base64.StdEncoding.EncodeToString([]byte(k.User+":"+k.Password))
	}
	return nil
}

// Name is what the configuration calls the server.
func (h *HTTP) Name() string { return h.cfg.Name }

// Traits says whether the server speaks the SymCache protocol, and its id once
// it has answered.
func (h *HTTP) Traits() Traits {
	t := Traits{SymCacheServer: h.dialect.Layout == layout.SymCache}
	if id := h.peer.Load(); id != nil {
		t.ServerID = *id
	}
	if h.dialect.Layout == layout.Debuginfod {
		t.Metadata = h.metadata
	}
	return t
}

// Close ends idle connections.
func (h *HTTP) Close() error {
	h.cfg.Transport.CloseIdleConnections()
	return nil
}

// failed makes a Failure.
func (h *HTTP) failed(class Class, format string, args ...any) *Failure {
	return &Failure{Source: h.cfg.Name, Class: class, Err: fmt.Errorf(format, args...)}
}

// Fetch asks for the places where the file may be, one after the other.
func (h *HTTP) Fetch(ctx context.Context, ask Ask) (*Reply, error) {
	x := &question{h: h, ask: ask, limit: h.cfg.MaxBytes}
	if ask.Limit > 0 {
		x.limit = min(x.limit, ask.Limit)
	}
	if r := ask.Resume; r != nil && r.Tag != "" && r.Offset > 0 {
		reply, err := x.resume(ctx, r)
		if reply != nil || err != nil {
			return reply, err
		}
	}
	dialect := h.dialect
	if h.tier.needed && ask.Request.TierMatters() {
		var err error
		if dialect.TwoTier, err = h.isTwoTier(ctx, x); err != nil {
			return nil, err
		}
	}
	places := dialect.Places(&ask.Request)
	if len(places) == 0 {
		return nil, h.failed(ClassSkipped, "a %s server has no such thing", h.cfg.Layout)
	}
	var absent *Failure
	for _, p := range places {
		reply, err := x.attempt(ctx, p)
		if err == nil {
			return reply, nil
		}
		f, ok := errors.AsType[*Failure](err)
		if !ok || f.Class != ClassAbsent {
			return nil, err // the others would fare no better
		}
		if absent == nil || errors.Is(absent.Err, errNotThere) {
			absent = f // the reason that says most
		}
	}
	return nil, absent
}

// errNotThere is the plainest reason.
var errNotThere = errors.New("no such file")

// question is one Fetch.
type question struct {
	h     *HTTP
	ask   Ask
	limit int64 // plain bytes
}

// url is the address of a place.
func (h *HTTP) url(parts []string) *url.URL {
	u := *h.base
	raw := h.base.EscapedPath()
	for _, p := range parts {
		u.Path += "/" + p
		// Buckets take a plus sign for a blank.
		raw += "/" + strings.ReplaceAll(url.PathEscape(p), "+", "%2B")
	}
	u.RawPath = raw
	return &u
}

// show returns an address without what may be secret.
func (h *HTTP) show(u *url.URL) string {
	p := u.EscapedPath()
	if base := h.base.EscapedPath(); sameServer(h.base, u) && strings.HasPrefix(p, base+"/") {
		return h.shown + p[len(base):]
	}
	return u.Scheme + "://" + u.Host + p
}

// unshow is the inverse of show for addresses on the server.
func (h *HTTP) unshow(shown string) (*url.URL, bool) {
	rest, ok := strings.CutPrefix(shown, h.shown+"/")
	if !ok {
		u, err := url.Parse(shown)
		if err != nil || !sameServer(h.base, u) {
			return nil, false
		}
		u.RawQuery = h.base.RawQuery
		return u, true
	}
	u := *h.base
	u.RawPath = h.base.EscapedPath() + "/" + rest
	var err error
	u.Path, err = url.PathUnescape(u.RawPath)
	return &u, err == nil
}

// header returns what is sent to the server itself.
func (x *question) header(p layout.Place) (http.Header, error) {
	h, out := x.h, http.Header{}
	extra, err := h.headers.get()
	if err != nil {
		return nil, err
	}
	for _, from := range []http.Header{h.cfg.Header, extra} {
		for k, v := range from {
			out[http.CanonicalHeaderKey(k)] = v
		}
	}
	if h.basic != "" {
		out.Set("Authorization", h.basic)
	}
	if h.basic != "" || len(extra) > 0 {
		out.Set("X-Tfs-Fedauthredirect", "Suppress") // a 401 rather than a login page
	}
	if x.ask.Checksum != "" {
		out.Set("Symbolchecksum", x.ask.Checksum)
	}
	agent := h.agent
	if o := x.ask.Origin.Agent; o != "" && h.cfg.UserAgent == "" && h.dialect.Layout == layout.Debuginfod {
		agent = o // debuginfod servers pass on what the client calls itself
	}
	if out.Get("User-Agent") == "" || h.cfg.UserAgent != "" {
		out.Set("User-Agent", agent)
	}
	out.Set("Accept", "*/*")
	if !p.Exact && !p.Pointer {
		for _, l := range x.ask.Request.Lookups {
			if l.Role&symfile.Compressed != 0 && l.Role != symfile.Compressed {
				out.Set("Accept", "application/msfz0, */*;q=0.9")
			}
		}
	}
	out.Set("Accept-Encoding", "zstd, gzip")
	if x.ask.Request.Form == layout.FormSymCache {
		// The protocol says the first, its sample server reads the second.
		out.Set(symcache.HeaderAllowRetry, "true")
		out.Set(symcache.HeaderAcceptRetry, "true")
	}
	x.hops(out)
	return out, nil
}

// hops names the servers that the request has passed. elfutils' server passes on
// X-Forwarded-For and no header field of ours: so the ids stand there too, and a
// loop through that server is detected. In front of them stands what debuginfod
// servers expect there, the addresses of the client and of proxies.
func (x *question) hops(out http.Header) {
	ids := x.ask.Via
	if len(ids) == 0 && x.h.cfg.ServerID != "" {
		ids = []string{x.h.cfg.ServerID}
	}
	var via, list, forwarded []string
	for _, id := range ids {
		if isToken(id) {
			via, list = append(via, "1.1 "+id), append(list, id)
		}
	}
	if x.h.dialect.Layout == layout.Debuginfod {
		forwarded = slices.DeleteFunc(slices.Clone(x.ask.Origin.Forwarded), func(s string) bool { return !isToken(strings.Trim(s, "[]")) })
	}
	for _, id := range list {
		if !slices.Contains(forwarded, id) {
			forwarded = append(forwarded, id)
		}
	}
	if len(list) > 0 {
		out.Set("Via", strings.Join(via, ", "))
		out.Set(HopHeader, strings.Join(list, ", "))
	}
	if len(forwarded) > 0 && (x.ask.Request.Layout == layout.Debuginfod || x.h.dialect.Layout == layout.Debuginfod) {
		out.Set("X-Forwarded-For", strings.Join(forwarded, ", "))
	}
}

// isToken reports whether s can stand alone in a header.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9', c|0x20 >= 'a' && c|0x20 <= 'z', c == '-', c == '.', c == '_', c == ':':
		default:
			return false
		}
	}
	return s != ""
}

// attempt asks for one place.
func (x *question) attempt(ctx context.Context, p layout.Place) (*Reply, error) {
	header, err := x.header(p)
	if err != nil {
		return nil, x.h.failed(ClassBroken, "%w", err)
	}
	a, err := x.exchange(ctx, []*url.URL{x.h.url(p.Parts)}, header)
	if err != nil {
		return nil, err
	}
	return x.answer(ctx, p, a)
}

// answer makes a reply of what a server said. It closes a on failure.
func (x *question) answer(ctx context.Context, p layout.Place, a *answer) (*Reply, error) {
	var reply *Reply
	err := x.loop(a, x.refusal(a))
	if err == nil && p.Pointer {
		defer a.end()
		to, err := x.pointer(a)
		if err != nil {
			return nil, err
		}
		return x.follow(ctx, a, to)
	}
	if err == nil {
		reply, err = x.body(p, a)
	}
	if err != nil {
		a.end()
		return nil, err
	}
	return reply, nil
}

// pointer reads a file.ptr.
func (x *question) pointer(a *answer) (*url.URL, error) {
	h := x.h
	text, err := a.text(h.cfg.Timeouts.Header)
	if err != nil {
		return nil, err
	}
	if isPage(text) || a.isHTML() || isRefusal(text) {
		return nil, h.failed(ClassAbsent, "a web page in the place of file.ptr")
	}
	to := symstore.ParsePointer(text)
	switch u, err := url.Parse(to.Target); {
	case to.Target == "" && to.Message != "":
		return nil, h.failed(ClassAbsent, "the server's pointer says %q", clip(to.Message))
	case to.Target == "":
		return nil, h.failed(ClassAbsent, "an empty pointer")
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, h.failed(ClassAbsent, "the server's pointer leads to a path that only its own network can reach: %q", clip(to.Target))
	default:
		u.User, u.Fragment, u.RawFragment = nil, "", ""
		return u, nil
	}
}

// follow fetches what a pointer leads to: an address that nobody here named.
func (x *question) follow(ctx context.Context, from *answer, to *url.URL) (*Reply, error) {
	h := x.h
	p := layout.Place{Parts: []string{x.ask.Request.Name}}
	if err := hopAllowed([]*url.URL{h.base, from.at}, to); err != nil {
		return nil, h.failed(ClassAbsent, "the server's pointer: %w", err)
	}
	header, err := x.header(p)
	if err != nil {
		return nil, h.failed(ClassBroken, "%w", err)
	}
	a, err := x.exchange(ctx, []*url.URL{h.base, from.at, to}, header)
	if errors.Is(err, ErrAddress) {
		return nil, h.failed(ClassAbsent, "the server's pointer: %w", err)
	}
	if err != nil {
		return nil, err
	}
	a.named = to
	reply, err := x.answer(ctx, p, a)
	if err != nil {
		return nil, err
	}
	reply.Tag = "" // another time the pointer may lead elsewhere
	return reply, nil
}

// refusal returns why an answer holds no file, nil if it may hold one.
func (x *question) refusal(a *answer) error {
	h, status := x.h, a.resp.StatusCode
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusNonAuthoritativeInfo:
		return h.failed(ClassForbidden, "status 203, as Azure DevOps answers to bad credentials")
	}
	class := ClassOfStatus(status)
	if status >= 400 && strings.Contains(a.resp.Header.Get("Content-Type"), "xml") {
		if text, err := a.text(drainTime); err == nil {
			class = classOfCode(text, class)
		}
	} else {
		a.drain(a.resp)
	}
	if class == ClassForbidden && status == http.StatusForbidden && h.cfg.Forbidden403 {
		class = ClassAbsent
	}
	f := h.failed(class, "status %d", status)
	if class == ClassAbsent {
		f.Err = fmt.Errorf("%w: status %d", errNotThere, status)
	}
	f.Retry = h.retryAfter(a.resp.Header.Get("Retry-After"))
	if f.Class == ClassBroken && status == http.StatusServiceUnavailable && !f.Retry.IsZero() {
		f.Class = ClassBusy
	}
	if d, ok := symcache.ParseRetryAfter(a.resp.Header["Retry-After"]); ok && f.Class == ClassAbsent && x.ask.Request.Form == layout.FormSymCache {
		f.Retry = h.now().Add(d)
	} else if f.Class != ClassBusy {
		f.Retry = time.Time{}
	}
	return f
}

// ClassOfStatus returns the class of a status other than 200; 204 is
// ClassAbsent.
func ClassOfStatus(status int) Class {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusUnavailableForLegalReasons:
		return ClassForbidden
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return ClassTimeout
	case http.StatusTooManyRequests:
		return ClassBusy
	case http.StatusNoContent:
		return ClassAbsent
	}
	if status >= 400 && status < 500 {
		return ClassAbsent
	}
	return ClassBroken
}

// classOfCode reads the error of an S3-compatible bucket.
func classOfCode(text []byte, class Class) Class {
	_, rest, ok := bytes.Cut(text, []byte("<Code>"))
	code, _, end := bytes.Cut(rest, []byte("</Code>"))
	if !ok || !end {
		return class
	}
	switch string(bytes.TrimSpace(code)) {
	case "NoSuchKey", "NoSuchBucket", "NotFound", "NoSuchVersion", "BlobNotFound":
		return ClassAbsent
	case "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId", "AuthorizationHeaderMalformed", "AuthorizationQueryParametersError", "ExpiredToken":
		return ClassForbidden
	case "SlowDown", "ServiceUnavailable", "TooManyRequests":
		return ClassBusy
	case "InternalError":
		return ClassBroken
	}
	return class
}

// retryAfter reads a Retry-After header.
func (h *HTTP) retryAfter(s string) time.Time {
	now := h.now()
	if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32); err == nil {
		return now.Add(min(time.Duration(n)*time.Second, longestRetry))
	}
	if at, err := http.ParseTime(s); err == nil && at.After(now) {
		if at.Sub(now) > longestRetry {
			return now.Add(longestRetry)
		}
		return at
	}
	return time.Time{}
}

// resume asks for the rest of a file. Without reply and failure the file has to
// be asked for anew.
func (x *question) resume(ctx context.Context, r *Resume) (*Reply, error) {
	h := x.h
	u, ok := h.unshow(r.Path)
	if !ok {
		return nil, nil
	}
	segs := strings.Split(u.Path, "/")
	p := layout.Place{Parts: []string{segs[len(segs)-1]}, Exact: x.ask.Request.Form != layout.FormFile}
	header, err := x.header(p)
	if err != nil {
		return nil, h.failed(ClassBroken, "%w", err)
	}
	header.Set("Accept-Encoding", "identity")
	header.Set("Range", "bytes="+strconv.FormatInt(r.Offset, 10)+"-")
	header.Set("If-Range", r.Tag)
	a, err := x.exchange(ctx, []*url.URL{u}, header)
	if err != nil {
		return nil, err
	}
	if a.resp.StatusCode == http.StatusPartialContent {
		reply, err := x.rest(r, a)
		if reply == nil {
			a.end()
		}
		return reply, err
	}
	if a.resp.StatusCode == http.StatusOK {
		return x.answer(ctx, p, a) // another file by now, or no ranges
	}
	err = x.refusal(a)
	a.end()
	switch f, _ := errors.AsType[*Failure](err); {
	case f.Class == ClassAbsent || a.resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return nil, nil
	default:
		return nil, f
	}
}

// rest makes a reply of a part of a file; nil if it is not the part asked for.
func (x *question) rest(r *Resume, a *answer) (*Reply, error) {
	h := a.resp.Header
	from, total, ok := contentRange(h.Get("Content-Range"))
	if !ok || from != r.Offset || len(h["Content-Encoding"]) > 0 && h.Get("Content-Encoding") != "identity" ||
		a.resp.ContentLength >= 0 && a.resp.ContentLength != total-from ||
		h.Get("Etag") != "" && strings.HasPrefix(r.Tag, `"`) && h.Get("Etag") != r.Tag {
		return nil, nil
	}
	if total > x.limit {
		return nil, x.h.failed(ClassTooLarge, "%w: %d", errTooLarge, total)
	}
	reply := x.reply(layout.Place{Parts: []string{r.Path[strings.LastIndexByte(r.Path, '/')+1:]}}, a)
	reply.Path, reply.Tag, reply.Offset, reply.Size = r.Path, r.Tag, from, total
	reply.Body = newBody(x, a, &plain{Reader: x.wire(a), size: total, release: func() {}}, nil, from, total)
	return reply, nil
}

// contentRange reads "bytes FROM-TO/TOTAL" of a part that reaches to the end.
func contentRange(s string) (from, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, all, cut := strings.Cut(s, "/")
	first, last, dash := strings.Cut(span, "-")
	if !ok || !cut || !dash {
		return 0, 0, false
	}
	var to int64
	var errs [3]error
	from, errs[0] = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	to, errs[1] = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	total, errs[2] = strconv.ParseInt(strings.TrimSpace(all), 10, 64)
	return from, total, errors.Join(errs[:]...) == nil && from >= 0 && to == total-1 && from <= to
}

// reply fills in what headers say.
func (x *question) reply(p layout.Place, a *answer) *Reply {
	head := a.resp.Header
	r := &Reply{Size: -1, Path: x.h.show(a.named), Name: x.name(p, a), CodeInfo: a.codeInfo}
	if at, err := http.ParseTime(head.Get("Last-Modified")); err == nil && at.Unix() > 0 {
		r.ModTime = at
	}
	for _, k := range []string{"Content-Type", "X-Debuginfod-Size", "X-Debuginfod-File", "X-Debuginfod-Archive", "X-Debuginfod-Imasignature"} {
		if v := head.Get(k); v != "" && len(v) <= 4096 {
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Set(k, v)
		}
	}
	return r
}

// name is the file's name as the server spells it.
func (x *question) name(p layout.Place, a *answer) string {
	if a.codeInfo != "" {
		name, _, _ := strings.Cut(a.codeInfo, "/")
		return name
	}
	leaf := p.Parts[len(p.Parts)-1]
	if n := symfile.BaseName(a.resp.Header.Get("X-Debuginfod-File")); symfile.ValidName(n) {
		return n
	}
	if x.ask.Request.Name != "" && (p.Packed || len(p.Parts) < 3 || !strings.Contains(leaf, ".")) {
		return x.ask.Request.Name
	}
	return leaf
}

// strongTag is what a transfer can be resumed by: a strong entity tag, or a time
// of change that was a while ago when the answer was made.
func strongTag(head http.Header) string {
	if strings.EqualFold(head.Get("Accept-Ranges"), "none") {
		return ""
	}
	if tag := head.Get("Etag"); tag != "" {
		if strings.HasPrefix(tag, `"`) && len(tag) <= 512 {
			return tag
		}
		return ""
	}
	changed, err := http.ParseTime(head.Get("Last-Modified"))
	date, derr := http.ParseTime(head.Get("Date"))
	if err == nil && derr == nil && date.Sub(changed) >= time.Minute {
		return head.Get("Last-Modified")
	}
	return ""
}

// isSymCache checks the type of a file for Windows Performance Analyzer: it must
// be of a version that the client of that request can read.
func (x *question) isSymCache(contentType string) error {
	_, err := symcache.ParseContentType(contentType, x.ask.Request.SymCache.Version)
	if err != nil {
		return x.h.failed(ClassBroken, "in the place of a SymCache file: %w", err)
	}
	return nil
}

// headersFile is a file of headers that is read again when it changes.
type headersFile struct {
	path string

	mu      sync.Mutex
	size    int64       // guarded by mu
	changed time.Time   // guarded by mu
	have    http.Header // guarded by mu; nil: never read
}

// get returns the headers; those from before if the file cannot be read any
// more, as while it is replaced.
func (f *headersFile) get() (http.Header, error) {
	if f.path == "" {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.have != nil && info.Size() == f.size && info.ModTime().Equal(f.changed) {
		return f.have, nil
	}
	var text []byte
	if err == nil {
		var in *os.File
		if in, err = os.Open(f.path); err == nil {
			text, err = io.ReadAll(io.LimitReader(in, maxText))
			_ = in.Close()
		}
	}
	if err == nil {
		var next http.Header
		if next, err = parseHeaders(text); err == nil {
			f.have, f.size, f.changed = next, info.Size(), info.ModTime()
		}
	}
	if f.have != nil {
		return f.have, nil
	}
	return nil, fmt.Errorf("headers file %s: %w", f.path, err)
}

func parseHeaders(text []byte) (http.Header, error) {
	out, n := http.Header{}, 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, ":")
		if k = strings.TrimSpace(k); !ok || !isToken(k) || strings.Contains(k, ":") {
			return nil, fmt.Errorf("line %d is not \"Name: value\"", n)
		}
		out.Add(k, strings.TrimSpace(v))
	}
	return out, nil
}
