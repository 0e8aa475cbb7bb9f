package pages

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// crashPages are the pages about crashes.
type crashPages struct {
	examiner      *web.Examiner
	symbolication *web.Symbolication
	kept          *web.Crashes
}

func (p crashPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "crashes", web.Anyone, "Files/Crashes", p.askForDump).explainedIn("crashes"),
		longPage(http.MethodPost, "crashes", web.Anyone, p.showStacks),
		longPage(http.MethodPost, "crashes/*", web.IsAdmin, p.showKept),
		page(http.MethodPost, "crashes/*/delete", web.IsAdmin, "", p.deleteKept),
	}
}

// What a page shows of a dump, so that it stays a page: symdepot stack prints all.
const (
	shownRows        = 3000 // functions
	shownThreads     = 300
	shownModules     = 300       // also of those whose files are linked
	shownAnnotations = 200       // also problems
	shownSource      = 128 << 10 // bytes of lines around those of frames
	shownBytes       = 2000      // bytes of the name of a function, and of other texts
	shownText        = 64 << 10  // bytes of the text that can be copied
)

// crashView is what the page about crashes shows.
type crashView struct {
	Off     bool
	Problem string // why there are no stacks
	Stacks  *stacksView
	For     time.Duration // dumps are kept so long
	Kept    []keptRow     // for administrators
	Pages   pages
}

// keptRow is a dump that is kept.
type keptRow struct {
	wire.KeptDump
	Show, Read, Delete string
}

// stacksView are the stacks of a dump.
type stacksView struct {
	Name    string // of the dump
	Reason  string // "": the process had not crashed
	Meaning string // of the reason, in a sentence
	Address string
	Said    string // what the program said of the crash
	Facts   []string
	Time    *time.Time
	Key     string
	Frames  string // the functions of the key
	First   []threadView
	Others  []threadView
	More    int // threads that are not shown
	Lacking []lackingRow
	Push    string // the command that adds files
	Publish bool   // the client may add files on a page
	Pending bool
	Kept    *wire.KeptDump // nil: the dump is not kept
	Notes   []string

	Registers   []web.NamedValue // of the crashed thread
	Annotations []wire.StackAnnotation
	Modules     []crashModuleRow
	MoreModules int
	Trusts      []trustView
	Text        string
}

// threadView is a thread.
type threadView struct {
	Title string
	Top   string // its first function
	Count int    // of its frames
	Rows  []callRow
	More  int // frames that are not shown
	Note  string
}

// callRow is a function of a stack.
type callRow struct {
	Number             string // of the frame; "": the function into which the one above was inlined
	Function, Offset   string
	Inlined            bool
	Lacks              string // why there is no name
	Module, ModuleLink string
	Place, SourceLink  string // the source file with its line
	Trust              string
	Weak               bool // the frame may be wrong
	Problem            string
	Source             string // the line
	Around             template.HTML
}

// lackingRow is a module that lacks files.
type lackingRow struct{ Name, Help, Trace string }

// crashModuleRow is a module of a dump.
type crashModuleRow struct {
	Name, Link, ID, Address, Debug, Mark, Unwind, From string
	Size                                               int64
	Unloaded                                           bool
}

// trustView explains a way in which frames are found.
type trustView struct{ Word, Says string }

// trusts are the ways in which frames are found, the best first.
var trusts = []trustView{
	{"context", "the registers of the thread"}, {"cfi", "unwind rules"}, {"frame_pointer", "the chain of frame pointers"},
	{"prewalked", "the crash report says it"}, {"cfi_scan", "unwind rules after a search of the stack, which may be wrong"},
	{"scan", "a search of the stack, which may be wrong"},
}

// lackWords say why a frame has no name, by its status.
var lackWords = map[string]string{
	"missing": "no symbols", "missing_symbol": "not in the symbols", "malformed": "symbols that cannot be read",
	"unknown_image": "in no module",
}

// askForDump answers GET crashes.
func (p crashPages) askForDump(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	f := w.frame(r, "Crashes", nil)
	v := crashView{Off: p.symbolication.Off(), For: p.kept.For()}
	if r.MayAdminister() == nil && p.kept.Any() {
		limit, after, err := web.ReadPage(r.URL.Query(), "crashes")
		if err != nil {
			return err
		}
		list, next, err := p.kept.List(r, limit, after)
		if err != nil {
			return err
		}
		for _, d := range list {
			d.Name, d.Reason = clipText(d.Name), clipText(d.Reason)
			v.Kept = append(v.Kept, keptRow{d, f.To("crashes", d.ID), f.To("api", "v1", "crashes", d.ID), f.To("crashes", d.ID, "delete")})
		}
		v.Pages = f.pager("crashes", next)
	}
	f.D = v
	return w.print(r, http.StatusOK, "crashes", f)
}

