package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
)

// Config is what the API and the pages work on. The parts of the depot are always there.
type Config struct {
	// The parts of the depot.
	Depot     Depot
	Retention Retention
	Catalog   *catalog.Catalog
	Files     depot.Finder
	InPlace   *inplace.Places
	Sources   *sourcefiles.Files
	Symbols   *depot.Symbols
	Upstreams *depot.Remote
	Missing   *catalog.Missing
	Arrivals  *arrivals.Service
	Dumps     *dumps.Dumps
	Jobs      *jobs.Queue
	Stages    Stages
	Bases     Bases
	// Gate makes tokens and ends sign-ins, and Tokens keeps both.
	Gate   *auth.Gate
	Tokens Tokens
	// Tracing explains requests.
	Tracing Tracing

	// Forms take files from forms; nil: there is no page for it.
	Forms *intake.Handler
	// SignIns let browsers sign in at /-/login; nil: they cannot.
	SignIns *auth.Gate
	// Scratch is the folder for temporary files; empty: that of the system.
	Scratch string
	// Audit is the log that administrators read; nil: there is none.
	Audit *auth.Audit
	// Record records a purge or a forced promotion; nil: Audit does.
	Record func(auth.Event) error
	// FoundInPlace is how many files of watched and served folders a search lists at most; 0 is
	// 50.
	FoundInPlace int
	// Facts describes the server; nil: nothing is known.
	Facts func(context.Context) Facts
	// Makes says that Breakpad files are made on request.
	Makes bool
	// Version is that of the program.
	Version string
	// BaseURL is the URL of the server as browsers know it; empty: unknown. Its pages are
	// the server's own.
	BaseURL string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log receives failures; nil discards them.
	Log *slog.Logger
}

// Use makes the parts of an open depot those of a configuration.
func (c *Config) Use(d *depot.Depot) {
	c.Depot, c.Retention, c.Catalog, c.Files, c.InPlace, c.Sources = d, d.Retention, d.Catalog, depot.FinderIn(d), d.InPlace, d.Sources
	c.Bases, c.Arrivals, c.Dumps = d.Stages().Bases, d.Arrivals, d.Dumps
	c.Symbols, c.Upstreams, c.Missing, c.Jobs, c.Stages, c.Tracing.Depot = d.Symbols, d.Remote, d.Missing, d.Jobs(), d.Stages(), d.Tracer
}

// Acts are what the API and the pages do alike, each with what it needs.
type Acts struct {
	Config

	Origin       *Origin
	Transactions *Transactions
	Accounts     *Accounts
	JobActs      *JobActs
	UpstreamActs *UpstreamActs
	Traces       *Traces
	Examiner     *Examiner
	Coverage     *Coverage
	SourceLists  *SourceLists
	// Symbolication looks addresses up, and Crashes is for the dumps that are kept.
	Symbolication *Symbolication
	Crashes       *Crashes
	Events        *Events
	Uploads       *Uploads
	// Computing lets few plans and sums be computed at the same time.
	Computing *Gate
}

// New returns what the API and the pages of a depot do.
func New(cfg Config) *Acts {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.FoundInPlace = cmp.Or(cfg.FoundInPlace, MaxInPlace)
	if cfg.Record == nil {
		cfg.Record = func(e auth.Event) error {
			if cfg.Audit != nil {
				cfg.Audit.Record(e)
				cfg.Audit.Flush()
			}
			return nil
		}
	}
	computing := newGate(MaxComputing, CommitTime, "other plans are being computed")
	a := &Acts{Config: cfg, Computing: computing, Origin: NewOrigin(cfg.BaseURL, cfg.Log), Uploads: NewUploads()}
	a.Transactions = &Transactions{cfg.Depot, cfg.Retention, cfg.Retention, computing, cfg.Record, cfg.Now, cfg.Log}
	a.Accounts = newAccounts(&cfg)
	a.JobActs = &JobActs{cfg.Jobs, cfg.Log}
	a.UpstreamActs = &UpstreamActs{cfg.Upstreams, cfg.Log}
	a.Traces = newTraces(cfg.Tracing, a.Accounts, cfg.Log)
	a.Examiner = newExaminer(&cfg, a.Uploads)
	a.Coverage = newCoverage(&cfg, a.Transactions)
	a.SourceLists = &SourceLists{cfg.Sources}
	a.Symbolication = &Symbolication{cfg.Catalog, cfg.Symbols}
	a.Crashes = &Crashes{cfg.Dumps, a.Symbolication, cfg.Record, cfg.Log}
	a.Events = newEvents(cfg.Jobs, cfg.Upstreams, cfg.Log)
	return a
}

// Origin knows which pages are those of this server.
type Origin struct {
	base    string // the origin of the base URL, or ""
	protect *http.CrossOriginProtection
}

// NewOrigin returns the origins of a server with a base URL, which may be empty.
func NewOrigin(base string, log *slog.Logger) *Origin {
	o := &Origin{origin(base), http.NewCrossOriginProtection()}
	if o.base != "" {
		if err := o.protect.AddTrustedOrigin(o.base); err != nil {
			log.Error("the base URL has no origin", "error", err) // a checked one has
		}
	}
	return o
}

// origin returns the origin (RFC 6454) of a URL; empty if it has none.
func origin(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// Check returns a problem if a browser sends the request for a page of another
// site and it could change something. Whatever the credentials are, a browser sends
// them unasked.
func (o *Origin) Check(r *http.Request) *Problem {
	if err := o.protect.Check(r); err != nil {
		const detail = "this server does not accept requests of web pages of other sites; " +
			"behind a proxy, base_url of its configuration says where its own pages are"
		return &Problem{Word: "forbidden", Detail: detail}
	}
	return nil
}

// Public reports whether a request came to the base URL, if that is one with TLS: by
// its Host, or through a proxy (forwarded).
func (o *Origin) Public(host string, forwarded bool) bool {
	secure, ok := strings.CutPrefix(o.base, "https://")
	return ok && (forwarded || strings.EqualFold(secure, host))
}
