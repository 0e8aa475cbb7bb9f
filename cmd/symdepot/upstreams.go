package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/upstream"
)

// upstreamFlags say who is asked for what the depot has not.
type upstreamFlags struct {
	Upstream []string `help:"Ask this server for what the depot has not, and keep what it sends: a preset such as microsoft, or URL[,layout=L][,rank=N]; repeatable." placeholder:"PRESET|URL" sep:"none"`
	FromEnv  bool     `help:"Ask the servers that _NT_SYMBOL_PATH and DEBUGINFOD_URLS name."`
	NoEgress bool     `help:"Connect nowhere, whatever else is said."`
}

// specs are the sources that the flags name. self are our own addresses.
func (f upstreamFlags) specs(self []string) ([]upstream.Spec, error) {
	var list []upstream.Spec
	for _, text := range f.Upstream {
		s, err := upstream.ParseUpstream(text)
		if err != nil {
			return nil, usageError("--upstream: " + err.Error())
		}
		list = append(list, s)
	}
	if f.FromEnv {
		found, _ := upstream.FromEnv(os.Getenv, self)
		list = append(list, found...)
	}
	return list, nil
}

// sources are opened sources with the way out that they share.
type sources struct {
	id   string // what we are called where loops are looked for
	list []*upstream.Guarded
}

// openSources opens the sources, each under a name of its own.
func openSources(a *app, specs []upstream.Spec, noEgress bool) (*sources, error) {
	s := &sources{id: "symdepot-" + strings.ToLower(rand.Text()[:12])}
	dialer := upstream.NewDialer(upstream.DialerOptions{NoEgress: noEgress})
	names := map[string]int{}
	for _, spec := range specs {
		if names[spec.Name]++; names[spec.Name] > 1 {
			spec.Name = fmt.Sprintf("%s#%d", spec.Name, names[spec.Name])
		}
		g, err := spec.Open(a.ctx, upstream.OpenOptions{Dialer: dialer, ServerID: s.id})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.list = append(s.list, g)
	}
	return s, nil
}

// depot are the sources as the depot takes them.
func (s *sources) depot() []depot.Upstream {
	var list []depot.Upstream
	for _, g := range s.list {
		list = append(list, depot.Upstream{Source: g, Rank: g.Rank()})
	}
	return list
}

// Close closes the sources; the depot is closed before.
func (s *sources) Close() error {
	var errs []error
	for _, g := range s.list {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// open opens the depot with the sources behind it; the function closes both.
func (f upstreamFlags) open(a *app, opt depot.Options) (*depot.Depot, func(), error) {
	specs, err := f.specs(nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := openSources(a, specs, f.NoEgress)
	if err != nil {
		return nil, nil, err
	}
	opt.Upstreams = s.depot()
	d, err := a.open(opt)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return d, func() {
		_ = d.Close()
		_ = s.Close()
	}, nil
}
