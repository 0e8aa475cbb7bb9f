// Package server answers symbol requests over HTTP, in every protocol that
// debuggers speak. It reads requests and writes answers; what the answer is,
// the depot says.
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

// symbols is what the server asks of the depot.
type symbols interface {
	Open(ctx context.Context, scope depot.Scope, req layout.Request) (*depot.File, error)
	Absent(ctx context.Context, req layout.Request) bool
	Fetches() bool
	Upstreams() []depot.UpstreamStatus
	Fetch(ctx context.Context, q depot.Question) (*depot.File, error)
	Missed(q depot.Question) bool
	CountMissing(req *layout.Request, client string)
	Encoded(ctx context.Context, f *depot.File, codings []string) (*depot.File, error)
	Metadata(ctx context.Context, scope depot.Scope, key, value string, limit int) ([]depot.Metadata, bool, error)
	Find(ctx context.Context, scope depot.Scope, query string, limit int) ([]depot.Found, error)
	List(ctx context.Context, scope depot.Scope, f depot.ListFilter) ([]depot.Transaction, error)
	Products(ctx context.Context, f *depot.File) ([]string, error)
	Stats(ctx context.Context) (depot.Stats, error)
	Ready(ctx context.Context) error
	Generation(ctx context.Context) (uint64, error)
}

// Config says how to serve. The zero value serves on loopback with the
// limits named below.
type Config struct {
	// Depot answers the requests; it must be there.
	Depot symbols
	// Gate says who asks and what they may read; nil: everybody reads
	// everything. The caller closes it.
	Gate *auth.Gate
	// Audit takes a record of every file that is read and that not everybody
	// may read; nil: nobody keeps count. The caller closes it.
	Audit *auth.Audit
	// TLS is how the listener speaks TLS; nil: it does not.
	TLS *tls.Config
	// Public allows a listener on an address that other machines reach. A
	// Gate that does not let everybody read everything allows it too.
	Public bool
	// Hosts are further names that a Host header may have when the listener
	// is on a loopback address, without ports. Requests with another name
	// get 404 there, so that no web page can read symbols by pointing a
	// name of its own at this machine.
	Hosts []string
	// Prefixes are further path prefixes, such as "corp/symbols", under
	// which everything is answered too.
	Prefixes []string
	// TwoTier answers index2.txt with 200, which makes Microsoft's clients
	// ask for two-tier paths. Those are answered in any case.
	TwoTier bool
	// Paths says how much of a file's origin X-DEBUGINFOD-FILE,
	// X-DEBUGINFOD-ARCHIVE and /metadata tell: PathsName (also when empty),
	// PathsFull or PathsNone.
	Paths string

	// MaxConns is how many requests may be under way at once, downloads
	// included; zero is 4096. Further ones wait. Twice as many connections
	// are accepted; yet more wait in the system's queue.
	MaxConns int
	// MaxInFlight is how many requests may be looking something up at once;
	// zero is 256. Further ones wait.
	MaxInFlight int
	// Wait is how long a request waits for both before it is answered with
	// 503; zero is 20 seconds.
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
	// MinRate is the slowest download that is kept up, in bytes per second,
	// measured over each mebibyte; zero is 8 KiB.
	MinRate int64
	// ShutdownGrace is how long running answers may go on once Serve is told
	// to end; zero is 30 seconds.
	ShutdownGrace time.Duration
	// HotBytes is how much memory holds short answers that are asked for
	// again and again; zero is 32 MiB, negative none.
	HotBytes int64

	// SymCache says how the SymCache protocol is answered.
	SymCache SymCacheConfig

	// WorkerToken lets workers in at the job API; empty: there is none.
	WorkerToken string

	// ID tells this server from others that requests pass; empty: none.
	ID string
	// Version is shown in metrics and on the page.
	Version string
	// Log takes failures; nil discards them.
	Log *slog.Logger
	// AccessLog adds one record per request, at level Info. NewLogWriter
	// makes that cheap.
	AccessLog bool
	// Registry takes the metrics that /metrics shows; nil makes a new one.
	Registry *prometheus.Registry
}

