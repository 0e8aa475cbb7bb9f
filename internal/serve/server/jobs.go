package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// jobAPI answers workers on other machines below /-/jobs; package wire
// describes the requests.
type jobAPI struct{ *access }

const (
	protocolJobs = "jobs"

	longestPoll   = 30 * time.Second
	maxJobBody    = 64 << 10 // of a body that is no result
	maxWorkerName = 128
	maxSlots      = 256
)

var (
	errJobRequest = errors.New("not a request of the job API")
	errJobRights  = errors.New("this needs the scope write for all products")
	errJobToken   = errors.New("this needs a token for workers")
	errJobMethod  = errors.New("this request of the job API needs a different method")
	errJobBody    = errors.New("the body is too long")
)

// jobErrors are the statuses of the job API beside the common ones.
var jobErrors = []struct {
	is     error
	status int
}{
	{errJobToken, http.StatusUnauthorized},
	{errJobRights, http.StatusForbidden},
	{errJobMethod, http.StatusMethodNotAllowed},
	{errJobBody, http.StatusRequestEntityTooLarge},
	{errJobRequest, http.StatusBadRequest},
	{jobs.ErrBadWorker, http.StatusBadRequest},
	{jobs.ErrLeaseLost, http.StatusConflict},
	{jobs.ErrBadResult, http.StatusUnprocessableEntity},
}

// admit authorizes a request of the job API: by the worker token, or by
// credentials that may write to every product, as jobs do. If the caller may not
// come in, it answers and returns false.
func (s *jobAPI) admit(x *exchange, r *http.Request, p *place) bool {
	x.protocol = protocolJobs
	x.Header()["Cache-Control"] = noStore
	switch {
	case s.cfg.WorkerToken != "" && tokenIs(r, s.cfg.WorkerToken):
		return true
	case s.cfg.WorkerToken == "" && s.cfg.Gate.Off():
		s.fail(x, fs.ErrNotExist)
		return false
	case s.cfg.Gate.Off():
		x.Header().Set("WWW-Authenticate", `Bearer realm="symdepot"`)
		s.fail(x, errJobToken)
		return false
	}
	x.Header().Set("Connection", "close") // the body of a refused request is not read
	if !s.access.admit(x, r, p) {
		return false
	}
	switch {
	case x.caller.rights.WriteAll && !x.caller.id.Exchanged:
		x.Header().Del("Connection")
		return true
	case x.caller.id.Anonymous():
		s.challenge(x, s.cfg.Gate.NewChallenge())
	default:
		s.fail(x, errJobRights)
	}
	return false
}

// serve answers a request of the job API.
func (s *jobAPI) serve(x *exchange, r *http.Request, p *place) {
	if err := s.request(x, r, p.job); err != nil {
		s.fail(x, err)
	}
}

// tokenIs compares a bearer token in constant time.
func tokenIs(r *http.Request, want string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(got))), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, wire.Bearer)
}

// fail answers with the status of an error. Of a wrapped error only the
// class goes into the body: the rest may name files of this machine.
func (s *jobAPI) fail(x *exchange, err error) {
	if f, ok := errors.AsType[jobs.Failure](err); ok {
		s.json(x, http.StatusGone, wire.JobEnded{Class: f.Class, Detail: f.Detail})
		return
	}
	x.Header().Set("Connection", "close") // the rest of a body is not read
	for _, c := range jobErrors {
		if errors.Is(err, c.is) {
			if err != c.is {
				s.cfg.Log.Info("a request of the job API was refused", "error", err)
			}
			s.text(x, c.status, c.is.Error()+"\n")
			return
		}
	}
	s.service.fail(x, err)
}

// request answers or returns an error.
func (s *jobAPI) request(x *exchange, r *http.Request, path []string) error {
	if len(path) == 0 || len(path) > 2 {
		return fs.ErrNotExist
	}
	method, verb := http.MethodPost, path[len(path)-1]
	if verb == wire.InputVerb {
		method = http.MethodGet
	}
	if r.Method != method {
		x.Header().Set("Allow", method)
		return errJobMethod
	}
	if len(path) == 1 {
		switch verb {
		case "lease":
			return s.lease(x, r)
		case "bye":
			if name := r.Header.Get(wire.Worker); name != "" {
				s.depot.Jobs().ForgetWorker(name)
			}
			s.json(x, http.StatusOK, struct{}{})
			return nil
		}
		return fs.ErrNotExist
	}
	l := jobs.Lease{Worker: r.Header.Get(wire.Worker), Token: r.Header.Get(wire.Lease)}
	var err error
	if l.ID, err = strconv.ParseInt(path[0], 10, 64); err != nil || l.ID <= 0 {
		return fs.ErrNotExist
	}
	if l.Worker == "" || l.Token == "" {
		return errJobRequest
	}
	switch verb {
	case "heartbeat":
		d, err := s.depot.Jobs().Renew(r.Context(), l)
		if err != nil {
			return err
		}
		s.json(x, http.StatusOK, map[string]int64{"lease_seconds": seconds(d)})
		return nil
	case wire.InputVerb:
		return s.sendInput(x, r, l)
	case "complete":
		return s.takeResult(x, r, l)
	case "fail":
		return s.takeFailure(x, r, l)
	case "release":
		err = s.depot.Jobs().Release(r.Context(), l)
	default:
		return fs.ErrNotExist
	}
	if err == nil {
		s.json(x, http.StatusOK, struct{}{})
	}
	return err
}

