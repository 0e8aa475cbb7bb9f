package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
)

// Temporary opens an empty depot for the time of a command. The function closes and deletes it.
func Temporary(ctx context.Context, opt depot.Options) (*depot.Depot, func(), error) {
	return inTemporary(func(dir string) (*depot.Depot, func(), error) {
		d, err := depot.Open(ctx, dir, opt)
		return d, func() { _ = d.Close() }, err
	})
}

// TemporaryWith is Temporary with one upstream.
func TemporaryWith(ctx context.Context, spec upstream.Spec, opt depot.Options) (*depot.Depot, func(), error) {
	sources, err := OpenUpstreams(ctx, &config.Config{}, []upstream.Spec{spec}, "", nil)
	if err != nil {
		return nil, nil, err
	}
	opt.Upstreams = sources.List
	d, done, err := Temporary(ctx, opt)
	if err != nil {
		return nil, nil, errors.Join(err, sources.Close())
	}
	return d, func() {
		done()
		_ = sources.Close()
	}, nil
}

// OpenAny opens the depot with the upstreams of a configuration, as OpenWith. If nobody has named a depot, and there is
// none in the usual folder, it opens an empty one with these upstreams, for the time of the command, and notes that.
func (s *Site) OpenAny(ctx context.Context, conf *config.Config, opt depot.Options) (*depot.Depot, func(), error) {
	opt.MustExist = true
	d, done, err := s.OpenWith(ctx, conf, opt)
	if named := s.Depot != "" || s.Blobs != "" || conf.Depot.Dir != ""; named || !errors.Is(err, home.ErrNoDepot) {
		return d, done, err
	}
	if s.Note != nil {
		s.Note("there is no depot on this machine: names come from --symbols DIR, --server URL or --upstream URL")
	}
	return inTemporary(func(dir string) (*depot.Depot, func(), error) {
		s.Depot, opt.MustExist = dir, false
		return s.OpenWith(ctx, conf, opt)
	})
}

// inTemporary calls open with a new folder for a depot. The function closes the depot and deletes the folder.
func inTemporary(open func(dir string) (*depot.Depot, func(), error)) (*depot.Depot, func(), error) {
	dir, err := os.MkdirTemp("", "symdepot-")
	if err != nil {
		return nil, nil, err
	}
	d, done, err := open(filepath.Join(dir, "depot"))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return d, func() {
		done()
		_ = os.RemoveAll(dir)
	}, nil
}