// showKept answers POST crashes/ID: the stacks of a dump that is kept, with the files that are there now.
func (p crashPages) showKept(w *reply, r *web.Request, args []string) error {
	if _, err := readForm(r); err != nil {
		return err
	}
	s, err := p.kept.Stacks(r, args[0])
	if err != nil {
		return err
	}
	return p.print(w, r, s.Kept.Name, s)
}

// deleteKept answers POST crashes/ID/delete.
func (p crashPages) deleteKept(w *reply, r *web.Request, args []string) error {
	if _, err := readForm(r); err != nil {
		return err
	}
	if err := p.kept.Remove(r, args[0]); err != nil {
		return err
	}
	return seeOther(w, r, link(r.Base, "crashes", nil, nil))
}

// print answers with the page of stacks.
func (p crashPages) print(w *reply, r *web.Request, name string, s *wire.Stacks) error {
	f := w.frame(r, "Stack of "+plainName(name), nil)
	v, err := p.view(f, r, name, s)
	if err != nil {
		return err
	}
	v.Publish = w.around.takesForms && r.MayOpen(web.MayPush) == nil
	f.D = crashView{Off: p.symbolication.Off(), For: p.kept.For(), Stacks: v}
	return w.print(r, http.StatusOK, "crashes", f)
}

// showStacks answers POST crashes: a form with a dump, whole or as a message with parts of it.
func (p crashPages) showStacks(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	sent, err := p.receive(r)
	if err != nil {
		return err
	}
	defer sent.Whole.Close()
	s, need, err := p.symbolication.Stacks(r, sent)
	problem := web.AsProblem(err)
	if err == nil && need != nil {
		problem = &web.Problem{Word: "not-symbol", Detail: "parts of the file are missing that are needed"}
	}
	switch {
	case problem != nil && (problem.Word == "not-symbol" || problem.Word == "too-large"):
		v := crashView{Off: p.symbolication.Off(), For: p.kept.For(), Problem: problem.Detail}
		return w.show(r, problem.Status(), "crashes", "Crashes", v)
	case err != nil:
		return err
	}
	return p.print(w, r, sent.Name, s)
}

// receive reads the dump of a form.
func (p crashPages) receive(r *web.Request) (*web.SentFile, error) {
	form, err := openForm(r)
	if err != nil {
		return nil, err
	}
	done, err := p.examiner.Arrive(r)
	if err != nil {
		return nil, err
	}
	defer done()
	var sent *web.SentFile
	fail := func(err error) (*web.SentFile, error) {
		if sent != nil {
			sent.Whole.Close()
		}
		return nil, err
	}
	for {
		part, err := form.NextPart()
		switch {
		case sent != nil && errors.Is(err, io.EOF):
			return sent, nil
		case err != nil:
			return fail(formProblem(err))
		case part.FileName() == "": // no file was chosen
			continue
		case sent != nil:
			return fail(&web.Problem{Word: "query", Detail: "the form has more than one file"})
		}
		if sent, err = sentFile(p.examiner, r, part); err != nil {
			return fail(err)
		}
	}
}

// view describes the stacks of a dump.
func (p crashPages) view(f *frame, r *web.Request, name string, s *wire.Stacks) (*stacksView, error) {
	v := &stacksView{Name: name, Key: s.Key, Pending: s.Pending, Time: s.Time, Kept: s.Kept}
	v.Frames = clipText(strings.Join(s.KeyFrames, " < "))
	v.Push = "symdepot push --server " + r.BaseURL + " -p PRODUCT -v VERSION FOLDER"
	if c := s.Crash; c != nil {
		v.Reason, v.Meaning, v.Address, v.Said = c.Reason, c.Meaning, c.Address, clipText(c.Assertion)
	}
	v.facts(s)
	for _, problem := range s.Problems[:min(len(s.Problems), shownAnnotations)] {
		v.Notes = append(v.Notes, clipText(problem))
	}
	files, err := p.filesOf(r, s)
	if err != nil {
		return nil, err
	}
	v.threads(f, s, files)
	v.modules(f, s, files)
	v.Annotations = s.Annotations[:min(len(s.Annotations), shownAnnotations)]
	for i := range v.Annotations {
		v.Annotations[i].Value = clipText(v.Annotations[i].Value)
	}
	return v, v.text(s)
}

// clipText cuts a long text off.
func clipText(s string) string {
	if len(s) <= shownBytes {
		return s
	}
	return strings.ToValidUTF8(s[:shownBytes], "") + "…"
}