func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }

func (s *jobAPI) lease(x *exchange, r *http.Request) error {
	var q wire.LeaseRequest
	if err := s.readJSON(x, r, &q); err != nil {
		return err
	}
	if q.Worker == "" || len(q.Worker) > maxWorkerName || strings.HasPrefix(q.Worker, jobs.LocalWorker) || q.Slots < 0 ||
		q.Slots > maxSlots || len(q.Abilities) > wire.MaxAbilities {
		return errJobRequest
	}
	worker := jobs.Worker{Name: q.Worker, Slots: q.Slots}
	for _, a := range q.Abilities {
		worker.Abilities = append(worker.Abilities, jobs.Ability(a))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.waits, cancel) // the server stops
	defer stop()
	list, err := s.depot.Jobs().Lease(ctx, worker, min(max(time.Duration(q.Wait)*time.Second, time.Millisecond), longestPoll))
	switch {
	case errors.Is(err, jobs.ErrNoKind):
		kinds := strings.Join(s.depot.Jobs().Kinds(), ", ")
		s.text(x, http.StatusBadRequest,
			"this server has no jobs of the kinds that the worker does; it has jobs of the kind "+kinds+"\n")
		return nil
	case err != nil && s.waits.Err() == nil:
		return err
	}
	a := wire.LeaseAnswer{Jobs: []wire.Job{}}
	for _, j := range list {
		a.Jobs = append(a.Jobs, wire.Job{
			ID: j.ID, Token: j.Token, Kind: j.Kind, Key: j.Key, Variant: j.Variant, Input: j.Input.Message,
			Attempts: j.Attempts, Seconds: seconds(j.For),
		})
	}
	if r.Context().Err() == nil {
		s.json(x, http.StatusOK, a)
	}
	if r.Context().Err() != nil || x.err != nil { // the worker disconnected before it received them
		for _, j := range list {
			_ = s.depot.Jobs().Release(context.WithoutCancel(r.Context()), j.Proof())
		}
	}
	return nil
}

// readJSON reads a short body.
func (s *jobAPI) readJSON(x *exchange, r *http.Request, v any) error {
	from, allow := s.longBody(x, r)
	memory := s.account(s.bodies, x, r)
	defer memory.Free()
	b, err := memory.Read(r.Context(), from, maxJobBody)
	switch {
	case errors.Is(err, body.ErrLong):
		return errJobBody
	case errors.Is(err, body.ErrBusy), errors.Is(err, body.ErrShare): // workers repeat 503
		return limit.ErrBusy
	case err != nil:
		return errJobRequest
	}
	allow(s.cfg.Wait)
	if json.Unmarshal(b, v) != nil {
		return errJobRequest
	}
	return nil
}

// sendInput sends the input file of a job, which may still be downloading.
func (s *jobAPI) sendInput(x *exchange, r *http.Request, l jobs.Lease) error {
	f, err := s.depot.OpenJobInput(r.Context(), l)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s.deliver(x, r, &delivery{
		file: f, modified: true, refusal: noStore,
		header: func(h http.Header, _ *answer.File) { h["Content-Type"] = octetStream },
	})
	return nil
}

// takeResult stores the result of a worker.
func (s *jobAPI) takeResult(x *exchange, r *http.Request, l jobs.Lease) error {
	res := jobs.Result{Version: r.Header.Get(wire.Version), Size: r.ContentLength, Detail: r.Header.Get(wire.Detail)}
	sum, err := hex.DecodeString(r.Header.Get(wire.SHA256))
	if err != nil || len(sum) != len(res.SHA256) || res.Version == "" {
		return errJobRequest
	}
	copy(res.SHA256[:], sum)
	result := &slowReader{r: r.Body, s: s.service, rc: http.NewResponseController(x.w)}
	err = s.depot.Jobs().Complete(r.Context(), l, res, result)
	s.allow(result.rc, 0) // time for the answer
	if err != nil {
		return err
	}
	s.json(x, http.StatusOK, struct{}{})
	return nil
}

func (s *jobAPI) takeFailure(x *exchange, r *http.Request, l jobs.Lease) error {
	var q wire.Failure
	if err := s.readJSON(x, r, &q); err != nil {
		return err
	}
	if err := s.depot.Jobs().Fail(r.Context(), l, jobs.Failure{Class: q.Class, Version: q.Version, Detail: q.Detail}); err != nil {
		return err
	}
	s.json(x, http.StatusOK, struct{}{})
	return nil
}
