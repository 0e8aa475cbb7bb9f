// Package worker does jobs of a server: it leases them, runs them with the programs of this
// machine, and uploads the results.
package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Server is a client of one server's job API. URL, Worker, Token and HTTP are
// required. The methods are safe for concurrent use.
type Server struct {
	// URL is the server's base URL.
	URL string
	// Worker is the worker's name, unique among the workers of the server.
	Worker string
	// Token returns the bearer token, or an empty string if HTTP logs in itself. It
	// is called for every request, so that the token can be replaced while the
	// worker runs.
	Token func() (string, error)
	// HTTP sends the requests. Redirects are not followed, because the token is
	// for this server only.
	HTTP *http.Client
	// Log receives failed requests that will be retried; nil discards them.
	Log *slog.Logger
	// Backoff is the pause after the first failure; zero means one second. Each
	// further failure doubles it, up to 60 times the first pause.
	Backoff time.Duration
}

// Job is a job leased to the worker.
type Job = wire.Job

// Errors that are not retried.
var (
	// ErrLeaseLost means that the worker no longer holds the lease of the job.
	ErrLeaseLost = errors.New("the worker no longer holds the lease of the job")
	// ErrJobEnded means that the server has ended the job because its input file
	// cannot be obtained.
	ErrJobEnded = errors.New("the server has ended the job")
)

// statusError is a response with a status other than 2xx.
type statusError struct {
	status int
	text   string
	skew   time.Duration // how far the server's clock is ahead
}

func (e *statusError) Error() string {
	s := "the server answers " + strconv.Itoa(e.status)
	if t := strings.TrimSpace(e.text); t != "" {
		s += ": " + t
	}
	switch e.status {
	case http.StatusUnauthorized:
		s += "; the token is wrong, expired or revoked"
	case http.StatusForbidden:
		s += "; the token does not allow this"
	case http.StatusNotFound:
		s += "; the URL is not that of a symdepot server, or the server accepts no workers"
	}
	if e.skew.Abs() > 2*time.Minute {
		s += "; the server's clock is "
		if e.skew < 0 {
			s += e.skew.Abs().Round(time.Second).String() + " behind this machine's"
		} else {
			s += e.skew.Round(time.Second).String() + " ahead of this machine's"
		}
	}
	return s
}

// Unwrap returns the error for a status that is not retried, else nil.
func (e *statusError) Unwrap() error {
	switch e.status {
	case http.StatusConflict:
		return ErrLeaseLost
	case http.StatusGone:
		return ErrJobEnded
	case http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusBadRequest:
		return endpoint.ErrRefused
	}
	return nil
}

// final reports whether err is not retried.
func final(err error) bool {
	_, local := errors.AsType[*endpoint.LocalError](err)
	return local || errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrJobEnded) || errors.Is(err, endpoint.ErrRefused)
}

// call sends one request. The error is a statusError unless the status is 2xx.
func (s *Server) call(ctx context.Context, method, path string, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	h := http.Header{wire.Worker: {s.Worker}, "User-Agent": {"symdepot-worker"}}
	maps.Copy(h, header)
	resp, err := endpoint.Endpoint{HTTP: s.HTTP, URL: s.URL, Token: s.Token}.Send(ctx, method, wire.JobsPath+path, h, body, size)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	e := &statusError{status: resp.StatusCode, text: endpoint.Printable(string(text))}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		e.skew = time.Until(t)
	}
	if resp.StatusCode/100 == 3 {
		e.text = endpoint.Redirected(resp)
	}
	return nil, e
}

