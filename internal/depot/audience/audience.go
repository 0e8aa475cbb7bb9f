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
	// InPlace opens a file in the served trees that have only public forms, and Download brings one
	// into the depot from the upstreams that do. Not found is fs.ErrNotExist.
	InPlace  func(ctx context.Context, req layout.Request) (*answer.File, error)
	Download func(ctx context.Context, q answer.Question) error
	// Make makes the .sym or GSYM file of a module, and Source opens modules for lookups of
	// addresses; both only of public forms.
	Make   func(ctx context.Context, ask symbolicate.Ask, forms Forms) (*answer.File, error)
	Source func(ask symbolicate.Ask, forms Forms) symbolicate.Source
}

// Forms puts public forms in the place of files that were found, and leaves out those that have
// none.
type Forms func(ctx context.Context, hits []record.Hit) ([]record.Hit, error)

// Door gives public forms to people outside. Its methods may be called by many goroutines.
type Door struct{ parts Parts }

// New returns the door of a depot.
func New(p Parts) *Door { return &Door{p} }

// Get answers a question with the public form of a file that the depot holds in the scope; the
// question's own scope does not matter. Served trees and upstreams are asked if they have only public
// forms. What comes from an upstream is stripped like what was added, so that a private file among
// it is not answered. Not found is fs.ErrNotExist, also for a file of which nothing is public; see
// also symbolicate.PendingError and symbolicate.ErrBusy.
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
	return d.open(ctx, q)
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
	return d.parts.InPlace(ctx, q.Request)
}

// Form opens the public form of a file that the depot holds, for a tree that is written for people
// outside, and makes it if need be. A file of which nothing is public is fs.ErrNotExist, with the
// reason.
func (d *Door) Form(ctx context.Context, stored record.Stored) (*File, error) {
	source := record.Content{Ref: stored.Ref, Size: stored.Size}
	f, err := d.opened(ctx, record.Hit{Stored: stored}, func() (record.Content, error) { return d.parts.Public.Write(ctx, source) })
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
	return !d.parts.Lookups.Absent(ctx, q.Scope, q.Request, nil)
}

// open opens what answers a question.
func (d *Door) open(ctx context.Context, q *answer.Question) (*answer.File, error) {
	switch q.Request.Form {
	case layout.FormSection:
		return d.section(ctx, q)
	case layout.FormCabinet:
		return d.cabinet(ctx, q)
	case layout.FormFile:
		f, err := d.held(ctx, q)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return d.made(ctx, q)
}

// held opens the public form of a file that the depot holds.
func (d *Door) held(ctx context.Context, q *answer.Question) (*answer.File, error) {
	hits, role, err := d.parts.Lookups.Find(ctx, q.Scope, q.Request, false, nil)
	if err != nil {
		return nil, err
	}
	if f, ok := answer.CodeRedirect(hits[0], role); ok {
		if f == nil {
			return nil, fs.ErrNotExist
		}
		return f, nil
	}
	for _, h := range hits {
		f, err := d.form(ctx, q, h)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// made opens a .sym or GSYM file that is made of the public forms of its module.
func (d *Door) made(ctx context.Context, q *answer.Question) (*answer.File, error) {
	format, module, ok := symbolicate.FormatOf(&q.Request)
	if !ok {
		return nil, fs.ErrNotExist
	}
	module.CodeFile, module.CodeID = q.CodeFile, q.CodeID
	ask := symbolicate.Ask{Products: q.Scope.Products, Format: format, Module: module, Client: q.Client, Via: q.Via, Local: true, Hold: q.Hold}
	origins := map[blob.Ref]blob.Ref{}
	m, err := d.parts.Make(ctx, ask, d.forms(ask, origins))
	if err != nil || m.Redirect != "" {
		return m, err
	}
	h := record.Hit{Stored: record.Stored{Object: m.Object, Ref: m.Ref, Size: m.Size, Added: m.ModTime}}
	origin, ok := origins[m.ReadRef()]
	if err := m.Close(); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fs.ErrNotExist // it is not of these forms
	}
	f, err := d.form(ctx, q, h)
	if err == nil {
		f.Source = origin
	}
	return f, err
}

// forms returns what puts public forms in the place of files, for who asks. It notes of which
// contents they were made in origins, if that is not nil.
func (d *Door) forms(ask symbolicate.Ask, origins map[blob.Ref]blob.Ref) Forms {
	return func(ctx context.Context, hits []record.Hit) ([]record.Hit, error) {
		var list []record.Hit
		for _, h := range hits {
			c, err := d.parts.Public.Answer(ctx, publicform.Ask{
				Source: record.Content{Ref: h.Ref, Size: h.Size}, Name: h.Object.Name, Client: ask.Client, Hold: ask.Hold,
			})
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if origins != nil {
				origins[c.Ref] = h.Ref
			}
			h.Ref, h.Size = c.Ref, c.Size
			if h.Object.Kind == symfile.MSFZ {
				h.Object.Kind = symfile.PDB
			}
			list = append(list, h)
		}
		return list, nil
	}
}

// Source returns what opens modules for a client who may have the public forms of the scope: their
// functions are known, and neither lines nor inlined calls. Of ask, Client, Via and Hold count.
func (d *Door) Source(scope Scope, ask symbolicate.Ask) symbolicate.Source {
	ask.Products, ask.Local = scope.names(), true
	return d.parts.Source(ask, d.forms(ask, nil))
}

// form opens the public form of a file, and has it made if need be.
func (d *Door) form(ctx context.Context, q *answer.Question, h record.Hit) (*answer.File, error) {
	ask := publicform.Ask{Source: record.Content{Ref: h.Ref, Size: h.Size}, Name: h.Object.Name, Client: q.Client, Hold: q.Hold}
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
		if err := d.parts.Public.Lost(ctx, c); err != nil {
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
		hits, _, err := d.parts.Lookups.Find(ctx, q.Scope, layout.Request{Form: layout.FormFile, Lookups: []symfile.Lookup{want}}, false, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
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
