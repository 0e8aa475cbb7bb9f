package intake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/symfile"
)

// The form of the page that publishes files: fields, then any number of files, which are
// one transaction.

// formFace is how package scan is asked to read the archives of a form; the page answers.
var formFace = &face{name: "form"}

// FormFile is the name of the parts of a form that are files.
const FormFile = "file"

// maxFormFiles limits the files of a form.
const maxFormFiles = 1000

// Form is a form with files.
type Form struct {
	stage.Caller
	Body     io.Reader // multipart/form-data, whose reading fails if the bytes come too slowly
	Boundary string    // of its parts
	// Memory counts the fields; nil: they are not counted.
	Memory *body.Account
	// Spec returns the stage to open for the fields, all of which must come before the
	// first file. Its error ends the upload and is returned unchanged.
	Spec func(fields url.Values) (stage.Spec, error)
	// Received is called when the whole body has been read, and the work goes on.
	Received func()
}

// Taken is what became of the files of a form.
type Taken struct {
	// Stage is the open stage with the files; those that are no symbol files are recorded
	// there as refused.
	Stage string
	// Accepted are the kept files, which the commit confirms.
	Accepted []stage.Receipt
	// Kept and Refused are the numbers of files, LeftOut that of the members of archives
	// that are no symbol files.
	Kept, Refused, LeftOut int
}

// TakeForm puts the files of a form, and those in its archives, into a stage that it opens.
// The caller commits or abandons the stage; after an error there is none. An error that the
// sender can do something about is a *stage.Refusal.
func (h *Handler) TakeForm(ctx context.Context, f Form) (Taken, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return Taken{}, &stage.Refusal{Kind: stage.Busy, Text: "too many uploads at the same time; try again later"}
	}
	limits, err := h.stages.Limits(ctx, f.Caller)
	if err != nil {
		return Taken{}, err
	}
	t := &formTaker{
		x: &exchange{
			service: h.service, unfinished: h.unfinished, t: &target{face: formFace}, who: Who{Caller: f.Caller},
			limit: limits.MaxFile,
		},
		form: f, fields: url.Values{},
	}
	defer t.closeArchives()
	if err = t.receive(ctx); err == nil {
		f.Received()
		err = t.unpack(ctx)
	}
	if err != nil {
		if t.taken.Stage != "" {
			h.abandon(f.Caller, t.taken.Stage)
		}
		return Taken{}, formRefusal(err)
	}
	t.taken.Accepted = t.upload.accepted
	return t.taken, nil
}

// formTaker is a form whose files arrive.
type formTaker struct {
	x        *exchange
	form     Form
	fields   url.Values
	archives []formArchive // they are unpacked when all has arrived
	upload   *upload       // nil before the first file
	taken    Taken
}

// formArchive is an archive that has arrived.
type formArchive struct {
	*spool
	path string
}

func (t *formTaker) closeArchives() {
	for _, a := range t.archives {
		a.Close()
	}
	t.archives = nil
}