// Try calls do until it succeeds, returns a final error, or ctx ends. what
// names the action in the log.
func (s *Server) Try(ctx context.Context, what string, do func(ctx context.Context) error) error {
	log := s.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	first := cmp.Or(s.Backoff, time.Second)
	said := ""
	for pause := first; ; pause = min(2*pause, 60*first) {
		err := do(ctx)
		switch {
		case err == nil:
			if said != "" {
				log.Info("the server is reachable again", "server", s.URL)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		wait := pause/2 + rand.N(pause) // so that the workers do not retry all at once
		if said != err.Error() || pause == 60*first {
			said = err.Error()
			log.Warn("request to the server failed, retrying", "to", what, "server", s.URL, "in", wait.Round(time.Millisecond), "error", said)
		}
		if err := ctxio.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// postJSON sends body as JSON and decodes the response into v unless v is nil.
func (s *Server) postJSON(ctx context.Context, path string, j *Job, body, v any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	resp, err := s.call(ctx, http.MethodPost, path, leaseHeader(j), bytes.NewReader(b), 0)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || v == nil {
		return err
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("the response is not valid JSON: %w", err)
	}
	return nil
}

// leaseHeader returns the header with the lease of a job; j may be nil.
func leaseHeader(j *Job) http.Header {
	h := http.Header{}
	if j != nil {
		h.Set(wire.Lease, j.Token)
	}
	return h
}

// jobPath returns the path of a request for a job, below wire.JobsPath.
func jobPath(j Job, verb string) string { return strconv.FormatInt(j.ID, 10) + "/" + verb }

// Lease requests up to slots jobs that a worker with these abilities can do. If
// there is no job, the server waits for one for up to wait, in whole seconds.
// It does not retry.
func (s *Server) Lease(ctx context.Context, abilities []wire.Ability, slots int, wait time.Duration) ([]Job, error) {
	var got wire.LeaseAnswer
	err := s.postJSON(ctx, "lease", nil, wire.LeaseRequest{
		Worker: s.Worker, Abilities: abilities, Slots: slots, Wait: int(wait / time.Second),
	}, &got)
	if err == nil && len(got.Jobs) > slots {
		return nil, errors.New("the server returned more jobs than requested")
	}
	for _, j := range got.Jobs {
		if j.ID <= 0 || j.Token == "" || j.Seconds <= 0 {
			return nil, errors.New("the server returned a job without an id, a lease or a lease time")
		}
	}
	return got.Jobs, err
}

// Heartbeat renews the lease of the job. It does not retry.
func (s *Server) Heartbeat(ctx context.Context, j Job) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.Seconds)*time.Second/2)
	defer cancel()
	return s.postJSON(ctx, jobPath(j, "heartbeat"), &j, struct{}{}, nil)
}

// Release returns the job to the server unfinished. It does not retry.
func (s *Server) Release(ctx context.Context, j Job) error {
	return s.postJSON(ctx, jobPath(j, "release"), &j, struct{}{}, nil)
}

// Bye reports that the worker stops. It does not retry.
func (s *Server) Bye(ctx context.Context) error { return s.postJSON(ctx, "bye", nil, struct{}{}, nil) }

// Input downloads the job's input file and replaces the content of f by it. A
// retry starts again from the beginning.
func (s *Server) Input(ctx context.Context, j Job, f *os.File) error {
	return s.Try(ctx, "download the input of a job", func(ctx context.Context) error {
		resp, err := s.call(ctx, http.MethodGet, jobPath(j, wire.InputVerb), leaseHeader(&j), nil, 0)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return &endpoint.LocalError{What: "write the input of a job", Err: err}
		}
		if err := f.Truncate(0); err != nil {
			return &endpoint.LocalError{What: "write the input of a job", Err: err}
		}
		n, err := io.Copy(diskWriter{f}, resp.Body)
		if err == nil && resp.ContentLength >= 0 && n != resp.ContentLength {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// diskWriter makes write errors of the local disk final for the job.
type diskWriter struct{ f *os.File }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	if err != nil {
		err = &endpoint.LocalError{What: "write the input of a job", Err: err}
	}
	return n, err
}

// Complete uploads a result, the file called name. version is that of the tool,
// detail its output.
func (s *Server) Complete(ctx context.Context, j Job, version, name, detail string) error {
	f, err := os.Open(name)
	if err != nil {
		return &endpoint.LocalError{What: "read the result", Err: err}
	}
	defer f.Close()
	ref, size, err := blob.Hash(ctx, f)
	if err != nil {
		return &endpoint.LocalError{What: "read the result", Err: err}
	}
	h := leaseHeader(&j)
	h.Set(wire.Version, version)
	h.Set(wire.SHA256, hex.EncodeToString(ref[:]))
	h.Set(wire.Detail, endpoint.Printable(detail))
	h.Set("Content-Type", "application/octet-stream")
	return s.Try(ctx, "upload a result", func(ctx context.Context) error {
		resp, err := s.call(ctx, http.MethodPost, jobPath(j, "complete"), h, io.NewSectionReader(f, 0, size), size)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Fail reports that a job failed, and why.
func (s *Server) Fail(ctx context.Context, j Job, f Failure) error {
	return s.Try(ctx, "report a failed job", func(ctx context.Context) error {
		return s.postJSON(ctx, jobPath(j, "fail"), &j, wire.Failure{Class: f.Class, Version: f.Version, Detail: f.Detail}, nil)
	})
}

// Failure is the reason why a job failed.
type Failure struct {
	Class   string // as in wire.Failure
	Version string // version of the tool, or empty
	Detail  string // for people, at most 8 KiB
}

func (f Failure) Error() string { return f.Detail }
