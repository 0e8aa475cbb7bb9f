package intake

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/depot/stage"
)

// service is what all protocols share.
type service struct {
	cfg     Config
	stages  Stages
	log     *slog.Logger
	now     func() time.Time
	slots   chan struct{} // a semaphore: requests that are answered
	spooled atomic.Int64  // bytes of waiting bodies and chunks

	ctx    context.Context // of background work
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// unfinished are the uploads of several requests that are not finished.
type unfinished struct {
	sentry   *sentryState
	breakpad *recent[*breakpadUpload]
	packages *recent[map[string]assembly]
	pending  *recent[string] // Pyroscope: file names by the id of the principal and build-id
	arrived  *recent[bool]   // Pyroscope: stored build-ids by principal
	alone    *alone
}

// exchange is one request and its response.
type exchange struct {
	*service
	*unfinished
	w     http.ResponseWriter
	r     *http.Request
	in    *Request
	t     *target
	who   Who
	body  io.Reader // paced; the first read sends 100-continue
	limit int64     // of a file; 0 before take
}

// Who is the principal of a request.
type Who struct {
	stage.Caller
	// Credential is a text by which Config.Still knows the credentials later.
	Credential string
	// Anonymous: the request has no valid credentials.
	Anonymous bool
	// Writer: the principal may write at least one product.
	Writer bool
	// Defaults are the labels of the credentials. They take precedence over those
	// that a protocol has.
	Defaults stage.Labels
	// Build is the CI job that the credentials were made for; the zero value: unknown.
	Build stage.Build
}

// Denied is the reason why the usual credentials of a request are not accepted.
type Denied struct {
	Status int    // 401, 403 or 503
	Text   string // discloses nothing to an attacker
}

// Request is a request with the facts that the server has found out about it.
type Request struct {
	// Segs is the decoded path without a token and a configured prefix, Base that
	// part of the escaped path, such as "/t/TOKEN", without a final slash.
	Segs []string
	Base string
	// Origin is the scheme and host of this server as the client wrote them.
	Origin string
	Who    Who
	// Memory counts what is read of the body into memory; nil: it is not counted.
	Memory *body.Account
	// Denied is not nil if the usual credentials were rejected.
	Denied *Denied
	// Challenge are the values of WWW-Authenticate in a 401 response.
	Challenge []string
	// Token authenticates a token that the request has where only this protocol
	// has one. Nil: no tokens.
	Token func(ctx context.Context, secret string) (Who, *Denied)
}

// Config configures a Handler.
type Config struct {
	// Stages receives the files.
	Stages Stages
	// Dir is a folder of this server for bodies and chunks that wait. New makes it.
	Dir string
	// Log receives refusals and failures; nil discards them.
	Log *slog.Logger
	// MaxRequests limits the uploads that are read at once: 64.
	MaxRequests int
	// MaxSpool limits the bytes of all waiting bodies and chunks: 64 GiB.
	MaxSpool int64
	// MinRate is the slowest body that is not cut off, in bytes per second: 8 KiB.
	MinRate int64
	// AssembleWait is how long sentry-cli's assemble request waits for the files
	// to be stored before it answers that this goes on: 50 s.
	AssembleWait time.Duration
	// Still reports whether the credentials that Who.Credential names still count and may
	// add files to a product. Uploads of several requests ask it at each use. Nil: they
	// always do.
	Still func(ctx context.Context, credential, product string) error
	// Shared: other servers may have the same stages, so that the requests of one
	// upload may reach several servers.
	Shared bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Stages is the part of package stage that the intakes use. It is safe for concurrent
// use.
type Stages interface {
	Limits(ctx context.Context, c stage.Caller) (stage.Limits, error)
	Open(ctx context.Context, c stage.Caller, spec stage.Spec) (st stage.State, again bool, err error)
	Enter(ctx context.Context, c stage.Caller, id string, e stage.Entry) (r stage.Receipt, entered bool, err error)
	PutClaimed(
		ctx context.Context, c stage.Caller, id string, e stage.Entry, body io.Reader, check func(stage.Arrived) error,
	) (stage.Arrived, error)
	Refuse(ctx context.Context, c stage.Caller, id string, e stage.Entry, reason string) error
	Staged(ctx context.Context, c stage.Caller, id, sha1 string) (r stage.Receipt, held bool, err error)
	Find(ctx context.Context, c stage.Caller, q stage.Query) ([]stage.Found, error)
	Commit(ctx context.Context, c stage.Caller, id string, ask stage.Commit) (stage.Committed, error)
	Abandon(ctx context.Context, c stage.Caller, id string) error
}

var _ Stages = (*stage.Stages)(nil)

// filesOf returns the files of the handler's folder whose names match a pattern.
func filesOf(h *service, pattern string) (paths []string) {
	list, err := os.ReadDir(h.cfg.Dir)
	if err != nil {
		return nil // New has made it
	}
	for _, e := range list {
		if ok, err := filepath.Match(pattern, e.Name()); ok && err == nil {
			paths = append(paths, filepath.Join(h.cfg.Dir, e.Name()))
		}
	}
	return paths
}
