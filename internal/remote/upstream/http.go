package upstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/base/sspi"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// The values of HTTPConfig.TwoTier; the empty string is TwoTierAuto.
const (
	TwoTierAuto = "auto" // request index2.txt to find out
	TwoTierYes  = "yes"
	TwoTierNo   = "no"
)

// HopHeader lists the symdepot servers that a request has passed, like Via,
// which proxies may drop. In a response it is the id of the answering server.
const HopHeader = wire.Hop

// Timeouts of an upstream. Zero means the default in the comment.
type Timeouts struct {
	Connect time.Duration // of TCP and of TLS, each; 5 s. Ignored if a Transport is given
	Header  time.Duration // from the connection to the first bytes of the file; 10 s
	Idle    time.Duration // between two reads of a body; 30 s
}

// Credentials are sent only to the server that the operator configured.
type Credentials struct {
	User, Password string // Basic; a token may be the Password of an empty User
	Token          string // Bearer
	// HeadersFile holds one "Name: value" per line and is read again when it
	// changes.
	HeadersFile string
	// Negotiate answers the challenge Negotiate with the ticket of the current
	// Windows user.
	Negotiate bool
	// Tokens returns the token of each request, in place of a fixed one; nil: none.
	Tokens Tokens
}

// HTTPConfig describes a server. Name and URL are required.
type HTTPConfig struct {
	Name        string
	URL         string // its query is added to every request
	Layout      string // a name of layout.Servers; empty: auto
	Casing      string // "default", "uppercase" or "lowercase"; empty: the layout's spelling
	TwoTier     string
	Header      http.Header // sent to this server only
	Credentials Credentials
	UserAgent   string // empty: the one that servers of the layout expect
	// Forbidden403 makes a 403 a miss. Buckets that may be read but not listed
	// answer 403 for missing objects.
	Forbidden403 bool
	NoCompressed bool // do not request foo.pd_
	NoPointers   bool // do not request file.ptr
	// HasIndex reads the records of a symbol store (000Admin) and sends no requests for
	// what they do not list. Only for layouts of symbol stores.
	HasIndex bool
	MaxBytes int64 // decompressed; 0: 16 GiB
	Timeouts Timeouts
	// ServerID is the id of this server in Via for requests without a Via of
	// their own.
	ServerID string
	// TempDir is for cabinets while they are decompressed. Empty: the system's
	// folder.
	TempDir string
	// Tracer adds the context of the trace to requests to hosts that it trusts; nil adds
	// nothing.
	Tracer *span.Tracer
	// Transport must come from a Dialer. Nil: a new one for this server's host.
	Transport *http.Transport
}

const (
	defaultMax = 16 << 30
	// MicrosoftAgent is the User-Agent of Microsoft's own clients, which some
	// servers require.
	MicrosoftAgent = "Microsoft-Symbol-Server/10.1710.0.0 symdepot"
	plainAgent     = "symdepot"
	maxText        = 64 << 10 // of file.ptr and of error responses
	drainTime      = 500 * time.Millisecond
	tierLife       = 24 * time.Hour   // after a definite answer about index2.txt
	tierRetry      = 10 * time.Minute // after any other answer
	longestRetry   = 24 * time.Hour
)

// HTTP is an upstream that downloads from a symbol server of any layout.
type HTTP struct {
	cfg     HTTPConfig
	base    *url.URL // without user and final slash
	shown   string   // base without secrets
	dialect layout.Dialect
	agent   string
	basic   string // the Authorization header field, or empty
	headers headersFile
	via     http.RoundTripper // cfg.Transport, or one that adds tickets to it
	tier    tier
	index   *storeIndex            // nil: not used
	peer    atomic.Pointer[string] // id of the server, if it is a symdepot server
	now     func() time.Time
}

// OptionError is an invalid value of an option: layout, casing or two_tier.
type OptionError struct {
	Option string
	err    error
}

func (e *OptionError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *OptionError) Unwrap() error { return e.err }

// nameError is the error of the upstream with this name.
type nameError struct {
	name string
	err  error
}

func (e *nameError) Error() string { return "upstream " + e.name + ": " + e.err.Error() }
func (e *nameError) Unwrap() error { return e.err }

