package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/config"
)

// upstreamFlags name the upstreams of a command.
type upstreamFlags struct {
	Config   string   `help:"text:upstream_config" placeholder:"FILE"`
	Upstream []string `help:"text:upstream_upstream" placeholder:"PRESET|URL" sep:"none"`
	FromEnv  bool     `help:"Use the servers of _NT_SYMBOL_PATH and DEBUGINFOD_URLS as upstreams." more:""`
	NoEgress bool     `help:"Make no outgoing connection, whatever else is configured." more:""`
}

// load reads the configuration and applies the flags.
func (f upstreamFlags) load(a *session) (*config.Config, error) {
	conf, err := a.config(f.Config)
	if err != nil {
		return nil, err
	}
	for _, text := range f.Upstream {
		if err := conf.AddUpstream(text); err != nil {
			return nil, term.UsageError("--upstream: " + err.Error())
		}
	}
	conf.FromEnv = conf.FromEnv || f.FromEnv
	conf.NoEgress = conf.NoEgress || f.NoEgress
	if _, err := conf.Specs(); err != nil {
		return nil, term.UsageError(err.Error())
	}
	return conf, nil
}

// open opens the depot with its upstreams. The function closes both.
func (f upstreamFlags) open(a *session, opt depot.Options) (*depot.Depot, func(), error) {
	conf, err := f.load(a)
	if err != nil {
		return nil, nil, err
	}
	return a.site.OpenWith(a.Ctx, conf, opt)
}

// openAny opens the depot with its upstreams, or an empty one with them if there is none: see setup.Site.OpenAny.
func (f upstreamFlags) openAny(a *session, opt depot.Options) (*depot.Depot, func(), error) {
	conf, err := f.load(a)
	if err != nil {
		return nil, nil, err
	}
	return a.site.OpenAny(a.Ctx, conf, opt)
}
