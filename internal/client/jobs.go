// Package client speaks the API of a symdepot server.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/wire"
)

// Server is a server as a worker sees it. URL, Worker and Token must be there.
// Its methods may be called by many goroutines.
type Server struct {
	// URL is the server's base URL.
	URL string
	// Worker is the name under which the worker is known; no two may share one.
	Worker string
	// Token returns the token to show. It is called anew for every request, so
	// that a new one can be put into place.
	Token func() (string, error)
	// HTTP sends requests. Redirects are not followed: the token is for this
	// server only.
	HTTP *http.Client
	// Log says what is waited for; nil discards.
	Log *slog.Logger
	// Backoff is the first pause after a failure, zero is a second; each next
	// one is twice as long, up to sixty times.
	Backoff time.Duration
}

// Job is a job that is leased to the worker.
type Job = wire.Job

// Errors that end the retries.
var (
	// ErrLost says that the job is not the worker's any more.
	ErrLost = errors.New("the job is not ours any more")
	// ErrGone says that the server has ended the job: its PDB cannot be had.
	ErrGone = errors.New("the server has ended the job")
	// ErrRefused says that the server will never take this.
	ErrRefused = errors.New("the server refuses it")
)

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
	skew   time.Duration // by which the server's clock is ahead
}

func (e *statusError) Error() string {
	s := "the server says " + strconv.Itoa(e.status)
	if t := strings.TrimSpace(e.text); t != "" {
		s += ": " + t
	}
	switch e.status {
	case http.StatusUnauthorized:
		s += "; the token is wrong, expired or revoked"
	case http.StatusForbidden:
		s += "; the token does not allow this"
	case http.StatusNotFound:
		s += "; either that is no symdepot server, or it lets no workers in"
	}
	if e.skew.Abs() > 2*time.Minute {
		s += fmt.Sprintf("; its clock is %s ahead of this machine's", e.skew.Round(time.Second))
	}
	return s
}

// Unwrap makes the statuses that are final one of the errors above.
func (e *statusError) Unwrap() error {
	switch e.status {
	case http.StatusConflict:
		return ErrLost
	case http.StatusGone:
		return ErrGone
	case http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusBadRequest:
		return ErrRefused
	}
	return nil
}

// final reports whether it is no use to try again.
func final(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrGone) || errors.Is(err, ErrRefused)
}

// call sends one request and returns the answer of a success.
func (s *Server) call(ctx context.Context, method, path string, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	base, err := url.Parse(strings.TrimRight(s.URL, "/"))
	if err != nil {
		return nil, err
	}
	token, err := s.Token()
	if err != nil {
		return nil, fmt.Errorf("the token cannot be read: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, base.String()+wire.JobsPath+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if size > 0 {
		req.ContentLength = size
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	req.Header.Set(wire.Worker, s.Worker)
	req.Header.Set("User-Agent", "symdepot-worker")
	direct := *s.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := direct.Do(req)
	if err != nil {
		return nil, describe(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	e := &statusError{status: resp.StatusCode, text: printable(string(text))}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		e.skew = time.Until(t)
	}
	if resp.StatusCode/100 == 3 {
		e.text = "it redirects to " + printable(resp.Header.Get("Location")) + "; give that address to --server if it is right"
	}
	return nil, e
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\ufffd' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
}

// describe adds what may help to errors of the network.
func describe(err error) error {
	if inv, ok := errors.AsType[x509.CertificateInvalidError](err); ok && inv.Reason == x509.Expired {
		return fmt.Errorf("%w; look at this machine's clock, it is %s", err, time.Now().Format(time.RFC3339))
	}
	return err
}

// Try calls do until it succeeds, fails for good, or ctx ends. It says in the
// log what it waits for.
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
				log.Info("the server answers again", "server", s.URL)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err):
			return err
		}
		wait := pause/2 + rand.N(pause) // so that not all workers come back at once
		if said != err.Error() || pause == 60*first {
			said = err.Error()
			log.Warn("waiting for the server, will try again", "to", what, "server", s.URL, "in", wait.Round(time.Millisecond), "error", said)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// postJSON sends a short request and reads a short answer into v, if not nil.
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
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}

// leaseHeader returns the header that shows the lease of a job; j may be nil.
func leaseHeader(j *Job) http.Header {
	h := http.Header{}
	if j != nil {
		h.Set(wire.Lease, j.Token)
	}
	return h
}

// jobPath returns the path of a request about a job.
func jobPath(j Job, verb string) string { return strconv.FormatInt(j.ID, 10) + "/" + verb }

// Lease asks for up to slots jobs for transcoders of these versions, and waits
// for some for up to wait. One try.
func (s *Server) Lease(ctx context.Context, versions []string, slots int, wait time.Duration) ([]Job, error) {
	var got wire.LeaseAnswer
	err := s.postJSON(ctx, "lease", nil, wire.LeaseRequest{Worker: s.Worker, Versions: versions, Slots: slots, Wait: int(wait / time.Second)}, &got)
	if err == nil && len(got.Jobs) > slots {
		return nil, errors.New("the server gave more jobs than were asked for")
	}
	for _, j := range got.Jobs {
		if j.ID <= 0 || j.Token == "" || j.Seconds <= 0 {
			return nil, errors.New("the server gave a job that is none")
		}
	}
	return got.Jobs, err
}

// Heartbeat says that the worker has the job. One try.
func (s *Server) Heartbeat(ctx context.Context, j Job) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.Seconds)*time.Second/2)
	defer cancel()
	return s.postJSON(ctx, jobPath(j, "heartbeat"), &j, struct{}{}, nil)
}