// NewHTTP returns an upstream for a server. It does not connect.
func NewHTTP(cfg HTTPConfig, d *Dialer) (*HTTP, error) {
	h := &HTTP{cfg: cfg, now: time.Now}
	c := &h.cfg
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &nameError{cfg.Name, errors.New("not an http or https URL")}
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
		return nil, &nameError{cfg.Name, err}
	}
	if err := checkIndex(c.HasIndex, h.dialect.Layout); err != nil {
		return nil, &nameError{cfg.Name, err}
	}
	if c.Transport == nil {
		c.Transport = d.transportWithin(c.Timeouts.Connect, HostPort(u))
	}
	h.via = c.Transport
	if c.Credentials.Negotiate {
		h.via = WithTicket(c.Transport, u.String())
	}
	if c.Credentials.Tokens != nil {
		h.via = &bearer{name: c.Name, base: c.Transport, server: u, tokens: c.Credentials.Tokens}
	}
	h.headers.path = c.Credentials.HeadersFile
	if _, err := h.headers.get(); err != nil {
		return nil, &nameError{cfg.Name, err}
	}
	if c.HasIndex {
		h.index = newStoreIndex(h.record, func() time.Time { return h.now() })
	}
	return h, nil
}

// WithTicket returns a transport that answers the challenge Negotiate of one
// server, given by its URL, with the ticket of the current Windows user.
func WithTicket(base http.RoundTripper, server string) http.RoundTripper {
	u, err := url.Parse(server)
	return &sspi.Transport{Base: base, Allowed: func(r *http.Request) bool { return err == nil && sameServer(u, r.URL) }}
}

// options validates all options except the URL and sets their defaults.
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
			return &OptionError{o.what, fmt.Errorf("unknown %s %q; known are %s", o.what, *o.value, strings.Join(o.allowed, ", "))}
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
	h.dialect = layout.Dialect{
		Layout: lay, Casing: layout.Casing(c.Casing), Cabinets: !c.NoCompressed, Pointers: !c.NoPointers,
		Inside: last == "buildid" || last == ".build-id",
	}
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
		h.basic = wire.Bearer + " " + k.Token
	case k.User != "" || k.Password != "":
		h.basic = wire.Basic + " " + base64.StdEncoding.EncodeToString([]byte(k.User+":"+k.Password))
	}
	return nil
}

// Name returns the configured name of the server.
func (h *HTTP) Name() string { return h.cfg.Name }

// Traits says whether the server supports the SymCache protocol and metadata
// searches, and its id once it has answered.
func (h *HTTP) Traits() fetch.Traits {
	t := fetch.Traits{SymCacheServer: h.dialect.Layout == layout.SymCache}
	t.Excludes = func(ask fetch.Ask) string {
		if len(h.dialect.Places(&ask.Request)) > 0 {
			return ""
		}
		return h.noPlace()
	}
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
	h.index.close()
	h.cfg.Transport.CloseIdleConnections()
	return nil
}

// failed returns a Failure.
func (h *HTTP) failed(class fetch.Class, format string, args ...any) *fetch.Failure {
	return &fetch.Failure{Source: h.cfg.Name, Class: class, Err: fmt.Errorf(format, args...)}
}

// Fetch requests the file at each place where it may be, one after the other.
func (h *HTTP) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	if ask.Checksum != "" { // only portable PDBs have one
		ask.Request.AskPortable()
	}
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
		return nil, h.failed(fetch.ClassSkipped, "%s", h.noPlace())
	}
	if !ask.Probe {
		if places = h.index.listed(places, dialect.TwoTier); len(places) == 0 {
			return nil, h.failed(fetch.ClassSkipped, "%w", errNotListed)
		}
	}
	var absent *fetch.Failure
	for _, p := range places {
		reply, err := x.attempt(ctx, p)
		if err == nil {
			return reply, nil
		}
		f, ok := errors.AsType[*fetch.Failure](err)
		if !ok || f.Class != fetch.ClassNotFound {
			return nil, err // the other places would fail too
		}
		if absent == nil || errors.Is(absent.Err, errNotFound) {
			absent = f // prefer the most specific reason
		}
	}
	return nil, absent
}

// noPlace says why a server of this layout is not asked for a file.
func (h *HTTP) noPlace() string { return "a " + h.cfg.Layout + " server cannot have this kind of file" }

// errNotFound is the least specific reason of a miss.
var errNotFound = errors.New("no such file")

// question is one call of Fetch.
type question struct {
	h     *HTTP
	ask   fetch.Ask
	limit int64 // decompressed bytes
}
