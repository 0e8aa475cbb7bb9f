package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
)

// The job API, below /-/jobs, is what workers on other machines speak:
//
//	POST lease            up to so many jobs; waits for some
//	POST ID/heartbeat     the worker lives and has the job
//	GET  ID/pdb           the file that the job is about
//	POST ID/complete      the result is the body
//	POST ID/fail          it did not work, and whose fault that is
//	POST ID/release       somebody else may do it
//	POST bye              the worker stops
//
// 409 says that the job is not the worker's any more, 410 that it has failed
// for want of its file, 422 that the body cannot be its result. Whatever else
// is no success is to be tried again.

// workplace is what the job API asks of the depot, if that does jobs.
type workplace interface {
	LeaseWork(ctx context.Context, w depot.WorkerInfo, wait time.Duration) ([]depot.WorkJob, error)
	RenewWork(ctx context.Context, id int64, worker, token string) (time.Duration, error)
	OpenWorkPDB(ctx context.Context, id int64, worker, token string) (*depot.File, error)
	CompleteWork(ctx context.Context, id int64, worker, token string, r depot.WorkResult, body io.Reader) error
	FailWork(ctx context.Context, id int64, worker, token string, f depot.WorkFailure) error
	ReleaseWork(ctx context.Context, id int64, worker, token string) error
	ForgetWorker(name string)
}

// Headers of the job API.
const (
	headerWorker  = "X-Symdepot-Worker"
	headerLease   = "X-Symdepot-Lease"
	headerVersion = "X-Symdepot-Version"
	headerSHA256  = "X-Symdepot-Sha256"
	headerDetail  = "X-Symdepot-Detail"
)

const (
	protocolJobs = "jobs"

	longestPoll    = 30 * time.Second
	mostJobBody    = 64 << 10 // of what is no result
	mostWorkerName = 128
	mostVersions   = 32
	mostSlots      = 256
)

var (
	errJobRequest = errors.New("not a request of the job API")
	errJobRights  = errors.New("this needs the scope write for all products")
	errJobToken   = errors.New("a token for workers is needed")
	errJobMethod  = errors.New("not the method of this request of the job API")
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
	{depot.ErrLeaseLost, http.StatusConflict},
	{depot.ErrBadResult, http.StatusUnprocessableEntity},
}

// jobsPath returns what follows /-/jobs in a path that begins so.
func (s *Server) jobsPath(path string) ([]string, bool) {
	segs, err := layout.Segments(path)
	if err != nil {
		return nil, false
	}
	for _, p := range s.cfg.Prefixes {
		if n := strings.Count(p, "/") + 1; len(segs) > n && strings.EqualFold(strings.Join(segs[:n], "/"), p) && isJobs(segs[n:]) {
			return segs[n+2:], true
		}
	}
	if isJobs(segs) {
		return segs[2:], true
	}
	return nil, false
}

func isJobs(segs []string) bool { return len(segs) >= 2 && segs[0] == "-" && segs[1] == "jobs" }

// jobs answers a request of the job API; path is what follows /-/jobs, token
// what stood in front of it.
func (s *Server) jobs(x *exchange, r *http.Request, token string, path []string) {
	x.protocol = protocolJobs
	x.Header()["Cache-Control"] = []string{"no-store"}
	w, ok := s.symbols.(workplace)
	if !ok || s.cfg.WorkerToken == "" && s.cfg.Gate == nil {
		s.jobFail(x, fs.ErrNotExist)
		return
	}
	if (s.cfg.WorkerToken == "" || !tokenIs(r, s.cfg.WorkerToken)) && !s.mayWork(x, r, token) {
		return
	}
	if err := s.jobRequest(x, r, w, path); err != nil {
		s.jobFail(x, err)
	}
}

// mayWork reports whether who asks may write to every product, as jobs do. If
// not, it answers.
func (s *Server) mayWork(x *exchange, r *http.Request, token string) bool {
	if s.cfg.Gate == nil {
		x.Header().Set("WWW-Authenticate", `Bearer realm="symdepot"`)
		s.jobFail(x, errJobToken)
		return false
	}
	x.Header().Set("Connection", "close") // unless all is well
	if !s.admit(x, r, token) {
		return false
	}
	switch {
	case x.who.rights.WriteAll:
		x.Header().Del("Connection")
		return true
	case x.who.id.Anonymous():
		s.challenge(x, s.cfg.Gate.Ask())
	default:
		s.jobFail(x, errJobRights)
	}
	return false
}

