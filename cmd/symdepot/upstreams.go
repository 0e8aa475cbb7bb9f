package main

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/upstream"
)

// upstreamFlags say who is asked for what the depot has not.
type upstreamFlags struct {
	Upstream []string `help:"Ask this server for what the depot has not: a preset, or URL[,layout=L][,rank=N]; repeatable." placeholder:"PRESET|URL" sep:"none"`
	NoEgress bool     `help:"Connect nowhere, whatever else is said."`
}

// open opens the depot with the sources behind it; the function closes both.
func (f upstreamFlags) open(a *app, opt depot.Options) (*depot.Depot, func(), error) {
	dialer := upstream.NewDialer(upstream.DialerOptions{NoEgress: f.NoEgress})
	for i, u := range f.Upstream {
		url, rest, _ := strings.Cut(u, ",")
		rest, _, _ = strings.Cut(rest, ",")
		src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: url, URL: url, Layout: strings.TrimPrefix(rest, "layout=")}, dialer)
		if err != nil {
			return nil, nil, err
		}
		opt.Upstreams = append(opt.Upstreams, depot.Upstream{Source: src, Rank: i})
	}
	d, err := a.open(opt)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(opt.Upstreams))
	}
	return d, func() {
		_ = d.Close()
		_ = closeAll(opt.Upstreams)
	}, nil
}

func closeAll(list []depot.Upstream) error {
	var errs []error
	for _, u := range list {
		errs = append(errs, u.Source.Close())
	}
	return errors.Join(errs...)
}
