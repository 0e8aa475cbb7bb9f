package keeper

import (
	"context"
	"io/fs"
	"net/url"
	"strconv"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/jobs"
	"github.com/symdepot/symdepot/internal/wire"
)

// Jobs are the background jobs of a depot or of a server.
type Jobs interface {
	// List calls each for jobs, newest first.
	List(ctx context.Context, f jobs.Filter, each func(jobs.Shown) error) error
	Stats(ctx context.Context) ([]jobs.Stats, error)
	// Cancel ends a job, and reports whether it had not ended. An unknown one is
	// fs.ErrNotExist.
	Cancel(ctx context.Context, id int64) (bool, error)
	// Retry runs a job that has ended again, and returns the number of the new one; that of a
	// job that has not ended is its own. An unknown one is fs.ErrNotExist.
	Retry(ctx context.Context, id int64) (int64, error)
}

// LocalJobs returns the jobs of a depot.
func LocalJobs(d *depot.Depot) Jobs { return localJobs{d.Jobs()} }

type localJobs struct{ *jobs.Queue }

func (k localJobs) List(ctx context.Context, f jobs.Filter, each func(jobs.Shown) error) error {
	list, err := k.Queue.List(ctx, f)
	if err != nil {
		return err
	}
	for _, j := range list {
		if err := each(jobs.Show(j)); err != nil {
			return err
		}
	}
	return nil
}

// ServerJobs returns the jobs of a server.
func ServerJobs(c *client.Retention) Jobs { return serverJobs{c} }

type serverJobs struct{ c *client.Retention }

func (k serverJobs) List(ctx context.Context, f jobs.Filter, each func(jobs.Shown) error) error {
	q := url.Values{}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	_, err := pages(ctx, k.c, wire.JobsListPath, q, f.Limit, each)
	return err
}

func (k serverJobs) Stats(ctx context.Context) ([]jobs.Stats, error) {
	a, err := ask[struct {
		Items []jobs.Stats `json:"items"`
	}](nil, func(into any) error { return k.c.Get(ctx, wire.JobsListPath+"/stats", nil, into) })
	return a.Items, err
}

func (k serverJobs) Cancel(ctx context.Context, id int64) (bool, error) {
	j, err := k.job(ctx, id)
	if err != nil || j.State != jobs.Queued && j.State != jobs.Running {
		return false, err
	}
	_, err = ask[jobs.Shown](fs.ErrNotExist, func(into any) error { return k.c.Post(ctx, k.path(id)+"/cancel", nil, into) })
	return err == nil, err
}

func (k serverJobs) Retry(ctx context.Context, id int64) (int64, error) {
	j, err := k.job(ctx, id)
	if err != nil || j.State == jobs.Queued || j.State == jobs.Running {
		return id, err
	}
	j, err = ask[jobs.Shown](fs.ErrNotExist, func(into any) error { return k.c.Post(ctx, k.path(id)+"/retry", nil, into) })
	return j.ID, err
}

func (k serverJobs) path(id int64) string { return wire.JobsListPath + "/" + strconv.FormatInt(id, 10) }

func (k serverJobs) job(ctx context.Context, id int64) (jobs.Shown, error) {
	return ask[jobs.Shown](fs.ErrNotExist, func(into any) error { return k.c.Get(ctx, k.path(id), nil, into) })
}