// tokenIs compares in the same time whatever the token is.
func tokenIs(r *http.Request, want string) bool {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(got))), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// jobFail answers with the status of an error, and its text.
func (s *Server) jobFail(x *exchange, err error) {
	if f, ok := errors.AsType[depot.WorkFailure](err); ok {
		s.jobAnswer(x, http.StatusGone, map[string]string{"class": f.Class, "detail": f.Detail})
		return
	}
	x.Header().Set("Connection", "close") // what is left of a body is not read
	for _, c := range jobErrors {
		if errors.Is(err, c.is) {
			s.text(x, c.status, err.Error()+"\n")
			return
		}
	}
	s.fail(x, err)
}

// jobAnswer answers with JSON.
func (s *Server) jobAnswer(x *exchange, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.fail(x, err)
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{itoa(int64(len(b) + 1))}
	x.WriteHeader(status)
	_, x.err = x.Write(append(b, '\n'))
}

// jobRequest answers or returns an error.
func (s *Server) jobRequest(x *exchange, r *http.Request, w workplace, path []string) error {
	if len(path) == 0 || len(path) > 2 {
		return fs.ErrNotExist
	}
	method, verb := http.MethodPost, path[len(path)-1]
	if verb == "pdb" {
		method = http.MethodGet
	}
	if r.Method != method {
		x.Header().Set("Allow", method)
		return errJobMethod
	}
	if len(path) == 1 {
		switch verb {
		case "lease":
			return s.leaseJobs(x, r, w)
		case "bye":
			if name := r.Header.Get(headerWorker); name != "" {
				w.ForgetWorker(name)
			}
			s.jobAnswer(x, http.StatusOK, struct{}{})
			return nil
		}
		return fs.ErrNotExist
	}
	l := lease{worker: r.Header.Get(headerWorker), token: r.Header.Get(headerLease)}
	var err error
	if l.id, err = strconv.ParseInt(path[0], 10, 64); err != nil || l.id <= 0 {
		return fs.ErrNotExist
	}
	if l.worker == "" || l.token == "" {
		return errJobRequest
	}
	switch verb {
	case "heartbeat":
		d, err := w.RenewWork(r.Context(), l.id, l.worker, l.token)
		if err != nil {
			return err
		}
		s.jobAnswer(x, http.StatusOK, map[string]int64{"lease_seconds": seconds(d)})
		return nil
	case "pdb":
		return s.sendPDB(x, r, w, l)
	case "complete":
		return s.takeResult(x, r, w, l)
	case "fail":
		return s.takeFailure(x, r, w, l)
	case "release":
		err = w.ReleaseWork(r.Context(), l.id, l.worker, l.token)
	default:
		return fs.ErrNotExist
	}
	if err == nil {
		s.jobAnswer(x, http.StatusOK, struct{}{})
	}
	return err
}

// lease says whose a job is.
type lease struct {
	id            int64
	worker, token string
}

func seconds(d time.Duration) int64 { return max(1, int64(d/time.Second)) }

// leaseRequest is the body of a lease.
type leaseRequest struct {
	Worker   string   `json:"worker"`
	Versions []string `json:"versions"` // that its transcoders make
	Slots    int      `json:"slots"`    // jobs that it can take now
	Wait     int      `json:"wait_seconds"`
}

// leasedJob is a job in the answer to a lease.
type leasedJob struct {
	ID       int64  `json:"id"`
	Token    string `json:"token"`
	Kind     string `json:"kind"`
	Name     string `json:"name"` // of the PDB
	GUID     string `json:"guid"`
	Age      uint32 `json:"age"`
	Major    int    `json:"major"` // version to make
	Attempts int    `json:"attempts"`
	Lease    int64  `json:"lease_seconds"`
}

