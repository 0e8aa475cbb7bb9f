package client

import (
	"context"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// Jobs calls each for background jobs, newest first.
func (a *API) Jobs(ctx context.Context, f jobs.Filter, each func(jobs.Shown) error) error {
	q := url.Values{}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	_, err := list(ctx, a, wire.JobsListPath, q, f.Limit, each)
	return err
}

// JobStats returns how many jobs wait, run and have ended.
func (a *API) JobStats(ctx context.Context) ([]jobs.Stats, error) {
	s, err := call[struct {
		Items []jobs.Stats `json:"items"`
	}](ctx, a, request{method: http.MethodGet, path: wire.JobsListPath + "/stats"})
	return s.Items, err
}

// job returns a job.
func (a *API) job(ctx context.Context, id int64) (jobs.Shown, error) {
	return get[jobs.Shown](ctx, a, numbered(wire.JobsListPath, id), nil)
}

// act carries out an act on a job, and returns it as it is then.
func (a *API) act(ctx context.Context, id int64, act string) (jobs.Shown, error) {
	path := numbered(wire.JobsListPath, id) + "/" + act
	return call[jobs.Shown](ctx, a, request{method: http.MethodPost, path: path, missing: fs.ErrNotExist})
}

// CancelJob ends a job, and reports whether it had not ended.
func (a *API) CancelJob(ctx context.Context, id int64) (bool, error) {
	j, err := a.job(ctx, id)
	if err != nil || j.State != jobs.Queued && j.State != jobs.Running {
		return false, err
	}
	_, err = a.act(ctx, id, "cancel")
	return err == nil, err
}

// RetryJob runs a job that has ended again, and returns the number of the new one; that of a
// job that has not ended is its own.
func (a *API) RetryJob(ctx context.Context, id int64) (int64, error) {
	j, err := a.job(ctx, id)
	if err != nil || j.State == jobs.Queued || j.State == jobs.Running {
		return id, err
	}
	j, err = a.act(ctx, id, "retry")
	return j.ID, err
}
