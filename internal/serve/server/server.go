// Package server answers symbol requests over HTTP, in every protocol that
// debuggers speak. It reads requests and writes responses; the depot finds the
// files.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// Server answers requests from one depot. Its methods may be called by many
// goroutines; Serve may be called once.
type Server struct {
	*access
	routes   *routes
	symcache *symCaches
	conns    *conns
	slots    limit.Semaphore // requests under way
	log      slog.Handler    // of the access log
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
	held := limit.NewSemaphore(max(1, cfg.MaxConns/heldShare))
	refused := metrics.NewRefusals(held, cfg.Log)
	sums := metrics.Usage{Sum: cfg.Depot.Retention.Usage, Quotas: func(ctx context.Context) (map[string]int64, error) {
		return web.Quotas(ctx, cfg.Depot.Stages())
	}}
	m, err := metrics.New(cfg.Version, cfg.Depot, sums, refused)
	if err != nil {
		return nil, err
	}
	a := &access{origins: origins, service: &service{
		cfg: cfg, depot: cfg.Depot, files: cfg.Depot, reads: cfg.Depot.Reads(), ownHop: []string{cfg.ID},
		metrics: m, hot: newHot(cfg.HotBytes),
		lookups: limit.NewSemaphore(cfg.MaxInFlight), searches: limit.NewSemaphore(maxSearches),
	}}
	a.bodies = a.newBodies()
	a.waits, a.endWaits = context.WithCancel(context.Background())
	sc, err := newSymCaches(a, held, refused)
	if err != nil {
		return nil, err
	}
	srv := &Server{
		access: a, routes: newRoutes(a, sc), symcache: sc, inDatabase: cfg.Depot.InDatabase(),
		slots: limit.NewSemaphore(cfg.MaxConns), log: slog.DiscardHandler,
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
	if s.cfg.Public || s.restricted() || strings.EqualFold(host, "localhost") {
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Unmap().IsLoopback() {
		return nil
	}
	return notPublic(addr)
}

// UsePolicy puts a policy of rights in force for all requests that come from now on, and reports
// whether it differs from the one before. One that Serve would refuse is an error, and the one
// before stays.
func (s *Server) UsePolicy(p auth.PolicyConfig) (changed bool, err error) {
	return s.cfg.Gate.UsePolicy(p, func(anonymous auth.Rights) error {
		if anonymous.All && !s.cfg.Public && !s.local.Load() {
			return errNotPublic
		}
		return nil
	})
}

// errNotPublic is the error for rights that open a server that other machines reach.
var errNotPublic = errors.New("the rights of the configuration would let every machine that reaches the server read all symbols; " +
	"set public: true and restart the server to allow that, or auth.demand to require credentials")

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
	return s.cfg.Gate.ConnContext(ctx, nc)
}

// protocols returns the versions of HTTP that the server speaks: version 2 only
// with TLS, and not where credentials belong to connections.
func (s *Server) protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(s.cfg.TLS != nil && s.cfg.Gate.HTTP2())
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
	if !local && !s.cfg.Public && !s.restricted() {
		return errors.Join(notPublic(ln.Addr().String()), ln.Close())
	}
	s.local.Store(local)
	defer s.metrics.Usage.Stop()
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
		err := fmt.Errorf("cut off %d answers that were still running %v after the server was asked to stop", n, s.cfg.ShutdownGrace)
		return errors.Join(err, hs.Close())
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