// The choices of Config.Paths. The whole path of a file on the machine that ran
// add may tell strangers more than they should know; its path inside a package
// is the same on every machine that has the package.
const (
	PathsName = "name" // the base name, but the whole path inside an archive; archives by their base name
	PathsFull = "full" // whole paths, as they were given to add
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
	cfg     Config
	symbols symbols
	closed  bool // not everybody may read everything
	access  slog.Handler
	metrics *metrics
	hot     *hot

	slots   gate // requests under way
	lookups gate // requests in the depot

	// local is set while every listener is on loopback: Host is checked.
	local atomic.Bool
	// stopping is set from the moment that Serve is told to end.
	stopping atomic.Bool
	// waits ends then: requests that wait for something to happen give up.
	waits    context.Context
	endWaits context.CancelFunc
	symcache symCacheState

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu; open connections
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	switch cfg.Paths {
	case "", PathsName, PathsFull, PathsNone:
	default:
		return nil, fmt.Errorf("paths may be shown as %s, %s or %s, not %q", PathsName, PathsFull, PathsNone, cfg.Paths)
	}
	cfg = cfg.withDefaults()
	srv := &Server{cfg: cfg, symbols: cfg.Depot, closed: closed(cfg.Gate), access: slog.DiscardHandler, conns: make(map[*conn]struct{})}
	if cfg.AccessLog {
		srv.access = cfg.Log.Handler()
	}
	srv.waits, srv.endWaits = context.WithCancel(context.Background())
	var err error
	if srv.symcache, err = newSymCacheState(cfg); err != nil {
		return nil, err
	}
	srv.slots = newGate(cfg.MaxConns)
	srv.lookups = newGate(cfg.MaxInFlight)
	srv.hot = newHot(cfg.HotBytes)
	m, err := newMetrics(cfg.Registry, cfg.Version, cfg.Depot)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	srv.metrics = m
	return srv, nil
}

// CheckListen is an error if the configuration does not allow to listen on
// addr, "host:port". It says what would.
func (s *Server) CheckListen(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen on %q: want ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:0", addr)
	}
	if s.cfg.Public || s.closed || strings.EqualFold(host, "localhost") {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsLoopback() {
		return nil
	}
	return notPublic(addr)
}

func notPublic(addr string) error {
	return fmt.Errorf("listening on %s would let every machine that reaches it read all symbols; "+
		"if that is meant, say --public, else listen on 127.0.0.1, or ask for credentials with --auth", addr)
}

// connKey is the key of a request's net.Conn.
type connKey struct{}

// connOf returns a request's connection, or nil.
func connOf(r *http.Request) *conn {
	nc, _ := r.Context().Value(connKey{}).(net.Conn)
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// connContext gives a connection's requests what belongs to the connection.
func (s *Server) connContext(ctx context.Context, nc net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, nc)
	if s.cfg.Gate != nil {
		ctx = s.cfg.Gate.ConnContext(ctx, nc)
	}
	return ctx
}

// protocols are the versions of HTTP that are spoken: version 2 only behind
// TLS, and not where credentials belong to connections.
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

// Serve serves on ln until ctx ends. Then it accepts no more connections,
// answers /readyz with 503, lets running answers finish for up to
// Config.ShutdownGrace and returns nil, or an error if some were cut off.
//
// A listener that other machines reach is refused without Config.Public.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	local := isLoopback(ln.Addr())
	if !local && !s.cfg.Public && !s.closed {
		return errors.Join(notPublic(ln.Addr().String()), ln.Close())
	}
	s.local.Store(local)
	hs := &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            s.cfg.HeaderTimeout,
		IdleTimeout:                  s.cfg.IdleTimeout,
		WriteTimeout:                 s.cfg.Wait + s.cfg.WriteTimeout,
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ConnState:                    connState,
		ConnContext:                  s.connContext,
		Protocols:                    s.protocols(),
		ErrorLog:                     slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
	done := make(chan error, 1)
	go func() {
		if s.cfg.TLS != nil {
			hs.TLSConfig = s.cfg.TLS.Clone()
			done <- hs.ServeTLS(newListener(s, ln), "", "")
			return
		}
		done <- hs.Serve(newListener(s, ln))
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.endWaits()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ShutdownGrace)
	defer cancel()
	stopped := make(chan struct{})
	go func() { s.closeIdle(); close(stopped) }()
	err := hs.Shutdown(grace)
	select {
	case <-stopped:
	case <-grace.Done():
	}
	if err != nil {
		err = fmt.Errorf("answers still running after %v were cut off: %w", s.cfg.ShutdownGrace, err)
		return errors.Join(err, hs.Close())
	}
	return nil
}

// hostAllowed reports whether a request for this Host is answered.
func (s *Server) hostAllowed(host string) bool {
	if !s.local.Load() || host == "" {
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
	if a, err := netip.ParseAddr(name); err == nil && a.Unmap().IsLoopback() {
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
