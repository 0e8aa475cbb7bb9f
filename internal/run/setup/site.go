package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/run/config"
)

// Site is the depot and the configuration that a command line and the environment name.
type Site struct {
	// Depot is the folder or the database of --depot or SYMDEPOT_DEPOT; empty: the
	// configured one, or the platform's folder.
	Depot string
	// Blobs is the bucket of --blobs or SYMDEPOT_DEPOT_BLOBS; empty: the configured or the
	// recorded one.
	Blobs string
	// Note is told what the person at the command line should know.
	Note func(text string)
	// Acts is told as whom a process of root acts; nil: it is not.
	Acts func(text string)

	conf   *config.Config // read already
	opened string         // address of the opened depot
	actsAs string         // see ActsAs
}

// Config reads the configuration once. named is the file of --config; empty: the usual one.
// Faults of the file are errors of usage.
func (s *Site) Config(named string) (*config.Config, error) {
	if s.conf != nil {
		return s.conf, nil
	}
	path := s.ConfigFile(named)
	conf, err := config.Load(path, os.Getenv)
	if fault := (*config.Error)(nil); errors.As(err, &fault) {
		return nil, term.UsageError(err.Error())
	}
	if err != nil {
		return nil, err
	}
	s.conf = conf
	return conf, nil
}

// ConfigFile returns the path of the configuration file, and notes one in the current
// folder, which is not read.
func (s *Site) ConfigFile(named string) string {
	path := config.Find(named, os.Getenv)
	if w := config.IgnoredHere(path); w != "" && s.Note != nil {
		s.Note(w)
	}
	return path
}

// Dir returns the address of the depot. A process of root acts as the owner of the depot's
// folder from then on: see ActAsOwner.
func (s *Site) Dir() (string, error) {
	where, err := s.where()
	if err != nil {
		return "", err
	}
	local := where
	if address.IsDatabase(where) {
		conf, err := s.Config("")
		if err != nil {
			return "", err
		}
		local = conf.Depot.Local
	}
	who, err := ActAsOwner(local)
	if who != "" {
		s.actsAs = who
		if s.Acts != nil {
			s.Acts(fmt.Sprintf("the command acts as the user %s, who owns %s", who, local))
		}
	}
	return where, err
}

// ActsAs returns the user as whom the process acts instead of root; empty: as nobody else.
func (s *Site) ActsAs() string { return s.actsAs }

// where returns the address of the depot.
func (s *Site) where() (string, error) {
	if s.Depot != "" {
		return s.Depot, nil
	}
	conf, err := s.Config("")
	if err != nil {
		return "", err
	}
	dir, err := conf.DepotDir()
	if err != nil {
		return "", term.UsageError(err.Error())
	}
	return dir, nil
}

// Opened returns the address of the depot that was opened, or that could not be; empty: none.
func (s *Site) Opened() string { return s.opened }

// Open opens the depot.
func (s *Site) Open(ctx context.Context, opt depot.Options) (*depot.Depot, error) {
	where, err := s.Dir()
	if err != nil {
		return nil, err
	}
	conf, err := s.configFor(where, opt.MustExist)
	if err != nil {
		return nil, err
	}
	s.opened = where
	var unreadable *fs.PathError
	if err := UseDepot(conf, where, s.bucketOf(conf, where), &opt); errors.As(err, &unreadable) {
		return nil, err
	} else if err != nil {
		return nil, term.UsageError(err.Error())
	}
	opt.Group = cmp.Or(opt.Group, conf.Depot.Group)
	return depot.Open(ctx, where, opt)
}

// bucketOf returns the bucket that a depot is to have; empty: the recorded one.
func (s *Site) bucketOf(conf *config.Config, where string) string {
	if s.Blobs == "" && where == conf.Depot.Dir {
		return conf.Depot.Blobs
	}
	return s.Blobs
}

// configFor returns the configuration for opening a depot. An existing one in a folder is
// opened without reading the file, so that a mistake there does not keep a command from
// working.
func (s *Site) configFor(where string, mustExist bool) (*config.Config, error) {
	_, err := os.Stat(where)
	recorded, rerr := home.BucketOf(where)
	inFolder := rerr == nil && recorded == "" && s.Blobs == ""
	if s.conf == nil && inFolder && (err == nil || mustExist && !strings.Contains(where, "://")) {
		return config.Default(), nil
	}
	return s.Config("")
}

// OpenFor opens the depot for adding files. A dry run makes no depot: it gets nil if there
// is none.
func (s *Site) OpenFor(ctx context.Context, dryRun bool) (*depot.Depot, error) {
	conf, err := s.Config("")
	if err != nil {
		return nil, err // its rules say what may be added
	}
	d, err := s.Open(ctx, depot.Options{MustExist: dryRun, Probe: !dryRun, Links: LinkRules(conf)})
	if dryRun && errors.Is(err, home.ErrNoDepot) {
		return nil, nil
	}
	return d, err
}

// OnDisk returns the folder of the depot. One in a database or with a bucket is refused with
// backup.ErrOnDiskOnly.
func (s *Site) OnDisk() (string, error) {
	where, err := s.Dir()
	if err != nil {
		return "", err
	}
	conf, err := s.configFor(where, true)
	if err != nil {
		return "", err
	}
	if err := config.CheckDepot(where); err != nil {
		return "", term.UsageError(err.Error())
	}
	recorded, err := home.BucketOf(where)
	if err != nil {
		return "", err
	}
	if address.IsDatabase(where) || recorded != "" || s.bucketOf(conf, where) != "" {
		return "", fmt.Errorf("depot %s: %w", engine.Name(where), backup.ErrOnDiskOnly)
	}
	return where, nil
}

// OpenWith opens the depot with the upstreams of a configuration. The function closes both.
func (s *Site) OpenWith(ctx context.Context, conf *config.Config, opt depot.Options) (*depot.Depot, func(), error) {
	specs, err := conf.Specs()
	if err != nil {
		return nil, nil, err
	}
	sources, err := OpenUpstreams(ctx, conf, specs, "", nil)
	if err != nil {
		return nil, nil, err
	}
	opt.Upstreams, opt.Limits, opt.Lifetimes, opt.Cache = sources.List, Limits(), Lifetimes(conf), CacheLimits(conf)
	d, err := s.Open(ctx, opt)
	if err != nil {
		return nil, nil, errors.Join(err, sources.Close())
	}
	return d, func() {
		_ = d.Close()
		_ = sources.Close()
	}, nil
}
