package scan

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// Source is a file that Visit reads.
type Source struct {
	Path string // for messages; its base name is the name of the file
	At   io.ReaderAt
	Size int64
	Mod  time.Time
}

// FileSource returns the source of an open file.
func FileSource(path string, f *os.File) (Source, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return Source{}, err
	}
	return Source{Path: path, At: f, Size: info.Size(), Mod: info.ModTime()}, nil
}

// Entry is a file that Visit has found: the source itself, or a member of the archives in
// it. It is valid only during the call that it is given to.
type Entry struct {
	// Name is the base name, and Member the rest of the path in the source, as in
	// File; Member is empty for the source itself.
	Name, Member string
	// Size in bytes; -1 if it is unknown before the end.
	Size    int64
	ModTime time.Time
	// Place says where in the source the bytes are.
	Place Place
	// Sum is the CRC-32 that the archive claims for the bytes; nil if it claims none.
	Sum *uint32
	// Signature is as in File.
	Signature string

	head []byte
	at   io.ReaderAt
	rest func() io.Reader
}

// Head returns the first bytes, at most HeadSize.
func (e *Entry) Head() []byte { return e.head }

// At returns the bytes with random access, or nil if they can only be read in order.
// Then Size is known.
func (e *Entry) At() io.ReaderAt { return e.at }

// Reader reads the bytes from the beginning. If At is nil, it can be called only once.
func (e *Entry) Reader() io.Reader { return e.rest() }

// Visitor receives what Visit finds. Its methods run in the goroutine of Visit. An
// error that they return ends the visit; ErrEnough ends it without an error.
type Visitor interface {
	// Contents receives the table of contents of the source, if that is a package with one
	// before its contents: the names of its regular files, as in the package. It is called
	// at most once, and not for packages in the source.
	Contents(names []string) error
	// Meet is called for each regular member before it is opened, with Name, Member,
	// Size, ModTime, Place and Sum. If it returns false, the member is not opened.
	Meet(e *Entry) (open bool, err error)
	// File is called for each file that is neither an archive nor compressed.
	File(e *Entry) error
	// Skipped is called for what cannot be opened.
	Skipped(s *Skip)
}

// ErrEnough ends a visit.
var ErrEnough = errors.New("enough was found")

// Visit reads a file as Walk does, and calls v for the files in it instead of keeping
// their bytes. It also reads the control files of Debian packages. The error is that of
// v or of the context.
func Visit(ctx context.Context, s Source, opt Options, v Visitor) error {
	opt.setDefaults()
	w := &walk{ctx: ctx, opt: opt, pool: &pool{}, visitor: v}
	w.pool.left.Store(opt.TotalMemory)
	w.yield = func(_ *File, err error) bool {
		if skip, ok := errors.AsType[*Skip](err); ok {
			v.Skipped(skip)
			return true
		}
		w.failed = err
		return false
	}
	d := &disk{path: s.Path, at: s.At}
	st := newStore(io.NewSectionReader(d, 0, s.Size), s.Size, d, func() {})
	defer st.drop()
	in := &input{
		path: s.Path, name: memberBase(s.Path), top: true, size: s.Size, mod: s.Mod, base: st, at: st.at,
		place: Place{Packed: s.Size, Method: Stored},
		meter: &meter{limit: opt.unpackLimit(s.Size), entries: opt.MaxEntries},
	}
	_ = w.visit(in)
	if errors.Is(w.failed, ErrEnough) {
		return nil
	}
	return w.failed
}

// stop ends the visit with an error, if there is one.
func (w *walk) stop(err error) {
	if err != nil && !w.done {
		w.done, w.failed = true, err
	}
}

// meets reports whether a member is to be opened.
func (w *walk) meets(in *input) bool {
	if w.visitor == nil || in.depth == 0 || in.wraps > 0 {
		return true
	}
	open, err := w.visitor.Meet(in.entry())
	w.stop(err)
	return open && err == nil
}

func (in *input) entry() *Entry {
	return &Entry{Name: in.name, Member: in.member, Size: in.size, ModTime: in.mod, Place: in.place, Sum: in.sum, Signature: in.signature}
}

// give passes a file to the visitor.
func (w *walk) give(in *input, head []byte, rest func() io.Reader) {
	e := in.entry()
	e.head, e.rest = head, rest
	e.at = in.at
	w.stop(w.visitor.File(e))
}
