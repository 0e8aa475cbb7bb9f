package pages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// identifyPages are the pages about files that people have.
type identifyPages struct {
	examiner *web.Examiner
}

func (p identifyPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "identify", web.Anyone, "Files/Identify", p.askForFiles).explainedIn("identify"),
		longPage(http.MethodPost, "identify", web.Anyone, p.identifyFiles),
		longPage(http.MethodPost, "identify/missing", web.Anyone, p.listMissing),
	}
}

const (
	// maxFormFiles is how many files a form has at most.
	maxFormFiles = 64
	// maxMissingForm is the length of the longest form of missing files.
	maxMissingForm = 8 << 20
)

// identifyView is what the page about files shows.
type identifyView struct {
	Asked bool // files were sent
	Files []fileView
}

// fileView is one file, or why it could not be read.
type fileView struct {
	Name, Problem, SHA256 string
	Size                  int64
	Parts                 bool // parts of it were sent, so that its bytes are not known
	Objects               []objectAnswerView
	Dump                  *dumpView
}

// objectAnswerView is an object of a file.
type objectAnswerView struct {
	Name, Kind, Arch string
	Size             int64
	IDs              []web.NamedValue
	Has              []web.NamedValue
	Answers, Needs   []string
	Held             []heldRow
	Why              string // the address of the trace; "" if the object is held
}

// heldRow is a file of the depot, or of a watched folder.
type heldRow struct {
	Name, Link, Kind, From string
	InPlace                string // where it is in a watched folder
	Size                   int64
	Same                   string // whether it has the same bytes
	Transactions           []txLink
}

// dumpView is a dump with its modules.
type dumpView struct {
	Facts    []string
	Totals   []totalView
	Rows     []moduleRow
	Problems []string
	Missing  string // the modules that lack files, in JSON, for lists of these
	Count    int    // of missing files
	Get      string // the command that gets the files
}

type totalView struct {
	Text, Mark string
	Count      int
}

// moduleRow is a module of a dump.
type moduleRow struct {
	Name, ID, Verdict, Mark string
	Unloaded                bool
	Files                   []moduleFile
}

// moduleFile is a file that a debugger asks for.
type moduleFile struct {
	Name, Part, Link string // Link: of the held file, or else of the trace
	Held             bool
	Features         []string
}

// askForFiles answers GET identify.
func (p identifyPages) askForFiles(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	return w.show(r, http.StatusOK, "identify", "What is this file?", identifyView{})
}

// identifyFiles answers POST identify: a form with files. Each is whole, or a message
// with parts of one.
func (p identifyPages) identifyFiles(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	form, err := openForm(r)
	if err != nil {
		return err
	}
	done, err := p.examiner.Arrive(r)
	if err != nil {
		return err
	}
	defer done()
	f := w.frame(r, "What is this file?", nil)
	v := identifyView{Asked: true}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) && len(v.Files) > 0 {
			break
		}
		if err != nil {
			return formProblem(err)
		}
		if part.FileName() == "" {
			continue // no file was chosen
		}
		if len(v.Files) == maxFormFiles {
			return &web.Problem{Word: "too-large", Detail: fmt.Sprintf("a form has at most %d files", maxFormFiles)}
		}
		file, err := p.identifyPart(f, r, part)
		if err != nil {
			return err
		}
		v.Files = append(v.Files, file)
	}
	done()
	f.D = v
	return w.print(r, http.StatusOK, "identify", f)
}

// openForm begins to read a form with files.
func openForm(r *web.Request) (*multipart.Reader, error) {
	kind, param, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || param["boundary"] == "" {
		return nil, &web.Problem{Word: "query", Detail: "a form with files is expected"}
	}
	return multipart.NewReader(io.LimitReader(r.Body, web.MaxWhole+sparse.MaxHeld), param["boundary"]), nil
}

// formProblem says what is wrong with a form of files.
func formProblem(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return &web.Problem{Word: "query", Detail: "no file was chosen"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return web.TooLargeWhole() // the reader ends there
	}
	return err
}

// sentFile reads a file of a form, whole or as a message with parts of it. The caller closes what is
// whole.
func sentFile(x *web.Examiner, r *web.Request, part *multipart.Part) (*web.SentFile, error) {
	sent := &web.SentFile{Name: baseName(part.FileName())}
	var err error
	if kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); kind == sparse.MediaType {
		err = sent.ReadParts(r.Memory.Counted(r.Context(), part))
		sent.Name = baseName(sent.Name)
	} else {
		sent.Whole, err = x.ReadWhole(part)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = web.TooLargeWhole()
	case errors.Is(err, sparse.ErrMessage):
		err = &web.Problem{Word: "query", Detail: err.Error()}
	case errors.Is(err, sparse.ErrLimit):
		err = &web.Problem{Word: "too-large", Detail: err.Error()}
	}
	return sent, err
}

