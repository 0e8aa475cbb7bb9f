package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// Source is a server, bucket or folder that files are downloaded from. Its
// methods may be called by several goroutines.
type Source interface {
	// Name is the upstream's name in configuration, logs and metrics. It contains
	// no secret.
	Name() string
	// Fetch asks for one file. It returns when the first bytes have arrived. If
	// the upstream gives no file, the error is a *Failure. The context also
	// governs the body.
	Fetch(ctx context.Context, ask Ask) (*Reply, error)
	// Traits returns the properties and optional abilities of the upstream.
	Traits() Traits
	// Close releases the upstream's resources. Replies stay readable.
	Close() error
}

// Traits are the properties and optional abilities of an upstream. The zero value
// describes an upstream that only fetches.
type Traits struct {
	// SymCacheServer is set if the upstream supports only the SymCache protocol.
	SymCacheServer bool
	// NeedsChecksum is set if the upstream is asked only with a checksum.
	NeedsChecksum bool
	// ServerID is the id that a symdepot server uses to detect loops. It is empty for
	// other upstreams, and until the server has answered once.
	ServerID string
	// Status returns the counters and the state of the circuit breaker; nil if
	// the upstream has neither.
	Status func() Status
	// Reset closes the circuit breaker, and undo opens it again if it was open; nil if
	// the upstream has none.
	Reset func() (undo func())
	// Excludes says why the configuration excludes a question, "" if it does not.
	// Nothing is sent. Nil if nothing is excluded.
	Excludes func(ask Ask) string
	// Blame, if not nil, is called with the reason when the upstream sent a wrong
	// file.
	Blame func(err error)
	// Paused returns until when the upstream has asked for a pause, and why; the zero
	// time if it has not. Pause stops requests because the upstream has asked another
	// server of the depot for a pause. Both are nil if the source does not support
	// pauses.
	Paused func() (until time.Time, why string)
	Pause  func(until time.Time, why string)
	// Share divides the limit of concurrent requests by the number of servers that
	// download for each other. Nil if the source has no such limit.
	Share func(servers int)
	// Metadata searches, see Fetcher.Metadata. complete is false if there may be
	// more results. Nil if the upstream does not support searches.
	Metadata func(ctx context.Context, q MetadataQuery) (list []Metadata, complete bool, err error)
}

// Origin describes the client of a request. It is passed on to debuginfod
// servers only.
type Origin struct {
	// Agent is the client's User-Agent, or empty.
	Agent string
	// Forwarded are the entries of X-Forwarded-For, with the client's own
	// address last.
	Forwarded []string
}

// Ask is a request to an upstream.
type Ask struct {
	// Request is the client's request. Form is layout.FormFile, or
	// layout.FormSymCache, layout.FormSource or layout.FormSection if only the
	// upstream can produce these.
	Request layout.Request
	// Checksum is the value of the client's SymbolChecksum header, or what an image in
	// the depot says; else empty.
	Checksum string
	// Via are the ids of the servers that the request has passed, this one last.
	Via []string
	// Origin is the client that started the download. Clients that join it are
	// not named.
	Origin Origin
	// Resume, if not nil, asks for the rest of an interrupted transfer.
	Resume *Resume
	// Limit is the largest decompressed size of the file, in bytes; with 0 the
	// upstream decides.
	Limit int64
	// Probe asks whether the upstream answers at all: a request is sent, whatever the
	// upstream is known to lack.
	Probe bool
	// Queued, if not nil, is called with true before the request waits for other
	// requests of this process to the same upstream, and with false after the
	// wait. This time does not count as slowness of the upstream.
	Queued func(bool)
}

// Resume describes the part of a file that has arrived from an interrupted
// transfer.
type Resume struct {
	Path   string // Reply.Path
	Tag    string // Reply.Tag
	Offset int64  // decompressed bytes that have arrived
}

