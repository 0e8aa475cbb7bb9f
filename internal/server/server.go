// Package server answers symbol requests over HTTP, in every protocol that
// debuggers speak. It reads requests and writes responses; the depot finds the
// files.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/intake"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/internal/span"
	"github.com/symdepot/symdepot/internal/web/api"
	"github.com/symdepot/symdepot/internal/web/pages"
	"github.com/symdepot/symdepot/layout"
)

// Depot is what the server asks of a depot.
type Depot interface {
	// Files.
	Get(ctx context.Context, q depot.Question) (*depot.File, error)
	Excludes(ctx context.Context, scope depot.Scope, req layout.Request) bool
	Fetches() bool
	CountMissing(req *layout.Request, client string)
	Reads() *depot.Reads
	Encoded(ctx context.Context, f *depot.File, codings []string) (*depot.File, error)
	Products(ctx context.Context, f *depot.File) ([]string, error)
	Generation(ctx context.Context) (uint64, error)

	// The SymCache protocol and the job API.
	AnswerSymCache(ctx context.Context, ask depot.SymCacheAsk) (depot.SymCacheAnswer, error)
	OpenJobInput(ctx context.Context, l jobs.Lease) (*depot.File, error)
	Jobs() *jobs.Queue
	Secret(name string) ([]byte, error)

	// The page, the search and the metrics.
	Metadata(ctx context.Context, scope depot.Scope, key, value string, limit int) ([]depot.Metadata, bool, error)
	UpstreamMetadata(ctx context.Context, q depot.Question, key, value string) ([]depot.Metadata, bool)
	Find(ctx context.Context, scope depot.Scope, query string, limit int) ([]depot.Found, error)
	List(ctx context.Context, scope depot.Scope, f depot.ListFilter) ([]depot.Transaction, error)
	Stats(ctx context.Context) (depot.Stats, error)
	Scrub(ctx context.Context) (depot.ScrubState, error)
	Ready(ctx context.Context) error
	Stores(ctx context.Context) depot.StoreStatus
	Upstreams() []depot.UpstreamStatus
}

var _ Depot = (*depot.Depot)(nil)

// Config says how to serve. The zero value serves on loopback with the
// limits named below.
type Config struct {
	// Depot answers the requests. It is required.
	Depot Depot
	// API answers the requests below /-/api; nil: with 404.
	API *api.API
	// Pages answers browsers; nil: there are no pages.
	Pages *pages.Pages
	// Usage is what takes the space of the depot, for metrics; nil: it is not shown.
	Usage *Usage
	// Sources finds source files for /-/src; nil: there are none.
	Sources Sources
	// Watched describes the folders that are indexed in place, for metrics; nil: there
	// are none.
	Watched func(ctx context.Context) []depot.WatchStatus
	// Cold describes the contents that are kept cold, for metrics; nil: they are not shown.
	Cold func(ctx context.Context) (depot.ColdStatus, error)
	// Lost counts the files that were accepted and not found afterwards, for metrics; nil:
	// they are not shown.
	Lost func() uint64
	// Missing lists the files that clients did not get; nil: they are not listed.
	Missing Missing
	// Uploads answers the requests of uploaders that were written for other
	// servers; nil: they are refused.
	Uploads *intake.Handler
	// Gate authorizes requests; nil: everybody reads everything. The caller
	// closes it.
	Gate *auth.Gate
	// Audit records downloads that needed credentials; nil: nothing is
	// recorded. The caller closes it.
	Audit *auth.Audit
	// Tracer records requests; nil records nothing.
	Tracer *span.Tracer
	// TLS configures the listener; nil: it does not speak TLS.
	TLS *tls.Config
	// Public allows a listener on an address that other machines reach. So does a
	// Gate that restricts reading.
	Public bool
	// Hosts are the host names, without ports, that the Host header may hold
	// besides IP addresses and localhost. Requests with other names get 404,
	// so that no web page can read symbols by pointing a name of its own at
	// this server. On a loopback address that holds even if Hosts is empty; on
	// other addresses an empty list allows all names.
	Hosts []string
	// Origins are the origins, such as "https://profiler.firefox.com", whose
	// scripts may read symbol files in a browser; "*" allows all. Requests that
	// browsers send for pages of other sites are refused otherwise.
	Origins []string
	// Prefixes are further path prefixes, such as "corp/symbols", under
	// which everything is answered too.
	Prefixes []string
	// TwoTier answers index2.txt with 200, which makes Microsoft's clients
	// request two-tier paths. Those are answered in any case.
	TwoTier bool
	// Paths says how much of a file's origin X-DEBUGINFOD-FILE,
	// X-DEBUGINFOD-ARCHIVE and /metadata report: PathsName (also when empty),
	// PathsFull or PathsNone.
	Paths string

	// MaxConns is how many requests may be under way at once, downloads
	// included; zero is 4096. Further ones wait. Twice as many connections are
	// accepted. When there are more, the longest idle one is closed; without
	// an idle one, further connections wait.
	MaxConns int
	// ProxyNetworks are the networks of reverse proxies. In their requests, the
	// last entry of X-Forwarded-For that is no such proxy names the client, by
	// which wrong passwords, downloads and jobs are counted. The connections of any
	// other client are limited to an eighth of all connections, but at least
	// 64; when a client has more, its longest idle one is closed.
	ProxyNetworks []netip.Prefix
	// MaxInFlight is how many lookups in the depot may run at once; zero is
	// 256. Further ones wait.
	MaxInFlight int
	// Wait is how long a request waits for these limits before it is answered
	// with 503; zero is 20 seconds.
	Wait time.Duration
	// HeaderTimeout is how long a client may take to send a request's
	// header; zero is 10 seconds.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may stay open between requests;
	// zero is 2 minutes.
	IdleTimeout time.Duration
	// WriteTimeout is how long an answer may take to begin or, if it is a
	// short one, to be sent; zero is one minute. Long ones go on as long as
	// MinRate is kept.
	WriteTimeout time.Duration
	// MinRate is the slowest download that is not cut off, in bytes per second,
	// measured over each mebibyte; zero is 8 KiB.
	MinRate int64
	// ShutdownGrace is how long running answers may go on after Serve's context
	// ends; zero is 30 seconds.
	ShutdownGrace time.Duration
	// HotBytes is how much memory holds small files that are requested again
	// and again; zero is 32 MiB, negative none.
	HotBytes int64

	// SymCache configures the SymCache protocol.
	SymCache SymCacheConfig

	// Symbols configures the making of symbol files and the symbolication APIs.
	Symbols SymbolsConfig

	// WorkerToken authorizes workers at the job API; empty: no such token.
	WorkerToken string

	// ID distinguishes this server from others that a request passes; empty:
	// none.
	ID string
	// Version is shown in metrics and on the page.
	Version string
	// Log receives failures; nil discards them.
	Log *slog.Logger
	// AccessLog adds one record per request, at level Info. NewLogWriter
	// makes that cheap.
	AccessLog bool
	// Registry receives the metrics that /metrics shows; nil makes a new one.
	Registry *prometheus.Registry
}

