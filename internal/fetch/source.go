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

// Source is a place that files are fetched from, to be kept: a server, a
// bucket, a folder on a slow disk. Its methods may be called by many
// goroutines.
type Source interface {
	// Name is what configuration, logs and metrics call the source. It holds
	// no secret.
	Name() string
	// Fetch asks for one file. It returns when the first bytes are there, or
	// when it is clear that none will come: then the error is a *Failure.
	// The context governs the body too. Asked is how the client asked.
	Fetch(ctx context.Context, ask Ask) (*Reply, error)
	// Traits says what else is known of the source, and what else it can do.
	Traits() Traits
	// Close lets go of what the source holds. Replies stay readable.
	Close() error
}

// Traits are the properties and the optional abilities of a source. The zero
// value is that of a source that only fetches.
type Traits struct {
	// SymCacheServer is set if the source speaks the SymCache protocol, and
	// nothing else.
	SymCacheServer bool
	// NeedsChecksum is set if the source is asked only for what the client sent
	// a checksum for.
	NeedsChecksum bool
	// ServerID is the id by which a server of our own kind detects loops; empty
	// for all others, and until the server has answered once.
	ServerID string
	// Status returns the counters and the state of the circuit breaker. Nil if
	// the source has neither.
	Status func() Status
	// Blame reports that a file from the source was not the one asked for: err
	// says what was wrong. Nil if the source does not mind.
	Blame func(err error)
	// Metadata searches, see Fetcher.Metadata. complete is false if there may be
	// more results. Nil if the source cannot search.
	Metadata func(ctx context.Context, q MetadataQuery) (list []Metadata, complete bool, err error)
}

// Origin describes the client of a request. Servers of the debuginfod protocol
// pass it on; other upstreams do not receive it.
type Origin struct {
	// Agent is the client's User-Agent, or empty.
	Agent string
	// Forwarded are the entries of X-Forwarded-For with the client's own address
	// as the last one.
	Forwarded []string
}

// Ask says what is wanted of a source.
type Ask struct {
	// Request is what a client asked for. Form is layout.FormFile, or
	// layout.FormSymCache, layout.FormSource and layout.FormSection where only
	// the source itself can answer with these.
	Request layout.Request
	// Checksum is the value of the client's SymbolChecksum header, or empty.
	Checksum string
	// Via are the servers that the request has passed through, this one last.
	Via []string
	// Origin is the client of the request that started the download. Clients that
	// share the download are not named.
	Origin Origin
	// Resume, if not nil, asks for the rest of a file that broke off.
	Resume *Resume
	// Limit is the most bytes that the plain file may have; 0 leaves it to
	// the source.
	Limit int64
	// Queued, if not nil, is called with true before the question has to wait
	// for other questions of ours to the same source, and with false when it
	// need not wait any longer: what a client waits for is not the source's
	// fault then.
	Queued func(bool)
}

// Resume describes what is there of a file whose transfer broke off.
type Resume struct {
	Path   string // Reply.Path
	Tag    string // Reply.Tag
	Offset int64  // plain bytes that are there
}

// Reply is a file on its way.
type Reply struct {
	// Body yields the plain bytes: whatever the source sent has been unpacked.
	// An error from Read that is the source's fault is a *Failure. A body that
	// ends too early never ends with io.EOF.
	Body io.ReadCloser
	// Size is the number of plain bytes of the whole file, -1 while unknown.
	Size int64
	// Offset is where in the file the body begins: Resume.Offset, or 0.
	Offset int64
	// Name is the file's name as the source spells it.
	Name string
	// Path says where the file was found, without secrets: an address or a
	// file's path.
	Path string
	// Tag is the source's strong entity tag or the like, good for Resume;
	// empty: the transfer cannot be resumed.
	Tag string
	// ModTime is the source's time of the file, zero if unknown.
	ModTime time.Time
	// Header is what a server said about the file: its type, and what servers
	// of the debuginfod kind add. Nil where nothing was said.
	Header http.Header
	// CodeInfo is the path in Breakpad's layout to which a server led who had
	// asked by code file and code id; else empty. It has the debug id.
	CodeInfo string
	// Local marks a body that was read from where it stands, at no cost.
	Local bool
}

// Class says why a source gave no file. The classes are remembered for
// different times.
type Class uint8

// The classes, in the order of their stored numbers. Never renumber them.
const (
	ClassNone      Class = iota
	ClassAbsent          // the source says that it has no such file
	ClassForbidden       // 401, 403 and the like
	ClassTimeout         // no answer, or none in time
	ClassBroken          // an answer that is none: errors of the server, wrong or damaged contents
	ClassTooLarge        // above the limit
	ClassBusy            // the source asked to be left alone for a while, or its breaker is open
	ClassSkipped         // the source is not asked for such a thing
)

var classNames = [...]string{"none", "absent", "forbidden", "timeout", "broken", "too_large", "busy", "skipped"}

// String is the word used in output, configuration and metrics.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Failure is the error of a source that gave no file.
type Failure struct {
	Source string
	Class  Class
	// Retry is when the source may be asked again, where it said so. An absent
	// SymCache file with it is being made.
	Retry time.Time
	Err   error // what happened, without secrets
}

// Error says it in words.
func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Source + ": " + f.Class.String()
	}
	return f.Source + ": " + f.Err.Error()
}

// Unwrap is for errors.Is.
func (f *Failure) Unwrap() error { return f.Err }

// Is makes an absent file fs.ErrNotExist.
func (f *Failure) Is(target error) bool {
	return target == fs.ErrNotExist && (f.Class == ClassAbsent || f.Class == ClassSkipped)
}

// ClassOf returns the class of an error that a Source returned; an error that
// is no *Failure is ClassBroken, except for the end of a context's time.
func ClassOf(err error) Class {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, fs.ErrNotExist):
		return ClassAbsent
	case errors.Is(err, context.DeadlineExceeded):
		return ClassTimeout
	}
	return ClassBroken
}

// Status is what a source has done so far.
type Status struct {
	Name string `json:"name"`
	Rank int    `json:"rank"`
	// Open is set while the source is left alone, until Until; a single
	// request will then find out whether that may end.
	Open      bool      `json:"open"`
	Until     time.Time `json:"until,omitzero"`
	Why       string    `json:"why,omitempty"`
	Failures  int       `json:"failures"` // in a row
	LastError string    `json:"last_error,omitempty"`
	LastTime  time.Time `json:"last_error_time,omitzero"`
	Requests  int64     `json:"requests"`
	Hits      int64     `json:"hits"`
	Misses    int64     `json:"misses"`
	Errors    int64     `json:"errors"`
	Wrong     int64     `json:"wrong"`   // files that were not what was asked for
	Skipped   int64     `json:"skipped"` // not asked for such a thing
	Refused   int64     `json:"refused"` // not asked because it is left alone
	Bytes     int64     `json:"bytes"`   // plain
	Active    int64     `json:"active"`  // requests under way
	Waiting   int64     `json:"waiting"`
}