func (s *Server) leaseJobs(x *exchange, r *http.Request, w workplace) error {
	var q leaseRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	if q.Worker == "" || len(q.Worker) > mostWorkerName || strings.HasPrefix(q.Worker, "local:") || len(q.Versions) > mostVersions || q.Slots < 0 || q.Slots > mostSlots {
		return errJobRequest
	}
	info := depot.WorkerInfo{Name: q.Worker, Slots: q.Slots, Versions: []symcache.Version{}}
	for _, text := range q.Versions {
		v, err := symcache.ParseVersion(text)
		if err != nil || v.Compare(symcache.First) < 0 {
			return errJobRequest
		}
		info.Versions = append(info.Versions, v)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(s.waits, cancel) // nobody waits for a server that stops
	defer stop()
	list, err := w.LeaseWork(ctx, info, min(max(time.Duration(q.Wait)*time.Second, time.Millisecond), longestPoll))
	if err != nil && s.waits.Err() == nil {
		return err
	}
	jobs := []leasedJob{}
	for _, j := range list {
		jobs = append(jobs, leasedJob{j.ID, j.Token, j.Kind, j.Name, j.Key.ID.GUID.Upper(), j.Key.ID.Age, j.Variant, j.Attempts, seconds(j.Lease)})
	}
	if r.Context().Err() == nil {
		s.jobAnswer(x, http.StatusOK, map[string]any{"jobs": jobs})
	}
	if r.Context().Err() != nil || x.err != nil { // it went away before it heard of them
		for _, j := range list {
			_ = w.ReleaseWork(context.WithoutCancel(r.Context()), j.ID, q.Worker, j.Token)
		}
	}
	return nil
}

// readJSON reads a short body.
func readJSON(r *http.Request, v any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, mostJobBody+1))
	if err != nil {
		return errJobRequest
	}
	if len(b) > mostJobBody {
		return errJobBody
	}
	if json.Unmarshal(b, v) != nil {
		return errJobRequest
	}
	return nil
}

// sendPDB sends the file that a job is about, which may still be arriving.
func (s *Server) sendPDB(x *exchange, r *http.Request, w workplace, l lease) error {
	f, err := w.OpenWorkPDB(r.Context(), l.id, l.worker, l.token)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r.Header.Del("Accept-Encoding") // a worker needs the plain bytes
	s.file(x, r, &layout.Request{Form: layout.FormFile}, f)
	x.Header()["Cache-Control"] = []string{"no-store"}
	return nil
}

// takeResult takes in what a worker made.
func (s *Server) takeResult(x *exchange, r *http.Request, w workplace, l lease) error {
	v, err := symcache.ParseVersion(r.Header.Get(headerVersion))
	if err != nil {
		return errJobRequest
	}
	res := depot.WorkResult{Version: v, Size: r.ContentLength, Detail: r.Header.Get(headerDetail)}
	sum, err := hex.DecodeString(r.Header.Get(headerSHA256))
	if err != nil || len(sum) != len(res.SHA256) {
		return errJobRequest
	}
	copy(res.SHA256[:], sum)
	body := &patient{r: r.Body, s: s, rc: http.NewResponseController(x.w)}
	err = w.CompleteWork(r.Context(), l.id, l.worker, l.token, res, body)
	s.allow(body.rc, 0) // time for the answer
	if err != nil {
		return err
	}
	s.jobAnswer(x, http.StatusOK, struct{}{})
	return nil
}

// patient reads a long body, whose client may take as long as bytes keep coming.
type patient struct {
	r   io.Reader
	s   *Server
	rc  *http.ResponseController
	due int64
}

func (p *patient) Read(b []byte) (int, error) {
	if p.due <= 0 {
		// A writer without deadlines, as in tests, has none to extend.
		_ = p.rc.SetReadDeadline(time.Now().Add(p.s.cfg.WriteTimeout + time.Duration(copyStep/p.s.cfg.MinRate)*time.Second))
		p.s.allow(p.rc, 2*copyStep)
		p.due = copyStep
	}
	n, err := p.r.Read(b)
	p.due -= int64(n)
	return n, err
}

// failRequest is the body of a failure.
type failRequest struct {
	Class   string `json:"class"`
	Version string `json:"version,omitempty"` // of the transcoder
	Detail  string `json:"detail"`
}

// workerClasses are the classes of failures that a worker may tell of.
var workerClasses = map[string]bool{
	"exit": true, "no_output": true, "bad_output": true, "timeout": true, "memory": true, "too_large": true, "bad_source": true, "infra": true,
}

func (s *Server) takeFailure(x *exchange, r *http.Request, w workplace, l lease) error {
	var q failRequest
	if err := readJSON(r, &q); err != nil {
		return err
	}
	f := depot.WorkFailure{Class: q.Class, Detail: q.Detail}
	if !workerClasses[q.Class] {
		return errJobRequest
	}
	if q.Version != "" {
		var err error
		if f.Version, err = symcache.ParseVersion(q.Version); err != nil {
			return errJobRequest
		}
	}
	if err := w.FailWork(r.Context(), l.id, l.worker, l.token, f); err != nil {
		return err
	}
	s.jobAnswer(x, http.StatusOK, struct{}{})
	return nil
}
