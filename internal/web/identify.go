package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/sparse"
	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/objfile"
)

// Files is the part of the depot that finds what it has of the files of clients.
type Files interface {
	want.Depot
	Alike(ctx context.Context, scope depot.Scope, o objfile.Object, ref *blob.Ref) ([]depot.Found, error)
	Same(ctx context.Context, scope depot.Scope, c depot.Content, name string) ([]depot.Same, error)
}

var _ Files = depot.Finder{}

const (
	// maxWhole is the size of the largest file that is taken whole.
	maxWhole = 256 << 20
	// wholeInMemory is how much of it is kept in memory.
	wholeInMemory = 1 << 20
	// maxArriving and maxExamining are how many files arrive, and are read, at the same
	// time.
	maxArriving, maxExamining = 8, 2
	// examineTime is how long it may take to read a file and to look its ids up.
	examineTime = 30 * time.Second
)

// sentFile is a file that a client has sent, whole or in parts. It is not kept.
type sentFile struct {
	name  string
	parts *sparse.File // nil: the file is whole
	whole *wholeFile
	// unread: nothing is looked up, because nobody reads the answer.
	unread bool
}

// readParts reads a message with parts of a file. If these are all of it, the file is
// whole.
func (f *sentFile) readParts(r io.Reader) error {
	h, parts, err := sparse.Read(r)
	if err != nil {
		return err
	}
	f.name, f.parts = h.Name, parts
	if all, ok := parts.Whole(); ok {
		f.whole, f.parts = &wholeFile{ReaderAt: all, size: h.Size}, nil
	}
	return nil
}

// examined says what a file is and what the depot has of it. If parts of it are missing,
// need says which, and there is no answer.
type examined struct {
	answer report.FileAnswer
	need   []sparse.Range
}

// examine examines a file.
func (a *API) examine(r *Request, f *sentFile) (e examined, err error) {
	done, err := r.turn(a.examining, examineTime, "other files are being examined")
	if err != nil {
		return e, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), examineTime)
	defer cancel()
	x := examination{files: a.cfg.Files, inPlace: a.cfg.InPlace, scope: r.scope(), f: f}
	if f.parts == nil {
		err = x.parse(f.whole, f.whole.size)
	} else {
		e.need, err = f.parts.Try(func(p io.ReaderAt) error { return x.parse(p, f.parts.Size()) })
	}
	if err != nil || e.need != nil || f.unread {
		return e, unreadable(err)
	}
	e.answer, err = x.answer(ctx)
	return e, r.tookLonger(err)
}

// tookLonger returns the problem that an error of look-ups is that examineTime ended.
func (r *Request) tookLonger(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
		return &Problem{Word: "busy", Detail: "the look-ups took longer than " + examineTime.String()}
	}
	return err
}

// examination is one reading of a file.
type examination struct {
	files   Files
	inPlace InPlace // may be nil
	scope   depot.Scope
	f       *sentFile

	crash   *dump.Dump // set for a dump
	objects []objfile.Object
}

// parse finds out what the file is.
func (x *examination) parse(r io.ReaderAt, size int64) (err error) {
	head := make([]byte, dump.SniffLen)
	n, _ := r.ReadAt(head, 0) // Identify reports failures
	if dump.Detect(head[:n]) != "" {
		x.crash, err = dump.Read(r, size)
		return err
	}
	x.objects, err = objfile.Identify(r, size, x.f.name, objfile.Options{})
	return err
}

