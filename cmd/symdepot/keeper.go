package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/keeper"
	"github.com/symdepot/symdepot/internal/setup"
	"github.com/symdepot/symdepot/internal/upstream"
)

// serverFlags let a command work on the depot of a server. The environment does not
// name the server: a removal must not go elsewhere unseen.
type serverFlags struct {
	Server    string `help:"Base URL of the server whose depot is used. Default: the depot of this machine." placeholder:"URL"`
	TokenFile string `help:"With --server: file with the token. Default: the environment variable SYMDEPOT_TOKEN." placeholder:"FILE"`
}

// workOn calls fn with a part of the server's depot, or else of the depot, which is
// opened with opt.
func workOn[T any](a *app, f serverFlags, opt depot.Options, remote func(*client.Retention) T, local func(*depot.Depot) T, fn func(T) error) error {
	if f.Server != "" {
		c, err := client.NewRetention(f.Server, f.TokenFile, os.Getenv, upstream.NewDialer(upstream.DialerOptions{}).ClientFor)
		if err != nil {
			return err
		}
		return fn(remote(c))
	}
	opt.MustExist = true
	d, err := a.open(opt)
	if err != nil {
		return err
	}
	defer d.Close()
	return fn(local(d))
}

// keeper calls fn with the retention of the server, or else of the depot, which is
// opened with opt.
func (a *app) keeper(f serverFlags, opt depot.Options, fn func(keeper.Keeper) error) error {
	return workOn(a, f, opt, keeper.OfServer, func(d *depot.Depot) keeper.Keeper { return keeper.Local(d, localUser(), a.quotas) }, fn)
}

// catalog calls fn with what the server's depot holds, or else the depot.
func (a *app) catalog(f serverFlags, fn func(keeper.Catalog) error) error {
	return workOn(a, f, depot.Options{}, keeper.ServerCatalog, keeper.LocalCatalog, fn)
}

// jobs calls fn with the jobs of the server's depot, or else of the depot.
func (a *app) jobs(f serverFlags, fn func(keeper.Jobs) error) error {
	return workOn(a, f, depot.Options{}, keeper.ServerJobs, keeper.LocalJobs, fn)
}

// emptyDepot opens an empty depot, for the time of a command, with the server as its
// only upstream. The function closes it.
func (f serverFlags) emptyDepot(a *app, opt depot.Options) (*depot.Depot, func(), error) {
	p, err := client.NewPusher(f.Server, f.TokenFile, os.Getenv, upstream.NewDialer(upstream.DialerOptions{}).ClientFor)
	if err != nil {
		return nil, nil, err
	}
	spec, err := upstream.SpecOf(f.Server)
	if err != nil {
		return nil, nil, err
	}
	if spec.Credentials.Token, err = p.Token(); err != nil {
		return nil, nil, err
	}
	sources, err := setup.OpenUpstreams(a.ctx, &config.Config{}, []upstream.Spec{spec}, "", nil)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "symdepot-get-")
	if err != nil {
		return nil, nil, errors.Join(err, sources.Close())
	}
	opt.Upstreams = sources.List
	d, err := depot.Open(a.ctx, filepath.Join(dir, "depot"), opt)
	if err != nil {
		return nil, nil, errors.Join(err, sources.Close(), os.RemoveAll(dir))
	}
	return d, func() {
		_ = d.Close()
		_ = sources.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// quotas returns the configured quotas of products. A mistake in the configuration
// does not keep a command from working that only prints them.
func (a *app) quotas() map[string]int64 {
	conf, err := a.config("")
	if err != nil {
		return nil
	}
	list := map[string]int64{}
	for product, n := range conf.Push.Quotas {
		list[product] = int64(n)
	}
	return list
}
