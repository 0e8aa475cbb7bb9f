package publicform

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// Classes of failures.
const (
	classPrivate = "private"    // nothing of the file is public
	classBad     = "bad-source" // it is damaged
	classProof   = "not-proven" // its form has texts that it may not have
	classAbsent  = "absent"     // it was removed before the job began
)

// kind is the kind of job that makes public forms. Workers would get private files, so only servers
// do these jobs. It implements jobs.Kind.
type kind struct {
	jobs.OnServers
	*Service
}

// read returns the source of a job.
func (kind) read(j jobs.Job) (source Source, err error) {
	var p payload
	if err = json.Unmarshal(j.Payload, &p); err == nil && p.Format != version {
		err = fmt.Errorf("format %d is wanted, this program makes format %d", p.Format, version)
	}
	source = Source{Placed: p.Placed, Name: p.Name, Kind: symfile.ParseKind(p.Kind)}
	source.Size = p.Size
	if err == nil && p.Placed == nil {
		source.Ref, err = blob.ParseRef(p.Source)
	}
	if err != nil {
		return source, fmt.Errorf("job %d: %w", j.ID, err)
	}
	return source, nil
}

// Name implements jobs.Kind.
func (kind) Name() string { return Kind }

// Abilities implements jobs.Kind.
func (kind) Abilities() []jobs.Ability {
	return []jobs.Ability{{Kind: Kind, Version: fmt.Sprint(version)}}
}

// CanStart implements jobs.Kind.
func (kind) CanStart() bool { return true }

// Input implements jobs.Kind.
func (k kind) Input(_ context.Context, j jobs.Job) (jobs.Input, error) {
	source, err := k.read(j)
	return jobs.Input{Source: source.content(), Version: fmt.Sprint(version)}, err
}

// Existing implements jobs.Kind.
func (k kind) Existing(ctx context.Context, j jobs.Job) (*jobs.Outcome, error) {
	source, err := k.read(j)
	if err != nil {
		return nil, err
	}
	c, err := k.Made(ctx, source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &jobs.Outcome{Class: "ok", Detail: "as made before", Result: &c.Ref}, err
}

// Make implements jobs.Kind.
func (k kind) Make(ctx context.Context, j jobs.Job) (jobs.Outcome, error) {
	none := jobs.Outcome{}
	source, err := k.read(j)
	if err != nil {
		return none, err
	}
	start := k.parts.Now()
	form, report, err := k.write(ctx, source)
	if fail, ok := errors.AsType[fileError](err); ok {
		return none, jobs.Failure{Class: fail.class, Source: source.content(), Detail: source.Name + ": " + fail.err.Error()}
	}
	if err != nil {
		return none, err
	}
	took := k.parts.Now().Sub(start).Round(time.Millisecond)
	k.parts.Log.Info("a public form was made", "job", j.ID, "file", source.Name, "source", source.key(), "bytes", source.Size,
		"public", form.Size, "took", took)
	return jobs.Outcome{Class: "ok", Detail: detail(source.Name, &report) + " in " + took.String(), Result: &form.Ref}, nil
}

// detail says what was made of a file, and what was taken away, for people.
func detail(name string, r *public.Report) string {
	if len(r.Removed) == 0 {
		return name + " as it is"
	}
	return fmt.Sprintf("the public form of %s, %s of %s, without %s", name, term.Size(r.Size), term.Size(r.PrivateSize), Without(removed(r)))
}

// Removed is what was taken away of one kind.
type Removed struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"` // of sections, records, symbols or names
	Bytes int64  `json:"bytes"` // in the private file
}

// Without lists what was taken away, for people.
func Without(list []Removed) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = fmt.Sprintf("%s (%s)", x.Kind, term.Size(x.Bytes))
		if x.Count > 0 {
			texts[i] = fmt.Sprintf("%s (%d, %s)", x.Kind, x.Count, term.Size(x.Bytes))
		}
	}
	return strings.Join(texts, ", ")
}

// removed returns what a report says that was taken away. It is the note in the record of a form.
func removed(r *public.Report) []Removed {
	list := make([]Removed, len(r.Removed))
	for i, x := range r.Removed {
		list[i] = Removed{string(x.Kind), x.Count, x.Bytes}
	}
	return list
}

// ReadNote returns what was taken away of a file by the note in the record of its form; none for
// a record without a note.
func ReadNote(note string) (list []Removed, err error) {
	if note != "" {
		err = json.Unmarshal([]byte(note), &list)
	}
	return list, err
}

// fileError is an error that a file will have again.
type fileError struct {
	class string
	err   error
}

func (e fileError) Error() string { return e.err.Error() }

// openPlaced opens a file in place, in the state in which it was found.
func (s *Service) openPlaced(ctx context.Context, p *Placed) (PlacedFile, error) {
	f, err := s.parts.OpenPlaced(ctx, *p)
	if err == nil && f.Tag() != p.Tag {
		return nil, errors.Join(fmt.Errorf("it has changed: %w", fs.ErrNotExist), f.Close())
	}
	return f, err
}

// open opens a source. changed reports whether the source has changed since.
func (s *Service) open(ctx context.Context, source *Source) (in io.ReaderAt, changed func() bool, closer io.Closer, err error) {
	if source.Placed != nil {
		f, err := s.openPlaced(ctx, source.Placed)
		if err != nil {
			return nil, nil, nil, err
		}
		return f, f.Changed, f, nil
	}
	f, err := s.parts.Open(ctx, source.Content)
	return f, func() bool { return false }, f, err
}

