// Package publicform makes the public forms of stored contents and of files in watched folders, which people outside may have,
// by background jobs, and finds those that have been made. What a public form is says package
// public; who gets one is decided by others.
package publicform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// Kind is the kind of the jobs that make public forms, and the tool under which the index has
// these.
const Kind = "public"

// version is the version of the forms that this program makes. A form of another version is made
// again.
const version = public.Version

var (
	// made is the tool in the records of public forms.
	made = record.Tool{Name: Kind, Version: version}
	// unchanged is that in the records of contents that are their own public form. They have
	// no result: a record from a content to itself would keep it for ever.
	unchanged = record.Tool{Name: Kind + "-unchanged", Version: version}
)

// IsUnchanged reports whether the record of a tool says that a content is its own public form.
func IsUnchanged(t record.Tool) bool { return t.Name == unchanged.Name }

// ErrNone is the error for a content that has no public form: nothing of it is for people
// outside. It is fs.ErrNotExist.
var ErrNone = fmt.Errorf("the file has no public form: %w", fs.ErrNotExist)

// Limits.
const (
	slots     = 2  // forms that this machine makes at once
	queued    = 64 // more that may wait
	perClient = 16 // of one client, queued or running
	attempts  = 3

	knownForms = 10000 // that are kept in memory, 100 bytes each
)

// Parts are what New needs.
type Parts struct {
	DB    *index.DB
	Blobs blob.Backend
	// Open opens a content that the index lists. Not found is fs.ErrNotExist.
	Open func(ctx context.Context, c record.Content) (blob.File, error)
	// OpenPlaced opens a file in place. Not found is fs.ErrNotExist.
	OpenPlaced func(ctx context.Context, p Placed) (PlacedFile, error)
	// AddedAgain ends what is recorded about the damage of contents whose bytes have just been
	// stored.
	AddedAgain func(ctx context.Context, refs []blob.Ref)

	Queue *jobs.Queue // New registers its kinds of jobs
	Log   *slog.Logger
	Now   func() time.Time
	// Scratch is the folder for temporary files; empty is the system's.
	Scratch string
}

// Service makes public forms. Its methods may be called by many goroutines.
type Service struct {
	parts Parts
	// known are forms by the content that they were made of, so that a request needs no query for
	// what never changes. Whoever does not find the bytes of one calls Lost.
	known *memo.Map[blob.Ref, record.Content]
}

// New registers the kinds of jobs.
func New(p Parts) *Service {
	s := &Service{p, memo.New[blob.Ref, record.Content](knownForms)}
	k := kind{Service: s}
	p.Queue.Register(k, jobs.Limits{Slots: slots, Queued: queued, PerClient: perClient, Attempts: attempts})
	p.Queue.Register(buildJobs{k}, jobs.Limits{Slots: 1, Attempts: buildAttempts})
	return s
}

// Placed is a file in a watched folder. It has been hashed by nobody.
type Placed struct {
	Products []string       // whose folders are searched; nil: all
	Request  layout.Request // finds the whole file
	Tag      string         // changes with the contents
}

// PlacedFile is an opened file in a watched folder.
type PlacedFile interface {
	io.ReaderAt
	io.Closer
	Tag() string
	// Changed reports whether the file has changed since it was indexed: then what was read may be
	// wrong.
	Changed() bool
}

// Source is what a public form is made of: a stored content, or a file in place.
type Source struct {
	record.Content         // of a file in place, only the size is known
	Placed         *Placed // nil: a stored content
	Name           string  // of the file, for people
	Kind           symfile.Kind
}

// Stored returns the source that is a stored content.
func Stored(h *record.Hit) Source {
	return Source{Content: record.Content{Ref: h.Ref, Size: h.Size}, Name: h.Object.Name, Kind: h.Object.Kind}
}

// id is the id under which the form of a file in place is found. It names the state of the file:
// the form of other contents is never found for it.
func (s *Source) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", version, s.Placed.Tag))
	return "public-form-" + hex.EncodeToString(sum[:16])
}

// key is the key of jobs.
func (s *Source) key() string {
	if s.Placed != nil {
		return s.id()
	}
	return s.Ref.String()
}

// content is the content for the memory of failures; nil if it is not known.
func (s *Source) content() *blob.Ref {
	if s.Placed != nil {
		return nil
	}
	return &s.Ref
}

// Ask is a request for the public form of a source.
type Ask struct {
	Source Source
	// Client is the address of the client, without the port. It bounds the work of one
	// client. Empty: no client in particular.
	Client string
	// Hold holds the request while the form is made; nil: it cannot wait.
	Hold symbolicate.Hold

	priority int // of the job
}