// identifyPart examines one file of a form.
func (p identifyPages) identifyPart(f *frame, r *web.Request, part *multipart.Part) (v fileView, err error) {
	sent, err := sentFile(p.examiner, r, part)
	if err != nil {
		return v, err
	}
	defer sent.Whole.Close()
	v = fileView{Name: sent.Name, Parts: sent.Parts != nil}
	x, err := p.examiner.Examine(r, sent)
	if problem := web.AsProblem(err); problem != nil && (problem.Word == "not-symbol" || problem.Word == "too-large") {
		v.Problem = problem.Detail
		return v, nil
	}
	switch {
	case err != nil:
		return v, err
	case x.Need != nil:
		v.Problem = "parts of the file are missing that are needed"
		return v, nil
	}
	a := &x.Answer
	v.Size, v.SHA256 = a.Size, a.SHA256
	for i := range a.Objects {
		v.Objects = append(v.Objects, f.objectAnswer(&a.Objects[i]))
	}
	if a.Dump != nil {
		v.Dump = f.dumpAnswer(sent.Name, a.Dump)
	}
	return v, nil
}

// baseName returns the last part of a path that a browser sends as the name of a file.
func baseName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	if name == "/" || name == "." {
		return "file"
	}
	return web.Clip(name)
}

// objectAnswer describes an object.
func (f *frame) objectAnswer(o *display.ObjectAnswer) objectAnswerView {
	v := objectAnswerView{Name: o.Name, Kind: o.Kind, Arch: o.Arch, Size: o.Size, Answers: o.Answers, Needs: o.Needs}
	for _, s := range o.Spellings {
		v.IDs = append(v.IDs, web.NamedValue(s))
	}
	v.Has = hasList(o.Features)
	for _, h := range o.Held {
		row := heldRow{Name: h.Name, Link: f.To("file", h.SHA256), Kind: h.Kind, Size: h.Size, From: h.FetchedFrom, Same: "the same ids"}
		if h.InPlace != "" {
			row.Link, row.InPlace = "", h.InPlace
		}
		if h.SameContent != nil {
			row.Same = map[bool]string{true: "the same bytes", false: "other bytes"}[*h.SameContent]
		}
		for _, n := range h.Transactions {
			row.Transactions = append(row.Transactions, txLink{n, f.To("builds", n)})
		}
		v.Held = append(v.Held, row)
	}
	if id := o.ID(); len(o.Held) == 0 && id != "" {
		v.Why = f.Ask("trace", "name", o.Name, "id", id)
	}
	return v
}

// verdictMarks are the marks of the verdicts.
var verdictMarks = map[needed.Verdict]string{
	needed.VerdictHere: "ok", needed.VerdictStripped: "warn", needed.VerdictOtherBuild: "warn", needed.VerdictOurs: "bad",
	needed.VerdictOthers: "dim", needed.VerdictNoID: "dim", needed.VerdictKernel: "dim",
}

// dumpAnswer describes a dump.
func (f *frame) dumpAnswer(name string, d *display.DumpAnswer) *dumpView {
	v := &dumpView{Facts: []string{string(d.Kind)}, Problems: d.Problems}
	for _, fact := range []string{d.OS, d.Arch} {
		if fact != "" {
			v.Facts = append(v.Facts, fact)
		}
	}
	v.Facts = append(v.Facts, term.Count(int64(len(d.Modules)), "module"))
	for _, x := range needed.Verdicts {
		if n := d.Totals[x]; n > 0 {
			v.Totals = append(v.Totals, totalView{x.Text(), verdictMarks[x], n})
		}
	}
	var lacking []needed.Module
	for i := range d.Modules {
		m := &d.Modules[i]
		row := moduleRow{Name: m.Name, ID: m.ID, Verdict: m.Verdict.Text(), Mark: verdictMarks[m.Verdict], Unloaded: m.Unloaded}
		for _, file := range m.Files {
			mf := moduleFile{Name: file.Name, Part: file.Part, Held: file.Held, Features: file.Features}
			switch {
			case file.SHA256 != "":
				mf.Link = f.To("file", file.SHA256)
			case !file.Held:
				mf.Link = f.Ask("trace", "name", file.Name, "id", file.ID)
			}
			row.Files = append(row.Files, mf)
		}
		v.Rows = append(v.Rows, row)
		if missing := m.Missing(); len(missing) > 0 {
			v.Count += len(missing)
			lacking = append(lacking, needed.Module{Name: m.Name, Verdict: m.Verdict, Files: missing})
		}
	}
	if len(lacking) > 0 {
		if b, err := json.Marshal(lacking); err == nil { // it holds texts only
			v.Missing = string(b)
		}
		v.Get = "symdepot get " + shellWord(name)
	}
	return v
}

// shellWord quotes a name for a shell, if that is needed.
func shellWord(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+", r)
	}
	if name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return name
	}
	return "DUMP" // quoting differs between shells
}

// listMissing answers POST identify/missing: a form with the modules that lack files,
// from the page of a dump.
func (p identifyPages) listMissing(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	done, err := p.examiner.Arrive(r)
	if err != nil {
		return err
	}
	defer done()
	form, err := readLongForm(r, maxMissingForm)
	if err != nil {
		return err
	}
	var modules []needed.Module
	if err := json.Unmarshal([]byte(form.Get("modules")), &modules); err != nil {
		return &web.Problem{Word: "query", Detail: "the form is not one of the page about dumps"}
	}
	as := form.Get("as")
	if as != web.MissingCSV && as != web.MissingManifest {
		return &web.Problem{Word: "query", Detail: "the form is not one of the page about dumps"}
	}
	done()
	web.Finish(w, r)
	return web.WriteMissing(w, as, modules)
}