// Release gives a job back. One try.
func (s *Server) Release(ctx context.Context, j Job) error {
	return s.postJSON(ctx, jobPath(j, "release"), &j, struct{}{}, nil)
}

// Bye says that the worker stops. One try.
func (s *Server) Bye(ctx context.Context) error { return s.postJSON(ctx, "bye", nil, struct{}{}, nil) }

// PDB writes the job's PDB to f, from its beginning, until all of it is there.
func (s *Server) PDB(ctx context.Context, j Job, f *os.File) error {
	return s.Try(ctx, "get a PDB", func(ctx context.Context) error {
		resp, err := s.call(ctx, http.MethodGet, jobPath(j, "pdb"), leaseHeader(&j), nil, 0)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return errors.Join(ErrRefused, err)
		}
		if err := f.Truncate(0); err != nil {
			return errors.Join(ErrRefused, err)
		}
		n, err := io.Copy(diskWriter{f}, resp.Body)
		if err == nil && resp.ContentLength >= 0 && n != resp.ContentLength {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// diskWriter makes failures of our own disk final for this job.
type diskWriter struct{ f *os.File }

func (d diskWriter) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	if err != nil {
		err = &diskError{err}
	}
	return n, err
}

// diskError is a failure of this machine's disk.
type diskError struct{ err error }

func (e *diskError) Error() string        { return "this machine's disk: " + e.err.Error() }
func (e *diskError) Unwrap() error        { return e.err }
func (e *diskError) Is(target error) bool { return target == ErrRefused }

// Complete delivers a result, the file of that name.
func (s *Server) Complete(ctx context.Context, j Job, version, name, detail string) error {
	f, err := os.Open(name)
	if err != nil {
		return errors.Join(ErrRefused, err)
	}
	defer f.Close()
	ref, size, err := blob.Hash(ctx, f)
	if err != nil {
		return errors.Join(ErrRefused, err)
	}
	h := leaseHeader(&j)
	h.Set(wire.Version, version)
	h.Set(wire.SHA256, hex.EncodeToString(ref[:]))
	h.Set(wire.Detail, printable(detail))
	h.Set("Content-Type", "application/octet-stream")
	return s.Try(ctx, "deliver a result", func(ctx context.Context) error {
		resp, err := s.call(ctx, http.MethodPost, jobPath(j, "complete"), h, io.NewSectionReader(f, 0, size), size)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Fail tells why a job failed.
func (s *Server) Fail(ctx context.Context, j Job, f Failure) error {
	return s.Try(ctx, "tell of a failure", func(ctx context.Context) error {
		return s.postJSON(ctx, jobPath(j, "fail"), &j, wire.Failure{Class: f.Class, Version: f.Version, Detail: f.Detail}, nil)
	})
}

// Failure says why a job failed.
type Failure struct {
	Class   string // whose fault it is, as the server's API has it
	Version string // of the transcoder, or empty
	Detail  string // for people, at most 8 KiB
}

func (f Failure) Error() string { return f.Detail }
