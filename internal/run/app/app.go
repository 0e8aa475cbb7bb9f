// Package app is the serving program: it builds the depot, the gate, the API and the server
// from a configuration, and runs them until they are told to stop. Commands add flags, and
// print.
package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/daemon"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/server"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
	"github.com/symdepot/symdepot/internal/serve/web/pages"
)

// Options say what is served.
type Options struct {
	Site    *setup.Site
	Config  *config.Config
	Specs   []upstream.Spec // the upstreams
	Limits  depot.Limits    // of downloads
	Version string          // of the program
	Stderr  io.Writer       // receives the log
	// Fill adds files to the depot before anybody is answered; nil: nothing is added.
	Fill func(ctx context.Context, d *depot.Depot) error
	// Listen opens the listener; nil: the address of the configuration, or the socket that the
	// service manager has passed.
	Listen func(ctx context.Context) (net.Listener, error)
	// Started is called when the server listens, with what it has to say of itself.
	Started func(Address)
}

// Address is where a server listens, and how.
type Address struct {
	Addr net.Addr
	TLS  bool
	// Open means that everybody may read everything.
	Open bool
}

// URL is the base URL under which a program of this machine reaches the server.
func (a Address) URL() string {
	base := server.BaseURL(a.Addr)
	if a.TLS {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	return base
}

// Serve answers requests until ctx ends.
func Serve(ctx context.Context, opt Options) error {
	defer daemon.EndAtSecond(ctx)()
	reloads := daemon.Reloads()
	// The heap of a file server is small: collect it early rather than let it grow with the load.
	setup.CollectAt(50, 16<<20)
	logs := server.NewLogWriter(opt.Stderr)
	defer logs.Close()
	s := &program{Options: opt, reloads: reloads}
	s.inForce.Store(opt.Config)
	if format := opt.Config.Log.Format; format == "auto" && term.IsTerminal(opt.Stderr) {
		s.terminal = server.NewTerminalLog(logs)
		s.log = slog.New(s.terminal)
	} else {
		s.log = setup.Logger(format, opt.Stderr, logs)
	}
	for _, w := range opt.Config.Warnings(opt.Specs) {
		s.log.Warn(w)
	}
	defer s.close()
	if err := s.openDepot(ctx); err != nil {
		return err
	}
	s.Site.LogActs(s.log)
	return s.run(ctx)
}

// program is a running server with its parts.
type program struct {
	Options
	log       *slog.Logger
	terminal  *server.TerminalLog           // the log, if a person reads it; else nil
	reloads   func(context.Context, func()) // see daemon.Reloads
	depot     *depot.Depot
	tracer    *span.Tracer
	upstreams *setup.Upstreams
	inForce   atomic.Pointer[config.Config] // with the rights that were read last
	closers   []func()                      // called in reverse order
}

// then notes what is to be done at the end, before everything noted earlier.
func (s *program) then(closer func()) { s.closers = append(s.closers, closer) }

// close closes the parts.
func (s *program) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// openDepot opens the depot with all that it reads from and asks.
func (s *program) openDepot(ctx context.Context) error {
	conf := s.Config
	stores, err := setup.OpenStores(ctx, conf)
	s.then(func() {
		for _, f := range stores {
			_ = f.Close()
		}
	})
	if err != nil {
		return err
	}
	dir, err := s.Site.Dir()
	if err != nil {
		return err
	}
	shared := ""
	if address.IsDatabase(dir) {
		shared = dir + "\n" + cmp.Or(s.Site.Blobs, conf.Depot.Blobs)
	}
	records, err := setup.Records(conf)
	if err != nil {
		return err
	}
	records.Index = records.Refs && len(stores) == 0
	if s.tracer, err = setup.OpenTracer(conf, s.Version, s.log); err != nil {
		return err
	}
	s.then(func() { _ = s.tracer.Close() })
	if s.upstreams, err = setup.OpenUpstreams(ctx, conf, s.Specs, shared, s.tracer); err != nil {
		return err
	}
	s.then(func() { _ = s.upstreams.Close() })
	transcode, endTranscode, err := setup.OpenTranscoders(ctx, conf, filepath.Join(dir, ".scratch"), s.log)
	if err != nil {
		return err
	}
	s.then(endTranscode)
	nodes, err := setup.ListenForPeers(ctx, conf)
	if err != nil {
		return err
	}
	opt := setup.DepotOptions(conf)
	opt.Probe, opt.Tracer, opt.Log, opt.Nodes, opt.Transcode = true, s.tracer, s.log, nodes, transcode
	opt.Limits = s.Limits
	opt.Records, opt.Sources, opt.Upstreams = records, stores, s.upstreams.List
	if s.depot, err = s.Site.Open(ctx, opt); err != nil {
		if nodes.Listener != nil {
			_ = nodes.Listener.Close()
		}
		return err
	}
	s.then(func() { _ = s.depot.Close() })
	return s.useFolders(ctx)
}

// useFolders lets the depot search the watched folders, and fetch source files.
func (s *program) useFolders(ctx context.Context) error {
	watched, closeWatched, err := setup.OpenWatched(ctx, s.Config, s.depot.Watched.Dir(), s.log)
	s.then(closeWatched)
	if err != nil {
		return err
	}
	s.depot.Watched.Use(watched)
	s.depot.Sources.UseRelay(setup.SourceRelay(s.Config))
	return nil
}

// run adds files to the depot, and then answers requests from it.
func (s *program) run(ctx context.Context) error {
	conf, d := s.Config, s.depot
	guard, err := openGuard(conf, d, s.log)
	if err != nil {
		return err
	}
	s.then(func() { _ = guard.Close() })
	if s.Fill != nil {
		if err := s.Fill(ctx, d); err != nil && !errors.Is(err, depot.ErrEmpty) {
			return err
		}
	}
	uploads, err := intake.New(intake.Config{
		Stages: d.Stages(), Dir: d.Stages().UploadDir(), Shared: d.Nodes.Shared(), Log: s.log, Still: server.StillWrites(guard.gate),
	})
	if err != nil {
		return err
	}
	s.then(func() { _ = uploads.Close() })
	srv, err := server.New(s.serverConfig(guard, uploads))
	if err != nil {
		return err
	}
	ln, err := s.listen(ctx, srv)
	if err != nil {
		return err
	}
	_, open := guard.gate.Open()
	at := Address{Addr: ln.Addr(), TLS: guard.tls != nil, Open: open}
	if s.terminal != nil {
		s.terminal.ServedAt(at.URL())
	}
	s.Started(at)
	if len(conf.Stores) == 0 {
		s.tellImported(ctx)
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !open && guard.tls == nil && !tcp.IP.IsLoopback() {
		s.log.Warn("credentials are sent over plain HTTP, which anybody on the network path can read; " +
			"set a certificate (tls), or put a TLS proxy in front")
	}
	started := time.AfterFunc(startTime, func() {
		if err := setup.Release(); err != nil {
			s.log.Debug("memory of the start stays resident", "error", err)
		}
	})
	defer started.Stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.Work(ctx) })
	g.Go(func() error { return srv.Serve(ctx, ln) })
	g.Go(func() error { return s.manage(ctx, guard, srv) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// startTime is how long after it listens a server has set up everything that a start sets up.
const startTime = 5 * time.Second

// listen opens the listener.
func (s *program) listen(ctx context.Context, srv *server.Server) (net.Listener, error) {
	if s.Listen != nil {
		return s.Listen(ctx)
	}
	return daemon.Listen(ctx, s.Config.Listen, func(addr string) error {
		if err := srv.CheckListen(addr); err != nil {
			return term.UsageError(err.Error())
		}
		return nil
	})
}

// tellImported says of shares that were imported, and are not served themselves, how their newer
// builds get here.
func (s *program) tellImported(ctx context.Context) {
	list, err := s.depot.Imported(ctx)
	switch {
	case ctx.Err() != nil: // the server ends
	case err != nil:
		s.log.Warn("cannot list the shares that were imported", "error", err)
	case len(list) > 0:
		s.log.Info("the server has the builds that were imported from " + strings.Join(list, ", ") + "; builds that came there later " +
			"are served after another symdepot import, or with --store")
	}
}

// serverConfig returns the configuration of the server.
func (s *program) serverConfig(guard *guard, uploads *intake.Handler) server.Config {
	conf, d := s.Config, s.depot
	var listenerTLS *tls.Config
	if guard.tls != nil {
		listenerTLS = guard.tls.Config()
	}
	acts := s.acts(guard, uploads)
	return server.Config{
		Depot: d, Gate: guard.gate, Audit: guard.audit, TLS: listenerTLS,
		API: api.New(acts), Pages: pages.New(acts), Uploads: uploads,
		ID: s.upstreams.ID, Log: s.log, Tracer: s.tracer, AccessLog: conf.Log.Requests,
		Public: conf.Public, OnlyPublic: conf.Audience == web.AudiencePublic,
		Hosts: conf.Hosts, Origins: conf.Origins, ProxyNetworks: conf.ProxyNetworks(),
		Prefixes: conf.Prefixes, TwoTier: conf.TwoTier, Paths: conf.FilePath,
		SymCache: symCacheConfig(conf), Symbols: symbolsConfig(conf),
	}
}

// acts returns what the API and the pages below /-/ do.
func (s *program) acts(g *guard, uploads *intake.Handler) *web.Acts {
	conf, d := s.Config, s.depot
	symcache := symCacheConfig(conf)
	c := web.Config{
		Version: s.Version, BaseURL: conf.BaseURL, Log: s.log,
		Gate: g.gate, SignIns: g.gate, Tokens: setup.TokensOf(d), Audit: g.audit,
		Forms: uploads, Scratch: d.Stages().UploadDir(),
		Tracing: web.Tracing{Prefixes: conf.Prefixes, HexAge: symcache.HexAge, Redirect: symcache.Redirect, Gate: g.gate},
		Facts:   aboutServer(d, s.inForce.Load, g), Makes: d.Symbols.Makes(),
	}
	c.Use(d)
	return web.New(c)
}