// Reply is the answer of an upstream: a file whose body is being transferred.
type Reply struct {
	// Body yields the decompressed bytes. An error of Read that the upstream
	// caused is a *Failure. A body that ends too early never ends with io.EOF.
	Body io.ReadCloser
	// Size is the decompressed size of the whole file in bytes, -1 while
	// unknown.
	Size int64
	// Offset is where in the file the body begins: Resume.Offset, or 0.
	Offset int64
	// Name is the file's name as the upstream spells it.
	Name string
	// Path is where the file was found, without secrets: a URL or a file path.
	Path string
	// Tag is the upstream's strong entity tag or an equivalent, for Resume. If it
	// is empty, the transfer cannot be resumed.
	Tag string
	// ModTime is the modification time at the upstream, zero if unknown.
	ModTime time.Time
	// Header holds the response fields about the file: its type, and the fields
	// of debuginfod servers. Nil if there are none.
	Header http.Header
	// Signature is the IMA signature of the decompressed file in lower-case hex, as the
	// server says; nothing has checked it. Empty if there is none.
	Signature string
	// CodeInfo is the path in Breakpad's layout, with the debug id, to which the
	// server redirected a request by code file and code id; else empty.
	CodeInfo string
	// Local is set if the body is read from a local file, at no cost.
	Local bool
}

// Class is the reason why an upstream gave no file. Each class is remembered for
// its own time.
type Class uint8

// The classes. Their numbers are stored: never renumber them.
const (
	ClassNone      Class = iota
	ClassNotFound        // the upstream answered that it has no such file
	ClassForbidden       // 403 and the like: the upstream does not give this file to this server
	ClassTimeout         // no answer in time
	ClassBroken          // server errors, wrong or damaged files
	ClassTooLarge        // larger than the limit
	ClassBusy            // the upstream asked to retry later, or its circuit breaker is open
	ClassSkipped         // no request is sent: the configuration or the upstream's own index excludes it
	// ClassUnauthorized is that of 401: the upstream asks for credentials. It says nothing
	// about the file and ends with a sign-in, so that it is never remembered.
	ClassUnauthorized
)

var classNames = [...]string{"none", "absent", "forbidden", "timeout", "broken", "too_large", "busy", "skipped", "unauthorized"}

// String returns the name used in output, configuration and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Failure is the error of an upstream that gave no file.
type Failure struct {
	Source string
	Class  Class
	// Retry is when the upstream may be asked again, if it said so. ClassNotFound
	// with Retry means a SymCache file that the upstream is making.
	Retry time.Time
	Err   error // the cause, without secrets
}

// Error names the upstream and the cause.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Source + ": " + f.Class.String()
	}
	return f.Source + ": " + f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Is makes a miss fs.ErrNotExist.
func (f *Failure) Is(target error) bool {
	return target == fs.ErrNotExist && (f.Class == ClassNotFound || f.Class == ClassSkipped)
}

// ClassOf returns the class of an error of a Source. An error that is not a
// *Failure is ClassBroken, except fs.ErrNotExist (ClassNotFound) and an exceeded
// deadline (ClassTimeout).
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, fs.ErrNotExist):
		return ClassNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	return ClassBroken
}

// Status holds the counters and the state of an upstream.
type Status struct {
	Name string `json:"name"`
	Rank int    `json:"rank"`
	// Open is set while the circuit breaker is open, until Until. Then one probe
	// request decides whether it closes.
	Open      bool      `json:"open"`
	Until     time.Time `json:"until,omitzero"`
	Why       string    `json:"why,omitempty"`
	Failures  int       `json:"failures"`       // consecutive
	Since     time.Time `json:"since,omitzero"` // the time of the first of them
	LastError string    `json:"last_error,omitempty"`
	LastTime  time.Time `json:"last_error_time,omitzero"`
	Requests  int64     `json:"requests"`
	Hits      int64     `json:"hits"`
	Misses    int64     `json:"misses"`
	Errors    int64     `json:"errors"`
	Wrong     int64     `json:"wrong"`   // files that did not answer the request
	Skipped   int64     `json:"skipped"` // requests that the configuration excludes
	Refused   int64     `json:"refused"` // requests stopped by the circuit breaker
	Bytes     int64     `json:"bytes"`   // decompressed
	Active    int64     `json:"active"`  // running requests
	Waiting   int64     `json:"waiting"`
	// P50 and P95 are the median and the 95th percentile of the time to the first byte
	// of the last requests, in nanoseconds; 0 before the first.
	P50 time.Duration `json:"p50,omitempty"`
	P95 time.Duration `json:"p95,omitempty"`

	// Unauthorized is LastError, if the upstream has asked for credentials and has not
	// answered otherwise since.
	Unauthorized string `json:"-"`
}
