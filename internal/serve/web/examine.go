package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Examiner says what files are that clients have, and what the depot has of them.
type Examiner struct {
	files   depot.Finder
	inPlace *inplace.Places
	scratch string // the folder for temporary files
	uploads *Uploads
	// Arriving and Examining let few files arrive, and be read, at the same time.
	arriving, examining *Gate
}

func newExaminer(cfg *Config, uploads *Uploads) *Examiner {
	return &Examiner{
		cfg.Files, cfg.InPlace, cfg.Scratch, uploads,
		newGate(maxArriving, 0, "other files are arriving"), newGate(MaxExamining, examineTime, "other files are being examined"),
	}
}

const (
	// MaxWhole is the size of the largest file that is taken whole.
	MaxWhole = 256 << 20
	// WholeInMemory is how much of it is kept in memory.
	WholeInMemory = 1 << 20
	// maxArriving is how many files arrive at the same time.
	maxArriving = 8
	// MaxExamining is how many files are read at the same time.
	MaxExamining = 2
	// examineTime is how long it may take to read a file and to look its ids up.
	examineTime = 30 * time.Second
)

// SentFile is a file that a client has sent, whole or in parts. It is not kept.
type SentFile struct {
	Name  string
	Parts *sparse.File // nil: the file is whole
	Whole *wholeFile
	// Unread: nothing is looked up or remembered, because nobody reads the answer.
	Unread bool
}

// ReadParts reads a message with parts of a file. If these are all of it, the file is
// whole.
func (f *SentFile) ReadParts(r io.Reader) error {
	h, parts, err := sparse.Read(r)
	if err != nil {
		return err
	}
	f.Name, f.Parts = h.Name, parts
	if all, ok := parts.Whole(); ok {
		f.Whole, f.Parts = &wholeFile{ReaderAt: all, size: h.Size}, nil
	}
	return nil
}

// examined says what a file is and what the depot has of it. If parts of it are missing,
// need says which, and there is no answer.
type examined struct {
	Answer display.FileAnswer
	Need   []sparse.Range
}

// Examine examines a file.
func (a *Examiner) Examine(r *Request, f *SentFile) (e examined, err error) {
	done, err := a.examining.Enter(r)
	if err != nil {
		return e, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), examineTime)
	defer cancel()
	x := examination{files: a.files, inPlace: a.inPlace, scope: r.Scope(), f: f}
	if f.Parts == nil {
		err = x.parse(f.Whole, f.Whole.size)
	} else {
		e.Need, err = f.Parts.Try(func(p io.ReaderAt) error { return x.parse(p, f.Parts.Size()) })
	}
	if err != nil || e.Need != nil || f.Unread {
		return e, unreadable(err)
	}
	e.Answer, err = x.answer(ctx)
	return e, r.tookLonger(err)
}

// examination is one reading of a file.
type examination struct {
	files   depot.Finder
	inPlace *inplace.Places
	scope   answer.Scope
	f       *SentFile

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
	x.objects, err = objfile.Identify(r, size, x.f.Name, objfile.Options{})
	return err
}