// Answer returns the public form of a source, and has it made if there is none. One of
// which nothing is public is ErrNone, a form that is being made a symbolicate.PendingError, and a
// limit symbolicate.ErrBusy.
func (s *Service) Answer(ctx context.Context, ask Ask) (record.Content, error) {
	if ask.Source.Placed == nil {
		if c, ok := s.known.Get(ask.Source.Ref); ok {
			return c, nil
		}
	}
	c, err := s.Made(ctx, ask.Source)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = s.make(ctx, ask)
	}
	if err == nil && ask.Source.Placed == nil {
		s.known.Set(ask.Source.Ref, c)
	}
	return c, err
}

// Made returns the public form of a source if it has been made; else the error is
// fs.ErrNotExist.
func (s *Service) Made(ctx context.Context, source Source) (record.Content, error) {
	if source.Placed != nil {
		hits, err := s.parts.DB.Lookup(ctx, record.Scope{All: true}, symfile.Lookup{ID: source.id(), Role: symfile.Other})
		if err == nil && len(hits) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return record.Content{}, err
		}
		return record.Content{Ref: hits[0].Ref, Size: hits[0].Size}, nil
	}
	c, err := s.parts.DB.Derived(ctx, source.Ref, made)
	switch {
	case err == nil && c.Size > 0:
		return c, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return record.Content{}, err
	}
	if _, err := s.parts.DB.Derived(ctx, source.Ref, unchanged); err != nil {
		return record.Content{}, err
	}
	return source.Content, nil
}

// Write returns the public form of a content, and makes it here and now if there is none. It is
// for commands, which do no jobs. A content of which nothing is public is ErrNone, with the reason.
func (s *Service) Write(ctx context.Context, source Source) (record.Content, error) {
	c, err := s.Made(ctx, source)
	if !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	c, _, err = s.write(ctx, source)
	if fail, ok := errors.AsType[fileError](err); ok {
		err = fmt.Errorf("%w: %w", ErrNone, fail.err)
	}
	return c, err
}

// Lost forgets a form whose bytes are damaged or missing, so that it is made again.
func (s *Service) Lost(ctx context.Context, source Source, form record.Content) (err error) {
	s.known.Clear()
	if source.Placed != nil {
		_, _, err = s.parts.DB.Cached.Evict(ctx, []blob.Ref{form.Ref}, func(ref blob.Ref) error { return s.parts.Blobs.Delete(ctx, ref) })
		return err
	}
	_, err = s.parts.DB.ForgetDerived(ctx, form.Ref)
	return err
}

// Retry returns the time after which a client should ask for a pending form again.
func (s *Service) Retry(ctx context.Context) time.Duration { return s.parts.Queue.Estimate(ctx, Kind) }

// payload is stored with a job.
type payload struct {
	Source string  `json:"source,omitempty"` // SHA-256
	Placed *Placed `json:"placed,omitempty"`
	Kind   string  `json:"kind,omitempty"`
	Size   int64   `json:"size"`
	Name   string  `json:"name"`
	Format int     `json:"format"` // version
}

// make enters a job for a form, and waits for it.
func (s *Service) make(ctx context.Context, ask Ask) (record.Content, error) {
	none, source := record.Content{}, &ask.Source
	spec := payload{Placed: source.Placed, Kind: source.Kind.String(), Size: source.Size, Name: source.Name, Format: version}
	if source.Placed == nil {
		spec.Source = source.Ref.String()
	}
	p, err := json.Marshal(spec)
	if err != nil {
		return none, err
	}
	job, st, err := s.parts.Queue.Enqueue(ctx, jobs.Entry{
		Job: jobs.Job{Kind: Kind, Key: source.key(), Payload: p, Priority: ask.priority}, Client: ask.Client,
		Held:   func(ctx context.Context) (bool, error) { return found(s.Made(ctx, *source)) },
		Failed: func(ctx context.Context) (bool, error) { return found(s.failure(ctx, source)) },
	})
	switch {
	case errors.Is(err, jobs.ErrFull):
		return none, symbolicate.ErrBusy
	case err != nil:
		return none, err
	}
	if st <= jobs.Running {
		if ask.Hold == nil {
			return none, symbolicate.PendingError{}
		}
		gaveUp, err := ask.Hold(ctx, func(ctx context.Context) (err error) {
			st, err = s.parts.Queue.Wait(ctx, job.ID, st)
			return err
		})
		if err != nil {
			return none, err
		}
		if st <= jobs.Running && gaveUp {
			return none, symbolicate.PendingError{}
		}
	}
	if st == jobs.Failed {
		return none, ErrNone
	}
	c, err := s.Made(ctx, *source)
	if errors.Is(err, fs.ErrNotExist) {
		return none, symbolicate.PendingError{} // or it has been collected since
	}
	return c, err
}

// failure returns the remembered failure of making the form of a source. None is
// fs.ErrNotExist.
func (s *Service) failure(ctx context.Context, source *Source) (queue.Failure, error) {
	return s.parts.Queue.Failure(ctx, Kind, source.key(), source.content(), fmt.Sprint(version))
}

// found reports whether a lookup found something: fs.ErrNotExist is no error.
func found[T any](_ T, err error) (bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
