package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/daemon"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/importexport"
	"github.com/symdepot/symdepot/internal/intake"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/span"
	"github.com/symdepot/symdepot/internal/web/api"
	"github.com/symdepot/symdepot/internal/web/pages"
)

// running is what a running server needs beside its depot.
type running struct {
	conf    *config.Config
	log     *slog.Logger
	tracer  *span.Tracer
	sources *config.Sources
	reloads func(context.Context, func()) // see daemon.Reloads
}

// run adds files to a depot, and then answers requests from it until it is interrupted.
func (s running) run(a *app, d *depot.Depot, add []string, info txFlags) error {
	conf, log := s.conf, s.log
	watched, closeWatched, err := conf.OpenWatched(a.ctx, d.Watched.Dir(), log)
	defer closeWatched()
	if err != nil {
		return err
	}
	d.Watched.Use(watched)
	d.Sources.UseRelay(conf.SourceRelay())
	guard, err := openGuard(conf, d, log)
	if err != nil {
		return err
	}
	defer guard.Close()
	var listenerTLS *tls.Config
	if guard.tls != nil {
		listenerTLS = guard.tls.Config()
	}
	if len(add) > 0 {
		err := runAdd(a, d, add, importexport.AddOptions{Info: info.info()}, false)
		if err != nil && !errors.Is(err, depot.ErrEmpty) {
			return err
		}
	}
	proxies, err := server.ParseNetworks(conf.Proxies)
	if err != nil {
		return fmt.Errorf("proxies: %w", err)
	}
	uploads, err := intake.New(intake.Config{Stages: d.Stages(), Dir: d.Stages().UploadDir(), Shared: d.Nodes.Shared(), Log: log, Still: server.StillWrites(guard.gate)})
	if err != nil {
		return err
	}
	defer uploads.Close()
	acts := newWeb(d, uploads, guard, log, conf)
	srv, err := server.New(server.Config{
		Depot: d, API: api.New(acts), Pages: pages.New(acts), Uploads: uploads,
		Gate: guard.gate, Audit: guard.audit, Tracer: s.tracer, TLS: listenerTLS,
		ID: s.sources.ID, Log: log, AccessLog: conf.Log.Requests,
		Public: conf.Public, Hosts: conf.Hosts, Origins: conf.Origins, ProxyNetworks: proxies, Prefixes: conf.Prefixes, TwoTier: conf.TwoTier,
		Paths: conf.FilePath, SymCache: conf.SymCacheServer(), Symbols: conf.SymbolsServer(),
	})
	if err != nil {
		return err
	}
	ln, err := daemon.Listen(a.ctx, conf.Listen, func(addr string) error { return asUsage(srv.CheckListen(addr)) })
	if err != nil {
		return err
	}
	printStart(a, conf, ln.Addr(), guard, log)
	g, ctx := errgroup.WithContext(a.ctx)
	g.Go(func() error { return d.Work(ctx) })
	g.Go(func() error { return srv.Serve(ctx, ln) })
	g.Go(func() error { return manage(ctx, conf, guard, s.reloads, log) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
