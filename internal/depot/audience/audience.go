// Package audience answers people outside, who may have the public forms of files and nothing
// else. It is the one door to these: what it gives was made by package publicform, and no
// other package can make a Scope of it search for a private file.
package audience

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/lookup"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Scope is the set of products of which a caller may have the public forms of files. The zero
// Scope is empty. It cannot be made an answer.Scope, in which whole files are found.
type Scope struct {
	all      bool
	products []string
}

// ScopeOf returns the scope of all products, or of some.
func ScopeOf(all bool, products []string) Scope { return Scope{all, products} }

// IsEmpty reports whether no product is in the scope.
func (s Scope) IsEmpty() bool { return !s.all && len(s.products) == 0 }

// names returns the products as other packages take them; nil is all.
func (s Scope) names() []string {
	if s.all {
		return nil
	}
	return append([]string{}, s.products...)
}

// File is an answer to people outside. Only Door makes one.
type File struct{ file *answer.File }

// Answer returns the file to be sent: a public form, a part of one, or its cabinet. Its Source
// is the content that the public form was made of. It must be closed.
func (f *File) Answer() *answer.File { return f.file }

// Parts are what a Door uses.
type Parts struct {
	Lookups *lookup.Lookups
	Forms   *forms.Forms
	Public  *publicform.Service
	InPlace *inplace.Places
	// Download brings a file into the depot from the upstreams that have only public forms. Not found
	// is fs.ErrNotExist.
	Download func(ctx context.Context, q answer.Question) error
	// Make makes the .sym or GSYM file of a module, and Source opens modules for lookups of
	// addresses; both only of public forms.
	Make   func(ctx context.Context, ask symbolicate.Ask, forms Forms) (*answer.File, error)
	Source func(ask symbolicate.Ask, forms Forms) symbolicate.UnwindSource
}

// Forms are the public forms of the files of modules, for one who asks.
type Forms struct {
	door *Door
	ask  symbolicate.Ask
	// origins has of which files the forms were made, by the contents of the forms; may be nil.
	origins map[blob.Ref]origin
}

// origin is the file of which a public form was made.
type origin struct {
	ref     blob.Ref // zero for a file of a watched folder
	product string   // of a watched folder
}

// Door gives public forms to people outside. Its methods may be called by many goroutines.
type Door struct{ parts Parts }

// New returns the door of a depot.
func New(p Parts) *Door { return &Door{p} }

// Get answers a question with the public form of a file that the depot holds in the scope, or that
// a watched folder has; the question's own scope does not matter. Served trees and upstreams are
// asked if they have only public forms. What comes from an upstream is stripped like what was added,
// so that a private file among it is not answered. Not found is fs.ErrNotExist, also for a file of
// which nothing is public; see also symbolicate.PendingError and symbolicate.ErrBusy.
func (d *Door) Get(ctx context.Context, scope Scope, q answer.Question) (*File, error) {
	q.Scope = answer.Scope{Products: scope.names()}
	q.Request.Lookups = slices.Clone(q.Request.Lookups)
	q.Request.AcceptMSFZ() // the public form is a plain file
	if scope.IsEmpty() {
		return nil, fs.ErrNotExist
	}
	f, err := d.inDepot(ctx, &q)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.elsewhere(ctx, scope, &q)
	}
	if err != nil {
		return nil, err
	}
	f.Made = true // whoever gets more rights shall get the whole file soon
	f.Path, f.Archive, f.Signature = "", "", ""
	if f.Object.Kind == symfile.MSFZ {
		f.Object.Kind = symfile.PDB
	}
	return &File{f}, nil
}