// facts says of which process and machine a dump is.
func (v *stacksView) facts(s *wire.Stacks) {
	kinds := map[string]string{"minidump": "minidump", "elfcore": "ELF core file", "applecrashreport": "crash report"}
	add := func(text string) {
		if text = strings.TrimSpace(text); text != "" {
			v.Facts = append(v.Facts, text)
		}
	}
	add(cmp.Or(kinds[s.Kind], s.Kind))
	add(s.System.OS + " " + s.System.Version)
	add(s.System.Arch)
	add(s.System.CPU)
	if s.System.CPUs > 0 {
		add(term.Count(int64(s.System.CPUs), "processor"))
	}
	if s.PID > 0 {
		add("process " + strconv.FormatInt(s.PID, 10))
	}
	if s.Uptime > 0 {
		add("ran for " + agoText(time.Duration(s.Uptime)*time.Second))
	}
	add(term.Count(int64(len(s.Threads)), "thread"))
}

// heldModule is what a page links to of a module: the file of the depot with its functions.
type heldModule struct {
	link   string // its page
	source func(path string, line int) string
}

// filesOf returns the files of the modules in which frames are, by the names of the modules. Of several
// modules of one name none is linked.
func (p crashPages) filesOf(r *web.Request, s *wire.Stacks) (map[string]heldModule, error) {
	files, looked := map[string]heldModule{}, 0
	named := map[string]int{}
	for i := range s.Modules {
		named[s.Modules[i].Name]++
	}
	for i := range s.Modules {
		m := &s.Modules[i]
		id := cmp.Or(m.DebugID, m.CodeID)
		if named[m.Name] > 1 || m.Debug != "found" || id == "" {
			continue
		}
		if looked++; looked > shownModules {
			break
		}
		held, err := p.symbolication.Held(r, cmp.Or(m.DebugFile, m.Name), id)
		if err != nil {
			return nil, err
		}
		if held == nil {
			continue
		}
		files[m.Name] = heldModule{link(r.Base, "file", []string{held.Ref.String()}, nil), func(path string, line int) string {
			return sourceLine(r.Base, held.Ref, path, uint32(line))
		}}
	}
	return files, nil
}

// threads describes the threads: those that say why the process crashed, then the others.
func (v *stacksView) threads(f *frame, s *wire.Stacks, files map[string]heldModule) {
	left := rowsLeft{rows: shownRows, source: shownSource}
	seen := map[string]bool{}
	add := func(first bool) {
		for i := range s.Threads {
			if crash.CrashedThread.Has(i, s) != first {
				continue
			}
			if len(v.First)+len(v.Others) == shownThreads {
				v.More++
				continue
			}
			t := left.thread(s, i, files, seen)
			if first {
				v.First = append(v.First, t)
			} else {
				v.Others = append(v.Others, t)
			}
		}
	}
	add(true)
	add(false)
	for _, t := range trusts {
		if seen[t.Word] {
			v.Trusts = append(v.Trusts, t)
		}
	}
	if i := max(s.Requesting, 0); i < len(s.Threads) {
		for name, value := range s.Threads[i].Registers {
			v.Registers = append(v.Registers, web.NamedValue{Label: name, Value: value})
		}
		sorting.By(v.Registers, func(a, b web.NamedValue) int {
			return cmp.Or(cmp.Compare(len(a.Label), len(b.Label)), cmp.Compare(a.Label, b.Label))
		})
	}
}

// rowsLeft is what a page can still show.
type rowsLeft struct{ rows, source int }

// thread describes a thread. seen gets the ways in which its frames were found.
func (left *rowsLeft) thread(s *wire.Stacks, i int, files map[string]heldModule, seen map[string]bool) threadView {
	t := &s.Threads[i]
	v := threadView{Title: "Thread " + strconv.Itoa(i), Count: len(t.Frames), Note: clipText(t.Problem)}
	var says []string
	if t.ID != 0 {
		says = append(says, strconv.FormatInt(t.ID, 10))
	}
	if t.Name != "" {
		says = append(says, plainName(clipText(t.Name)))
	}
	if len(says) > 0 {
		v.Title += " (" + strings.Join(says, ", ") + ")"
	}
	if t.Crashed {
		v.Title += ", crashed"
	}
	for k := range t.Frames {
		if k == 0 {
			v.Top = clipText(topOf(&t.Frames[0]))
		}
		if left.rows <= 0 {
			v.More = len(t.Frames) - k
			break
		}
		rows := left.frame(k, &t.Frames[k], files)
		seen[t.Frames[k].Trust] = true
		left.rows -= len(rows)
		v.Rows = append(v.Rows, rows...)
	}
	return v
}

// topOf names a frame in short.
func topOf(f *wire.StackFrame) string {
	switch {
	case len(f.Inlines) > 0:
		return f.Inlines[0].Function
	case f.Function != "":
		return f.Function
	case f.Module != "":
		return f.Module + " + " + f.Offset
	}
	return f.Address
}