// write makes the public form of a source, proves that it has no private text, stores and
// records it.
func (s *Service) write(ctx context.Context, source Source) (record.Content, public.Report, error) {
	none, report := record.Content{}, public.Report{}
	in, changed, closer, err := s.open(ctx, &source)
	if errors.Is(err, fs.ErrNotExist) {
		return none, report, fileError{classAbsent, fmt.Errorf("it is no longer found: %w", err)}
	}
	if err != nil {
		return none, report, err
	}
	defer closer.Close()
	scratch, err := os.CreateTemp(s.parts.Scratch, ".scratch-*")
	if err != nil {
		return none, report, err
	}
	defer func() { _ = errors.Join(scratch.Close(), os.Remove(scratch.Name())) }()
	r := &input{ReaderAt: in, ctx: ctx}
	out := &output{w: bufio.NewWriterSize(scratch, 256<<10)}
	report, err = public.Write(out, r, source.Size, public.Options{})
	if changed() {
		return none, report, errChanged
	}
	if err = r.blame(errors.Join(err, out.flush()), out.err); err != nil {
		return none, report, err
	}
	texts, err := public.PrivateTexts(r, source.Size, scratch, report.Size, public.Options{})
	if changed() {
		return none, report, errChanged
	}
	if err = r.blame(err, nil); err != nil {
		return none, report, err
	}
	if len(texts) > 0 {
		err := fmt.Errorf("its public form would have %d private texts, the first %q", len(texts), texts[0].Text)
		return none, report, fileError{classProof, err}
	}
	c, err := s.keep(ctx, source, scratch, &report)
	return c, report, err
}

// errChanged means that a file in place changed while its form was made: the form may be of no
// contents that the file ever had.
var errChanged = fileError{classAbsent, errors.New("it changed while it was read")}

// keep stores a form and records it. A content that is its own form is not stored again; a file in
// place is, because its owner may change it at any time.
func (s *Service) keep(ctx context.Context, source Source, scratch io.ReaderAt, r *public.Report) (record.Content, error) {
	form := io.NewSectionReader(scratch, 0, r.Size)
	ref, _, err := blob.Hash(ctx, form)
	if err != nil {
		return record.Content{}, err
	}
	if source.Placed == nil && ref == source.Ref {
		return source.Content, s.parts.DB.PutDerived(ctx, source.Ref, unchanged, nil)
	}
	if _, err := form.Seek(0, io.SeekStart); err != nil {
		return record.Content{}, err
	}
	batch, err := s.parts.Blobs.Begin(ctx)
	if err != nil {
		return record.Content{}, err
	}
	defer batch.Abort()
	note, err := json.Marshal(removed(r))
	if err != nil {
		return record.Content{}, err
	}
	c := record.Content{Size: r.Size}
	if c.Ref, _, err = batch.Put(ctx, r.Size, form); err != nil {
		return record.Content{}, err
	}
	if err := batch.Commit(ctx); err != nil {
		return record.Content{}, err
	}
	if source.Placed != nil {
		return c, s.parts.DB.Cached.PutMade(ctx, contents.MadeFile{
			Maker: Kind, Name: source.Name + "." + Kind, Kind: source.Kind, IDs: []string{source.id()},
			Ref: c.Ref, Size: c.Size, Made: s.parts.Now(),
		}, func(ctx context.Context, _ []blob.Ref) error {
			_, err := s.parts.Blobs.Stat(ctx, c.Ref)
			return err
		})
	}
	if err := s.parts.DB.PutNoted(ctx, source.Ref, made, &c, string(note)); err != nil {
		return record.Content{}, err
	}
	s.parts.AddedAgain(ctx, []blob.Ref{c.Ref})
	return c, nil
}

// input reads a content, until its context ends, and notes whether that failed.
type input struct {
	io.ReaderAt
	ctx    context.Context
	failed atomic.Pointer[error]
}

// ReadAt implements io.ReaderAt.
func (r *input) ReadAt(p []byte, off int64) (int, error) {
	err := context.Cause(r.ctx)
	n := 0
	if err == nil {
		n, err = r.ReaderAt.ReadAt(p, off)
	}
	if err != nil && err != io.EOF {
		r.failed.Store(&err)
	}
	return n, err
}

// blame returns the error that an error of package public stands for: that of reading or
// writing, or a fileError. None if err is nil.
func (r *input) blame(err, written error) error {
	if failed := r.failed.Load(); failed != nil {
		return *failed
	}
	switch {
	case err == nil || written != nil:
		return errors.Join(err, written)
	case errors.Is(err, public.ErrPrivate):
		return fileError{classPrivate, err}
	}
	return fileError{classBad, err}
}

// output is a buffered file that notes whether writing it failed.
type output struct {
	w   *bufio.Writer
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (n int, err error) {
	n, err = o.w.Write(p)
	o.err = errors.Join(o.err, err)
	return n, err
}

func (o *output) flush() error {
	err := o.w.Flush()
	o.err = errors.Join(o.err, err)
	return err
}

const remembered = 30 * 24 * time.Hour

// Rule implements jobs.Kind.
func (kind) Rule(class string) jobs.Rule {
	switch {
	case slices.Contains([]string{classPrivate, classBad, classProof}, class):
		return jobs.Rule{ByContent: remembered, ByKey: remembered, Versioned: true}
	case class == classAbsent:
		return jobs.Rule{}
	}
	return jobs.Rule{Retries: 2, Backoff: []time.Duration{5 * time.Second, 30 * time.Second}}
}