// The values of Config.Paths. The full path of a file on the machine that ran
// add may reveal more than strangers should know; its path inside a package is
// the same on every machine that has the package.
const (
	PathsName = "name" // the base name, but the full path inside an archive; archives by their base name
	PathsFull = "full" // full paths, as they were added
	PathsNone = "none" // nothing
)

// withDefaults fills in what zero stands for.
func (c Config) withDefaults() Config {
	setInt(&c.MaxConns, 4096)
	setInt(&c.MaxInFlight, 256)
	setInt(&c.Wait, 20*time.Second)
	setInt(&c.HeaderTimeout, 10*time.Second)
	setInt(&c.IdleTimeout, 2*time.Minute)
	setInt(&c.WriteTimeout, time.Minute)
	setInt(&c.MinRate, 8<<10)
	setInt(&c.ShutdownGrace, 30*time.Second)
	setInt(&c.HotBytes, 32<<20)
	setInt(&c.Symbols.Wait, defaultSymbolsWait)
	prefixes := make([]string, 0, len(c.Prefixes))
	for _, p := range c.Prefixes {
		if p = strings.Trim(p, "/"); p != "" {
			prefixes = append(prefixes, p)
		}
	}
	c.Prefixes = prefixes
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.API == nil {
		c.API = api.Off(c.Log)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	return c
}

func setInt[T ~int | ~int64](v *T, zero T) {
	if *v == 0 {
		*v = zero
	}
}

// Server answers requests from one depot. Its methods may be called by many
// goroutines; Serve may be called once.
type Server struct {
	*access
	routes   *routes
	symcache *symCaches
	conns    *conns
	slots    semaphore    // requests under way
	log      slog.Handler // of the access log
	// inDatabase is set if lookups may wait for a database.
	inDatabase bool

	// local is set while every listener is on loopback.
	local atomic.Bool
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	switch cfg.Paths {
	case "", PathsName, PathsFull, PathsNone:
	default:
		return nil, fmt.Errorf("file paths can be shown as %s, %s or %s, not %q", PathsName, PathsFull, PathsNone, cfg.Paths)
	}
	cfg = cfg.withDefaults()
	origins, err := parseOrigins(cfg.Origins)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registry, cfg.Version, cfg.Depot)
	if err != nil {
		return nil, err
	}
	u := newUsages(Usage{})
	if cfg.Usage != nil {
		u.usage = *cfg.Usage
	}
	list := stateMetrics(&cfg, m.holdings, u)
	if cfg.Lost != nil {
		list = append(list, lostFiles(cfg.Lost))
	}
	if err := register(cfg.Registry, list...); err != nil {
		return nil, err
	}
	a := &access{origins: origins, service: &service{
		cfg: cfg, depot: cfg.Depot, restricted: isRestricted(cfg.Gate), metrics: m, hot: newHot(cfg.HotBytes),
		usages: u, lookups: newSemaphore(cfg.MaxInFlight), searches: newSemaphore(maxSearches),
	}}
	a.bodies = a.newBodies()
	a.waits, a.endWaits = context.WithCancel(context.Background())
	sc, err := newSymCaches(a)
	if err != nil {
		return nil, err
	}
	srv := &Server{access: a, routes: newRoutes(a, sc), symcache: sc, slots: newSemaphore(cfg.MaxConns), log: slog.DiscardHandler}
	if d, ok := cfg.Depot.(interface{ InDatabase() bool }); ok {
		srv.inDatabase = d.InDatabase()
	}
	srv.conns = newConns(2*cfg.MaxConns, cfg.ProxyNetworks)
	if cfg.AccessLog {
		srv.log = cfg.Log.Handler()
	}
	return srv, nil
}