// frame describes a frame with the functions that were inlined there, innermost first.
func (left *rowsLeft) frame(number int, f *wire.StackFrame, files map[string]heldModule) (rows []callRow) {
	file, held := files[f.Module]
	place := func(row *callRow, path string, line int) {
		if path == "" {
			return
		}
		row.Place = clipText(path)
		if line > 0 {
			row.Place += ":" + strconv.Itoa(line)
		}
		if f.Source != "" && held {
			row.SourceLink = file.source(path, line)
		}
	}
	for _, in := range f.Inlines {
		row := callRow{Function: clipText(in.Function), Inlined: true}
		place(&row, in.File, in.Line)
		rows = append(rows, row)
	}
	row := callRow{Function: clipText(f.Function), Offset: f.FunctionOffset}
	if row.Function == "" {
		row.Function, row.Offset, row.Lacks = cmp.Or(f.Module, f.Address), f.Offset, lackWords[f.Status]
	}
	place(&row, f.File, f.Line)
	rows = append(rows, row)
	for i := range rows {
		rows[i].Module, rows[i].ModuleLink, rows[i].Trust = f.Module, file.link, f.Trust
		rows[i].Weak = f.Trust == "scan" || f.Trust == "cfi_scan"
	}
	rows[0].Number, rows[len(rows)-1].Problem = strconv.Itoa(number), clipText(f.Problem)
	left.lines(&rows[0], f)
	return rows
}

// lines adds the source line of the innermost function, with those around it.
func (left *rowsLeft) lines(row *callRow, f *wire.StackFrame) {
	line := f.Line
	if len(f.Inlines) > 0 {
		line = f.Inlines[0].Line
	}
	if f.Source == "" || line <= len(f.SourceBefore) {
		return
	}
	row.Source = strings.TrimSpace(f.Source)
	if row.Source == "" {
		row.Source = "line " + strconv.Itoa(line)
	}
	for _, l := range slices.Concat(f.SourceBefore, []string{f.Source}, f.SourceAfter) {
		left.source -= len(l)
	}
	if left.source < 0 {
		return
	}
	var b strings.Builder
	at := line - len(f.SourceBefore)
	write := func(element, text string) {
		fmt.Fprintf(&b, "<%s><i>%d</i> <bdi>", element, at)
		visibleText(&b, text)
		fmt.Fprintf(&b, "</bdi>\n</%s>", element)
		at++
	}
	for _, l := range f.SourceBefore {
		write("span", l)
	}
	write("mark", f.Source)
	for _, l := range f.SourceAfter {
		write("span", l)
	}
	row.Around = template.HTML(b.String()) //nolint:gosec // numbers, our own elements and escaped text
}

// stateMarks are the marks of the states of the symbols of a module.
var stateMarks = map[string]string{"found": "ok", "missing": "bad", "malformed": "bad", "timeout": "warn"}

// modules describes the modules, and what they lack.
func (v *stacksView) modules(f *frame, s *wire.Stacks, files map[string]heldModule) {
	for i := range s.Modules {
		m := &s.Modules[i]
		if m.Help != "" && len(v.Lacking) < shownModules {
			row := lackingRow{Name: clipText(m.Name), Help: clipText(m.Help)}
			if id := cmp.Or(m.DebugID, m.CodeID); id != "" && m.Debug == "missing" {
				row.Trace = f.Ask("trace", "name", cmp.Or(m.DebugFile, m.Name), "id", id)
			}
			v.Lacking = append(v.Lacking, row)
		}
		if len(v.Modules) == shownModules {
			v.MoreModules++
			continue
		}
		v.Modules = append(v.Modules, crashModuleRow{
			Name: clipText(m.Name), Link: files[m.Name].link, ID: cmp.Or(m.DebugID, m.CodeID), Address: m.Address, Size: m.Size,
			Debug: m.Debug, Mark: cmp.Or(stateMarks[m.Debug], "dim"), Unwind: m.Unwind, From: clipText(m.From), Unloaded: m.Unloaded,
		})
	}
}

// text sets the text that can be copied: of all threads, or of the crashed one if that is too long.
func (v *stacksView) text(s *wire.Stacks) error {
	for _, show := range []crash.Threads{crash.AllThreads, crash.CrashedThread} {
		b := &shortText{}
		err := crash.Print(b, s, show)
		if err == nil {
			v.Text = b.String()
		}
		if !errors.Is(err, errLongText) {
			return err
		}
	}
	return nil
}

// errLongText is the error of a shortText that became too long.
var errLongText = errors.New("the text is too long")

// shortText is a text of limited length.
type shortText struct{ strings.Builder }

// Write implements io.Writer.
func (b *shortText) Write(p []byte) (int, error) {
	if b.Len()+len(p) > shownText {
		return 0, errLongText
	}
	return b.Builder.Write(p)
}