// answer looks up what the depot has.
func (x *examination) answer(ctx context.Context) (display.FileAnswer, error) {
	a := display.FileAnswer{Name: x.f.Name}
	whole := x.f.Whole
	if whole == nil {
		a.Size = x.f.Parts.Size()
	} else {
		a.Size = whole.size
		sum, _, err := blob.Hash(ctx, io.NewSectionReader(whole, 0, whole.size))
		if err != nil {
			return a, err
		}
		a.SHA256 = sum.String()
	}
	if x.crash != nil {
		modules, err := needed.Judge(ctx, x.files, x.scope, x.crash)
		a.Dump = display.NewDumpAnswer(x.crash, modules)
		return a, err
	}
	if whole != nil {
		same, err := x.files.Same(ctx, x.scope, whole, x.f.Name)
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
func (x *examination) add(ctx context.Context, a *display.FileAnswer, s depot.Same) error {
	found, err := x.inPlace.Watched().Alike(ctx, x.scope, s.Object, MaxInPlace)
	if err != nil {
		return err
	}
	s.Found = append(s.Found, found...)
	o := display.NewObjectAnswer(x.f.Name, s, x.f.Whole != nil)
	for _, n := range Spellings(s.Object.Object) {
		o.Spellings = append(o.Spellings, display.Spelling(n))
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
		return &Problem{Word: "too-large", Detail: err.Error() + "; the commands symdepot identify and symdepot stack read it on your machine"}
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

// ReadWhole reads a file to its end. A large one goes to a temporary file in dir, or in
// that of the system if dir is empty.
func ReadWhole(r io.Reader, dir string) (*wholeFile, error) {
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, WholeInMemory)
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
	w.size, err = io.Copy(temp, io.MultiReader(&head, io.LimitReader(r, MaxWhole+1-n)))
	if err == nil && w.size > MaxWhole {
		err = TooLargeWhole()
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// TooLargeWhole is the error for a file that is too large to be taken whole.
func TooLargeWhole() error {
	const detail = "a whole file has at most %d MiB; of a larger one, send parts, as the command symdepot identify --server does"
	return &Problem{Word: "too-large", Detail: fmt.Sprintf(detail, MaxWhole>>20)}
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

const (
	// MaxMatch is how many names and ids a request of match has at most.
	MaxMatch = 1000
	// MaxMatchBody limits the body of such a request, in bytes.
	MaxMatchBody = 1 << 20
	// maxFileName is the length of the longest name of a file.
	maxFileName = 1024
)

// Receive reads the file in the body of a request.
func (a *Examiner) Receive(r *Request) (*SentFile, error) {
	done, err := a.arriving.Enter(r)
	if err != nil {
		return nil, err
	}
	defer done()
	u, err := a.uploads.Open(r)
	if err != nil {
		return nil, err
	}
	defer u.Close()
	f := &SentFile{Name: r.URL.Query().Get("name")}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == sparse.MediaType {
		err = f.ReadParts(r.Memory.Counted(r.Context(), u))
	} else if r.ContentLength > MaxWhole {
		err = TooLargeWhole()
	} else {
		f.Whole, err = ReadWhole(u, a.scratch)
	}
	if failed := u.Failure(); failed != nil && !errors.Is(failed, io.ErrClosedPipe) && !body.Lacks(err) {
		err = failed
	}
	switch {
	case errors.Is(err, sparse.ErrMessage):
		return nil, &Problem{Word: "query", Detail: err.Error()}
	case err != nil:
		return nil, unreadable(err)
	case f.Name == "" || len(f.Name) > maxFileName:
		f.Whole.Close()
		return nil, BadMember("the name of the file is expected", "name", "is empty or longer than "+strconv.Itoa(maxFileName)+" bytes")
	}
	return f, nil
}

// The forms of a list of missing files.
const (
	MissingCSV      = "csv"
	MissingManifest = "manifest"
)

// WriteMissing answers with the files that a debugger misses.
func WriteMissing(w http.ResponseWriter, form string, modules []needed.Module) error {
	var b bytes.Buffer
	kind, name := "text/csv; charset=utf-8; header=present", "missing.csv"
	err := display.WriteMissing(&b, modules)
	if form == MissingManifest {
		b.Reset()
		kind, name = "text/plain; charset=utf-8", "manifest.txt"
		err = needed.WriteManifest(&b, modules)
	}
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(b.Bytes())
	return NotSent(err)
}

// NamedValue is a value with its name.
type NamedValue struct{ Label, Value string }

// WatchedFolders describes the folders that the server indexes in place. Why one fails
// names paths of the server, which stay in its log.
func WatchedFolders(ctx context.Context, w *inplace.Watched) []inplace.Status {
	list := w.Statuses(ctx)
	for i := range list {
		switch {
		case list[i].Away:
			list[i].Failed = "away: its files are absent until it is back; the log of the server says why"
		case list[i].Failed != "":
			list[i].Failed = "the folder cannot be read; the log of the server says why"
		}
	}
	return list
}

// Spellings lists the ids of an object in every spelling that tools print.
func Spellings(o symfile.Object) []NamedValue {
	var list []NamedValue
	add := func(label, value string) {
		if value != "" && !slices.ContainsFunc(list, func(n NamedValue) bool { return n.Value == value }) {
			list = append(list, NamedValue{label, value})
		}
	}
	if !o.DebugID.IsZero() {
		b := o.DebugID.Breakpad()
		switch o.Kind {
		case symfile.PDB, symfile.PortablePDB, symfile.PE, symfile.DBG:
			add("symsrv and Breakpad: GUID and age", b)
			if !o.DebugID.PDB20 {
				add("GUID, without the age", "{"+strings.ToUpper(o.DebugID.GUID.String())+"}")
			}
			add("Sentry debug id", strings.ToLower(o.DebugID.String()))
		case symfile.MachO:
			add("UUID", strings.ToUpper(o.DebugID.GUID.String()))
			add("Breakpad", b)
		default:
			add("Breakpad", b)
			add("Sentry debug id", strings.ToLower(o.DebugID.String()))
		}
	}
	add("Code id", o.CodeID)
	add("Build id", string(o.BuildID))
	add("Hash", o.Hash)
	return list
}

// MaxInPlace is how many files of watched and served folders a search shows.
const MaxInPlace = 50

// Match says what the depot has of files that are given by name and id.
func (a *Examiner) Match(r *Request, files []wire.MatchFile) (out display.MatchAnswer, err error) {
	done, err := a.examining.Enter(r)
	if err != nil {
		return out, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), examineTime)
	defer cancel()
	out = display.MatchAnswer{Items: make([]display.Matched, 0, len(files)), Totals: map[needed.Verdict]int{}}
	for _, f := range files {
		module := needed.Module{Name: Clip(f.Name), ID: Clip(f.ID), Verdict: needed.VerdictNoID, Files: []needed.FileState{}}
		item := display.Matched{Module: module}
		if wanted, err := needed.Of(f.Name, f.ID, ""); err != nil {
			item.Error = err.Error()
		} else if item.Module, err = needed.JudgeWant(ctx, a.files, r.Scope(), wanted); err != nil {
			return out, r.tookLonger(err)
		}
		out.Totals[item.Verdict]++
		out.Items = append(out.Items, item)
	}
	return out, nil
}

// Arrive lets few files arrive at the same time.
func (a *Examiner) Arrive(r *Request) (done func(), err error) { return a.arriving.Enter(r) }

// ReadWhole reads a whole file to its end.
func (a *Examiner) ReadWhole(r io.Reader) (*wholeFile, error) { return ReadWhole(r, a.scratch) }
