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

	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
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
const HopHeader = wire.Hop

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
func (h *HTTP) Traits() fetch.Traits {
	t := fetch.Traits{SymCacheServer: h.dialect.Layout == layout.SymCache}
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
func (h *HTTP) failed(class fetch.Class, format string, args ...any) *fetch.Failure {
	return &fetch.Failure{Source: h.cfg.Name, Class: class, Err: fmt.Errorf(format, args...)}
}

// Fetch asks for the places where the file may be, one after the other.
func (h *HTTP) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
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
		return nil, h.failed(fetch.ClassSkipped, "a %s server has no such thing", h.cfg.Layout)
	}
	var absent *fetch.Failure
	for _, p := range places {
		reply, err := x.attempt(ctx, p)
		if err == nil {
			return reply, nil
		}
		f, ok := errors.AsType[*fetch.Failure](err)
		if !ok || f.Class != fetch.ClassAbsent {
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
	ask   fetch.Ask
	limit int64 // plain bytes
}