// CheckListen returns an error if the configuration does not allow listening on
// addr, "host:port". The error names the settings that would allow it.
func (s *Server) CheckListen(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen on %q: want ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:0", addr)
	}
	if s.cfg.Public || s.restricted || strings.EqualFold(host, "localhost") {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsLoopback() {
		return nil
	}
	return notPublic(addr)
}

func notPublic(addr string) error {
	return fmt.Errorf("listening on %s would let every machine that reaches it read all symbols; "+
		"use --public to allow that, --auth to require credentials, or listen on 127.0.0.1", addr)
}

// connKey is the key of a request's net.Conn.
type connKey struct{}

// connOf returns a request's connection, or nil.
func connOf(r *http.Request) net.Conn {
	nc, _ := r.Context().Value(connKey{}).(net.Conn)
	return nc
}

// connContext attaches the state of a connection to its requests.
func (s *Server) connContext(ctx context.Context, nc net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, nc)
	if s.cfg.Gate != nil {
		ctx = s.cfg.Gate.ConnContext(ctx, nc)
	}
	return ctx
}

// protocols returns the versions of HTTP that the server speaks: version 2 only
// with TLS, and not where credentials belong to connections.
func (s *Server) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(s.cfg.TLS != nil && (s.cfg.Gate == nil || s.cfg.Gate.HTTP2()))
	return p
}

// isLoopback reports whether only this machine reaches a.
func isLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return a.Network() == "pipe"
}

// tellWait is how long the end of a server waits without a line in the log.
const tellWait = time.Second

// Serve serves on ln until ctx ends. Then it accepts no more connections,
// answers /readyz with 503 and lets running answers finish for up to
// Config.ShutdownGrace. It returns an error if some were cut off.
//
// A listener that other machines reach is refused without Config.Public.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	local := isLoopback(ln.Addr())
	if !local && !s.cfg.Public && !s.restricted {
		return errors.Join(notPublic(ln.Addr().String()), ln.Close())
	}
	s.local.Store(local)
	defer s.usages.stop()
	hs := &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            s.cfg.HeaderTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		WriteTimeout:                 s.cfg.Wait + s.cfg.WriteTimeout,
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ConnState:                    s.conns.state,
		ConnContext:                  s.connContext,
		Protocols:                    s.protocols(),
		ErrorLog:                     slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() {
		if s.cfg.TLS != nil {
			hs.TLSConfig = s.cfg.TLS.Clone()
			done <- hs.ServeTLS(newListener(ln, s.conns), "", "")
			return
		}
		done <- hs.Serve(newListener(ln, s.conns))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.endWaits()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownGrace)
	defer cancel()
	tell := time.AfterFunc(tellWait, func() {
		s.cfg.Log.Info("stopping: running answers may go on", "answers", s.conns.busy(), "longest", s.cfg.ShutdownGrace)
	})
	defer tell.Stop()
	if err := hs.Shutdown(grace); err != nil {
		n := s.conns.busy()
		return errors.Join(fmt.Errorf("cut off %d answers that were still running %v after the server was asked to stop", n, s.cfg.ShutdownGrace), hs.Close())
	}
	return nil
}

// hostAllowed reports whether requests with this Host header are answered.
// Addresses are no risk: a web page cannot have one as its name without being
// served from there.
func (s *Server) hostAllowed(host string) bool {
	local := s.local.Load()
	if host == "" || !local && len(s.cfg.Hosts) == 0 {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	if strings.EqualFold(name, "localhost") || hasSuffixFold(name, ".localhost") {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil && (!local || a.Unmap().IsLoopback()) {
		return true
	}
	for _, h := range s.cfg.Hosts {
		if strings.EqualFold(name, strings.TrimSuffix(h, ".")) {
			return true
		}
	}
	return false
}

func hasSuffixFold(s, suffix string) bool {
	return len(s) > len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}