// inDepot opens what answers a question, of what the depot has.
func (d *Door) inDepot(ctx context.Context, q *answer.Question) (*answer.File, error) {
	if !d.mayHave(ctx, q) {
		return nil, fs.ErrNotExist
	}
	if err := q.Turn.Enter(); err != nil {
		return nil, err
	}
	defer q.Turn.Leave()
	if q.Held {
		q.Hold = q.Turn.Hold
	}
	f, err := d.open(ctx, q)
	if _, failed := errors.AsType[*inplace.FailedError](err); failed {
		return nil, fs.ErrNotExist // as for any file that the folder may have
	}
	return f, err
}

// elsewhere opens what answers a question in trees and upstreams that have only public forms. Trees
// belong to no product.
func (d *Door) elsewhere(ctx context.Context, scope Scope, q *answer.Question) (*answer.File, error) {
	switch q.Request.Form {
	case layout.FormFile, layout.FormCabinet, layout.FormSection:
	default:
		return nil, fs.ErrNotExist
	}
	if scope.all {
		if f, err := d.inTrees(ctx, q); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if q.Local {
		return nil, fs.ErrNotExist
	}
	if err := d.parts.Download(ctx, *q); err != nil {
		return nil, err
	}
	return d.inDepot(ctx, q)
}

// inTrees opens what answers a question in a served tree.
func (d *Door) inTrees(ctx context.Context, q *answer.Question) (*answer.File, error) {
	if err := q.Turn.Enter(); err != nil {
		return nil, err
	}
	defer q.Turn.Leave()
	return d.parts.InPlace.OpenPublic(ctx, q.Request)
}

// Form opens the public form of a file that the depot holds, for a tree that is written for people
// outside, and makes it if need be. A file of which nothing is public is fs.ErrNotExist, with the
// reason.
func (d *Door) Form(ctx context.Context, stored record.Stored) (*File, error) {
	h := record.Hit{Stored: stored}
	f, err := d.opened(ctx, h, func() (record.Content, error) { return d.parts.Public.Write(ctx, publicform.Stored(&h)) })
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Retry returns the time after which a client should ask for a pending file again.
func (d *Door) Retry(ctx context.Context) time.Duration { return d.parts.Public.Retry(ctx) }

// mayHave reports whether a question may have an answer, without a query.
func (d *Door) mayHave(ctx context.Context, q *answer.Question) bool {
	switch q.Request.Form {
	case layout.FormFile, layout.FormCabinet, layout.FormSection, layout.FormGSYM:
	default:
		return false // sources, records of a store, SymCache files
	}
	if _, _, ok := symbolicate.FormatOf(&q.Request); ok {
		return true // it may be made of other files
	}
	return d.parts.InPlace.Exist() || !d.parts.Lookups.Absent(ctx, q.Scope, &q.Request, nil)
}

// open opens what answers a question.
func (d *Door) open(ctx context.Context, q *answer.Question) (*answer.File, error) {
	switch q.Request.Form {
	case layout.FormSection:
		return d.section(ctx, q)
	case layout.FormCabinet:
		return d.cabinet(ctx, q)
	case layout.FormFile:
		f, err := answer.Search(ctx, answer.Added|answer.Watched|answer.Cached, &search{Door: d, q: q})
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return d.made(ctx, q)
}

// search looks for a file with a public form. It implements answer.Searcher.
type search struct {
	*Door
	q      *answer.Question
	cached []record.Hit // less preferred than a watched file
}

// Look implements answer.Searcher.
func (s *search) Look(ctx context.Context, place answer.Places) (*answer.File, error) {
	switch place {
	case answer.Added:
		return s.indexed(ctx)
	case answer.Watched:
		return s.watched(ctx, s.q)
	}
	return s.first(ctx, s.cached)
}

// indexed opens the public form of a file that the index has. Cached ones wait for their place.
func (s *search) indexed(ctx context.Context) (*answer.File, error) {
	hits, role, err := s.parts.Lookups.Find(ctx, s.q.Scope, s.q.Request, false, nil)
	if err != nil {
		return nil, err
	}
	if hits[0].Source != "" {
		s.cached = hits
		return nil, nil
	}
	if f, ok := answer.CodeRedirect(hits[0], role); ok {
		if f == nil {
			return nil, fs.ErrNotExist
		}
		return f, nil
	}
	return s.first(ctx, hits)
}

// first opens the first public form that files have.
func (s *search) first(ctx context.Context, hits []record.Hit) (*answer.File, error) {
	for _, h := range hits {
		f, err := s.form(ctx, s.q, h)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// statesTried is how many states of a watched file are tried that changes while its form is made.
const statesTried = 3

// watched opens the public form of a file in a watched folder, and has it made if need be. The form
// is that of the contents that the file has now: the file is opened, also if its form is known, and
// once more after the form was made.
func (d *Door) watched(ctx context.Context, q *answer.Question) (*answer.File, error) {
	for range statesTried {
		f, err := d.parts.InPlace.OpenWatched(ctx, q.Scope, q.Request)
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		source := publicform.Source{
			Content: record.Content{Size: f.Size}, Name: f.Object.Name, Kind: f.Object.Kind,
			Placed: &publicform.Placed{Products: q.Scope.Products, Request: q.Request, Tag: f.ETag},
		}
		c, err := d.parts.Public.Made(ctx, source)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := d.parts.Public.Answer(ctx, publicform.Ask{Source: source, Client: q.Client, Hold: q.Hold}); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		h := record.Hit{Stored: record.Stored{Object: f.Object, Ref: c.Ref, Size: c.Size, ModTime: f.ModTime, Source: publicform.Kind}}
		form, err := d.parts.Lookups.OpenHit(ctx, h, nil)
		if errors.Is(err, fs.ErrNotExist) { // its bytes are damaged, or were evicted since
			if err := d.parts.Public.Lost(ctx, source, c); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			form.Source, form.Cached, form.InPlace, form.Product = blob.Ref{}, false, true, f.Product
		}
		return form, err
	}
	return nil, symbolicate.PendingError{} // it changes all the time
}

// made opens a .sym or GSYM file that is made of the public forms of its module.
func (d *Door) made(ctx context.Context, q *answer.Question) (*answer.File, error) {
	format, module, ok := symbolicate.FormatOf(&q.Request)
	if !ok {
		return nil, fs.ErrNotExist
	}
	module.CodeFile, module.CodeID = q.CodeFile, q.CodeID
	ask := symbolicate.Ask{Products: q.Scope.Products, Format: format, Module: module, Client: q.Client, Via: q.Via, Local: true, Hold: q.Hold}
	origins := map[blob.Ref]origin{}
	m, err := d.parts.Make(ctx, ask, Forms{d, ask, origins})
	if err != nil || m.Redirect != "" {
		return m, err
	}
	h := record.Hit{Stored: record.Stored{Object: m.Object, Ref: m.Ref, Size: m.Size, Added: m.ModTime}}
	of, ok := origins[m.ReadRef()]
	if err := m.Close(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fs.ErrNotExist // it is not of these forms
	}
	f, err := d.form(ctx, q, h)
	if err == nil {
		f.Source, f.InPlace, f.Product = of.ref, of.ref == (blob.Ref{}), of.product
	}
	return f, err
}

// Of puts public forms in the place of files that were found in the index, and leaves out those
// that have none.
func (f Forms) Of(ctx context.Context, hits []record.Hit) ([]record.Hit, error) {
	var list []record.Hit
	for _, h := range hits {
		c, err := f.door.parts.Public.Answer(ctx, publicform.Ask{Source: publicform.Stored(&h), Client: f.ask.Client, Hold: f.ask.Hold})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if f.origins != nil {
			f.origins[c.Ref] = origin{ref: h.Ref}
		}
		h.Ref, h.Size = c.Ref, c.Size
		if h.Object.Kind == symfile.MSFZ {
			h.Object.Kind = symfile.PDB
		}
		list = append(list, h)
	}
	return list, nil
}

// Watched opens the public form of a file in a watched folder of the products; nil is all. Not found
// is fs.ErrNotExist.
func (f Forms) Watched(ctx context.Context, products []string, req layout.Request) (*answer.File, error) {
	q := answer.Question{Scope: answer.Scope{Products: products}, Request: req, Client: f.ask.Client, Hold: f.ask.Hold}
	file, err := f.door.watched(ctx, &q)
	if err == nil && f.origins != nil {
		f.origins[file.Ref] = origin{product: file.Product}
	}
	return file, err
}

// Source returns what opens modules for a client who may have the public forms of the scope: their
// functions are known, and neither lines nor inlined calls. Of ask, Client, Via and Hold count.
func (d *Door) Source(scope Scope, ask symbolicate.Ask) symbolicate.UnwindSource {
	ask.Products, ask.Local = scope.names(), true
	return d.parts.Source(ask, Forms{d, ask, nil})
}

// form opens the public form of a file, and has it made if need be.
func (d *Door) form(ctx context.Context, q *answer.Question, h record.Hit) (*answer.File, error) {
	ask := publicform.Ask{Source: publicform.Stored(&h), Client: q.Client, Hold: q.Hold}
	return d.opened(ctx, h, func() (record.Content, error) { return d.parts.Public.Answer(ctx, ask) })
}

// opened opens the public form that get returns. One whose bytes are damaged is got again.
func (d *Door) opened(ctx context.Context, h record.Hit, get func() (record.Content, error)) (*answer.File, error) {
	for again := false; ; again = true {
		c, err := get()
		if err != nil {
			return nil, err
		}
		f, err := d.openForm(ctx, h, c)
		if again || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		// Its bytes are damaged.
		if err := d.parts.Public.Lost(ctx, publicform.Stored(&h), c); err != nil {
			return nil, err
		}
	}
}

// openForm opens a public form, or what was made of it, of a file.
func (d *Door) openForm(ctx context.Context, h record.Hit, c record.Content) (*answer.File, error) {
	f, err := d.parts.Lookups.OpenHit(ctx, record.Hit{Stored: record.Stored{
		Object: h.Object, Ref: c.Ref, Size: c.Size, Added: h.Added, ModTime: h.ModTime,
	}}, nil)
	if err == nil {
		f.Source = h.Ref
	}
	return f, err
}

// section opens a section of a public form: of debug information first, then of a program, the
// first that has contents for it.
func (d *Door) section(ctx context.Context, q *answer.Question) (*answer.File, error) {
	for _, want := range q.Request.Lookups {
		whole := *q
		whole.Request = layout.Request{Form: layout.FormFile, Lookups: []symfile.Lookup{want}}
		hits, _, err := d.parts.Lookups.Find(ctx, q.Scope, whole.Request, false, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, h := range hits {
			if h.Object.Kind != symfile.ELF {
				continue
			}
			f, err := d.form(ctx, q, h)
			if err == nil {
				err = f.Cut(q.Request.Part)
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		f, err := d.watched(ctx, &whole)
		if err == nil {
			err = f.Cut(q.Request.Part)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// cabinet opens the cabinet of a public form. If there is none, one may be made for later requests.
func (d *Door) cabinet(ctx context.Context, q *answer.Question) (*answer.File, error) {
	hits, _, err := d.parts.Lookups.Find(ctx, q.Scope, q.Request, false, nil)
	if err != nil {
		return nil, err
	}
	h := hits[0]
	f, err := d.form(ctx, q, h)
	if err != nil {
		return nil, err
	}
	public := h
	public.Ref, public.Size = f.Ref, f.Size
	if err := f.Close(); err != nil {
		return nil, err
	}
	c, err := d.parts.Forms.Cabinet(ctx, public, true)
	if err != nil {
		return nil, err
	}
	if f, err = d.openForm(ctx, h, c); err == nil {
		f.Packed = true
	}
	return f, err
}