// answer looks up what the depot has.
func (x *examination) answer(ctx context.Context) (report.FileAnswer, error) {
	a := report.FileAnswer{Name: x.f.name}
	whole := x.f.whole
	if whole == nil {
		a.Size = x.f.parts.Size()
	} else {
		a.Size = whole.size
		sum, _, err := blob.Hash(ctx, io.NewSectionReader(whole, 0, whole.size))
		if err != nil {
			return a, err
		}
		a.SHA256 = sum.String()
	}
	if x.crash != nil {
		modules, err := want.Judge(ctx, x.files, x.scope, x.crash)
		a.Dump = report.NewDumpAnswer(x.crash, modules)
		return a, err
	}
	if whole != nil {
		same, err := x.files.Same(ctx, x.scope, whole, x.f.name)
		if err != nil {
			return a, err
		}
		for _, s := range same {
			if err := x.add(ctx, &a, s); err != nil {
				return a, err
			}
		}
		return a, nil
	}
	for _, o := range x.objects {
		found, err := x.files.Alike(ctx, x.scope, o, nil)
		if err != nil {
			return a, err
		}
		if err := x.add(ctx, &a, depot.Same{Object: o, Found: found}); err != nil {
			return a, err
		}
	}
	return a, nil
}

// add describes an object, also with the files of watched folders that have its ids.
func (x *examination) add(ctx context.Context, a *report.FileAnswer, s depot.Same) error {
	if x.inPlace != nil {
		found, err := x.inPlace.Alike(ctx, x.scope, s.Object, maxInPlace)
		if err != nil {
			return err
		}
		s.Found = append(s.Found, found...)
	}
	o := report.NewObjectAnswer(x.f.name, s, x.f.whole != nil)
	for _, n := range spellings(s.Object.Object) {
		o.Spellings = append(o.Spellings, report.Spelling(n))
	}
	a.Objects = append(a.Objects, o)
	return nil
}

// unreadable returns the problem that an error of reading a file is.
func unreadable(err error) error {
	for _, e := range []error{objfile.ErrNotSymbolFile, objfile.ErrBroken, dump.ErrNotDump, dump.ErrBroken} {
		if errors.Is(err, e) {
			return &Problem{Word: "not-symbol", Detail: err.Error()}
		}
	}
	if errors.Is(err, sparse.ErrLimit) {
		return &Problem{Word: "too-large", Detail: err.Error() + "; the command symdepot identify reads it on your machine"}
	}
	return err
}

// wholeFile has the bytes of a whole file: the beginning in memory, all of a larger
// one in a temporary file. It implements depot.Content.
type wholeFile struct {
	io.ReaderAt
	size   int64
	temp   *os.File
	remove bool // the temporary file is removed when it is closed
}

// Size implements depot.Content.
func (w *wholeFile) Size() int64 { return w.size }

// Changed implements depot.Content.
func (w *wholeFile) Changed() bool { return false }

// readWhole reads a file to its end. A large one goes to a temporary file in dir, or in
// that of the system if dir is empty.
func readWhole(r io.Reader, dir string) (*wholeFile, error) {
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, wholeInMemory)
	switch {
	case errors.Is(err, io.EOF):
		return &wholeFile{ReaderAt: bytes.NewReader(head.Bytes()), size: n}, nil
	case err != nil:
		return nil, err
	}
	temp, err := os.CreateTemp(dir, "symdepot-identify-*")
	if err != nil {
		return nil, err
	}
	// Systems that do not remove open files have it removed by Close.
	w := &wholeFile{ReaderAt: temp, temp: temp, remove: os.Remove(temp.Name()) != nil}
	w.size, err = io.Copy(temp, io.MultiReader(&head, io.LimitReader(r, maxWhole+1-n)))
	if err == nil && w.size > maxWhole {
		err = tooLargeWhole()
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func tooLargeWhole() error {
	return &Problem{Word: "too-large", Detail: fmt.Sprintf("a whole file has at most %d MiB; of a larger one, send parts, as the command symdepot identify --server does", maxWhole>>20)}
}

// Close drops the bytes.
func (w *wholeFile) Close() {
	if w == nil || w.temp == nil {
		return
	}
	_ = w.temp.Close() // it is not needed any more
	if w.remove {
		_ = os.Remove(w.temp.Name())
	}
}