// receive reads the form. Files go to the stage as they arrive, archives to files of their
// own.
func (t *formTaker) receive(ctx context.Context) error {
	all := bodyReader{t.form.Body}
	m := multipart.NewReader(all, t.form.Boundary)
	files, left := 0, int64(maxField)
	for n := 0; ; n++ {
		p, err := m.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badForm(err)
		}
		field, name := p.FormName(), p.FileName()
		switch {
		case n == maxFormFiles+maxParts:
			return &failure{http.StatusRequestEntityTooLarge, "the form has too many parts"}
		case field == FormFile && name == "": // no file was chosen
		case field == FormFile:
			if files++; files > maxFormFiles {
				return &failure{
					http.StatusRequestEntityTooLarge,
					fmt.Sprintf("a form has at most %d files; send them in a zip archive, or with symdepot push", maxFormFiles),
				}
			}
			if err := t.file(ctx, p, name); err != nil {
				return err
			}
		case t.taken.Stage != "":
			return &failure{http.StatusBadRequest, fmt.Sprintf("the field %q comes after a file", truncate.Text(field))}
		default:
			b, err := t.form.Memory.Read(ctx, partReader{p}, left)
			if errors.Is(err, body.ErrLong) {
				return longField(field)
			}
			if err != nil {
				return err
			}
			left -= int64(len(b))
			t.fields.Add(field, string(b))
		}
	}
	if files == 0 {
		return &failure{http.StatusBadRequest, "no file was chosen"}
	}
	_, err := io.CopyN(io.Discard, all, maxField) // what follows the last part
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// file takes one file of the form.
func (t *formTaker) file(ctx context.Context, p *multipart.Part, name string) error {
	if t.taken.Stage == "" {
		spec, err := t.form.Spec(t.fields)
		if err != nil {
			return err
		}
		st, _, err := t.x.stages.Open(ctx, t.x.who.Caller, spec)
		if err != nil {
			return err
		}
		t.taken.Stage = st.ID
		t.upload = &upload{stages: t.x.stages, caller: t.x.who.Caller, stage: st.ID}
	}
	path, err := cleanPath(symfile.BaseName(name))
	if err != nil {
		return err
	}
	body := bufio.NewReaderSize(partReader{p}, 4<<10)
	head, err := body.Peek(archiveHead)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if beginsArchive(head) {
		s, err := t.x.spool(body, t.x.limit)
		if err != nil {
			return inFile(path, err)
		}
		t.archives = append(t.archives, formArchive{s, path})
		return nil
	}
	a, err := t.upload.put(ctx, stage.Entry{Path: path, Size: -1}, body, nil)
	if err != nil {
		return t.refused(ctx, path, a, err)
	}
	t.taken.Kept++
	return nil
}

// refused records a file that is no symbol file. Other errors end the upload.
func (t *formTaker) refused(ctx context.Context, path string, a stage.Arrived, err error) error {
	r, ok := errors.AsType[*stage.Refusal](err)
	if !ok || r.Kind != stage.NotSymbol {
		return inFile(path, err)
	}
	t.taken.Refused++
	return t.x.stages.Refuse(ctx, t.x.who.Caller, t.taken.Stage, stage.Entry{Path: path, Size: a.Size, Ref: a.Ref},
		strings.TrimPrefix(r.Text, path+": "))
}

// unpack puts the members of the archives into the stage.
func (t *formTaker) unpack(ctx context.Context) error {
	for _, a := range t.archives {
		before, left := t.taken.Refused, t.taken.LeftOut
		list, err := t.x.expand(ctx, t.upload, a.spool, a.path, taking{
			refused:  func(path string, a stage.Arrived, err error) error { return t.refused(ctx, path, a, err) },
			unwanted: func() { t.taken.LeftOut++ },
		})
		t.taken.Kept += len(list)
		if err != nil && len(list) == 0 && t.taken.Refused > before {
			if r, ok := errors.AsType[*stage.Refusal](err); ok && r.Kind == stage.NotSymbol {
				continue // all of its members were refused
			}
		}
		if err != nil {
			t.taken.LeftOut = left // the archive says it
			if err := t.refused(ctx, a.path, stage.Arrived{}, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// inFile puts the name of a file in front of an error that concerns it.
func inFile(path string, err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok || strings.Contains(f.text, path) {
		return named(path, err)
	}
	return &failure{f.status, truncate.Text(path) + ": " + f.text}
}

// formRefusal returns the Refusal that an error is. Errors of the body and of the server
// stay as they are.
func formRefusal(err error) error {
	f, ok := errors.AsType[*failure](err)
	switch {
	case ok && f.status == http.StatusRequestEntityTooLarge:
		return &stage.Refusal{Kind: stage.TooLarge, Text: f.text}
	case ok:
		return &stage.Refusal{Kind: stage.Invalid, Text: f.text}
	case errors.Is(err, syscall.ENOSPC):
		return &stage.Refusal{Kind: stage.NoSpace, Text: "the disk of the server is full; nothing was lost, try again later"}
	}
	return err
}

// bodyReader marks the errors of a body, so that they are not taken for damage of the form.
type bodyReader struct{ r io.Reader }

func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	return n, err
}
