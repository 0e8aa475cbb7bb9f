package main

import (
	"errors"
	"os"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
)

// upstreamFlags say who is asked for what the depot has not.
type upstreamFlags struct {
	Config   string   `help:"Configuration file. Default: SYMDEPOT_CONFIG, or symdepot.yaml here if there is one." placeholder:"FILE"`
	Upstream []string `help:"Ask this server for what the depot has not, and keep what it sends: a preset such as microsoft, or URL[,layout=L][,rank=N]; repeatable." placeholder:"PRESET|URL" sep:"none"`
	FromEnv  bool     `help:"Ask the servers that _NT_SYMBOL_PATH and DEBUGINFOD_URLS name."`
	NoEgress bool     `help:"Connect nowhere, whatever else is said."`
}

// load reads the configuration and puts the flags over it. The depot's folder
// is the command line's if that names one.
func (f upstreamFlags) load(a *app) (*Config, error) {
	conf, err := loadConfig(configPath(f.Config, os.Getenv), os.Getenv)
	if fault := (*configError)(nil); errors.As(err, &fault) {
		return nil, term.UsageError(err.Error())
	}
	if err != nil {
		return nil, err
	}
	for _, text := range f.Upstream {
		var u upstreamEntry
		if err := u.fromText(text); err != nil {
			return nil, term.UsageError("--upstream: " + err.Error())
		}
		conf.Upstreams = append(conf.Upstreams, u)
	}
	conf.FromEnv = conf.FromEnv || f.FromEnv
	conf.NoEgress = conf.NoEgress || f.NoEgress
	if a.depotDir == "" {
		a.depotDir = conf.Depot
	}
	if _, err := conf.specs(); err != nil {
		return nil, term.UsageError(err.Error())
	}
	return conf, nil
}

// open opens the depot with the sources behind it; the function closes both.
func (f upstreamFlags) open(a *app, opt depot.Options) (*depot.Depot, func(), error) {
	conf, err := f.load(a)
	if err != nil {
		return nil, nil, err
	}
	specs, err := conf.specs()
	if err != nil {
		return nil, nil, err
	}
	far, err := conf.open(a.ctx, specs)
	if err != nil {
		return nil, nil, err
	}
	opt.Upstreams, opt.Limits, opt.Lifetimes, opt.Cache = far.far, conf.limits(), conf.lifetimes(), conf.cacheLimits()
	d, err := a.open(opt)
	if err != nil {
		return nil, nil, errors.Join(err, far.Close())
	}
	return d, func() {
		_ = d.Close()
		_ = far.Close()
	}, nil
}
